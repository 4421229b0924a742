//! Prints the list of all system calls.

use std::fmt::Write as _;

use super::arguments;
use super::table::{Action, GROUPS, Group, UNKNOWN};
use crate::Tier;

const INTRODUCTION: &str = "\
# System calls of a program

Generated from the filter by `cargo xtask gen`.

These are the system calls that a native program may make in the sandbox, and why. The filter is
generated from the same tables. A call that is not listed fails with `ENOSYS`, and so do the x32
calls; a call for another processor (32 bits) kills the program.

Both tiers have the same filter, except for the answers that name a tier. Where the supervisor
decides, the call waits until the sandbox's own process has checked it. Names marked with * are
older calls, which exist on x86-64 and not on aarch64.

What a call can access is decided besides the filter: by the mounts and namespaces (tier A), by
Landlock (both tiers), and by the limits.
";

/// Returns the list of all system calls, each with the action and the reason, as Markdown.
pub(crate) fn reference() -> String {
    let mut text = INTRODUCTION.to_owned();
    section(&mut text, "Allowed", |group| is_allowed(group.tier_a));
    section(&mut text, "Refused", |group| !is_allowed(group.tier_a));
    text += "\n## Refused by their arguments\n\nSuch a call fails with `EPERM`.\n\n\
             | call | tier | what is refused, and why |\n|---|---|---|\n";
    for refused in arguments::all() {
        let names: Vec<_> = refused.calls.iter().map(|(name, ..)| format!("`{name}`")).collect();
        let tier = refused.tier.map_or("both", letter);
        let _ = writeln!(text, "| {} | {tier} | {} |", names.join(", "), refused.what);
    }
    text
}

fn section(text: &mut String, title: &str, belongs: impl Fn(&Group) -> bool) {
    let _ = write!(text, "\n## {title}\n\n| calls | answer | reason |\n|---|---|---|\n");
    for group in GROUPS.iter().filter(|group| belongs(group)) {
        let plain = group.calls.iter().map(|call| format!("`{}`", call.name()));
        let older = group.older.iter().map(|call| format!("`{}`*", call.name()));
        let names: Vec<_> = plain.chain(older).collect();
        let answer = if group.tier_a == group.tier_b {
            describe(group.tier_a)
        } else {
            let (a, b) = (describe(group.tier_a), describe(group.tier_b));
            format!("{}: {a}; {}: {b}", letter(Tier::A), letter(Tier::B))
        };
        let Group { name, reason, .. } = group;
        let _ = writeln!(text, "| **{name}**: {} | {answer} | {reason} |", names.join(", "));
    }
}

fn is_allowed(answer: Action) -> bool {
    !matches!(answer, Action::Fail(_))
}

fn letter(tier: Tier) -> &'static str {
    match tier {
        Tier::A => "A",
        Tier::B => "B",
    }
}

fn describe(answer: Action) -> String {
    match answer {
        Action::Allow => "allowed".to_owned(),
        Action::Ask => "the supervisor decides".to_owned(),
        Action::AskIfEqual(..) => "allowed; the supervisor decides about locks".to_owned(),
        Action::AskIfBits(..) => {
            "allowed; the supervisor decides about anonymous shared memory".to_owned()
        }
        Action::Fail(0) => "succeeds without effect".to_owned(),
        unknown if unknown == UNKNOWN => "does not exist (`ENOSYS`)".to_owned(),
        Action::Fail(libc::EPERM) => "refused (`EPERM`)".to_owned(),
        Action::Fail(libc::EMFILE) => "none left (`EMFILE`)".to_owned(),
        Action::Fail(libc::ENOTSUP) => "not supported (`ENOTSUP`)".to_owned(),
        Action::Fail(error) => format!("refused (error {error})"),
    }
}
