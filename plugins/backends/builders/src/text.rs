//! Finds errors and warnings in the output of compilers and build programs.
//!
//! A build may run any compiler (make and npm do), so all forms are recognised in the output of all
//! frameworks:
//!
//! | form | printed by |
//! |---|---|
//! | `FILE:LINE:COLUMN: error: ...`, also without column or `error:` | gcc, clang, go, javac (which gradle shows), make |
//! | `FILE(LINE,COLUMN): error ...`, `FILE:LINE:COLUMN - error ...` | tsc |
//! | `[ERROR] FILE:[LINE,COLUMN] ...` | maven |
//! | `e: FILE:LINE:COLUMN ...` | kotlinc |
//! | `error: ...`, then `--> FILE:LINE:COLUMN` | rustc, cargo |
//! | `✘ [ERROR] ...`, then `FILE:LINE:COLUMN:` | esbuild |
//! | a line with the file, then `LINE:COLUMN  error  ...` | eslint |
//! | `FILE:LINE`, the line, a caret, then `SyntaxError: ...` | node |
//! | `FILE:(.text+0x5): undefined reference to ...` | ld |

use anstream::adapter::strip_str;
use cofferdam_sdk::backend::building::Severity;
use regex_lite::{Captures, Regex};

/// The maximum length of a line, in bytes; longer lines are minified code instead of messages.
const MAX_LINE_BYTES: usize = 10_000;

/// The unit in which a program counts columns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Columns {
    /// Unicode scalar values, or unknown.
    Characters,
    /// Bytes of UTF-8 text.
    Bytes,
    /// UTF-16 code units, as JavaScript and Java count.
    Utf16,
    /// UTF-16 code units, where a tab advances to the next multiple of eight.
    Utf16Tabs,
}

/// A message, with its place as the program wrote it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    /// Empty if the message names no file.
    pub path: String,
    /// Counted from 1; 0: unknown.
    pub line: u32,
    /// Counted from 1; 0: unknown.
    pub column: u32,
    /// The unit of the column.
    pub columns: Columns,
    /// The message without place and severity.
    pub message: String,
    /// `None` if the program does not name it: an error if the build failed.
    pub severity: Option<Severity>,
}

/// Finds the messages in output [without escapes](without_escapes). In those of the form
/// `FILE:LINE:COLUMN:`, `columns` is the unit of the column.
pub fn parse(printed: &str, columns: Columns) -> Vec<Found> {
    let Some(forms) = Forms::new() else { return Vec::new() };
    let lines: Vec<&str> = printed.lines().collect();
    let mut found: Vec<Found> = Vec::new();
    let mut context = Context::default();
    for (index, line) in lines.iter().enumerate().filter(|(_, line)| line.len() <= MAX_LINE_BYTES) {
        let rest = &lines[index + 1..];
        if let Some(message) = forms.message(line, rest, columns, &mut context) {
            found.extend(message);
        } else if let (Some(more), Some(last)) = (line.strip_prefix('\t'), found.last_mut())
            && context.is_open
        {
            last.message = format!("{}\n{}", last.message, more.trim_end());
        } else {
            context.is_open = false;
        }
    }
    found
}

/// The state that earlier lines leave for later ones.
#[derive(Default)]
struct Context {
    /// Whether the last message may continue: Go's does, in lines that begin with a tab.
    is_open: bool,
    /// A message whose place is on a later line.
    unplaced: Option<(Severity, String)>,
    /// The file of eslint's lines that follow.
    file: Option<String>,
}

/// The pattern of a line, and a string that all such lines contain. Searching for the string is
/// fast, and most lines do not contain it.
struct Form {
    sign: &'static str,
    pattern: Regex,
}

impl Form {
    fn captures<'a>(&self, line: &'a str) -> Option<Captures<'a>> {
        if line.contains(self.sign) { self.pattern.captures(line) } else { None }
    }
}

/// The patterns of lines with messages.
struct Forms {
    colons: Form,
    brackets: Form,
    dash: Form,
    maven: Form,
    kotlin: Form,
    headline: Form,
    arrow: Form,
    esbuild: Form,
    esbuild_place: Form,
    eslint: Form,
    node: Form,
    linker: Form,
    symbol: Form,
}

