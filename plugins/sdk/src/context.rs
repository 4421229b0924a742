//! The context of a call, and the paths of its workspace.

use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::ToolError;
use crate::bindings::cofferdam::tool::types::CallContext;

/// The maximum length of a path, in bytes: Linux' `PATH_MAX`.
const MAX_PATH_BYTES: usize = 4096;

/// The path of the workspace inside a component.
pub(crate) const WORKSPACE: &str = "/workspace";

/// What a tool knows about the call that it handles.
#[derive(Debug, Clone)]
pub struct Context {
    /// Identifies the call in the journal.
    pub call_id: String,
    /// Milliseconds left until the host stops the call, counted from its start.
    pub deadline_ms: u32,
    /// Paths that the call may access, relative to the workspace; empty: all of it. The host
    /// enforces it; a tool may check it to fail early.
    pub scope: Vec<String>,
    workspace: String,
    root: PathBuf,
}

impl From<CallContext> for Context {
    fn from(context: CallContext) -> Self {
        Self {
            call_id: context.call_id,
            deadline_ms: context.deadline_ms,
            scope: context.scope,
            workspace: context.workspace,
            root: PathBuf::from(WORKSPACE),
        }
    }
}

impl Context {
    /// The context of a backend: the workspace, without call id, deadline and scope.
    #[doc(hidden)]
    pub fn for_backend() -> Self {
        Self {
            call_id: String::new(),
            deadline_ms: u32::MAX,
            scope: Vec::new(),
            workspace: WORKSPACE.to_owned(),
            root: PathBuf::from(WORKSPACE),
        }
    }

    /// A context whose workspace is an ordinary directory, for testing a tool in a native build.
    pub fn for_directory(root: &Path) -> Self {
        Self {
            call_id: "test".to_owned(),
            deadline_ms: 10_000,
            scope: Vec::new(),
            workspace: root.to_string_lossy().into_owned(),
            root: root.to_owned(),
        }
    }

    /// The timeout in milliseconds for work that starts `elapsed` after the call: `wanted`, but at
    /// most the time left of the call, less a tenth of the call's time (at most a second) that is
    /// reserved for returning the result. Never 0, which would mean no limit.
    pub fn timeout_ms(&self, wanted: Option<u32>, elapsed: Duration) -> u32 {
        let reserve = (self.deadline_ms / 10).min(1_000);
        let elapsed = u32::try_from(elapsed.as_millis()).unwrap_or(u32::MAX);
        let left = (self.deadline_ms - reserve).saturating_sub(elapsed);
        wanted.unwrap_or(u32::MAX).min(left).max(1)
    }

    /// The absolute path of the workspace, as the caller knows it.
    pub fn workspace(&self) -> &str {
        &self.workspace
    }

    /// Resolves a path that the caller wrote, relative to the workspace or absolute, to a path
    /// inside the workspace.
    ///
    /// # Errors
    /// `InvalidPath` for an empty path, `PathNotAllowed` for one that leaves the workspace,
    /// holds a NUL or is longer than 4,096 bytes.
    pub fn resolve(&self, path: &str) -> Result<WorkspacePath, ToolError> {
        let denied = |why: String| Err(ToolError::denied("PathNotAllowed", why));
        if path.is_empty() {
            return Err(ToolError::invalid_args("InvalidPath", "the path is empty"));
        }
        if path.len() > MAX_PATH_BYTES {
            return denied(format!(
                "the path is {} bytes long; at most {MAX_PATH_BYTES} are allowed",
                path.len()
            ));
        }
        if path.contains('\0') {
            return denied("the path holds a NUL character".to_owned());
        }
        let relative = if path.starts_with('/') {
            match self.below_workspace(path) {
                Some(rest) => rest,
                None => {
                    return denied(format!(
                        "'{path}' is outside of the workspace {}",
                        self.workspace
                    ));
                }
            }
        } else {
            path
        };
        let mut names: Vec<&str> = Vec::new();
        for name in relative.split('/') {
            match name {
                "" | "." => {}
                ".." => {
                    if names.pop().is_none() {
                        return denied(format!("'{path}' leaves the workspace"));
                    }
                }
                name => names.push(name),
            }
        }
        Ok(WorkspacePath(names.join("/")))
    }

