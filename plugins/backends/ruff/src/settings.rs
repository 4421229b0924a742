//! Finds the settings of a file: those of the nearest configuration above it.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use anyhow::{Result, bail};
use ruff_linter::UnresolvedRuleSelector;
use ruff_linter::settings::types::PreviewMode;
use ruff_workspace::Settings;
use ruff_workspace::configuration::{Configuration, RuleSelection};
use ruff_workspace::pyproject::{find_fallback_target_version, settings_toml};
use ruff_workspace::resolver::{
    ConfigurationOrigin, ConfigurationTransformer, resolve_root_settings,
};

/// The settings of all directories in a workspace. Each configuration is read once.
pub struct Hierarchy {
    workspace: PathBuf,
    base: Rc<Settings>,
    /// `None` if the request names a configuration, which then applies to all files.
    by_directory: Option<HashMap<PathBuf, Rc<Settings>>>,
    selection: Selection,
}

impl Hierarchy {
    /// Reads the configuration for `root`: `config`, or else the nearest one, or else ruff's
    /// defaults.
    ///
    /// # Errors
    /// A configuration can't be read, or a selected code is unknown.
    pub fn load(
        workspace: &Path,
        root: &Path,
        config: Option<&Path>,
        select: &[String],
    ) -> Result<Self> {
        let selection = Selection::new(select)?;
        if let Some(config) = config {
            let settings =
                resolve_root_settings(config, &selection, ConfigurationOrigin::UserSpecified)?;
            return Ok(Self {
                workspace: workspace.to_owned(),
                base: Rc::new(settings),
                by_directory: None,
                selection,
            });
        }
        let defaults = Rc::new(defaults(root, &selection)?);
        let mut hierarchy = Self {
            workspace: workspace.to_owned(),
            base: defaults,
            by_directory: Some(HashMap::new()),
            selection,
        };
        hierarchy.base = hierarchy.of_directory(root)?;
        // Directories above `root` that have been read keep the defaults; elsewhere those of `root`
        // apply.
        hierarchy.by_directory = Some(HashMap::new());
        Ok(hierarchy)
    }

    /// The settings for the directory in which ruff runs.
    pub fn base(&self) -> &Settings {
        &self.base
    }

    /// The settings of a file, or of a directory as an entry of another.
    ///
    /// # Errors
    /// A configuration can't be read.
    pub fn of(&mut self, path: &Path) -> Result<Rc<Settings>> {
        self.of_directory(path.parent().unwrap_or(path))
    }

    fn of_directory(&mut self, directory: &Path) -> Result<Rc<Settings>> {
        let Some(by_directory) = &mut self.by_directory else {
            return Ok(Rc::clone(&self.base));
        };
        let mut found = Rc::clone(&self.base);
        let mut unknown = Vec::new();
        for ancestor in directory.ancestors().take_while(|path| path.starts_with(&self.workspace)) {
            if let Some(settings) = by_directory.get(ancestor) {
                found = Rc::clone(settings);
                break;
            }
            unknown.push(ancestor);
            if let Some(file) = settings_toml(ancestor)? {
                let origin = ConfigurationOrigin::Ancestor;
                found = Rc::new(resolve_root_settings(&file, &self.selection, origin)?);
                break;
            }
        }
        by_directory.extend(unknown.into_iter().map(|path| (path.to_owned(), Rc::clone(&found))));
        Ok(found)
    }
}

/// Ruff's settings without a configuration; `requires-python` of a project is used nevertheless.
fn defaults(root: &Path, selection: &Selection) -> Result<Settings> {
    let mut configuration = selection.transform(Configuration::default());
    configuration.target_version = find_fallback_target_version(root).map(Into::into);
    configuration.into_settings(root)
}

/// The rules that a request selects instead of those of the configuration.
struct Selection(Option<Vec<UnresolvedRuleSelector>>);

impl Selection {
    fn new(codes: &[String]) -> Result<Self> {
        let selectors: Vec<_> = codes.iter().map(UnresolvedRuleSelector::cli).collect();
        for (selector, code) in selectors.iter().zip(codes) {
            // Ruff itself only warns about an unknown code.
            if selector.resolve(PreviewMode::Enabled).is_err() {
                bail!("select: ruff has no rule '{code}', and none that begins so");
            }
        }
        Ok(Self((!selectors.is_empty()).then_some(selectors)))
    }
}

impl ConfigurationTransformer for Selection {
    fn transform(&self, mut configuration: Configuration) -> Configuration {
        configuration
            .lint
            .rule_selections
            .push(RuleSelection { select: self.0.clone(), ..RuleSelection::default() });
        configuration
    }
}
