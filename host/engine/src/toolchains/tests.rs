#![expect(clippy::disallowed_methods, clippy::unwrap_used, reason = "tests")]

use std::collections::HashMap;
use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};

use super::Toolchains;

/// A home directory and a workspace, both temporary.
struct Machine {
    _directory: tempfile::TempDir,
    root: PathBuf,
    variables: HashMap<String, String>,
}

impl Machine {
    /// A machine with these files; those that end with `/` are directories.
    fn with(files: &[&str]) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path().canonicalize().unwrap();
        fs::create_dir_all(root.join("home/work/project")).unwrap();
        let home = root.join("home").to_str().unwrap().to_owned();
        let variables = HashMap::from([("HOME".to_owned(), home)]);
        let machine = Self { _directory: directory, root, variables };
        files.iter().for_each(|file| machine.write(file, ""));
        machine
    }

    fn home(&self, path: &str) -> PathBuf {
        self.root.join("home").join(path)
    }

    fn write(&self, path: &str, text: &str) {
        let at = self.home(path);
        fs::create_dir_all(at.parent().unwrap()).unwrap();
        if path.ends_with('/') {
            fs::create_dir_all(at).unwrap();
        } else {
            fs::write(&at, text).unwrap();
            fs::set_permissions(&at, fs::Permissions::from_mode(0o755)).unwrap();
        }
    }

    fn set(&mut self, name: &str, value: &str) {
        let value = value.replace("~", self.home("").to_str().unwrap().trim_end_matches('/'));
        self.variables.insert(name.to_owned(), value);
    }

    fn find(&self) -> Toolchains {
        let workspace = self.home("work/project");
        Toolchains::find(&self.variables, &[], &workspace, &workspace)
    }

    /// Paths below the home directory, relative to it; others are left out.
    fn below(&self, paths: impl IntoIterator<Item = impl AsRef<Path>>) -> Vec<String> {
        let relative =
            |path: &Path| Some(path.strip_prefix(self.home("")).ok()?.to_str()?.to_owned());
        paths.into_iter().filter_map(|path| relative(path.as_ref())).collect()
    }

    fn programs(&self) -> Vec<String> {
        self.below(self.find().programs())
    }

    fn readable(&self) -> Vec<String> {
        self.below(self.find().readable())
    }
}

#[test]
fn programs_are_those_of_the_version_in_use() {
    type Case = (&'static [&'static str], &'static [(&'static str, &'static str)], &'static str);
    let table: &[Case] = &[
        (&[".pyenv/versions/3.9.1/bin/", ".pyenv/versions/3.10.2/bin/"], &[], "3.10.2"),
        (&[".pyenv/versions/3.9.1/bin/"], &[(".pyenv/version", "3.9.1\n")], "3.9.1"),
        (
            &[".pyenv/versions/3.9.1/bin/", ".pyenv/versions/3.10.2/bin/"],
            &[("work/project/.python-version", "3.9\n"), (".pyenv/version", "3.10.2")],
            "3.9.1",
        ),
        // Not installed: the account's.
        (&[".pyenv/versions/3.9.1/bin/"], &[("work/project/.python-version", "3.14\n")], "3.9.1"),
        (&[".pyenv/versions/3.9.1/bin/"], &[(".pyenv/version", "system")], ""),
        (
            &[".nvm/versions/node/v18.1.0/bin/", ".nvm/versions/node/v20.9.0/bin/"],
            &[(".nvm/alias/default", "lts/iron"), (".nvm/alias/lts/iron", "v18.1.0")],
            "v18.1.0",
        ),
        (
            &[".nvm/versions/node/v18.1.0/bin/", ".nvm/versions/node/v20.9.0/bin/"],
            &[("work/project/.nvmrc", "lts/*")],
            "v20.9.0",
        ),
        (
            &[".asdf/installs/nodejs/20.1.0/bin/", ".asdf/installs/nodejs/18.1.0/bin/"],
            &[
                (".tool-versions", "nodejs 20.1.0"),
                ("work/project/.tool-versions", "nodejs 18.1.0"),
            ],
            "nodejs/18.1.0",
        ),
        (
            &[
                ".local/share/mise/installs/go/1.22.1/bin/",
                ".local/share/mise/installs/go/1.21.0/bin/",
            ],
            &[("work/project/mise.toml", "[tools]\ngo = '1.21'\n")],
            "go/1.21.0",
        ),
        (
            &[
                ".gradle/wrapper/dists/gradle-8.5-bin/abc/gradle-8.5/bin/",
                ".gradle/wrapper/dists/gradle-9.0-bin/abc/gradle-9.0/bin/",
            ],
            &[(
                "work/project/gradle/wrapper/gradle-wrapper.properties",
                "distributionUrl=https\\://services.gradle.org/distributions/gradle-8.5-bin.zip\n",
            )],
            "gradle-8.5/bin",
        ),
    ];
    for (directories, files, wanted) in table {
        let machine = Machine::with(directories);
        files.iter().for_each(|(file, text)| machine.write(file, text));
        let found = machine.programs();
        if wanted.is_empty() {
            assert_eq!(found, [""; 0], "{files:?}");
        } else {
            assert!(found.len() == 1 && found[0].contains(wanted), "{found:?} {files:?}");
        }
    }
}

