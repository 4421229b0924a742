//! The files of the workspace, as the tools see them, and the time that a call may take.

use std::time::{Duration, Instant};

use cofferdam_sdk::ToolError;

use crate::language::Language;

/// What is shown to [`Files::each`] for each file: a way to ask for its path, and its bytes. It
/// answers whether to go on.
pub type Look<'a> = dyn FnMut(&dyn Fn() -> String, &[u8]) -> bool + 'a;

/// The workspace's files. Paths are relative to it.
pub trait Files {
    /// Shows every file below `root` whose name fits one of `globs`, in path order, and answers
    /// how many could not be read.
    ///
    /// # Errors
    /// `PathNotFound`, or what the path itself has wrong.
    fn each(&self, root: &str, globs: &[String], look: &mut Look<'_>) -> Result<usize, ToolError>;

    /// Their paths alone.
    ///
    /// # Errors
    /// As [`Files::each`].
    fn list(&self, root: &str, globs: &[String]) -> Result<Vec<String>, ToolError>;

    /// A whole file, if it is there and may be read.
    fn read(&self, path: &str) -> Option<Vec<u8>>;

    /// What an earlier call has kept under a name, if it is still there.
    fn kept(&self, name: &str) -> Option<Vec<u8>>;

    /// Keeps something for later calls, as long as there is room for it.
    fn keep(&self, name: &str, bytes: &[u8]);
}

/// The globs of the files of a language, or of all.
pub fn globs(language: Option<Language>) -> Vec<String> {
    let languages =
        Language::ALL.into_iter().filter(|one| language.is_none_or(|only| only == *one));
    languages.flat_map(Language::extensions).map(|extension| format!("*.{extension}")).collect()
}

/// How many bytes are looked at between two looks at the clock: each look leaves the sandbox.
const BYTES_PER_LOOK: usize = 256 * 1024;

/// The share of the time, as a divisor, and the longest time, kept back for writing the answer.
const RESERVE: (u32, Duration) = (10, Duration::from_millis(500));

/// Says when work has to end so that an answer still arrives in time.
#[derive(Debug)]
pub struct Deadline {
    started: Instant,
    allowed: Duration,
    unseen: usize,
}

impl Deadline {
    /// The clock starts now; the host stops the call `milliseconds` later.
    pub fn new(milliseconds: u32) -> Self {
        let total = Duration::from_millis(milliseconds.into());
        let (share, longest) = RESERVE;
        let allowed = total - (total / share).min(longest);
        Self { started: Instant::now(), allowed, unseen: BYTES_PER_LOOK }
    }

    /// Asked before work on so many bytes.
    ///
    /// # Errors
    /// `TimeoutError` when the time is up.
    pub fn check(&mut self, bytes: usize) -> Result<(), ToolError> {
        self.unseen = self.unseen.saturating_add(bytes);
        if self.unseen < BYTES_PER_LOOK {
            return Ok(());
        }
        self.unseen = 0;
        if self.started.elapsed() < self.allowed {
            return Ok(());
        }
        Err(ToolError::limit(
            "TimeoutError",
            format!("not done after {} ms. Narrow it with `path`", self.allowed.as_millis()),
        ))
    }
}

#[cfg(test)]
pub mod testing {
    //! A workspace in memory.
    #![expect(clippy::unwrap_used, reason = "tests")]
    use std::cell::RefCell;
    use std::collections::BTreeMap;

    use super::*;

    /// Files by path, and what is kept by name.
    #[derive(Debug, Default)]
    pub struct Memory(pub BTreeMap<String, Vec<u8>>, pub RefCell<BTreeMap<String, Vec<u8>>>);

    impl Memory {
        /// A workspace of these files.
        pub fn new<'a>(files: impl IntoIterator<Item = (&'a str, &'a str)>) -> Self {
            let owned = |(path, text): (&str, &str)| (path.to_owned(), text.as_bytes().to_vec());
            Self(files.into_iter().map(owned).collect(), RefCell::default())
        }
    }

    impl Files for Memory {
        fn each(
            &self,
            root: &str,
            globs: &[String],
            look: &mut Look<'_>,
        ) -> Result<usize, ToolError> {
            for path in self.list(root, globs)? {
                if !look(&|| path.clone(), &self.0[&path]) {
                    break;
                }
            }
            Ok(0)
        }

        fn list(&self, root: &str, globs: &[String]) -> Result<Vec<String>, ToolError> {
            let below = |path: &str| {
                root.is_empty()
                    || path
                        .strip_prefix(root)
                        .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
            };
            if !self.0.keys().any(|path| below(path)) {
                return Err(ToolError::not_found("PathNotFound", root.to_owned()));
            }
            let fits =
                |path: &str| globs.iter().any(|glob| path.ends_with(glob.trim_start_matches('*')));
            Ok(self.0.keys().filter(|path| below(path) && fits(path)).cloned().collect())
        }

        fn read(&self, path: &str) -> Option<Vec<u8>> {
            self.0.get(path).cloned()
        }

        fn kept(&self, name: &str) -> Option<Vec<u8>> {
            self.1.borrow().get(name).cloned()
        }

        fn keep(&self, name: &str, bytes: &[u8]) {
            self.1.borrow_mut().insert(name.to_owned(), bytes.to_vec());
        }
    }

    #[test]
    fn time_runs_out() {
        assert!(Deadline::new(10_000).check(1).is_ok());
        assert_eq!(Deadline::new(0).check(1).unwrap_err().code, "TimeoutError");
    }
}
