//! The database of ty's engine: files, settings, and everything that is inferred from them. It lives
//! for one request.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use ruff_db::Db as SourceDb;
use ruff_db::diagnostic::Diagnostic;
use ruff_db::files::{File, FileRootKind, Files};
use ruff_db::parsed::parsed_module;
use ruff_db::system::{System, SystemPathBuf};
use ruff_db::vendored::VendoredFileSystem;
use ty_module_resolver::Db as ModuleResolverDb;
use ty_python_core::program::Program;
use ty_python_core::{Db as PythonCoreDb, ProgramFile};
use ty_python_semantic::lint::{LintRegistry, RuleSelection};
use ty_python_semantic::{
    AnalysisSettings, Db, PythonVersionWithSource, check_file_unwrap, default_lint_registry,
};

use crate::settings::{FileSettings, Settings};
use crate::system::Workspace;

/// The database of one request.
#[salsa::db]
#[derive(Clone)]
pub struct Database {
    storage: salsa::Storage<Self>,
    files: Files,
    system: Workspace,
    settings: Arc<Settings>,
    /// The files of which findings are wanted.
    checked: Arc<BTreeSet<SystemPathBuf>>,
}

impl Database {
    /// Makes a database for checking these files.
    pub fn new(
        system: Workspace,
        settings: Arc<Settings>,
        checked: Arc<BTreeSet<SystemPathBuf>>,
    ) -> Self {
        let storage = salsa::Storage::new(None);
        let db = Self { storage, files: Files::default(), system, settings, checked };
        // Nothing changes during a request, so that nothing has to be tracked.
        db.files.freeze();
        db.files.try_add_root(&db, db.system.root(), FileRootKind::Project);
        db.settings.program.search_paths.try_register_static_roots(&db);
        db
    }

    /// Sets the files of which findings are wanted, before any of them is read.
    pub fn checks_only(&mut self, files: BTreeSet<SystemPathBuf>) {
        self.checked = Arc::new(files);
    }

    /// Checks a file. Its syntax tree is freed afterwards.
    pub fn check(&self, file: File) -> Vec<Diagnostic> {
        let of_program = self.program_file(file);
        let diagnostics = check_file_unwrap(self, of_program);
        parsed_module(self, of_program.python_file(self)).clear();
        diagnostics
    }
}

impl fmt::Debug for Database {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Database").field("settings", &self.settings).finish_non_exhaustive()
    }
}

/// What the queries of this module need besides the engine's own.
#[salsa::db]
trait ProjectDb: Db {
    fn settings(&self) -> &Settings;
}

#[salsa::tracked(returns(copy))]
fn program(db: &dyn ProjectDb) -> Program<'_> {
    Program::from_settings(db, &db.settings().program)
}

#[salsa::tracked(returns(ref))]
fn settings_of(db: &dyn ProjectDb, file: File) -> Arc<FileSettings> {
    match file.path(db).as_system_path() {
        Some(path) => db.settings().of(path),
        None => Arc::clone(&db.settings().base),
    }
}

#[salsa::db]
impl ProjectDb for Database {
    fn settings(&self) -> &Settings {
        &self.settings
    }
}

#[salsa::db]
impl SourceDb for Database {
    fn vendored(&self) -> &VendoredFileSystem {
        ty_vendored::file_system()
    }

    fn system(&self) -> &dyn System {
        &self.system
    }

    fn files(&self) -> &Files {
        &self.files
    }
}

#[salsa::db]
impl ModuleResolverDb for Database {}

#[salsa::db]
impl PythonCoreDb for Database {
    fn should_check_file(&self, file: File) -> bool {
        let path = file.path(self).as_system_path();
        path.is_some_and(|path| self.checked.contains(path))
    }
}

#[salsa::db]
impl Db for Database {
    fn check_file(&self, file: File) -> Vec<Diagnostic> {
        if self.should_check_file(file) { self.check(file) } else { Vec::new() }
    }

    fn program_file(&self, file: File) -> ProgramFile<'_> {
        program(self).program_file(self, file)
    }

    fn python_version_with_source(&self, _: File) -> &PythonVersionWithSource {
        &self.settings.program.python_version
    }

    fn rule_selection(&self, file: File) -> &RuleSelection {
        &settings_of(self, file).rules
    }

    fn lint_registry(&self) -> &LintRegistry {
        default_lint_registry()
    }

    fn analysis_settings(&self, file: File) -> &AnalysisSettings {
        &settings_of(self, file).analysis
    }

    fn verbose(&self) -> bool {
        false
    }

    fn is_open_file(&self, _: File) -> bool {
        false
    }

    fn dyn_clone(&self) -> Box<dyn Db> {
        Box::new(self.clone())
    }
}

#[salsa::db]
impl salsa::Database for Database {}
