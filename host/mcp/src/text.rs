//! An answer as text for a model: what is long in it (the text of a file, lines that were found, a
//! diff, the output of a program) stands as it is, after one line of JSON with all other fields. JSON
//! would escape every quote and line break.
//!
//! Nothing is left out, and nothing stands twice: each field is in the line, or in a block of its own.

use std::fmt::Write as _;

use serde_json::{Map, Value};

/// The length from which a string of one line, or the JSON of a list, is a block, in bytes.
const MIN_BLOCK_BYTES: usize = 200;

/// How deep the blocks of lists are searched for blocks of their own.
const MAX_DEPTH: usize = 4;

/// Returns the text of an answer; `None` if nothing in it is long, so that its JSON is best. An answer that
/// is a text stands as it is.
pub(super) fn of(answer: &Value) -> Option<String> {
    match answer {
        Value::String(text) => Some(text.clone()),
        answer => document(answer.as_object()?, 0),
    }
}

/// A field that stands outside of the line of JSON.
enum Block<'a> {
    /// A text as it is.
    Text(&'a str),
    /// A list with a line for each item, after the names of the items' fields, if they have any.
    Lines { columns: Vec<&'a str>, lines: Vec<String> },
    /// A list with a document for each item.
    Documents(Vec<String>),
}

fn document(fields: &Map<String, Value>, depth: usize) -> Option<String> {
    let blocks: Vec<Option<Block<'_>>> = fields.values().map(|value| block(value, depth)).collect();
    if blocks.iter().all(Option::is_none) {
        return None;
    }
    let line = fields.iter().zip(&blocks).filter(|(_, block)| block.is_none());
    let line: Map<String, Value> =
        line.map(|((name, value), _)| (name.clone(), value.clone())).collect();
    let blocks = fields.keys().zip(blocks);
    let blocks: Vec<(&String, Block<'_>)> =
        blocks.filter_map(|(name, block)| Some((name, block?))).collect();
    let mut text = String::new();
    if !line.is_empty() {
        let _ = write!(text, "{}", Value::Object(line));
    }
    let is_only = blocks.len() == 1;
    for (name, block) in blocks {
        write_block(&mut text, name, &block, is_only);
    }
    Some(text)
}

fn write_block(text: &mut String, name: &str, block: &Block<'_>, is_only: bool) {
    if !text.is_empty() && !text.ends_with('\n') {
        text.push('\n');
    }
    match block {
        Block::Text(block) => {
            // The only block needs no name if the line of JSON stands before it.
            if !is_only || text.is_empty() {
                let _ = writeln!(text, "{name}:");
            }
            text.push_str(block);
        }
        Block::Lines { columns, lines } => {
            let columns = match columns.as_slice() {
                [] => String::new(),
                columns => format!(" ({})", columns.join(", ")),
            };
            let _ = write!(text, "{name}{columns}:\n{}", lines.join("\n"));
        }
        Block::Documents(documents) => {
            let _ = write!(text, "{name}:");
            for document in documents {
                let end = if text.ends_with('\n') { "" } else { "\n" };
                let _ = write!(text, "{end}{document}");
            }
        }
    }
}

fn block(value: &Value, depth: usize) -> Option<Block<'_>> {
    match value {
        Value::String(text) => {
            let is_long = text.len() >= MIN_BLOCK_BYTES || text.contains('\n');
            is_long.then_some(Block::Text(text))
        }
        Value::Array(items) => list(items, depth),
        _ => None,
    }
}

fn list(items: &[Value], depth: usize) -> Option<Block<'_>> {
    if items.is_empty() || depth == MAX_DEPTH {
        return None;
    }
    if items.iter().all(Value::is_string) {
        let is_long = items.iter().filter_map(Value::as_str).map(str::len).sum::<usize>();
        let lines = items.iter().filter_map(|item| cell(item, true)).collect();
        return (is_long >= MIN_BLOCK_BYTES).then_some(Block::Lines { columns: Vec::new(), lines });
    }
    let items: Vec<&Map<String, Value>> =
        items.iter().map(Value::as_object).collect::<Option<_>>()?;
    let documents: Vec<Option<String>> =
        items.iter().map(|item| document(item, depth + 1)).collect();
    if documents.iter().all(Option::is_none) {
        return table(&items);
    }
    let json = |item: &Map<String, Value>| Value::Object(item.clone()).to_string();
    let documents = documents.into_iter().zip(&items);
    let documents = documents.map(|(text, item)| text.unwrap_or_else(|| json(item)));
    Some(Block::Documents(documents.collect()))
}

/// Returns a line for each object, with its values between tabs.
fn table<'a>(items: &[&'a Map<String, Value>]) -> Option<Block<'a>> {
    let mut columns: Vec<&str> = Vec::new();
    for name in items.iter().flat_map(|item| item.keys()) {
        if !columns.contains(&name.as_str()) {
            columns.push(name);
        }
    }
    // A field that has few of the columns costs more as a table.
    let cells: usize = items.iter().map(|item| item.len()).sum();
    if columns.is_empty() || cells * 2 < columns.len() * items.len() {
        return None;
    }
    let line = |item: &&Map<String, Value>| {
        let cells = columns.iter().enumerate().map(|(index, name)| {
            let is_last = index + 1 == columns.len();
            item.get(*name).and_then(|value| cell(value, is_last)).unwrap_or_default()
        });
        cells.collect::<Vec<_>>().join("\t")
    };
    let lines: Vec<String> = items.iter().map(line).collect();
    let json = items.iter().flat_map(|item| item.iter());
    let json: usize = json.map(|(name, value)| name.len() + value.to_string().len() + 4).sum();
    (json >= MIN_BLOCK_BYTES).then_some(Block::Lines { columns, lines })
}

