//! Parses a response into a record: the fields of its block, parsed and checked.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::Contract;
use super::block::{Line, Response};
use super::field::{Field, Written};
use super::problem::{Code, ContractProblem};
use crate::schema::nearest;
use cofferdam_text::shorten;

/// The number of unknown or repeated fields that are reported.
const MAX_PROBLEMS: usize = 20;

/// The number of repairs that are reported.
const MAX_REPAIRS: usize = 1_000;

/// The longest name of a field in bytes.
const MAX_NAME_BYTES: usize = 64;

/// The result of parsing a response.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Parsed {
    /// The fields that could be parsed, in the contract's order. `none` is null.
    pub record: Map<String, Value>,
    /// Everything that is wrong; empty if the response satisfies the contract.
    pub problems: Vec<ContractProblem>,
    /// How the response was repaired.
    pub repairs: Vec<String>,
    /// The fields of `record` that were found in the text because there is no block.
    pub extracted: Vec<String>,
}

impl Parsed {
    /// Whether the record is complete: there are no problems, except that the markers around all
    /// fields may be missing (the output contracts, "Contract Violations", step 3).
    pub fn is_complete(&self) -> bool {
        self.problems.iter().all(|problem| problem.code == Code::MissingBlock)
    }
}

/// A value with its first line.
#[derive(Debug, PartialEq)]
struct Entry {
    line: usize,
    value: Written,
}

/// Parses a response by the rules of the output contracts, and reports everything that is wrong
/// with it.
pub(super) fn parse(contract: &Contract, text: &str) -> Parsed {
    let response = Response::new(text);
    let mut reader = Reader::new(contract);
    match response.last_block() {
        Some(block) => {
            reader.repairs = block.repairs;
            reader.read_block(&block.lines);
            reader.finish()
        }
        None => {
            reader.extract(response.answer());
            let mut parsed = reader.finish();
            parsed.extracted = parsed.record.keys().cloned().collect();
            parsed.problems.insert(
                0,
                ContractProblem {
                    code: Code::MissingBlock,
                    line: None,
                    field: None,
                    expected: "a block from ---OUTPUT--- to ---END--- at the end of the response"
                        .to_owned(),
                    found: Some("none".to_owned()),
                    did_you_mean: None,
                },
            );
            parsed
        }
    }
}

struct Reader<'a> {
    contract: &'a Contract,
    /// Values by the index of the field in the contract.
    entries: BTreeMap<usize, Entry>,
    problems: Vec<ContractProblem>,
    repairs: Vec<String>,
}

/// How the lines after a field can continue its value.
#[derive(Clone, Copy, PartialEq)]
enum Open {
    Nothing,
    /// More lines of a text.
    Text,
    /// More items of a list, up to its closing bracket.
    Brackets,
    /// Bullets, or a list that begins on the next line.
    Empty,
    /// More bullets of a list.
    Bullets,
}

impl<'a> Reader<'a> {
    fn new(contract: &'a Contract) -> Self {
        Self { contract, entries: BTreeMap::new(), problems: Vec::new(), repairs: Vec::new() }
    }

