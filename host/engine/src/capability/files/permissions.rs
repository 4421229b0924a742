//! `cofferdam:host/files`: what `wasi:filesystem` lacks, which is the executable bit, copies with
//! permissions, and the reason of a refusal.

use std::io;
use std::sync::Arc;

use wasmtime::Result;
use wasmtime::component::{HasSelf, Linker};

use super::{Access, PathAt};
use crate::capability::bindings::cofferdam::host::files::{self, Error, Host, Refusal};
use crate::capability::state::CallState;
use cofferdam_workspace::{Overlay, Refused};

pub(in crate::capability) fn add_to_linker(linker: &mut Linker<CallState>) -> Result<()> {
    files::add_to_linker::<_, HasSelf<CallState>>(linker, |state| state)
}

impl Host for CallState {
    fn is_executable(&mut self, path: String) -> Result<std::result::Result<bool, Error>> {
        let found = self.files.at(
            self.files.tree(),
            PathAt::new(&path, true),
            Access::Read,
            |tree, place| tree.is_executable(place),
        );
        let found = found.map(|(_, executable)| executable);
        Ok(self.files.noted(found).map_err(|error| failure(&path, &error)))
    }

    fn set_executable(
        &mut self,
        path: String,
        executable: bool,
    ) -> Result<std::result::Result<(), Error>> {
        let quota = Arc::clone(&self.files.quota);
        let set = self.files.at(
            self.files.tree(),
            PathAt::new(&path, true),
            Access::Change,
            |tree, place| tree.set_executable(place, executable, &quota),
        );
        let set = set.map(|_| ());
        Ok(self.files.noted(set).map_err(|error| failure(&path, &error)))
    }

    fn copy(&mut self, path: String, to: String) -> Result<std::result::Result<(), Error>> {
        let quota = Arc::clone(&self.files.quota);
        let tree = self.files.tree();
        let look = |tree: &Overlay, place: &str| tree.stat(place);
        let source = self.files.at(tree, PathAt::new(&path, false), Access::Read, look);
        let copied = source.and_then(|(source, _)| {
            self.files.note_moved(tree, &source, None);
            self.files.at(tree, PathAt::new(&to, false), Access::Change, |tree, place| {
                tree.copy_file(&source, place, &quota)
            })
        });
        let copied = copied.map(|_| ());
        Ok(self.files.noted(copied).map_err(|error| failure(&path, &error)))
    }

    fn last_refusal(&mut self) -> Result<Option<Refusal>> {
        let refused = self.files.refused.clone();
        Ok(refused.map(|Refused { unsupported, reason }| Refusal { unsupported, reason }))
    }
}

fn failure(path: &str, error: &io::Error) -> Error {
    match error.kind() {
        io::ErrorKind::NotFound => Error::NotFound(format!("file not found: {path}")),
        io::ErrorKind::PermissionDenied if error.raw_os_error().is_none() => {
            Error::Denied(error.to_string())
        }
        io::ErrorKind::PermissionDenied => Error::Denied(format!("permission denied: {path}")),
        _ => Error::Failed(format!("{path}: {error}")),
    }
}
