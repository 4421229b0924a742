//! Plugins that are not written in Rust, each built by the tools of its language.
//!
//! Such a plugin declares its dependencies in its language's own file (`requirements.txt`, or
//! `package.json` with a lock file), and has a script (`build.py`, `build.mjs`) that gets two
//! paths: the directory of the interfaces, and the component to write. Dependencies are installed
//! into the build directory. If Python or Node.js is missing, the plugin is skipped.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result};

use super::plugin::{Plugin, foreign_manifests};
use crate::process::{announce, ask, native, run};
use crate::project::{Project, files_below, read, write};
use crate::stamp::{Inputs, Stamp};

/// The language whose tools build a plugin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Language {
    Python,
    JavaScript,
}

impl Language {
    fn of(directory: &Path) -> Option<Self> {
        [Self::Python, Self::JavaScript]
            .into_iter()
            .find(|language| directory.join(language.script()).is_file())
    }

    fn script(self) -> &'static str {
        match self {
            Self::Python => "build.py",
            Self::JavaScript => "build.mjs",
        }
    }

    /// The files that declare the dependencies.
    fn requirements(self) -> &'static [&'static str] {
        match self {
            Self::Python => &["requirements.txt"],
            Self::JavaScript => &["package.json", "package-lock.json", ".npmrc"],
        }
    }

    /// The required programs, for a message.
    fn needs(self) -> &'static str {
        match self {
            Self::Python => "python3 of version 3.10 or later, with venv and pip",
            Self::JavaScript => "node of version 20.19 or later, with npm",
        }
    }

    /// Identifies the versions of the language's tools; `None` if they are missing or too old.
    fn tools(self) -> Option<String> {
        match self {
            Self::Python => ask(native("python3").args([
                "-c",
                "import ensurepip, sys, venv; assert sys.version_info >= (3, 10); print(sys.version)",
            ])),
            Self::JavaScript => {
                let node = ask(native("node").args([
                    "-p",
                    "const [major, minor] = process.versions.node.split('.').map(Number); \
                     if (major < 20 || (major === 20 && minor < 19)) process.exit(1); \
                     process.version + process.platform + process.arch",
                ]))?;
                Some(format!("{node} npm {}", ask(native("npm").arg("--version"))?))
            }
        }
    }

    /// The directory of the installed packages in `work`.
    fn installed(self, work: &Path) -> PathBuf {
        match self {
            Self::Python => work.join("environment"),
            Self::JavaScript => work.join("node_modules"),
        }
    }

    /// The commands that install the dependencies.
    fn install(self, work: &Path) -> Vec<Command> {
        match self {
            Self::Python => {
                let environment = self.installed(work);
                let mut create = native("python3");
                create.args(["-m", "venv", "--clear"]).arg(&environment);
                let mut install = native(environment.join("bin/python"));
                install.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check"]);
                install.arg("-r").arg(work.join("requirements.txt"));
                vec![create, install]
            }
            Self::JavaScript => {
                // `npm ci` refuses a lock file that lacks the optional packages of other platforms.
                let mut install = native("npm");
                install.current_dir(work).args(["install", "--no-audit", "--no-fund"]);
                install.args(["--loglevel", "error"]);
                vec![install]
            }
        }
    }

    /// The interpreter that runs the script.
    fn interpreter(self, work: &Path) -> Command {
        match self {
            Self::Python => native(self.installed(work).join("bin/python")),
            Self::JavaScript => native("node"),
        }
    }
}

/// The plugins below a directory that are not written in Rust.
pub fn find(directory: &Path) -> Result<Vec<Plugin>> {
    let directories = foreign_manifests(directory)?;
    directories
        .iter()
        .filter(|directory| is_foreign(directory))
        .map(|it| Plugin::foreign(it))
        .collect()
}

/// Whether a plugin is built by a script.
pub fn is_foreign(directory: &Path) -> bool {
    Language::of(directory).is_some()
}

