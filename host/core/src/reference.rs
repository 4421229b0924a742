//! The reference of codes in `docs/outcomes.md`, written from [`HostCode::ALL`] and
//! [`LimitKey::ALL`].

use std::fmt::Write as _;

use schemars::schema_for;

use crate::outcome::{HostCode, LimitCode};
use crate::policy::{LimitKey, LimitSettings, Limits};

/// All codes and limits as one Markdown document.
pub fn outcomes() -> String {
    let mut text = String::from(
        "# Outcomes and their codes\n\n\
         Generated from the code by `cargo xtask gen`. A call that does not succeed has an outcome and a\n\
         code: in its result, in the journal, and over MCP. These are the codes of the host. Tools return\n\
         codes of their own as well, such as `FileNotFoundError`, which the documentation of their plugin\n\
         lists. After each of these, the workspace is as it was before the call, but for\n\
         `CommitUnfinished`.\n\n\
         A key is one of `[limits]` in `cofferdam.toml`. A plugin's manifest and a role can only lower it.\n",
    );
    for group in HostCode::ALL {
        let Some(first) = group.first() else { continue };
        let _ = write!(text, "\n## {}\n\n{}\n\n", title(*first), first.about());
        let has_limits = group.iter().any(|code| bounds(*code).is_some());
        let (head, line) =
            if has_limits { (" limit | at most | key |", "---|---|---|") } else { ("", "") };
        let _ = writeln!(text, "| code |{head} meaning | what to do |\n|---|{line}---|---|");
        for code in *group {
            let _ = write!(text, "| `{}` |", code.as_str());
            if has_limits {
                let (limit, most, keys) = bounds(*code).unwrap_or_default();
                let _ = write!(text, " {limit} | {most} | {keys} |");
            }
            let _ = writeln!(text, " {} | {} |", code.meaning(), code.remedy());
        }
    }
    text.push_str(
        "\n## Limits without a code\n\nWhat exceeds these limits is shortened; the call goes on.\n\n\
         | key | default | at most | what it limits |\n|---|---|---|---|\n",
    );
    let schema = schema_for!(LimitSettings);
    for key in LimitKey::ALL.iter().filter(|key| key.codes.is_empty()) {
        let about = schema.pointer(&format!("/properties/{}/description", key.key));
        let about = about.and_then(|about| about.as_str()).unwrap_or_default().replace('\n', " ");
        let (default, most) = (amount(key, key.default()), amount(key, key.most));
        let _ = writeln!(text, "| `{}` | {default} | {most} | {about} |", key.key);
    }
    text
}

fn title(code: HostCode) -> &'static str {
    match code {
        HostCode::Limit(_) => "Limits of a call: `limit`, exit status 4",
        HostCode::ProgramLimit(_) => "Limits of a native program",
        HostCode::Denied(_) => "Not allowed: `denied`, exit status 3",
        HostCode::Error(_) => "Errors: `error`, exit status 1",
        HostCode::Trap(_) => "Broken plugins: `trap`, exit status 4",
        HostCode::Skipped(_) => "Skipped calls: `skipped`, exit status 1",
        HostCode::Failed(_) => "Failures of the host: `failed`, exit status 5",
        HostCode::Refused(_) => "Refused envelopes, exit status 2",
    }
}

/// The default, the largest value and the keys of a code's limits.
fn bounds(code: HostCode) -> Option<(String, String, String)> {
    let keys = || LimitKey::ALL.into_iter().filter(|key| key.codes.contains(&code));
    if keys().next().is_some() {
        let joined =
            |each: fn(LimitKey) -> String| keys().map(each).collect::<Vec<_>>().join(" / ");
        return Some((
            joined(|key| amount(&key, key.default())),
            joined(|key| amount(&key, key.most)),
            joined(|key| format!("`{}`", key.key)),
        ));
    }
    let fixed = match code {
        HostCode::Limit(LimitCode::TableLimit) => grouped(Limits::DEFAULT.table_elements),
        HostCode::Limit(LimitCode::TransferLimit) => {
            format!("{} MiB", Limits::DEFAULT.transfer >> 20)
        }
        HostCode::Limit(LimitCode::HandleLimit) => grouped(Limits::DEFAULT.handles),
        _ => return None,
    };
    Some((fixed, String::new(), String::new()))
}

/// A value of a key with its unit.
fn amount(key: &LimitKey, value: u32) -> String {
    let value = value as usize;
    match key.key.rsplit('-').next() {
        Some("ms") => format!("{} s", grouped(value / 1_000)),
        Some("mb") => format!("{} MiB", grouped(value)),
        Some("kb") => format!("{} KiB", grouped(value)),
        _ => grouped(value),
    }
}

/// A number with commas between its thousands.
fn grouped(number: usize) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `docs/limits.md` is written by hand, since it also has the limits without a key.
    #[test]
    fn the_page_of_limits_has_each_key_with_its_values() {
        let page = include_str!("../../../docs/limits.md");
        for key in LimitKey::ALL {
            let name = format!("`{}`", key.key);
            let mut rows = page.lines().map(|line| line.split('|').map(str::trim).collect());
            let row: Option<Vec<&str>> = rows.find(|row: &Vec<&str>| row.get(3) == Some(&&*name));
            let values = row.map(|row| [shown(row[2], key.key), shown(row[4], key.key)]);
            assert_eq!(values, Some([Some(key.default()), Some(key.most)]), "{name}");
        }
    }

    /// Reads the first amount of a cell, in the unit of its key.
    fn shown(text: &str, key: &str) -> Option<u32> {
        let text = text.split(", ").next()?;
        let (number, unit) = text.split_once(' ').unwrap_or((text, ""));
        let number: u64 = number.replace(',', "").parse().ok()?;
        let value = match (unit, key.rsplit('-').next()?) {
            ("s", "ms") => number * 1_000,
            ("KiB", "kb") | ("MiB", "mb") => number,
            ("MiB", "kb") | ("GiB", "mb") => number << 10,
            ("TiB", "mb") => number << 20,
            ("", _) => number,
            _ => return None,
        };
        u32::try_from(value).ok()
    }
}
