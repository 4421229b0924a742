//! What the table of toolchains can't say: single programs in a directory of many others,
//! environments of Python, Java and Maven.

use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE;
use cofferdam_plugin::digest::Digest;

use super::account::Account;
use super::{CACHE, Found, Variable};

/// Directories of the system, which every program can read.
const SYSTEM: [&str; 2] = ["/usr", "/opt/conda"];

/// Programs in `~/.local/bin` that are used, if they are files. Links count if they lead into a
/// toolchain. Anything else there may be a private script.
const LOCAL_PROGRAMS: [&str; 32] = [
    "black",
    "cargo-nextest",
    "cmake",
    "eslint",
    "flake8",
    "go",
    "gofmt",
    "golangci-lint",
    "gradle",
    "hatch",
    "isort",
    "jest",
    "just",
    "lint-imports",
    "mise",
    "mvn",
    "mypy",
    "ninja",
    "node",
    "nox",
    "npm",
    "npx",
    "pdm",
    "pnpm",
    "poetry",
    "pre-commit",
    "pylint",
    "pytest",
    "ruff",
    "tox",
    "uv",
    "yarn",
];

/// The first release of Maven that looks in a second repository: `maven.repo.local.tail`.
const MAVEN_WITH_TAIL: (u32, u32) = (3, 9);

/// Finds what is not in the table. `others` is what was found so far; `path` are the operator's
/// directories of programs, which come first.
pub(super) fn find(account: &Account<'_>, others: &[Found], path: &[PathBuf]) -> Vec<Found> {
    let environments = others.iter().find(|found| found.name == "poetry's environments");
    let parts = [
        active_environment(account),
        environments.and_then(|found| poetry(account, found)),
        python_packages(account),
        local_programs(account, others),
        java(account, others),
    ];
    let mut found: Vec<Found> = parts.into_iter().flatten().collect();
    let all = || others.iter().chain(&found).flat_map(|found| &found.programs);
    let programs: Vec<PathBuf> = path.iter().chain(all()).cloned().collect();
    found.extend(maven(account, &programs));
    found
}

/// The environment in which the operator has started the host.
fn active_environment(account: &Account<'_>) -> Option<Found> {
    let of = |variable, mark: &str| {
        let root = account.directory(Path::new(account.variable(variable)?))?;
        account.exists(&root.join(mark)).then_some(root)
    };
    let root = of("VIRTUAL_ENV", "pyvenv.cfg").or_else(|| of("CONDA_PREFIX", "conda-meta"))?;
    Some(environment("active environment", account, root))
}

/// An environment outside of the workspace, whose programs come first.
fn environment(name: &'static str, account: &Account<'_>, root: PathBuf) -> Found {
    Found {
        name,
        programs: account.directory(&root.join("bin")).into_iter().collect(),
        variables: text(&root).map(|value| variable("VIRTUAL_ENV", value)).into_iter().collect(),
        readable: vec![root],
        ..Found::default()
    }
}

/// The environment that poetry has made for this project. Its name has a digest of the project's
/// directory, so that no other project's can be chosen.
fn poetry(account: &Account<'_>, environments: &Found) -> Option<Found> {
    let root = environments.readable.first()?;
    let names = account.names(root);
    let mut digests = account.project_directories().filter_map(|directory| {
        let digest = URL_SAFE.encode(Digest::of(text(directory)?.as_bytes()).bytes());
        Some(format!("-{}-py", digest.get(..8)?))
    });
    let name = digests
        .find_map(|digest| names.iter().rev().find(|name| name.contains(&digest)).cloned())?;
    let root = account.directory(&root.join(name))?;
    Some(environment("poetry's environment", account, root))
}

/// Packages that were installed by `pip install --user`.
fn python_packages(account: &Account<'_>) -> Option<Found> {
    let base =
        account.variable("PYTHONUSERBASE").map_or_else(|| account.path("~/.local"), PathBuf::from);
    let base = account.root(&base)?;
    let library = base.join("lib");
    let versions = account.names(&library).into_iter().filter(|name| name.starts_with("python3"));
    let readable: Vec<PathBuf> =
        versions.filter_map(|name| account.directory(&library.join(name))).collect();
    if readable.is_empty() {
        return None;
    }
    let variables = vec![variable("PYTHONUSERBASE", text(&base)?)];
    Some(Found { name: "packages of the user", readable, variables, ..Found::default() })
}

/// Single programs in `~/.local/bin`.
fn local_programs(account: &Account<'_>, others: &[Found]) -> Option<Found> {
    let named = account.variable("XDG_BIN_HOME").map(PathBuf::from);
    let directory = account.directory(&named.unwrap_or_else(|| account.path("~/.local/bin")))?;
    let is_toolchain = |target: &Path| {
        let known =
            others.iter().flat_map(|found| &found.readable).any(|at| target.starts_with(at));
        known || SYSTEM.iter().any(|system| target.starts_with(system))
    };
    let is_used = |name: &String| match account.link(&directory.join(name)) {
        Some(target) => is_toolchain(&target),
        None => LOCAL_PROGRAMS.contains(&name.as_str()),
    };
    let names = account.names(&directory).into_iter().filter(is_used);
    let readable: Vec<PathBuf> = names.map(|name| directory.join(name)).collect();
    if readable.is_empty() {
        return None;
    }
    Some(Found {
        name: "programs of the user",
        programs: vec![directory],
        readable,
        ..Found::default()
    })
}

