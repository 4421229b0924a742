//! Catalogues: signed lists of plugins, with what each is and where it comes from. A catalogue is one file
//! (`catalogue.toml`, and its signature beside it), on the web, in a registry under the tag
//! `catalogue`, or on this machine. It grants nothing: what it says about a plugin helps to find it, and
//! is checked against the plugin itself when that is installed.

use serde::{Deserialize, Serialize};

use super::digest::Digest;
use super::manifest::{Manifest, is_name};
use super::search::Words;
use super::signature::Signer;
use super::source::Source;

use cofferdam_text::{escape_control, shorten};

/// The name of the file.
pub const FILE: &str = "catalogue.toml";

/// The tag of a catalogue in a registry.
pub const TAG: &str = "catalogue";

/// The largest size of a catalogue in bytes.
pub const MAX_CATALOGUE_BYTES: usize = 8 << 20;

/// The version of the file format.
const VERSION: u32 = 1;

/// The longest text of an entry that is shown, in bytes.
const MAX_TEXT_BYTES: usize = 300;

/// The most tools and backends of one plugin that are listed.
const MAX_NAMES: usize = 100;

/// A list of plugins.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Catalogue {
    version: u32,
    /// The plugins, in the order of the file.
    #[serde(default)]
    pub plugins: Vec<Entry>,
}

/// A plugin in a catalogue.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Entry {
    /// The name of the plugin.
    pub name: String,
    /// Its version.
    pub version: String,
    /// What it is for, in one sentence.
    pub description: String,
    /// An SPDX expression.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub license: Option<String>,
    /// Where it comes from. A path that begins with `./` is relative to the catalogue.
    pub source: Source,
    /// The content, if the catalogue lists one version only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub digest: Option<Digest>,
    /// The key that signs it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub signer: Option<Signer>,
    /// What it asks for, in words.
    #[serde(default)]
    pub asks_for: Vec<String>,
    /// The names of its tools.
    #[serde(default)]
    pub tools: Vec<String>,
    /// The names of its backends.
    #[serde(default)]
    pub backends: Vec<String>,
}

/// The text is not a catalogue.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CatalogueError {
    /// It is larger than a catalogue may be.
    #[error("it has more than {MAX_CATALOGUE_BYTES} bytes")]
    TooLarge,
    /// It is not TOML of this form.
    #[error("it is no catalogue: {0}")]
    Malformed(String),
    /// It has another version.
    #[error("it has version {0}; this host reads version {VERSION}")]
    Version(u32),
    /// An entry has a name that no plugin can have.
    #[error("'{0}' is no name of a plugin")]
    Name(String),
    /// An entry names a file where only addresses or paths relative to the catalogue are useful.
    #[error("{name} comes from {from}, which is no path relative to this catalogue")]
    Place {
        /// The name of the plugin.
        name: String,
        /// What the entry says.
        from: Box<Source>,
    },
}

impl Catalogue {
    /// A catalogue of plugins.
    pub fn new(plugins: Vec<Entry>) -> Self {
        Self { version: VERSION, plugins }
    }

    /// Parses a catalogue whose signature has been checked. Its texts are short and without control
    /// characters afterwards. If `place` says where it comes from, the sources of its plugins are absolute.
    ///
    /// # Errors
    /// Those of [`CatalogueError`].
    pub fn parse(bytes: &[u8], place: Option<&Source>) -> Result<Self, CatalogueError> {
        if bytes.len() > MAX_CATALOGUE_BYTES {
            return Err(CatalogueError::TooLarge);
        }
        let malformed =
            |error: &dyn std::fmt::Display| CatalogueError::Malformed(shown(&error.to_string()));
        let text = std::str::from_utf8(bytes).map_err(|error| malformed(&error))?;
        let mut catalogue: Self = toml::from_str(text).map_err(|error| malformed(&error))?;
        if catalogue.version != VERSION {
            return Err(CatalogueError::Version(catalogue.version));
        }
        catalogue.plugins.iter_mut().try_for_each(|entry| entry.put_right(place))?;
        Ok(catalogue)
    }

