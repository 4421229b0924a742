//! `cofferdam plugin new`: creates a project that builds to a plugin, from the files in
//! `host/cli/templates` and the interfaces of this version.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Write as _};
use std::iter;
use std::path::{Path, PathBuf};

use include_dir::{Dir, include_dir};
use serde_json::json;

use crate::args::{Format, Language, PluginKind, PluginNew, SdkSource};
use crate::output::Output;
use crate::setup::VERSION;
use crate::{CliError, exit};
use cofferdam_plugin::manifest::{NAME_FORM, is_name};

static TEMPLATES: Dir<'_> = include_dir!("$CARGO_MANIFEST_DIR/templates");
static INTERFACES: Dir<'_> = include_dir!("$CARGO_MANIFEST_DIR/../../wit/deps");
static SDK: Dir<'_> = include_dir!("$CARGO_MANIFEST_DIR/../../plugins/sdk/src");

/// The directory of the SDK's copy in a project.
const SDK_DIRECTORY: &str = "sdk";

/// Whether `cofferdam-sdk` of this version is on crates.io. A release sets it.
const SDK_IS_RELEASED: bool = false;

/// The suffix of template files whose names would have an effect in this repository, such as
/// `Cargo.toml`.
const SUFFIX: &str = ".template";

/// The folders of a template: its own, and those that it shares with other templates.
fn folders(template: &'static str) -> impl Iterator<Item = &'static str> {
    let tool = template.ends_with("-tool").then_some("tool");
    let rust = template.starts_with("rust-").then_some("rust");
    // Its world stands in the place of the one that all tools share.
    let script = template.contains("script-").then_some("script");
    iter::once(template).chain(tool).chain(rust).chain(script)
}

/// The template for a language and a kind, if there is one.
fn template(language: Language, kind: PluginKind) -> Option<&'static str> {
    match (language, kind) {
        (Language::C, PluginKind::Tool) => Some("c-tool"),
        (Language::Javascript, PluginKind::Tool) => Some("javascript-tool"),
        (Language::Python, PluginKind::Tool) => Some("python-tool"),
        (Language::Typescript, PluginKind::Tool) => Some("typescript-tool"),
        (Language::Rust, PluginKind::Tool) => Some("rust-tool"),
        (Language::Rust, PluginKind::LintBackend) => Some("rust-lint-backend"),
        (Language::Rust, PluginKind::TestBackend) => Some("rust-test-backend"),
        _ => None,
    }
}

pub fn execute(args: &PluginNew, output: &Output) -> Result<u8, CliError> {
    let name = args.name.as_str();
    if !is_name(name) {
        return Err(CliError::usage(format!("a plugin's name has {NAME_FORM}; '{name}' has not")));
    }
    let Some(template) = template(args.lang, args.kind) else {
        return Err(CliError::usage(
            "there is a template of a backend in Rust only; backends in other languages are \
             described in docs/plugins.md, \"Other languages\""
                .to_owned(),
        ));
    };
    let default = if SDK_IS_RELEASED { SdkSource::Released } else { SdkSource::Bundled };
    let files = files(template, name, args.sdk.unwrap_or(default)).map_err(CliError::host)?;
    let folder = args.directory.clone().unwrap_or_else(|| PathBuf::from(name));
    write(&folder, &files)?;
    if output.format() == Format::Text {
        let readme = folder.join("README.md");
        output.text(&format!(
            "{} is there; {} says how to build, test and call it\n",
            folder.display(),
            readme.display()
        ))?;
    } else {
        output.json(&json!({
            "plugin": name,
            "directory": folder,
            "files": files.keys().collect::<Vec<_>>(),
        }))?;
    }
    Ok(exit::OK)
}

