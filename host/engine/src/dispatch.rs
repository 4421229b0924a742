//! The stages of one call. Each is a function that turns one type into the next, so that no stage
//! can be left out. The last stage, execution, is part of [`Host`](crate::host).
//!
//! ```text
//! Call --resolve--> ValidCall --grant--> GrantedCall --execute--> Outcome
//! ```

mod refusal;

use std::sync::Arc;

use serde_json::Value;

use crate::call::{Grants, Permissions, Stop};
use crate::runtime::{ErrorKind, LoadError, ToolError};
use cofferdam_core::envelope::{self, Call};
use cofferdam_core::outcome::{
    DenialCode, ErrorCode, FailedCode, Failure, HostCode, LimitCode, NO_DESCRIPTOR, Outcome,
    SkippedCode, Status, TrapCode, lacks_descriptors,
};
use cofferdam_core::policy::{Denial, Files, Grant, LimitSettings, Limits, Policy, Role, Scope};
use cofferdam_core::schema::{ALIASES, Problem, Schema, escape};
use cofferdam_plugin::registry::{Registry, ToolEntry, Unresolved};
use cofferdam_text::shorten;
use cofferdam_workspace::{BeginError, CommitError, is_full};

pub use cofferdam_core::outcome::RefusalCode;
pub use refusal::{CallProblem, Refusal};

/// How many tools a refusal shows the schemas of.
const MAX_WRONG_TOOLS: usize = 2;

/// A call whose tool exists and whose arguments fit the tool's schema.
#[derive(Clone)]
pub struct ValidCall {
    tool: Arc<ToolEntry>,
    name: String,
    pub(crate) args: Value,
}

/// A call with its permissions and limits.
#[derive(Clone)]
pub struct GrantedCall {
    pub(crate) valid: ValidCall,
    /// The permissions of its instance.
    pub(crate) permissions: Permissions,
    pub(crate) limits: Limits,
    /// The name of the argument whose path the role requires to be absolute.
    pub(crate) path_argument: Option<String>,
    ask: bool,
    hold: bool,
}

impl GrantedCall {
    /// The call that was granted.
    pub fn call(&self) -> &ValidCall {
        &self.valid
    }

    /// Whether it may change files.
    pub fn may_write(&self) -> bool {
        self.permissions.capabilities.files == Files::Write
    }

    /// Whether it may have effects besides file changes, which can't be rolled back.
    pub fn reaches_out(&self) -> bool {
        let capabilities = &self.permissions.capabilities;
        capabilities.runs_programs() || !capabilities.http.is_empty() || capabilities.tools
    }

    /// Whether it may call other tools.
    pub fn calls_tools(&self) -> bool {
        self.permissions.capabilities.tools
    }

    /// Whether the user has to approve it before it runs.
    pub fn needs_approval(&self) -> bool {
        self.ask
    }

    /// Whether its changes are held until a user accepts them.
    pub fn is_held(&self) -> bool {
        self.hold
    }

    /// Whether it does what is neither a change of files nor can see held changes: by agents, by a
    /// commit to git, by programs that are left running, or by an undo.
    pub fn needs_the_disk(&self) -> bool {
        self.asks_agents() || self.commits_to_git() || self.leaves_programs() || self.may_undo()
    }

    /// Whether it may undo a commit.
    pub fn may_undo(&self) -> bool {
        self.may_write() && self.permissions.capabilities.history
    }

    /// Whether it may commit to git, which can't be rolled back.
    pub fn commits_to_git(&self) -> bool {
        self.may_write() && self.permissions.capabilities.git_commit
    }

    /// Whether it may start or stop programs that are left running, which can't be rolled back.
    pub fn leaves_programs(&self) -> bool {
        let capabilities = &self.permissions.capabilities;
        capabilities.background && capabilities.files > Files::None
    }

    /// Whether it may give tasks to agents.
    pub fn asks_agents(&self) -> bool {
        !self.permissions.capabilities.agents.is_empty()
    }
}

