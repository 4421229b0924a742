//! The project's benchmarks, each measured against a peer in the same run. Prints a Markdown table.
//!
//! `cargo xtask bench` builds what they need and runs them. Times are medians. Compare the ratios:
//! absolute times depend on the machine. Arguments select the measurements whose names contain
//! them.
#![expect(
    clippy::disallowed_methods,
    clippy::expect_used,
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a program that measures, on its own files"
)]

mod console;
mod files;
mod mcp;
mod programs;
mod tree;

use std::collections::HashMap;
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use cofferdam_core::policy::{Capabilities, Files, Limits, Scope};
use cofferdam_core::schema::Schema;
use cofferdam_engine::agent::Team;
use cofferdam_engine::call::{Control, Permissions, PluginGrant, Quiet, Session};
use cofferdam_engine::capability::{CallContext, Http, Programs, Services};
use cofferdam_engine::journal::Journal;
use cofferdam_engine::runtime::{self, BackendRunner, CallRequest, Prepared, Runtime};
use cofferdam_plugin::registry::{Plugin, Registry};
use cofferdam_workspace::fair_queue::Client;
use cofferdam_workspace::{Overlay, Purpose, Secret, Transaction, Workspace};
use serde_json::{Value, json};

fn main() {
    let wanted: Vec<String> =
        std::env::args().skip(1).filter(|argument| !argument.starts_with('-')).collect();
    let setup = Setup::new();
    let mut table = Table::default();
    let parts: [(&str, Part); 19] = [
        ("compile", compile),
        ("call", fresh_call),
        ("threads", threads),
        ("cold", cold_process),
        ("schema", schema),
        ("files", files::read),
        ("commit", files::commit),
        ("edit", edit),
        ("grep", grep),
        ("memory", memory),
        ("sandbox", programs::nothing),
        ("lint", programs::native_linter),
        ("inside", programs::inside),
        ("mcp-pipe", mcp::pipe),
        ("mcp-http", mcp::http),
        ("scripts", mcp::scripts),
        ("console-pairs", console::pairs),
        ("console-load", console::load),
        ("console-hunks", console::hunks),
    ];
    for (name, part) in parts {
        if wanted.is_empty() || wanted.iter().any(|wanted| name.contains(wanted.as_str())) {
            part(&setup, &mut table);
        }
    }
    // Removes the history only at the end: ext4 creates files slowly right after many were removed.
    let _ = fs::remove_dir_all(setup.scratch.join("workspace/.cofferdam"));
    let text = table.to_markdown();
    println!("{text}");
    fs::write(setup.scratch.join("table.md"), text).unwrap();
}

/// A measurement, which adds its rows to the table.
type Part = fn(&Setup, &mut Table);

/// The rows of the result: what is measured, our value, the peer's value, their ratio, the goal.
#[derive(Default)]
struct Table(Vec<[String; 5]>);

impl Table {
    /// Adds the times of ours and a peer.
    fn row(&mut self, what: &str, (ours, peer): (Duration, Duration), goal: &str) {
        let ratio = ours.as_secs_f64() / peer.as_secs_f64();
        self.compare(what, [show(ours), show(peer)], ratio, goal);
    }

    /// Adds the values of ours and a peer; `ratio` is ours divided by the peer's.
    fn compare(&mut self, what: &str, [ours, peer]: [String; 2], ratio: f64, goal: &str) {
        println!("{what}: {ours} | {peer} | {ratio:.2} | goal {goal}");
        self.0.push([what.into(), ours, peer, format!("{ratio:.2}"), goal.into()]);
    }

    /// Adds a value without a peer.
    fn alone(&mut self, what: &str, ours: &str, goal: &str) {
        self.0.push([what.into(), ours.into(), String::new(), String::new(), goal.into()]);
        println!("{what}: {ours} | goal {goal}");
    }

    fn to_markdown(&self) -> String {
        let mut text =
            String::from("| what | Cofferdam | peer | ratio | goal |\n|---|---|---|---|---|\n");
        for row in &self.0 {
            text.push_str(&format!("| {} |\n", row.join(" | ")));
        }
        text
    }
}

