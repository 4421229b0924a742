//! Backends: linters, test runners, builders and checkers. Tools call them through the host, so that the
//! operator can choose between them.
//!
//! ```ignore
//! use cofferdam_sdk::backend::linting::{Report, Request};
//! use cofferdam_sdk::backend::{Error, Linter};
//! use cofferdam_sdk::{Context, linter};
//!
//! struct Mine;
//! impl Linter for Mine {
//!     fn version(_: &str, _: &Context) -> Result<String, Error> { Ok("1.0.0".into()) }
//!     fn lint(_: &str, request: &Request, context: &Context) -> Result<Report, Error> { todo!() }
//! }
//! linter!(Mine);
//! ```
//!
//! The `name` that these functions get is one from `[[backends]]` in the manifest. Paths in
//! requests and reports are relative to the workspace. The WIT package `cofferdam:backend` defines
//! the fields of reports.

mod bounded;

use crate::Context;

pub use bounded::{BoundedFindings, left_out};

pub use crate::bindings::cofferdam::backend::types::Error;
pub use crate::bindings::cofferdam::backend::{building, linting, testing};

/// Calls the linters, test runners, builders and checkers that the operator has.
pub mod available {
    pub use crate::bindings::cofferdam::backend::{builders, checkers, linters, test_runners};
}

/// Which part of a request an instance of a linter serves. The host divides the requests of a linter
/// that calls this; see the WIT file.
pub mod parts {
    pub use crate::bindings::cofferdam::backend::parts::{Part, current};

    impl Part {
        /// All of the request.
        pub const WHOLE: Self = Self { index: 0, count: 1 };

        /// Returns the items of this part, of items in order.
        pub fn of<T>(self, items: impl IntoIterator<Item = T>) -> impl Iterator<Item = T> {
            let (index, count) = (self.index as usize, self.count.max(1) as usize);
            items.into_iter().skip(index).step_by(count)
        }
    }
}

/// Chooses a test runner or builder for a project: the one whose `detect` returns the highest
/// value. Of equal ones, the first in `preferred` wins; backends not in `preferred` come last.
/// `None` if all return 0.
pub fn surest<'a>(
    available: &'a [String],
    detect: impl Fn(&str) -> u8,
    preferred: &[&str],
) -> Option<&'a str> {
    let rank =
        |name: &str| preferred.iter().position(|known| *known == name).unwrap_or(preferred.len());
    available
        .iter()
        .map(|name| (detect(name), name.as_str()))
        .filter(|(sure, _)| *sure > 0)
        .min_by_key(|(sure, name)| (u8::MAX - sure, rank(name)))
        .map(|(_, name)| name)
}

/// A backend that finds problems in source files.
pub trait Linter {
    /// The version of what the backend `name` runs.
    ///
    /// # Errors
    /// [`Error::Unavailable`] if the linter can't run here.
    fn version(name: &str, context: &Context) -> Result<String, Error>;

    /// Lints files with the backend `name`.
    ///
    /// # Errors
    /// See [`Error`]. Findings are not errors.
    fn lint(
        name: &str,
        request: &linting::Request,
        context: &Context,
    ) -> Result<linting::Report, Error>;
}

/// A backend that runs the tests of a project.
pub trait TestRunner {
    /// How sure the backend `name` is that it fits the project in the directory `root` of the
    /// workspace: 0 (not at all) to 100.
    fn detect(name: &str, root: &str, context: &Context) -> u8;

    /// The version of what the backend `name` runs.
    ///
    /// # Errors
    /// [`Error::Unavailable`] if the test runner can't run here.
    fn version(name: &str, context: &Context) -> Result<String, Error>;

    /// Runs tests with the backend `name`.
    ///
    /// # Errors
    /// See [`Error`]. Failed tests and a timeout are not errors.
    fn run(
        name: &str,
        request: &testing::Request,
        context: &Context,
    ) -> Result<testing::Report, Error>;
}

/// A backend that builds a project.
pub trait Builder {
    /// How sure the backend `name` is that it fits the project in the directory `root` of the
    /// workspace: 0 (not at all) to 100.
    fn detect(name: &str, root: &str, context: &Context) -> u8;

    /// The version of what the backend `name` runs.
    ///
    /// # Errors
    /// [`Error::Unavailable`] if the builder can't run here.
    fn version(name: &str, context: &Context) -> Result<String, Error>;

    /// Builds with the backend `name`.
    ///
    /// # Errors
    /// See [`Error`]. A failed build and a timeout are not errors.
    fn build(
        name: &str,
        request: &building::Request,
        context: &Context,
    ) -> Result<building::Report, Error>;
}

/// A backend that checks texts that are no files, such as scripts before they run.
pub trait Checker {
    /// The version of what the backend `name` runs.
    ///
    /// # Errors
    /// [`Error::Unavailable`] if the checker can't run here.
    fn version(name: &str) -> Result<String, Error>;

    /// Checks the first of some texts, each with a path, with the backend `name`; it may import the
    /// others.
    ///
    /// # Errors
    /// See [`Error`]. Findings are not errors.
    fn check(name: &str, sources: &[(String, String)]) -> Result<Vec<linting::Finding>, Error>;
}

/// The generated bindings of a linter.
#[doc(hidden)]
#[allow(warnings, clippy::restriction, reason = "generated")]
#[rustfmt::skip]
pub mod linter_bindings;