impl Forms {
    fn new() -> Option<Self> {
        let form = |sign, pattern| Some(Form { sign, pattern: Regex::new(pattern).ok()? });
        Some(Self {
            colons: form(
                ": ",
                r"^([^\s:(\[][^:(\[]*):(\d+)(?::(\d+))?: (?:(fatal error|error|warning|note|remark): )?(.+)$",
            )?,
            brackets: form("): ", r"^([^\s:(]+)\((\d+),(\d+)\): (error|warning) (.+)$")?,
            dash: form(" - ", r"^([^\s:][^:]*):(\d+):(\d+) - (error|warning) (.+)$")?,
            maven: form(":[", r"^\[(ERROR|WARNING)\] (.+\.\w+):\[(\d+)(?:,(\d+))?\] (.+)$")?,
            kotlin: form(".kt", r"^([ew]): (?:file://)?([^:]+\.kts?):(\d+):(\d+):? (.+)$")?,
            headline: form(": ", r"^(error|warning)(?:\[\w+\])?: (.+)$")?,
            arrow: form("--> ", r"^\s*--> (.+?):(\d+):(\d+)$")?,
            esbuild: form("] ", r"^(?:✘|X|▲|>) \[(ERROR|WARNING)\] (.+)$")?,
            esbuild_place: form("    ", r"^    (\S.*?):(\d+):(\d+):$")?,
            eslint: form("  ", r"^\s+(\d+):(\d+)\s+(error|warning)\s+(.+?)(?:\s\s+\S+)?\s*$")?,
            node: form("/", r"^(/[^:]+\.[cm]?[jt]sx?):(\d+)$")?,
            linker: form(
                "undefined reference",
                r"^(?:\S*ld(?:\.\w+)?: )?([^\s:]+):\(\.\w[^)]*\): (undefined reference .+)$",
            )?,
            symbol: form("symbol:", r"^(?:\[ERROR\])?\s+symbol:\s+(.+)$")?,
        })
    }

    /// Returns the message that `line` completes; `rest` are the lines after it. `Some(None)`: the
    /// line is part of a message, or is a note or remark. `None`: it is not part of a message.
    fn message(
        &self,
        line: &str,
        rest: &[&str],
        columns: Columns,
        context: &mut Context,
    ) -> Option<Option<Found>> {
        if let Some(message) = self.headline_or_its_place(line, context) {
            return Some(message);
        }
        if let Some(message) = self.one_line_message(line, rest, columns) {
            return Some(Some(message));
        }
        if let Some(captures) = self.node.captures(line) {
            return self.node_message(&captures, rest).map(Some);
        }
        if let Some(captures) = self.eslint.captures(line)
            && let Some(file) = &context.file
        {
            let (severity, message) = (severity(text(&captures, 3)), text(&captures, 4).to_owned());
            let mut found = found(&captures, [0, 1, 2], Columns::Utf16, message, severity);
            found.path.clone_from(file);
            return Some(Some(found));
        }
        context.file = match line {
            line if line.starts_with('/') && !line.contains(':') => Some((*line).to_owned()),
            // ESLint prints an empty line after the last line about a file.
            _ => None,
        };
        self.colons_message(line, rest, columns, context)
    }

    /// Reads the forms of two lines, the message and its place: rustc's and esbuild's.
    fn headline_or_its_place(&self, line: &str, context: &mut Context) -> Option<Option<Found>> {
        if let Some(captures) = self.arrow.captures(line) {
            let message = context.unplaced.take();
            return Some(message.map(|(severity, message)| {
                found(&captures, [1, 2, 3], Columns::Characters, message, Some(severity))
            }));
        }
        if let Some(captures) = self.esbuild_place.captures(line) {
            return Some(context.unplaced.take().map(|(severity, message)| {
                let mut found =
                    found(&captures, [1, 2, 3], Columns::Bytes, message, Some(severity));
                // esbuild counts columns from 0, all other programs from 1.
                found.column += 1;
                found
            }));
        }
        let captures = self.headline.captures(line).or_else(|| self.esbuild.captures(line))?;
        context.unplaced = severity(text(&captures, 1)).zip(Some(text(&captures, 2).to_owned()));
        Some(None)
    }