    fn read_block(&mut self, lines: &[Line<'_>]) {
        let (mut open, mut current, mut indent) = (Open::Nothing, 0, 0);
        let mut left_out = Vec::new();
        for line in lines {
            let text = line.text.trim();
            if text.is_empty() {
                if matches!(open, Open::Text | Open::Bullets) {
                    open = Open::Nothing;
                }
                continue;
            }
            if text.starts_with("```") {
                continue;
            }
            let width = line.text.len() - line.text.trim_start().len();
            let name = Name::of(text);
            let known = name.as_ref().and_then(|name| self.known(name));
            if let (Some(name), Some((index, is_exact))) = (&name, known) {
                if !is_exact {
                    let field = &self.contract.fields[index].name;
                    self.repair(format!("line {}: read the name as {field}", line.number));
                }
                open = self.enter(index, line.number, name.value);
                (current, indent) = (index, width);
                continue;
            }
            let name = name.filter(Name::is_plain);
            match (open, name) {
                // A name after a text is its next line if it is indented.
                (Open::Text, None) => self.append(current, text, "\n"),
                (Open::Text, Some(_)) if width > indent => self.append(current, text, "\n"),
                (Open::Brackets, _) => open = self.more(current, open, text),
                (Open::Empty | Open::Bullets, _) if bullet(text).is_some() => {
                    open = self.more(current, open, text);
                }
                (Open::Empty, _) if text.starts_with('[') => {
                    open = self.more(current, open, text);
                }
                (_, name) => {
                    open = Open::Nothing;
                    match name {
                        Some(name) => self.unknown(name.name, line.number),
                        None if left_out.len() < MAX_PROBLEMS => {
                            left_out.push(line.number.to_string());
                        }
                        None => {}
                    }
                }
            }
        }
        if !left_out.is_empty() {
            self.repairs.push(format!("left out what is no field: line {}", left_out.join(", ")));
        }
    }

    /// Takes fields from anywhere in the text, each on a line of its own. One with several
    /// different values is ambiguous, and not taken.
    fn extract<'t>(&mut self, lines: impl Iterator<Item = Line<'t>>) {
        let mut ambiguous = Vec::new();
        for line in lines {
            let Some(name) = Name::of(line.text.trim()) else { continue };
            let Some((index, _)) = self.known(&name) else { continue };
            let value = Written::Inline(name.value.to_owned());
            if self.contract.fields[index].read(&value).is_err() {
                continue;
            }
            if self.entries.get(&index).is_some_and(|entry| entry.value != value) {
                ambiguous.push(index);
            }
            self.entries.insert(index, Entry { line: line.number, value });
        }
        for index in ambiguous {
            self.entries.remove(&index);
        }
    }

    /// Records a field; returns how the next lines can continue it.
    fn enter(&mut self, index: usize, line: usize, value: &str) -> Open {
        let contract = self.contract;
        let field = &contract.fields[index];
        let entry = Entry { line, value: Written::Inline(value.to_owned()) };
        if let Some(before) = self.entries.insert(index, entry) {
            self.report(ContractProblem {
                code: Code::DuplicateField,
                line: Some(line),
                field: Some(field.name.clone()),
                expected: "each field once".to_owned(),
                found: Some(format!("it stands in line {} as well", before.line)),
                did_you_mean: None,
            });
        }
        match field.kind {
            super::Kind::List if value.starts_with('[') && !value.ends_with(']') => Open::Brackets,
            super::Kind::List if value.is_empty() => Open::Empty,
            super::Kind::Text => Open::Text,
            _ => Open::Nothing,
        }
    }

    /// Adds a line to the current list.
    fn more(&mut self, current: usize, open: Open, text: &str) -> Open {
        match (open, bullet(text)) {
            (Open::Empty, _) if text.starts_with('[') => self.append(current, text, ""),
            (Open::Empty | Open::Bullets, Some(item)) => {
                let Some(entry) = self.entries.get_mut(&current) else { return Open::Nothing };
                match &mut entry.value {
                    Written::Bullets(items) => items.push(item.to_owned()),
                    Written::Inline(_) => entry.value = Written::Bullets(vec![item.to_owned()]),
                }
                return Open::Bullets;
            }
            _ => self.append(current, text, " "),
        }
        if text.ends_with(']') { Open::Nothing } else { Open::Brackets }
    }

    /// Appends a line to a value.
    fn append(&mut self, current: usize, text: &str, between: &str) {
        let contract = self.contract;
        let Some(Entry { value: Written::Inline(value), .. }) = self.entries.get_mut(&current)
        else {
            return;
        };
        if !value.is_empty() {
            value.push_str(between);
        }
        value.push_str(text);
        let repair = format!("joined the lines of {}", contract.fields[current].name);
        if self.repairs.last() != Some(&repair) {
            self.repair(repair);
        }
    }

    fn repair(&mut self, repair: String) {
        if self.repairs.len() < MAX_REPAIRS {
            self.repairs.push(repair);
        }
    }

