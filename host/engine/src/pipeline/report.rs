//! Shows a round as plain text and as Markdown.

use std::fmt::Write as _;

use serde_json::Value;

use super::check::FILE_ARGUMENTS;
use super::invariant;
use super::round::{Ended, Linted, Round, State, Verdict};
use cofferdam_text::shorten;

/// How much of a message is shown in one line, in bytes.
const MAX_LINE_BYTES: usize = 300;

/// The round as lines for a terminal.
pub fn text(round: &Round) -> String {
    let mut text = format!("{}{}\n", title(round), if round.dry_run { " (dry run)" } else { "" });
    for line in &round.log {
        let _ = writeln!(text, "  {}", one_line(line));
    }
    for stage in &round.stages {
        let _ = writeln!(
            text,
            "{:>10}: {}, {:.0} ms",
            stage.stage.as_str(),
            stage.verdict.as_str(),
            stage.duration_ms
        );
    }
    for (number, command) in round.commands.iter().enumerate() {
        let file = file(&command.command.args);
        let tool = &command.command.tool;
        let _ = writeln!(text, "{:>10}: {tool} {file}: {}", number + 1, ended(&command.ended));
    }
    for lint in &round.lints {
        let _ = writeln!(text, "{:>10}: {}", "lint", lint_line(lint));
    }
    for finding in &round.invariants {
        let _ = writeln!(text, "{:>10}: {}", "invariant", invariant_line(finding));
    }
    if let Some(commit) = &round.commit {
        let _ = writeln!(text, "{:>10}: {commit}", "commit");
    }
    if let Some(proposal) = &round.proposal {
        let _ =
            writeln!(text, "{:>10}: {proposal}, to be accepted with `cofferdam review`", "held");
    }
    if let Some(diff) = &round.diff {
        let _ = write!(text, "\n{diff}");
    }
    text
}

/// The round as a Markdown document.
pub fn markdown(round: &Round) -> String {
    let mut text = introduction(round);
    text.push_str("\n## Stages\n\n| stage | verdict | ms | input |\n|---|---|---|---|\n");
    for stage in &round.stages {
        let input = stage.input.as_ref().map_or_else(String::new, |input| {
            format!("{}, {} bytes, sha256 {}", code(&input.from), input.bytes, code(&input.sha256))
        });
        let verdict = match stage.verdict {
            Verdict::Passed => "passed".to_owned(),
            other => format!("**{}**", other.as_str()),
        };
        let (name, time) = (stage.stage.as_str(), stage.duration_ms);
        let _ =
            writeln!(text, "| {name} | {verdict} | {time:.0} | {} |", input.replace('|', "\\|"));
    }
    let problems = round.stages.iter().flat_map(|stage| &stage.problems);
    list(&mut text, "Problems", problems.map(|problem| code(&problem.to_string())));
    let commands = round.commands.iter().map(|executed| {
        let (command, ended_how) = (&executed.command, ended(&executed.ended));
        let file = code(&file(&command.args));
        format!(
            "{} {file}: {}. {}",
            code(&command.tool),
            escape(&ended_how),
            escape(&command.reason)
        )
    });
    list(&mut text, "Commands", commands);
    list(&mut text, "Lints", round.lints.iter().map(|lint| escape(&lint_line(lint))));
    list(&mut text, "Findings", round.lints.iter().flat_map(findings));
    let invariants = round.invariants.iter().map(|finding| escape(&invariant_line(finding)));
    list(&mut text, "Invariants", invariants);
    for (title, lines) in [
        ("Changed signatures", &round.changed_signatures),
        ("QA's reasons", &round.reasons),
        ("Required changes", &round.required_changes),
        ("Spot checks", &round.spot_checks),
    ] {
        list(&mut text, title, lines.iter().map(|line| escape(line)));
    }
    if let Some(diff) = round.diff.as_deref().filter(|diff| !diff.is_empty()) {
        let fence = fence(diff, 3);
        let _ = write!(text, "\n## Diff\n\n{fence}diff\n{diff}{fence}\n");
    }
    text
}

/// What is said first in a Markdown document: the result, and how to go on.
fn introduction(round: &Round) -> String {
    let mut text = format!("# {}\n\n", escape(&title(round)));
    let _ = writeln!(
        text,
        "Began {}, took {:.0} ms{}{}.",
        round.started,
        round.duration_ms,
        if round.dry_run { ", dry run: nothing was committed" } else { "" },
        if round.phase_boundary { ", last step of its phase" } else { "" },
    );
    if let Some(commit) = &round.commit {
        let _ = write!(text, "\nCommit {}; `cofferdam undo` takes it back.\n", code(commit));
        if round.state == State::Failed {
            text.push_str("\nThe changes were kept although the round failed.\n");
        }
    }
    list(&mut text, "Log", round.log.iter().map(|line| code(line)));
    if let Some(proposal) = &round.proposal {
        let proposal = code(proposal);
        let _ = write!(
            text,
            "\nHeld as proposal {proposal}; `cofferdam review` accepts or rejects it.\n"
        );
    }
    text
}

fn title(round: &Round) -> String {
    let step = round.step_id.as_deref().map(|step| format!(" {}", one_line(step)));
    format!("{}{}", round.state.as_str(), step.unwrap_or_default())
}

