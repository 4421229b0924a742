//! `git_status`, `git_diff` and `lint_backend` in workspaces whose repository is not their `.git`
//! directory, in both kinds of sandbox.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::programs;
use crate::support::{Ended, Place};
use crate::trial::configure;

const TIERS: [&str; 2] = ["A", "B"];

/// A directory with the repository `main`, whose branch has `src/app.py` and `.gitignore`.
struct Area {
    place: Place,
    area: PathBuf,
}

impl Area {
    fn new(tier: &str) -> Self {
        let place = Place::new();
        let tier = format!("[programs]\ntier = '{tier}'");
        configure(&place, &programs::settings().replacen("[programs]", &tier, 1));
        let area = place.workspace().with_file_name("area");
        fs::create_dir_all(area.join("main/src")).unwrap();
        let area = Self { place, area };
        fs::write(area.at("main/src/app.py"), "x = 1\n").unwrap();
        fs::write(area.at("main/.gitignore"), "*.log\n").unwrap();
        area.git("main", &["init", "-q", "-b", "main"]);
        area.git("main", &["add", "."]);
        area.git("main", &["commit", "-q", "-m", "all"]);
        area
    }

    fn at(&self, path: &str) -> PathBuf {
        self.area.join(path)
    }

    fn git(&self, directory: &str, args: &[&str]) {
        let at = self.at(directory);
        let to = ["-C", at.to_str().unwrap(), "-c", "protocol.file.allow=always"];
        self.place.with_git(&[&to[..], args].concat());
    }

    fn call(&self, workspace: &str, tool: &str) -> Ended {
        // A directory above may have been a workspace before.
        let at = self.at(workspace);
        Ended::of(&mut self.place.command(&["-C", at.to_str().unwrap(), "call", tool, "{}"]))
    }

    #[track_caller]
    fn answer(&self, workspace: &str, tool: &str) -> Value {
        let ended = self.call(workspace, tool);
        assert_eq!(ended.status, 0, "{workspace} {tool}: {ended:?}");
        ended.json()
    }

    /// Changes a file of a workspace; checks that the tools see it, and nothing else.
    #[track_caller]
    fn sees_changes(&self, workspace: &str, file: &str, outside: &[&str]) {
        let at = self.at(workspace);
        fs::write(at.join(file), "import os\nx = 2\n").unwrap();
        fs::write(at.join("noise.log"), "").unwrap();
        let before = Tree::of(&self.area);
        let status = self.answer(workspace, "git_status");
        let output = status["output"].as_str().unwrap();
        assert!(output.contains(&format!("modified:   {file}\n")), "{workspace}: {output}");
        assert!(!output.contains("noise.log") && !output.contains("deleted"), "{output}");
        let named: Vec<&str> = status["outside"]
            .as_array()
            .map_or(Vec::new(), |all| all.iter().map(|path| path.as_str().unwrap()).collect());
        let wanted: Vec<PathBuf> = outside.iter().map(|path| self.at(path)).collect();
        assert_eq!(named.iter().map(PathBuf::from).collect::<Vec<_>>(), wanted, "{workspace}");
        let diff = self.answer(workspace, "git_diff")["output"].as_str().unwrap().to_owned();
        assert!(diff.starts_with(&format!("diff --git a/{file} b/{file}\n")), "{diff}");
        assert!(diff.ends_with("-x = 1\n+import os\n+x = 2\n"), "{diff}");
        let lint = self.answer(workspace, "lint_backend");
        assert_eq!(lint["summary"]["files_checked"], 1, "{workspace}: {lint:#}");
        assert!(before == Tree::of(&self.area), "{workspace}: the repository was changed");
    }
}

/// The files of all repositories, with their contents.
#[derive(PartialEq)]
struct Tree(Vec<(PathBuf, Vec<u8>)>);

impl Tree {
    fn of(area: &Path) -> Self {
        let mut files = Vec::new();
        let mut waiting = vec![area.to_owned()];
        while let Some(directory) = waiting.pop() {
            for entry in fs::read_dir(directory).unwrap() {
                let path = entry.unwrap().path();
                if path.ends_with(".cofferdam") {
                    continue;
                }
                match path.symlink_metadata().unwrap() {
                    found if found.is_dir() => waiting.push(path),
                    found if found.is_file() => files.push((path.clone(), fs::read(path).unwrap())),
                    _ => {}
                }
            }
        }
        files.sort();
        Self(files)
    }
}

