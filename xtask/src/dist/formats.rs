//! The formats of packages. Each is made by the program of its ecosystem, or by a script of Python's
//! standard library.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};

use super::{Release, architecture::Architecture, tree::Tree};
use crate::process::{native, output};
use crate::project::{Project, read_text, write};

/// A format of packages.
pub struct Format {
    pub name: &'static str,
    /// Makes the package and returns its path.
    pub make: fn(&Project, &Release, &Tree) -> Result<PathBuf>,
}

const ARCHIVE: Format = Format { name: "archive", make: archive };
const WHEEL: Format = Format { name: "Python wheel", make: wheel };
const DEBIAN: Format = Format { name: "Debian package", make: debian };

pub const ALL: [Format; 5] = [
    ARCHIVE,
    WHEEL,
    Format { name: "npm package", make: npm },
    DEBIAN,
    Format { name: "MCP bundle", make: mcpb },
];

/// Those whose names have the architecture, so that a release can have several.
pub const BY_ARCHITECTURE: [Format; 3] = [ARCHIVE, WHEEL, DEBIAN];

/// Makes the archive `cofferdam-VERSION-linux-ARCHITECTURE.tar.gz`.
fn archive(_: &Project, release: &Release, tree: &Tree) -> Result<PathBuf> {
    let (parent, name) = (tree.root.parent(), tree.root.file_name());
    let (parent, name) = parent.zip(name).context("the tree has no name")?;
    let package = release.directory.join(format!("{}.tar.gz", name.to_string_lossy()));
    fs::create_dir_all(&release.directory)?;
    let mut tar = native("tar");
    tar.current_dir(parent)
        .args(["--create", "--sort=name", "--owner=0", "--group=0", "--numeric-owner"])
        .args(["--mode=go+u,go-w", "--use-compress-program=gzip -9 --no-name"])
        .arg(format!("--mtime=@{}", release.time))
        .arg("--file")
        .arg(&package)
        .arg(name);
    output(&mut tar)?;
    Ok(package)
}

/// A wheel (`cofferdam-VERSION-py3-none-PLATFORMS.whl`, in the format of PEP 427). Its command goes
/// to the environment's `bin`, all else below the environment's prefix.
fn wheel(project: &Project, release: &Release, tree: &Tree) -> Result<PathBuf> {
    let scratch = Scratch::new(project, "wheel")?;
    let data = scratch.0.join(format!("cofferdam-{}.data", release.version));
    tree.copy_to(&data.join("data"))?;
    fs::create_dir_all(data.join("scripts"))?;
    fs::rename(data.join("data/bin/cofferdam"), data.join("scripts/cofferdam"))?;
    fs::remove_dir(data.join("data/bin"))?;
    let info = format!("cofferdam-{}.dist-info", release.version);
    for file in ["METADATA", "WHEEL"] {
        let text = fill(project, release, tree.architecture, &format!("wheel/{file}"))?;
        write(&scratch.0.join(&info).join(file), text)?;
    }
    // Static: any C library will do.
    let architecture = tree.architecture.name;
    let platforms = format!("manylinux_2_17_{architecture}.musllinux_1_1_{architecture}");
    let name = format!("cofferdam-{}-py3-none-{platforms}.whl", release.version);
    zip(project, release, &scratch.0, &name, Some(&info))
}

/// A package for `npm install --global` and `npx`.
fn npm(project: &Project, release: &Release, tree: &Tree) -> Result<PathBuf> {
    let scratch = Scratch::new(project, "npm")?;
    tree.copy_to(&scratch.0)?;
    fs::copy(project.root.join("README.md"), scratch.0.join("README.md"))?;
    let package = fill(project, release, tree.architecture, "npm/package.json")?;
    write(&scratch.0.join("package.json"), package)?;
    let mut pack = native("npm");
    pack.current_dir(&scratch.0)
        .args(["pack", "--silent", "--ignore-scripts", "--pack-destination"])
        .arg(&release.directory);
    output(&mut pack)?;
    let made = release.directory.join(format!("cofferdam-{}.tgz", release.version));
    let package = release.directory.join(format!("cofferdam-{}-npm.tgz", release.version));
    fs::rename(&made, &package).with_context(|| format!("npm did not make {}", made.display()))?;
    Ok(package)
}

/// Makes the package `cofferdam_VERSION_ARCHITECTURE.deb`, with the architecture as Debian calls it.
fn debian(project: &Project, release: &Release, tree: &Tree) -> Result<PathBuf> {
    let scratch = Scratch::new(project, "debian")?;
    tree.copy_to(&scratch.0.join("usr"))?;
    let control = fill(project, release, tree.architecture, "debian/control")?;
    write(&scratch.0.join("DEBIAN/control"), control)?;
    let architecture = tree.architecture.debian;
    let name = format!("cofferdam_{}_{architecture}.deb", release.version);
    let package = release.directory.join(name);
    let mut build = native("dpkg-deb");
    build
        .env("SOURCE_DATE_EPOCH", &release.time)
        .args(["--root-owner-group", "-Zxz", "--build"])
        .arg(&scratch.0)
        .arg(&package);
    output(&mut build)?;
    Ok(package)
}

