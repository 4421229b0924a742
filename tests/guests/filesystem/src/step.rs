//! One step of a script, as a line of text. The guest and the native program that it is compared
//! with read the same lines.
//!
//! | step | what it does |
//! |---|---|
//! | `open H PATH FLAGS` | opens; `r`ead, `w`rite, `c`reate, e`x`clusive, `t`runcate, `d`irectory, `n`o follow, `-` none |
//! | `close H` | closes a handle |
//! | `read H OFFSET LENGTH`, `write H OFFSET TEXT`, `append H TEXT`, `size H LENGTH` | through a handle |
//! | `fstat H`, `stat PATH`, `lstat PATH` | what it is, and how large |
//! | `list PATH`, `count PATH`, `fill PATH COUNT` | the names in a directory, their number, many new files |
//! | `inodes PATH` | how many entries are listed as what they are when they are looked at by themselves |
//! | `entries H DIRECTORY`, `drain H` | a listing begun, and the rest of it |
//! | `mkdir`, `rmdir`, `unlink`, `readlink PATH` | |
//! | `rename FROM TO`, `link FROM TO`, `symlink TARGET PATH` | |
//! | `times PATH`, `set-times PATH ACCESSED MODIFIED`, `fset-times H ...` | seconds, `now`, `-` for as it is |
//! | `same H H`, `same-hash PATH PATH` | whether the two are one |
//!
//! A path is beneath the root, or beneath an open directory: `H>path`. In all words `\0` stands
//! for a NUL, `\_` for a space and `\e` for nothing.

/// A path, and the open directory beneath which it is.
#[derive(Debug, Clone)]
pub struct Place {
    pub base: Option<String>,
    pub path: String,
}

/// The flags with which a file is opened.
#[derive(Debug, Clone, Copy, Default)]
pub struct Flags {
    pub read: bool,
    pub write: bool,
    pub create: bool,
    pub exclusive: bool,
    pub truncate: bool,
    pub directory: bool,
    pub no_follow: bool,
}

/// A new time of a file.
#[derive(Debug, Clone, Copy)]
pub enum Time {
    Same,
    Now,
    Seconds(u64),
}

#[derive(Debug, Clone)]
pub enum Step {
    Open { handle: String, place: Place, flags: Flags },
    Close { handle: String },
    Read { handle: String, offset: u64, length: u64 },
    Write { handle: String, offset: u64, text: String },
    Append { handle: String, text: String },
    Size { handle: String, length: u64 },
    StatHandle { handle: String },
    Stat { place: Place, follow: bool },
    List { place: Place },
    Count { place: Place },
    Fill { place: Place, count: u64 },
    Inodes { place: Place },
    Entries { handle: String, directory: String },
    Drain { handle: String },
    MakeDirectory { place: Place },
    RemoveDirectory { place: Place },
    Unlink { place: Place },
    ReadLink { place: Place },
    Rename { from: Place, to: Place },
    Link { from: Place, to: Place },
    Symlink { target: String, place: Place },
    Times { place: Place },
    SetTimes { place: Place, accessed: Time, modified: Time },
    SetTimesOfHandle { handle: String, accessed: Time, modified: Time },
    Same { left: String, right: String },
    SameHash { left: Place, right: Place },
}

impl Step {
    /// Parses a line.
    ///
    /// # Errors
    /// The line, if it is not a step.
    pub fn parse(line: &str) -> Result<Self, String> {
        Self::of_words(&mut line.split_whitespace()).ok_or_else(|| format!("no step: {line}"))
    }

    fn of_words<'a>(words: &mut impl Iterator<Item = &'a str>) -> Option<Self> {
        let name = words.next()?;
        let mut word = || words.next().map(unescaped);
        let step = match name {
            "open" => {
                Self::Open { handle: word()?, place: place(&word()?), flags: flags(&word()?)? }
            }
            "close" => Self::Close { handle: word()? },
            "read" => {
                Self::Read { handle: word()?, offset: number(&word()?)?, length: number(&word()?)? }
            }
            "write" => Self::Write { handle: word()?, offset: number(&word()?)?, text: word()? },
            "append" => Self::Append { handle: word()?, text: word()? },
            "size" => Self::Size { handle: word()?, length: number(&word()?)? },
            "fstat" => Self::StatHandle { handle: word()? },
            "stat" => Self::Stat { place: place(&word()?), follow: true },
            "lstat" => Self::Stat { place: place(&word()?), follow: false },
            "list" => Self::List { place: place(&word()?) },
            "count" => Self::Count { place: place(&word()?) },
            "fill" => Self::Fill { place: place(&word()?), count: number(&word()?)? },
            "inodes" => Self::Inodes { place: place(&word()?) },
            "entries" => Self::Entries { handle: word()?, directory: word()? },
            "drain" => Self::Drain { handle: word()? },
            "mkdir" => Self::MakeDirectory { place: place(&word()?) },
            "rmdir" => Self::RemoveDirectory { place: place(&word()?) },
            "unlink" => Self::Unlink { place: place(&word()?) },
            "readlink" => Self::ReadLink { place: place(&word()?) },
            "rename" => Self::Rename { from: place(&word()?), to: place(&word()?) },
            "link" => Self::Link { from: place(&word()?), to: place(&word()?) },
            "symlink" => Self::Symlink { target: word()?, place: place(&word()?) },
            "times" => Self::Times { place: place(&word()?) },
            "set-times" => Self::SetTimes {
                place: place(&word()?),
                accessed: time(&word()?)?,
                modified: time(&word()?)?,
            },
            "fset-times" => Self::SetTimesOfHandle {
                handle: word()?,
                accessed: time(&word()?)?,
                modified: time(&word()?)?,
            },
            "same" => Self::Same { left: word()?, right: word()? },
            "same-hash" => Self::SameHash { left: place(&word()?), right: place(&word()?) },
            _ => return None,
        };
        words.next().is_none().then_some(step)
    }
}

/// Replaces the escapes in a word.
pub fn unescaped(word: &str) -> String {
    word.replace("\\0", "\0").replace("\\_", " ").replace("\\e", "")
}

fn place(word: &str) -> Place {
    match word.split_once('>') {
        Some((base, path)) => Place { base: Some(base.to_owned()), path: path.to_owned() },
        None => Place { base: None, path: word.to_owned() },
    }
}

fn number(word: &str) -> Option<u64> {
    word.parse().ok()
}

fn time(word: &str) -> Option<Time> {
    match word {
        "-" => Some(Time::Same),
        "now" => Some(Time::Now),
        word => number(word).map(Time::Seconds),
    }
}

fn flags(word: &str) -> Option<Flags> {
    let mut flags = Flags::default();
    for letter in word.chars() {
        match letter {
            'r' => flags.read = true,
            'w' => flags.write = true,
            'c' => flags.create = true,
            'x' => flags.exclusive = true,
            't' => flags.truncate = true,
            'd' => flags.directory = true,
            'n' => flags.no_follow = true,
            '-' => {}
            _ => return None,
        }
    }
    Some(flags)
}
