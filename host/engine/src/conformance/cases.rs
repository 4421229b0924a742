//! The cases of a language.

use super::seeds::{Language, Seed, count_u32, language};
use super::{Files, Known, Request, request};

/// How many faults the largest file has.
const MANY: u32 = 1_000;

/// Characters of one to four bytes and one or two UTF-16 units, and one of two columns' width.
const WIDE: &str = "aäö字😀";

pub(super) const BOM: &[u8] = b"\xef\xbb\xbf";

/// One thing that a backend has to do.
#[derive(Debug)]
pub struct Case {
    /// What is tried, in words.
    pub name: String,
    /// The workspace.
    pub files: Files,
    /// What to ask.
    pub request: Request,
    pub(super) expected: Expected,
    /// What a fix has to make of a file.
    pub(super) fixed: Option<(String, Vec<u8>)>,
}

/// What has to come of it.
#[derive(Debug)]
pub(super) enum Expected {
    /// Faults at these places, and no others of that code.
    Faults(Faults),
    /// A report that does not say that the file can't be parsed, and has no finding of that code.
    Nothing { code: String },
    /// A finding that says that this file can't be parsed.
    SyntaxError { path: String },
    /// The file can't be read as text: any finding in it, or an error, but no clean report.
    NotClean { path: String },
    /// The request is wrong.
    Invalid,
    /// The faults, or that the time was not enough.
    FaultsOrLimit(Faults),
}

#[derive(Debug, Clone)]
pub(super) struct Faults {
    pub(super) code: String,
    /// Paths and lines.
    pub(super) places: Vec<(String, u32)>,
    pub(super) column: u32,
    pub(super) end_column: Option<u32>,
    /// Whether nothing else may be found.
    pub(super) alone: bool,
}

impl Faults {
    fn new(known: &Known, places: Vec<(String, u32)>) -> Self {
        let Known { code, column, end_column, .. } = known.clone();
        Self { code, places, column, end_column, alone: false }
    }

    /// Everything `by` columns further to the right.
    fn shifted(self, by: u32) -> Self {
        let shift = |column: u32| if column == 0 { 0 } else { column + by };
        Self { column: shift(self.column), end_column: self.end_column.map(shift), ..self }
    }
}

/// The cases of a language for a backend that finds the seeds in `known`. Without any of them
/// there are no cases: such a backend can't be told from one that finds nothing at all.
pub fn cases(name: &str, known: &[Known]) -> Vec<Case> {
    let (Some(language), Some(first)) = (language(name), known.first()) else { return Vec::new() };
    let mut cases = contents(language, first);
    cases.extend(wrong_requests(language, first.seed));
    cases.extend(places(first));
    cases.extend(known.iter().find(|known| known.seed.repeats).map(many));
    // Fixes are tried out wherever there are any: every seed with one is worth a case.
    for known in known.iter().filter(|known| known.fixed.is_some()) {
        cases.extend(fixes(known));
    }
    cases
}

fn case(name: &str, files: Files, request: Request, expected: Expected) -> Case {
    Case { name: name.to_owned(), files, request, expected, fixed: None }
}

/// Files of all sorts.
fn contents(language: &Language, known: &Known) -> Vec<Case> {
    let seed = known.seed;
    let line = seed.line();
    let asked = || request(&[seed.path]);
    let with = |contents: Vec<u8>| seed.project(seed.path, contents);
    let faults = || Faults::new(known, vec![(seed.path.to_owned(), line)]);
    let plain = seed.text(1, "");
    let [open, close] = language.before;
    let wide = format!("{open}{WIDE}{close}");
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
        case("a fault", with(plain.clone().into()), asked(), Expected::Faults(faults())),
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
        case("CRLF", with(plain.replace('\n', "\r\n").into()), asked(), Expected::Faults(faults())),
        case(
            "no line end at the end",
            with(plain.trim_end().into()),
            asked(),
            Expected::Faults(faults()),
        ),
        case(
            "a byte order mark",
            with([BOM, plain.as_bytes()].concat()),
            asked(),
            Expected::Faults(faults()),
        ),
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

/// A file full of faults.
fn many(known: &Known) -> Case {
    let seed = known.seed;
    let lines = seed.line()..seed.line() + MANY;
    let places = lines.map(|line| (seed.path.to_owned(), line)).collect();
    case(
        "a thousand faults",
        seed.project(seed.path, seed.text(MANY, "")),
        request(&[seed.path]),
        Expected::Faults(Faults::new(known, places)),
    )
}

/// Requests that can't be answered.
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

/// The same fault in other places.
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

/// A fix gives the same text, whatever the file's encoding and line ends are.
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

/// A text that has neither, with a byte order mark, with CRLF, or both.
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
