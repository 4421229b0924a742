//! golangci-lint, versions 1 and 2. The code of a finding is the name of the linter that reported
//! it.
//!
//! It lints packages; for a target file, only findings in that file of its package are reported.
//! Fixes are supported from version 1.63. Those of formatters are left out, as by golangci-lint's
//! own `--fix`: their offsets are not those of the file.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use cofferdam_sdk::backend::Error;
use cofferdam_sdk::backend::linting::{Finding, Fix, Report, Severity};
use cofferdam_sdk::process::{self, Output};
use cofferdam_sdk::text::Unit;
use cofferdam_sdk::{Context, WorkspacePath};
use serde::{Deserialize, Deserializer};

use crate::files;
use crate::findings::{Findings, SYNTAX_ERROR, finding, fix};
use crate::job::Job;
use crate::program::{Program, Run, error_message};

const GOLANGCI_LINT: Program = Program { name: "golangci-lint" };

/// Linters that reformat whole files.
const FORMATTERS: [&str; 6] = ["gci", "gofmt", "gofumpt", "goimports", "golines", "swaggo"];

/// The version of golangci-lint.
///
/// # Errors
/// As [`Program::version`].
pub fn version(context: &Context) -> Result<String, Error> {
    GOLANGCI_LINT.version(&["version"], context)
}

/// Lints with golangci-lint. The selected codes are full names of linters.
///
/// # Errors
/// `Invalid` for a linter or a configuration that golangci-lint rejects; those of [`Program::run`].
pub fn lint(job: &Job<'_>) -> Result<Report, Error> {
    let version = version(job.context)?;
    let output = GOLANGCI_LINT.run(job, run(job, release(&version)))?;
    let findings = read(job, &output)?;
    Ok(findings.report(files::count(job, &["go"]), &output))
}

/// Major and minor version of a release.
fn release(version: &str) -> (u32, u32) {
    let mut numbers = version.split('.').map(|number| number.parse().unwrap_or(0));
    (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0))
}

fn run<'a>(job: &'a Job<'_>, release: (u32, u32)) -> Run<'a> {
    let mut run = Run::new(job, &["run", "--allow-parallel-runners", "--max-issues-per-linter=0"]);
    run.arguments.push("--max-same-issues=0".to_owned());
    let cache = process::cache_directory(job.context);
    run.environment = vec![
        ("GOCACHE", format!("{cache}/go-build")),
        ("GOLANGCI_LINT_CACHE", format!("{cache}/golangci-lint")),
        ("GOFLAGS", "-modcacherw".to_owned()),
    ];
    if release < (2, 0) {
        run.arguments.push("--out-format=json".to_owned());
    } else {
        run.arguments
            .extend(["--output.json.path=stdout", "--show-stats=false"].map(str::to_owned));
    }
    // By default, paths are relative to the configuration file, which may be in a parent directory.
    if release >= (2, 1) {
        run.arguments.push("--path-mode=abs".to_owned());
    }
    if job.timeout_ms > 0 {
        // The default timeout of version 1 is a minute.
        run.arguments.push(format!("--timeout={}ms", job.timeout_ms));
    }
    if let Some(config) = &job.config {
        run.option("--config", job.argument(config));
    }
    if !job.select.is_empty() {
        let linters = job.select.join(",");
        if release < (2, 0) {
            run.arguments.extend(["--disable-all".to_owned(), format!("--enable={linters}")]);
        } else {
            run.arguments.push(format!("--enable-only={linters}"));
        }
    }
    run.arguments.push("--".to_owned());
    run.arguments.extend(packages(job));
    run
}

