//! Opening a database: what is refused, and what a statement may do.
//!
//! SQLite reads and writes the file itself, through the host's files. It can't see the locks of programs
//! outside. So a database is refused when the files beside it show that another program has it open.

use std::io::Read as _;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use std::{fs, io};

use cofferdam_sdk::{Context, ToolError, WorkspacePath};
use rusqlite::config::DbConfig;
use rusqlite::hooks::{AuthAction, AuthContext, Authorization};
use rusqlite::limits::Limit;
use rusqlite::types::ValueRef;
use rusqlite::{Connection, Error, ErrorCode, OpenFlags};

use crate::destructive::Actions;

/// How a database file begins (SQLite's file format, "The Database Header").
const MAGIC: &[u8] = b"SQLite format 3\0";

/// The length of the header of a database, in bytes.
const HEADER_BYTES: usize = 100;

/// SQLite's own files on a system without locks.
const VFS: &str = "unix-none";

/// How much memory SQLite allocates at most, in bytes: less than an instance has.
const HEAP_BYTES: usize = 160 << 20;

/// The largest text or blob, in bytes.
const MAX_VALUE_BYTES: i32 = 32 << 20;

/// How many steps of SQLite's machine pass between two looks at the clock.
const STEPS: i32 = 100_000;

/// Pragmas that only return something.
const READING: [&str; 26] = [
    "application_id",
    "auto_vacuum",
    "collation_list",
    "compile_options",
    "data_version",
    "database_list",
    "encoding",
    "foreign_key_check",
    "foreign_key_list",
    "foreign_keys",
    "freelist_count",
    "function_list",
    "index_info",
    "index_list",
    "index_xinfo",
    "integrity_check",
    "journal_mode",
    "max_page_count",
    "page_count",
    "page_size",
    "quick_check",
    "schema_version",
    "table_info",
    "table_list",
    "table_xinfo",
    "user_version",
];

/// Pragmas whose value is the name of a table or an index, or a number of errors.
const WITH_NAME: [&str; 9] = [
    "foreign_key_check",
    "foreign_key_list",
    "index_info",
    "index_list",
    "index_xinfo",
    "integrity_check",
    "quick_check",
    "table_info",
    "table_xinfo",
];

/// Pragmas that `execute_sql` may set.
const SETTABLE: [&str; 8] = [
    "application_id",
    "auto_vacuum",
    "defer_foreign_keys",
    "encoding",
    "foreign_keys",
    "page_size",
    "recursive_triggers",
    "user_version",
];

/// What a database is opened for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// Reading the database only.
    Read,
    /// Reading and writing an existing database.
    Write,
    /// Reading and writing. The file is created if it does not exist.
    Create,
}

/// An open database.
pub struct Database {
    /// The connection, which has no other database attached.
    pub connection: Connection,
    path: WorkspacePath,
    noted: Arc<Mutex<Noted>>,
}

/// What SQLite's authorizer was told.
#[derive(Default)]
struct Noted {
    /// What was not allowed.
    refused: Option<String>,
    actions: Actions,
}

impl Database {
    /// Opens the database at a path that the caller wrote.
    ///
    /// # Errors
    /// Those of [`Context::resolve`] and [`ToolError::io`]; `NotADatabase`; `DatabaseInUse` if the files
    /// beside it show that another program has it open.
    pub fn open(context: &Context, path: &str, purpose: Purpose) -> Result<Self, ToolError> {
        let path = context.resolve(path)?;
        let file = context.local(&path);
        let is_wal = match header(&file) {
            Ok(header) => check_header(&path, &header)?,
            Err(error) if purpose == Purpose::Create && error.kind() == io::ErrorKind::NotFound => {
                false
            }
            Err(error) => return Err(ToolError::io(&path.to_string(), &error)),
        };
        let has_log = check_others(context, &path, purpose)?;
        let is_immutable = purpose == Purpose::Read && !has_log;
        let flags = match purpose {
            Purpose::Read => OpenFlags::SQLITE_OPEN_READ_ONLY,
            Purpose::Write => OpenFlags::SQLITE_OPEN_READ_WRITE,
            Purpose::Create => OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE,
        };
        let flags = flags | OpenFlags::SQLITE_OPEN_URI;
        let opened = Connection::open_with_flags_and_vfs(uri(&file, is_immutable), flags, VFS);
        let noted = Arc::default();
        let error = |error| failure(&path, &noted, &error);
        let mut connection = opened.map_err(error)?;
        configure(&connection, is_wal).map_err(error)?;
        if !has_text_names(&connection).map_err(error)? {
            let message = format!("{path} is damaged: its schema is not UTF-8");
            return Err(ToolError::invalid_args("DatabaseCorrupt", message));
        }
        let time = Duration::from_millis(context.timeout_ms(None, Duration::ZERO).into());
        let until = Instant::now() + time;
        let is_over = move || Instant::now() > until;
        connection.progress_handler(STEPS, Some(is_over)).map_err(error)?;
        let told = Arc::clone(&noted);
        let authorize = move |action: AuthContext<'_>| match allowed(&action.action, purpose) {
            Ok(()) => {
                lock(&told).actions.note(&action.action);
                Authorization::Allow
            }
            Err(why) => {
                lock(&told).refused.get_or_insert(why);
                Authorization::Deny
            }
        };
        connection.authorizer(Some(authorize)).map_err(error)?;
        Ok(Self { connection, path, noted })
    }

    /// The path in the workspace.
    pub fn path(&self) -> &WorkspacePath {
        &self.path
    }

    /// Makes an error of SQLite an error of the tool.
    pub fn error(&self, error: &Error) -> ToolError {
        failure(&self.path, &self.noted, error)
    }

    /// Takes what the statements that were prepared since the last time do.
    pub fn actions(&self) -> Actions {
        std::mem::take(&mut lock(&self.noted).actions)
    }

    /// Closes a database that was changed.
    ///
    /// # Errors
    /// `TransactionOpen` if a transaction was begun and not ended; those of SQLite.
    pub fn finish(self) -> Result<(), ToolError> {
        let Self { connection, path, noted } = self;
        if !connection.is_autocommit() {
            let message = "the statements begin a transaction and don't end it; add COMMIT";
            return Err(ToolError::invalid_args("TransactionOpen", message));
        }
        connection.close().map_err(|(_, error)| failure(&path, &noted, &error))
    }
}

