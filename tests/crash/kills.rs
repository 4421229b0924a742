//! Kills the host at random moments of a patch, an atomic envelope, an undo, programs that write
//! thousands of files, and the recovery of each. Afterwards a call recovers; then either all files
//! are old or all are new, the journal has the commit exactly if they are new, and undoing it
//! restores everything.

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;
use std::process::Child;
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use super::checker::{self, Commit, State, differences, state};
use crate::support::{Ended, Place};
use crate::trial::configure;

/// How often the command is killed in each run of the tests.
const KILLS: usize = 160;

/// The variable with the number of kills that `cargo xtask kills` sets.
const KILLS_VARIABLE: &str = "COFFERDAM_KILLS";

/// How many files a program writes.
const FILES: usize = 12_000;

/// The size of each file, in bytes.
const FILE_BYTES: usize = 4096;

/// How many commits the history keeps: of small files, and of a program's, which reach the default
/// limit of its size at about 20.
const KEPT_COMMITS: usize = 100;
const KEPT_PROGRAM_COMMITS: usize = 12;

/// One kill in this many is of a program that writes so many files.
const PROGRAM_EVERY: usize = 40;

/// How long one command may take.
const TIMEOUT: Duration = Duration::from_secs(300);

/// What the killed command does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Patch,
    Atomic,
    Undo,
    Program,
}

impl Kind {
    fn kept_commits(self) -> usize {
        match self {
            Self::Patch | Self::Atomic | Self::Undo => KEPT_COMMITS,
            Self::Program => KEPT_PROGRAM_COMMITS,
        }
    }
}

/// A workspace on which one kind of change is killed repeatedly.
struct Scene {
    kind: Kind,
    place: Place,
    /// The arguments of the command.
    arguments: Vec<String>,
    /// The longest run, and the earliest time at which the commit was seen.
    longest: Duration,
    earliest: Duration,
    /// How long a program's commit takes, from its beginning to the end of the command.
    commit: Duration,
    tally: Tally,
}

/// How many kills there were, what they interrupted and what state was found afterwards.
#[derive(Debug, Default)]
struct Tally {
    kills: usize,
    of_recovery: usize,
    unfinished: usize,
    old: usize,
    new: usize,
    undone: usize,
}

/// A number from 0 to 1 that looks random and is the same in each run.
fn fraction(turn: usize, salt: usize) -> f64 {
    f64::from(u32::try_from((turn * 7919 + salt * 104_729) % 10_007).unwrap()) / 10_007.0
}

fn kill(child: &Child) {
    // The process may have ended by itself.
    let _ = kill_process(Pid::from_child(child), Signal::KILL);
}

fn old_text(path: &str) -> String {
    format!("old {path}\n")
}

fn new_text(path: &str) -> String {
    format!("new {path}\n")
}

/// The files that are changed, created and removed.
const CHANGED: [&str; 3] = ["a", "b", "sub/c"];
const CREATED: [&str; 2] = ["new", "sub/new"];
const REMOVED: &str = "gone";

fn patch() -> String {
    let mut patch = String::new();
    for path in CHANGED {
        let (old, new) = (old_text(path), new_text(path));
        patch.push_str(&format!("--- a/{path}\n+++ b/{path}\n@@ -1 +1 @@\n-{old}+{new}"));
    }
    for path in CREATED {
        patch.push_str(&format!("--- /dev/null\n+++ b/{path}\n@@ -0,0 +1 @@\n+{}", new_text(path)));
    }
    let old = old_text(REMOVED);
    patch.push_str(&format!("--- a/{REMOVED}\n+++ /dev/null\n@@ -1 +0,0 @@\n-{old}"));
    patch
}

/// The changes of the patch and a hundred more files, by many calls.
fn envelope() -> Value {
    let written = CHANGED.iter().map(|path| {
        json!({
            "type": "atomic_replace", "file_path": path,
            "replacements": [{"old_string": "old", "new_string": "new"}],
        })
    });
    let created = CREATED
        .iter()
        .map(|path| json!({"type": "write_file", "path": path, "content": new_text(path)}));
    let many = (0..100).map(|number| {
        let path = format!("many/{number}");
        json!({"type": "write_file", "content": new_text(&path), "path": path})
    });
    let old = old_text(REMOVED);
    let removal = format!("--- a/{REMOVED}\n+++ /dev/null\n@@ -1 +0,0 @@\n-{old}");
    let removed = [json!({"type": "apply_patch", "patch": removal})];
    json!({"actions": written.chain(created).chain(many).chain(removed).collect::<Vec<_>>()})
}

