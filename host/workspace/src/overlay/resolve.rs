//! Resolving paths, with symbolic links inside the tree.

use std::io;

use cofferdam_core::policy::{Place, may_lead_to_executed};
use rustix::fs::FileType;
use rustix::io::Errno;

use super::tree::Overlay;
use crate::error::Refused;
use crate::path;

/// The largest number of symbolic links in the resolution of a path, as in Linux.
const MAX_LINKS: usize = 40;

/// The largest number of followed links that are remembered.
const MAX_FOLLOWED: usize = 1000;

impl Overlay {
    /// Returns the place of `path`, relative to the directory `base`. The last name need not exist; if
    /// it is a link, `follow` says whether to follow it.
    ///
    /// # Errors
    /// Missing parents, links that leave the tree, malformed paths.
    pub fn resolve(&self, base: &str, path: &str, follow: bool) -> io::Result<Place> {
        self.resolve_noting(base, path, follow, |link| self.note_followed(link))
    }

    fn note_followed(&self, link: &str) {
        if !self.is_writable() || !may_lead_to_executed(link) {
            return;
        }
        let mut state = self.state();
        if state.followed.len() < MAX_FOLLOWED {
            state.followed.insert(link.to_owned());
        }
    }

    /// As [`resolve`](Self::resolve); calls `note` with the place of each link on the way, even if
    /// resolving fails later.
    pub(super) fn resolve_noting(
        &self,
        base: &str,
        path: &str,
        follow: bool,
        mut note: impl FnMut(&str),
    ) -> io::Result<Place> {
        path::check(path)?;
        let mut place = Place::new(base).map_err(|_| Errno::INVAL)?;
        let mut rest: Vec<String> = path.rsplit('/').map(str::to_owned).collect();
        let mut links = 0;
        while let Some(name) = rest.pop() {
            let is_last = rest.iter().all(|name| name.is_empty());
            match name.as_str() {
                "" | "." => {}
                ".." => {
                    if !place.pop() {
                        return Err(Refused::denied(format!("{path} leaves the workspace")));
                    }
                }
                name => {
                    place.push(name);
                    // A trailing slash refers to the directory behind a link.
                    let looks = !is_last || follow || !rest.is_empty();
                    match if looks { self.kind(&place)? } else { None } {
                        Some(FileType::Symlink) => {
                            note(&place);
                            links += 1;
                            if links > MAX_LINKS {
                                return Err(Errno::LOOP.into());
                            }
                            let target = self.read_link(&place)?;
                            if target.starts_with('/') {
                                return Err(Refused::denied(format!(
                                    "{place} is a link that leaves the workspace"
                                )));
                            }
                            place.pop();
                            rest.extend(target.rsplit('/').map(str::to_owned));
                        }
                        None if !is_last => return Err(Errno::NOENT.into()),
                        Some(FileType::Directory) | None => {}
                        Some(_) if !rest.is_empty() => return Err(Errno::NOTDIR.into()),
                        Some(_) => {}
                    }
                }
            }
        }
        Ok(place)
    }
}