struct Setup {
    /// The directory of the built binaries, `target/release`.
    built: PathBuf,
    /// Measured files, kept between runs.
    scratch: PathBuf,
    runtime: Arc<Runtime>,
    registry: Registry,
    workspace: Arc<Workspace>,
    timers: tokio::runtime::Runtime,
}

impl Setup {
    fn new() -> Self {
        let executable = std::env::current_exe().unwrap();
        let built = executable
            .ancestors()
            .find(|folder| folder.join("plugins").is_dir())
            .expect("the built plugins are missing; run `cargo xtask bench`")
            .to_owned();
        let scratch = built.parent().unwrap().join("bench");
        fs::create_dir_all(scratch.join("workspace")).unwrap();
        let mut registry = Registry::default();
        registry.add_built_in(&built.join("plugins")).unwrap();
        registry.add_file(&built.join("examples/hello.wasm")).unwrap();
        Self {
            runtime: Arc::new(Runtime::new(2, None).unwrap()),
            workspace: Arc::new(
                Workspace::open(&scratch.join("workspace"), Secret::OfProcess).unwrap(),
            ),
            timers: tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap(),
            built,
            scratch,
            registry,
        }
    }

    /// Begins a transaction on the benchmark workspace.
    fn begin(&self) -> Transaction {
        let begun = Transaction::begin(&self.workspace, Duration::from_secs(1));
        self.timers.block_on(begun).unwrap().0
    }

    fn plugin(&self, name: &str) -> &Plugin {
        self.registry.plugins().iter().find(|plugin| plugin.manifest.name == name).unwrap()
    }

    fn prepared(&self, name: &str) -> Arc<Prepared> {
        let plugin = self.plugin(name);
        self.runtime.prepare(plugin, &plugin.manifest.requests, &|| false).unwrap()
    }

    /// A request for a call that reads `workspace` without staged changes.
    fn request(&self, workspace: &Arc<Workspace>, tool: &str, args: &Value) -> CallRequest {
        self.request_on(workspace.plain(), workspace, tool, args)
    }

    fn request_on(
        &self,
        tree: &Arc<Overlay>,
        workspace: &Arc<Workspace>,
        tool: &str,
        args: &Value,
    ) -> CallRequest {
        let limits = Limits::DEFAULT;
        let grant = PluginGrant { plugin: "files".into(), ..PluginGrant::default() };
        let capabilities = Capabilities { files: Files::Write, scan: true, ..Capabilities::NONE };
        let services = Services {
            workspace: Arc::clone(workspace),
            backends: Arc::new(BackendRunner::none(Arc::clone(&self.runtime))),
            programs: Arc::new(Programs::none()),
            http: Arc::new(Http::new(HashMap::new())),
            team: Team::none(Arc::clone(workspace)),
            background: Arc::default(),
            journal: Arc::new(Journal::new(Arc::clone(workspace))),
        };
        let context = CallContext {
            nested: None,
            id: "0".into(),
            permissions: Permissions {
                grant: Arc::new(grant),
                capabilities,
                sight: Scope::default(),
                scope: Scope::default(),
            },
            control: Arc::new(Control::new(limits.call)),
            limits,
            tree: Arc::clone(tree),
            usage: Arc::default(),
            observer: Arc::new(Quiet),
            session: Session::default(),
            secrets: Arc::default(),
            consents: Arc::default(),
            questions: Arc::default(),
            services: Arc::new(services),
        };
        CallRequest {
            tool: tool.into(),
            args: args.to_string(),
            client: Client::default(),
            context: Arc::new(context),
        }
    }
}

/// A copy of `request` whose deadline starts now.
fn restarted(request: &CallRequest) -> CallRequest {
    let mut context = CallContext::clone(&request.context);
    context.control = Arc::new(Control::new(context.limits.call));
    CallRequest { context: Arc::new(context), ..request.clone() }
}