#[test]
fn a_version_that_is_not_installed_is_noted() {
    let machine = Machine::with(&[".pyenv/versions/3.9.1/bin/"]);
    machine.write("work/project/.python-version", "3.14");
    let found = machine.find();
    let notes: Vec<&String> = found.found().iter().flat_map(|found| &found.notes).collect();
    assert_eq!(notes, ["pyenv has no version \"3.14\", which the project names; 3.9.1 is used"]);
}

#[test]
fn only_parts_without_secrets_are_readable() {
    let machine = Machine::with(&[
        ".cargo/bin/cargo",
        ".cargo/credentials.toml",
        ".cargo/config.toml",
        ".cargo/registry/index/",
        ".cargo/registry/cache/",
        ".cargo/registry/src/",
        ".rustup/settings.toml",
        ".rustup/toolchains/stable/",
        ".m2/settings.xml",
        ".m2/settings-security.xml",
        ".m2/repository/",
        ".gradle/gradle.properties",
        ".gradle/init.d/",
        ".gradle/caches/modules-2/",
        ".npmrc",
        ".npm/_cacache/",
        ".npm/_logs/",
        ".config/pip/pip.conf",
        ".pypirc",
        ".netrc",
        ".ssh/id_ed25519",
        ".pyenv/versions/3.9.1/bin/",
        ".pyenv/.git/config",
        "go/pkg/mod/cache/download/",
        "go/pkg/mod/cache/vcs/x/config",
        ".local/bin/private",
        ".local/bin/uv",
        ".local/share/uv/credentials/x",
        ".local/share/uv/python/",
        "miniconda3/.condarc",
        "miniconda3/bin/",
    ]);
    let mut found = machine.readable();
    found.sort();
    let mut wanted = vec![
        ".cargo/bin",
        ".cargo/registry/cache",
        ".cargo/registry/index",
        ".gradle/caches/modules-2",
        ".local/bin/uv",
        ".local/share/uv/python",
        ".m2/repository",
        ".npm/_cacache",
        ".pyenv/versions",
        ".rustup/settings.toml",
        ".rustup/toolchains",
        "go/pkg/mod/cache/download",
        "miniconda3/bin",
    ];
    wanted.sort_unstable();
    assert_eq!(found, wanted);
}

#[test]
fn a_workspace_widens_nothing() {
    let machine = Machine::with(&[
        ".ssh/bin/python",
        ".ssh/pyvenv.cfg",
        ".pyenv/versions/3.9.1/bin/",
        ".asdf/installs/python/3.9.1/bin/",
        "work/project/.venv/bin/",
    ]);
    let before = (machine.programs(), machine.readable());
    let ssh = machine.home(".ssh");
    let ssh = ssh.to_str().unwrap();
    for (file, text) in [
        (".venv/pyvenv.cfg", format!("home = {ssh}\n")),
        (".python-version", format!("../../.ssh\n{ssh}\n")),
        (".tool-versions", format!("python ../../../.ssh\npython {ssh}\npython path:{ssh}\n")),
        ("mise.toml", format!("[tools]\npython = ['../../../.ssh', 'path:{ssh}']\n")),
        (".nvmrc", ssh.to_owned()),
        (".pyenv/version", ssh.to_owned()),
        (".cargo/config.toml", format!("[build]\nrustc = '{ssh}/bin/python'\n")),
        ("gradle/wrapper/gradle-wrapper.properties", format!("distributionUrl={ssh}\n")),
    ] {
        machine.write(&format!("work/project/{file}"), &text);
        let (programs, readable) = (machine.programs(), machine.readable());
        assert_eq!(readable, before.1, "{file}");
        assert!(programs.iter().all(|path| before.0.contains(path)), "{file}: {programs:?}");
    }
    symlink(machine.home(".ssh"), machine.home("work/project/venv")).unwrap();
    assert_eq!(machine.readable(), before.1);
}