impl ValidCall {
    /// The tool's name as the agent wrote it.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The arguments of the call.
    pub fn args(&self) -> &Value {
        &self.args
    }

    /// The tool to run.
    pub fn tool(&self) -> &Arc<ToolEntry> {
        &self.tool
    }
}

/// Finds each call's tool and checks its arguments.
///
/// # Errors
/// All problems of all calls.
pub fn resolve(
    registry: &Registry,
    calls: Vec<Call>,
    role: Option<&Role>,
) -> Result<Vec<ValidCall>, Refusal> {
    let mut valid = Vec::with_capacity(calls.len());
    let mut problems: Vec<CallProblem> = Vec::new();
    let mut wrong_tools: Vec<&Arc<ToolEntry>> = Vec::new();
    for (index, call) in calls.into_iter().enumerate() {
        match check(registry, call, role) {
            Ok(call) => valid.push(call),
            Err(invalid) => {
                let tools = invalid.tool.filter(|_| wrong_tools.len() < MAX_WRONG_TOOLS);
                wrong_tools.extend(
                    tools.filter(|tool| !wrong_tools.iter().any(|wrong| Arc::ptr_eq(wrong, tool))),
                );
                problems.extend(invalid.into_problems(index));
            }
        }
    }
    if problems.is_empty() {
        Ok(valid)
    } else {
        Err(Refusal::from_problems(problems, &wrong_tools))
    }
}

/// Finds the tool of one call and checks its arguments.
///
/// # Errors
/// All problems of the call.
pub fn resolve_one(
    registry: &Registry,
    call: Call,
    role: Option<&Role>,
) -> Result<ValidCall, Refusal> {
    check(registry, call, role).map_err(|invalid| {
        let tool = invalid.tool;
        let problems = invalid.into_problems(0).collect();
        Refusal::from_problems(problems, tool.as_slice())
    })
}

/// A call with a tool that does not exist, or arguments that do not fit it.
struct InvalidCall<'a> {
    code: RefusalCode,
    /// The tool's name as the agent wrote it.
    name: String,
    problems: Vec<Problem>,
    /// The tool whose arguments are invalid.
    tool: Option<&'a Arc<ToolEntry>>,
}

impl InvalidCall<'_> {
    fn into_problems(self, index: usize) -> impl Iterator<Item = CallProblem> {
        let Self { code, name, problems, tool: _ } = self;
        problems.into_iter().map(move |problem| CallProblem {
            code,
            call: Some(index),
            tool: Some(name.clone()),
            problem,
        })
    }
}

fn check<'a>(
    registry: &'a Registry,
    call: Call,
    role: Option<&Role>,
) -> Result<ValidCall, InvalidCall<'a>> {
    let (code, expected, did_you_mean) = match registry.resolve(&call.tool, role) {
        Ok(tool) => match tool.input() {
            Ok(schema) => return check_arguments(tool, schema, call, role),
            Err(error) => (RefusalCode::UnknownTool, error.to_string(), None),
        },
        Err(Unresolved::Unknown(nearest)) => {
            (RefusalCode::UnknownTool, "a tool that exists".to_owned(), nearest)
        }
        Err(Unresolved::Ambiguous(names)) => {
            (RefusalCode::AmbiguousTool, format!("one of {}", names.join(", ")), None)
        }
    };
    let found = Some(format!("the tool '{}'", shorten(&call.tool, 80)));
    let problem = Problem { pointer: call.pointer, expected, found, did_you_mean };
    Err(InvalidCall { code, name: call.tool, problems: vec![problem], tool: None })
}

