//! What sessions are to be told with their next results: a file for each notice, which is removed when
//! it was read.

use std::io::{self, Read as _, Write as _};
use std::sync::PoisonError;

use rustix::fs::{AtFlags, OFlags};

use crate::disk;
use crate::layout::NOTICES;
use crate::own::{self, Own};
use crate::session_name::SessionName;
use crate::workspace::Workspace;

/// The domain of the tags.
const DOMAIN: &str = "notice";

/// The longest notice, in bytes.
pub(crate) const MAX_NOTICE_BYTES: usize = 16 << 10;

/// The largest number of notices that wait; beyond it, the oldest is removed.
const MAX_NOTICES: usize = 256;

impl Workspace {
    /// Leaves a notice for a session. A long one is shortened.
    ///
    /// # Errors
    /// I/O errors.
    pub(crate) fn notify(&self, session: &SessionName, text: &str) -> io::Result<()> {
        let own = self.own()?;
        let directory = own::directory(&*own, NOTICES)?;
        let mut names = names(&directory)?;
        names.sort_by(|left, right| order(left).cmp(order(right)));
        let too_many = (names.len() + 1).saturating_sub(MAX_NOTICES);
        for name in &names[..too_many.min(names.len())] {
            disk::remove(&directory, name, AtFlags::empty())?;
        }
        let id = uuid::Uuid::now_v7();
        let (name, new) = (format!("{session}.{id}"), format!("new.{id}"));
        let text = &text[..text.floor_char_boundary(MAX_NOTICE_BYTES)];
        let mut sealed = text.as_bytes().to_vec();
        own.key().append(DOMAIN, &name, &mut sealed);
        let mut file = disk::create(&directory, &new)?;
        file.write_all(&sealed)?;
        disk::sync(&file)?;
        disk::rename(&directory, &new, &directory, &name)?;
        disk::sync(&directory)
    }

    /// Whether there may be notices: if not, no call has to look for those of its session.
    pub fn may_have_notices(&self) -> bool {
        // The directory as it was last found: the call has looked for it before, and reading a notice
        // looks for it again.
        let known = self.own.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let own = known.or_else(|| self.existing_own().ok().flatten());
        own.is_some_and(|own| matches!(disk::look(&*own, NOTICES), Ok(Some(_))))
    }

    /// Returns the notices for a session, the oldest first, and removes them. Each is returned once,
    /// even if several processes ask at the same time.
    ///
    /// # Errors
    /// I/O errors.
    pub fn take_notices(&self, session: &SessionName) -> io::Result<Vec<String>> {
        let Some(own) = self.existing_own()? else { return Ok(Vec::new()) };
        let Some(directory) = own::existing_directory(&*own, NOTICES)? else {
            return Ok(Vec::new());
        };
        let mut names = names(&directory)?;
        names.retain(|name| name.split_once('.').is_some_and(|(of, _)| of == &**session));
        names.sort();
        let mut notices = Vec::new();
        for name in names {
            let taken = format!("taken.{}", uuid::Uuid::now_v7());
            match disk::rename(&directory, &name, &directory, &taken) {
                // Another process has taken it.
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                renamed => renamed?,
            }
            let notice = read(&own, &directory, &name, &taken);
            disk::remove_all(&directory, &taken)?;
            match notice {
                Ok(Some(text)) => notices.push(text),
                Ok(None) => {
                    tracing::warn!("a notice for {session} is not authentic; it was removed")
                }
                Err(error) => tracing::warn!("a notice for {session} can't be read: {error}"),
            }
        }
        Ok(notices)
    }
}

fn names(directory: &std::os::fd::OwnedFd) -> io::Result<Vec<String>> {
    let names = disk::entries(directory)?
        .filter_map(|entry| entry.map(|entry| entry.name.into_string().ok()).transpose());
    names.collect()
}

/// What the names of notices are ordered by: their ids contain the time.
fn order(name: &str) -> &str {
    name.split_once('.').map_or(name, |(_, id)| id)
}

fn read(
    own: &Own,
    directory: &std::os::fd::OwnedFd,
    name: &str,
    file: &str,
) -> io::Result<Option<String>> {
    let file: std::fs::File = disk::open(directory, file, OFlags::RDONLY)?.into();
    if !file.metadata()?.is_file() {
        return Ok(None);
    }
    let mut sealed = Vec::new();
    file.take(2 * MAX_NOTICE_BYTES as u64).read_to_end(&mut sealed)?;
    let text = own.key().content(DOMAIN, name, &sealed).map(<[u8]>::to_vec);
    Ok(text.and_then(|text| String::from_utf8(text).ok()))
}
