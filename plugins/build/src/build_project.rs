//! `build_project`: chooses a builder, runs it, and returns errors and warnings.
//!
//! A failed build or a timeout is a result, not an error: the actions reference shows one with
//! `success: false`, agents need the errors as fields, and files written before the failure are
//! kept. The call is an error only if nothing was built at all.

use std::time::Instant;

use cofferdam_sdk::answer::{item_bytes, text_bytes};
use cofferdam_sdk::backend::building::{Diagnostic, Report, Request, Severity};
use cofferdam_sdk::backend::{Error, surest};
use cofferdam_sdk::{Context, ToolError, shorten};
use serde::{Deserialize, Serialize};

use crate::command_line;

/// The frameworks of the actions reference in its order, each with its program. It is also the
/// order of preference among builders that are equally sure.
const FRAMEWORKS: [(&str, &str); 6] = [
    ("go", "go"),
    ("npm", "npm"),
    ("make", "make"),
    ("cargo", "cargo"),
    ("maven", "mvn"),
    ("gradle", "gradle"),
];

/// The default timeout in seconds, as in the examples of the actions reference.
const DEFAULT_TIMEOUT_SECONDS: u32 = 300;

/// The maximum size of the raw output as JSON, in bytes; the middle of longer output is cut out.
const MAX_RAW_BYTES: usize = 10 << 10;

/// The maximum size of the errors and warnings of a result as JSON, in bytes.
const MAX_LISTED_BYTES: usize = 16 << 10;

/// The maximum size of one message, in bytes.
const MAX_MESSAGE_BYTES: usize = 2 << 10;

/// The arguments of the tool.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Args {
    /// What to build, in the framework's terms.
    pub build_target: Option<String>,
    /// A command to run instead of the framework's default.
    pub build_command: Option<String>,
    /// The builder to use.
    pub framework: Option<String>,
    /// The timeout in seconds.
    pub timeout_seconds: Option<u32>,
}

/// The result of the tool.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub struct Output {
    /// The builder that ran.
    pub framework: String,
    /// Whether the build ended with exit code 0.
    pub success: bool,
    /// `None` if the build was stopped.
    pub exit_code: Option<i32>,
    /// The duration, such as `3.456s`.
    pub duration: String,
    /// The number of errors.
    pub error_count: usize,
    /// The first errors, in the order of the output.
    pub errors: Vec<Problem>,
    /// The first warnings, if the errors leave space for them.
    pub warnings: Vec<Problem>,
    /// The output of the build.
    pub raw_output: String,
    /// Whether the build was stopped at its timeout.
    pub timed_out: bool,
    /// Why the build did not complete; empty if it did.
    pub error: String,
    /// How many errors and warnings are not listed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub left_out: Option<String>,
}

/// An error or a warning of the build.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub struct Problem {
    /// Relative to the workspace; empty if no file is named.
    pub file: String,
    /// Counted from 1; 0: unknown.
    pub line: u32,
    /// Counted from 1; 0: unknown.
    pub column: u32,
    /// The message of the compiler or build program.
    pub message: String,
    /// Either `error` or `warning`.
    #[serde(rename = "type")]
    pub kind: &'static str,
}

/// Access to the builders that the operator has.
pub trait Builders {
    /// The names of all builders.
    fn available(&self) -> Vec<String>;
    /// How sure a builder is that it fits the workspace: 0 to 100.
    fn detect(&self, name: &str) -> u8;
    /// Builds with the named builder.
    ///
    /// # Errors
    /// See [`Error`]: the build could not start, or exceeded a limit other than its timeout.
    fn build(&self, name: &str, request: &Request) -> Result<Report, Error>;
}

/// Builds the project in the workspace.
///
/// # Errors
/// `BuilderNotConfigured` or `BuilderNotFound` if there is no builder or none fits;
/// `UnknownFramework`; `InvalidCommand` for the build command; the builder's own:
/// `BuilderUnavailable`, `InvalidBuild`, `BuildLimit`, `BuilderFailed`.
pub fn run(args: &Args, builders: &impl Builders, context: &Context) -> Result<Output, ToolError> {
    let started = Instant::now();
    let command = match &args.build_command {
        Some(command) => command_line::words(command)?,
        None => Vec::new(),
    };
    let wanted = match &args.framework {
        Some(framework) => Some(framework.as_str()),
        None => command.first().and_then(|program| framework_of(program)),
    };
    let framework = choose(wanted, builders)?;
    if let Some(program) = command.first() {
        check_program(program, &framework)?;
    }
    let timeout = args.timeout_seconds.unwrap_or(DEFAULT_TIMEOUT_SECONDS).saturating_mul(1_000);
    let request = Request {
        root: String::new(),
        target: args.build_target.clone(),
        command,
        timeout_ms: context.timeout_ms(Some(timeout), started.elapsed()),
    };
    let report = builders.build(&framework, &request).map_err(tool_error)?;
    Ok(output(framework, report))
}

