//! A short run of every fuzz target in `fuzz/`: long enough to show that each still builds and that
//! earlier findings stay fixed. Long runs are started by hand.

use std::ffi::OsStr;
use std::panic::resume_unwind;
use std::thread;

use anyhow::Result;

use crate::process::{native, run};
use crate::project::{Project, files_below};
use crate::tools;

/// How long each target runs, in seconds.
const SECONDS: u32 = 5;

/// Runs every fuzz target.
///
/// # Errors
/// If a target does not compile or finds a failure, or cargo-fuzz can't be built.
pub fn run_all(project: &Project) -> Result<()> {
    let program = tools::CARGO_FUZZ.provide(project)?;
    let fuzz = |words: &[&str]| {
        let mut fuzz = native(&program);
        fuzz.current_dir(&project.root)
            // For a run of seconds, a short build matters more than speed.
            .env("CARGO_PROFILE_RELEASE_OPT_LEVEL", "0")
            // The targets are safe Rust: the address sanitizer would only double the time.
            .args(["fuzz", words[0], "--sanitizer", "none"])
            .args(&words[1..]);
        fuzz
    };
    run("building the fuzz targets", &mut fuzz(&["build"]))?;
    let time = format!("-max_total_time={SECONDS}");
    for pair in targets(project)?.chunks(2) {
        thread::scope(|scope| {
            let started: Vec<_> = pair
                .iter()
                .map(|target| {
                    let mut fuzz = fuzz(&["run", target, "--", &time, "-verbosity=0"]);
                    fuzz.arg("-print_final_stats=1");
                    scope
                        .spawn(move || run(&format!("fuzzing {target} for {SECONDS} s"), &mut fuzz))
                })
                .collect();
            started
                .into_iter()
                .try_for_each(|run| run.join().unwrap_or_else(|panic| resume_unwind(panic)))
        })?;
    }
    Ok(())
}

/// The names of the fuzz targets.
fn targets(project: &Project) -> Result<Vec<String>> {
    let files = files_below(&project.root.join("fuzz/fuzz_targets"))?;
    let sources = files.iter().filter(|file| file.extension() == Some(OsStr::new("rs")));
    Ok(sources.filter_map(|file| Some(file.file_stem()?.to_str()?.to_owned())).collect())
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use std::collections::BTreeSet;
    use std::path::Path;

    use super::*;
    use crate::project::{Profile, write};

    /// The table in `docs/parsers.md` names each target, and none that does not exist.
    #[test]
    fn every_target_is_in_the_table_of_parsers() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_owned();
        let table = std::fs::read_to_string(root.join("docs/parsers.md")).unwrap();
        let rows = table.lines().filter(|line| line.starts_with("| ") && line.ends_with(" |"));
        let last = |row: &str| row.trim_end_matches(" |").rsplit("| ").next().unwrap().to_owned();
        let mut named = BTreeSet::from(["patch".to_owned()]);
        for cell in rows.map(last).filter(|cell| cell != "fuzz target") {
            let reason = cell.strip_prefix("none: ");
            assert!(cell.starts_with('`') || reason.is_some_and(|why| why.len() > 10), "{cell}");
            if reason.is_none() {
                named.extend(cell.split(", ").map(|name| name.trim_matches('`').to_owned()));
            }
        }
        let project = Project { target: root.join("target"), root, profile: Profile::Release };
        let targets = targets(&project).unwrap();
        assert_eq!(targets, named.into_iter().collect::<Vec<_>>());
    }

    #[test]
    fn every_source_is_a_target() {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path().to_owned();
        let project =
            Project { target: root.join("target"), root: root.clone(), profile: Profile::Release };
        assert_eq!(targets(&project).unwrap(), [] as [&str; 0]);
        for file in ["patch.rs", "decode.rs", "README.md"] {
            write(&root.join("fuzz/fuzz_targets").join(file), "").unwrap();
        }
        assert_eq!(targets(&project).unwrap(), ["decode", "patch"]);
    }
}
