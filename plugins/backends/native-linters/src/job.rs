//! A validated request to a backend: the directory to run in, and the targets.

use std::cell::RefCell;
use std::collections::{HashMap, HashSet};
use std::fs::Metadata;
use std::rc::Rc;

use cofferdam_sdk::backend::Error;
use cofferdam_sdk::backend::linting::Request;
use cofferdam_sdk::process::Output;
use cofferdam_sdk::text::Text;
use cofferdam_sdk::{Context, ToolError, WorkspacePath};

/// The number of files from which on they are read in one batch.
#[cfg(target_family = "wasm")]
const MIN_BATCH_FILES: usize = 32;

/// A request whose paths are all in the workspace.
pub struct Job<'a> {
    /// The context for reading files and running programs.
    pub context: &'a Context,
    /// The working directory of the program.
    pub root: WorkspacePath,
    /// The files and directories to lint; all exist.
    pub targets: Vec<WorkspacePath>,
    /// The requested configuration file.
    pub config: Option<WorkspacePath>,
    /// Codes or prefixes of codes; empty: those that the configuration selects.
    pub select: Vec<&'a str>,
    /// The timeout of the program in milliseconds; 0: the deadline of the call.
    pub timeout_ms: u32,
    texts: RefCell<HashMap<WorkspacePath, Option<Rc<Text>>>>,
}

impl<'a> Job<'a> {
    /// Validates a request and resolves its paths.
    ///
    /// # Errors
    /// `Invalid` for a path that is outside of the workspace or does not exist, and for a
    /// configuration that is not a file.
    pub fn new(request: &'a Request, context: &'a Context) -> Result<Self, Error> {
        let root = if request.root.is_empty() { "." } else { &request.root };
        let root = existing(context, root, "directory", Metadata::is_dir)?;
        if request.paths.is_empty() {
            return Err(Error::Invalid("no path was given to lint".to_owned()));
        }
        let targets = request
            .paths
            .iter()
            .map(|path| {
                existing(context, path, "file or directory", |it| it.is_file() || it.is_dir())
            })
            .collect::<Result<_, _>>()?;
        let config = request
            .config
            .as_deref()
            .map(|path| existing(context, path, "configuration file", Metadata::is_file))
            .transpose()?;
        Ok(Self {
            context,
            root,
            targets,
            config,
            select: request.select.iter().map(String::as_str).collect(),
            timeout_ms: request.timeout_ms,
            texts: RefCell::default(),
        })
    }

    /// A workspace path relative to [`Job::root`].
    pub fn from_root(&self, path: &WorkspacePath) -> String {
        let names = |path: &WorkspacePath| -> Vec<String> {
            path.as_str().split('/').filter(|name| !name.is_empty()).map(str::to_owned).collect()
        };
        let (from, to) = (names(&self.root), names(path));
        let shared = from.iter().zip(&to).take_while(|(a, b)| a == b).count();
        let up = from[shared..].iter().map(|_| "..");
        let relative = up.chain(to[shared..].iter().map(String::as_str)).collect::<Vec<_>>();
        if relative.is_empty() { ".".to_owned() } else { relative.join("/") }
    }

    /// As [`Job::from_root`], but never mistaken for an option.
    pub fn argument(&self, path: &WorkspacePath) -> String {
        let path = self.from_root(path);
        if path.starts_with('-') { format!("./{path}") } else { path }
    }

