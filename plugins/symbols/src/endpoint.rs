//! `trace_endpoint`: finds the handler of an HTTP endpoint, and follows its calls.

use cofferdam_sdk::ToolError;
use memchr::memmem;
use serde::Serialize;

use crate::args::TraceEndpointArgs;
use crate::calls::{DEFAULT_DEPTH, Root, Traced, Tracer, qualified_name};
use crate::name::Name;
use crate::project::{Deadline, Files};
use crate::python::resolve::{Modules, Place};
use crate::python::routes::{By, Endpoint, Finder, Framework};
use crate::search::{MAX_PROBLEMS, Unparsed};

/// The default maximum number of endpoints.
const DEFAULT_LIMIT: usize = 100;

/// The maximum number of endpoints whose calls are followed.
const MAX_TRACED: usize = 10;

/// The maximum number of calls of each endpoint.
const MAX_CALLS: usize = 200;

/// The maximum number of endpoints named in a message.
const MAX_NAMED: usize = 5;

/// Strings of which a file with routes contains at least one.
const ROUTE_MARKERS: [&[u8]; 8] = [
    b"fastapi",
    b"flask",
    b"quart",
    b"include_router",
    b"register_blueprint",
    b"add_api_route",
    b"add_url_rule",
    b".route(",
];

/// The result of `trace_endpoint`.
#[derive(Debug, Serialize)]
pub struct Endpoints {
    /// The endpoints, by path and method.
    pub endpoints: Vec<Shown>,
    /// The number of endpoints, with those not shown.
    pub total: usize,
    /// Whether the limit was exceeded, so that some are left out.
    pub truncated: bool,
    /// The number of files searched.
    pub files_searched: usize,
    /// Files with routes that could be parsed only in part.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub unparsed: Vec<Unparsed>,
}

/// An endpoint in the result.
#[derive(Debug, Serialize)]
pub struct Shown {
    /// The HTTP methods, sorted; `WEBSOCKET` for a websocket.
    pub methods: Vec<String>,
    /// The path with all prefixes; unknown parts are in `<...>`.
    pub path: String,
    /// The web framework of the route.
    pub framework: Framework,
    /// The file that contains the route.
    pub file: String,
    /// The line of the route.
    pub line: usize,
    /// Whether its router is part of an application that was found.
    pub mounted: bool,
    /// The function that handles requests.
    pub handler: Root,
    /// Its dependencies, the outermost first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub dependencies: Vec<Dependency>,
    /// The calls of the handler, then those of its dependencies.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trace: Option<Traced>,
}

/// A dependency of an endpoint.
#[derive(Debug, Serialize)]
pub struct Dependency {
    /// The provider: with its module if it is in the workspace, otherwise as written.
    pub symbol: String,
    /// The file in which the provider is defined.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    /// The line of the definition.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub line: Option<usize>,
    /// The element that declares the dependency.
    pub asked_by: By,
}

