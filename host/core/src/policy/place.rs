//! Normalised paths in the workspace.

use std::borrow::Borrow;
use std::fmt;
use std::ops::Deref;

use serde::Serialize;

/// A path in the workspace: relative, with `/` between names, without empty names, `.` and `..`.
/// Empty for the workspace itself. Symbolic links in it are not followed.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(transparent)]
pub struct Place(String);

/// Why a path can't be normalised by its names alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PlaceError {
    /// The path is absolute.
    Absolute,
    /// The path contains `..`, or more of them than it has names before.
    Parent,
}

impl Place {
    /// Normalises a path.
    ///
    /// # Errors
    /// [`PlaceError::Absolute`]; [`PlaceError::Parent`] for any `..`: which directory it refers to
    /// depends on symbolic links.
    pub fn new(path: &str) -> Result<Self, PlaceError> {
        Self::beneath("", path)
    }

    /// Normalises a path relative to a directory.
    ///
    /// # Errors
    /// As for [`Place::new`].
    pub fn beneath(directory: &str, path: &str) -> Result<Self, PlaceError> {
        if names(path).any(|name| name == "..") {
            return Err(if path.starts_with('/') {
                PlaceError::Absolute
            } else {
                PlaceError::Parent
            });
        }
        Self::lexical(directory, path)
    }

    /// Normalises a path relative to a directory; a `..` removes the name before it.
    ///
    /// # Errors
    /// [`PlaceError::Absolute`]; [`PlaceError::Parent`] for a path that leaves the workspace.
    pub fn lexical(directory: &str, path: &str) -> Result<Self, PlaceError> {
        if path.starts_with('/') {
            return Err(PlaceError::Absolute);
        }
        let mut place = Self(String::with_capacity(directory.len() + 1 + path.len()));
        for name in names(directory).chain(names(path)) {
            if name != ".." {
                place.push(name);
            } else if !place.pop() {
                return Err(PlaceError::Parent);
            }
        }
        Ok(place)
    }

    /// Appends one name, which is not empty, `.` or `..`.
    pub fn push(&mut self, name: &str) {
        if !self.0.is_empty() {
            self.0.push('/');
        }
        self.0.push_str(name);
    }

    /// Removes the last name; returns false if there is none.
    pub fn pop(&mut self) -> bool {
        let had_name = !self.0.is_empty();
        self.0.truncate(self.0.rfind('/').unwrap_or(0));
        had_name
    }

    /// The path as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// Returns the names of a path, without empty names and `.`.
pub fn names(path: &str) -> impl Iterator<Item = &str> {
    path.split('/').filter(|name| !matches!(*name, "" | "."))
}

/// Whether `place` is `directory`, or beneath it. Both are normalised.
pub fn is_within(place: &str, directory: &str) -> bool {
    let beneath = |rest: &str| rest.is_empty() || rest.starts_with('/');
    directory.is_empty() || place.strip_prefix(directory).is_some_and(beneath)
}

impl Deref for Place {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

impl Borrow<str> for Place {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl PartialEq<&str> for Place {
    fn eq(&self, other: &&str) -> bool {
        self.0 == *other
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl From<Place> for String {
    fn from(place: Place) -> Self {
        place.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_normalised_or_refused() {
        use PlaceError::{Absolute, Parent};
        for (directory, path, strict, lexical) in [
            ("", "", Ok(""), Ok("")),
            ("", ".", Ok(""), Ok("")),
            ("", "./a//b/", Ok("a/b"), Ok("a/b")),
            ("a", "b", Ok("a/b"), Ok("a/b")),
            ("a/b", ".", Ok("a/b"), Ok("a/b")),
            ("", "..a/b..", Ok("..a/b.."), Ok("..a/b..")),
            ("", "/a", Err(Absolute), Err(Absolute)),
            ("", "/../a", Err(Absolute), Err(Absolute)),
            ("", "a/../b", Err(Parent), Ok("b")),
            ("a", "../b", Err(Parent), Ok("b")),
            ("a", "..", Err(Parent), Ok("")),
            ("a", "../..", Err(Parent), Err(Parent)),
            ("", "..", Err(Parent), Err(Parent)),
        ] {
            let text = |place: &Result<Place, PlaceError>| place.clone().map(String::from);
            let wanted = |place: Result<&str, PlaceError>| place.map(str::to_owned);
            let found = Place::beneath(directory, path);
            assert_eq!(text(&found), wanted(strict), "{directory:?} {path:?}");
            let found = Place::lexical(directory, path);
            assert_eq!(text(&found), wanted(lexical), "{directory:?} {path:?}");
        }
    }

    #[test]
    fn places_are_within_directories_above_them() {
        for (place, directory, wanted) in [
            ("", "", true),
            ("a", "", true),
            ("a/b", "", true),
            ("a/b", "a", true),
            ("a", "a", true),
            ("ab", "a", false),
            ("a", "a/b", false),
            ("", "a", false),
        ] {
            assert_eq!(is_within(place, directory), wanted, "{place:?} {directory:?}");
        }
    }

    #[test]
    fn pop_stops_at_the_workspace() {
        let mut place = Place::default();
        place.push("a");
        place.push("b");
        assert!(place.pop() && place.as_str() == "a");
        assert!(place.pop() && !place.pop());
        assert_eq!(place, Place::default());
    }
}
