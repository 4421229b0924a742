//! Decides which runs of `git apply` have a counterpart in `apply_patch`.

use std::path::PathBuf;

/// Options that change nothing of what is written, or only in patches that `apply_patch` takes
/// without them.
const COMPARED: [&str; 17] = [
    "--apply",
    "--check",
    "--index",
    "--recount",
    "--unidiff-zero",
    "--allow-empty",
    "--binary",
    "--allow-binary-replacement",
    "--no-ignore-whitespace",
    "--whitespace=nowarn",
    "--whitespace=warn",
    "--verbose",
    "--quiet",
    "-v",
    "-q",
    "-p1",
    "-p0",
];

/// A run of `git apply` that is compared.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Run {
    /// The files with patches, in their order; `-` is standard input.
    pub(super) patches: Vec<PathBuf>,
    /// Whether nothing is written.
    pub(super) checks_only: bool,
}

impl Run {
    /// Parses the arguments of `git apply`.
    ///
    /// # Errors
    /// The option that has no counterpart.
    pub(super) fn parse(arguments: &[String]) -> Result<Self, String> {
        let mut run = Self { patches: Vec::new(), checks_only: false };
        let mut options_end = false;
        for argument in arguments {
            if options_end || argument == "-" || !argument.starts_with('-') {
                run.patches.push(argument.into());
            } else if argument == "--" {
                options_end = true;
            } else if COMPARED.contains(&argument.as_str()) {
                run.checks_only |= argument == "--check";
            } else {
                let name = argument.split_once('=').map_or(argument.as_str(), |(name, _)| {
                    if name == "--whitespace" { argument } else { name }
                });
                return Err(name.to_owned());
            }
        }
        if run.patches.is_empty() {
            run.patches.push("-".into());
        }
        Ok(run)
    }
}

/// The setting of git, as `git config --list` prints it, that changes what `git apply` does.
pub(super) fn setting(list: &str) -> Option<&str> {
    list.lines().find(|line| {
        let (name, value) = line.split_once('=').unwrap_or((line, "true"));
        match name {
            "apply.whitespace" => !matches!(value, "warn" | "nowarn"),
            "apply.ignorewhitespace" => value != "no",
            "core.autocrlf" => value != "false",
            "core.filemode" | "core.symlinks" => value == "false",
            _ => false,
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_are_compared_unless_an_option_or_setting_has_no_counterpart() {
        let run = |arguments: &[&str]| {
            let arguments: Vec<String> =
                arguments.iter().map(|argument| (*argument).into()).collect();
            Run::parse(&arguments)
        };
        let compared = |patches: &[&str], checks_only| {
            Ok(Run { patches: patches.iter().map(PathBuf::from).collect(), checks_only })
        };
        assert_eq!(run(&[]), compared(&["-"], false));
        assert_eq!(run(&["--check", "a", "b"]), compared(&["a", "b"], true));
        assert_eq!(run(&["-p0", "-", "--", "-x"]), compared(&["-", "-x"], false));
        for (argument, reason) in [
            ("--stat", "--stat"),
            ("-p2", "-p2"),
            ("--directory=x", "--directory"),
            ("--whitespace=fix", "--whitespace=fix"),
        ] {
            assert_eq!(run(&["a", argument]), Err(reason.to_owned()));
        }
        assert_eq!(setting("core.filemode=true\napply.whitespace=warn\ncore.autocrlf=false"), None);
        for line in
            ["apply.whitespace=strip", "apply.ignorewhitespace=change", "core.autocrlf=input"]
        {
            assert_eq!(setting(&format!("core.bare=false\n{line}\n")), Some(line));
        }
    }
}