    /// The field of a name, and whether it is written exactly as in the contract.
    fn known(&self, name: &Name<'_>) -> Option<(usize, bool)> {
        let fields = &self.contract.fields;
        let same = |field: &Field| {
            field.name.len() == name.name.len()
                && std::iter::zip(field.name.chars(), name.name.chars()).all(|(wanted, found)| {
                    wanted.eq_ignore_ascii_case(&found)
                        || (matches!(wanted, '_' | '-') && matches!(found, '_' | '-' | ' '))
                })
        };
        let index = fields.iter().position(|field| field.name == name.name);
        let index = index.or_else(|| fields.iter().position(same))?;
        Some((index, name.is_exact && fields[index].name == name.name))
    }

    fn unknown(&mut self, name: &str, line: usize) {
        if self.problems.len() >= MAX_PROBLEMS {
            return;
        }
        let names = self.contract.fields.iter().map(|field| field.name.as_str());
        self.report(ContractProblem {
            code: Code::UnknownField,
            line: Some(line),
            field: Some(shorten(name, MAX_NAME_BYTES)),
            expected: format!("one of the fields {}", names.clone().collect::<Vec<_>>().join(", ")),
            found: Some("an unknown field".to_owned()),
            did_you_mean: nearest(name, names),
        });
    }

    fn report(&mut self, problem: ContractProblem) {
        if self.problems.len() < MAX_PROBLEMS {
            self.problems.push(problem);
        }
    }

    /// Parses the values, and reports missing fields.
    fn finish(mut self) -> Parsed {
        let mut record = Map::new();
        for (index, field) in self.contract.fields.iter().enumerate() {
            let problem = |code, line, found: Option<String>, did_you_mean| ContractProblem {
                code,
                line,
                field: Some(field.name.clone()),
                expected: field.expectation(),
                found,
                did_you_mean,
            };
            match self.entries.get(&index) {
                None if field.required => {
                    let nothing = Some("nothing".to_owned());
                    self.problems.push(problem(Code::MissingField, None, nothing, None));
                }
                None => {}
                Some(Entry { line, value }) => match field.read(value) {
                    Ok(accepted) => {
                        record.insert(field.name.clone(), accepted.value);
                        let repair = accepted.repair;
                        let place = |repair| format!("line {line}, {}: {repair}", field.name);
                        self.repairs.extend(repair.map(place));
                    }
                    Err(wrong) => self.problems.push(problem(
                        wrong.code,
                        Some(*line),
                        Some(wrong.found),
                        wrong.did_you_mean,
                    )),
                },
            }
        }
        // By line; problems without a line come last.
        self.problems.sort_by_key(|problem| problem.line.unwrap_or(usize::MAX));
        Parsed { record, problems: self.problems, repairs: self.repairs, extracted: Vec::new() }
    }
}

/// The beginning of a line up to its colon, and the value after it.
struct Name<'a> {
    name: &'a str,
    value: &'a str,
    /// Whether it has no decoration.
    is_exact: bool,
}

impl<'a> Name<'a> {
    fn of(line: &'a str) -> Option<Self> {
        let (written, value) = line.split_once([':', '\u{ff1a}'])?;
        let is_around = |character: char| "*`\"'".contains(character) || character.is_whitespace();
        let mut name = written.trim_start_matches('>').trim_start();
        name = bullet(name).unwrap_or(name);
        // `**name:** value`: the emphasis ends after the colon.
        let is_emphasis = name.starts_with("**") && !name.ends_with("**");
        let name = name.trim_matches(is_around);
        let value = value.trim();
        let value =
            if is_emphasis { value.strip_prefix("**").unwrap_or(value).trim() } else { value };
        if name.is_empty() || name.len() > MAX_NAME_BYTES {
            return None;
        }
        let is_exact =
            name.len() == written.trim_end().len() && line[written.len()..].starts_with(':');
        Some(Self { name, value, is_exact })
    }

    /// Whether it can be the name of a field, not the beginning of a sentence or an address.
    fn is_plain(&self) -> bool {
        let mut characters = self.name.chars();
        characters.next().is_some_and(char::is_alphabetic)
            && characters.all(|character| character.is_alphanumeric() || "_-".contains(character))
            && !self.value.starts_with("//")
    }
}

/// The text after a bullet.
fn bullet(text: &str) -> Option<&str> {
    ["- ", "* ", "+ ", "\u{2022} "]
        .iter()
        .find_map(|bullet| text.strip_prefix(bullet))
        .map(str::trim)
}
