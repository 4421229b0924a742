//! The ordinary set-ups: what a developer has after following the documentation of each tool.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use serde_json::json;

use super::{TIERS, act, copy, executed, installed, on_path, set_tier, terminal};
use crate::programs::programs;
use crate::support::Place;

/// Asserts that `run_tests` reported one passed test.
fn assert_one_passed(answer: &serde_json::Value, framework: &str) {
    assert_eq!(answer["framework"], framework, "{answer:#}");
    assert_eq!(answer["success"], true, "{answer:#}");
    assert_eq!(answer["summary"]["passed"], 1, "{answer:#}");
}

/// Copies an interpreter with its library to `prefix`, as pyenv builds one there.
fn install_python(prefix: &Path) -> PathBuf {
    const QUERY: &str = "import sys, sysconfig as c; print(sys._base_executable, \
                         c.get_path('stdlib'), 'python%d.%d' % sys.version_info[:2], sep='\\n')";
    let output = terminal(&installed("python"), &["-c", QUERY], &[]);
    let text = String::from_utf8(output.stdout).unwrap();
    let [program, library, name] = text.lines().collect::<Vec<_>>()[..] else { panic!("{text}") };
    let to = prefix.join("lib").join(name);
    fs::create_dir_all(&to).unwrap();
    fs::create_dir_all(prefix.join("bin")).unwrap();
    for entry in fs::read_dir(library).unwrap() {
        let entry = entry.unwrap();
        let left_out = ["test", "site-packages", "dist-packages", "__pycache__", "idlelib"];
        let name = entry.file_name().into_string().unwrap();
        if !left_out.contains(&name.as_str()) && !name.starts_with("config-") {
            copy(&entry.path(), &to.join(name));
        }
    }
    let python = prefix.join("bin").join(name);
    fs::copy(program, &python).unwrap();
    for link in ["python3", "python"] {
        symlink(name, prefix.join("bin").join(link)).unwrap();
    }
    python
}

/// Makes a virtual environment with pytest.
fn environment(python: &Path, at: &Path) {
    terminal(python, &["-m", "venv", "--without-pip", at.to_str().unwrap()], &[]);
    let library = |at: &Path| {
        let mut versions = fs::read_dir(at.join("lib")).unwrap();
        versions.next().unwrap().unwrap().path().join("site-packages")
    };
    let source = installed_library();
    for entry in fs::read_dir(&source).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        // Without the plugins of pytest.
        let wanted =
            ["pytest-", "_pytest", "py.py", "pluggy", "iniconfig", "packaging", "pygments"];
        let lower = name.to_lowercase();
        if lower == "pytest" || wanted.iter().any(|wanted| lower.starts_with(wanted)) {
            copy(&source.join(&name), &library(at).join(&name));
        }
    }
}

/// The packages that were installed for the tests.
fn installed_library() -> PathBuf {
    let program = crate::programs::find("pytest").unwrap();
    let mut versions = fs::read_dir(program.parent().unwrap().join("../lib")).unwrap();
    versions.next().unwrap().unwrap().path().join("site-packages")
}

#[test]
fn an_environment_on_pyenvs_python_runs_pytest() {
    let place = Place::new();
    let python = install_python(&place.home().join(".pyenv/versions/3.99.1"));
    fs::write(place.home().join(".pyenv/version"), "3.99.1\n").unwrap();
    environment(&python, &place.workspace().join(".venv"));
    place.write(
        "test_a.py",
        "import sys\n\ndef test_a():\n    assert '.pyenv' in sys.base_prefix\n",
    );
    for tier in TIERS {
        set_tier(&place, tier, "");
        let answer = executed(&place, &json!({"type": "run_tests"}), &[]);
        assert_one_passed(&answer, "pytest");
    }
    // uv has its interpreters elsewhere.
    let uv = place.home().join(".local/share/uv/python/cpython-3.99.1");
    fs::create_dir_all(uv.parent().unwrap()).unwrap();
    fs::rename(place.home().join(".pyenv/versions/3.99.1"), &uv).unwrap();
    fs::remove_dir_all(place.workspace().join(".venv")).unwrap();
    let python = uv.join("bin").join(python.file_name().unwrap());
    environment(&python, &place.workspace().join(".venv"));
    place.write("test_a.py", "import sys\n\ndef test_a():\n    assert '/uv/' in sys.base_prefix\n");
    for tier in TIERS {
        set_tier(&place, tier, "");
        assert_one_passed(&executed(&place, &json!({"type": "run_tests"}), &[]), "pytest");
    }
}

