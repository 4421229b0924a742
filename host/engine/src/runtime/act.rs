//! Calls tools of components of ACT (Agent Component Tools), whose arguments and results are CBOR. A tool
//! returns its events at once or as a stream, which is read to its end.
//!
//! A component with sessions gets a session for each call, since each call has an instance of its own.

use std::mem;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value, json};
use tokio::sync::oneshot;
use wasmtime::component::{
    ComponentExportIndex, ComponentNamedList, ComponentType, Instance, InstancePre, Lift, Lower,
    Source, StreamConsumer, StreamReader, StreamResult, TypedFunc,
};
use wasmtime::{Error, Result, Store, StoreContextMut};

use super::concurrent;
use super::engine::Engine;
use super::typed::failure;
use crate::call::{Control, Stop};
use crate::capability::wit::tool::types::{ErrorKind, ToolError};
use crate::capability::{CallContext, CallState};
use cofferdam_core::cbor::{self, CborError};
use cofferdam_core::outcome::{ErrorCode, LimitCode, RefusalCode};
use cofferdam_plugin::manifest::Manifest;
use cofferdam_plugin::typed::act::{Answer, AnsweredTool, Exported, SESSION, exported};

/// The key of the metadata that names a call's session.
const SESSION_ID: &str = "std:session-id";

/// The key of the metadata of a tool that changes nothing.
const READ_ONLY: &str = "std:read-only";

/// What an event counts besides its bytes: many empty ones take memory as well.
const EVENT_BYTES: usize = 64;

/// How many events are taken from a stream at once.
const EVENTS_AT_ONCE: usize = 16;

/// Keys with values in CBOR.
type Metadata = Vec<(String, Vec<u8>)>;

#[derive(Debug, Clone, ComponentType, Lift)]
#[component(variant)]
enum Localized {
    #[component(name = "plain")]
    Plain(String),
    #[component(name = "localized")]
    Tagged(Vec<(String, String)>),
}

#[derive(Debug, Clone, ComponentType, Lift)]
#[component(record)]
struct Failure {
    kind: String,
    message: Localized,
    #[component(name = "metadata")]
    _metadata: Metadata,
}

#[derive(Debug, Clone, ComponentType, Lift)]
#[component(record)]
struct Part {
    data: Vec<u8>,
    #[component(name = "mime-type")]
    mime_type: Option<String>,
    #[component(name = "metadata")]
    _metadata: Metadata,
}

#[derive(Debug, Clone, ComponentType, Lift)]
#[component(variant)]
enum Event {
    #[component(name = "content")]
    Content(Part),
    #[component(name = "error")]
    Error(Failure),
}

#[derive(ComponentType, Lift)]
#[component(variant)]
enum Returned {
    #[component(name = "immediate")]
    Immediate(Vec<Event>),
    #[component(name = "streaming")]
    Streaming(StreamReader<Event>),
}

#[derive(Debug, Clone, ComponentType, Lift)]
#[component(record)]
struct Definition {
    name: String,
    description: Localized,
    #[component(name = "parameters-schema")]
    schema: String,
    metadata: Metadata,
}

#[derive(Debug, Clone, ComponentType, Lift)]
#[component(record)]
struct Listed {
    #[component(name = "metadata")]
    _metadata: Metadata,
    tools: Vec<Definition>,
}

#[derive(Debug, Clone, ComponentType, Lift)]
#[component(record)]
struct Session {
    id: String,
    #[component(name = "metadata")]
    _metadata: Metadata,
}

/// A function of the component, by its place among the exports.
struct Function {
    index: ComponentExportIndex,
    name: &'static str,
}

/// The functions of sessions.
struct Sessions {
    schema: Function,
    open: Function,
    close: Function,
    /// The fields of what a session is opened with that are no strings.
    unquoted: Vec<String>,
}

/// A component of ACT.
pub(super) struct Act {
    pre: InstancePre<CallState>,
    list: Function,
    call: Function,
    sessions: Option<Sessions>,
    /// Whether its tools are not known yet: then a call returns them.
    is_unlisted: bool,
}

