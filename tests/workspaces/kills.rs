//! The command is killed at random moments of a push, a pull and a clone. The store is whole: what can be
//! cloned is the old or the new tree. The workspace is whole after the next command.

use std::fs;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use super::{done, tree};
use crate::support::Place;

/// How often each command is killed.
const KILLS: u32 = 25;

/// How many files are changed each time.
const FILES: usize = 120;

struct Scene {
    place: Place,
    a: PathBuf,
    store: String,
    /// The time of the longest run.
    longest: Duration,
}

impl Scene {
    fn new() -> Self {
        let place = Place::new();
        let store = place.home_file("store").to_str().unwrap().to_owned();
        let a = place.workspace();
        let scene = Self { place, a, store, longest: Duration::ZERO };
        scene.change(0);
        done(&scene.place, &scene.a, &["push", &scene.store]);
        scene
    }

    /// Changes files of the first workspace; some are created, some removed.
    fn change(&self, turn: u32) {
        for number in 0..FILES {
            self.place.write(&format!("d{}/{number}", number % 7), format!("{turn} {number}\n"));
        }
        self.place.write(&format!("new-{turn}"), "new\n");
        if turn > 1 {
            fs::remove_file(self.a.join(format!("new-{}", turn - 1))).unwrap();
        }
    }

    /// Runs a command and kills it; `turn` of [`KILLS`] decides when. The first run is not killed.
    fn kill(&mut self, directory: &Path, args: &[&str], turn: u32) {
        let mut command = self.place.command(&[&["workspace"], args].concat());
        let mut child = command.current_dir(directory).spawn().unwrap();
        let begin = Instant::now();
        if turn > 1 {
            // 7 has no factor in common with the number of kills.
            thread::sleep(self.longest * ((turn * 7) % KILLS) / KILLS);
            // The process may have ended by itself.
            let _ = kill_process(Pid::from_child(&child), Signal::KILL);
        }
        child.wait().unwrap();
        self.longest = self.longest.max(begin.elapsed());
    }

    /// What a clone of the store has.
    fn stored(&self) -> std::collections::BTreeMap<PathBuf, Vec<u8>> {
        let directory = self.place.home_file("check");
        done(&self.place, &self.a, &["clone", &self.store, directory.to_str().unwrap()]);
        let found = tree(&directory);
        fs::remove_dir_all(directory).unwrap();
        found
    }
}

#[test]
fn a_killed_push_leaves_the_store_whole() {
    let mut scene = Scene::new();
    let (mut old, mut new) = (0, 0);
    for turn in 1..=KILLS {
        let before = tree(&scene.a);
        scene.change(turn);
        let after = tree(&scene.a);
        let directory = scene.a.clone();
        scene.kill(&directory, &["push"], turn);
        let stored = scene.stored();
        assert!(stored == before || stored == after, "turn {turn}");
        if stored == before {
            old += 1
        } else {
            new += 1
        }
        assert_eq!(tree(&scene.a), after, "turn {turn}");
        done(&scene.place, &scene.a, &["push", "--pull"]);
        assert_eq!(scene.stored(), after, "turn {turn}");
    }
    assert!(old > 0 && new > 0, "{old} {new}");
}

#[test]
fn a_killed_pull_leaves_the_workspace_whole() {
    let mut scene = Scene::new();
    let b = scene.place.home_file("b");
    done(&scene.place, &scene.a, &["clone", &scene.store, b.to_str().unwrap()]);
    fs::write(b.join("own"), "of b\n").unwrap();
    for turn in 1..=KILLS {
        scene.change(turn);
        done(&scene.place, &scene.a, &["push"]);
        scene.kill(&b, &["pull"], turn);
        done(&scene.place, &b, &["pull"]);
        let mut expected = tree(&scene.a);
        expected.insert("own".into(), b"of b\n".to_vec());
        assert_eq!(tree(&b), expected, "turn {turn}");
    }
}

#[test]
fn a_killed_clone_leaves_no_directory() {
    let mut scene = Scene::new();
    let expected = tree(&scene.a);
    let clone = scene.place.home_file("clone");
    let mut missing = 0;
    for turn in 1..=KILLS {
        let directory = scene.a.clone();
        let store = scene.store.clone();
        scene.kill(&directory, &["clone", &store, clone.to_str().unwrap()], turn);
        if clone.exists() {
            assert_eq!(tree(&clone), expected, "turn {turn}");
            // It can be used at once.
            done(&scene.place, &clone, &["pull"]);
            fs::remove_dir_all(&clone).unwrap();
        } else {
            missing += 1;
        }
    }
    assert!(missing > 0);
}
