//! `cofferdam review`: lists, shows, accepts and rejects held changes, and answers questions of calls and plugins.

use std::fmt::Write as _;
use std::io::{self, BufRead as _, IsTerminal as _, Write as _};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use rustix::termios::{QueueSelector, tcflush};
use serde_json::{Map, Value, json};

use super::args::{Decide, Format, Global, Review, ReviewCommand};
use super::output::Output;
use super::{CliError, exit, setup};
use cofferdam_core::form::{Field, Form, FormAnswer, Input};
use cofferdam_core::policy::executed_by;
use cofferdam_engine::journal::CommitRecord;
use cofferdam_engine::review::Reviewer;
use cofferdam_text::escape_control;
use cofferdam_workspace::{
    AskedForm, Chosen, Decided, Decision, FileReview, ListedProposal, Question, QuestionAnswer,
    Review as Reviewed, ReviewError, Reviews, Verdict, Workspace,
};

/// How many paths of a proposal the list names.
const MAX_LISTED_PATHS: usize = 5;

/// Who decides, in the record.
const REVIEWER: &str = "cli";

/// What the user answers questions with, in the record.
const ANSWERED_WITH: &str = "cofferdam review answer";

/// How often to look for questions.
const POLL_INTERVAL: Duration = Duration::from_millis(100);

pub fn execute(global: &Global, args: &Review, output: &Output) -> Result<u8, CliError> {
    let workspace = Arc::new(setup::workspace(global)?);
    let reviews = Reviews::new(Arc::clone(&workspace));
    match &args.command {
        None => list(&reviews.list()?, output)?,
        Some(ReviewCommand::Show { id, hunk }) => show(&reviews.show(id)?, hunk, output)?,
        Some(ReviewCommand::Accept(args)) => {
            print(&decide(&workspace, decision(args, Verdict::Accept)?)?, output)?;
        }
        Some(ReviewCommand::Reject(args)) => {
            if !args.edit.is_empty() {
                return Err(CliError::usage("--edit is for hunks that are accepted".to_owned()));
            }
            print(&decide(&workspace, decision(args, Verdict::Reject)?)?, output)?;
        }
        Some(ReviewCommand::Answer) => answer(&workspace, output)?,
        Some(ReviewCommand::Interactive { id }) => interactive(&workspace, &reviews, id, output)?,
    }
    Ok(exit::OK)
}

fn list(proposals: &[ListedProposal], output: &Output) -> Result<(), CliError> {
    if output.format() == Format::Json {
        let proposals: Vec<Value> = proposals.iter().map(of_proposal).collect();
        return output.json(&json!({ "proposals": proposals }));
    }
    if proposals.is_empty() {
        return output.text("nothing is held\n");
    }
    output.text(&proposals.iter().map(line).collect::<String>())
}

fn of_proposal(proposal: &ListedProposal) -> Value {
    let paths = proposal.paths.iter().map(|(path, change)| json!({"path": path, "change": change}));
    json!({
        "id": proposal.id,
        "revision": proposal.revision,
        "time": proposal.time.to_string(),
        "session": proposal.author.session,
        "client": proposal.author.client,
        "role": proposal.author.role,
        "tools": proposal.author.tools,
        "calls": proposal.calls,
        "paths": paths.collect::<Vec<_>>(),
        "reviewed": proposal.reviewed,
    })
}

fn line(proposal: &ListedProposal) -> String {
    let time = proposal.time.strftime("%Y-%m-%d %H:%M:%S");
    let named = proposal.paths.iter().take(MAX_LISTED_PATHS);
    let named: Vec<String> =
        named.map(|(path, change)| format!("{change} {}", escaped(path))).collect();
    let mut line = format!("{time}  {}  session {}", proposal.id, proposal.author.session);
    for (what, who) in [("role", &proposal.author.role), ("client", &proposal.author.client)] {
        if let Some(who) = who {
            let _ = write!(line, "  {what} {}", escaped(who));
        }
    }
    let _ = write!(line, "  {}", named.join(", "));
    if proposal.paths.len() > named.len() {
        let _ = write!(line, " and {} more", proposal.paths.len() - named.len());
    }
    if !proposal.reviewed.is_empty() {
        let _ = write!(line, "  {}", proposal.progress());
    }
    line + "\n"
}

