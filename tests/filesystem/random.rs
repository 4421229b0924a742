//! Scripts that nobody thought of: random steps on few names, so that they meet each other. The
//! guest and a native program have to come to the same.

use super::native::Native;
use super::scenarios::{WAYS, play_as};
use super::{parse, tree};

/// How many scripts are played, and how long each is.
const SCRIPTS: u64 = 150;
const BEFORE: usize = 12;
const STEPS: usize = 30;

/// Xorshift (Marsaglia, 2003): the same numbers in every run.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn one_of<'a>(&mut self, words: &[&'a str]) -> &'a str {
        let index = self.next() % u64::try_from(words.len()).unwrap();
        words[usize::try_from(index).unwrap()]
    }

    /// A path of one to three names.
    fn path(&mut self) -> String {
        let names: Vec<&str> =
            (0..=self.next() % 3).map(|_| self.one_of(&["a", "b", "c", "d"])).collect();
        names.join("/")
    }

    /// What a link points to: at most to the directory above all paths.
    fn target(&mut self, path: &str) -> String {
        let up = "../".repeat(path.matches('/').count());
        format!("{up}{}", self.path())
    }

    /// One thing that a program does: a step, or a few with a handle.
    fn act(&mut self, steps: &mut Vec<String>) {
        let path = self.path();
        let kind = self.next() % 16;
        let step = match kind {
            0..=2 => {
                let flags = self.one_of(&["wc", "wct", "wcx", "rw", "w", "rwc", "wcn"]);
                steps.push(format!("open f {path} {flags}"));
                steps.push(format!("write f {} {}", self.next() % 4, self.one_of(&["x", "yy"])));
                if self.next().is_multiple_of(3) {
                    steps.push(format!("size f {}", self.next() % 6));
                }
                "close f".to_owned()
            }
            3 => {
                steps.push(format!("open f {path} {}", self.one_of(&["r", "rn", "rd", "rt"])));
                steps.push("fstat f".to_owned());
                "close f".to_owned()
            }
            4 => {
                steps.push(format!("open f {path} r"));
                steps.push("read f 0 100".to_owned());
                "close f".to_owned()
            }
            5 | 6 => format!("mkdir {path}"),
            7 => format!("rmdir {path}"),
            8 => format!("unlink {path}"),
            9..=11 => format!("rename {path} {}", self.path()),
            12 => format!("symlink {} {path}", self.target(&path)),
            13 => format!("list {path}"),
            14 => format!("stat {path}"),
            _ => format!("{} {path}", self.one_of(&["lstat", "readlink", "list"])),
        };
        steps.push(step);
    }

    fn script(&mut self, length: usize) -> Vec<String> {
        let mut steps = Vec::new();
        while steps.len() < length {
            self.act(&mut steps);
        }
        steps
    }
}

#[test]
fn what_random_scripts_do_is_what_linux_does() {
    let mut wrong = Vec::new();
    for seed in 1..=SCRIPTS {
        let mut random = Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let (before, steps) = (random.script(BEFORE), random.script(STEPS));
        let before: Vec<&str> = before.iter().map(String::as_str).collect();
        let steps: Vec<&str> = steps.iter().map(String::as_str).collect();

        let directory = tempfile::tempdir().unwrap();
        let mut native = Native::new(directory.path());
        native.play_all(&parse(&before));
        let wanted = native.play_all(&parse(&steps));
        let wanted_tree = tree(directory.path());
        for way in WAYS {
            let (results, tree) = play_as(way, &before, &steps);
            let different = results.iter().zip(&wanted).position(|(result, wanted)| result != wanted);
            if let Some(at) = different {
                wrong.push(format!(
                    "seed {seed}, {way:?}: {:?}, not {:?}, after\n{}\n---\n{}",
                    results[at],
                    wanted[at],
                    before.join("\n"),
                    steps[..=at].join("\n")
                ));
            } else if tree != wanted_tree {
                wrong.push(format!(
                    "seed {seed}, {way:?}: {tree:#?}, not {wanted_tree:#?}, after\n{}\n---\n{}",
                    before.join("\n"),
                    steps.join("\n")
                ));
            }
        }
    }
    assert!(wrong.is_empty(), "{} wrong, such as\n{}", wrong.len(), wrong[0]);
}
