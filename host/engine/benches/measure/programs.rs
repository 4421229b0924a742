//! Native programs in the sandbox, and linters inside and outside of it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use cofferdam_core::policy::Settings;
use cofferdam_engine::host::{Config, Helper, Host};
use cofferdam_engine::runtime::linting::Request;
use cofferdam_sandbox::Sandbox;

use super::{Setup, Table, alternate, times};

/// The number of Python files in a generated tree.
const FILE_COUNT: usize = 1_000;

/// Measures a program that does nothing (`true`).
pub fn nothing(setup: &Setup, table: &mut Table) {
    let helper = Helper::at(setup.built.join("cofferdam"));
    let probe = helper.probe().unwrap();
    for tier in [cofferdam_sandbox::Tier::A, cofferdam_sandbox::Tier::B] {
        let Ok(sandbox) = Sandbox::with(helper.clone(), &probe, Some(tier)) else { continue };
        let (ours, peer) = alternate(
            50,
            || {
                let command = cofferdam_sandbox::Command::new("/bin/true", "/usr");
                sandbox.start(command).unwrap().wait().unwrap();
            },
            || {
                Command::new("/bin/true").status().unwrap();
            },
        );
        let goal = "<= 30 ms more";
        let what = format!("`true` in the sandbox (tier {tier:?}) against plain");
        table.row(&what, (ours, peer), goal);
    }
}

/// Measures ruff on trees of Python files: through its plugin and the sandbox, and alone.
pub fn native_linter(setup: &Setup, table: &mut Table) {
    let Some((ruff, settings)) = installed(setup, "ruff") else {
        println!("ruff is not installed; `cargo xtask programs` does it");
        return;
    };
    let plain = |workspace: &Path| {
        let arguments = ["check", "--output-format=json", "--no-cache", "."];
        let output = Command::new(&ruff).args(arguments).current_dir(workspace).output().unwrap();
        assert!(output.stdout.len() > FILE_COUNT * 100);
    };
    let tiny = tree(&setup.scratch.join("python"));
    let against = "through plugin and sandbox, against plain ruff";
    for (what, workspace, goal) in [
        ("files of real packages", real_tree(setup), "<= 1.3"),
        ("tiny files with a fix in each", tiny.clone(), ""),
    ] {
        let (host, _timers) = host(setup, &workspace, &settings);
        let (ours, peer) = alternate(15, || lint(&host, "native-ruff"), || plain(&workspace));
        let what = format!("ruff on {FILE_COUNT} {what}, {against}");
        table.row(&what, (ours, peer), goal);
    }
    let (host, _timers) = host(setup, &tiny, &settings);
    let (inside, peer) = alternate(5, || lint(&host, "ruff"), || plain(&tiny));
    let what =
        format!("ruff wholly inside an instance on {FILE_COUNT} tiny files, against plain ruff");
    table.row(&what, (inside, peer), "");
}

fn lint(host: &Host, backend: &str) {
    let report = host.lint(backend, request(".")).unwrap();
    assert_eq!(report.files_checked as usize, FILE_COUNT, "{backend}");
    assert!(report.findings.len() >= FILE_COUNT);
}

/// Measures linters that run inside an instance: the first run in a process, later runs, and peak
/// memory.
pub fn inside(setup: &Setup, table: &mut Table) {
    let folder = setup.scratch.join("linters");
    fs::create_dir_all(&folder).unwrap();
    let python: String = (0..500)
        .map(|n| format!("def function_{n}(left, right):\n    import os\n    value = left + right\n    return value * {n}\n\n\n"))
        .collect();
    fs::write(folder.join("large.py"), &python).unwrap();
    let script: String = (0..500)
        .map(|n| format!("function name{n}(left, right) {{\n  const unused = left;\n  debugger;\n  return right * {n};\n}}\n"))
        .collect();
    fs::write(folder.join("large.js"), &script).unwrap();
    for (backend, file) in [
        ("ruff", "large.py"),
        ("pyflakes", "large.py"),
        ("ty", "large.py"),
        ("deno_lint", "large.js"),
        ("eslint", "large.js"),
    ] {
        let lines = fs::read_to_string(folder.join(file)).unwrap().lines().count();
        let (host, _timers) = host(setup, &folder, "");
        let started = Instant::now();
        if let Err(error) = host.lint(backend, request(file)) {
            println!("{backend}: {error:?}");
            continue;
        }
        let first = started.elapsed();
        let again = times(10, || {
            host.lint(backend, request(file)).unwrap();
        });
        let again = again[again.len() / 2];
        let memory = peak_memory(setup, &folder, backend, file);
        let what = format!("{backend} inside an instance, {lines} lines: first, then again");
        table.row(&what, (first, again), "compiles nothing");
        let what = format!("{backend}: most memory of a process that lints that file");
        table.alone(&what, &format!("{} MiB", memory >> 10), "");
    }
}

