//! Running a script: the interpreter pauses at names that it does not know and at calls of tools.

use cofferdam_sdk::ToolError;
use cofferdam_sdk::tools::{Changes, Request};
use monty::{FunctionCall, MontyRun, NameLookup, ResolveFutures, RunProgress};
use monty_types::{
    CompileOptions, ExcType, ExtFunctionResult, MontyException, MontyObject, NameLookupResult,
    ResourceTracker,
};

use serde_json::{Map, Value};

use crate::calls::{Calls, exception};
use crate::printed::Printed;
use crate::source::{AT_ONCE, ATTRIBUTES, Source};
use crate::value::{from_json, to_json};
use crate::{CheckMode, Host, RunArgs, RunOutput, check, error};

/// The name of a script in its own messages.
const NAME: &str = "script.py";

/// The note for a script without a value.
const NO_VALUE: &str =
    "the last line is no expression, so the script has no value; end it with the value";

/// The note for a script that was only checked.
const NOT_RUN: &str = "no problem found; nothing was run";

/// Runs a script.
///
/// # Errors
/// `ScriptError` with where and why it failed; `PrintLimit`.
pub fn run(args: RunArgs, host: &dyn Host) -> Result<RunOutput, ToolError> {
    let RunArgs { code, inputs, check } = args;
    let mut calls = Calls::new(host);
    let mut unchecked = None;
    if check != CheckMode::No {
        let variables: Vec<String> = inputs.keys().cloned().collect();
        let checked = check::check(&code, &variables, &mut calls);
        if !checked.problems.is_empty() {
            return Err(error::refused(&checked.problems));
        }
        unchecked = checked.note;
    }
    let source = Source::new(code.clone(), &mut calls);
    if check == CheckMode::Only {
        let note = unchecked.map_or(NOT_RUN.to_owned(), |note| format!("{NOT_RUN}; {note}"));
        return compiled(source, inputs, &code, &calls)
            .map(|()| RunOutput { note: Some(note), ..RunOutput::default() });
    }
    let mut script = Script {
        calls,
        printed: Printed::default(),
        waiting: Vec::new(),
        is_async: source.is_async,
    };
    let value = match script.run(source.code, inputs) {
        Ok(value) => value,
        Err(exception) => {
            return Err(error::of_exception(&exception, &code, &script.calls, &script.printed));
        }
    };
    if script.printed.is_full() {
        return Err(error::too_much_printed());
    }
    if let Some((_, request)) = script.waiting.first() {
        return Err(error::not_awaited(&request.tool, script.waiting.len()));
    }
    let value = to_json(&value).map_err(|what| error::no_json(&what))?;
    let partial = script.calls.note();
    let calls = script.calls.into_counts();
    let Changes { paths, total } = match calls.is_empty() {
        true => Changes { paths: Vec::new(), total: 0 },
        false => host.changed(),
    };
    let more = total.saturating_sub(u32::try_from(paths.len()).unwrap_or(u32::MAX));
    let printed = script.printed.into_text();
    let is_silent = value.is_null() && printed.is_empty() && !source.has_value;
    Ok(RunOutput {
        value,
        printed,
        calls,
        changed: paths,
        more_changed: (more > 0).then_some(more),
        note: partial.or_else(|| is_silent.then(|| NO_VALUE.to_owned())).or(unchecked),
    })
}

/// Compiles a script that does not run.
fn compiled(
    source: Source,
    inputs: Map<String, Value>,
    code: &str,
    calls: &Calls<'_>,
) -> Result<(), ToolError> {
    let names = inputs.into_iter().map(|(name, _)| name).collect();
    match MontyRun::new(source.code, NAME, names, CompileOptions::default()) {
        Ok(_) => Ok(()),
        Err(exception) => Err(error::of_exception(&exception, code, calls, &Printed::default())),
    }
}

/// A script that runs.
struct Script<'a> {
    calls: Calls<'a>,
    printed: Printed,
    /// The calls that will be made when the script waits for them.
    waiting: Vec<(u32, Request)>,
    is_async: bool,
}

