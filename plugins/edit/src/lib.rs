//! Edit tools: exact replacements, moved lines and patches.
//!
//! | module | tool |
//! |---|---|
//! | [`replace`] | `atomic_replace` |
//! | [`move_text`] | `move_text` |
//! | [`patch`] | `edit_code`, `apply_patch` |
//!
//! The modules read files and return a [`Plan`]; only this file lets the host carry it out.

pub mod move_text;
pub mod patch;
pub mod plan;
pub mod replace;
mod validation;

use cofferdam_sdk::{Context, ToolError, changes, plugin};

pub use plan::Plan;

/// The plugin.
pub struct Edit;

impl Edit {
    fn atomic_replace(
        args: replace::Args,
        context: &Context,
    ) -> Result<replace::Output, ToolError> {
        carry_out(replace::plan(&args, context)?)
    }

    fn move_text(args: move_text::Args, context: &Context) -> Result<move_text::Output, ToolError> {
        carry_out(move_text::plan(&args, context)?)
    }

    fn edit_code(args: patch::EditCode, context: &Context) -> Result<patch::Output, ToolError> {
        carry_out(patch::edit_code(&args, context)?)
    }

    fn apply_patch(args: patch::ApplyPatch, context: &Context) -> Result<patch::Output, ToolError> {
        carry_out(patch::apply_patch(&args, context)?)
    }
}

plugin!(Edit { atomic_replace, move_text, edit_code, apply_patch });

fn carry_out<Output>(plan: Plan<Output>) -> Result<Output, ToolError> {
    if !plan.changes.is_empty() {
        changes::apply(plan.changes)?;
    }
    Ok(plan.output)
}
