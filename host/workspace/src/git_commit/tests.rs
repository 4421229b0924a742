#![expect(
    clippy::disallowed_methods,
    clippy::panic,
    clippy::unwrap_used,
    reason = "tests run git and make files"
)]

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::symlink;
use std::process::Command;
use std::sync::Arc;

use sha1::Sha1;

use super::*;
use crate::tests::open;

/// A repository with one commit, which is the workspace unless a test opens another directory.
struct Scene {
    directory: tempfile::TempDir,
}

/// The content of each file below a directory.
type Files = BTreeMap<PathBuf, Vec<u8>>;

fn files(directory: &Path, found: &mut Files) {
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.symlink_metadata().unwrap().is_dir() {
            files(&path, found);
        } else {
            found.insert(path.clone(), fs::read(&path).unwrap_or_default());
        }
    }
}

impl Scene {
    fn new() -> Self {
        let scene = Self::empty();
        scene.write("a", "one\n");
        scene.git(&["add", "--all"]);
        scene.git(&["commit", "--quiet", "--message=first"]);
        scene
    }

    fn empty() -> Self {
        let scene = Self { directory: tempfile::tempdir().unwrap() };
        fs::create_dir(scene.root()).unwrap();
        scene.git(&["init", "--quiet", "--initial-branch=main"]);
        scene
    }

    fn root(&self) -> PathBuf {
        self.directory.path().canonicalize().unwrap().join("work")
    }

    fn at(&self, path: &str) -> PathBuf {
        self.root().join(path)
    }

    fn write(&self, path: &str, content: &str) {
        fs::create_dir_all(self.at(path).parent().unwrap()).unwrap();
        fs::write(self.at(path), content).unwrap();
    }

    fn git(&self, arguments: &[&str]) -> String {
        run_git(&self.root(), arguments, &[])
    }

    fn begin(&self) -> Result<GitCommit> {
        self.begin_at(&self.root())
    }

    fn begin_at(&self, top: &Path) -> Result<GitCommit> {
        let home = self.directory.path().canonicalize().unwrap();
        let repository = Repository::find(top, Some(&home)).unwrap();
        let workspace: Arc<Workspace> = open(top);
        GitCommit::prepare(&workspace, &repository, "p", "")
    }

    /// The files of the repository, without what is kept of lists and times.
    fn repository(&self) -> Files {
        let mut found = Files::new();
        files(&self.at(".git"), &mut found);
        found
    }

    /// Asserts that git accepts the repository, and that no lock or temporary file is left.
    fn check(&self) {
        self.git(&["fsck", "--strict", "--no-dangling"]);
        let names = self.repository().into_keys().map(|path| path.display().to_string());
        let left: Vec<_> =
            names.filter(|name| name.ends_with(".lock") || name.contains("tmp_obj")).collect();
        assert!(left.is_empty(), "{left:?}");
    }
}

fn run_git(directory: &Path, arguments: &[&str], environment: &[(&str, &str)]) -> String {
    let output = Command::new("git")
        .args(arguments)
        .current_dir(directory)
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .envs([("GIT_AUTHOR_NAME", "A"), ("GIT_AUTHOR_EMAIL", "a@example.com")])
        .envs([("GIT_COMMITTER_NAME", "C"), ("GIT_COMMITTER_EMAIL", "c@example.com")])
        .envs(environment.iter().copied())
        .output()
        .unwrap();
    let text = [output.stdout, output.stderr].concat();
    let text = String::from_utf8_lossy(&text).trim_end().to_owned();
    assert!(output.status.success(), "{arguments:?}: {text}");
    text
}

