//! `context7_resolve_library_id`: finds the best match for a library's name.

use cofferdam_sdk::{ToolError, shorten};
use serde::{Deserialize, Serialize};

use crate::library::LibraryId;
use crate::service::{Reply, Service, ask, target};
use crate::{question, sensitive};

/// The maximum number of libraries named in a message.
const MAX_NAMED_LIBRARIES: usize = 3;

/// The length of a common prefix that makes two words similar, such as `log` and `logging`, in
/// bytes.
const COMMON_PREFIX_BYTES: usize = 3;

/// The arguments of `context7_resolve_library_id`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Args {
    library_name: String,
    query: String,
}

/// The result of `context7_resolve_library_id`.
#[derive(Debug, PartialEq, Serialize)]
pub struct Output {
    library_id: String,
    version: Option<String>,
    benchmark_score: Option<f64>,
}

/// The response of Context7 to a search.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Found {
    results: Vec<Library>,
}

/// A library in the response. Unknown values are missing or -1.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Library {
    id: String,
    title: String,
    description: Option<String>,
    total_snippets: Option<f64>,
    benchmark_score: Option<f64>,
    versions: Vec<String>,
}

/// How well a library's name fits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Fit {
    Partial,
    Exact,
}

/// The rank of a match: "exact name match > description relevance > snippet count" in the tool
/// schemas.
#[derive(Debug, Clone, Copy, PartialEq, PartialOrd)]
struct Rank(Fit, usize, f64);

/// Finds the library that fits a name best.
///
/// # Errors
/// `NoMatchFound`, `AmbiguousMatch`, `SensitiveData`, and those of [`ask`].
pub fn run(args: &Args, service: &dyn Service) -> Result<Output, ToolError> {
    sensitive::check("libraryName", &args.library_name)?;
    sensitive::check("query", &args.query)?;
    let query = [("libraryName", args.library_name.as_str()), ("query", args.query.as_str())];
    let found: Found = match ask(service, &target("/api/v2/libs/search", &query))? {
        Reply::Found(found) => found,
        Reply::NotFound | Reply::Moved(_) | Reply::Empty(_) => Found::default(),
    };
    best(args, found.results)
}

fn best(args: &Args, libraries: Vec<Library>) -> Result<Output, ToolError> {
    let name = plain(&args.library_name);
    let asked: Vec<String> = question::specific_words(&args.query).collect();
    let libraries: Vec<(LibraryId, Library)> = libraries
        .into_iter()
        .filter_map(|library| Some((library.id.parse().ok()?, library)))
        .collect();
    let mut ranked: Vec<(Rank, &(LibraryId, Library))> = libraries
        .iter()
        .filter_map(|library| Some((rank(&name, &asked, library)?, library)))
        .collect();
    // The sort is stable, but the order of the service decides nothing: equal ranks are ambiguous.
    ranked.sort_by(|(left, _), (right, _)| {
        right.partial_cmp(left).unwrap_or(std::cmp::Ordering::Equal)
    });
    let shown = shorten(&args.library_name, 80);
    let Some((rank, (id, library))) = ranked.first() else {
        let others = names(libraries.iter().map(|(id, _)| id));
        return Err(ToolError::not_found(
            "NoMatchFound",
            format!(
                "Context7 has no library called '{shown}'{}; use what you know, and mark that as \
                 unverified",
                if others.is_empty() { String::new() } else { format!(" (it has {others})") }
            ),
        ));
    };
    let equal: Vec<&LibraryId> =
        ranked.iter().filter(|(other, _)| other == rank).map(|(_, (id, _))| id).collect();
    if equal.len() > 1 {
        return Err(ToolError::invalid_args(
            "AmbiguousMatch",
            format!(
                "several libraries match '{shown}' equally well: {}; refine the query with more \
                 context, or ask one of them",
                names(equal.into_iter())
            ),
        ));
    }
    Ok(Output {
        library_id: id.to_string(),
        version: library.versions.first().cloned(),
        benchmark_score: library.benchmark_score.filter(|score| *score >= 0.0),
    })
}

/// The rank of a library; `None` if its name does not fit.
fn rank(name: &str, asked: &[String], (id, library): &(LibraryId, Library)) -> Option<Rank> {
    let names = [plain(&library.title), plain(id.project())];
    let fit = if names.iter().any(|other| other == name) {
        Fit::Exact
    } else if names.iter().any(|other| is_part(name, other) || is_part(other, name)) {
        Fit::Partial
    } else {
        return None;
    };
    let described: Vec<String> =
        question::words(library.description.as_deref().unwrap_or_default()).collect();
    let relevance = asked.iter().filter(|word| described.iter().any(|other| alike(word, other)));
    Some(Rank(fit, relevance.count(), library.total_snippets.unwrap_or(-1.0)))
}

/// Normalizes a name: `Next.js`, `nextjs` and `next-js` are equal.
fn plain(name: &str) -> String {
    name.chars().filter(|c| c.is_alphanumeric()).flat_map(char::to_lowercase).collect()
}

fn is_part(part: &str, whole: &str) -> bool {
    part.len() >= 2 && whole.contains(part)
}

fn alike(left: &str, right: &str) -> bool {
    let (short, long) = if left.len() <= right.len() { (left, right) } else { (right, left) };
    short == long || (short.len() >= COMMON_PREFIX_BYTES && long.starts_with(short))
}