/// Runs `run` `count` times, after `count / 10` runs to warm up. Returns the sorted times.
fn times(count: usize, mut run: impl FnMut()) -> Vec<Duration> {
    (0..count / 10).for_each(|_| run());
    let mut times: Vec<Duration> = (0..count)
        .map(|_| {
            let start = Instant::now();
            run();
            start.elapsed()
        })
        .collect();
    times.sort_unstable();
    times
}

/// Runs `ours` and `peer` alternately, so that both see the same load. Returns both medians.
fn alternate(count: usize, mut ours: impl FnMut(), mut peer: impl FnMut()) -> (Duration, Duration) {
    let (mut left, mut right) = (Vec::new(), Vec::new());
    for round in 0..count + 1 {
        let start = Instant::now();
        ours();
        let middle = Instant::now();
        peer();
        if round > 0 {
            left.push(middle - start);
            right.push(middle.elapsed());
        }
    }
    left.sort_unstable();
    right.sort_unstable();
    (at(&left, 50), at(&right, 50))
}

fn at(sorted: &[Duration], percent: usize) -> Duration {
    sorted[(sorted.len() - 1) * percent / 100]
}

fn show(time: Duration) -> String {
    let micros = time.as_secs_f64() * 1e6;
    match micros {
        micros if micros < 1_000.0 => format!("{micros:.1} us"),
        micros if micros < 1_000_000.0 => format!("{:.2} ms", micros / 1e3),
        micros => format!("{:.2} s", micros / 1e6),
    }
}

/// Runs a program and discards its output.
fn run(program: &str, args: &[&str], folder: &Path) {
    let status = Command::new(program)
        .args(args)
        .current_dir(folder)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    // The exit status only tells whether anything was found, for grep and for ours.
    assert!(status.is_ok(), "{program} can't be run");
}

fn exists(program: &str) -> bool {
    Command::new(program)
        .arg("--version")
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok()
}

fn compile(setup: &Setup, table: &mut Table) {
    let plugin = setup.plugin("grep");
    let bytes = fs::read(&plugin.component).unwrap();
    let compile = times(3, || drop(setup.runtime.compile(&bytes).unwrap()));
    let load = times(200, || {
        let runtime = setup.runtime.has_compiled_code(plugin);
        assert!(runtime);
    });
    table.row(
        &format!(
            "load compiled code of `grep` ({:.1} MB) against compiling it",
            bytes.len() as f64 / 1e6
        ),
        (at(&load, 50), at(&compile, 50)),
        "a second start never compiles",
    );
}

fn fresh_call(setup: &Setup, table: &mut Table) {
    let prepared = setup.prepared("hello");
    let request = setup.request(&setup.workspace, "greet", &json!({"name": "Ada"}));
    let calls = times(20_000, || {
        let request = restarted(&request);
        runtime::call(&prepared, &request).0.unwrap().unwrap();
    });
    let start = times(200, || run("/bin/true", &[], Path::new("/")));
    table.row(
        "fresh call (new instance, call, drop), p50, against starting /bin/true",
        (at(&calls, 50), at(&start, 50)),
        "<= 25 us",
    );
    table.alone("fresh call, p99", &show(at(&calls, 99)), "<= 50 us");

    fs::write(setup.scratch.join("workspace/small.txt"), "a small file\n").unwrap();
    let files = setup.prepared("files");
    let request = setup.request(&setup.workspace, "read_file", &json!({"path": "small.txt"}));
    let reads = times(5_000, || {
        let request = restarted(&request);
        runtime::call(&files, &request).0.unwrap().unwrap();
    });
    table.alone("fresh call of `read_file` on a small file, p50", &show(at(&reads, 50)), "");
}

