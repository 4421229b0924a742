//! The limits of calls. All limits are on by default.

use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::PolicyError;
use crate::outcome::{HostCode, LimitCode, ProgramLimitCode, RefusalCode};

/// The limits of a call and of an envelope.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// Wall-clock time of a call.
    pub call: Duration,
    /// Wall-clock time of a call that may run native programs.
    pub program_call: Duration,
    /// Memory of a native program with its child processes, in bytes.
    pub program_memory: usize,
    /// Processes and threads of a native program at a time.
    pub processes: usize,
    /// How much of a long output stream of a native program is kept for users and clients, in
    /// bytes; 0 keeps nothing.
    pub spill: usize,
    /// Linear memory of an instance, all memories together, in bytes.
    pub memory: usize,
    /// Elements of one table.
    pub table_elements: usize,
    /// Core instances of a component.
    pub instances: usize,
    /// Tables of a component.
    pub tables: usize,
    /// Calls from the plugin into the host.
    pub host_calls: u64,
    /// Size of one call from the plugin into the host, or of its answer, in bytes.
    pub transfer: usize,
    /// Handles that an instance may hold: open files, streams, scanners.
    pub handles: usize,
    /// What a call writes to files, in bytes.
    pub write: usize,
    /// Files, directories and links that a call creates or changes.
    pub files: usize,
    /// Size of the cache that the programs of a plugin fill, in bytes.
    pub cache: usize,
    /// The answer of a call, in bytes.
    pub output: usize,
    /// The answer of a call over MCP, in bytes: a larger one becomes a resource.
    pub result: usize,
    /// Messages of a call (log, standard output and error), in bytes.
    pub messages: usize,
    /// The text of an envelope, in bytes.
    pub envelope: usize,
    /// Calls of an envelope.
    pub calls: usize,
    /// Calls of other tools that one call makes.
    pub nested_calls: usize,
    /// Wall-clock time of compiling a plugin that is not built in.
    pub compile: Duration,
    /// Memory of the process that compiles a plugin, in bytes.
    pub compile_memory: usize,
}

const KIB: usize = 1 << 10;
const MIB: usize = 1 << 20;

/// The length of a day in seconds.
const DAY_SECONDS: u64 = 24 * 60 * 60;

impl Limits {
    /// The default limits of calls.
    pub const DEFAULT: Self = Self {
        call: Duration::from_secs(30),
        program_call: Duration::from_secs(600),
        program_memory: 4096 * MIB,
        processes: 1024,
        spill: 64 * MIB,
        memory: 256 * MIB,
        table_elements: 100_000,
        // CPython as a component has 38.
        instances: 48,
        tables: 20,
        host_calls: 500_000,
        transfer: 32 * MIB,
        handles: 1_000,
        write: 256 * MIB,
        files: 20_000,
        cache: 4096 * MIB,
        output: 8 * MIB,
        result: 64 * KIB,
        messages: 64 * KIB,
        envelope: 16 * MIB,
        calls: 10_000,
        nested_calls: 10_000,
        compile: Duration::from_secs(120),
        compile_memory: 2048 * MIB,
    };

    /// The largest memory of an instance in bytes: the size of a slot in the engine's pool.
    pub const MAX_MEMORY: usize = 1024 * MIB;

    /// Applies the operator's settings.
    ///
    /// # Errors
    /// Returns an error if a limit is 0 or above the host's maximum.
    pub fn with(&self, settings: &LimitSettings) -> Result<Self, PolicyError> {
        for LimitKey { key, most, value, .. } in LimitKey::ALL {
            let message = match value(settings) {
                Some(0) => "0 is too little; leave the key out for the default".to_owned(),
                Some(value) if value > most => format!("{value} is more than the most, {most}"),
                _ => continue,
            };
            return Err(PolicyError { place: format!("limits.{key}"), message });
        }
        Ok(self.combined(settings, |_, set| set, |_, set| set))
    }