/// Chooses the requested builder, or the one that is surest that it fits.
fn choose(wanted: Option<&str>, builders: &impl Builders) -> Result<String, ToolError> {
    let available = builders.available();
    if available.is_empty() {
        let message = "there is no builder: the operator has none";
        return Err(ToolError::unavailable("BuilderNotConfigured", message));
    }
    if let Some(wanted) = wanted {
        if available.iter().any(|name| name == wanted) {
            return Ok(wanted.to_owned());
        }
        let message =
            format!("there is no builder '{wanted}' here; there are {}", available.join(", "));
        return Err(if FRAMEWORKS.iter().any(|(known, _)| *known == wanted) {
            ToolError::unavailable("BuilderUnavailable", message)
        } else {
            ToolError::invalid_args("UnknownFramework", message)
        });
    }
    let frameworks = FRAMEWORKS.map(|(framework, _)| framework);
    match surest(&available, |name| builders.detect(name), &frameworks) {
        Some(name) => Ok(name.to_owned()),
        None => Err(ToolError::not_found(
            "BuilderNotFound",
            format!(
                "the project is of no kind that the builders know ({}); name one in 'framework', \
                 or add its file, such as go.mod, package.json, Makefile, Cargo.toml, pom.xml or \
                 build.gradle",
                available.join(", ")
            ),
        )),
    }
}

fn framework_of(program: &str) -> Option<&'static str> {
    FRAMEWORKS.iter().find(|(_, own)| *own == program).map(|(framework, _)| *framework)
}

/// Checks that a known framework's program is allowed for `framework`. The host lets a builder run
/// only its own programs; this check has a more helpful message.
fn check_program(program: &str, framework: &str) -> Result<(), ToolError> {
    match FRAMEWORKS.iter().find(|(known, _)| *known == framework) {
        Some((_, own)) if *own != program => Err(ToolError::invalid_args(
            "InvalidCommand",
            format!(
                "the framework '{framework}' runs '{own}', not '{program}'; other programs need \
                 run_command, where the operator has granted a shell"
            ),
        )),
        _ => Ok(()),
    }
}

fn tool_error(error: Error) -> ToolError {
    match error {
        Error::Unavailable(message) => ToolError::unavailable("BuilderUnavailable", message),
        Error::Invalid(message) => ToolError::invalid_args("InvalidBuild", message),
        Error::Limit(message) => ToolError::limit("BuildLimit", message),
        Error::Failed(message) => ToolError::failed("BuilderFailed", message),
    }
}

fn output(framework: String, report: Report) -> Output {
    let duration = format!("{}.{:03}s", report.duration_ms / 1_000, report.duration_ms % 1_000);
    let mut space = MAX_LISTED_BYTES;
    let (errors, error_count) = listed(&report, Severity::Error, &mut space);
    let (warnings, warning_count) = listed(&report, Severity::Warning, &mut space);
    let left_out: Vec<String> =
        [("errors", errors.len(), error_count), ("warnings", warnings.len(), warning_count)]
            .into_iter()
            .filter(|(_, listed, count)| listed < count)
            .map(|(what, listed, count)| format!("{} of {count} {what}", count - listed))
            .collect();
    Output {
        framework,
        success: report.exit_code == Some(0),
        exit_code: report.exit_code,
        error_count,
        errors,
        warnings,
        raw_output: raw_output(&report.raw),
        timed_out: report.timed_out,
        error: if report.timed_out {
            format!("the build was stopped after {duration}")
        } else {
            String::new()
        },
        duration,
        left_out: Some(left_out.join(", ")).filter(|text| !text.is_empty()),
    }
}

/// The first problems of a severity that fit in the space left, and how many there are in total.
fn listed(report: &Report, severity: Severity, space: &mut usize) -> (Vec<Problem>, usize) {
    let found = || report.diagnostics.iter().filter(|found| found.severity == severity);
    let problems = found().map(problem).map_while(|problem| {
        *space = space.checked_sub(item_bytes(&problem))?;
        Some(problem)
    });
    (problems.collect(), found().count())
}

fn problem(found: &Diagnostic) -> Problem {
    Problem {
        file: found.path.clone(),
        line: found.line,
        column: found.column,
        message: shorten(&found.message, MAX_MESSAGE_BYTES).into_owned(),
        kind: match found.severity {
            Severity::Error => "error",
            Severity::Warning => "warning",
        },
    }
}

