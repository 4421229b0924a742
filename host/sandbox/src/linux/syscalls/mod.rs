//! The system calls that a program may make (seccomp). Calls that are not listed fail with ENOSYS.

mod arguments;
mod reference;
mod table;

use std::io;
use std::os::fd::OwnedFd;
use std::sync::OnceLock;

use libc::c_long;
use seccompiler::{BackendError, BpfProgram, SeccompAction, SeccompFilter, sock_filter};

use super::gate;
use crate::{SandboxError, Tier};
use table::{Action, GROUPS, Group, UNKNOWN};

pub(super) use arguments::{Argument, bits, is, masked, rule};
pub(crate) use reference::reference;

/// The compiled filters of one tier.
pub(super) struct Filters {
    by_number: BpfProgram,
    by_argument: BpfProgram,
}

/// The filters that were compiled; a process that was forked has those of the other one.
static COMPILED: [OnceLock<Result<Filters, SandboxError>>; 2] = [OnceLock::new(), OnceLock::new()];

impl Filters {
    /// Returns the filters of a tier.
    ///
    /// # Errors
    /// Returns an error if the compiler does not support the processor.
    pub(super) fn of(tier: Tier) -> Result<&'static Self, SandboxError> {
        let compiled = COMPILED[usize::from(tier == Tier::B)].get_or_init(|| Self::compile(tier));
        compiled.as_ref().map_err(Clone::clone)
    }

    fn compile(tier: Tier) -> Result<Self, SandboxError> {
        let failed = |error: BackendError| SandboxError::Unavailable(error.to_string());
        let filter = SeccompFilter::new(
            arguments::refused(tier).map_err(failed)?,
            SeccompAction::Allow,
            SeccompAction::Errno(libc::EPERM.unsigned_abs()),
            std::env::consts::ARCH.try_into().map_err(failed)?,
        );
        let by_argument = filter.and_then(TryInto::try_into).map_err(failed)?;
        Ok(Self { by_number: by_number(tier), by_argument })
    }

    /// Confines the calling process. Returns the descriptor from which the supervisor receives its
    /// calls.
    ///
    /// # Errors
    /// Returns an error on a kernel without seccomp, or before Linux 5.19.
    pub(super) fn apply(&self) -> io::Result<OwnedFd> {
        let listener = gate::install(&self.by_number)?;
        seccompiler::apply_filter(&self.by_argument).map_err(io::Error::other)?;
        Ok(listener)
    }
}

impl Group {
    fn action(&self, tier: Tier) -> Action {
        match tier {
            Tier::A => self.tier_a,
            Tier::B => self.tier_b,
        }
    }
}

/// Returns the filter by call numbers. It has the actions that the compiler of the other filter
/// does not support: ENOSYS, and asking the supervisor.
fn by_number(tier: Tier) -> BpfProgram {
    let mut answers: Vec<(c_long, Action)> = GROUPS
        .iter()
        .flat_map(|group| {
            let calls = group.calls.iter().chain(group.older);
            calls.filter_map(move |call| Some((call.number?, group.action(tier))))
        })
        .collect();
    answers.sort_by_key(|(number, _)| *number);
    // The first number of each range with the same action.
    let mut ranges: Vec<(u32, Action)> = vec![(0, UNKNOWN)];
    for (number, answer) in answers {
        let number = number as u32;
        match ranges.last_mut() {
            Some((first, before)) if *first == number => *before = answer,
            _ => ranges.push((number, answer)),
        }
        ranges.push((number + 1, UNKNOWN));
    }
    ranges.dedup_by(|next, before| next.1 == before.1);
    let mut filter = vec![instruction(LOAD_WORD, 0, 0)];
    search(&ranges, &mut filter);
    filter
}

// Instructions: linux/bpf_common.h.
const LOAD_WORD: u16 = 0x20;
const JUMP: u16 = 0x05;
const JUMP_IF_EQUAL: u16 = 0x15;
const JUMP_IF_AT_LEAST: u16 = 0x35;
const AND: u16 = 0x54;
const RETURN: u16 = 0x06;

/// An instruction that skips the next `jt` instructions if its test is true.
fn instruction(code: u16, jt: u8, k: u32) -> sock_filter {
    sock_filter { code, jt, jf: 0, k }
}

/// A binary search for the range of the loaded number: a filter runs for each call that is not
/// always allowed, and once for each possible call when it is installed.
fn search(ranges: &[(u32, Action)], filter: &mut BpfProgram) {
    match ranges {
        [] => {}
        [(_, answer)] => filter.extend(decide(*answer)),
        _ => {
            let (lower, upper) = ranges.split_at(ranges.len() / 2);
            let (mut below, mut above) = (Vec::new(), Vec::new());
            search(lower, &mut below);
            search(upper, &mut above);
            // The distance of a conditional jump is limited, so it jumps over an unconditional one.
            filter.push(sock_filter { code: JUMP_IF_AT_LEAST, jt: 0, jf: 1, k: upper[0].0 });
            filter.push(instruction(JUMP, 0, below.len() as u32));
            filter.extend(below);
            filter.extend(above);
        }
    }
}

