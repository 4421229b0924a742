//! The old and new content of changed files, and their diff.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, Read, Seek as _};
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use cofferdam_core::policy::OWN;
use rustix::fs::{OFlags, Stat};
use sha2::{Digest as _, Sha256};

use crate::commit::{Change, Image, Kind, Placed, net};
use crate::diff::{self, Side};
use crate::disk::{self, Spot};
use crate::layout::IMAGES;
use crate::renames;

/// For how long the shortest diff is searched.
const DIFF_TIME: Duration = Duration::from_secs(5);

/// The content of one side of a change.
pub(crate) enum Content {
    Nothing,
    File { executable: bool, bytes: Vec<u8> },
    Link(Vec<u8>),
}

impl Content {
    /// Reads the file `name` in a directory, which `image` describes.
    pub(crate) fn read(directory: &OwnedFd, name: &str, image: &Image) -> io::Result<Self> {
        Ok(match image.kind {
            Kind::Directory | Kind::Other => Self::Nothing,
            Kind::Link => Self::Link(Spot::of(directory, name)?.read_link()?),
            Kind::File => {
                let file: File = disk::open(directory, name, OFlags::RDONLY)?.into();
                Self::file(image, file)?
            }
        })
    }

    /// Reads the old file of a commit in the history.
    pub(crate) fn kept(images: &OwnedFd, image: &Image) -> io::Result<Self> {
        if matches!(image.kind, Kind::File | Kind::Link) {
            check_kept(images, &image.name, |stat| image.is(stat))?;
        }
        Self::read(images, &image.name, image)
    }

    /// Reads the new file `after` of a commit in the history; `before` is the old one.
    pub(crate) fn placed(
        images: &OwnedFd,
        before: Option<&Image>,
        after: &Image,
    ) -> io::Result<Self> {
        match after.kind {
            Kind::Directory | Kind::Other => Ok(Self::Nothing),
            Kind::Link => {
                let mut target = Vec::new();
                open_placed(images, before, after)?.take(after.size).read_to_end(&mut target)?;
                Ok(Self::Link(target))
            }
            Kind::File => Self::file(after, open_placed(images, before, after)?),
        }
    }

    fn file(image: &Image, content: impl Read) -> io::Result<Self> {
        let mut bytes = Vec::new();
        content.take(image.size).read_to_end(&mut bytes)?;
        Ok(Self::File { executable: image.mode & 0o100 != 0, bytes })
    }

    /// The bytes of a file, or the target of a link.
    fn bytes(&self) -> &[u8] {
        match self {
            Self::Nothing => &[],
            Self::File { bytes, .. } => bytes,
            Self::Link(target) => target,
        }
    }

    fn into_bytes(self) -> Vec<u8> {
        match self {
            Self::Nothing => Vec::new(),
            Self::File { bytes, .. } | Self::Link(bytes) => bytes,
        }
    }

    fn side(&self) -> Side<'_> {
        match self {
            Self::Nothing => Side::Nothing,
            Self::File { executable, bytes } => {
                Side::File { executable: *executable, content: bytes }
            }
            Self::Link(target) => Side::Link { target },
        }
    }
}

/// Checks that an image is the file that the host kept: a `git pull` or an archive may have replaced
/// it.
pub(crate) fn check_kept(
    images: &OwnedFd,
    name: &str,
    is_kept: impl FnOnce(&Stat) -> bool,
) -> io::Result<()> {
    match disk::look(images, name)? {
        Some(stat) if is_kept(&stat) => Ok(()),
        found => {
            let what = if found.is_some() { "is not what this host kept" } else { "is gone" };
            Err(io::Error::other(format!(
                "{OWN}/{IMAGES}/{name} {what}, so its commit can't be shown or undone"
            )))
        }
    }
}

/// Checks that both files of a change are kept; the new one comes with the file before its own commit.
pub(crate) fn check(
    images: &OwnedFd,
    old: Option<&Image>,
    new: Option<(Option<&Image>, &Image)>,
) -> io::Result<()> {
    let has_content = |image: &Image| matches!(image.kind, Kind::File | Kind::Link);
    if let Some(old) = old.filter(|image| has_content(image)) {
        check_kept(images, &old.name, |stat| old.is(stat))?;
    }
    match new.filter(|(_, image)| has_content(image)) {
        Some((before, after)) => open_placed(images, before, after).map(drop),
        None => Ok(()),
    }
}

/// Opens the content of the new file `after` of a commit in the history, or the target of a link.
/// `before` is the old file.
pub(crate) fn open_placed<'a>(
    images: &OwnedFd,
    before: Option<&Image>,
    after: &'a Image,
) -> io::Result<Box<dyn Read + 'a>> {
    let open = |name: &str| disk::open(images, name, OFlags::RDONLY).map(File::from);
    Ok(match &after.placed {
        Some(Placed::Text(text)) => Box::new(text.as_bytes()),
        Some(Placed::Edit { at, until, text }) => {
            let before = before.ok_or(io::ErrorKind::InvalidData)?;
            check_kept(images, &before.name, |stat| before.is(stat))?;
            let mut rest = open(&before.name)?;
            rest.seek(io::SeekFrom::Start(*until))?;
            Box::new(open(&before.name)?.take(*at).chain(text.as_bytes()).chain(rest))
        }
        None => {
            let name = after.copy_name();
            check_kept(images, &name, |stat| after.is_copy(stat))?;
            Box::new(open(&name)?)
        }
    })
}

/// The changes of a transaction, to be shown and compared.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Preview {
    /// The unified diff, without the content of binary files.
    pub diff: Vec<u8>,
    /// SHA-256 over each path with the type, permissions and whole content of the old and the new
    /// file.
    pub digest: [u8; 32],
}

/// Returns the unified diff of changes, with renames as such, and a digest of them. `read_old` and
/// `read_new` read the sides of a path; `read_new` gets the old image, too.
pub(crate) fn preview(
    changes: &[Change],
    read_old: impl Fn(&str, &Image) -> io::Result<Content>,
    read_new: impl Fn(Option<&Image>, &Image) -> io::Result<Content>,
) -> io::Result<Preview> {
    let deadline = Instant::now() + DIFF_TIME;
    let (mut diff, mut digest) = (Vec::new(), Sha256::new());
    let net = net(changes);
    let old = |path: &str, image: &Image| read_old(path, image).map(Content::into_bytes);
    let new = |image: &Image| read_new(None, image).map(Content::into_bytes);
    let renames = renames::find(&net, &old, &new, deadline)?;
    let sources: BTreeSet<&str> = renames.values().map(|rename| rename.path).collect();
    for (path, (old, new)) in net {
        let before = old.map_or(Ok(Content::Nothing), |image| read_old(path, image))?;
        let after = new.map_or(Ok(Content::Nothing), |image| read_new(old, image))?;
        digest.update(format!("{}\0{path}", path.len()));
        for (content, image) in [(&before, old), (&after, new)] {
            let mode = image.map(|image| (image.kind, image.mode));
            let bytes = content.bytes();
            digest.update(format!("{mode:?} {}\0", bytes.len()));
            digest.update(bytes);
        }
        match renames.get(path) {
            _ if sources.contains(path) => {}
            Some(rename) => {
                let before = read_old(rename.path, rename.image)?;
                let from = (rename.path, before.side());
                let to = (path, after.side());
                diff::render_rename(from, to, rename.similarity, deadline, &mut diff);
            }
            None => diff::render(path, before.side(), after.side(), deadline, &mut diff),
        }
    }
    Ok(Preview { diff, digest: digest.finalize().into() })
}