    /// Reads the forms that have message and place in one line, except those with colons alone:
    /// maven's, tsc's, kotlinc's and the linker's.
    fn one_line_message(&self, line: &str, rest: &[&str], columns: Columns) -> Option<Found> {
        if let Some(captures) = self.maven.captures(line) {
            let message = self.with_symbol(text(&captures, 5), rest);
            let severity = severity(text(&captures, 1));
            return Some(found(&captures, [2, 3, 4], Columns::Utf16Tabs, message, severity));
        }
        for form in [&self.brackets, &self.dash] {
            if let Some(captures) = form.captures(line) {
                let (severity, message) = (severity(text(&captures, 4)), text(&captures, 5));
                let message = message.to_owned();
                return Some(found(&captures, [1, 2, 3], Columns::Utf16, message, severity));
            }
        }
        if let Some(captures) = self.kotlin.captures(line) {
            let (severity, message) = (severity(text(&captures, 1)), text(&captures, 5).to_owned());
            return Some(found(&captures, [2, 3, 4], Columns::Utf16, message, severity));
        }
        let captures = self.linker.captures(line)?;
        let message = text(&captures, 2).to_owned();
        Some(found(&captures, [1, 0, 0], columns, message, Some(Severity::Error)))
    }

    /// Reads the form `FILE:LINE:COLUMN: error: ...`.
    fn colons_message(
        &self,
        line: &str,
        rest: &[&str],
        columns: Columns,
        context: &mut Context,
    ) -> Option<Option<Found>> {
        let captures = self.colons.captures(line).filter(|captures| is_file(text(captures, 1)))?;
        let words = text(&captures, 4);
        if matches!(words, "note" | "remark") {
            return Some(None);
        }
        context.is_open = words.is_empty();
        let message = text(&captures, 5).trim_start_matches("*** ");
        let message = self.with_symbol(message, rest);
        let mut found = found(&captures, [1, 2, 3], columns, message, severity(words));
        if found.column == 0 && !words.is_empty() {
            // javac shows the column only by a caret.
            found.columns = Columns::Utf16;
            found.column = rest.get(1).and_then(|line| caret(line)).unwrap_or(0);
        }
        Some(Some(found))
    }

    /// Appends the symbol that javac names on a later line: its message has none.
    fn with_symbol(&self, message: &str, rest: &[&str]) -> String {
        let symbol = rest.iter().take(4).find_map(|line| self.symbol.captures(line));
        match symbol {
            Some(symbol) if message == "cannot find symbol" => {
                format!("{message}: {}", text(&symbol, 1))
            }
            _ => message.to_owned(),
        }
    }

    /// A file and line as node prints them; a message only if an error follows.
    fn node_message(&self, place: &Captures, rest: &[&str]) -> Option<Found> {
        let column = rest.get(1).and_then(|line| caret(line))?;
        let message = rest.iter().skip(2).take(2).find(|line| line.contains("Error: "))?;
        let mut found =
            found(place, [1, 2, 0], Columns::Utf16, (*message).to_owned(), Some(Severity::Error));
        found.column = column;
        Some(found)
    }
}

/// Makes a message from the capture groups of path, line and column; 0 is no group.
fn found(
    captures: &Captures,
    [path, line, column]: [usize; 3],
    columns: Columns,
    message: String,
    severity: Option<Severity>,
) -> Found {
    let part = |group: usize| if group == 0 { "" } else { text(captures, group) };
    Found {
        path: part(path).to_owned(),
        line: part(line).parse().unwrap_or(0),
        column: part(column).parse().unwrap_or(0),
        columns,
        message,
        severity,
    }
}

fn text<'a>(captures: &Captures<'a>, group: usize) -> &'a str {
    captures.get(group).map_or("", |group| group.as_str())
}

fn severity(word: &str) -> Option<Severity> {
    match word {
        "error" | "fatal error" | "ERROR" | "e" => Some(Severity::Error),
        "warning" | "WARNING" | "w" => Some(Severity::Warning),
        _ => None,
    }
}

