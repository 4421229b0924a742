//! Uses one path again and again while somebody else swaps what it goes through.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use cofferdam_sdk::Context;
use serde::Deserialize;
use wasip2::filesystem::types::{NewTimestamp, OpenFlags, PathFlags};

use crate::{Tried, bulk, files};

/// What a finished race leaves for its answer, in milliseconds.
const REST: u32 = 500;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Race {
    how: How,
    path: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "lowercase")]
enum How {
    Read,
    Write,
    Scan,
}

/// Everything that was got, each thing once; the first line says how often it went well and how
/// often the host refused.
pub fn run(race: &Race, context: &Context) -> Tried {
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
    Ok(format!("{well} {refused}\n{}", seen.join("\n")))
}

fn once(race: &Race, round: u32) -> Vec<Tried> {
    let path = race.path.as_str();
    let directory = path.rsplit_once('/').map_or("", |(directory, _)| directory);
    let said = |tried: Result<String, _>| {
        tried.map_err(|error: wasip2::filesystem::types::ErrorCode| error.name().to_owned())
    };
    match race.how {
        How::Read => vec![
            said(files::read(path)),
            said(files::list(directory)),
            std::fs::read_to_string(format!("/workspace/{path}"))
                .map_err(|error| error.to_string()),
        ],
        How::Write => {
            let new = format!("{directory}/new");
            let mut tried = vec![
                said(files::write(path, OpenFlags::TRUNCATE)),
                said(files::write(&new, OpenFlags::CREATE)),
                bulk::replace(path, "hostile"),
                bulk::replace(&format!("{directory}/deep/new"), "hostile"),
                std::fs::write(format!("/workspace/{path}"), "hostile")
                    .map(|()| String::new())
                    .map_err(|error| error.to_string()),
            ];
            if let Some(root) = files::workspace() {
                let now = NewTimestamp::Now;
                let moved = format!("{directory}/moved-{round}");
                let done = |()| String::new();
                tried.push(said(root.set_times_at(PathFlags::empty(), path, now, now).map(done)));
                tried.push(said(
                    root.create_directory_at(&format!("{directory}/directory-{round}")).map(done),
                ));
                tried.push(said(root.rename_at(&new, &root, &moved).map(done)));
                tried.push(said(root.unlink_file_at(&moved).map(done)));
                tried.push(bulk::remove(&moved));
            }
            tried
        }
        How::Scan => {
            vec![
                bulk::scan(&bulk::query(directory, false)),
                bulk::scan(&bulk::query(directory, true)),
                bulk::scan(&bulk::query("", true)),
            ]
        }
    }
}