impl Script<'_> {
    fn run(
        &mut self,
        code: String,
        inputs: Map<String, Value>,
    ) -> Result<MontyObject, MontyException> {
        let (names, values): (Vec<String>, Vec<MontyObject>) =
            inputs.into_iter().map(|(name, value)| (name, from_json(value))).unzip();
        let run = MontyRun::new(code, NAME, names, CompileOptions::default())?;
        let mut progress = run.start(values, ResourceTracker::default(), self.printed.writer())?;
        loop {
            progress = match progress {
                RunProgress::Complete(value) => return Ok(value),
                RunProgress::NameLookup(lookup) => self.name(lookup)?,
                RunProgress::FunctionCall(call) => self.call(call)?,
                RunProgress::ResolveFutures(futures) => self.resolve(futures)?,
                RunProgress::OsCall(call) => {
                    let message = "a script has no files, environment and clock of its own; it calls \
                                   tools, such as files.read_file(path=...)";
                    call.resume(
                        exception(ExcType::PermissionError, message),
                        self.printed.writer(),
                    )?
                }
            };
        }
    }

    /// Tells the interpreter what a name or an attribute of a module stands for.
    fn name(&mut self, lookup: NameLookup) -> Result<RunProgress, MontyException> {
        let name = lookup.name.as_str();
        let found: NameLookupResult = match lookup.object_id() {
            Some(module) => match self.calls.tool(module, name) {
                Ok(tool) => function(&tool).into(),
                Err(exception) => exception.into(),
            },
            None if ATTRIBUTES.iter().any(|(_, reader)| *reader == name) => function(name).into(),
            None => match self.calls.module(name) {
                Some(module) => module.into(),
                None => self.calls.undefined(name).into(),
            },
        };
        lookup.resume(found, self.printed.writer())
    }

    fn call(&mut self, call: FunctionCall) -> Result<RunProgress, MontyException> {
        let name = call.function_name.as_str();
        let reader = ATTRIBUTES.iter().find(|(_, reader)| *reader == name);
        if let Some((attribute, _)) = reader.filter(|_| call.object_id.is_none()) {
            let read = self.calls.attribute(call.args.first(), attribute);
            return call.resume(result(read), self.printed.writer());
        }
        let at_once = name.strip_suffix(AT_ONCE);
        let tool = match call.object_id {
            Some(module) => self.calls.tool(module, at_once.unwrap_or(name)),
            None if name.contains('.') => Ok(name.to_owned()),
            // A name that is called is not looked up before.
            None => Err(self.calls.undefined(name)),
        };
        let request = tool.and_then(|tool| self.calls.request(tool, &call.args, &call.kwargs));
        match request {
            Err(exception) => call.resume(exception, self.printed.writer()),
            Ok(request) if self.is_async && at_once.is_none() => {
                self.waiting.push((call.call_id, request));
                call.resume_pending(self.printed.writer())
            }
            Ok(request) => {
                let made = self.calls.make(std::slice::from_ref(&request)).pop();
                let missing = || Err(exception(ExcType::RuntimeError, "the host returned nothing"));
                call.resume(result(made.unwrap_or_else(missing)), self.printed.writer())
            }
        }
    }

    /// Makes the calls that the script waits for.
    fn resolve(&mut self, futures: ResolveFutures) -> Result<RunProgress, MontyException> {
        let wanted = futures.pending_call_ids();
        let is_wanted = |(id, _): &(u32, Request)| wanted.contains(id);
        let (ids, requests): (Vec<u32>, Vec<Request>) =
            self.waiting.extract_if(.., |waiting| is_wanted(waiting)).unzip();
        if requests.is_empty() {
            let stuck =
                exception(ExcType::RuntimeError, "the script waits for something that never comes");
            return futures.abort(stuck, self.printed.writer());
        }
        let made = self.calls.make(&requests).into_iter().map(result);
        futures.resume(ids.into_iter().zip(made).collect(), self.printed.writer())
    }
}

fn function(name: &str) -> MontyObject {
    MontyObject::Function { name: name.to_owned(), docstring: None }
}

fn result(made: Result<MontyObject, MontyException>) -> ExtFunctionResult {
    match made {
        Ok(value) => ExtFunctionResult::Return(value),
        Err(exception) => ExtFunctionResult::Error(exception),
    }
}
