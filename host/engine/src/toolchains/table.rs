//! The known toolchains: where each is, what programs can use of it, and what they are told.
//!
//! A directory is listed only if nothing in it is secret. Not readable, among others: Cargo's
//! `credentials.toml` and `config.toml`, npm's `.npmrc`, Maven's `settings.xml`, Gradle's
//! `gradle.properties` and `init.d`, `.pypirc`, `.netrc`, the configuration of pip, conda, uv and
//! poetry, the clones of private repositories that Go and Cargo keep.
//!
//! Sources: the documentation of each toolchain on its environment variables and its directories.

use std::path::{Path, PathBuf};

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

use super::account::Account;
use super::version::{self, Choice, Chosen, File, matching, newest};
use super::{CACHE, Found, Link, Variable};

/// A toolchain as this table describes it. Without its root, it is not there.
pub(super) struct Toolchain {
    name: &'static str,
    /// Variables of the host that name the root, each with what follows below it.
    named_by: &'static [(&'static str, &'static str)],
    /// The default roots, the first existing of which counts.
    places: &'static [&'static str],
    programs: Programs,
    /// What programs can read below the root; `""` for all of it.
    readable: &'static [&'static str],
    /// A directory below the root in which links to other places count: users link their own builds
    /// there.
    linked: Option<&'static str>,
    variables: &'static [(&'static str, Value)],
    /// Places in the plugin's cache that lead to directories below the root.
    links: &'static [(&'static str, &'static str)],
}

/// Where a toolchain has its programs.
enum Programs {
    /// Other programs lead there, or none.
    None,
    /// In these directories below the root.
    In(&'static [&'static str]),
    /// In one directory for each installed version.
    Versions { below: &'static str, programs: &'static str, choice: Choice },
    /// In one directory for each version of each tool, as asdf and mise have them.
    Tools { below: &'static str },
    /// In one directory for each version, of a name that is not known: `VERSION/HASH/NAME/bin`.
    Unpacked { choice: Choice },
}

