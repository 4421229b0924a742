//! The list of all calls as a document.

use std::fmt::Write as _;

use super::table::{Answer, GROUPS, Group};
use super::{UNKNOWN, arguments};
use crate::Tier;

const HEAD: &str = "\
# System calls of a program

Generated from the filter by `cargo xtask gen`.

This is what a native program may ask of the kernel in the sandbox, and why. The filter is made
from the same tables. A call that is not listed does not exist for a program (`ENOSYS`), and
neither do the x32 calls; a call for another processor (32 bits) ends the program.

Both tiers have the same filter, but for the answers that name a tier. Where the supervisor
decides, the call waits until the sandbox's own process has looked at it. Names marked with * are
older calls, which x86-64 has and aarch64 has not.

What a call can reach is decided beside the filter: by the mounts and namespaces (tier A), by
Landlock (both tiers), and by the limits.
";

/// The list of all calls, each with the answer and the reason, as Markdown.
pub(crate) fn reference() -> String {
    let mut text = HEAD.to_owned();
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

fn is_allowed(answer: Answer) -> bool {
    !matches!(answer, Answer::Fail(_))
}

fn letter(tier: Tier) -> &'static str {
    match tier {
        Tier::A => "A",
        Tier::B => "B",
    }
}

fn describe(answer: Answer) -> String {
    match answer {
        Answer::Allow => "allowed".to_owned(),
        Answer::Ask => "the supervisor decides".to_owned(),
        Answer::AskIfEqual(..) => "allowed; of locks the supervisor decides".to_owned(),
        Answer::AskIfBits(..) => {
            "allowed; of shared memory without a file the supervisor decides".to_owned()
        }
        Answer::Fail(0) => "succeeds without effect".to_owned(),
        unknown if unknown == UNKNOWN => "does not exist (`ENOSYS`)".to_owned(),
        Answer::Fail(libc::EPERM) => "refused (`EPERM`)".to_owned(),
        Answer::Fail(libc::EINVAL) => "refused (`EINVAL`)".to_owned(),
        Answer::Fail(libc::EMFILE) => "none left (`EMFILE`)".to_owned(),
        Answer::Fail(libc::ENOTSUP) => "not supported (`ENOTSUP`)".to_owned(),
        Answer::Fail(error) => format!("refused (error {error})"),
    }
}