#[test]
fn an_environment_of_the_account_is_used() {
    let place = Place::new();
    let active = place.home().join("envs/shop");
    environment(&installed("python"), &active);
    place.write("test_a.py", "import sys\n\ndef test_a():\n    assert 'envs/shop' in sys.prefix\n");
    for tier in TIERS {
        set_tier(&place, tier, "");
        let answer = executed(&place, &json!({"type": "run_tests"}), &[("VIRTUAL_ENV", &active)]);
        assert_one_passed(&answer, "pytest");
    }
}

#[test]
fn a_missing_pytest_is_reported_with_what_was_found() {
    let place = Place::new();
    place.write("test_a.py", "def test_a():\n    pass\n");
    place.write(".venv/pyvenv.cfg", "home = /nowhere/bin\n");
    fs::create_dir_all(place.workspace().join(".venv/lib/python3.11/site-packages/pytest"))
        .unwrap();
    fs::create_dir_all(place.workspace().join(".venv/bin")).unwrap();
    symlink("/nowhere/bin/python3", place.workspace().join(".venv/bin/python")).unwrap();
    for tier in TIERS {
        set_tier(&place, tier, "");
        let result = act(&place, &json!({"type": "run_tests"}), &[]);
        if result["status"] == "executed" {
            return; // The system's Python has pytest.
        }
        let message = result["metadata"]["reason"].as_str().unwrap();
        let wanted = ".venv has pytest, but its interpreter /nowhere/bin/python3 does not exist or is \
                      in none of the directories that programs can read";
        assert!(message.contains(wanted), "{message}");
        assert!(message.contains("there is no program pytest"), "{message}");
    }
}

#[test]
fn rustups_cargo_builds_with_downloaded_crates() {
    let Some(rustup) = on_path("rustup").map(|path| path.canonicalize().unwrap()) else { return };
    let place = Place::new();
    let sysroot = terminal(&installed("rustc"), &["--print", "sysroot"], &[]).stdout;
    let sysroot = String::from_utf8(sysroot).unwrap();
    fs::create_dir_all(place.home_file(".rustup/toolchains")).unwrap();
    fs::create_dir_all(place.home_file(".cargo/bin")).unwrap();
    fs::write(
        place.home_file(".rustup/settings.toml"),
        "version = '12'\ndefault_toolchain = 'mine'\nprofile = 'default'\n[overrides]\n",
    )
    .unwrap();
    symlink(sysroot.trim(), place.home_file(".rustup/toolchains/mine")).unwrap();
    fs::copy(rustup, place.home_file(".cargo/bin/rustup")).unwrap();
    for name in ["cargo", "rustc", "rustdoc"] {
        symlink("rustup", place.home_file(&format!(".cargo/bin/{name}"))).unwrap();
    }
    crate_in_registry(&place);
    place.write("src/lib.rs", "#[test]\nfn a() {\n    assert_eq!(answer::answer(), 42);\n}\n");
    let manifest = "[package]\nname = 'x'\nversion = '0.1.0'\nedition = '2021'\n[dependencies]\nanswer = '1'\n";
    place.write("Cargo.toml", manifest);
    let before = listing(&place.home_file(".cargo"));
    for tier in TIERS {
        set_tier(&place, tier, "");
        assert_one_passed(&executed(&place, &json!({"type": "run_tests"}), &[]), "cargo");
        let built = executed(&place, &json!({"type": "build_project"}), &[]);
        assert_eq!(
            (&built["framework"], &built["success"]),
            (&json!("cargo"), &json!(true)),
            "{built:#}"
        );
    }
    // What Cargo unpacked and locked is in the plugins' caches.
    assert_eq!(listing(&place.home_file(".cargo")), before);
    let unpacked = place.workspace().join(".cofferdam/cache/test-runners/cargo-home/registry/src");
    assert!(fs::read_dir(unpacked).unwrap().next().is_some());
}