/// Prepares a commit of all files with git; returns its id.
fn stage(commit: &GitCommit, top: &Path) -> String {
    let directory = commit.path().display().to_string();
    let (objects, index) = (format!("{directory}/objects"), format!("{directory}/index"));
    let lender = commit.objects().display().to_string();
    let environment = [
        ("GIT_OBJECT_DIRECTORY", objects.as_str()),
        ("GIT_ALTERNATE_OBJECT_DIRECTORIES", lender.as_str()),
        ("GIT_INDEX_FILE", index.as_str()),
    ];
    run_git(top, &["add", "--all", "--", ".", ":!.cofferdam"], &environment);
    let tree = run_git(top, &["write-tree"], &environment);
    let mut arguments = vec!["commit-tree", "-m", "second\n\nmore", &tree];
    arguments.extend(commit.parent().into_iter().flat_map(|parent| ["-p", parent]));
    run_git(top, &arguments, &environment)
}

fn finish(commit: &GitCommit, id: &str) -> Result<()> {
    commit.finish(id, &|| false)
}

#[test]
fn a_commit_is_taken_over() {
    let scene = Scene::new();
    scene.write("a", "two\n");
    scene.write("dir/b", "new\n");
    let before = scene.repository();
    let commit = scene.begin().unwrap();
    assert_eq!((commit.branch(), commit.parent().is_some()), ("refs/heads/main", true));
    let id = stage(&commit, &scene.root());
    assert_eq!(scene.repository(), before);
    finish(&commit, &id).unwrap();
    scene.check();
    assert_eq!(scene.git(&["rev-parse", "HEAD"]), id);
    assert_eq!(scene.git(&["log", "--format=%s %an %cn"]), "second A C\nfirst A C");
    assert_eq!(scene.git(&["status", "--porcelain", "--untracked-files=no"]), "");
    for log in ["HEAD", "main"] {
        let lines = scene.git(&["reflog", "--format=%H %gs %gn <%ge>", log]);
        assert!(lines.starts_with(&format!("{id} commit: second C <c@example.com>\n")), "{lines}");
    }
    // Only what a commit changes has changed.
    let after = scene.repository();
    let changed = after.iter().filter(|(path, now)| before.get(*path) != Some(*now));
    let changed = changed.map(|(path, _)| path.strip_prefix(scene.at(".git")).unwrap());
    let changed: Vec<_> = changed.filter(|path| !path.starts_with("objects")).collect();
    let wanted = ["index", "logs/HEAD", "logs/refs/heads/main", "refs/heads/main"].map(Path::new);
    assert_eq!(changed, wanted);
    // The directory is gone with the preparation.
    let path = commit.path().to_owned();
    drop(commit);
    assert!(!path.exists());
}

#[test]
fn each_layout_of_a_repository_is_committed_to() {
    // The first commit, on a branch in a directory, without logs.
    let scene = Scene::empty();
    scene.git(&["config", "core.logAllRefUpdates", "false"]);
    scene.git(&["symbolic-ref", "HEAD", "refs/heads/deep/er/main"]);
    scene.write("a", "one\n");
    let commit = scene.begin().unwrap();
    assert_eq!((commit.branch(), commit.parent()), ("refs/heads/deep/er/main", None));
    let id = stage(&commit, &scene.root());
    finish(&commit, &id).unwrap();
    scene.check();
    assert_eq!(scene.git(&["rev-parse", "deep/er/main"]), id);
    assert!(!scene.at(".git/logs").exists());

    // Packed references and objects; an empty directory with the name of the branch.
    let scene = Scene::new();
    scene.git(&["gc", "--quiet"]);
    scene.git(&["pack-refs", "--all"]);
    fs::create_dir_all(scene.at(".git/refs/heads/main")).unwrap();
    scene.write("b", "new\n");
    let commit = scene.begin().unwrap();
    let id = stage(&commit, &scene.root());
    finish(&commit, &id).unwrap();
    scene.check();
    assert_eq!(scene.git(&["log", "--format=%s", "main"]), "second\nfirst");
    // A tree that only a pack has.
    scene.git(&["gc", "--quiet"]);
    fs::remove_file(scene.at("b")).unwrap();
    let commit = scene.begin().unwrap();
    let id = stage(&commit, &scene.root());
    finish(&commit, &id).unwrap();
    scene.check();
    assert_eq!(
        scene.git(&["rev-parse", "HEAD^{tree}"]),
        scene.git(&["rev-parse", "HEAD~2^{tree}"])
    );

    // A linked working tree; the main one stays.
    let linked = scene.root().with_file_name("linked");
    scene.git(&["worktree", "add", "--quiet", "-b", "side", linked.to_str().unwrap()]);
    let main = scene.git(&["rev-parse", "HEAD"]);
    fs::write(linked.join("c"), "c\n").unwrap();
    let commit = scene.begin_at(&linked).unwrap();
    let id = stage(&commit, &linked);
    finish(&commit, &id).unwrap();
    drop(commit);
    scene.check();
    assert_eq!(scene.git(&["rev-parse", "side"]), id);
    assert_eq!(scene.git(&["rev-parse", "HEAD"]), main);
    assert_eq!(run_git(&linked, &["status", "--porcelain", "--untracked-files=no"], &[]), "");

    // A directory below the root.
    scene.write("below/d", "d\n");
    let commit = scene.begin_at(&scene.at("below")).unwrap();
    let id = stage(&commit, &scene.at("below"));
    finish(&commit, &id).unwrap();
    scene.check();
    assert_eq!(scene.git(&["show", "HEAD:below/d"]), "d");
}

