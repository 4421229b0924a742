//! Calls of tools by a tool. Each takes the whole way of a call, on the thread of its caller and in an
//! instance of its own, with never more than its caller's rights. Its changes are part of its caller's
//! transaction; they are rolled back if it fails.
//!
//! A caller never waits for another thread of the pool, so callers on all threads can't block each
//! other.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Instant;

use tokio::runtime::Handle;

use super::Host;
use super::call::Begun;
use super::context::{ActiveCall, RunContext, RunOptions};
use super::ended::Performed;
use super::execute::outcome;
use super::executed::not_written;
use super::paused::{self, Answer, Progress, Recorded};
use crate::call::{Control, Observer, Stop};
use crate::capability::wit::host::tools::{Effects, Failure as NestedFailure, Request, Tool};
use crate::capability::{CallContext, NestedCalls, cores};
use crate::dispatch::{self, GrantedCall, ValidCall};
use crate::runtime::{self, THREAD_STACK};
use crate::telemetry::Origin;
use cofferdam_core::envelope::{self, Call};
use cofferdam_core::outcome::{DenialCode, Failure, LimitCode, Outcome};
use cofferdam_core::policy::{Executed, Files, Limits, Role, Scope};
use cofferdam_plugin::registry::ToolEntry;
use cofferdam_plugin::search;

/// The calls of tools by one call.
pub(super) struct CallsOfTool {
    host: Host,
    options: RunOptions,
    /// What the caller may access.
    scope: Scope,
    /// The position of the next call among all that the caller makes.
    next: AtomicUsize,
    progress: Arc<Progress>,
}

impl Host {
    /// What a granted call needs to call other tools.
    pub(super) fn nested_calls(
        &self,
        active: &ActiveCall<'_>,
        call: &GrantedCall,
    ) -> Arc<dyn NestedCalls> {
        // As in an atomic run, nothing can be done that can't be rolled back.
        let options = active.run.options.clone();
        let observer = options.observer.as_ref().unwrap_or(&self.shared.observer);
        let observer: Arc<dyn Observer> = Arc::new(MessagesOnly(Arc::clone(observer)));
        // The client's request was about the caller.
        let origin = Origin { request: None, ..options.origin };
        let observer = Some(observer);
        let options = RunOptions { atomic: true, parts: false, observer, origin, ..options };
        Arc::new(CallsOfTool {
            host: self.clone(),
            options,
            scope: call.permissions.scope.clone(),
            next: AtomicUsize::new(0),
            progress: active.progress.clone().unwrap_or_default(),
        })
    }
}

/// Passes messages on, but no progress: that of several calls in a row would go back and forth.
struct MessagesOnly(Arc<dyn Observer>);

impl Observer for MessagesOnly {
    fn message(&self, call: &str, level: tracing::Level, message: &str) {
        self.0.message(call, level, message);
    }

    fn progress(&self, _: &str, _: u64, _: Option<u64>, _: &str) {}
}

impl NestedCalls for CallsOfTool {
    fn call(
        &self,
        requests: Vec<Request>,
        caller: &CallContext,
    ) -> Result<Vec<Result<String, NestedFailure>>, Stop> {
        let mut results = Vec::with_capacity(requests.len());
        let mut left = caller.limits.transfer;
        let first = self.next.fetch_add(requests.len(), Ordering::Relaxed);
        let mut requests = (first..).zip(requests).peekable();
        while let Some(first) = requests.next() {
            let mut group = vec![first];
            if requests.peek().is_some() && self.only_reads(&group[0].1) {
                while let Some(next) = requests.next_if(|(_, request)| self.only_reads(request)) {
                    group.push(next);
                }
            }
            let make =
                |(position, request): (usize, Request)| self.made(position, &request, caller, left);
            for done in side_by_side(group, make) {
                let done = done?;
                left = left.saturating_sub(done.as_ref().map_or(0, String::len));
                results.push(done);
            }
            if left == 0 {
                return Err(Stop::Limit(LimitCode::TransferLimit));
            }
        }
        Ok(results)
    }

