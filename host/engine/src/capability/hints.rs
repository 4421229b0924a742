//! Lines that the host adds to the errors of a program that failed, where the sandbox may be why. Each
//! says only what holds for the run.

use std::collections::BTreeSet;
use std::path::Path;

use super::bindings::cofferdam::host::process::{End, Output};

/// The exit codes by which a shell reports that it could not start a program.
const NOT_STARTED: [i32; 2] = [126, 127];

/// What programs print that look for a module at another path.
const MISSING_MODULE: &str = "ModuleNotFoundError";

/// Says which programs a shell may start, if it could not start one. `rule` is the key of the
/// settings, `named` are the programs.
pub(super) fn not_started(
    output: &mut Output,
    program: &str,
    rule: &str,
    named: &BTreeSet<String>,
) {
    if !matches!(output.end, End::Exited(code) if NOT_STARTED.contains(&code)) {
        return;
    }
    let names: Vec<&str> = named.iter().map(String::as_str).collect();
    let names = if names.is_empty() { "no other program".to_owned() } else { names.join(", ") };
    let line = format!(
        "the settings let '{program}' start only: {names} ({rule} in cofferdam.toml, which a person \
         can change)"
    );
    add(output, &line);
}

/// Says that a program worked on a copy of the workspace, if it failed and names the workspace, or
/// did not find a module.
pub(super) fn copied(output: &mut Output, workspace: &Path, copy: &Path) {
    let failed = !matches!(output.end, End::Exited(0));
    let workspace = workspace.display().to_string();
    let says = |text: &str| {
        [&output.stdout, &output.stderr]
            .iter()
            .any(|stream| memchr::memmem::find(&stream.bytes, text.as_bytes()).is_some())
    };
    if failed && (says(&workspace) || says(MISSING_MODULE)) {
        let line = format!(
            "this sandbox shows the workspace as a copy, {}: what names {workspace} itself, such as an \
             editable install, does not lead to the copy (docs/backends.md)\n",
            copy.display()
        );
        // Before the program's own errors, whose last line says most.
        let stderr = &mut output.stderr;
        stderr.total += line.len() as u64;
        stderr.bytes = [line.as_bytes(), &stderr.bytes].concat();
    }
}

/// Adds a line at the end of the errors.
fn add(output: &mut Output, line: &str) {
    let stderr = &mut output.stderr;
    let separator = if stderr.bytes.last().is_none_or(|last| *last == b'\n') { "" } else { "\n" };
    let text = format!("{separator}{line}\n");
    stderr.total += text.len() as u64;
    stderr.bytes.extend(text.into_bytes());
}

#[cfg(test)]
mod tests {
    use super::super::bindings::cofferdam::host::process::Captured;
    use super::*;

    fn output(end: End, stderr: &str) -> Output {
        let captured = |text: &str| Captured { bytes: text.into(), total: text.len() as u64 };
        Output {
            end,
            stdout: captured(""),
            stderr: captured(stderr),
            duration_ms: 0,
            workspace: String::new(),
        }
    }

    #[test]
    fn a_line_is_added_where_a_program_was_not_started() {
        let named = BTreeSet::from(["git".to_owned(), "ls".to_owned()]);
        for (end, stderr, wanted) in [
            (
                End::Exited(127),
                "bash: x",
                "bash: x\nthe settings let 'bash' start only: git, ls (r in",
            ),
            (End::Exited(126), "", "the settings let 'bash' start only: git, ls (r in"),
            (End::Exited(1), "x\n", "x\n"),
            (End::TimedOut, "", ""),
        ] {
            let mut output = output(end, stderr);
            not_started(&mut output, "bash", "r", &named);
            let text = String::from_utf8_lossy(&output.stderr.bytes).into_owned();
            assert!(text.starts_with(wanted), "{text}");
            assert_eq!(output.stderr.total, text.len() as u64);
        }
        let mut output = output(End::Exited(127), "");
        not_started(&mut output, "bash", "r", &BTreeSet::new());
        assert!(output.stderr.bytes.starts_with(b"the settings let 'bash' start only: no other"));
    }

    #[test]
    fn a_line_is_added_where_a_copy_may_be_why_a_program_failed() {
        let (workspace, copy) = (Path::new("/w/s"), Path::new("/var/tmp/c"));
        for (end, stderr, is_added) in [
            (End::Exited(1), "ModuleNotFoundError: No module named 'a'", true),
            (End::Exited(1), "can't open /w/s/a", true),
            (End::Exited(1), "something else", false),
            (End::Exited(0), "ModuleNotFoundError", false),
        ] {
            let mut output = output(end, stderr);
            copied(&mut output, workspace, copy);
            let text = String::from_utf8_lossy(&output.stderr.bytes).into_owned();
            assert_eq!(text.contains("as a copy, /var/tmp/c"), is_added, "{text}");
            assert!(text.ends_with(stderr), "{text}");
            assert_eq!(output.stderr.total, text.len() as u64);
        }
    }
}
