//! Answers that are too large for a model's context: they are kept for a while as resources, and
//! the client gets a link with the beginning, the size, and how to read on.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use rmcp::model::{CallToolResult, ContentBlock, Resource};
use serde_json::{Map, Value, json};
use url::Url;
use uuid::Uuid;

/// What of a large answer is shown at once, in bytes.
const BEGINNING: usize = 4 << 10;

/// What is kept of answers, in bytes; the oldest go first.
const KEPT: usize = 64 << 20;

/// What the addresses of answers begin with.
const ADDRESS: &str = "cofferdam://results/";

/// Addresses of answers, as a URI template (RFC 6570).
pub(super) const TEMPLATE: &str = "cofferdam://results/{id}{?offset,length}";

/// The large answers of a server, the latest ones.
#[derive(Default)]
pub(super) struct Results(Mutex<VecDeque<Kept>>);

#[derive(Clone)]
struct Kept {
    id: String,
    tool: String,
    role: Option<String>,
    text: Arc<str>,
}

impl Kept {
    fn resource(&self) -> Resource {
        Resource::new(format!("{ADDRESS}{}", self.id), format!("Answer of {}", self.tool))
            .with_mime_type("application/json")
            .with_size(self.text.len() as u64)
    }
}

impl Results {
    /// An answer within `budget` bytes as it is, as structure and as text for clients that don't
    /// look at that; a larger one as a link.
    pub(super) fn result(
        &self,
        tool: &str,
        role: Option<&str>,
        answer: Value,
        budget: usize,
    ) -> CallToolResult {
        let (content, stored) = self.shown(tool, role, answer.to_string(), budget);
        let mut result = CallToolResult::success(content);
        result.structured_content = Some(stored.unwrap_or(answer));
        result
    }

    /// A failure with what is known of it, which is bounded as an answer is.
    pub(super) fn failure(
        &self,
        tool: &str,
        role: Option<&str>,
        message: String,
        detail: Option<Value>,
        budget: usize,
    ) -> CallToolResult {
        let mut result = CallToolResult::error(vec![ContentBlock::text(message)]);
        if let Some(detail) = detail {
            result.content.extend(self.shown(tool, role, detail.to_string(), budget).0);
        }
        result
    }

    /// A text as content, and what stands for it as structure if it is kept.
    fn shown(
        &self,
        tool: &str,
        role: Option<&str>,
        text: String,
        budget: usize,
    ) -> (Vec<ContentBlock>, Option<Value>) {
        if text.len() <= budget {
            return (vec![ContentBlock::text(text)], None);
        }
        let kept = Kept {
            id: Uuid::new_v4().to_string(),
            tool: tool.to_owned(),
            role: role.map(str::to_owned),
            text: text.into(),
        };
        let resource = kept.resource();
        let end = kept.text.floor_char_boundary(BEGINNING);
        let note = format!(
            "{}\n[The answer has {} bytes; these are the first {end}. All of it is the resource {}, \
             and {}?offset={end}&length={budget} goes on from here. It is kept for a while. Calls \
             that ask for less answer at once.]",
            &kept.text[..end],
            kept.text.len(),
            resource.uri,
            resource.uri,
        );
        let stored = json!({"stored": {"uri": resource.uri, "bytes": kept.text.len()}});
        self.keep(kept);
        (vec![ContentBlock::text(note), ContentBlock::resource_link(resource)], Some(stored))
    }

    fn keep(&self, result: Kept) {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        kept.push_back(result);
        while kept.len() > 1 && kept.iter().map(|result| result.text.len()).sum::<usize>() > KEPT {
            kept.pop_front();
        }
    }

    /// What is kept for a role.
    pub(super) fn list(&self, role: Option<&str>) -> Vec<Resource> {
        let kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let own = kept.iter().filter(|result| result.role.as_deref() == role);
        own.map(Kept::resource).collect()
    }

    /// The text at an address, or the part of it that `offset` and `length` name, in bytes. `None`
    /// where nothing is kept for this role.
    ///
    /// # Errors
    /// A part that is none.
    pub(super) fn read(&self, role: Option<&str>, uri: &str) -> Result<Option<String>, String> {
        let Some(id) = uri.strip_prefix(ADDRESS) else { return Ok(None) };
        let id = id.split('?').next().unwrap_or_default();
        let result = {
            let kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            kept.iter().find(|result| result.id == id && result.role.as_deref() == role).cloned()
        };
        let Some(Kept { text, .. }) = result else { return Ok(None) };
        let url = Url::parse(uri).map_err(|error| error.to_string())?;
        let (mut offset, mut length) = (0, text.len());
        for (name, value) in url.query_pairs() {
            let number = value.parse().map_err(|_| format!("{name}={value} is no number of bytes"));
            match name.as_ref() {
                "offset" => offset = number?,
                "length" => length = number?,
                other => return Err(format!("'{other}' is neither offset nor length")),
            }
        }
        if offset > text.len() {
            return Err(format!("the answer has {} bytes, so none at {offset}", text.len()));
        }
        let start = text.floor_char_boundary(offset);
        let end = text.floor_char_boundary(offset.saturating_add(length));
        Ok(Some(text[start..end].to_owned()))
    }
}

