//! Creating views and keeping changes. No program runs here: the tests change an upper directory as
//! overlayfs would.
#![expect(
    clippy::disallowed_methods,
    clippy::expect_used,
    clippy::panic,
    clippy::unwrap_used,
    reason = "tests"
)]

mod merged;
mod random;
mod refused;

use std::fs;
use std::io;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, FileType, Mode, XattrFlags};

use crate::layout::RUNS;
use crate::path::join;
use crate::tests::{Tree, begin, open, populate, read, tree, tree_with_times, write};
use crate::*;

/// Changes of files, natively or simulated.
trait Files {
    fn put(&self, place: &str, content: &str);
    fn remove(&self, place: &str);
    fn make(&self, place: &str);
    fn link(&self, target: &str, place: &str);
    fn allow_to_run(&self, place: &str);
}

/// A tree on the disk: a copy for a program, or the expected result.
impl Files for PathBuf {
    fn put(&self, place: &str, content: &str) {
        fs::write(self.join(place), content).unwrap();
    }

    fn remove(&self, place: &str) {
        let path = self.join(place);
        if fs::symlink_metadata(&path).unwrap().is_dir() {
            fs::remove_dir_all(path).unwrap();
        } else {
            fs::remove_file(path).unwrap();
        }
    }

    fn make(&self, place: &str) {
        fs::create_dir(self.join(place)).unwrap();
    }

    fn link(&self, target: &str, place: &str) {
        symlink(target, self.join(place)).unwrap();
    }

    fn allow_to_run(&self, place: &str) {
        fs::set_permissions(self.join(place), fs::Permissions::from_mode(0o755)).unwrap();
    }
}

/// The tree of a transaction.
impl Files for Overlay {
    fn put(&self, place: &str, content: &str) {
        write(self, place, content);
    }

    fn remove(&self, place: &str) {
        if FileType::from_raw_mode(self.stat(place).unwrap().st_mode) == FileType::Directory {
            for entry in self.list(place).unwrap() {
                Files::remove(self, &join(place, entry.name.to_str().unwrap()));
            }
            self.remove_directory(place).unwrap();
        } else {
            self.remove_file(place).unwrap();
        }
    }

    fn make(&self, place: &str) {
        self.create_directory(place, &Quota::unlimited()).unwrap();
    }

    fn link(&self, target: &str, place: &str) {
        self.create_link(target, place, &Quota::unlimited()).unwrap();
    }

    fn allow_to_run(&self, place: &str) {
        self.set_executable(place, true, &Quota::unlimited()).unwrap();
    }
}

/// Simulates the changes that overlayfs makes to its upper directory.
struct Mounted {
    lower: PathBuf,
    upper: PathBuf,
}

impl Mounted {
    fn is_whiteout(path: &Path) -> bool {
        let found = fs::symlink_metadata(path);
        found.is_ok_and(|found| found.mode() & 0o170_000 == 0o020_000 && found.rdev() == 0)
    }

    fn is_opaque(path: &Path) -> bool {
        rustix::fs::getxattr(path, "user.overlay.opaque", &mut [0_u8; 8][..]).is_ok()
    }

    /// Whether a file in the lower directory would be visible at a place.
    fn shows(&self, place: &str) -> bool {
        let is_hidden = place.match_indices('/').any(|(end, _)| {
            let above = self.upper.join(&place[..end]);
            fs::symlink_metadata(&above).is_ok_and(|found| !found.is_dir())
                || Self::is_opaque(&above)
        });
        !is_hidden && fs::symlink_metadata(self.lower.join(place)).is_ok()
    }

    /// Creates the parent directories, and returns the path of the place.
    fn reach(&self, place: &str) -> PathBuf {
        let path = self.upper.join(place);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        path
    }

    /// Removes a whiteout; returns whether there was one.
    fn clear(&self, path: &Path) -> bool {
        let was_whiteout = Self::is_whiteout(path);
        if was_whiteout {
            fs::remove_file(path).unwrap();
        }
        was_whiteout
    }
}

impl Files for Mounted {
    fn put(&self, place: &str, content: &str) {
        let path = self.reach(place);
        let is_new = self.clear(&path);
        if !is_new && !path.exists() && self.shows(place) {
            fs::copy(self.lower.join(place), &path).unwrap();
            let flags = XattrFlags::empty();
            rustix::fs::setxattr(&path, "user.overlay.origin", b"\0", flags).unwrap();
        }
        fs::write(path, content).unwrap();
    }