#[test]
fn a_repository_in_another_state_or_format_is_refused() {
    let refused = |what: &str, spoil: &dyn Fn(&Scene), wanted: &str| {
        let scene = Scene::new();
        spoil(&scene);
        let error = scene.begin().err().unwrap_or_else(|| panic!("{what} is accepted"));
        assert!(error.to_string().contains(wanted), "{what}: {error}");
    };
    refused(
        "a detached HEAD",
        &|scene| drop(scene.git(&["checkout", "-q", "--detach"])),
        "detached",
    );
    for (name, wanted) in [
        ("MERGE_HEAD", "a merge"),
        ("CHERRY_PICK_HEAD", "a cherry-pick"),
        ("REVERT_HEAD", "a revert"),
        ("BISECT_LOG", "a bisect"),
        ("rebase-merge/x", "a rebase"),
        ("rebase-apply/x", "a rebase"),
        ("index.lock", "another git"),
        ("commondir", "commondir"),
    ] {
        refused(name, &|scene| scene.write(&format!(".git/{name}"), "x\n"), wanted);
    }
    for (setting, wanted) in [
        ("[extensions]\nobjectFormat = sha256\n", "sha256"),
        ("[extensions]\nrefStorage = reftable\n", "reftable"),
        ("[core]\nrepositoryFormatVersion = 7\n", "= 7"),
    ] {
        refused(setting, &|scene| scene.write(".git/config", setting), wanted);
    }
    for head in ["ref: refs/tags/v1\n", "ref: refs/heads/../../x\n", "", "ref: refs/heads/a.lock\n"]
    {
        let name = format!("HEAD {head:?}");
        refused(&name, &|scene| scene.write(".git/HEAD", head), "HEAD does not name");
    }
    let other = "ref: refs/heads/other\n";
    refused("a symbolic ref", &|scene| scene.write(".git/refs/heads/main", other), "not the id");
    // Links on every way.
    for name in [".git", ".git/HEAD", ".git/index", ".git/objects", ".git/refs", ".git/config"] {
        let link = |scene: &Scene| {
            let elsewhere = scene.root().join("elsewhere");
            fs::rename(scene.at(name), &elsewhere).unwrap();
            symlink(elsewhere, scene.at(name)).unwrap();
        };
        refused(name, &link, "link");
    }
}

