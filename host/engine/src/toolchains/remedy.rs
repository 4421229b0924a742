//! How a missing program can be installed.

/// Returns one line that installs a program, or what a runner of this name needs, for the operator's
/// account or for the project.
pub fn remedy(program: &str) -> Option<&'static str> {
    let (_, line) = REMEDIES.iter().find(|(name, _)| *name == program)?;
    Some(line)
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
