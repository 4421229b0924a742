//! Parses globs and matches paths.
//!
//! `*` is any sequence of characters within a name, `?` one character, `[a-z]` and `[!a-z]` one in
//! (or not in) a class, `{a,b}` an alternative, `\` escapes the next character, and `**`, as a
//! whole component, is any number of directories. Names with a leading dot match only if the
//! component of the pattern begins with a dot too; the directories in [`PRIVATE`] match only by
//! name.
//!
//! The host's globs do not treat leading dots specially and count bytes instead of characters. So
//! the host gets coarser patterns ([`Pattern::coarse`]), and its results are filtered here.

use cofferdam_sdk::ToolError;

use crate::PRIVATE;

/// The maximum number of patterns that the `{a,b}` of a pattern expand to.
const MAX_ALTERNATIVES: usize = 256;

/// A glob after parsing.
#[derive(Debug)]
pub struct Pattern {
    /// Directories that all matches are in.
    prefix: Vec<String>,
    /// The expanded rest of the pattern; never empty, and no element is empty.
    alternatives: Vec<Vec<Part>>,
}

/// A component of a pattern.
#[derive(Debug, Clone, PartialEq)]
enum Part {
    /// `**`: any number of names without a leading dot.
    AnyDepth,
    /// A name that is exactly this.
    Literal(String),
    /// Any name that matches the tokens.
    Shape(Vec<Token>),
}

#[derive(Debug, Clone, PartialEq)]
enum Token {
    Char(char),
    /// `?`, which matches one character.
    One,
    /// `*`: any number of characters.
    Many,
    Class {
        negated: bool,
        ranges: Vec<(char, char)>,
    },
}

/// A character of the pattern with its position, from 1.
type Spot = (usize, char);

impl Pattern {
    /// Parses a pattern relative to the directory that is searched.
    ///
    /// # Errors
    /// `InvalidPattern`, with the position of the character that is wrong.
    pub fn parse(pattern: &str) -> Result<Self, ToolError> {
        let spots: Vec<Spot> = (1..).zip(pattern.chars()).collect();
        let mut alternatives = Vec::new();
        for alternative in expand(&spots).map_err(|problem| problem.in_pattern(pattern))? {
            alternatives.push(parts(&alternative).map_err(|problem| problem.in_pattern(pattern))?);
        }
        let shared = shared_literals(&alternatives);
        let literal = |part: &Part| match part {
            Part::Literal(name) => Some(name.clone()),
            Part::AnyDepth | Part::Shape(_) => None,
        };
        let prefix = alternatives
            .first()
            .map_or_else(Vec::new, |parts| parts[..shared].iter().filter_map(literal).collect());
        for parts in &mut alternatives {
            parts.drain(..shared);
        }
        Ok(Self { prefix, alternatives })
    }

    /// The directory that all matches are in, `/` between names; empty if there is none.
    pub fn prefix(&self) -> String {
        self.prefix.join("/")
    }

    /// Whether a name with a leading dot can match below [`Pattern::prefix`].
    pub fn wants_hidden(&self) -> bool {
        self.alternatives.iter().flatten().any(Part::starts_with_dot)
    }

    /// The private directories that can't contain matches below [`Pattern::prefix`].
    pub fn excluded(&self) -> impl Iterator<Item = &'static str> {
        let named = |name: &str| {
            self.alternatives
                .iter()
                .flatten()
                .any(|part| matches!(part, Part::Literal(literal) if literal == name))
        };
        PRIVATE.into_iter().filter(move |name| !named(name))
    }

    /// Globs for the host, relative to [`Pattern::prefix`], that match at least all matches of this
    /// pattern.
    pub fn coarse(&self) -> Vec<String> {
        let coarse =
            |parts: &Vec<Part>| parts.iter().map(Part::coarse).collect::<Vec<_>>().join("/");
        let mut globs: Vec<String> = self.alternatives.iter().map(coarse).collect();
        globs.sort_unstable();
        globs.dedup();
        globs
    }

    /// Whether a file's path, relative to [`Pattern::prefix`], matches.
    pub fn matches(&self, path: &str) -> bool {
        let names: Vec<&str> = path.split('/').collect();
        self.alternatives.iter().any(|parts| path_matches(parts, &names))
    }
}

/// The number of leading literals that all alternatives share, without the last component.
fn shared_literals(alternatives: &[Vec<Part>]) -> usize {
    let Some(first) = alternatives.first() else { return 0 };
    let literals = |parts: &[Part]| {
        let directories = &parts[..parts.len().saturating_sub(1)];
        directories.iter().take_while(|part| matches!(part, Part::Literal(_))).count()
    };
    alternatives.iter().fold(literals(first), |shared, parts| {
        let same = first.iter().zip(parts).take_while(|(a, b)| a == b).count();
        shared.min(same).min(literals(parts))
    })
}

