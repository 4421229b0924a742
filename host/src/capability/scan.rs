//! `cofferdam:host/scan`: trees in bulk. The host lists and reads with all cores while the
//! plugin looks at what it got before, and hands everything over in path order, so that the
//! same tree gives the same answer.

mod listing;
mod reader;

use std::sync::Arc;

use wasmtime::Result;
use wasmtime::component::Resource;

use crate::runtime::CallState;
use crate::runtime::wit::host::scan::{Batch, Error, File, Host, HostScanner, Query};

use listing::Found;
use reader::Reader;

/// How many files one question about sizes and times may cover.
const MAX_LISTED: u32 = 16_384;

/// A listed tree, and the threads that read it once somebody asks for contents.
pub struct Scanner {
    files: Arc<Vec<Found>>,
    reader: Option<Reader>,
}

impl Host for CallState {}

impl HostScanner for CallState {
    fn open(&mut self, query: Query) -> Result<std::result::Result<Resource<Scanner>, Error>> {
        match listing::list(&self.files, &self.control, &query) {
            Ok(files) => {
                let scanner = Scanner { files: Arc::new(files), reader: None };
                Ok(Ok(self.table.push(scanner)?))
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
        let to = from.saturating_add(max.min(MAX_LISTED) as usize).min(files.len());
        Ok(files[from..to].iter().map(|found| found.describe(self.files.workspace())).collect())
    }

    fn path(&mut self, scanner: Resource<Scanner>, id: u32) -> Result<String> {
        let files = &self.table.get(&scanner)?.files;
        let found = files
            .get(id as usize)
            .ok_or_else(|| wasmtime::Error::msg("no file of the scanner has this number"))?;
        Ok(found.name().into_owned())
    }

    fn next(&mut self, scanner: Resource<Scanner>, max_bytes: u32) -> Result<Batch> {
        let workspace = self.files.workspace();
        let scanner = self.table.get_mut(&scanner)?;
        let reader = scanner.reader.get_or_insert_with(|| {
            Reader::start(Arc::clone(workspace), Arc::clone(&scanner.files), max_bytes as usize)
        });
        Ok(reader.next(&self.control))
    }

    fn unreadable(&mut self, scanner: Resource<Scanner>) -> Result<u32> {
        Ok(self.table.get(&scanner)?.reader.as_ref().map_or(0, Reader::unreadable))
    }

    fn drop(&mut self, scanner: Resource<Scanner>) -> Result<()> {
        self.table.delete(scanner)?;
        Ok(())
    }
}
