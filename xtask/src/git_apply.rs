//! Runs git's own tests of `git apply`, and compares each run with `apply_patch`.
//!
//! `intercept` stands in for `git apply`: it applies the patch with the built command to a copy of
//! the working tree, runs git, and compares. `arguments` says which runs are compared. Differences
//! in what is accepted are in `differences.toml`, with their reasons.

mod arguments;
mod intercept;
mod report;

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};

use crate::process::{self, ask, native, run_within};
use crate::project::{self, Project};
pub use intercept::intercept;
use report::{Report, Script};

/// The scripts that test `git apply`.
const NAMES: std::ops::RangeInclusive<&str> = "t4100"..="t4142";

/// The maximum time for one script.
const SCRIPT_TIMEOUT: Duration = Duration::from_secs(900);

/// What the scripts run in place of git's helper for tests, if that has not been built.
const HELPER: &str = r#"#!/bin/sh
case "$1" in
env-helper)
	for last; do default=${last#--default=}; test "$default" = "$last" || fallback=$default; done
	eval "value=\${$last:-$fallback}"
	case "$value" in true | yes | on | 1) exit 0 ;; *) exit 1 ;; esac
	;;
genrandom) exec perl -e 'srand(length $ARGV[0]); print map { chr int rand 256 } 1 .. $ARGV[1]' "$2" "$3" ;;
genzeros) exec head -c "$2" /dev/zero ;;
path-utils) exec stat -c %s "$3" ;;
date) exit 0 ;;
*) echo "test-tool $1: not available" >&2; exit 125 ;;
esac
"#;

/// Where the scripts run.
struct Place {
    /// The copy of git's folder `t`.
    tests: PathBuf,
    /// The folder with `git`, which intercepts `git apply`.
    programs: PathBuf,
    /// What the intercepted runs wrote.
    records: PathBuf,
}

/// Runs the scripts in the folder `t` of `source`, a source of git, whose names begin with one of
/// `names` (all if there are none), and prints how `apply_patch` compares.
///
/// # Errors
/// If a script can't be run, a tree differs, or a difference in acceptance is not in the list, or
/// one of the list did not occur.
pub fn run(project: &Project, source: &Path, names: &[String]) -> Result<()> {
    let place = prepare(project, &source.join("t"))?;
    let mut scripts = scripts(&place.tests)?;
    scripts.retain(|script| names.is_empty() || names.iter().any(|name| script.starts_with(name)));
    ensure!(!scripts.is_empty(), "{}: no such test scripts", source.display());
    let mut report = Report::new()?;
    for script in &scripts {
        report.add(run_script(&place, script)?)?;
    }
    report.finish()
}

/// Lists the scripts that test `git apply`.
fn scripts(tests: &Path) -> Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in fs::read_dir(tests)? {
        let name = entry?.file_name().to_string_lossy().into_owned();
        if NAMES.contains(&name.as_str()) && name.ends_with(".sh") {
            names.push(name);
        }
    }
    names.sort();
    Ok(names)
}

/// Copies the tests, since they write beside themselves, and creates what they expect of a build.
fn prepare(project: &Project, source: &Path) -> Result<Place> {
    let root = project.memory("git-apply");
    if root.exists() {
        fs::remove_dir_all(&root).with_context(|| format!("removing {}", root.display()))?;
    }
    let place = Place {
        tests: root.join("source/t"),
        programs: root.join("programs"),
        records: root.join("records"),
    };
    crate::tree::copy(source, &place.tests)?;
    fs::create_dir_all(root.join("source/templates/blt"))?;
    let options = "SHELL_PATH='/bin/sh'\nPERL_PATH='/usr/bin/perl'\nDIFF='diff'\nTAR='tar'\nX=''\n";
    project::write(&root.join("source/GIT-BUILD-OPTIONS"), options)?;
    let helper = place.tests.join("helper/test-tool");
    if !helper.exists() {
        executable(&helper, HELPER)?;
    }
    let Some(git) = ask(native("sh").args(["-c", "command -v git"])) else {
        bail!("git is not installed");
    };
    let own = std::env::current_exe()?;
    let wrapper = format!(
        "#!/bin/sh\nif test \"$1\" = apply; then\n\tshift\n\texec '{}' intercepted-apply '{git}' '{}' -- \"$@\"\nfi\nexec '{git}' \"$@\"\n",
        own.display(),
        place.records.display(),
    );
    executable(&place.programs.join("git"), &wrapper)?;
    Ok(place)
}

fn executable(path: &Path, text: &str) -> Result<()> {
    project::write(path, text)?;
    fs::set_permissions(path, fs::Permissions::from_mode(0o755))?;
    Ok(())
}

fn run_script(place: &Place, name: &str) -> Result<Script> {
    project::write(&place.records, "")?;
    let log = place.tests.join(name).with_extension("log");
    let output = fs::File::create(&log)?;
    let mut command = native("sh");
    command
        .arg(name)
        .current_dir(&place.tests)
        .env("GIT_TEST_INSTALLED", &place.programs)
        .stdin(Stdio::null())
        .stdout(output.try_clone()?)
        .stderr(output);
    if run_within(SCRIPT_TIMEOUT, &mut command)?.is_none() {
        bail!("{name} took longer than {} s", SCRIPT_TIMEOUT.as_secs());
    }
    let text = String::from_utf8_lossy(&project::read(&log)?).into_owned();
    ensure!(text.lines().any(|line| line.starts_with("1..")), "{name} did not end:\n{text}");
    let script = Script::parse(name, &text, &project::read_text(&place.records)?)?;
    process::announce(&script.to_string());
    Ok(script)
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use super::*;

    #[test]
    fn the_helper_decides_as_the_tests_expect() {
        let place = tempfile::tempdir().unwrap();
        let helper = place.path().join("test-tool");
        executable(&helper, HELPER).unwrap();
        for (value, default, wanted) in [
            (None, "false", 1),
            (None, "true", 0),
            (Some("true"), "false", 0),
            (Some("0"), "true", 1),
        ] {
            let mut command = native(&helper);
            command.args(["env-helper", "--type=bool", &format!("--default={default}")]);
            command.args(["--exit-code", "A_VARIABLE"]).env_remove("A_VARIABLE");
            if let Some(value) = value {
                command.env("A_VARIABLE", value);
            }
            assert_eq!(command.status().unwrap().code(), Some(wanted), "{value:?} {default}");
        }
        assert_eq!(ask(native(&helper).args(["genzeros", "3"])).as_deref(), Some("\0\0\0"));
    }
}
