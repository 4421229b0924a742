//! Files that other programs of the user execute because of their names alone: when a directory is
//! entered or opened, on a commit, or when the program is started there. Files that building or
//! testing a project executes are not included, since the user runs those. `docs/executed-files.md`
//! lists what is left out, and why.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::scope::folded;

/// What happens to a call that writes a file which other programs execute by its name.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum Executed {
    /// It is written, and named in the answer and the journal.
    #[default]
    Named,
    /// The user is asked first, with the changes of the call.
    Ask,
    /// The call is denied.
    Refused,
}

/// Path suffixes, and which program executes matching files and when. Suffixes match whole names; a
/// slash at the end means everything in that directory; `*` matches anything within a name.
const FILES: &[(&str, &str)] = &[
    (".envrc", "direnv runs when the directory is entered"),
    (".autoenv.zsh", "zsh-autoenv runs when the directory is entered"),
    ("mise.toml", MISE),
    ("mise.local.toml", MISE),
    (".mise.toml", MISE),
    (".mise.local.toml", MISE),
    (".mise/", MISE),
    (".config/mise.toml", MISE),
    (".config/mise/", MISE),
    (".vscode/", "VS Code and its relatives read commands from when the directory is opened"),
    ("*.code-workspace", "VS Code and its relatives read commands from when it is opened"),
    (".idea/", "JetBrains' IDEs read commands from when the directory is opened"),
    (".run/", "JetBrains' IDEs read commands from when the directory is opened"),
    (".fleet/", "JetBrains' IDEs read commands from when the directory is opened"),
    (".zed/", "Zed reads commands from when the directory is opened"),
    (".theia/", "Theia reads commands from when the directory is opened"),
    ("*.sublime-project", "Sublime Text reads commands from when it is opened"),
    (".nova/", "Nova reads commands from when the directory is opened"),
    (".helix/", "Helix reads commands from when it is started there"),
    (".exrc", VIM),
    (".vimrc", VIM),
    (".nvimrc", VIM),
    (".nvim.lua", VIM),
    (".lvimrc", VIM),
    (".local.vimrc", VIM),
    (".dir-locals.el", "Emacs evaluates when a file there is opened"),
    (".dir-locals-2.el", "Emacs evaluates when a file there is opened"),
    (".ycm_extra_conf.py", "YouCompleteMe runs when a file there is opened"),
    (".venv/bin/", "editors and shells run when the directory is opened"),
    (".devcontainer/", "editors run on this machine when the container is made"),
    (".devcontainer.json", "editors run on this machine when the container is made"),
    (".husky/", "git runs as hooks, on a commit and the like"),
    (".githooks/", "git runs as hooks where it is told so, on a commit and the like"),
    (".git-hooks/", "git runs as hooks where it is told so, on a commit and the like"),
    (".pre-commit-config.yaml", "pre-commit runs on a commit"),
    ("lefthook*.yml", LEFTHOOK),
    (".lefthook*.yml", LEFTHOOK),
    (".lefthook/", LEFTHOOK),
    (".lefthook-local/", LEFTHOOK),
    (".overcommit.yml", "overcommit runs on a commit"),
    (".lintstagedrc*", "lint-staged runs on a commit"),
    ("lint-staged.config.*", "lint-staged runs on a commit"),
    (".huskyrc", "husky runs before each hook"),
    (".hg/", "Mercurial reads as settings in each of its commands"),
    (".jj/", "Jujutsu reads as settings in each of its commands"),
    (".sl/", "Sapling reads as settings in each of its commands"),
    (".claude/", AGENT),
    (".codex/", AGENT),
    (".cursor/", AGENT),
    (".gemini/", AGENT),
    (".kiro/", AGENT),
    (".roo/", AGENT),
    (".amazonq/", AGENT),
    (".continue/", AGENT),
    (".opencode/", AGENT),
    (".windsurf/", AGENT),
    (".aider.conf.yml", AGENT),
    (".mcp.json", AGENT),
    ("mcp.json", AGENT),
    ("opencode.json", AGENT),
    (".cargo/config", "cargo reads as settings in each of its commands"),
    (".cargo/config.toml", "cargo reads as settings in each of its commands"),
    ("rust-toolchain", "rustup takes the compiler from in each command of cargo"),
    ("rust-toolchain.toml", "rustup takes the compiler from in each command of cargo"),
    (".mvn/", "Maven reads as settings in each of its commands"),
    (".bazelrc", "Bazel reads as settings in each of its commands"),
    ("tools/bazel", "bazelisk runs in place of Bazel"),
    (".npmrc", "npm, pnpm and Yarn read as settings in each of their commands"),
    (".pnpmfile.cjs", "pnpm runs when it resolves packages"),
    (".yarnrc", "Yarn reads as settings in each of its commands"),
    (".yarnrc.yml", "Yarn reads as settings in each of its commands"),
    (".yarn/releases/", "Yarn runs in each of its commands"),
    (".yarn/plugins/", "Yarn runs in each of its commands"),
    (".bundle/config", "Bundler reads as settings in each of its commands"),
    (".gdbinit", "gdb runs when it is started there"),
    (".lldbinit", "lldb runs when it is started there"),
    (".pdbrc", "Python's debugger runs when it is started there"),
    (".Rprofile", "R runs when it is started there"),
    (".ghci", "GHCi runs when it is started there"),
    (".irbrc", "irb runs when it is started there"),
    (".pryrc", "Pry runs when it is started there"),
    (".octaverc", "Octave runs when it is started there"),
    (".bashrc", SHELL),
    (".bash_aliases", SHELL),
    (".bash_login", SHELL),
    (".bash_logout", SHELL),
    (".bash_profile", SHELL),
    (".profile", SHELL),
    (".zshenv", SHELL),
    (".zprofile", SHELL),
    (".zlogin", SHELL),
    (".zlogout", SHELL),
    (".zshrc", SHELL),
    (".config/fish/", SHELL),
    (".config/git/", "git reads as settings in each of its commands, in a home directory"),
    (".gitconfig", "git reads as settings in each of its commands, in a home directory"),
    (".ssh/", "ssh reads as settings, in a home directory"),
];