/// The value of a variable.
enum Value {
    Fixed(&'static str),
    /// A path below the root.
    Root(&'static str),
    /// A `file:` URL of a path below the root.
    Url(&'static str),
    /// A path in the plugin's cache.
    Cache(&'static str),
}

/// The variables of all programs: none has a network, so that none should wait for it, and none can
/// install a toolchain.
pub(super) const OFFLINE: [(&str, &str); 8] = [
    ("CARGO_NET_OFFLINE", "true"),
    ("COREPACK_ENABLE_NETWORK", "0"),
    ("GOPROXY", "off"),
    ("GOTOOLCHAIN", "local"),
    ("PIP_DISABLE_PIP_VERSION_CHECK", "1"),
    ("RUSTUP_AUTO_INSTALL", "0"),
    ("UV_OFFLINE", "1"),
    ("UV_PYTHON_DOWNLOADS", "never"),
];

/// A row without programs, variables and links.
const PLAIN: Toolchain = Toolchain {
    name: "",
    named_by: &[],
    places: &[],
    programs: Programs::None,
    readable: &[""],
    linked: None,
    variables: &[],
    links: &[],
};

/// A choice by nothing but the newest version.
const NEWEST: Choice = Choice { variable: None, files: &[], default: None };

/// What version managers of Node.js read in a project.
const NODE_VERSIONS: &[File] = &[File::Lines(".nvmrc"), File::Lines(".node-version")];

pub(super) const TOOLCHAINS: &[Toolchain] = &[
    // Tools of many languages.
    Toolchain {
        name: "mise",
        named_by: &[("MISE_DATA_DIR", ""), ("XDG_DATA_HOME", "mise")],
        places: &["~/.local/share/mise"],
        programs: Programs::Tools { below: "installs" },
        readable: &["installs"],
        ..PLAIN
    },
    Toolchain {
        name: "asdf",
        named_by: &[("ASDF_DATA_DIR", "")],
        places: &["~/.asdf"],
        programs: Programs::Tools { below: "installs" },
        readable: &["installs"],
        ..PLAIN
    },
    // Python.
    Toolchain {
        name: "pyenv",
        named_by: &[("PYENV_ROOT", "")],
        places: &["~/.pyenv"],
        programs: Programs::Versions {
            below: "versions",
            programs: "bin",
            choice: Choice {
                variable: Some("PYENV_VERSION"),
                files: &[File::Lines(".python-version")],
                default: Some("version"),
            },
        },
        readable: &["versions"],
        linked: Some("versions"),
        variables: &[("PYENV_ROOT", Value::Root(""))],
        ..PLAIN
    },
    Toolchain {
        name: "uv's interpreters",
        named_by: &[("UV_PYTHON_INSTALL_DIR", ""), ("XDG_DATA_HOME", "uv/python")],
        places: &["~/.local/share/uv/python"],
        variables: &[("UV_PYTHON_INSTALL_DIR", Value::Root(""))],
        ..PLAIN
    },
    Toolchain {
        name: "uv's tools",
        named_by: &[("UV_TOOL_DIR", ""), ("XDG_DATA_HOME", "uv/tools")],
        places: &["~/.local/share/uv/tools"],
        ..PLAIN
    },
    // Environments that were made with links lead there.
    Toolchain {
        name: "uv's packages",
        named_by: &[("UV_CACHE_DIR", ""), ("XDG_CACHE_HOME", "uv")],
        places: &["~/.cache/uv"],
        readable: &["archive-v0"],
        ..PLAIN
    },
    Toolchain {
        name: "pipx",
        named_by: &[("PIPX_HOME", ""), ("XDG_DATA_HOME", "pipx")],
        places: &["~/.local/share/pipx", "~/.local/pipx"],
        readable: &["venvs", "shared"],
        ..PLAIN
    },
    Toolchain {
        name: "poetry's environments",
        named_by: &[
            ("POETRY_VIRTUALENVS_PATH", ""),
            ("POETRY_CACHE_DIR", "virtualenvs"),
            ("XDG_CACHE_HOME", "pypoetry/virtualenvs"),
        ],
        places: &["~/.cache/pypoetry/virtualenvs"],
        ..PLAIN
    },
    Toolchain {
        name: "virtual environments",
        named_by: &[("WORKON_HOME", "")],
        places: &["~/.virtualenvs", "~/.local/share/virtualenvs"],
        ..PLAIN
    },
    Toolchain {
        name: "conda",
        named_by: &[("CONDA_ROOT", "")],
        places: &["~/miniforge3", "~/miniconda3", "~/mambaforge", "~/anaconda3", "/opt/conda"],
        readable: &["bin", "lib", "include", "share", "ssl", "envs"],
        ..PLAIN
    },
    // Rust.
    Toolchain {
        name: "rustup",
        named_by: &[("RUSTUP_HOME", "")],
        places: &["~/.rustup"],
        readable: &["settings.toml", "toolchains"],
        linked: Some("toolchains"),
        variables: &[("RUSTUP_HOME", Value::Root(""))],
        ..PLAIN
    },
    Toolchain {
        name: "cargo",
        named_by: &[("CARGO_HOME", "")],
        places: &["~/.cargo"],
        programs: Programs::In(&["bin"]),
        readable: &["bin", "registry/index", "registry/cache", "git/db"],
        variables: &[("CARGO_HOME", Value::Cache("cargo-home"))],
        links: &[
            ("cargo-home/registry/index", "registry/index"),
            ("cargo-home/registry/cache", "registry/cache"),
            ("cargo-home/git/db", "git/db"),
        ],
        ..PLAIN
    },
    // Go.
    Toolchain {
        name: "Go",
        named_by: &[("GOROOT", "")],
        places: &["/usr/local/go", "/usr/lib/go"],
        programs: Programs::In(&["bin"]),
        ..PLAIN
    },
    Toolchain {
        name: "Go's programs",
        named_by: &[("GOBIN", ""), ("GOPATH", "bin")],
        places: &["~/go/bin"],
        programs: Programs::In(&[""]),
        ..PLAIN
    },
    Toolchain {
        name: "Go's module cache",
        named_by: &[("GOMODCACHE", ""), ("GOPATH", "pkg/mod")],
        places: &["~/go/pkg/mod"],
        readable: &["cache/download"],
        variables: &[
            ("GOPROXY", Value::Url("cache/download")),
            ("GOMODCACHE", Value::Cache("go-mod")),
            // The checksums in `go.sum` are compared as always.
            ("GOSUMDB", Value::Fixed("off")),
        ],
        ..PLAIN
    },
    // Java.
    Toolchain {
        name: "SDKMAN",
        named_by: &[("SDKMAN_DIR", "")],
        places: &["~/.sdkman"],
        programs: Programs::In(&[
            "candidates/java/current/bin",
            "candidates/maven/current/bin",
            "candidates/gradle/current/bin",
            "candidates/kotlin/current/bin",
            "candidates/scala/current/bin",
        ]),
        readable: &["candidates"],
        variables: &[("JAVA_HOME", Value::Root("candidates/java/current"))],
        ..PLAIN
    },
    Toolchain {
        name: "Maven of wrappers",
        named_by: &[("MAVEN_USER_HOME", "wrapper/dists")],
        places: &["~/.m2/wrapper/dists"],
        programs: Programs::Unpacked {
            choice: Choice {
                files: &[File::Wrapper(".mvn/wrapper/maven-wrapper.properties")],
                ..NEWEST
            },
        },
        ..PLAIN
    },
    Toolchain {
        name: "Gradle of wrappers",
        named_by: &[("GRADLE_USER_HOME", "wrapper/dists")],
        places: &["~/.gradle/wrapper/dists"],
        programs: Programs::Unpacked {
            choice: Choice {
                files: &[File::Wrapper("gradle/wrapper/gradle-wrapper.properties")],
                ..NEWEST
            },
        },
        ..PLAIN
    },
    Toolchain {
        name: "Gradle's cache",
        named_by: &[("GRADLE_USER_HOME", "")],
        places: &["~/.gradle"],
        readable: &["caches/modules-2", "jdks"],
        variables: &[
            ("GRADLE_RO_DEP_CACHE", Value::Root("caches")),
            ("GRADLE_USER_HOME", Value::Cache("gradle")),
        ],
        ..PLAIN
    },
    // JavaScript.
    Toolchain {
        name: "nvm",
        named_by: &[("NVM_DIR", "")],
        places: &["~/.nvm", "~/.config/nvm"],
        programs: Programs::Versions {
            below: "versions/node",
            programs: "bin",
            choice: Choice { files: NODE_VERSIONS, default: Some("alias/default"), ..NEWEST },
        },
        readable: &["versions"],
        ..PLAIN
    },
    Toolchain {
        name: "fnm",
        named_by: &[("FNM_DIR", ""), ("XDG_DATA_HOME", "fnm")],
        places: &["~/.local/share/fnm"],
        programs: Programs::Versions {
            below: "node-versions",
            programs: "installation/bin",
            choice: Choice { files: NODE_VERSIONS, ..NEWEST },
        },
        readable: &["node-versions"],
        ..PLAIN
    },
    Toolchain {
        name: "Volta",
        named_by: &[("VOLTA_HOME", "")],
        places: &["~/.volta"],
        programs: Programs::Versions {
            below: "tools/image/node",
            programs: "bin",
            choice: Choice { files: NODE_VERSIONS, ..NEWEST },
        },
        readable: &["tools/image"],
        ..PLAIN
    },
    Toolchain {
        name: "npm's global packages",
        named_by: &[("NPM_CONFIG_PREFIX", ""), ("npm_config_prefix", "")],
        places: &["~/.npm-global"],
        programs: Programs::In(&["bin"]),
        readable: &["bin", "lib/node_modules"],
        ..PLAIN
    },
    Toolchain {
        name: "npm's cache",
        named_by: &[("NPM_CONFIG_CACHE", ""), ("npm_config_cache", "")],
        places: &["~/.npm"],
        readable: &["_cacache"],
        variables: &[("npm_config_cache", Value::Cache("npm"))],
        links: &[("npm/_cacache", "_cacache")],
        ..PLAIN
    },
    Toolchain {
        name: "pnpm",
        named_by: &[("PNPM_HOME", ""), ("XDG_DATA_HOME", "pnpm")],
        places: &["~/.local/share/pnpm"],
        programs: Programs::In(&[""]),
        variables: &[("PNPM_HOME", Value::Root(""))],
        ..PLAIN
    },
    Toolchain {
        name: "yarn's packages",
        named_by: &[("YARN_GLOBAL_FOLDER", "cache")],
        places: &["~/.yarn/berry/cache"],
        ..PLAIN
    },
    Toolchain {
        name: "corepack",
        named_by: &[("COREPACK_HOME", ""), ("XDG_CACHE_HOME", "node/corepack")],
        places: &["~/.cache/node/corepack"],
        variables: &[("COREPACK_HOME", Value::Root(""))],
        ..PLAIN
    },
];

/// The tools of asdf and mise whose names in a project's files differ from those of their
/// directories.
const TOOL_NAMES: [&[&str]; 3] = [&["node", "nodejs"], &["go", "golang"], &["python", "python3"]];

/// The characters of a path that stand for themselves in a `file:` URL.
const IN_URL: &AsciiSet =
    &NON_ALPHANUMERIC.remove(b'/').remove(b'-').remove(b'_').remove(b'.').remove(b'~');

impl Toolchain {
    /// Looks for the toolchain in an account.
    pub(super) fn find(&self, account: &Account<'_>) -> Option<Found> {
        let root = self.root(account)?;
        let mut found = Found { name: self.name, ..Found::default() };
        let readable = self.readable.iter().map(|below| root.join(below));
        found.readable = readable.filter_map(|path| account.existing(&path)).collect();
        if let Some(linked) = self.linked.map(|below| root.join(below)) {
            let entries = account.names(&linked).into_iter().map(|name| linked.join(name));
            let targets = entries.filter_map(|entry| account.directory(&account.link(&entry)?));
            found.readable.extend(targets);
        }
        match &self.programs {
            Programs::None => {}
            Programs::In(places) => {
                found.programs =
                    places.iter().filter_map(|at| account.directory(&root.join(at))).collect();
            }
            Programs::Versions { below, programs, choice } => {
                let versions = root.join(below);
                let chosen = choose(&mut found, account, (&root, &versions), choice);
                let directory = chosen.map(|version| versions.join(version).join(programs));
                found.programs.extend(directory.and_then(|at| account.directory(&at)));
            }
            Programs::Tools { below } => tools(&mut found, account, &root.join(below)),
            Programs::Unpacked { choice } => {
                let chosen = choose(&mut found, account, (&root, &root), choice);
                let at = chosen.and_then(|version| unpacked(account, &root.join(version)));
                found.programs.extend(at.and_then(|at| account.directory(&at)));
            }
        }
        if found.readable.is_empty() && found.programs.is_empty() {
            return None;
        }
        found.variables =
            self.variables.iter().filter_map(|it| variable(it, account, &root)).collect();
        let links = self.links.iter().filter_map(|&(place, below)| {
            Some(Link { place, target: account.directory(&root.join(below))? })
        });
        found.links = links.collect();
        if self.name == "cargo" {
            found.files.extend(super::cargo::configuration(account, &root));
        }
        Some(found)
    }

    /// The root of the toolchain. It may be the home directory or above it; what is used of it may
    /// not.
    fn root(&self, account: &Account<'_>) -> Option<PathBuf> {
        let named = self.named_by.iter().filter_map(|(variable, below)| {
            Some(PathBuf::from(account.variable(variable)?).join(below))
        });
        let places = self.places.iter().map(|place| account.path(place));
        let mut roots = named.chain(places).filter(|root| !account.is_in_workspace(root));
        roots.find_map(|root| account.root(&root))
    }
}

/// Chooses among the versions in a directory, and notes what is not installed. `places`: the root of
/// the toolchain, and the directory.
fn choose(
    found: &mut Found,
    account: &Account<'_>,
    places: (&Path, &Path),
    choice: &Choice,
) -> Option<String> {
    match choice.choose(account, places.0, &account.names(places.1)) {
        Chosen::Installed(version) => Some(version),
        Chosen::Missing(wanted, other) => {
            let wanted = cofferdam_text::shorten(&wanted, 80);
            let name = found.name;
            found.notes.push(match &other {
                Some(other) => {
                    format!(
                        "{name} has no version {wanted:?}, which the project names; {other} is used"
                    )
                }
                None => format!("{name} has no version {wanted:?}, which the project names"),
            });
            other
        }
        Chosen::System | Chosen::None => None,
    }
}

/// Adds one version of each tool.
fn tools(found: &mut Found, account: &Account<'_>, installs: &Path) {
    for tool in account.names(installs) {
        let versions = installs.join(&tool);
        let installed = account.names(&versions);
        let names = TOOL_NAMES.into_iter().find(|names| names.contains(&tool.as_str()));
        let own = [tool.as_str()];
        let wanted = wanted_of_tool(account, names.unwrap_or(&own));
        let mut chosen: Vec<String> = Vec::new();
        for wanted in wanted.iter().filter(|wanted| *wanted != "system") {
            match matching(&installed, wanted) {
                Some(version) => chosen.push(version),
                None => {
                    let wanted = cofferdam_text::shorten(wanted, 80);
                    let name = found.name;
                    found.notes.push(format!("{name} has no version {wanted:?} of {tool}"));
                }
            }
        }
        if wanted.is_empty() {
            chosen.extend(newest(installed.iter()));
        }
        for version in chosen {
            let version = versions.join(version);
            if tool == "java" && account.directory(&version.join("bin")).is_some() {
                found.variables.extend(own_variable("JAVA_HOME", account.directory(&version)));
            }
            let places = ["go/bin", "bin", ""].map(|below| version.join(below));
            found.programs.extend(places.iter().find_map(|at| account.directory(at)));
        }
    }
}

/// The versions of a tool that a project or else the account names.
fn wanted_of_tool(account: &Account<'_>, names: &[&str]) -> Vec<String> {
    const PROJECT: [(&str, bool); 3] =
        [("mise.toml", true), (".mise.toml", true), (".tool-versions", false)];
    const ACCOUNT: [(&str, bool); 2] =
        [("~/.config/mise/config.toml", true), ("~/.tool-versions", false)];
    let in_project = PROJECT.iter().find_map(|(file, is_toml)| {
        let texts = account.project_files(file);
        texts.iter().find_map(|text| version::of_tool(text, names, *is_toml))
    });
    let in_account = || {
        ACCOUNT.iter().find_map(|(file, is_toml)| {
            version::of_tool(&account.text(&account.path(file))?, names, *is_toml)
        })
    };
    in_project.or_else(in_account).unwrap_or_default()
}

/// The directory of programs in an archive that a wrapper has unpacked.
fn unpacked(account: &Account<'_>, version: &Path) -> Option<PathBuf> {
    let below = |at: &Path| account.names(at).into_iter().map(|name| at.join(name)).collect();
    let hashes: Vec<PathBuf> = below(version);
    let inner: Vec<PathBuf> = hashes.iter().flat_map(|hash| below(hash)).collect();
    let mut places = hashes.iter().chain(&inner).map(|at| at.join("bin"));
    places.find(|at| account.directory(at).is_some())
}

fn own_variable(name: &'static str, path: Option<PathBuf>) -> Option<Variable> {
    let value = path?.to_str()?.to_owned();
    Some(Variable { name, value })
}

fn variable(
    (name, value): &(&'static str, Value),
    account: &Account<'_>,
    root: &Path,
) -> Option<Variable> {
    let in_root = |below: &str| account.root(&root.join(below));
    match value {
        Value::Fixed(value) => Some(Variable { name, value: (*value).to_owned() }),
        Value::Root(below) => own_variable(name, in_root(below)),
        Value::Url(below) => {
            let path = in_root(below)?;
            let value = format!("file://{}", utf8_percent_encode(path.to_str()?, IN_URL));
            Some(Variable { name, value })
        }
        Value::Cache(place) => Some(Variable { name, value: format!("{CACHE}/{place}") }),
    }
}
