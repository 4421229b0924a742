//! The initial memory of the component. Other plugins start with less; the stubs of the standard library
//! alone take more.

/// In bytes: the stubs, the code's own data, the stack, and what almost every request needs.
const INITIAL_MEMORY: u32 = 16 << 20;

#[expect(clippy::disallowed_methods, reason = "the target, which cargo names to build scripts so")]
fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    // Of several such arguments, the linker takes the last: this one comes after those of `xtask`.
    if std::env::var("CARGO_CFG_TARGET_FAMILY").is_ok_and(|family| family == "wasm") {
        println!("cargo::rustc-link-arg-cdylib=--initial-memory={INITIAL_MEMORY}");
    }
}
