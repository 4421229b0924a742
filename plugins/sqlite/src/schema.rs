//! What a database holds: tables and views with their columns, indexes, foreign keys and rows.

use std::time::{Duration, Instant};

use cofferdam_sdk::answer::item_bytes;
use rusqlite::{Connection, Error, OptionalExtension as _, Row};
use serde::Serialize;

use crate::rows::ANSWER_BYTES;

/// How long rows are counted.
const COUNTING: Duration = Duration::from_secs(5);

/// A table or a view.
#[derive(Debug, Serialize)]
pub struct Table {
    /// Its name.
    pub name: String,
    /// `table`, `view`, `virtual` or `shadow`.
    #[serde(rename = "type")]
    pub kind: String,
    /// How many rows it has; `None` if it was not counted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rows: Option<i64>,
    /// Its columns, as SQL: name, type and constraints.
    pub columns: Vec<String>,
    /// Its indexes, as SQL.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub indexes: Vec<String>,
    /// Its foreign keys, as SQL.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub foreign_keys: Vec<String>,
    /// Its triggers.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub triggers: Vec<String>,
    /// The statement that creates it, if one table was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sql: Option<String>,
}

/// Describes the tables from `offset` on that fit in an answer; `only`: this one. Returns how many there
/// are as well.
///
/// # Errors
/// Those of SQLite.
pub fn describe(
    connection: &Connection,
    only: Option<&str>,
    offset: usize,
) -> Result<(Vec<Table>, usize), Error> {
    let names = all(
        connection,
        "SELECT name, type FROM pragma_table_list WHERE schema = 'main' AND name NOT LIKE 'sqlite_%' \
         AND (?1 IS NULL OR name = ?1 COLLATE NOCASE) ORDER BY name",
        [only],
        |row| Ok((row.get(0)?, row.get(1)?)),
    )?;
    let (began, total) = (Instant::now(), names.len());
    let (mut tables, mut room) = (Vec::new(), ANSWER_BYTES);
    for (name, kind) in names.into_iter().skip(offset) {
        let mut table = table(connection, name, kind)?;
        if table.kind != "view" && began.elapsed() < COUNTING {
            let count = format!("SELECT count(*) FROM {}", quoted(&table.name));
            // A virtual table of a module that is missing has no rows to count.
            table.rows = connection.query_row(&count, [], |row| row.get(0)).ok();
        }
        if only.is_some() {
            let sql = "SELECT substr(sql, 1, 8000) FROM sqlite_schema WHERE name = ?1";
            table.sql = connection.query_row(sql, [&table.name], |row| row.get(0)).optional()?;
        }
        match room.checked_sub(item_bytes(&table)) {
            Some(left) => room = left,
            None if tables.is_empty() => {
                table.columns.truncate(100);
                table.indexes.truncate(20);
                table.foreign_keys.truncate(20);
                table.triggers.truncate(20);
                return Ok((vec![table], total));
            }
            None => break,
        }
        tables.push(table);
    }
    Ok((tables, total))
}

fn table(connection: &Connection, name: String, kind: String) -> Result<Table, Error> {
    let columns = all(
        connection,
        "SELECT name, type, \"notnull\", dflt_value, pk FROM pragma_table_xinfo(?1) WHERE hidden <> 1",
        [&name],
        |row| {
            let mut column = format!("{} {}", short(row, 0)?, short(row, 1)?);
            column.push_str(if row.get(2)? { " NOT NULL" } else { "" });
            if row.get::<_, Option<String>>(3)?.is_some() {
                column.push_str(&format!(" DEFAULT {}", short(row, 3)?));
            }
            column.push_str(if row.get::<_, i64>(4)? > 0 { " PRIMARY KEY" } else { "" });
            Ok(column)
        },
    )?;
    let indexes = all(
        connection,
        "SELECT l.name, l.\"unique\", (SELECT group_concat(coalesce(name, '(expression)'), ', ') \
         FROM pragma_index_info(l.name)) FROM pragma_index_list(?1) AS l",
        [&name],
        |row| {
            let unique = if row.get(1)? { "UNIQUE " } else { "" };
            Ok(format!("{unique}{} ({})", short(row, 0)?, short(row, 2)?))
        },
    )?;
    let foreign_keys = all(
        connection,
        "SELECT \"from\", \"table\", coalesce(\"to\", '') FROM pragma_foreign_key_list(?1)",
        [&name],
        |row| Ok(format!("{} REFERENCES {} ({})", short(row, 0)?, short(row, 1)?, short(row, 2)?)),
    )?;
    let triggers = "SELECT name FROM sqlite_schema WHERE type = 'trigger' AND tbl_name = ?1";
    let triggers = all(connection, triggers, [&name], |row| short(row, 0))?;
    Ok(Table { name, kind, rows: None, columns, indexes, foreign_keys, triggers, sql: None })
}

fn all<T>(
    connection: &Connection,
    sql: &str,
    parameters: impl rusqlite::Params,
    read: impl FnMut(&Row<'_>) -> Result<T, Error>,
) -> Result<Vec<T>, Error> {
    connection.prepare(sql)?.query_map(parameters, read)?.collect()
}

/// The beginning of a text.
fn short(row: &Row<'_>, column: usize) -> Result<String, Error> {
    let text: Option<String> = row.get(column)?;
    Ok(cofferdam_sdk::answer::beginning(&text.unwrap_or_default(), 200).to_owned())
}

/// A name as an identifier of SQL.
pub fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}