fn list(text: &mut String, title: &str, items: impl Iterator<Item = String>) {
    let mut items = items.peekable();
    if items.peek().is_some() {
        let _ = write!(text, "\n## {title}\n\n");
    }
    for item in items {
        let _ = writeln!(text, "- {item}");
    }
}

/// The files that a command names.
fn file(args: &serde_json::Map<String, Value>) -> String {
    let names = FILE_ARGUMENTS.into_iter().filter_map(|name| args.get(name)?.as_str());
    names.map(one_line).collect::<Vec<_>>().join(" -> ")
}

fn ended(ended: &Ended) -> String {
    match &ended.error {
        Some(error) => {
            let message = one_line(&error.message);
            format!("{}, {}: {message}", ended.outcome.as_str(), error.code)
        }
        None => ended.outcome.as_str().to_owned(),
    }
}

fn lint_line(lint: &Linted) -> String {
    let path = lint.args.get("path").and_then(Value::as_str).unwrap_or("(default)");
    let all = lint.args.get("check_all").and_then(Value::as_bool).unwrap_or_default();
    let what = format!("{}{}", one_line(path), if all { " (check_all)" } else { "" });
    let Some(result) = &lint.ended.result else {
        return format!("{what}: {}", ended(&lint.ended));
    };
    let files = result["summary"]["files_checked"].as_u64().unwrap_or_default();
    let (errors, unchecked) = errors(result);
    let before = lint.errors_before.map(|errors| format!(", {errors} before the change"));
    let unchecked = unchecked.map(|why| format!("; {}", one_line(&why)));
    format!(
        "{what}: {errors} errors in {files} files{}{}",
        before.unwrap_or_default(),
        unchecked.unwrap_or_default()
    )
}

/// The number of errors that a lint found, and what was not checked: the tool counts that as an
/// error, so that its result is not clean.
pub fn errors(result: &Value) -> (u64, Option<String>) {
    let sections = result.as_object().into_iter().flat_map(serde_json::Map::values);
    let unchecked: Vec<&Value> =
        sections.filter_map(|section| section.get("not-checked")).collect();
    let count =
        |group: &&Value| group["occurrences"].as_array().map_or(0, |found| found.len() as u64);
    let counted: u64 = unchecked.iter().map(count).sum();
    let total = result["summary"]["total_errors"].as_u64().unwrap_or_default();
    let why: Vec<&str> =
        unchecked.iter().filter_map(|group| group["description"].as_str()).collect();
    (total.saturating_sub(counted), (!why.is_empty()).then(|| why.join("; ")))
}

/// The findings of a lint, one line for each code.
fn findings(lint: &Linted) -> Vec<String> {
    let sections = lint.ended.result.iter().filter_map(Value::as_object).flatten();
    let codes = sections.filter(|(name, _)| *name != "summary").flat_map(|(linter, section)| {
        let groups = section.as_object().into_iter().flatten();
        groups.map(move |(name, group)| {
            let occurrences =
                group["occurrences"].as_array().map(Vec::as_slice).unwrap_or_default();
            let places = occurrences.iter().map(|place| {
                code(&format!("{}:{}", place["file"].as_str().unwrap_or_default(), place["line"]))
            });
            let description = group["description"].as_str().unwrap_or_default();
            let places = places.collect::<Vec<_>>().join(", ");
            format!("{linter} {}: {}: {places}", code(name), escape(description))
        })
    });
    codes.collect()
}

fn invariant_line(finding: &invariant::Finding) -> String {
    let verdict = match finding.verdict {
        invariant::Verdict::Held => "held",
        invariant::Verdict::Broken => "broken",
        invariant::Verdict::NotChecked => "not checked",
    };
    let note = finding.note.as_deref().map(|note| format!(" ({})", one_line(note)));
    format!("{}: {verdict}{}", one_line(&finding.invariant), note.unwrap_or_default())
}

fn one_line(text: &str) -> String {
    shorten(&text.split_whitespace().collect::<Vec<_>>().join(" "), MAX_LINE_BYTES)
}

/// Escapes untrusted text for Markdown.
fn escape(text: &str) -> String {
    let mut escaped = String::new();
    for character in one_line(text).chars() {
        if character.is_ascii_punctuation() && !",.:;'\"/()=%?".contains(character) {
            escaped.push('\\');
        }
        escaped.push(character);
    }
    escaped
}

/// Formats untrusted text as inline code.
fn code(text: &str) -> String {
    let text = one_line(text);
    if text.is_empty() {
        return text;
    }
    let fence = fence(&text, 1);
    let space = if text.starts_with('`') || text.ends_with('`') { " " } else { "" };
    format!("{fence}{space}{text}{space}{fence}")
}

/// A fence of more backticks than occur in a row in the text.
fn fence(text: &str, least: usize) -> String {
    let longest = text.split(|c| c != '`').map(str::len).max().unwrap_or_default();
    "`".repeat(least.max(longest + 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn untrusted_text_is_escaped_in_markdown() {
        assert_eq!(escape("*a* [b](c)\n# <d>"), r"\*a\* \[b\](c) \# \<d\>");
        assert_eq!(code("a`b"), "``a`b``");
        assert_eq!(code("`a\nb`"), "`` `a b` ``");
        assert_eq!(fence("a ```` b", 3), "`````");
        assert_eq!(fence("a", 3), "```");
    }
}
