//! Where modules are searched for, and the version of Python that the project is written for.
//!
//! An instance sees only the workspace. So packages are found in a virtual environment inside of it,
//! and nowhere else.

use std::collections::BTreeSet;
use std::ops::Bound;
use std::str::FromStr as _;

use anyhow::{Context as _, Result, anyhow};
use pep440_rs::{VersionSpecifiers, release_specifiers_to_ranges};
use ruff_db::system::{System as _, SystemPath, SystemPathBuf};
use ruff_python_ast::PythonVersion;
use ty_module_resolver::{FallibleStrategy, ModuleName, SearchPathSettings};
use ty_python_core::platform::PythonPlatform;
use ty_python_core::program::ProgramSettings;
use ty_site_packages::{PythonVersionSource, PythonVersionWithSource};

use crate::options::{Environment, Project};
use crate::system::Workspace;

/// The directories of virtual environments, relative to the project or the workspace.
const VIRTUAL_ENVIRONMENTS: [&str; 2] = [".venv", "venv"];

/// The directories of a virtual environment that contain `python3.X/site-packages`.
const LIBRARIES: [&str; 2] = ["lib", "lib64"];

const SITE_PACKAGES: &str = "site-packages";

/// Everything about the environment of a project.
#[derive(Debug)]
pub struct Found {
    /// What the engine needs.
    pub program: ProgramSettings,
    /// What can be imported here.
    pub importable: Importable,
    /// What the user should know.
    pub notes: Vec<String>,
}

/// Finds the environment of a project.
///
/// # Errors
/// A path, a version or a requirement in the configuration is invalid.
pub fn find(project: &Project, workspace: &Workspace) -> Result<Found> {
    let options = &project.options.environment;
    let mut notes = Vec::new();
    let within = |path: &String| {
        workspace
            .resolve(path, &project.root)
            .with_context(|| format!("environment: '{path}' is outside of the workspace"))
    };
    let roots = match (&options.root, &project.options.src.root) {
        (Some(roots), _) => roots.iter().map(within).collect::<Result<Vec<_>>>()?,
        (None, Some(root)) => vec![within(root)?, project.root.clone()],
        (None, None) => roots(project, workspace),
    };
    let packages = SitePackages::find(options, project, workspace, &mut notes);
    let paths = SearchPathSettings {
        extra_paths: options.extra_paths.iter().map(within).collect::<Result<_>>()?,
        src_roots: roots.clone(),
        custom_typeshed: options.typeshed.as_ref().map(within).transpose()?,
        site_packages_paths: packages.paths.clone(),
        real_stdlib_path: None,
    };
    let search_paths =
        paths.to_search_paths(workspace, ty_vendored::file_system(), &FallibleStrategy)?;
    let platform = options.python_platform.clone().unwrap_or_else(|| "linux".to_owned());
    let program = ProgramSettings {
        python_version: version(project, &packages, &mut notes)?,
        python_platform: PythonPlatform::from(platform),
        search_paths,
    };
    let importable = Importable { workspace: workspace.clone(), roots, packages };
    Ok(Found { program, importable, notes })
}

/// The directories of the project's own modules, by the usual layouts.
fn roots(project: &Project, workspace: &Workspace) -> Vec<SystemPathBuf> {
    let root = &project.root;
    let is_package = |directory: &SystemPath| {
        ["__init__.py", "__init__.pyi"].iter().any(|name| workspace.is_file(&directory.join(name)))
    };
    let name = project.name.as_deref().filter(|name| {
        let is_name = !name.is_empty() && !name.contains(['/', '.']);
        is_name && workspace.is_directory(&root.join(name).join(name))
    });
    let mut found: Vec<SystemPathBuf> = Vec::new();
    for directory in [Some("src"), name, Some("python")].into_iter().flatten() {
        let directory = root.join(directory);
        let is_root = workspace.is_directory(&directory) && !is_package(&directory);
        if is_root && !found.contains(&directory) {
            found.push(directory);
        }
    }
    found.push(root.clone());
    found
}

