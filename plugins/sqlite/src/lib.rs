//! The `sqlite` plugin: queries and changes SQLite databases, by SQLite itself.
//!
//! [`database`] opens a file and decides what statements may do, [`destructive`] asks for consent to drop
//! tables, [`rows`] turns values into JSON and [`schema`] describes tables.

pub mod database;
pub mod destructive;
pub mod rows;
pub mod schema;

use cofferdam_sdk::{Context, ToolError, plugin};
use rusqlite::Batch;
use rusqlite::fallible_iterator::FallibleIterator as _;
use serde::{Deserialize, Serialize};

use self::database::{Database, Purpose};
use self::rows::{Page, Params};
use self::schema::Table;

/// How many rows are returned if the caller does not say it.
const DEFAULT_ROWS: usize = 100;

/// The arguments of `query_database`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Query {
    /// The file of the database.
    pub path: String,
    /// One statement.
    pub sql: String,
    /// The values of its parameters.
    #[serde(default)]
    pub params: Params,
    /// The most rows to return.
    pub limit: Option<usize>,
    /// How many rows to skip.
    #[serde(default)]
    pub offset: usize,
}

/// The arguments of `execute_sql`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Execute {
    /// The file of the database.
    pub path: String,
    /// The statements.
    pub sql: String,
    /// The values of the parameters of a single statement.
    #[serde(default)]
    pub params: Params,
    /// Whether the file may be missing.
    #[serde(default)]
    pub create: bool,
}

/// The result of `execute_sql`.
#[derive(Debug, Serialize)]
pub struct Executed {
    /// How many statements were run.
    pub statements: usize,
    /// How many rows were inserted, updated and deleted.
    pub changed_rows: u64,
    /// The rowid of the last row that was inserted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_insert_rowid: Option<i64>,
    /// What the last statement that returns rows has returned.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub returned: Option<Page>,
}

/// The arguments of `describe_database`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Describe {
    /// The file of the database.
    pub path: String,
    /// Only this table or view.
    pub table: Option<String>,
    /// How many tables to skip.
    #[serde(default)]
    pub offset: usize,
}

/// The result of `describe_database`.
#[derive(Debug, Serialize)]
pub struct Described {
    /// The tables and views, sorted by name.
    pub tables: Vec<Table>,
    /// How many there are.
    pub total: usize,
    /// The offset to go on with.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next: Option<usize>,
}

/// The plugin: each function is a tool.
pub struct Sqlite;

impl Sqlite {
    /// Runs one statement that only reads.
    ///
    /// # Errors
    /// Those of [`Database::open`], [`Params::bind`] and [`rows::page`]; `StatementNotAllowed`,
    /// `SqlError`, `QueryTimeout` and others of SQLite.
    fn query_database(args: Query, context: &Context) -> Result<Page, ToolError> {
        let database = Database::open(context, &args.path, Purpose::Read)?;
        let error = |why: &rusqlite::Error| database.error(why);
        let mut statement = database.connection.prepare(&args.sql).map_err(|why| error(&why))?;
        args.params.bind(&mut statement)?;
        rows::page(&mut statement, (args.offset, args.limit.unwrap_or(DEFAULT_ROWS)), &error)
    }

    /// Runs statements that change a database.
    ///
    /// # Errors
    /// As [`Self::query_database`]; `TransactionOpen`; `ConsentRefused` for tables that are dropped or
    /// emptied.
    fn execute_sql(args: Execute, context: &Context) -> Result<Executed, ToolError> {
        let purpose = if args.create { Purpose::Create } else { Purpose::Write };
        let database = Database::open(context, &args.path, purpose)?;
        let error = |why: &rusqlite::Error| database.error(why);
        let before = database.connection.total_changes();
        let mut executed =
            Executed { statements: 0, changed_rows: 0, last_insert_rowid: None, returned: None };
        let (connection, path) = (&database.connection, database.path().as_str());
        let mut batch = Batch::new(&database.connection, &args.sql);
        while let Some(mut statement) = batch.next().map_err(|why| error(&why))? {
            executed.statements += 1;
            args.params.bind(&mut statement)?;
            let tables = database.actions().begin(connection, path)?;
            let page = rows::page(&mut statement, (0, DEFAULT_ROWS), &error)?;
            destructive::end(connection, path, &tables)?;
            if statement.column_count() > 0 {
                executed.returned = Some(page);
            }
            // What SQLite did meanwhile is not part of the next statement.
            drop(database.actions());
        }
        executed.changed_rows = database.connection.total_changes() - before;
        let rowid = database.connection.last_insert_rowid();
        executed.last_insert_rowid = (rowid != 0).then_some(rowid);
        database.finish()?;
        Ok(executed)
    }

    /// Describes tables and views.
    ///
    /// # Errors
    /// Those of [`Database::open`] and of SQLite; `TableNotFound`.
    fn describe_database(args: Describe, context: &Context) -> Result<Described, ToolError> {
        let database = Database::open(context, &args.path, Purpose::Read)?;
        let described = schema::describe(&database.connection, args.table.as_deref(), args.offset);
        let (tables, total) = described.map_err(|why| database.error(&why))?;
        if let Some(table) = args.table.filter(|_| total == 0) {
            let message = format!("{} has no table or view '{table}'", database.path());
            return Err(ToolError::not_found("TableNotFound", message));
        }
        let end = args.offset + tables.len();
        Ok(Described { tables, total, next: (end < total).then_some(end) })
    }
}

plugin!(Sqlite { query_database, execute_sql, describe_database });
