//! The way of one call: each stage is one function that turns one type into the next, so that
//! no stage can be left out.
//!
//! ```text
//! Call --resolve--> ValidCall --grant--> GrantedCall --execute--> Outcome
//! ```

mod refusal;

use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use tokio_util::sync::CancellationToken;

use crate::agent::Team;
use crate::capability::{Contacts, Http, Programs};
use crate::runtime::{
    Backends, CallRequest, Control, ErrorKind, LoadError, Observer, Rights, Runtime, Stop,
    Surroundings, ToolError, Workers, blocking,
};
use cofferdam_core::envelope::{self, Call};
use cofferdam_core::outcome::{
    DenialCode, ErrorCode, FailedCode, Failure, HostCode, LimitCode, NO_DESCRIPTOR, Outcome,
    SkippedCode, Status, TrapCode, lacks_descriptors,
};
use cofferdam_core::policy::{Denial, Files, Grant, LimitSettings, Limits, Policy, Role, Scope};
use cofferdam_core::schema::{Problem, Schema};
use cofferdam_plugin::registry::{Registry, ToolEntry, Unresolved};
use cofferdam_text::shorten;
use cofferdam_workspace::fair_queue::Client;
use cofferdam_workspace::{BeginError, CommitError, Overlay, Workspace, is_full};

pub use cofferdam_core::outcome::RefusalCode;
pub use refusal::{CallProblem, Refusal};

/// A call whose tool exists and whose arguments fit the tool's schema.
#[derive(Clone)]
pub struct ValidCall {
    tool: Arc<ToolEntry>,
    name: String,
    args: Value,
}

/// A call with what it may do.
#[derive(Clone)]
pub struct GrantedCall {
    valid: ValidCall,
    grant: Grant,
}

impl GrantedCall {
    /// The call itself.
    pub fn call(&self) -> &ValidCall {
        &self.valid
    }

    /// Whether it may change files.
    pub fn may_write(&self) -> bool {
        self.grant.capabilities.files == Files::Write
    }

    /// Whether it may do something besides changing files, which can't be taken back.
    pub fn reaches_out(&self) -> bool {
        let capabilities = &self.grant.capabilities;
        capabilities.runs_programs() || !capabilities.http.is_empty()
    }

    /// Whether a person has to say yes to it first.
    pub fn needs_approval(&self) -> bool {
        self.grant.ask
    }

    /// The tool.
    pub fn tool(&self) -> &ToolEntry {
        &self.valid.tool
    }

    /// The arguments.
    pub fn args(&self) -> &Value {
        &self.valid.args
    }

    /// Whether it may give tasks to agents.
    pub fn asks_agents(&self) -> bool {
        !self.grant.capabilities.agents.is_empty()
    }

    /// How long it may take.
    pub fn time(&self) -> Duration {
        self.grant.limits.call
    }
}

impl ValidCall {
    /// The tool's name as the agent wrote it.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The arguments.
    pub fn args(&self) -> &Value {
        &self.args
    }

    /// The tool.
    pub fn tool(&self) -> &Arc<ToolEntry> {
        &self.tool
    }
}