/// An MCP bundle (`.mcpb`, manifest version 0.3): what desktop clients install with a click.
fn mcpb(project: &Project, release: &Release, tree: &Tree) -> Result<PathBuf> {
    let scratch = Scratch::new(project, "mcpb")?;
    tree.copy_to(&scratch.0.join("server"))?;
    let manifest = fill(project, release, tree.architecture, "mcpb/manifest.json")?;
    write(&scratch.0.join("manifest.json"), manifest)?;
    let name = format!("cofferdam-{}-linux-{}.mcpb", release.version, tree.architecture.name);
    zip(project, release, &scratch.0, &name, None)
}

/// The entry of the MCP registry: where its clients find the packages.
pub fn server_json(project: &Project, release: &Release) -> Result<PathBuf> {
    let file = release.directory.join("server.json");
    let text = read_text(&project.root.join("xtask/dist/server.json"))?;
    write(&file, text.replace("${VERSION}", &release.version))?;
    Ok(file)
}

/// Makes a zip file of a directory. `record` is the directory of a wheel in which the list of its
/// files stands.
fn zip(
    project: &Project,
    release: &Release,
    directory: &Path,
    name: &str,
    record: Option<&str>,
) -> Result<PathBuf> {
    let package = release.directory.join(name);
    let mut python = native("python3");
    python
        .arg(project.root.join("xtask/dist/zip.py"))
        .args([directory, &package])
        .arg(&release.time)
        .args(record);
    output(&mut python)?;
    Ok(package)
}

/// Reads a file of `xtask/dist` and fills in the version and the architecture.
fn fill(
    project: &Project,
    release: &Release,
    architecture: &Architecture,
    file: &str,
) -> Result<String> {
    let text = read_text(&project.root.join("xtask/dist").join(file))?;
    Ok(text
        .replace("${VERSION}", &release.version)
        .replace("${ARCHITECTURE}", architecture.name)
        .replace("${DEBIAN_ARCHITECTURE}", architecture.debian))
}

/// An empty directory in which a package is put together.
struct Scratch(PathBuf);

impl Scratch {
    fn new(project: &Project, name: &str) -> Result<Self> {
        let directory = project.memory("dist").join(name);
        if directory.exists() {
            fs::remove_dir_all(&directory)?;
        }
        fs::create_dir_all(&directory)?;
        Ok(Self(directory))
    }
}

