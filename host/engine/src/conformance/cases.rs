//! The test cases for linters of one language.

use super::seeds::{Language, Seed, count_u32, language};
use super::{Files, Known, Request, request};

/// The number of faults in the largest file.
const MANY_FAULTS: u32 = 1_000;

/// Characters of one to four UTF-8 bytes, of one or two UTF-16 units, and one of two columns'
/// width.
const WIDE_CHARACTERS: &str = "aäö字😀";

pub(super) const BOM: &[u8] = b"\xef\xbb\xbf";

/// A test case for a linter backend.
#[derive(Debug)]
pub struct Case {
    /// What the case tests, in words.
    pub name: String,
    /// The files of the workspace.
    pub files: Files,
    /// The request to the backend.
    pub request: Request,
    pub(super) expected: Expected,
    /// A path, and the contents that the file has to have after the fix.
    pub(super) fixed: Option<(String, Vec<u8>)>,
}

/// The expected response of a backend.
#[derive(Debug)]
pub(super) enum Expected {
    /// Findings with the code at these places, and no other findings with the code.
    Faults(Faults),
    /// A report without a syntax error and without findings with this code.
    Nothing { code: String },
    /// A finding that the file at `path` can't be parsed.
    SyntaxError { path: String },
    /// Any finding in the file or an error, since it is not text; but no clean report.
    NotClean { path: String },
    /// The error that the request is invalid.
    Invalid,
    /// The faults, or the error that the time limit was exceeded.
    FaultsOrLimit(Faults),
}

#[derive(Debug, Clone)]
pub(super) struct Faults {
    pub(super) code: String,
    /// Paths and line numbers.
    pub(super) places: Vec<(String, u32)>,
    pub(super) column: u32,
    pub(super) end_column: Option<u32>,
    /// Whether findings with other codes are wrong.
    pub(super) alone: bool,
}

impl Faults {
    fn new(known: &Known, places: Vec<(String, u32)>) -> Self {
        let Known { code, column, end_column, .. } = known.clone();
        Self { code, places, column, end_column, alone: false }
    }

    /// Moves the expected columns by `by` to the right.
    fn shifted(self, by: u32) -> Self {
        let shift = |column: u32| if column == 0 { 0 } else { column + by };
        Self { column: shift(self.column), end_column: self.end_column.map(shift), ..self }
    }
}

/// The cases of a language for a backend that finds the seeds in `known`. Returns no cases if
/// `known` is empty, since such a backend may find nothing at all.
pub fn cases(name: &str, known: &[Known]) -> Vec<Case> {
    let (Some(language), Some(first)) = (language(name), known.first()) else { return Vec::new() };
    let mut cases = contents(language, first);
    cases.extend(wrong_requests(language, first.seed));
    cases.extend(places(first));
    cases.extend(known.iter().find(|known| known.seed.repeats).map(many));
    // Every seed with a fix gets cases of its own.
    for known in known.iter().filter(|known| known.fixed.is_some()) {
        cases.extend(fixes(known));
    }
    cases
}

fn case(name: &str, files: Files, request: Request, expected: Expected) -> Case {
    Case { name: name.to_owned(), files, request, expected, fixed: None }
}

/// Cases with different contents of one file.
fn contents(language: &Language, known: &Known) -> Vec<Case> {
    let seed = known.seed;
    let line = seed.line();
    let asked = || request(&[seed.path]);
    let with = |contents: Vec<u8>| seed.project(seed.path, contents);
    let faults = || Faults::new(known, vec![(seed.path.to_owned(), line)]);
    let fault = |name, contents| case(name, with(contents), asked(), Expected::Faults(faults()));
    let plain = seed.text(1, "");
    let [open, close] = language.before;
    let wide = format!("{open}{WIDE_CHARACTERS}{close}");
    let shift = count_u32(wide.chars().count());
    let in_pieces = |middle: &[u8]| {
        [seed.head.as_bytes(), &plain.as_bytes()[seed.head.len()..], middle, b"\n"].concat()
    };
    let latin = match language.name {
        "python" => &b"# caf\xe9"[..],
        _ => &b"// caf\xe9"[..],
    };
    let unreadable = || Expected::NotClean { path: seed.path.to_owned() };
    vec![
        fault("a fault", plain.clone().into()),
        case(
            "an empty file",
            with(seed.empty.into()),
            asked(),
            Expected::Nothing { code: known.code.clone() },
        ),
        case(
            "a syntax error",
            with(language.broken.into()),
            asked(),
            Expected::SyntaxError { path: seed.path.to_owned() },
        ),
        fault("CRLF", plain.replace('\n', "\r\n").into()),
        fault("no line end at the end", plain.trim_end().into()),
        fault("a byte order mark", [BOM, plain.as_bytes()].concat()),
        case("no UTF-8", with(in_pieces(latin)), asked(), unreadable()),
        case("a NUL", with(in_pieces(b"\0")), asked(), unreadable()),
        case(
            "columns behind characters of several bytes",
            with(seed.text(1, &wide).into()),
            asked(),
            Expected::Faults(faults().shifted(shift)),
        ),
        case(
            "only one code",
            with(plain.clone().into()),
            Request { select: vec![known.code.clone()], ..asked() },
            Expected::Faults(Faults { alone: true, ..faults() }),
        ),
        case(
            "hardly any time",
            with(plain.into()),
            Request { timeout_ms: 1, ..asked() },
            Expected::FaultsOrLimit(faults()),
        ),
    ]
}

