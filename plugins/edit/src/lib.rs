//! Edit tools: exact replacements, moved lines and patches.
//!
//! | module | tool |
//! |---|---|
//! | [`replace`] | `atomic_replace` |
//! | [`move_text`] | `move_text` |
//! | [`patch`] | `edit_code`, `apply_patch` |
//!
//! `nearest` finds text that is nearly the one that a caller looked for.
//!
//! Each tool does all checks that it can before it writes, so that an error lists all problems.
//! Files written before an error are not restored here: the host discards all changes of a failed
//! call.

pub mod move_text;
mod nearest;
pub mod patch;
mod paths;
pub mod replace;
mod validation;

use cofferdam_sdk::{Context, ToolError, plugin};

/// The plugin: each function is a tool.
pub struct Edit;

impl Edit {
    fn atomic_replace(
        args: replace::Args,
        context: &Context,
    ) -> Result<replace::Output, ToolError> {
        replace::run(&args, context)
    }

    fn move_text(args: move_text::Args, context: &Context) -> Result<move_text::Output, ToolError> {
        move_text::run(&args, context)
    }

    fn edit_code(args: patch::EditCode, context: &Context) -> Result<patch::Output, ToolError> {
        patch::edit_code(&args, context)
    }

    fn apply_patch(args: patch::ApplyPatch, context: &Context) -> Result<patch::Output, ToolError> {
        patch::apply_patch(&args, context)
    }
}

plugin!(Edit { atomic_replace, move_text, edit_code, apply_patch });
