//! Invariants: what a step must not change. An invariant is a sentence in the work order. Some are
//! recognized by their words and checked; all others are reported as not checked.
//!
//! | words | check |
//! |---|---|
//! | `no import shape changes` | each public name that a touched Python module defined can still be imported from it |
//! | `no _id/_key renames` | each identifier that is or ends in `_id` or `_key` still occurs in the touched files |
//! | `no signature changes`, `no public API changes` | the Designer's `changed_signatures` is empty |
//!
//! Source of the first two, and of this wording: the pipeline commands, "Work Order Fields" and
//! "Read-Only Tools".

use std::collections::BTreeSet;

use schemars::JsonSchema;
use serde::Serialize;

mod python;

/// The kind of an invariant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Invariant {
    /// The names that can be imported from a module must not change.
    ModuleShape,
    /// The names of ids and keys must not change.
    KeyNames,
    /// Signatures of the public API must not change.
    Signatures,
    /// An invariant that can't be checked.
    Unknown,
}

/// The text of a touched file before and after the change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TouchedFile {
    /// The path relative to the workspace.
    pub path: String,
    /// The text before the change.
    pub before: String,
    /// The text after the change.
    pub after: String,
}

/// The result of checking an invariant.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// The invariant is not broken.
    Held,
    /// The invariant is broken.
    Broken,
    /// The invariant can't be checked by a program.
    NotChecked,
}

/// An invariant and the result of checking it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Finding {
    /// The text in the work order.
    pub invariant: String,
    /// The result of the check.
    pub verdict: Verdict,
    /// What breaks the invariant, or why it was not checked.
    pub note: Option<String>,
}

impl Invariant {
    /// Recognizes an invariant, ignoring case, white space and a full stop.
    pub fn of(text: &str) -> Self {
        let words: Vec<&str> = text.trim().trim_end_matches('.').split_whitespace().collect();
        match words.join(" ").to_lowercase().as_str() {
            "no import shape changes" => Self::ModuleShape,
            "no _id/_key renames" => Self::KeyNames,
            "no signature changes" | "no public api changes" => Self::Signatures,
            _ => Self::Unknown,
        }
    }
}

/// Checks an invariant on the touched files. Files that are not text are missing in `files` and
/// listed in `unread`.
pub fn check(text: &str, files: &[TouchedFile], unread: &[String]) -> Finding {
    let finding = |verdict, note| Finding { invariant: text.to_owned(), verdict, note };
    let broken = match Invariant::of(text) {
        Invariant::Unknown => {
            return finding(Verdict::NotChecked, Some("no machine can tell".to_owned()));
        }
        // Other designs were refused.
        Invariant::Signatures => return finding(Verdict::Held, None),
        Invariant::ModuleShape => {
            let other = files.iter().find(|file| !is_python(&file.path));
            if let Some(other) = other {
                let note = format!("{} is no Python module", other.path);
                return finding(Verdict::NotChecked, Some(note));
            }
            match module_shape(files) {
                Ok(broken) => broken,
                Err(note) => return finding(Verdict::NotChecked, Some(note)),
            }
        }
        Invariant::KeyNames => key_names(files),
    };
    match (broken, unread) {
        (Some(note), _) => finding(Verdict::Broken, Some(note)),
        (None, []) => finding(Verdict::Held, None),
        (None, [path, ..]) => {
            finding(Verdict::NotChecked, Some(format!("{path} can't be read as text")))
        }
    }
}

fn is_python(path: &str) -> bool {
    path.ends_with(".py") || path.ends_with(".pyi")
}

/// Describes the names that were removed from modules, or returns why they can't be determined.
fn module_shape(files: &[TouchedFile]) -> Result<Option<String>, String> {
    let mut gone = Vec::new();
    for TouchedFile { path, before, after } in files {
        let (before, after) = (python::names(before), python::names(after));
        // Only a package's own file is meant to export its imports.
        let is_package = path == "__init__.py" || path.ends_with("/__init__.py");
        let imported = before.imported.iter().filter(|_| is_package);
        let missing: Vec<&str> = before
            .defined
            .iter()
            .chain(imported)
            .filter(|name| !name.starts_with('_'))
            .filter(|name| !after.defined.contains(*name) && !after.imported.contains(*name))
            .map(String::as_str)
            .collect();
        if missing.is_empty() {
            continue;
        }
        if after.imports_everything {
            return Err(format!("{path} imports with '*'"));
        }
        gone.push(format!("{} can't be imported from {path} any more", missing.join(", ")));
    }
    Ok((!gone.is_empty()).then(|| gone.join("; ")))
}

