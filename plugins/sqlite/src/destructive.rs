//! Statements that drop or empty tables, which need consent of the class `drop`.

use std::collections::BTreeSet;

use cofferdam_sdk::{ToolError, consent};
use rusqlite::Connection;
use rusqlite::hooks::AuthAction;

use crate::schema::quoted;

/// The class in the manifest.
const CLASS: &str = "drop";

/// What the latest statement that was prepared does, as SQLite's authorizer is told.
#[derive(Debug, Default)]
pub struct Actions {
    dropped: BTreeSet<String>,
    deleted: BTreeSet<String>,
}

impl Actions {
    /// Notes an action.
    pub fn note(&mut self, action: &AuthAction<'_>) {
        match action {
            AuthAction::DropTable { table_name } | AuthAction::DropVtable { table_name, .. } => {
                self.dropped.insert((*table_name).to_owned());
            }
            AuthAction::Delete { table_name } if !table_name.starts_with("sqlite_") => {
                self.deleted.insert((*table_name).to_owned());
            }
            _ => {}
        }
    }

    /// Asks for consent to drop tables. Returns those with rows of which the statement deletes some.
    ///
    /// # Errors
    /// `ConsentRefused`.
    pub fn begin(self, connection: &Connection, path: &str) -> Result<Vec<String>, ToolError> {
        let Self { dropped, mut deleted } = self;
        for table in dropped {
            consent::request(CLASS, &format!("{path}: {table}"))?;
            deleted.remove(&table);
        }
        Ok(deleted.into_iter().filter(|table| has_rows(connection, table)).collect())
    }
}

/// Asks for consent to have emptied these tables.
///
/// # Errors
/// `ConsentRefused`: then nothing that the call has changed is kept.
pub fn end(connection: &Connection, path: &str, tables: &[String]) -> Result<(), ToolError> {
    let mut emptied = tables.iter().filter(|table| !has_rows(connection, table));
    emptied.try_for_each(|table| consent::request(CLASS, &format!("{path}: {table}")))
}

fn has_rows(connection: &Connection, table: &str) -> bool {
    let sql = format!("SELECT EXISTS (SELECT 1 FROM {})", quoted(table));
    connection.query_row(&sql, [], |row| row.get(0)).unwrap_or(false)
}
