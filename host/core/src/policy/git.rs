//! What git considers a repository, and which files a repository's configuration names: decided by
//! names and contents, following git's `setup.c` and git-config(1). Where git's decision depends on
//! more than that, the result is true.

use super::scope::folded;

/// How many bytes of `HEAD` git reads.
pub const HEAD_BYTES: usize = 255;

/// The beginning of a `.git` file that refers to a repository elsewhere.
pub const GITFILE_PREFIX: &str = "gitdir:";

/// A name that, together with others, makes a directory a repository.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mark {
    /// The file `HEAD`, whose content is checked by [`is_head`].
    Head,
    /// The directory named `objects`.
    Objects,
    /// The directory named `refs`.
    Refs,
    /// The file `commondir`: `objects` and `refs` are elsewhere.
    CommonDirectory,
}

impl Mark {
    /// Recognises a name in a directory, compared like in a case-insensitive file system.
    pub fn of(name: &str) -> Option<Self> {
        let is_first = |c: char| !c.is_ascii() || "HhOoRrCc".contains(c);
        if !name.starts_with(is_first) {
            return None;
        }
        match folded(name).as_str() {
            "head" => Some(Self::Head),
            "objects" => Some(Self::Objects),
            "refs" => Some(Self::Refs),
            "commondir" => Some(Self::CommonDirectory),
            _ => None,
        }
    }
}

/// Whether git considers a directory with these marks a repository.
pub fn is_repository(marks: &[Mark]) -> bool {
    let has = |mark| marks.contains(&mark);
    has(Mark::Head) && (has(Mark::CommonDirectory) || has(Mark::Objects) && has(Mark::Refs))
}

/// Whether the beginning of a file is that of a `HEAD`: it names a branch or a commit.
pub fn is_head(content: &[u8]) -> bool {
    if let Some(name) = content.strip_prefix(b"ref:") {
        return name.trim_ascii_start().starts_with(b"refs/");
    }
    content.len() >= 40 && content[..40].iter().all(u8::is_ascii_hexdigit)
}

/// Whether a symbolic link is a `HEAD`, as early versions of git created it.
pub fn is_head_link(target: &str) -> bool {
    target.starts_with("refs/")
}

/// How many bytes of a file [`may_be_configuration`] looks at.
pub const CONFIGURATION_HEAD_BYTES: usize = 4 << 10;

/// Whether a file that begins like this could be configuration that git takes: its first line that
/// is no comment opens a section. So it is where the beginning has comments only and may go on.
pub fn may_be_configuration(beginning: &[u8]) -> bool {
    let beginning = beginning.strip_prefix("\u{feff}".as_bytes()).unwrap_or(beginning);
    let mut lines = beginning.split(|byte| *byte == b'\n').map(|line| line.trim_ascii());
    let first =
        lines.find(|line| !line.is_empty() && !line.starts_with(b"#") && !line.starts_with(b";"));
    match first {
        Some(line) => line.starts_with(b"["),
        None => beginning.len() >= CONFIGURATION_HEAD_BYTES - 3,
    }
}

/// The files and directories that a repository's configuration names, unchanged.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Named {
    /// Further configuration files, relative to the file itself.
    pub includes: Vec<String>,
    /// Directories of hooks, relative to the top of the working tree.
    pub hooks: Vec<String>,
    /// Words of commands that git runs at the top of the working tree; some are files there.
    pub words: Vec<String>,
}

/// Returns what a configuration names.
pub fn named_by(config: &str) -> Named {
    let mut named = Named::default();
    for Variable { section, name, value } in variables(config) {
        match (section.as_str(), name.as_str()) {
            ("include" | "includeif", "path") => {
                // Before version 2.45, git read a tab that is not quoted as a space.
                let older = value.contains('\t').then(|| value.replace('\t', " "));
                named.includes.push(value);
                named.includes.extend(older);
            }
            ("core", "hookspath") => {
                let path = value.strip_prefix(OPTIONAL_PATH).unwrap_or(&value);
                named.hooks.push(path.to_owned());
            }
            ("alias" | "pager", _) => named.words.extend(words(&value)),
            (_, name) if COMMAND_VARIABLES.contains(&name) => named.words.extend(words(&value)),
            _ => {}
        }
    }
    named
}

