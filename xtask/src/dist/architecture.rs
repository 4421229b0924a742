//! The architectures that packages are made for.

use std::process::Command;

use clap::ValueEnum;

use super::formats::{self, Format};

/// What packages of one architecture have in common.
pub struct Architecture {
    /// Its name in Linux, in Rust and in wheels.
    pub name: &'static str,
    /// Its name in Debian.
    pub debian: &'static str,
    /// The compilation target of the command.
    pub target: &'static str,
    pub formats: &'static [Format],
}

/// An architecture, as the command line names it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Name {
    #[value(name = "x86_64")]
    X86_64,
    #[value(name = "aarch64")]
    Aarch64,
}

static X86_64: Architecture = Architecture {
    name: "x86_64",
    debian: "amd64",
    target: "x86_64-unknown-linux-musl",
    formats: &formats::ALL,
};

/// Without an npm package and an MCP bundle: the name of each is one file, for one architecture.
static AARCH64: Architecture = Architecture {
    name: "aarch64",
    debian: "arm64",
    target: "aarch64-unknown-linux-musl",
    formats: &formats::BY_ARCHITECTURE,
};

impl Name {
    pub fn architecture(self) -> &'static Architecture {
        match self {
            Self::X86_64 => &X86_64,
            Self::Aarch64 => &AARCH64,
        }
    }
}

impl Architecture {
    /// Whether this machine can run the command.
    pub fn is_this_machines(&self) -> bool {
        self.name == std::env::consts::ARCH
    }

    /// What a build needs, for the message when it has failed.
    pub fn needs(&self) -> String {
        let musl = if self.is_this_machines() {
            "a C compiler for musl (on Debian: `apt-get install musl-tools`)".to_owned()
        } else {
            let debian = self.debian;
            format!(
                "clang and musl's headers (on Debian: `dpkg --add-architecture {debian}`, `apt-get update`, \
                 `apt-get install clang musl-dev:{debian}`)"
            )
        };
        format!("the packages need the target (`rustup target add {}`) and {musl}", self.target)
    }

    /// Chooses the compiler of C and the linker of a build. Those of the machine make only its own code: for
    /// another architecture, they are clang and Rust's own linker.
    pub fn prepare(&self, build: &mut Command, flags: &mut Vec<String>) {
        // Addresses that are adjusted at each start: 23 kB in place of 2.3 MB.
        const RELOCATIONS: &str = "pack-relative-relocs";
        if self.is_this_machines() {
            flags.push(format!("-Clink-arg=-Wl,-z,{RELOCATIONS}"));
            return;
        }
        let target = self.target.replace('-', "_");
        let name = self.name;
        let options = format!("--target={name}-linux-musl -isystem /usr/include/{name}-linux-musl");
        build
            .env(format!("CC_{target}"), "clang")
            .env(format!("CFLAGS_{target}"), options)
            .env(format!("CARGO_TARGET_{}_LINKER", target.to_uppercase()), "rust-lld");
        flags.extend(["-Clink-self-contained=yes", "-Clink-arg=-z"].map(str::to_owned));
        flags.push(format!("-Clink-arg={RELOCATIONS}"));
    }
}
