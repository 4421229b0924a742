//! Finds the renames among changes, as git does: first files with the same content, then similar ones.

use std::collections::{BTreeMap, HashMap};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::io;
use std::time::Instant;

use sha2::{Digest as _, Sha256};

use crate::commit::{Image, Kind, Net};
use crate::diff::{TEXT_LIMIT_BYTES, lines};
use crate::disk;

/// The smallest similarity of a rename, in percent, as for git.
const MIN_SIMILARITY: u64 = 50;

/// With more removed or more created files, only those with the same content are compared.
const MAX_COMPARED: usize = 200;

/// The old path and file of a renamed one.
#[derive(Debug)]
pub(crate) struct Rename<'a> {
    pub(crate) path: &'a str,
    pub(crate) image: &'a Image,
    /// In percent.
    pub(crate) similarity: u64,
}

/// A removed file or link, which may have been renamed.
struct Removed<'a> {
    path: &'a str,
    image: &'a Image,
    /// The digest of its content, once it was read.
    digest: Option<[u8; 32]>,
}

/// Finds the renames by the new path. `read_old` and `read_new` read a file, or the target of a link.
/// Until `deadline`, similar files are compared as well.
pub(crate) fn find<'a>(
    net: &Net<'a>,
    read_old: &impl Fn(&str, &Image) -> io::Result<Vec<u8>>,
    read_new: &impl Fn(&Image) -> io::Result<Vec<u8>>,
    deadline: Instant,
) -> io::Result<BTreeMap<&'a str, Rename<'a>>> {
    let is_shown = |image: &Image| matches!(image.kind, Kind::File | Kind::Link);
    let mut removed = Vec::new();
    let mut created = Vec::new();
    for (path, change) in net {
        match *change {
            (Some(image), None) if is_shown(image) => {
                removed.push(Removed { path, image, digest: None });
            }
            (None, Some(image)) if is_shown(image) => created.push((*path, image)),
            _ => {}
        }
    }
    let mut renames = exact(&mut removed, &created, read_old, read_new)?;
    let is_text = |image: &Image| {
        image.kind == Kind::File && (1..=TEXT_LIMIT_BYTES as u64).contains(&image.size)
    };
    removed.retain(|old| is_text(old.image));
    created.retain(|(path, image)| is_text(image) && !renames.contains_key(path));
    if removed.len() <= MAX_COMPARED && created.len() <= MAX_COMPARED {
        let read_old = |old: &Removed<'_>| read_old(old.path, old.image);
        renames.extend(similar(&removed, &created, read_old, read_new, deadline)?);
    }
    Ok(renames)
}

/// Finds files and links with the same content, and takes them from `removed`. Only files of the same
/// size are read. If several fit, one of the same name is preferred; an empty file has to have the
/// same name.
fn exact<'a>(
    removed: &mut Vec<Removed<'a>>,
    created: &[(&'a str, &'a Image)],
    read_old: &impl Fn(&str, &Image) -> io::Result<Vec<u8>>,
    read_new: &impl Fn(&Image) -> io::Result<Vec<u8>>,
) -> io::Result<BTreeMap<&'a str, Rename<'a>>> {
    let key = |image: &Image| (image.kind == Kind::Link, image.size);
    let hash = |content: Vec<u8>| <[u8; 32]>::from(Sha256::digest(content));
    let mut by_size: BTreeMap<_, Vec<Removed<'a>>> = BTreeMap::new();
    for old in removed.drain(..) {
        by_size.entry(key(old.image)).or_default().push(old);
    }
    let mut renames = BTreeMap::new();
    for (path, after) in created {
        let Some(candidates) = by_size.get_mut(&key(after)).filter(|found| !found.is_empty())
        else {
            continue;
        };
        let wanted = hash(read_new(after)?);
        for old in &mut *candidates {
            if old.digest.is_none() {
                old.digest = Some(hash(read_old(old.path, old.image)?));
            }
        }
        let fits = |old: &Removed<'_>| old.digest == Some(wanted);
        let same_name =
            candidates.iter().position(|old| fits(old) && has_same_name(old.path, path));
        let other = || candidates.iter().position(fits);
        let index = same_name.or_else(|| if after.size > 0 { other() } else { None });
        if let Some(index) = index {
            let Removed { path: from, image, .. } = candidates.swap_remove(index);
            renames.insert(*path, Rename { path: from, image, similarity: 100 });
        }
    }
    removed.extend(by_size.into_values().flatten());
    Ok(renames)
}

/// Finds similar files: the most similar pairs first, and of several the one with the same name.
fn similar<'a>(
    removed: &[Removed<'a>],
    created: &[(&'a str, &'a Image)],
    read_old: impl Fn(&Removed<'_>) -> io::Result<Vec<u8>>,
    read_new: &impl Fn(&Image) -> io::Result<Vec<u8>>,
    deadline: Instant,
) -> io::Result<BTreeMap<&'a str, Rename<'a>>> {
    let mut renames = BTreeMap::new();
    // Files whose sizes differ too much can't be similar, and are not read.
    let may_fit = |old: u64, new: u64| old.min(new) * 100 >= old.max(new) * MIN_SIMILARITY;
    let mut known: Vec<Option<Lines>> = removed.iter().map(|_| None).collect();
    let mut pairs = Vec::new();
    for (to, (path, after)) in created.iter().enumerate() {
        let mut wanted = None;
        for (from, old) in removed.iter().enumerate() {
            if !may_fit(old.image.size, after.size) {
                continue;
            }
            if Instant::now() >= deadline {
                return Ok(renames);
            }
            if known[from].is_none() {
                known[from] = Some(Lines::of(&read_old(old)?));
            }
            if wanted.is_none() {
                wanted = Some(Lines::of(&read_new(after)?));
            }
            let (Some(old_lines), Some(new_lines)) = (&known[from], &wanted) else { continue };
            let similarity = old_lines.similarity(new_lines);
            if similarity >= MIN_SIMILARITY {
                pairs.push((similarity, has_same_name(old.path, path), from, to));
            }
        }
    }
    pairs.sort_by_key(|(similarity, same_name, from, to)| {
        (std::cmp::Reverse((*similarity, *same_name)), *from, *to)
    });
    let mut taken = vec![false; removed.len()];
    for (similarity, _, from, to) in pairs {
        let (Removed { path, image, .. }, new) = (&removed[from], created[to].0);
        if !taken[from] && !renames.contains_key(new) {
            taken[from] = true;
            renames.insert(new, Rename { path, image, similarity });
        }
    }
    Ok(renames)
}

fn has_same_name(one: &str, other: &str) -> bool {
    disk::split(one).1 == disk::split(other).1
}

/// The lines of a file, as hashes with the number of bytes that they have in total.
struct Lines {
    bytes: HashMap<u64, u64>,
    total: u64,
}

impl Lines {
    fn of(content: &[u8]) -> Self {
        let mut bytes = HashMap::new();
        for line in lines(content) {
            let mut hasher = DefaultHasher::new();
            line.hash(&mut hasher);
            *bytes.entry(hasher.finish()).or_default() += line.len() as u64;
        }
        Self { bytes, total: content.len() as u64 }
    }

    /// The share of the larger file that is in both, in percent. Files that are not the same are not
    /// wholly similar.
    fn similarity(&self, other: &Self) -> u64 {
        let common =
            |(line, bytes): (&u64, &u64)| other.bytes.get(line).map_or(0, |own| *own.min(bytes));
        let common: u64 = self.bytes.iter().map(common).sum();
        (common * 100 / self.total.max(other.total).max(1)).min(99)
    }
}