/// Finds each call's tool and checks its arguments.
///
/// # Errors
/// Everything that is wrong with any of the calls.
pub fn resolve(
    registry: &Registry,
    calls: Vec<Call>,
    role: Option<&Role>,
) -> Result<Vec<ValidCall>, Refusal> {
    let mut valid = Vec::with_capacity(calls.len());
    let mut problems: Vec<CallProblem> = Vec::new();
    let mut wrong_tools: Vec<&Arc<ToolEntry>> = Vec::new();
    for (index, call) in calls.into_iter().enumerate() {
        let problem = |code, problem| CallProblem {
            code,
            call: Some(index),
            tool: Some(call.tool.clone()),
            problem,
        };
        let unresolved = |expected: String, did_you_mean| Problem {
            pointer: call.pointer.clone(),
            expected,
            found: Some(format!("the tool '{}'", shorten(&call.tool, 80))),
            did_you_mean,
        };
        match registry.resolve(&call.tool, role) {
            Err(Unresolved::Unknown(nearest)) => {
                problems.push(problem(
                    RefusalCode::UnknownTool,
                    unresolved(
                        "a tool that exists (`cofferdam tools` lists them)".to_owned(),
                        nearest,
                    ),
                ));
            }
            Err(Unresolved::Ambiguous(names)) => {
                problems.push(problem(
                    RefusalCode::AmbiguousTool,
                    unresolved(format!("one of {}", names.join(", ")), None),
                ));
            }
            Ok(tool) => match tool.input() {
                Err(error) => problems
                    .push(problem(RefusalCode::UnknownTool, unresolved(error.to_string(), None))),
                Ok(schema) => {
                    let mut found = schema.problems(&call.args, &call.pointer);
                    if found.is_empty() {
                        found = beyond_the_role(tool, &call, role);
                    }
                    if found.is_empty() {
                        valid.push(ValidCall {
                            tool: Arc::clone(tool),
                            name: call.tool.clone(),
                            args: call.args,
                        });
                    } else {
                        if !wrong_tools.iter().any(|wrong| Arc::ptr_eq(wrong, tool))
                            && wrong_tools.len() < 2
                        {
                            wrong_tools.push(tool);
                        }
                        problems.extend(
                            found
                                .into_iter()
                                .map(|found| problem(RefusalCode::InvalidArguments, found)),
                        );
                    }
                }
            },
        }
    }
    if problems.is_empty() {
        Ok(valid)
    } else {
        Err(Refusal::from_problems(problems, &wrong_tools))
    }
}

/// What of the arguments does not fit what the role says of them, besides the tool's own schema.
fn beyond_the_role(tool: &ToolEntry, call: &Call, role: Option<&Role>) -> Vec<Problem> {
    match role.and_then(|role| role.parameters(&tool.qualified_name())) {
        None => Vec::new(),
        Some(parameters) => match Schema::compile(parameters.clone()) {
            Ok(schema) => schema.problems(&call.args, &call.pointer),
            Err(error) => vec![Problem {
                pointer: call.pointer.clone(),
                expected: "parameters of the role that can be checked".to_owned(),
                found: Some(error.to_string()),
                did_you_mean: None,
            }],
        },
    }
}

/// Decides what a call may do; `limits` and `scope` narrow its own.
///
/// # Errors
/// Why it may not be made at all.
pub fn grant(
    policy: &Policy,
    valid: ValidCall,
    role: Option<&Role>,
    limits: &LimitSettings,
    scope: &Scope,
) -> Result<GrantedCall, Denial> {
    let mut grant = policy.decide(&valid.tool.subject(), role)?;
    grant.scope = grant
        .scope
        .narrowed(scope)
        .map_err(|path| Denial::OutOfScope { path, scope: grant.scope.paths().to_vec() })?;
    grant.limits = grant.limits.lowered(limits);
    Ok(GrantedCall { valid, grant })
}

/// What calls run in.
pub struct Executor<'a> {
    /// Loads plugins.
    pub runtime: &'a Arc<Runtime>,
    /// Runs calls.
    pub workers: &'a Workers,
    /// Decides what a plugin as a whole is granted.
    pub policy: &'a Policy,
    /// The directory that calls work on.
    pub workspace: &'a Arc<Workspace>,
    /// Whoever listens.
    pub observer: &'a Arc<dyn Observer>,
    /// What answers tools that ask for backends.
    pub backends: &'a Arc<Backends>,
    /// Runs native programs.
    pub programs: &'a Arc<Programs>,
    /// Sends requests.
    pub http: &'a Arc<Http>,
    /// The agents that tasks can be given to.
    pub team: &'a Arc<Team>,
    /// Whom the calls are made for.
    pub client: Client,
}