    /// The catalogue as text.
    ///
    /// # Errors
    /// TOML can't have it, which is a fault of the host.
    pub fn to_text(&self) -> Result<String, toml::ser::Error> {
        toml::to_string(self)
    }
}

impl Entry {
    /// The entry of a plugin from `source`.
    pub fn new(manifest: &Manifest, source: Source, digest: Digest, asks_for: Vec<String>) -> Self {
        Self {
            name: manifest.name.clone(),
            version: manifest.version.clone(),
            description: manifest.description.clone(),
            license: manifest.license.clone(),
            source,
            digest: Some(digest),
            signer: None,
            asks_for,
            tools: manifest.tools.iter().map(|tool| tool.name.clone()).collect(),
            backends: manifest.backends.iter().map(|backend| backend.name.clone()).collect(),
        }
    }

    fn put_right(&mut self, place: Option<&Source>) -> Result<(), CatalogueError> {
        if !is_name(&self.name) {
            return Err(CatalogueError::Name(shown(&self.name)));
        }
        if let (Source::File(path), Some(place)) = (&self.source, place) {
            let beside = path.strip_prefix(".").ok().and_then(|name| place.sibling(name.to_str()?));
            let is_local = matches!(place, Source::File(_)) && path.is_absolute();
            self.source = match beside {
                Some(beside) => beside,
                None if is_local => self.source.clone(),
                None => {
                    let (name, from) = (self.name.clone(), self.source.clone().into());
                    return Err(CatalogueError::Place { name, from });
                }
            };
        }
        for list in [&mut self.asks_for, &mut self.tools, &mut self.backends] {
            list.truncate(MAX_NAMES);
        }
        let texts = [&mut self.version, &mut self.description].into_iter().chain(&mut self.license);
        let lists = [&mut self.asks_for, &mut self.tools, &mut self.backends];
        texts.chain(lists.into_iter().flatten()).for_each(|text| *text = shown(text));
        Ok(())
    }

    /// The command that installs it, to be copied into a shell.
    pub fn install_command(&self) -> String {
        let mut command = self.source.install_command();
        if let Some(signer) = &self.signer {
            command.push_str(&format!(" --key {signer}"));
        }
        if let Some(digest) = &self.digest {
            command.push_str(&format!(" --digest {digest}"));
        }
        command
    }

    fn rank(&self, words: &Words) -> Option<(usize, u32)> {
        let names = self.tools.iter().chain(&self.backends).map(String::as_str);
        let names = names.collect::<Vec<_>>().join(" ");
        let places = [(16, self.name.as_str()), (4, &names), (1, &self.description)];
        words.rank(&self.name, places)
    }
}

/// The entries that match a word, the best first; all of them, in their order, without a word.
pub fn search<'a, T>(
    entries: impl IntoIterator<Item = (T, &'a Entry)>,
    query: &str,
) -> Vec<(T, &'a Entry)> {
    let words = Words::of(query);
    if words.is_empty() {
        return entries.into_iter().collect();
    }
    let ranked = entries.into_iter().filter_map(|found| Some((found.1.rank(&words)?, found)));
    let mut ranked: Vec<_> = ranked.collect();
    ranked.sort_by(|left, right| right.0.cmp(&left.0).then(left.1.1.name.cmp(&right.1.1.name)));
    ranked.into_iter().map(|(_, found)| found).collect()
}

