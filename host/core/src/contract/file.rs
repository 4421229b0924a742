//! The file of a contract: TOML, parsed strictly.

use std::collections::BTreeMap;
use std::ops::Range;

use schemars::JsonSchema;
use serde::Deserialize;
use toml::Spanned;

use super::field::{Field, Kind};
use super::next::{Action, Condition, MAX_ROUNDS, Rule};
use super::{Contract, ContractError};
use crate::schema::nearest;

/// The first line of the prompts in the output contracts.
const OPENING: &str = "CRITICAL - End your response with:";

/// A contract: how an agent's response must end, and what is done with it.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
#[schemars(title = "A contract's file")]
pub struct ContractFile {
    /// The agent's name, such as `code-reviewer` or `pr-review-toolkit:code-reviewer`. The file is
    /// named after it, with `.` for `:`.
    #[schemars(with = "String")]
    agent: Spanned<String>,
    /// One line on what the agent is for.
    purpose: String,
    /// The line of the prompt before the block.
    #[serde(default = "opening")]
    opening: String,
    /// For reviews: the number of rounds after which unfinished work blocks, 1 to 3.
    #[schemars(with = "Option<u32>")]
    rounds: Option<Spanned<u32>>,
    /// Whether the value of every field may be `none`, also where the hint does not offer it, as for
    /// `parse_value` of the output contracts. A choice with the word `none` keeps it as a word.
    #[serde(default)]
    none: bool,
    /// The fields, in the order of the block.
    #[schemars(with = "Vec<FieldFile>")]
    fields: Spanned<Vec<Spanned<FieldFile>>>,
    /// What is done next: the first rule that holds. The last one has no condition.
    #[schemars(with = "Vec<RuleFile>")]
    next: Spanned<Vec<Spanned<RuleFile>>>,
}

/// A field of a contract.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct FieldFile {
    /// Its name: letters, digits, `_` and `-`.
    name: String,
    /// The type of its value.
    #[serde(rename = "type")]
    kind: Kind,
    /// Whether a block without it is invalid.
    #[serde(default = "yes")]
    required: bool,
    /// Whether its value may be `none`.
    #[serde(default)]
    none: bool,
    /// The smallest allowed integer.
    minimum: Option<i64>,
    /// The largest allowed integer.
    maximum: Option<i64>,
    /// The words of a choice.
    #[serde(default)]
    choices: Vec<String>,
    /// The description in the prompt, in place of the value.
    hint: String,
    /// The value in the example; required for a required field.
    example: Option<String>,
}

/// A rule of a contract.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct RuleFile {
    /// Conditions by field: the required value, or a table with `present`, `at-least`, `at-most` or
    /// `one-of`. All must hold.
    #[serde(default)]
    when: BTreeMap<String, Condition>,
    /// The action if they hold.
    then: Action,
    /// The reason, and the data that the action needs.
    reason: String,
}

fn opening() -> String {
    OPENING.to_owned()
}

fn yes() -> bool {
    true
}

/// Parses the text of a contract's file.
pub(super) fn read(text: &str) -> Result<Contract, ContractError> {
    let at = |span: Range<usize>, message: String| ContractError {
        line: line(text, span.start),
        message,
    };
    let file: ContractFile = toml::from_str(text)
        .map_err(|error| at(error.span().unwrap_or_default(), error.message().to_owned()))?;
    let agent = file.agent.get_ref();
    if !is_agent(agent) {
        let message = format!(
            "agent: expected letters, digits, '-' and '_', perhaps in parts with ':' between, found '{agent}'"
        );
        return Err(at(file.agent.span(), message));
    }
    for (name, text) in [("purpose", &file.purpose), ("opening", &file.opening)] {
        if let Some(problem) = no_line(text) {
            return Err(at(0..0, format!("{name}: {problem}")));
        }
    }
    if let Some(rounds) = &file.rounds
        && !(1..=MAX_ROUNDS).contains(rounds.get_ref())
    {
        let message = format!("rounds: expected 1 to {MAX_ROUNDS}, found {}", rounds.get_ref());
        return Err(at(rounds.span(), message));
    }
    if file.fields.get_ref().is_empty() {
        return Err(at(file.fields.span(), "fields: expected at least one".to_owned()));
    }
    let mut fields =
        fields(file.fields.into_inner()).map_err(|(span, message)| at(span, message))?;
    for field in &mut fields {
        let is_word = field.choices.iter().any(|choice| choice.eq_ignore_ascii_case("none"));
        field.accepts_none = field.none || (file.none && !is_word);
    }
    let next = rules(file.next, &fields).map_err(|(span, message)| at(span, message))?;
    Ok(Contract {
        agent: file.agent.into_inner(),
        purpose: file.purpose,
        opening: file.opening,
        rounds: file.rounds.map(Spanned::into_inner),
        fields,
        next,
    })
}

