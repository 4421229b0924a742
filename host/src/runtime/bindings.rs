//! Generated from the WIT files.

#![expect(missing_docs, reason = "generated; the WIT files hold the documentation")]

wasmtime::component::bindgen!({
    path: "../wit",
    world: "cofferdam:worlds/plugin",
    imports: { default: trappable },
    with: {
        "cofferdam:host/scan.scanner": crate::capability::Scanner,
    },
});
