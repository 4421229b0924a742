//! The file tree of a program in tier A: empty, with the granted files and directories under their
//! own paths. They are opened and cloned while the host's tree is mounted, then mounted in the new
//! tree.

use std::ffi::CString;
use std::io;
use std::iter;
use std::os::fd::{AsFd, AsRawFd as _, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, FileType, Mode, OFlags, fstat, mkdirat, openat, symlinkat};
use rustix::mount::{
    FsMountFlags, FsOpenFlags, MountAttrFlags, MountPropagationFlags, MoveMountFlags,
    OpenTreeFlags, UnmountFlags, fsconfig_create, fsconfig_set_string, fsmount, fsopen,
    mount_change, move_mount, open_tree, unmount,
};
use rustix::process::{chdir, fchdir, pivot_root};

use super::rules;
use crate::{Command, Overlay, SandboxError};

/// Directories that every program gets as private ones.
pub(super) const PRIVATE_DIRS: [&str; 2] = ["/tmp", "/dev/shm"];

/// The private directories of a program: a grant of the same path replaces one.
pub(super) fn private(command: &Command) -> impl Iterator<Item = &'static Path> {
    let granted = |path: &Path| {
        command.writable.iter().chain(&command.readable).any(|granted| granted == path)
    };
    PRIVATE_DIRS.iter().map(Path::new).filter(move |path| !granted(path))
}

/// Limits on resources that the kernel counts per user or per machine, set for the run's own
/// namespaces: inotify(7), tcp(7). The program can't write them.
const NAMESPACE_LIMITS: [(&str, &str); 4] = [
    ("sys/user/max_inotify_instances", "16"),
    ("sys/user/max_inotify_watches", "32768"),
    ("sys/net/ipv4/tcp_rmem", "4096 65536 262144"),
    ("sys/net/ipv4/tcp_wmem", "4096 65536 262144"),
];

/// No set-user-ID programs, no devices.
const NOSUID_NODEV: MountAttrFlags =
    MountAttrFlags::MOUNT_ATTR_NOSUID.union(MountAttrFlags::MOUNT_ATTR_NODEV);

/// An entry of the new tree.
struct TreeEntry {
    target: PathBuf,
    content: Content,
}

enum Content {
    /// A detached mount, and whether it is a directory.
    Mount(OwnedFd, bool),
    /// The target of a symbolic link.
    Link(PathBuf),
}

/// The entries that were cloned from the host's tree.
pub(super) struct Sources(Vec<TreeEntry>);

impl Sources {
    /// Clones what a command was granted. With a user namespace, all mounts map the owners on disk
    /// to those of the namespace; the caller is then privileged outside of it.
    ///
    /// # Errors
    /// Returns an error if a writable path can't be opened, or if a mount can't be cloned or
    /// mapped.
    pub(super) fn gather(
        command: &Command,
        mapping: Option<BorrowedFd<'_>>,
    ) -> Result<Self, SandboxError> {
        let mut entries = Vec::new();
        for path in command.read_only() {
            // Missing paths are left out, as documented.
            let Ok(metadata) = path.symlink_metadata() else { continue };
            let content = if metadata.is_symlink() {
                Content::Link(
                    std::fs::read_link(path).map_err(|error| setup(path.display(), error))?,
                )
            } else {
                clone(path, NOSUID_NODEV | MountAttrFlags::MOUNT_ATTR_RDONLY, mapping)?
            };
            entries.push(TreeEntry { target: path.to_owned(), content });
        }
        for path in &command.writable {
            entries.push(TreeEntry {
                target: path.clone(),
                content: clone(path, NOSUID_NODEV, mapping)?,
            });
        }
        for path in rules::DEVICES.map(Path::new) {
            let content = clone(path, MountAttrFlags::MOUNT_ATTR_NOSUID, None)?;
            entries.push(TreeEntry { target: path.to_owned(), content });
        }
        if let Some(overlay) = &command.overlay {
            let content = Content::Mount(overlay_mount(overlay)?, true);
            entries.push(TreeEntry { target: overlay.lower.clone(), content });
        }
        Ok(Self(entries))
    }

