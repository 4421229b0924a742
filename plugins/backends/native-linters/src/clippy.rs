//! Clippy, by `cargo clippy`: its lints, and the compiler's.
//!
//! Cargo lints whole packages: those with the nearest manifests above the targets are linted, and
//! findings in other files are left out. It runs offline, so dependencies must be downloaded
//! already.

use std::collections::BTreeSet;

use cofferdam_sdk::backend::Error;
use cofferdam_sdk::backend::linting::{Finding, Fix, Report, Severity};
use cofferdam_sdk::process::{self, Output};
use cofferdam_sdk::text::Unit;
use cofferdam_sdk::{Context, WorkspacePath};
use serde::Deserialize;

use crate::files;
use crate::findings::{Findings, SYNTAX_ERROR, finding, fix};
use crate::job::Job;
use crate::program::{Program, Run, error_message};

const CARGO: Program = Program { name: "cargo" };

/// The code of a compiler error that has no code and is not a syntax error.
const ERROR: &str = "error";

/// The version of Clippy.
///
/// # Errors
/// As [`Program::version`].
pub fn version(context: &Context) -> Result<String, Error> {
    CARGO.version(&["clippy", "--version"], context)
}

/// Lints all build targets of each package with Clippy. Findings are filtered by the selected
/// codes.
///
/// # Errors
/// `Invalid` for a manifest that is missing or that Cargo rejects; `Unavailable` for missing
/// dependencies; those of [`Program::run`].
pub fn lint(job: &Job<'_>) -> Result<Report, Error> {
    let configuration = configuration(job)?;
    let mut findings = Findings::new(job);
    let mut spent_ms = 0;
    let mut shown: Option<Output> = None;
    for package in packages(job)? {
        let mut run = run(job, &package, configuration.as_deref());
        if job.timeout_ms > 0 {
            run.timeout_ms = job.timeout_ms.saturating_sub(spent_ms).max(1);
        }
        let output = CARGO.run(job, run)?;
        spent_ms += output.duration_ms;
        read(job, &output, &mut findings)?;
        // Of several runs, the output of a failed one is more useful.
        if shown.as_ref().is_none_or(|shown| shown.exit_code() == Some(0)) {
            shown = Some(output);
        }
    }
    // There is at least one target, and so at least one package.
    let Some(output) = shown else { return Err(Error::Invalid("nothing to lint".to_owned())) };
    findings.choose();
    Ok(findings.report(files::count(job, &["rs"]), &output))
}

/// The directories of the nearest manifests above the targets.
fn packages(job: &Job<'_>) -> Result<BTreeSet<WorkspacePath>, Error> {
    let nearest = |target: &WorkspacePath| {
        let directories = job.up_from(&job.directory_of(target));
        let found = directories.into_iter().find(|at| manifest(job, at).is_some());
        found
            .ok_or_else(|| Error::Invalid(format!("there is no Cargo.toml in or above '{target}'")))
    };
    job.targets.iter().map(nearest).collect()
}

fn manifest(job: &Job<'_>, directory: &WorkspacePath) -> Option<WorkspacePath> {
    let path = job.context.resolve(&format!("{directory}/Cargo.toml")).ok()?;
    job.is_file(&path).then_some(path)
}

/// The absolute path of the requested configuration's directory, as Clippy requires it.
fn configuration(job: &Job<'_>) -> Result<Option<String>, Error> {
    let Some(config) = &job.config else { return Ok(None) };
    let name = config.as_str().rsplit('/').next().unwrap_or_default();
    if !["clippy.toml", ".clippy.toml"].contains(&name) {
        return Err(Error::Invalid(format!(
            "Clippy reads its configuration from clippy.toml or .clippy.toml only, not '{config}'"
        )));
    }
    // The workspace's path in the sandbox is known only from a program that has run.
    let workspace = CARGO.run(job, Run::new(job, &["--version"]))?.workspace;
    Ok(Some(format!("{}/{}", workspace.trim_end_matches('/'), job.parent(config))))
}

