//! Jupyter notebooks (nbformat 4) as text: each cell with its number and kind, its source, and its outputs
//! as far as they are text. <https://nbformat.readthedocs.io/en/latest/format_description.html>
//!
//! What is read is made text at once: a notebook takes no more memory than its text.

use std::fmt::{self, Write as _};
use std::marker::PhantomData;

use anstream::adapter::strip_str;
use cofferdam_sdk::shorten;
use serde::Deserialize;
use serde::de::{DeserializeOwned, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};

/// The maximum size of a shown output, in bytes.
const MAX_OUTPUT_BYTES: usize = 2 << 10;

/// The size of a cell's shown outputs from which the others are left out, in bytes.
const MAX_OUTPUTS_BYTES: usize = 8 << 10;

#[derive(Deserialize)]
struct Notebook {
    cells: Joined<Cell>,
    nbformat: u32,
}

#[derive(Deserialize)]
struct Cell {
    cell_type: String,
    #[serde(default)]
    source: Joined<Line>,
    #[serde(default)]
    outputs: Joined<Output>,
}

#[derive(Deserialize)]
struct Output {
    #[serde(default)]
    text: Joined<Line>,
    #[serde(default)]
    data: Data,
    #[serde(default)]
    ename: String,
    #[serde(default)]
    evalue: String,
    #[serde(default)]
    traceback: Joined<TracebackLine>,
}

#[derive(Deserialize)]
struct Line(String);

#[derive(Deserialize)]
struct TracebackLine(String);

/// An item of a list that is read as text.
trait Item: DeserializeOwned {
    /// Adds the item with a number, from 1, to the text of those before it.
    fn add(self, number: usize, text: &mut String);
}

impl Item for Line {
    fn add(self, _: usize, text: &mut String) {
        text.push_str(&self.0);
    }
}

impl Item for TracebackLine {
    fn add(self, _: usize, text: &mut String) {
        push_line(text, &self.0);
    }
}

impl Item for Output {
    fn add(self, _: usize, text: &mut String) {
        if text.len() >= MAX_OUTPUTS_BYTES {
            return;
        }
        let mut output = self.text.text;
        push_line(&mut output, &self.data.0);
        if self.traceback.items == 0 && !self.ename.is_empty() {
            push_line(&mut output, &format!("{}: {}", self.ename, self.evalue));
        }
        push_line(&mut output, &self.traceback.text);
        push_line(text, &shorten(&strip_str(&output).to_string(), MAX_OUTPUT_BYTES));
        if text.len() >= MAX_OUTPUTS_BYTES {
            text.push_str("[further outputs left out]\n");
        }
    }
}

impl Item for Cell {
    fn add(self, number: usize, text: &mut String) {
        // Writing to a `String` never fails.
        let _ = writeln!(text, "--- Cell {number}, {} ---", self.cell_type);
        push_line(text, &self.source.text);
        if self.outputs.items > 0 {
            let _ = writeln!(text, "--- Output of cell {number} ---");
            push_line(text, &self.outputs.text);
        }
    }
}

/// A list as text. A single string is a list of one line.
struct Joined<T> {
    text: String,
    items: usize,
    item: PhantomData<T>,
}

impl<T> Default for Joined<T> {
    fn default() -> Self {
        Self { text: String::new(), items: 0, item: PhantomData }
    }
}

impl<'de, T: Item> Deserialize<'de> for Joined<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Self::default())
    }
}

impl<'de, T: Item> Visitor<'de> for Joined<T> {
    type Value = Self;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a text or a list")
    }

    fn visit_str<E>(self, text: &str) -> Result<Self, E> {
        Ok(Self { text: text.to_owned(), items: 1, ..self })
    }

    fn visit_seq<A: SeqAccess<'de>>(mut self, mut list: A) -> Result<Self, A::Error> {
        while let Some(item) = list.next_element::<T>()? {
            self.items += 1;
            item.add(self.items, &mut self.text);
        }
        Ok(self)
    }
}

/// The data of an output as text: its plain text, and the names of its other media types.
#[derive(Default)]
struct Data(String);

impl<'de> Deserialize<'de> for Data {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(Self::default())
    }
}

impl<'de> Visitor<'de> for Data {
    type Value = Self;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("data by media type")
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut map: A) -> Result<Self, A::Error> {
        while let Some(media_type) = map.next_key::<String>()? {
            if media_type == "text/plain" {
                push_line(&mut self.0, &map.next_value::<Joined<Line>>()?.text);
            } else {
                map.next_value::<IgnoredAny>()?;
                push_line(&mut self.0, &format!("[{media_type}]"));
            }
        }
        Ok(self)
    }
}