/// A text on one line.
fn escaped(text: &str) -> String {
    escape_control(text).replace('\n', "\\n")
}

fn show(review: &Reviewed, hunks: &[String], output: &Output) -> Result<(), CliError> {
    let all = || review.files.iter().flat_map(|file| &file.hunks);
    let unknown = hunks.iter().filter(|id| !all().any(|hunk| hunk.id == **id));
    let unknown: Vec<String> = unknown.cloned().collect();
    if !unknown.is_empty() {
        let proposal = review.proposal.id.to_string();
        return Err(ReviewError::UnknownHunks { proposal, hunks: unknown }.into());
    }
    if !hunks.is_empty() {
        let patch = review.files.iter().map(|file| file.patch(|id| hunks.iter().any(|h| h == id)));
        let patch = patch.collect::<Vec<_>>().concat();
        return match output.format() {
            Format::Text => output.raw(&patch),
            Format::Json => output.json(&json!({ "patch": String::from_utf8_lossy(&patch) })),
        };
    }
    if output.format() == Format::Json {
        let mut document = of_proposal(&review.proposal);
        document["view"] = review.view.clone().into();
        document["files"] = review.files.iter().map(of_file).collect();
        return output.json(&document);
    }
    let mut text = format!("proposal {}\nview     {}\n", review.proposal.id, review.view);
    if !review.proposal.reviewed.is_empty() {
        let _ = writeln!(text, "{}", review.proposal.progress());
    }
    for file in &review.files {
        text.push_str(&heading(file));
        for hunk in &file.hunks {
            let _ = write!(text, "hunk {}\n{}", hunk.id, String::from_utf8_lossy(&hunk.text));
        }
    }
    output.text(&text)
}

fn of_file(file: &FileReview) -> Value {
    let hunk = |hunk: &cofferdam_workspace::HunkReview| json!({ "id": hunk.id, "text": String::from_utf8_lossy(&hunk.text) });
    json!({
        "path": file.path,
        "change": file.change,
        "collides": file.collides,
        "reviewed": file.is_reviewed,
        "executed_by": executed_by(&file.path),
        "hunks": file.hunks.iter().map(hunk).collect::<Vec<_>>(),
    })
}

fn heading(file: &FileReview) -> String {
    let mut line = format!("\n{} {}", file.change, escaped(&file.path));
    if file.collides {
        line.push_str("  COLLIDES: the workspace has other changes in the same place");
    }
    if let Some(by) = executed_by(&file.path) {
        let _ = write!(line, "  ATTENTION: {by}");
    }
    if file.is_reviewed {
        line.push_str("  reviewed");
    }
    line + "\n"
}

fn decision(args: &Decide, verdict: Verdict) -> Result<Decision, CliError> {
    let mut chosen: Vec<Chosen> =
        args.hunk.iter().map(|id| Chosen { id: id.clone(), verdict, edited: None }).collect();
    for edit in &args.edit {
        let (id, file) = edit
            .split_once('=')
            .ok_or_else(|| CliError::usage(format!("--edit {edit}: it has the form HUNK=FILE")))?;
        let text = setup::read_input(file.as_ref())?;
        chosen.retain(|chosen| chosen.id != id);
        chosen.push(Chosen { id: id.to_owned(), verdict, edited: Some(text.into_bytes()) });
    }
    let comment = match &args.comment_file {
        Some(file) => Some(setup::read_input(file)?),
        None => args.comment.clone(),
    };
    Ok(Decision {
        proposal: args.id.clone(),
        view: args.view.clone(),
        chosen: (!chosen.is_empty()).then_some(chosen),
        verdict,
        comment,
        reviewer: REVIEWER.to_owned(),
    })
}