/// Fresh calls per second with `count` threads.
fn per_second(setup: &Setup, count: usize) -> f64 {
    let prepared = setup.prepared("hello");
    let (stop, calls) = (AtomicBool::new(false), AtomicU64::new(0));
    let start = Instant::now();
    thread::scope(|scope| {
        for _ in 0..count {
            scope.spawn(|| {
                let request = setup.request(&setup.workspace, "greet", &json!({"name": "Ada"}));
                let mut done = 0;
                while !stop.load(Ordering::Relaxed) {
                    let request = restarted(&request);
                    runtime::call(&prepared, &request).0.unwrap().unwrap();
                    done += 1;
                }
                calls.fetch_add(done, Ordering::Relaxed);
            });
        }
        thread::sleep(Duration::from_millis(400));
        stop.store(true, Ordering::Relaxed);
    });
    calls.load(Ordering::Relaxed) as f64 / start.elapsed().as_secs_f64()
}

fn threads(setup: &Setup, table: &mut Table) {
    let mut rounds: Vec<(f64, f64)> =
        (0..15).map(|_| (per_second(setup, 1), per_second(setup, 2))).collect();
    rounds.sort_by(|left, right| (left.1 / left.0).total_cmp(&(right.1 / right.0)));
    let (one, two) = rounds[rounds.len() / 2];
    table.compare(
        "fresh calls per second on 2 threads against 1",
        [format!("{two:.0}"), format!("{one:.0}")],
        two / one,
        ">= 1.4 times",
    );
}

fn cold_process(setup: &Setup, table: &mut Table) {
    let cofferdam = setup.built.join("cofferdam").display().to_string();
    let folder = setup.scratch.join("workspace");
    let call = ["call", "files.read_file", "{\"path\": \"small.txt\"}"];
    fs::write(folder.join("small.txt"), "a small file\n").unwrap();
    let interpreter = python();
    let (ours, python) = alternate(
        60,
        || run(&cofferdam, &call, &folder),
        || run(&interpreter, &["-c", "pass"], &folder),
    );
    table.row(
        "cold process: start, one call, end, against `python3 -c pass`",
        (ours, python),
        "<= 3 ms",
    );
    let list = times(40, || run(&cofferdam, &["tools"], &folder));
    table.alone("`cofferdam tools`, second start", &show(at(&list, 50)), "<= 50 ms");
}