/// Copies Python files of the linters' packages into a tree with [`FILE_COUNT`] files.
fn real_tree(setup: &Setup) -> PathBuf {
    fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
        for entry in fs::read_dir(folder).unwrap().map(Result::unwrap) {
            let path = entry.path();
            if entry.file_type().unwrap().is_dir() {
                sources(&path, found);
            } else if path.extension().is_some_and(|extension| extension == "py") {
                found.push(path);
            }
        }
    }
    let packages = setup.built.parent().unwrap().join("programs/python/lib");
    let mut found = Vec::new();
    sources(&packages, &mut found);
    found.sort();
    let folder = setup.scratch.join("packages");
    for (number, path) in found[..FILE_COUNT].iter().enumerate() {
        // Ruff skips directories with certain names, such as the one that these files come from.
        let below = folder.join(format!("package{}", number / 25));
        fs::create_dir_all(&below).unwrap();
        fs::copy(path, below.join(format!("module{number}.py"))).unwrap();
    }
    folder.canonicalize().unwrap()
}

/// Creates a tree of Python files with at least one finding in each.
fn tree(folder: &Path) -> PathBuf {
    for n in 0..FILE_COUNT {
        let below = folder.join(format!("package{}", n % 20));
        fs::create_dir_all(&below).unwrap();
        let body: String = (0..20)
            .map(|m| format!("def function_{m}(value):\n    return value + {m} + {n}\n\n\n"))
            .collect();
        fs::write(below.join(format!("module{n}.py")), format!("import os\n\n\n{body}")).unwrap();
    }
    folder.canonicalize().unwrap()
}

fn request(path: &str) -> Request {
    Request {
        root: String::new(),
        paths: vec![path.to_owned()],
        config: None,
        select: Vec::new(),
        timeout_ms: 0,
    }
}

/// The path of a program that `cargo xtask programs` installed, and the settings to find it with.
pub fn installed(setup: &Setup, name: &str) -> Option<(PathBuf, String)> {
    let folder = setup.built.parent()?.join("programs");
    let text = fs::read_to_string(folder.join("programs.toml")).ok()?;
    let listed: toml::Table = text.parse().ok()?;
    let path = listed.get("path")?.as_array()?.iter();
    let found = path.filter_map(|directory| Some(Path::new(directory.as_str()?).join(name)));
    let program = found.into_iter().find(|program| program.is_file())?;
    let settings = format!(
        "[programs]\npath = {}\nreadable = {}\n",
        listed.get("path")?,
        listed.get("readable")?
    );
    Some((program, settings))
}

fn host(setup: &Setup, workspace: &Path, settings: &str) -> (Host, tokio::runtime::Runtime) {
    let timers = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_time()
        .build()
        .unwrap();
    let host = {
        let _timers = timers.enter();
        Host::open(Config {
            built_in: Some(setup.built.join("plugins")),
            settings: vec![Settings::parse(settings).unwrap()],
            sandbox: Some(Helper::at(setup.built.join("cofferdam"))),
            ..Config::new(workspace)
        })
        .unwrap()
    };
    (host, timers)
}

/// Peak memory (`VmHWM`) of a process that lints one file, in KiB.
fn peak_memory(setup: &Setup, folder: &Path, backend: &str, file: &str) -> u64 {
    let mut child = Command::new(setup.built.join("cofferdam"))
        .args(["backend", "compare", backend, backend, file])
        .current_dir(folder)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let status = PathBuf::from(format!("/proc/{}/status", child.id()));
    let mut peak = 0;
    while child.try_wait().unwrap().is_none() {
        let text = fs::read_to_string(&status).unwrap_or_default();
        let line = text.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        let kib = line.and_then(|line| line.split_whitespace().next()?.parse().ok());
        peak = kib.unwrap_or(peak);
        thread::sleep(Duration::from_millis(2));
    }
    peak
}
