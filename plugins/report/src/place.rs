//! Finds the path for a new report.

use std::collections::HashSet;
use std::{fs, io};

use cofferdam_report_format::Report;
use cofferdam_report_format::place::{EXTENSIONS, directory, stem};
use cofferdam_sdk::{Context, ToolError};

/// The path of a new report, relative to the workspace and without extension: the first for which
/// no file with any of the [`EXTENSIONS`] exists.
///
/// # Errors
/// Those of [`Context::resolve`] and [`ToolError::io`] for the directory.
pub fn find(report: &Report, context: &Context) -> Result<String, ToolError> {
    let directory = directory(report);
    let taken = names(&directory, context)?;
    let is_taken = |stem: &str| {
        EXTENSIONS.iter().any(|extension| taken.contains(&format!("{stem}.{extension}")))
    };
    let agent = report.args.agent_name;
    let mut number = 1;
    while is_taken(&stem(agent, number)) {
        number += 1;
    }
    Ok(format!("{directory}/{}", stem(agent, number)))
}

/// The names in a directory; empty if it does not exist.
fn names(directory: &str, context: &Context) -> Result<HashSet<String>, ToolError> {
    let local = context.local(&context.resolve(directory)?);
    let list = |local| {
        fs::read_dir(local)?
            .map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned()))
            .collect::<io::Result<_>>()
    };
    match list(local) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(HashSet::new()),
        names => names.map_err(|error| ToolError::io(directory, &error)),
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use serde_json::json;

    use super::*;

    #[test]
    fn a_report_gets_the_first_free_name() {
        let root = tempfile::tempdir().unwrap();
        let context = Context::for_directory(root.path());
        let place = |phase: serde_json::Value, wave: Option<&str>| {
            let mut args = json!({
                "agent_name": "code-reviewer",
                "phase": phase,
                "findings": [],
                "summary": {"total": 0, "critical": 0, "high": 0, "medium": 0, "low": 0},
            });
            if let Some(wave) = wave {
                args["wave"] = wave.into();
            }
            let args = serde_json::from_value(args).unwrap();
            find(&Report::check(args).0, &context)
        };
        for (phase, wave, wanted) in [
            (json!(3), None, "reports/phase-3/code-reviewer"),
            (json!(3.0), None, "reports/phase-3/code-reviewer"),
            (json!(3.4), Some("Wave2"), "reports/phase-3.4/wave-2/code-reviewer"),
            (json!(0), Some("Wave1"), "reports/phase-0/wave-1/code-reviewer"),
            (json!(1e300), None, "reports/phase-1e+300/code-reviewer"),
        ] {
            assert_eq!(place(phase, wave).unwrap(), wanted);
        }
        let directory = root.path().join("reports/phase-3");
        fs::create_dir_all(&directory).unwrap();
        for (name, wanted) in [
            ("code-reviewer-2.json", "code-reviewer"),
            ("security-auditor.json", "code-reviewer"),
            ("code-reviewer.html", "code-reviewer-3"),
            ("code-reviewer-4.md", "code-reviewer-3"),
            ("code-reviewer-3.md", "code-reviewer-5"),
        ] {
            fs::write(directory.join(name), "").unwrap();
            let wanted = format!("reports/phase-3/{wanted}");
            assert_eq!(place(json!(3), None).unwrap(), wanted, "{name}");
        }
        fs::write(root.path().join("reports/phase-4"), "").unwrap();
        let error = place(json!(4), None).unwrap_err();
        assert!(error.message.contains("reports/phase-4"), "{error}");
    }
}
