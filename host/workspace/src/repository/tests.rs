#![expect(clippy::unwrap_used, clippy::panic, reason = "tests")]

use std::os::unix::fs::symlink;

use super::*;

const TIP: &str = "0123456789abcdef0123456789abcdef01234567";
const OTHER: &str = "fedcba9876543210fedcba9876543210fedcba98";

struct Place {
    top: PathBuf,
    _directory: tempfile::TempDir,
}

impl Place {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        Self { top: directory.path().canonicalize().unwrap(), _directory: directory }
    }

    fn at(&self, path: &str) -> PathBuf {
        self.top.join(path)
    }

    fn write(&self, path: &str, text: &str) {
        let path = self.at(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    /// Creates a repository whose branch is at `tip`.
    fn repository(&self, path: &str, tip: &str) {
        self.write(&format!("{path}/HEAD"), "ref: refs/heads/main\n");
        self.write(&format!("{path}/refs/heads/main"), &format!("{tip}\n"));
        self.write(&format!("{path}/config"), "[core]\n\tbare = false\n");
        fs::create_dir_all(self.at(&format!("{path}/objects/info"))).unwrap();
    }

    /// Creates a repository `main` with the linked working tree `ws`.
    fn linked(&self) {
        self.repository("main/.git", TIP);
        self.write("main/.git/worktrees/w/HEAD", "ref: refs/heads/w\n");
        self.write("main/.git/worktrees/w/commondir", "../..\n");
        let back = format!("{}\n", self.at("ws/.git").display());
        self.write("main/.git/worktrees/w/gitdir", &back);
        let to = format!("gitdir: {}\n", self.at("main/.git/worktrees/w").display());
        self.write("ws/.git", &to);
    }

    fn find(&self, path: &str) -> Result<Repository, RepositoryError> {
        Repository::find(&self.at(path), Some(&self.top))
    }

    /// The readable paths, relative to this place.
    fn readable(&self, path: &str) -> Vec<String> {
        let found = self.find(path).unwrap_or_else(|error| panic!("{path}: {error}"));
        let relative = |path: &PathBuf| path.strip_prefix(&self.top).unwrap().display().to_string();
        found.readable.iter().map(relative).collect()
    }

    fn refusal(&self, path: &str) -> String {
        match self.find(path) {
            Err(RepositoryError::NotConfirmed(message)) => {
                assert!(message.contains("What would be right: "), "{message}");
                assert!(message.len() < 2000 && message.lines().count() == 1, "{message}");
                message
            }
            other => panic!("{path}: {other:?}"),
        }
    }
}

#[test]
fn a_repository_in_the_workspace_needs_nothing_outside() {
    let place = Place::new();
    place.repository("ws/.git", TIP);
    let found = place.find("ws").unwrap();
    assert_eq!((&*found.git_dir, &*found.work_tree), (Path::new(".git"), Path::new(".")));
    assert_eq!(found.readable, [""; 0].map(PathBuf::from));
    fs::rename(place.at("ws/.git"), place.at("ws/.bare")).unwrap();
    place.write("ws/.git", "gitdir: .bare\n");
    let bare = place.at("ws/.bare");
    let wanted = Repository { own: bare.clone(), common: bare, ..found };
    assert_eq!(place.find("ws").unwrap(), wanted);
    fs::remove_file(place.at("ws/.git")).unwrap();
    symlink(".bare", place.at("ws/.git")).unwrap();
    // Nothing is written to a repository that is reached through a link.
    let linked = place.find("ws").unwrap();
    assert_eq!(linked.own, Path::new(""));
    assert_eq!((linked.git_dir, linked.readable), (wanted.git_dir, wanted.readable));
}

#[test]
fn without_a_repository_the_places_that_were_searched_are_named() {
    let place = Place::new();
    fs::create_dir_all(place.at("home/a/ws")).unwrap();
    place.repository("home/.git", TIP);
    let found = Repository::find(&place.at("home/a/ws"), Some(&place.at("home")));
    let Err(RepositoryError::NotFound(message)) = found else { panic!("{found:?}") };
    assert!(message.contains(&*place.at("home/a/ws").to_string_lossy()), "{message}");
    assert!(message.ends_with("git init") && message.contains("up to"), "{message}");
}

#[test]
fn a_linked_working_tree_is_confirmed_by_its_repository() {
    let place = Place::new();
    place.linked();
    let found = place.find("ws").unwrap();
    assert_eq!(found.git_dir, place.at("main/.git/worktrees/w"));
    let outside = ["main/.git", "main/.git/worktrees/w"].map(|path| place.at(path));
    assert_eq!(found.outside, outside);
    let wanted = ["HEAD", "config", "objects", "refs", "worktrees/w"];
    assert_eq!(place.readable("ws"), wanted.map(|name| format!("main/.git/{name}")));
    // As git 2.48 writes them with `worktree.useRelativePaths`.
    place.write("main/.git/worktrees/w/gitdir", "../../../../ws/.git\n");
    place.write("ws/.git", "gitdir: ../main/.git/worktrees/w\n");
    assert_eq!(place.find("ws").unwrap(), found);
    // A directory of it.
    place.write("ws/.gitignore", "target\n");
    fs::create_dir_all(place.at("ws/src/deep")).unwrap();
    let below = place.find("ws/src/deep").unwrap();
    assert_eq!((below.git_dir, below.work_tree), (found.git_dir, place.at("ws")));
    assert_eq!(below.prefix, Path::new("src/deep"));
    assert!(below.readable.contains(&place.at("ws/.gitignore")));
}

#[test]
fn a_working_tree_inside_of_its_bare_repository_does_not_show_others() {
    let place = Place::new();
    place.repository("main.git", TIP);
    place.write("main.git/worktrees/w/HEAD", "ref: refs/heads/w\n");
    place.write("main.git/worktrees/w/commondir", "../..\n");
    place.write("main.git/worktrees/w/gitdir", "../../ws/.git\n");
    place.write("main.git/ws/.git", "gitdir: ../worktrees/w\n");
    place.write("main.git/other/secret", "x");
    place.write("main.git/worktrees/other/index", "x");
    let readable = place.readable("main.git/ws");
    assert!(readable.iter().all(|path| !path.contains("other")), "{readable:?}");
    assert!(readable.iter().all(|path| path != "main.git"), "{readable:?}");
}

#[test]
fn a_file_that_names_a_repository_is_not_enough() {
    for (what, change) in [
        ("another back reference", "gitdir: /elsewhere/.git\n"),
        ("a back reference to a file", "/elsewhere/ws/not-git\n"),
        ("none", ""),
    ] {
        let place = Place::new();
        place.linked();
        place.write("main/.git/worktrees/w/gitdir", change);
        let message = place.refusal("ws");
        assert!(message.contains("git worktree repair"), "{what}: {message}");
    }
    let place = Place::new();
    place.linked();
    // The repository itself, and one whose `commondir` leads to a third one.
    place.write("ws/.git", &format!("gitdir: {}\n", place.at("main/.git").display()));
    place.refusal("ws");
    place.write("ws/.git", &format!("gitdir: {}\n", place.at("main/.git/worktrees/w").display()));
    place.repository("private/.git", OTHER);
    let private = place.at("private/.git").display().to_string();
    place.write("main/.git/worktrees/w/commondir", &private);
    place.refusal("ws");
    // The message does not tell which files exist.
    let refusals = ["private/.git", "nothing/here"].map(|path| {
        let path = place.at(path).display().to_string();
        place.write("ws/.git", &format!("gitdir: {path}\n"));
        place.refusal("ws").replace(&path, "PATH")
    });
    assert_eq!(refusals[0], refusals[1]);
    for text in ["", "gitdir", &"x".repeat(10_000), &format!("gitdir: {}", "x/".repeat(5000))] {
        place.write("ws/.git", text);
        place.refusal("ws");
    }
}

#[test]
fn links_to_a_repository_outside_are_refused() {
    let place = Place::new();
    place.repository("private/.git", OTHER);
    fs::create_dir_all(place.at("ws/sub")).unwrap();
    symlink(place.at("private/.git"), place.at("ws/.git")).unwrap();
    assert!(place.refusal("ws").contains("symbolic link"));
    assert!(place.refusal("ws/sub").contains("symbolic link"));
    // Links in a repository above are not followed.
    fs::remove_file(place.at("ws/.git")).unwrap();
    place.repository("ws/.git", TIP);
    for name in ["objects", "logs", "packed-refs"] {
        let _ = fs::remove_dir_all(place.at("ws/.git").join(name));
        symlink(place.at("private/.git").join(name), place.at("ws/.git").join(name)).unwrap();
        let shown = place.find("ws/sub").map(|found| found.readable).unwrap_or_default();
        assert!(!shown.contains(&place.at("ws/.git").join(name)), "{name}");
    }
}

#[test]
fn a_submodule_is_confirmed_by_its_configuration() {
    let place = Place::new();
    place.repository("main/.git/modules/sub", TIP);
    let config = "[core]\n\tworktree = ../../../sub\n";
    place.write("main/.git/modules/sub/config", config);
    place.write("main/sub/.git", "gitdir: ../.git/modules/sub\n");
    let found = place.find("main/sub").unwrap();
    assert_eq!(found.git_dir, place.at("main/.git/modules/sub"));
    assert_eq!(found.outside, [place.at("main/.git/modules/sub")]);
    assert!(!found.readable.contains(&place.at("main/.git/config")));
    for config in ["[core]\n\tworktree = ../../../other\n", "[core]\n", "[core]worktree=/\n"] {
        place.write("main/.git/modules/sub/config", config);
        assert!(place.refusal("main/sub").contains("core.worktree"));
    }
}

#[test]
fn a_directory_of_a_repository_shows_the_repository_and_its_ignore_files() {
    let place = Place::new();
    place.repository("main/.git", TIP);
    place.write("main/.gitignore", "target\n");
    place.write("main/a/.gitattributes", "* text\n");
    place.write("main/secret", "x");
    fs::create_dir_all(place.at("main/a/ws")).unwrap();
    symlink("../secret", place.at("main/a/.gitignore")).unwrap();
    let found = place.find("main/a/ws").unwrap();
    assert_eq!((found.git_dir, found.work_tree), (place.at("main/.git"), place.at("main")));
    assert_eq!(found.prefix, Path::new("a/ws"));
    let mut readable = place.readable("main/a/ws");
    readable.retain(|path| !path.starts_with("main/.git/"));
    assert_eq!(readable, ["main/a/.gitattributes", "main/.gitignore"]);
    // Neither inside of the repository nor with what is not one.
    fs::create_dir_all(place.at("main/.git/info")).unwrap();
    assert!(place.refusal("main/.git/info").contains("inside"));
    place.write("main/.git/HEAD", "no head\n");
    place.refusal("main/a/ws");
}

#[test]
fn a_repository_of_another_user_above_is_refused() {
    let place = Place::new();
    place.repository("main/.git", TIP);
    fs::create_dir_all(place.at("main/ws")).unwrap();
    // Only root can change a file's owner, so other users can't run this test.
    if std::os::unix::fs::chown(place.at("main/.git"), Some(65534), Some(65534)).is_err() {
        return;
    }
    assert!(place.refusal("main/ws").contains("belongs to you"));
    place.linked();
    place.refusal("ws");
}

#[test]
fn objects_are_lent_only_to_a_repository_that_knows_a_commit() {
    let place = Place::new();
    place.repository("lender/.git", TIP);
    place.repository("ws/.git", OTHER);
    let objects = place.at("lender/.git/objects");
    place.write("ws/.git/objects/info/alternates", &format!("{}\n", objects.display()));
    let message = place.refusal("ws");
    assert!(message.contains("alternates") && message.contains("fetch"), "{message}");
    place.write("ws/.git/packed-refs", &format!("# pack-refs\n{TIP} refs/remotes/origin/main\n"));
    assert_eq!(place.readable("ws"), ["lender/.git/objects"]);
    assert_eq!(place.find("ws").unwrap().outside, std::slice::from_ref(&objects));
    place.write("ws/.git/objects/info/alternates", "../../../lender/.git/objects\n");
    assert_eq!(place.readable("ws"), ["lender/.git/objects"]);
    // The lender has gone on since.
    place.write("lender/.git/refs/heads/main", &format!("{}\n", "a".repeat(40)));
    place.refusal("ws");
    place.write("lender/.git/logs/HEAD", &format!("{} {TIP} A <a@b> 1 +0000\tx\n", "0".repeat(40)));
    assert_eq!(place.readable("ws"), ["lender/.git/objects"]);
    // It takes objects from a third one.
    place.repository("third.git", &"b".repeat(40));
    place.write("lender/.git/objects/info/alternates", "../../../third.git/objects\n");
    place.refusal("ws");
    place.write("third.git/refs/heads/x", TIP);
    assert_eq!(place.readable("ws"), ["lender/.git/objects", "third.git/objects"]);
    // In a circle.
    place.write("third.git/objects/info/alternates", "../../lender/.git/objects\n");
    assert_eq!(place.readable("ws").len(), 2);
}

#[test]
fn a_hostile_workspace_borrows_no_objects() {
    let place = Place::new();
    place.repository("private/.git", TIP);
    place.write("private/.git/logs/HEAD", &format!("{} {TIP}\n", "0".repeat(40)));
    place.write("private/data/objects/x", "x");
    let alternates = "ws/.git/objects/info/alternates";
    let zero = "0".repeat(40);
    for line in ["../../../private/.git/objects", "../../../private/data/objects", "/", "/etc", ""]
    {
        let _ = fs::remove_dir_all(place.at("ws"));
        place.repository("ws/.git", &zero);
        place.write(alternates, &format!("{line}\n"));
        if line.is_empty() {
            assert_eq!(place.readable("ws"), [""; 0]);
        } else {
            place.refusal("ws");
        }
    }
    // Its references are links to those of the other repository.
    place.write(alternates, "../../../private/.git/objects\n");
    for name in ["refs", "logs", "packed-refs", "HEAD"] {
        let link = place.at("ws/.git").join(name);
        let _ = fs::remove_dir_all(&link);
        let _ = fs::remove_file(&link);
        symlink(place.at("private/.git").join(name), &link).unwrap();
        place.refusal("ws");
    }
    // A link to the list of another repository.
    place.write("private/.git/objects/info/alternates", "/secret/path\n");
    fs::remove_dir_all(place.at("ws/.git/objects/info")).unwrap();
    symlink(place.at("private/.git/objects/info"), place.at("ws/.git/objects/info")).unwrap();
    assert_eq!(place.readable("ws"), [""; 0]);
    // A FIFO blocks nothing.
    fs::remove_file(place.at("ws/.git/objects/info")).unwrap();
    fs::create_dir(place.at("ws/.git/objects/info")).unwrap();
    let mode = rustix::fs::Mode::from_raw_mode(0o600);
    let kind = rustix::fs::FileType::Fifo;
    rustix::fs::mknodat(rustix::fs::CWD, place.at(alternates), kind, mode, 0).unwrap();
    assert_eq!(place.readable("ws"), [""; 0]);
}