fn check_arguments<'a>(
    tool: &'a Arc<ToolEntry>,
    schema: &Schema,
    mut call: Call,
    role: Option<&Role>,
) -> Result<ValidCall, InvalidCall<'a>> {
    rename_aliases(&tool.tool().input, &mut call);
    let mut problems = schema.problems(&call.args, &call.pointer);
    if !problems.is_empty() && remove_nulls(&tool.tool().input, &mut call, &problems) {
        problems = schema.problems(&call.args, &call.pointer);
    }
    if problems.is_empty() {
        problems = beyond_the_role(tool, &call, role);
    }
    if problems.is_empty() {
        return Ok(ValidCall { tool: Arc::clone(tool), name: call.tool, args: call.args });
    }
    let code = RefusalCode::InvalidArguments;
    Err(InvalidCall { code, name: call.tool, problems, tool: Some(tool) })
}

/// Gives arguments their names where the schema of a property lists other ones (`x-aliases`). An
/// argument that is there under both names stays, and is refused as unknown.
fn rename_aliases(input: &Value, call: &mut Call) {
    let Some(args) = call.args.as_object_mut() else { return };
    let properties = input["properties"].as_object().into_iter().flatten();
    for (name, property) in properties {
        let aliases = property[ALIASES].as_array().map(Vec::as_slice).unwrap_or_default();
        for alias in aliases.iter().filter_map(Value::as_str) {
            if !args.contains_key(name)
                && let Some(value) = args.shift_remove(alias)
            {
                args.insert(name.clone(), value);
            }
        }
    }
}

/// Removes optional arguments that are null although the tool takes no null: models write that for an
/// argument that they leave out. Returns whether there was one.
fn remove_nulls(input: &Value, call: &mut Call, problems: &[Problem]) -> bool {
    let is_required = |name: &str| {
        input["required"].as_array().is_some_and(|names| names.iter().any(|own| own == name))
    };
    let Some(args) = call.args.as_object_mut() else { return false };
    let before = args.len();
    args.retain(|name, value| {
        let at = format!("{}/{}", call.pointer, escape(name));
        let is_wrong = value.is_null() && problems.iter().any(|problem| problem.pointer == at);
        !is_wrong || is_required(name) || input["properties"].get(name).is_none()
    });
    args.len() < before
}

/// Checks the arguments against the role's own schema for the tool, if it has one.
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

/// How a run restricts its calls.
#[derive(Clone, Copy)]
pub struct Bounds<'a> {
    /// The role of the calls.
    pub role: Option<&'a Role>,
    /// Additional limits: the lower one of each and the usual limit applies.
    pub limits: &'a LimitSettings,
    /// The part of the role's scope that calls may access.
    pub scope: &'a Scope,
}

/// Decides what a call may do: its permissions and limits.
///
/// # Errors
/// [`Denial`] if the call is not allowed at all.
pub fn grant(
    policy: &Policy,
    grants: &Grants,
    valid: ValidCall,
    bounds: &Bounds<'_>,
) -> Result<GrantedCall, Denial> {
    let Grant { capabilities, scope, limits, path_argument, ask, hold } =
        policy.decide(&valid.tool.subject(), bounds.role)?;
    let scope = scope
        .narrowed(bounds.scope)
        .map_err(|path| Denial::OutOfScope { path, scope: scope.paths().to_vec() })?;
    let grant = grants.of(&valid.tool.plugin);
    let permissions = Permissions { grant, capabilities, sight: scope.clone(), scope };
    let limits = limits.lowered(bounds.limits);
    Ok(GrantedCall { valid, permissions, limits, path_argument, ask, hold })
}