/// Carries out a decision and records it.
fn decide(workspace: &Arc<Workspace>, decision: Decision) -> Result<Decided, CliError> {
    let reviewer = Reviewer::new(Arc::clone(workspace));
    Ok(setup::current_thread_runtime()?.block_on(reviewer.decide(decision))?)
}

fn print(decided: &Decided, output: &Output) -> Result<(), CliError> {
    let commit = decided.commit.as_ref().map(|commit| CommitRecord::new(commit, false));
    let executed: Vec<String> =
        decided.executed.iter().map(|file| escape_control(&format!("wrote {file}"))).collect();
    if output.format() == Format::Json {
        return output.json(&json!({
            "proposal": decided.proposal,
            "accepted": decided.accepted,
            "rejected": decided.rejected,
            "commit": commit,
            "executed": executed,
            "revision": decided.revision,
        }));
    }
    let mut text = String::new();
    for (word, hunks) in [("accepted", decided.accepted), ("rejected", decided.rejected)] {
        if hunks > 0 {
            let _ = writeln!(text, "{word}: {hunks} hunks of {}", decided.proposal);
        }
    }
    for change in commit.iter().flat_map(|commit| &commit.changes) {
        let _ = writeln!(text, "{} {}", change.change, escaped(&change.path));
    }
    executed.iter().for_each(|line| {
        let _ = writeln!(text, "{line}");
    });
    if decided.revision.is_none() {
        text.push_str("nothing is left of it\n");
    }
    output.text(&text)
}

/// Asks about each hunk, then carries out what was decided.
fn interactive(
    workspace: &Arc<Workspace>,
    reviews: &Reviews,
    id: &str,
    output: &Output,
) -> Result<(), CliError> {
    let review = reviews.show(id)?;
    let chosen = ask(&review, output)?;
    if chosen.is_empty() {
        return Ok(());
    }
    let comment = match chosen.iter().any(|chosen| chosen.verdict == Verdict::Reject) {
        false => None,
        true => prompt(output, "Why? (the session is told; may be empty) ")?,
    };
    let decision = Decision {
        proposal: review.proposal.id.to_string(),
        view: Some(review.view),
        chosen: Some(chosen),
        verdict: Verdict::Accept,
        comment: comment.filter(|comment| !comment.is_empty()),
        reviewer: REVIEWER.to_owned(),
    };
    print(&decide(workspace, decision)?, output)
}

fn ask(review: &Reviewed, output: &Output) -> Result<Vec<Chosen>, CliError> {
    let mut chosen = Vec::new();
    for file in &review.files {
        output.text(&heading(file))?;
        let mut of_file = None;
        for hunk in &file.hunks {
            output.text(&String::from_utf8_lossy(&hunk.text))?;
            let answer = match of_file {
                Some(answer) => answer,
                None => loop {
                    let question = "Accept this hunk [y,n,a,d,s,q,?]? ";
                    match prompt(output, question)?.as_deref() {
                        Some("y") => break 'y',
                        Some("n") => break 'n',
                        Some("s") => break 's',
                        Some("a") => break *of_file.insert('y'),
                        Some("d") => break *of_file.insert('n'),
                        None | Some("q") => return Ok(chosen),
                        Some(_) => output.text(HELP)?,
                    }
                },
            };
            let verdict = match answer {
                'y' => Verdict::Accept,
                'n' => Verdict::Reject,
                _ => continue,
            };
            chosen.push(Chosen { id: hunk.id.clone(), verdict, edited: None });
        }
    }
    Ok(chosen)
}

/// The keys of the interactive review.
const HELP: &str = "\
y - accept this hunk
n - reject this hunk
s - skip this hunk: it stays held
a - accept this hunk and all later ones of the file
d - reject this hunk and all later ones of the file
q - quit; what is not decided stays held
";