/// A call of a program that writes `bytes` into every file.
fn program(byte: &str) -> Value {
    let size = FILES * FILE_BYTES;
    let command =
        format!("head -c {size} /dev/zero | tr '\\0' '{byte}' | split -b {FILE_BYTES} -a 5 -d - f");
    json!({"actions": [{"type": "run_command", "command": command}]})
}

impl Scene {
    fn new(kind: Kind, tier: &str) -> Self {
        let place = Place::new();
        configure(
            &place,
            &format!(
                "[grants.shell]\nfiles = 'write'\nprocess = ['bash']\n[programs]\ntier = '{tier}'\n\
                 [history]\ncommits = {}\n",
                kind.kept_commits()
            ),
        );
        let file = |name: &str, envelope: Value| -> String {
            let path: PathBuf = place.home_file(name);
            fs::write(&path, envelope.to_string()).unwrap();
            path.to_str().unwrap().to_owned()
        };
        let arguments = match kind {
            Kind::Patch => {
                let args = json!({ "patch": patch() }).to_string();
                vec!["call".to_owned(), "apply_patch".to_owned(), args]
            }
            Kind::Atomic => {
                let file = file("envelope.json", envelope());
                vec!["run".to_owned(), "--atomic".to_owned(), file]
            }
            Kind::Undo => vec!["undo".to_owned()],
            Kind::Program => vec!["run".to_owned(), file("program.json", program("\\0"))],
        };
        let (longest, earliest, commit) = (Duration::ZERO, Duration::MAX, Duration::ZERO);
        Self { kind, place, arguments, longest, earliest, commit, tally: Tally::default() }
    }

    /// Restores the workspace to the state before the change, and returns that state.
    fn reset(&self) -> State {
        if self.kind == Kind::Program {
            for number in 0..FILES {
                self.place.write(&format!("f{number:05}"), "old\n".repeat(FILE_BYTES / 4));
            }
        } else {
            for path in CHANGED.iter().chain(&[REMOVED]) {
                self.place.write(path, old_text(path));
            }
            for path in CREATED {
                let _ = fs::remove_file(self.place.workspace().join(path));
            }
            let _ = fs::remove_dir_all(self.place.workspace().join("many"));
        }
        if self.kind == Kind::Undo {
            let patch = json!({ "patch": patch() }).to_string();
            succeeded(self.place.run(&["call", "apply_patch", &patch]));
        }
        state(&self.place.workspace())
    }

    fn command(&self) -> Child {
        let arguments: Vec<&str> = self.arguments.iter().map(String::as_str).collect();
        self.place.command(&arguments).spawn().unwrap()
    }

    /// Measures how long the change takes when it is not killed. Returns the states before and
    /// after.
    fn measure(&mut self, times: usize) -> (State, State) {
        let mut states = None;
        for _ in 0..times {
            let old = self.reset();
            let begun = Instant::now();
            let mut child = self.command();
            if self.kind == Kind::Program {
                self.wait_for_commit(&mut child);
            }
            let commit = Instant::now();
            succeeded(child.wait_with_output().unwrap().into());
            self.longest = self.longest.max(begun.elapsed());
            self.commit = commit.elapsed();
            let new = state(&self.place.workspace());
            assert_ne!(old, new);
            let seen = states.get_or_insert_with(|| (old.clone(), new.clone()));
            assert!(*seen == (old, new), "{:?} is not the same each time", self.kind);
        }
        self.earliest = self.longest;
        states.unwrap()
    }

    /// When to kill: half of the moments are spread over the whole run. The commit is a short part
    /// of it, so the others are near the earliest time at which a commit was seen.
    fn moment(&self, turn: usize) -> Duration {
        let part = fraction(turn, 1);
        if turn.is_multiple_of(2) {
            self.longest.mul_f64(part)
        } else {
            self.earliest.mul_f64(0.8 + 0.4 * part)
        }
    }

    /// Waits until a program's commit begins, or the command ends.
    fn wait_for_commit(&self, child: &mut Child) {
        let deadline = Instant::now() + TIMEOUT;
        let manifest = self.place.workspace().join(".cofferdam/staging/manifest.json");
        while !manifest.exists() && child.try_wait().unwrap().is_none() {
            assert!(Instant::now() < deadline, "{:?} does not come to an end", self.kind);
            thread::sleep(Duration::from_millis(1));
        }
    }