/// Matches all alternatives at once: after each component, `reached[n]` is whether it can have
/// matched the first `n` names.
fn path_matches(parts: &[Part], names: &[&str]) -> bool {
    let mut reached = vec![false; names.len() + 1];
    reached[0] = true;
    for part in parts {
        if *part == Part::AnyDepth {
            for (n, name) in names.iter().enumerate() {
                reached[n + 1] |= reached[n] && !name.starts_with('.');
            }
        } else {
            for (n, name) in names.iter().enumerate().rev() {
                reached[n + 1] = reached[n] && part.matches(name);
            }
            reached[0] = false;
        }
    }
    reached[names.len()]
}

impl Part {
    fn matches(&self, name: &str) -> bool {
        match self {
            Self::AnyDepth => false,
            Self::Literal(literal) => literal == name,
            Self::Shape(tokens) => {
                (self.starts_with_dot() || !name.starts_with('.'))
                    && !PRIVATE.contains(&name)
                    && name_matches(tokens, name)
            }
        }
    }

    fn starts_with_dot(&self) -> bool {
        match self {
            Self::AnyDepth => false,
            Self::Literal(literal) => literal.starts_with('.'),
            Self::Shape(tokens) => tokens.first() == Some(&Token::Char('.')),
        }
    }

    /// The component with `*` for everything that the host could interpret differently.
    fn coarse(&self) -> String {
        let tokens = match self {
            Self::AnyDepth => return "**".to_owned(),
            Self::Literal(literal) => literal.chars().map(Token::Char).collect(),
            Self::Shape(tokens) => tokens.clone(),
        };
        let mut glob = String::new();
        for token in tokens {
            match token {
                Token::Char(plain) if !"*?[]{}!\\".contains(plain) => glob.push(plain),
                _ if glob.ends_with('*') => {}
                _ => glob.push('*'),
            }
        }
        glob
    }
}

/// Matches one name. A `*` matches as little as possible at first; if the rest does not match, the
/// last `*` takes one more character.
fn name_matches(tokens: &[Token], name: &str) -> bool {
    let mut token = 0;
    let mut rest = name.chars();
    let mut retry = None;
    loop {
        let before = rest.clone();
        match (tokens.get(token), rest.next()) {
            (Some(Token::Many), _) => {
                rest = before;
                retry = Some((token, rest.clone()));
                token += 1;
                continue;
            }
            (Some(wanted), Some(found)) if wanted.matches(found) => {
                token += 1;
                continue;
            }
            (None, None) => return true,
            _ => {}
        }
        let Some((many, from)) = &mut retry else { return false };
        if from.next().is_none() {
            return false;
        }
        token = *many + 1;
        rest = from.clone();
    }
}

impl Token {
    fn matches(&self, found: char) -> bool {
        match self {
            Self::Char(wanted) => *wanted == found,
            Self::One => true,
            Self::Many => false,
            Self::Class { negated, ranges } => {
                ranges.iter().any(|&(from, to)| (from..=to).contains(&found)) != *negated
            }
        }
    }
}

/// A syntax error in a pattern.
struct Problem {
    position: usize,
    what: String,
}

impl Problem {
    fn new<T>(position: usize, what: impl Into<String>) -> Result<T, Self> {
        Err(Self { position, what: what.into() })
    }

    fn in_pattern(self, pattern: &str) -> ToolError {
        let Self { position, what } = self;
        let message = format!("invalid pattern '{pattern}': character {position}: {what}");
        ToolError::invalid_args("InvalidPattern", message)
    }
}

/// The end of the unit that starts at `at`: an escape, a class or a single character.
fn unit_end(spots: &[Spot], at: usize) -> Result<usize, Problem> {
    let (position, c) = spots[at];
    match c {
        '\\' if matches!(spots.get(at + 1), None | Some((_, '/'))) => {
            Problem::new(position, "`\\` without a character that it could escape")
        }
        '\\' => Ok(at + 2),
        '[' => class_end(spots, at),
        _ => Ok(at + 1),
    }
}

