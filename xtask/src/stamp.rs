//! Skips steps whose inputs have not changed: each step stores the digest of its inputs.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use anyhow::Result;
use sha2::{Digest as _, Sha256};

use crate::project::{Project, read, write};

/// A digest of the inputs of a step: their names, sizes and contents.
pub struct Inputs(Sha256);

impl Inputs {
    pub fn new() -> Self {
        Self(Sha256::new())
    }

    /// Adds one named value.
    #[must_use]
    pub fn value(mut self, name: &str, value: impl AsRef<[u8]>) -> Self {
        for part in [name.as_bytes(), value.as_ref()] {
            self.0.update((part.len() as u64).to_le_bytes());
            self.0.update(part);
        }
        self
    }

    /// Adds files with their contents.
    ///
    /// # Errors
    /// If a file can't be read.
    pub fn files(mut self, files: impl IntoIterator<Item = PathBuf>) -> Result<Self> {
        for file in files {
            let contents = read(&file)?;
            self = self.value(&file.to_string_lossy(), contents);
        }
        Ok(self)
    }

    /// Adds a file by size and time of change, for a file that is too large to read each time.
    ///
    /// # Errors
    /// If the file does not exist.
    pub fn large_file(self, file: &Path) -> Result<Self> {
        let metadata = fs::metadata(file)?;
        let seen = format!("{} {:?}", metadata.len(), metadata.modified()?);
        Ok(self.value(&file.to_string_lossy(), seen))
    }

    /// The digest, in hexadecimal.
    pub fn digest(self) -> String {
        hexadecimal(&self.0.finalize())
    }
}

/// Bytes as hexadecimal digits.
pub fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The stored digest of one step.
pub struct Stamp {
    file: PathBuf,
    digest: String,
}

impl Stamp {
    /// The stamp of the step `name` after it ran with `inputs`.
    pub fn new(project: &Project, name: &str, inputs: Inputs) -> Self {
        Self { file: project.memory(&format!("{name}.stamp")), digest: inputs.digest() }
    }

    /// Whether the step ran with exactly these inputs and all its `outputs` still exist.
    pub fn is_fresh<'a>(&self, outputs: impl IntoIterator<Item = &'a PathBuf>) -> bool {
        fs::read_to_string(&self.file).is_ok_and(|digest| digest == self.digest)
            && outputs.into_iter().all(|output| output.exists())
    }

    /// Deletes the stored digest, for a step that removes its outputs before it creates them again.
    ///
    /// # Errors
    /// If the file can't be removed.
    pub fn clear(&self) -> Result<()> {
        match fs::remove_file(&self.file) {
            Err(error) if error.kind() != ErrorKind::NotFound => Err(error.into()),
            _ => Ok(()),
        }
    }

    /// Stores the digest after the step ran.
    ///
    /// # Errors
    /// If the file can't be written.
    pub fn set(&self) -> Result<()> {
        write(&self.file, &self.digest)
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use super::*;
    use crate::project::Profile;

    #[test]
    fn a_step_is_fresh_until_an_input_changes_or_an_output_is_lost() {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path().to_owned();
        let project =
            Project { target: root.join("target"), root: root.clone(), profile: Profile::Release };
        let (input, output) = (root.join("in"), root.join("out"));
        let stamp = || {
            let inputs = Inputs::new().value("flags", "-O").files([input.clone()]).unwrap();
            Stamp::new(&project, "step", inputs.large_file(&input).unwrap())
        };
        write(&input, "1").unwrap();
        assert!(!stamp().is_fresh([]));
        stamp().set().unwrap();
        assert!(stamp().is_fresh([]));
        assert!(!stamp().is_fresh([&output]));
        write(&output, "").unwrap();
        assert!(stamp().is_fresh([&output]));
        write(&input, "2").unwrap();
        assert!(!stamp().is_fresh([&output]));
        stamp().set().unwrap();
        stamp().clear().unwrap();
        assert!(!stamp().is_fresh([&output]));
        stamp().clear().unwrap();
    }

    #[test]
    fn names_and_values_do_not_run_together() {
        let digest = |name, value| Inputs::new().value(name, value).digest();
        assert_ne!(digest("ab", "c"), digest("a", "bc"));
        assert_eq!(digest("ab", "c").len(), 64);
    }
}
