//! Notices which secrets of the settings a call can know: by the places of the files that it opens,
//! and by the files themselves if they have several names.

use std::collections::HashMap;
use std::path::Path;

use rustix::fs::{FileType, Stat};

use super::wasi::object;
use super::{FileState, PathAt};
use cofferdam_core::policy::{folded, is_own};
use cofferdam_workspace::Overlay;
use cofferdam_workspace::path::{by_names, join};

/// How many entries of directories are looked at for other names of secret files.
const MAX_ENTRIES: usize = 200_000;

/// The places of secret files with several names, by device and inode. `None`: there are too many
/// files to look for them.
pub(super) type Links = Option<HashMap<(u64, u64), Vec<String>>>;

impl FileState {
    /// Notes that the plugin has the file at `place` of one of its trees, which it has named `at`.
    pub(super) fn note_opened(&self, tree: &Overlay, at: PathAt<'_>, place: &str, stat: &Stat) {
        if !self.secrets.has_files() || !std::ptr::eq(tree, &*self.tree) {
            return;
        }
        // A link may be named like a secret.
        if let Ok(Some(named)) = by_names(at.base, at.path) {
            self.secrets.read(&named);
        }
        self.note_file(place, stat);
    }

    /// Notes that the plugin has moved what is at `place`, and may read it elsewhere.
    pub(super) fn note_moved(&self, tree: &Overlay, place: &str, kind: Option<FileType>) {
        if !self.secrets.has_files() || !std::ptr::eq(tree, &*self.tree) {
            return;
        }
        match kind {
            Some(FileType::Directory) => self.secrets.read_below(place),
            _ => self.secrets.read(place),
        }
    }

    /// Notes that the plugin has the contents of a file of a listing. If the listing follows links, the
    /// path may contain some.
    pub(in crate::capability) fn note_scanned(&self, path: &Path) {
        let name = path.to_string_lossy();
        self.secrets.read(&name);
        if let Ok(place) = self.tree.resolve("", &name, true)
            && let Ok(stat) = self.tree.stat(&place)
        {
            self.note_file(&place, &stat);
        }
    }

    fn note_file(&self, place: &str, stat: &Stat) {
        self.secrets.read(place);
        if is_object(place) {
            self.secrets.read_all(&format!("{place}, which holds committed files"));
        }
        if FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile && stat.st_nlink > 1 {
            match self.links.get_or_init(|| self.secret_links()) {
                Some(links) => {
                    let names = links.get(&object(stat));
                    names.into_iter().flatten().for_each(|place| self.secrets.read(place));
                }
                None => self.secrets.read_all(&format!("{place}, which has several names")),
            }
        }
    }

    /// Finds the secret files that have several names.
    fn secret_links(&self) -> Links {
        let mut links: HashMap<_, Vec<String>> = HashMap::new();
        let (mut directories, mut count) = (vec![String::new()], 0);
        while let Some(directory) = directories.pop() {
            for entry in self.tree.list(&directory).unwrap_or_default() {
                count += 1;
                if count > MAX_ENTRIES {
                    return None;
                }
                let place = join(&directory, &entry.name.to_string_lossy());
                if entry.kind == FileType::Directory && !is_own(&place) {
                    directories.push(place);
                } else if entry.kind == FileType::RegularFile
                    && self.secrets.is_secret(&place)
                    && let Ok(stat) = self.tree.stat(&place)
                    && stat.st_nlink > 1
                {
                    links.entry(object(&stat)).or_default().push(place);
                }
            }
        }
        Some(links)
    }
}

/// Whether a file belongs to the objects of a git repository, which may hold any file.
fn is_object(place: &str) -> bool {
    let mut names = place.split('/').map(folded);
    names.any(|name| name == ".git") && names.any(|name| name == "objects")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objects_of_repositories_are_recognised() {
        for (place, wanted) in [
            (".git/objects/ab/cdef", true),
            ("a/.GIT/modules/x/objects/pack/p.pack", true),
            (".git/config", false),
            ("objects/.git", false),
            ("src/objects/a", false),
        ] {
            assert_eq!(is_object(place), wanted, "{place}");
        }
    }
}
