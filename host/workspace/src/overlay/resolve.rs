//! Which place a path stands for, with links followed inside the tree.

use std::io;

use rustix::fs::FileType;
use rustix::io::Errno;

use super::super::{Refused, path};
use super::Overlay;

/// How many symbolic links a path may lead through, as in Linux.
const MAX_LINKS: usize = 40;

impl Overlay {
    /// Which place `path`, relative to the directory `base`, stands for. The last name need not
    /// exist; where it is a link, `follow` says whether its target counts.
    ///
    /// # Errors
    /// Missing parents, links that leave the tree, malformed paths.
    pub fn resolve(&self, base: &str, path: &str, follow: bool) -> io::Result<String> {
        self.resolve_noting(base, path, follow, |_| {})
    }

    /// As [`resolve`](Self::resolve); `note` is called with the place of each link on the way, also
    /// where resolving fails later.
    pub(super) fn resolve_noting(
        &self,
        base: &str,
        path: &str,
        follow: bool,
        mut note: impl FnMut(&str),
    ) -> io::Result<String> {
        path::check(path)?;
        let mut place: Vec<String> =
            base.split('/').filter(|name| !name.is_empty()).map(str::to_owned).collect();
        let mut rest: Vec<String> = path.rsplit('/').map(str::to_owned).collect();
        let mut links = 0;
        while let Some(name) = rest.pop() {
            let is_last = rest.iter().all(|name| name.is_empty());
            match name.as_str() {
                "" | "." => {}
                ".." => {
                    if place.pop().is_none() {
                        return Err(Refused::denied(format!("{path} leaves the workspace")));
                    }
                }
                name => {
                    place.push(name.to_owned());
                    let here = place.join("/");
                    // A slash at the end means the directory that a link points to.
                    let looks = !is_last || follow || !rest.is_empty();
                    match if looks { self.kind(&here)? } else { None } {
                        Some(FileType::Symlink) => {
                            note(&here);
                            links += 1;
                            if links > MAX_LINKS {
                                return Err(Errno::LOOP.into());
                            }
                            let target = self.read_link(&here)?;
                            if target.starts_with('/') {
                                return Err(Refused::denied(format!(
                                    "{here} is a link that leaves the workspace"
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
        Ok(place.join("/"))
    }
}
