//! The `lint_agent` plugin: the tools of an agent that lints and fixes one Python file.
//!
//! The file is the first path of the call's scope, so the operator's role determines it. No tool
//! returns an error: a failure is the result `{"error": "..."}`.
//!
//! | module | is for |
//! |---|---|
//! | [`linting`] | `run_linter`; running the operator's linters on the target |
//! | [`fix`] | `apply_fix`; edits of bytes |
//! | [`target`] | `read_file`; finding the target |
//! | [`config`] | `ruff_config` |
//! | [`submit`] | `submit` |
//! | [`answer`] | results that may be a failure |

pub mod answer;
pub mod config;
pub mod fix;
pub mod linting;
pub mod submit;
pub mod target;

#[cfg(test)]
mod testing;

use answer::Answer;
use cofferdam_sdk::{Context, ToolError, plugin};
use linting::Host;

/// The plugin: each function is a tool.
pub struct LintAgent;

impl LintAgent {
    fn run_linter(
        _: linting::Args,
        context: &Context,
    ) -> Result<Answer<linting::Output>, ToolError> {
        Ok(linting::run(context, &Host).into())
    }

    fn apply_fix(args: fix::Args, context: &Context) -> Result<Answer<fix::Output>, ToolError> {
        Ok(fix::run(&args, context, &Host).into())
    }

    fn read_file(_: target::Args, context: &Context) -> Result<Answer<target::Output>, ToolError> {
        Ok(target::run(context).into())
    }

    fn submit(args: submit::Args, context: &Context) -> Result<Answer<submit::Output>, ToolError> {
        Ok(submit::run(args, context).into())
    }

    fn ruff_config(_: config::Args, context: &Context) -> Result<Answer<String>, ToolError> {
        Ok(config::run(context).into())
    }
}

plugin!(LintAgent { run_linter, apply_fix, read_file, submit, ruff_config });

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use cofferdam_testing::{fits, takes_examples};
    use serde::de::DeserializeOwned;
    use serde_json::Value;

    use super::*;
    use crate::testing::schema;

    fn check<Args: DeserializeOwned>(tool: &str) {
        takes_examples::<Args>(&schema(tool).0);
    }

    #[test]
    fn schemas_and_types_agree() {
        check::<linting::Args>("run_linter");
        check::<fix::Args>("apply_fix");
        check::<target::Args>("read_file");
        check::<submit::Args>("submit");
        check::<config::Args>("ruff_config");
    }

    #[test]
    fn without_a_target_every_result_is_an_error() {
        let directory = tempfile::tempdir().unwrap();
        let mut context = Context::for_directory(directory.path());
        for (scope, wanted) in [
            (vec![], "no target file: the role needs a scope whose first path is the file to lint"),
            (vec!["none.py".to_owned()], "file not found: none.py"),
            (vec!["../x.py".to_owned()], "'../x.py' leaves the workspace"),
        ] {
            context.scope = scope;
            for (tool, args) in [
                ("run_linter", r#"{}"#),
                ("apply_fix", r#"{"issue_code": "E225", "line_number": 5}"#),
                ("read_file", "{}"),
            ] {
                let answer = call(tool, args, &context).unwrap();
                let answer: Value = serde_json::from_str(&answer).unwrap();
                assert_eq!(answer["error"], wanted, "{tool}");
                fits(&schema(tool).1, &answer);
            }
        }
    }
}