/// The first bytes of a file.
fn header(file: &PathBuf) -> io::Result<Vec<u8>> {
    let file = fs::File::open(file)?;
    if file.metadata()?.is_dir() {
        return Err(io::ErrorKind::IsADirectory.into());
    }
    let mut header = Vec::new();
    file.take(HEADER_BYTES as u64).read_to_end(&mut header)?;
    Ok(header)
}

/// Whether the database has a write-ahead log. An empty file is an empty database.
fn check_header(path: &WorkspacePath, header: &[u8]) -> Result<bool, ToolError> {
    if header.is_empty() {
        return Ok(false);
    }
    if header.len() < HEADER_BYTES || !header.starts_with(MAGIC) {
        let message = format!(
            "{path} is no SQLite database: it does not begin with \"SQLite format 3\"; an encrypted \
             database can't be read either"
        );
        return Err(ToolError::invalid_args("NotADatabase", message));
    }
    Ok(header[18] == 2 || header[19] == 2)
}

/// Looks for the files that programs keep beside an open database. Returns whether there is a
/// write-ahead log to read.
fn check_others(
    context: &Context,
    path: &WorkspacePath,
    purpose: Purpose,
) -> Result<bool, ToolError> {
    let beside = |suffix: &str| -> Result<Vec<u8>, ToolError> {
        let name = format!("{path}{suffix}");
        match header(&context.local(&context.resolve(&name)?)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
            found => found.map_err(|error| ToolError::io(&name, &error)),
        }
    };
    let in_use = |suffix: &str, remedy: &str| {
        let message = format!(
            "another program has {path} open, or has crashed with it: there is {path}{suffix}. {remedy}"
        );
        Err(ToolError::conflict("DatabaseInUse", message))
    };
    // A journal that is kept for the next transaction begins with zeros.
    if beside("-journal")?.first().is_some_and(|first| *first != 0) {
        return in_use("-journal", "Wait for it, or open the database with `sqlite3` once");
    }
    let has_log = !beside("-wal")?.is_empty();
    if has_log && purpose != Purpose::Read {
        return in_use(
            "-wal",
            "Stop it, and open the database with `sqlite3` once if the file stays; reading is possible",
        );
    }
    Ok(has_log)
}

/// A file as a URI (RFC 3986).
fn uri(file: &std::path::Path, is_immutable: bool) -> String {
    let mut uri = String::from("file:");
    for byte in file.to_string_lossy().bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'/' | b'.' | b'-' | b'_' => {
                uri.push(char::from(byte));
            }
            other => uri.push_str(&format!("%{other:02X}")),
        }
    }
    uri + if is_immutable { "?immutable=1" } else { "" }
}

