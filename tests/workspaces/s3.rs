//! Workspaces in a bucket of a real server.

use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};

use super::tree;
use crate::fleet::network::Node;
use crate::store::S3;
use crate::support::{Ended, Place};

fn command(server: &S3, place: &Place, directory: &Path, args: &[&str]) -> Command {
    let mut command = place.command(&[&["workspace"], args].concat());
    command.current_dir(directory).envs(server.environment());
    command
}

fn done(server: &S3, place: &Place, directory: &Path, args: &[&str]) -> Value {
    let ended = Ended::of(&mut command(server, place, directory, args));
    assert_eq!(ended.status, 0, "{args:?}: {ended:?}");
    ended.json()
}

#[test]
fn workspaces_are_shared_through_a_bucket() {
    let (place, node) = (Place::new(), Node::local());
    let server = S3::start(&place, &node);
    let (a, b) = (place.workspace(), place.home_file("b"));
    for number in 0..40 {
        place.write(&format!("d{}/{number} ü", number % 4), format!("{number}\n"));
    }
    place.write("large", vec![7; 9 << 20]);
    place.write("empty", "");
    let store = "s3://bucket/team/project";
    let pushed = done(&server, &place, &a, &["push", store]);
    assert_eq!((&pushed["number"], &pushed["files"]), (&json!(1), &json!(42)));
    done(&server, &place, &a, &["clone", store, b.to_str().unwrap()]);
    assert_eq!(tree(&a), tree(&b));
    // Conditional puts decide: of two pushes at once, one wins.
    for round in 0..5 {
        let both = [&a, &b].map(|directory| {
            fs::write(directory.join(format!("{}-{round}", directory.ends_with("b"))), "x\n")
                .unwrap();
            command(&server, &place, directory, &["push"]).spawn().unwrap()
        });
        let ended = both.map(|child| Ended::from(child.wait_with_output().unwrap()));
        let mut statuses = [ended[0].status, ended[1].status];
        statuses.sort_unstable();
        assert_eq!(statuses, [0, 1], "{ended:?}");
        for directory in [&a, &b, &a] {
            done(&server, &place, directory, &["push", "--pull"]);
            done(&server, &place, directory, &["pull"]);
        }
        assert_eq!(tree(&a), tree(&b), "round {round}");
    }
    let listed = done(&server, &place, &a, &["log"]);
    assert_eq!(listed["commits"].as_array().unwrap().len(), 11);
    // A server that has lost everything is another store.
    server.lose_everything(&node);
    let before = tree(&a);
    let ended = Ended::of(&mut command(&server, &place, &a, &["push"]));
    assert_eq!(ended.status, 1, "{ended:?}");
    assert!(ended.stderr.contains("another store"), "{ended:?}");
    assert_eq!(tree(&a), before);
}
