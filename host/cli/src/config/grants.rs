//! Edits the grants in the user's own settings in place, keeping comments and formatting, and finds
//! the line of a setting.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{self, Write as _};
use std::path::Path;

use toml_edit::{
    Array, Document, DocumentMut, InlineTable, Item, Table, TableLike, TomlError, Value, value,
};

use super::ConfigError;
use cofferdam_core::policy::{
    Capabilities, CatalogueSettings, Files, GrantSettings, Policy, RegistrySettings, Settings,
};
use cofferdam_plugin::provenance::Trust;
use cofferdam_workspace::bounded_text;

const GRANTS: &str = "grants";

const CONFIG: &str = "config";

/// To which plugin an existing entry of the same name belongs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Owner {
    /// To the plugin itself, which was installed before. Its other fields stay, such as headers of
    /// an origin that is still granted.
    Known,
    /// To a built-in plugin, which has its default permissions if it has no entry. An entry that
    /// grants nothing therefore stays, empty.
    BuiltIn,
    /// To another plugin that had the name before, or to none: the new plugin inherits none of its
    /// fields.
    Other,
}

/// Returns the settings `text` with exactly these capabilities granted to a plugin. Environment
/// variables stay while the plugin may run any program: they are for its programs, and a program
/// that is granted later must not get variables that the user did not name again. If nothing is
/// granted, the entry is removed (except for [`Owner::BuiltIn`]).
///
/// # Errors
/// `Malformed` if the text is not TOML; `Invalid` if its grants are not tables.
pub fn with_grant(
    text: &str,
    plugin: &str,
    granted: &Capabilities,
    owner: Owner,
) -> Result<String, String> {
    let mut document: DocumentMut = text.parse().map_err(|error: TomlError| error.to_string())?;
    // Comments at the end belong to the entries before them, not to a new entry.
    let end = document.trailing().as_str().unwrap_or_default().to_owned();
    let gap = if text.trim().is_empty() { String::new() } else { format!("{end}\n") };
    if !document.contains_key(GRANTS) {
        let mut grants = Table::new();
        grants.set_implicit(true);
        document.insert(GRANTS, Item::Table(grants));
    }
    let no_table = |what: &str| format!("'{what}' is no table");
    let mut is_last = false;
    let inline = document.get(GRANTS).is_some_and(Item::is_inline_table);
    let grants =
        document.get_mut(GRANTS).and_then(Item::as_table_like_mut).ok_or(no_table(GRANTS))?;
    // A plugin that is granted nothing still reads its configuration.
    let is_configured = grants
        .get(plugin)
        .and_then(Item::as_table_like)
        .is_some_and(|entry| owner != Owner::Other && entry.contains_key(CONFIG));
    if *granted == Capabilities::NONE && owner != Owner::BuiltIn && !is_configured {
        grants.remove(plugin);
        if grants.is_empty() {
            document.remove(GRANTS);
        }
        return Ok(document.to_string());
    }
    if !grants.contains_key(plugin) {
        if inline {
            grants.insert(plugin, Item::Value(InlineTable::new().into()));
        } else {
            let mut entry = Table::new();
            entry.decor_mut().set_prefix(gap);
            grants.insert(plugin, Item::Table(entry));
            is_last = true;
        }
    }
    let entry = grants
        .get_mut(plugin)
        .and_then(Item::as_table_like_mut)
        .ok_or_else(|| no_table(&format!("{GRANTS}.{plugin}")))?;
    if owner == Owner::Other || *granted == Capabilities::NONE {
        let config = entry.remove(CONFIG).filter(|_| is_configured);
        entry.clear();
        if let Some(config) = config {
            entry.insert(CONFIG, config);
        }
    }
    set_capabilities(entry, granted);
    if is_last {
        document.set_trailing("");
    }
    Ok(document.to_string())
}

