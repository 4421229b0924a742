//! Files that are generated from the built binary, and the check that they are up to date.

use anyhow::{Result, bail};

use crate::process::{announce, native, output};
use crate::project::{self, Project, read_text};
use crate::{bindings, reference, tokens};

use From::{Answers, Command};

/// A generated file and the source of its text.
struct Generated {
    from: From,
    /// Relative to the project.
    path: &'static str,
}

/// The source of a generated file's text.
enum From {
    /// The output of the host's command with these arguments.
    Command(&'static [&'static str]),
    /// A function that runs the command several times.
    Answers(fn(&Project) -> Result<String>),
}

const FILES: &[Generated] = &[
    Generated { from: Command(&["schema", "agent"]), path: "schemas/agent.json" },
    Generated { from: Command(&["schema", "contract"]), path: "schemas/contract.json" },
    Generated { from: Command(&["schema", "journal"]), path: "schemas/journal.json" },
    Generated { from: Command(&["schema", "manifest"]), path: "schemas/manifest.json" },
    Generated {
        from: Command(&["schema", "pipeline-designer"]),
        path: "schemas/pipeline.designer.json",
    },
    Generated { from: Command(&["schema", "pipeline-qa"]), path: "schemas/pipeline.qa.json" },
    Generated {
        from: Command(&["schema", "pipeline-result"]),
        path: "schemas/pipeline.result.json",
    },
    Generated {
        from: Command(&["schema", "pipeline-work-order"]),
        path: "schemas/pipeline.work-order.json",
    },
    Generated { from: Command(&["schema", "plugin"]), path: "schemas/plugin.json" },
    Generated { from: Command(&["schema", "role"]), path: "schemas/role.json" },
    Generated { from: Command(&["schema", "settings"]), path: "schemas/settings.json" },
    Generated { from: Command(&["reference"]), path: "docs/cli.md" },
    Generated { from: Command(&["outcomes"]), path: "docs/outcomes.md" },
    Generated { from: Answers(reference::settings), path: "docs/settings.md" },
    Generated { from: Command(&["system-calls"]), path: "docs/syscalls.md" },
    Generated { from: Answers(tokens::table), path: "docs/tokens.md" },
    Generated { from: Answers(reference::tools), path: "docs/tools.md" },
];

/// Writes every generated file that is out of date.
///
/// # Errors
/// If the command fails, or a file can't be written.
pub fn write(project: &Project) -> Result<()> {
    for file in FILES {
        let text = file.generate(project)?;
        let path = project.root.join(file.path);
        if read_text(&path).ok().as_ref() != Some(&text) {
            announce(&format!("writing {}", file.path));
            project::write(&path, text)?;
        }
    }
    Ok(())
}

/// Checks that every generated file is up to date.
///
/// # Errors
/// If a file is not: the message shows the first line that differs in each such file.
pub fn check(project: &Project) -> Result<()> {
    announce("checking the generated files");
    let mut stale: Vec<String> = bindings::stale(project).collect();
    for file in FILES {
        let wanted = file.generate(project)?;
        let found = read_text(&project.root.join(file.path)).unwrap_or_default();
        stale.extend(difference(&found, &wanted).map(|hint| format!("{}{hint}", file.path)));
    }
    if stale.is_empty() {
        return Ok(());
    }
    bail!("generated files are not current; run `cargo xtask gen`\n{}", stale.join("\n"))
}

impl Generated {
    fn generate(&self, project: &Project) -> Result<String> {
        match self.from {
            Command(arguments) => {
                output(native(project.binary()).current_dir(&project.root).args(arguments))
            }
            Answers(answers) => answers(project),
        }
    }
}

/// The first line in which two texts differ.
fn difference(found: &str, wanted: &str) -> Option<String> {
    if found == wanted {
        return None;
    }
    let mut lines = (found.split('\n'), wanted.split('\n'));
    for number in 1.. {
        let pair = (lines.0.next(), lines.1.next());
        if pair.0 != pair.1 {
            let show = |line: Option<&str>| line.unwrap_or("(end of the file)").to_owned();
            return Some(format!(":{number}\n  - {}\n  + {}", show(pair.0), show(pair.1)));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hint_is_the_first_line_that_differs() {
        for (found, wanted, hint) in [
            ("a\nb\n", "a\nb\n", None),
            ("a\nb\n", "a\nc\n", Some(":2\n  - b\n  + c")),
            ("a\n", "a\nb\n", Some(":2\n  - \n  + b")),
            ("a", "a\n", Some(":2\n  - (end of the file)\n  + ")),
            ("", "a", Some(":1\n  - \n  + a")),
        ] {
            assert_eq!(difference(found, wanted).as_deref(), hint, "{found:?} {wanted:?}");
        }
    }

    #[test]
    fn no_file_is_generated_twice() {
        let mut paths: Vec<&str> = FILES.iter().map(|file| file.path).collect();
        paths.sort_unstable();
        paths.dedup();
        assert_eq!(paths.len(), FILES.len());
    }
}