/// A tool, as MCP shows it, whose output schema allows a link in place of the answer. A schema in
/// which references would mean something else then is left out.
pub(super) fn widened(mut tool: Value) -> Value {
    let Some(fields) = tool.as_object_mut() else { return tool };
    let Some(Value::Object(mut answer)) = fields.shift_remove("outputSchema") else { return tool };
    let definitions = answer.shift_remove("$defs");
    if refers_elsewhere(&Value::Object(answer.clone()))
        || definitions.as_ref().is_some_and(refers_elsewhere)
    {
        return tool;
    }
    let stored = json!({
        "description": "An answer too large for this: a resource.",
        "properties": {"stored": {
            "type": "object",
            "properties": {"uri": {"type": "string"}, "bytes": {"type": "integer"}},
            "required": ["uri", "bytes"],
        }},
        "required": ["stored"],
        "additionalProperties": false,
    });
    let mut schema = Map::new();
    schema.insert("type".to_owned(), "object".into());
    schema.insert("anyOf".to_owned(), json!([answer, stored]));
    schema.extend(definitions.map(|definitions| ("$defs".to_owned(), definitions)));
    fields.insert("outputSchema".to_owned(), schema.into());
    tool
}

/// Whether a schema refers to anything but the root's definitions.
fn refers_elsewhere(schema: &Value) -> bool {
    match schema {
        Value::Object(fields) => fields.iter().any(|(key, value)| match (key.as_str(), value) {
            ("$ref", Value::String(to)) => !to.starts_with("#/$defs/"),
            ("$dynamicRef" | "$anchor" | "$dynamicAnchor" | "$id", _) => true,
            (_, value) => refers_elsewhere(value),
        }),
        Value::Array(items) => items.iter().any(refers_elsewhere),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use super::*;

    #[test]
    fn a_large_answer_is_kept_for_its_role_and_read_in_parts() {
        let results = Results::default();
        let answer = json!({"text": "é".repeat(20_000)});
        let whole = answer.to_string();
        let result = results.result("files.read", Some("reader"), answer, 1000);
        let stored = &result.structured_content.unwrap()["stored"];
        assert_eq!(stored["bytes"], whole.len());
        let uri = stored["uri"].as_str().unwrap();
        let listed = results.list(Some("reader"));
        assert_eq!((listed.len(), listed[0].uri.as_str()), (1, uri));
        let read = |role, uri: &str| results.read(role, uri);
        assert_eq!(read(Some("reader"), uri), Ok(Some(whole.clone())));
        let mut parts = String::new();
        while parts.len() < whole.len() {
            let part = format!("{uri}?offset={}&length=999", parts.len());
            parts += &read(Some("reader"), &part).unwrap().unwrap();
        }
        assert_eq!(parts, whole);
        assert_eq!(read(None, uri), Ok(None));
        assert_eq!(read(Some("main"), uri), Ok(None));
        assert!(results.list(None).is_empty());
        for (query, complaint) in
            [("?offset=x", "offset=x"), ("?from=1", "'from'"), ("?offset=99999999", "none at")]
        {
            let error = read(Some("reader"), &format!("{uri}{query}")).unwrap_err();
            assert!(error.contains(complaint), "{error}");
        }
    }

    #[test]
    fn what_is_known_of_a_failure_is_kept_as_well() {
        let results = Results::default();
        let failure = |detail| {
            let message = "ExitCode: it failed".to_owned();
            serde_json::to_value(results.failure("a.b", None, message, detail, 1000)).unwrap()
        };
        let short = failure(Some(json!({"stdout": "x"})));
        assert_eq!(short["isError"], true);
        assert_eq!(short["content"][1]["text"], r#"{"stdout":"x"}"#);
        assert_eq!(failure(None)["content"].as_array().unwrap().len(), 1);
        let detail = json!({"stdout": "x".repeat(20_000)});
        let long = failure(Some(detail.clone()));
        assert_eq!(long["content"][0]["text"], "ExitCode: it failed");
        assert!(long["content"][1]["text"].as_str().unwrap().len() < 5_000);
        let uri = long["content"][2]["uri"].as_str().unwrap();
        assert_eq!(results.read(None, uri), Ok(Some(detail.to_string())));
    }

    #[test]
    fn the_oldest_answers_make_room() {
        let results = Results::default();
        let large = "x".repeat(KEPT / 3);
        let uris: Vec<String> = (0..4)
            .map(|_| {
                let result = results.result("a.b", None, json!({"text": large}), 10);
                let stored = &result.structured_content.unwrap()["stored"];
                stored["uri"].as_str().unwrap().to_owned()
            })
            .collect();
        let there: Vec<bool> =
            uris.iter().map(|uri| results.read(None, uri).unwrap().is_some()).collect();
        assert_eq!(there, [false, false, true, true]);
    }

    #[test]
    fn an_output_schema_allows_the_link_and_keeps_its_references() {
        let tool = |schema: Value| widened(json!({"name": "a", "outputSchema": schema}));
        let schema = json!({
            "type": "object",
            "properties": {"a": {"$ref": "#/$defs/a"}},
            "required": ["a"],
            "$defs": {"a": {"type": "string"}},
        });
        let schema = crate::schema::Schema::compile(tool(schema)["outputSchema"].clone()).unwrap();
        let stored = json!({"stored": {"uri": "cofferdam://results/1", "bytes": 1}});
        for (answer, fits) in [
            (json!({"a": "x"}), true),
            (stored, true),
            (json!({"a": 1}), false),
            (json!({}), false),
        ] {
            assert_eq!(schema.problems(&answer, "").is_empty(), fits, "{answer}");
        }
        let elsewhere = json!({"type": "object", "properties": {"a": {"$ref": "#"}}});
        assert_eq!(tool(elsewhere), json!({"name": "a"}));
    }
}
