//! Lints files one after the other.

use std::collections::{BTreeSet, HashMap};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use anyhow::Result;
use cofferdam_sdk::backend::parts::Part;
use ruff_db::diagnostic::Diagnostic;
use ruff_linter::linter::{ParseSource, lint_only};
use ruff_linter::package::PackageRoot;
use ruff_linter::packaging::detect_package_root;
use ruff_linter::registry::Rule;
use ruff_linter::settings::{LinterSettings, flags};
use ruff_linter::source_kind::SourceKind;
use ruff_linter::toml::lint_toml;
use ruff_linter::{IOError, Violation as _};
use ruff_python_ast::{PySourceType, SourceType, TomlSourceType};
use ruff_source_file::SourceFileBuilder;
use ruff_text_size::TextRange;
use ruff_workspace::resolver::match_exclusion;

use crate::files::File;
use crate::nesting;
use crate::settings::Hierarchy;

/// A linted file with its diagnostics.
pub struct Checked {
    /// The path under which this process opened it.
    pub path: PathBuf,
    /// The diagnostics of ruff.
    pub diagnostics: Vec<Diagnostic>,
    /// Why it could not be read, if the settings disable the finding for that.
    pub unread: Option<io::Error>,
}

/// Lints a part of the given files, each with its own settings. `take` gets each file's diagnostics before the
/// next file is linted, so that not all of them are in memory at once.
///
/// # Errors
/// A configuration file is invalid.
pub fn check(
    files: &[File],
    part: Part,
    settings: &mut Hierarchy,
    mut take: impl FnMut(Checked),
) -> Result<()> {
    let packages = Packages::of(files, settings)?;
    for file in part.of(files) {
        let settings = settings.of(&file.path)?;
        let is_excluded = (settings.file_resolver.force_exclude || !file.named)
            && match_exclusion(
                &file.path,
                file.path.file_name().unwrap_or_default(),
                &settings.linter.exclude,
            );
        let Some(source_type) = lintable(&file.path, &settings.linter) else { continue };
        if !is_excluded {
            take(check_file(&file.path, source_type, &settings.linter, &packages));
        }
    }
    Ok(())
}

/// The source type if ruff lints such files. It only formats Markdown.
fn lintable(path: &Path, settings: &LinterSettings) -> Option<SourceType> {
    let is_supported = |source_type: &SourceType| {
        matches!(
            source_type,
            SourceType::Python(PySourceType::Python | PySourceType::Stub)
                | SourceType::Toml(TomlSourceType::Pyproject | TomlSourceType::Ruff)
        )
    };
    is_supported(&SourceType::from(path))
        .then(|| settings.extension.get_source_type(path))
        .filter(is_supported)
}

fn check_file(
    path: &Path,
    source_type: SourceType,
    settings: &LinterSettings,
    packages: &Packages,
) -> Checked {
    let checked = |diagnostics| Checked { path: path.to_owned(), diagnostics, unread: None };
    let code = fs::read_to_string(path).and_then(|code| match source_type {
        SourceType::Python(_) => nesting::checked(code),
        _ => Ok(code),
    });
    let code = match code {
        Ok(code) => code,
        Err(error) if settings.rules.enabled(Rule::IOError) => {
            let nothing = SourceFileBuilder::new(path.to_string_lossy(), "").finish();
            let violation = IOError { message: error.to_string() };
            return checked(vec![violation.into_diagnostic(TextRange::default(), &nothing)]);
        }
        Err(error) => return Checked { unread: Some(error), ..checked(Vec::new()) },
    };
    checked(match source_type {
        SourceType::Toml(source_type) => lint_toml(path, &code, settings, source_type),
        SourceType::Python(source_type) => {
            let source = SourceKind::Python { code, is_stub: source_type.is_stub() };
            let noqa = flags::Noqa::Enabled;
            let package = packages.root(path);
            lint_only(path, package, settings, noqa, &source, source_type, ParseSource::None)
                .diagnostics
        }
        SourceType::Markdown => Vec::new(),
    })
}

/// The outermost Python packages that contain the files.
struct Packages {
    by_directory: HashMap<PathBuf, PathBuf>,
    /// The packages that are nested in others.
    nested: BTreeSet<PathBuf>,
}

impl Packages {
    fn of(files: &[File], settings: &mut Hierarchy) -> Result<Self> {
        let mut by_directory = HashMap::new();
        let mut visited = BTreeSet::new();
        for file in files {
            let Some(directory) = file.path.parent() else { continue };
            if visited.insert(directory) {
                let settings = settings.of(&file.path)?;
                let namespaces = &settings.linter.namespace_packages;
                if let Some(root) = detect_package_root(directory, namespaces) {
                    by_directory.insert(directory.to_owned(), root.to_owned());
                }
            }
        }
        let roots: BTreeSet<PathBuf> = by_directory.values().cloned().collect();
        let lies_in_another =
            |root: &PathBuf| root.ancestors().skip(1).any(|ancestor| roots.contains(ancestor));
        let nested = roots.iter().filter(|root| lies_in_another(root)).cloned().collect();
        Ok(Self { by_directory, nested })
    }

    fn root(&self, file: &Path) -> Option<PackageRoot<'_>> {
        let root = self.by_directory.get(file.parent()?)?;
        Some(if self.nested.contains(root) {
            PackageRoot::nested(root)
        } else {
            PackageRoot::root(root)
        })
    }
}