impl Act {
    /// Finds the functions of a component; `None` if it is not one of ACT.
    ///
    /// # Errors
    /// It lacks one of them, or they are not asynchronous.
    pub(super) fn new(
        engine: &Engine,
        pre: &InstancePre<CallState>,
        manifest: &Manifest,
    ) -> Result<Option<Self>> {
        let component = pre.component();
        let ty = component.component_type();
        let names: Vec<String> =
            ty.exports(component.engine()).map(|(name, _)| name.to_owned()).collect();
        let Some(Exported { tools, sessions }) = exported(names.iter().map(String::as_str)) else {
            return Ok(None);
        };
        if !engine.is_concurrent() {
            return Err(Error::msg(format!("the functions of {tools} are not asynchronous")));
        }
        let find = |interface: &str, name: &'static str| {
            let of = component.get_export_index(None, interface);
            let index = of.and_then(|of| component.get_export_index(Some(&of), name));
            let index = index.ok_or_else(|| Error::msg(format!("{interface} has no {name}")))?;
            Ok::<_, Error>(Function { index, name })
        };
        let sessions = sessions.map(|interface| {
            Ok::<_, Error>(Sessions {
                schema: find(&interface, "get-open-session-args-schema")?,
                open: find(&interface, "open-session")?,
                close: find(&interface, "close-session")?,
                unquoted: unquoted(manifest),
            })
        });
        Ok(Some(Self {
            pre: pre.clone(),
            list: find(&tools, "list-tools")?,
            call: find(&tools, "call-tool")?,
            sessions: sessions.transpose()?,
            is_unlisted: manifest.is_unlisted(),
        }))
    }

    /// Calls a tool in a new instance. `args` is a JSON object. Before the tools are known, returns them
    /// as an [`Answer`], for any `tool`.
    ///
    /// # Errors
    /// The error that ended the instance.
    pub(super) fn call(
        &self,
        store: &mut Store<CallState>,
        tool: &str,
        args: &str,
    ) -> Result<Result<String, ToolError>> {
        let instance = concurrent::instantiate(store, &self.pre)?;
        let mut running = Running { store, instance };
        if self.is_unlisted {
            let listed = self.listed(&mut running)?;
            return Ok(listed.and_then(|answer| {
                serde_json::to_string(&answer).map_err(|error| unfit(&error.to_string()))
            }));
        }
        let args: Value =
            serde_json::from_str(args).map_err(|error| Error::msg(error.to_string()))?;
        let answer = self.answer(&mut running, tool, args)?;
        Ok(answer.map(|answer| answer.to_string()))
    }

    /// The tools, and what a session is opened with.
    fn listed(&self, running: &mut Running<'_>) -> Result<Result<Answer, ToolError>> {
        let Listed { tools, .. } = match running.ask(&self.list, (Metadata::new(),))? {
            Ok(listed) => listed,
            Err(error) => return Ok(Err(tool_error(error))),
        };
        let session: Option<String> = match &self.sessions {
            None => None,
            Some(sessions) => match running.ask(&sessions.schema, (Metadata::new(),))? {
                Ok(schema) => Some(schema),
                Err(error) => return Ok(Err(tool_error(error))),
            },
        };
        let tool = |Definition { name, description, schema, metadata }| {
            let says = |(key, value): &(String, Vec<u8>)| {
                key == READ_ONLY && cbor::decode(value) == Ok(Value::Bool(true))
            };
            let reads = metadata.iter().any(says);
            AnsweredTool { name, description: description.text(), schema, reads }
        };
        Ok(Ok(Answer { tools: tools.into_iter().map(tool).collect(), session }))
    }

    /// Opens a session, if the component has sessions, and calls a tool.
    fn answer(
        &self,
        running: &mut Running<'_>,
        tool: &str,
        mut args: Value,
    ) -> Result<Result<Value, ToolError>> {
        let given = match (&self.sessions, args.as_object_mut()) {
            (Some(_), Some(args)) => args.shift_remove(SESSION),
            _ => None,
        };
        let prepared = settings(&running.store.data().context)
            .and_then(|config| Ok((config, cbor::encode(&args).map_err(|why| argument(&why))?)));
        let (config, args) = match prepared {
            Ok(prepared) => prepared,
            Err(error) => return Ok(Err(error)),
        };
        let Some(sessions) = &self.sessions else {
            let metadata = config.into_iter().map(|(key, text)| encoded(key, &json!(text)));
            let metadata = match metadata.collect::<Result<_, _>>() {
                Ok(metadata) => metadata,
                Err(error) => return Ok(Err(error)),
            };
            return running.call(&self.call, (tool.to_owned(), args, metadata));
        };
        let opened_with = match sessions.arguments(given, config) {
            Ok(arguments) => arguments,
            Err(error) => return Ok(Err(error)),
        };
        let Session { id, .. } =
            match running.ask(&sessions.open, (opened_with, Metadata::new()))? {
                Ok(session) => session,
                Err(error) => return Ok(Err(tool_error(error))),
            };
        let metadata = match encoded(SESSION_ID.to_owned(), &json!(id)) {
            Ok(name) => vec![name],
            Err(error) => return Ok(Err(error)),
        };
        let answer = running.call(&self.call, (tool.to_owned(), args, metadata))?;
        // A failed call changes nothing, so its session is dropped with the instance.
        if answer.is_ok() {
            running.run::<_, ()>(&sessions.close, (id,))?;
        }
        Ok(answer)
    }
}