/// The generated bindings of a test runner.
#[doc(hidden)]
#[allow(warnings, clippy::restriction, reason = "generated")]
#[rustfmt::skip]
pub mod test_bindings;

/// The generated bindings of a builder.
#[doc(hidden)]
#[allow(warnings, clippy::restriction, reason = "generated")]
#[rustfmt::skip]
pub mod build_bindings;

/// The generated bindings of a checker.
#[doc(hidden)]
#[allow(warnings, clippy::restriction, reason = "generated")]
#[rustfmt::skip]
pub mod checker_bindings;

/// Exports a type that implements [`Checker`](crate::backend::Checker) as this component's checker.
#[macro_export]
macro_rules! checker {
    ($backend:ident) => {
        impl $crate::backend::checker_bindings::exports::cofferdam::backend::checker::Guest
            for $backend
        {
            fn version(name: String) -> Result<String, $crate::backend::Error> {
                <$backend as $crate::backend::Checker>::version(&name)
            }
            fn check(
                name: String,
                sources: Vec<(String, String)>,
            ) -> Result<Vec<$crate::backend::linting::Finding>, $crate::backend::Error> {
                <$backend as $crate::backend::Checker>::check(&name, &sources)
            }
        }
        #[cfg(target_family = "wasm")]
        $crate::backend::checker_bindings::export!(
            $backend with_types_in $crate::backend::checker_bindings
        );
    };
}

/// Exports a type that implements [`Linter`](crate::backend::Linter) as this component's linter.
#[macro_export]
macro_rules! linter {
    ($backend:ident) => {
        impl $crate::backend::linter_bindings::exports::cofferdam::backend::linter::Guest
            for $backend
        {
            fn version(name: String) -> Result<String, $crate::backend::Error> {
                <$backend as $crate::backend::Linter>::version(
                    &name,
                    &$crate::Context::for_backend(),
                )
            }
            fn lint(
                name: String,
                request: $crate::backend::linting::Request,
            ) -> Result<$crate::backend::linting::Report, $crate::backend::Error> {
                <$backend as $crate::backend::Linter>::lint(
                    &name,
                    &request,
                    &$crate::Context::for_backend(),
                )
            }
        }
        #[cfg(target_family = "wasm")]
        $crate::backend::linter_bindings::export!(
            $backend with_types_in $crate::backend::linter_bindings
        );
    };
}

/// Exports a type that implements [`TestRunner`](crate::backend::TestRunner) as this component's
/// test runner.
#[macro_export]
macro_rules! test_runner {
    ($backend:ident) => {
        impl $crate::backend::test_bindings::exports::cofferdam::backend::test_runner::Guest
            for $backend
        {
            fn detect(name: String, root: String) -> u8 {
                <$backend as $crate::backend::TestRunner>::detect(
                    &name,
                    &root,
                    &$crate::Context::for_backend(),
                )
            }
            fn version(name: String) -> Result<String, $crate::backend::Error> {
                <$backend as $crate::backend::TestRunner>::version(
                    &name,
                    &$crate::Context::for_backend(),
                )
            }
            fn run(
                name: String,
                request: $crate::backend::testing::Request,
            ) -> Result<$crate::backend::testing::Report, $crate::backend::Error> {
                <$backend as $crate::backend::TestRunner>::run(
                    &name,
                    &request,
                    &$crate::Context::for_backend(),
                )
            }
        }
        #[cfg(target_family = "wasm")]
        $crate::backend::test_bindings::export!(
            $backend with_types_in $crate::backend::test_bindings
        );
    };
}

/// Exports a type that implements [`Builder`](crate::backend::Builder) as this component's builder.
#[macro_export]
macro_rules! builder {
    ($backend:ident) => {
        impl $crate::backend::build_bindings::exports::cofferdam::backend::builder::Guest
            for $backend
        {
            fn detect(name: String, root: String) -> u8 {
                <$backend as $crate::backend::Builder>::detect(
                    &name,
                    &root,
                    &$crate::Context::for_backend(),
                )
            }
            fn version(name: String) -> Result<String, $crate::backend::Error> {
                <$backend as $crate::backend::Builder>::version(
                    &name,
                    &$crate::Context::for_backend(),
                )
            }
            fn build(
                name: String,
                request: $crate::backend::building::Request,
            ) -> Result<$crate::backend::building::Report, $crate::backend::Error> {
                <$backend as $crate::backend::Builder>::build(
                    &name,
                    &request,
                    &$crate::Context::for_backend(),
                )
            }
        }
        #[cfg(target_family = "wasm")]
        $crate::backend::build_bindings::export!(
            $backend with_types_in $crate::backend::build_bindings
        );
    };
}

#[cfg(test)]
mod tests {
    use super::surest;

    #[test]
    fn the_surest_backend_is_chosen_and_order_breaks_ties() {
        let all = ["a", "b", "c"].map(str::to_owned);
        for (sure, wanted) in [
            ([90, 80, 70], Some("a")),
            ([90, 90, 90], Some("c")),
            ([90, 90, 0], Some("b")),
            ([0, 0, 0], None),
        ] {
            let detect = |name: &str| sure[usize::from(name.as_bytes()[0] - b'a')];
            assert_eq!(surest(&all, detect, &["c", "b"]), wanted, "{sure:?}");
        }
    }
}