fn run<'a>(job: &Job<'_>, package: &'a WorkspacePath, configuration: Option<&str>) -> Run<'a> {
    let is_workspace = manifest(job, package)
        .and_then(|manifest| job.text(&manifest))
        .is_some_and(|text| declares_workspace(&String::from_utf8_lossy(text.bytes())));
    let options = ["clippy", "--message-format=json", "--offline", "--quiet", "--all-targets"];
    let mut arguments: Vec<String> = options.map(str::to_owned).to_vec();
    if is_workspace {
        arguments.push("--workspace".to_owned());
    }
    // An error in one package does not prevent linting the others.
    arguments.push("--keep-going".to_owned());
    let target = format!("{}/cargo-target", process::cache_directory(job.context));
    let mut environment = vec![("CARGO_TARGET_DIR", target)];
    environment.extend(configuration.map(|at| ("CLIPPY_CONF_DIR", at.to_owned())));
    // Cargo writes a missing lock file, and build scripts may write any file.
    let timeout_ms = job.timeout_ms;
    Run { directory: package, arguments, environment, scratch: true, timeout_ms }
}

/// Whether a manifest declares a workspace with several packages.
fn declares_workspace(manifest: &str) -> bool {
    manifest.lines().any(|line| {
        let line = line.trim();
        line.starts_with("[workspace]") || line.starts_with("[workspace.")
    })
}

/// A line of Cargo's JSON, with the fields for compiler messages.
#[derive(Deserialize)]
struct Line {
    manifest_path: String,
    message: Message,
}

#[derive(Deserialize)]
struct Message {
    message: String,
    code: Option<Code>,
    level: String,
    #[serde(default)]
    spans: Vec<Span>,
    #[serde(default)]
    children: Vec<Message>,
    rendered: Option<String>,
}

#[derive(Deserialize)]
struct Code {
    code: String,
}

/// Lines and columns are counted from 1, columns in characters; byte offsets are those of the file.
#[derive(Deserialize)]
struct Span {
    file_name: String,
    byte_start: usize,
    byte_end: usize,
    line_start: u32,
    line_end: u32,
    column_start: u32,
    column_end: u32,
    is_primary: bool,
    suggested_replacement: Option<String>,
    suggestion_applicability: Option<String>,
    /// The macro expansion that the code is from.
    expansion: Option<Box<Expansion>>,
}

#[derive(Deserialize)]
struct Expansion {
    span: Span,
}

/// Adds the findings from the output of `cargo clippy --message-format=json`.
fn read<'a>(job: &'a Job<'a>, output: &Output, findings: &mut Findings<'a>) -> Result<(), Error> {
    let printed = CARGO.stdout(output)?;
    let lines = printed.lines().filter(|line| line.contains("\"compiler-message\""));
    let mut elsewhere = None;
    let mut messages = 0;
    for line in lines {
        let Line { manifest_path, message } =
            serde_json::from_str(line).map_err(|error| CARGO.unreadable(output, &error))?;
        let sources = Sources { job, output, manifest: job.printed(output, &manifest_path) };
        messages += 1;
        if message.is_about_configuration() {
            return Err(CARGO.refused(&message.words()));
        }
        match message.finding(&sources) {
            Some((path, finding)) if job.covers(&path) => findings.add(&path, finding),
            _ if message.is_error() => elsewhere = Some(message.words()),
            _ => {}
        }
    }
    match (output.exit_code(), elsewhere) {
        (Some(0), _) => Ok(()),
        _ if messages == 0 => Err(refused(output)),
        // The reason may be why there are no findings, so the result must not be clean.
        (_, Some(words)) if findings.is_empty() => Err(Error::Failed(format!(
            "cargo clippy could not lint this, since something else does not compile: {words}"
        ))),
        _ => Ok(()),
    }
}

/// The error for a run in which nothing was compiled.
fn refused(output: &Output) -> Error {
    let said = output.stderr_text();
    let says = |signs: &[&str]| signs.iter().any(|words| said.contains(words));
    if says(&["no such command: `clippy`", "'cargo-clippy' is not installed"]) {
        return Error::Unavailable(format!("Clippy is missing: {}", error_message(output)));
    }
    if says(&["--offline"]) {
        return Error::Unavailable(format!(
            "cargo: dependencies are missing, and there is no network to get them: {}",
            error_message(output)
        ));
    }
    if said.trim().is_empty() || said.contains("panicked at") {
        return CARGO.failed(output);
    }
    CARGO.refused(&said)
}

