//! Reports for recorded output of the real programs (`tests/data`: Go 1.27, npm 11 with node 20,
//! GNU make 4.3 with gcc 12, cargo 1.95, Maven 3.8, Gradle 4.4), and real builds with cargo.
#![expect(clippy::panic, clippy::unwrap_used, reason = "tests")]

use std::fs;

use cofferdam_sdk::process::Captured;

use super::*;

/// Path, line, column, whether it is an error, and the beginning of the message.
type Wanted<'a> = (&'a str, u32, u32, bool, &'a str);

fn captured(bytes: &[u8]) -> Captured {
    Captured { bytes: bytes.to_vec(), total: bytes.len() as u64 }
}

fn printed(end: End, stdout: &str, stderr: &str) -> Output {
    Output {
        end,
        stdout: captured(stdout.as_bytes()),
        stderr: captured(stderr.as_bytes()),
        duration_ms: 1,
        workspace: "/project".to_owned(),
    }
}

fn with_project<T>(test: impl FnOnce(&Project) -> T) -> T {
    let directory = tempfile::tempdir().unwrap();
    let context = Context::for_directory(directory.path());
    test(&Project::at("", &context).unwrap())
}

fn check(framework: Framework, code: i32, (stdout, stderr): (&str, &str), wanted: &[Wanted]) {
    let output = printed(End::Exited(code), stdout, stderr);
    let report = with_project(|project| report(framework, &output, project)).unwrap();
    let found: Vec<Wanted> = report
        .diagnostics
        .iter()
        .map(|d| {
            let is_error = d.severity == Severity::Error;
            (d.path.as_str(), d.line, d.column, is_error, d.message.as_str())
        })
        .collect();
    let shown: Vec<Wanted> = found
        .iter()
        .zip(wanted)
        .map(|(&(path, line, column, is_error, message), (.., start))| {
            let start = if message.starts_with(start) { start } else { message };
            (path, line, column, is_error, start)
        })
        .collect();
    assert_eq!(shown, wanted);
    assert_eq!(found.len(), wanted.len(), "{found:#?}");
    assert_eq!((report.exit_code, report.timed_out), (Some(code), false));
}

macro_rules! data {
    ($name:literal) => {
        include_str!(concat!("../tests/data/", $name))
    };
}

#[test]
fn go() {
    check(
        Framework::Go,
        1,
        ("", data!("go-build-broken.stderr")),
        &[
            ("internal/foo.go", 10, 2, true, "undefined: someFunc"),
            ("internal/foo.go", 11, 31, true, "undefined: unit"),
        ],
    );
}

#[test]
fn npm() {
    let streams = (data!("npm-build-broken.stdout"), data!("npm-build-broken.stderr"));
    let message = "SyntaxError: missing ) after argument list";
    check(Framework::Npm, 1, streams, &[("src/price.js", 4, 53, true, message)]);
}

#[test]
fn make() {
    check(
        Framework::Make,
        2,
        (data!("make-broken.stdout"), data!("make-broken.stderr")),
        &[
            ("main.c", 8, 28, true, "‘shipping’ undeclared (first use in this function)"),
            ("main.c", 9, 12, false, "implicit declaration of function ‘some_function’ [-W"),
            ("main.c", 9, 26, true, "expected expression before ‘;’ token"),
            ("main.c", 9, 27, true, "expected ‘;’ before ‘}’ token"),
            ("main.c", 7, 9, false, "unused variable ‘unused’ [-Wunused-variable]"),
        ],
    );
}

#[test]
fn cargo() {
    let wanted: [Wanted; 2] = [
        ("src/lib.rs", 6, 5, true, "cannot find function `some_function` in this scope"),
        ("src/lib.rs", 7, 5, true, "mismatched types"),
    ];
    let json = (data!("cargo-build-json-broken.stdout"), data!("cargo-build-json-broken.stderr"));
    check(Framework::Cargo, 101, json, &wanted);
    check(Framework::Cargo, 101, ("", data!("cargo-build-broken.stderr")), &wanted);
    let output = printed(End::Exited(101), json.0, json.1);
    let report = with_project(|project| report(Framework::Cargo, &output, project)).unwrap();
    assert!(report.raw.starts_with("error[E0425]: cannot find function"), "{}", report.raw);
    assert!(report.raw.contains("error: could not compile"), "{}", report.raw);
}

#[test]
fn maven() {
    let path = "src/main/java/shop/Price.java";
    let deprecated = "Integer(int) in java.lang.Integer has been deprecated";
    check(
        Framework::Maven,
        1,
        (data!("mvn-compile-broken.stdout"), ""),
        &[
            (path, 14, 16, false, deprecated),
            (path, 13, 20, true, "incompatible types: java.lang.String cannot be converted"),
            (path, 14, 37, true, "cannot find symbol: method someFunction()"),
        ],
    );
    let warnings = (data!("mvn-compile-warnings.stdout"), "");
    check(Framework::Maven, 0, warnings, &[(path, 18, 16, false, deprecated)]);
}

#[test]
fn gradle() {
    let path = "src/main/java/shop/Price.java";
    check(
        Framework::Gradle,
        1,
        (data!("gradle-broken.stdout"), data!("gradle-broken.stderr")),
        &[
            (path, 13, 20, true, "incompatible types: String cannot be converted to int"),
            (path, 14, 16, false, "[removal] Integer(int) in Integer has been deprecated"),
            (path, 14, 37, true, "cannot find symbol: method someFunction()"),
        ],
    );
}