/// The instructions that return an action.
fn decide(answer: Action) -> BpfProgram {
    let done = |action: u32| instruction(RETURN, 0, action);
    let allow = done(SeccompAction::Allow.into());
    let ask = done(libc::SECCOMP_RET_USER_NOTIF);
    match answer {
        Action::Allow => vec![allow],
        Action::Ask => vec![ask],
        Action::Fail(error) => vec![done(SeccompAction::Errno(error.unsigned_abs()).into())],
        Action::AskIfEqual(argument, values) => if_equal(argument, values, [allow, ask]),
        Action::IgnoreOptions(options) => {
            let ignore = done(SeccompAction::Errno(0).into());
            let mut decision = vec![
                instruction(LOAD_WORD, 0, low_word(1)),
                instruction(JUMP_IF_EQUAL, 1, libc::SOL_SOCKET as u32),
                allow.clone(),
            ];
            decision.extend(if_equal(2, options, [allow, ignore]));
            decision
        }
        Action::AskIfBits(argument, bits) => vec![
            instruction(LOAD_WORD, 0, low_word(argument)),
            instruction(AND, 0, bits),
            instruction(JUMP_IF_EQUAL, 1, bits),
            allow,
            ask,
        ],
    }
}

/// The instructions that return the second action if an argument has one of the values, otherwise
/// the first.
fn if_equal(argument: u8, values: &[u32], actions: [sock_filter; 2]) -> BpfProgram {
    let mut decision = vec![instruction(LOAD_WORD, 0, low_word(argument))];
    let after = (0..values.len() as u8).rev();
    let jumps = values.iter().zip(after);
    decision.extend(jumps.map(|(value, after)| instruction(JUMP_IF_EQUAL, after + 1, *value)));
    decision.extend(actions);
    decision
}

/// The offset of the lower half of an argument in `seccomp_data`, on little-endian processors.
fn low_word(argument: u8) -> u32 {
    16 + 8 * u32::from(argument)
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, clippy::panic, reason = "tests")]

    use std::collections::HashMap;

    use libc::c_int;

    use super::*;

    /// Returns what a filter decides about a call.
    fn run(filter: &[sock_filter], number: u32, arguments: [u32; 6]) -> u32 {
        let (mut at, mut word) = (0, 0);
        loop {
            let sock_filter { code, jt, jf, k } = filter[at].clone();
            at += 1;
            let jump = |test: bool| usize::from(if test { jt } else { jf });
            match code {
                LOAD_WORD if k == 0 => word = number,
                LOAD_WORD => word = arguments[(k as usize - 16) / 8],
                AND => word &= k,
                JUMP => at += k as usize,
                JUMP_IF_EQUAL => at += jump(word == k),
                JUMP_IF_AT_LEAST => at += jump(word >= k),
                RETURN => return k,
                other => panic!("{other:#x}"),
            }
        }
    }

    #[test]
    fn each_call_gets_the_action_of_its_group() {
        for tier in [Tier::A, Tier::B] {
            let filter = by_number(tier);
            let groups = GROUPS.iter().flat_map(|group| {
                let calls = group.calls.iter().chain(group.older);
                calls.filter_map(move |call| Some((call.number?, group.action(tier))))
            });
            let known: HashMap<c_long, Action> = groups.collect();
            let numbers = (0..1000).chain([0x4000_0000, 0x4000_0000 + 39, u32::MAX]);
            for number in numbers {
                let answer = known.get(&c_long::from(number)).copied().unwrap_or(UNKNOWN);
                let said = |arguments| run(&filter, number, arguments);
                let plain = match answer {
                    Action::Ask => libc::SECCOMP_RET_USER_NOTIF,
                    Action::Fail(error) => libc::SECCOMP_RET_ERRNO | error.unsigned_abs(),
                    _ => libc::SECCOMP_RET_ALLOW,
                };
                assert_eq!(said([0; 6]), plain, "{number} in tier {tier}");
            }
            let fcntl = |command| run(&filter, libc::SYS_fcntl as u32, [0, command, 0, 0, 0, 0]);
            assert_eq!(fcntl(libc::F_SETLK as u32), libc::SECCOMP_RET_USER_NOTIF);
            assert_eq!(fcntl(libc::F_SETLKW as u32), libc::SECCOMP_RET_USER_NOTIF);
            assert_eq!(fcntl(libc::F_GETFL as u32), libc::SECCOMP_RET_ALLOW);
            let option = |level: c_int, option: c_int| {
                let [level, option] = [level, option].map(c_int::unsigned_abs);
                run(&filter, libc::SYS_setsockopt as u32, [0, level, option, 0, 0, 0])
            };
            assert_eq!(option(libc::SOL_SOCKET, libc::SO_SNDBUF), libc::SECCOMP_RET_ERRNO);
            assert_eq!(option(libc::SOL_SOCKET, libc::SO_REUSEADDR), libc::SECCOMP_RET_ALLOW);
            assert_eq!(option(libc::IPPROTO_TCP, libc::SO_SNDBUF), libc::SECCOMP_RET_ALLOW);
            let mmap = |flags: c_int| {
                run(&filter, libc::SYS_mmap as u32, [0, 0, 0, flags.unsigned_abs(), 0, 0])
            };
            let anonymous = libc::MAP_ANONYMOUS;
            assert_eq!(mmap(libc::MAP_SHARED | anonymous), libc::SECCOMP_RET_USER_NOTIF);
            assert_eq!(mmap(libc::MAP_SHARED_VALIDATE | anonymous), libc::SECCOMP_RET_USER_NOTIF);
            assert_eq!(mmap(libc::MAP_PRIVATE | anonymous), libc::SECCOMP_RET_ALLOW);
            assert_eq!(mmap(libc::MAP_SHARED), libc::SECCOMP_RET_ALLOW);
        }
    }

    #[test]
    fn no_call_is_listed_twice() {
        let calls = GROUPS.iter().flat_map(|group| group.calls.iter().chain(group.older));
        let mut names: Vec<&str> = calls.map(table::Call::name).collect();
        let all = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), all);
    }

    #[test]
    fn the_filters_compile() {
        for tier in [Tier::A, Tier::B] {
            let filters = Filters::of(tier).unwrap();
            assert!(filters.by_number.len() < 4096 && filters.by_argument.len() < 4096);
        }
    }
}
