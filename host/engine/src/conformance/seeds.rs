//! The seeds of each language: faults that linters find, and the files around them.

use super::Files;

/// A fault of one line, and the project around it.
#[derive(Debug)]
pub(super) struct Seed {
    /// Other files of the project.
    pub(super) around: &'static [(&'static str, &'static str)],
    /// The path of the file with the fault.
    pub(super) path: &'static str,
    /// The minimal valid contents of this file.
    pub(super) empty: &'static str,
    /// The text before the fault, so that it is not in the first line.
    pub(super) head: &'static str,
    /// The faulty line; `{n}` is replaced by a number of four digits, so that each fault is unique.
    pub(super) fault: &'static str,
    /// Whether the file can have another name.
    pub(super) stands_alone: bool,
    /// Whether linters report each occurrence in a file.
    pub(super) repeats: bool,
}

const PYTHON: &[Seed] = &[
    Seed { fault: "import os as unused{n}", repeats: false, ..PYTHON_FILE },
    Seed { fault: "print(undefined{n})", ..PYTHON_FILE },
    // For linters of module contracts, which check nothing else.
    Seed {
        around: &[
            (
                ".importlinter",
                "[importlinter]\nroot_package = layers\n\n[importlinter:contract:below]\n\
                 name = Below\ntype = forbidden\nsource_modules = layers.low\n\
                 forbidden_modules = layers.high\n",
            ),
            ("layers/__init__.py", ""),
            ("layers/high.py", "LEVEL = 1\n"),
        ],
        path: "layers/low.py",
        fault: "import layers.high",
        stands_alone: false,
        repeats: false,
        ..PYTHON_FILE
    },
];

const PYTHON_FILE: Seed = Seed {
    around: &[],
    path: "seed.py",
    empty: "",
    head: "\"\"\"Seeds.\"\"\"\n\n",
    fault: "",
    stands_alone: true,
    repeats: true,
};

/// ESLint has no rules without a configuration; other linters ignore this file.
const ESLINT_CONFIG: &[(&str, &str)] = &[(
    "eslint.config.mjs",
    "export default [{ files: [\"**/*.js\", \"**/*.ts\"], rules: { \"no-debugger\": \"error\", \
     \"no-extra-boolean-cast\": \"error\", \"no-unused-vars\": \"error\" } }];\n",
)];

const JAVASCRIPT: &[Seed] = &[
    Seed { fault: "debugger;", ..JAVASCRIPT_FILE },
    Seed { fault: "let unused{n} = 1;", ..JAVASCRIPT_FILE },
    Seed { fault: "if (!!globalThis.x{n}) { globalThis.y(); }", ..JAVASCRIPT_FILE },
    Seed { fault: "debugger;", around: ESLINT_CONFIG, ..JAVASCRIPT_FILE },
    Seed {
        fault: "if (!!globalThis.x{n}) { globalThis.y(); }",
        around: ESLINT_CONFIG,
        ..JAVASCRIPT_FILE
    },
];

const JAVASCRIPT_FILE: Seed = Seed {
    around: &[],
    path: "seed.js",
    empty: "",
    head: "// Seeds.\n\n",
    fault: "",
    stands_alone: true,
    repeats: true,
};

const TYPESCRIPT: &[Seed] = &[
    Seed { fault: "debugger;", ..TYPESCRIPT_FILE },
    Seed { fault: "let unused{n}: number = 1;", ..TYPESCRIPT_FILE },
    Seed { fault: "debugger;", around: ESLINT_CONFIG, ..TYPESCRIPT_FILE },
    Seed {
        fault: "if (!!globalThis.x{n}) { globalThis.y(); }",
        around: ESLINT_CONFIG,
        ..TYPESCRIPT_FILE
    },
];

const TYPESCRIPT_FILE: Seed = Seed { path: "seed.ts", ..JAVASCRIPT_FILE };

const GO: &[Seed] = &[
    Seed { fault: "func unused{n}() {}", ..GO_FILE },
    Seed { fault: "func Same{n}(x int) int { x = x; return x }", ..GO_FILE },
];