    fn remove(&self, place: &str) {
        let path = self.reach(place);
        let shows = self.shows(place);
        if path.symlink_metadata().is_ok() {
            Files::remove(&self.upper, place);
        }
        if shows {
            let kind = FileType::CharacterDevice;
            rustix::fs::mknodat(CWD, &path, kind, Mode::empty(), 0).unwrap();
        }
    }

    fn make(&self, place: &str) {
        let path = self.reach(place);
        let is_opaque = self.clear(&path);
        fs::create_dir(&path).unwrap();
        if is_opaque {
            let flags = XattrFlags::empty();
            rustix::fs::setxattr(&path, "user.overlay.opaque", b"y", flags).unwrap();
        }
    }

    fn link(&self, target: &str, place: &str) {
        let path = self.reach(place);
        self.clear(&path);
        symlink(target, path).unwrap();
    }

    fn allow_to_run(&self, place: &str) {
        let path = self.reach(place);
        if !path.exists() {
            fs::copy(self.lower.join(place), &path).unwrap();
            let before = fs::metadata(self.lower.join(place)).unwrap();
            let file = fs::File::options().append(true).open(&path).unwrap();
            file.set_modified(before.modified().unwrap()).unwrap();
        }
        self.upper.allow_to_run(place);
    }
}

/// A workspace, and a directory for copies.
struct Scene {
    _directory: tempfile::TempDir,
    root: PathBuf,
    scratch: PathBuf,
    workspace: std::sync::Arc<Workspace>,
}

impl Scene {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let top = directory.path().canonicalize().unwrap();
        let (root, scratch) = (top.join("project"), top.join("scratch"));
        fs::create_dir(&root).unwrap();
        fs::create_dir(&scratch).unwrap();
        populate(&root);
        let workspace = open(&root);
        Self { _directory: directory, root, scratch, workspace }
    }

    fn show(&self, tree: &Overlay, way: Way) -> NativeView {
        let mounts = way == Way::Mount;
        let options = ViewOptions { mounts, scratch: &self.scratch, may_change: true };
        NativeView::create(&self.workspace, tree, options, &|| false).unwrap()
    }

    /// The files of a view, which a program would change.
    fn files(&self, view: &NativeView) -> Box<dyn Files> {
        match view.kind() {
            ViewKind::Workspace => panic!("nothing can be changed"),
            ViewKind::Mount { upper, .. } => {
                Box::new(Mounted { lower: self.root.clone(), upper: upper.clone() })
            }
            ViewKind::Copy(copy) => Box::new(copy.clone()),
        }
    }

    /// The directory that a program would change.
    fn raw(view: &NativeView) -> PathBuf {
        match view.kind() {
            ViewKind::Workspace => panic!("nothing can be changed"),
            ViewKind::Mount { upper, .. } => upper.clone(),
            ViewKind::Copy(copy) => copy.clone(),
        }
    }

    /// The number of run directories.
    fn runs(&self) -> usize {
        let count = |path: PathBuf| fs::read_dir(path).map_or(0, Iterator::count);
        count(self.root.join(OWN).join(RUNS)) + count(self.scratch.clone())
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    Mount,
    Copy,
}

const WAYS: [Way; 2] = [Way::Mount, Way::Copy];

fn keep(view: NativeView, tree: &Overlay) -> io::Result<()> {
    view.keep(tree, &Quota::unlimited(), &|_| Ok(()), None)
}

/// Changes of all kinds to the files that `populate` creates.
fn work(files: &dyn Files) {
    files.put("a.txt", "new a\n");
    files.put("src/new.txt", "new\n");
    files.allow_to_run("src/c.txt");
    files.remove("b.txt");
    // A directory becomes a file, a file a directory, a link and a directory are replaced.
    files.remove("src/old");
    files.put("src/old", "now a file\n");
    files.remove("e.txt");
    files.make("e.txt");
    files.put("e.txt/inside", "new\n");
    files.remove("link");
    files.link("src/c.txt", "link");
    files.remove("bin");
    files.make("bin");
    files.put("bin/other", "new\n");
    files.make("deep");
    files.make("deep/deeper");
    files.link("../../a.txt", "deep/deeper/up");
}

fn expected(acts: &[fn(&dyn Files)]) -> Tree {
    let scene = Scene::new();
    acts.iter().for_each(|act| act(&scene.root));
    tree(&scene.root)
}
