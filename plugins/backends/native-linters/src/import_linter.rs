//! import-linter: contracts about imports between the modules of Python packages.
//!
//! A finding is an import that breaks a contract; its code is the contract's name. The program
//! always checks the whole package; findings in files that are not targets are dropped. Its output
//! is a text report, which wraps long lines.

use cofferdam_sdk::backend::Error;
use cofferdam_sdk::backend::linting::{Finding, Report, Severity};
use cofferdam_sdk::process::Output;
use cofferdam_sdk::{Context, WorkspacePath};

use crate::files;
use crate::findings::{Findings, SYNTAX_ERROR, finding};
use crate::job::Job;
use crate::program::{Program, Run, error_message};

const LINT_IMPORTS: Program = Program { name: "lint-imports" };

/// The files in which import-linter looks for contracts.
const CONFIGURATIONS: [&str; 3] = ["setup.cfg", ".importlinter", "pyproject.toml"];

/// The directories with packages, relative to the job's directory.
const SOURCES: [&str; 2] = [".", "src"];

/// The version of import-linter.
///
/// # Errors
/// As [`Program::version`].
pub fn version(context: &Context) -> Result<String, Error> {
    LINT_IMPORTS.version(&["--version"], context)
}

/// Lints the whole package with import-linter.
///
/// # Errors
/// `Invalid` if there are no contracts or invalid ones; those of [`Program::run`].
pub fn lint(job: &Job<'_>) -> Result<Report, Error> {
    let mut run = Run::new(job, &["--no-cache"]);
    run.environment = vec![
        ("PYTHONPATH", SOURCES.join(":")),
        ("PYTHONDONTWRITEBYTECODE", "1".to_owned()),
        // The maximum width: longer lines are wrapped at any character.
        ("COLUMNS", "65535".to_owned()),
    ];
    if let Some(config) = &job.config {
        run.option("--config", job.argument(config));
    }
    let output = LINT_IMPORTS.run(job, run)?;
    let mut findings = read(job, &output)?;
    findings.choose();
    Ok(findings.report(files::count(job, &["py"]), &output))
}

/// The findings in the output of `lint-imports`.
fn read<'a>(job: &'a Job<'a>, output: &Output) -> Result<Findings<'a>, Error> {
    let printed = LINT_IMPORTS.stdout(output)?;
    let mut findings = Findings::new(job);
    if !printed.lines().any(is_summary) {
        return match unparsable(job, output, &printed) {
            Some((path, finding)) => {
                findings.add(&path, finding);
                Ok(findings)
            }
            None => Err(refused(output, &printed)),
        };
    }
    for contract in broken_contracts(&printed) {
        let mut placed = false;
        for link in contract.links() {
            if let Some(path) = module_file(job, &link.importer) {
                let found = finding(&path, contract.name, Severity::Error, link.message());
                findings.add(&path, Finding { line: link.line, ..found });
                placed = true;
            }
        }
        // A broken contract for which no import is listed.
        if !placed && let Some(path) = contract.subject(job) {
            let message = contract.body.join("\n").trim().to_owned();
            findings.add(&path, finding(&path, contract.name, Severity::Error, message));
        }
    }
    Ok(findings)
}

/// Whether a line is the summary after the list of contracts.
fn is_summary(line: &str) -> bool {
    line.starts_with("Contracts: ") && line.contains(" kept, ")
}

/// The finding for a file that can't be parsed, which prevents checking any contract.
fn unparsable(job: &Job<'_>, output: &Output, printed: &str) -> Option<(WorkspacePath, Finding)> {
    let place = printed.lines().find_map(|line| line.strip_prefix("Syntax error in "))?;
    let (path, rest) = place.split_once(", line ")?;
    let (line, source) = rest.split_once(": ").unwrap_or((rest, ""));
    let path = job.printed(output, path)?;
    let message = format!("the module can't be parsed: {}", source.trim());
    let found = finding(&path, SYNTAX_ERROR, Severity::Error, message);
    Some((path, Finding { line: line.trim().parse().unwrap_or(0), ..found }))
}

