//! Ids of beads, such as `bead-7k2m-x9qd`. The id is stored only in the name of the bead's file.

use std::fmt;
use std::str::FromStr;

use serde::Deserialize;

/// The prefix of every id. The example in the actions reference is `bead-abc-123`.
const PREFIX: &str = "bead-";

/// The extension of a bead's file.
const EXTENSION: &str = ".yaml";

/// The maximum length of an id, in bytes.
const MAX_ID_BYTES: usize = 64;

/// How many characters after [`PREFIX`] an abbreviated id needs at least.
const MIN_ABBREVIATION_CHARS: usize = 3;

/// The alphabet of random ids, without letters that are easily confused: Crockford's base 32, in
/// lower case.
const ALPHABET: &[u8; 32] = b"0123456789abcdefghjkmnpqrstvwxyz";

/// The largest edit distance at which another id is suggested.
const MAX_SUGGESTION_DISTANCE: usize = 3;

/// A bead's id: `bead-`, then lower-case letters and digits in groups with `-` between them.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Deserialize)]
#[serde(try_from = "String")]
pub struct Id(String);

/// The error for text that is not an id.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("'{0}' is no bead id: 'bead-', then lower-case letters and digits, such as bead-7k2m-x9qd")]
pub struct InvalidId(String);

impl Id {
    /// Makes an id from 40 random bits. Among a thousand beads created independently, the chance
    /// that two have the same id is about one in two million.
    pub fn from_random(bytes: [u8; 5]) -> Self {
        let bits = bytes.iter().fold(0_u64, |bits, byte| bits << 8 | u64::from(*byte));
        let mut id = String::from(PREFIX);
        for place in (0..8).rev() {
            let five = (bits >> (5 * place)) & 31;
            id.push(char::from(ALPHABET[five as usize]));
            if place == 4 {
                id.push('-');
            }
        }
        Self(id)
    }

    /// The id of a file in the directory of beads; `None` if the file is not named like a bead.
    ///
    /// # Errors
    /// [`InvalidId`] if the name is like that of a bead but does not contain an id.
    pub fn of_file(name: &str) -> Option<Result<Self, InvalidId>> {
        let id = name.strip_suffix(EXTENSION)?;
        id.starts_with(PREFIX).then(|| id.parse())
    }

    /// The name of the bead's file.
    pub fn file_name(&self) -> String {
        format!("{}{EXTENSION}", self.0)
    }

    /// The id as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The id without its prefix.
    fn own(&self) -> &str {
        &self.0[PREFIX.len()..]
    }
}

impl FromStr for Id {
    type Err = InvalidId;

    fn from_str(text: &str) -> Result<Self, InvalidId> {
        let is_group = |group: &str| {
            let is_plain = |c: u8| c.is_ascii_lowercase() || c.is_ascii_digit();
            !group.is_empty() && group.bytes().all(is_plain)
        };
        match text.strip_prefix(PREFIX) {
            Some(own) if text.len() <= MAX_ID_BYTES && own.split('-').all(is_group) => {
                Ok(Self(text.to_owned()))
            }
            _ => Err(InvalidId(text.chars().take(MAX_ID_BYTES).collect())),
        }
    }
}

impl TryFrom<String> for Id {
    type Error = InvalidId;

    fn try_from(text: String) -> Result<Self, InvalidId> {
        text.parse()
    }
}

impl fmt::Display for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Why an id that a caller gave selects no bead.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NotFound {
    /// No bead has this id.
    #[error("there is no bead '{given}'{}", suggestion(.nearest.as_ref()))]
    Unknown {
        /// The text given by the caller, shortened.
        given: String,
        /// The existing id nearest to it.
        nearest: Option<Id>,
    },
    /// The abbreviation fits several ids.
    #[error("'{given}' could be {}", list(.ids))]
    Ambiguous {
        /// The text given by the caller.
        given: String,
        /// The ids that it fits, in order.
        ids: Vec<Id>,
    },
}

fn suggestion(nearest: Option<&Id>) -> String {
    nearest.map(|id| format!("; did you mean '{id}'?")).unwrap_or_default()
}

fn list(ids: &[Id]) -> String {
    const MAX_LISTED_IDS: usize = 5;
    let named: Vec<&str> = ids.iter().take(MAX_LISTED_IDS).map(Id::as_str).collect();
    let more = ids.len() - named.len();
    let more = if more == 0 { String::new() } else { format!(" or {more} more") };
    format!("{}{more}", named.join(" or "))
}