/// The Java of the host's environment, if programs can read it.
fn java(account: &Account<'_>, others: &[Found]) -> Option<Found> {
    let root = account.directory(Path::new(account.variable("JAVA_HOME")?))?;
    let is_readable = root.starts_with("/usr")
        || others.iter().flat_map(|found| &found.readable).any(|at| root.starts_with(at));
    let programs: Vec<PathBuf> = account.directory(&root.join("bin")).into_iter().collect();
    let variables = vec![variable("JAVA_HOME", text(&root)?)];
    is_readable.then(|| Found { name: "JAVA_HOME", programs, variables, ..Found::default() })
}

/// Maven's local repository and settings. Maven 3.9 and later write to the plugin's cache and look in
/// the account's repository after that; older ones only read the account's repository.
///
/// The account's own `settings.xml` may have passwords: `user.home` leads to another directory. That
/// of the installation is readable if it has none.
fn maven(account: &Account<'_>, programs: &[PathBuf]) -> Option<Found> {
    let home = account.installation("mvn", programs);
    let configuration =
        home.as_ref().and_then(|home| account.existing(&home.join("conf/settings.xml")));
    let configured = configuration.as_ref().and_then(|file| account.text(file));
    let configured = configured.map(|text| without_comments(&text)).unwrap_or_default();
    if local_repository(&configured).is_some() {
        return None; // This Maven names its repository itself.
    }
    let own = account.text(&account.path("~/.m2/settings.xml")).unwrap_or_default();
    let named = local_repository(&without_comments(&own));
    let named =
        named.map(|path| path.replace("${user.home}", text(&account.home).unwrap_or_default()));
    let repository = account.path(named.as_deref().unwrap_or("~/.m2/repository"));
    let repository = account.directory(&repository);
    let has_tail = home.as_ref().and_then(|home| version(account, home)) >= Some(MAVEN_WITH_TAIL);
    let options = match repository.as_deref().and_then(text) {
        // Maven's script splits the variable at spaces.
        Some(path) if path.contains(char::is_whitespace) => return None,
        Some(path) if has_tail => {
            format!("-Dmaven.repo.local={CACHE}/m2 -Dmaven.repo.local.tail={path}")
        }
        // Without the names of the account's mirrors, Maven would not use the files from there.
        Some(path) => format!(
            "-Dmaven.repo.local={path} -Daether.enhancedLocalRepository.trackingFilename=cofferdam.none"
        ),
        None => format!("-Dmaven.repo.local={CACHE}/m2"),
    };
    let options = format!("-Duser.home={CACHE}/maven-home {options}");
    let configuration = configuration.filter(|_| !has_secrets(&configured));
    // Which Java there is; Maven reads it if it exists.
    let toolchains = home.and_then(|home| account.existing(&home.join("conf/toolchains.xml")));
    Some(Found {
        name: "Maven's repository",
        readable: repository.into_iter().chain(configuration).chain(toolchains).collect(),
        variables: vec![variable("MAVEN_OPTS", &options)],
        ..Found::default()
    })
}

/// The version of a Maven, by the name of its library.
fn version(account: &Account<'_>, home: &Path) -> Option<(u32, u32)> {
    let names = account.names(&home.join("lib"));
    let core = names.iter().find_map(|name| {
        name.strip_prefix("maven-core-").or_else(|| name.strip_prefix("maven-core3-"))
    })?;
    let mut numbers = core.split('.').map(|number| number.parse().ok());
    Some((numbers.next()??, numbers.next()??))
}

/// The local repository that Maven's settings name.
fn local_repository(settings: &str) -> Option<String> {
    let (_, rest) = settings.split_once("<localRepository>")?;
    let (path, _) = rest.split_once("</localRepository>")?;
    Some(path.trim().to_owned()).filter(|path| !path.is_empty())
}

/// Whether Maven's settings may have a password: of a server, of a proxy, or in a URL.
fn has_secrets(settings: &str) -> bool {
    let elements = ["<server>", "<pass", "<privateKey", "<proxy>", "<username>", "CDATA", "&"];
    elements.iter().any(|element| settings.contains(element))
        || settings.split("://").skip(1).any(|rest| {
            rest.split(['/', '<', '"', ' ']).next().is_some_and(|authority| authority.contains('@'))
        })
}

fn without_comments(xml: &str) -> String {
    let mut parts = xml.split("<!--");
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |text, part| text + part.split_once("-->").map_or("", |(_, rest)| rest))
}

fn text(path: &Path) -> Option<&str> {
    path.to_str()
}

fn variable(name: &'static str, value: &str) -> Variable {
    Variable { name, value: value.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_local_repository_in_a_comment_does_not_count() {
        for (settings, wanted) in [
            ("<settings/>", None),
            ("<settings><!-- <localRepository>/a</localRepository> --></settings>", None),
            ("<!-- a --><localRepository> /b </localRepository><!-- c -->", Some("/b")),
            ("<!-- <localRepository>/a</localRepository>", None),
            ("<localRepository></localRepository>", None),
            ("<localRepository>", None),
        ] {
            let found = local_repository(&without_comments(settings));
            assert_eq!(found.as_deref(), wanted, "{settings}");
        }
    }
    #[test]
    fn settings_with_passwords_are_secret() {
        for (settings, secret) in [
            ("<settings></settings>", false),
            ("<settings><!-- <server><password>x</password></server> --></settings>", false),
            ("<mirror><url>https://repo.example.com/maven2</url></mirror>", false),
            ("<server><id>a</id><password>x</password></server>", true),
            ("<url>https://user:word@repo.example.com/</url>", true),
            ("<proxy><password>x</password></proxy>", true),
            ("<!-- --><password>x</password><!-- -->", true),
        ] {
            assert_eq!(has_secrets(&without_comments(settings)), secret, "{settings}");
        }
    }
}