/// Builds the component of a plugin. Returns false if its language's tools are missing.
pub fn build(project: &Project, group: &str, plugin: &Plugin) -> Result<bool> {
    let language = Language::of(&plugin.directory)
        .with_context(|| format!("{} has no script that builds it", plugin.directory.display()))?;
    let Some(tools) = language.tools() else {
        announce(&format!("leaving out {}: it needs {}", plugin.name, language.needs()));
        return Ok(false);
    };
    let work = project.memory("foreign").join(&plugin.name);
    install(project, plugin, language, &tools, &work)?;
    let component = plugin.component(project, group);
    let interfaces = project.root.join("wit").join("deps");
    let sources = files_below(&plugin.directory)?;
    let stamp = Stamp::new(
        project,
        &format!("build-{group}-{}", plugin.name),
        Inputs::new()
            .value("tools", &tools)
            .files(sources.iter().cloned())?
            .files(files_below(&interfaces)?)?,
    );
    if stamp.is_fresh([&component]) {
        return Ok(true);
    }
    // Node.js looks for packages in the directories above, so the sources are copied below the
    // installed packages.
    let copy = work.join("sources");
    copy_files(&plugin.directory, &sources, &copy)?;
    write(&component, [])?;
    let mut script = language.interpreter(&work);
    script.current_dir(&copy).arg(language.script()).arg(&interfaces).arg(&component);
    run(&format!("building {} with {}", plugin.name, language.script()), &mut script)?;
    stamp.set()?;
    Ok(true)
}

/// The directory of the tools that build the Python or JavaScript plugin of this name; `None` if
/// they are not installed because the language is missing.
pub fn tools_of(project: &Project, name: &str) -> Option<PathBuf> {
    let work = project.memory("foreign").join(name);
    [Language::Python, Language::JavaScript]
        .map(|language| language.installed(&work))
        .into_iter()
        .find(|installed| installed.is_dir())
}

fn install(
    project: &Project,
    plugin: &Plugin,
    language: Language,
    tools: &str,
    work: &Path,
) -> Result<()> {
    let required = language.requirements().iter().map(|file| plugin.directory.join(file));
    let required: Vec<PathBuf> = required.filter(|file| file.is_file()).collect();
    let stamp = Stamp::new(
        project,
        &format!("install-{}", plugin.name),
        Inputs::new().value("tools", tools).files(required.iter().cloned())?,
    );
    if stamp.is_fresh([&language.installed(work)]) {
        return Ok(());
    }
    for file in &required {
        if let Some(name) = file.file_name() {
            write(&work.join(name), read(file)?)?;
        }
    }
    for mut command in language.install(work) {
        run(&format!("installing what builds {}", plugin.name), &mut command)?;
    }
    stamp.set()
}

/// Makes `to` a copy of exactly these files of `from`.
fn copy_files(from: &Path, files: &[PathBuf], to: &Path) -> Result<()> {
    if to.exists() {
        fs::remove_dir_all(to).with_context(|| format!("removing {}", to.display()))?;
    }
    for file in files {
        write(&to.join(file.strip_prefix(from)?), read(file)?)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use super::*;

    #[test]
    fn plugins_with_a_script_are_found() {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path();
        write(&root.join("a/plugin.toml"), "name = \"flakes\"").unwrap();
        write(&root.join("a/build.py"), "").unwrap();
        write(&root.join("b/plugin.toml"), "name = \"lint\"").unwrap();
        write(&root.join("b/build.mjs"), "").unwrap();
        write(&root.join("crate/plugin.toml"), "name = \"crate\"").unwrap();
        write(&root.join("crate/Cargo.toml"), "").unwrap();
        write(&root.join("crate/build.py"), "").unwrap();
        write(&root.join("by-hand/plugin.toml"), "name = \"by-hand\"").unwrap();
        let found = find(root).unwrap();
        let names: Vec<&str> = found.iter().map(|plugin| plugin.name.as_str()).collect();
        assert_eq!(names, ["flakes", "lint"]);
        assert_eq!(Language::of(&root.join("a")), Some(Language::Python));
        assert_eq!(Language::of(&root.join("b")), Some(Language::JavaScript));

        write(&root.join("a/plugin.toml"), "name = \"../flakes\"").unwrap();
        assert!(find(root).unwrap_err().to_string().contains("'name' has to be"));
    }

    #[test]
    fn a_copy_holds_nothing_else() {
        let directory = tempfile::tempdir().unwrap();
        let (from, to) = (directory.path().join("from"), directory.path().join("to"));
        write(&from.join("src/a.js"), "1").unwrap();
        write(&to.join("src/old.js"), "2").unwrap();
        copy_files(&from, &files_below(&from).unwrap(), &to).unwrap();
        assert_eq!(files_below(&to).unwrap(), [to.join("src/a.js")]);
    }
}