/// Returns the working tree that a configuration names (`core.worktree`), relative to the
/// repository. Included files are not considered.
pub fn working_tree(config: &str) -> Option<String> {
    let is_named = |found: &Variable| found.section == "core" && found.name == "worktree";
    variables(config).into_iter().rfind(is_named).map(|found| found.value)
}

/// How a repository is stored, as its configuration says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Storage {
    /// Whether references get a log that have none yet.
    pub has_logs: bool,
    /// Whether each working tree has further configuration, in `config.worktree`.
    pub has_worktree_config: bool,
}

/// Extensions of the format that change neither objects, references nor the index.
const NEUTRAL_EXTENSIONS: [&str; 5] =
    ["noop", "noop-v1", "partialclone", "preciousobjects", "relativeworktrees"];

/// Returns how a repository with loose objects of SHA-1 and references in files is stored. Included
/// files are not considered, as git does for the format.
///
/// # Errors
/// The variable and its value if the repository is stored in another way.
pub fn storage(config: &str) -> Result<Storage, String> {
    let mut storage = Storage { has_logs: true, has_worktree_config: false };
    for Variable { section, name, value } in variables(config) {
        let is_false =
            matches!(value.to_ascii_lowercase().as_str(), "false" | "no" | "off" | "0" | "");
        let is_known = match (section.as_str(), name.as_str()) {
            ("core", "logallrefupdates") => {
                storage.has_logs = !is_false;
                true
            }
            ("extensions", "worktreeconfig") => {
                storage.has_worktree_config = !is_false;
                true
            }
            ("core", "repositoryformatversion") => matches!(value.as_str(), "0" | "1"),
            ("core", "sharedrepository") => is_false || value == "umask",
            ("extensions", "objectformat") => value == "sha1",
            ("extensions", "refstorage") => value == "files",
            ("extensions", name) => NEUTRAL_EXTENSIONS.contains(&name),
            _ => true,
        };
        if !is_known {
            return Err(format!("{section}.{name} = {value}"));
        }
    }
    Ok(storage)
}

/// The prefix of a path in a configuration that need not exist.
const OPTIONAL_PATH: &str = ":(optional)";

/// The path in the text of a `.git` file.
pub fn gitfile(text: &str) -> Option<&str> {
    let path = text.strip_prefix(GITFILE_PREFIX)?;
    Some(control_path(path.strip_prefix(' ').unwrap_or(path)))
}

/// The path in the text of one of git's files that has nothing else, such as `commondir`: up to the
/// end of the line, or to a NUL, where a string of git ends.
pub fn control_path(text: &str) -> &str {
    until_nul(text).trim_end_matches(['\n', '\r'])
}

fn until_nul(text: &str) -> &str {
    text.split('\0').next().unwrap_or_default()
}

/// The last parts of variables whose values git executes.
const COMMAND_VARIABLES: [&str; 18] = [
    "alternaterefscommand",
    "askpass",
    "clean",
    "cmd",
    "command",
    "difffilter",
    "driver",
    "editor",
    "external",
    "fsmonitor",
    "gitproxy",
    "helper",
    "packobjectshook",
    "process",
    "program",
    "smudge",
    "sshcommand",
    "textconv",
];

/// The words of a command that can be paths.
fn words(command: &str) -> impl Iterator<Item = String> {
    let quotes = |c: char| matches!(c, '\'' | '"' | '!' | ';' | '(' | ')' | '&' | '|');
    let words = command.split_whitespace().map(move |word| word.trim_matches(quotes));
    words.filter(|word| !word.is_empty()).map(str::to_owned)
}