    /// The targets as arguments.
    pub fn arguments(&self) -> impl Iterator<Item = String> + '_ {
        self.targets.iter().map(|target| self.argument(target))
    }

    /// Resolves a path that the program printed, absolute or relative to its working directory.
    /// `None` if it is not in the workspace.
    pub fn printed(&self, output: &Output, path: &str) -> Option<WorkspacePath> {
        self.printed_in(output, &self.root, path)
    }

    /// As [`Job::printed`], for paths relative to `directory`.
    pub fn printed_in(
        &self,
        output: &Output,
        directory: &WorkspacePath,
        path: &str,
    ) -> Option<WorkspacePath> {
        match output.relative(path) {
            outside if outside.starts_with('/') => None,
            inside if path.starts_with('/') => self.context.resolve(inside).ok(),
            relative => self.context.resolve(&format!("./{directory}/{relative}")).ok(),
        }
    }

    /// Whether `path` is a target or below one.
    pub fn covers(&self, path: &WorkspacePath) -> bool {
        self.targets.iter().any(|target| is_at_or_below(path, target))
    }

    /// Whether the request selects this code.
    pub fn selects(&self, code: &str) -> bool {
        self.select.is_empty() || self.select.iter().any(|prefix| code.starts_with(prefix))
    }

    /// Whether a file exists at this path.
    pub fn is_file(&self, path: &WorkspacePath) -> bool {
        self.context.local(path).is_file()
    }

    /// Whether a directory exists at this path.
    pub fn is_directory(&self, path: &WorkspacePath) -> bool {
        self.context.local(path).is_dir()
    }

    /// The directory that contains a file; a directory itself.
    pub fn directory_of(&self, path: &WorkspacePath) -> WorkspacePath {
        if self.is_directory(path) { path.clone() } else { self.parent(path) }
    }

    /// The parent of a path; the workspace is its own parent.
    pub fn parent(&self, path: &WorkspacePath) -> WorkspacePath {
        path.parents().last().unwrap_or_else(|| self.workspace())
    }

    /// A directory and its parents up to the workspace, the innermost first.
    pub fn up_from(&self, directory: &WorkspacePath) -> Vec<WorkspacePath> {
        let mut directories: Vec<_> = directory.parents().collect();
        directories.reverse();
        if !directory.as_str().is_empty() {
            directories.insert(0, directory.clone());
        }
        directories.push(self.workspace());
        directories
    }

    /// The text of a file, which is read once; `None` if it can't be read.
    pub fn text(&self, path: &WorkspacePath) -> Option<Rc<Text>> {
        let read = || self.context.read(path).ok().map(|bytes| Rc::new(Text::new(bytes)));
        self.texts.borrow_mut().entry(path.clone()).or_insert_with(read).clone()
    }

    /// Reads many files in a batch if they are below the job's directories: reading each by itself
    /// costs several calls into the host. Returns the number of files with these extensions, which
    /// is known as a result.
    #[cfg(target_family = "wasm")]
    pub fn read_ahead(&self, files: &HashSet<WorkspacePath>, extensions: &[&str]) -> Option<u32> {
        use cofferdam_sdk::scan::{self, Query, Scanner};

        if files.len() < MIN_BATCH_FILES {
            return None;
        }
        let mut count = 0;
        for target in &self.targets {
            if !self.is_directory(target) {
                count += 1;
                continue;
            }
            let globs = extensions.iter().map(|extension| format!("*.{extension}")).collect();
            let scanner = Scanner::open(&Query { globs, ..scan::query(target) }).ok()?;
            count += scanner.count();
            scanner.each(|path, bytes| {
                if let Ok(path) = self.context.resolve(&path())
                    && files.contains(&path)
                {
                    let text = Some(Rc::new(Text::new(bytes.to_vec())));
                    self.texts.borrow_mut().insert(path, text);
                }
                true
            });
        }
        u32::try_from(count).ok()
    }

    /// In native builds (tests), files are read when they are needed.
    #[cfg(not(target_family = "wasm"))]
    pub fn read_ahead(&self, _: &HashSet<WorkspacePath>, _: &[&str]) -> Option<u32> {
        None
    }

    fn workspace(&self) -> WorkspacePath {
        // `.` always resolves; the root is used if it does not.
        self.context.resolve(".").unwrap_or_else(|_| self.root.clone())
    }
}

fn is_at_or_below(path: &WorkspacePath, above: &WorkspacePath) -> bool {
    match path.as_str().strip_prefix(above.as_str()) {
        Some(rest) => rest.is_empty() || rest.starts_with('/') || above.as_str().is_empty(),
        None => false,
    }
}

