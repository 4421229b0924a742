//! The control group of the host, for the report of what this system offers.

use std::fs;
use std::path::{Path, PathBuf};

use rustix::fs::{Access, access};

use crate::Cgroup;

/// Returns the control group of this process in the version 2 hierarchy: proc(5), cgroups(7).
pub(super) fn find() -> Option<Cgroup> {
    let groups = fs::read_to_string("/proc/self/cgroup").ok()?;
    let mounts = fs::read_to_string("/proc/self/mounts").ok()?;
    let path = own(&groups, &mounts)?;
    let controllers = fs::read_to_string(path.join("cgroup.controllers")).ok()?;
    let may_write = |path: &Path| access(path, Access::WRITE_OK).is_ok();
    Some(Cgroup {
        delegated: may_write(&path) && may_write(&path.join("cgroup.procs")),
        controllers: controllers.split_ascii_whitespace().map(str::to_owned).collect(),
        path,
    })
}

/// Returns the directory of this process's group, from `/proc/self/cgroup` and `/proc/self/mounts`.
fn own(groups: &str, mounts: &str) -> Option<PathBuf> {
    let group = groups.lines().find_map(|line| line.strip_prefix("0::/"))?;
    let hierarchy = mounts.lines().find_map(|line| {
        let mut fields = line.split(' ').skip(1);
        let (directory, kind) = (fields.next()?, fields.next()?);
        (kind == "cgroup2").then_some(directory)
    })?;
    Some(Path::new(hierarchy).join(group))
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::own;

    #[test]
    fn the_control_group_of_the_process_is_found() {
        let unified = "cgroup2 /sys/fs/cgroup cgroup2 rw,nosuid 0 0\n";
        let hybrid = "cgroup /sys/fs/cgroup/pids cgroup rw,pids 0 0\n\
                      cgroup2 /sys/fs/cgroup/unified cgroup2 rw 0 0\n";
        let table = [
            ("0::/user.slice/a.scope\n", unified, Some("/sys/fs/cgroup/user.slice/a.scope")),
            ("8:pids:/x\n0::/\n", hybrid, Some("/sys/fs/cgroup/unified")),
            ("8:pids:/x\n", hybrid, None),
            ("0::/x\n", "tmpfs /sys/fs/cgroup tmpfs rw 0 0\n", None),
        ];
        for (groups, mounts, expected) in table {
            assert_eq!(own(groups, mounts), expected.map(PathBuf::from), "{groups}{mounts}");
        }
    }
}