    /// Replaces the host's tree by these entries, a `/proc` of this process namespace and empty
    /// private directories. The first process of new namespaces calls this.
    ///
    /// # Errors
    /// Returns an error if the system refuses a mount.
    pub(super) fn enter(self, command: &Command) -> Result<(), SandboxError> {
        let mut entries = self.0;
        entries.push(processes()?);
        entries.push(new_entry(
            "/dev",
            "tmpfs",
            &[("size", "64k"), ("mode", "755")],
            NOSUID_NODEV,
        )?);
        // It counts as memory.
        let size = command.limits.temporary.min(command.limits.memory);
        // Even an empty file takes memory.
        let (size, files) = (size.to_string(), (size / 4096).max(1024).to_string());
        for target in PRIVATE_DIRS {
            let options =
                [("size", size.as_str()), ("nr_inodes", files.as_str()), ("mode", "1777")];
            entries.push(new_entry(target, "tmpfs", &options, NOSUID_NODEV)?);
        }
        for target in &command.masked {
            let options = [("size", "64k"), ("mode", "755")];
            entries.push(new_entry(target, "tmpfs", &options, NOSUID_NODEV)?);
        }
        let root = new_mount("tmpfs", &[("size", "1m"), ("mode", "755")], NOSUID_NODEV)
            .map_err(|error| setup("the root", error))?;
        enter_root(&root).map_err(|error| setup("the root", error))?;

        // Parents are mounted before their children. The new entries come first, so that a grant of
        // the same path, such as `/tmp`, replaces them.
        entries.rotate_right(2 + PRIVATE_DIRS.len() + command.masked.len());
        entries.sort_by_key(|entry| entry.target.components().count());
        for entry in &entries {
            attach(entry).map_err(|error| setup(entry.target.display(), error))?;
        }
        for (name, descriptor) in [("fd", ""), ("stdin", "/0"), ("stdout", "/1"), ("stderr", "/2")]
        {
            symlinkat(format!("/proc/self/fd{descriptor}"), CWD, format!("/dev/{name}"))
                .map_err(|error| setup(name, error))?;
        }
        let shown =
            command.writable.iter().chain(command.overlay.iter().map(|overlay| &overlay.lower));
        for writable in shown {
            protect(writable, &command.protected)?;
        }
        let made = ["/dev", "/"].map(Path::new).into_iter();
        for path in made.chain(command.masked.iter().map(PathBuf::as_path)) {
            set_attributes(&rules::open(path)?, MountAttrFlags::MOUNT_ATTR_RDONLY, None, 0)
                .map_err(|error| setup(path.display(), error))?;
        }
        Ok(())
    }
}

/// Returns a `/proc` of this process namespace, read-only after the limits are written.
fn processes() -> Result<TreeEntry, SandboxError> {
    let attributes = NOSUID_NODEV | MountAttrFlags::MOUNT_ATTR_NOEXEC;
    let proc = new_mount("proc", &[], attributes).map_err(|error| setup("/proc", error))?;
    for (name, value) in NAMESPACE_LIMITS {
        let flags = OFlags::WRONLY | OFlags::CLOEXEC;
        match openat(&proc, name, flags, Mode::empty()) {
            Ok(limit) => {
                rustix::io::write(&limit, value.as_bytes()).map_err(|error| setup(name, error))?;
            }
            // The kernel does not have this limit.
            Err(rustix::io::Errno::NOENT) => {}
            Err(error) => return Err(setup(name, error)),
        }
    }
    set_attributes(&proc, attributes | MountAttrFlags::MOUNT_ATTR_RDONLY, None, 0)
        .map_err(|error| setup("/proc", error))?;
    Ok(TreeEntry { target: "/proc".into(), content: Content::Mount(proc, true) })
}

/// Stops the propagation of mounts between this namespace and the host's.
///
/// # Errors
/// Returns the error of the system.
pub(super) fn make_private() -> io::Result<()> {
    Ok(mount_change("/", MountPropagationFlags::PRIVATE | MountPropagationFlags::REC)?)
}

/// Makes the protected paths beneath a writable one read-only. A mount can't be moved or removed,
/// so each parent directory becomes a mount as well.
fn protect(writable: &Path, protected: &[PathBuf]) -> Result<(), SandboxError> {
    let mut pins: Vec<&Path> = protected
        .iter()
        .filter(|path| path.starts_with(writable))
        .flat_map(|path| {
            let on_the_way = path.ancestors().skip(1).take_while(|above| *above != writable);
            iter::once(path.as_path()).chain(on_the_way.filter(|above| above.starts_with(writable)))
        })
        .collect();
    pins.sort_by_key(|path| path.components().count());
    pins.dedup();
    for pin in pins {
        let attributes = if protected.iter().any(|path| path == pin) {
            NOSUID_NODEV | MountAttrFlags::MOUNT_ATTR_RDONLY
        } else {
            NOSUID_NODEV
        };
        let content = clone(pin, attributes, None)?;
        attach(&TreeEntry { target: pin.to_owned(), content })
            .map_err(|error| setup(pin.display(), error))?;
    }
    Ok(())
}

/// Clones a path of the tree, with all mounts beneath it.
fn clone(
    path: &Path,
    attributes: MountAttrFlags,
    mapping: Option<BorrowedFd<'_>>,
) -> Result<Content, SandboxError> {
    let file = rules::open_itself(path)?;
    let kind = fstat(&file).map_err(|error| setup(path.display(), error))?.st_mode;
    let cloned = || -> io::Result<OwnedFd> {
        let flags = OpenTreeFlags::OPEN_TREE_CLONE
            | OpenTreeFlags::OPEN_TREE_CLOEXEC
            | OpenTreeFlags::AT_EMPTY_PATH
            | OpenTreeFlags::AT_RECURSIVE;
        let tree = open_tree(&file, "", flags)?;
        set_attributes(&tree, attributes, mapping, libc::AT_RECURSIVE)?;
        Ok(tree)
    };
    let tree = cloned().map_err(|error| setup(path.display(), error))?;
    Ok(Content::Mount(tree, FileType::from_raw_mode(kind) == FileType::Directory))
}

