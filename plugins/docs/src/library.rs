//! The id of a library: `/org/project`, with a version after another `/` or an `@`.

use std::fmt;
use std::str::FromStr;

use cofferdam_sdk::{ToolError, shorten};

/// A library id that is syntactically valid.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LibraryId(String);

impl LibraryId {
    /// The project's name, without organisation and version.
    pub fn project(&self) -> &str {
        let project = self.0.split('/').nth(2).unwrap_or_default();
        project.split('@').next().unwrap_or_default()
    }

    /// The id as written.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for LibraryId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl FromStr for LibraryId {
    type Err = ToolError;

    /// # Errors
    /// `InvalidLibraryId`, with the expected form.
    fn from_str(text: &str) -> Result<Self, ToolError> {
        let is_part = |part: &str| {
            !part.is_empty()
                && part != "."
                && part != ".."
                && part.chars().all(|c| c.is_alphanumeric() || "._-+~@".contains(c))
        };
        let parts: Vec<&str> = text.split('/').collect();
        match parts[..] {
            ["", organisation, project] if is_part(organisation) && is_part(project) => {}
            ["", organisation, project, version]
                if [organisation, project, version].into_iter().all(is_part) => {}
            _ => {
                return Err(ToolError::invalid_args(
                    "InvalidLibraryId",
                    format!(
                        "'{}' is no library id of the form /org/project; call \
                         context7_resolve_library_id first",
                        shorten(text, 80)
                    ),
                ));
            }
        }
        Ok(Self(text.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use super::*;

    #[test]
    fn ids_have_an_organisation_and_a_project() {
        for (text, project) in [
            ("/encode/httpx", "httpx"),
            ("/vercel/next.js", "next.js"),
            ("/vercel/next.js/v15.1.8", "next.js"),
            ("/vercel/next.js@v15.1.8", "next.js"),
            ("/websites/uploadcare", "uploadcare"),
        ] {
            let id: LibraryId = text.parse().unwrap();
            assert_eq!((id.as_str(), id.project()), (text, project));
        }
        for text in [
            "",
            "/",
            "httpx",
            "encode/httpx",
            "/encode",
            "/encode/",
            "//httpx",
            "/a/b/c/d",
            "/a/b/",
            "/a/../b",
            "/a/b c",
            "/a/b?query=x",
            "/a/b#c",
            "/a/b\n",
            "https://context7.com/a/b",
        ] {
            let error = text.parse::<LibraryId>().unwrap_err();
            assert_eq!(error.code, "InvalidLibraryId", "{text:?}");
            assert!(error.message.contains("call context7_resolve_library_id first"));
        }
    }
}