/// Answers questions until the end of the input.
fn answer(workspace: &Workspace, output: &Output) -> Result<(), CliError> {
    let Some(listener) = workspace.listen(ANSWERED_WITH)? else {
        let message = "another process answers the questions of this workspace already";
        return Err(CliError::usage(message.to_owned()));
    };
    if output.format() == Format::Text {
        output.text("waiting for questions of calls\n")?;
    }
    loop {
        for (id, question) in listener.questions()? {
            show_question(&id, &question, output)?;
            let Some(answer) = read_answer(&question, output)? else { return Ok(()) };
            if !listener.answer(&id, &answer)? {
                output.warnings(&["the call does not wait for an answer any more".to_owned()]);
            }
        }
        thread::sleep(POLL_INTERVAL);
    }
}

fn show_question(id: &str, question: &Question, output: &Output) -> Result<(), CliError> {
    let Question { tool, session, client, role, text, for_session, args, form, .. } = question;
    if output.format() == Format::Json {
        return output.json(&json!({
            "question": id, "tool": tool, "session": session, "client": client, "role": role,
            "text": text, "for_session": for_session, "args": args, "form": form,
        }));
    }
    let mut head = format!("\nsession {}", escaped(session));
    for (what, who) in [("role", role), ("client", client)] {
        if let Some(who) = who {
            let _ = write!(head, "  {what} {}", escaped(who));
        }
    }
    output.text(&format!("{head}\n{}\n", escape_control(text)))
}

/// Reads lines until one is an answer. Returns `None` at the end of the input.
fn read_answer(question: &Question, output: &Output) -> Result<Option<QuestionAnswer>, CliError> {
    if let Some(asked) = &question.form {
        return read_form(asked, output);
    }
    let keys = match (question.for_session, &question.args) {
        (true, Some(_)) => "[y,s,t MINUTES [ARGUMENT=PATTERN],n REASON]",
        (true, None) => "[y,s,n REASON]",
        (false, _) => "[y,n REASON]",
    };
    loop {
        let asked = match output.format() {
            Format::Text => format!("Yes {keys}? "),
            Format::Json => String::new(),
        };
        let Some(line) = fresh_line(output, &asked)? else { return Ok(None) };
        let (key, reason) = line.split_once(' ').unwrap_or((&line, ""));
        return Ok(Some(match (key, reason) {
            ("y", "") => QuestionAnswer::Once,
            ("s", "") if question.for_session => QuestionAnswer::ForSession,
            ("t", rest) => match for_a_time(question, rest) {
                Ok(like) => like,
                Err(why) => {
                    output.warnings(&[why]);
                    continue;
                }
            },
            ("n", reason) => {
                QuestionAnswer::No(Some(reason.to_owned()).filter(|reason| !reason.is_empty()))
            }
            _ => {
                output.warnings(&[format!("answers are {keys}")]);
                continue;
            }
        }));
    }
}

/// Reads whether the user answers a question of a plugin, and then each field of its form; with `--json`, a line
/// with the whole answer. Returns `None` at the end of the input.
fn read_form(asked: &AskedForm, output: &Output) -> Result<Option<QuestionAnswer>, CliError> {
    let AskedForm { plugin, form } = asked;
    let keys = "[y,n]";
    loop {
        let question = match output.format() {
            Format::Text => format!("Answer the plugin {} {keys}? ", escaped(plugin)),
            Format::Json => String::new(),
        };
        let Some(line) = fresh_line(output, &question)? else { return Ok(None) };
        let answer = match (line.as_str(), output.format()) {
            ("n", _) => Ok(FormAnswer::Declined),
            ("y", Format::Text) => match read_fields(form, output)? {
                Some(answer) => answer,
                None => return Ok(None),
            },
            (_, Format::Text) => Err(format!("answers are {keys}")),
            (line, Format::Json) => serde_json::from_str(line)
                .map_err(|error| format!("the answer is n, or an object with the fields ({error})"))
                .and_then(|content| form.answer(content).map(FormAnswer::Accepted)),
        };
        match answer {
            Ok(answer) => return Ok(Some(QuestionAnswer::Form(answer))),
            Err(why) => output.warnings(&[why]),
        }
    }
}

