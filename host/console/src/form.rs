//! Fields of a form or of an address. Unknown fields are left alone.

use std::borrow::Cow;

/// The fields, in their order.
#[derive(Debug, Default)]
pub struct Fields(Vec<(String, String)>);

impl Fields {
    /// Reads `application/x-www-form-urlencoded`.
    pub fn parse(text: &[u8]) -> Self {
        let owned = |(name, value): (Cow<'_, str>, Cow<'_, str>)| (name.into(), value.into());
        Self(url::form_urlencoded::parse(text).map(owned).collect())
    }

    /// Reads the query of an address.
    pub fn of_query(query: Option<&str>) -> Self {
        Self::parse(query.unwrap_or_default().as_bytes())
    }

    /// The first field of this name; empty if there is none.
    pub fn get(&self, name: &str) -> &str {
        self.all(name).next().unwrap_or_default()
    }

    /// The first field of this name, if it is not blank.
    pub fn filled(&self, name: &str) -> Option<&str> {
        Some(self.get(name)).filter(|value| !value.trim().is_empty())
    }

    /// The first field of this name as a number; 0 if it is none.
    pub fn number(&self, name: &str) -> usize {
        self.get(name).parse().unwrap_or(0)
    }

    /// All fields of this name.
    pub fn all<'a>(&'a self, name: &str) -> impl Iterator<Item = &'a str> {
        self.0.iter().filter(move |(of, _)| of == name).map(|(_, value)| value.as_str())
    }
}

/// Writes an address: a page with its fields. Empty ones are left out.
pub fn address(page: &str, fields: &[(&str, &str)]) -> String {
    let mut query = url::form_urlencoded::Serializer::new(String::new());
    query.extend_pairs(fields.iter().filter(|(_, value)| !value.is_empty()));
    let query = query.finish();
    if query.is_empty() { page.to_owned() } else { format!("{page}?{query}") }
}
