//! Uses one path repeatedly while another process replaces a directory on that path.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use cofferdam_sdk::{Context, ToolError};
use serde::Deserialize;
use wasip2::filesystem::types::{ErrorCode, NewTimestamp, OpenFlags, PathFlags};

use crate::{Tried, files, scan};

/// The time that a race leaves for its last round and its answer on a busy machine, in
/// milliseconds.
const REST: u32 = 20_000;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Race {
    how: How,
    /// A directory with the files `file.txt`, `0`, `1`, ... that is replaced repeatedly.
    directory: String,
    /// The number of numbered files.
    #[serde(default)]
    files: u32,
}

#[derive(Deserialize)]
#[serde(rename_all = "lowercase")]
enum How {
    Read,
    Write,
    Scan,
}

/// Returns each distinct result once; the first line has the numbers of successes and refusals. If
/// something was written, the call fails, so that its results are reported independently of whether
/// its commit succeeds.
pub fn run(race: &Race, context: &Context) -> Result<Tried, ToolError> {
    let time = Duration::from_millis(context.deadline_ms.saturating_sub(REST).into());
    let started = Instant::now();
    let (mut well, mut refused) = (0_u32, 0_u32);
    let mut seen = BTreeSet::new();
    let mut round = 0_u32;
    while started.elapsed() < time {
        for tried in once(race, round) {
            match tried {
                Ok(data) => {
                    well += 1;
                    seen.insert(data);
                }
                Err(_) => refused += 1,
            }
        }
        round += 1;
    }
    let seen: Vec<String> = seen.into_iter().collect();
    let told = format!("{well} {refused}\n{}", seen.join("\n"));
    match race.how {
        How::Read | How::Scan => Ok(Ok(told)),
        How::Write => Err(ToolError::failed("Raced", told)),
    }
}

fn once(race: &Race, round: u32) -> Vec<Tried> {
    let directory = race.directory.as_str();
    let file = format!("{directory}/file.txt");
    match race.how {
        How::Read => vec![
            said(files::read(&file)),
            said(files::list(directory)),
            std::fs::read_to_string(format!("/workspace/{file}"))
                .map_err(|error| error.to_string()),
        ],
        How::Write => write(directory, round, race.files),
        How::Scan => {
            vec![
                scan::scan(&scan::query(directory, false)),
                scan::scan(&scan::query(directory, true)),
                scan::scan(&scan::query("", true)),
            ]
        }
    }
}

/// Each round changes other files: a file that was changed before is staged, and the directory
/// outside no longer matters to it.
fn write(directory: &str, round: u32, files: u32) -> Vec<Tried> {
    let now = NewTimestamp::Now;
    let old = |turn: u32| format!("{directory}/{}", (4 * round + turn) % files.max(1));
    let new = |name: &str| format!("{directory}/{name}-{round}");
    let Some(root) = files::workspace() else { return Vec::new() };
    let done = |()| String::new();
    vec![
        // Opened without truncating, so that the host copies the existing file.
        said(files::write(&old(0), OpenFlags::empty())),
        said(files::read(&old(0))),
        said(files::write(&old(1), OpenFlags::TRUNCATE)),
        said(files::write(&new("new"), OpenFlags::CREATE | OpenFlags::EXCLUSIVE)),
        said(files::write(&format!("{directory}/deep/{round}"), OpenFlags::CREATE)),
        std::fs::write(format!("/workspace/{}", new("plain")), "hostile")
            .map(done)
            .map_err(|error| error.to_string()),
        said(root.set_times_at(PathFlags::SYMLINK_FOLLOW, &old(2), now, now).map(done)),
        said(root.create_directory_at(&new("directory")).map(done)),
        said(root.symlink_at("file.txt", &new("link")).map(done)),
        said(files::read(&new("link"))),
        said(root.rename_at(&old(3), &root, &new("moved")).map(done)),
        said(files::read(&new("moved"))),
        said(root.unlink_file_at(&new("moved")).map(done)),
    ]
}

fn said<T>(tried: Result<T, ErrorCode>) -> Result<T, String> {
    tried.map_err(|error| error.name().to_owned())
}