    /// The settings that would give these limits.
    pub fn settings(&self) -> LimitSettings {
        let size = |now: usize, unit: usize| Some(u32::try_from(now / unit).unwrap_or(u32::MAX));
        let time = |time: Duration| Some(u32::try_from(time.as_millis()).unwrap_or(u32::MAX));
        LimitSettings {
            call_ms: time(self.call),
            program_call_ms: time(self.program_call),
            program_memory_mb: size(self.program_memory, MIB),
            processes: size(self.processes, 1),
            spill_mb: size(self.spill, MIB),
            memory_mb: size(self.memory, MIB),
            host_calls: size(self.host_calls as usize, 1),
            write_mb: size(self.write, MIB),
            files: size(self.files, 1),
            cache_mb: size(self.cache, MIB),
            output_kb: size(self.output, KIB),
            result_kb: size(self.result, KIB),
            messages_kb: size(self.messages, KIB),
            envelope_mb: size(self.envelope, MIB),
            calls: size(self.calls, 1),
            nested_calls: size(self.nested_calls, 1),
            compile_ms: time(self.compile),
            compile_memory_mb: size(self.compile_memory, MIB),
        }
    }

    /// Lowers these limits to those of `settings` that are lower.
    #[must_use]
    pub fn lowered(&self, settings: &LimitSettings) -> Self {
        self.combined(settings, Ord::min, Ord::min)
    }

    /// The message of a call that exceeded a limit.
    pub fn exceeded(&self, code: LimitCode) -> String {
        match code {
            LimitCode::WallClockLimit => {
                format!("the call took longer than {} ms", self.call.as_millis())
            }
            LimitCode::MemoryLimit => {
                format!("the plugin wanted more than {} MiB of memory", self.memory >> 20)
            }
            LimitCode::HostMemoryLimit => {
                "all calls together wanted more memory than they may have; try again later"
                    .to_owned()
            }
            LimitCode::TableLimit => {
                format!("the plugin wanted a table of more than {} elements", self.table_elements)
            }
            LimitCode::HostCallLimit => {
                format!("the plugin called the host more than {} times", self.host_calls)
            }
            LimitCode::TransferLimit => {
                format!("the plugin passed more than {} MiB in one go", self.transfer >> 20)
            }
            LimitCode::HandleLimit => {
                format!("the plugin held more than {} handles", self.handles)
            }
            LimitCode::WriteLimit => format!("the call wrote more than {} MiB", self.write >> 20),
            LimitCode::FileLimit => format!(
                "the call made or changed more than {} files, directories and links",
                self.files
            ),
            LimitCode::NestedCallLimit => {
                format!("the call called other tools more than {} times", self.nested_calls)
            }
            LimitCode::OutputLimit => {
                format!("the answer is larger than {} KiB", self.output >> 10)
            }
            // Those that find these exceeded have a message of their own.
            LimitCode::CacheLimit
            | LimitCode::TemporaryLimit
            | LimitCode::CommitLimit
            | LimitCode::CompileTimeLimit
            | LimitCode::CompileMemoryLimit
            | LimitCode::CompileOutputLimit
            | LimitCode::TooManyCalls => format!("the call reached its limit {}", code.as_str()),
        }
    }

    fn combined(
        &self,
        settings: &LimitSettings,
        size: impl Fn(usize, usize) -> usize,
        time: impl Fn(Duration, Duration) -> Duration,
    ) -> Self {
        let size = |now: usize, set: Option<u32>, unit: usize| {
            set.map_or(now, |set| size(now, (set as usize).saturating_mul(unit)))
        };
        Self {
            call: settings
                .call_ms
                .map_or(self.call, |set| time(self.call, Duration::from_millis(set.into()))),
            program_call: settings.program_call_ms.map_or(self.program_call, |set| {
                time(self.program_call, Duration::from_millis(set.into()))
            }),
            program_memory: size(self.program_memory, settings.program_memory_mb, MIB),
            processes: size(self.processes, settings.processes, 1),
            spill: size(self.spill, settings.spill_mb, MIB),
            memory: size(self.memory, settings.memory_mb, MIB),
            host_calls: size(self.host_calls as usize, settings.host_calls, 1) as u64,
            write: size(self.write, settings.write_mb, MIB),
            files: size(self.files, settings.files, 1),
            cache: size(self.cache, settings.cache_mb, MIB),
            output: size(self.output, settings.output_kb, KIB),
            result: size(self.result, settings.result_kb, KIB),
            messages: size(self.messages, settings.messages_kb, KIB),
            envelope: size(self.envelope, settings.envelope_mb, MIB),
            calls: size(self.calls, settings.calls, 1),
            nested_calls: size(self.nested_calls, settings.nested_calls, 1),
            compile: settings
                .compile_ms
                .map_or(self.compile, |set| time(self.compile, Duration::from_millis(set.into()))),
            compile_memory: size(self.compile_memory, settings.compile_memory_mb, MIB),
            ..self.clone()
        }
    }
}