/// The beginning and the end of the output; less of output that takes more bytes as JSON.
fn raw_output(raw: &str) -> String {
    let mut most = MAX_RAW_BYTES;
    loop {
        let short = shorten(raw, most);
        if text_bytes(&short) <= MAX_RAW_BYTES {
            return short.into_owned();
        }
        most -= most / 4;
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use std::path::Path;

    use cofferdam_testing::{examples, fits, parsed, takes_examples};

    use super::*;

    type Fixed = cofferdam_testing::Fixed<Request, Result<Report, Error>>;

    fn fixed(sure: &[(&'static str, u8)]) -> Fixed {
        Fixed::new(sure, Ok(report(0)))
    }

    impl Builders for Fixed {
        fn available(&self) -> Vec<String> {
            self.names()
        }
        fn detect(&self, name: &str) -> u8 {
            self.sureness(name)
        }
        fn build(&self, name: &str, request: &Request) -> Result<Report, Error> {
            self.ask(name, request)
        }
    }

    fn report(exit_code: i32) -> Report {
        Report {
            diagnostics: Vec::new(),
            exit_code: Some(exit_code),
            timed_out: false,
            duration_ms: 3_456,
            raw: "raw".to_owned(),
        }
    }

    fn diagnostic(line: u32, severity: Severity) -> Diagnostic {
        Diagnostic {
            path: "internal/foo.go".to_owned(),
            line,
            column: 2,
            message: "undefined: someFunc".to_owned(),
            severity,
        }
    }

    fn context() -> Context {
        let mut context = Context::for_directory(Path::new("/project"));
        context.deadline_ms = 600_000;
        context
    }

    /// The name of the builder that ran, or the error's code.
    fn asked(args: &Args, builders: &Fixed) -> Result<String, String> {
        run(args, builders, &context()).map(|output| output.framework).map_err(|error| error.code)
    }

    #[test]
    fn the_surest_builder_is_chosen() {
        for (sure, wanted) in [
            (&[("make", 90), ("go", 90), ("npm", 90)][..], Ok("go")),
            (&[("gradle", 90), ("npm", 20)], Ok("gradle")),
            (&[("bazel", 90), ("maven", 90)], Ok("maven")),
            (&[("bazel", 91), ("maven", 90)], Ok("bazel")),
            (&[("make", 0), ("go", 0)], Err("BuilderNotFound")),
            (&[], Err("BuilderNotConfigured")),
        ] {
            let wanted = wanted.map(str::to_owned).map_err(str::to_owned);
            assert_eq!(asked(&Args::default(), &fixed(sure)), wanted, "{sure:?}");
        }
    }

    #[test]
    fn a_framework_or_a_command_selects_the_builder() {
        let builders = fixed(&[("go", 90), ("make", 0), ("bazel", 0)]);
        for (framework, command, wanted) in [
            (Some("make"), None, Ok("make")),
            (Some("bazel"), Some("bazel build x"), Ok("bazel")),
            (None, Some("make all"), Ok("make")),
            (None, Some("go build -v -tags production ./..."), Ok("go")),
            (Some("go"), Some("go build -o myapp ./cmd/app"), Ok("go")),
            (Some("go"), Some("make"), Err("InvalidCommand")),
            (None, Some("rm -r x"), Err("InvalidCommand")),
            (None, Some("./go build"), Err("InvalidCommand")),
            (None, Some("go build && rm x"), Err("InvalidCommand")),
            (None, Some("cargo build"), Err("BuilderUnavailable")),
            (Some("cargo"), None, Err("BuilderUnavailable")),
            (Some("ninja"), None, Err("UnknownFramework")),
        ] {
            let args = Args {
                framework: framework.map(str::to_owned),
                build_command: command.map(str::to_owned),
                ..Args::default()
            };
            let wanted = wanted.map(str::to_owned).map_err(str::to_owned);
            assert_eq!(asked(&args, &builders), wanted, "{args:?}");
        }
    }

    #[test]
    fn arguments_are_passed_to_the_builder() {
        let builders = fixed(&[("go", 90)]);
        let args = Args {
            build_target: Some("myapp".to_owned()),
            build_command: Some("go build -o 'my app'".to_owned()),
            framework: None,
            timeout_seconds: Some(60),
        };
        run(&args, &builders, &context()).unwrap();
        let asked = builders.asked.borrow();
        let (name, request) = &asked[0];
        assert_eq!((name.as_str(), request.root.as_str(), request.timeout_ms), ("go", "", 60_000));
        assert_eq!(request.target.as_deref(), Some("myapp"));
        assert_eq!(request.command, ["go", "build", "-o", "my app"]);
    }

    #[test]
    fn a_failed_build_is_a_result_not_an_error() {
        let mut builders = fixed(&[("go", 90)]);
        let mut failed = report(1);
        failed.diagnostics = vec![
            diagnostic(10, Severity::Error),
            diagnostic(11, Severity::Warning),
            diagnostic(12, Severity::Error),
        ];
        builders.answer = Ok(failed.clone());
        let output = run(&Args::default(), &builders, &context()).unwrap();
        assert_eq!((output.success, output.exit_code), (false, Some(1)));
        assert_eq!((output.error_count, output.duration.as_str()), (2, "3.456s"));
        let errors: Vec<_> = output.errors.iter().map(|error| (error.line, error.kind)).collect();
        assert_eq!(errors, [(10, "error"), (12, "error")]);
        assert_eq!((output.warnings[0].line, output.warnings[0].kind), (11, "warning"));
        assert_eq!((output.error.as_str(), output.raw_output.as_str()), ("", "raw"));
    }

    #[test]
    fn a_long_result_has_its_first_errors_and_how_many_there_are() {
        let mut builders = fixed(&[("go", 90)]);
        let mut failed = report(1);
        failed.diagnostics = vec![diagnostic(2, Severity::Warning); 300];
        failed.diagnostics.extend(vec![diagnostic(1, Severity::Error); 2_000]);
        failed.diagnostics[300].message = "m".repeat(100_000);
        for raw in ["x".repeat(1_000_000), "\u{1}\n".repeat(1_000_000)] {
            failed.raw = raw;
            builders.answer = Ok(failed.clone());
            let output = run(&Args::default(), &builders, &context()).unwrap();
            assert_eq!((output.error_count, output.warnings.len()), (2_000, 0));
            let left_out =
                format!("{} of 2000 errors, 300 of 300 warnings", 2_000 - output.errors.len());
            assert_eq!(output.left_out.as_deref(), Some(left_out.as_str()));
            let bytes = serde_json::to_string(&output).unwrap().len();
            assert!((20_000..28 << 10).contains(&bytes), "{bytes}");
            assert!(output.raw_output.contains(" bytes left out ..."));
        }

        failed.diagnostics.truncate(300);
        builders.answer = Ok(failed);
        let output = run(&Args::default(), &builders, &context()).unwrap();
        let left_out = format!("{} of 300 warnings", 300 - output.warnings.len());
        assert_eq!(output.left_out, Some(left_out));
        assert!(output.warnings.len() > 50);
    }

    #[test]
    fn a_build_timeout_is_a_result_not_an_error() {
        let mut builders = fixed(&[("go", 90)]);
        builders.answer = Ok(Report { exit_code: None, timed_out: true, ..report(0) });
        let output = run(&Args::default(), &builders, &context()).unwrap();
        assert_eq!((output.success, output.exit_code, output.timed_out), (false, None, true));
        assert_eq!(output.error, "the build was stopped after 3.456s");
    }

    #[test]
    fn an_unavailable_builder_is_an_error() {
        for (error, code) in [
            (Error::Unavailable("x".to_owned()), "BuilderUnavailable"),
            (Error::Invalid("x".to_owned()), "InvalidBuild"),
            (Error::Limit("x".to_owned()), "BuildLimit"),
            (Error::Failed("x".to_owned()), "BuilderFailed"),
        ] {
            let mut builders = fixed(&[("go", 90)]);
            builders.answer = Err(error);
            let error = run(&Args::default(), &builders, &context()).unwrap_err();
            assert_eq!((error.code.as_str(), error.message.as_str()), (code, "x"));
        }
    }

    /// Agents read these fields; names and order are those of the actions reference.
    #[test]
    fn the_result_has_the_documented_fields() {
        let answer = serde_json::to_value(output("go".to_owned(), report(0))).unwrap();
        let fields: Vec<&String> = answer.as_object().unwrap().keys().collect();
        assert_eq!(
            fields,
            [
                "framework",
                "success",
                "exit_code",
                "duration",
                "error_count",
                "errors",
                "warnings",
                "raw_output",
                "timed_out",
                "error"
            ]
        );
    }

    #[test]
    fn schemas_and_types_agree() {
        takes_examples::<Args>(&parsed(include_str!(
            "../../../schemas/tools/build.build_project.input.json"
        )));
        let out = parsed(include_str!("../../../schemas/tools/build.build_project.output.json"));
        examples(&out);
        let mut failed = report(1);
        failed.diagnostics = vec![diagnostic(0, Severity::Error), diagnostic(1, Severity::Warning)];
        let stopped = Report { exit_code: None, timed_out: true, ..report(0) };
        for report in [report(0), failed, stopped] {
            let answer = serde_json::to_value(output("go".to_owned(), report)).unwrap();
            fits(&out, &answer);
        }
    }
}