/// Resolves a path of the request, which must exist and be of the right kind.
fn existing(
    context: &Context,
    path: &str,
    kind: &str,
    right: impl Fn(&Metadata) -> bool,
) -> Result<WorkspacePath, Error> {
    let resolved =
        context.resolve(path).map_err(|ToolError { message, .. }| Error::Invalid(message))?;
    match context.local(&resolved).metadata() {
        Ok(metadata) if right(&metadata) => Ok(resolved),
        _ => Err(Error::Invalid(format!("there is no {kind} '{path}' in the workspace"))),
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use super::*;
    use crate::testing::{Workspace, request};

    #[test]
    fn missing_and_outside_paths_are_refused() {
        let workspace = Workspace::new(&[("src/a.py", ""), ("-x.py", ""), ("ruff.toml", "")]);
        for (root, path, config, wanted) in [
            ("", "src/a.py", Some("ruff.toml"), Ok(())),
            ("src", "-x.py", None, Ok(())),
            ("", "../a.py", None, Err("'../a.py' leaves the workspace")),
            ("", "b.py", None, Err("there is no file or directory 'b.py' in the workspace")),
            ("none", "src", None, Err("there is no directory 'none' in the workspace")),
            ("src/a.py", "src", None, Err("there is no directory 'src/a.py' in the workspace")),
            ("", "src", Some("src"), Err("there is no configuration file 'src' in the workspace")),
            ("", "", None, Err("the path is empty")),
        ] {
            let mut request = request(&[path]);
            request.root = root.to_owned();
            request.config = config.map(str::to_owned);
            let checked = Job::new(&request, &workspace.context).map(|_| ());
            let wanted = wanted.map_err(|message: &str| message.to_owned());
            assert_eq!(checked.map_err(|error| message(&error)), wanted, "{root:?} {path:?}");
        }
        assert!(Job::new(&request(&[]), &workspace.context).is_err());
    }

    fn message(error: &Error) -> String {
        match error {
            Error::Invalid(message) => message.clone(),
            error => format!("{error:?}"),
        }
    }

    #[test]
    fn arguments_are_relative_to_the_root_and_never_options() {
        let workspace = Workspace::new(&[("a/b/c.py", ""), ("a/-d.py", ""), ("e/f.py", "")]);
        for (root, path, wanted) in [
            ("", ".", "."),
            ("", "a/b/c.py", "a/b/c.py"),
            ("a", "a", "."),
            ("a", "a/b", "b"),
            ("a", "a/-d.py", "./-d.py"),
            ("a/b", "e/f.py", "../../e/f.py"),
            ("a/b", ".", "../.."),
        ] {
            let mut request = request(&[path]);
            request.root = root.to_owned();
            let job = Job::new(&request, &workspace.context).unwrap();
            assert_eq!(job.arguments().collect::<Vec<_>>(), [wanted], "{root:?} {path:?}");
        }
    }

    #[test]
    fn printed_paths_are_resolved() {
        let workspace = Workspace::new(&[("a/b.py", "")]);
        let request = request(&["a"]);
        let job = Job::new(&request, &workspace.context).unwrap();
        let directory = workspace.context.resolve("a").unwrap();
        let output = Workspace::output(0, "", "");
        for (printed, wanted) in [
            ("b.py", Some("a/b.py")),
            ("./-b.py", Some("a/-b.py")),
            ("../c.py", Some("c.py")),
            ("../../c.py", None),
            ("/w/c.py", Some("c.py")),
            ("/w2/c.py", None),
        ] {
            let path = job.printed_in(&output, &directory, printed);
            assert_eq!(path.as_ref().map(WorkspacePath::as_str), wanted, "{printed}");
        }
    }

    #[test]
    fn a_directory_covers_all_files_below_it() {
        let workspace = Workspace::new(&[("a/b.py", ""), ("ab.py", "")]);
        for (target, path, wanted) in [
            ("a", "a/b.py", true),
            ("a", "ab.py", false),
            (".", "ab.py", true),
            ("a/b.py", "a/b.py", true),
            ("a/b.py", "a", false),
        ] {
            let request = request(&[target]);
            let job = Job::new(&request, &workspace.context).unwrap();
            let path = workspace.context.resolve(path).unwrap();
            assert_eq!(job.covers(&path), wanted, "{target} {path}");
        }
    }

    #[test]
    fn parents_end_at_the_workspace() {
        let workspace = Workspace::new(&[("a/b/c.py", "")]);
        let request = request(&["a/b/c.py"]);
        let job = Job::new(&request, &workspace.context).unwrap();
        let up = job.up_from(&job.directory_of(&job.targets[0]));
        assert_eq!(up.iter().map(WorkspacePath::as_str).collect::<Vec<_>>(), ["a/b", "a", ""]);
    }
}
