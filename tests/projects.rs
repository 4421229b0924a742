//! Small projects for linters, test runners and builders to work on: `tests/projects`.

use std::fs;
use std::path::Path;

use crate::support::{Place, project};

/// Puts the project of a language into the workspace.
pub fn write(place: &Place, language: &str) {
    copy(place, &project().join("tests/projects").join(language));
}

/// Puts files into the workspace with which the project of a language does not build.
pub fn break_it(place: &Place, language: &str) {
    copy(place, &project().join("tests/projects/broken").join(language));
}

fn copy(place: &Place, from: &Path) {
    fn below(place: &Place, root: &Path, directory: &Path) {
        let entries = fs::read_dir(directory)
            .unwrap_or_else(|error| panic!("{}: {error}", directory.display()));
        for entry in entries {
            let path = entry.unwrap().path();
            if path.is_dir() {
                below(place, root, &path);
            } else {
                let name = path.strip_prefix(root).unwrap().to_str().unwrap();
                place.write(name, fs::read(&path).unwrap());
            }
        }
    }
    below(place, from, from);
}

#[test]
fn what_breaks_a_project_takes_the_place_of_its_files() {
    for language in ["go", "java", "javascript", "make", "python", "rust"] {
        let (sound, broken) = (Place::new(), Place::new());
        write(&sound, language);
        write(&broken, language);
        break_it(&broken, language);
        assert!(changed(&sound.workspace(), &broken.workspace()) > 0, "{language}");
    }
}

/// How many files of a directory differ in the other, where all of them have to be.
fn changed(one: &Path, other: &Path) -> usize {
    let entries = fs::read_dir(one).unwrap().map(|entry| entry.unwrap());
    entries
        .map(|entry| {
            let (path, there) = (entry.path(), other.join(entry.file_name()));
            if path.is_dir() {
                changed(&path, &there)
            } else {
                usize::from(fs::read(&path).unwrap() != fs::read(&there).unwrap())
            }
        })
        .sum()
}
