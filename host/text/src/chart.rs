//! Small bar charts as SVG within a page, without scripts, coloured by the page's style sheet.
//!
//! The page shows the same figures in a table; a screen reader sees a chart as an image with a
//! name.

use maud::{Markup, html};

/// The width of a chart in its own units; the page scales it.
const WIDTH: f64 = 720.0;

/// The width of the labels, to the left of the bars.
const LABEL_WIDTH: f64 = 230.0;

/// The width of a bar's value, to the right of the bar.
const VALUE_WIDTH: f64 = 90.0;

/// The height of a horizontal bar with the space around it.
const BAR_HEIGHT: f64 = 24.0;

/// The height of the highest column.
const COLUMN_HEIGHT: f64 = 120.0;

/// The number of characters of a label that are shown.
const MAX_LABEL_CHARS: usize = 30;

/// One bar or column. Its parts are drawn one after the other.
pub struct Bar {
    /// The text beside or below it.
    pub label: String,
    /// The CSS class and the length of each part.
    pub parts: Vec<(&'static str, f64)>,
    /// Its value as text, with the unit.
    pub value: String,
}

impl Bar {
    fn length(&self) -> f64 {
        self.parts.iter().map(|(_, length)| length).sum()
    }

    /// Returns each part with its offset.
    fn placed(&self) -> impl Iterator<Item = (&'static str, f64, f64)> {
        self.parts.iter().scan(0.0, |end, &(class, length)| {
            let start = *end;
            *end += length;
            Some((class, start, length))
        })
    }
}

/// Draws horizontal bars, one below the other.
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

/// Draws columns side by side, as on a time axis. Only the first and the last label and the highest
/// value are shown.
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

/// Returns how many units of the chart one unit of length takes, so that the longest bar fits.
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

/// Rounds to two digits, which are enough for a drawing.
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
    fn the_longest_bar_fills_the_width() {
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
    fn empty_charts_have_no_invalid_numbers() {
        for empty in [bars("T", &[]), columns("T", &[]), bars("T", &[bar("a", &[("calls", 0.0)])])]
        {
            let svg = empty.into_string();
            assert!(!svg.contains("NaN") && !svg.contains("inf"), "{svg}");
        }
    }

    #[test]
    fn labels_are_escaped_and_shortened() {
        let svg = bars("<T>", &[bar(&"<b>".repeat(20), &[])]).into_string();
        assert!(!svg.contains("<b>") && !svg.contains("<T>") && svg.contains('…'), "{svg}");
    }
}
