//! The `web` plugin: fetches a page and returns its text.
//!
//! [`fetch`] sends the request and follows redirects, [`text`] makes text of a body. The plugin requests
//! no origins by name: it reaches those that the user grants.

pub mod fetch;
pub mod text;

use cofferdam_sdk::answer::text_bytes;
use cofferdam_sdk::{Context, ToolError, plugin};
use serde::{Deserialize, Serialize};

use self::fetch::{Origins, Page};
use self::text::{Form, Text};

/// The maximum size of the text of an answer, as JSON, in bytes.
const ANSWER_BYTES: usize = 30 << 10;

/// The arguments of `fetch_url`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Args {
    /// The address.
    pub url: String,
    /// Whether to return the whole page, and not only its article.
    #[serde(default)]
    pub whole_page: bool,
    /// Whether to return HTML as it is.
    #[serde(default)]
    pub raw: bool,
    /// The position in the text to begin at, in bytes.
    #[serde(default)]
    pub offset: usize,
}

/// The result of `fetch_url`.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub struct Output {
    /// The address of the page, after redirects.
    pub url: String,
    /// The status of the response.
    pub status: u16,
    /// The media type, without parameters.
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    pub media_type: Option<String>,
    /// The title of an HTML page.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// The text from the offset on.
    pub content: String,
    /// The size of the whole text, in bytes.
    pub total: usize,
    /// The offset to go on with.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next: Option<usize>,
}

/// The plugin: its function is a tool.
pub struct Web;

impl Web {
    /// Fetches a page and returns the part of its text that fits in an answer.
    ///
    /// # Errors
    /// Those of [`fetch::fetch`] and [`text::of`]; `InvalidOffset` for one after the end of the text.
    fn fetch_url(args: Args, context: &Context) -> Result<Output, ToolError> {
        let page = fetch::fetch(&Origins { deadline_ms: context.deadline_ms }, &args.url)?;
        let form = match (args.raw, args.whole_page) {
            (true, _) => Form::Raw,
            (false, true) => Form::Whole,
            (false, false) => Form::Article,
        };
        let text = text::of(&page, form)?;
        output(page, text, args.offset)
    }
}

fn output(page: Page, text: Text, offset: usize) -> Result<Output, ToolError> {
    let Text { title, content } = text;
    let total = content.len();
    if offset > 0 && offset >= total {
        let message = format!("offset {offset} is beyond the end: the text has {total} bytes");
        return Err(ToolError::invalid_args("InvalidOffset", message));
    }
    // A page that has changed since may have other characters at the offset.
    let start = content.floor_char_boundary(offset);
    let end = start + fitting(&content[start..]);
    Ok(Output {
        media_type: page.media_type(),
        url: page.url.into(),
        status: page.status,
        title,
        content: content[start..end].to_owned(),
        total,
        next: (end < total).then_some(end),
    })
}

/// How many bytes of a text fit in an answer; up to the end of a line, if one is near.
fn fitting(text: &str) -> usize {
    if text_bytes(text) <= ANSWER_BYTES {
        return text.len();
    }
    let (mut end, mut size) = (0, 0);
    for c in text.chars() {
        size += text_bytes(c.encode_utf8(&mut [0; 4]));
        if size > ANSWER_BYTES {
            break;
        }
        end += c.len_utf8();
    }
    match text[..end].rfind('\n') {
        Some(line) if line > end / 2 => line + 1,
        _ => end,
    }
}

plugin!(Web { fetch_url });

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use cofferdam_testing::{fits, parsed, takes_examples};

    use super::*;

    const INPUT: &str = include_str!("../../../schemas/tools/web.fetch_url.input.json");
    const OUTPUT: &str = include_str!("../../../schemas/tools/web.fetch_url.output.json");

    fn answer(body: &str, offset: usize) -> Result<Output, ToolError> {
        let page = Page::new("https://a.example/x", "text/plain; charset=utf-8", body.as_bytes());
        let text = text::of(&page, Form::Article)?;
        let answer = output(page, text, offset)?;
        let json = serde_json::to_value(&answer).unwrap();
        fits(&parsed(OUTPUT), &json);
        assert!(json.to_string().len() <= 32 << 10);
        Ok(answer)
    }

    #[test]
    fn schemas_and_types_agree() {
        takes_examples::<Args>(&parsed(INPUT));
        jsonschema::draft202012::new(&parsed(OUTPUT)).unwrap();
    }

    #[test]
    fn a_long_text_comes_in_parts() {
        for line in ["say \"a\"\n", "\u{1}\u{e9}\u{1f600}", "no line end "] {
            let body = line.repeat(10_000);
            let (mut read, mut next, mut answers) = (String::new(), Some(0), 0);
            while let Some(offset) = next {
                let part = answer(&body, offset).unwrap();
                assert_eq!(part.total, body.len());
                read.push_str(&part.content);
                (next, answers) = (part.next, answers + 1);
            }
            assert_eq!(read, body);
            assert!((3..40).contains(&answers), "{answers}");
        }
        assert_eq!(answer("", 0).unwrap().content, "");
        assert_eq!(answer("abc", 3).unwrap_err().code, "InvalidOffset");
    }
}