/// A key of `[limits]` in the settings.
#[derive(Debug, Clone, Copy)]
pub struct LimitKey {
    /// The key in the settings.
    pub key: &'static str,
    /// The largest value that the settings may set.
    pub most: u32,
    /// The codes of what exceeds the limit.
    pub codes: &'static [HostCode],
    value: fn(&LimitSettings) -> Option<u32>,
}

impl LimitKey {
    /// All keys.
    pub const ALL: [Self; 18] = {
        use HostCode::{Limit, ProgramLimit, Refused};
        use {LimitCode::*, ProgramLimitCode::*};
        const fn key(
            key: &'static str,
            most: u32,
            codes: &'static [HostCode],
            value: fn(&LimitSettings) -> Option<u32>,
        ) -> LimitKey {
            LimitKey { key, most, codes, value }
        }
        const TOO_LARGE: &[HostCode] = &[Refused(RefusalCode::TooLarge)];
        [
            key("call-ms", 600_000, &[Limit(WallClockLimit)], |set| set.call_ms),
            key(
                "program-call-ms",
                3_600_000,
                &[Limit(WallClockLimit), ProgramLimit(CpuTimeLimit)],
                |set| set.program_call_ms,
            ),
            key("program-memory-mb", 1 << 20, &[ProgramLimit(ProgramMemoryLimit)], |set| {
                set.program_memory_mb
            }),
            key("processes", 100_000, &[ProgramLimit(ProcessLimit)], |set| set.processes),
            key("spill-mb", 256, &[], |set| set.spill_mb),
            key("memory-mb", (Limits::MAX_MEMORY / MIB) as u32, &[Limit(MemoryLimit)], |set| {
                set.memory_mb
            }),
            key("host-calls", u32::MAX, &[Limit(HostCallLimit)], |set| set.host_calls),
            key(
                "write-mb",
                (64 * KIB) as u32,
                &[Limit(WriteLimit), ProgramLimit(FileSizeLimit)],
                |set| set.write_mb,
            ),
            key("files", 1_000_000, &[Limit(FileLimit)], |set| set.files),
            key("cache-mb", 1 << 20, &[Limit(CacheLimit)], |set| set.cache_mb),
            key("output-kb", (32 * KIB) as u32, &[Limit(OutputLimit)], |set| set.output_kb),
            key("result-kb", (32 * KIB) as u32, &[], |set| set.result_kb),
            key("messages-kb", (16 * KIB) as u32, &[], |set| set.messages_kb),
            key("envelope-mb", 256, TOO_LARGE, |set| set.envelope_mb),
            key("calls", 1_000_000, TOO_LARGE, |set| set.calls),
            key("nested-calls", 1_000_000, &[Limit(NestedCallLimit)], |set| set.nested_calls),
            key("compile-ms", 3_600_000, &[Limit(CompileTimeLimit)], |set| set.compile_ms),
            key("compile-memory-mb", 1 << 20, &[Limit(CompileMemoryLimit)], |set| {
                set.compile_memory_mb
            }),
        ]
    };

    /// The value where nothing is configured.
    pub fn default(&self) -> u32 {
        (self.value)(&Limits::DEFAULT.settings()).unwrap_or_default()
    }
}