/// The names of those arguments of a session whose values are no strings, by the schema of the first tool.
fn unquoted(manifest: &Manifest) -> Vec<String> {
    let properties = manifest.tools.first().and_then(|tool| {
        tool.input.pointer(&format!("/properties/{SESSION}/properties"))?.as_object()
    });
    let is_unquoted = |(_, schema): &(&String, &Value)| match &schema["type"] {
        Value::String(name) => name != "string",
        Value::Array(names) => names.iter().all(|name| name != "string"),
        _ => false,
    };
    let unquoted = properties.into_iter().flatten().filter(is_unquoted);
    unquoted.map(|(name, _)| name.clone()).collect()
}

/// What the user's settings have for the plugin under `config`.
///
/// # Errors
/// A variable is not set.
fn settings(context: &CallContext) -> Result<Vec<(String, String)>, ToolError> {
    let setting = |(key, value): (&str, std::result::Result<String, String>)| match value {
        Ok(value) => Ok((key.to_owned(), value)),
        Err(why) => {
            let message = format!("the setting '{key}' of config in cofferdam.toml {why}");
            Err(failure(ErrorCode::FunctionError.as_str(), message))
        }
    };
    context.config().map(setting).collect()
}

/// A key of metadata with its value.
fn encoded(key: String, value: &Value) -> Result<(String, Vec<u8>), ToolError> {
    cbor::encode(value).map(|value| (key, value)).map_err(|why| argument(&why))
}

impl Sessions {
    /// What a session is opened with: the call's arguments for it, and on top the user's settings.
    fn arguments(
        &self,
        given: Option<Value>,
        config: Vec<(String, String)>,
    ) -> Result<Metadata, ToolError> {
        let mut all: Map<String, Value> = match given {
            Some(Value::Object(fields)) => fields,
            _ => Map::new(),
        };
        for (key, text) in config {
            let value = match self.unquoted.contains(&key) {
                true => serde_json::from_str(&text).unwrap_or(Value::String(text)),
                false => Value::String(text),
            };
            all.insert(key, value);
        }
        all.iter().map(|(key, value)| encoded(key.clone(), value)).collect()
    }
}

/// An instance that runs a call.
struct Running<'a> {
    store: &'a mut Store<CallState>,
    instance: Instance,
}

