//! Builds components from WebAssembly text: functions of a core module, wrapped as a plugin.

use std::path::PathBuf;

use cofferdam_plugin::manifest::Manifest;
use cofferdam_plugin::pack;
use serde_json::{Value, json};
use tempfile::TempDir;

/// A guest whose tool is written in WebAssembly text.
///
/// The core module `$main` has the memory of `$libc`, and these functions besides its own:
/// `$answer` (`ptr`, `len`) and `$fail` (`code ptr`, `code len`) return an answer, `$alloc`
/// (`size`) gives fresh memory. At address 0 there are the 2 bytes `{}`.
#[derive(Default)]
pub struct Component {
    definitions: String,
    lowered: String,
    given: String,
    module: String,
    call: String,
}

impl Component {
    /// A tool with the body `call`: instructions that leave an answer's address. Its parameters are
    /// `$name`, `$args` and their lengths `$name_len` and `$args_len`.
    pub fn new(call: &str) -> Self {
        Self { call: call.to_owned(), ..Self::default() }
    }

    /// Adds functions, globals, a start function, ... to the core module.
    pub fn module(mut self, text: &str) -> Self {
        self.module.push_str(text);
        self
    }

    /// Adds imports, types, modules, ... to the component itself.
    pub fn definitions(mut self, text: &str) -> Self {
        self.definitions.push_str(text);
        self
    }

    /// Imports the function `name` of the instance `$instance` into the core module as `$id`, with
    /// the core type `signature`.
    pub fn function(self, instance: &str, name: &str, id: &str, signature: &str) -> Self {
        let options = "(memory $memory) (realloc $realloc)";
        self.canon(&format!("lower (func ${instance} \"{name}\") {options}"), id, signature)
    }

    /// Imports a function that `(canon definition)` defines into the core module.
    pub fn canon(mut self, definition: &str, id: &str, signature: &str) -> Self {
        self.lowered.push_str(&format!("(core func $lowered-{id} (canon {definition}))\n"));
        self.given.push_str(&format!("(export \"{id}\" (func $lowered-{id}))"));
        self.module
            .insert_str(0, &format!("(import \"given\" \"{id}\" (func ${id} {signature}))\n"));
        self
    }

