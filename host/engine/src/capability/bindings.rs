//! Bindings generated from the WIT files.

#![expect(missing_docs, reason = "generated; the WIT files hold the documentation")]

wasmtime::component::bindgen!({
    path: "../../wit",
    world: "cofferdam:worlds/plugin",
    imports: { default: trappable },
    additional_derives: [PartialEq],
    with: {
        "cofferdam:host/scan.scanner": super::scan::reader::Scanner,
    },
});

/// The exports of a component with linters.
pub mod linter {
    wasmtime::component::bindgen!({
        path: "../../wit",
        world: "cofferdam:worlds/linter-backend",
        with: {
            "cofferdam:backend/linting": super::cofferdam::backend::linting,
            "cofferdam:backend/types": super::cofferdam::backend::types,
            "cofferdam:host": super::cofferdam::host,
        },
    });
}

/// The exports of a component with test runners.
pub mod test_runner {
    wasmtime::component::bindgen!({
        path: "../../wit",
        world: "cofferdam:worlds/test-backend",
        with: {
            "cofferdam:backend/testing": super::cofferdam::backend::testing,
            "cofferdam:backend/types": super::cofferdam::backend::types,
            "cofferdam:host": super::cofferdam::host,
        },
    });
}

/// The exports of a component with checkers.
pub mod checker {
    wasmtime::component::bindgen!({
        path: "../../wit",
        world: "cofferdam:worlds/checker-backend",
        with: {
            "cofferdam:backend/linting": super::cofferdam::backend::linting,
            "cofferdam:backend/types": super::cofferdam::backend::types,
            "cofferdam:host": super::cofferdam::host,
        },
    });
}

/// The exports of a component with builders.
pub mod builder {
    wasmtime::component::bindgen!({
        path: "../../wit",
        world: "cofferdam:worlds/build-backend",
        with: {
            "cofferdam:backend/building": super::cofferdam::backend::building,
            "cofferdam:backend/types": super::cofferdam::backend::types,
            "cofferdam:host": super::cofferdam::host,
        },
    });
}