/// Resolves the paths in compiler messages.
struct Sources<'a> {
    job: &'a Job<'a>,
    output: &'a Output,
    manifest: Option<WorkspacePath>,
}

impl Sources<'_> {
    /// Resolves a path relative to the Cargo workspace, which is the package's directory or one
    /// above it.
    fn file(&self, name: &str) -> Option<WorkspacePath> {
        if name.starts_with('/') {
            return self.job.printed(self.output, name);
        }
        let package = self.job.parent(self.manifest.as_ref()?);
        let printed = |at: &WorkspacePath| self.job.printed_in(self.output, at, name);
        let candidates = self.job.up_from(&package);
        candidates.iter().filter_map(printed).find(|path| self.job.is_file(path))
    }

    /// The span in a file of the workspace: for code from a macro defined elsewhere, the place
    /// where the macro is used.
    fn place<'s>(&self, span: &'s Span) -> Option<(WorkspacePath, &'s Span)> {
        match self.file(&span.file_name) {
            Some(path) => Some((path, span)),
            None => self.place(&span.expansion.as_deref()?.span),
        }
    }
}

impl Message {
    fn is_error(&self) -> bool {
        self.level.starts_with("error")
    }

    /// The message as the compiler renders it.
    fn words(&self) -> String {
        self.rendered.as_ref().unwrap_or(&self.message).trim().to_owned()
    }

    /// Whether Clippy could not read its configuration; it continues without it.
    fn is_about_configuration(&self) -> bool {
        self.is_error() && self.spans.iter().any(|span| span.file_name.ends_with("clippy.toml"))
    }

    /// Converts a message; `None` for one without a file of the workspace, such as a summary.
    fn finding(&self, sources: &Sources<'_>) -> Option<(WorkspacePath, Finding)> {
        let primary = self.spans.iter().find(|span| span.is_primary)?;
        let (path, place) = sources.place(primary)?;
        let severity = match self.level.as_str() {
            _ if self.is_error() => Severity::Error,
            "warning" => Severity::Warning,
            _ => Severity::Info,
        };
        let code = match &self.code {
            Some(code) => &code.code,
            None if self.is_syntax_error() => SYNTAX_ERROR,
            None => ERROR,
        };
        let text = sources.job.text(&path);
        // The compiler may place the end of a file after the end of its last line.
        let within = |line: u32, column: u32| {
            let end = text.as_ref().and_then(|text| {
                let bytes = u32::try_from(text.line(line)?.len()).ok()?;
                Some(text.column(line, bytes, Unit::Byte))
            });
            end.map_or(column, |end| column.min(end))
        };
        let found = Finding {
            line: place.line_start,
            column: within(place.line_start, place.column_start),
            end_line: Some(place.line_end),
            end_column: Some(within(place.line_end, place.column_end)),
            url: url(code),
            fix: self.fix(sources),
            ..finding(&path, code, severity, &self.message)
        };
        Some((path, found))
    }

    /// Whether this is an error of the parser. The compiler gives these no code, like some other
    /// errors; they are recognised by their beginning.
    fn is_syntax_error(&self) -> bool {
        const STARTS: [&str; 14] = [
            "expected ",
            "unexpected ",
            "this file contains an un",
            "mismatched closing delimiter",
            "unclosed delimiter",
            "unknown start of token",
            "unterminated ",
            "unknown character escape",
            "prefix `",
            "missing `",
            "invalid ",
            "character constant must be escaped",
            "empty character literal",
            "found ",
        ];
        self.is_error()
            && (STARTS.iter().any(|start| self.message.starts_with(start))
                || self.message.contains("stream did not contain valid UTF-8"))
    }

    /// The first suggestion that can be applied automatically, safe ones first.
    fn fix(&self, sources: &Sources<'_>) -> Option<Fix> {
        let with = |applicability, safe| {
            self.children.iter().find_map(|help| help.suggestion(applicability, safe, sources))
        };
        with("MachineApplicable", true).or_else(|| with("MaybeIncorrect", false))
    }

