//! What a file needs in order to be executed, for runs that may execute few files: the links on the
//! way to it, the interpreter of a script, the dynamic loader.

use std::fs;
use std::io::Read as _;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Component, Path, PathBuf};

use crate::{Command, find_program};

/// The most symbolic links, and the most interpreters of interpreters, that are followed.
const MAX_DEPTH: usize = 16;

/// How much of a file is read: the first line of a script, or the headers of a program, in bytes.
const MAX_HEAD_BYTES: u64 = 64 << 10;

/// The program that starts the interpreter that a script names: env(1).
const ENV: &str = "env";

/// Completes [`Command::executable`] by the program itself and what all of these files need to
/// start. What is beneath a masked directory becomes readable.
pub(super) fn complete(command: &mut Command) {
    let Some(named) = &command.executable else { return };
    let mut found = Found { path: search_path(command), files: Vec::new(), shown: Vec::new() };
    for path in std::iter::once(&command.program).chain(named) {
        found.add(path, 0);
    }
    let Found { files, shown, .. } = found;
    let is_masked = |path: &PathBuf| command.masked.iter().any(|masked| path.starts_with(masked));
    let shown: Vec<PathBuf> = shown.into_iter().filter(is_masked).collect();
    command.readable.extend(shown);
    command.executable = Some(files);
}

/// The directories in which the program's `PATH` has programs.
fn search_path(command: &Command) -> Vec<PathBuf> {
    let value = command.environment.iter().rev().find(|(name, _)| name == "PATH");
    value.map(|(_, value)| std::env::split_paths(value).collect()).unwrap_or_default()
}

struct Found {
    path: Vec<PathBuf>,
    /// Files and directories without links.
    files: Vec<PathBuf>,
    /// The files and directories, and the links that lead to them.
    shown: Vec<PathBuf>,
}

impl Found {
    /// Adds a file or a directory, and what a file needs. A missing one is left out.
    fn add(&mut self, path: &Path, depth: usize) {
        let Some(file) = self.follow(path) else { return };
        if self.files.contains(&file) {
            return;
        }
        self.files.push(file.clone());
        if depth < MAX_DEPTH
            && let Ok(head) = head(&file)
        {
            for needed in self.needs(&head) {
                self.add(&needed, depth + 1);
            }
        }
    }

    /// Returns the file that a path leads to, without links, and records each link.
    fn follow(&mut self, path: &Path) -> Option<PathBuf> {
        let mut path = path.to_owned();
        for _ in 0..MAX_DEPTH {
            // Directories that are links are part of the system's directories, which are shown.
            path = fs::canonicalize(path.parent()?).ok()?.join(path.file_name()?);
            if !self.shown.contains(&path) {
                self.shown.push(path.clone());
            }
            match fs::read_link(&path) {
                Ok(target) => path = joined(path.parent()?, &target),
                Err(_) => return path.exists().then_some(path),
            }
        }
        None
    }

    /// The files that the kernel opens to execute a file that begins with `head`.
    fn needs(&self, head: &[u8]) -> Vec<PathBuf> {
        if let Some(line) = head.strip_prefix(b"#!") {
            return self.interpreters(line);
        }
        loader(head).into_iter().collect()
    }

    /// The interpreter of a script, and the one that `env` starts for it.
    fn interpreters(&self, line: &[u8]) -> Vec<PathBuf> {
        let line = line.split(|byte| *byte == b'\n').next().unwrap_or_default();
        let line = String::from_utf8_lossy(line);
        let mut words = line.split_ascii_whitespace();
        let Some(interpreter) = words.next().map(PathBuf::from) else { return Vec::new() };
        let by_env = if interpreter.file_name().is_some_and(|name| name == ENV) {
            let mut names = words.filter(|word| !word.starts_with('-') && !word.contains('='));
            names.next().and_then(|name| find_program(name, &self.path))
        } else {
            None
        };
        std::iter::once(interpreter).chain(by_env).filter(|path| path.is_absolute()).collect()
    }
}

/// A link's target, seen from the directory of the link. `..` is resolved by names: the directory
/// is without links.
fn joined(directory: &Path, target: &Path) -> PathBuf {
    let mut path = directory.to_owned();
    for part in target.components() {
        match part {
            Component::ParentDir => drop(path.pop()),
            Component::CurDir => {}
            part => path.push(part),
        }
    }
    path
}