/// Closes what a database or a statement could use to reach further.
fn configure(connection: &Connection, is_wal: bool) -> Result<(), Error> {
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_DEFENSIVE, true)?;
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_TRUSTED_SCHEMA, false)?;
    connection.set_limit(Limit::SQLITE_LIMIT_LENGTH, MAX_VALUE_BYTES)?;
    // VACUUM attaches a database in memory.
    connection.set_limit(Limit::SQLITE_LIMIT_ATTACHED, 1)?;
    // The index of a write-ahead log is in memory: there is no other process to share it with.
    connection.pragma_update(None, "locking_mode", "EXCLUSIVE")?;
    connection.pragma_update(None, "temp_store", "MEMORY")?;
    connection.pragma_update(None, "hard_heap_limit", HEAP_BYTES as i64)?;
    connection.pragma_update(None, "cell_size_check", true)?;
    // The host's transaction replaces the journal on the disk and syncing.
    connection.pragma_update(None, "synchronous", "OFF")?;
    if !is_wal {
        connection.pragma_update(None, "journal_mode", "MEMORY")?;
    }
    Ok(())
}

/// Whether the names in the schema are text: rusqlite can't pass on others.
fn has_text_names(connection: &Connection) -> Result<bool, Error> {
    let mut statement = connection.prepare("SELECT name, tbl_name, sql FROM sqlite_schema")?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        for column in 0..3 {
            if let ValueRef::Text(text) = row.get_ref(column)?
                && std::str::from_utf8(text).is_err()
            {
                return Ok(false);
            }
        }
    }
    Ok(true)
}

/// Whether a statement may do this.
///
/// # Errors
/// What it may not do.
fn allowed(action: &AuthAction<'_>, purpose: Purpose) -> Result<(), String> {
    use AuthAction::{Attach, Detach, Function, Pragma, Read, Recursive, Select, Unknown};
    let writes = purpose != Purpose::Read;
    match action {
        Read { .. } | Select | Recursive => Ok(()),
        Pragma { pragma_name, pragma_value } => {
            let name = pragma_name.to_ascii_lowercase();
            let has = |names: &[&str]| names.contains(&name.as_str());
            match pragma_value {
                None if has(&READING) => Ok(()),
                Some(_) if has(&WITH_NAME) || (writes && has(&SETTABLE)) => Ok(()),
                None => Err(format!("PRAGMA {name}")),
                Some(_) => Err(format!("setting PRAGMA {name}")),
            }
        }
        Function { function_name } if function_name.eq_ignore_ascii_case("load_extension") => {
            Err("load_extension".to_owned())
        }
        Function { .. } => Ok(()),
        // What VACUUM does.
        Attach { filename: "" } | Detach { database_name: "vacuum_db" } if writes => Ok(()),
        Attach { .. } | Detach { .. } => Err("ATTACH, DETACH or VACUUM INTO".to_owned()),
        Unknown { code, .. } => Err(format!("a statement of an unknown kind ({code})")),
        _ if writes => Ok(()),
        _ => Err("changing the database; execute_sql does that".to_owned()),
    }
}

fn lock(noted: &Mutex<Noted>) -> MutexGuard<'_, Noted> {
    noted.lock().unwrap_or_else(PoisonError::into_inner)
}

fn failure(path: &WorkspacePath, noted: &Mutex<Noted>, error: &Error) -> ToolError {
    let why = error.to_string();
    match error.sqlite_error_code() {
        Some(ErrorCode::AuthorizationForStatementDenied) => {
            let what = lock(noted).refused.take().unwrap_or(why);
            ToolError::denied("StatementNotAllowed", format!("this tool does not allow {what}"))
        }
        Some(ErrorCode::OperationInterrupted) => {
            let message = "the statement takes longer than a call may; it was stopped";
            ToolError::limit("QueryTimeout", message)
        }
        Some(ErrorCode::OutOfMemory) => ToolError::limit(
            "OutOfMemory",
            format!("the statement needs more than {} MiB of memory", HEAP_BYTES >> 20),
        ),
        Some(ErrorCode::TooBig) => ToolError::limit(
            "ValueTooLarge",
            format!("{why}; at most {} MiB", MAX_VALUE_BYTES >> 20),
        ),
        Some(ErrorCode::DatabaseCorrupt) => {
            ToolError::invalid_args("DatabaseCorrupt", format!("{path} is damaged: {why}"))
        }
        Some(ErrorCode::NotADatabase) => {
            ToolError::invalid_args("NotADatabase", format!("{path} is no SQLite database: {why}"))
        }
        Some(ErrorCode::ConstraintViolation) => ToolError::conflict("ConstraintFailed", why),
        Some(
            ErrorCode::SystemIoFailure
            | ErrorCode::CannotOpen
            | ErrorCode::ReadOnly
            | ErrorCode::DiskFull
            | ErrorCode::PermissionDenied,
        ) => match ToolError::io(&path.to_string(), &io::ErrorKind::PermissionDenied.into()) {
            // The host has refused nothing.
            error if error.message.ends_with(&path.to_string()) => {
                ToolError::failed("OSError", format!("{path}: {why}"))
            }
            refusal => refusal,
        },
        _ => ToolError::invalid_args("SqlError", why),
    }
}
