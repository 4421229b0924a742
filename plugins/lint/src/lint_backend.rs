//! `lint_backend`: lints Python code and groups the findings by code.
//!
//! The section `ruff` has the findings of the operator's style linters, even if these are not ruff;
//! mypy, ty and import-linter are always those themselves. Where mypy can't run, ty stands in for it, in
//! a section of its own. If any other linter can't run but others can, its section has the code
//! `not-checked`.

use std::collections::BTreeMap;
use std::time::Instant;

use cofferdam_sdk::backend::available::linters::Backend;
use cofferdam_sdk::backend::linting::{Finding, Report, Request, Severity};
use cofferdam_sdk::backend::{Error, left_out};
use cofferdam_sdk::scan::{Query, query};
use cofferdam_sdk::{Context, ErrorKind, ToolError, WorkspacePath};
use serde::{Deserialize, Serialize};

use crate::choice;
use crate::failure;
use crate::host::HostApi;
use crate::language::Language;
use crate::run_linter::NOT_CHECKED;
use crate::type_checker::{self, MYPY, TY, TypeCheckers};

/// The package that is linted if no path is given, if it exists.
const DEFAULT_PACKAGE: &str = "nomarr";

const IMPORT_LINTER: &str = "import-linter";

/// The linters with a section of their own.
const APART: [&str; 3] = [MYPY, TY, IMPORT_LINTER];

/// The maximum size of the sections of a result, as JSON, in bytes.
const PAGE_BYTES: usize = 28 * 1024;

/// The maximum numbers of occurrences of a code that are tried until a result fits.
const MAX_OCCURRENCES: [usize; 8] = [500, 200, 100, 50, 20, 10, 5, 1];

/// The name used in messages if no style linter is installed.
const DEFAULT_STYLE_LINTER: &str = "ruff";

/// Files that may contain contracts for import-linter, each with the text to look for.
const CONTRACT_FILES: [&str; 3] = [".importlinter", "setup.cfg", "pyproject.toml"];
const CONTRACT_MARK: &str = "importlinter";

/// The arguments of `lint_backend`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Args {
    /// A file or a directory; the default is `nomarr/`, or the workspace if that does not exist.
    pub path: Option<String>,
    /// Whether to check all files and run import-linter, instead of only files changed since the
    /// last commit.
    #[serde(default)]
    pub check_all: bool,
    /// Further files that count as changed.
    #[serde(default)]
    pub changed: Vec<String>,
}

/// The result of `lint_backend`.
#[derive(Debug, PartialEq, Serialize)]
pub struct Output {
    /// The findings of the style linters.
    pub ruff: Section,
    /// The findings of mypy; none if it did not run since ty did.
    pub mypy: Section,
    /// The findings of ty, if it ran.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ty: Option<Section>,
    /// The findings of import-linter, if it ran.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub import_linter: Option<Section>,
    /// The totals of all sections.
    pub summary: Summary,
    /// What was left out, and the call for it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub left_out: Option<String>,
    /// Which type checker ran instead of mypy and why, and what it could not check.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

/// Findings grouped by code.
pub type Section = BTreeMap<String, Group>;

/// The findings with the same code.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub struct Group {
    /// The first finding's message, without details in parentheses at its end.
    pub description: String,
    /// Whether any of them has a fix.
    pub fix_available: bool,
    /// The places of the findings.
    pub occurrences: Vec<Occurrence>,
    /// The number of findings, if not all are listed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub total: Option<usize>,
}

impl Group {
    fn total(&self) -> usize {
        self.total.unwrap_or(self.occurrences.len())
    }

    /// Lists at most `most` occurrences, of as many files as possible.
    fn limit(&mut self, most: usize) {
        if self.occurrences.len() <= most {
            return;
        }
        self.total = Some(self.total());
        let mut earlier: BTreeMap<String, usize> = BTreeMap::new();
        self.occurrences.sort_by_cached_key(|occurrence| {
            let nth = earlier.entry(occurrence.file.clone()).or_default();
            *nth += 1;
            *nth
        });
        self.occurrences.truncate(most);
        self.occurrences.sort_unstable();
    }
}