/// The targets as package patterns: a directory stands for everything below it, a file for its
/// directory.
fn packages(job: &Job<'_>) -> Vec<String> {
    let package = |target: &WorkspacePath| {
        let directory = job.from_root(&job.directory_of(target));
        let directory =
            if directory.starts_with('.') { directory } else { format!("./{directory}") };
        if job.is_directory(target) { format!("{directory}/...") } else { directory }
    };
    let mut packages: Vec<_> = job.targets.iter().map(package).collect();
    packages.sort();
    packages.dedup();
    packages
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Answer {
    #[serde(default, deserialize_with = "null_is_empty")]
    issues: Vec<Issue>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Issue {
    from_linter: String,
    text: String,
    #[serde(default)]
    severity: String,
    pos: Position,
    #[serde(default, deserialize_with = "null_is_empty")]
    suggested_fixes: Vec<Suggestion>,
}

/// Line and column, from 1, columns in bytes; 0: unknown.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Position {
    filename: String,
    line: u32,
    column: u32,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Suggestion {
    #[serde(default)]
    message: String,
    #[serde(default, deserialize_with = "null_is_empty")]
    text_edits: Vec<TextEdit>,
}

/// An edit, with byte offsets into the issue's file.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct TextEdit {
    pos: usize,
    end: usize,
    /// The new text in base64.
    new_text: Option<String>,
}

/// Deserializes `null` as an empty list, since Go writes nil slices so.
fn null_is_empty<'de, D: Deserializer<'de>, T: Deserialize<'de>>(
    value: D,
) -> Result<Vec<T>, D::Error> {
    Ok(Option::deserialize(value)?.unwrap_or_default())
}

/// The exit codes of golangci-lint that are handled.
mod status {
    pub const FAILURE: i32 = 3;
    pub const TIMEOUT: i32 = 4;
    pub const NO_GO_FILES: i32 = 5;
}

/// The findings in the JSON that golangci-lint printed.
fn read<'a>(job: &'a Job<'a>, output: &Output) -> Result<Findings<'a>, Error> {
    let printed = GOLANGCI_LINT.stdout(output)?;
    let mut findings = Findings::new(job);
    match output.exit_code() {
        Some(status::NO_GO_FILES) => return Ok(findings),
        Some(status::TIMEOUT) => {
            let words = error_message(output);
            return Err(Error::Limit(format!("golangci-lint reached its own timeout: {words}")));
        }
        _ => {}
    }
    let Some(json) = printed.lines().find(|line| line.starts_with("{\"Issues\"")) else {
        return Err(refused(output));
    };
    let answer: Answer =
        serde_json::from_str(json).map_err(|error| GOLANGCI_LINT.unreadable(output, &error))?;
    // It printed its findings so far and then failed, so the result must not be clean.
    if output.exit_code() == Some(status::FAILURE) && answer.issues.is_empty() {
        return Err(refused(output));
    }
    for issue in &answer.issues {
        if let Some(path) = job.printed(output, &issue.pos.filename) {
            findings.add(&path, issue.finding(job, &path));
        }
    }
    Ok(findings)
}

/// The error for a run without findings, usually because of a configuration, an option or a module.
fn refused(output: &Output) -> Error {
    let said = output.stderr_text();
    if said.contains("panic: ") || said.trim().is_empty() {
        return GOLANGCI_LINT.failed(output);
    }
    // Without a module cache of the account, and with one.
    if said.contains("module lookup disabled by GOPROXY=off") || said.contains("reading file:///") {
        return Error::Unavailable(format!(
            "golangci-lint: modules are missing, and there is no network to get them: {}",
            error_message(output)
        ));
    }
    GOLANGCI_LINT.refused(&said)
}

impl Issue {
    fn finding(&self, job: &Job<'_>, path: &WorkspacePath) -> Finding {
        let code = if self.is_syntax_error() { SYNTAX_ERROR } else { &self.from_linter };
        let severity = match self.severity.as_str() {
            "" | "error" => Severity::Error,
            "warning" | "high" | "medium" => Severity::Warning,
            _ => Severity::Info,
        };
        let column = |before: u32| match job.text(path) {
            Some(text) => text.column(self.pos.line, before, Unit::Byte),
            None => before + 1,
        };
        Finding {
            line: self.pos.line,
            column: self.pos.column.checked_sub(1).map_or(0, column),
            url: (code != SYNTAX_ERROR).then(|| self.url()),
            fix: self.fix(job, path),
            ..finding(path, code, severity, &self.text)
        }
    }

    /// Whether the error is from the compiler's parser, and not from its type checker.
    fn is_syntax_error(&self) -> bool {
        let said = self.text.trim_start();
        self.from_linter == "typecheck"
            && ["expected ", "syntax error", "illegal character", "invalid character"]
                .iter()
                .any(|start| said.starts_with(start))
    }