#[test]
fn what_changes_meanwhile_is_not_overwritten() {
    type Change = fn(&Scene);
    let changes: [(&str, Change); 7] = [
        ("has changed meanwhile", |scene| {
            drop(scene.git(&["commit", "--quiet", "--allow-empty", "--message=x"]));
        }),
        ("index has changed", |scene| {
            scene.write("c", "c\n");
            scene.git(&["add", "c"]);
        }),
        ("has changed meanwhile", |scene| {
            drop(scene.git(&["symbolic-ref", "HEAD", "refs/heads/other"]));
        }),
        ("a merge is not finished", |scene| scene.write(".git/MERGE_HEAD", "x\n")),
        ("index.lock", |scene| scene.write(".git/index.lock", "")),
        ("HEAD.lock", |scene| scene.write(".git/HEAD.lock", "")),
        ("main.lock", |scene| scene.write(".git/refs/heads/main.lock", "")),
    ];
    for (wanted, change) in changes {
        let scene = Scene::new();
        scene.write("b", "b\n");
        let commit = scene.begin().unwrap();
        let id = stage(&commit, &scene.root());
        change(&scene);
        let before = scene.repository();
        let error = finish(&commit, &id).unwrap_err();
        assert!(error.to_string().contains(wanted), "{wanted}: {error}");
        assert_eq!(scene.repository(), before, "{wanted}");
    }
    // A call that has ended takes nothing over.
    let scene = Scene::new();
    scene.write("b", "b\n");
    let commit = scene.begin().unwrap();
    let id = stage(&commit, &scene.root());
    let before = scene.repository();
    assert!(matches!(commit.finish(&id, &|| true), Err(GitCommitError::Changed(_))));
    assert_eq!(scene.repository(), before);
}

fn zlib(content: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(content).unwrap();
    encoder.finish().unwrap()
}

/// Writes a loose object with its right name; returns its id.
fn object(commit: &GitCommit, kind: &str, content: &[u8]) -> String {
    let object = [format!("{kind} {}\0", content.len()).as_bytes(), content].concat();
    let id: String = Sha1::digest(&object).iter().map(|byte| format!("{byte:02x}")).collect();
    plant(commit, &id, &zlib(&object));
    id
}

fn plant(commit: &GitCommit, id: &str, bytes: &[u8]) {
    let path = commit.path().join("objects").join(&id[..2]);
    fs::create_dir_all(&path).unwrap();
    fs::write(path.join(&id[2..]), bytes).unwrap();
}

/// Asserts that nothing is taken over from a commit whose directory was changed.
#[track_caller]
fn refused(wanted: &str, spoil: impl Fn(&GitCommit, &str) -> Option<String>) {
    let scene = Scene::new();
    scene.write("b", "b\n");
    let commit = scene.begin().unwrap();
    let id = stage(&commit, &scene.root());
    let id = spoil(&commit, &id).unwrap_or(id);
    let before = scene.repository();
    let error = finish(&commit, &id).unwrap_err();
    assert!(error.to_string().contains(wanted), "{wanted}: {error}");
    assert_eq!(scene.repository(), before, "{wanted}");
}

const ID: &str = "0123456789abcdef0123456789abcdef01234567";

#[test]
fn hostile_objects_are_refused() {
    let planted = |bytes: Vec<u8>| {
        move |commit: &GitCommit, _: &str| {
            plant(commit, ID, &bytes);
            None
        }
    };
    refused("content that its name says", planted(zlib(b"blob 1\0x")));
    refused("the length that it says", planted(zlib(b"blob 5\0x")));
    refused("the length that it says", planted(zlib(b"blob 0\0x")));
    refused("no valid header", planted(zlib(b"blob")));
    refused("no valid header", planted(zlib(b"blob x\0")));
    refused("no valid header", planted(zlib(&[b'x'; 1000])));
    refused("can't be decompressed", planted(b"no zlib".to_vec()));
    refused("can't be decompressed", planted(Vec::new()));
    let bomb = [&b"blob 5\0"[..], &vec![0; 200 << 20]].concat();
    refused("the length that it says", planted(zlib(&bomb)));
    refused("has more than", planted(zlib(b"blob 99999999999\0")));
    refused("has more than", planted(vec![0; (128 << 20) + 1]));
    let mut trailing = zlib(b"blob 1\0x");
    trailing.push(0);
    refused("the length that it says", planted(trailing));
    for kind in ["tag", "x", "blob2"] {
        refused("not a blob", move |commit, _| {
            object(commit, kind, b"x");
            None
        });
    }
}

