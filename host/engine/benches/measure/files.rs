//! Reading through the overlay, and commits.

use std::fs;
use std::io::Write as _;
use std::path::Path;

use cofferdam_engine::runtime::{self, Clock, Engine};
use cofferdam_workspace::{Opening, Purpose, Quota};
use serde_json::json;
use wasmtime::Store;
use wasmtime::component::types::ComponentItem;
use wasmtime::component::{Component, InstancePre, Linker, ResourceTable, ResourceType, Val};
use wasmtime_wasi::{FsPerms, WasiCtx, WasiCtxBuilder, WasiCtxView, WasiView};

use super::{Setup, Table, alternate};

/// A component linked to wasmtime-wasi's own preopened directories: the peer of the overlay.
struct Preopens {
    plugin: InstancePre<Wasi>,
    folder: std::path::PathBuf,
}

struct Wasi {
    wasi: WasiCtx,
    table: ResourceTable,
}

impl WasiView for Wasi {
    fn ctx(&mut self) -> WasiCtxView<'_> {
        WasiCtxView { ctx: &mut self.wasi, table: &mut self.table }
    }
}

impl Preopens {
    fn new(component: &Path, folder: &Path) -> Self {
        let engine = Engine::new(1, &Clock::start().unwrap()).unwrap();
        let component = Component::from_file(&engine, component).unwrap();
        let mut linker = Linker::new(&engine);
        wasmtime_wasi::p2::add_to_linker_sync(&mut linker).unwrap();
        // The other imports of the plugin are not called by the measured tools.
        for (name, import) in component.component_type().imports(&engine) {
            let ComponentItem::ComponentInstance(interface) = import.ty else { continue };
            if !name.starts_with("cofferdam:") {
                continue;
            }
            let mut instance = linker.instance(name).unwrap();
            for (export, item) in interface.exports(&engine) {
                match item.ty {
                    ComponentItem::ComponentFunc(_) => instance
                        .func_new(export, |_, _, _, _| Err(wasmtime::Error::msg("not measured"))),
                    ComponentItem::Resource(_) => {
                        instance.resource(export, ResourceType::host::<()>(), |_, _| Ok(()))
                    }
                    _ => Ok(()),
                }
                .unwrap();
            }
        }
        let plugin = linker.instantiate_pre(&component).unwrap();
        Self { plugin, folder: folder.to_owned() }
    }

    fn call(&self, tool: &str, args: &str) {
        let mut wasi = WasiCtxBuilder::new();
        wasi.allow_blocking_current_thread(true);
        wasi.preopened_dir(&self.folder, "/workspace", FsPerms::ReadOnly).unwrap();
        let state = Wasi { wasi: wasi.build(), table: ResourceTable::new() };
        let mut store = Store::new(self.plugin.engine(), state);
        store.set_epoch_deadline(1_000_000);
        let instance = self.plugin.instantiate(&mut store).unwrap();
        let tools = "cofferdam:tool/tools@0.1.0";
        let (_, tools) = instance.get_export(&mut store, None, tools).unwrap();
        let (_, call) = instance.get_export(&mut store, Some(&tools), "call").unwrap();
        let call = instance.get_func(&mut store, call).unwrap();
        let string = |text: &str| Val::String(text.to_owned());
        let context = Val::Record(vec![
            ("call-id".into(), string("0")),
            ("workspace".into(), string(self.folder.to_str().unwrap())),
            ("deadline-ms".into(), Val::U32(30_000)),
            ("scope".into(), Val::List(Vec::new())),
        ]);
        let mut results = [Val::Bool(false)];
        call.call(&mut store, &[string(tool), string(args), context], &mut results).unwrap();
        assert!(matches!(results, [Val::Result(Ok(_))]), "{results:?}");
    }
}

/// Measures tools that read: through the overlay, and on plain preopened directories.
pub fn read(setup: &Setup, table: &mut Table) {
    let folder = setup.scratch.join("workspace");
    fs::create_dir_all(folder.join("tree")).unwrap();
    for number in 0..1_000 {
        let inner = folder.join(format!("tree/folder{}", number % 20));
        fs::create_dir_all(&inner).unwrap();
        fs::write(inner.join(format!("file{number}.txt")), "a line\n").unwrap();
    }
    fs::write(folder.join("small.txt"), "a line\n").unwrap();
    fs::write(folder.join("large.txt"), "a line of some length\n".repeat(48_000)).unwrap();
    let prepared = setup.prepared("files");
    let preopens = Preopens::new(&setup.plugin("files").component, &folder);
    // Whole, and without ignore rules: the peer has no host that knows them.
    for (what, tool, args, rounds) in [
        ("a small file", "read_file", json!({"path": "small.txt"}), 400),
        ("a file of 1 MiB", "read_file", json!({"path": "large.txt", "limit": 48_000}), 100),
        (
            "a tree of 1000 files",
            "read_tree",
            json!({"path": "tree", "ignored": true, "limit": 10_000}),
            60,
        ),
    ] {
        let text = args.to_string();
        let (ours, peer) = alternate(
            rounds,
            || {
                let request = setup.request(&setup.workspace, tool, &args);
                runtime::call(&prepared, &request).0.unwrap().unwrap();
            },
            || preopens.call(tool, &text),
        );
        table.row(
            &format!("`{tool}` of {what} through the overlay against plain preopens"),
            (ours, peer),
            "<= 1.1",
        );
    }
}

/// Measures commits of small files against a native loop: write a temporary file, sync, rename.
pub fn commit(setup: &Setup, table: &mut Table) {
    let folder = setup.scratch.join("workspace");
    for (files, rounds) in [(1, 200), (10, 60), (1_000, 5)] {
        for kind in ["ours", "native"] {
            fs::create_dir_all(folder.join(format!("{kind}{files}"))).unwrap();
            for number in 0..files {
                fs::write(folder.join(format!("{kind}{files}/{number}.txt")), "before\n").unwrap();
            }
        }
        let opening = Opening { read: false, create: true, exclusive: false, truncate: true };
        let (mut turn, mut native_turn) = (0, 0);
        let (ours, native) = alternate(
            rounds,
            || {
                turn += 1;
                let transaction = setup.begin();
                let quota = Quota::new(1 << 30, 1 << 20);
                for number in 0..files {
                    let place = format!("ours{files}/{number}.txt");
                    let file = transaction.overlay().open_write(&place, opening, &quota);
                    file.unwrap().write_all(format!("after {turn}\n").as_bytes()).unwrap();
                }
                transaction.commit(Purpose::default()).unwrap().unwrap();
            },
            || {
                native_turn += 1;
                for number in 0..files {
                    let path = folder.join(format!("native{files}/{number}.txt"));
                    let staged = path.with_extension("tmp");
                    let mut file = fs::File::create(&staged).unwrap();
                    file.write_all(format!("after {native_turn}\n").as_bytes()).unwrap();
                    file.sync_all().unwrap();
                    fs::rename(&staged, &path).unwrap();
                }
            },
        );
        table.row(
            &format!("commit of {files} small files against writing, syncing and renaming each"),
            (ours, native),
            if files == 1 { "<= 1.3" } else { "" },
        );
    }
}