/// Writes all capabilities of an entry.
fn set_capabilities(entry: &mut dyn TableLike, granted: &Capabilities) {
    // A field that is not written could not be revoked. `any_origin` is requested by a manifest and
    // is never granted.
    let Capabilities {
        files,
        scan,
        process,
        backends,
        cache,
        history,
        git_commit,
        background,
        tools,
        agents,
        http,
        any_origin: _,
        consent,
        questions,
    } = granted;
    set(entry, "files", (*files > Files::None).then(|| files.to_string().into()));
    set(entry, "scan", scan.then(|| true.into()));
    set_names(entry, "process", process.clone());
    if process.is_empty() {
        entry.remove("environment");
        entry.remove("network");
    }
    for rules in ["arguments", "starts"] {
        keep_rules(entry, rules, process);
    }
    set_names(entry, "backends", backends.iter().map(ToString::to_string).collect());
    set(entry, "cache", cache.then(|| true.into()));
    set(entry, "history", history.then(|| true.into()));
    set(entry, "git-commit", git_commit.then(|| true.into()));
    set(entry, "background", background.then(|| true.into()));
    set(entry, "tools", tools.then(|| true.into()));
    set(entry, "questions", questions.then(|| true.into()));
    set_names(entry, "agents", agents.clone());
    set_names(entry, "http", http.iter().map(ToString::to_string).collect());
    set_consent(entry, consent.keys().map(String::as_str).collect());
}

/// Makes the entry have rules for exactly these classes. A new class is one that the user is asked about;
/// rules that are there stay.
fn set_consent(entry: &mut dyn TableLike, classes: BTreeSet<&str>) {
    const CONSENT: &str = "consent";
    if classes.is_empty() {
        entry.remove(CONSENT);
        return;
    }
    if !entry.contains_key(CONSENT) {
        entry.insert(CONSENT, Item::Value(InlineTable::new().into()));
    }
    let Some(rules) = entry.get_mut(CONSENT).and_then(Item::as_table_like_mut) else { return };
    let known: Vec<String> = rules.iter().map(|(class, _)| class.to_owned()).collect();
    for class in known.iter().filter(|class| !classes.contains(class.as_str())) {
        rules.remove(class);
    }
    for class in classes.into_iter().filter(|class| !known.iter().any(|known| known == class)) {
        let mut asked = InlineTable::new();
        asked.insert("ask", ["*"].into_iter().collect::<Array>().into());
        rules.insert(class, Item::Value(asked.into()));
    }
}

/// Removes the rules about programs that are not granted: such a rule is an error.
fn keep_rules(entry: &mut dyn TableLike, key: &str, process: &BTreeSet<String>) {
    let Some(rules) = entry.get_mut(key).and_then(Item::as_table_like_mut) else { return };
    let programs: Vec<String> = rules.iter().map(|(program, _)| program.to_owned()).collect();
    for program in programs.iter().filter(|program| !process.contains(*program)) {
        rules.remove(program);
    }
    if rules.is_empty() {
        entry.remove(key);
    }
}

/// Sets a value, or removes it; comments around the old value stay.
fn set(entry: &mut dyn TableLike, key: &str, new: Option<Value>) {
    match (new, entry.get_mut(key).and_then(Item::as_value_mut)) {
        (None, _) => {
            entry.remove(key);
        }
        (Some(mut new), Some(old)) => {
            *new.decor_mut() = old.decor().clone();
            *old = new;
        }
        (Some(new), None) => {
            entry.insert(key, value(new));
        }
    }
}