/// A variable with its value.
struct Variable {
    /// The section without its subsection, in lower case.
    section: String,
    /// The last part of the key, in lower case.
    name: String,
    value: String,
}

/// What git skips between variables.
const SPACES: [char; 4] = [' ', '\t', '\n', '\r'];

/// The variables of a configuration, by the grammar of git's `config.c`. Git stops at a line that it
/// does not understand; this goes on after it.
fn variables(config: &str) -> Vec<Variable> {
    let config = config.replace("\r\n", "\n");
    let mut rest = config.strip_prefix('\u{feff}').unwrap_or(&config);
    let mut section = String::new();
    let mut variables = Vec::new();
    loop {
        rest = rest.trim_start_matches(SPACES);
        if rest.is_empty() {
            return variables;
        }
        if let Some((found, after)) = header(rest) {
            (section, rest) = (found, after);
        } else if let Some((name, after)) = variable_name(rest) {
            let (value, after) = value(after);
            variables.push(Variable { section: section.clone(), name, value });
            rest = after;
        } else {
            // A comment, a variable without a value, or a line that git does not understand.
            rest = rest.split_once('\n').map_or("", |(_, after)| after);
        }
    }
}

fn is_key_character(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '-'
}

/// Reads `[section]`, `[section.subsection]` or `[section "subsection"]`; returns the section and
/// the text after it.
fn header(text: &str) -> Option<(String, &str)> {
    let text = text.strip_prefix('[')?;
    let end = text.find(|c| !is_key_character(c) && c != '.')?;
    let (name, after) = text.split_at(end);
    let section = name.split('.').next().unwrap_or_default().to_ascii_lowercase();
    if let Some(after) = after.strip_prefix(']') {
        return Some((section, after));
    }
    let quoted = after.trim_start_matches([' ', '\t', '\r']);
    let subsection = quoted.strip_prefix('"').filter(|_| quoted.len() < after.len())?;
    let mut is_escaped = false;
    let end = subsection.find(|c| {
        let is_end = c == '\n' || c == '"' && !is_escaped;
        is_escaped = c == '\\' && !is_escaped;
        is_end
    })?;
    Some((section, subsection[end..].strip_prefix("\"]")?))
}

/// Reads the name of a variable and `=`; returns the name and the text after it.
fn variable_name(text: &str) -> Option<(String, &str)> {
    let end = text.find(|c| !is_key_character(c))?;
    let (name, after) = text.split_at(end);
    let after = after.trim_start_matches([' ', '\t']).strip_prefix('=')?;
    name.starts_with(|c: char| c.is_ascii_alphabetic()).then(|| (name.to_ascii_lowercase(), after))
}

/// Reads a value; returns it without quotes, escapes and comments, and the text after its end.
fn value(text: &str) -> (String, &str) {
    let mut value = String::new();
    // The length without the spaces at the end that are not quoted.
    let mut length = 0;
    let (mut is_quoted, mut is_comment) = (false, false);
    let mut characters = text.char_indices();
    let mut after = "";
    while let Some((at, character)) = characters.next() {
        match character {
            '\n' => {
                after = &text[at + 1..];
                break;
            }
            _ if is_comment => continue,
            ' ' | '\t' | '\r' if !is_quoted => {
                if !value.is_empty() {
                    value.push(character);
                }
                continue;
            }
            '#' | ';' if !is_quoted => {
                is_comment = true;
                continue;
            }
            '"' => is_quoted = !is_quoted,
            '\\' => value.extend(characters.next().and_then(|(_, escaped)| unescaped(escaped))),
            other => value.push(other),
        }
        length = value.len();
    }
    value.truncate(length);
    (until_nul(&value).to_owned(), after)
}