const GO_FILE: Seed = Seed {
    around: &[("go.mod", "module example.com/seeds\n\ngo 1.21\n")],
    path: "seed.go",
    empty: "package seeds\n",
    head: "package seeds\n\n",
    fault: "",
    stands_alone: false,
    repeats: true,
};

const RUST: &[Seed] = &[
    Seed { fault: "pub fn late{n}(x: u8) -> u8 { return x; }", ..RUST_FILE },
    Seed { fault: "fn unused{n}() {}", ..RUST_FILE },
];

const RUST_FILE: Seed = Seed {
    around: &[(
        "Cargo.toml",
        "[package]\nname = \"seeds\"\nversion = \"0.1.0\"\nedition = \"2021\"\n",
    )],
    path: "src/lib.rs",
    empty: "",
    head: "//! Seeds.\n\n",
    fault: "",
    stands_alone: false,
    repeats: true,
};

/// The properties of a language besides its seeds.
pub(super) struct Language {
    pub(super) name: &'static str,
    pub(super) seeds: &'static [Seed],
    /// The start and the end of a string or comment that can precede a fault in its line.
    pub(super) before: [&'static str; 2],
    /// The contents of a file that can't be parsed.
    pub(super) broken: &'static str,
    /// The path and contents of an invalid configuration.
    pub(super) broken_config: (&'static str, &'static str),
}

const LANGUAGES: [Language; 5] = [
    Language {
        name: "python",
        seeds: PYTHON,
        before: ["\"", "\"; "],
        broken: "\"\"\"Seeds.\"\"\"\n\n\ndef broken(:\n    pass\n",
        broken_config: ("broken.toml", "]]] = [[[\n"),
    },
    Language {
        name: "javascript",
        seeds: JAVASCRIPT,
        before: ["/* ", " */ "],
        broken: "// Seeds.\n\nfunction broken( {\n}\n",
        broken_config: ("broken.json", "{ \"rules\": ]\n"),
    },
    Language {
        name: "typescript",
        seeds: TYPESCRIPT,
        before: ["/* ", " */ "],
        broken: "// Seeds.\n\nfunction broken(x: ) {\n}\n",
        broken_config: ("broken.json", "{ \"rules\": ]\n"),
    },
    Language {
        name: "go",
        seeds: GO,
        before: ["/* ", " */ "],
        broken: "package seeds\n\nfunc broken( {\n}\n",
        broken_config: ("broken.yml", "linters: [}\n"),
    },
    Language {
        name: "rust",
        seeds: RUST,
        before: ["/* ", " */ "],
        broken: "//! Seeds.\n\npub fn broken( {\n}\n",
        broken_config: ("broken.toml", "]]] = [[[\n"),
    },
];

/// The languages that have cases.
pub fn languages() -> impl Iterator<Item = &'static str> {
    LANGUAGES.iter().map(|language| language.name)
}

pub(super) fn language(name: &str) -> Option<&'static Language> {
    LANGUAGES.iter().find(|language| language.name == name)
}

impl Seed {
    /// The contents of the file with `count` faults, each in a new line and after `before`.
    pub(super) fn text(&self, count: u32, before: &str) -> String {
        let faults = (0..count).map(|number| {
            format!("{before}{}\n", self.fault.replace("{n}", &format!("{number:04}")))
        });
        faults.fold(self.head.to_owned(), |text, fault| text + &fault)
    }

    /// The line number of the first fault, counted from 1.
    pub(super) fn line(&self) -> u32 {
        1 + count_u32(self.head.matches('\n').count())
    }

    /// The files of the project, with these contents at `path` instead of the seed's own file.
    pub(super) fn project(&self, path: &str, contents: impl Into<Vec<u8>>) -> Files {
        let mut files: Files = self
            .around
            .iter()
            .map(|(path, text)| ((*path).to_owned(), text.as_bytes().to_vec()))
            .collect();
        files.insert(path.to_owned(), contents.into());
        files
    }

    /// The extension of the seed's file.
    pub(super) fn extension(&self) -> &str {
        self.path.rsplit_once('.').map_or("", |(_, extension)| extension)
    }
}

pub(super) fn count_u32(count: usize) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX)
}