/// The place of a finding.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Occurrence {
    /// Relative to the workspace.
    pub file: String,
    /// Counted from 1; 0: the file as a whole.
    pub line: u32,
}

/// The totals of a result.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub struct Summary {
    /// The number of occurrences in all sections.
    pub total_errors: usize,
    /// Whether there are no occurrences.
    pub clean: bool,
    /// The number of files checked.
    pub files_checked: u32,
}

/// Lints Python code and groups the findings.
///
/// # Errors
/// Those of [`Context::resolve`] and [`HostApi::changed`]; `FileNotFoundError`; `UnsupportedFile`
/// for a file that is not Python; `LinterUnavailable`, `InvalidLintRequest`, `LinterLimit` or
/// `LinterFailed` if no linter has a report.
pub fn run(args: &Args, context: &Context, host: &impl HostApi) -> Result<Output, ToolError> {
    let started = Instant::now();
    let path = place(args.path.as_deref(), context)?;
    let paths = if args.check_all {
        let files = python_files(&path, host)?;
        if files.is_empty() { Vec::new() } else { vec![path.to_string()] }
    } else {
        changed(&path, &args.changed, context, host)?
    };
    let mut done = Done::default();
    if paths.is_empty() {
        return Ok(answer(&path, done, args.check_all));
    }
    let ask = |linters: Vec<String>, done: &mut Done| {
        let request = Request {
            root: String::new(),
            paths: paths.clone(),
            config: None,
            select: Vec::new(),
            timeout_ms: context.timeout_ms(None, started.elapsed()),
        };
        done.ask(linters, &request, host);
    };
    let Chosen { linters, failures, types } =
        chosen(&host.linters(), args.check_all && has_contracts(context));
    done.failures = failures;
    done.notes.extend(types.note);
    ask(linters, &mut done);
    if types.has_stand_in
        && let Some(why) = type_checker::missing(&done.failures)
    {
        let note = type_checker::stood_in(why);
        ask(vec![TY.to_owned()], &mut done);
        if done.has_report(TY) {
            done.failures.retain(|(name, _)| name != MYPY);
            done.notes.push(note);
        }
    }
    if done.reports.is_empty() {
        let failures: Vec<(&str, &Error)> =
            done.failures.iter().map(|(linter, error)| (linter.as_str(), error)).collect();
        failure::error(&failures).map_or(Ok(()), Err)?;
    }
    Ok(answer(&path, done, args.check_all))
}

/// What the linters returned.
#[derive(Default)]
struct Done {
    reports: Vec<(String, Report)>,
    failures: Vec<(String, Error)>,
    notes: Vec<String>,
}

impl Done {
    /// Runs linters with the same request.
    fn ask(&mut self, linters: Vec<String>, request: &Request, host: &impl HostApi) {
        let requests: Vec<(String, Request)> =
            linters.into_iter().map(|linter| (linter, request.clone())).collect();
        let answers = if requests.is_empty() { Vec::new() } else { host.lint(&requests) };
        for ((linter, _), answer) in requests.into_iter().zip(answers) {
            match answer {
                Ok(report) => self.reports.push((linter, report)),
                Err(error) => self.failures.push((linter, error)),
            }
        }
    }

    fn has_report(&self, linter: &str) -> bool {
        self.reports.iter().any(|(name, _)| name == linter)
    }

    fn has_run(&self, linter: &str) -> bool {
        self.has_report(linter) || self.failures.iter().any(|(name, _)| name == linter)
    }
}

