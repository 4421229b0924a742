//! Every code that the host can give, in one list. `docs/outcomes.md` is generated from it: the doc
//! comment of a code is what it means, the text behind the arrow is what to do. Codes are stable
//! names: agents, scripts and the journal's readers branch on them.

use std::fmt;

use serde::{Serialize, Serializer};

use super::Status;

/// The longest code of a plugin, in bytes.
const MAX_TOOL_CODE_BYTES: usize = 64;

/// The code of a failure: one of the host's, or the text of the plugin whose tool failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FailureCode {
    /// A code of the host.
    Host(HostCode),
    /// A code of the tool's own contract, such as `FileNotFoundError`.
    Tool(String),
}

impl FailureCode {
    /// The code of a plugin's failure: its text where that is a name (ASCII letters, digits, `_`, `-`
    /// and `.`, at most 64 bytes), otherwise [`ErrorCode::UnnamedError`].
    pub fn of_tool(text: String) -> Self {
        let is_name = !text.is_empty()
            && text.len() <= MAX_TOOL_CODE_BYTES
            && text.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.'));
        if is_name { Self::Tool(text) } else { Self::Host(ErrorCode::UnnamedError.into()) }
    }

    /// The name of the code, which stays the same in all versions.
    pub fn as_str(&self) -> &str {
        match self {
            Self::Host(code) => code.as_str(),
            Self::Tool(code) => code,
        }
    }
}

