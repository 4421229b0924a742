//! Origins of package registries, as data files.

use std::collections::BTreeSet;
use std::sync::LazyLock;

use schemars::JsonSchema;
use serde::Deserialize;

use crate::policy::Origin;

/// The name of a bundle.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum BundleName {
    /// npm, pnpm and yarn.
    Npm,
    /// pip, uv and poetry.
    Pypi,
    /// cargo.
    Crates,
    /// Go.
    Go,
    /// Maven and Gradle.
    Maven,
    /// apt.
    Debian,
}

/// Origins that tools of one kind use by default.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Bundle {
    /// What it is, for the user.
    pub description: String,
    /// Its origins.
    pub origins: Vec<Origin>,
    /// The methods of requests; empty for all.
    #[serde(default)]
    pub methods: BTreeSet<String>,
    /// What the paths of requests begin with; empty for all.
    #[serde(default)]
    pub paths: Vec<String>,
}

static NPM: LazyLock<Bundle> = LazyLock::new(|| parse(include_str!("../bundles/npm.toml")));
static PYPI: LazyLock<Bundle> = LazyLock::new(|| parse(include_str!("../bundles/pypi.toml")));
static CRATES: LazyLock<Bundle> = LazyLock::new(|| parse(include_str!("../bundles/crates.toml")));
static GO: LazyLock<Bundle> = LazyLock::new(|| parse(include_str!("../bundles/go.toml")));
static MAVEN: LazyLock<Bundle> = LazyLock::new(|| parse(include_str!("../bundles/maven.toml")));
static DEBIAN: LazyLock<Bundle> = LazyLock::new(|| parse(include_str!("../bundles/debian.toml")));

/// A file that is not valid has no origins; a test parses all of them.
fn parse(text: &str) -> Bundle {
    toml::from_str(text).unwrap_or_else(|_| Bundle {
        description: String::new(),
        origins: Vec::new(),
        methods: BTreeSet::new(),
        paths: Vec::new(),
    })
}

impl BundleName {
    /// All bundles.
    pub const ALL: [Self; 6] =
        [Self::Npm, Self::Pypi, Self::Crates, Self::Go, Self::Maven, Self::Debian];

    /// The name as it is written in the settings.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Npm => "npm",
            Self::Pypi => "pypi",
            Self::Crates => "crates",
            Self::Go => "go",
            Self::Maven => "maven",
            Self::Debian => "debian",
        }
    }

    /// What the bundle holds.
    pub fn bundle(self) -> &'static Bundle {
        match self {
            Self::Npm => &NPM,
            Self::Pypi => &PYPI,
            Self::Crates => &CRATES,
            Self::Go => &GO,
            Self::Maven => &MAVEN,
            Self::Debian => &DEBIAN,
        }
    }

    /// The bundle that has a host, if any.
    pub fn of_host(host: &str) -> Option<Self> {
        let has = |name: &Self| {
            let origins = &name.bundle().origins;
            origins.iter().any(|origin| origin.authority() == host)
        };
        Self::ALL.into_iter().find(has)
    }
}