const MISE: &str = "mise reads commands from when the directory is entered";
const VIM: &str = "Vim or Neovim runs, where it is told to, when it is started there";
const LEFTHOOK: &str = "lefthook runs on a commit and the like";
const AGENT: &str = "agents and editors read commands from that they start";
const SHELL: &str = "a shell runs when it is started, in a home directory";

/// Which program executes a file at this path, and when; a clause that follows "which".
pub fn executed_by(place: &str) -> Option<&'static str> {
    let could = |name: &str| {
        name.starts_with(|c: char| c == '.' || !c.is_ascii())
            || QUICK_CHECKS.iter().any(|end| end(name))
    };
    if !place.split('/').any(could) {
        return None;
    }
    let names: Vec<String> = place.split('/').map(folded).collect();
    let is_it = |pattern: &&(&str, &str)| fits(pattern.0, &names);
    FILES.iter().find(is_it).map(|(_, what)| *what)
}

/// Whether a file at or beneath this place may have a name in the table, so that a link here may
/// give that name to a file elsewhere.
pub fn may_lead_to_executed(place: &str) -> bool {
    let names: Vec<String> = place.split('/').map(folded).collect();
    FILES.iter().any(|(pattern, _)| {
        let parts = parts(pattern);
        let ends_with = |count: &usize| matches(&names[names.len() - count..], &parts[..*count]);
        fits(pattern, &names)
            || (1..parts.len().min(names.len() + 1)).any(|count| ends_with(&count))
    })
}

