//! Access to the files of the workspace, and the deadline of a call.

use std::time::{Duration, Instant};

use cofferdam_sdk::ToolError;

use crate::language::Language;

/// The callback of [`Files::each`]. Its arguments are a function that returns the file's path, and
/// the contents; it returns whether to continue.
pub type Look<'a> = dyn FnMut(&dyn Fn() -> String, &[u8]) -> bool + 'a;

/// The files of the workspace. Paths are relative to it.
pub trait Files {
    /// Calls `look` for every file below `root` whose name matches one of `globs`, in path order.
    /// Returns the number of files that could not be read.
    ///
    /// # Errors
    /// `PathNotFound`; the errors of an invalid path.
    fn each(&self, root: &str, globs: &[String], look: &mut Look<'_>) -> Result<usize, ToolError>;

    /// Returns only the paths of the files.
    ///
    /// # Errors
    /// As [`Files::each`].
    fn list(&self, root: &str, globs: &[String]) -> Result<Vec<String>, ToolError>;

    /// The contents of a file; `None` if it does not exist or may not be read.
    fn read(&self, path: &str) -> Option<Vec<u8>>;

    /// The bytes that an earlier call has stored under a name; `None` if there are none.
    fn kept(&self, name: &str) -> Option<Vec<u8>>;

    /// Stores bytes for later calls. May fail silently.
    fn keep(&self, name: &str, bytes: &[u8]);
}

/// The globs of the files in a language, or in all.
pub fn globs(language: Option<Language>) -> Vec<String> {
    let languages =
        Language::ALL.into_iter().filter(|one| language.is_none_or(|only| only == *one));
    languages.flat_map(Language::extensions).map(|extension| format!("*.{extension}")).collect()
}

/// The number of bytes processed between two reads of the clock, each of which is a call into the
/// host.
const BYTES_PER_CLOCK_READ: usize = 256 * 1024;

/// The time reserved for returning the result: the divisor of the call's time, and the maximum.
const RESERVE: (u32, Duration) = (10, Duration::from_millis(500));

/// The deadline of a call's work.
#[derive(Debug)]
pub struct Deadline {
    started: Instant,
    allowed: Duration,
    unseen: usize,
}

impl Deadline {
    /// Starts the clock; the host stops the call after `milliseconds`.
    pub fn new(milliseconds: u32) -> Self {
        let total = Duration::from_millis(milliseconds.into());
        let (share, longest) = RESERVE;
        let allowed = total - (total / share).min(longest);
        Self { started: Instant::now(), allowed, unseen: BYTES_PER_CLOCK_READ }
    }

    /// Checks the deadline before work on a number of bytes.
    ///
    /// # Errors
    /// `TimeoutError` if the deadline has passed.
    pub fn check(&mut self, bytes: usize) -> Result<(), ToolError> {
        self.unseen = self.unseen.saturating_add(bytes);
        if self.unseen < BYTES_PER_CLOCK_READ {
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
    //! A workspace in memory, for tests.
    #![expect(clippy::unwrap_used, reason = "tests")]
    use std::cell::RefCell;
    use std::collections::BTreeMap;

    use super::*;

    /// Files by path, and stored bytes by name.
    #[derive(Debug, Default)]
    pub struct Memory(pub BTreeMap<String, Vec<u8>>, pub RefCell<BTreeMap<String, Vec<u8>>>);

    impl Memory {
        /// Makes a workspace of these files.
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
    fn the_deadline_is_an_error() {
        assert!(Deadline::new(10_000).check(1).is_ok());
        assert_eq!(Deadline::new(0).check(1).unwrap_err().code, "TimeoutError");
    }
}