fn head(file: &Path) -> std::io::Result<Vec<u8>> {
    let mut head = Vec::new();
    if file.is_file() {
        fs::File::open(file)?.take(MAX_HEAD_BYTES).read_to_end(&mut head)?;
    }
    Ok(head)
}

/// The dynamic loader that a 64-bit program names: elf(5), `PT_INTERP`.
fn loader(head: &[u8]) -> Option<PathBuf> {
    const PT_INTERP: u64 = 3;
    const CLASS_64: u8 = 2;
    let number = |at: usize, bytes: usize| -> Option<u64> {
        let mut number = [0; 8];
        number.get_mut(..bytes)?.copy_from_slice(head.get(at..at.checked_add(bytes)?)?);
        Some(u64::from_le_bytes(number))
    };
    if !head.starts_with(b"\x7fELF") || *head.get(4)? != CLASS_64 {
        return None;
    }
    let (table, size, count) = (number(0x20, 8)?, number(0x36, 2)?, number(0x38, 2)?);
    (0..count).find_map(|index| {
        let at = usize::try_from(table.checked_add(index * size)?).ok()?;
        if number(at, 4)? != PT_INTERP {
            return None;
        }
        let from = usize::try_from(number(at.checked_add(8)?, 8)?).ok()?;
        let length = usize::try_from(number(at.checked_add(32)?, 8)?).ok()?;
        let name = head.get(from..from.checked_add(length)?)?;
        let name = name.split(|byte| *byte == 0).next()?;
        let path = PathBuf::from(std::ffi::OsStr::from_bytes(name));
        path.is_absolute().then_some(path)
    })
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    use super::*;

    #[test]
    fn programs_are_completed_by_what_starts_them() {
        let place = tempfile::tempdir().unwrap();
        let root = fs::canonicalize(place.path()).unwrap();
        let bin = root.join("bin");
        fs::create_dir_all(bin.join("sub")).unwrap();
        let script = |name: &str, text: &str| {
            fs::write(bin.join(name), text).unwrap();
            fs::set_permissions(bin.join(name), fs::Permissions::from_mode(0o755)).unwrap();
        };
        script("tool", "#!/usr/bin/env -S A=b sub-tool -x\n");
        script("sub-tool", &format!("#! {}/last arg\n", bin.display()));
        script("last", "text");
        script("loop", &format!("#!{}/loop\n", bin.display()));
        symlink("../bin/tool", bin.join("alias")).unwrap();
        symlink("alias", bin.join("other")).unwrap();
        symlink("circle", bin.join("circle")).unwrap();

        let mut command = Command::new(bin.join("loop"), &root);
        command.environment.push(("PATH".to_owned(), bin.display().to_string()));
        command.masked.push(bin.clone());
        let names = ["other", "circle", "missing", "sub"];
        command.executable = Some(names.map(|name| bin.join(name)).to_vec());
        let before = command.readable.len();
        complete(&mut command);
        let executable = command.executable.unwrap();
        for name in ["loop", "tool", "sub-tool", "last", "sub"] {
            assert!(executable.contains(&bin.join(name)), "{name}: {executable:?}");
        }
        for name in ["other", "alias", "circle", "missing"] {
            assert!(!executable.contains(&bin.join(name)), "{name}: {executable:?}");
        }
        assert!(executable.iter().any(|path| path.ends_with("env")), "{executable:?}");
        // env's own loader, unless it is linked statically.
        let shown = &command.readable[before..];
        for name in ["other", "alias", "tool", "sub-tool", "last", "loop", "sub"] {
            assert!(shown.contains(&bin.join(name)), "{name}: {shown:?}");
        }
        assert!(shown.iter().all(|path| path.starts_with(&bin)), "{shown:?}");
    }

    #[test]
    fn the_loader_of_a_program_is_found_and_damaged_headers_have_none() {
        let head = head(Path::new("/proc/self/exe")).unwrap();
        if let Some(loader) = loader(&head) {
            assert!(loader.exists(), "{}", loader.display());
        }
        for length in 0..head.len().min(2_000) {
            let mut damaged = head[..length].to_vec();
            let _ = loader(&damaged);
            damaged.iter_mut().skip(0x20).for_each(|byte| *byte = 0xff);
            assert_eq!(loader(&damaged), None);
        }
        assert_eq!(loader(b"#!/bin/sh"), None);
    }
}