/// Returns a value on one line; a string as it is if no line could be taken for something else.
fn cell(value: &Value, is_last: bool) -> Option<String> {
    match value {
        Value::String(text) => {
            let is_plain = !text.contains(['\n', '\r'])
                && (is_last || !text.contains('\t'))
                && !text.is_empty()
                && !text.starts_with('"');
            Some(if is_plain { text.clone() } else { value.to_string() })
        }
        value => Some(value.to_string()),
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use serde_json::json;

    use super::*;

    #[test]
    fn a_long_text_stands_as_it_is_after_a_line_with_the_rest() {
        let content = "def a():\n\treturn \"\\n\"\n";
        for (answer, text) in [
            (
                json!({"path": "a.py", "content": content, "total_lines": 9, "next": 3}),
                format!("{{\"path\":\"a.py\",\"total_lines\":9,\"next\":3}}\n{content}"),
            ),
            (json!({"output": "On branch main\n"}), "output:\nOn branch main\n".to_owned()),
            (
                json!({"exit_code": 1, "stdout": "a\nb", "stderr": "c\n"}),
                "{\"exit_code\":1}\nstdout:\na\nb\nstderr:\nc\n".to_owned(),
            ),
            (json!({"a": "x".repeat(300)}), format!("a:\n{}", "x".repeat(300))),
        ] {
            assert_eq!(of(&answer).unwrap(), text);
        }
        for answer in [json!({"path": "a", "changed": true}), json!({}), json!([])] {
            assert_eq!(of(&answer), None, "{answer}");
        }
    }

    #[test]
    fn lists_have_a_line_for_each_item() {
        let line = |number: usize| json!({"file": "a.py", "line": number, "text": "\tx = \"y\""});
        let matches: Vec<Value> = (1..=20).map(line).collect();
        let answer = json!({"output_mode": "content", "matches": matches, "total_matches": 30});
        let text = of(&answer).unwrap();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[0], r#"{"output_mode":"content","total_matches":30}"#);
        assert_eq!(lines[1..3], ["matches (file, line, text):", "a.py\t1\t\tx = \"y\""]);
        assert_eq!(lines.len(), 22);
        assert!(text.len() * 3 < answer.to_string().len() * 2, "{}", text.len());

        let files: Vec<String> = (0..50).map(|number| format!("src/{number}.rs")).collect();
        let text = of(&json!({"files": files, "total": 99})).unwrap();
        assert!(text.starts_with("{\"total\":99}\nfiles:\nsrc/0.rs\nsrc/1.rs\n"), "{text}");
        // A short list stays in the JSON.
        assert_eq!(of(&json!({"files": ["a", "b"]})), None);
    }

    #[test]
    fn a_text_is_its_own_text() {
        assert_eq!(of(&json!("a \"b\"\n")).unwrap(), "a \"b\"\n");
        assert_eq!(of(&json!(1)), None);
    }

    #[test]
    fn nothing_in_a_list_can_be_taken_for_another_item() {
        let entries = ["a\nb\t1", "a\tb", "\"a\"", "", "a b"];
        let entries: Vec<Value> =
            entries.iter().map(|name| json!({"name": name, "x": "-".repeat(60)})).collect();
        let text = of(&json!({"n": 1, "entries": entries})).unwrap();
        // A text with a line break makes each item a document of its own.
        assert!(text.contains("\nentries:\n"), "{text}");
        let flat = json!({"n": 1, "entries": &entries[1..]});
        let text = of(&flat).unwrap();
        let names: Vec<&str> =
            text.lines().skip(2).map(|line| line.split('\t').next().unwrap()).collect();
        assert_eq!(names, ["\"a\\tb\"", "\"\\\"a\\\"\"", "\"\"", "a b"]);
        let names = json!({"names": ["a\nb", "\"", "", "y".repeat(300)]});
        let lines = of(&names).unwrap();
        assert_eq!(
            lines.lines().take(4).collect::<Vec<_>>(),
            ["names:", "\"a\\nb\"", "\"\\\"\"", "\"\""]
        );
    }

    #[test]
    fn items_with_texts_are_documents() {
        let source =
            |name: &str| json!({"symbol": name, "line": 1, "source": "def a():\n    pass"});
        let answer = json!({"sources": [source("a"), source("b")], "total": 2, "truncated": false});
        let wanted = "{\"total\":2,\"truncated\":false}\nsources:\n\
                      {\"symbol\":\"a\",\"line\":1}\ndef a():\n    pass\n\
                      {\"symbol\":\"b\",\"line\":1}\ndef a():\n    pass";
        assert_eq!(of(&answer).unwrap(), wanted);
    }

    #[test]
    fn missing_fields_are_empty_and_lists_of_other_values_stay_json() {
        let entry = |number: usize| match number % 2 {
            0 => json!({"path": format!("d{number}"), "type": "directory"}),
            _ => json!({"path": format!("f{number}"), "type": "file", "size": number}),
        };
        let entries: Vec<Value> = (0..20).map(entry).collect();
        let text = of(&json!({"entries": entries})).unwrap();
        assert!(text.starts_with("entries (path, type, size):\nd0\tdirectory\t\nf1\tfile\t1\n"));
        assert_eq!(of(&json!({"numbers": (0..200).collect::<Vec<_>>()})), None);
        assert_eq!(of(&json!({"mixed": [1, {"a": "x\ny"}]})), None);
    }
}