fn names<'a>(ids: impl Iterator<Item = &'a LibraryId>) -> String {
    let ids: Vec<&str> = ids.map(LibraryId::as_str).collect();
    let more = if ids.len() > MAX_NAMED_LIBRARIES { ", ..." } else { "" };
    format!("{}{more}", ids[..ids.len().min(MAX_NAMED_LIBRARIES)].join(", "))
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use super::*;
    use crate::service::testing::FakeService;
    use serde_json::{Value, json};

    fn args(name: &str, query: &str) -> Args {
        Args { library_name: name.to_owned(), query: query.to_owned() }
    }

    fn library(id: &str, title: &str, description: &str, snippets: i64) -> Value {
        json!({"id": id, "title": title, "description": description, "totalSnippets": snippets})
    }

    fn resolve(name: &str, query: &str, results: Value) -> Result<String, String> {
        let service = FakeService::json(200, &json!({"results": results}));
        run(&args(name, query), &service)
            .map(|output| output.library_id)
            .map_err(|error| error.code)
    }

    #[test]
    fn the_documented_examples_have_results() {
        for (name, query, asked, result, wanted) in [
            (
                "httpx",
                "async client timeout configuration",
                "libraryName=httpx&query=async%20client%20timeout%20configuration",
                json!({"id": "/encode/httpx", "title": "HTTPX", "versions": ["0.24.1"], "benchmarkScore": 95}),
                json!({"library_id": "/encode/httpx", "version": "0.24.1", "benchmark_score": 95.0}),
            ),
            (
                "pydantic",
                "Pydantic v2 ConfigDict and field_validator usage",
                "libraryName=pydantic&query=Pydantic%20v2%20ConfigDict%20and%20field_validator%20usage",
                json!({"id": "/pydantic/pydantic", "title": "Pydantic", "versions": ["2.5.0"], "benchmarkScore": 98}),
                json!({"library_id": "/pydantic/pydantic", "version": "2.5.0", "benchmark_score": 98.0}),
            ),
            (
                "struct",
                "structured logging with context",
                "libraryName=struct&query=structured%20logging%20with%20context",
                json!({"id": "/hynek/structlog", "title": "structlog", "versions": ["23.2.0"], "benchmarkScore": 88}),
                json!({"library_id": "/hynek/structlog", "version": "23.2.0", "benchmark_score": 88.0}),
            ),
        ] {
            let service = FakeService::json(200, &json!({"results": [result]}));
            let output = run(&args(name, query), &service).unwrap();
            assert_eq!(serde_json::to_value(output).unwrap(), wanted);
            assert_eq!(service.asked.take(), [format!("/api/v2/libs/search?{asked}")]);
        }
    }

    #[test]
    fn an_exact_name_ranks_above_relevance_and_size() {
        let exact = library("/a/http", "http", "", 1);
        let relevant = library("/a/httpx", "httpx", "client with timeout", 5);
        let large = library("/a/httpie", "httpie", "client", 900);
        let small = library("/a/httpq", "httpq", "client", 90);
        let query = "client timeouts";
        for (results, wanted) in [
            (json!([large, relevant, exact]), "/a/http"),
            (json!([large, relevant, small]), "/a/httpx"),
            (json!([small, large]), "/a/httpie"),
        ] {
            assert_eq!(resolve("http", query, results).as_deref(), Ok(wanted));
        }
        for name in ["next.js", "nextjs", "Next-JS", "NEXT.JS"] {
            let results = json!([library("/vercel/next.js", "Next.js", "", 1)]);
            assert_eq!(resolve(name, "q", results).as_deref(), Ok("/vercel/next.js"));
        }
    }

    #[test]
    fn other_names_do_not_match() {
        let other = library("/encode/httpx", "HTTPX", "an http client", 5);
        for (name, results) in [
            ("leftpad", json!([])),
            ("leftpad", json!([other])),
            ("c", json!([other])),
            ("httpx", json!([{"id": "https://evil.example/", "title": "httpx"}])),
        ] {
            assert_eq!(
                resolve(name, "q", results).as_ref().map_err(String::as_str),
                Err("NoMatchFound")
            );
        }
        let service = FakeService::json(200, &json!({"results": [other]}));
        let error = run(&args("leftpad", "q"), &service).unwrap_err();
        assert!(error.message.contains("(it has /encode/httpx)"), "{error}");
        assert!(error.message.contains("mark that as unverified"), "{error}");
        let gone =
            FakeService::json(404, &json!({"error": "not_found", "message": "No libraries found"}));
        assert_eq!(run(&args("leftpad", "q"), &gone).unwrap_err().code, "NoMatchFound");
    }

    #[test]
    fn equal_matches_are_ambiguous() {
        let results = json!([
            library("/a/requests", "requests", "HTTP for humans", 10),
            library("/b/requests", "requests", "HTTP for humans", 10),
        ]);
        let service = FakeService::json(200, &json!({"results": results}));
        let error = run(&args("requests", "sessions"), &service).unwrap_err();
        assert_eq!(error.code, "AmbiguousMatch");
        assert!(error.message.contains("/a/requests, /b/requests; refine the query"), "{error}");
        // A query with more words decides.
        let results = json!([
            library("/a/requests", "requests", "HTTP for humans", 10),
            library("/b/requests", "requests", "Tracks leave requests of employees", 10),
        ]);
        assert_eq!(resolve("requests", "track employees", results).as_deref(), Ok("/b/requests"));
    }

    #[test]
    fn secrets_are_not_sent() {
        let service = FakeService::new([]);
        let error = run(&args("httpx", "password = hunter22"), &service).unwrap_err();
        assert_eq!(error.code, "SensitiveData");
        assert!(service.asked.borrow().is_empty());
    }
}
