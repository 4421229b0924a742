//! The `files` plugin: reading, writing, moving, copying, deleting, listing and finding files.
//!
//! There is one module for each tool, and [`paths`] for moving, copying and deleting; [`pattern`] implements
//! globs, [`text`] detects encodings. [`image`] and [`notebook`] read what is not plain text.
//! Only this module calls the host.

pub mod glob;
pub mod image;
pub mod notebook;
pub mod paths;
pub mod pattern;
pub mod read;
pub mod read_file;
pub mod read_tree;
pub mod text;
pub mod write_file;

use cofferdam_sdk::scan::Scanner;
use cofferdam_sdk::{Context, ToolError, plugin};

/// Directories that belong to tools instead of the project: never listed, and found only by a
/// pattern that names them.
const PRIVATE: [&str; 2] = [".git", ".cofferdam"];

/// The plugin: each function is a tool.
pub struct Files;

impl Files {
    fn read_file(args: read_file::Args, context: &Context) -> Result<read_file::Output, ToolError> {
        read_file::run(&args, context)
    }

    fn write_file(
        args: write_file::Args,
        context: &Context,
    ) -> Result<write_file::Output, ToolError> {
        write_file::run(&args, context)
    }

    fn move_path(
        args: paths::Transfer,
        context: &Context,
    ) -> Result<paths::Transferred, ToolError> {
        paths::move_path(&args, context)
    }

    fn copy_path(
        args: paths::Transfer,
        context: &Context,
    ) -> Result<paths::Transferred, ToolError> {
        paths::copy_path(&args, context)
    }

    fn delete_path(args: paths::Delete, context: &Context) -> Result<paths::Deleted, ToolError> {
        paths::delete_path(&args, context)
    }

    fn read_tree(args: read_tree::Args, context: &Context) -> Result<read_tree::Output, ToolError> {
        read_tree::run(&args, context, &|query| {
            Ok(Scanner::open(query)?.files().map(|file| file.path).collect())
        })
    }

    fn read(args: read::Args, context: &Context) -> Result<read::Output, ToolError> {
        read::run(&args, context)
    }

    fn glob(args: glob::Args, context: &Context) -> Result<glob::Output, ToolError> {
        let search = glob::Search::new(args, context)?;
        match search.query() {
            Some(query) => search.answer(Scanner::open(&query)?.files(), context),
            None => search.answer(std::iter::empty(), context),
        }
    }
}

plugin!(Files {
    read_file,
    read_code = read_file,
    write_file,
    move_path,
    copy_path,
    delete_path,
    read_tree,
    read,
    glob,
});

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use cofferdam_testing::{fits, parsed, takes_examples};
    use serde::de::DeserializeOwned;
    use serde_json::Value;

    use super::*;

    /// Checks that every example of an input schema is valid and can be deserialized.
    fn check<Args: DeserializeOwned>(input: &str, output: &str) {
        takes_examples::<Args>(&parsed(input));
        jsonschema::draft202012::new(&parsed(output)).unwrap();
    }

    macro_rules! schema {
        ($name:literal) => {
            include_str!(concat!("../../../schemas/tools/files.", $name, ".json"))
        };
    }

    #[test]
    fn schemas_and_types_agree() {
        check::<read_file::Args>(schema!("read_file.input"), schema!("read_file.output"));
        check::<write_file::Args>(schema!("write_file.input"), schema!("write_file.output"));
        check::<read_tree::Args>(schema!("read_tree.input"), schema!("read_tree.output"));
        check::<read::Args>(schema!("read.input"), schema!("read.output"));
        check::<paths::Transfer>(schema!("move_path.input"), schema!("move_path.output"));
        check::<paths::Transfer>(schema!("copy_path.input"), schema!("copy_path.output"));
        check::<paths::Delete>(schema!("delete_path.input"), schema!("delete_path.output"));
        check::<glob::Args>(schema!("glob.input"), schema!("glob.output"));
    }

    #[test]
    fn results_fit_their_schemas() {
        let directory = tempfile::tempdir().unwrap();
        let context = Context::for_directory(directory.path());
        let at = |name: &str| directory.path().join(name);
        std::fs::write(at("long"), format!("a\n{}\n", "x".repeat(3000))).unwrap();
        std::fs::write(at("wide"), b"\xff\xfea\0\n\0").unwrap();
        std::fs::write(at("image"), image::tests::plain(2, 2, ::image::ImageFormat::Png)).unwrap();
        std::os::unix::fs::symlink("long", at("link")).unwrap();
        let args = |value: Value| value.to_string();
        let valid = |schema: &str, answer: Value| {
            fits(&parsed(schema), &answer);
        };
        for read_file in [
            serde_json::json!({"path": "long"}),
            serde_json::json!({"path": "long", "numbered": true}),
            serde_json::json!({"path": "long", "limit": 1}),
            serde_json::json!({"path": "image"}),
        ] {
            let read_file = serde_json::from_str(&args(read_file)).unwrap();
            let answer = Files::read_file(read_file, &context).unwrap();
            valid(schema!("read_file.output"), serde_json::to_value(answer).unwrap());
        }

        for name in ["long", "wide"] {
            let path = at(name);
            let read = serde_json::from_value(serde_json::json!({"file_path": path})).unwrap();
            let answer = Files::read(read, &context).unwrap();
            valid(schema!("read.output"), serde_json::to_value(answer).unwrap());
        }
        for limit in [1, 100] {
            let tree = serde_json::from_value(serde_json::json!({"limit": limit})).unwrap();
            let answer = read_tree::run(&tree, &context, &|_| Ok(vec!["long".to_owned()])).unwrap();
            valid(schema!("read_tree.output"), serde_json::to_value(answer).unwrap());
        }
    }
}
