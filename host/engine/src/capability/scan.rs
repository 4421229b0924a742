//! `cofferdam:host/scan`: reads trees in bulk. The host lists and reads files on all cores while
//! the plugin processes earlier ones. Files are returned in path order, so results are
//! deterministic.

mod listing;
mod merged;
pub(super) mod reader;
mod rules;
mod tree;

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use cap_std::fs::Dir;
use rustix::io::Errno;
use wasmtime::Result;
use wasmtime::component::Resource;

use super::bindings::cofferdam::host::scan::{Batch, Error, File, Host, HostScanner, Query};
use super::state::CallState;
use cofferdam_core::outcome::NO_DESCRIPTOR;

use reader::{Reader, Scanner};
use tree::{Found, Tree};

/// How many files one query of sizes and times may cover.
const MAX_LISTED_FILES: u32 = 16_384;

/// How many scanners a call may have open; each has threads of its own.
const MAX_SCANNERS: usize = 4;

impl Host for CallState {}

impl HostScanner for CallState {
    fn open(&mut self, query: Query) -> Result<std::result::Result<Resource<Scanner>, Error>> {
        if self.scanners >= MAX_SCANNERS {
            let message = format!("more than {MAX_SCANNERS} scanners at a time");
            return Ok(Err(Error::Invalid(message)));
        }
        match listing::list(&self.files, self.control(), &query) {
            Ok(files) => {
                let given = vec![false; files.len()];
                let scanner = Scanner { files: Arc::new(files), reader: None, given };
                let scanner = self.table.push(scanner)?;
                self.scanners += 1;
                Ok(Ok(scanner))
            }
            // The host ran out of descriptors: the call ends.
            Err(Error::Invalid(why)) if why == NO_DESCRIPTOR => {
                Err(io::Error::from(Errno::MFILE).into())
            }
            Err(error) => Ok(Err(error)),
        }
    }

    fn count(&mut self, scanner: Resource<Scanner>) -> Result<u32> {
        Ok(self.table.get(&scanner)?.files.len() as u32)
    }

    fn files(&mut self, scanner: Resource<Scanner>, first: u32, max: u32) -> Result<Vec<File>> {
        let files = Arc::clone(&self.table.get(&scanner)?.files);
        let from = (first as usize).min(files.len());
        let to = from.saturating_add(max.min(MAX_LISTED_FILES) as usize).min(files.len());
        let tree = Tree::of(&self.files);
        let mut last = None;
        let described =
            files[from..to].iter().filter_map(|found| describe(found, &tree, &mut last));
        Ok(described.collect())
    }

    fn path(&mut self, scanner: Resource<Scanner>, id: u32) -> Result<String> {
        let scanner = self.table.get(&scanner)?;
        let found = scanner.files.get(id as usize).filter(|found| {
            scanner.given[id as usize]
                || describe(found, &Tree::of(&self.files), &mut None).is_some()
        });
        found
            .map(|found| found.name().into_owned())
            .ok_or_else(|| wasmtime::Error::msg("no file of the scanner has this number"))
    }

    fn next(&mut self, scanner: Resource<Scanner>, max_bytes: u32) -> Result<Batch> {
        let scanner = self.table.get_mut(&scanner)?;
        let reader = scanner.reader.get_or_insert_with(|| {
            let tree = Tree::of(&self.files);
            Reader::start(tree, Arc::clone(&scanner.files), max_bytes as usize)
        });
        let reader::Batch { ids, ends, data } = reader.next(&self.context.control);
        ids.iter().for_each(|id| scanner.given[*id as usize] = true);
        if self.context.secrets.has_files() {
            let files = Arc::clone(&scanner.files);
            ids.iter().for_each(|id| self.files.note_scanned(&files[*id as usize].path));
        }
        Ok(Batch { ids, ends, data })
    }

    fn unreadable(&mut self, scanner: Resource<Scanner>) -> Result<u32> {
        Ok(self.table.get(&scanner)?.reader.as_ref().map_or(0, Reader::unreadable))
    }

    fn drop(&mut self, scanner: Resource<Scanner>) -> Result<()> {
        self.table.delete(scanner)?;
        self.scanners -= 1;
        Ok(())
    }
}

/// The current size and time of a file; `None` if it does not exist. While a tree changes, a
/// listing may contain names of files outside of it.
fn describe(found: &Found, tree: &Tree, last: &mut Option<(PathBuf, Dir)>) -> Option<File> {
    let (size, modified_ms) = tree.describe(&found.path, last).ok()?;
    Some(File { path: found.name().into_owned(), size, modified_ms })
}
