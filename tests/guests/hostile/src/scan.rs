//! Attempts through the host's own interface `scan`.

use cofferdam_sdk::bindings::cofferdam::host::scan::{Query, Scanner};

use crate::Tried;

/// Makes one attempt; returns `None` for one that is not of this module.
pub fn attempt(what: &str, path: &str, target: &str) -> Option<Tried> {
    Some(match what {
        "scan" => scan(&query(path, false)),
        "scan-following" => scan(&query(path, true)),
        "scan-ignoring" => scan(&Query { ignore_files: true, ..query(path, false) }),
        "scan-glob" => {
            Scanner::open(&Query { globs: vec![deep_glob(target)], ..query(path, false) })
                .map(|found| found.count().to_string())
                .map_err(|error| format!("{error:?}"))
        }
        "write-and-scan" => match std::fs::write("/workspace/staged.txt", "staged") {
            Ok(()) => scan(&query(path, target == "following")),
            Err(error) => Err(error.to_string()),
        },
        "scan-ahead" => ahead(path, target.parse().unwrap_or(0)),
        _ => return None,
    })
}

/// A query for all files.
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

/// Everything that a scan returns: `path size` of each file, then all contents.
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

/// A glob with alternatives that are nested `depth` deep.
fn deep_glob(depth: &str) -> String {
    let depth = depth.parse().unwrap_or(0);
    format!("{}x{}", "{".repeat(depth), "}".repeat(depth))
}

/// Starts `count` scanners, which read ahead, and reads nothing further from them.
fn ahead(root: &str, count: usize) -> Tried {
    let mut scanners = Vec::new();
    for _ in 0..count {
        let scanner = Scanner::open(&query(root, false)).map_err(|error| format!("{error:?}"))?;
        scanner.next(u32::MAX);
        scanners.push(scanner);
    }
    Ok(scanners.len().to_string())
}