    fn names(&self) -> Vec<String> {
        self.entries().map(|entry| entry.qualified_name().to_string()).collect()
    }

    fn search(&self, query: &str, max: usize) -> Vec<Tool> {
        let usable = self.entries().filter(|entry| self.is_usable(entry));
        let found: Vec<&ToolEntry> = match query.trim() {
            "" => usable.collect(),
            words => search::search(usable, words),
        };
        found.into_iter().take(max).map(described).collect()
    }

    fn get(&self, name: &str) -> Option<Tool> {
        let mut found = self.entries().filter(|entry| *entry.qualified_name() == *name);
        found.find(|entry| self.is_usable(entry)).map(described)
    }
}

impl CallsOfTool {
    fn role(&self) -> Option<&Role> {
        self.host.role(self.options.role.as_deref()).ok().flatten()
    }

    /// The tools of the role, except for those that call tools themselves.
    fn entries(&self) -> impl Iterator<Item = &ToolEntry> {
        let tools = self.host.registry.tools(self.role());
        tools.filter(|entry| !entry.plugin.manifest.requests.tools).map(AsRef::as_ref)
    }

    fn is_usable(&self, entry: &ToolEntry) -> bool {
        self.host.policy.decide(&entry.subject(), self.role()).is_ok()
    }

    fn only_reads(&self, request: &Request) -> bool {
        let found = self.host.registry.resolve(&request.tool, self.role());
        found.is_ok_and(|entry| entry.tool().only_reads())
    }

    /// Returns the result of a call: what was recorded, if the caller was paused since.
    ///
    /// # Errors
    /// Why the caller has to end.
    fn made(
        &self,
        position: usize,
        request: &Request,
        caller: &CallContext,
        most: usize,
    ) -> Result<Result<String, NestedFailure>, Stop> {
        match self.progress.recorded(position, request) {
            Recorded::Nothing if self.progress.is_waiting() => return Err(paused::waits()),
            Recorded::Nothing => {}
            Recorded::Result(result) => return Ok(result),
            Recorded::Other => return Err(paused::not_the_same()),
        }
        let done = self.make(position, request, caller, most)?;
        let is_pending = done.as_ref().is_err_and(paused::is_pending);
        let done = done.map_err(|failure| nested_failure(&failure));
        // What has ended beside a call that the user is asked about is not done again.
        if !is_pending {
            self.progress.record(position, request, &done);
        }
        if self.progress.is_waiting() { Err(paused::waits()) } else { Ok(done) }
    }

    /// Makes one call, whose result may have `most` bytes.
    ///
    /// # Errors
    /// Why the caller has to end.
    fn make(
        &self,
        position: usize,
        request: &Request,
        caller: &CallContext,
        most: usize,
    ) -> Result<Result<String, Failure>, Stop> {
        if position >= caller.limits.nested_calls {
            return Err(Stop::Limit(LimitCode::NestedCallLimit));
        }
        let run = RunContext { options: &self.options, role: self.role(), scope: &self.scope };
        let done = match self.resolved(request, caller) {
            Ok(call) => self.record(position, call, &run, caller),
            Err(failure) => Err(failure),
        };
        if let Some(stop) = caller.control.stop() {
            return Err(stop);
        }
        match done {
            Ok(text) if text.len() > most => Err(Stop::Limit(LimitCode::TransferLimit)),
            done => Ok(done),
        }
    }

    /// Finds the tool and checks the arguments. A refusal is recorded.
    fn resolved(&self, request: &Request, caller: &CallContext) -> Result<ValidCall, Failure> {
        let Request { tool, args } = request;
        let sized = self.host.check_size(args.len(), "arguments");
        let found = sized.and_then(|()| Ok(envelope::arguments(args)?)).and_then(|args| {
            let call = Call { pointer: String::new(), tool: tool.clone(), args };
            dispatch::resolve_one(&self.host.registry, call, self.role())
        });
        found.map_err(|refusal| {
            let parent = Some(caller.id.as_str());
            self.host.record_refusal(&refusal, Some(tool), &self.options, parent);
            dispatch::refused(&refusal)
        })
    }