/// Finds endpoints below `root`, and follows the calls of those that match if they are few.
///
/// # Errors
/// `InvalidEndpoint`, `EndpointNotFound`, `PathNotFound`, `TimeoutError`.
pub fn trace(
    args: &TraceEndpointArgs,
    root: &str,
    files: &dyn Files,
    deadline: &mut Deadline,
) -> Result<Endpoints, ToolError> {
    let wanted = args.endpoint.as_deref().map(Wanted::parse).transpose()?;
    let mut modules = Modules::new(files);
    let mut finder = Finder::new(&mut modules);
    let (mut searched, mut unparsed) = (0, Vec::new());
    let mut late = Ok(());
    files.each(root, &["*.py".to_owned()], &mut |path, contents| {
        late = deadline.check(contents.len());
        if late.is_err() {
            return false;
        }
        searched += 1;
        if has_routes(contents) {
            let path = path();
            let problem = finder.look(&path, contents);
            if let Some(problem) = problem.filter(|_| unparsed.len() < MAX_PROBLEMS) {
                unparsed.push(Unparsed {
                    file: path,
                    line: problem.line,
                    message: problem.message,
                });
            }
        }
        true
    })?;
    late?;
    let all = finder.finish();
    let number = all.len();
    let found: Vec<Endpoint> = match &wanted {
        None => all,
        Some(wanted) => {
            let exact: Vec<Endpoint> =
                all.iter().filter(|one| wanted.is(one, true)).cloned().collect();
            let found: Vec<Endpoint> = if exact.is_empty() {
                all.iter().filter(|one| wanted.is(one, false)).cloned().collect()
            } else {
                exact
            };
            if found.is_empty() {
                return Err(unknown(args.endpoint.as_deref().unwrap_or_default(), &all, searched));
            }
            found
        }
    };
    let total = if wanted.is_some() { found.len() } else { number };
    let follow = wanted.is_some();
    let depth = args.depth.unwrap_or(DEFAULT_DEPTH);
    let mut shown = Vec::new();
    for (index, endpoint) in found.into_iter().take(args.limit.unwrap_or(DEFAULT_LIMIT)).enumerate()
    {
        let follow = follow && index < MAX_TRACED;
        shown.extend(show(endpoint, &mut modules, follow.then_some(depth), deadline)?);
    }
    Ok(Endpoints {
        truncated: shown.len() < total,
        endpoints: shown,
        total,
        files_searched: searched,
        unparsed,
    })
}

fn has_routes(contents: &[u8]) -> bool {
    ROUTE_MARKERS.iter().any(|sign| memmem::find(contents, sign).is_some())
        || (memmem::find(contents, b"@").is_some()
            && [&b".get("[..], b".post(", b".put(", b".patch(", b".delete(", b".websocket("]
                .iter()
                .any(|sign| memmem::find(contents, sign).is_some()))
}

fn show(
    endpoint: Endpoint,
    modules: &mut Modules<'_>,
    depth: Option<usize>,
    deadline: &mut Deadline,
) -> Result<Option<Shown>, ToolError> {
    let (Some(symbol), Some(name)) =
        (modules.symbol(&endpoint.handler), qualified_name(modules, &endpoint.handler))
    else {
        return Ok(None);
    };
    let dependencies = endpoint
        .dependencies
        .iter()
        .map(|asked| {
            let place = asked.place.as_ref();
            let name = place.and_then(|place| qualified_name(modules, place));
            Dependency {
                symbol: name.unwrap_or_else(|| asked.written.clone()),
                file: place.map(|place| place.file.clone()),
                line: place.and_then(|place| modules.symbol(place)).map(|symbol| symbol.line),
                asked_by: asked.by,
            }
        })
        .collect();
    let trace = match depth {
        None => None,
        Some(depth) => {
            let mut tracer = Tracer::new(modules, depth, MAX_CALLS);
            tracer.follow(&endpoint.handler, deadline)?;
            let places: Vec<&Place> =
                endpoint.dependencies.iter().filter_map(|asked| asked.place.as_ref()).collect();
            for place in places {
                tracer.follow(place, deadline)?;
            }
            Some(tracer.finish())
        }
    };
    Ok(Some(Shown {
        methods: endpoint.methods,
        path: endpoint.path,
        framework: endpoint.framework,
        file: endpoint.file,
        line: endpoint.line,
        mounted: endpoint.mounted,
        handler: Root {
            symbol: name,
            kind: symbol.kind,
            file: endpoint.handler.file,
            line: symbol.line,
            end_line: symbol.end_line,
            signature: symbol.signature,
        },
        dependencies,
        trace,
    }))
}

/// The endpoints that the caller selects.
enum Wanted {
    Path { method: Option<String>, path: String },
    Handler(Name),
}