/// Whether the text before a line number can be a file, and not a time or a program.
fn is_file(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or(path);
    let extension = name.rsplit_once('.').map_or("", |(_, extension)| extension);
    let is_word = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '+' | '-');
    matches!(name, "Makefile" | "makefile" | "GNUmakefile")
        || extension.starts_with(|c: char| c.is_ascii_alphabetic())
            && extension.chars().all(is_word)
}

/// The column of the first caret in a line that has nothing else; tabs are as in the source.
fn caret(line: &str) -> Option<u32> {
    let before = line.find('^')?;
    let is_marks = line.trim().chars().all(|c| matches!(c, '^' | '~'));
    (is_marks && line[..before].trim().is_empty()).then(|| u32::try_from(before + 1).ok())?
}

/// Removes the escape sequences of terminals, such as colours.
pub fn without_escapes(text: &str) -> String {
    strip_str(text).to_string()
}

/// The directories that make enters, according to its output, in order.
pub fn entered_directories(printed: &str) -> Vec<String> {
    let Ok(entering) = Regex::new(r"(?m)^\S*make(?:\[\d+\])?: Entering directory '(.+)'$") else {
        return Vec::new();
    };
    let mut directories: Vec<String> = Vec::new();
    for captures in entering.captures_iter(printed) {
        let directory = text(&captures, 1);
        if !directories.iter().any(|known| known == directory) {
            directories.push(directory.to_owned());
        }
    }
    directories
}

/// The message for a failed build without errors in its output: the first line in which a build
/// program reports the failure.
pub fn fallback_message(printed: &str) -> Option<String> {
    let lines: Vec<&str> = printed.lines().map(str::trim_end).collect();
    let wrong = lines.iter().position(|line| *line == "* What went wrong:");
    if let Some(gradle) = wrong.and_then(|at| lines.get(at + 1)) {
        return Some((*gradle).to_owned());
    }
    let failed = Regex::new(
        r"^(?:\S*make(?:\[\d+\])?: \*\*\* |npm (?:error|ERR!) |go: |error: |fatal: |\[ERROR\] |\S*ld: |\S*Error: )(.*\w.*)$",
    );
    let failed = failed.ok()?;
    let message = |line: &&str| failed.captures(line).map(|captures| text(&captures, 1).to_owned());
    // npm's message about a failed script says less than the script's own.
    let (npm, others): (Vec<&str>, Vec<&str>) =
        lines.iter().partition(|line| line.starts_with("npm "));
    // npm's first line is only a code: `npm error code EJSONPARSE`.
    let said = npm.iter().filter(|line| line.split(' ').nth(2) != Some("code"));
    others
        .iter()
        .find_map(message)
        .or_else(|| said.clone().find_map(message))
        .or_else(|| npm.iter().find_map(message))
}

/// The last line that is not indented: Java and Python indent stack traces.
pub fn last_line(printed: &str) -> Option<String> {
    let printed = without_escapes(printed);
    let is_said = |line: &&str| !line.trim().is_empty() && !line.starts_with([' ', '\t']);
    printed.lines().rev().find(is_said).map(|line| line.trim_end().to_owned())
}

