//! Programs that write without end, and how soon each is stopped.

use std::fs::{self, File};
use std::io::Write as _;
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::{DirBuilderExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use cofferdam_sandbox::{Bounded, End, Limit, Overlay, Tier};

use crate::support::{Place, Setting};

/// What a directory may hold, in bytes and names.
const MOST: (u64, u64) = (20 << 20, 2000);

/// How much more there may be before a run is stopped, on a busy machine with a fast disk.
const BEYOND: u64 = 500 << 20;

/// Writes without end, in one of several ways.
pub fn fill(how: &str) {
    let block = vec![1_u8; 1 << 20];
    let mut open = Vec::new();
    for number in 0_u64.. {
        match how {
            "files" => fs::write(number.to_string(), &block).unwrap(),
            "names" => drop(File::create(number.to_string()).unwrap()),
            "temporary" => {
                let directory = PathBuf::from(std::env::var_os("TMPDIR").unwrap());
                fs::write(directory.join(number.to_string()), &block).unwrap();
            }
            // The directory can't be listed.
            "hidden" => {
                if number == 0 {
                    fs::DirBuilder::new().mode(0o300).create("d").unwrap();
                }
                fs::write(Path::new("d").join(number.to_string()), &block).unwrap();
            }
            // They have no names, and nothing can be seen of the process as an ordinary user.
            "deleted" | "unseen" => {
                if number == 0 && how == "unseen" {
                    // SAFETY: no pointers.
                    unsafe { libc::prctl(libc::PR_SET_DUMPABLE, 0) };
                }
                let name = number.to_string();
                let mut file = File::create(&name).unwrap();
                fs::remove_file(&name).unwrap();
                file.write_all(&block).unwrap();
                open.push(file);
                // It may not have very many.
                if open.len() == 100 {
                    for file in &mut open {
                        file.write_all(&block.repeat(2)).unwrap();
                    }
                    std::thread::sleep(std::time::Duration::from_mins(1));
                }
            }
            // Neither a name nor a descriptor.
            "mapped" => {
                let file = File::create_new("f").unwrap();
                fs::remove_file("f").unwrap();
                file.set_len(block.len() as u64).unwrap();
                (&file).write_all(&block).unwrap();
                let (fd, length) = (file.as_raw_fd(), block.len());
                // SAFETY: a new mapping, which stays.
                let at = unsafe {
                    libc::mmap(
                        std::ptr::null_mut(),
                        length,
                        libc::PROT_READ,
                        libc::MAP_SHARED,
                        fd,
                        0,
                    )
                };
                assert_ne!(at, libc::MAP_FAILED);
            }
            // Beyond their ends, which is no part of their sizes.
            "ahead" => {
                let file = File::create(number.to_string()).unwrap();
                let (mode, length) = (libc::FALLOC_FL_KEEP_SIZE, 8 << 20);
                // SAFETY: no pointers.
                let done = unsafe { libc::fallocate(file.as_raw_fd(), mode, 0, length) };
                assert_eq!(done, 0, "{}", std::io::Error::last_os_error());
            }
            "deep" => {
                fs::create_dir("d").unwrap();
                std::env::set_current_dir("d").unwrap();
            }
            _ => panic!("{how}"),
        }
    }
}

fn bounded(directory: PathBuf) -> Bounded {
    Bounded { directory, bytes: MOST.0, entries: MOST.1, held: (0, 0) }
}

/// What is on the disk, in bytes.
fn held(directory: &Path) -> u64 {
    for entry in fs::read_dir(directory).unwrap().flatten() {
        if entry.file_type().unwrap().is_dir() {
            fs::set_permissions(entry.path(), fs::Permissions::from_mode(0o700)).unwrap();
        }
    }
    let top = File::open(directory).unwrap();
    cofferdam_sandbox::usage(&top, cofferdam_sandbox::Usage::MAX).unwrap().bytes
}

pub fn who_writes_without_end_is_stopped(setting: &Setting) {
    for how in ["files", "names", "hidden", "deleted", "unseen", "mapped", "ahead", "deep"] {
        let place = Place::new(setting);
        let mut command = place.command(&["fill", how]);
        command.bounded.push(bounded(place.workspace()));
        let report = place.run(command);
        if how == "ahead" && report.end == End::Exited(101) {
            // Refused: it takes no time, so there could be much before it is counted.
            continue;
        }
        let End::Limit(Limit::Directory { number: Some(0), bytes, entries }) = report.end else {
            panic!("{how}: {report:?}");
        };
        assert!(bytes > MOST.0 || entries > MOST.1, "{how}: {report:?}");
        if how != "deep" && how != "ahead" {
            let held = held(&place.workspace());
            assert!(held < MOST.0 + BEYOND, "{how}: {held}");
        }
    }
}

/// In tier A they are in memory, and the program sees that its directory is full.
pub fn temporary_files_are_bounded(setting: &Setting) {
    let place = Place::new(setting);
    let mut command = place.command(&["fill", "temporary"]);
    command.limits.temporary = MOST.0;
    let end = place.run(command).end;
    match setting.tier {
        Tier::A => assert_eq!(end, End::Exited(101)),
        Tier::B => {
            assert!(matches!(end, End::Limit(Limit::Directory { number: None, .. })), "{end:?}");
        }
    }
}

pub fn an_overlay_is_bounded(setting: &Setting) {
    if setting.tier == Tier::B {
        return;
    }
    for how in ["files", "hidden", "deleted"] {
        let place = Place::new(setting);
        let [upper, work] = ["run/upper", "run/work"].map(|name| place.outside().join(name));
        for directory in [&upper, &work] {
            fs::create_dir_all(directory).unwrap();
        }
        let mut command = place.command(&["fill", how]);
        command.writable.clear();
        command.overlay = Some(Overlay { lower: place.workspace(), upper: upper.clone(), work });
        command.bounded.push(bounded(place.outside().join("run")));
        let end = place.run(command).end;
        assert!(matches!(end, End::Limit(Limit::Directory { number: Some(0), .. })), "{end:?}");
        assert!(held(&upper) < MOST.0 + BEYOND, "{how}");
    }
}

pub fn what_is_within_the_bounds_is_fine(setting: &Setting) {
    let place = Place::new(setting);
    fs::write(place.workspace().join("old"), vec![1; 30 << 20]).unwrap();
    let mut command = place.command(&["write", "new"]);
    let bytes = 60 << 20;
    command.bounded.push(Bounded { bytes, held: (30 << 20, 1), ..bounded(place.workspace()) });
    assert_eq!(place.run(command).end, End::Exited(0));
}