/// What a character after a backslash stands for: nothing, if it is the end of the line.
fn unescaped(character: char) -> Option<char> {
    match character {
        '\n' => None,
        'n' => Some('\n'),
        't' => Some('\t'),
        'b' => Some('\u{8}'),
        other => Some(other),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_are_found_in_every_spelling() {
        for (name, mark) in [
            ("HEAD", Some(Mark::Head)),
            ("head", Some(Mark::Head)),
            ("HEAD.", Some(Mark::Head)),
            ("\u{200c}HEAD", Some(Mark::Head)),
            ("Objects", Some(Mark::Objects)),
            ("refs", Some(Mark::Refs)),
            ("commondir", Some(Mark::CommonDirectory)),
            ("config", None),
            ("HEADER", None),
            ("object", None),
            ("src", None),
        ] {
            assert_eq!(Mark::of(name), mark, "{name}");
        }
    }

    #[test]
    fn how_a_repository_is_stored_is_known_or_refused() {
        let found = |config: &str| storage(config);
        let plain = Storage { has_logs: true, has_worktree_config: false };
        for config in [
            "",
            "[core]\n\trepositoryformatversion = 1\n[extensions]\n\tobjectFormat = sha1\n",
            "[extensions]\n\tpartialClone = origin\n\trefStorage = files\n",
            "[core]\n\tsharedRepository = umask\n",
        ] {
            assert_eq!(found(config), Ok(plain), "{config}");
        }
        assert_eq!(
            found("[core]\nlogAllRefUpdates = false\n"),
            Ok(Storage { has_logs: false, ..plain })
        );
        assert_eq!(
            found("[extensions]\nworktreeConfig = true\n"),
            Ok(Storage { has_worktree_config: true, ..plain })
        );
        for (config, named) in [
            ("[core]\nrepositoryformatversion = 2\n", "core.repositoryformatversion = 2"),
            ("[extensions]\nobjectFormat = sha256\n", "extensions.objectformat = sha256"),
            ("[extensions]\nrefStorage = reftable\n", "extensions.refstorage = reftable"),
            ("[extensions]\ncompatObjectFormat = sha256\n", "compatobjectformat"),
            ("[extensions]\nnew = true\n", "extensions.new = true"),
            ("[core]\nsharedRepository = group\n", "core.sharedrepository = group"),
        ] {
            let refused = found(config).err().unwrap_or_default();
            assert!(refused.contains(named), "{refused}");
        }
    }

    #[test]
    fn repositories_are_recognised_by_their_marks() {
        use Mark::{CommonDirectory, Head, Objects, Refs};
        for (marks, wanted) in [
            (&[Head, Objects, Refs][..], true),
            (&[Head, CommonDirectory], true),
            (&[Head, Objects], false),
            (&[Head, Refs], false),
            (&[Objects, Refs, CommonDirectory], false),
            (&[], false),
        ] {
            assert_eq!(is_repository(marks), wanted, "{marks:?}");
        }
    }

    #[test]
    fn a_head_names_a_branch_or_a_commit() {
        let commit = "0123456789abcdefABCDEF0123456789abcdef01";
        for (content, wanted) in [
            ("ref: refs/heads/main\n", true),
            ("ref:refs/x", true),
            ("ref:\t \n refs/heads/x", true),
            ("ref: heads/main", false),
            ("refs/heads/main", false),
            (commit, true),
            (&commit[1..], false),
            ("", false),
            ("# HEAD", false),
        ] {
            assert_eq!(is_head(content.as_bytes()), wanted, "{content:?}");
        }
        assert!(is_head(format!("{commit}0123456789abcdef01234567\n").as_bytes()));
        assert!(is_head_link("refs/heads/main") && !is_head_link("other/HEAD"));
    }

    #[test]
    fn configuration_begins_with_a_section() {
        for (text, wanted) in [
            ("[core]\n", true),
            ("\u{feff}[core]\n", true),
            ("# note\r\n; note\n\n\t [core] x = 1", true),
            ("core = 1\n[core]\n", false),
            ("# note\n", false),
            ("", false),
            ("fn main() {}\n", false),
        ] {
            assert_eq!(may_be_configuration(text.as_bytes()), wanted, "{text:?}");
        }
        // What comes after the beginning is not known.
        let comments = "# note\n".repeat(1000);
        assert!(may_be_configuration(&comments.as_bytes()[..CONFIGURATION_HEAD_BYTES]));
        let cut = format!("#{}", "x".repeat(CONFIGURATION_HEAD_BYTES - 1));
        assert!(may_be_configuration(cut.as_bytes()));
    }

    #[test]
    fn files_named_by_a_configuration_are_found() {
        let config = r#"
            # path = commented
            [include] path = ../one.inc
            [includeIf "gitdir:~/x]y/"]
                Path = "two \"2\".inc" ; why
            [Core]
                HooksPath = .husky/_ # here
                fsmonitor = ./scripts/watch.sh --fast
                bare
            [filter "lfs"] clean = python3 \
                tools/clean.py %f
            [alias] go = "!sh tools/go.sh; true"
            [commit] template = .gitmessage
            [branch "main"] merge = refs/heads/main
        "#;
        let named = named_by(config);
        assert_eq!(named.includes, ["../one.inc", "two \"2\".inc"]);
        assert_eq!(named.hooks, [".husky/_"]);
        let words = ["./scripts/watch.sh", "--fast", "python3", "tools/clean.py", "%f"];
        assert_eq!(named.words[..5], words);
        assert_eq!(named.words[5..], ["sh", "tools/go.sh", "true"]);
    }

    #[test]
    fn the_last_working_tree_counts() {
        let config = "[core]\n\tworktree = a\n[Core] WorkTree = \"../../b c\" # x\n[x]worktree=d";
        assert_eq!(working_tree(config).as_deref(), Some("../../b c"));
        assert_eq!(working_tree("[core]\n\tbare = true\n"), None);
    }

    #[test]
    fn no_line_hides_the_next_one() {
        for hiding in [
            "# comment \\",
            "[core] bare = true ; comment \\",
            "[core]\n\tbare = true # \"",
            "[core",
            "[core \"x]",
            "[core \"x\\",
            "[a] [b \"c\\\"]\"]",
            "x = \"y",
            "= x",
            "bare",
            "\u{a0}",
            "[core] x = a\\\\",
        ] {
            let named = named_by(&format!("{hiding}\n[include]path=x"));
            assert_eq!(named.includes, ["x"], "{hiding}");
        }
        let named = named_by("[core] [x] [include] PATH = a [b]\r\n[Include]\r\npath = c\r\n");
        assert_eq!(named.includes, ["a [b]", "c"]);
    }

    #[test]
    fn values_are_those_of_git() {
        for (text, wanted) in [
            (r"a\nb\bc", "a\nb\u{8}c"),
            ("\" a \" b \t", " a  b"),
            ("a\\\n  b # c", "a  b"),
            (r"a\\\\", r"a\\"),
            ("a\\\\\\\nb", r"a\b"),
            ("a;b", "a"),
            ("\"a;b\"", "a;b"),
            ("a\0b", "a"),
            ("", ""),
        ] {
            assert_eq!(
                named_by(&format!("[include]\npath = {text}\n")).includes,
                [wanted],
                "{text}"
            );
        }
        assert_eq!(named_by(r"[include] path = a\tb").includes, ["a\tb", "a b"]);
        assert_eq!(named_by("[core]\nhooksPath = :(optional)a").hooks, ["a"]);
    }

    #[test]
    fn control_files_have_one_path() {
        for (text, wanted) in [
            ("gitdir: ../.bare\n", Some("../.bare")),
            ("gitdir: a b \r\n", Some("a b ")),
            ("gitdir:x\0y", Some("x")),
            ("gitdir", None),
            (" gitdir: x", None),
        ] {
            assert_eq!(gitfile(text), wanted, "{text:?}");
        }
        assert_eq!(control_path("../..\n"), "../..");
    }
}