#[test]
fn neither_the_home_directory_nor_the_workspace_is_a_toolchain() {
    for (name, value) in [
        ("VIRTUAL_ENV", "~"),
        ("VIRTUAL_ENV", "~/work"),
        ("VIRTUAL_ENV", "~/work/project"),
        ("VIRTUAL_ENV", "/"),
        ("CONDA_PREFIX", "~"),
        ("WORKON_HOME", "~"),
        ("GOBIN", "~"),
        ("GOROOT", "~/.."),
        ("PNPM_HOME", "~/work"),
        ("UV_TOOL_DIR", "relative"),
        ("CARGO_HOME", "~/work/project/.cargo"),
        ("PYENV_ROOT", "~/work/project/pyenv"),
    ] {
        let mut machine = Machine::with(&[
            "pyvenv.cfg",
            "conda-meta/",
            "work/pyvenv.cfg",
            "work/project/pyvenv.cfg",
            "work/project/.cargo/bin/cargo",
            "work/project/.cargo/registry/index/",
            "work/project/pyenv/versions/3.9.1/bin/",
        ]);
        machine.set(name, value);
        assert_eq!((machine.programs(), machine.readable()), (vec![], vec![]), "{name}={value}");
    }
}

#[test]
fn variables_lead_to_the_account_and_to_the_plugins_cache() {
    let mut machine = Machine::with(&[
        ".cargo/registry/index/",
        ".rustup/toolchains/",
        "g o/pkg/mod/cache/download/",
        ".gradle/caches/modules-2/",
    ]);
    machine.set("GOPATH", "~/g o");
    let found = machine.find();
    let home = machine.home("");
    let home = home.to_str().unwrap().trim_end_matches('/');
    let cached: HashMap<_, _> = found.variables(Some(Path::new("/cache"))).into_iter().collect();
    for (name, value) in [
        ("CARGO_HOME", "/cache/cargo-home".to_owned()),
        ("RUSTUP_HOME", format!("{home}/.rustup")),
        ("GOPROXY", format!("file://{home}/g%20o/pkg/mod/cache/download")),
        ("GOMODCACHE", "/cache/go-mod".to_owned()),
        ("GRADLE_USER_HOME", "/cache/gradle".to_owned()),
        ("GRADLE_RO_DEP_CACHE", format!("{home}/.gradle/caches")),
        ("GOTOOLCHAIN", "local".to_owned()),
    ] {
        assert_eq!(cached.get(name), Some(&value), "{name}");
    }
    let without: HashMap<_, _> = found.variables(None).into_iter().collect();
    assert!(!without.contains_key("CARGO_HOME") && without.contains_key("RUSTUP_HOME"));
    let nothing = Toolchains::default();
    assert!(nothing.variables(None).contains(&("GOPROXY".to_owned(), "off".to_owned())));
}

#[test]
fn environments_of_the_account_come_first() {
    let mut machine =
        Machine::with(&["envs/x/pyvenv.cfg", "envs/x/bin/", ".pyenv/versions/3.9.1/bin/"]);
    machine.set("VIRTUAL_ENV", "~/envs/x");
    assert_eq!(machine.programs(), ["envs/x/bin", ".pyenv/versions/3.9.1/bin"]);
    assert!(machine.readable().contains(&"envs/x".to_owned()));
}

#[test]
fn linked_versions_are_readable() {
    let machine = Machine::with(&["builds/python/bin/python3", ".pyenv/versions/", ".ssh/id"]);
    symlink(machine.home("builds/python"), machine.home(".pyenv/versions/own")).unwrap();
    symlink(machine.home(""), machine.home(".pyenv/versions/home")).unwrap();
    assert_eq!(machine.readable(), [".pyenv/versions", "builds/python"]);
}