/// The packages of a virtual environment.
#[derive(Debug, Default)]
struct SitePackages {
    paths: Vec<SystemPathBuf>,
    version: Option<PythonVersion>,
    /// Whether modules that are not in `paths` can't be imported.
    is_complete: bool,
}

impl SitePackages {
    fn find(
        options: &Environment,
        project: &Project,
        workspace: &Workspace,
        notes: &mut Vec<String>,
    ) -> Self {
        if let Some(python) = &options.python {
            let prefix = workspace.resolve(python, &project.root).map(|path| {
                // The interpreter `bin/python3` of an environment, which may lead out of the workspace.
                let is_interpreter = path.parent().and_then(SystemPath::file_name) == Some("bin");
                let prefix = path.ancestors().nth(2).filter(|_| is_interpreter);
                prefix.map_or_else(|| path.clone(), SystemPath::to_path_buf)
            });
            let found = prefix.and_then(|prefix| Self::of(&prefix, workspace));
            return found.unwrap_or_else(|| {
                notes.push(format!(
                    "environment.python: there is no environment '{python}' in the workspace"
                ));
                Self::default()
            });
        }
        let directories = [project.root.as_path(), workspace.root()];
        directories
            .iter()
            .flat_map(|directory| VIRTUAL_ENVIRONMENTS.map(|name| directory.join(name)))
            .find_map(|prefix| Self::of(&prefix, workspace))
            .unwrap_or_default()
    }

    /// The packages of the environment at `prefix`, if there is one.
    fn of(prefix: &SystemPath, workspace: &Workspace) -> Option<Self> {
        let mut found = Self::default();
        let links = workspace.entries(prefix);
        // `lib64` is often a link to `lib`.
        let is_link = |path: &SystemPath| {
            links.iter().any(|entry| entry.path() == path && entry.file_type().is_symlink())
        };
        let libraries = LIBRARIES.map(|name| prefix.join(name));
        for library in libraries.iter().filter(|path| !is_link(path)) {
            for entry in workspace.entries(library) {
                let version = entry.path().file_name().and_then(python_version);
                let packages = entry.path().join(SITE_PACKAGES);
                if version.is_some() && workspace.is_directory(&packages) {
                    found.version = found.version.or(version);
                    found.paths.push(packages);
                }
            }
        }
        found.paths.sort();
        let settings = workspace.read_to_string(&prefix.join("pyvenv.cfg")).unwrap_or_default();
        found.is_complete = !settings.lines().any(|line| {
            let (key, value) = line.split_once('=').unwrap_or_default();
            key.trim() == "include-system-site-packages" && value.trim() == "true"
        });
        (!found.paths.is_empty()).then_some(found)
    }
}

/// The version in the name of a directory such as `python3.12`.
fn python_version(name: &str) -> Option<PythonVersion> {
    let version = name.strip_prefix("python").or_else(|| name.strip_prefix("pypy"))?;
    PythonVersion::from_str(version.trim_end_matches('t')).ok()
}

/// The version that a project is written for: the one that is configured, or the lowest one that it
/// requires, or that of its virtual environment.
fn version(
    project: &Project,
    packages: &SitePackages,
    notes: &mut Vec<String>,
) -> Result<PythonVersionWithSource> {
    let is_supported = |version: &PythonVersion| PythonVersion::iter().any(|one| one == *version);
    // The source only matters for hints that are not shown.
    let source = PythonVersionSource::Cli;
    if let Some(text) = &project.options.environment.python_version {
        let version = PythonVersion::from_str(text).ok().filter(is_supported);
        let version = version
            .with_context(|| format!("environment.python-version: ty does not know '{text}'"))?;
        return Ok(PythonVersionWithSource { version, source });
    }
    let required = match project.requires_python.as_deref().map(required) {
        Some(Ok(version)) => Some(version),
        Some(Err(error)) => {
            notes.push(format!("project.requires-python: {error}"));
            None
        }
        None => None,
    };
    let version = required.or(packages.version.filter(is_supported));
    Ok(version.map(|version| PythonVersionWithSource { version, source }).unwrap_or_default())
}