    fn below_workspace<'a>(&self, path: &'a str) -> Option<&'a str> {
        let workspace = self.workspace.trim_end_matches('/');
        let rest = path.strip_prefix(workspace)?;
        (rest.is_empty() || rest.starts_with('/')).then_some(rest)
    }

    /// The absolute path of a workspace path, as the caller knows it.
    pub fn absolute(&self, path: &WorkspacePath) -> String {
        let workspace = self.workspace.trim_end_matches('/');
        if path.0.is_empty() { workspace.to_owned() } else { format!("{workspace}/{}", path.0) }
    }

    /// The workspace as a directory of this process.
    #[cfg(not(target_family = "wasm"))]
    pub(crate) fn local_root(&self) -> &Path {
        &self.root
    }

    /// The path under which this process can open a workspace path.
    pub fn local(&self, path: &WorkspacePath) -> PathBuf {
        if path.0.is_empty() { self.root.clone() } else { self.root.join(&path.0) }
    }
}

/// A path inside the workspace: relative, `/` between names, no `.` and no `..`. The workspace
/// itself is the empty path.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WorkspacePath(String);

impl WorkspacePath {
    /// The path relative to the workspace.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The directories above it, the outermost first, without the workspace.
    pub fn parents(&self) -> impl Iterator<Item = Self> {
        self.0.match_indices('/').map(|(end, _)| Self(self.0[..end].to_owned()))
    }
}

impl std::fmt::Display for WorkspacePath {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(if self.0.is_empty() { "." } else { &self.0 })
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use super::*;

    #[test]
    fn time_is_reserved_for_the_result() {
        for (deadline_ms, wanted, elapsed, timeout) in [
            (30_000, None, 0, 29_000),
            (30_000, None, 4_000, 25_000),
            (30_000, Some(5_000), 4_000, 5_000),
            (30_000, Some(u32::MAX), 0, 29_000),
            (1_000, None, 0, 900),
            (1_000, None, 5_000, 1),
            (0, Some(5_000), 0, 1),
        ] {
            let context = Context { deadline_ms, ..Context::for_directory(Path::new("/")) };
            let elapsed = Duration::from_millis(elapsed);
            let found = context.timeout_ms(wanted, elapsed);
            assert_eq!(found, timeout, "{wanted:?} {elapsed:?} of {deadline_ms}");
        }
    }

    #[test]
    fn paths_stay_in_the_workspace() {
        let context = Context::for_directory(Path::new("/home/me/project"));
        for (given, wanted) in [
            ("src/main.rs", "src/main.rs"),
            ("./src//main.rs/", "src/main.rs"),
            ("src/../README.md", "README.md"),
            ("/home/me/project/src/a", "src/a"),
            ("/home/me/project", ""),
            (".", ""),
        ] {
            assert_eq!(context.resolve(given).unwrap().as_str(), wanted, "{given}");
        }
        let long = "a/".repeat(2500);
        for given in ["../x", "a/../../x", "/etc/passwd", "/home/me/project2/x", "a\0b", &long] {
            assert_eq!(context.resolve(given).unwrap_err().code, "PathNotAllowed", "{given:?}");
        }
        assert_eq!(context.resolve("").unwrap_err().code, "InvalidPath");
    }

    #[test]
    fn parents_are_listed_from_the_outside() {
        let context = Context::for_directory(Path::new("/"));
        for (path, wanted) in [("a/b/c", &["a", "a/b"][..]), ("a", &[]), (".", &[])] {
            let parents: Vec<String> =
                context.resolve(path).unwrap().parents().map(|path| path.0).collect();
            assert_eq!(parents, wanted, "{path}");
        }
    }

    #[test]
    fn absolute_paths_are_those_of_the_caller() {
        let context = Context::for_directory(Path::new("/home/me/project/"));
        let path = context.resolve("a/b").unwrap();
        assert_eq!(context.absolute(&path), "/home/me/project/a/b");
        assert_eq!(context.absolute(&context.resolve(".").unwrap()), "/home/me/project");
    }
}
