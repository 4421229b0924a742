//! Any bytes are one of git's control files, or none: nothing in a configuration hides what comes
//! after it, and a path that is written as git-config(1) says is read back as it was.
#![no_main]

use cofferdam_core::policy::git::{self, Mark, Named};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let _ = (git::is_head(bytes), git::may_be_configuration(bytes));
    let text = String::from_utf8_lossy(bytes);
    // Before a line feed, which is added below, it would be a part of the end of the line.
    let text = text.trim_end_matches('\r');
    let _ = (Mark::of(text), git::is_head_link(text), git::control_path(text));
    if let Some(path) = git::gitfile(text) {
        assert!(path.len() < text.len() && text.contains(path), "{path}");
    }

    let Named { includes, hooks, words } = git::named_by(text);
    let named: usize = includes.iter().chain(&hooks).chain(&words).map(String::len).sum();
    // A path with a tab is there twice.
    assert!(named <= 2 * text.len(), "more than the text has: {includes:?} {hooks:?} {words:?}");

    // The empty line ends a value that goes on in the next line.
    let more = git::named_by(&format!("{text}\n\n[include]\n\tpath = last\n"));
    assert_eq!(more.includes.last().map(String::as_str), Some("last"), "hidden by what is before");
    assert_eq!(more.includes[..more.includes.len() - 1], includes);
    let line = text.split('\n').next().unwrap_or_default();
    let commented = git::named_by(&format!("# {line}\n[include]path=x"));
    assert_eq!(commented.includes, ["x"], "a comment goes on in the next line");

    let path = text.replace('\0', "");
    let written = git::named_by(&format!("[include]path={}", quoted(&path)));
    assert_eq!(written.includes.first(), Some(&path));
});

fn quoted(path: &str) -> String {
    let escaped = path.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
    format!("\"{escaped}\"")
}