/// The lowest supported version that fits a requirement.
fn required(text: &str) -> Result<PythonVersion> {
    let specifiers = VersionSpecifiers::from_str(text).map_err(|error| anyhow!("{error}"))?;
    let ranges = release_specifiers_to_ranges(specifiers);
    let lowest = match ranges.bounding_range() {
        Some((Bound::Included(lowest) | Bound::Excluded(lowest), _)) => lowest.clone(),
        Some((Bound::Unbounded, _)) | None => {
            return Err(anyhow!("'{text}' has no lowest version"));
        }
    };
    let number = |index: usize| {
        u8::try_from(lowest.release().get(index).copied().unwrap_or_default()).unwrap_or(u8::MAX)
    };
    let lowest = PythonVersion::from((number(0), number(1)));
    PythonVersion::iter()
        .find(|version| *version >= lowest)
        .with_context(|| format!("ty knows no version that fits '{text}'"))
}

/// Tells modules that the project lacks from those that are merely not installed in the workspace.
#[derive(Debug)]
pub struct Importable {
    workspace: Workspace,
    roots: Vec<SystemPathBuf>,
    packages: SitePackages,
}

impl Importable {
    /// The package of a module that could not be imported, if that may be because the package is
    /// installed elsewhere: it is not the project's own, not of the standard library, and not missing
    /// in a virtual environment that would contain it.
    pub fn elsewhere(&self, module: &str, program: &ProgramSettings) -> Option<String> {
        let package = module.split('.').next().filter(|package| !package.is_empty())?;
        let name = ModuleName::new(package)?;
        let is_standard = program.search_paths.typeshed_versions().exact(&name).is_some();
        let is_own = self.roots.iter().any(|root| self.has(root, package));
        let is_missing = self.packages.is_complete && !self.is_unreadable(package);
        (!is_standard && !is_own && !is_missing).then(|| package.to_owned())
    }

    /// Whether a directory contains a package or module.
    fn has(&self, directory: &SystemPath, package: &str) -> bool {
        let file = |extension| directory.join(format!("{package}.{extension}"));
        self.workspace.is_directory(&directory.join(package))
            || ["py", "pyi"].into_iter().any(|extension| self.workspace.is_file(&file(extension)))
    }

