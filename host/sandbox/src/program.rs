//! Finds a program by its name.

use std::path::{Path, PathBuf};

/// Returns the file of the program `name`: the first executable regular file of that name in
/// `dirs`. Neither `PATH` nor the working directory is searched, so that a program planted in a
/// workspace is never found, unless one of its directories is in `dirs`. Relative directories are
/// ignored, and so are names with a `/`.
pub fn find_program(name: &str, dirs: &[PathBuf]) -> Option<PathBuf> {
    if name.is_empty() || name == "." || name == ".." || name.contains(['/', '\0']) {
        return None;
    }
    dirs.iter()
        .filter(|dir| dir.is_absolute())
        .map(|dir| dir.join(name))
        .find(|path| executable(path))
}

#[cfg(unix)]
fn executable(path: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt as _;
    std::fs::metadata(path)
        .is_ok_and(|metadata| metadata.is_file() && metadata.permissions().mode() & 0o111 != 0)
}

#[cfg(not(unix))]
fn executable(path: &Path) -> bool {
    path.is_file()
}

#[cfg(all(test, unix))]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use std::fs;
    use std::os::unix::fs::PermissionsExt as _;
    use std::path::PathBuf;

    use super::find_program;

    #[test]
    fn a_program_is_found_in_the_named_directories_only() {
        let place = tempfile::tempdir().unwrap();
        for (path, mode) in [
            ("workspace/tool", 0o755),
            ("workspace/planted", 0o755),
            ("bin/tool", 0o755),
            ("bin/text", 0o644),
            ("more/text", 0o755),
        ] {
            let path = place.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(&path, "").unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        }
        fs::create_dir(place.path().join("bin/directory")).unwrap();
        // From here, it is equivalent to the absolute path.
        let workspace = place.path().join("workspace");
        let relative = PathBuf::from(format!("{}{}", "../".repeat(40), workspace.display()));
        assert!(relative.join("planted").exists());
        let dirs = [relative, place.path().join("bin"), place.path().join("more")];
        let up = format!("../{}/workspace/planted", place.path().display());
        for (name, found) in [
            ("tool", Some("bin/tool")),
            ("text", Some("more/text")),
            ("planted", None),
            ("directory", None),
            ("missing", None),
            ("../workspace/planted", None),
            ("./tool", None),
            ("..", None),
            ("", None),
            (up.as_str(), None),
        ] {
            let expected = found.map(|path| place.path().join(path));
            assert_eq!(find_program(name, &dirs), expected, "{name:?}");
        }
    }
}