    fn suggestion(&self, applicability: &str, safe: bool, sources: &Sources<'_>) -> Option<Fix> {
        let mut path: Option<WorkspacePath> = None;
        let mut edits = Vec::new();
        for span in &self.spans {
            let text = span.suggested_replacement.as_ref()?;
            if span.suggestion_applicability.as_deref() != Some(applicability)
                || span.expansion.is_some()
            {
                return None;
            }
            let file = sources.file(&span.file_name)?;
            if path.get_or_insert_with(|| file.clone()) != &file {
                return None;
            }
            edits.push((span.byte_start, span.byte_end, text.clone()));
        }
        // Several edits of the same bytes are alternatives, which `fix` rejects.
        fix(&path?, &self.message, safe, edits)
    }
}

/// The URL of a lint's documentation.
fn url(code: &str) -> Option<String> {
    if let Some(lint) = code.strip_prefix("clippy::") {
        return Some(format!("https://rust-lang.github.io/rust-clippy/master/index.html#{lint}"));
    }
    let is_error_code =
        code.starts_with('E') && code[1..].bytes().all(|byte| byte.is_ascii_digit());
    is_error_code.then(|| format!("https://doc.rust-lang.org/error_codes/{code}.html"))
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use super::*;
    use crate::testing::{Workspace, places, request};

    const LIB: &str = "pub fn f(x: Option<u32>) -> bool {\r\n    let s = \"hé😀\"; let unused = \
                       s.len() == 0;\r\n    if x.is_some() == true { return true; }\r\n    return \
                       false;\r\n}\r\n#[cfg(test)] mod t { #[test] fn a() { let z = 1; } }\r\n";

    fn workspace() -> Workspace {
        Workspace::new(&[
            ("Cargo.toml", "[workspace]\nmembers = [\"crates/*\"]\n"),
            ("crates/one/Cargo.toml", "[package]\nname = \"one\"\n"),
            ("crates/one/src/lib.rs", LIB),
            ("crates/one/src/main.rs", "fn main() { let x: u32 = \"a\"; } // and on\n"),
            ("src/lib.rs", "// of no package"),
        ])
    }

    fn lint(paths: &[&str], code: i32, stdout: &str, stderr: &str) -> Result<Report, Error> {
        let workspace = workspace();
        let request = request(paths);
        let job = Job::new(&request, &workspace.context).unwrap();
        let output = Workspace::output(code, stdout, stderr);
        let mut findings = Findings::new(&job);
        read(&job, &output, &mut findings)?;
        Ok(findings.report(1, &output))
    }

    const RECORDED: &str = include_str!("../tests/data/clippy.jsonl");
    const BROKEN: &str = include_str!("../tests/data/clippy-broken.jsonl");

    #[test]
    fn recorded_output_becomes_findings() {
        let report = lint(&["crates/one"], 0, RECORDED, "").unwrap();
        assert_eq!(
            places(&report),
            [
                "crates/one/src/lib.rs:2:24-2:30 warning unused_variables",
                "crates/one/src/lib.rs:2:33-2:45 warning clippy::len_zero",
                "crates/one/src/lib.rs:3:8-3:27 warning clippy::bool_comparison",
                "crates/one/src/lib.rs:4:5-4:17 warning clippy::needless_return",
                "crates/one/src/lib.rs:6:43-6:44 warning unused_variables",
            ],
            "each once, though two targets have them"
        );
        let finding = |number: usize| &report.findings[number];
        assert_eq!(
            finding(1).url.as_deref(),
            Some("https://rust-lang.github.io/rust-clippy/master/index.html#len_zero")
        );
        let workspace = workspace();
        for (number, wanted) in [
            (0, "let _unused = s.len() == 0;\r\n"),
            (1, "let unused = s.is_empty();\r\n"),
            (2, "    if x.is_some() { return true; }\r\n"),
            (3, "\r\n    false\r\n}\r\n"),
        ] {
            assert!(workspace.fixed(finding(number)).contains(wanted), "{wanted}");
            assert!(finding(number).fix.as_ref().unwrap().safe);
        }
    }

    #[test]
    fn errors_of_the_compiler_are_findings() {
        let report = lint(&["crates/one"], 101, BROKEN, "error: could not compile").unwrap();
        assert_eq!(
            places(&report),
            [
                "crates/one/src/lib.rs:1:1-1:17 error error",
                "crates/one/src/main.rs:1:26-1:29 error E0308",
                "crates/one/src/main.rs:1:39-1:40 error syntax-error",
            ]
        );
        assert_eq!(
            report.findings[1].url.as_deref(),
            Some("https://doc.rust-lang.org/error_codes/E0308.html")
        );
    }

    #[test]
    fn packages_have_the_nearest_manifest_above() {
        let workspace = workspace();
        for (paths, wanted) in [
            (&["crates/one/src/lib.rs", "crates/one"][..], &["crates/one"][..]),
            (&["."], &["."]),
            (&["src/lib.rs", "crates/one/src"], &[".", "crates/one"]),
        ] {
            let request = request(paths);
            let job = Job::new(&request, &workspace.context).unwrap();
            let found: Vec<_> =
                packages(&job).unwrap().iter().map(WorkspacePath::to_string).collect();
            assert_eq!(found, wanted, "{paths:?}");
        }
        let bare = Workspace::new(&[("a.rs", "")]);
        let request = request(&["a.rs"]);
        let error = packages(&Job::new(&request, &bare.context).unwrap()).unwrap_err();
        assert!(matches!(error, Error::Invalid(_)));
    }

    #[test]
    fn a_cargo_workspace_is_linted_as_a_whole() {
        for (manifest, wanted) in [
            ("[workspace]\nmembers = []", true),
            ("[package]\nname = \"a\"\n\n[workspace.dependencies]\n", true),
            ("[package]\nworkspace = \"..\"\n", false),
            ("[dependencies]\na = { workspace = true }\n", false),
        ] {
            assert_eq!(declares_workspace(manifest), wanted, "{manifest}");
        }
    }

    #[test]
    fn errors_of_cargo_are_classified() {
        let manifest = "error: unclosed table, expected `]`\n --> Cargo.toml:1:9\n";
        let Err(Error::Invalid(message)) = lint(&["."], 101, "", manifest) else { unreachable!() };
        assert!(message.contains("unclosed table"));
        for missing in [
            "error: no matching package named `serde` found\nlocation searched: crates.io index\nAs a \
             reminder, you're using offline mode (--offline) which can sometimes cause surprising \
             resolution failures\n",
            "error: no such command: `clippy`\n",
        ] {
            let error = lint(&["."], 101, "", missing).unwrap_err();
            assert!(matches!(error, Error::Unavailable(_)), "{missing}");
        }
        assert!(matches!(lint(&["."], 101, "", ""), Err(Error::Failed(_))));
        let Err(Error::Failed(message)) = lint(&["src/lib.rs"], 101, BROKEN, "") else {
            unreachable!()
        };
        assert!(message.contains("something else does not compile"), "{message}");
        let configuration = r#"{"reason":"compiler-message","manifest_path":"/w/crates/one/Cargo.toml","message":{"rendered":"error: error reading Clippy's configuration file: expected a value","children":[],"level":"error","message":"error reading Clippy's configuration file","spans":[{"byte_end":4,"byte_start":4,"column_end":5,"column_start":5,"expansion":null,"file_name":"/w/cfg/clippy.toml","is_primary":true,"label":null,"line_end":1,"line_start":1,"suggested_replacement":null,"suggestion_applicability":null,"text":[]}],"code":null}}"#;
        let Err(Error::Invalid(message)) = lint(&["."], 101, configuration, "") else {
            unreachable!()
        };
        assert!(message.ends_with("configuration file: expected a value"), "{message}");
        let linking = r#"{"reason":"compiler-message","manifest_path":"/w/crates/one/Cargo.toml","message":{"message":"linking with `cc` failed","code":null,"level":"error","spans":[],"children":[],"rendered":"error: linking with `cc` failed"}}"#;
        let error = lint(&["."], 101, linking, "").unwrap_err();
        assert!(matches!(error, Error::Failed(message) if message.contains("linking with `cc`")));
    }

    #[test]
    fn only_clippys_configuration_files_are_accepted() {
        let workspace = Workspace::new(&[("Cargo.toml", ""), ("lints.toml", "")]);
        let mut request = request(&["."]);
        request.config = Some("lints.toml".to_owned());
        let job = Job::new(&request, &workspace.context).unwrap();
        assert!(matches!(configuration(&job), Err(Error::Invalid(_))));
    }
}