/// The error for a run in which nothing was checked.
fn refused(output: &Output, printed: &str) -> Error {
    if output.stderr_text().contains("Traceback") {
        return LINT_IMPORTS.failed(output);
    }
    if printed.contains("Could not read any configuration") {
        return LINT_IMPORTS.refused(&format!(
            "no import-linter configuration: there is none in {}",
            CONFIGURATIONS.join(", ")
        ));
    }
    if output.exit_code() == Some(0) {
        return LINT_IMPORTS.failed(output);
    }
    // The output may begin with the program's logo.
    let words = error_message(output);
    let is_words = |line: &&str| line.is_ascii() && !line.trim().is_empty();
    LINT_IMPORTS.refused(&words.lines().filter(is_words).collect::<Vec<_>>().join("\n"))
}

/// A broken contract, with its part of the report.
struct Contract<'t> {
    name: &'t str,
    body: Vec<&'t str>,
}

/// An import that breaks a contract.
#[derive(Debug, PartialEq)]
struct Link {
    importer: String,
    /// `None` if only one module is named.
    imported: Option<String>,
    /// The line of the import, from 1; 0: unknown.
    line: u32,
    reason: String,
}

/// The contracts under the last heading of the report.
fn broken_contracts(printed: &str) -> Vec<Contract<'_>> {
    let lines: Vec<&str> = printed.lines().collect();
    let Some(start) = lines.iter().rposition(|line| *line == "Broken contracts") else {
        return Vec::new();
    };
    let mut contracts: Vec<Contract<'_>> = Vec::new();
    let mut at = start + 2;
    while let Some(&line) = lines.get(at) {
        let is_heading = lines.get(at + 1).is_some_and(|rule| is_rule_under(line, rule));
        if is_heading {
            contracts.push(Contract { name: line.trim(), body: Vec::new() });
            at += 1;
        } else if let Some(contract) = contracts.last_mut() {
            contract.body.push(line);
        }
        at += 1;
    }
    contracts
}

/// Whether `rule` underlines `line` as a heading.
fn is_rule_under(line: &str, rule: &str) -> bool {
    !line.trim().is_empty() && !rule.is_empty() && rule.bytes().all(|byte| byte == b'-')
}

impl Contract<'_> {
    /// The imports that the report lists.
    ///
    /// An import is `a -> b (l.3, l.5)`. A chain of imports starts with `- `. If several modules
    /// import the first one, they are listed above it without an arrow, joined by `&`; so are
    /// several modules that the last one imports, below it.
    fn links(&self) -> Vec<Link> {
        let mut links = Vec::new();
        let mut reason: Vec<&str> = Vec::new();
        let mut heads: Vec<(&str, Vec<u32>)> = Vec::new();
        let mut importer: Option<&str> = None;
        for line in &self.body {
            let text = line.trim();
            if text.is_empty() || text.starts_with("- ") {
                heads.clear();
                importer = None;
            }
            let item = text.trim_start_matches(['-', '&']).trim_start();
            let Some((names, lines)) = place(item) else {
                match text.strip_prefix("- ").map(str::trim) {
                    // A module that is in no layer.
                    Some(module) if is_module(module) => {
                        links.push(link(module, None, 0, &reason));
                    }
                    _ if text.is_empty() => {}
                    _ => {
                        // A line after a list, or one that does not continue a reason, begins a new
                        // reason.
                        if reason.last().is_some_and(|last| last.ends_with(':')) {
                            reason.clear();
                        }
                        reason.push(text);
                    }
                }
                continue;
            };
            let mut add = |from: &str, to: &str, lines: &[u32]| {
                links.extend(lines.iter().map(|&line| link(from, Some(to), line, &reason)));
            };
            match (names.split_once(" -> "), importer) {
                (Some((from, to)), _) => {
                    for (head, lines) in heads.drain(..) {
                        add(head, to, &lines);
                    }
                    add(from, to, &lines);
                    importer = Some(from);
                }
                (None, Some(from)) => add(from, names, &lines),
                (None, None) => heads.push((names, lines)),
            }
        }
        links
    }

    /// The file of the first module in the contract's report that is in the workspace, or else the
    /// configuration.
    fn subject(&self, job: &Job<'_>) -> Option<WorkspacePath> {
        let words = self.body.iter().flat_map(|line| line.split_whitespace());
        let modules = words.map(|word| word.trim_matches(|end: char| !end.is_alphanumeric()));
        let named = modules.filter(|word| is_module(word)).find_map(|word| module_file(job, word));
        let at = |name: &&str| job.context.resolve(&format!("{}/{name}", job.root)).ok();
        let configured = || CONFIGURATIONS.iter().filter_map(at).find(|path| job.is_file(path));
        named.or_else(|| job.config.clone()).or_else(configured)
    }
}