/// The path to lint: the argument, or the default.
fn place(name: Option<&str>, context: &Context) -> Result<WorkspacePath, ToolError> {
    let is_default = |name: &&str| name.is_empty() || name.trim_end_matches('/') == DEFAULT_PACKAGE;
    let named = name.filter(|name| !is_default(name));
    let path = context.resolve(named.unwrap_or(DEFAULT_PACKAGE))?;
    let local = context.local(&path);
    match named {
        _ if local.is_dir() => Ok(path),
        None => context.resolve("."),
        Some(name) if !local.is_file() => {
            Err(ToolError::not_found("FileNotFoundError", format!("file not found: {name}")))
        }
        Some(name) if !is_python(name) => {
            Err(ToolError::invalid_args("UnsupportedFile", format!("'{name}' is no Python file")))
        }
        Some(_) => Ok(path),
    }
}

fn is_python(path: &str) -> bool {
    Language::of(path) == Some(Language::Python)
}

fn python_files(path: &WorkspacePath, host: &impl HostApi) -> Result<Vec<String>, ToolError> {
    let mut files = host.find(&Query { types: vec!["py".to_owned()], ..query(path) })?;
    files.retain(|path| is_python(path));
    Ok(files)
}

/// The changed Python files at or below `path`; `further` ones count as changed.
fn changed(
    path: &WorkspacePath,
    further: &[String],
    context: &Context,
    host: &impl HostApi,
) -> Result<Vec<String>, ToolError> {
    let is_below = |file: &str| {
        let rest = file.strip_prefix(path.as_str());
        rest.is_some_and(|rest| {
            path.as_str().is_empty() || rest.is_empty() || rest.starts_with('/')
        })
    };
    let mut files = host.changed()?;
    for file in further {
        files.push(context.resolve(file)?.to_string());
    }
    files.retain(|file| {
        let is_there = || context.resolve(file).is_ok_and(|file| context.local(&file).is_file());
        is_below(file) && is_python(file) && is_there()
    });
    files.sort_unstable();
    files.dedup();
    Ok(files)
}

/// Whether import-linter may have contracts to check; `true` if a file can't be read.
fn has_contracts(context: &Context) -> bool {
    CONTRACT_FILES.iter().any(|name| {
        match context.resolve(name).and_then(|path| context.read(&path)) {
            Ok(text) => String::from_utf8_lossy(&text).contains(CONTRACT_MARK),
            Err(error) => error.kind != ErrorKind::NotFound,
        }
    })
}

/// The linters to run, and those that should run but can't.
struct Chosen {
    linters: Vec<String>,
    failures: Vec<(String, Error)>,
    types: TypeCheckers,
}

fn chosen(available: &[Backend], with_contracts: bool) -> Chosen {
    let (fit, mut failures) = choice::chosen(Language::Python, available);
    let types = type_checker::choose(&fit, available);
    let mut linters: Vec<String> = fit
        .into_iter()
        .map(|backend| backend.name.clone())
        .filter(|name| !APART.contains(&name.as_str()))
        .collect();
    if linters.is_empty() && failures.is_empty() {
        let message = "linter not configured: the operator has chosen none for the style of python";
        failures.push((DEFAULT_STYLE_LINTER.to_owned(), Error::Unavailable(message.to_owned())));
    }
    let contracts = with_contracts.then_some(IMPORT_LINTER);
    for wanted in types.wanted.iter().copied().chain(contracts) {
        if available.iter().any(|backend| type_checker::is_usable(backend, wanted)) {
            linters.push(wanted.to_owned());
        } else {
            let message = "the operator has no linter of this name".to_owned();
            failures.push((wanted.to_owned(), Error::Unavailable(message)));
        }
    }
    Chosen { linters, failures, types }
}

