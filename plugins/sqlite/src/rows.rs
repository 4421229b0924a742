//! Values of SQLite as JSON, and the rows that fit in an answer.

use cofferdam_sdk::ToolError;
use cofferdam_sdk::answer::{beginning, item_bytes};
use rusqlite::types::{Value as Sql, ValueRef};
use rusqlite::{Error, Rows, Statement};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

/// The most bytes of the rows of an answer, as JSON.
pub const ANSWER_BYTES: usize = 28 << 10;

/// The most bytes of a text that are returned, as JSON.
const TEXT_BYTES: usize = 4 << 10;

/// The most bytes of a blob that are returned.
const BLOB_BYTES: usize = 64;

/// Up to which number rows are counted.
const MAX_COUNTED: usize = 100_000;

/// Values for the parameters of a statement: by position, or by name.
#[derive(Debug, Default, Deserialize)]
#[serde(untagged)]
pub enum Params {
    /// None.
    #[default]
    None,
    /// `?`, from the first one on.
    List(Vec<Value>),
    /// `:name`, `@name` and `$name`.
    Named(Map<String, Value>),
}

/// Some of the rows of a result.
#[derive(Debug, Default, Serialize)]
pub struct Page {
    /// The names of the columns.
    pub columns: Vec<String>,
    /// The values of each row.
    pub rows: Vec<Vec<Value>>,
    /// How many rows the result has, or the least number if it has more than are counted.
    pub total: usize,
    /// Whether the result may have more than `total` rows.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub total_is_minimum: bool,
    /// The offset to go on with.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next: Option<usize>,
}

impl Params {
    /// Binds the values to a statement.
    ///
    /// # Errors
    /// `InvalidParameters` if a value is of another kind, or if there are more or fewer than the
    /// statement has.
    pub fn bind(&self, statement: &mut Statement<'_>) -> Result<(), ToolError> {
        let count = statement.parameter_count();
        let wrong = |why: String| ToolError::invalid_args("InvalidParameters", why);
        let given = match self {
            Self::None => 0,
            Self::List(values) => values.len(),
            Self::Named(values) => values.len(),
        };
        if given != count {
            return Err(wrong(format!("the statement has {count} parameters, not {given}")));
        }
        for index in 1..=count {
            let name = statement.parameter_name(index).unwrap_or_default();
            let value = match self {
                Self::Named(values) => values.get(name).or_else(|| values.get(name.get(1..)?)),
                Self::List(values) => values.get(index - 1),
                Self::None => None,
            };
            let value = value.ok_or_else(|| wrong(format!("there is no value for '{name}'")))?;
            let value = sql(value).ok_or_else(|| {
                wrong(format!("{value} is no null, boolean, number, text or {{\"hex\": ...}}"))
            })?;
            let bound = statement.raw_bind_parameter(index, value);
            bound.map_err(|error| wrong(error.to_string()))?;
        }
        Ok(())
    }
}

/// A value of JSON as one of SQLite; `None` if there is none.
fn sql(value: &Value) -> Option<Sql> {
    Some(match value {
        Value::Null => Sql::Null,
        Value::Bool(value) => Sql::Integer((*value).into()),
        Value::Number(number) if number.is_f64() => Sql::Real(number.as_f64()?),
        Value::Number(number) => Sql::Integer(number.as_i64()?),
        Value::String(text) => Sql::Text(text.clone()),
        Value::Object(blob) if blob.len() == 1 => Sql::Blob(bytes(blob.get("hex")?.as_str()?)?),
        _ => return None,
    })
}

fn bytes(hex: &str) -> Option<Vec<u8>> {
    let digit = |digit: u8| char::from(digit).to_digit(16);
    let pair = |pair: &[u8]| match pair {
        [high, low] => u8::try_from(digit(*high)? << 4 | digit(*low)?).ok(),
        _ => None,
    };
    hex.as_bytes().chunks(2).map(pair).collect()
}

/// A value of SQLite as JSON. Long texts are cut, and of blobs the first bytes are shown.
fn json(value: ValueRef<'_>) -> Value {
    match value {
        ValueRef::Null => Value::Null,
        ValueRef::Integer(value) => value.into(),
        // Infinity is no number of JSON.
        ValueRef::Real(value) if !value.is_finite() => value.to_string().into(),
        ValueRef::Real(value) => value.into(),
        ValueRef::Text(text) => {
            let text = String::from_utf8_lossy(text);
            match beginning(&text, TEXT_BYTES) {
                whole if whole.len() == text.len() => whole.into(),
                beginning => json!({"text": beginning, "bytes": text.len()}),
            }
        }
        ValueRef::Blob(blob) => {
            let shown = &blob[..blob.len().min(BLOB_BYTES)];
            let hex: String = shown.iter().map(|byte| format!("{byte:02x}")).collect();
            json!({"hex": hex, "bytes": blob.len()})
        }
    }
}

/// Reads the rows of a result from `offset` on: at most `limit`, and those that fit. Counts the others.
///
/// # Errors
/// Those of SQLite, by `error`; `RowTooLarge` if not even one row fits.
pub fn page(
    statement: &mut Statement<'_>,
    (offset, limit): (usize, usize),
    error: &dyn Fn(&Error) -> ToolError,
) -> Result<Page, ToolError> {
    let columns: Vec<String> = statement.column_names().map(str::to_owned).collect();
    let mut room = ANSWER_BYTES.saturating_sub(item_bytes(&columns));
    let mut page = Page { columns, ..Page::default() };
    let mut rows: Rows<'_> = statement.raw_query();
    let mut is_full = limit == 0;
    while let Some(row) = rows.next().map_err(|why| error(&why))? {
        page.total += 1;
        if page.total > offset && !is_full {
            let values: Result<Vec<Value>, Error> =
                (0..page.columns.len()).map(|at| row.get_ref(at).map(json)).collect();
            let values = values.map_err(|why| error(&why))?;
            match room.checked_sub(item_bytes(&values)) {
                Some(left) => {
                    room = left;
                    page.rows.push(values);
                }
                None if page.rows.is_empty() => {
                    let message = format!(
                        "row {} does not fit in an answer of {} KiB; select fewer columns",
                        page.total - 1,
                        ANSWER_BYTES >> 10
                    );
                    return Err(ToolError::limit("RowTooLarge", message));
                }
                None => is_full = true,
            }
            is_full = is_full || page.rows.len() == limit;
        }
        if is_full && page.total >= MAX_COUNTED {
            page.total_is_minimum = true;
            break;
        }
    }
    let end = offset + page.rows.len();
    page.next =
        (is_full && limit > 0 && (end < page.total || page.total_is_minimum)).then_some(end);
    Ok(page)
}
