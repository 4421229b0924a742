//! What a step must not change. An invariant is a sentence of the work order; those that a machine
//! can check are known here by their words, and the others are passed through as not checked.
//!
//! | words | what is compared |
//! |---|---|
//! | `no import shape changes` | every public name that a touched Python module defined can still be imported from it |
//! | `no _id/_key renames` | every identifier that is or ends in `_id` or `_key` still stands in the touched files |
//! | `no signature changes`, `no public API changes` | the Designer's `changed_signatures` is empty |
//!
//! Source of the first two, and of the word shape: S0, "Work Order Fields" and "Read-Only Tools".

use std::collections::BTreeSet;

use schemars::JsonSchema;
use serde::Serialize;

mod python;

/// What an invariant says, as far as it is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Invariant {
    /// What can be imported from a module stays.
    ModuleShape,
    /// Names of identities and keys stay.
    KeyNames,
    /// Signatures stay.
    Signatures,
    /// Anything else.
    Unknown,
}

/// A file that was touched, as text before and after.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TouchedFile {
    /// Relative to the workspace.
    pub path: String,
    /// What it was.
    pub before: String,
    /// What it is.
    pub after: String,
}

/// Whether an invariant holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// It does.
    Held,
    /// It does not.
    Broken,
    /// A machine can't tell.
    NotChecked,
}

/// An invariant and what was found of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Finding {
    /// As the work order has it.
    pub invariant: String,
    /// Whether it holds.
    pub verdict: Verdict,
    /// What breaks it, or why it was not checked.
    pub note: Option<String>,
}

impl Invariant {
    /// What an invariant says; case, spaces and a full stop don't matter.
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

/// Compares what was touched with what an invariant says. A file that could not be read as text
/// is missing from `files`, and named in `unread`.
pub fn check(text: &str, files: &[TouchedFile], unread: &[String]) -> Finding {
    let finding = |verdict, note| Finding { invariant: text.to_owned(), verdict, note };
    let broken = match Invariant::of(text) {
        Invariant::Unknown => {
            return finding(Verdict::NotChecked, Some("no machine can tell".to_owned()));
        }
        // A design that says otherwise has been refused.
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

/// The names that are gone from modules, in words; an error where that can't be told.
fn module_shape(files: &[TouchedFile]) -> Result<Option<String>, String> {
    let mut gone = Vec::new();
    for TouchedFile { path, before, after } in files {
        let (before, after) = (python::names(before), python::names(after));
        // Only a package's own file is known for what it imports.
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

/// The identifiers of keys that are gone from the files, in words.
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
    fn names_have_to_stay_where_they_can_be_imported_from() {
        let a = "def f():\n    pass\n\nclass G: pass\n_private = 1\nH: int = 2\n";
        for (files, wanted) in [
            (vec![file("a.py", a, a)], Ok(None)),
            (vec![file("a.py", a, "from .b import G, f\nH = 3\n")], Ok(None)),
            (
                vec![file("a.py", a, "H = 3\n"), file("b.py", "", a)],
                Ok(Some("G, f can't be imported from a.py any more")),
            ),
            (vec![file("a.py", a, "from .b import *\n")], Err("a.py imports with '*'")),
            // What a module imports is its own business, but for a package's own file.
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
    fn keys_have_to_keep_their_names() {
        let before = "row['_id'], song_id, file_key, keys_idle";
        for (after, wanted) in [
            (before, None),
            ("song_id + file_key + _id", None),
            ("row['_key'], song_id, file_key", Some("_id stands in no touched file any more")),
            ("row['_id'], songId", Some("file_key, song_id stands in no touched file any more")),
        ] {
            assert_eq!(key_names(&[file("a.py", before, after)]).as_deref(), wanted, "{after}");
        }
        // Moved to another file is not renamed.
        assert_eq!(key_names(&[file("a.py", "x_id", ""), file("b.py", "", "x_id")]), None);
    }

    #[test]
    fn what_can_not_be_checked_is_said() {
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
