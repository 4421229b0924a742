//! Runs other programs: their environment, progress lines and timeouts.

use std::env;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};

/// Prints a progress line.
pub fn announce(what: &str) {
    eprintln!("==> {what}");
}

/// Runs a program whose output goes to the terminal, and prints what it does and how long it took.
///
/// # Errors
/// If the program can't be started or fails.
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

/// Returns what a program writes to standard output; its standard error goes to the terminal.
///
/// # Errors
/// If the program can't be started, fails, or its output is not UTF-8.
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

/// Returns what a program writes to standard output, or `None` if it can't be started or fails. For
/// finding out what is installed.
pub fn ask(command: &mut Command) -> Option<String> {
    let output = command.stdin(Stdio::null()).stderr(Stdio::null()).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    output.status.success().then(|| text.trim().to_owned())
}

/// Runs a program for at most `limit`. Returns `None` if it took longer and was killed.
///
/// # Errors
/// If the program can't be started.
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

/// Cargo's directory in the user's home.
pub fn cargo_home() -> PathBuf {
    env::var_os("CARGO_HOME")
        .map_or_else(|| env::home_dir().unwrap_or_default().join(".cargo"), PathBuf::from)
}

/// The compiler's flag that renames a directory in the output.
pub fn remap(from: &Path, to: &str) -> String {
    format!("--remap-path-prefix={}={to}", from.display())
}

/// A command line for people, without its long list of flags.
fn shown(command: &Command) -> String {
    let words: Vec<_> = std::iter::once(command.get_program())
        .chain(command.get_args())
        .map(OsStr::to_string_lossy)
        .collect();
    format!("`{}`", words.join(" "))
}

/// The cargo that started this program, for crates of the build machine. It uses the same
/// toolchain.
pub fn cargo() -> Command {
    let mut cargo = native(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    // Cargo sets this variable itself.
    cargo.env_remove("CARGO");
    cargo
}

/// A program without the variables in which cargo describes the package of xtask.
pub fn native(program: impl AsRef<OsStr>) -> Command {
    without(program, is_about_this_package)
}

/// A program without any settings of the toolchain that built xtask: for cargo of another
/// toolchain.
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

/// Whether `cargo run` sets this variable for the program that it starts.
fn is_about_this_package(name: &str) -> bool {
    ["CARGO_PKG_", "CARGO_MANIFEST_", "CARGO_BIN_", "CARGO_CRATE_", "CARGO_PRIMARY_"]
        .iter()
        .any(|prefix| name.starts_with(prefix))
}

/// Whether a variable selects or configures a compiler. Cargo's directories and network settings do
/// not count.
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
    fn a_program_that_takes_too_long_is_killed() {
        let short = Duration::from_millis(50);
        assert!(run_within(short, Command::new("sleep").arg("60")).unwrap().is_none());
        let long = Duration::from_secs(60);
        assert!(run_within(long, &mut Command::new("true")).unwrap().unwrap().success());
    }
}