/// Finds the bead that `given` selects: by its whole id, or by an abbreviation that only one id
/// begins with, with or without `bead-` and at least three characters after it.
///
/// # Errors
/// [`NotFound::Unknown`] or [`NotFound::Ambiguous`].
pub fn find(given: &str, ids: &[Id]) -> Result<Id, NotFound> {
    let own = given.strip_prefix(PREFIX).unwrap_or(given);
    if let Some(id) = ids.iter().find(|id| id.own() == own) {
        return Ok(id.clone());
    }
    let mut meant: Vec<Id> = match own.len() {
        MIN_ABBREVIATION_CHARS.. => {
            ids.iter().filter(|id| id.own().starts_with(own)).cloned().collect()
        }
        _ => Vec::new(),
    };
    meant.sort();
    let short: String = given.chars().take(MAX_ID_BYTES).collect();
    match meant.as_slice() {
        [] => Err(NotFound::Unknown { given: short, nearest: nearest(own, ids) }),
        [id] => Ok(id.clone()),
        _ => Err(NotFound::Ambiguous { given: short, ids: meant }),
    }
}

fn nearest(own: &str, ids: &[Id]) -> Option<Id> {
    // Text of this length is not a typing error, and comparing it takes quadratic time.
    if own.len() > MAX_ID_BYTES {
        return None;
    }
    ids.iter()
        .map(|id| (strsim::osa_distance(own, id.own()), id))
        .filter(|(distance, id)| *distance <= MAX_SUGGESTION_DISTANCE.min(id.own().len() / 2))
        .min()
        .map(|(_, id)| id.clone())
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use super::*;

    fn ids(ids: &[&str]) -> Vec<Id> {
        ids.iter().map(|id| id.parse().unwrap()).collect()
    }

    #[test]
    fn ids_have_one_form() {
        for id in ["bead-abc-123", "bead-7k2m-x9qd", "bead-a", "bead-1-2-3"] {
            assert_eq!(id.parse::<Id>().unwrap().as_str(), id);
        }
        let long = format!("bead-{}", "a".repeat(60));
        for id in ["", "bead", "bead-", "bead-A", "bead-a-", "bead--a", "abc-123", "bead-ä", &long]
        {
            assert!(id.parse::<Id>().is_err(), "{id}");
        }
        for id in ["bead-../x", "bead-a/b", "bead-a\0", "bead-a b"] {
            assert!(id.parse::<Id>().is_err(), "{id}");
        }
    }

    #[test]
    fn random_bytes_become_ids_one_to_one() {
        for (bytes, wanted) in [
            ([0; 5], "bead-0000-0000"),
            ([255; 5], "bead-zzzz-zzzz"),
            ([0, 0, 0, 0, 1], "bead-0000-0001"),
            ([8, 0, 0, 0, 0], "bead-1000-0000"),
            ([1, 2, 3, 4, 5], "bead-0410-6105"),
        ] {
            let id = Id::from_random(bytes);
            assert_eq!(id.as_str(), wanted);
            assert_eq!(id.as_str().parse(), Ok(id));
        }
    }

    #[test]
    fn files_are_named_by_their_ids() {
        let id: Id = "bead-abc-123".parse().unwrap();
        assert_eq!(id.file_name(), "bead-abc-123.yaml");
        assert_eq!(Id::of_file("bead-abc-123.yaml"), Some(Ok(id)));
        for name in ["config.yaml", ".gitattributes", "bead-abc-123.yaml.orig", "bead-abc", "x"] {
            assert_eq!(Id::of_file(name), None, "{name}");
        }
        assert!(Id::of_file("bead-Abc.yaml").unwrap().is_err());
    }

    #[test]
    fn an_unambiguous_abbreviation_selects_an_id() {
        let ids = ids(&["bead-7k2m-x9qd", "bead-7k2m-0000", "bead-abc-123", "bead-abc"]);
        for (given, wanted) in [
            ("bead-7k2m-x9qd", "bead-7k2m-x9qd"),
            ("7k2m-x9qd", "bead-7k2m-x9qd"),
            ("bead-7k2m-x", "bead-7k2m-x9qd"),
            ("7k2m-0", "bead-7k2m-0000"),
            // A whole id is found even if another id begins with it.
            ("bead-abc", "bead-abc"),
            ("abc-1", "bead-abc-123"),
        ] {
            assert_eq!(find(given, &ids).unwrap().as_str(), wanted, "{given}");
        }
        for (given, wanted) in [
            ("bead-7k2", "'bead-7k2' could be bead-7k2m-0000 or bead-7k2m-x9qd"),
            ("bead-7k2m-x9dq", "there is no bead 'bead-7k2m-x9dq'; did you mean 'bead-7k2m-x9qd'?"),
            ("bead-abc-124", "there is no bead 'bead-abc-124'; did you mean 'bead-abc-123'?"),
            ("bead-zzzz-zzzz", "there is no bead 'bead-zzzz-zzzz'"),
            // Abbreviations that are too short.
            ("bead-", "there is no bead 'bead-'"),
            ("", "there is no bead ''"),
        ] {
            assert_eq!(find(given, &ids).unwrap_err().to_string(), wanted);
        }
        assert!(matches!(find("7k", &ids), Err(NotFound::Unknown { .. })));
        assert!(find(&"x".repeat(100_000), &ids).unwrap_err().to_string().len() < 200);
    }
}
