//! The tests of hostile workspaces and guests once more, as an ordinary user: root may read and
//! write what permissions forbid to others.

use std::io::ErrorKind;
use std::os::unix::fs::chown;
use std::os::unix::process::CommandExt as _;
use std::process::Command;

use crate::support::ORDINARY_UID;

/// The tests that are run again. Hostile programs run as both users in their own tests already.
const AGAIN: [&str; 3] = ["hostile::", "executed::", "planted::"];

/// They take long, and what they measure does not depend on the user: times and memory of a server, the
/// limits of output and of nested directories.
const NOT_AGAIN: [&str; 4] = [
    "hostile::beside::",
    "hostile::large::",
    "a_flood_of_output_is_truncated_with_a_mark",
    "nested_directories_have_a_maximum_depth",
];

#[test]
#[expect(clippy::disallowed_methods, reason = "starts these tests as another user")]
#[expect(clippy::print_stdout, reason = "says why nothing was run")]
fn hostile_tests_pass_for_an_ordinary_user() {
    if !rustix::process::geteuid().is_root() {
        return; // All tests run as an ordinary user.
    }
    let home = tempfile::tempdir().unwrap();
    chown(home.path(), Some(ORDINARY_UID), Some(ORDINARY_UID)).unwrap();
    let mut again = Command::new(std::env::current_exe().unwrap());
    again.args(AGAIN).args(NOT_AGAIN.iter().flat_map(|name| ["--skip", name]));
    again.uid(ORDINARY_UID).gid(ORDINARY_UID);
    again.env("HOME", home.path()).env("TMPDIR", home.path());
    let output = match again.output() {
        Err(error) if error.kind() == ErrorKind::PermissionDenied => {
            println!("nothing was run: other users can't read this working tree");
            return;
        }
        output => output.unwrap(),
    };
    let report = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{report}{}", String::from_utf8_lossy(&output.stderr));
    assert!(!report.contains("running 0 tests"), "{report}");
}