impl Executor<'_> {
    /// Runs a call on a tree and checks its answer. What it changed is staged there, and whom it
    /// asked is in `contacts`. `cancelled` ends it early.
    pub async fn execute(
        &self,
        id: &str,
        call: GrantedCall,
        tree: &Arc<Overlay>,
        contacts: &Arc<Contacts>,
        cancelled: impl Future<Output = ()>,
    ) -> Outcome {
        let mut cancelled = std::pin::pin!(cancelled);
        let tool = &call.valid.tool;
        let plugin = &tool.plugin;
        let name = &plugin.manifest.name;
        let prepared = match self.runtime.prepared(plugin) {
            Some(prepared) => prepared,
            None => {
                let requests = &plugin.manifest.requests;
                let granted = self.policy.capabilities(name, plugin.built_in, requests);
                let (runtime, plugin) = (Arc::clone(self.runtime), Arc::clone(plugin));
                let wanted = CancellationToken::new();
                let _given_up = wanted.clone().drop_guard();
                // It may have to be compiled, which takes seconds.
                let prepare = move || runtime.prepare(&plugin, &granted, &|| wanted.is_cancelled());
                tokio::select! {
                    prepared = blocking(prepare) => prepared,
                    () = &mut cancelled => Err(LoadError::Cancelled),
                }
            }
        };
        let prepared = match prepared {
            Ok(prepared) => prepared,
            Err(error) => return Outcome::Failed(load_failure(&error)),
        };
        let control = Arc::new(Control::new(call.grant.limits.call));
        let limits = call.grant.limits.clone();
        let mut args = call.valid.args;
        if let Some(name) = &call.grant.path_argument {
            make_absolute(&mut args, name, self.workspace.name());
        }
        let request = CallRequest {
            tool: tool.tool().name.clone(),
            args: args.to_string(),
            rights: Arc::new(Rights {
                plugin: name.clone(),
                capabilities: call.grant.capabilities,
                sight: call.grant.scope.clone(),
                scope: call.grant.scope,
                environment: self.policy.environment(name).map(str::to_owned).collect(),
                origins: self.policy.origins(name).to_vec(),
            }),
            client: self.client,
            surroundings: Arc::new(Surroundings {
                id: id.to_owned(),
                limits: call.grant.limits,
                workspace: Arc::clone(self.workspace),
                tree: Arc::clone(tree),
                control: Arc::clone(&control),
                observer: Arc::clone(self.observer),
                backends: Arc::clone(self.backends),
                programs: Arc::clone(self.programs),
                http: Arc::clone(self.http),
                team: Arc::clone(self.team),
                contacts: Arc::clone(contacts),
            }),
        };
        let mut running = std::pin::pin!(self.workers.run(prepared, request));
        let answer = tokio::select! {
            answer = &mut running => answer,
            () = &mut cancelled => {
                control.cancel();
                if control.withdraw() { Err(Stop::Cancelled) } else { running.await }
            }
        };
        match answer {
            Ok(Ok(output)) => checked(tool, &output),
            Ok(Err(error)) => Outcome::Failed(tool_failure(tool, error)),
            Err(stop) => Outcome::Failed(stop_failure(&stop, &limits)),
        }
    }
}

/// Puts the workspace before a relative path. Where the path leads is looked at when it is opened.
fn make_absolute(args: &mut Value, name: &str, workspace: &str) {
    if let Some(Value::String(path)) = args.get_mut(name)
        && !path.starts_with('/')
    {
        *path = format!("{}/{path}", workspace.trim_end_matches('/'));
    }
}

/// An answer of the tool, if it is one that its schema allows.
fn checked(tool: &ToolEntry, output: &str) -> Outcome {
    let invalid = |what: String| {
        let message =
            format!("the plugin '{}' is at fault, not the call: {what}", tool.plugin.manifest.name);
        Outcome::Failed(Failure::new(TrapCode::InvalidOutput, message))
    };
    let value = match envelope::parse_answer(output) {
        Ok(value) => value,
        Err(error) => return invalid(format!("its answer is no JSON ({error})")),
    };
    match tool.output().map(|schema| schema.problems(&value, "")) {
        Ok(problems) => match problems.first() {
            None => Outcome::Executed(value),
            Some(problem) => invalid(format!("its answer does not fit its own schema: {problem}")),
        },
        Err(error) => invalid(error.to_string()),
    }
}