/// How long commits are kept for undo. The oldest are removed first, by number and size before age.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Retention {
    /// The largest number of commits.
    pub commits: usize,
    /// The largest age of a commit.
    pub age: Duration,
    /// The largest size of all commits' files, in bytes.
    pub bytes: u64,
}

impl Retention {
    /// The default retention of commits.
    pub const DEFAULT: Self = Self {
        commits: 1_000,
        age: Duration::from_secs(30 * DAY_SECONDS),
        bytes: 1024 * MIB as u64,
    };

    /// Applies the operator's settings.
    #[must_use]
    pub fn with(self, settings: &HistorySettings) -> Self {
        Self {
            commits: settings.commits.map_or(self.commits, |commits| commits as usize),
            age: settings
                .days
                .map_or(self.age, |days| Duration::from_secs(u64::from(days) * DAY_SECONDS)),
            bytes: settings.mb.map_or(self.bytes, |mb| u64::from(mb) * MIB as u64),
        }
    }
}

/// How long commits are kept, as written in `cofferdam.toml`. With 0 commits or 0 MiB, nothing is
/// kept.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct HistorySettings {
    /// The largest number of commits (default 1,000).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub commits: Option<u32>,
    /// The largest age in days (default 30). The latest ten are kept, and another one is removed
    /// only if the clock and each of those ten agree that it is too old.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub days: Option<u32>,
    /// The largest size of all commits' files, in MiB (default 1,024); the latest commit is kept
    /// at any size.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mb: Option<u32>,
}

/// Limits as written in a manifest, a role or `cofferdam.toml`. Omitted limits are not changed; a
/// manifest and a role can only lower them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct LimitSettings {
    /// Wall-clock time of a call, in milliseconds (default 30,000).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub call_ms: Option<u32>,
    /// Wall-clock time of a call that may run native programs, in milliseconds (default 600,000).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub program_call_ms: Option<u32>,
    /// Memory of a native program with its child processes, in MiB (default 4,096).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub program_memory_mb: Option<u32>,
    /// Processes and threads of a native program at a time (default 1,024).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub processes: Option<u32>,
    /// How much of a long output stream of a native program is kept for users and clients, in MiB
    /// (default 64).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub spill_mb: Option<u32>,
    /// Linear memory of an instance, in MiB (default 256).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory_mb: Option<u32>,
    /// Calls from the plugin into the host (default 500,000).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host_calls: Option<u32>,
    /// What a call writes to files, in MiB (default 256).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub write_mb: Option<u32>,
    /// Files, directories and links that a call creates or changes (default 20,000).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub files: Option<u32>,
    /// Size of the cache that the native programs of a plugin fill, in MiB (default 4,096).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cache_mb: Option<u32>,
    /// The answer of a call, in KiB (default 8,192).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output_kb: Option<u32>,
    /// The answer of a call over MCP, in KiB; a larger one becomes a resource (default 64).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub result_kb: Option<u32>,
    /// Messages of a call, in KiB (default 64).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub messages_kb: Option<u32>,
    /// The text of an envelope, in MiB (default 16).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub envelope_mb: Option<u32>,
    /// Calls of an envelope (default 10,000).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub calls: Option<u32>,
    /// Calls of other tools that one call makes, such as a script (default 10,000).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nested_calls: Option<u32>,
    /// Wall-clock time of compiling a plugin that is not built in, in milliseconds (default
    /// 120,000). Only `cofferdam.toml` sets it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub compile_ms: Option<u32>,
    /// Memory of the process that compiles a plugin, in MiB (default 2,048). Only `cofferdam.toml`
    /// sets it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub compile_memory_mb: Option<u32>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_written_as_they_are_read() {
        let settings = Limits::DEFAULT.settings();
        assert_eq!(Limits::DEFAULT.with(&settings), Ok(Limits::DEFAULT));
        let other =
            Limits { compile_memory: MIB, call: Duration::from_millis(7), ..Limits::DEFAULT };
        assert_eq!(Limits::DEFAULT.with(&other.settings()), Ok(other));
    }
}