    /// Kills the change once. Returns whether it had ended by itself before.
    fn kill_once(&mut self, turn: usize) -> bool {
        let mut child = self.command();
        if self.kind == Kind::Program {
            // The moment counts from the beginning of the commit, since most of the time is the
            // program's own.
            self.wait_for_commit(&mut child);
            thread::sleep(self.commit.mul_f64(fraction(turn, 2)));
        } else {
            thread::sleep(self.moment(turn));
        }
        kill(&child);
        let status = child.wait().unwrap();
        let was_killed = status.code().is_none();
        assert!(was_killed || status.success(), "{:?}: {status}", self.kind);
        self.tally.kills += usize::from(was_killed);
        !was_killed
    }

    /// Kills the recovery several times.
    fn kill_recovery(&mut self, turn: usize) {
        let args = json!({"path": "other", "content": "killed"}).to_string();
        for again in 0..3 {
            if checker::staged(&self.place.workspace()) == 0 {
                return;
            }
            let mut child = self.place.command(&["call", "write_file", &args]).spawn().unwrap();
            let longest = if self.kind == Kind::Program { self.commit } else { self.longest };
            thread::sleep(longest.mul_f64(fraction(turn, 3 + again)));
            kill(&child);
            if child.wait().unwrap().code().is_none() {
                self.tally.kills += 1;
                self.tally.of_recovery += 1;
            }
        }
    }

    /// One turn: kills, recovers, and compares.
    fn turn(&mut self, turn: usize, old: &State, new: &State) {
        let workspace = self.place.workspace();
        assert!(self.reset() == *old, "{:?}: it does not begin as it should", self.kind);
        let before = checker::commits(&workspace);
        let moment = self.moment(turn);
        let has_ended = self.kill_once(turn);
        self.tally.unfinished += usize::from(checker::staged(&workspace) > 0);
        self.kill_recovery(turn);
        let args = json!({"path": "other", "content": turn.to_string()}).to_string();
        succeeded(self.place.run(&["call", "write_file", &args]));
        let what = format!("{:?}, turn {turn}, killed after {moment:?}", self.kind);
        assert_eq!(checker::staged(&workspace), 0, "{what}");
        assert_eq!(checker::set_aside(&workspace), 0, "{what}");
        assert_eq!(self.place.read("other"), turn.to_string(), "{what}");

        let now = state(&workspace);
        let is_new = now == *new;
        assert!(
            is_new || now == *old,
            "torn: {what}: from the old state {}, from the new one {}",
            differences(old, &now),
            differences(new, &now)
        );
        assert!(is_new || !has_ended, "lost: {what}");
        let made = self.compare_with_journal(&before, is_new, &what);
        if is_new {
            self.tally.new += 1;
            self.earliest = self.earliest.min(moment);
        } else {
            self.tally.old += 1;
        }
        if let Some(commit) = made.filter(|_| turn.is_multiple_of(3) || self.kind == Kind::Program)
        {
            succeeded(self.place.run(&["undo", &commit.id]));
            let back = state(&workspace);
            assert!(back == *old, "not undone: {what}: {}", differences(old, &back));
            self.tally.undone += 1;
        }
    }

    /// Asserts that the journal has a commit of the change if and only if it was made, and that the
    /// history has as many commits as the journal. Returns the commit.
    fn compare_with_journal(&self, before: &[Commit], is_new: bool, what: &str) -> Option<Commit> {
        let after = checker::commits(&self.place.workspace());
        assert_eq!(after[..before.len()], *before, "{what}: the journal was changed");
        let ids: BTreeSet<&str> = after.iter().map(|commit| commit.id.as_str()).collect();
        assert_eq!(ids.len(), after.len(), "{what}: a commit stands twice in the journal");
        let added = &after[before.len()..];
        assert!(added.iter().all(|commit| commit.conflicts == 0), "{what}: {added:?}");
        let is_ours = |commit: &&Commit| commit.first != "other";
        let ours: Vec<&Commit> = added.iter().filter(is_ours).collect();
        assert_eq!(ours.len(), usize::from(is_new), "{what}: the journal says {added:?}");
        let kept = checker::kept(&self.place.workspace());
        assert!(
            kept == after.len() || kept >= self.kind.kept_commits(),
            "{what}: {kept} kept of {}",
            after.len()
        );
        let ours = ours.first()?;
        assert_eq!(ours.undoes.is_some(), self.kind == Kind::Undo, "{what}: {ours:?}");
        let small = CHANGED.len() + CREATED.len() + 1;
        let paths = match self.kind {
            Kind::Patch | Kind::Undo => small,
            Kind::Atomic => small + 101,
            Kind::Program => FILES,
        };
        assert_eq!(ours.paths, paths as u64, "{what}: {ours:?}");
        Some((*ours).clone())
    }