/// Makes a list contain exactly these names. Elements that stay are not rewritten: the element of
/// an origin may be a table with more fields.
fn set_names(entry: &mut dyn TableLike, key: &str, mut names: BTreeSet<String>) {
    if names.is_empty() {
        entry.remove(key);
        return;
    }
    match entry.get_mut(key) {
        Some(Item::ArrayOfTables(tables)) => {
            tables.retain(|table| {
                table
                    .get("origin")
                    .and_then(Item::as_str)
                    .is_some_and(|name| keep(name, &mut names))
            });
            for name in names {
                let mut table = Table::new();
                table.insert("origin", value(name));
                tables.push(table);
            }
        }
        Some(Item::Value(Value::Array(array))) => {
            array.retain(|element| name_of(element).is_some_and(|name| keep(name, &mut names)));
            for name in names {
                array.push(name);
            }
        }
        _ => {
            entry.insert(key, value(names.into_iter().collect::<Array>()));
        }
    }
}

/// Returns whether an element stays. If so, removes its name from `names`, since it need not be
/// added again.
fn keep(name: &str, names: &mut BTreeSet<String>) -> bool {
    // Origins are compared in their canonical form; users may write them differently.
    let canonical = name.parse::<cofferdam_core::policy::Origin>().map(|origin| origin.to_string());
    names.remove(name) || canonical.is_ok_and(|name| names.remove(&name))
}

fn name_of(element: &Value) -> Option<&str> {
    match element {
        Value::InlineTable(table) => table.get("origin")?.as_str(),
        element => element.as_str(),
    }
}

/// Returns the line of a setting, counted from 1: that of the last of `keys` that exists. `None` if
/// the first key does not exist.
pub fn line(text: &str, keys: &[&str]) -> Option<usize> {
    let document = Document::parse(text).ok()?;
    let mut table: &dyn TableLike = document.as_table();
    let mut at = None;
    for key in keys {
        let Some((key, item)) = table.get_key_value(key) else { break };
        at = key.span().or_else(|| item.span()).or(at);
        match item.as_table_like() {
            Some(inner) => table = inner,
            None => break,
        }
    }
    Some(text[..at?.start].matches('\n').count() + 1)
}

/// Returns what the user's own settings grant a plugin; nothing if they have no entry for it.
///
/// # Errors
/// `Io` if the file can't be read; `Malformed` or `Invalid` if its contents are wrong.
pub fn granted_to(path: &Path, plugin: &str) -> Result<Capabilities, ConfigError> {
    let settings = read(path)?;
    Ok(settings.grants.get(plugin).map_or(Capabilities::NONE, GrantSettings::capabilities))
}

/// Returns whether the user's own settings have an entry for a plugin.
///
/// # Errors
/// `Io` if the file can't be read; `Malformed` or `Invalid` if its contents are wrong.
pub fn has_entry(path: &Path, plugin: &str) -> Result<bool, ConfigError> {
    Ok(read(path)?.grants.contains_key(plugin))
}

/// Returns the user's own settings for registries, which say where a registry may redirect to.
///
/// # Errors
/// `Io` if the file can't be read; `Malformed` or `Invalid` if its contents are wrong.
pub fn registries(path: &Path) -> Result<BTreeMap<String, RegistrySettings>, ConfigError> {
    Ok(read(path)?.registries)
}

/// Returns the catalogues of plugins in the user's own settings.
///
/// # Errors
/// `Io` if the file can't be read; `Malformed` or `Invalid` if its contents are wrong.
pub fn catalogues(path: &Path) -> Result<BTreeMap<String, CatalogueSettings>, ConfigError> {
    Ok(read(path)?.catalogues)
}

/// Returns whose attestations of plugins the user's own settings trust.
///
/// # Errors
/// `Io` if a file can't be read; `Malformed` or `Invalid` if its contents are wrong.
pub fn trust(path: &Path) -> Result<Trust, ConfigError> {
    let (root, trust) = match read(path)?.sigstore.trusted_root {
        Some(root) => {
            let text = bounded_text::read(&root)
                .map_err(|source| ConfigError::Io { path: root.clone(), source })?;
            (root, Trust::parse(&text))
        }
        None => (path.to_owned(), Trust::embedded()),
    };
    trust.map_err(|error| ConfigError::Invalid { path: root, message: error.to_string() })
}