fn shown(text: &str) -> String {
    shorten(&escape_control(text), MAX_TEXT_BYTES)
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use super::*;

    fn parsed(entry: &str, place: &str) -> Result<Entry, CatalogueError> {
        let text = format!("version = 1\n[[plugins]]\nversion = '1.0.0'\n{entry}\n");
        let catalogue = Catalogue::parse(text.as_bytes(), Some(&place.parse().unwrap()))?;
        assert_eq!(catalogue.plugins.len(), 1);
        Ok(catalogue.plugins[0].clone())
    }

    fn from(source: &str, place: &str) -> String {
        let entry = format!("name = 'lines'\ndescription = 'Sorts'\nsource = '{source}'");
        match parsed(&entry, place) {
            Ok(entry) => entry.source.to_string(),
            Err(error) => error.to_string(),
        }
    }

    #[test]
    fn sources_are_relative_to_the_catalogue() {
        let web = "https://example.org/plugins/catalogue.toml?v=2";
        assert_eq!(from("./a/lines.wasm", web), "https://example.org/plugins/a/lines.wasm");
        assert_eq!(from("./lines.wasm", "/srv/catalogue.toml"), "/srv/lines.wasm");
        assert_eq!(from("/srv/lines.wasm", "/etc/catalogue.toml"), "/srv/lines.wasm");
        let registry = "oci://ghcr.io/ada/all:catalogue";
        assert_eq!(from("oci://ghcr.io/ada/lines:1.0", registry), "oci://ghcr.io/ada/lines:1.0");
        // A catalogue from elsewhere names no file of this machine.
        for (source, place) in [("/srv/lines.wasm", web), ("./lines.wasm", registry)] {
            assert!(from(source, place).contains("no path relative"), "{source}");
        }
        assert!(from("./../lines.wasm", web).contains("no catalogue"));
        assert!(from("./a b.wasm", web).contains("no path relative"));
    }

    #[test]
    fn texts_are_harmless_and_commands_are_quoted() {
        let digest = Digest::of(b"");
        let entry = format!(
            "name = 'lines'\ndescription = \"Sorts\\u001b[2J\"\nsource = \"/srv/it's.wasm\"\n\
             signer = 'RWT1Wfe+ewYn3o8J/9rBd+ue1EtlQN2l8lG+OeSvBjVh50+3lVeDTPDN'\n\
             digest = '{digest}'\ntools = ['sort']"
        );
        let entry = parsed(&entry, "/srv/catalogue.toml").unwrap();
        assert!(!entry.description.contains('\u{1b}'), "{}", entry.description);
        let command = entry.install_command();
        assert!(command.starts_with(r"cofferdam plugin install '/srv/it'\''s.wasm' --key RWT1"));
        assert!(command.ends_with(&format!("--digest {digest}")), "{command}");
        let wrong = "name = 'a; rm -rf .'\ndescription = ''\nsource = '/a.wasm'";
        assert!(matches!(parsed(wrong, "/c.toml"), Err(CatalogueError::Name(_))));
        let unknown = "name = 'a'\ndescription = ''\nsource = '/a.wasm'\nrun = 'x'";
        assert!(matches!(parsed(unknown, "/c.toml"), Err(CatalogueError::Malformed(_))));
        let newer = Catalogue::parse(b"version = 2", None);
        assert_eq!(newer, Err(CatalogueError::Version(2)));
    }

    #[test]
    fn the_best_match_comes_first() {
        let entry = |name: &str, description: &str, tool: &str| Entry {
            name: name.to_owned(),
            version: "1.0.0".to_owned(),
            description: description.to_owned(),
            license: None,
            source: "/a.wasm".parse().unwrap(),
            digest: None,
            signer: None,
            asks_for: Vec::new(),
            tools: vec![tool.to_owned()],
            backends: Vec::new(),
        };
        let all = [
            entry("lines", "Sorts lines", "sort"),
            entry("query", "Queries SQLite databases", "select"),
            entry("sqlite", "Databases", "run"),
        ];
        let names = |query: &str| -> Vec<&str> {
            let found = search(all.iter().map(|entry| ((), entry)), query);
            found.into_iter().map(|(_, entry)| entry.name.as_str()).collect()
        };
        assert_eq!(names("sqlite"), ["sqlite", "query"]);
        assert_eq!(names("select databases"), ["query", "sqlite"]);
        assert_eq!(names(""), ["lines", "query", "sqlite"]);
        assert_eq!(names("nothing"), [""; 0]);
        let text = Catalogue::new(all.to_vec()).to_text().unwrap();
        let read = Catalogue::parse(text.as_bytes(), None).unwrap();
        assert_eq!(read.plugins, all);
    }
}