impl fmt::Display for FailureCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl Serialize for FailureCode {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

/// Defines an enum for each group of codes, and [`HostCode`] over all of them.
macro_rules! codes {
    ($(
        $(#[doc = $about:literal])+
        $group:ident($kind:ident, $status:ident) {
            $( $(#[doc = $meaning:literal])+ $code:ident => $remedy:literal, )+
        }
    )+) => {
        /// A code that the host can give.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum HostCode {
            $( $(#[doc = $about])+ $kind($group), )+
        }

        impl HostCode {
            /// All codes, by group.
            pub const ALL: &[&[Self]] = &[$( &[$( Self::$kind($group::$code), )+], )+];

            /// The name of the code, which stays the same in all versions.
            pub const fn as_str(self) -> &'static str {
                match self { $( Self::$kind(code) => code.as_str(), )+ }
            }

            /// The kind of outcome of a call that ends with this code.
            pub const fn status(self) -> Status {
                match self { $( Self::$kind(_) => Status::$status, )+ }
            }

            /// What the codes of this one's group have in common, in Markdown.
            pub fn about(self) -> &'static str {
                match self { $( Self::$kind(_) => concat!($( $about ),+).trim_start(), )+ }
            }

            /// What happened, in Markdown.
            pub fn meaning(self) -> &'static str {
                match self {
                    $($( Self::$kind($group::$code) => concat!($( $meaning ),+).trim_start(), )+)+
                }
            }

            /// What to do, in Markdown.
            pub fn remedy(self) -> &'static str {
                match self { $($( Self::$kind($group::$code) => $remedy, )+)+ }
            }
        }

        $(
            $(#[doc = $about])+
            #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
            pub enum $group {
                $( $(#[doc = $meaning])+ $code, )+
            }

            impl $group {
                /// The name of the code, which stays the same in all versions.
                pub const fn as_str(self) -> &'static str {
                    match self { $( Self::$code => stringify!($code), )+ }
                }
            }

            impl From<$group> for HostCode {
                fn from(code: $group) -> Self {
                    Self::$kind(code)
                }
            }
        )+
    };
}

codes! {
    /// The host ends a call that exceeds one of these limits, and discards its changes.
    LimitCode(Limit, Limit) {
        /// The call took too long. The second values are for calls that may run native programs.
        WallClockLimit => "Ask for less in one call, or raise the key.",
        /// The plugin requested more linear memory than one instance may have.
        MemoryLimit => "Ask for less in one call, or raise the key.",
        /// All running calls of the host together requested more memory than they may have.
        HostMemoryLimit => "Try again when fewer calls run.",
        /// The plugin requested a table with too many elements.
        TableLimit => "Report it to the plugin's author.",
        /// The plugin called the host too often.
        HostCallLimit => "Ask for less in one call, or raise the key.",
        /// The plugin passed too many bytes to the host in one call, or the arguments are too large for
        /// a typed function.
        TransferLimit => "Ask for less in one call.",
        /// The plugin held too many handles (open files, streams, scanners).
        HandleLimit => "Report it to the plugin's author.",
        /// The call, or a native program that it ran, wrote too many bytes to the workspace.
        WriteLimit => "Change less in one call, or raise the key.",
        /// The call, or a native program that it ran, created or changed too many files, directories
        /// and links.
        FileLimit => "Change less in one call, or raise the key.",
        /// The result of the call is too large.
        OutputLimit => "Ask for less in one call, or raise the key.",
        /// Native programs of the plugin filled its cache.
        CacheLimit => "Call again (the next call removes what was unused for longest), or raise the key.",
        /// A native program filled its temporary directory.
        TemporaryLimit => "Have the program write less to its temporary directory.",
        /// The commit has more changes than one record in the history can hold.
        CommitLimit => "Change less in one call or one atomic envelope.",
        /// The call called other tools too often.
        NestedCallLimit => "Call tools less often, such as with one pattern instead of many, or raise the key.",
        /// Compiling a plugin that was not built in took too long.
        CompileTimeLimit => "Raise the key, or report it to the plugin's author.",
        /// Compiling a plugin that was not built in took too much memory.
        CompileMemoryLimit => "Raise the key, or report it to the plugin's author.",
        /// The compiled code of a plugin is too large.
        CompileOutputLimit => "Report it to the plugin's author.",
        /// The tool was called with the same argument more often than its manifest allows.
        TooManyCalls => "Use the earlier result, or continue without.",
    }

    /// The host kills a native program that exceeds one of these limits. The plugin gets the code and
    /// can go on; a built-in tool returns it as the error of the call.
    ProgramLimitCode(ProgramLimit, Limit) {
        /// A process of the program used too much processor time.
        CpuTimeLimit => "Ask the program for less, or raise the key.",
        /// The program and everything that it started used too much memory.
        ProgramMemoryLimit => "Ask the program for less, or raise the key.",
        /// The program wrote a file that is too large.
        FileSizeLimit => "Ask the program for less, or raise the key.",
        /// The program printed too much.
        ProgramOutputLimit => "Have the program print less, or print to a file.",
        /// The program had too many processes and threads at once.
        ProcessLimit => "Have the program start fewer at once, or raise the key.",
    }

    /// The call is not allowed. The message names the rule, and what the user can change.
    DenialCode(Denied, Denied) {
        /// The role does not include the tool.
        ToolNotInRole => "Use a tool of the role (`cofferdam tools --role NAME`), or change the role.",
        /// The tool, or an import of its plugin, needs a grant that the plugin does not have.
        NotGranted => "Grant it with the lines in the message, or by `cofferdam policy grant`.",
        /// The run is narrowed to a path outside of the role's scope.
        OutOfScope => "Narrow the run to paths within the scope of the role.",
        /// The plugin imports an interface that this host does not offer, or not in this form.
        UnknownImport => "Update the host or the plugin.",
        /// The file of the plugin was changed since this host loaded it.
        PluginChanged => "Install the plugin again; restart a server after its plugins change.",
        /// The call would change a protected file, or one that other programs execute by its name
        /// while the settings refuse that (`executed`). Tools use the same code for files that they
        /// may not access.
        PermissionError => "Choose another path. The message names the rule.",
        /// The call needs the user's approval, and the client can't ask for it.
        ApprovalNeeded => "Use an MCP client that supports elicitation, or change `ask` or `executed` in the settings.",
        /// The call would do something other than what the user approved.
        ApprovalOutdated => "Make the call again, without an answer.",
        /// The `requestState` is not that of an open question.
        ApprovalUnknown => "Make the call again, without a `requestState` and without an answer.",
        /// The user declined, or did not answer.
        Declined => "Do something else, or ask the user why.",
        /// Too many questions wait for an answer of the user.
        TooManyQuestions => "Try again when the user has answered.",
        /// The call, or an earlier one of its session, has read a secret of the settings, and it would send
        /// something to an origin that is not allowed for that secret, which the user has not approved.
        SecretFlow => "Use an MCP client that supports elicitation, make the call in a session that has not read the secret, or name the origin in `secrets` in the settings.",
        /// The workspace is too large to be compared with what the user approved.
        WorkspaceTooLarge => "Remove the tool from `ask` in the settings, or use a smaller workspace.",
        /// The call gives tasks to agents, whose changes can't be undone with the transaction.
        NotInTransaction => "Make the call in a run that is neither atomic nor a dry run.",
        /// A tool that calls other tools was called by such a tool.
        NotNestable => "Call the tool by itself.",
    }

    /// The call could not be done, or its changes were not kept. Tools return their own errors with
    /// this outcome.
    ErrorCode(Error, Error) {
        /// Another process changed what the call has read or wanted to change. Nothing was changed.
        Conflict => "Read the paths in the message again, and call again.",
        /// The call succeeded, but its changes were discarded together with those of its atomic
        /// envelope or round of the pipeline.
        RolledBack => "Correct the call that failed, and send all of them again.",
        /// A document of the pipeline breaks a rule, so nothing was executed.
        Blocked => "Correct the document; the message names the rule.",
        /// The host refused a request for an MCP resource before a call was made.
        Refused => "Correct the arguments that the message names.",
        /// The tool failed with a code that is not a name.
        UnnamedError => "Read the message; report it to the plugin's author.",
        /// A typed function returned an error without a case of its own.
        FunctionError => "Read the message.",
        /// A typed function returned a value that JSON can't represent.
        UnrepresentableAnswer => "Report it to the plugin's author.",
    }

    /// The plugin is broken, not the call.
    TrapCode(Trap, Trap) {
        /// The plugin crashed. The message has its last output on standard error.
        PluginCrashed => "Report it to the plugin's author.",
        /// The result is not JSON, or does not fit the tool's output schema.
        InvalidOutput => "Report it to the plugin's author.",
        /// The plugin is not a valid component, or needs what the engine does not offer.
        InvalidComponent => "Build the plugin again, or install another version.",
        /// The plugin does not export what its manifest says.
        WrongWorld => "Report it to the plugin's author.",
        /// The plugin crashes the compiler.
        CompilerCrashed => "Report it to the plugin's author.",
    }

    /// The call was not made, or ended early on request.
    SkippedCode(Skipped, Skipped) {
        /// The call was cancelled.
        Cancelled => "Make the call again if it is still needed.",
        /// An earlier call of the envelope failed, with `--fail-fast` or `--atomic`.
        Skipped => "Correct the call that failed, and send the skipped ones again.",
        /// The call waits for the user's approval.
        ApprovalPending => "Ask the user, and make the call again with the answer.",
    }

    /// The host or its system failed; neither the call nor the plugin is wrong.
    FailedCode(Failed, Failed) {
        /// A disk is full or nearly so. The message says which, and what is left.
        DiskFull => "Free some space, and call again.",
        /// The host has no free file descriptor.
        DescriptorShortage => "Try again when fewer calls run, or raise `ulimit -n`.",
        /// The file of the plugin can't be read, or the cache of compiled plugins can't be written.
        PluginUnreadable => "Check the file that the message names; `cofferdam doctor` helps.",
        /// The process that compiles plugins can't be started, or returned no code.
        CompilerUnavailable => "Run `cofferdam doctor`.",
        /// The workspace can't be read or written, or an interrupted commit can't be finished.
        WorkspaceError => "Check the permissions and the disk of the workspace; `cofferdam doctor` helps.",
        /// The commit failed. Nothing was changed.
        CommitFailed => "Check the path that the message names, and call again.",
        /// The commit failed half-way, and could not be undone.
        CommitUnfinished => "Correct what the message names: the next call finishes or undoes the commit.",
    }

    /// The host refuses an envelope or a call before it runs anything. The refusal lists all problems,
    /// and has feedback for the model. In the journal, the outcome is `error`.
    RefusalCode(Refused, Error) {
        /// The text is not a valid envelope.
        InvalidEnvelope => "Correct the envelope at the place that the refusal names.",
        /// The tool does not exist, or the role has no tool of this name.
        UnknownTool => "Use the suggested name, or one of `cofferdam tools`.",
        /// Several plugins have a tool of this name.
        AmbiguousTool => "Use one of the full names in the refusal.",
        /// The arguments do not fit the tool's schema, or what the role says of them.
        InvalidArguments => "Correct the arguments at the places that the refusal names.",
        /// The envelope has more calls or bytes than the limits allow.
        TooLarge => "Send fewer calls in one envelope, or raise the key.",
        /// The run is narrowed to invalid paths.
        InvalidScope => "Name paths within the workspace, relative to it.",
        /// The role does not exist.
        UnknownRole => "Use one of `cofferdam role list`.",
        /// Another process is changing the workspace. A call that waits for it too long ends with this
        /// code and the outcome `error`.
        WorkspaceBusy => "Try again when the other process is done.",
        /// The workspace can't be read or written.
        WorkspaceError => "Check the permissions and the disk of the workspace; `cofferdam doctor` helps.",
        /// The disk of the workspace is full.
        DiskFull => "Free some space, and try again.",
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use super::*;

    #[test]
    fn codes_are_serialised_by_their_names() {
        let codes = [FailureCode::Host(LimitCode::WallClockLimit.into())];
        let codes = codes.into_iter().chain([FailureCode::of_tool("NotThere".to_owned())]);
        let text = serde_json::to_string(&codes.collect::<Vec<_>>()).unwrap();
        assert_eq!(text, r#"["WallClockLimit","NotThere"]"#);
        let refusal = serde_json::to_string(&RefusalCode::UnknownTool).unwrap();
        assert_eq!(refusal, r#""UnknownTool""#);
    }

    #[test]
    fn codes_that_are_not_names_are_replaced() {
        for (text, wanted) in [
            ("FileNotFoundError", "FileNotFoundError"),
            ("a.b-c_9", "a.b-c_9"),
            ("", "UnnamedError"),
            ("two words", "UnnamedError"),
            ("naïve", "UnnamedError"),
            (&"x".repeat(65), "UnnamedError"),
        ] {
            assert_eq!(FailureCode::of_tool(text.to_owned()).as_str(), wanted);
        }
    }

    #[test]
    fn only_two_refusals_are_failures_of_calls_as_well() {
        let all: Vec<HostCode> = HostCode::ALL.concat();
        for code in &all {
            let same = all.iter().filter(|other| other.as_str() == code.as_str()).count();
            let is_refusal = ["DiskFull", "WorkspaceError"].contains(&code.as_str());
            assert_eq!(same, if is_refusal { 2 } else { 1 }, "{code:?}");
        }
    }
}