const CRATE: &str = r#"
import hashlib, io, json, os, sys, tarfile
at = sys.argv[1]
manifest = "[package]\nname = 'answer'\nversion = '1.0.0'\nedition = '2021'\n"
files = {"Cargo.toml": manifest, "src/lib.rs": "pub fn answer() -> u32 { 42 }\n"}
path = os.path.join(at, "answer-1.0.0.crate")
os.makedirs(os.path.join(at, "index/an/sw"))
with tarfile.open(path, "w:gz") as archive:
    for name, text in files.items():
        entry = tarfile.TarInfo("answer-1.0.0/" + name)
        entry.size = len(text)
        archive.addfile(entry, io.BytesIO(text.encode()))
with open(path, "rb") as file:
    checksum = hashlib.sha256(file.read()).hexdigest()
line = {"name": "answer", "vers": "1.0.0", "deps": [], "cksum": checksum, "features": {}, "yanked": False}
with open(os.path.join(at, "index/an/sw/answer"), "w") as file:
    file.write(json.dumps(line) + "\n")
"#;

/// Puts the crate `answer` into a local registry that replaces crates.io in the account's
/// configuration, next to a token.
fn crate_in_registry(place: &Place) {
    let registry = place.home_file(".cargo/registry/cache/local");
    terminal(&installed("python"), &["-c", CRATE, registry.to_str().unwrap()], &[]);
    fs::create_dir_all(place.home_file(".cargo/registry/index")).unwrap();
    let configuration = format!(
        "[registry]\ntoken = 'secret'\n[source.crates-io]\nreplace-with = 'mirror'\n\
         [source.mirror]\nlocal-registry = '{}'\n",
        registry.canonicalize().unwrap().display()
    );
    fs::write(place.home_file(".cargo/config.toml"), configuration).unwrap();
}

/// All paths below a directory.
fn listing(directory: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() && !path.is_symlink() {
            found.extend(listing(&path));
        }
        found.push(path);
    }
    found.sort();
    found
}

const GO_MODULE: &str = r#"
import sys, zipfile, os
at = os.path.join(sys.argv[1], "example.com/answer/@v")
os.makedirs(at)
module = "module example.com/answer\n\ngo 1.20\n"
files = {"go.mod": module, "answer.go": "package answer\n\nfunc Answer() int { return 42 }\n"}
with zipfile.ZipFile(os.path.join(at, "v1.0.0.zip"), "w") as archive:
    for name, text in files.items():
        archive.writestr("example.com/answer@v1.0.0/" + name, text)
for name, text in [("list", "v1.0.0\n"), ("v1.0.0.info", '{"Version": "v1.0.0"}'), ("v1.0.0.mod", module)]:
    with open(os.path.join(at, name), "w") as file:
        file.write(text)
"#;

