//! Programs and workspaces that try to get more of the account than toolchains.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};

use serde_json::json;

use super::{TIERS, act, set_tier};
use crate::support::Place;

const SHELL: &str = "[grants.shell]\nfiles = 'write'\nprocess = ['bash']\n";

/// The content of each secret.
const SECRET: &str = "hidden-from-programs";

/// Files of an account that hold secrets, beside those of its toolchains.
const SECRETS: [&str; 26] = [
    ".aws/credentials",
    ".bash_history",
    ".cargo/config.toml",
    ".cargo/credentials",
    ".cargo/credentials.toml",
    ".config/go/env",
    ".config/pip/pip.conf",
    ".config/pypoetry/auth.toml",
    ".config/uv/uv.toml",
    ".git-credentials",
    ".gradle/gradle.properties",
    ".gradle/init.d/mirror.gradle",
    ".local/bin/deploy",
    ".local/share/uv/credentials/credentials.toml",
    ".m2/settings-security.xml",
    ".m2/settings.xml",
    ".netrc",
    ".npm/_logs/debug.log",
    ".npmrc",
    ".pip/pip.conf",
    ".pyenv/.git/config",
    ".pypirc",
    ".ssh/id_ed25519",
    ".yarnrc.yml",
    "go/pkg/mod/cache/vcs/x/config",
    "miniconda3/.condarc",
];

/// Files of toolchains, which programs can read and not change.
const READABLE: [&str; 8] = [
    ".cargo/bin/cargo-x",
    ".cargo/registry/cache/x.crate",
    ".gradle/caches/modules-2/x",
    ".m2/repository/x",
    ".npm/_cacache/x",
    ".pyenv/versions/3.99.1/bin/python-x",
    ".rustup/toolchains/x/bin/rustc",
    "go/pkg/mod/cache/download/x",
];

fn account() -> Place {
    let place = Place::new();
    for (files, text) in [(&SECRETS[..], SECRET), (&READABLE[..], "readable")] {
        for file in files {
            let path = place.home_file(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(&path, text).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        }
    }
    place
}

/// Runs a command in the shell, and returns everything that came back.
fn shell(place: &Place, command: &str) -> String {
    act(place, &json!({"type": "run_command", "command": command}), &[]).to_string()
}

#[test]
fn secrets_beside_toolchains_can_not_be_read() {
    for tier in TIERS {
        let place = account();
        set_tier(&place, tier, SHELL);
        let home = place.home().canonicalize().unwrap();
        for file in SECRETS {
            let path = home.join(file);
            let said = shell(&place, &format!("cat '{}'; echo done", path.display()));
            assert!(said.contains("done") && !said.contains(SECRET), "{tier} {file}: {said}");
        }
        for file in READABLE {
            let path = home.join(file);
            let path = path.display();
            let said = shell(&place, &format!("cat '{path}'; echo changed >> '{path}'; echo done"));
            assert!(said.contains("readable"), "{tier} {file}: {said}");
            assert_eq!(fs::read_to_string(home.join(file)).unwrap(), "readable", "{tier} {file}");
        }
        let all = format!("grep -rs '{SECRET}' '{}' $CARGO_HOME; echo done", home.display());
        let said = shell(&place, &all);
        // The command itself contains the word once.
        assert!(!said.contains(&format!(":{SECRET}")), "{tier}: {said}");
    }
}

#[test]
fn caches_of_the_account_can_not_be_changed() {
    for tier in TIERS {
        let place = account();
        set_tier(&place, tier, SHELL);
        let home = place.home().canonicalize().unwrap();
        let home = home.display();
        let said = shell(
            &place,
            &format!(
                "cd '{home}'; touch .cargo/registry/cache/new .m2/repository/new go/new; \
                 rm -rf .pyenv/versions/3.99.1 .cargo/registry; mv .rustup/toolchains/x .rustup/y; \
                 ln -s /etc .npm/_cacache/link; rm -f .npm/_cacache/x; \
                 echo > $CARGO_HOME/registry/cache/x.crate; echo done"
            ),
        );
        assert!(said.contains("done"), "{said}");
        for file in READABLE {
            assert_eq!(fs::read_to_string(place.home().join(file)).unwrap(), "readable", "{tier}");
        }
        for file in [".cargo/registry/cache/new", ".m2/repository/new", "go/new", ".rustup/y"] {
            assert!(!place.home().join(file).exists(), "{tier}: {file}");
        }
    }
}

/// A workspace names the private directory in each way in which toolchains are chosen.
#[test]
fn a_planted_environment_makes_nothing_readable() {
    for tier in TIERS {
        let place = account();
        set_tier(&place, tier, SHELL);
        let ssh = place.home().canonicalize().unwrap().join(".ssh");
        let shown = ssh.display().to_string();
        place.write(
            ".venv/pyvenv.cfg",
            format!("home = {shown}\ninclude-system-site-packages = true\n"),
        );
        fs::create_dir_all(place.workspace().join(".venv/bin")).unwrap();
        for (link, target) in [
            (".venv/bin/python", ssh.join("id_ed25519")),
            (".venv/bin/python3", ssh.clone()),
            (".venv/lib", ssh.clone()),
            ("venv", ssh.clone()),
            (".python-version", ssh.join("id_ed25519")),
        ] {
            symlink(target, place.workspace().join(link)).unwrap();
        }
        place.write(".nvmrc", &shown);
        place.write(".tool-versions", format!("python {shown}\nnodejs ../../../../.ssh\n"));
        place.write("mise.toml", format!("[tools]\npython = 'path:{shown}'\n"));
        place.write("rust-toolchain.toml", format!("[toolchain]\npath = '{shown}'\n"));
        place.write(".cargo/config.toml", format!("include = ['{shown}/id_ed25519']\n"));
        place.write(".mvn/maven.config", format!("-Dmaven.repo.local={shown}\n"));
        place.write("test_a.py", "def test_a():\n    pass\n");
        let file = ssh.join("id_ed25519");
        let said = shell(
            &place,
            &format!("cat '{}' .venv/bin/python .venv/lib/*; echo done", file.display()),
        );
        assert!(said.contains("done") && !said.contains(SECRET), "{tier}: {said}");
        let said = act(&place, &json!({"type": "run_tests"}), &[]).to_string();
        assert!(!said.contains(SECRET), "{tier}: {said}");
    }
}

/// What a program puts into its plugin's cache is not followed by the host.
#[test]
fn links_in_a_cache_lead_the_host_nowhere() {
    for tier in TIERS {
        let place = account();
        set_tier(&place, tier, SHELL);
        let home = place.home().canonicalize().unwrap();
        let home = home.display();
        let said = shell(
            &place,
            &format!(
                "cd $CARGO_HOME && rm -rf registry config.toml && ln -s '{home}/.ssh' registry && \
                 ln -s '{home}/.netrc' config.toml && echo planted"
            ),
        );
        assert!(said.contains("planted"), "{tier}: {said}");
        let said = shell(&place, "cat $CARGO_HOME/config.toml $CARGO_HOME/registry/cache/x.crate");
        assert!(said.contains("readable") && !said.contains(SECRET), "{tier}: {said}");
        for file in [".ssh/id_ed25519", ".netrc"] {
            assert_eq!(fs::read_to_string(place.home().join(file)).unwrap(), SECRET, "{tier}");
        }
        assert_eq!(fs::read_dir(place.home().join(".ssh")).unwrap().count(), 1, "{tier}");
    }
}
