//! `context7_query_docs`: code examples and explanations from a library's documentation.

use cofferdam_sdk::ToolError;
use serde::{Deserialize, Serialize};

use crate::library::LibraryId;
use crate::service::{Reply, Service, ask, target};
use crate::{question, sensitive};

/// The maximum number of redirections to another library id.
const MAX_REDIRECTIONS: usize = 1;

/// The arguments of `context7_query_docs`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Args {
    library_id: String,
    query: String,
}

/// The result of `context7_query_docs`.
#[derive(Debug, PartialEq, Serialize)]
pub struct Output {
    library_id: String,
    snippets: Vec<Snippet>,
    explanations: Vec<Explanation>,
}

#[derive(Debug, PartialEq, Serialize)]
struct Snippet {
    title: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    description: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    source: String,
    code: Vec<Code>,
}

#[derive(Debug, PartialEq, Serialize)]
struct Code {
    language: String,
    text: String,
}

#[derive(Debug, PartialEq, Serialize)]
struct Explanation {
    #[serde(skip_serializing_if = "String::is_empty")]
    title: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    source: String,
    text: String,
}

/// The response of Context7 to a query.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Found {
    code_snippets: Vec<CodeSnippet>,
    info_snippets: Vec<InfoSnippet>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct CodeSnippet {
    code_title: String,
    code_description: String,
    code_id: String,
    code_list: Vec<Listing>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Listing {
    language: String,
    code: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct InfoSnippet {
    page_id: Option<String>,
    breadcrumb: Option<String>,
    content: String,
}

impl From<CodeSnippet> for Snippet {
    fn from(found: CodeSnippet) -> Self {
        let code = |listing: Listing| Code { language: listing.language, text: listing.code };
        let listings = found.code_list.into_iter().filter(|listing| !listing.code.is_empty());
        Self {
            title: found.code_title,
            description: found.code_description,
            source: found.code_id,
            code: listings.map(code).collect(),
        }
    }
}

impl From<InfoSnippet> for Explanation {
    fn from(found: InfoSnippet) -> Self {
        Self {
            title: found.breadcrumb.unwrap_or_default(),
            source: found.page_id.unwrap_or_default(),
            text: found.content,
        }
    }
}

/// Queries a library's documentation.
///
/// # Errors
/// `InvalidLibraryId`, `VagueQuery`, `NoResults`, `SensitiveData`, and those of [`ask`].
pub fn run(args: &Args, service: &dyn Service) -> Result<Output, ToolError> {
    let mut id: LibraryId = args.library_id.parse()?;
    sensitive::check("query", &args.query)?;
    question::check(&args.query, &id)?;
    let mut moves = 0;
    let found: Found = loop {
        let query = [("libraryId", id.as_str()), ("query", args.query.as_str()), ("type", "json")];
        match ask(service, &target("/api/v2/context", &query))? {
            Reply::Found(found) => break found,
            Reply::Moved(to) if moves < MAX_REDIRECTIONS => {
                moves += 1;
                id = moved(&id, &to)?;
            }
            Reply::Moved(_) | Reply::NotFound => return Err(unknown(&id)),
            Reply::Empty(why) => return Err(no_results(&id, &why)),
        }
    };
    let snippets: Vec<Snippet> = found.code_snippets.into_iter().map(Snippet::from).collect();
    let output = Output {
        library_id: id.to_string(),
        snippets: snippets.into_iter().filter(|snippet| !snippet.code.is_empty()).collect(),
        explanations: found
            .info_snippets
            .into_iter()
            .map(Explanation::from)
            .filter(|explanation| !explanation.text.is_empty())
            .collect(),
    };
    if output.snippets.is_empty() && output.explanations.is_empty() {
        return Err(no_results(&id, "nothing in its documentation matches the query"));
    }
    Ok(output)
}

/// Parses the new id of a library: an id, or the URL of the library's page.
fn moved(id: &LibraryId, to: &str) -> Result<LibraryId, ToolError> {
    to.strip_prefix("https://context7.com").unwrap_or(to).parse().map_err(|_| unknown(id))
}

fn unknown(id: &LibraryId) -> ToolError {
    ToolError::invalid_args(
        "InvalidLibraryId",
        format!("Context7 has no library '{id}'; call context7_resolve_library_id first"),
    )
}

fn no_results(id: &LibraryId, why: &str) -> ToolError {
    ToolError::not_found("NoResults", format!("{id}: {why}; rephrase it or try related terms"))
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use super::*;
    use crate::service::testing::{FakeService, answer};
    use serde_json::{Value, json};

    const QUESTION: &str = "How to set timeout parameter in AsyncClient constructor?";

    fn args(id: &str, query: &str) -> Args {
        Args { library_id: id.to_owned(), query: query.to_owned() }
    }

    /// A response in the form of the example in Context7's documentation.
    fn found() -> Value {
        json!({
            "codeSnippets": [
                {
                    "codeTitle": "Timeouts", "codeDescription": "Sets a timeout.",
                    "codeLanguage": "python", "codeTokens": 150, "codeId": "https://x/timeouts.md#1",
                    "pageTitle": "Advanced",
                    "codeList": [{"language": "python", "code": "httpx.AsyncClient(timeout=30.0)"}]
                },
                {"codeTitle": "Empty", "codeList": []}
            ],
            "infoSnippets": [
                {"pageId": "https://x/t.md", "breadcrumb": "A > B", "content": "Text", "contentTokens": 2},
                {"content": ""}
            ]
        })
    }

    #[test]
    fn the_documented_examples_have_results() {
        for (id, query) in [
            ("/encode/httpx", QUESTION),
            (
                "/pydantic/pydantic",
                "What is the correct decorator for field validation in Pydantic v2?",
            ),
            (
                "/hynek/structlog",
                "Recommended way to configure structlog for production JSON logging",
            ),
            ("/httpx/httpx", "How to set timeout in AsyncClient?"),
        ] {
            let service = FakeService::json(200, &found());
            let output = serde_json::to_value(run(&args(id, query), &service).unwrap()).unwrap();
            let wanted = json!({
                "library_id": id,
                "snippets": [{
                    "title": "Timeouts", "description": "Sets a timeout.",
                    "source": "https://x/timeouts.md#1",
                    "code": [{"language": "python", "text": "httpx.AsyncClient(timeout=30.0)"}]
                }],
                "explanations": [{"title": "A > B", "source": "https://x/t.md", "text": "Text"}]
            });
            assert_eq!(output, wanted);
            let asked = service.asked.take();
            let id = id.replace('/', "%2F");
            assert!(
                asked[0].starts_with(&format!("/api/v2/context?libraryId={id}&query=")),
                "{asked:?}"
            );
            assert!(asked[0].ends_with("&type=json"));
        }
    }

    #[test]
    fn each_failure_has_its_code() {
        let nothing = json!({"codeSnippets": [], "infoSnippets": []});
        for (id, query, status, body, wanted) in [
            ("httpx", QUESTION, 200, found(), "InvalidLibraryId"),
            ("/encode/httpx", QUESTION, 404, json!({}), "InvalidLibraryId"),
            ("/encode/httpx", QUESTION, 429, json!({}), "QuotaExceeded"),
            ("/encode/httpx", "tell me about httpx", 200, found(), "VagueQuery"),
            ("/encode/httpx", QUESTION, 200, nothing, "NoResults"),
            ("/encode/httpx", QUESTION, 202, json!({}), "NoResults"),
            ("/encode/httpx", "why is token = abc123def refused?", 200, found(), "SensitiveData"),
        ] {
            let service = FakeService::json(status, &body);
            let error = run(&args(id, query), &service).unwrap_err();
            assert_eq!(error.code, wanted, "{error}");
        }
        let error = run(&args("/encode/httpx", QUESTION), &FakeService::new([])).unwrap_err();
        assert_eq!(error.code, "TimeoutError");
    }

    #[test]
    fn a_redirected_library_is_queried_by_its_new_id() {
        let moved = |to: &str| answer(301, &json!({"error": "redirected", "redirectUrl": to}));
        for to in ["/new/httpx", "https://context7.com/new/httpx"] {
            let service = FakeService::new([moved(to), answer(200, &found())]);
            let output = run(&args("/encode/httpx", QUESTION), &service).unwrap();
            assert_eq!(output.library_id, "/new/httpx");
            assert!(service.asked.borrow()[1].contains("libraryId=%2Fnew%2Fhttpx&"));
        }
        for to in ["https://evil.example/a/b", "", "/a"] {
            let error =
                run(&args("/encode/httpx", QUESTION), &FakeService::new([moved(to)])).unwrap_err();
            assert_eq!(error.code, "InvalidLibraryId", "{to}");
        }
        let circle = FakeService::new([moved("/a/b"), moved("/encode/httpx"), moved("/a/b")]);
        let error = run(&args("/encode/httpx", QUESTION), &circle).unwrap_err();
        assert_eq!((error.code.as_str(), circle.asked.borrow().len()), ("InvalidLibraryId", 2));
    }
}
