//! Validates a report, and converts its problems to the tool's errors.

use cofferdam_report_format::{Args, Problem, Report};
use cofferdam_sdk::{Context, ToolError};

/// Validates a report that was submitted.
///
/// # Errors
/// The first problem: `SummaryMismatch`, `DuplicateFindingId`, `RelativePathError`,
/// `InvalidTimestamp`, or `InvalidTimeRange` if the end is before the start.
pub fn check(args: Args, context: &Context) -> Result<Report, ToolError> {
    let (report, problems) = Report::check(args);
    match problems.first() {
        None => Ok(report),
        Some(problem) => Err(refusal(problem, context)?),
    }
}

fn refusal(problem: &Problem, context: &Context) -> Result<ToolError, ToolError> {
    let (code, message) = match problem {
        Problem::RelativePath { file, .. } => {
            let absolute = context.absolute(&context.resolve(file)?);
            ("RelativePathError", format!("{problem} would be '{absolute}'"))
        }
        Problem::SummaryMismatch(_) => ("SummaryMismatch", problem.to_string()),
        Problem::DuplicateFindingId { .. } => ("DuplicateFindingId", problem.to_string()),
        Problem::InvalidTimestamp { .. } => ("InvalidTimestamp", problem.to_string()),
        Problem::InvalidTimeRange { .. } => ("InvalidTimeRange", problem.to_string()),
    };
    Ok(ToolError::invalid_args(code, message))
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use std::path::Path;

    use serde_json::json;

    use super::*;

    #[test]
    fn each_problem_has_its_code() {
        let finding =
            json!({"id": "A", "file": "/ws/a", "severity": "LOW", "finding": "x", "fix": "y"});
        let report = json!({
            "agent_name": "test-generator",
            "phase": 3,
            "findings": [finding],
            "summary": {"total": 1, "critical": 0, "high": 0, "medium": 0, "low": 1},
            "end_time": "2026-02-07T10:30:00Z",
        });
        let context = Context::for_directory(Path::new("/ws"));
        assert!(check(serde_json::from_value(report.clone()).unwrap(), &context).is_ok());
        for (pointer, value, code, message) in [
            ("/summary/low", json!(2), "SummaryMismatch", "low is 2, expected 1"),
            ("/findings/0/file", json!("src/a.py"), "RelativePathError", "'/ws/src/a.py'"),
            ("/end_time", json!("yesterday"), "InvalidTimestamp", "2026-02-07T11:30:00+01:00"),
        ] {
            let mut wrong = report.clone();
            *wrong.pointer_mut(pointer).unwrap() = value;
            let error = check(serde_json::from_value(wrong).unwrap(), &context).unwrap_err();
            assert_eq!(error.code, code);
            assert!(error.message.contains(message), "{error}");
        }
        let mut twice = report.clone();
        twice["findings"] = json!([finding, finding]);
        twice["summary"]["total"] = json!(2);
        twice["summary"]["low"] = json!(2);
        let error = check(serde_json::from_value(twice).unwrap(), &context).unwrap_err();
        assert_eq!(error.code, "DuplicateFindingId");
        let mut backwards = report;
        backwards["start_time"] = json!("2026-02-07T10:31:00Z");
        let error = check(serde_json::from_value(backwards).unwrap(), &context).unwrap_err();
        assert_eq!(error.code, "InvalidTimeRange");
    }
}
