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
    for (key, value) in entries(config) {
        let (section, name) = (key.split('.').next().unwrap_or_default(), last(&key));
        match (section, name) {
            ("include" | "includeif", "path") => named.includes.push(value),
            ("core", "hookspath") => named.hooks.push(value),
            ("alias" | "pager", _) => named.words.extend(words(&value)),
            _ if COMMAND_VARIABLES.contains(&name) => named.words.extend(words(&value)),
            _ => {}
        }
    }
    named
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

fn last(key: &str) -> &str {
    key.rsplit('.').next().unwrap_or_default()
}

/// The words of a command that can be paths.
fn words(command: &str) -> impl Iterator<Item = String> {
    let quotes = |c: char| matches!(c, '\'' | '"' | '!' | ';' | '(' | ')' | '&' | '|');
    let words = command.split_whitespace().map(move |word| word.trim_matches(quotes));
    words.filter(|word| !word.is_empty()).map(str::to_owned)
}

/// The variables of a configuration with their values. Sections and names are in lower case.
fn entries(config: &str) -> Vec<(String, String)> {
    let mut entries = Vec::new();
    let mut section = String::new();
    let mut lines = config.lines();
    while let Some(line) = lines.next() {
        let mut line = line.trim_start_matches('\u{feff}').trim().to_owned();
        if let Some(header) = line.strip_prefix('[') {
            // The quoted name of a subsection may contain a `]`.
            let mut is_quoted = false;
            let end = header.find(|c| {
                is_quoted ^= c == '"';
                c == ']' && !is_quoted
            });
            let Some(end) = end else { continue };
            let name = header[..end].split([' ', '\t', '.']).next().unwrap_or_default();
            section = name.to_lowercase();
            line = header[end + 1..].trim().to_owned();
        }
        while line.ends_with('\\') && !line.ends_with("\\\\") {
            line.pop();
            let Some(next) = lines.next() else { break };
            line.push_str(next);
        }
        if let Some((name, value)) = line.split_once('=').filter(|_| !line.starts_with(['#', ';']))
        {
            entries
                .push((format!("{section}.{}", name.trim().to_lowercase()), plain(value.trim())));
        }
    }
    entries
}

/// A value without quotes, escapes and comments.
fn plain(value: &str) -> String {
    let mut plain = String::new();
    let mut is_quoted = false;
    let mut characters = value.chars();
    while let Some(character) = characters.next() {
        match character {
            '"' => is_quoted = !is_quoted,
            '\\' => plain.extend(characters.next()),
            '#' | ';' if !is_quoted => break,
            other => plain.push(other),
        }
    }
    plain.trim_end().to_owned()
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
}
