//! Third-party plugins, as a user installs them: what is asked and refused, the contents of the
//! lock file and the store, and attacks by a workspace.

mod catalogue;
mod files;
mod grants;
mod hostile;
mod names;
mod provenance;
mod registry;
mod signatures;
mod sigstore;
pub mod web;

use std::fs;
use std::path::PathBuf;

use serde_json::{Value, json};

use crate::hostile::component::{Component, manifest};
use crate::support::{Ended, Place};

/// A packed plugin with the tool `go`, which returns `{}`.
pub struct Plugin {
    manifest: Value,
    call: String,
}

impl Plugin {
    /// A plugin that requests nothing.
    pub fn new(name: &str) -> Self {
        let mut manifest = manifest();
        manifest["name"] = json!(name);
        manifest["requests"] = json!({});
        Self { manifest, call: "(call $answer (i32.const 0) (i32.const 2))".to_owned() }
    }

    pub fn version(mut self, version: &str) -> Self {
        self.manifest["version"] = json!(version);
        self
    }

    pub fn requests(mut self, requests: Value) -> Self {
        self.manifest["requests"] = requests;
        self
    }

    /// Adds a tool.
    pub fn tool(mut self, name: &str, description: &str) -> Self {
        let mut tool = self.manifest["tools"][0].clone();
        tool["name"] = json!(name);
        tool["description"] = json!(description);
        self.manifest["tools"].as_array_mut().unwrap().push(tool);
        self
    }

    pub fn bytes(&self) -> Vec<u8> {
        let component = Component::new(&self.call).build();
        let manifest = self.manifest.to_string();
        let manifest = cofferdam_plugin::manifest::Manifest::parse(manifest.as_bytes()).unwrap();
        cofferdam_plugin::pack::pack(&component, &manifest).unwrap()
    }
}

impl Place {
    /// Writes a plugin's file to the home directory, beside the workspace.
    pub fn beside(&self, name: &str, plugin: &Plugin) -> PathBuf {
        let file = self.home_file(name);
        fs::write(&file, plugin.bytes()).unwrap();
        file
    }

    /// Runs a command that has to succeed, and returns its output.
    pub fn works(&self, args: &[&str]) -> Value {
        let ended = self.run(args);
        assert_eq!(ended.status, 0, "{args:?}: {ended:?}");
        ended.json()
    }

    /// Runs a command that has to fail with this status, and returns its message.
    fn refused(&self, status: i32, args: &[&str]) -> String {
        let ended = self.run(args);
        assert_eq!((ended.status, ended.stdout.as_str()), (status, ""), "{args:?}: {ended:?}");
        ended.stderr
    }

    fn settings(&self) -> String {
        let file = self.home().join(".config/cofferdam/cofferdam.toml");
        fs::read_to_string(file).unwrap_or_default()
    }

    fn lock(&self) -> toml::Table {
        self.read("cofferdam.lock").parse().unwrap()
    }

    /// The files in the store.
    fn stored(&self) -> Vec<PathBuf> {
        let folder = self.home().join(".local/share/cofferdam/plugins/sha256");
        let entries = fs::read_dir(folder).into_iter().flatten();
        entries.map(|entry| entry.unwrap().path()).collect()
    }

    /// Calls the tool `go` of a plugin.
    fn go(&self, plugin: &str) -> Ended {
        self.run(&["call", &format!("{plugin}.go")])
    }

    /// Clones the workspace to another directory of the same user, with what version control would
    /// contain.
    fn cloned(&self, name: &str) -> String {
        let clone = self.home_file(name);
        fs::create_dir(&clone).unwrap();
        for entry in fs::read_dir(self.workspace()).unwrap() {
            let entry = entry.unwrap();
            if entry.file_type().unwrap().is_file() {
                fs::copy(entry.path(), clone.join(entry.file_name())).unwrap();
            }
        }
        clone.to_str().unwrap().to_owned()
    }

    /// The events of user actions in the journal.
    fn events(&self) -> Vec<String> {
        let text = self.read(".cofferdam/journal.jsonl");
        let lines = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        let events = lines.filter(|line| line["event"].is_string());
        events
            .map(|line| {
                format!("{}: {}", line["event"].as_str().unwrap(), line["reason"].as_str().unwrap())
            })
            .collect()
    }
}

/// Asserts that a text contains all of these.
fn assert_contains(text: &str, wanted: &[&str]) {
    for words in wanted {
        assert!(text.contains(words), "'{words}' is missing in: {text}");
    }
}