/// The end of the class that starts at `open`. A leading `]` is a member.
fn class_end(spots: &[Spot], open: usize) -> Result<usize, Problem> {
    let mut at = open + 1;
    if matches!(spots.get(at), Some((_, '!' | '^'))) {
        at += 1;
    }
    let first = at;
    while let Some(&(position, c)) = spots.get(at) {
        match c {
            ']' if at > first => return Ok(at + 1),
            '/' => return Problem::new(position, "`[...]` can't hold a `/`"),
            '[' if matches!(spots.get(at + 1), Some((_, ':'))) => {
                return Problem::new(
                    position,
                    "named classes such as `[:alpha:]` are not supported",
                );
            }
            '\\' => at += 2,
            _ => at += 1,
        }
    }
    Problem::new(spots[open].0, "`[` without its `]`; write `\\[` for the character itself")
}

/// Expands `{a,b}` to one pattern for each alternative.
fn expand(spots: &[Spot]) -> Result<Vec<Vec<Spot>>, Problem> {
    let mut open = 0;
    while open < spots.len() && spots[open].1 != '{' {
        if spots[open].1 == '}' {
            let what = "`}` without its `{`; write `\\}` for the character itself";
            return Problem::new(spots[open].0, what);
        }
        open = unit_end(spots, open)?;
    }
    if open == spots.len() {
        return Ok(vec![spots.to_vec()]);
    }
    let (branches, end) = branches(spots, open)?;
    let tails = expand(&spots[end..])?;
    let mut alternatives = Vec::new();
    for branch in branches {
        for middle in expand(branch)? {
            for tail in &tails {
                if alternatives.len() == MAX_ALTERNATIVES {
                    let what = format!("more than {MAX_ALTERNATIVES} alternatives in `{{...}}`");
                    return Problem::new(spots[open].0, what);
                }
                alternatives.push([&spots[..open], &middle, tail].concat());
            }
        }
    }
    Ok(alternatives)
}

/// The alternatives in the braces that start at `open`, and the position after them.
fn branches(spots: &[Spot], open: usize) -> Result<(Vec<&[Spot]>, usize), Problem> {
    let mut branches = Vec::new();
    let mut depth = 0_usize;
    let mut start = open + 1;
    let mut at = start;
    while at < spots.len() {
        match (spots[at].1, depth) {
            ('{', _) => depth += 1,
            (',', 0) => {
                branches.push(&spots[start..at]);
                start = at + 1;
            }
            ('}', 0) => {
                branches.push(&spots[start..at]);
                return Ok((branches, at + 1));
            }
            ('}', _) => depth -= 1,
            _ => {}
        }
        at = unit_end(spots, at)?;
    }
    Problem::new(spots[open].0, "`{` without its `}`; write `\\{` for the character itself")
}

/// Parses a pattern without braces. The result is never empty.
fn parts(spots: &[Spot]) -> Result<Vec<Part>, Problem> {
    let mut parts = Vec::new();
    let mut start = 0;
    while start <= spots.len() {
        let mut end = start;
        while end < spots.len() && spots[end].1 != '/' {
            end = unit_end(spots, end)?;
        }
        let text: String = spots[start..end].iter().map(|&(_, c)| c).collect();
        match text.as_str() {
            "" | "." => {}
            ".." => {
                let what = "`..` can't be part of a pattern; set `path` instead";
                return Problem::new(spots[start].0, what);
            }
            "**" if parts.last() == Some(&Part::AnyDepth) => {}
            "**" => parts.push(Part::AnyDepth),
            _ => parts.push(part(&spots[start..end])?),
        }
        start = end + 1;
    }
    match parts.last() {
        // Only files are searched, so below a directory there is at least one name.
        Some(Part::AnyDepth) => parts.push(Part::Shape(vec![Token::Many])),
        Some(_) => {}
        None => {
            return Problem::new(
                spots.first().map_or(1, |spot| spot.0),
                "a pattern has to name files",
            );
        }
    }
    Ok(parts)
}

/// Parses the text between two `/`.
fn part(spots: &[Spot]) -> Result<Part, Problem> {
    let mut tokens = Vec::new();
    let mut at = 0;
    while at < spots.len() {
        let end = unit_end(spots, at)?;
        match spots[at].1 {
            '\\' => tokens.push(Token::Char(spots[at + 1].1)),
            '[' => tokens.push(class(&spots[at + 1..end - 1])?),
            '?' => tokens.push(Token::One),
            '*' if tokens.last() == Some(&Token::Many) => {}
            '*' => tokens.push(Token::Many),
            c => tokens.push(Token::Char(c)),
        }
        at = end;
    }
    let literal: Option<String> = tokens
        .iter()
        .map(|token| if let Token::Char(c) = token { Some(*c) } else { None })
        .collect();
    Ok(literal.map_or(Part::Shape(tokens), Part::Literal))
}

