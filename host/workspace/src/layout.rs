//! Names in the host's own directory that several modules use. They are part of the on-disk format.

/// The directory in which the current transaction stages its files.
pub(crate) const STAGING: &str = "staging";

/// The directory of the commit files in the history.
pub(crate) const HISTORY: &str = "history";

/// The directory of the images of the history: old files, and copies of new ones.
pub(crate) const IMAGES: &str = "images";

/// The name of a commit's file in [`STAGING`].
pub(crate) const COMMIT_FILE: &str = "manifest.json";

/// The name of a commit's file until it is complete.
pub(crate) const NEW_COMMIT_FILE: &str = "manifest.json.new";

/// The directory in which each run of a native program has its directory.
pub(crate) const RUNS: &str = "runs";

/// The directory of the caches of native programs.
pub(crate) const CACHE: &str = "cache";

/// The directory of proposals: held commits, with their images.
pub(crate) const PROPOSALS: &str = "proposals";

/// The directory of what a user has marked as reviewed.
pub(crate) const REVIEWED: &str = "reviewed";

/// The directory of paused calls.
pub(crate) const PAUSED: &str = "paused";

/// The directory of questions that another process answers.
pub(crate) const QUESTIONS: &str = "questions";

/// The directory of tasks.
pub(crate) const TASKS: &str = "tasks";

/// The directory of what sessions are to be told.
pub(crate) const NOTICES: &str = "notices";

/// The directory of calls under way.
pub(crate) const CALLS: &str = "calls";
