//! The write limits of a program: the directories that the sandbox watches, and the failures of
//! calls that exceed the limits.

use std::path::Path;

use cofferdam_sandbox::{Bounded, Limit};

use crate::call::Stop;
use cofferdam_core::outcome::{FailedCode, HostCode, LimitCode};
use cofferdam_core::policy::Limits;
use cofferdam_workspace::{CACHE_ENTRIES, Cache, NativeView};

/// The directories that a run may write to, in the order in which the sandbox watches them.
pub(super) struct WriteLimits<'a> {
    pub(super) bounded: Vec<Bounded>,
    places: Vec<Place>,
    limits: &'a Limits,
    plugin: &'a str,
}

#[derive(Clone, Copy)]
enum Place {
    Changes,
    Cache,
    Temporary,
}

impl<'a> WriteLimits<'a> {
    pub(super) fn new(
        view: &NativeView,
        cache: Option<&Cache<'_>>,
        limits: &'a Limits,
        plugin: &'a str,
    ) -> Self {
        let mut write_limits = Self { bounded: Vec::new(), places: Vec::new(), limits, plugin };
        if let Some((directory, bytes, entries)) = view.written() {
            let most = bytes.saturating_add(limits.write as u64);
            // An overlayfs creates parent directories as well. Kept files are counted again.
            let names = entries.saturating_add(limits.files as u64).saturating_mul(2);
            write_limits.add(Place::Changes, directory, (most, names), (bytes, entries));
        }
        if let Some(cache) = cache {
            let held = (cache.usage().bytes, cache.usage().entries);
            write_limits.add(
                Place::Cache,
                cache.path(),
                (limits.cache as u64, CACHE_ENTRIES),
                held,
            );
        }
        write_limits
    }

    fn add(&mut self, place: Place, directory: &Path, most: (u64, u64), held: (u64, u64)) {
        let (bytes, entries) = most;
        self.bounded.push(Bounded { directory: directory.to_owned(), bytes, entries, held });
        self.places.push(place);
    }

    fn place(&self, number: Option<usize>) -> Place {
        number.and_then(|number| self.places.get(number)).copied().unwrap_or(Place::Temporary)
    }

    /// Whether the cache exceeded the limit.
    pub(super) fn is_cache(&self, limit: Limit) -> bool {
        matches!(limit, Limit::Directory { number, .. }
            if matches!(self.place(number), Place::Cache))
    }

    /// The failure of the call, if one of these limits ended its program.
    pub(super) fn stop(&self, program: &str, limit: Limit) -> Option<Stop> {
        let (code, message) = match limit {
            Limit::Directory { number, bytes, entries } => {
                self.too_much(program, self.place(number), (bytes, entries))
            }
            Limit::Disk { number, free, files } => {
                let of = match self.place(number) {
                    Place::Changes => "the tree that it worked on",
                    Place::Cache => "its cache",
                    Place::Temporary => "its temporary files",
                };
                let message = format!(
                    "'{program}' was stopped since the disk of {of} is full or nearly so: {} MB and \
                     {files} files are left, and a run leaves 256 MB, or half of what there was; \
                     free some room and call again",
                    free / 1_000_000
                );
                (HostCode::from(FailedCode::DiskFull), message)
            }
            _ => return None,
        };
        Some(Stop::Ended(code, format!("{message}; nothing is kept of what it changed")))
    }

    fn too_much(
        &self,
        program: &str,
        place: Place,
        (bytes, entries): (u64, u64),
    ) -> (HostCode, String) {
        let Limits { write, files, cache, .. } = *self.limits;
        let found = format!("'{program}' was stopped when {} MiB in {entries} files", bytes >> 20);
        match place {
            Place::Changes => {
                let most = self.bounded.first().map_or(0, |changes| changes.bytes);
                let code = if bytes > most { LimitCode::WriteLimit } else { LimitCode::FileLimit };
                let message = format!(
                    "{found}, directories and links were in what it changed of the workspace, of \
                     which a call may write {} MiB and {files} files (limits.write-mb, \
                     limits.files)",
                    write >> 20
                );
                (code.into(), message)
            }
            Place::Cache => {
                let message = format!(
                    "{found}, directories and links were in the cache of the plugin '{}', which \
                     may hold {} MiB and {CACHE_ENTRIES} files (limits.cache-mb); the next call \
                     removes what was not used for the longest time",
                    self.plugin,
                    cache >> 20
                );
                (LimitCode::CacheLimit.into(), message)
            }
            Place::Temporary => {
                let most = cofferdam_sandbox::Limits::DEFAULT.temporary >> 20;
                let message = format!(
                    "{found}, directories and links were in its temporary directory, which may \
                     hold {most} MiB"
                );
                (LimitCode::TemporaryLimit.into(), message)
            }
        }
    }
}
