//! Text from the body of a page: its characters, and Markdown from HTML.

use cofferdam_sdk::ToolError;
use dom_query::Document;
use dom_smoothie::{Article, Config, Readability, TextMode};
use encoding_rs::{Encoding, UTF_8};

use super::fetch::Page;

/// How much of an HTML page is searched for the name of its encoding, in bytes (HTML standard, "Prescan a
/// byte stream").
const PRESCAN_BYTES: usize = 1024;

/// The most elements of a page that an article is looked for in.
const MAX_ELEMENTS: usize = 100_000;

/// Elements without text to read.
const NO_TEXT: [&str; 7] = ["script", "style", "meta", "head", "noscript", "template", "svg"];

/// How HTML is returned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// The article of the page as Markdown, or all of it where it has none.
    Article,
    /// All of the page as Markdown.
    Whole,
    /// As it is.
    Raw,
}

/// The text of a page.
#[derive(Debug, PartialEq, Eq)]
pub struct Text {
    /// The title, if it is HTML.
    pub title: Option<String>,
    /// The text itself.
    pub content: String,
}

/// Returns the text of a page.
///
/// # Errors
/// `NotText` for images, archives and the like.
pub fn of(page: &Page, form: Form) -> Result<Text, ToolError> {
    let media_type = page.media_type().unwrap_or_default();
    let is_html = matches!(media_type.as_str(), "text/html" | "application/xhtml+xml")
        || (media_type.is_empty() && looks_like_html(&page.body));
    let content = decoded(page, is_html);
    // Bytes that no text has; PDF and images are recognised by them, too.
    if !is_html && content.contains('\0') {
        let named = if media_type.is_empty() { "of no named type" } else { &media_type };
        let message = format!("{}: {} bytes {named}, which is no text", page.url, page.body.len());
        return Err(ToolError::invalid_args("NotText", message));
    }
    if !is_html {
        return Ok(Text { title: None, content });
    }
    Ok(match form {
        Form::Raw => Text { title: title(&Document::from(content.as_str())), content },
        Form::Whole => whole(&content),
        Form::Article => article(page, &content).unwrap_or_else(|| whole(&content)),
    })
}

fn looks_like_html(body: &[u8]) -> bool {
    let start = &body[..body.len().min(PRESCAN_BYTES)];
    let start = String::from_utf8_lossy(start).to_ascii_lowercase();
    ["<!doctype html", "<html"].iter().any(|tag| start.trim_start().starts_with(tag))
}

/// The body as text, in the encoding that its first bytes, the server or the page itself names.
fn decoded(page: &Page, is_html: bool) -> String {
    let named = charset(&page.content_type).or_else(|| {
        let start = &page.body[..page.body.len().min(PRESCAN_BYTES)];
        is_html.then(|| charset(&String::from_utf8_lossy(start)))?
    });
    let (text, ..) = named.unwrap_or(UTF_8).decode(&page.body);
    text.into_owned()
}

/// The encoding after `charset=` in a header or an element.
fn charset(text: &str) -> Option<&'static Encoding> {
    let text = text.to_ascii_lowercase();
    let (_, label) = text.split_once("charset=")?;
    let label = label.trim_start_matches(['"', '\'', ' ']);
    let end = label.find(|c: char| !c.is_ascii_alphanumeric() && !"-_.:".contains(c));
    Encoding::for_label(&label.as_bytes()[..end.unwrap_or(label.len())])
}

/// The article of a page; `None` if it has none.
fn article(page: &Page, html: &str) -> Option<Text> {
    let config = Config {
        max_elements_to_parse: MAX_ELEMENTS,
        text_mode: TextMode::Markdown,
        ..Config::default()
    };
    let mut readability = Readability::new(html, Some(page.url.as_str()), Some(config)).ok()?;
    let Article { title, text_content, .. } = readability.parse().ok()?;
    let content = text_content.trim();
    let title = Some(title).filter(|title| !title.is_empty());
    (!content.is_empty()).then(|| Text { title, content: content.to_owned() })
}

fn whole(html: &str) -> Text {
    let document = Document::from(html);
    let content = document.md(Some(&NO_TEXT)).trim().to_owned();
    Text { title: title(&document), content }
}