/// A case of one file with [`MANY_FAULTS`] faults.
fn many(known: &Known) -> Case {
    let seed = known.seed;
    let lines = seed.line()..seed.line() + MANY_FAULTS;
    let places = lines.map(|line| (seed.path.to_owned(), line)).collect();
    case(
        "a thousand faults",
        seed.project(seed.path, seed.text(MANY_FAULTS, "")),
        request(&[seed.path]),
        Expected::Faults(Faults::new(known, places)),
    )
}

/// Cases with invalid requests.
fn wrong_requests(language: &Language, seed: &'static Seed) -> Vec<Case> {
    let extension = seed.extension();
    let (broken, text) = language.broken_config;
    let files = || seed.project(seed.path, seed.text(1, ""));
    let asked = |path: &str| request(&[path]);
    let configured = |path: &str| Request { config: Some(path.to_owned()), ..asked(seed.path) };
    let mut with_broken = files();
    with_broken.insert(broken.to_owned(), text.as_bytes().to_vec());
    let wrong = |name: &str, request: Request| case(name, files(), request, Expected::Invalid);
    vec![
        wrong("a path that does not exist", asked(&format!("missing.{extension}"))),
        wrong("a path outside", asked(&format!("../outside.{extension}"))),
        wrong("an absolute path", asked(&format!("/outside.{extension}"))),
        wrong("a configuration that does not exist", configured("missing.toml")),
        wrong("a configuration outside", configured("../outside.toml")),
        case("a broken configuration", with_broken, configured(broken), Expected::Invalid),
    ]
}

/// Cases with the fault in different files and directories.
fn places(known: &Known) -> Vec<Case> {
    let seed = known.seed;
    let extension = seed.extension();
    let text = || seed.text(1, "");
    let found = |paths: &[&str]| {
        let places = paths.iter().map(|&path| (path.to_owned(), seed.line()));
        Expected::Faults(Faults::new(known, places.collect()))
    };
    let below = |directory: &str| -> Files {
        let files = seed.project(seed.path, text());
        files.into_iter().map(|(path, text)| (format!("{directory}/{path}"), text)).collect()
    };
    let directory = seed.path.rsplit_once('/').map_or(".", |(directory, _)| directory);
    let nested = format!("deep/er/{}", seed.path);
    let mut cases = vec![
        case(
            "a directory",
            seed.project(seed.path, text()),
            request(&[directory]),
            found(&[seed.path]),
        ),
        case(
            "the whole workspace",
            seed.project(seed.path, text()),
            request(&["."]),
            found(&[seed.path]),
        ),
        case(
            "a project in a directory of the workspace",
            below("deep/er"),
            Request { root: "deep/er".to_owned(), ..request(&[&nested]) },
            found(&[&nested]),
        ),
    ];
    if seed.stands_alone {
        let odd = format!("-odd näme (1).{extension}");
        cases.push(case(
            "a name like an option",
            seed.project(&odd, text()),
            request(&[&odd]),
            found(&[&odd]),
        ));
        let directory = format!("directory.{extension}");
        let inside = format!("{directory}/{}", seed.path);
        cases.push(case(
            "a directory named like a file",
            seed.project(&inside, text()),
            request(&[&directory]),
            found(&[&inside]),
        ));
        let [first, second] = ["b/one", "a"].map(|stem| format!("{stem}.{extension}"));
        let mut both = seed.project(&first, text());
        both.insert(second.clone(), text().into());
        cases.push(case(
            "several files in the order of their paths",
            both,
            request(&[&first, &second]),
            found(&[&second, &first]),
        ));
    }
    cases
}

/// Cases in which a fix has to have the same result for each encoding and line ending.
fn fixes(known: &Known) -> Vec<Case> {
    let seed = known.seed;
    let plain = seed.text(1, "").into_bytes();
    let faults = Faults::new(known, vec![(seed.path.to_owned(), seed.line())]);
    let encodings = [
        ("", false, false),
        (" with CRLF", false, true),
        (" with a byte order mark", true, false),
        (" with both", true, true),
    ];
    encodings
        .into_iter()
        .map(|(name, bom, crlf)| Case {
            name: format!("the fix for {}{name}", known.code),
            files: seed.project(seed.path, encoded(&plain, bom, crlf)),
            request: request(&[seed.path]),
            expected: Expected::Faults(faults.clone()),
            fixed: (known.fixed.as_deref())
                .map(|text| (seed.path.to_owned(), encoded(text, bom, crlf))),
        })
        .collect()
}

/// Adds a byte order mark to `text`, or turns its line endings into CRLF.
fn encoded(text: &[u8], bom: bool, crlf: bool) -> Vec<u8> {
    let mut encoded = if bom { BOM.to_vec() } else { Vec::new() };
    for &byte in text {
        if crlf && byte == b'\n' {
            encoded.push(b'\r');
        }
        encoded.push(byte);
    }
    encoded
}