/// The files of a project, by their paths in it.
fn files(
    template: &'static str,
    name: &str,
    sdk: SdkSource,
) -> Result<BTreeMap<PathBuf, Vec<u8>>, String> {
    let mut files = BTreeMap::new();
    let dependency = match sdk {
        SdkSource::Released => format!("cofferdam-sdk = \"{VERSION}\""),
        SdkSource::Bundled => {
            format!("cofferdam-sdk = {{ version = \"{VERSION}\", path = \"{SDK_DIRECTORY}\" }}")
        }
    };
    for folder in folders(template) {
        let directory = TEMPLATES.get_dir(folder).ok_or(format!("no template {folder}"))?;
        for file in files_below(directory) {
            let path = file.path().strip_prefix(folder).map_err(|error| error.to_string())?;
            files.insert(project_path(path), fill(file.contents(), name, &dependency));
        }
    }
    if template == "rust-tool" && sdk == SdkSource::Bundled {
        let directory = Path::new(SDK_DIRECTORY);
        files.insert(directory.join("Cargo.toml"), sdk_manifest()?.into_bytes());
        for file in files_below(&SDK) {
            files.insert(directory.join("src").join(file.path()), file.contents().to_vec());
        }
    }
    for file in files_below(&INTERFACES) {
        files.insert(Path::new("wit/deps").join(file.path()), file.contents().to_vec());
    }
    Ok(files)
}

fn files_below<'a>(directory: &'a Dir<'a>) -> Vec<&'a include_dir::File<'a>> {
    let below = directory.dirs().flat_map(files_below);
    directory.files().chain(below).collect()
}

/// The path that a template's file has in the project.
fn project_path(path: &Path) -> PathBuf {
    match path.file_name().and_then(|name| name.to_str()) {
        Some("gitignore.template") => path.with_file_name(".gitignore"),
        Some(name) => path.with_file_name(name.strip_suffix(SUFFIX).unwrap_or(name)),
        None => path.to_owned(),
    }
}

/// The manifest of the SDK without what it inherits from this project's workspace.
fn sdk_manifest() -> Result<String, String> {
    let parse = |text: &str| text.parse::<toml::Table>().map_err(|error| error.to_string());
    let workspace = parse(include_str!("../../../../Cargo.toml"))?;
    let workspace = workspace.get("workspace").ok_or("no [workspace]")?;
    let mut sdk = parse(include_str!("../../../../plugins/sdk/Cargo.toml"))?;
    for key in ["dev-dependencies", "lints"] {
        sdk.remove(key);
    }
    for key in ["package", "dependencies"] {
        let Some(toml::Value::Table(table)) = sdk.get_mut(key) else { continue };
        table.remove("readme");
        for (name, value) in table {
            if value.get("workspace").and_then(toml::Value::as_bool) == Some(true) {
                let of_workspace = workspace.get(key).and_then(|table| table.get(name));
                *value = of_workspace.ok_or(format!("the workspace has no {name}"))?.clone();
            }
        }
    }
    toml::to_string(&sdk).map_err(|error| error.to_string())
}

/// Replaces `{{name}}`, `{{crate}}` and `{{sdk}}` in a file. A file that is not UTF-8 is not changed.
fn fill(contents: &[u8], name: &str, sdk: &str) -> Vec<u8> {
    match std::str::from_utf8(contents) {
        Ok(text) => text
            .replace("{{name}}", name)
            .replace("{{crate}}", &name.replace('-', "_"))
            .replace("{{sdk}}", sdk)
            .into(),
        Err(_) => contents.to_vec(),
    }
}