impl Running<'_> {
    /// Calls a function with one result.
    fn run<P, R>(&mut self, function: &Function, parameters: P) -> Result<R>
    where
        P: ComponentNamedList + Lower + Send + Sync + 'static,
        R: Results,
    {
        let wrong = |error: Error| {
            Error::msg(format!("its function {} has another type: {error:#}", function.name))
        };
        let found: TypedFunc<P, R::List> =
            self.instance.get_typed_func(&mut *self.store, function.index).map_err(wrong)?;
        let control = Arc::clone(self.store.data().control());
        concurrent::run(&control, found.call_async(&mut *self.store, parameters)).map(R::of)
    }

    /// Calls a function that may return an error of ACT.
    fn ask<P, R>(&mut self, function: &Function, parameters: P) -> Result<Result<R, Failure>>
    where
        P: ComponentNamedList + Lower + Send + Sync + 'static,
        R: ComponentType + Lift + Send + Sync + 'static,
    {
        let One(answer) = self.run::<_, One<Result<R, Failure>>>(function, parameters)?;
        Ok(answer)
    }

    /// Calls a tool, and reads its events to the end.
    fn call(
        &mut self,
        function: &Function,
        parameters: (String, Vec<u8>, Metadata),
    ) -> Result<Result<Value, ToolError>> {
        let limit = self.store.data().context.limits.output;
        let control = Arc::clone(self.store.data().control());
        let One(returned) = self.run::<_, One<Returned>>(function, parameters)?;
        let events = Arc::new(Mutex::new(Events { left: limit, ..Events::default() }));
        match returned {
            Returned::Immediate(all) => {
                let mut events = lock(&events);
                all.into_iter().try_for_each(|event| events.take(event, &control))?;
            }
            Returned::Streaming(stream) => {
                let (ended, end) = oneshot::channel();
                let reader = Reader {
                    events: Arc::clone(&events),
                    control: Arc::clone(&control),
                    ended: Some(ended),
                };
                stream.pipe(&mut *self.store, reader)?;
                // The sender is dropped with the reader when the stream ends.
                let read = self.store.run_concurrent(async |_| end.await.unwrap_or_default());
                concurrent::run(&control, read)?;
            }
        }
        let events = mem::take(&mut *lock(&events));
        Ok(events.answer())
    }
}

/// The results of a function, as the engine takes them.
trait Results {
    type List: ComponentNamedList + Lift + Send + Sync + 'static;
    fn of(list: Self::List) -> Self;
}

impl Results for () {
    type List = ();
    fn of((): ()) {}
}

/// The result of a function that has one.
struct One<T>(T);

impl<T: ComponentType + Lift + Send + Sync + 'static> Results for One<T> {
    type List = (T,);
    fn of((result,): (T,)) -> Self {
        Self(result)
    }
}

/// The events of a call. An error ends them.
#[derive(Default)]
struct Events {
    parts: Vec<Part>,
    error: Option<Failure>,
    /// How many bytes more they may have.
    left: usize,
}

fn lock(events: &Mutex<Events>) -> MutexGuard<'_, Events> {
    events.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Events {
    /// Adds an event, unless an error came before.
    ///
    /// # Errors
    /// There are too many bytes.
    fn take(&mut self, event: Event, control: &Control) -> Result<()> {
        if self.error.is_some() {
            return Ok(());
        }
        match event {
            Event::Error(error) => self.error = Some(error),
            Event::Content(part) => {
                let named = part.mime_type.as_ref().map_or(0, String::len);
                let bytes = part.data.len() + named + EVENT_BYTES;
                let Some(left) = self.left.checked_sub(bytes) else {
                    control.note(Stop::Limit(LimitCode::OutputLimit));
                    return Err(Error::msg("the tool returns too much"));
                };
                self.left = left;
                self.parts.push(Part { _metadata: Metadata::new(), ..part });
            }
        }
        Ok(())
    }

    /// The answer: nothing, one value, or several parts.
    fn answer(self) -> Result<Value, ToolError> {
        if let Some(error) = self.error {
            return Err(tool_error(error));
        }
        let mut parts = Vec::with_capacity(self.parts.len());
        for part in self.parts {
            parts.push(Content::of(part).map_err(|why| unfit(&why.to_string()))?);
        }
        Ok(match parts.as_mut_slice() {
            [] => json!({}),
            [Content::Value(value)] => json!({ "result": value.take() }),
            [Content::Text(text)] => json!({ "result": mem::take(text) }),
            _ => {
                let parts: Vec<Value> = parts.into_iter().map(Content::part).collect();
                json!({ "content": parts })
            }
        })
    }
}