/// Cheap checks for names that don't begin with a dot.
const QUICK_CHECKS: [fn(&str) -> bool; 5] = [
    |name| ends(name, ".code-workspace") || ends(name, ".sublime-project"),
    |name| begins(name, "rust-toolchain") || begins(name, "bazel"),
    |name| begins(name, "lefthook") || begins(name, "lint-staged.config"),
    |name| begins(name, "mise.") || begins(name, "mcp.json"),
    |name| begins(name, "opencode.json"),
];

fn begins(name: &str, with: &str) -> bool {
    name.get(..with.len()).is_some_and(|start| start.eq_ignore_ascii_case(with))
}

fn ends(name: &str, with: &str) -> bool {
    let start = name.len().saturating_sub(with.len());
    name.get(start..).is_some_and(|end| end.eq_ignore_ascii_case(with))
}

fn fits(pattern: &str, names: &[String]) -> bool {
    let parts = parts(pattern);
    if pattern.ends_with('/') {
        // An entry with that name itself may be a link to such a directory.
        names.windows(parts.len()).any(|window| matches(window, &parts))
    } else {
        names.len() >= parts.len() && matches(&names[names.len() - parts.len()..], &parts)
    }
}

fn parts(pattern: &str) -> Vec<&str> {
    pattern.trim_end_matches('/').split('/').collect()
}

fn matches(names: &[String], parts: &[&str]) -> bool {
    names.iter().zip(parts).all(|(name, part)| match part.split_once('*') {
        Some((start, end)) => {
            let rest = name.strip_prefix(start.to_lowercase().as_str());
            rest.is_some_and(|rest| rest.ends_with(end))
        }
        None => name.eq_ignore_ascii_case(part),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_that_are_executed_by_name_are_known() {
        for (place, program) in [
            (".envrc", "direnv"),
            ("sub/.ENVRC", "direnv"),
            (".vscode/tasks.json", "VS Code"),
            ("app/.vscode/settings.json", "VS Code"),
            (".vscode", "VS Code"),
            ("x.code-workspace", "VS Code"),
            ("x.sublime-project", "Sublime Text"),
            ("rust-toolchain.toml", "rustup"),
            ("tools/bazel", "bazelisk"),
            (".idea/runConfigurations/x.xml", "JetBrains"),
            (".husky/pre-commit", "git runs"),
            (".husky/_/husky.sh", "git runs"),
            (".cargo/config.toml", "cargo"),
            (".CARGO/config", "cargo"),
            (".claude/settings.local.json", "agents"),
            (".mcp.json", "agents"),
            ("lefthook-local.yml", "lefthook"),
            ("lint-staged.config.mjs", "lint-staged"),
            (".Rprofile", "R runs"),
            ("mise.toml", "mise"),
            (".hg/hgrc", "Mercurial"),
            (".envrc.", "direnv"),
        ] {
            let found = executed_by(place);
            assert!(found.is_some_and(|found| found.starts_with(program)), "{place}: {found:?}");
        }
        for place in [
            "src/main.rs",
            ".gitignore",
            ".github/workflows/ci.yml",
            ".envrc.example",
            "vscode/tasks.json",
            "cargo/config.toml",
            ".cargo/registry/x",
            "config.toml",
            "Makefile",
            ".code-workspace/x",
            "premise.toml",
            "lefthook.rs",
            ".editorconfig",
        ] {
            assert_eq!(executed_by(place), None, "{place}");
        }
    }

    #[test]
    fn links_that_may_give_a_name_are_known() {
        for place in [".vscode", "app/.VSCODE", ".envrc", ".config", ".venv", "x/tools", ".cargo"] {
            assert!(may_lead_to_executed(place), "{place}");
        }
        for place in ["", "vscode", "src", "tools/x", ".config/x", "bin", "node_modules"] {
            assert!(!may_lead_to_executed(place), "{place}");
        }
    }

    /// The documentation lists the same names.
    #[test]
    fn every_name_is_documented() {
        let page = include_str!("../../../../docs/executed-files.md");
        for (name, _) in FILES {
            assert!(page.contains(&format!("`{name}`")), "{name}");
        }
    }
}