    /// Makes a call and records it.
    fn record(
        &self,
        position: usize,
        call: ValidCall,
        run: &RunContext<'_>,
        caller: &CallContext,
    ) -> Result<String, Failure> {
        let id = uuid::Uuid::now_v7().to_string();
        let secrets = Arc::new(caller.secrets.of_nested(self.options.session.reads()));
        let (usage, consents, questions) = (Arc::default(), Arc::default(), Arc::default());
        let active = ActiveCall { run, id, usage, secrets, consents, questions, progress: None };
        let (begun, started) = (Begun::of(&call), Instant::now());
        let tool = Arc::clone(call.tool());
        let performed = self.perform(position, &active, call, caller);
        let performed = performed.unwrap_or_else(Performed::from);
        let mut record = begun.record(&active, &performed, started.elapsed());
        record.parent = Some(caller.id.clone());
        caller.secrets.add_nested(active.secrets.own());
        self.progress.written.fetch_add(record.written_bytes, Ordering::Relaxed);
        self.host.record(record, Some(&tool), &self.options.origin);
        match performed.outcome {
            Outcome::Executed(output) => Ok(output.to_string()),
            Outcome::Failed(failure) => Err(failure),
        }
    }

    /// Grants a call and executes it in its caller's transaction, which is as before if it fails.
    fn perform(
        &self,
        position: usize,
        active: &ActiveCall<'_>,
        call: ValidCall,
        caller: &CallContext,
    ) -> Result<Performed, Failure> {
        let mut call = self.allowed(position, active, call, caller)?;
        self.lower(&mut call.limits, &caller.limits);
        let (host, plugin) = (&self.host, &call.call().tool().plugin);
        let granted = &call.permissions.grant.capabilities;
        let stopped = || caller.control.stop().is_some();
        let prepared = host.runtime.prepare(plugin, granted, &stopped);
        let prepared = prepared.map_err(|error| dispatch::load_failure(&error))?;
        let savepoint = call.may_write().then(|| caller.tree.savepoint());
        let tool = Arc::clone(call.call().tool());
        let control = Arc::new(Control::nested(call.limits.call, &caller.control));
        let request = host.request(active, call, &caller.tree, control);
        let (answer, spent) = runtime::call(&prepared, &request);
        drop(spent);
        self.progress.files.fetch_add(active.usage.files(), Ordering::Relaxed);
        let mut performed =
            Performed::from(outcome(active, &tool, answer, &request.context.limits));
        let Some(savepoint) = savepoint else { return Ok(performed) };
        // In the other modes, the caller's transaction is looked at as a whole.
        if host.executed(active.run) == Executed::Refused
            && let Outcome::Executed(_) = performed.outcome
        {
            let executed = caller.tree.executed(Some(&savepoint));
            if !executed.is_empty() {
                performed = not_written(Executed::Refused, &executed).into();
            }
        }
        if let Outcome::Failed(_) = performed.outcome {
            caller.tree.roll_back(savepoint);
        }
        Ok(performed)
    }