impl Wanted {
    fn parse(text: &str) -> Result<Self, ToolError> {
        let text = text.trim();
        let (method, rest) = match text.split_once(char::is_whitespace) {
            Some((method, rest)) => (Some(method.to_uppercase()), rest.trim()),
            None => (None, text),
        };
        if rest.starts_with('/') {
            return Ok(Self::Path { method, path: rest.to_owned() });
        }
        if method.is_some() {
            return Err(ToolError::invalid_args(
                "InvalidEndpoint",
                format!(
                    "'{text}' is no endpoint. Write 'GET /users/{{id}}', '/users/{{id}}' or a handler's name"
                ),
            ));
        }
        Name::parse(text).map(Self::Handler)
    }

    /// Whether an endpoint is selected: by its path as written or, if not `as_written`, by a path
    /// of requests to it.
    fn is(&self, endpoint: &Endpoint, as_written: bool) -> bool {
        match self {
            Self::Path { method, path } => {
                let has_method =
                    method.as_ref().is_none_or(|method| endpoint.methods.contains(method));
                let has_path =
                    if as_written { endpoint.path == *path } else { answers(&endpoint.path, path) };
                has_method && has_path
            }
            Self::Handler(name) => {
                let module =
                    crate::language::Language::Python.modules(&endpoint.handler.file, None);
                name.means(&module, &endpoint.names)
            }
        }
    }
}

/// Whether requests for `path` match a template with parameters (`{id}`, `<int:id>`). Parameters of
/// the type `path` match several segments.
fn answers(template: &str, path: &str) -> bool {
    let parts =
        |path: &str| path.trim_end_matches('/').split('/').map(str::to_owned).collect::<Vec<_>>();
    let (template, path) = (parts(template), parts(path));
    for (index, part) in template.iter().enumerate() {
        let is_parameter = part.starts_with('{') && part.ends_with('}')
            || part.starts_with('<') && part.ends_with('>');
        let spans = part.ends_with(":path}") || part.starts_with("<path:");
        match path.get(index) {
            None => return false,
            Some(_) if spans && index + 1 == template.len() => return true,
            Some(other) if other == part || (is_parameter && !other.is_empty()) => {}
            Some(_) => return false,
        }
    }
    template.len() == path.len()
}

fn unknown(wanted: &str, all: &[Endpoint], searched: usize) -> ToolError {
    let mut near: Vec<(f64, String)> = all
        .iter()
        .map(|endpoint| {
            let shown = format!("{} {}", endpoint.methods.join(","), endpoint.path);
            let path = wanted.split_whitespace().last().unwrap_or(wanted);
            (strsim::normalized_damerau_levenshtein(&endpoint.path, path), shown)
        })
        .filter(|(likeness, _)| *likeness >= 0.5)
        .collect();
    near.sort_by(|(a, one), (b, other)| b.total_cmp(a).then_with(|| one.cmp(other)));
    near.dedup();
    let mut message =
        format!("no endpoint '{wanted}' among {} in {searched} Python files", all.len());
    if !near.is_empty() {
        let named: Vec<String> = near.into_iter().take(MAX_NAMED).map(|(_, shown)| shown).collect();
        message += &format!(". Did you mean {}?", named.join(", "));
    }
    if !all.is_empty() {
        message += ". Without `endpoint` all are listed";
    }
    ToolError::not_found("EndpointNotFound", message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn request_paths_match_templates() {
        for (template, path, wanted) in [
            ("/users/{id}", "/users/42", true),
            ("/users/{id}", "/users/{id}", true),
            ("/users/{id}", "/users", false),
            ("/users/{id}", "/users/42/posts", false),
            ("/users/<int:id>/", "/users/42", true),
            ("/files/{name:path}", "/files/a/b/c", true),
            ("/files/<path:name>", "/files/a/b", true),
            ("/files/{name:path}", "/other/a", false),
            ("/", "/", true),
        ] {
            assert_eq!(answers(template, path), wanted, "{template} {path}");
        }
    }
}
