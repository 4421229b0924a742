//! Answers that are too large for a model's context. They are kept for a while as resources; the client
//! gets the beginning, the size, and a link. Output of programs that their tools did not get is kept in
//! files of the workspace, and linked too.

use std::collections::{BTreeSet, VecDeque};
use std::fmt::Write as _;
use std::sync::{Arc, Mutex, PoisonError};

use rmcp::model::{CallToolResult, ContentBlock, Resource, ResourceContents};
use serde_json::{Map, Value, json};
use url::Url;
use uuid::Uuid;

use super::text;
use cofferdam_core::envelope::{Media, MediaKind, Parts};
use cofferdam_engine::call::{SecretRead, Session};
use cofferdam_workspace::{KeptOutput, Workspace};

/// How much of a large answer is shown, in bytes.
const SHOWN_BYTES: usize = 4 << 10;

/// The maximum size of all kept answers, in bytes. The oldest are removed first.
const MAX_KEPT_BYTES: usize = 64 << 20;

/// The maximum number of kept answers and outputs.
const MAX_KEPT: usize = 1000;

/// The maximum size of a part of a program's output that is read at once, in bytes.
const MAX_PART_BYTES: u64 = 8 << 20;

/// The prefix of the addresses.
const ADDRESS: &str = "cofferdam://results/";

/// The beginning of the address of content that stands in a result itself; its number follows.
const PART_ADDRESS: &str = "cofferdam://parts/";

/// The addresses as a URI template (RFC 6570).
pub(super) const TEMPLATE: &str = "cofferdam://results/{id}{?offset,length}";

/// The latest large answers of a server.
#[derive(Default)]
pub(super) struct Results(Mutex<VecDeque<Kept>>);

#[derive(Clone)]
struct Kept {
    id: String,
    name: String,
    role: Option<String>,
    /// The session that it is from.
    session: Option<Session>,
    content: Content,
}

#[derive(Clone)]
enum Content {
    /// An answer as JSON.
    Json(Arc<str>),
    /// An answer as text for a model.
    Text(Arc<str>),
    /// The output of a program.
    Output(KeptOutput),
}

/// The content at an address, or a part of it.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Part {
    pub(super) text: String,
    pub(super) mime_type: &'static str,
}

impl Kept {
    fn resource(&self) -> Resource {
        Resource::new(format!("{ADDRESS}{}", self.id), &self.name)
            .with_mime_type(self.mime_type())
            .with_size(self.bytes())
    }

    fn mime_type(&self) -> &'static str {
        match self.content {
            Content::Json(_) => "application/json",
            Content::Text(_) | Content::Output(_) => "text/plain",
        }
    }

    fn bytes(&self) -> u64 {
        match &self.content {
            Content::Json(text) | Content::Text(text) => text.len() as u64,
            Content::Output(output) => output.bytes,
        }
    }

    /// Its size in memory, in bytes.
    fn held(&self) -> usize {
        match &self.content {
            Content::Json(text) | Content::Text(text) => text.len(),
            Content::Output(_) => 0,
        }
    }
}

/// The call that an answer is for.
#[derive(Debug, Clone, Copy)]
pub(super) struct AnsweredCall<'a> {
    pub(super) tool: &'a str,
    /// The role that it was made under.
    pub(super) role: Option<&'a str>,
    /// The maximum size of an answer that is returned as it is, in bytes.
    pub(super) budget: usize,
    /// The session that it was made in.
    pub(super) session: Option<&'a Session>,
}

impl Results {
    /// Returns an answer within its budget as structured content for programs, and as [`text`] for
    /// models; a larger one as a link. Content that is not JSON stands in blocks after them.
    pub(super) fn result(
        &self,
        call: AnsweredCall<'_>,
        answer: Value,
        parts: Parts,
    ) -> CallToolResult {
        let (json, text) = (answer.to_string(), text::of(&answer));
        let bytes = json.len();
        let (content, structured) = if bytes <= call.budget {
            (vec![ContentBlock::text(text.unwrap_or(json))], answer)
        } else {
            let json = Content::Json(json.into());
            let (content, uri) = match text {
                None => self.beginning(call, json),
                // What goes on from the text that is shown has to be of the same form.
                Some(text) => {
                    let whole = self.keep(call, format!("Answer of {} as JSON", call.tool), json);
                    (self.beginning(call, Content::Text(text.into())).0, whole.uri)
                }
            };
            (content, json!({"stored": {"uri": uri, "bytes": bytes}}))
        };
        let mut result = CallToolResult::success(content);
        add_parts(&mut result, parts);
        result.structured_content = Some(structured);
        result
    }

