//! Attempts through the host's own `changes` and `scan`.

use cofferdam_sdk::bindings::cofferdam::host::changes::{self, Change, Rename, Write};
use cofferdam_sdk::bindings::cofferdam::host::scan::{Query, Scanner};

use crate::Tried;

/// Tries one thing; `None` for what is nothing of these two.
pub fn attempt(what: &str, path: &str, target: &str) -> Option<Tried> {
    Some(match what {
        "changes-write" => apply(&[write(path, "hostile", false)]),
        "changes-create" => apply(&[write(path, "hostile", true)]),
        "changes-remove" => apply(&[Change::Remove(path.to_owned())]),
        "changes-rename" => {
            apply(&[Change::Rename(Rename { source: path.to_owned(), target: target.to_owned() })])
        }
        "changes-like" => apply(&[with_permissions_of(path, target)]),
        // The first would be allowed.
        "changes-both" => apply(&[write(target, "hostile", false), write(path, "hostile", false)]),
        "changes-many" => many(path, target.parse().unwrap_or(0)),
        "scan" => scan(&query(path, false)),
        "scan-following" => scan(&query(path, true)),
        "scan-ignoring" => scan(&Query { ignore_files: true, ..query(path, false) }),
        "scan-glob" => {
            Scanner::open(&Query { globs: vec![deep_glob(target)], ..query(path, false) })
                .map(|found| found.count().to_string())
                .map_err(|error| format!("{error:?}"))
        }
        "scan-ahead" => ahead(path, target.parse().unwrap_or(0)),
        _ => return None,
    })
}

fn write(path: &str, contents: &str, create_new: bool) -> Change {
    Change::Write(Write {
        path: path.to_owned(),
        contents: contents.into(),
        like: None,
        executable: None,
        create_new,
    })
}

fn with_permissions_of(path: &str, like: &str) -> Change {
    Change::Write(Write {
        path: path.to_owned(),
        contents: b"hostile".into(),
        like: Some(like.to_owned()),
        executable: None,
        create_new: false,
    })
}

fn apply(changes: &[Change]) -> Tried {
    changes::apply(changes).map(|()| String::new()).map_err(|error| format!("{error:?}"))
}

/// Replaces a file.
pub fn replace(path: &str, contents: &str) -> Tried {
    apply(&[write(path, contents, false)])
}

/// Removes a file, if there is one.
pub fn remove(path: &str) -> Tried {
    apply(&[Change::Remove(path.to_owned())])
}

/// Creates many files in one go.
fn many(directory: &str, count: u32) -> Tried {
    let changes: Vec<Change> =
        (0..count).map(|number| write(&format!("{directory}/{number}"), "", false)).collect();
    apply(&changes)
}

/// A query for everything.
pub fn query(root: &str, follow_links: bool) -> Query {
    Query {
        root: root.to_owned(),
        globs: Vec::new(),
        exclude_globs: Vec::new(),
        types: Vec::new(),
        ignore_files: false,
        hidden: true,
        follow_links,
        max_file_size: None,
    }
}

/// Everything that a scan tells: `path size` of each file, then all contents.
pub fn scan(query: &Query) -> Tried {
    let scanner = Scanner::open(query).map_err(|error| format!("{error:?}"))?;
    let mut told = String::new();
    for file in scanner.files(0, u32::MAX) {
        told.push_str(&format!("{} {}\n", file.path, file.size));
    }
    loop {
        let batch = scanner.next(1 << 16);
        if batch.ids.is_empty() {
            return Ok(told);
        }
        for id in &batch.ids {
            told.push_str(&scanner.path(*id));
            told.push('\n');
        }
        told.push_str(&String::from_utf8_lossy(&batch.data));
        told.push('\n');
    }
}

/// A glob with alternatives in alternatives, `depth` deep.
fn deep_glob(depth: &str) -> String {
    let depth = depth.parse().unwrap_or(0);
    format!("{}x{}", "{".repeat(depth), "}".repeat(depth))
}

/// Makes `count` scanners read ahead, and takes nothing further from them.
fn ahead(root: &str, count: usize) -> Tried {
    let mut scanners = Vec::new();
    for _ in 0..count {
        let scanner = Scanner::open(&query(root, false)).map_err(|error| format!("{error:?}"))?;
        scanner.next(u32::MAX);
        scanners.push(scanner);
    }
    Ok(scanners.len().to_string())
}
