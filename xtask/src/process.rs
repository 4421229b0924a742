//! Running other programs: which environment they see, how their progress is shown, how long
//! they may take.

use std::env;
use std::ffi::OsStr;
use std::process::{Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};

/// Shows what is being done.
pub fn announce(what: &str) {
    eprintln!("==> {what}");
}

/// Runs a program whose output goes to the terminal, and shows what it does and how long it
/// took.
///
/// # Errors
/// The program can't be started, or ends with another status than 0.
pub fn run(what: &str, command: &mut Command) -> Result<()> {
    announce(what);
    let start = Instant::now();
    let status = command.status().with_context(|| format!("starting {}", shown(command)))?;
    if !status.success() {
        bail!("{what}: {} ended with {status}", shown(command));
    }
    eprintln!("    {:.1} s", start.elapsed().as_secs_f64());
    Ok(())
}

/// What a program writes to stdout; its stderr goes to the terminal.
///
/// # Errors
/// The program can't be started, ends with another status than 0, or writes no UTF-8.
pub fn output(command: &mut Command) -> Result<String> {
    let output = command
        .stderr(Stdio::inherit())
        .output()
        .with_context(|| format!("starting {}", shown(command)))?;
    if !output.status.success() {
        bail!("{} ended with {}", shown(command), output.status);
    }
    String::from_utf8(output.stdout).with_context(|| format!("{} wrote no UTF-8", shown(command)))
}

/// What a program writes to stdout, or `None` where it can't be started or fails: for asking
/// what a machine offers.
pub fn ask(command: &mut Command) -> Option<String> {
    let output = command.stdin(Stdio::null()).stderr(Stdio::null()).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    output.status.success().then(|| text.trim().to_owned())
}

/// Runs a program for at most `limit`; `None`: it took longer and was stopped.
///
/// # Errors
/// The program can't be started.
pub fn run_within(limit: Duration, command: &mut Command) -> Result<Option<ExitStatus>> {
    let start = Instant::now();
    let mut child = command.spawn().with_context(|| format!("starting {}", shown(command)))?;
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status));
        }
        if start.elapsed() > limit {
            child.kill()?;
            child.wait()?;
            return Ok(None);
        }
        thread::sleep(Duration::from_millis(20));
    }
}

/// A command line as a person would type it, without the flags' long tail.
fn shown(command: &Command) -> String {
    let words: Vec<_> = std::iter::once(command.get_program())
        .chain(command.get_args())
        .map(OsStr::to_string_lossy)
        .collect();
    format!("`{}`", words.join(" "))
}

/// The cargo that started this program, for crates of the host's machine. It uses the same
/// toolchain.
pub fn cargo() -> Command {
    let mut cargo = native(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    // Cargo sets it for itself.
    cargo.env_remove("CARGO");
    cargo
}

/// A program that does not see what cargo told this one about its own package.
pub fn native(program: impl AsRef<OsStr>) -> Command {
    without(program, is_about_this_package)
}

/// A program that sees none of the settings of the toolchain that built this one: for cargo
/// with another toolchain.
pub fn foreign(program: impl AsRef<OsStr>) -> Command {
    without(program, |name| is_about_this_package(name) || is_about_the_toolchain(name))
}

fn without(program: impl AsRef<OsStr>, hidden: impl Fn(&str) -> bool) -> Command {
    let mut command = Command::new(program);
    for (name, _) in env::vars_os() {
        if name.to_str().is_some_and(&hidden) {
            command.env_remove(name);
        }
    }
    command
}

/// Set by `cargo run` for the program that it starts.
fn is_about_this_package(name: &str) -> bool {
    ["CARGO_PKG_", "CARGO_MANIFEST_", "CARGO_BIN_", "CARGO_CRATE_", "CARGO_PRIMARY_"]
        .iter()
        .any(|prefix| name.starts_with(prefix))
}

/// Chooses or tunes a compiler. What says where cargo keeps its files and how it reaches the
/// network is not among that.
fn is_about_the_toolchain(name: &str) -> bool {
    const OF_TOOLCHAINS: &[&str] =
        &["CARGO", "RUST", "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH", "DYLD_FALLBACK_LIBRARY_PATH"];
    const OF_THE_MACHINE: &[&str] = &[
        "CARGO_BUILD_JOBS",
        "CARGO_HOME",
        "CARGO_HTTP_",
        "CARGO_NET_",
        "CARGO_REGISTR",
        "CARGO_SOURCE_",
        "CARGO_TERM_",
        "RUSTUP_DIST_",
        "RUSTUP_HOME",
        "RUSTUP_UPDATE_ROOT",
        "RUST_BACKTRACE",
    ];
    let is_one_of = |prefixes: &[&str]| prefixes.iter().any(|prefix| name.starts_with(prefix));
    is_one_of(OF_TOOLCHAINS) && !is_one_of(OF_THE_MACHINE)
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use super::*;

    #[test]
    fn settings_of_the_outer_cargo_do_not_leak() {
        for (name, about_package, about_toolchain) in [
            ("CARGO_PKG_NAME", true, true),
            ("CARGO_MANIFEST_DIR", true, true),
            ("CARGO", false, true),
            ("RUSTUP_TOOLCHAIN", false, true),
            ("RUSTC_WRAPPER", false, true),
            ("RUSTFLAGS", false, true),
            ("CARGO_ENCODED_RUSTFLAGS", false, true),
            ("CARGO_TARGET_DIR", false, true),
            ("CARGO_PROFILE_RELEASE_LTO", false, true),
            ("LD_LIBRARY_PATH", false, true),
            ("CARGO_HOME", false, false),
            ("CARGO_NET_OFFLINE", false, false),
            ("CARGO_REGISTRIES_MINE_INDEX", false, false),
            ("RUSTUP_HOME", false, false),
            ("PATH", false, false),
            ("HOME", false, false),
        ] {
            assert_eq!(is_about_this_package(name), about_package, "{name}");
            assert_eq!(is_about_the_toolchain(name), about_toolchain, "{name}");
        }
    }

    #[test]
    fn failures_name_the_command() {
        let error = run("trying", Command::new("sh").args(["-c", "exit 3"])).unwrap_err();
        assert!(error.to_string().contains("`sh -c exit 3` ended with exit status: 3"), "{error}");
        let error = output(&mut Command::new("no-such-program")).unwrap_err();
        assert!(error.to_string().contains("no-such-program"), "{error}");
        assert_eq!(ask(Command::new("sh").args(["-c", "echo hidden; exit 1"])), None);
        assert_eq!(ask(Command::new("sh").args(["-c", "echo shown"])).as_deref(), Some("shown"));
    }

    #[test]
    fn what_takes_too_long_is_stopped() {
        let short = Duration::from_millis(50);
        assert!(run_within(short, Command::new("sleep").arg("60")).unwrap().is_none());
        let long = Duration::from_secs(60);
        assert!(run_within(long, &mut Command::new("true")).unwrap().unwrap().success());
    }
}