    /// The text of the component.
    #[expect(clippy::too_many_lines, reason = "one WebAssembly text")]
    pub fn text(&self) -> String {
        let Self { definitions, lowered, given, module, call } = self;
        format!(
            r#"(component
  (import "cofferdam:tool/types@0.1.0" (instance $types
    (type $context' (record
      (field "call-id" string) (field "workspace" string)
      (field "deadline-ms" u32) (field "scope" (list string))))
    (export "call-context" (type (eq $context')))
    (type $kind' (enum "invalid-args" "not-found" "conflict" "denied" "limit" "unavailable" "failed"))
    (export "error-kind" (type $kind (eq $kind')))
    (type $error' (record
      (field "kind" $kind) (field "code" string) (field "message" string)
      (field "detail" (option string))))
    (export "tool-error" (type (eq $error')))))
  (alias export $types "call-context" (type $context))
  (alias export $types "tool-error" (type $error))
  {definitions}
  (core module $libc-module
    (memory (export "memory") 1)
    (data (i32.const 0) "{{}}")
    (global $next (mut i32) (i32.const 4096))
    (func (export "realloc") (param i32 i32 i32) (param $size i32) (result i32)
      (local $at i32)
      (local.set $at (global.get $next))
      (global.set $next (i32.and (i32.add (i32.add (global.get $next) (local.get $size)) (i32.const 15)) (i32.const -16)))
      (block $enough
        (br_if $enough (i64.ge_u
          (i64.shl (i64.extend_i32_u (memory.size)) (i64.const 16))
          (i64.extend_i32_u (global.get $next))))
        (drop (memory.grow (i32.add (i32.const 1) (i32.shr_u (local.get $size) (i32.const 16))))))
      (local.get $at)))
  (core instance $libc (instantiate $libc-module))
  (alias core export $libc "memory" (core memory $memory))
  (alias core export $libc "realloc" (core func $realloc))
  {lowered}
  (core module $main-module
    (import "libc" "memory" (memory 1))
    (import "libc" "realloc" (func $realloc (param i32 i32 i32 i32) (result i32)))
    {module}
    (func $alloc (param $size i32) (result i32)
      (call $realloc (i32.const 0) (i32.const 0) (i32.const 1) (local.get $size)))
    (func $answer (param $at i32) (param $len i32) (result i32)
      (i32.store (i32.const 64) (i32.const 0))
      (i32.store (i32.const 68) (local.get $at))
      (i32.store (i32.const 72) (local.get $len))
      (i32.const 64))
    (func $fail (param $at i32) (param $len i32) (result i32)
      (i32.store (i32.const 64) (i32.const 1))
      (i32.store (i32.const 68) (i32.const 6))
      (i32.store (i32.const 72) (local.get $at))
      (i32.store (i32.const 76) (local.get $len))
      (i32.store (i32.const 80) (i32.const 0))
      (i32.store (i32.const 84) (i32.const 2))
      (i32.store (i32.const 88) (i32.const 0))
      (i32.const 64))
    (func (export "call")
      (param $name i32) (param $name_len i32) (param $args i32) (param $args_len i32)
      (param i32 i32 i32 i32 i32 i32 i32) (result i32)
      {call}))
  (core instance $main (instantiate $main-module
    (with "libc" (instance $libc))
    (with "given" (instance {given}))))
  (func $call (param "name" string) (param "args" string) (param "ctx" $context) (result (result string (error $error)))
    (canon lift (core func $main "call") (memory $memory) (realloc $realloc)))
  (instance $tools (export "call" (func $call)))
  (export "cofferdam:tool/tools@0.1.0" (instance $tools)))"#
        )
    }

    /// Compiles the text of the component.
    pub fn build(&self) -> Vec<u8> {
        let text = self.text();
        wat::parse_str(&text).unwrap_or_else(|error| panic!("{error}"))
    }

    /// The component, packed under the name `attack` with the tool `go`.
    pub fn pack(&self) -> Packed {
        self.pack_as("attack")
    }

    /// The component, packed under another name.
    pub fn pack_as(&self, name: &str) -> Packed {
        let mut manifest = manifest();
        manifest["name"] = json!(name);
        Packed::new(&self.build(), &manifest)
    }
}

/// A plugin file in a temporary directory.
pub struct Packed {
    _directory: Option<TempDir>,
    pub path: PathBuf,
}

impl Packed {
    pub fn new(component: &[u8], manifest: &Value) -> Self {
        let manifest = Manifest::parse(manifest.to_string().as_bytes()).unwrap();
        Self::from_bytes(&pack::pack(component, &manifest).unwrap())
    }

    /// A file with exactly these bytes.
    pub fn from_bytes(bytes: &[u8]) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("attack.wasm");
        std::fs::write(&path, bytes).unwrap();
        Self { _directory: Some(directory), path }
    }

    /// A built-in plugin.
    pub fn built_in(name: &str) -> Self {
        let path = crate::support::built().join("plugins").join(format!("{name}.wasm"));
        Self { _directory: None, path }
    }

    /// A guest of `tests/guests`.
    pub fn guest(name: &str) -> Self {
        Self { _directory: None, path: crate::support::guest(name) }
    }
}

/// The manifest of a plugin `attack` with a tool `go`.
pub fn manifest() -> Value {
    json!({
        "name": "attack", "version": "0.1.0", "description": "",
        "requests": {"files": "write", "scan": true},
        "tools": [{
            "name": "go", "title": "", "description": "", "done": "gone",
            "input": {"type": "object"}, "output": {"type": "object"}
        }]
    })
}