fn read(path: &Path) -> Result<Settings, ConfigError> {
    match bounded_text::read(path) {
        Ok(text) => Settings::parse(&text)
            .map_err(|source| ConfigError::Malformed { path: path.to_owned(), source }),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Settings::default()),
        Err(source) => Err(ConfigError::Io { path: path.to_owned(), source }),
    }
}

/// Changes what the user's own settings grant a plugin. The file is replaced atomically and keeps
/// its permissions; a symbolic link is followed and its target replaced.
///
/// # Errors
/// `Io` if the file can't be read or written; `Malformed` or `Invalid` if its contents are wrong
/// before or after the change.
#[expect(clippy::disallowed_methods, reason = "the user's settings are named by a path")]
pub fn set_grant(
    path: &Path,
    plugin: &str,
    granted: &Capabilities,
    owner: Owner,
) -> Result<(), ConfigError> {
    let io = |source| ConfigError::Io { path: path.to_owned(), source };
    let malformed = |source| ConfigError::Malformed { path: path.to_owned(), source };
    let old = match bounded_text::read(path) {
        Ok(text) => Some(text),
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        Err(error) => return Err(io(error)),
    };
    Settings::parse(old.as_deref().unwrap_or_default()).map_err(malformed)?;
    let text = with_grant(old.as_deref().unwrap_or_default(), plugin, granted, owner)
        .map_err(|why| io(io::Error::other(why)))?;
    let mut settings = Settings::parse(&text).map_err(malformed)?;
    // Rules about programs may not fit the programs that are granted now.
    let entry = settings.grants.remove_entry(plugin).into_iter().collect();
    Policy::check(&Settings { grants: entry, ..Settings::default() }).map_err(|error| {
        ConfigError::Invalid { path: path.to_owned(), message: error.to_string() }
    })?;
    if old.as_deref() == Some(&text) || (old.is_none() && text.trim().is_empty()) {
        return Ok(());
    }
    let replace = || -> io::Result<()> {
        let target = if old.is_some() { path.canonicalize()? } else { path.to_owned() };
        let folder = target.parent().unwrap_or(Path::new("/"));
        fs::create_dir_all(folder)?;
        let mut file = tempfile::NamedTempFile::new_in(folder)?;
        file.write_all(text.as_bytes())?;
        if old.is_some() {
            file.as_file().set_permissions(fs::metadata(&target)?.permissions())?;
        }
        file.as_file().sync_all()?;
        file.persist(&target)?;
        Ok(())
    };
    replace().map_err(io)
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use super::*;
    use cofferdam_core::policy::{Capability, ConsentSettings, OriginSettings};

    fn set(words: &[&str]) -> Capabilities {
        words.iter().map(|word| word.parse::<Capability>().unwrap()).collect()
    }

    /// Returns the grants of the plugin `a` as words.
    fn granted(text: &str) -> String {
        let settings = Settings::parse(text).unwrap();
        let policy = Policy::new(&[settings]).unwrap();
        let all = set(&[
            "files=write",
            "scan",
            "process=git",
            "process=ruff",
            "backends=linter",
            "cache",
            "agents=*",
            "http=https://a.example",
            "http=https://b.example",
        ]);
        policy.capabilities("a", false, &all).to_string()
    }

    #[test]
    fn grants_are_edited_in_place() {
        let kept = "# mine\n[limits]\ncall-ms = 100 # short\n";
        for before in [
            "",
            kept,
            "[grants.a]\nfiles = \"read\" # why\nprocess = [\n  \"git\", # this one\n]\n\n# end\n",
            "[grants]\na = { files = \"write\", scan = true }\n",
            "grants.a.files = \"write\"\n",
            "grants = { a = { process = ['ruff'] }, b = {} }\n",
            "[grants.a]\ncache = true\nagents = ['*', 'qa']\n",
            "[[grants.a.http]]\norigin = 'https://A.example:443'\nheaders = { x = '1' }\n",
            "[grants.a]\nhttp = ['https://b.example', { origin = 'https://a.example', timeout-ms = 5 }]\n",
            "[grants.b]\nscan = true\n",
        ] {
            for words in [
                &["files=read"][..],
                &["files=write", "scan", "process=git", "http=https://a.example"],
                &["files=read", "process=ruff", "process=git", "backends=linter"],
                &["http=https://b.example"],
                &["files=read", "cache", "agents=qa", "agents=writer"],
                &["agents=*"],
            ] {
                let capabilities = set(words);
                let after = with_grant(before, "a", &capabilities, Owner::Known).unwrap();
                assert_eq!(granted(&after), capabilities.to_string(), "{before}\n->\n{after}");
                for comment in ["# mine", "# short", "# why", "# end"] {
                    let gone = comment == "# why" && capabilities.files == Files::None;
                    assert!(gone || before.contains(comment) == after.contains(comment), "{after}");
                }
                if words.contains(&"http=https://a.example") {
                    for more in ["headers", "timeout-ms"] {
                        assert_eq!(before.contains(more), after.contains(more), "{after}");
                    }
                }
                let others = |text| Settings::parse(text).unwrap().grants.remove("b");
                assert_eq!(others(before), others(&after));
                // All that was granted can be revoked, and nothing else changes.
                let none = Capabilities::NONE;
                let revoked = with_grant(&after, "a", &none, Owner::Known).unwrap();
                assert!(!Settings::parse(&revoked).unwrap().grants.contains_key("a"), "{revoked}");
                assert_eq!(others(before), others(&revoked));
            }
        }
        assert_eq!(
            with_grant(kept, "a", &set(&["files=read"]), Owner::Known).unwrap(),
            format!("{kept}\n[grants.a]\nfiles = \"read\"\n")
        );
        let empty = with_grant("", "files", &Capabilities::NONE, Owner::BuiltIn).unwrap();
        assert!(Settings::parse(&empty).unwrap().grants.contains_key("files"), "{empty}");
        for wrong in ["x", "grants = 1", "[grants]\na = 1"] {
            assert!(with_grant(wrong, "a", &set(&["scan"]), Owner::Known).is_err(), "{wrong}");
        }
    }

    /// An entry with every field. It is written out so that a new field fails the test until it is
    /// added here.
    const FULL: &str = "[limits]\ncall-ms = 100\n\n# of a\n[grants.a]\nfiles = 'write'\nscan = true\n\
        process = ['git', 'ruff']\narguments.git = { allow = ['status'] }\nstarts.ruff = []\n\
        environment = ['TOKEN']\nbackends = ['linter']\ncache = true\n\
        history = true\ngit-commit = true\nbackground = true\ntools = true\nquestions = true\nagents = ['*', 'qa']\n\
        consent.drop = { allow = ['a: *'], ask = ['*'] }\n\n[[grants.a.http]]\norigin = 'https://a.example'\n\
        headers = { Authorization = '${TOKEN}' }\naddress = '127.0.0.1:1'\ntimeout-ms = 5\n\n\
        [[grants.a.network]]\nprograms = ['git']\nbundle = 'npm'\n\n\
        [grants.b]\nenvironment = ['MINE']\n";

    /// The settings' entry for the plugin `a`.
    fn entry(text: &str) -> Option<GrantSettings> {
        let mut grants = Settings::parse(text).unwrap().grants;
        assert!(text.contains("call-ms = 100") && grants.contains_key("b"), "{text}");
        grants.remove("a")
    }

    #[test]
    fn revoked_fields_of_an_entry_are_removed() {
        let full = entry(FULL).unwrap();
        let GrantSettings {
            files,
            scan,
            process,
            arguments,
            starts,
            environment,
            backends,
            cache,
            history,
            git_commit,
            background,
            tools,
            questions,
            agents,
            http,
            network,
            consent,
            config,
        } = &full;
        assert!(!consent["drop"].allow.is_empty());
        assert!(config.is_empty() && !arguments.is_empty() && !starts.is_empty());
        assert!(
            *files > Files::None
                && *scan
                && *cache
                && *history
                && *git_commit
                && *background
                && *tools
                && *questions
                && !process.is_empty()
        );
        assert!(!environment.is_empty() && !backends.is_empty() && !agents.is_empty());
        assert!(!http[0].headers.is_empty() && !network.is_empty());
        let none = Capabilities::NONE;
        for (owner, left) in [
            (Owner::Known, None),
            (Owner::Other, None),
            // Without an entry, it would have its default permissions.
            (Owner::BuiltIn, Some(GrantSettings::default())),
        ] {
            let text = with_grant(FULL, "a", &none, owner).unwrap();
            assert_eq!(entry(&text), left, "{owner:?}: {text}");
            // A later grant of the same capabilities restores none of the removed fields.
            let all = with_grant(&text, "a", &full.capabilities(), owner).unwrap();
            let again = entry(&all).unwrap();
            assert_eq!(again.capabilities(), full.capabilities());
            assert!(again.network.is_empty() && again.consent["drop"].allow.is_empty());
            assert!(again.environment.is_empty() && again.http[0].headers.is_empty(), "{all}");
            assert!(again.arguments.is_empty() && again.starts.is_empty(), "{all}");
        }
    }

    #[test]
    fn one_capability_after_the_other_is_revoked() {
        let (mut text, mut granted) = (FULL.to_owned(), entry(FULL).unwrap().capabilities());
        let all: Vec<Capability> = granted.each().collect();
        for each in [Capability::Files(Files::Read)].into_iter().chain(all) {
            granted.remove(&each);
            text = with_grant(&text, "a", &granted, Owner::Known).unwrap();
            let left = entry(&text).unwrap_or_default();
            assert_eq!(left.capabilities(), granted, "{each}: {text}");
            assert_eq!(left.environment.is_empty(), granted.process.is_empty(), "{each}: {text}");
            let rules = left.arguments.keys().chain(left.starts.keys());
            assert!(rules.clone().all(|program| granted.process.contains(program)), "{text}");
            assert_eq!(rules.count(), granted.process.len(), "{each}: {text}");
        }
        assert_eq!(entry(&text), None);
    }

    #[test]
    fn a_configuration_stays_with_its_plugin() {
        let text = "[grants.a]\nfiles = 'read'\n[grants.a.config]\nkey = '${KEY}'\n\
                    [grants.b]\n[limits]\ncall-ms = 100\n";
        for (granted, owner, stays) in [
            (set(&["files=write"]), Owner::Known, true),
            (set(&[]), Owner::Known, true),
            (set(&["files=write"]), Owner::Other, false),
            (set(&[]), Owner::Other, false),
        ] {
            let text = with_grant(text, "a", &granted, owner).unwrap();
            let left = entry(&text).unwrap_or_default();
            assert_eq!(left.config.contains_key("key"), stays, "{owner:?}: {text}");
            assert_eq!(left.capabilities(), granted);
        }
    }

    #[test]
    fn another_plugin_of_the_same_name_inherits_nothing() {
        let full = entry(FULL).unwrap().capabilities();
        let asked = || ConsentSettings { ask: vec!["*".to_owned()], ..ConsentSettings::default() };
        for granted in [set(&["process=git", "http=https://a.example"]), set(&["cache"]), full] {
            for before in [FULL.to_owned(), FULL.replace("grants.a", "grants.'a'")] {
                let text = with_grant(&before, "a", &granted, Owner::Other).unwrap();
                let left = entry(&text).unwrap();
                let wanted = GrantSettings {
                    files: granted.files,
                    scan: granted.scan,
                    process: granted.process.clone(),
                    arguments: BTreeMap::new(),
                    starts: BTreeMap::new(),
                    environment: BTreeSet::new(),
                    backends: granted.backends.clone(),
                    cache: granted.cache,
                    history: granted.history,
                    git_commit: granted.git_commit,
                    background: granted.background,
                    tools: granted.tools,
                    questions: granted.questions,
                    agents: granted.agents.clone(),
                    http: granted.http.iter().cloned().map(OriginSettings::new).collect(),
                    network: Vec::new(),
                    consent: granted.consent.keys().map(|class| (class.clone(), asked())).collect(),
                    config: BTreeMap::new(),
                };
                assert_eq!(left, wanted, "{text}");
                // A known plugin keeps the fields of what stays granted.
                let text = with_grant(&before, "a", &granted, Owner::Known).unwrap();
                let left = entry(&text).unwrap();
                assert_eq!(left.environment.is_empty(), granted.process.is_empty(), "{text}");
                assert!(left.http.iter().all(|origin| !origin.headers.is_empty()), "{text}");
            }
        }
        // The entry may be written in any TOML syntax.
        for before in [
            "grants = { a = { process = ['git'], environment = ['TOKEN'] } }\n",
            "grants.a.process = ['git']\ngrants.a.environment = ['TOKEN']\n",
            "[grants]\na = { process = ['git'], environment = ['TOKEN'] }\n",
        ] {
            let text = with_grant(before, "a", &set(&["process=git"]), Owner::Other).unwrap();
            assert_eq!(granted(&text), "files=none process=git", "{text}");
            assert!(!text.contains("TOKEN"), "{text}");
        }
    }

    #[test]
    fn a_setting_is_found_by_its_line() {
        let text = "# x\n[grants.a]\nfiles = 'read'\n\n[[grants.b.http]]\norigin = 'https://a.example'\n\n[grants]\nc = { scan = true }\n";
        for (keys, wanted) in [
            (&["grants", "a", "files"][..], Some(3)),
            (&["grants", "a", "scan"], Some(2)),
            (&["grants", "c", "scan"], Some(9)),
            (&["roles"], None),
        ] {
            assert_eq!(line(text, keys), wanted, "{keys:?}");
        }
        assert_eq!(line("[grants", &["grants"]), None);
    }

    #[test]
    #[expect(clippy::disallowed_methods, reason = "the user's settings are named by a path")]
    fn the_file_keeps_its_permissions_and_links_are_followed() {
        use std::os::unix::fs::PermissionsExt as _;
        let directory = tempfile::tempdir().unwrap();
        let (link, real) =
            (directory.path().join("a/cofferdam.toml"), directory.path().join("real"));
        fs::create_dir(directory.path().join("a")).unwrap();
        fs::write(&real, "# mine\n").unwrap();
        fs::set_permissions(&real, fs::Permissions::from_mode(0o640)).unwrap();
        std::os::unix::fs::symlink("../real", &link).unwrap();
        set_grant(&link, "a", &set(&["scan"]), Owner::Known).unwrap();
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        assert_eq!(fs::read_to_string(&real).unwrap(), "# mine\n\n[grants.a]\nscan = true\n");
        assert_eq!(fs::metadata(&real).unwrap().permissions().mode() & 0o777, 0o640);
        fs::write(&real, "nonsense = 1\n").unwrap();
        let error = set_grant(&link, "a", &set(&["scan"]), Owner::Known).unwrap_err().to_string();
        assert!(error.contains("unknown field `nonsense`"), "{error}");
        assert_eq!(fs::read_to_string(&real).unwrap(), "nonsense = 1\n");
        // A file that does not exist is created.
        let new = directory.path().join("b/c/cofferdam.toml");
        set_grant(&new, "a", &Capabilities::NONE, Owner::Known).unwrap();
        assert!(!new.exists());
        set_grant(&new, "a", &set(&["scan"]), Owner::Known).unwrap();
        assert_eq!(fs::read_to_string(&new).unwrap(), "[grants.a]\nscan = true\n");
    }
}
