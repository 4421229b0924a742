//! Generated scripts: random steps on few names, so that steps affect each other. The guest and a
//! native program must get the same results.

use super::native::Native;
use super::scenarios::{WAYS, Way, play_as};
use super::{parse, tree};

/// How many scripts are run, and the number of steps in each.
const SCRIPTS: u64 = 150;
const BEFORE: usize = 12;
const STEPS: usize = 30;

/// Xorshift (Marsaglia, 2003), with the same numbers in every run.
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

    /// A link's target: at most the directory above all paths.
    fn target(&mut self, path: &str) -> String {
        let up = "../".repeat(path.matches('/').count());
        format!("{up}{}", self.path())
    }

    /// One action of a program: a single step, or several with a handle.
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

/// A script with different results for the guest and the native program.
struct Difference {
    /// A short description.
    what: String,
    /// The steps up to the first one that differs.
    script: String,
}

/// Whether two results of a step are equivalent. If two things are wrong with a rename, either
/// error may be returned; and wasmtime uses another error if a directory is read as a file.
fn is_alike(step: &str, here: &str, native: &str) -> bool {
    here == native
        || (step.starts_with("rename") && here != "ok" && native != "ok")
        || (here, native) == ("bad-descriptor", "is-directory")
}

/// Runs one script in one way, and returns the first difference.
fn difference(way: Way, before: &[&str], steps: &[&str], native: &Played) -> Option<Difference> {
    let (results, tree) = play_as(way, before, steps);
    let script = |end: usize| format!("{}\n---\n{}", before.join("\n"), steps[..end].join("\n"));
    let pairs = results.iter().zip(&native.results).zip(steps).enumerate();
    for (at, ((result, wanted), step)) in pairs {
        if !is_alike(step, result, wanted) {
            let what = format!("{way:?}: {step}: {result:?}, not {wanted:?}");
            return Some(Difference { what, script: script(at + 1) });
        }
    }
    let what = format!("{way:?}: {tree:#?}, not {:#?}", native.tree);
    (tree != native.tree).then(|| Difference { what, script: script(steps.len()) })
}

/// The results of a native program.
struct Played {
    results: Vec<String>,
    tree: Vec<String>,
}

fn natively(before: &[&str], steps: &[&str]) -> Played {
    let directory = tempfile::tempdir().unwrap();
    let mut native = Native::new(directory.path());
    native.play_all(&parse(before));
    let results = native.play_all(&parse(steps));
    Played { results, tree: tree(directory.path()) }
}

#[test]
fn random_scripts_have_the_same_results_as_on_linux() {
    let mut differences = Vec::new();
    for seed in 1..=SCRIPTS {
        let mut random = Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let (before, steps) = (random.script(BEFORE), random.script(STEPS));
        let before: Vec<&str> = before.iter().map(String::as_str).collect();
        let steps: Vec<&str> = steps.iter().map(String::as_str).collect();
        let native = natively(&before, &steps);
        differences
            .extend(WAYS.iter().filter_map(|way| difference(*way, &before, &steps, &native)));
    }
    if let Some(first) = differences.first() {
        let all: Vec<&str> = differences.iter().map(|found| found.what.as_str()).collect();
        panic!("{}\n\nthe first after\n{}", all.join("\n"), first.script);
    }
}