/// A message and the part of the file that it is about.
type Misplaced = (Range<usize>, String);

fn fields(files: Vec<Spanned<FieldFile>>) -> Result<Vec<Field>, Misplaced> {
    let mut fields: Vec<Field> = Vec::new();
    for spanned in files {
        let span = spanned.span();
        let field = field(spanned.into_inner()).map_err(|message| (span.clone(), message))?;
        if fields.iter().any(|other| other.name == field.name) {
            return Err((span, format!("fields: '{}' stands here twice", field.name)));
        }
        fields.push(field);
    }
    Ok(fields)
}

fn rules(files: Spanned<Vec<Spanned<RuleFile>>>, fields: &[Field]) -> Result<Vec<Rule>, Misplaced> {
    let mut last = files.span();
    let mut rules: Vec<Rule> = Vec::new();
    for spanned in files.into_inner() {
        last = spanned.span();
        let RuleFile { when, then, reason } = spanned.into_inner();
        let rule = Rule { when, then, reason };
        conditions(&rule, fields).map_err(|message| (last.clone(), message))?;
        rules.push(rule);
    }
    if !rules.last().is_some_and(|rule| rule.when.is_empty()) {
        let message = "next: expected a last rule without `when`, for everything else".to_owned();
        return Err((last, message));
    }
    Ok(rules)
}

/// Converts and checks a field.
fn field(file: FieldFile) -> Result<Field, String> {
    let name = file.name;
    let wrong = |message: &str| Err(format!("field '{name}': {message}"));
    if !is_name(&name) {
        return wrong("a name is a letter, then letters, digits, '_' and '-'");
    }
    for (key, text) in [("hint", Some(&file.hint)), ("example", file.example.as_ref())] {
        if let Some(problem) = text.and_then(|text| no_line(text)) {
            return wrong(&format!("{key}: {problem}"));
        }
    }
    if file.kind != Kind::Integer && (file.minimum.is_some() || file.maximum.is_some()) {
        return wrong("only an integer has a minimum and a maximum");
    }
    if let (Some(least), Some(most)) = (file.minimum, file.maximum)
        && least > most
    {
        return wrong("its minimum is more than its maximum");
    }
    if (file.kind == Kind::Choice) != (file.choices.len() > 1) {
        return wrong("a choice has two or more choices, and nothing else has them");
    }
    for (index, choice) in file.choices.iter().enumerate() {
        if let Some(problem) = no_line(choice) {
            return wrong(&format!("choices: {problem}"));
        }
        if file.choices[..index].iter().any(|other| other.eq_ignore_ascii_case(choice)) {
            return wrong(&format!("the choice '{choice}' stands there twice"));
        }
    }
    if file.required && file.example.is_none() {
        return wrong("a required field has an example");
    }
    Ok(Field {
        name,
        kind: file.kind,
        required: file.required,
        none: file.none,
        accepts_none: file.none,
        minimum: file.minimum,
        maximum: file.maximum,
        choices: file.choices,
        hint: file.hint,
        example: file.example,
    })
}

/// Checks that the conditions of a rule are about existing fields.
fn conditions(rule: &Rule, fields: &[Field]) -> Result<(), String> {
    for (name, condition) in &rule.when {
        let Some(field) = fields.iter().find(|field| field.name == *name) else {
            let names = fields.iter().map(|field| field.name.as_str());
            let hint = nearest(name, names).map(|near| format!("; did you mean '{near}'?"));
            let hint = hint.unwrap_or_default();
            return Err(format!("next: there is no field '{name}'{hint}"));
        };
        if let Some(problem) = condition.incompatibility(field) {
            return Err(format!("next: field '{name}': {problem}"));
        }
    }
    Ok(())
}

/// Why a text can't be a line of a prompt.
fn no_line(text: &str) -> Option<&'static str> {
    if text.is_empty() || text.trim() != text {
        Some("expected a text without spaces around it, and not an empty one")
    } else if text.contains(char::is_control) {
        Some("expected one line without control characters")
    } else {
        None
    }
}

fn is_name(name: &str) -> bool {
    name.starts_with(|first: char| first.is_ascii_alphabetic())
        && name.len() <= 64
        && name.chars().all(|part| part.is_ascii_alphanumeric() || "_-".contains(part))
}

fn is_agent(name: &str) -> bool {
    name.len() <= 100
        && name.split(':').all(|part| {
            !part.is_empty()
                && part.chars().all(|part| part.is_ascii_alphanumeric() || "_-".contains(part))
        })
}

/// The line of a byte, counted from 1.
fn line(text: &str, at: usize) -> usize {
    text.as_bytes().iter().take(at).filter(|byte| **byte == b'\n').count() + 1
}
