//! The rule: no line is a marker of an unfinished merge. Does not depend on files or the host.

/// A marker that git leaves in a file with a conflict.
#[derive(Debug, PartialEq, Eq)]
pub struct Marker {
    /// The line number, counted from 1.
    pub line: u32,
    /// Its length in characters.
    pub length: u32,
    pub text: &'static str,
}

const MARKERS: [&str; 3] = ["<<<<<<<", "=======", ">>>>>>>"];

/// Finds the markers in a text; none if the first of them is missing.
pub fn find(text: &str) -> Vec<Marker> {
    let markers: Vec<Marker> = (1..).zip(text.lines()).filter_map(marker).collect();
    // Seven equals signs alone are a heading.
    if markers.iter().any(|marker| marker.text == MARKERS[0]) { markers } else { Vec::new() }
}

fn marker((line, text): (u32, &str)) -> Option<Marker> {
    let found = MARKERS.into_iter().find(|marker| {
        text.strip_prefix(marker).is_some_and(|rest| rest.is_empty() || rest.starts_with(' '))
    })?;
    Some(Marker { line, length: found.len() as u32, text: found })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn markers_are_found_and_headings_are_not() {
        let lines = |text| find(text).iter().map(|marker| marker.line).collect::<Vec<_>>();
        assert_eq!(lines("a\n<<<<<<< ours\nb\r\n=======\nc\n>>>>>>> theirs\n"), [2, 4, 6]);
        assert_eq!(lines("Heading\n=======\n"), [] as [u32; 0]);
        assert_eq!(lines("<<<<<<<<\n"), [] as [u32; 0]);
    }
}
