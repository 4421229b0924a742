//! Checks a contract: its prompt, its example and its rules must be about the same fields.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use super::field::{Field, Kind, Written};
use super::next::Condition;
use super::{Action, Contract};

/// The number of records that are tried to find unreachable rules.
const MAX_RECORDS: usize = 100_000;

/// Returns everything that is wrong with a contract that could be read.
pub(super) fn check(contract: &Contract) -> Vec<String> {
    let mut problems = Vec::new();
    for field in &contract.fields {
        hint(field, &mut problems);
        choices(field, &mut problems);
    }
    example(contract, &mut problems);
    rules(contract, &mut problems);
    problems
}

/// The prompt must tell the agent the possible values.
fn hint(field: &Field, problems: &mut Vec<String>) {
    let words: BTreeSet<&str> = field
        .hint
        .split(|character: char| !(character.is_alphanumeric() || "_-".contains(character)))
        .collect();
    let name = &field.name;
    for choice in &field.choices {
        if !field.hint.contains(choice.as_str()) {
            problems.push(format!("field '{name}': its hint does not name the choice {choice}"));
        }
    }
    if field.kind != Kind::Choice && field.none != words.contains("none") {
        let (may, says) = if field.none { ("may", "does not say") } else { ("may not", "says") };
        problems.push(format!("field '{name}': it {may} be none, and its hint {says} so"));
    }
    if let (Some(least), Some(most)) = (field.minimum, field.maximum)
        && !words.contains(format!("{least}-{most}").as_str())
    {
        problems.push(format!("field '{name}': its hint does not name the range {least}-{most}"));
    }
}

/// Each choice must be read as itself.
fn choices(field: &Field, problems: &mut Vec<String>) {
    for choice in &field.choices {
        let read = field.read(&Written::Inline(choice.clone()));
        if read.map(|accepted| accepted.value) != Ok(Value::from(choice.as_str())) {
            let name = &field.name;
            problems.push(format!("field '{name}': the choice {choice} can't be reached"));
        }
    }
}

/// The example must satisfy the contract without repairs, and the prompt alone must not.
fn example(contract: &Contract, problems: &mut Vec<String>) {
    let parsed = contract.parse(&contract.example());
    problems.extend(parsed.problems.iter().map(|problem| format!("the example: {problem}")));
    problems.extend(parsed.repairs.iter().map(|repair| format!("the example: {repair}")));
    let prompt = contract.prompt();
    for field in &contract.fields {
        if !prompt.contains(&format!("\n{}: {}\n", field.name, field.hint)) {
            problems.push(format!("the prompt does not mention '{}'", field.name));
        }
    }
    if contract.parse(&prompt).is_complete() {
        problems.push("an agent that repeats the prompt would keep the contract".to_owned());
    }
}

/// Each rule must be the first that holds for some record.
fn rules(contract: &Contract, problems: &mut Vec<String>) {
    let fields: Vec<&Field> = contract
        .fields
        .iter()
        .filter(|field| contract.next.iter().any(|rule| rule.when.contains_key(&field.name)))
        .collect();
    let values: Vec<Vec<Value>> = fields.iter().map(|field| samples(contract, field)).collect();
    let count = values.iter().try_fold(1_usize, |count, values| count.checked_mul(values.len()));
    let Some(count) = count.filter(|count| *count <= MAX_RECORDS) else {
        problems.push("next: the rules depend on too many fields to be tried".to_owned());
        return;
    };
    let mut reached = BTreeSet::new();
    for number in 0..count {
        let mut rest = number;
        let mut record = Map::new();
        for (field, values) in std::iter::zip(&fields, &values) {
            record.insert(field.name.clone(), values[rest % values.len()].clone());
            rest /= values.len();
        }
        reached.extend(contract.next.iter().position(|rule| rule.holds(&record)));
    }
    for (index, rule) in contract.next.iter().enumerate() {
        if !reached.contains(&index) {
            let action = rule.then.as_str();
            problems.push(format!("next: rule {} ({action}) is never reached", index + 1));
        }
    }
    if contract.rounds.is_some()
        && !contract.next.iter().any(|rule| matches!(rule.then, Action::Fix | Action::Review))
    {
        problems.push("rounds: no rule leads to another round".to_owned());
    }
}

/// Values of a field such that every condition on it is met by one and not met by another.
fn samples(contract: &Contract, field: &Field) -> Vec<Value> {
    let conditions: Vec<&Condition> =
        contract.next.iter().filter_map(|rule| rule.when.get(&field.name)).collect();
    let mut samples: Vec<Value> = match field.kind {
        Kind::Boolean => vec![true.into(), false.into()],
        Kind::Choice => field.choices.iter().map(|choice| choice.as_str().into()).collect(),
        Kind::List => vec![Value::Array(Vec::new()), vec!["x"].into()],
        Kind::Text | Kind::Progress => {
            let words = conditions.iter().flat_map(|condition| match condition {
                Condition::Text(word) => vec![word.as_str()],
                Condition::Test(test) => test.one_of.iter().flatten().map(String::as_str).collect(),
                _ => Vec::new(),
            });
            words.chain(["1/1"]).map(Value::from).collect()
        }
        Kind::Integer => {
            let bounds = conditions.iter().flat_map(|condition| match condition {
                Condition::Integer(number) => vec![*number],
                Condition::Test(test) => test.at_least.into_iter().chain(test.at_most).collect(),
                _ => Vec::new(),
            });
            let near = bounds
                .flat_map(|number| [number.saturating_sub(1), number, number.saturating_add(1)]);
            let is_allowed = |number: &i64| {
                field.minimum.is_none_or(|least| *number >= least)
                    && field.maximum.is_none_or(|most| *number <= most)
            };
            let ends = [field.minimum, field.maximum].into_iter().flatten();
            let numbers: BTreeSet<i64> = near.chain(ends).chain([0]).filter(is_allowed).collect();
            numbers.into_iter().map(Value::from).collect()
        }
    };
    if field.accepts_none || !field.required {
        samples.push(Value::Null);
    }
    samples
}