fn answer(path: &WorkspacePath, done: Done, check_all: bool) -> Output {
    let section = |holds: &dyn Fn(&str) -> bool| section(path, &done, holds);
    let mut ruff = section(&|name| !APART.contains(&name));
    let mut mypy = section(&|name| name == MYPY);
    let mut ty = done.has_run(TY).then(|| section(&|name| name == TY));
    let mut import_linter = check_all.then(|| section(&|name| name == IMPORT_LINTER));
    let mut sections: Vec<&mut Section> =
        [&mut ruff, &mut mypy].into_iter().chain(&mut ty).chain(&mut import_linter).collect();
    let groups = sections.iter().flat_map(|section| section.values());
    let total_errors = groups.map(Group::total).sum();
    let left_out = limit(&mut sections, total_errors);
    let Done { reports, mut notes, .. } = done;
    let files_checked = reports.iter().map(|(_, report)| report.files_checked).max();
    let of_ty = reports.iter().filter(|(name, _)| name == TY);
    notes.extend(of_ty.flat_map(|(_, report)| type_checker::unchecked(report)));
    let summary = Summary {
        total_errors,
        clean: total_errors == 0,
        files_checked: files_checked.unwrap_or_default(),
    };
    Output { ruff, mypy, ty, import_linter, summary, left_out, notes }
}

/// The section of the linters for which `holds` returns true.
fn section(path: &WorkspacePath, done: &Done, holds: &dyn Fn(&str) -> bool) -> Section {
    let reports = done.reports.iter().filter(|(name, _)| holds(name));
    let mut section = group(reports.flat_map(|(name, report)| {
        // The notes of type checkers explain their errors and do not count as findings.
        let has_notes = name == MYPY || name == TY;
        let counts = move |found: &&Finding| !(has_notes && found.severity == Severity::Info);
        report.findings.iter().filter(counts)
    }));
    let failures: Vec<_> = done.failures.iter().filter(|(name, _)| holds(name)).collect();
    if !failures.is_empty() {
        section.insert(NOT_CHECKED.to_owned(), not_checked(path, &failures));
    }
    section
}

/// Limits the occurrences until the sections fit in a result. Returns a text about those left out.
fn limit(sections: &mut [&mut Section], total: usize) -> Option<String> {
    let size = |sections: &[&mut Section]| {
        serde_json::to_string(sections).map_or(usize::MAX, |json| json.len())
    };
    for most in MAX_OCCURRENCES {
        if size(sections) <= PAGE_BYTES {
            break;
        }
        sections.iter_mut().flat_map(|section| section.values_mut()).for_each(|group| {
            group.limit(most);
        });
    }
    let groups = || sections.iter().flat_map(|section| section.values());
    let listed: usize = groups().map(|group| group.occurrences.len()).sum();
    let largest = groups().max_by_key(|group| group.total())?.occurrences.first()?;
    (listed < total).then(|| {
        format!(
            "{listed} of {total} occurrences are listed; those of fewer files: lint_backend {}",
            serde_json::json!({"path": largest.file, "check_all": true})
        )
    })
}

/// The group for linters without a report: one occurrence each at the path to check, so that the
/// result is not clean.
fn not_checked(path: &WorkspacePath, failures: &[&(String, Error)]) -> Group {
    let why = failures.iter().map(|(name, error)| format!("{name}: {}", failure::reason(error)));
    let file = if path.as_str().is_empty() { "." } else { path.as_str() };
    Group {
        description: format!("not checked: {}", why.collect::<Vec<_>>().join("; ")),
        fix_available: false,
        occurrences: failures
            .iter()
            .map(|_| Occurrence { file: file.to_owned(), line: 0 })
            .collect(),
        total: None,
    }
}

fn group<'a>(findings: impl Iterator<Item = &'a Finding>) -> Section {
    let mut section = Section::new();
    let mut more: BTreeMap<&str, usize> = BTreeMap::new();
    for finding in findings {
        if let Some(count) = left_out(finding) {
            let count = usize::try_from(count).unwrap_or(usize::MAX);
            *more.entry(finding.code.as_str()).or_default() += count;
            continue;
        }
        let group = section.entry(finding.code.clone()).or_insert_with(|| Group {
            description: description(&finding.message),
            fix_available: false,
            occurrences: Vec::new(),
            total: None,
        });
        group.fix_available |= finding.fix.is_some();
        group.occurrences.push(Occurrence { file: finding.path.clone(), line: finding.line });
    }
    for (code, group) in &mut section {
        group.occurrences.sort_unstable();
        group.total = more.get(code.as_str()).map(|more| more + group.occurrences.len());
    }
    section
}