#[test]
fn go_uses_its_module_cache() {
    let place = Place::new();
    let go = installed("go");
    let (proxy, modules) = (place.home_file("proxy"), place.home_file("go"));
    terminal(&installed("python"), &["-c", GO_MODULE, proxy.to_str().unwrap()], &[]);
    place.write("go.mod", "module example.com/x\n\ngo 1.20\n\nrequire example.com/answer v1.0.0\n");
    let test = "package x\n\nimport (\n\t\"testing\"\n\n\t\"example.com/answer\"\n)\n\n\
                func TestAnswer(t *testing.T) {\n\tif answer.Answer() != 42 {\n\t\tt.Fatal()\n\t}\n}\n";
    place.write("x_test.go", test);
    place.write("x.go", "package x\n");
    let url = PathBuf::from(format!("file://{}", proxy.display()));
    let workspace = place.workspace();
    let off = Path::new("off");
    terminal(
        &go,
        &["-C", workspace.to_str().unwrap(), "mod", "tidy"],
        &[
            ("GOPROXY", &url),
            ("GOSUMDB", off),
            ("GOTELEMETRY", off),
            ("GOTOOLCHAIN", Path::new("local")),
            ("GOPATH", &modules),
            ("GOFLAGS", Path::new("-modcacherw")),
            ("HOME", &place.home()),
        ],
    );
    fs::remove_dir_all(&proxy).unwrap();
    let before = listing(&modules);
    let root = go.parent().unwrap().parent().unwrap();
    for tier in TIERS {
        set_tier(&place, tier, "");
        let answer = executed(&place, &json!({"type": "run_tests"}), &[("GOROOT", root)]);
        assert_one_passed(&answer, "go");
        let built = executed(&place, &json!({"type": "build_project"}), &[("GOROOT", root)]);
        assert_eq!(
            (&built["framework"], &built["success"]),
            (&json!("go"), &json!(true)),
            "{built:#}"
        );
    }
    assert_eq!(listing(&modules), before);
}

#[test]
fn debians_maven_builds_with_the_accounts_repository() {
    if !Path::new("/usr/bin/mvn").exists() || programs().missing.contains_key("mvn") {
        crate::quality::print_skipped("there is no /usr/bin/mvn");
        return;
    }
    let place = Place::new();
    crate::projects::write(&place, "java");
    let parts = crate::programs::find("mvn").unwrap();
    let parts = parts.ancestors().find(|at| at.join("usr/share/maven-repo").is_dir()).unwrap();
    copy(&parts.join("usr/share/maven-repo"), &place.home_file(".m2/repository"));
    fs::write(
        place.home_file(".m2/settings.xml"),
        "<settings><servers><server><id>x</id><password>secret</password></server></servers></settings>",
    )
    .unwrap();
    let before = listing(&place.home_file(".m2"));
    for tier in TIERS {
        set_tier(&place, tier, "");
        let action = json!({"type": "build_project", "framework": "maven"});
        let built = executed(&place, &action, &[]);
        assert_eq!(built["success"], true, "{built:#}");
    }
    assert_eq!(listing(&place.home_file(".m2")), before);
    // Without a repository, Maven makes one in the plugin's cache, and says what it lacks.
    fs::remove_dir_all(place.home_file(".m2")).unwrap();
    for tier in TIERS {
        set_tier(&place, tier, "");
        let built = executed(&place, &json!({"type": "build_project", "framework": "maven"}), &[]);
        assert_eq!(built["success"], false, "{built:#}");
        let said = built["raw_output"].as_str().unwrap();
        assert!(!said.contains("Could not create local repository"), "{said}");
        assert!(said.contains("offline mode"), "{said}");
    }
}

/// nvm, asdf and mise have one directory for each version.
#[test]
fn node_of_version_managers_runs_scripts() {
    let node = installed("node");
    let prefix = node.parent().unwrap().parent().unwrap();
    for versions in [
        ".nvm/versions/node/v99.1.0",
        ".asdf/installs/nodejs/99.1.0",
        ".local/share/mise/installs/node/99.1.0",
    ] {
        let place = Place::new();
        let bin = place.home_file(versions).join("bin");
        fs::create_dir_all(&bin).unwrap();
        fs::copy(&node, bin.join("node")).unwrap();
        let npm = "#!/bin/sh\nexec node -e 'console.log(process.execPath)'\n";
        fs::write(bin.join("npm"), npm).unwrap();
        terminal(Path::new("/bin/chmod"), &["755", bin.join("npm").to_str().unwrap()], &[]);
        place.write("package.json", r#"{"scripts": {"build": "x"}}"#);
        for tier in TIERS {
            set_tier(&place, tier, "");
            let built = executed(&place, &json!({"type": "build_project"}), &[]);
            let said = built["raw_output"].as_str().unwrap();
            assert!(said.contains(versions), "{prefix:?}: {built:#}");
        }
    }
}