/// `mount_setattr(2)` on an open mount: sets `attributes`, and the user namespace of an idmapped
/// mount.
fn set_attributes(
    mount: &OwnedFd,
    attributes: MountAttrFlags,
    mapping: Option<BorrowedFd<'_>>,
    flags: libc::c_int,
) -> io::Result<()> {
    let mut set = u64::from(attributes.bits());
    if mapping.is_some() {
        set |= u64::from(MountAttrFlags::MOUNT_ATTR_IDMAP.bits());
    }
    let change = libc::mount_attr {
        attr_set: set,
        attr_clr: 0,
        propagation: 0,
        userns_fd: mapping.map_or(0, |mapping| mapping.as_raw_fd() as u64),
    };
    // SAFETY: the path and the structure live during the call, and the size is the structure's.
    let status = unsafe {
        libc::syscall(
            libc::SYS_mount_setattr,
            mount.as_raw_fd(),
            c"".as_ptr(),
            libc::AT_EMPTY_PATH | flags,
            &raw const change,
            size_of_val(&change),
        )
    };
    if status == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

fn new_entry(
    target: impl AsRef<Path>,
    kind: &str,
    options: &[(&str, &str)],
    attributes: MountAttrFlags,
) -> Result<TreeEntry, SandboxError> {
    let target = target.as_ref();
    let mount =
        new_mount(kind, options, attributes).map_err(|error| setup(target.display(), error))?;
    Ok(TreeEntry { target: target.into(), content: Content::Mount(mount, true) })
}

fn new_mount(
    kind: &str,
    options: &[(&str, &str)],
    attributes: MountAttrFlags,
) -> io::Result<OwnedFd> {
    let context = fsopen(kind, FsOpenFlags::FSOPEN_CLOEXEC)?;
    for (key, value) in options {
        fsconfig_set_string(context.as_fd(), *key, *value)?;
    }
    fsconfig_create(context.as_fd())?;
    Ok(fsmount(context.as_fd(), FsMountFlags::FSMOUNT_CLOEXEC, attributes)?)
}

/// Mounts an overlay. Its paths are passed as descriptors, since an option is limited to 255 bytes,
/// and `:` and `,` are special in it.
fn overlay_mount(overlay: &Overlay) -> Result<OwnedFd, SandboxError> {
    let files =
        [rules::open(&overlay.lower)?, rules::open(&overlay.upper)?, rules::open(&overlay.work)?];
    let [lower, upper, work] =
        files.each_ref().map(|file| format!("/proc/self/fd/{}", file.as_raw_fd()));
    let mounted = || -> io::Result<OwnedFd> {
        let context = fsopen("overlay", FsOpenFlags::FSOPEN_CLOEXEC)?;
        rustix::mount::fsconfig_set_flag(context.as_fd(), "userxattr")?;
        for (key, value) in [("lowerdir", lower), ("upperdir", upper), ("workdir", work)] {
            fsconfig_set_string(context.as_fd(), key, value)?;
        }
        fsconfig_create(context.as_fd())?;
        Ok(fsmount(context.as_fd(), FsMountFlags::FSMOUNT_CLOEXEC, NOSUID_NODEV)?)
    };
    mounted().map_err(|error| setup(format!("the overlay on {}", overlay.lower.display()), error))
}

/// Makes a mount the root, and unmounts the previous root.
fn enter_root(root: &OwnedFd) -> io::Result<()> {
    // A mount must be attached before pivot_root; /proc exists on every system.
    move_mount(root, "", CWD, "/proc", MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH)?;
    fchdir(root)?;
    pivot_root(".", ".")?; // The old root is now on top of the new one.
    unmount(".", UnmountFlags::DETACH)?;
    Ok(chdir("/")?)
}

/// Attaches an entry at its path, which is created if it is missing.
fn attach(entry: &TreeEntry) -> io::Result<()> {
    if let Some(parent) = entry.target.parent() {
        std::fs::create_dir_all(parent)?;
    }
    let target = CString::new(entry.target.as_os_str().as_encoded_bytes())?;
    match &entry.content {
        Content::Link(text) => match symlinkat(text, CWD, target.as_c_str()) {
            Ok(()) | Err(rustix::io::Errno::EXIST) => Ok(()),
            Err(error) => Err(error.into()),
        },
        Content::Mount(tree, directory) => {
            let made = if *directory {
                mkdirat(CWD, target.as_c_str(), Mode::from(0o755))
            } else {
                let flags = OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC | OFlags::WRONLY;
                openat(CWD, target.as_c_str(), flags, Mode::from(0o644)).map(drop)
            };
            // If this fails, the path exists already, or the next call fails.
            let _ = made;
            move_mount(tree, "", CWD, target.as_c_str(), MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH)?;
            Ok(())
        }
    }
}

fn setup(what: impl std::fmt::Display, error: impl Into<io::Error>) -> SandboxError {
    SandboxError::Setup(format!("mounting {what}: {}", error.into()))
}
