//! Asks the user at the terminal which capabilities a plugin is granted. Without a terminal nothing
//! is granted by default: the grants have to be given on the command line.

use std::io::{self, BufRead as _, IsTerminal as _};

use super::CliError;
use super::args::{Granted, Granting};
use super::output::stderr_is_terminal;
use cofferdam_core::policy::{Capabilities, Capability};
use cofferdam_plugin::acceptance::by;
use cofferdam_plugin::lock::Candidate;
use cofferdam_text::escape_control;

/// Returns what the user grants of the capabilities that a plugin requests. `again` is the command
/// that a message tells the user to repeat with `--grant` or `--deny`.
pub fn grants(
    candidate: &Candidate,
    asked: &Capabilities,
    granting: &Granting,
    again: &str,
) -> Result<Capabilities, CliError> {
    let manifest = &candidate.manifest;
    if granting.deny {
        return Ok(Capabilities::NONE);
    }
    if !granting.grant.is_empty() {
        return select(&manifest.name, &manifest.requests, &granting.grant);
    }
    if *asked == Capabilities::NONE {
        return Ok(Capabilities::NONE);
    }
    let list: String =
        asked.each().map(|each| format!("  {each}: {}\n", each.in_words())).collect();
    let attestations: String =
        candidate.attestations.iter().map(|each| format!("  attested: {each}\n")).collect();
    let separator = if attestations.is_empty() { " " } else { "\n" };
    let head = format!(
        "{} {} from {}, {},{separator}{attestations}asks for\n{list}",
        manifest.name,
        manifest.version,
        candidate.source,
        by(candidate.signer.as_ref())
    );
    if !io::stdin().is_terminal() || !stderr_is_terminal() {
        let words: String =
            asked.each().map(|each| format!(" --grant {}", each.to_grant())).collect();
        return Err(CliError::denied(format!(
            "{head}and there is no terminal to ask on. Grant all of it, or less:\n  \
             {again}{words}\nor nothing of it:\n  {again} --deny"
        )));
    }
    print(&head);
    let mut granted = Vec::new();
    for capability in asked.each() {
        if capability == Capability::AnyOrigin {
            let name = &manifest.name;
            print(&format!(
                "`cofferdam policy grant {name} http=https://HOST` grants an origin.\n"
            ));
        } else if confirm(&format!("Grant {capability}? [y/N/q] "))? {
            granted.push(capability);
        }
    }
    Ok(granted.into_iter().collect())
}

/// Returns the capabilities of `asked` that the options name.
pub fn select(
    plugin: &str,
    requests: &Capabilities,
    named: &[Granted],
) -> Result<Capabilities, CliError> {
    let mut granted = Capabilities::NONE;
    for each in named {
        match each {
            Granted::All => granted = granted.join(requests),
            Granted::One(capability) if requests.holds(capability) => {
                granted = granted.join(&[capability.clone()].into_iter().collect());
            }
            Granted::One(capability) => {
                let asked: Vec<String> = requests.each().map(|each| each.to_string()).collect();
                let asked = if asked.is_empty() { "nothing".to_owned() } else { asked.join(", ") };
                return Err(CliError::usage(format!(
                    "'{plugin}' does not ask for {capability}; it asks for {asked}"
                )));
            }
        }
    }
    if granted.any_origin {
        granted.any_origin = false;
        tracing::warn!("'{plugin}' names no origins: each is granted as http=https://HOST");
    }
    if granted.scan && !granted.holds(&Capability::Files(cofferdam_core::policy::Files::Read)) {
        tracing::warn!("scan gives nothing without files=read");
    }
    Ok(granted)
}

#[expect(clippy::print_stderr, reason = "asks the user")]
fn print(text: &str) {
    eprint!("{}", escape_control(text));
}

/// Asks a yes/no question; only `y` and `yes` are yes. `q` or the end of standard input ends the
/// command.
fn confirm(question: &str) -> Result<bool, CliError> {
    print(question);
    let mut line = String::new();
    let read = io::stdin().lock().read_line(&mut line)?;
    match line.trim().to_ascii_lowercase().as_str() {
        "y" | "yes" => Ok(true),
        "q" | "quit" => Err(CliError::denied("nothing was installed".to_owned())),
        _ if read == 0 => Err(CliError::denied("nothing was installed".to_owned())),
        _ => Ok(false),
    }
}