/// Returns a notebook as text; `None` if the JSON is not a notebook.
pub fn text(json: &str) -> Option<String> {
    let Notebook { cells, nbformat } = serde_json::from_str(json).ok()?;
    (nbformat == 4).then(|| {
        format!(
            "Notebook of {} cells as text. With raw, read_file returns its JSON, which edits apply to.\n{}",
            cells.items, cells.text
        )
    })
}

/// Adds a text with a line end, unless it is empty.
fn push_line(text: &mut String, line: &str) {
    if !text.is_empty() && !text.ends_with('\n') {
        text.push('\n');
    }
    text.push_str(line);
    if !line.is_empty() && !line.ends_with('\n') {
        text.push('\n');
    }
}

#[cfg(test)]
pub(crate) mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use serde_json::{Value, json};

    use super::*;

    /// A notebook with every kind of cell and output.
    pub(crate) fn notebook() -> Value {
        json!({
            "cells": [
                {"cell_type": "markdown", "metadata": {}, "source": ["# Title\n", "Words"]},
                {"cell_type": "code", "metadata": {}, "execution_count": 1, "source": "1 / 0\n",
                 "outputs": [
                    {"output_type": "stream", "name": "stdout", "text": ["a\n", "\u{1b}[2Kb"]},
                    {"output_type": "display_data", "metadata": {},
                     "data": {"image/png": "iVBO", "text/plain": ["<Figure>"]}},
                    {"output_type": "error", "ename": "ZeroDivisionError", "evalue": "by zero",
                     "traceback": ["\u{1b}[0;31mTrace\u{1b}[0m", "by zero"]},
                    {"output_type": "error", "ename": "E", "evalue": "e", "traceback": []},
                 ]},
                {"cell_type": "raw", "metadata": {}, "source": []},
            ],
            "metadata": {"language_info": {"name": "python"}},
            "nbformat": 4,
            "nbformat_minor": 5,
        })
    }

    #[test]
    fn cells_and_outputs_are_text() {
        let text = text(&notebook().to_string()).unwrap();
        let (first, rest) = text.split_once('\n').unwrap();
        assert!(first.starts_with("Notebook of 3 cells as text. With raw,"), "{first}");
        let wanted = "--- Cell 1, markdown ---\n# Title\nWords\n--- Cell 2, code ---\n1 / 0\n\
                      --- Output of cell 2 ---\na\nb\n[image/png]\n<Figure>\nTrace\nby zero\nE: e\n\
                      --- Cell 3, raw ---\n";
        assert_eq!(rest, wanted);
    }

    #[test]
    fn long_outputs_are_shortened() {
        let line = format!("{}\u{e9}\n", "x".repeat(98));
        let output = json!({"output_type": "stream", "text": line.repeat(500)});
        let cell = json!({"cell_type": "code", "source": "run()", "outputs": vec![output; 20]});
        let text = text(&json!({"nbformat": 4, "cells": vec![cell; 3]}).to_string()).unwrap();
        assert!(text.len() < 3 * (MAX_OUTPUTS_BYTES + MAX_OUTPUT_BYTES + 200), "{}", text.len());
        assert_eq!(text.matches("[further outputs left out]").count(), 3);
        assert!(text.contains("bytes left out ...]"), "{text}");
    }

    #[test]
    fn outputs_of_50_mb_are_shortened() {
        let (many, nested) = ("{},".repeat(3_000_000), "[".repeat(20_000_000));
        let lines = "\"\\n\",".repeat(2_000_000);
        let json = format!(
            "{{\"cells\": [{{\"cell_type\": \"code\", \"outputs\": [{many} {{\"text\": [{lines} \"end\"], \
             \"data\": {{\"image/png\": {nested}{}}}}}]}}], \"nbformat\": 4}}",
            "]".repeat(nested.len())
        );
        assert!(json.len() > 50_000_000, "{}", json.len());
        let text = text(&json).unwrap();
        assert!(text.ends_with("end\n[image/png]\n"), "{}", text.len());
        assert!(text.len() < MAX_OUTPUT_BYTES + 300, "{}", text.len());
    }

    #[test]
    fn other_json_is_not_a_notebook() {
        let deep = format!("{{\"nbformat\": 4, \"cells\": {}", "[".repeat(100_000));
        for json in [
            "",
            "{}",
            "[]",
            "{\"cells\": []}",
            "{\"nbformat\": 3, \"cells\": []}",
            "{\"nbformat\": 4, \"cells\": [{}]}",
            "{\"nbformat\": 4, \"cells\": [",
            &deep,
        ] {
            assert_eq!(text(json), None, "{}", &json[..json.len().min(40)]);
        }
    }
}
