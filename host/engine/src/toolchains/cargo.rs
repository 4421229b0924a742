//! Cargo's configuration of the account, without what may be secret.
//!
//! Without it, Cargo would not find the crates that were downloaded through another registry or a
//! mirror. Only the keys below are taken over; tokens, credential providers, proxies, variables
//! (`[env]`) and wrappers of the compiler are not.

use std::path::Path;

use toml::{Table, Value};

use super::CacheFile;
use super::account::Account;

/// The files of Cargo's configuration, the first existing of which counts.
const FILES: [&str; 2] = ["config.toml", "config"];

/// The tables that are taken over as a whole.
const WHOLE: [&str; 4] = ["alias", "profile", "target", "unstable"];

/// The keys that are taken over of other tables; `*` stands for any name.
const KEYS: [(&[&str], &[&str]); 4] = [
    (
        &["source", "*"],
        &["branch", "directory", "git", "local-registry", "registry", "replace-with", "rev", "tag"],
    ),
    (&["registries", "*"], &["index"]),
    (&["registry"], &["default", "index"]),
    (&["build"], &["incremental", "jobs", "rustdocflags", "rustflags", "target"]),
];

/// Returns the configuration for the plugin's cache. Without one in the account, it is empty, so that
/// an earlier one does not stay.
pub(super) fn configuration(account: &Account<'_>, root: &Path) -> Option<CacheFile> {
    let text = FILES.iter().find_map(|name| account.text(&root.join(name))).unwrap_or_default();
    let text = text.parse().map(|table: Table| public(&table).to_string()).unwrap_or_default();
    Some(CacheFile { place: "cargo-home/config.toml", text })
}

/// The part of a configuration that has no secrets.
fn public(configuration: &Table) -> Table {
    let mut kept = Table::new();
    for name in WHOLE {
        if let Some(value) = configuration.get(name).and_then(without_credentials) {
            kept.insert(name.to_owned(), value);
        }
    }
    for (path, keys) in KEYS {
        let Some(table) = configuration.get(path[0]).and_then(Value::as_table) else { continue };
        let part = if path.len() == 1 {
            only(table, keys)
        } else {
            let parts = table.iter().filter_map(|(name, value)| {
                Some((name.clone(), Value::Table(only(value.as_table()?, keys))))
            });
            parts.collect()
        };
        kept.insert(path[0].to_owned(), Value::Table(part));
    }
    kept
}

fn only(table: &Table, keys: &[&str]) -> Table {
    let kept = table.iter().filter(|(key, _)| keys.contains(&key.as_str()));
    kept.filter_map(|(key, value)| Some((key.clone(), without_credentials(value)?))).collect()
}

/// Returns a value without the texts in it that are URLs with a user or a password.
fn without_credentials(value: &Value) -> Option<Value> {
    match value {
        Value::String(text) if has_credentials(text) => None,
        Value::Array(values) => {
            Some(Value::Array(values.iter().filter_map(without_credentials).collect()))
        }
        Value::Table(table) => {
            let kept = table.iter();
            let kept =
                kept.filter_map(|(key, value)| Some((key.clone(), without_credentials(value)?)));
            Some(Value::Table(kept.collect()))
        }
        other => Some(other.clone()),
    }
}

fn has_credentials(text: &str) -> bool {
    let Some((_, rest)) = text.split_once("://") else { return false };
    rest.split(['/', '?', '#']).next().is_some_and(|authority| authority.contains('@'))
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use super::*;

    #[test]
    fn tokens_variables_and_wrappers_are_left_out() {
        let configuration = r#"
            credential-process = "secret-1"
            [registry]
            default = "corp"
            token = "secret-2"
            [registries.corp]
            index = "sparse+https://crates.example.com/"
            token = "secret-3"
            secret-key = "secret-4"
            [registries.other]
            index = "https://user:secret-5@crates.example.com/"
            [source.crates-io]
            replace-with = "mirror"
            [source.mirror]
            registry = "sparse+https://mirror.example.com/"
            [http]
            proxy = "user:secret-6@proxy"
            [env]
            PASSWORD = "secret-7"
            [build]
            rustc-wrapper = "sccache"
            rustflags = ["-Dwarnings"]
            [target.x86_64-unknown-linux-gnu]
            linker = "clang"
        "#;
        let kept = public(&configuration.parse().unwrap()).to_string();
        for part in ["mirror.example.com", "replace-with", "-Dwarnings", "clang", "\"corp\""] {
            assert!(kept.contains(part), "{part}: {kept}");
        }
        for part in ["secret-", "sccache", "env", "proxy"] {
            assert!(!kept.contains(part), "{part}: {kept}");
        }
    }
}