/// Checks the response of a tool against its output schema.
pub(crate) fn checked(tool: &ToolEntry, output: &str) -> Outcome {
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

pub(crate) fn tool_failure(tool: &ToolEntry, error: ToolError) -> Failure {
    let status = match error.kind {
        ErrorKind::Denied => Status::Denied,
        ErrorKind::Limit => Status::Limit,
        _ => Status::Error,
    };
    // A detail that is not JSON is left out; the message still describes the error.
    let detail = error.detail.and_then(|detail| envelope::parse_answer(&detail).ok());
    if detail.is_none() && tool.tool().failure.is_some() && status == Status::Error {
        tracing::debug!("{} failed without its failure document", tool.qualified_name());
    }
    Failure { detail, ..Failure::of_tool(status, error.code, error.message) }
}

pub(crate) fn load_failure(error: &LoadError) -> Failure {
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

pub(crate) fn stop_failure(stop: &Stop, limits: &Limits) -> Failure {
    match stop {
        Stop::Limit(code) => Failure::new(*code, limits.exceeded(*code)),
        Stop::Ended(code, message) => Failure::new(*code, message),
        Stop::Trap(_) => Failure::new(TrapCode::PluginCrashed, stop.to_string()),
        Stop::Cancelled => cancelled(),
        Stop::Descriptors => Failure::new(FailedCode::DescriptorShortage, stop.to_string()),
    }
}

/// The failure of a cancelled call.
pub fn cancelled() -> Failure {
    Failure::new(SkippedCode::Cancelled, "the call was cancelled")
}

/// The failure of a call that could not begin to change the workspace.
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

/// The failure of a call whose changes were not committed.
pub fn not_committed(error: &CommitError) -> Failure {
    let unchanged = || format!("nothing was changed: {error}");
    match error {
        CommitError::Conflict(_) => Failure::new(ErrorCode::Conflict, unchanged()),
        CommitError::Io { source, .. } if is_full(source) => {
            let message = format!("the disk is full, and {}; free some room", unchanged());
            Failure::new(FailedCode::DiskFull, message)
        }
        CommitError::Protected { .. } => Failure::new(DenialCode::PermissionError, unchanged()),
        CommitError::Io { .. } | CommitError::NotPublished(_) | CommitError::Repeated => {
            Failure::new(FailedCode::CommitFailed, unchanged())
        }
        CommitError::InDoubt(_) => Failure::new(FailedCode::CommitFailed, error.to_string()),
        CommitError::TooLarge { .. } | CommitError::TooMuchHeld(_) => {
            Failure::new(LimitCode::CommitLimit, unchanged())
        }
        CommitError::Unfinished { .. } => {
            Failure::new(FailedCode::CommitUnfinished, error.to_string())
        }
    }
}

/// The failure of a call within a transaction that gives tasks to agents: changes by agents can't
/// be rolled back.
pub fn not_in_transaction() -> Failure {
    let message = "what agents change can't be taken back, so a call that gives tasks to them is \
                   not made in an atomic or a dry run";
    Failure::new(DenialCode::NotInTransaction, message)
}

/// The failure of a call within an atomic run that could undo a commit.
pub fn undo_not_in_transaction() -> Failure {
    let message = "an undo is a commit of its own, so it is not made in an atomic run; make the call \
                   by itself";
    Failure::new(DenialCode::NotInTransaction, message)
}

/// The failure of a call within a transaction that could commit to git.
pub fn git_commit_not_in_transaction() -> Failure {
    let message = "a commit to git can't be taken back, and has only files that are on the disk, so it \
                   is not made in an atomic or a dry run; make the call by itself";
    Failure::new(DenialCode::NotInTransaction, message)
}

/// The failure of a call within a transaction that could start or stop a program that is left running.
pub fn background_not_in_transaction() -> Failure {
    let message = "a program that is left running sees only files that are on the disk, and its start \
                   can't be taken back, so it is not made in an atomic or a dry run; make the call by \
                   itself";
    Failure::new(DenialCode::NotInTransaction, message)
}

/// The failure of a call that needs the files on the disk, while changes of its session are held.
pub fn not_held(something_is_held: bool) -> Failure {
    let why = "agents, commits to git, programs that are left running and an undo work only on files \
               that are on the disk";
    let message = match something_is_held {
        true => format!(
            "changes of this session are held until a user accepts them (`cofferdam review`), and \
             {why}; make the call when the user has decided"
        ),
        false => format!(
            "this call's changes would have to be held until a user accepts them (`hold` in the \
             settings or `--hold`), and {why}; it can only be made where nothing is to be held"
        ),
    };
    Failure::new(DenialCode::NotInTransaction, message)
}

/// The failure of a call of a tool that calls tools, by such a tool.
pub fn not_nestable(call: &ValidCall) -> Failure {
    let message = format!(
        "'{}' calls other tools itself, so no tool may call it; call it by itself",
        call.tool.qualified_name()
    );
    Failure::new(DenialCode::NotNestable, message)
}

/// The failure of a call by a tool that has less access to files.
pub fn beyond_caller(call: &ValidCall, caller: &str) -> Failure {
    let message = format!(
        "'{}' changes files, and '{caller}', which calls it, may only read them here; a person can \
         grant it files = \"write\" under [grants.{caller}] in cofferdam.toml",
        call.tool.qualified_name()
    );
    Failure::new(DenialCode::NotGranted, message)
}

/// The failure of a refused call.
pub fn refused(refusal: &Refusal) -> Failure {
    let code = refusal.problems.first().map_or(RefusalCode::InvalidArguments, |first| first.code);
    let problems: Vec<String> =
        refusal.problems.iter().map(|problem| problem.problem.to_string()).collect();
    Failure::new(code, problems.join("; "))
}

/// The failure of a denied call.
pub fn denied(denial: &Denial) -> Failure {
    Failure::new(denial.code(), denial.to_string())
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use serde_json::json;

    use super::*;

    #[test]
    fn an_argument_is_accepted_under_its_other_names() {
        let input = json!({"properties": {
            "path": {"type": "string", "x-aliases": ["file_path", "filename"]},
            "limit": {"type": "integer"}
        }});
        for (args, wanted) in [
            (json!({"path": "a"}), json!({"path": "a"})),
            (json!({"file_path": "a", "limit": 1}), json!({"path": "a", "limit": 1})),
            (json!({"filename": "a"}), json!({"path": "a"})),
            // Refused afterwards: it is not clear which file is meant.
            (json!({"path": "a", "file_path": "b"}), json!({"path": "a", "file_path": "b"})),
            (json!({"file_path": "a", "filename": "b"}), json!({"path": "a", "filename": "b"})),
            (json!({"file": "a"}), json!({"file": "a"})),
            (json!("a"), json!("a")),
        ] {
            let mut call = Call { pointer: String::new(), tool: "a.b".to_owned(), args };
            rename_aliases(&input, &mut call);
            assert_eq!(call.args, wanted);
        }
    }

    #[test]
    fn null_for_an_optional_argument_counts_as_absent() {
        let input = json!({
            "type": "object",
            "additionalProperties": false,
            "required": ["path"],
            "properties": {
                "path": {"type": "string"},
                "limit": {"type": "integer"},
                "a/b": {"enum": ["x", "y"]},
                "any": {"type": ["string", "null"]}
            }
        });
        let schema = Schema::compile(input.clone()).unwrap();
        for (args, wanted) in [
            (json!({"path": "a", "limit": null}), json!({"path": "a"})),
            (json!({"path": "a", "a/b": null, "limit": 1}), json!({"path": "a", "limit": 1})),
            // These stay: null is a value of `any`, `path` is required, nothing is called `other`.
            (json!({"path": "a", "any": null}), json!({"path": "a", "any": null})),
            (json!({"path": null, "limit": null}), json!({"path": null})),
            (json!({"path": "a", "other": null}), json!({"path": "a", "other": null})),
        ] {
            let mut call = Call { pointer: "/actions/0".to_owned(), tool: "a.b".to_owned(), args };
            let problems = schema.problems(&call.args, &call.pointer);
            let is_changed = remove_nulls(&input, &mut call, &problems);
            assert_eq!(call.args, wanted);
            let left = schema.problems(&call.args, &call.pointer).len();
            assert_eq!(
                left,
                usize::from(!is_changed && !problems.is_empty() || wanted["path"].is_null())
            );
        }
    }
}
