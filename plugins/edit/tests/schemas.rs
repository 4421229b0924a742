//! The arguments and results of the tools fit their schemas.
#![expect(clippy::unwrap_used, reason = "tests")]

use cofferdam_edit::{move_text, patch, replace};
use cofferdam_testing::{examples, fits, parsed, takes_examples};

macro_rules! schema {
    ($name:literal) => {
        parsed(include_str!(concat!("../../../schemas/tools/edit.", $name, ".json")))
    };
}

#[test]
fn input_examples_are_arguments() {
    takes_examples::<replace::Args>(&schema!("atomic_replace.input"));
    takes_examples::<move_text::Args>(&schema!("move_text.input"));
    takes_examples::<patch::EditCode>(&schema!("edit_code.input"));
    takes_examples::<patch::ApplyPatch>(&schema!("apply_patch.input"));
}

#[test]
fn other_examples_fit_their_schemas() {
    for schema in [
        schema!("atomic_replace.output"),
        schema!("atomic_replace.failure"),
        schema!("move_text.output"),
        schema!("move_text.failure"),
        schema!("edit_code.output"),
        schema!("edit_code.failure"),
        schema!("apply_patch.output"),
        schema!("apply_patch.failure"),
    ] {
        examples(&schema);
    }
}

#[test]
fn results_fit_the_schemas() {
    let directory = tempfile::tempdir().unwrap();
    let context = cofferdam_sdk::Context::for_directory(directory.path());
    let lay_out = || {
        std::fs::write(directory.path().join("a"), "1\n2\n").unwrap();
        std::fs::write(directory.path().join("b"), "x\n").unwrap();
    };

    lay_out();
    let call = |text: &str| replace::run(&serde_json::from_str(text).unwrap(), &context);
    let done =
        call(r#"{"path":"a","replacements":[{"old_string":"1","new_string":"one"}]}"#).unwrap();
    fits(&schema!("atomic_replace.output"), &serde_json::to_value(done).unwrap());
    let error =
        call(r#"{"path":"a","replacements":[{"old_string":"3","new_string":""}]}"#).unwrap_err();
    fits(&schema!("atomic_replace.failure"), &error.detail.unwrap());

    lay_out();
    let call = |text: &str| move_text::run(&serde_json::from_str(text).unwrap(), &context);
    for text in [
        r#"{"file_path":"a","source_start":1,"source_end":1,"target_line":3}"#,
        r#"{"file_path":"a","source_start":1,"source_end":1,"target_line":1,"target_file":"b"}"#,
    ] {
        fits(&schema!("move_text.output"), &serde_json::to_value(call(text).unwrap()).unwrap());
    }
    let error =
        call(r#"{"file_path":"a","source_start":1,"source_end":9,"target_line":3}"#).unwrap_err();
    fits(&schema!("move_text.failure"), &error.detail.unwrap());

    lay_out();
    let call = |text: &str| patch::edit_code(&serde_json::from_str(text).unwrap(), &context);
    let done = call(r#"{"path":"a","patch":"@@ -1 +1 @@\n-1\n+one\n"}"#).unwrap();
    fits(&schema!("edit_code.output"), &serde_json::to_value(done).unwrap());
    let error = call(r#"{"path":"a","patch":"@@ -9 +9 @@\n-1\n+one\n"}"#).unwrap_err();
    fits(&schema!("edit_code.failure"), &error.detail.unwrap());
}
