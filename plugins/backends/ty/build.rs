//! The memory with which the component starts, and its stack. Other plugins have less: the stubs of the
//! standard library alone take more memory, and types are inferred by recursion.

/// In bytes: the stubs, the code's own data, the stack, and what almost every request needs.
const INITIAL_MEMORY: u32 = 16 << 20;

/// The stack in linear memory, in bytes. The engine's limit on the native stack is the one that is reached.
const STACK: u32 = 4 << 20;

#[expect(clippy::disallowed_methods, reason = "the target, which cargo names to build scripts so")]
fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    // Of several such arguments, the linker takes the last: this one comes after those of `xtask`.
    if std::env::var("CARGO_CFG_TARGET_FAMILY").is_ok_and(|family| family == "wasm") {
        println!("cargo::rustc-link-arg-cdylib=--initial-memory={INITIAL_MEMORY}");
        println!("cargo::rustc-link-arg-cdylib=-zstack-size={STACK}");
    }
}