    /// Whether a package is a link that leads out of the workspace.
    fn is_unreadable(&self, package: &str) -> bool {
        let names: BTreeSet<String> =
            [package.to_owned(), format!("{package}.py"), format!("{package}.pyi")].into();
        self.packages.paths.iter().flat_map(|path| self.workspace.entries(path)).any(|entry| {
            entry.path().file_name().is_some_and(|name| names.contains(name))
                && !self.workspace.path_exists(entry.path())
        })
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use super::*;
    use crate::testing::Files;

    fn of(files: &Files) -> Found {
        let workspace = files.workspace();
        let project = Project::find(&workspace, &files.path(""), None).unwrap();
        find(&project, &workspace).unwrap()
    }

    #[test]
    fn roots_are_those_of_usual_layouts() {
        let named = ("pyproject.toml", "project.name = 'shop'");
        for (files, wanted) in [
            (vec![], vec![""]),
            (vec![("src/a.py", "")], vec!["src", ""]),
            (vec![("src/__init__.py", "")], vec![""]),
            (vec![("python/a.py", ""), ("src/a.py", "")], vec!["src", "python", ""]),
            (vec![named, ("shop/shop/a.py", "")], vec!["shop", ""]),
            (vec![named, ("shop/__init__.py", "")], vec![""]),
            (vec![("ty.toml", "src.root = 'code'"), ("code/a.py", "")], vec!["code", ""]),
            (vec![("ty.toml", "environment.root = ['x']"), ("x/a.py", "")], vec!["x"]),
        ] {
            let files = Files::new(&files);
            let wanted: Vec<SystemPathBuf> =
                wanted.into_iter().map(|path| files.path(path)).collect();
            assert_eq!(of(&files).importable.roots, wanted);
        }
    }

    #[test]
    fn the_version_is_configured_or_required_or_that_of_the_environment() {
        let venv = ".venv/lib/python3.11/site-packages/x.py";
        let requires = |text: &str| format!("[project]\nrequires-python = '{text}'\n");
        for (pyproject, has_environment, wanted) in [
            (String::new(), false, "3.14"),
            (String::new(), true, "3.11"),
            (requires(">=3.10,<4"), true, "3.10"),
            (requires(">3.12.1"), false, "3.12"),
            (requires("~=3.13"), false, "3.13"),
            (requires("==3.9.*"), false, "3.9"),
            (requires(">=2.7"), false, "3.7"),
            (requires("<3.12"), true, "3.11"),
            (requires(">=4"), true, "3.11"),
            (requires("nonsense"), false, "3.14"),
            (requires(">=3.10") + "[tool.ty]\nenvironment.python-version = '3.12'", true, "3.12"),
        ] {
            let mut all = vec![("pyproject.toml", pyproject.as_str())];
            all.extend(has_environment.then_some((venv, "")));
            let found = of(&Files::new(&all));
            assert_eq!(found.program.python_version.version.to_string(), wanted, "{pyproject}");
        }
        for broken in ["python-version = '3'", "python-version = '2.7'", "root = ['../x']"] {
            let files = Files::new(&[("ty.toml", &format!("environment.{broken}"))]);
            let project = Project::find(&files.workspace(), &files.path(""), None).unwrap();
            assert!(find(&project, &files.workspace()).is_err(), "{broken}");
        }
    }

    #[test]
    fn packages_of_a_virtual_environment_are_found() {
        for (files, paths) in [
            (vec![(".venv/lib/python3.12/site-packages/a.py", "")], 1),
            (vec![("venv/lib64/pypy3.10/site-packages/a.py", "")], 1),
            (vec![(".venv/lib/python3.12/a.py", "")], 0),
            (vec![(".venv/lib/other/site-packages/a.py", "")], 0),
            (
                vec![
                    ("env/lib/python3.13t/site-packages/a.py", ""),
                    ("ty.toml", "environment.python = 'env'"),
                ],
                1,
            ),
            (
                vec![
                    ("env/lib/python3.13/site-packages/a.py", ""),
                    ("ty.toml", "environment.python = 'env/bin/python'"),
                ],
                1,
            ),
        ] {
            let files = Files::new(&files);
            assert_eq!(of(&files).importable.packages.paths.len(), paths, "{files:?}");
        }
        let files = Files::new(&[("ty.toml", "environment.python = '/usr/bin/python3'")]);
        assert!(of(&files).notes[0].starts_with("environment.python: there is no environment"));
    }

    #[test]
    fn packages_that_may_be_elsewhere_are_told_from_missing_modules() {
        let venv = ".venv/lib/python3.12/site-packages/six.py";
        let system = (".venv/pyvenv.cfg", "home = /usr/bin\ninclude-system-site-packages = true\n");
        for (files, module, wanted) in [
            (vec![], "requests.adapters", Some("requests")),
            (vec![("shop/__init__.py", "")], "shop.missing", None),
            (vec![("src/shop.py", "")], "shop.missing", None),
            (vec![], "distutils.core", None),
            (vec![], "", None),
            (vec![], ".missing", None),
            (vec![(venv, "")], "requests", None),
            (vec![(venv, ""), system], "requests", Some("requests")),
        ] {
            let files = Files::new(&files);
            let found = of(&files);
            let elsewhere = found.importable.elsewhere(module, &found.program);
            assert_eq!(elsewhere.as_deref(), wanted, "{module}");
        }
        let files = Files::new(&[(venv, "")]);
        let link = files.path(".venv/lib/python3.12/site-packages/requests");
        std::os::unix::fs::symlink("/nonexistent", link.as_std_path()).unwrap();
        let found = of(&files);
        let elsewhere = found.importable.elsewhere("requests", &found.program);
        assert_eq!(elsewhere.as_deref(), Some("requests"));
    }
}