#[test]
fn failures_without_a_place_are_one_error() {
    let nothing_to_do = "make: *** No targets specified and no makefile found.  Stop.\n";
    let message = "No targets specified and no makefile found.  Stop.";
    check(Framework::Make, 2, ("", nothing_to_do), &[("", 0, 0, true, message)]);
    check(Framework::Make, 0, ("all is well\n", ""), &[]);
    let silent = "the build ended with status 1, without a word";
    check(Framework::Make, 1, ("", ""), &[("", 0, 0, true, silent)]);
}

#[test]
fn a_program_that_did_not_start_is_one_error() {
    with_project(|project| {
        for (stderr, wanted) in [
            (
                "java.nio.file.NoSuchFileException: /x/m2.conf\n\tat java.base/x.Y(Y.java:92)\n",
                "java.nio.file.NoSuchFileException: /x/m2.conf",
            ),
            ("", "the build ended with status 100, without a word"),
        ] {
            let output = printed(End::Exited(100), "", stderr);
            let report = report(Framework::Maven, &output, project).unwrap();
            let [error] = report.diagnostics.as_slice() else { panic!("{:?}", report.diagnostics) };
            assert_eq!((error.message.as_str(), error.path.as_str()), (wanted, ""));
        }
    });
}

#[test]
fn timeouts_and_truncated_output_are_reported() {
    let of = |output: &Output| with_project(|project| report(Framework::Cargo, output, project));
    let stopped = of(&printed(End::TimedOut, "", "   Compiling a v0.1.0\n")).unwrap();
    assert_eq!((stopped.exit_code, stopped.timed_out), (None, true));
    assert_eq!((stopped.diagnostics.len(), stopped.raw.as_str()), (0, "   Compiling a v0.1.0\n"));
    assert_eq!(of(&printed(End::Signalled(9), "", "")).unwrap().exit_code, Some(137));
    let limit = of(&printed(End::Limit("MemoryLimit".to_owned()), "", ""));
    assert!(matches!(limit, Err(Error::Limit(message)) if message.contains("MemoryLimit")));
    let mut cut = printed(End::Exited(101), data!("cargo-build-json-broken.stdout"), "");
    cut.stdout.total += 1;
    assert!(matches!(of(&cut), Err(Error::Failed(message)) if message.contains("cargo printed")));
}

#[test]
fn the_size_of_reports_is_limited() {
    let message = "x".repeat(100);
    let lines: String =
        (1..11_000).map(|line| format!("a.c:{line}:1: error: {message}\n")).collect();
    let output = printed(End::Exited(1), "", &lines);
    let report = with_project(|project| report(Framework::Make, &output, project)).unwrap();
    assert_eq!(report.diagnostics.len(), MAX_DIAGNOSTICS);
    assert!(report.raw.len() < MAX_RAW_BYTES + 100);
}

fn build(name: &str, request: &Request, context: &Context) -> Result<Report, Error> {
    <Builders as Builder>::build(name, request, context)
}

#[test]
fn cargo_builds_a_project() {
    let directory = tempfile::tempdir().unwrap();
    let context = Context::for_directory(directory.path());
    let write = |path: &str, contents: &str| {
        let path = directory.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, contents).unwrap();
    };
    let manifest = "[package]\nname = 'app'\nversion = '0.1.0'\nedition = '2021'\n\n[workspace]\n";
    write("app/Cargo.toml", manifest);
    write("app/src/main.rs", "fn main() {\n    let unused = 1;\n}\n");
    let mut request =
        Request { root: "app".to_owned(), target: None, command: Vec::new(), timeout_ms: 120_000 };
    assert_eq!(<Builders as Builder>::detect("cargo", "app", &context), 90);
    assert_eq!(<Builders as Builder>::detect("cargo", "", &context), 0);
    assert_eq!(<Builders as Builder>::detect("none", "app", &context), 0);
    assert!(<Builders as Builder>::version("cargo", &context).unwrap().starts_with("1."));

    let report = build("cargo", &request, &context).unwrap();
    assert_eq!(report.exit_code, Some(0), "{}", report.raw);
    let [warning] = report.diagnostics.as_slice() else { panic!("{:?}", report.diagnostics) };
    assert_eq!((warning.path.as_str(), warning.line, warning.column), ("app/src/main.rs", 2, 9));
    assert_eq!(warning.severity, Severity::Warning);
    assert!(!directory.path().join("app/target").exists());

    request.target = Some("none".to_owned());
    let report = build("cargo", &request, &context).unwrap();
    assert_eq!(report.exit_code, Some(101));
    assert!(report.diagnostics[0].message.starts_with("no bin target named `none`"));

    request.target = None;
    write("app/src/main.rs", "fn main() { missing() }\n");
    request.command = ["cargo", "build", "--release"].map(str::to_owned).to_vec();
    let report = build("cargo", &request, &context).unwrap();
    let [error] = report.diagnostics.as_slice() else { panic!("{:?}", report.diagnostics) };
    assert_eq!((error.path.as_str(), error.line, error.column), ("app/src/main.rs", 1, 13));
    assert_eq!(error.severity, Severity::Error);

    request.command = vec!["no-such-program-here".to_owned()];
    assert!(matches!(build("cargo", &request, &context), Err(Error::Unavailable(_))));
    request.root = "none".to_owned();
    assert!(matches!(build("cargo", &request, &context), Err(Error::Invalid(_))));
    assert!(matches!(build("none", &request, &context), Err(Error::Unavailable(_))));
}