/// The first word that looks like a version.
pub(crate) fn version(printed: &str) -> Option<String> {
    let version = Regex::new(r"\d+\.\d+(?:\.\d+)*(?:[-+][\w.]+)?").ok()?;
    version.find(&without_escapes(printed)).map(|version| version.as_str().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    const ERROR: Option<Severity> = Some(Severity::Error);
    const WARNING: Option<Severity> = Some(Severity::Warning);

    type Wanted<'a> = (&'a str, u32, u32, Option<Severity>, &'a str);

    fn check(printed: &str, wanted: &[Wanted]) {
        let found = parse(&without_escapes(printed), Columns::Characters);
        let found: Vec<Wanted> = found
            .iter()
            .map(|f| (f.path.as_str(), f.line, f.column, f.severity, f.message.as_str()))
            .collect();
        assert_eq!(found, wanted, "{printed}");
    }

    #[test]
    fn go_messages_may_span_lines() {
        check(
            "# example.com/app/internal/foo\n\
             internal/foo/foo.go:4:2: declared and not used: x\n\
             internal/foo/foo.go:3:8: no required module provides package a.b/c; to add it:\n\
             \tgo get a.b/c\n\
             \n\
             \tnot a part of it\n",
            &[
                ("internal/foo/foo.go", 4, 2, None, "declared and not used: x"),
                (
                    "internal/foo/foo.go",
                    3,
                    8,
                    None,
                    "no required module provides package a.b/c; to add it:\ngo get a.b/c",
                ),
            ],
        );
    }

    #[test]
    fn make_and_linkers() {
        check(
            "/usr/bin/ld: main.o: in function `main':\n\
             main.c:(.text+0x5): undefined reference to `none'\n\
             /usr/bin/ld: main.c:(.text+0x9): undefined reference to `more'\n\
             collect2: error: ld returned 1 exit status\n\
             make: *** [Makefile:4: app] Error 1\n\
             Makefile:2: *** missing separator.  Stop.\n",
            &[
                ("main.c", 0, 0, ERROR, "undefined reference to `none'"),
                ("main.c", 0, 0, ERROR, "undefined reference to `more'"),
                ("Makefile", 2, 0, None, "missing separator.  Stop."),
            ],
        );
    }

    #[test]
    fn javac_has_its_column_in_a_caret() {
        check(
            "src/App.java:5: error: cannot find symbol\n\
             \t\tString s = \"é\"; return missing(s);\n\
             \t\t                       ^\n\
             \x20 symbol:   method missing(String)\n\
             \x20 location: class App\n\
             src/App.java:7: warning: [rawtypes] found raw type: List\n\
             1 error\n1 warning\n",
            &[
                ("src/App.java", 5, 26, ERROR, "cannot find symbol: method missing(String)"),
                ("src/App.java", 7, 0, WARNING, "[rawtypes] found raw type: List"),
            ],
        );
    }

    #[test]
    fn messages_of_tools_in_npm_scripts() {
        check(
            "src/index.ts(1,24): error TS2322: Type 'string' is not assignable.\n\
             \u{1b}[96msrc/b.ts\u{1b}[0m:\u{1b}[93m3\u{1b}[0m:\u{1b}[93m10\u{1b}[0m - \
             \u{1b}[91merror\u{1b}[0m\u{1b}[90m TS2304: \u{1b}[0mCannot find name 'missing'.\n\
             ✘ [ERROR] Unexpected \";\"\n\
             \n\
             \x20   src/bad.ts:1:10:\n\
             \x20     1 │ const a = ;\n\
             \n\
             /work/src/x.js\n\
             \x20 1:7  error    'a' is assigned a value but never used  no-unused-vars\n\
             \x20 2:1  warning  'b' is not defined                      no-undef\n\
             \n\
             \x20 3:1  error  this is about nothing\n\
             /work/src/price.js:4\n\
             \x20 return prices.reduce((all, price) => all + price, 0;\n\
             \x20                                                   ^\n\
             \n\
             SyntaxError: missing ) after argument list\n\
             \x20   at wrapSafe (node:internal/modules/cjs/loader:1464:18)\n",
            &[
                ("src/index.ts", 1, 24, ERROR, "TS2322: Type 'string' is not assignable."),
                ("src/b.ts", 3, 10, ERROR, "TS2304: Cannot find name 'missing'."),
                ("src/bad.ts", 1, 11, ERROR, "Unexpected \";\""),
                ("/work/src/x.js", 1, 7, ERROR, "'a' is assigned a value but never used"),
                ("/work/src/x.js", 2, 1, WARNING, "'b' is not defined"),
                ("/work/src/price.js", 4, 53, ERROR, "SyntaxError: missing ) after argument list"),
            ],
        );
    }

    #[test]
    fn kotlin_and_rust() {
        check(
            "e: file:///work/src/Main.kt:3:9 Unresolved reference 'missing'.\n\
             w: src/Main.kt:1:5: Variable 'x' is never used\n\
             error[E0425]: cannot find function `missing` in this scope\n\
             \x20--> src/util.rs:2:18\n\
             \x20 |\n\
             \x20 = note: --> is no place\n\
             warning: `app` (bin \"app\") generated 1 warning\n\
             error: could not compile `app` (bin \"app\") due to 1 previous error\n",
            &[
                ("/work/src/Main.kt", 3, 9, ERROR, "Unresolved reference 'missing'."),
                ("src/Main.kt", 1, 5, WARNING, "Variable 'x' is never used"),
                ("src/util.rs", 2, 18, ERROR, "cannot find function `missing` in this scope"),
            ],
        );
    }

    #[test]
    fn other_text_is_not_a_message() {
        check(
            "12:34:56: something\n\
             2026-11-22T07:05:43Z: x\n\
             http://localhost:3000: listening\n\
             localhost:3000: listening\n\
             foo: bar: baz\n\
             main.c:4:31: note: each undeclared identifier is reported only once\n\
             In file included from a.h:3,\n\
             \x20   1 | int f(void) { return g; }\n\
             [INFO] 2 errors\n\
             [ERROR] COMPILATION ERROR : \n",
            &[],
        );
    }

    #[test]
    fn entered_directories_are_found() {
        let printed = "make -C lib\nmake[1]: Entering directory '/work/lib'\ncc\n\
            make[1]: Leaving directory '/work/lib'\nmake[2]: Entering directory '/work/a b'\n\
            make[1]: Entering directory '/work/lib'\n";
        assert_eq!(entered_directories(printed), ["/work/lib", "/work/a b"]);
    }

    #[test]
    fn failures_without_a_place() {
        for (printed, wanted) in [
            (
                "make: *** No rule to make target 'x'.  Stop.\n",
                "No rule to make target 'x'.  Stop.",
            ),
            (
                "go: cannot write multiple packages to non-directory myapp\n",
                "cannot write multiple packages to non-directory myapp",
            ),
            (
                "npm error Missing script: \"x\"\nnpm error\nnpm error To see\n",
                "Missing script: \"x\"",
            ),
            ("npm error code 1\nnode:x\nReferenceError: a is not defined\n", "a is not defined"),
            (
                "error: no bin target named `none` in default-run packages\n",
                "no bin target named `none` in default-run packages",
            ),
            (
                "[INFO] x\n[ERROR] Plugin a:b:2.6 could not be resolved -> [Help 1]\n[ERROR] \n",
                "Plugin a:b:2.6 could not be resolved -> [Help 1]",
            ),
            (
                "FAILURE: Build failed with an exception.\n\n* What went wrong:\nTask 'x' not found.\n\n* Try:\n",
                "Task 'x' not found.",
            ),
        ] {
            assert_eq!(fallback_message(printed).as_deref(), Some(wanted));
        }
        assert_eq!(fallback_message("all is well\n"), None);
    }

    #[test]
    fn the_message_of_npm_is_not_only_its_code() {
        let code = "npm error code EJSONPARSE\n";
        let said = format!("{code}npm error JSON.parse Invalid package.json: x\n");
        assert_eq!(fallback_message(&said).as_deref(), Some("JSON.parse Invalid package.json: x"));
        assert_eq!(fallback_message(code).as_deref(), Some("code EJSONPARSE"));
    }

    #[test]
    fn the_last_line_is_not_part_of_a_stack_trace() {
        let java = "java.nio.file.NoSuchFileException: /usr/share/maven/bin/m2.conf\n\
                    \tat java.base/sun.nio.fs.UnixException.rethrow(UnixException.java:92)\n";
        for (printed, wanted) in [
            (java, Some("java.nio.file.NoSuchFileException: /usr/share/maven/bin/m2.conf")),
            ("one\n\u{1b}[1mtwo\u{1b}[m \n\n", Some("two")),
            (" \n\tat x\n", None),
            ("", None),
        ] {
            assert_eq!(last_line(printed).as_deref(), wanted);
        }
    }

    #[test]
    fn versions() {
        for (printed, wanted) in [
            ("go version go1.27.3 linux/amd64\n", Some("1.27.3")),
            ("11.19.1\n", Some("11.19.1")),
            ("GNU Make 4.3\nBuilt for x86_64-pc-linux-gnu\n", Some("4.3")),
            ("cargo 1.95.0-nightly (f2d3ce0bd 2026-03-21)\n", Some("1.95.0-nightly")),
            ("\u{1b}[1mApache Maven 3.8.7\u{1b}[m\nMaven home: /usr/share/maven\n", Some("3.8.7")),
            ("no version\n", None),
        ] {
            assert_eq!(version(printed).as_deref(), wanted);
        }
    }
}