    /// Repeats until there were so many kills.
    fn run(&mut self, kills: usize) {
        if kills == 0 {
            return;
        }
        let measured = if self.kind == Kind::Program { 1 } else { 3 };
        let (old, new) = self.measure(measured);
        for turn in 1.. {
            let Tally { kills: done, old: o, new: n, .. } = self.tally;
            let is_both = self.kind == Kind::Program || (o > 0 && n > 0);
            if done >= kills && is_both {
                break;
            }
            assert!(turn < 20 * kills + 200, "{:?}: {:?}", self.kind, self.tally);
            self.turn(turn, &old, &new);
        }
    }
}

#[track_caller]
fn succeeded(ended: Ended) {
    assert_eq!(ended.status, 0, "{ended:?}");
}

/// Kills the command this often in total and prints the figures.
#[expect(clippy::print_stdout, reason = "prints the measured figures")]
fn campaign(kills: usize) {
    let of_programs = kills / PROGRAM_EVERY;
    let rest = kills - 2 * of_programs;
    let mut total = 0;
    for (kind, tier, kills) in [
        (Kind::Patch, "A", rest / 3),
        (Kind::Atomic, "A", rest / 3),
        (Kind::Undo, "A", rest - 2 * (rest / 3)),
        (Kind::Program, "A", of_programs),
        (Kind::Program, "B", of_programs),
    ] {
        let begun = Instant::now();
        let mut scene = Scene::new(kind, tier);
        scene.run(kills);
        total += scene.tally.kills;
        println!("{kind:?}, tier {tier}, {:.0?}: {:?}", begun.elapsed(), scene.tally);
    }
    println!("{total} kills, none torn, none lost");
    assert!(total >= kills);
}

#[test]
fn a_killed_host_leaves_all_files_old_or_all_new() {
    let mut within = 0;
    for kind in [Kind::Patch, Kind::Atomic, Kind::Undo] {
        let mut scene = Scene::new(kind, "A");
        scene.run(KILLS / 3);
        within += scene.tally.unfinished;
    }
    assert!(within > 0);
}

/// Twelve thousand files of zeros, which take most room in JSON: the commit is killed halfway,
/// finished by recovery, shown and undone.
#[test]
fn twelve_thousand_files_of_zeros_are_recovered_shown_and_undone() {
    for tier in ["A", "B"] {
        let mut scene = Scene::new(Kind::Program, tier);
        let old = scene.reset();
        // A moment within the commit on machines of any speed.
        scene.longest = Duration::from_millis(500);
        assert!(!scene.kill_once(7), "tier {tier}");
        let workspace = scene.place.workspace();
        assert!(checker::staged(&workspace) > 0, "tier {tier}");
        let torn = state(&workspace);
        scene.kill_recovery(7);
        succeeded(scene.place.run(&["call", "write_file", r#"{"path":"other","content":""}"#]));
        let new = state(&workspace);
        let is_zero = |(_, content): &(u32, Option<Vec<u8>>)| *content == Some(vec![0; FILE_BYTES]);
        let zeros = new.values().filter(|file| is_zero(file)).count();
        assert_eq!(zeros, FILES, "tier {tier}: {} before", differences(&old, &torn));
        let commits = checker::commits(&workspace);
        let commit = commits.iter().find(|commit| commit.paths == FILES as u64).unwrap();
        let diff = scene.place.run(&["log", "--format", "text", "--diff", &commit.id]);
        assert!(diff.status == 0 && diff.stdout.matches("\ndiff --git ").count() == FILES - 1);
        succeeded(scene.place.run(&["undo", &commit.id]));
        assert!(state(&workspace) == old, "tier {tier}");
    }
}

/// The test of `cargo xtask kills`, with the requested number of kills.
#[test]
#[ignore = "takes up to an hour: cargo xtask kills"]
#[expect(clippy::disallowed_methods, reason = "how the command says how many")]
fn the_requested_number_of_kills() {
    let asked = std::env::var(KILLS_VARIABLE).ok().and_then(|kills| kills.parse().ok());
    campaign(asked.unwrap_or(2000));
}