fn title(document: &Document) -> Option<String> {
    let title = document.select("head > title").text().trim().to_owned();
    (!title.is_empty()).then_some(title)
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use super::*;

    const HTML: &str = "text/html; charset=utf-8";

    fn text(content_type: &str, body: &[u8], form: Form) -> Text {
        of(&Page::new("https://a.example/docs/x", content_type, body), form).unwrap()
    }

    #[test]
    fn an_article_comes_without_what_is_around_it() {
        let sentence = "The lock is taken before the file is read, and released after the commit, so \
                        that no other writer sees half of it. ";
        let page = format!(
            "<!doctype html><html><head><title>Locks</title><script>track()</script></head><body>\
             <nav><a href=/>Home</a><a href=/buy>Buy now</a></nav><article><h1>How locks work</h1>\
             <p>{0}</p><p>{0}<a href='../more'>More</a></p><pre><code>lock.take()</code></pre><p>{0}</p>\
             </article><footer>Cookies</footer></body></html>",
            sentence.repeat(3)
        );
        let article = text(HTML, page.as_bytes(), Form::Article);
        assert_eq!(article.title.as_deref(), Some("Locks"));
        assert!(article.content.matches(sentence.trim()).count() == 9, "{}", article.content);
        assert!(article.content.contains("[More](https://a.example/more)"), "{}", article.content);
        assert!(article.content.contains("lock.take()"), "{}", article.content);
        for outside in ["Buy now", "Cookies", "track()"] {
            assert!(!article.content.contains(outside), "{}", article.content);
        }
        let whole = text(HTML, page.as_bytes(), Form::Whole);
        assert!(whole.content.contains("Buy now") && whole.content.contains("Cookies"));
        assert!(!whole.content.contains("track()"));
        let raw = text(HTML, page.as_bytes(), Form::Raw);
        assert_eq!((raw.title.as_deref(), raw.content), (Some("Locks"), page));
    }

    #[test]
    fn a_page_without_an_article_comes_whole() {
        let page = "<html><title>List</title><ul><li><a href=/a>One</a><li>Two</ul>";
        let list = text("text/html", page.as_bytes(), Form::Article);
        assert!(list.content.contains("One") && list.content.contains("Two"), "{}", list.content);
        assert_eq!(text("", page.as_bytes(), Form::Article), list);
        assert_eq!(text(HTML, b"", Form::Article).content, "");
    }

    #[test]
    fn other_texts_come_as_they_are() {
        for (content_type, body) in [
            ("application/json", &b"{\"a\": \"<p>\"}"[..]),
            ("text/plain", b"<html>not parsed</html>"),
            ("", b"plain"),
            ("text/x-rust", b"fn main() {}\r\n"),
        ] {
            let found = text(content_type, body, Form::Article);
            assert_eq!((found.title, found.content.as_bytes()), (None, body));
        }
        let page = Page::new("https://a.example/x", "image/png", b"\x89PNG\r\n\0\0");
        assert_eq!(of(&page, Form::Article).unwrap_err().code, "NotText");
    }

    #[test]
    fn encodings_are_named_by_the_server_the_page_or_its_first_bytes() {
        for (content_type, body, wanted) in [
            ("text/plain; charset=ISO-8859-1", &b"caf\xe9"[..], "caf\u{e9}"),
            ("text/plain; charset=\"shift_jis\"", b"\x93\xfa", "\u{65e5}"),
            ("text/plain", b"\xff\xfea\0", "a"),
            ("text/plain", b"a\xffb", "a\u{fffd}b"),
            ("text/plain; charset=none-such", b"caf\xc3\xa9", "caf\u{e9}"),
            ("text/html", b"<meta charset='windows-1252'><p>\x80", "\u{20ac}"),
        ] {
            assert_eq!(text(content_type, body, Form::Whole).content, wanted, "{content_type}");
        }
    }

    /// Bodies are from strangers: nothing in them makes it panic, and deep ones end.
    #[test]
    fn damaged_pages_have_a_text() {
        for body in [
            "<".repeat(10_000),
            "<div>".repeat(500),
            "<table><tr><td>".repeat(200),
            format!("<a href='{}'>x</a>", "%".repeat(10_000)),
            "<html><title><title><body><article></html><p>\u{0}".to_owned(),
        ] {
            for form in [Form::Article, Form::Whole, Form::Raw] {
                text(HTML, body.as_bytes(), form);
            }
        }
    }
}