    /// Returns a failure with its details, which are bounded as an answer is.
    pub(super) fn failure(
        &self,
        call: AnsweredCall<'_>,
        message: String,
        detail: Option<Value>,
    ) -> CallToolResult {
        let mut result = CallToolResult::error(vec![ContentBlock::text(message)]);
        if let Some(detail) = detail {
            let json = detail.to_string();
            let is_small = json.len() <= call.budget;
            let text: Arc<str> = text::of(&detail).unwrap_or(json).into();
            result.content.extend(match is_small {
                true => vec![ContentBlock::text(&*text)],
                false => self.beginning(call, Content::Text(text)).0,
            });
        }
        result
    }

    /// Keeps a text; returns its beginning with a link, and the address.
    fn beginning(&self, call: AnsweredCall<'_>, content: Content) -> (Vec<ContentBlock>, String) {
        let AnsweredCall { tool, budget, .. } = call;
        let text = match &content {
            Content::Json(text) | Content::Text(text) => Arc::clone(text),
            Content::Output(_) => Arc::default(),
        };
        let resource = self.keep(call, format!("Answer of {tool}"), content);
        let (end, uri) = (text.floor_char_boundary(SHOWN_BYTES), resource.uri.clone());
        let note = format!(
            "{}\n[The answer has {} bytes; these are the first {end}. All of it is the resource {uri}, \
             and {uri}?offset={end}&length={budget} goes on from here. It is kept for a while. Calls \
             that ask for less answer at once.]",
            &text[..end],
            text.len(),
        );
        (vec![ContentBlock::text(note), ContentBlock::resource_link(resource)], uri)
    }

    /// Adds links to the output of a call's programs to its result.
    pub(super) fn add_outputs(
        &self,
        call: AnsweredCall<'_>,
        result: &mut CallToolResult,
        outputs: Vec<KeptOutput>,
    ) {
        let budget = call.budget;
        let mut note = String::new();
        let mut links = Vec::new();
        for output in outputs {
            let name = format!("Output of {} ({})", output.program, output.stream());
            let KeptOutput { program, bytes, .. } = &output;
            let _ =
                write!(note, "[{program} printed {bytes} bytes to {}: all of it", output.stream());
            let resource = self.keep(call, name, Content::Output(output));
            let _ = writeln!(note, " is {0}, a part {0}?offset=0&length={budget}.]", resource.uri);
            links.push(ContentBlock::resource_link(resource));
        }
        if !links.is_empty() {
            result.content.push(ContentBlock::text(note));
            result.content.extend(links);
        }
    }

    fn keep(&self, call: AnsweredCall<'_>, name: String, content: Content) -> Resource {
        let id = Uuid::new_v4().to_string();
        let (role, session) = (call.role.map(str::to_owned), call.session.cloned());
        let result = Kept { id, name, role, session, content };
        let resource = result.resource();
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        kept.push_back(result);
        while kept.len() > MAX_KEPT
            || kept.len() > 1 && kept.iter().map(Kept::held).sum::<usize>() > MAX_KEPT_BYTES
        {
            kept.pop_front();
        }
        resource
    }

    /// Lists what is kept for a role.
    pub(super) fn list(&self, role: Option<&str>) -> Vec<Resource> {
        let kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let own = kept.iter().filter(|result| result.role.as_deref() == role);
        own.map(Kept::resource).collect()
    }

    /// Finds what is kept at an address for a role.
    fn find(&self, role: Option<&str>, uri: &str) -> Option<Kept> {
        let id = uri.strip_prefix(ADDRESS)?.split('?').next()?;
        let kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        kept.iter().find(|result| result.id == id && result.role.as_deref() == role).cloned()
    }

    /// Returns what is known of secrets in the session that the content at an address is from.
    pub(super) fn reads(&self, role: Option<&str>, uri: &str) -> BTreeSet<SecretRead> {
        let session = self.find(role, uri).and_then(|result| result.session);
        session.map(|session| session.reads().all()).unwrap_or_default()
    }