#[test]
fn a_linked_working_tree_has_its_repository() {
    for tier in TIERS {
        let area = Area::new(tier);
        area.git("main", &["worktree", "add", "-q", "../linked"]);
        area.sees_changes("linked", "src/app.py", &["main/.git", "main/.git/worktrees/linked"]);
        let below = ["main/.git", "main/.git/worktrees/linked", "linked/.gitignore"];
        area.git("linked", &["checkout", "-q", "."]);
        area.sees_changes("linked/src", "app.py", &below);
        // The main working tree has been moved.
        fs::rename(area.at("main"), area.at("moved")).unwrap();
        for tool in ["git_status", "git_diff", "lint_backend"] {
            let ended = area.call("linked", tool);
            assert_ne!(ended.status, 0, "{tool}: {ended:?}");
            let said = [ended.stdout.as_str(), &ended.stderr].concat();
            assert!(said.contains("worktree repair") && said.contains("/main/.git"), "{said}");
        }
        area.git("moved", &["worktree", "repair", "../linked"]);
        let repaired = ["moved/.git", "moved/.git/worktrees/linked"];
        area.git("linked", &["checkout", "-q", "."]);
        area.sees_changes("linked", "src/app.py", &repaired);
    }
}

#[test]
fn a_shared_clone_has_the_objects_of_the_other_repository() {
    for tier in TIERS {
        let area = Area::new(tier);
        area.git("", &["clone", "-q", "--shared", "main", "shared"]);
        area.sees_changes("shared", "src/app.py", &["main/.git/objects"]);
        // A clone of the clone, after the first repository has gone on.
        area.git("", &["clone", "-q", "--shared", "shared", "again"]);
        area.git("main", &["commit", "-q", "--allow-empty", "-m", "more"]);
        let both = ["shared/.git/objects", "main/.git/objects"];
        area.sees_changes("again", "src/app.py", &both);
    }
}

#[test]
fn a_submodule_has_its_repository() {
    for tier in TIERS {
        let area = Area::new(tier);
        area.git("", &["init", "-q", "above"]);
        area.git("above", &["submodule", "--quiet", "add", "../main", "sub"]);
        area.git("above", &["commit", "-q", "-m", "all"]);
        area.sees_changes("above/sub", "src/app.py", &["above/.git/modules/sub"]);
        let status = area.answer("above", "git_status");
        assert!(status["output"].as_str().unwrap().contains("working tree clean"), "{status}");
    }
}

#[test]
fn a_directory_of_a_repository_is_compared_by_itself() {
    for tier in TIERS {
        let area = Area::new(tier);
        fs::write(area.at("main/other.py"), "").unwrap();
        area.sees_changes("main/src", "app.py", &["main/.git", "main/.gitignore"]);
        let status = area.answer("main/src", "git_status");
        assert!(!status["output"].as_str().unwrap().contains("other"), "{status}");
    }
}

#[test]
fn a_hostile_workspace_reads_no_other_repository() {
    for tier in TIERS {
        let area = Area::new(tier);
        fs::create_dir(area.at("hostile")).unwrap();
        fs::write(area.at("hostile/.git"), "gitdir: ../main/.git\n").unwrap();
        let refused = |what: &str| {
            let ended = area.call("hostile", "git_status");
            let said = [ended.stdout.as_str(), &ended.stderr].concat();
            assert_ne!(ended.status, 0, "{what}: {said}");
            assert!(!said.contains("app.py"), "{what}: {said}");
            assert!(said.len() < 5000, "{what}: {said}");
            said
        };
        assert!(refused("a file").contains("names"));
        fs::remove_file(area.at("hostile/.git")).unwrap();
        std::os::unix::fs::symlink("../main/.git", area.at("hostile/.git")).unwrap();
        assert!(refused("a link").contains("symbolic link"));
        fs::remove_file(area.at("hostile/.git")).unwrap();
        area.git("hostile", &["init", "-q"]);
        let alternates = area.at("hostile/.git/objects/info/alternates");
        fs::write(alternates, "../../../main/.git/objects\n").unwrap();
        assert!(refused("alternates").contains("alternates"));
        fs::remove_dir_all(area.at("hostile/.git")).unwrap();
        fs::create_dir(area.at("hostile/.git")).unwrap();
        fs::write(area.at("hostile/.git/HEAD"), "ref: refs/heads/main\n").unwrap();
        fs::write(area.at("hostile/.git/commondir"), "../../main/.git\n").unwrap();
        refused("commondir");
    }
}