/// The path of the Python interpreter: `python3` on the search path may be a wrapper script.
fn python() -> String {
    let ask = ["-c", "import sys; print(sys.executable)"];
    let output = Command::new("python3").args(ask).output().expect("python3 can't be run");
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

fn schema(setup: &Setup, table: &mut Table) {
    let document = setup
        .plugin("edit")
        .manifest
        .tools
        .iter()
        .find(|tool| tool.name == "atomic_replace")
        .unwrap()
        .input
        .clone();
    let schema = Schema::compile((*document).clone()).unwrap();
    for (name, count, size) in [("1 KB", 6, 60), ("100 KB", 500, 80)] {
        let replacements: Vec<Value> = (0..count)
            .map(|n| json!({"old_string": format!("{n}{}", "x".repeat(size)), "new_string": "y".repeat(size)}))
            .collect();
        let text = json!({"path": "src/a.rs", "replacements": replacements}).to_string();
        let (both, parse) = alternate(
            3_000,
            || assert!(schema.problems(&serde_json::from_str(&text).unwrap(), "").is_empty()),
            || drop(serde_json::from_str::<Value>(&text).unwrap()),
        );
        table.row(
            &format!("parse and check {name} of arguments against parsing alone"),
            (both, parse),
            "<= 1.3",
        );
    }
}

/// The peer of the edit: read, replace once, write a temporary file, sync, rename.
fn native_edit(path: &Path, old: &str, new: &str) {
    let text = fs::read_to_string(path).unwrap();
    assert_eq!(text.matches(old).count(), 1);
    let staged = path.with_extension("tmp");
    let mut file = fs::File::create(&staged).unwrap();
    file.write_all(text.replacen(old, new, 1).as_bytes()).unwrap();
    file.sync_all().unwrap();
    fs::rename(&staged, path).unwrap();
}

fn edit(setup: &Setup, table: &mut Table) {
    let line = "fn some_function(a: u32, b: u32) -> u32 { a.wrapping_add(b) }\n";
    let text = format!("{}NEEDLE_A\n{}", line.repeat(9_000), line.repeat(7_500));
    let folder = setup.scratch.join("workspace");
    for name in ["ours.rs", "native.rs"] {
        fs::write(folder.join(name), &text).unwrap();
    }
    let prepared = setup.prepared("edit");
    let (mut turn, mut native_turn) = (0, 0);
    let names = |turn: &mut usize| {
        *turn += 1;
        if *turn % 2 == 1 { ("NEEDLE_A", "NEEDLE_B") } else { ("NEEDLE_B", "NEEDLE_A") }
    };
    let (ours, native) = alternate(
        60,
        || {
            let (old, new) = names(&mut turn);
            let args = json!({"path": "ours.rs", "replacements": [{"old_string": old, "new_string": new}]});
            let transaction = setup.begin();
            let tree = transaction.overlay();
            let request = setup.request_on(tree, &setup.workspace, "atomic_replace", &args);
            runtime::call(&prepared, &request).0.unwrap().unwrap();
            transaction.commit(Purpose::default()).unwrap().unwrap();
        },
        || {
            let (old, new) = names(&mut native_turn);
            native_edit(&folder.join("native.rs"), old, new);
        },
    );
    table.row("atomic edit of 1 MiB with sync against native code", (ours, native), "<= 1.3");
}

fn grep(setup: &Setup, table: &mut Table) {
    if !exists("rg") {
        table.alone("grep against ripgrep", "ripgrep is not installed", "<= 1.25");
        return;
    }
    let folder = setup.scratch.join("tree");
    let files = tree::create(&folder);
    let workspace = Arc::new(Workspace::open(&folder, Secret::OfProcess).unwrap());
    let prepared = setup.prepared("grep");
    let search = |args: Value| {
        runtime::call(&prepared, &setup.request(&workspace, "grep", &args)).0.unwrap().unwrap();
    };
    for (what, pattern, flags, goal) in [
        ("a rare literal", tree::RARE_WORD, &["-l"][..], "<= 1.25"),
        ("a rare literal, no case", tree::RARE_WORD, &["-l", "-i"], "<= 1.5"),
        ("a regex with many hits, counted", r"fn \w+_(load|store)\b", &["-c"], "<= 1.6"),
    ] {
        let mut args = json!({"pattern": pattern});
        if flags.contains(&"-c") {
            args["output_mode"] = "count".into();
            args["head_limit"] = 10_000.into();
        }
        if flags.contains(&"-i") {
            args["-i"] = true.into();
        }
        // ripgrep follows .gitignore files only in a git repository unless told otherwise.
        let mut rg = vec!["--no-require-git", "-j2"];
        rg.extend(flags);
        rg.push(pattern);
        let (ours, peer) = alternate(15, || search(args.clone()), || run("rg", &rg, &folder));
        table.row(
            &format!("grep of {files} files for {what} against ripgrep, 2 threads"),
            (ours, peer),
            goal,
        );
    }
    let prepared = setup.prepared("files");
    let args = json!({"pattern": "**/*[0-4].rs"});
    let (ours, peer) = alternate(
        15,
        || {
            let request = setup.request(&workspace, "glob", &args);
            runtime::call(&prepared, &request).0.unwrap().unwrap();
        },
        // The answer is in the order of the modification times.
        || run("find", &[".", "-name", "*[0-4].rs", "-printf", "%T@ %p\n"], &folder),
    );
    let what = format!("glob in {files} files against find with times");
    table.row(&what, (ours, peer), "<= 2");
}

fn memory(setup: &Setup, table: &mut Table) {
    // Runs in a new process, since this one has measured other things.
    let cofferdam = setup.built.join("cofferdam");
    let output =
        Command::new(cofferdam).arg("doctor").current_dir(&setup.scratch).output().unwrap();
    let document: Value = serde_json::from_slice(&output.stdout).unwrap();
    table.alone(
        "resident memory, all built-in plugins loaded",
        &format!("{} KiB", document["resident_kib_with_plugins_loaded"]),
        "<= 40 MB",
    );
}
