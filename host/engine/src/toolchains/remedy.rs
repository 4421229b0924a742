//! How a missing program can be installed.

/// Returns one line that installs a program, or what a runner of this name needs, for the operator's
/// account or for the project.
pub fn remedy(program: &str) -> Option<&'static str> {
    let (_, line) = REMEDIES.iter().find(|(name, _)| *name == program)?;
    Some(line)
}

/// Returns the line that installs a program and begins with a program for which `exists` is true; the
/// first one if there is none.
pub(crate) fn remedy_with(program: &str, exists: impl Fn(&str) -> bool) -> Option<&'static str> {
    let line = remedy(program)?;
    let works = |line: &&str| line.split(' ').next().is_some_and(&exists);
    line.split(", or ").find(works).or_else(|| line.split(", or ").next())
}

const REMEDIES: &[(&str, &str)] = &[
    ("bash", "sudo apt install bash"),
    ("cargo", "curl https://sh.rustup.rs -sSf | sh"),
    ("cargo-nextest", "cargo install --locked cargo-nextest"),
    ("clippy", "rustup component add clippy"),
    ("eslint", "npm install --save-dev eslint"),
    ("git", "sudo apt install git"),
    ("go", "sudo apt install golang"),
    ("golangci-lint", "go install github.com/golangci/golangci-lint/v2/cmd/golangci-lint@latest"),
    ("gradle", "sudo apt install gradle, or run ./gradlew once"),
    ("import-linter", "uv tool install import-linter, or pipx install import-linter"),
    ("jest", "npm install --save-dev jest"),
    ("lint-imports", "uv tool install import-linter, or pipx install import-linter"),
    ("make", "sudo apt install make"),
    ("mvn", "sudo apt install maven"),
    ("mypy", "uv tool install mypy, or pipx install mypy"),
    ("native-eslint", "npm install --save-dev eslint"),
    ("node", "nvm install --lts, or sudo apt install nodejs"),
    ("npm", "nvm install --lts, or sudo apt install npm"),
    ("pylint", "uv tool install pylint, or pipx install pylint"),
    ("pytest", "python3 -m venv .venv && .venv/bin/python -m pip install pytest"),
    ("python3", "pyenv install 3, or sudo apt install python3"),
    ("ruff", "uv tool install ruff, or pipx install ruff"),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_of_a_program_that_exists_is_named() {
        let with = |program, existing: &str| remedy_with(program, |name| name == existing);
        assert_eq!(with("mypy", "uv"), Some("uv tool install mypy"));
        assert_eq!(with("mypy", "pipx"), Some("pipx install mypy"));
        assert_eq!(with("mypy", "apt"), Some("uv tool install mypy"));
        assert_eq!(with("make", "pipx"), Some("sudo apt install make"));
        assert_eq!(with("no such program", "uv"), None);
    }
}