#[test]
fn what_is_no_loose_object_is_refused() {
    let objects = |commit: &GitCommit| commit.path().join("objects");
    refused("packs are not taken over", |commit, _| {
        fs::create_dir(objects(commit).join("pack")).unwrap();
        None
    });
    refused("packs are not taken over", |commit, _| {
        fs::write(objects(commit).join("x"), "").unwrap();
        None
    });
    refused("ab", |commit, _| {
        fs::write(objects(commit).join("ab"), "").unwrap();
        None
    });
    refused("ab", |commit, _| {
        let _ = fs::remove_dir_all(objects(commit).join("ab"));
        symlink("/etc", objects(commit).join("ab")).unwrap();
        None
    });
    refused("link", |commit, _| {
        fs::create_dir_all(objects(commit).join("01")).unwrap();
        symlink("/etc/passwd", objects(commit).join("01").join(&ID[2..])).unwrap();
        None
    });
    refused("not a regular file", |commit, _| {
        fs::create_dir_all(objects(commit).join("01").join(&ID[2..])).unwrap();
        None
    });
    refused("not the name of a loose object", |commit, _| {
        fs::create_dir_all(objects(commit).join("01")).unwrap();
        fs::write(objects(commit).join("01/tmp_obj_x"), "").unwrap();
        None
    });
    refused("more than 50000", |commit, _| {
        let directory = objects(commit).join("01");
        fs::create_dir_all(&directory).unwrap();
        for number in 0..100_000 {
            File::create(directory.join(format!("{number:038x}"))).unwrap();
        }
        None
    });
}

#[test]
fn only_one_commit_on_the_branch_is_taken_over() {
    let person = "A <a@example.com> 1 +0000";
    let replaced = |make: &'static dyn Fn(&str, &str, &str) -> String| {
        move |commit: &GitCommit, id: &str| {
            let path = commit.path().join("objects").join(&id[..2]).join(&id[2..]);
            let packed = fs::read(&path).unwrap();
            let text = objects::unpack(id, &packed).unwrap();
            let text = String::from_utf8(text).unwrap();
            let tree = text.split_once("tree ").unwrap().1[..40].to_owned();
            fs::remove_file(path).unwrap();
            let made = make(&tree, commit.parent().unwrap(), person);
            Some(object(commit, "commit", made.as_bytes()))
        }
    };
    let refused_commit = |make| refused("only parent", replaced(make));
    refused_commit(&|tree, _, by| format!("tree {tree}\nauthor {by}\ncommitter {by}\n\nx\n"));
    refused_commit(&|tree, _, by| {
        format!("tree {tree}\nparent {ID}\nauthor {by}\ncommitter {by}\n\nx\n")
    });
    refused_commit(&|tree, tip, by| {
        format!("tree {tree}\nparent {tip}\nparent {tip}\nauthor {by}\ncommitter {by}\n\nx\n")
    });
    refused_commit(&|tree, tip, by| {
        format!("tree {tree}\nparent {tip}\nauthor {by}\ncommitter {by}\ngpgsig x\n\nx\n")
    });
    refused_commit(&|tree, tip, _| {
        format!("tree {tree}\nparent {tip}\nauthor x\ncommitter x\n\nx\n")
    });
    refused_commit(&|tree, tip, by| {
        format!("tree {tree}\nparent {tip}\nauthor {by}\ncommitter {by}\n\nx\0y\n")
    });
    refused(
        "does not exist",
        replaced(&|_, tip, by| {
            format!("tree {ID}\nparent {tip}\nauthor {by}\ncommitter {by}\n\nx\n")
        }),
    );
    refused("not the new commit's", |commit, _| commit.parent().map(str::to_owned));
    for id in ["", "HEAD", "../../config", ID] {
        refused("not the new commit's", |_, _| Some(id.to_owned()));
    }
    refused("or the one commit", |commit, _| {
        object(commit, "commit", b"x");
        None
    });
}

