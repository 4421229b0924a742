//! The directory that calls work on. The host opens files only here, beneath a directory handle:
//! a path that leaves the workspace (by `..`, by being absolute or through a symbolic link) does
//! not open, however the tree changes meanwhile.
//!
//! Modules import only from their own group and those below, never in a circle:
//!
//! | group | modules |
//! |---|---|
//! | history | [`history`]: list, diff, undo and prune commits; [`restore`]: stage a commit's old state |
//! | held changes | [`review`]: decide about proposals; [`hold`], [`stacked`]: hold a transaction, and base one on what is held; [`proposals`]: the files of proposals; [`proposed`], [`merge`]: compare them with the workspace; [`reviewed`]: what a user has marked as reviewed; [`notices`]: tell a session; [`session_name`] |
//! | transactions | [`transaction`]: begin and commit; [`store`]: recovery, moving commits to the history; [`write_queue`]: which client of this process writes next |
//! | steps of a commit | [`plan`]: the changes to make; [`sync_staged`]: staged files to the disk; [`apply`]: renames; [`content`]: old and new content; [`history_dirs`]: the files of the history |
//! | per workspace | [`new_tree`]: fill a directory that is new; [`activity`]: whether anything was recorded since; [`native_view`]: the tree for native programs; [`run_dir`]: directories of runs; [`cache`], [`plugin_cache`], [`spill`]: caches and program output; [`fingerprint`]: detect changes to the whole tree; [`repository`]: find the git repository, which may be outside; [`git_commit`]: commit to it; [`own_directory`]: find or create the host's own directory; [`tasks`]: calls that go on after their request; [`running`]: calls under way, for other processes |
//! | tree | [`workspace`]: the open directory; [`upstream`]: the store that it is a copy of; [`overlay`]: the tree with a transaction's changes on top |
//! | files | [`commit`], [`commit_file`]: a commit and its file; [`file_fingerprint`]: detect changes to one file; [`own`]: files in the host's own directory; [`copying`]: content, permissions, attributes |
//! | ground | [`disk`]: system calls that follow no link; [`path`], [`quota`], [`seal`], [`clock`], [`diff`], [`error`], [`layout`], [`fair_queue`], [`bounded_text`], [`ignore_files`], [`private`] |

mod activity;
mod apply;
pub mod bounded_text;
mod cache;
mod clock;
mod commit;
mod commit_file;
mod content;
mod copying;
mod diff;
mod disk;
mod error;
pub mod fair_queue;
mod file_fingerprint;
mod fingerprint;
mod git_commit;
mod history;
mod history_dirs;
mod hold;
pub mod ignore_files;
mod layout;
mod merge;
mod native_view;
mod new_tree;
mod notices;
mod overlay;
mod own;
mod own_directory;
pub mod path;
mod paused;
mod plan;
mod plugin_cache;
pub mod private;
mod proposals;
mod proposed;
mod questions;
mod quota;
mod renames;
mod repository;
mod restore;
mod review;
mod reviewed;
mod run_dir;
mod running;
mod seal;
mod session_name;
mod spill;
mod stacked;
mod store;
mod sync_staged;
mod tasks;
mod transaction;
mod upstream;
mod workspace;
mod write_queue;

#[cfg(all(test, target_os = "linux"))]
mod tests;

pub use cofferdam_core::policy::OWN;

pub use activity::Activity;
pub use cache::{Cache, ENTRIES as CACHE_ENTRIES};
pub use commit::{Accepted, Author, Change, Commit, CommitId, Image, Kind, summary};
pub use content::Preview;
pub use disk::Listed;
pub use error::{CommitError, HistoryError, Refused, is_full};
pub use fingerprint::{Fingerprint, FingerprintError};
pub use git_commit::{GitCommit, GitCommitError};
pub use history::{History, ListedCommit, RangeDiff};
pub use hold::HeldChanges;
pub use native_view::{NativeView, Protected, ViewKind, ViewOptions};
pub use new_tree::{NewFiles, NewTree};
pub use overlay::{ExecutedFile, Opening, Overlay, Savepoint};
pub use own::{NOT_MADE_HERE, Own, OwnState, SET_ASIDE, Secret};
pub use path::or_dot;
pub use paused::PausedId;
pub use plugin_cache::CacheKind;
pub use questions::{
    AskedForm, AskedQuestion, GivenAnswer, LINK_PATH, Listener, OpenConsole, Question,
    QuestionAnswer,
};
pub use quota::{Exceeded, Quota};
pub use repository::{Repository, RepositoryError};
pub use review::{
    Chosen, Decided, Decision, FileReview, HunkReview, ListedProposal, Review, ReviewError,
    Reviews, Verdict,
};
pub use running::{CallProgress, RunningCall, ShownCall, may_show_call};
pub use seal::Key;
pub use session_name::{InvalidSessionName, SessionName};
pub use spill::{KeptOutput, Spill};
pub use store::InterruptedCommit;
pub use tasks::{
    InvalidTaskId, KeptTask, MAX_TASKS, RunningTask, TASK_TTL, TaskEnd, TaskId, TaskRecord,
};
pub use transaction::{BeginError, Purpose, Transaction};
pub use upstream::{KeyedResult, Refresh, Upstream};
pub use workspace::{Recorder, Workspace, WorkspaceError};