    /// Grants a call that its caller may make.
    fn allowed(
        &self,
        position: usize,
        active: &ActiveCall<'_>,
        call: ValidCall,
        caller: &CallContext,
    ) -> Result<GrantedCall, Failure> {
        let call = self.host.allow(call, active.run, true)?;
        let (wanted, own) = (&call.permissions.capabilities, &caller.permissions);
        if wanted.tools {
            return Err(dispatch::not_nestable(call.call()));
        }
        if wanted.files > own.capabilities.files {
            return Err(dispatch::beyond_caller(call.call(), own.plugin()));
        }
        if call.is_held() && call.may_write() {
            caller.usage.hold();
        }
        if !call.needs_approval() {
            return Ok(call);
        }
        let tool = call.call().tool().qualified_name();
        if call.may_write() && !call.reaches_out() {
            // The user is asked at the end, about all changes.
            caller.usage.add_ask(&tool);
            return Ok(call);
        }
        let tool = tool.to_string();
        let is_approved = self.options.session.approver(&tool, call.call().args()).is_some();
        match self.progress.answer(position, &tool, call.call().args(), is_approved) {
            Some(Answer::Yes) => Ok(call),
            Some(Answer::No(failure)) => Err(failure),
            Some(Answer::Asked) => Err(paused::pending()),
            None => {
                let message = format!(
                    "each call of '{tool}' needs the yes of a person (`ask` in the settings) before it \
                     runs, and no user can be asked during this call; call it by itself"
                );
                Err(Failure::new(DenialCode::ApprovalNeeded, message))
            }
        }
    }

    /// Lowers what a call may write to what its caller may still write.
    fn lower(&self, limits: &mut Limits, own: &Limits) {
        let left = |most: usize, taken: &AtomicU64| {
            let taken = usize::try_from(taken.load(Ordering::Relaxed)).unwrap_or(usize::MAX);
            most.saturating_sub(taken)
        };
        limits.write = limits.write.min(left(own.write, &self.progress.written));
        limits.files = limits.files.min(left(own.files, &self.progress.files));
    }
}

fn described(entry: &ToolEntry) -> Tool {
    let tool = entry.tool();
    Tool {
        name: entry.qualified_name().to_string(),
        description: tool.description.clone(),
        effects: match tool.effects {
            Files::None => Effects::None,
            Files::Read => Effects::Read,
            Files::Write => Effects::Write,
        },
        input: tool.input.to_string(),
        output: tool.output.to_string(),
    }
}

fn nested_failure(failure: &Failure) -> NestedFailure {
    NestedFailure {
        outcome: failure.status.as_str().to_owned(),
        code: failure.code.to_string(),
        message: failure.message.clone(),
        detail: failure.detail.as_ref().map(ToString::to_string),
    }
}

/// Calls `work` with each item, on as many threads as there are cores, of which this is one. Returns the
/// results in the order of the items.
fn side_by_side<I: Send, T: Send>(items: Vec<I>, work: impl Fn(I) -> T + Sync) -> Vec<T> {
    let threads = cores().min(items.len());
    if threads < 2 {
        return items.into_iter().map(work).collect();
    }
    let results = Mutex::new((0..items.len()).map(|_| None).collect::<Vec<Option<T>>>());
    let items = Mutex::new(items.into_iter().enumerate());
    let timers = Handle::try_current();
    let run = || {
        let next = || items.lock().unwrap_or_else(PoisonError::into_inner).next();
        while let Some((index, item)) = next() {
            let done = work(item);
            results.lock().unwrap_or_else(PoisonError::into_inner)[index] = Some(done);
        }
    };
    thread::scope(|scope| {
        for _ in 1..threads {
            let thread = thread::Builder::new().stack_size(THREAD_STACK);
            let other = || {
                let _timers = timers.as_ref().ok().map(Handle::enter);
                run();
            };
            // Without it, this thread does more.
            let _ = thread.name("cofferdam-nested".to_owned()).spawn_scoped(scope, other);
        }
        run();
    });
    let results = results.into_inner().unwrap_or_else(PoisonError::into_inner);
    results.into_iter().flatten().collect()
}

#[cfg(test)]
mod tests {
    use super::side_by_side;

    #[test]
    fn results_have_the_order_of_the_items() {
        for count in [0, 1, 2, 1_000] {
            let items: Vec<usize> = (0..count).collect();
            assert_eq!(side_by_side(items.clone(), |item| item), items);
        }
    }
}