#[test]
fn trees_that_git_would_not_check_out_are_refused() {
    let entry = |mode: &str, name: &str| [format!("{mode} {name}\0").as_bytes(), &[7; 20]].concat();
    for content in [
        entry("100644", ".git"),
        entry("40000", ".GIT"),
        entry("40000", ".g\u{200c}it"),
        entry("40000", "git~1"),
        entry("100644", ".."),
        entry("100644", "."),
        entry("100644", ""),
        entry("100644", "a/b"),
        entry("100666", "a"),
        [entry("100644", "b"), entry("100644", "a")].concat(),
        [entry("100644", "a"), entry("100644", "a")].concat(),
        b"100644 a\0short".to_vec(),
        b"100644".to_vec(),
        b"\0".to_vec(),
    ] {
        refused("a valid tree", |commit, _| {
            object(commit, "tree", &content);
            None
        });
    }
}

#[test]
fn an_index_is_checked() {
    let spoiled = |spoil: &'static dyn Fn(&mut Vec<u8>)| {
        move |commit: &GitCommit, _: &str| {
            let path = commit.path().join("index");
            let mut bytes = fs::read(&path).unwrap();
            bytes.truncate(bytes.len() - 20);
            spoil(&mut bytes);
            let checksum = Sha1::digest(&bytes);
            bytes.extend(&checksum[..]);
            fs::write(path, bytes).unwrap();
            None
        }
    };
    refused("not one of version", spoiled(&|bytes| bytes[0] = b'X'));
    refused("not one of version", spoiled(&|bytes| bytes[7] = 5));
    refused("not one of version", spoiled(&|bytes| bytes[8..12].fill(255)));
    refused("not one of version", spoiled(&|bytes| bytes.truncate(40)));
    refused("not one of version", spoiled(&|bytes| bytes.truncate(6)));
    refused("cut off", spoiled(&|bytes| bytes.extend(b"TREE\xff\xff\xff\xff")));
    refused("'link'", spoiled(&|bytes| bytes.extend(b"link\0\0\0\0")));
    refused("would not accept", spoiled(&|bytes| bytes[12 + 62] = b'.'));
    refused("would not accept", spoiled(&|bytes| bytes[12 + 62] = b'/'));
    let replaced = |bytes: &'static [u8]| {
        move |commit: &GitCommit, _: &str| {
            fs::write(commit.path().join("index"), bytes).unwrap();
            None
        }
    };
    refused("cut off", replaced(b""));
    refused("its own checksum", replaced(b"DIRC and what is no index at all"));
    refused("no index", |commit, _| {
        fs::remove_file(commit.path().join("index")).unwrap();
        None
    });
    refused("link", |commit, _| {
        fs::remove_file(commit.path().join("index")).unwrap();
        symlink("/etc/passwd", commit.path().join("index")).unwrap();
        None
    });
    // Each version that git writes is accepted.
    for version in ["2", "4"] {
        let scene = Scene::new();
        scene.write("dir/a long name", "x\n");
        scene.write("dir/a long name of another file", "x\n");
        scene.git(&["add", "dir"]);
        scene.git(&["update-index", "--index-version", version]);
        scene.write("new", "x\n");
        scene.git(&["add", "--intent-to-add", "new"]);
        let commit = scene.begin().unwrap();
        let id = stage(&commit, &scene.root());
        finish(&commit, &id).unwrap();
        scene.check();
        assert_eq!(scene.git(&["status", "--porcelain", "--untracked-files=no"]), "");
    }
}

#[test]
fn what_a_dead_host_left_is_removed() {
    let scene = Scene::new();
    let commit = scene.begin().unwrap();
    let path = commit.path().to_owned();
    std::mem::forget(commit);
    assert!(path.join("index").is_file() && path.join("objects").is_dir());
    let next = scene.begin().unwrap();
    assert!(!path.exists() && next.path().exists());
}