/// Describes the identifiers of ids and keys that were removed from the files.
fn key_names(files: &[TouchedFile]) -> Option<String> {
    let keys = |texts: &mut dyn Iterator<Item = &String>| -> BTreeSet<String> {
        let words = texts.flat_map(|text| {
            text.split(|c: char| !c.is_alphanumeric() && c != '_')
                .filter(|word| word.ends_with("_id") || word.ends_with("_key"))
        });
        words.map(str::to_owned).collect()
    };
    let before = keys(&mut files.iter().map(|file| &file.before));
    let after = keys(&mut files.iter().map(|file| &file.after));
    let gone: Vec<&str> = before.difference(&after).map(String::as_str).collect();
    (!gone.is_empty()).then(|| format!("{} stands in no touched file any more", gone.join(", ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(path: &str, before: &str, after: &str) -> TouchedFile {
        TouchedFile { path: path.to_owned(), before: before.to_owned(), after: after.to_owned() }
    }

    #[test]
    fn removed_public_names_are_found() {
        let a = "def f():\n    pass\n\nclass G: pass\n_private = 1\nH: int = 2\n";
        for (files, wanted) in [
            (vec![file("a.py", a, a)], Ok(None)),
            (vec![file("a.py", a, "from .b import G, f\nH = 3\n")], Ok(None)),
            (
                vec![file("a.py", a, "H = 3\n"), file("b.py", "", a)],
                Ok(Some("G, f can't be imported from a.py any more")),
            ),
            (vec![file("a.py", a, "from .b import *\n")], Err("a.py imports with '*'")),
            // Imports of a module are not public, except those of a package's own file.
            (vec![file("a.py", "import os\n", "")], Ok(None)),
            (
                vec![file("p/__init__.py", "from .a import f\n", "")],
                Ok(Some("f can't be imported from p/__init__.py any more")),
            ),
        ] {
            let found = module_shape(&files);
            assert_eq!(
                found.as_ref().map(Option::as_deref).map_err(String::as_str),
                wanted,
                "{files:?}"
            );
        }
    }

    #[test]
    fn renamed_keys_are_found() {
        let before = "row['_id'], song_id, file_key, keys_idle";
        for (after, wanted) in [
            (before, None),
            ("song_id + file_key + _id", None),
            ("row['_key'], song_id, file_key", Some("_id stands in no touched file any more")),
            ("row['_id'], songId", Some("file_key, song_id stands in no touched file any more")),
        ] {
            assert_eq!(key_names(&[file("a.py", before, after)]).as_deref(), wanted, "{after}");
        }
        // A name that moved to another file was not renamed.
        assert_eq!(key_names(&[file("a.py", "x_id", ""), file("b.py", "", "x_id")]), None);
    }

    #[test]
    fn unknown_invariants_are_not_checked() {
        let changed = [file("a.py", "x_id = 1\n", "x_key = 1\n")];
        for (text, files, unread, verdict) in [
            ("no import shape changes", &changed[..], vec![], Verdict::Broken),
            (" No  import shape changes.", &changed, vec![], Verdict::Broken),
            ("no _id/_key renames", &changed, vec![], Verdict::Broken),
            ("no behavior changes", &changed, vec![], Verdict::NotChecked),
            ("no signature changes", &changed, vec![], Verdict::Held),
            ("no import shape changes", &[], vec![], Verdict::Held),
            ("no import shape changes", &[], vec!["b.py".to_owned()], Verdict::NotChecked),
            ("no _id/_key renames", &changed, vec!["b.py".to_owned()], Verdict::Broken),
            ("no import shape changes", &[file("a.ts", "", "")], vec![], Verdict::NotChecked),
        ] {
            let finding = check(text, files, &unread);
            assert_eq!(finding.verdict, verdict, "{text}: {finding:?}");
            assert_eq!(finding.invariant, text);
            assert_eq!(finding.note.is_none(), verdict == Verdict::Held, "{finding:?}");
        }
    }
}
