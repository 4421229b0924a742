//! A web page of one file that loads nothing and runs nothing. Everything in it that is not
//! markup of ours goes through maud, which escapes it.

use maud::{DOCTYPE, Markup, PreEscaped, html};

const STYLE: &str = include_str!("page.css");

/// What the page may do, should a text ever get out of its place.
const CONTENT_SECURITY_POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'";

/// A page with one heading of the first level, which is its title as well.
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
    /// What the row is about; the first cell of each row.
    Head(Markup),
    /// Words.
    Text(Markup),
    /// A number, aligned with those above and below.
    Number(String),
}

/// A table with a caption that can be scrolled on a narrow screen. `numbers` says which columns
/// hold numbers.
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