/// Asks for each field of a form. Returns `None` at the end of the input.
fn read_fields(
    form: &Form,
    output: &Output,
) -> Result<Option<Result<FormAnswer, String>>, CliError> {
    let mut content = Map::new();
    for field in form.fields() {
        let Some(line) = prompt(output, &field_prompt(field))? else { return Ok(None) };
        let texts: Vec<&str> = match field.input() {
            Input::Many(_) => {
                line.split(',').map(str::trim).filter(|text| !text.is_empty()).collect()
            }
            _ => vec![&line],
        };
        let value = match field.read(&texts) {
            Ok(value) if line.is_empty() => field.default().cloned().or(value),
            Ok(value) => value,
            Err(why) => return Ok(Some(Err(why))),
        };
        content.extend(value.map(|value| (field.name().to_owned(), value)));
    }
    Ok(Some(form.answer(content).map(FormAnswer::Accepted)))
}

/// What a user is asked about a field: its title, what it is, the choices, and what an empty line stands for.
fn field_prompt(field: &Field) -> String {
    let values = |choices: &[(String, String)]| {
        let one = |(value, title): &(String, String)| match value == title {
            true => escaped(value).to_string(),
            false => format!("{} ({})", escaped(value), escaped(title)),
        };
        choices.iter().map(one).collect::<Vec<_>>().join(", ")
    };
    let mut prompt = format!("  {}", escaped(field.title()));
    if let Some(description) = field.description() {
        let _ = write!(prompt, " - {}", escaped(description));
    }
    let _ = match field.input() {
        Input::Text | Input::Number => Ok(()),
        Input::Bool => write!(prompt, " [yes,no]"),
        Input::One(choices) => write!(prompt, " [{}]", values(&choices)),
        Input::Many(choices) => write!(prompt, " [any of {}, with commas]", values(&choices)),
    };
    if let Some(default) = field.default() {
        let _ = write!(prompt, " (default {})", escape_control(&default.to_string()));
    } else if !field.is_required() {
        prompt.push_str(" (may be empty)");
    }
    format!("{prompt}: ")
}

/// Asks, and reads a line. What was typed before the question was shown is no answer to it.
fn fresh_line(output: &Output, question: &str) -> Result<Option<String>, CliError> {
    if io::stdin().is_terminal() {
        tcflush(io::stdin(), QueueSelector::IFlush).map_err(io::Error::from)?;
    }
    prompt(output, question)
}

/// Reads the rest of an answer for a time: the minutes, and a pattern for one argument.
///
/// # Errors
/// What is wrong with it.
fn for_a_time(question: &Question, text: &str) -> Result<QuestionAnswer, String> {
    let exact = question.exact().ok_or("this call can't be approved by a pattern")?;
    let (minutes, argument) = text.split_once(' ').unwrap_or((text, ""));
    let pattern = match argument.split_once('=') {
        None if argument.is_empty() => exact,
        None => return Err("write ARGUMENT=PATTERN after the minutes".to_owned()),
        Some((name, pattern)) => exact
            .with(name, pattern)
            .ok_or_else(|| format!("no argument '{}' of the call is a text", escaped(name)))?,
    };
    question.like(&pattern, minutes)
}

/// Asks on standard output, and reads a line. Returns `None` at the end of the input.
fn prompt(output: &Output, question: &str) -> Result<Option<String>, CliError> {
    output.verbatim(question.as_bytes())?;
    io::stdout().flush()?;
    let mut line = String::new();
    let read = io::stdin().lock().read_line(&mut line)?;
    Ok((read > 0).then(|| line.trim().to_owned()))
}
