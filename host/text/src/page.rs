//! A self-contained web page without scripts and without requests. All content except this module's
//! own markup is escaped by maud.

use maud::{DOCTYPE, Markup, PreEscaped, html};

const STYLE: &str = include_str!("page.css");

/// Limits what the page can do if the escaping of a text should ever fail.
const CONTENT_SECURITY_POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'";

/// Renders a page; `title` is also its heading.
pub fn render(title: &str, body: &Markup) -> String {
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta http-equiv="Content-Security-Policy" content=(CONTENT_SECURITY_POLICY);
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                title { (title) }
                style { (PreEscaped(STYLE)) }
            }
            body {
                main {
                    h1 { (title) }
                    (body)
                }
            }
        }
    };
    page.into_string() + "\n"
}

/// One cell of a [`table`].
pub enum Cell {
    /// The header of a row; the first cell of each row.
    Head(Markup),
    /// Text that is left-aligned.
    Text(Markup),
    /// A number, which is right-aligned.
    Number(String),
}

/// Returns a table with a caption, which scrolls on a narrow screen. Columns whose first cell is a
/// number are right-aligned.
pub fn table(caption: &str, columns: &[&str], rows: Vec<Vec<Cell>>) -> Markup {
    let is_number = |column: usize| {
        rows.first()
            .and_then(|row| row.get(column))
            .is_some_and(|cell| matches!(cell, Cell::Number(_)))
    };
    html! {
        section class="scroll" aria-label=(caption) tabindex="0" {
            table {
                caption { (caption) }
                thead { tr {
                    @for (at, column) in columns.iter().enumerate() {
                        th scope="col" class=[is_number(at).then_some("number")] { (column) }
                    }
                } }
                tbody {
                    @for row in &rows { tr {
                        @for cell in row {
                            @match cell {
                                Cell::Head(content) => th scope="row" { (content) },
                                Cell::Text(content) => td { (content) },
                                Cell::Number(number) => td class="number" { (number) },
                            }
                        }
                    } }
                }
            }
        }
    }
}