/// Writes a project into a new folder; an existing one is an error.
fn write(folder: &Path, files: &BTreeMap<PathBuf, Vec<u8>>) -> Result<(), CliError> {
    let failed =
        |path: &Path, error: &io::Error| CliError::usage(format!("{}: {error}", path.display()));
    if let Some(above) = folder.parent() {
        fs::create_dir_all(above).map_err(|error| failed(above, &error))?;
    }
    fs::create_dir(folder).map_err(|error| match error.kind() {
        io::ErrorKind::AlreadyExists => {
            CliError::usage(format!("{} is there already", folder.display()))
                .with_hint("name another directory")
        }
        _ => failed(folder, &error),
    })?;
    for (path, contents) in files {
        let path = folder.join(path);
        let written = path.parent().map_or(Ok(()), fs::create_dir_all).and_then(|()| {
            fs::OpenOptions::new().write(true).create_new(true).open(&path)?.write_all(contents)
        });
        written.map_err(|error| failed(&path, &error))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use super::*;
    use clap::ValueEnum as _;
    use cofferdam_plugin::check;

    fn templates() -> impl Iterator<Item = &'static str> {
        let languages = Language::value_variants().iter();
        languages
            .flat_map(|language| PluginKind::value_variants().iter().map(|kind| (*language, *kind)))
            .filter_map(|(language, kind)| template(language, kind))
    }

    #[test]
    fn every_template_gives_a_valid_project() {
        for template in templates() {
            let place = tempfile::tempdir().unwrap();
            let folder = place.path().join("x");
            let files = files(template, "my-plugin_2", SdkSource::Bundled).unwrap();
            write(&folder, &files).unwrap();
            for (path, contents) in &files {
                let text = String::from_utf8_lossy(contents);
                assert!(!text.contains("{{"), "{template}: {}", path.display());
                assert!(!path.to_string_lossy().contains("template"), "{}", path.display());
            }
            for wanted in [
                "README.md",
                ".gitignore",
                "plugin.toml",
                "wit/world.wit",
                "wit/deps/tool/tool.wit",
            ] {
                assert!(folder.join(wanted).is_file(), "{template}: {wanted}");
            }
            let checked = check::manifest_file(&folder.join("plugin.toml"));
            assert_eq!(checked.findings, [], "{template}");
            assert_eq!(checked.manifest.unwrap().name, "my-plugin_2");
            let readme = String::from_utf8_lossy(&files[Path::new("README.md")]);
            assert!(readme.contains("my-plugin_2.wasm"), "{template}");
        }
        // Every template folder is used.
        let known: Vec<&str> = templates().flat_map(folders).collect();
        for folder in TEMPLATES.dirs() {
            assert!(
                known.contains(&folder.path().to_str().unwrap()),
                "{}",
                folder.path().display()
            );
        }
    }

    #[test]
    fn the_interfaces_are_those_of_this_version() {
        let files = files("rust-tool", "x", SdkSource::Bundled).unwrap();
        for (path, text) in [
            ("wit/deps/tool/tool.wit", include_str!("../../../../wit/deps/tool/tool.wit")),
            ("wit/deps/host/host.wit", include_str!("../../../../wit/deps/host/host.wit")),
            (
                "wit/deps/backend/backend.wit",
                include_str!("../../../../wit/deps/backend/backend.wit"),
            ),
        ] {
            assert_eq!(files[Path::new(path)], text.as_bytes(), "{path}");
        }
    }

    #[test]
    fn the_sdk_is_a_crate_without_a_workspace() {
        let files = files("rust-tool", "x", SdkSource::Bundled).unwrap();
        let text = |path: &str| String::from_utf8_lossy(&files[Path::new(path)]).into_owned();
        let dependency = "cofferdam-sdk = { version = \"";
        assert!(text("Cargo.toml").contains(dependency), "{}", text("Cargo.toml"));
        let manifest = text("sdk/Cargo.toml");
        assert!(!manifest.contains("workspace"), "{manifest}");
        let manifest: toml::Table = manifest.parse().unwrap();
        assert_eq!(manifest["package"]["version"].as_str(), Some(env!("CARGO_PKG_VERSION")));
        assert!(files.contains_key(Path::new("sdk/src/bindings.rs")));

        let released = super::files("rust-tool", "x", SdkSource::Released).unwrap();
        let manifest = String::from_utf8_lossy(&released[Path::new("Cargo.toml")]).into_owned();
        let wanted = format!("\ncofferdam-sdk = \"{}\"\n", env!("CARGO_PKG_VERSION"));
        assert!(manifest.contains(&wanted), "{manifest}");
        assert!(released.keys().all(|path| !path.starts_with("sdk")));
    }

    #[test]
    fn scripts_can_import_files() {
        for template in ["javascript-tool", "typescript-tool"] {
            let files = files(template, "x", SdkSource::Bundled).unwrap();
            let world = String::from_utf8_lossy(&files[Path::new("wit/world.wit")]).into_owned();
            assert!(world.contains("import wasi:filesystem/types@"), "{template}: {world}");
            assert!(files.contains_key(Path::new("src/files.js")), "{template}");
        }
    }

    #[test]
    fn nothing_is_overwritten() {
        let place = tempfile::tempdir().unwrap();
        let files = files("c-tool", "x", SdkSource::Bundled).unwrap();
        let error = write(place.path(), &files).unwrap_err().to_string();
        assert!(error.contains("is there already"), "{error}");
        assert_eq!(fs::read_dir(place.path()).unwrap().count(), 0);
    }
}
