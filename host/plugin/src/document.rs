//! A JSON document that is parsed when it is first used.

use std::fmt;
use std::ops::Deref;
use std::sync::OnceLock;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;
use serde_json::value::RawValue;

/// A JSON document within a manifest, such as a schema. It is deserialized from JSON text only, and parsed
/// when it is first used: a call uses the schemas of one tool, and reads the manifests of all plugins.
#[derive(Clone)]
pub struct Document {
    value: OnceLock<Value>,
    /// `None` if it was made from a value.
    text: Option<Box<RawValue>>,
}

impl Document {
    /// Parses it, if that was not done before.
    ///
    /// # Errors
    /// It is nested too deeply. It is `null` then.
    pub fn parse(&self) -> Result<&Value, serde_json::Error> {
        if let (None, Some(text)) = (self.value.get(), &self.text) {
            let parsed = serde_json::from_str(text.get())?;
            return Ok(self.value.get_or_init(|| parsed));
        }
        Ok(self)
    }
}

impl Deref for Document {
    type Target = Value;

    fn deref(&self) -> &Value {
        let text = || self.text.as_ref().and_then(|text| serde_json::from_str(text.get()).ok());
        self.value.get_or_init(|| text().unwrap_or_default())
    }
}

impl From<Value> for Document {
    fn from(value: Value) -> Self {
        Self { value: value.into(), text: None }
    }
}

impl PartialEq for Document {
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}

impl fmt::Debug for Document {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&**self, f)
    }
}

impl Serialize for Document {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        (**self).serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Document {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = Box::<RawValue>::deserialize(deserializer)?;
        Ok(Self { value: OnceLock::new(), text: Some(text) })
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use serde_json::json;

    use super::*;

    #[test]
    fn it_is_parsed_at_its_first_use() {
        let read: Document = serde_json::from_str(r#" {"type": "object"} "#).unwrap();
        assert!(read.value.get().is_none());
        assert_eq!(read["type"], "object");
        let made = Document::from(json!({"type": "object"}));
        assert_eq!((&read, read.parse().unwrap()), (&made, &*made));
        assert_eq!(serde_json::to_string(&read).unwrap(), r#"{"type":"object"}"#);
        assert!(serde_json::from_str::<Document>(r#"{"type": objekt}"#).is_err());
    }

    #[test]
    fn too_deep_a_document_is_null() {
        let deep = "[".repeat(1_000) + &"]".repeat(1_000);
        let read: Document = serde_json::from_str(&deep).unwrap();
        assert!(read.parse().unwrap_err().to_string().contains("recursion limit"));
        assert_eq!(*read, Value::Null);
    }
}