/// Parses the text between `[` and `]`.
fn class(spots: &[Spot]) -> Result<Token, Problem> {
    let (negated, spots) = match spots {
        [(_, '!' | '^'), rest @ ..] => (true, rest),
        _ => (false, spots),
    };
    // Members with escapes resolved; only an unescaped `-` makes a range.
    let mut members: Vec<(Spot, bool)> = Vec::new();
    let mut at = 0;
    while at < spots.len() {
        let escaped = spots[at].1 == '\\';
        at += usize::from(escaped);
        members.push((spots[at], !escaped && spots[at].1 == '-'));
        at += 1;
    }
    let mut ranges = Vec::new();
    let mut rest = &members[..];
    while let Some((&((position, from), _), after)) = rest.split_first() {
        let to = match after {
            [(_, true), ((_, to), _), ..] => *to,
            _ => from,
        };
        rest = if matches!(after, [(_, true), _, ..]) { &after[2..] } else { after };
        if to < from {
            return Problem::new(position, format!("the range `{from}-{to}` is empty"));
        }
        ranges.push((from, to));
    }
    Ok(Token::Class { negated, ranges })
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use globset::GlobBuilder;

    use super::*;

    /// Whether the pattern matches a whole path. Checks also that a coarse glob matches it, since
    /// otherwise the host would not list it.
    fn matches(pattern: &str, path: &str) -> bool {
        let pattern = Pattern::parse(pattern).unwrap();
        let prefix = pattern.prefix();
        let below = if prefix.is_empty() {
            Some(path)
        } else {
            path.strip_prefix(&prefix).and_then(|rest| rest.strip_prefix('/'))
        };
        let Some(below) = below.filter(|below| pattern.matches(below)) else { return false };
        let shown = |glob: &String| {
            let glob = GlobBuilder::new(glob).literal_separator(true).build().unwrap();
            glob.compile_matcher().is_match(below)
        };
        assert!(pattern.coarse().iter().any(shown), "{:?} {below}", pattern.coarse());
        true
    }

    #[test]
    fn patterns_match() {
        for (pattern, yes, no) in [
            ("*.py", &["a.py", "\u{e9}.py"][..], &["a.pyc", "src/a.py", ".py", ".a.py"][..]),
            ("**/*.py", &["a.py", "src/a.py", "x/y/z.py"], &["src/.a.py", ".venv/a.py"]),
            ("src/**/*.py", &["src/a.py", "src/x/y/a.py"], &["a.py", "srcx/a.py", "src/.x/a.py"]),
            ("tests/**/test_*.py", &["tests/test_.py", "tests/a/test_b.py"], &["tests/a_test.py"]),
            ("src/**", &["src/a", "src/a/b"], &["src", "src/.a", "src/.a/b"]),
            ("**", &["a", "a/b"], &[".a", "a/.b", ".a/b"]),
            ("a/**/**/b", &["a/b", "a/x/b", "a/x/y/b"], &["a/x/b/y", "x/a/b"]),
            ("**/a/**/b", &["a/b", "a/a/b", "x/a/y/a/z/b"], &["a", "b", "a/b/c"]),
            ("?", &["a", "\u{e9}"], &["", "ab", "."]),
            ("a?c*e", &["abce", "abcde", "abcdecde"], &["ace", "abcd"]),
            ("*a*a*", &["aa", "xaxax"], &["a", "xax"]),
            ("[a-c]x[!0-9]", &["axa", "cx-"], &["dxa", "ax1", "ax"]),
            ("[^a]", &["b"], &["a", ".", "ab"]),
            ("[]a]", &["]", "a"], &["[", "b"]),
            ("[!]a]", &["b"], &["]", "a"]),
            ("[a-]", &["a", "-"], &["b"]),
            ("[-a]", &["a", "-"], &["b"]),
            (r"[\]\-x]", &["]", "-", "x"], &["a", "^", "\\"]),
            (r"\*\[x", &["*[x"], &["a[x"]),
            ("*.{ts,tsx}", &["a.ts", "b.tsx"], &["a.t", "a.ts,tsx"]),
            ("{src,tests/unit}/**/*.{rs,py}", &["src/a.rs", "tests/unit/x/b.py"], &["tests/a.py"]),
            ("a{,b{c,d}}", &["a", "abc", "abd"], &["ab", "abcd"]),
            ("a{[,}],x}", &["a,", "a}", "ax"], &["a"]),
            (r"\{a,b\}", &["{a,b}"], &["a", "b"]),
            ("./src//a.*", &["src/a.rs"], &["src/b.rs"]),
            ("a**b", &["ab", "axxb"], &["a/b"]),
        ] {
            for path in yes {
                assert!(matches(pattern, path), "{pattern} should match {path}");
            }
            for path in no {
                assert!(!matches(pattern, path), "{pattern} should not match {path}");
            }
        }
    }

    #[test]
    fn hidden_names_need_a_dot_in_the_pattern() {
        for (pattern, yes, no) in [
            (".env*", &[".env", ".env.local"][..], &["a/.env", "env"][..]),
            ("**/.env*", &[".env", "a/b/.env.local"], &[".a/.env", "a/env"]),
            ("**/.*", &[".env", "a/.x"], &[".a/.b", ".a/b", "a", ".git"]),
            (".*/.*", &[".a/.b"], &[".a/b", "a/.b", ".git/.b"]),
            (".github/**", &[".github/a", ".github/a/b"], &[".github/.a"]),
            ("**/.github/*", &[".github/a", "x/.github/a"], &[".x/.github/a"]),
            ("{.env,a}*", &[".env.local", "ab"], &[".a"]),
            ("[.]env", &[], &[".env"]),
            ("?env", &["xenv"], &[".env"]),
            (r"\.env", &[".env"], &["env"]),
        ] {
            for path in yes {
                assert!(matches(pattern, path), "{pattern} should match {path}");
            }
            for path in no {
                assert!(!matches(pattern, path), "{pattern} should not match {path}");
            }
        }
    }

    #[test]
    fn private_directories_need_their_name() {
        for (pattern, path, wanted) in [
            (".*/**", ".git/config", false),
            (".*/**", ".cofferdam/log", false),
            (".gi?/*", ".git/config", false),
            (".git/*", ".git/config", true),
            ("**/.git/**", "a/.git/hooks/x", true),
            ("**/.gitignore", "a/.gitignore", true),
        ] {
            assert_eq!(matches(pattern, path), wanted, "{pattern} {path}");
        }
        let excluded = |pattern| Pattern::parse(pattern).unwrap().excluded().collect::<Vec<_>>();
        assert_eq!(excluded("**/*.py"), PRIVATE);
        assert_eq!(excluded("**/.git/*"), [".cofferdam"]);
    }

    #[test]
    fn the_host_gets_coarser_globs() {
        for (pattern, prefix, globs, hidden) in [
            ("src/**/*.py", "src", &["**/*.py"][..], false),
            ("src/a.py", "src", &["a.py"], false),
            ("a.py", "", &["a.py"], false),
            ("x/y/**", "x/y", &["**/*"], false),
            ("**/.env*", "", &["**/.env*"], true),
            (".github/**", ".github", &["**/*"], false),
            ("a??[bc]d", "", &["a*d"], false),
            (r"\*x/!a/*", "*x/!a", &["*"], false),
            (r"*/!a\]", "", &["*/*a*"], false),
            ("src/{a,b}/*.{c,d}", "src", &["a/*.c", "a/*.d", "b/*.c", "b/*.d"], false),
            ("{a/x/1,a/x/2,a/y}", "a", &["x/1", "x/2", "y"], false),
            ("*.[ch]*", "", &["*.*"], false),
        ] {
            let parsed = Pattern::parse(pattern).unwrap();
            assert_eq!(parsed.prefix(), prefix, "{pattern}");
            assert_eq!(parsed.coarse(), globs, "{pattern}");
            assert_eq!(parsed.wants_hidden(), hidden, "{pattern}");
        }
    }

    #[test]
    fn malformed_patterns_are_refused_with_the_position() {
        let many = "{a,b}".repeat(9);
        for (pattern, position) in [
            ("src/[ab", 5),
            ("a[]", 2),
            ("[!]", 1),
            ("x{a,b", 2),
            ("x{a,{b,c}", 2),
            ("ab}", 3),
            ("a\\", 2),
            (r"a\/b", 2),
            ("[z-a]", 2),
            ("[a/b]", 3),
            ("[[:alpha:]]", 2),
            ("../x", 1),
            ("a/{..,b}/x", 4),
            ("/", 1),
            ("./", 1),
            (&many, 1),
        ] {
            let error = Pattern::parse(pattern).unwrap_err();
            assert_eq!(error.code, "InvalidPattern", "{pattern}");
            let place = format!(": character {position}: ");
            assert!(error.message.contains(&place), "{pattern}: {error}");
        }
    }

    #[test]
    fn hostile_patterns_terminate_quickly() {
        let name = "a".repeat(200);
        assert!(!matches(&format!("{}b", "*a".repeat(100)), &name));
        let path = vec!["a"; 1_000].join("/");
        assert!(!matches(&format!("{}b", "**/a/".repeat(100)), &path));
        let nested = format!("{}a{}", "{".repeat(1_000), "}".repeat(1_000));
        assert!(matches(&nested, "a"));
    }
}