fn tool_failure(tool: &ToolEntry, error: ToolError) -> Failure {
    let status = match error.kind {
        ErrorKind::Denied => Status::Denied,
        ErrorKind::Limit => Status::Limit,
        _ => Status::Error,
    };
    // A detail that is not JSON is the plugin's slip; the message still says what happened.
    let detail = error.detail.and_then(|detail| envelope::parse_answer(&detail).ok());
    if detail.is_none() && tool.tool().failure.is_some() && status == Status::Error {
        tracing::debug!("{} failed without its failure document", tool.qualified_name());
    }
    Failure { detail, ..Failure::of_tool(status, error.code, error.message) }
}

fn load_failure(error: &LoadError) -> Failure {
    let code: HostCode = match error {
        LoadError::NotGranted { .. } => DenialCode::NotGranted.into(),
        LoadError::NotServed { .. } | LoadError::Mismatch { .. } => {
            DenialCode::UnknownImport.into()
        }
        LoadError::Io { .. } => FailedCode::PluginUnreadable.into(),
        LoadError::Changed(_) => DenialCode::PluginChanged.into(),
        LoadError::Compile(_) => TrapCode::InvalidComponent.into(),
        LoadError::CompileLimit { code, .. } => (*code).into(),
        LoadError::CompilerCrashed(_) => TrapCode::CompilerCrashed.into(),
        LoadError::Compiler(_) => FailedCode::CompilerUnavailable.into(),
        LoadError::Cancelled => return cancelled(),
        LoadError::Descriptors => FailedCode::DescriptorShortage.into(),
        LoadError::World { .. } => TrapCode::WrongWorld.into(),
    };
    Failure::new(code, error.to_string())
}

fn stop_failure(stop: &Stop, limits: &Limits) -> Failure {
    match stop {
        Stop::Limit(code) => Failure::new(*code, limits.exceeded(*code)),
        Stop::Room(code, message) => Failure::new(*code, message),
        Stop::Trap(_) => Failure::new(TrapCode::PluginCrashed, stop.to_string()),
        Stop::Cancelled => cancelled(),
        Stop::Descriptors => Failure::new(FailedCode::DescriptorShortage, stop.to_string()),
    }
}

/// What a cancelled call answers.
pub fn cancelled() -> Failure {
    Failure::new(SkippedCode::Cancelled, "the call was cancelled")
}

/// What a call that could not begin to change the workspace answers.
pub fn not_begun(error: &BeginError) -> Failure {
    let code: HostCode = match error {
        BeginError::Busy(_) => RefusalCode::WorkspaceBusy.into(),
        BeginError::Io(error) if lacks_descriptors(&error.to_string()) => {
            return Failure::new(FailedCode::DescriptorShortage, NO_DESCRIPTOR);
        }
        BeginError::Io(error) if is_full(error) => FailedCode::DiskFull.into(),
        BeginError::Io(_) => FailedCode::WorkspaceError.into(),
    };
    Failure::new(code, error.to_string())
}

/// What a call whose changes were not committed answers.
pub fn not_committed(error: &CommitError) -> Failure {
    let unchanged = || format!("nothing was changed: {error}");
    match error {
        CommitError::Conflict(_) => Failure::new(ErrorCode::Conflict, unchanged()),
        CommitError::Io { source, .. } if is_full(source) => {
            let message = format!("the disk is full, and {}; free some room", unchanged());
            Failure::new(FailedCode::DiskFull, message)
        }
        CommitError::Protected { .. } => Failure::new(DenialCode::PermissionError, unchanged()),
        CommitError::Io { .. } => Failure::new(FailedCode::CommitFailed, unchanged()),
        CommitError::TooLarge { .. } => Failure::new(LimitCode::CommitLimit, unchanged()),
        CommitError::Unfinished { .. } => {
            Failure::new(FailedCode::CommitUnfinished, error.to_string())
        }
    }
}

/// What a call that gives tasks to agents answers within a transaction: what they change could not
/// be taken back with it.
pub fn not_in_transaction() -> Failure {
    let message = "what agents change can't be taken back, so a call that gives tasks to them is \
                   not made in an atomic or a dry run";
    Failure::new(DenialCode::NotInTransaction, message)
}

/// What a denied call answers.
pub fn denied(denial: &Denial) -> Failure {
    Failure::new(denial.code(), denial.to_string())
}