    /// Returns the text at an address, or the part that `offset` and `length` select, in bytes; `None` if
    /// nothing is kept for this role.
    ///
    /// # Errors
    /// The part is invalid or too large, or the output can't be read any more.
    pub(super) fn read(
        &self,
        workspace: &Workspace,
        role: Option<&str>,
        uri: &str,
    ) -> Result<Option<Part>, String> {
        let Some(result) = self.find(role, uri) else { return Ok(None) };
        let url = Url::parse(uri).map_err(|error| error.to_string())?;
        let bytes = result.bytes();
        let (mut offset, mut length) = (0, bytes);
        for (name, value) in url.query_pairs() {
            let number = value.parse().map_err(|_| format!("{name}={value} is no number of bytes"));
            match name.as_ref() {
                "offset" => offset = number?,
                "length" => length = number?,
                other => return Err(format!("'{other}' is neither offset nor length")),
            }
        }
        if offset > bytes {
            return Err(format!("there are {bytes} bytes, so none at {offset}"));
        }
        let text = match &result.content {
            Content::Json(text) | Content::Text(text) => {
                let place =
                    |at: u64| text.floor_char_boundary(usize::try_from(at).unwrap_or(usize::MAX));
                text[place(offset)..place(offset.saturating_add(length))].to_owned()
            }
            Content::Output(output) => printed(workspace, output, offset, length)?,
        };
        Ok(Some(Part { text, mime_type: result.mime_type() }))
    }
}

/// Returns a part of a program's output, cut between characters: consecutive parts are the whole.
fn printed(
    workspace: &Workspace,
    output: &KeptOutput,
    offset: u64,
    length: u64,
) -> Result<String, String> {
    let length = length.min(output.bytes - offset);
    if length > MAX_PART_BYTES {
        return Err(format!(
            "{length} bytes are more than are read at once, {MAX_PART_BYTES}; ask for a part: \
             ?offset={offset}&length={MAX_PART_BYTES}"
        ));
    }
    // Some bytes more on both sides, to find where a character begins.
    let from = offset.saturating_sub(MAX_LEADING_BYTES);
    let around = workspace.output(&output.name, from, offset - from + length + 1);
    let (bytes, _) = around
        .map_err(|error| format!("{}: {error}", output.name))?
        .ok_or_else(|| format!("{} has made room for later output", output.name))?;
    let place = |at: u64| beginning(&bytes, usize::try_from(at - from).unwrap_or(usize::MAX));
    let part = &bytes[place(offset)..place(offset + length)];
    Ok(String::from_utf8_lossy(part).into_owned())
}

/// The maximum number of bytes of a character before its last one.
const MAX_LEADING_BYTES: u64 = 3;

/// Returns where the character of the byte at `at` begins.
fn beginning(bytes: &[u8], at: usize) -> usize {
    let continues = |at: usize| bytes.get(at).is_some_and(|byte| byte & 0xc0 == 0x80);
    let first =
        (at.saturating_sub(MAX_LEADING_BYTES as usize)..=at).rev().find(|at| !continues(*at));
    first.unwrap_or(at).min(bytes.len())
}

/// Extends the output schema of a tool, as MCP has it, by a link instead of the answer. A schema whose
/// references would change their meaning is removed.
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

