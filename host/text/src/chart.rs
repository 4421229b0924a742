//! Small charts as SVG within a page: drawn without a script, coloured by the page's own style.
//!
//! What a chart shows stands in a table as well; to a reader of the page's text it is an image
//! with a name.

use maud::{Markup, html};

/// How wide a chart is, in its own units; the page scales it.
const WIDTH: f64 = 720.0;

/// Where bars begin, to the right of their names.
const LABEL_WIDTH: f64 = 230.0;

/// Room for a bar's value, to its right.
const VALUE_WIDTH: f64 = 90.0;

/// How high a bar's line is.
const BAR_HEIGHT: f64 = 24.0;

/// How high columns are at most.
const COLUMN_HEIGHT: f64 = 120.0;

/// How many characters of a name are shown.
const MAX_LABEL_CHARS: usize = 30;

/// One bar or column: parts in one another's continuation.
pub struct Bar {
    /// What it stands for.
    pub label: String,
    /// Each with the class that colours it and its length.
    pub parts: Vec<(&'static str, f64)>,
    /// Its value in words.
    pub value: String,
}

impl Bar {
    fn length(&self) -> f64 {
        self.parts.iter().map(|(_, length)| length).sum()
    }

    /// The parts with where each begins.
    fn placed(&self) -> impl Iterator<Item = (&'static str, f64, f64)> {
        self.parts.iter().scan(0.0, |end, &(class, length)| {
            let start = *end;
            *end += length;
            Some((class, start, length))
        })
    }
}

/// Horizontal bars, one below the other.
pub fn bars(title: &str, bars: &[Bar]) -> Markup {
    let scale = scale(bars, WIDTH - LABEL_WIDTH - VALUE_WIDTH);
    let height = BAR_HEIGHT * count(bars.len());
    html! {
        figure {
            svg viewBox=(format!("0 0 {WIDTH} {height}")) role="img" aria-label=(title) {
                @for (at, bar) in bars.iter().enumerate() {
                    @let top = BAR_HEIGHT * count(at);
                    text x=(LABEL_WIDTH - 8.0) y=(top + 16.0) text-anchor="end" { (name(&bar.label)) }
                    @for (class, start, length) in bar.placed() {
                        rect class=(class) x=(round(LABEL_WIDTH + start * scale)) y=(top + 4.0)
                            width=(round(length * scale)) height=(BAR_HEIGHT - 8.0) {}
                    }
                    text class="value" x=(round(LABEL_WIDTH + bar.length() * scale + 6.0)) y=(top + 16.0) {
                        (bar.value)
                    }
                }
            }
            figcaption { (title) }
        }
    }
}

/// Columns side by side, as time goes: the first and the last are named below, the highest value
/// beside.
pub fn columns(title: &str, columns: &[Bar]) -> Markup {
    let scale = scale(columns, COLUMN_HEIGHT);
    let width = (WIDTH - 50.0) / count(columns.len().max(1));
    let highest = columns.iter().max_by(|a, b| a.length().total_cmp(&b.length()));
    let base = COLUMN_HEIGHT + 10.0;
    html! {
        figure {
            svg viewBox=(format!("0 0 {WIDTH} {}", base + 24.0)) role="img" aria-label=(title) {
                @if let Some(highest) = highest {
                    text class="value" x="44" y="16" text-anchor="end" { (round(highest.length())) }
                }
                text class="value" x="44" y=(base) text-anchor="end" { "0" }
                line x1="50" x2=(WIDTH) y1=(base) y2=(base) {}
                @for (at, column) in columns.iter().enumerate() {
                    @for (class, start, length) in column.placed() {
                        rect class=(class) x=(round(50.0 + width * count(at)))
                            y=(round(base - (start + length) * scale))
                            width=(round((width - 1.0).max(0.5))) height=(round(length * scale)) {
                            title { (column.label) ": " (column.value) }
                        }
                    }
                }
                @if let Some(first) = columns.first() {
                    text x="50" y=(base + 18.0) { (first.label) }
                }
                @if let [_, .., last] = columns {
                    text x=(WIDTH) y=(base + 18.0) text-anchor="end" { (last.label) }
                }
            }
            figcaption { (title) }
        }
    }
}

/// Units for each unit of length, so that the longest bar fits.
fn scale(bars: &[Bar], room: f64) -> f64 {
    let longest = bars.iter().map(Bar::length).fold(0.0, f64::max);
    if longest > 0.0 { room / longest } else { 0.0 }
}

fn name(label: &str) -> String {
    if label.chars().count() <= MAX_LABEL_CHARS {
        return label.to_owned();
    }
    label.chars().take(MAX_LABEL_CHARS - 1).chain(['…']).collect()
}

/// Enough digits for a drawing.
fn round(value: f64) -> f64 {
    (value * 100.0).round() / 100.0
}

fn count(count: usize) -> f64 {
    count as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bar(label: &str, parts: &[(&'static str, f64)]) -> Bar {
        Bar { label: label.to_owned(), parts: parts.to_vec(), value: "v".to_owned() }
    }

    #[test]
    fn the_longest_bar_takes_the_room() {
        let svg =
            bars("T", &[bar("a", &[("calls", 3.0), ("errors", 1.0)]), bar("b", &[("calls", 2.0)])]);
        let svg = svg.into_string();
        for part in [
            r#"<rect class="calls" x="230" y="4" width="300" height="16">"#,
            r#"<rect class="errors" x="530" y="4" width="100" height="16">"#,
            r#"<rect class="calls" x="230" y="28" width="200" height="16">"#,
            r#"viewBox="0 0 720 48" role="img" aria-label="T""#,
        ] {
            assert!(svg.contains(part), "{part}: {svg}");
        }
    }

    #[test]
    fn nothing_is_drawn_as_nothing() {
        for empty in [bars("T", &[]), columns("T", &[]), bars("T", &[bar("a", &[("calls", 0.0)])])]
        {
            let svg = empty.into_string();
            assert!(!svg.contains("NaN") && !svg.contains("inf"), "{svg}");
        }
    }

    #[test]
    fn names_are_text_and_short() {
        let svg = bars("<T>", &[bar(&"<b>".repeat(20), &[])]).into_string();
        assert!(!svg.contains("<b>") && !svg.contains("<T>") && svg.contains('…'), "{svg}");
    }
}
