//! What a program without a network tried to reach, as a line in its errors that names the lines to add
//! to the settings; and variables with which tools fail at once instead of trying again for minutes.

use std::collections::BTreeSet;

use cofferdam_sandbox::Attempt;

use super::bindings::cofferdam::host::process::{End, Output};
use cofferdam_core::policy::BundleName;

/// Programs whose exit code says nothing about the programs that they started.
const SHELLS: [&str; 2] = ["bash", "sh"];

/// The number of places that are named.
const MAX_NAMED: usize = 5;

/// Variables for runs without a network: tools don't try again, and don't look for news of themselves.
pub(super) const FAIL_AT_ONCE: [(&str, &str); 9] = [
    ("CARGO_NET_RETRY", "0"),
    ("NPM_CONFIG_FETCH_RETRIES", "0"),
    ("NPM_CONFIG_UPDATE_NOTIFIER", "false"),
    ("PIP_DISABLE_PIP_VERSION_CHECK", "1"),
    ("PIP_RETRIES", "0"),
    ("POETRY_REQUESTS_MAX_RETRIES", "0"),
    ("RUSTUP_MAX_RETRIES", "0"),
    ("UV_HTTP_RETRIES", "0"),
    ("YARN_HTTP_RETRY", "0"),
];

/// Adds a line to the errors of a program that tried to reach something, and failed or is a shell.
pub(super) fn explain(output: &mut Output, attempts: &[Attempt], program: &str, plugin: &str) {
    let succeeded = matches!(output.end, End::Exited(0));
    if attempts.is_empty() || (succeeded && !SHELLS.contains(&program)) {
        return;
    }
    add(output, &line(attempts, program, plugin));
}

fn line(attempts: &[Attempt], program: &str, plugin: &str) -> String {
    let hosts: BTreeSet<String> = attempts
        .iter()
        .filter_map(|attempt| match attempt {
            Attempt::Name(name) => Some(name.clone()),
            Attempt::Address(_) | Attempt::Socket => None,
        })
        .collect();
    let named: Vec<String> = attempts.iter().take(MAX_NAMED).map(Attempt::to_string).collect();
    let more = match attempts.len().saturating_sub(MAX_NAMED) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    let bundles: Vec<BundleName> =
        hosts.iter().filter_map(|host| BundleName::of_host(host)).collect();
    let what = match (bundles.first(), hosts.first()) {
        (Some(bundle), _) => format!("bundle = \"{}\"", bundle.as_str()),
        (None, Some(host)) => format!("origins = [\"https://{host}\"]"),
        (None, None) => "origins = [\"https://HOST\"]".to_owned(),
    };
    format!(
        "`{program}` tried to reach {}{more}; no network is granted to `{plugin}` for it. A person can \
         grant it by these lines in cofferdam.toml: [[grants.{plugin}.network]] programs = \
         [\"{program}\"], {what}",
        named.join(", ")
    )
}

/// Adds a line to the errors.
fn add(output: &mut Output, line: &str) {
    let stderr = &mut output.stderr;
    let separator = if stderr.bytes.last().is_none_or(|last| *last == b'\n') { "" } else { "\n" };
    let text = format!("{separator}{line}\n");
    stderr.total += text.len() as u64;
    stderr.bytes.extend(text.into_bytes());
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use super::super::bindings::cofferdam::host::process::Captured;
    use super::*;

    fn explained(end: End, program: &str, attempts: &[Attempt]) -> String {
        let captured = |text: &str| Captured { bytes: text.into(), total: text.len() as u64 };
        let (stdout, stderr) = (captured(""), captured("before"));
        let mut output = Output { end, stdout, stderr, duration_ms: 0, workspace: String::new() };
        explain(&mut output, attempts, program, "shell");
        assert_eq!(output.stderr.total, output.stderr.bytes.len() as u64);
        String::from_utf8(output.stderr.bytes).unwrap()
    }

    fn name(name: &str) -> Attempt {
        Attempt::Name(name.to_owned())
    }

    #[test]
    fn attempts_are_named_with_the_lines_to_add() {
        for (attempts, wanted) in [
            (vec![name("registry.npmjs.org")], "reach registry.npmjs.org; no network is granted to"),
            (vec![name("registry.npmjs.org")], "[[grants.shell.network]] programs = [\"npm\"], bundle = \"npm\""),
            (vec![name("a.example")], "origins = [\"https://a.example\"]"),
            (vec![name("a.example"), name("pypi.org")], "bundle = \"pypi\""),
            (vec![Attempt::Address("192.0.2.1:443".parse().unwrap())], "reach 192.0.2.1:443; "),
            (vec![Attempt::Socket], "reach the network; "),
            ((0..9).map(|n| name(&format!("{n}.example"))).collect(), "4.example and 4 more; "),
        ] {
            let text = explained(End::Exited(1), "npm", &attempts);
            assert!(text.starts_with("before\n`npm` tried to ") && text.contains(wanted), "{text}");
            assert_eq!(text.lines().count(), 2);
        }
    }

    #[test]
    fn a_program_that_succeeded_needs_nothing() {
        let attempts = [name("a.example")];
        assert_eq!(explained(End::Exited(0), "npm", &attempts), "before");
        assert_eq!(explained(End::Exited(1), "npm", &[]), "before");
        assert!(explained(End::Exited(0), "bash", &attempts).contains("a.example"));
        assert!(explained(End::TimedOut, "npm", &attempts).contains("a.example"));
    }
}