/// Adds content that is not JSON, each in the block that clients have for it.
fn add_parts(result: &mut CallToolResult, Parts { parts, left_out }: Parts) {
    let block = |(index, Media { mime_type, data }): (usize, Media), kind: MediaKind| match kind {
        MediaKind::Image => ContentBlock::image(data, mime_type),
        MediaKind::Audio => ContentBlock::audio(data, mime_type),
        MediaKind::Other => {
            let contents = ResourceContents::blob(data, format!("{PART_ADDRESS}{}", index + 1));
            ContentBlock::resource(contents.with_mime_type(mime_type))
        }
    };
    for (index, part) in parts.into_iter().enumerate() {
        let kind = part.kind();
        result.content.push(block((index, part), kind));
    }
    if left_out > 0 {
        let note = format!("[{left_out} more parts are left out: they are too many or too large]");
        result.content.push(ContentBlock::text(note));
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use super::*;
    use cofferdam_workspace::Secret;

    fn call(role: Option<&str>, budget: usize) -> AnsweredCall<'_> {
        AnsweredCall { tool: "a.b", role, budget, session: None }
    }

    fn place() -> (tempfile::TempDir, Workspace) {
        let directory = tempfile::tempdir().unwrap();
        let workspace = Workspace::open(directory.path(), Secret::OfProcess).unwrap();
        (directory, workspace)
    }

    #[test]
    fn a_large_answer_is_kept_for_its_role_and_read_in_parts() {
        let (_directory, workspace) = place();
        let results = Results::default();
        let answer = json!({"text": "é".repeat(20_000)});
        let whole = answer.to_string();
        let result = results.result(call(Some("reader"), 1000), answer, Parts::default());
        let stored = &result.structured_content.as_ref().unwrap()["stored"];
        assert_eq!(stored["bytes"], whole.len());
        let uri = stored["uri"].as_str().unwrap();
        let listed = results.list(Some("reader"));
        assert_eq!((listed.len(), listed[0].uri.as_str()), (2, uri));
        let read = |role, uri: &str| {
            results.read(&workspace, role, uri).map(|part| part.map(|part| part.text))
        };
        // What a model sees goes on where it ends.
        let content = serde_json::to_value(&result.content).unwrap();
        let shown = content[0]["text"].as_str().unwrap();
        let (shown, note) = shown.split_once("\n[The answer has 40006 bytes").unwrap();
        let next = note.split("and ").nth(1).unwrap().split(' ').next().unwrap();
        assert!(next.starts_with(content[1]["uri"].as_str().unwrap()), "{note}");
        let rest = read(Some("reader"), &next.replace("length=1000", "length=99999"));
        let text = format!("text:\n{}", "é".repeat(20_000));
        assert_eq!(format!("{shown}{}", rest.unwrap().unwrap()), text);
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
        let (_directory, workspace) = place();
        let results = Results::default();
        let failure = |detail| {
            let message = "ExitCode: it failed".to_owned();
            serde_json::to_value(results.failure(call(None, 1000), message, detail)).unwrap()
        };
        let short = failure(Some(json!({"stdout": "x"})));
        assert_eq!(short["isError"], true);
        assert_eq!(short["content"][1]["text"], r#"{"stdout":"x"}"#);
        assert_eq!(failure(None)["content"].as_array().unwrap().len(), 1);
        let detail = json!({"stdout": "x".repeat(20_000)});
        let long = failure(Some(detail));
        assert_eq!(long["content"][0]["text"], "ExitCode: it failed");
        assert!(long["content"][1]["text"].as_str().unwrap().len() < 5_000);
        let uri = long["content"][2]["uri"].as_str().unwrap();
        let read = results.read(&workspace, None, uri).unwrap().unwrap();
        let text = format!("stdout:\n{}", "x".repeat(20_000));
        assert_eq!((read.text, read.mime_type), (text, "text/plain"));
    }

    #[test]
    fn a_text_is_not_escaped_and_stands_once() {
        let results = Results::default();
        let answer = json!({"path": "a.py", "content": "print(\"é\")\n", "total_lines": 1});
        let result = results.result(call(None, 1000), answer.clone(), Parts::default());
        let content = serde_json::to_value(&result.content).unwrap();
        let text = "{\"path\":\"a.py\",\"total_lines\":1}\nprint(\"é\")\n";
        assert_eq!(content, json!([{"type": "text", "text": text}]));
        assert_eq!(result.structured_content, Some(answer));
        let short = results.result(call(None, 1000), json!({"changed": true}), Parts::default());
        let short = serde_json::to_value(&short.content).unwrap();
        assert_eq!(short[0]["text"], r#"{"changed":true}"#);
    }

    #[test]
    fn content_that_is_not_json_stands_in_blocks_of_its_own() {
        let results = Results::default();
        let answer = json!({"path": "a.png", "image": {"mime_type": "image/png", "width": 1}});
        let data = "iVBO".repeat(10_000);
        let part = |mime_type: &str| Media { mime_type: mime_type.to_owned(), data: data.clone() };
        let image = || Parts { parts: vec![part("image/png")], left_out: 0 };
        let block = json!({"type": "image", "data": data, "mimeType": "image/png"});
        let result = results.result(call(None, 1000), answer.clone(), image());
        let content = serde_json::to_value(&result.content).unwrap();
        assert_eq!(content, json!([{"type": "text", "text": answer.to_string()}, block]));
        assert_eq!(result.structured_content, Some(answer));
        // A description that is too large is a link; the image is shown anyway.
        let long = json!({"path": "x".repeat(2000)});
        let result = results.result(call(None, 1000), long, image());
        let content = serde_json::to_value(&result.content).unwrap();
        assert_eq!((&content[1]["type"], &content[2]), (&json!("resource_link"), &block));
        let parts = Parts { parts: ["audio/wav", "text/csv"].map(part).into(), left_out: 2 };
        let result = results.result(call(None, 1000), json!({}), parts);
        let content = serde_json::to_value(&result.content).unwrap();
        let audio = json!({"type": "audio", "data": data, "mimeType": "audio/wav"});
        let resource = json!({"uri": "cofferdam://parts/2", "mimeType": "text/csv", "blob": data});
        assert_eq!((&content[1], &content[2]["resource"]), (&audio, &resource));
        assert!(content[3]["text"].as_str().unwrap().contains("2 more parts are left out"));
    }

    #[test]
    fn what_programs_printed_is_linked_and_read_in_parts() {
        let (_directory, workspace) = place();
        let results = Results::default();
        let mut printed = "aé€😀".repeat(10).into_bytes();
        printed.extend(b"\xff\x80\x80\x80\x80\x80 end");
        let mut spill = workspace.spill("a.1.stderr").unwrap();
        spill.write(&printed).unwrap();
        let bytes = spill.keep().unwrap();
        let output = |name: &str, bytes| KeptOutput {
            name: name.to_owned(),
            program: "bash".to_owned(),
            bytes,
        };
        let outputs = vec![output("a.1.stderr", bytes), output("gone.1.stdout", 1 << 30)];
        let mut result =
            results.result(call(Some("reader"), 1000), json!({"text": "x"}), Parts::default());
        results.add_outputs(call(Some("reader"), 1000), &mut result, outputs);
        let result = serde_json::to_value(result).unwrap();
        let content = result["content"].as_array().unwrap();
        assert_eq!(result["structuredContent"], json!({"text": "x"}));
        assert_eq!((content.len(), &content[2]["name"]), (4, &json!("Output of bash (stderr)")));
        let uri = content[2]["uri"].as_str().unwrap();
        let note = content[1]["text"].as_str().unwrap();
        assert!(note.contains(&format!("bash printed {bytes} bytes to stderr")), "{note}");
        assert!(note.contains(&format!("{uri}?offset=0&length=1000")), "{note}");
        let read = |uri: &str| results.read(&workspace, Some("reader"), uri);
        let whole = read(uri).unwrap().unwrap();
        let wanted = String::from_utf8_lossy(&printed).into_owned();
        assert_eq!((&whole.text, whole.mime_type), (&wanted, "text/plain"));
        for length in 1..20 {
            let part = |at: u64| read(&format!("{uri}?offset={at}&length={length}"));
            let ats = (0..bytes).step_by(length);
            let parts: String = ats.map(|at| part(at).unwrap().unwrap().text).collect();
            assert_eq!(parts, wanted, "parts of {length}");
        }
        assert_eq!(results.read(&workspace, None, uri), Ok(None));
        let gone = content[3]["uri"].as_str().unwrap();
        for (uri, complaint) in [
            (format!("{uri}?offset=9999"), "none at 9999"),
            (gone.to_owned(), "more than are read at once"),
            (format!("{gone}?length=5"), "gone.1.stdout has made room"),
        ] {
            let error = read(&uri).unwrap_err();
            assert!(error.contains(complaint), "{error}");
        }
    }

    #[test]
    fn the_oldest_answers_make_room() {
        let (_directory, workspace) = place();
        let results = Results::default();
        // Each is kept as JSON and as text.
        let large = "x".repeat(MAX_KEPT_BYTES / 6);
        let uris: Vec<String> = (0..4)
            .map(|_| {
                let result =
                    results.result(call(None, 10), json!({"text": large}), Parts::default());
                let stored = &result.structured_content.unwrap()["stored"];
                stored["uri"].as_str().unwrap().to_owned()
            })
            .collect();
        let is_there = |uri: &String| results.read(&workspace, None, uri).unwrap().is_some();
        let there: Vec<bool> = uris.iter().map(is_there).collect();
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
        let schema =
            cofferdam_core::schema::Schema::compile(tool(schema)["outputSchema"].clone()).unwrap();
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
