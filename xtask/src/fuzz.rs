//! A short run of every fuzz target in `fuzz/`: long enough to see that each still builds and that
//! what was found once stays fixed. Long runs are started by hand.

use std::ffi::OsStr;

use anyhow::Result;

use crate::process::{native, run};
use crate::project::{Project, files_below};
use crate::tools;

/// How long each target runs, in seconds.
const SECONDS: u32 = 10;

/// Runs every fuzz target.
///
/// # Errors
/// A target does not compile or finds a failure, or cargo-fuzz can't be had.
pub fn run_all(project: &Project) -> Result<()> {
    for target in targets(project)? {
        let program = tools::CARGO_FUZZ.provide(project)?;
        let mut fuzz = native(program);
        fuzz.current_dir(&project.root)
            // What is fuzzed is safe Rust: the address sanitizer would only double the time.
            .args(["fuzz", "run", "--sanitizer", "none", &target, "--"])
            .arg(format!("-max_total_time={SECONDS}"));
        run(&format!("fuzzing {target} for {SECONDS} s"), &mut fuzz)?;
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
    use super::*;
    use crate::project::write;

    #[test]
    fn every_source_is_a_target() {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path().to_owned();
        let project = Project { target: root.join("target"), root: root.clone() };
        assert_eq!(targets(&project).unwrap(), [] as [&str; 0]);
        for file in ["patch.rs", "decode.rs", "README.md"] {
            write(&root.join("fuzz/fuzz_targets").join(file), "").unwrap();
        }
        assert_eq!(targets(&project).unwrap(), ["decode", "patch"]);
    }
}