#[cfg(test)]
pub mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use std::os::unix::fs::PermissionsExt as _;
    use std::process::Command;

    use serde_json::Value;

    use super::*;
    use crate::dist::architecture::Name;
    use crate::process::ask;
    use crate::project::{Profile, read};

    /// A project that builds in `target`, and a tree with a shell script as the command.
    pub fn release(target: &Path) -> (Project, Release, Tree) {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_owned();
        let project = Project { root, target: target.to_owned(), profile: Profile::Release };
        let version = env!("CARGO_PKG_VERSION").to_owned();
        let directory = target.join("dist");
        let release = Release { version, time: "1700000000".into(), directory };
        let root = project.memory("dist").join("cofferdam-0-linux-x86_64");
        let tree = Tree { root, architecture: Name::X86_64.architecture() };
        let command = tree.root.join("bin/cofferdam");
        write(
            &command,
            "#!/bin/sh\nls \"$(dirname \"$(readlink -f \"$0\")\")/../lib/cofferdam/plugins\"\n",
        )
        .unwrap();
        fs::set_permissions(&command, fs::Permissions::from_mode(0o755)).unwrap();
        write(&tree.root.join("lib/cofferdam/plugins/files.wasm"), "\0asm").unwrap();
        (project, release, tree)
    }

    /// A program that `cargo xtask programs` has installed into `target/clients`; `None` without it.
    pub fn client(path: &str) -> Option<Command> {
        let clients = Project::find().unwrap().target.join("clients");
        let program = clients.join(path);
        program.is_file().then(|| native(&program))
    }

    /// The registry's own schema and rules, as skillsaw brings them.
    #[test]
    fn the_entry_of_the_mcp_registry_is_valid() {
        let scratch = tempfile::tempdir().unwrap();
        let (project, release, tree) = release(scratch.path());
        let file = server_json(&project, &release).unwrap();
        let entry: Value = serde_json::from_str(&read_text(&file).unwrap()).unwrap();
        assert_eq!(entry["version"], release.version);
        let description = entry["description"].as_str().unwrap();
        assert!((1..=100).contains(&description.chars().count()), "{description}");
        // The registry finds the name in the packages, which proves who they belong to.
        let name = entry["name"].as_str().unwrap();
        let text = |file: &str| fill(&project, &release, tree.architecture, file).unwrap();
        let npm: Value = serde_json::from_str(&text("npm/package.json")).unwrap();
        assert_eq!(npm["mcpName"], name);
        assert!(text("wheel/METADATA").contains(&format!("\nmcp-name: {name}\n")));
        for package in entry["packages"].as_array().unwrap() {
            assert_eq!(
                (&package["identifier"], &package["version"]),
                (&npm["name"], &entry["version"])
            );
            assert_eq!(package["transport"]["type"], "stdio");
        }
        let Some(mut skillsaw) = client("packages/bin/skillsaw") else { return };
        let directory = file.parent().unwrap();
        output(skillsaw.arg("lint").arg(directory)).unwrap();
        // It does look at the file.
        write(&file, read_text(&file).unwrap().replace("\"identifier\"", "\"other\"")).unwrap();
        let mut skillsaw = client("packages/bin/skillsaw").unwrap();
        assert!(output(skillsaw.arg("lint").arg(directory)).is_err());
    }

    /// The packer of MCP bundles checks its manifest.
    #[test]
    fn the_mcp_bundle_is_valid() {
        let scratch = tempfile::tempdir().unwrap();
        let (project, release, tree) = release(scratch.path());
        let bundle = mcpb(&project, &release, &tree).unwrap();
        let Some(mut unpack) = client("npm/node_modules/.bin/mcpb") else { return };
        let into = scratch.path().join("bundle");
        output(unpack.arg("unpack").arg(bundle).arg(&into)).unwrap();
        let validate = |manifest: &Path| {
            let mut packer = client("npm/node_modules/.bin/mcpb").unwrap();
            output(packer.arg("validate").arg(manifest))
        };
        validate(&into.join("manifest.json")).unwrap();
        let command = into.join("server/bin/cofferdam");
        assert_eq!(ask(&mut native(&command)).unwrap_or_default(), "files.wasm");
        let manifest = read_text(&into.join("manifest.json")).unwrap();
        write(&into.join("bad.json"), manifest.replace("\"server\"", "\"servant\"")).unwrap();
        assert!(validate(&into.join("bad.json")).is_err());
    }

    #[test]
    fn packages_are_the_same_bytes_each_time() {
        let [first, second] = [(); 2].map(|()| tempfile::tempdir().unwrap());
        let made = |target: &Path| -> Vec<(String, Vec<u8>)> {
            let (project, release, tree) = release(target);
            let packages = ALL.map(|format| (format.make)(&project, &release, &tree).unwrap());
            packages
                .iter()
                .map(|package| {
                    (
                        package.file_name().unwrap().to_str().unwrap().to_owned(),
                        read(package).unwrap(),
                    )
                })
                .collect()
        };
        for (one, other) in made(first.path()).iter().zip(made(second.path())) {
            assert_eq!(one.0, other.0);
            assert!(one.1 == other.1, "{} differs between two builds", one.0);
        }
    }

    /// Installs each package as its ecosystem does; the command has to find its plugins there.
    #[test]
    fn installed_commands_find_their_plugins() {
        let scratch = tempfile::tempdir().unwrap();
        let (project, release, tree) = release(scratch.path());
        let [archive, wheel, npm, debian, _] =
            ALL.map(|format| (format.make)(&project, &release, &tree).unwrap());
        let at = |name: &str| scratch.path().join(name);
        let installed = |command: &Path| ask(&mut native(command)).unwrap_or_default();

        fs::create_dir(at("archive")).unwrap();
        output(native("tar").arg("-xf").arg(archive).arg("-C").arg(at("archive"))).unwrap();
        assert_eq!(installed(&at("archive/cofferdam-0-linux-x86_64/bin/cofferdam")), "files.wasm");

        output(native("python3").args(["-m", "venv"]).arg(at("venv"))).unwrap();
        let mut pip = native(at("venv/bin/python"));
        pip.args(["-m", "pip", "install", "--quiet", "--no-index", "--disable-pip-version-check"]);
        output(pip.arg(wheel)).unwrap();
        assert_eq!(installed(&at("venv/bin/cofferdam")), "files.wasm");

        let mut install = native("npm");
        install.args(["install", "--silent", "--global", "--offline", "--prefix"]).arg(at("npm"));
        output(install.arg(npm)).unwrap();
        assert_eq!(installed(&at("npm/bin/cofferdam")), "files.wasm");

        output(native("dpkg-deb").arg("--extract").arg(debian).arg(at("debian"))).unwrap();
        assert_eq!(installed(&at("debian/usr/bin/cofferdam")), "files.wasm");
    }
}