/// The first line of a message, without details in parentheses, as in `Line too long (92 > 88)`.
fn description(message: &str) -> String {
    let line = message.lines().next().unwrap_or_default().trim();
    let own = line.strip_suffix(')').and_then(|line| line.rsplit_once(" ("));
    match own {
        Some((general, figures)) if figures.contains(|c: char| c.is_ascii_digit()) => {
            general.trim_end().to_owned()
        }
        _ => line.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use cofferdam_sdk::backend::linting::Fix;
    use cofferdam_testing::{fits, parsed, takes_examples};
    use serde_json::{Value, json};

    use super::*;
    use crate::testing::{Fake, backend, finding, report};

    const INPUT: &str = include_str!("../../../schemas/tools/lint.lint_backend.input.json");
    const OUTPUT: &str = include_str!("../../../schemas/tools/lint.lint_backend.output.json");

    fn lint(fake: &Fake, args: Value) -> Result<Value, ToolError> {
        fits(&parsed(INPUT), &args);
        let args = serde_json::from_value(args).unwrap();
        let answer = serde_json::to_value(run(&args, &fake.context, fake)?).unwrap();
        fits(&parsed(OUTPUT), &answer);
        Ok(answer)
    }

    /// A workspace with ruff, mypy and import-linter, which report no findings.
    fn nomarr() -> Fake {
        let mut fake = Fake::new(&[
            ("nomarr/helpers/x.py", ""),
            ("nomarr/helpers/y.py", ""),
            ("nomarr/README.md", ""),
            ("scripts/z.py", ""),
            ("pyproject.toml", "[tool.importlinter]\nroot_package = \"nomarr\"\n"),
        ]);
        fake.linters = vec![
            backend("ruff", &["python"], &["python"]),
            backend("mypy", &["python"], &[]),
            backend("import-linter", &["python"], &[]),
        ];
        for linter in ["ruff", "mypy", "import-linter"] {
            let clean = Report { files_checked: 5, ..report(vec![], None) };
            fake.answers.insert(linter, Ok(clean));
        }
        fake.changed =
            Some(vec!["scripts/z.py", "nomarr/helpers/x.py", "nomarr/README.md", "nomarr/gone.py"]);
        fake
    }

    #[test]
    fn the_documented_example_without_findings() {
        let clean = json!({
            "ruff": {}, "mypy": {},
            "summary": {"total_errors": 0, "clean": true, "files_checked": 5}
        });
        assert_eq!(lint(&nomarr(), json!({})).unwrap(), clean);
        let mut all = clean;
        all["import_linter"] = json!({});
        assert_eq!(lint(&nomarr(), json!({"check_all": true})).unwrap(), all);
    }

    #[test]
    fn the_documented_example_with_findings() {
        let mut fake = nomarr();
        let mut long = finding("nomarr/helpers/x.py", 42, 89, "E501", "Line too long (92 > 88)");
        long.fix = Some(Fix { description: "Split it".into(), safe: false, edits: vec![] });
        let message = "Argument 1 has incompatible type";
        let wrong = finding("nomarr/helpers/x.py", 55, 1, "arg-type", message);
        let note = Finding {
            severity: Severity::Info,
            ..finding("nomarr/helpers/x.py", 55, 1, "note", "See the documentation")
        };
        let five = |findings| Ok(Report { files_checked: 5, ..report(findings, Some(1)) });
        fake.answers.insert("ruff", five(vec![long]));
        fake.answers.insert("mypy", five(vec![wrong, note]));
        assert_eq!(
            lint(&fake, json!({"path": "nomarr/helpers", "check_all": false})).unwrap(),
            json!({
                "ruff": {"E501": {
                    "description": "Line too long", "fix_available": true,
                    "occurrences": [{"file": "nomarr/helpers/x.py", "line": 42}]
                }},
                "mypy": {"arg-type": {
                    "description": "Argument 1 has incompatible type", "fix_available": false,
                    "occurrences": [{"file": "nomarr/helpers/x.py", "line": 55}]
                }},
                "summary": {"total_errors": 2, "clean": false, "files_checked": 5}
            })
        );
    }

    #[test]
    fn only_changed_files_are_linted_by_default() {
        let package = "nomarr/helpers/x.py";
        for (args, wanted) in [
            (json!({}), vec![package]),
            (json!({"path": null}), vec![package]),
            (json!({"path": ""}), vec![package]),
            (json!({"path": "nomarr/"}), vec![package]),
            (json!({"path": "."}), vec![package, "scripts/z.py"]),
            (json!({"path": "scripts"}), vec!["scripts/z.py"]),
            (json!({"path": package}), vec![package]),
            (json!({"path": "nomarr/helpers/y.py"}), vec![]),
            (json!({"path": "nomarr/", "check_all": true}), vec!["nomarr"]),
            (json!({"path": ".", "check_all": true}), vec!["."]),
            (json!({"path": package, "check_all": true}), vec![package]),
        ] {
            let fake = nomarr();
            let answer = lint(&fake, args.clone()).unwrap();
            let asked = fake.asked();
            assert_eq!(asked.is_empty(), wanted.is_empty(), "{args}");
            assert!(asked.iter().all(|(_, request)| request.paths == wanted), "{args}: {asked:?}");
            assert_eq!(answer["summary"]["files_checked"], if wanted.is_empty() { 0 } else { 5 });
            let linters: Vec<&str> = asked.iter().map(|(name, _)| name.as_str()).collect();
            let all = args["check_all"] == true;
            let expected: &[&str] =
                if all { &["ruff", "mypy", "import-linter"] } else { &["ruff", "mypy"] };
            assert!(linters.is_empty() || linters == expected, "{args}");
        }
    }

    #[test]
    fn the_default_without_the_package_is_the_workspace() {
        let mut fake = Fake::new(&[("a.py", "")]);
        fake.linters = nomarr().linters.clone();
        fake.answers = nomarr().answers.clone();
        for args in [json!({"check_all": true}), json!({"path": "nomarr/", "check_all": true})] {
            lint(&fake, args).unwrap();
        }
        assert!(fake.asked().iter().all(|(_, request)| request.paths == ["."]));
        let has_run = |name: &str| fake.asked().iter().any(|(linter, _)| linter == name);
        assert!(has_run("mypy") && !has_run("import-linter"), "there are no contracts");
        let fake = Fake::new(&[("a.go", "")]);
        let answer = lint(&fake, json!({"check_all": true})).unwrap();
        assert_eq!(answer["summary"]["files_checked"], 0);
    }

    #[test]
    fn style_linters_fill_the_section_ruff() {
        let mut fake = nomarr();
        fake.linters = vec![
            backend("pyflakes", &["python"], &["python"]),
            backend("pylint", &["python"], &["python"]),
            backend("mypy", &["python"], &["python"]),
            backend("ruff", &["python"], &[]),
        ];
        let found = |line, code| {
            Ok(report(vec![finding("scripts/z.py", line, 1, code, "'os' is unused")], None))
        };
        fake.answers.insert("pyflakes", found(3, "unused"));
        fake.answers.insert("pylint", found(2, "unused"));
        let answer = lint(&fake, json!({"path": "scripts"})).unwrap();
        assert_eq!(
            answer["ruff"]["unused"]["occurrences"],
            json!([{"file": "scripts/z.py", "line": 2}, {"file": "scripts/z.py", "line": 3}])
        );
        assert_eq!(answer["summary"]["total_errors"], 2);
    }

    #[test]
    fn ty_stands_in_for_a_mypy_that_is_missing() {
        let mut fake = nomarr();
        fake.linters.push(backend("ty", &["python"], &[]));
        fake.answers.insert("ty", Ok(Report { files_checked: 5, ..report(vec![], None) }));
        let answer = lint(&fake, json!({})).unwrap();
        assert!(answer.get("ty").is_none() && answer.get("notes").is_none(), "mypy ran: {answer}");
        let missing = Error::Unavailable("there is no program 'mypy'".into());
        fake.answers.insert("mypy", Err(missing));
        let stood_in = "ty stood in for mypy: there is no program 'mypy'";
        let summary = json!({"total_errors": 0, "clean": true, "files_checked": 5});
        assert_eq!(
            lint(&fake, json!({})).unwrap(),
            json!({"ruff": {}, "mypy": {}, "ty": {}, "summary": summary, "notes": [stood_in]})
        );
        let wrong = finding("nomarr/helpers/x.py", 5, 1, "invalid-return-type", "Wrong");
        let info = Finding {
            severity: Severity::Info,
            ..finding("nomarr/helpers/x.py", 6, 1, "revealed-type", "int")
        };
        let mut found = report(vec![wrong, info], None);
        found.raw = "not checked: packages: numpy\n".to_owned();
        fake.answers.insert("ty", Ok(found));
        let answer = lint(&fake, json!({})).unwrap();
        let place = json!([{"file": "nomarr/helpers/x.py", "line": 5}]);
        assert_eq!(answer["ty"]["invalid-return-type"]["occurrences"], place);
        assert_eq!((&answer["mypy"], &answer["summary"]["total_errors"]), (&json!({}), &json!(1)));
        assert_eq!(answer["notes"], json!([stood_in, "not checked: packages: numpy"]));
        // Neither of them can check the types.
        fake.answers.insert("ty", Err(Error::Failed("ty: out of stack".into())));
        let answer = lint(&fake, json!({})).unwrap();
        for (section, why) in [("mypy", "there is no program 'mypy'"), ("ty", "ty: out of stack")] {
            let said = answer[section]["not-checked"]["description"].as_str().unwrap();
            assert!(said.ends_with(why), "{said}");
        }
        assert_eq!((answer.get("notes"), &answer["summary"]["clean"]), (None, &json!(false)));
    }

    #[test]
    fn the_operator_chooses_the_type_checker() {
        let with = |mypy: &[&str], ty: &[&str]| {
            let mut fake = nomarr();
            fake.linters[1] = backend("mypy", &["python"], mypy);
            fake.linters.push(backend("ty", &["python"], ty));
            fake.answers.insert("ty", Ok(report(vec![], None)));
            fake
        };
        let python = &["python"][..];
        for (mut fake, asked, keys, has_note) in [
            (with(python, &[]), vec!["ruff", "mypy"], vec!["ruff", "mypy"], false),
            (with(&[], python), vec!["ruff", "ty"], vec!["ruff", "mypy", "ty"], true),
            (with(python, python), vec!["ruff", "mypy", "ty"], vec!["ruff", "mypy", "ty"], false),
        ] {
            let answer = lint(&fake, json!({})).unwrap();
            let names: Vec<String> = fake.asked().into_iter().map(|(name, _)| name).collect();
            assert_eq!(names, asked);
            assert!(keys.iter().all(|key| answer[*key] == json!({})), "{answer}");
            assert_eq!(answer.get("notes").is_some(), has_note, "{answer}");
            // A mypy that was chosen is not replaced.
            fake.answers.insert("mypy", Err(Error::Unavailable("there is no mypy".into())));
            let answer = lint(&fake, json!({})).unwrap();
            let is_unchecked = answer["mypy"]["not-checked"].is_object();
            assert_eq!(is_unchecked, asked.contains(&"mypy"), "{answer}");
        }
    }

    #[test]
    fn unchecked_code_is_never_clean() {
        let without = |name: &str| {
            let mut fake = nomarr();
            fake.linters.retain(|backend| backend.name != name);
            fake
        };
        let mut broken = nomarr();
        broken.answers.insert("mypy", Err(Error::Unavailable("there is no program 'mypy'".into())));
        let mut misspelt = nomarr();
        misspelt.linters.push(backend("mipy", &[], &["python"]));
        let all = json!({"check_all": true});
        for (fake, args, section, wanted) in [
            (without("mypy"), json!({}), "mypy", "mypy: the operator has no linter of this name"),
            (broken, json!({}), "mypy", "mypy: there is no program 'mypy'"),
            (without("ruff"), json!({}), "ruff", "ruff: linter not configured: the operator has"),
            (without("import-linter"), all, "import_linter", "import-linter: the operator has no"),
            (
                misspelt,
                json!({}),
                "ruff",
                "mipy: the setting linters.python names 'mipy', which is no linter for python",
            ),
        ] {
            let answer = lint(&fake, args.clone()).unwrap();
            let said = &answer[section]["not-checked"];
            let description = said["description"].as_str().unwrap();
            assert!(description.starts_with(&format!("not checked: {wanted}")), "{description}");
            assert_eq!(said["occurrences"], json!([{"file": "nomarr", "line": 0}]));
            assert_eq!(answer["summary"]["clean"], false, "{answer:#}");
            assert!(answer["summary"]["total_errors"].as_u64().unwrap() >= 1);
            assert_eq!(answer["summary"]["files_checked"], 5, "the others did look");
        }
        assert!(lint(&without("import-linter"), json!({})).is_ok());
    }

    #[test]
    fn without_any_report_the_call_fails() {
        let mut broken = nomarr();
        let missing = Error::Unavailable("there is no program".into());
        for name in ["ruff", "mypy"] {
            broken.answers.insert(name, Err(missing.clone()));
        }
        let mut no_repository = nomarr();
        no_repository.changed = None;
        for (fake, args, wanted) in [
            (
                broken,
                json!({}),
                "LinterUnavailable: ruff: there is no program; mypy: there is no program",
            ),
            (no_repository, json!({}), "NotARepository: "),
            (nomarr(), json!({"path": "none"}), "FileNotFoundError: file not found: none"),
            (nomarr(), json!({"path": "nomarr/README.md"}), "UnsupportedFile: "),
            (nomarr(), json!({"path": "../x"}), "PathNotAllowed: "),
        ] {
            let error = lint(&fake, args.clone()).unwrap_err().to_string();
            assert!(error.starts_with(wanted), "{args}: {error}");
        }
    }

    #[test]
    fn descriptions_leave_details_out() {
        for (message, wanted) in [
            ("Line too long (92 > 88)", "Line too long"),
            ("`os` imported but unused", "`os` imported but unused"),
            ("Use of `print` (forbidden)", "Use of `print` (forbidden)"),
            ("first\nsecond", "first"),
            ("(1)", "(1)"),
            ("", ""),
        ] {
            assert_eq!(description(message), wanted);
        }
    }

    #[test]
    fn the_examples_of_the_schema_are_arguments() {
        takes_examples::<Args>(&parsed(INPUT));
    }

    #[test]
    fn many_findings_are_limited_and_counted() {
        let mut fake = Fake::new(&[("a.py", ""), ("b.py", "")]);
        fake.linters =
            vec![backend("ruff", &["python"], &["python"]), backend("mypy", &["python"], &[])];
        let mut bounded = cofferdam_sdk::backend::BoundedFindings::default();
        for line in 1..=200_000 {
            bounded.add(finding("a.py", line, 1, "E501", "line too long"));
        }
        bounded.add(finding("b.py", 7, 1, "E501", "line too long"));
        fake.answers.insert("ruff", Ok(report(bounded.finish(), None)));
        fake.answers.insert("mypy", Ok(report(vec![], Some(0))));
        let answer = lint(&fake, json!({"check_all": true})).unwrap();
        assert!(answer.to_string().len() <= 32 * 1024);
        assert_eq!(answer["summary"]["total_errors"], 200_001);
        let group = &answer["ruff"]["E501"];
        assert_eq!(group["total"], 200_001);
        let listed = group["occurrences"].as_array().unwrap();
        assert!(listed.contains(&json!({"file": "b.py", "line": 7})));
        let left_out = answer["left_out"].as_str().unwrap();
        assert!(left_out.starts_with(&format!("{} of 200001 occ", listed.len())), "{left_out}");
    }
}