/// Content of an answer.
enum Content {
    Text(String),
    Value(Value),
    Bytes { mime_type: String, data: Vec<u8> },
}

impl Content {
    /// Reads a part by its media type. Text and JSON that are not what they say are bytes.
    fn of(part: Part) -> Result<Self, CborError> {
        let Part { data, mime_type, .. } = part;
        let mime_type = mime_type.unwrap_or_else(|| "application/octet-stream".to_owned());
        let mime_type = mime_type.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
        match mime_type.as_str() {
            "application/cbor" => return cbor::decode(&data).map(Self::Value),
            "application/json" => {
                if let Ok(value) = serde_json::from_slice(&data) {
                    return Ok(Self::Value(value));
                }
            }
            text if text.starts_with("text/") => match String::from_utf8(data) {
                Ok(text) => return Ok(Self::Text(text)),
                Err(error) => return Ok(Self::Bytes { mime_type, data: error.into_bytes() }),
            },
            _ => {}
        }
        Ok(Self::Bytes { mime_type, data })
    }

    /// One of several parts in an answer.
    fn part(self) -> Value {
        match self {
            Self::Text(text) => json!({ "text": text }),
            Self::Value(value) => json!({ "value": value }),
            Self::Bytes { mime_type, data } => {
                json!({ "mime-type": mime_type, "data": STANDARD.encode(data) })
            }
        }
    }
}

/// Reads the stream of a call's events.
struct Reader {
    events: Arc<Mutex<Events>>,
    control: Arc<Control>,
    ended: Option<oneshot::Sender<()>>,
}

impl StreamConsumer<CallState> for Reader {
    type Item = Event;

    fn poll_consume(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
        store: StoreContextMut<'_, CallState>,
        mut source: Source<'_, Event>,
        _: bool,
    ) -> Poll<Result<StreamResult>> {
        let mut taken = Vec::with_capacity(EVENTS_AT_ONCE);
        source.read(store, &mut taken)?;
        let mut events = lock(&self.events);
        taken.into_iter().try_for_each(|event| events.take(event, &self.control))?;
        let is_over = events.error.is_some();
        drop(events);
        if is_over {
            // An error is the last event: what follows it is not read.
            self.ended.take();
            return Poll::Ready(Ok(StreamResult::Dropped));
        }
        Poll::Ready(Ok(StreamResult::Completed))
    }
}

impl Localized {
    /// The English text, or the first one.
    fn text(self) -> String {
        match self {
            Self::Plain(text) => text,
            Self::Tagged(mut texts) => {
                let english = texts.iter().position(|(tag, _)| tag == "en").unwrap_or_default();
                texts.drain(..).nth(english).map(|(_, text)| text).unwrap_or_default()
            }
        }
    }
}

/// The error of a tool. Its code is the kind without `std:`.
fn tool_error(error: Failure) -> ToolError {
    let kind = match error.kind.as_str() {
        "std:invalid-args" => ErrorKind::InvalidArgs,
        "std:not-found" | "std:session-not-found" => ErrorKind::NotFound,
        "std:capability-denied" => ErrorKind::Denied,
        "std:timeout" => ErrorKind::Unavailable,
        _ => ErrorKind::Failed,
    };
    let code = error.kind.strip_prefix("std:").unwrap_or(&error.kind).replace(':', ".");
    ToolError { kind, ..failure(&code, error.message.text()) }
}

/// The error of arguments that CBOR can't have.
fn argument(why: &CborError) -> ToolError {
    ToolError {
        kind: ErrorKind::InvalidArgs,
        ..failure(RefusalCode::InvalidArguments.as_str(), format!("the arguments: {why}"))
    }
}

/// The error of an answer that JSON can't have.
fn unfit(why: &str) -> ToolError {
    let message = format!("the answer can't be written as JSON: {why}");
    failure(ErrorCode::UnrepresentableAnswer.as_str(), message)
}