    fn url(&self) -> String {
        format!("https://golangci-lint.run/docs/linters/configuration/#{}", self.from_linter)
    }

    /// The first suggested fix; others are alternatives. All are unsafe, since linters do not say
    /// whether the meaning is kept.
    fn fix(&self, job: &Job<'_>, path: &WorkspacePath) -> Option<Fix> {
        let suggestion = self.suggested_fixes.first()?;
        if FORMATTERS.contains(&self.from_linter.as_str()) {
            return None;
        }
        let length = job.text(path)?.bytes().len();
        let edit = |edit: &TextEdit| {
            let text = BASE64.decode(edit.new_text.as_deref().unwrap_or_default()).ok()?;
            let fits = edit.pos <= edit.end && edit.end <= length;
            fits.then_some((edit.pos, edit.end, String::from_utf8(text).ok()?))
        };
        let edits = suggestion.text_edits.iter().map(edit).collect::<Option<Vec<_>>>()?;
        let description = match suggestion.message.as_str() {
            "" => "apply the suggestion",
            message => message,
        };
        fix(path, description, false, edits)
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use super::*;
    use crate::testing::{Workspace, places, request};

    const MAIN: &str = "package main\n\nfunc main() {\n\ts := \"é\"; x := 1\n}\n";

    fn workspace() -> Workspace {
        Workspace::new(&[
            ("main.go", MAIN),
            ("internal/a/a.go", "package a\n"),
            ("internal/a/b.go", "package a\n"),
            ("cmd/x/x.go", "package main\n"),
        ])
    }

    #[test]
    fn files_are_linted_as_packages() {
        let workspace = workspace();
        for (root, paths, wanted) in [
            ("", &["."][..], &["./..."][..]),
            ("", &["main.go"], &["."]),
            ("", &["internal/a/a.go", "internal/a/b.go"], &["./internal/a"]),
            ("", &["internal", "cmd/x/x.go"], &["./cmd/x", "./internal/..."]),
            ("internal", &["internal/a", "cmd"], &["../cmd/...", "./a/..."]),
        ] {
            let mut request = request(paths);
            request.root = root.to_owned();
            let job = Job::new(&request, &workspace.context).unwrap();
            assert_eq!(packages(&job), wanted, "{root:?} {paths:?}");
        }
    }

    #[test]
    fn each_version_has_its_options() {
        let workspace = workspace();
        let mut request = request(&["."]);
        request.select = vec!["unused".to_owned(), "govet".to_owned()];
        request.timeout_ms = 0;
        let job = Job::new(&request, &workspace.context).unwrap();
        let options = |version| run(&job, release(version)).arguments.join(" ");
        let common = "run --allow-parallel-runners --max-issues-per-linter=0 --max-same-issues=0";
        assert_eq!(
            options("1.64.8"),
            format!("{common} --out-format=json --disable-all --enable=unused,govet -- ./...")
        );
        assert_eq!(
            options("2.0.2"),
            format!(
                "{common} --output.json.path=stdout --show-stats=false \
                 --enable-only=unused,govet -- ./..."
            )
        );
        assert!(options("2.7.2").contains(" --path-mode=abs "));
    }

    /// Written by the format in golangci-lint's own tests, since version 1 was not available for a
    /// recording.
    const VERSION_1: &str = r#"{"Issues":[{"FromLinter":"gochecknoinits","Text":"don't use `init` function","Severity":"","SourceLines":["func init() {"],"Replacement":null,"Pos":{"Filename":"main.go","Offset":162,"Line":13,"Column":1},"ExpectNoLint":false,"ExpectedNoLintLinter":""},{"FromLinter":"goimports","Text":"File is not `goimports`-ed","Severity":"","SourceLines":[""],"Replacement":{"NeedOnlyDelete":false,"NewLines":["",""],"Inline":null},"Pos":{"Filename":"internal/a/a.go","Offset":0,"Line":6,"Column":0},"ExpectNoLint":false,"ExpectedNoLintLinter":""},{"FromLinter":"revive","Text":"unused-parameter: parameter 'pass' seems to be unused","Severity":"warning","SourceLines":["\t\t\tRun: func(pass *analysis.Pass) (any, error) {"],"Replacement":null,"LineRange":{"From":49,"To":49},"Pos":{"Filename":"internal/a/b.go","Offset":921,"Line":49,"Column":14},"ExpectNoLint":false,"ExpectedNoLintLinter":""}],"Report":{"Warnings":[{"Tag":"runner","Text":"The linter 'maligned' is deprecated"}],"Linters":[{"Name":"asasalint"}]}}
"#;

    const VERSION_2: &str = r#"{"Issues":[{"FromLinter":"unused","Text":"declared and not used: x","Severity":"","SourceLines":["\ts := \"é\"; x := 1"],"Pos":{"Filename":"/w/main.go","Offset":42,"Line":4,"Column":13},"SuggestedFixes":[{"Message":"Remove it","TextEdits":[{"Pos":38,"End":46,"NewText":""}]},{"Message":"Name it _","TextEdits":[{"Pos":42,"End":43,"NewText":"Xw=="}]}],"ExpectNoLint":false,"ExpectedNoLintLinter":""},{"FromLinter":"gofmt","Text":"File is not properly formatted","Severity":"","SourceLines":["x"],"Pos":{"Filename":"/w/main.go","Offset":0,"Line":4,"Column":1},"SuggestedFixes":[{"Message":"","TextEdits":[{"Pos":0,"End":0,"NewText":"eA=="}]}],"ExpectNoLint":false,"ExpectedNoLintLinter":""},{"FromLinter":"typecheck","Text":"expected ';', found 'EOF'","Severity":"","SourceLines":null,"Pos":{"Filename":"/w/cmd/x/x.go","Offset":0,"Line":2,"Column":3},"ExpectNoLint":false,"ExpectedNoLintLinter":""}],"Report":{"Linters":[]}}
"#;

    fn lint(paths: &[&str], code: i32, stdout: &str, stderr: &str) -> Result<Report, Error> {
        let workspace = workspace();
        let request = request(paths);
        let job = Job::new(&request, &workspace.context).unwrap();
        let output = Workspace::output(code, stdout, stderr);
        Ok(read(&job, &output)?.report(1, &output))
    }

    #[test]
    fn the_json_of_version_1_becomes_findings() {
        let report = lint(&["main.go", "internal/a/b.go"], 1, VERSION_1, "").unwrap();
        assert_eq!(
            places(&report),
            ["internal/a/b.go:49:14 warning revive", "main.go:13:1 error gochecknoinits"]
        );
    }

    #[test]
    fn the_json_of_version_2_becomes_findings() {
        let printed = format!("{VERSION_2}3 issues:\n* unused: 1\n");
        let report = lint(&["."], 1, &printed, "").unwrap();
        assert_eq!(
            places(&report),
            [
                "cmd/x/x.go:2:3 error syntax-error",
                "main.go:4:1 error gofmt",
                "main.go:4:12 error unused",
            ]
        );
        assert!(report.findings[1].fix.is_none(), "of a formatter");
        let unused = &report.findings[2];
        assert_eq!(unused.fix.as_ref().unwrap().description, "Remove it");
        assert!(workspace().fixed(unused).contains("\ts := \"é\"\n"));
        assert!(!unused.fix.as_ref().unwrap().safe);
    }

    #[test]
    fn exit_codes_are_classified() {
        let none = "{\"Issues\":null,\"Report\":{}}\n";
        assert!(lint(&["."], 0, none, "").unwrap().findings.is_empty());
        assert!(
            lint(&["."], 5, "", "level=error msg=\"no go files\"").unwrap().findings.is_empty()
        );
        let config = "Error: can't load config: unsupported version of the configuration: \"\"\n";
        assert!(matches!(lint(&["."], 3, "", config), Err(Error::Invalid(_))));
        assert!(matches!(lint(&["."], 3, none, config), Err(Error::Invalid(_))));
        assert!(matches!(lint(&["."], 4, "", "timeout exceeded"), Err(Error::Limit(_))));
        assert!(matches!(lint(&["."], 2, "", "panic: oh"), Err(Error::Failed(_))));
        assert!(matches!(lint(&["."], 2, "", ""), Err(Error::Failed(_))));
        let modules = "level=error msg=\"x: module lookup disabled by GOPROXY=off\"";
        assert!(matches!(lint(&["."], 7, "", modules), Err(Error::Unavailable(_))));
    }
}