fn link(importer: &str, imported: Option<&str>, line: u32, reason: &[&str]) -> Link {
    Link {
        importer: importer.to_owned(),
        imported: imported.map(str::to_owned),
        line,
        reason: reason.join(" ").trim_end_matches(':').to_owned(),
    }
}

/// Parses `a -> b (l.3, l.5)`: the names, and the lines; a single 0 for `l.?`.
fn place(item: &str) -> Option<(&str, Vec<u32>)> {
    let (names, lines) = item.strip_suffix(')')?.rsplit_once(" (l.")?;
    let number = |line: &str| line.trim().trim_start_matches("l.").parse().unwrap_or(0);
    Some((names, lines.split(',').map(number).collect()))
}

fn is_module(name: &str) -> bool {
    let is_name = |part: &str| {
        !part.is_empty() && part.chars().all(|letter| letter.is_alphanumeric() || letter == '_')
    };
    name.split('.').all(is_name)
}

/// The file of a module in the workspace.
fn module_file(job: &Job<'_>, module: &str) -> Option<WorkspacePath> {
    let name = module.replace('.', "/");
    SOURCES
        .iter()
        .flat_map(|source| [format!("{source}/{name}.py"), format!("{source}/{name}/__init__.py")])
        .filter_map(|path| job.context.resolve(&format!("{}/{path}", job.root)).ok())
        .find(|path| job.is_file(path))
}

impl Link {
    fn message(&self) -> String {
        let Self { importer, imported, reason, .. } = self;
        match imported {
            Some(imported) => format!("{importer} imports {imported}: {reason}"),
            None => format!("{importer}: {reason}"),
        }
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use super::*;
    use crate::testing::{Workspace, places, request};

    fn lint(paths: &[&str], code: i32, stdout: &str, stderr: &str) -> Result<Report, Error> {
        let workspace = Workspace::new(&[
            (".importlinter", ""),
            ("pkg/__init__.py", ""),
            ("pkg/low/__init__.py", ""),
            ("pkg/low/a.py", ""),
            ("pkg/mid.py", ""),
            ("src/far/high/__init__.py", ""),
        ]);
        let request = request(paths);
        let job = Job::new(&request, &workspace.context).unwrap();
        let output = Workspace::output(code, stdout, stderr);
        Ok(read(&job, &output)?.report(1, &output))
    }

    const RECORDED: &str = include_str!("../tests/data/import-linter.txt");

    #[test]
    fn broken_imports_become_findings() {
        let report = lint(&["."], 1, RECORDED, "").unwrap();
        assert_eq!(
            places(&report),
            [
                "pkg/low/__init__.py:1:0 error Layers are kept",
                "pkg/low/__init__.py:1:0 error independence",
                "pkg/low/__init__.py:2:0 error low must not use django",
                "pkg/low/a.py:3:0 error Layers are kept",
                "pkg/low/a.py:3:0 error protected",
                "pkg/low/a.py:4:0 error Layers are kept",
                "pkg/low/a.py:4:0 error independence",
                "pkg/low/a.py:5:0 error Layers are kept",
                "pkg/low/a.py:5:0 error protected",
                "pkg/mid.py:1:0 error Layers are kept",
                "pkg/mid.py:1:0 error protected",
            ]
        );
        assert_eq!(
            report.findings[0].message,
            "pkg.low imports pkg.mid: pkg.low is not allowed to import pkg.high"
        );
        assert_eq!(
            report.findings[4].message,
            "pkg.low.a imports pkg.high.thing: Illegal imports of protected package pkg.high"
        );
        let report = lint(&["pkg/mid.py"], 1, RECORDED, "").unwrap();
        assert_eq!(report.findings.len(), 2);
    }

    #[test]
    fn chains_can_end_in_several_modules() {
        let body = "pkg.low is not allowed to import pkg.high:\n\n- pkg.low (l.1)\n  & pkg.low.a -> \
                    pkg.mid (l.4)\n  pkg.mid -> pkg.high (l.1)\n              & pkg.high.b \
                    (l.?)\n\nThe following modules are not listed as layers:\n\n- pkg.mid\n\n\
                    (Since this contract is marked as 'exhaustive'.)\n";
        let links = Contract { name: "x", body: body.lines().collect() }.links();
        let short = |link: &Link| {
            let imported = link.imported.as_deref().unwrap_or("-");
            format!("{} {imported} {} {}", link.importer, link.line, link.reason)
        };
        let layers = "pkg.low is not allowed to import pkg.high";
        assert_eq!(
            links.iter().map(short).collect::<Vec<_>>(),
            [
                format!("pkg.low pkg.mid 1 {layers}"),
                format!("pkg.low.a pkg.mid 4 {layers}"),
                format!("pkg.mid pkg.high 1 {layers}"),
                format!("pkg.mid pkg.high.b 0 {layers}"),
                "pkg.mid - 0 The following modules are not listed as layers".to_owned(),
            ]
        );
    }

    #[test]
    fn a_broken_contract_without_lines_is_reported() {
        let printed = "Contracts: 0 kept, 2 broken.\n\n\n----------------\nBroken \
                       contracts\n----------------\n\nsiblings\n--------\n\nNo cycles are allowed \
                       in far.high.\nIt could be made acyclic by removing 1 dependency:\n\n- .two -> \
                       .one (1 import)\n\nb\n-\n\nwords\n";
        let report = lint(&["."], 1, printed, "").unwrap();
        assert_eq!(
            places(&report),
            [".importlinter:0:0 error b", "src/far/high/__init__.py:0:0 error siblings"]
        );
        assert!(report.findings[1].message.starts_with("No cycles are allowed in far.high."));
    }

    #[test]
    fn kept_contracts_are_no_findings() {
        let kept = "Analyzed 3 files, 2 dependencies.\n---------------------------------\n\nlayers \
                    KEPT\n\nContracts: 1 kept, 0 broken.\n";
        assert!(lint(&["."], 0, kept, "").unwrap().findings.is_empty());
    }

    #[test]
    fn errors_of_import_linter_are_invalid_requests() {
        for (printed, wanted) in [
            ("\nCould not read any configuration.\n", "no import-linter configuration: there is"),
            ("\n \"pkg.nothing\" not present in the graph.\n", "not present in the graph"),
            ("Could not find package 'nopkg' in your Python path.\n", "package 'nopkg'"),
            (
                "\nContract \"a\" is not configured correctly:\n    source_modules: This is a \
                 required field.\n",
                "source_modules: This is a required field.",
            ),
        ] {
            let Err(Error::Invalid(message)) = lint(&["."], 1, printed, "") else {
                unreachable!("{wanted}")
            };
            assert!(message.contains(wanted), "{message}");
        }
        let traceback = "Traceback (most recent call last):\n";
        assert!(matches!(lint(&["."], 1, "", traceback), Err(Error::Failed(_))));
    }

    #[test]
    fn an_unparsable_module_is_a_finding() {
        let printed = "Syntax error in /w/pkg/mid.py, line 3: def f(:\n";
        let report = lint(&["pkg"], 1, printed, "").unwrap();
        assert_eq!(places(&report), ["pkg/mid.py:3:0 error syntax-error"]);
        assert_eq!(report.findings[0].message, "the module can't be parsed: def f(:");
    }
}
