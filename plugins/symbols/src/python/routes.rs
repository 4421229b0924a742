//! Finds the endpoints of FastAPI and Flask applications: their paths and handlers.
//!
//! Routes belong to routers, and routers are included in other routers, each with a prefix. The
//! path of an endpoint consists of the prefixes of all of these routers, joined as the frameworks
//! do.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::rc::Rc;

use serde::Serialize;

use super::facts::{Argument, Binding, Definition, Invocation, Provider, Scope, Step, shown};
use super::resolve::{Modules, Place, Site, Value};
use crate::outline::Problem;

/// The maximum depth of included routers.
const MAX_DEPTH: usize = 20;

/// The maximum number of ways by which a router can be reached. More occur only if routers include
/// each other repeatedly.
const MAX_WAYS: usize = 1000;

/// The HTTP methods that have a decorator of the same name.
const METHODS: [&str; 8] = ["get", "post", "put", "patch", "delete", "head", "options", "trace"];

/// The web framework of a route.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
#[expect(missing_docs, reason = "the names say it")]
pub enum Framework {
    FastApi,
    Flask,
}

/// A router, as the name that it is bound to.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
struct Router {
    file: String,
    /// The function or class that contains the name; `None` for the module.
    around: Option<usize>,
    name: String,
}

impl Router {
    /// The site of the call that creates the router.
    fn site(&self) -> Site<'_> {
        Site { file: &self.file, around: self.around }
    }
}

/// A dependency with its place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeclaredDependency {
    /// The provider, as written in the source.
    pub written: String,
    /// The provider, if it is in the workspace.
    pub place: Option<Place>,
    /// The element that declares the dependency.
    pub by: By,
}

/// The element that declares a dependency.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
#[expect(missing_docs, reason = "the names say it")]
pub enum By {
    Parameter,
    Route,
    Router,
    Include,
}

/// A path with its handler.
#[derive(Debug, Clone)]
pub struct Endpoint {
    /// The web framework of the route.
    pub framework: Framework,
    /// The HTTP methods, sorted; `WEBSOCKET` for a websocket.
    pub methods: Vec<String>,
    /// The path with all prefixes. Unknown parts are in `<...>`, as written.
    pub path: String,
    /// The function that handles requests.
    pub handler: Place,
    /// The names that lead to the handler within its file.
    pub names: Vec<String>,
    /// The file that contains the route.
    pub file: String,
    /// The line of the route.
    pub line: usize,
    /// Whether its router is part of an application that was found.
    pub mounted: bool,
    /// Its dependencies, the outermost first.
    pub dependencies: Vec<DeclaredDependency>,
}

struct Route {
    router: Option<Router>,
    framework: Framework,
    methods: Vec<String>,
    path: String,
    handler: Place,
    names: Vec<String>,
    file: String,
    line: usize,
    dependencies: Vec<DeclaredDependency>,
}

/// The inclusion of a router in another one.
#[derive(Debug)]
struct Mount {
    parent: Router,
    /// The prefix given at the inclusion, if any.
    prefix: Option<String>,
    dependencies: Vec<DeclaredDependency>,
}

/// The parameters of a method that includes a router in another one: the name of each, and its
/// index among the positional arguments.
#[derive(Debug, Clone, Copy)]
struct MountParameters {
    /// The router to include.
    child: (&'static str, usize),
    /// The prefix of its paths.
    prefix: (&'static str, usize),
}

/// The parameters of FastAPI's `include_router`.
const INCLUDE_ROUTER: MountParameters =
    MountParameters { child: ("router", 0), prefix: ("prefix", 9) };
/// The parameters of Flask's `register_blueprint`.
const REGISTER_BLUEPRINT: MountParameters =
    MountParameters { child: ("blueprint", 0), prefix: ("url_prefix", 9) };
/// The parameters of Starlette's `mount`.
const MOUNT: MountParameters = MountParameters { child: ("app", 1), prefix: ("path", 0) };

/// One of the ways by which a router is reached.
#[derive(Debug, Clone, Default)]
struct Way {
    prefix: String,
    dependencies: Vec<DeclaredDependency>,
    mounted: bool,
}

/// Finds endpoints file by file. Stores what it has found, but not the files.
pub struct Finder<'a, 'b> {
    modules: &'a mut Modules<'b>,
    mounts: BTreeMap<Router, Vec<Mount>>,
    routes: Vec<Route>,
    made: HashMap<Router, Option<Rc<Invocation>>>,
}

impl<'a, 'b> Finder<'a, 'b> {
    /// Starts without any files.
    pub fn new(modules: &'a mut Modules<'b>) -> Self {
        Self { modules, mounts: BTreeMap::new(), routes: Vec::new(), made: HashMap::new() }
    }

    /// Collects routes and routers of a file; returns its syntax error, if any.
    pub fn look(&mut self, file: &str, contents: &[u8]) -> Option<Problem> {
        let model = self.modules.insert(file, contents);
        for (index, definition) in model.definitions.iter().enumerate() {
            for decorator in &definition.decorators {
                let handler = Place { file: file.to_owned(), definition: index };
                let site = Site { file, around: definition.parent };
                self.decorated(site, decorator, handler);
            }
        }
        for (around, call) in &model.registrations {
            self.registered(Site { file, around: *around }, call);
        }
        model.outline.problem.clone()
    }

    /// All endpoints in the files, sorted by path, methods and place.
    pub fn finish(mut self) -> Vec<Endpoint> {
        let routes = std::mem::take(&mut self.routes);
        let mut ways: HashMap<(Option<Router>, Framework), Rc<[Way]>> = HashMap::new();
        let mut endpoints: Vec<Endpoint> = Vec::new();
        for route in routes {
            let key = (route.router.clone(), route.framework);
            let ways = ways.entry(key).or_insert_with(|| match &route.router {
                Some(router) => self.ways(router, route.framework, &mut Vec::new()).into(),
                None => [Way::default()].into(),
            });
            for way in ways.iter() {
                let mut dependencies = way.dependencies.clone();
                dependencies.extend(route.dependencies.clone());
                let mut seen = HashSet::new();
                dependencies
                    .retain(|asked| seen.insert((asked.written.clone(), asked.place.clone())));
                endpoints.push(Endpoint {
                    framework: route.framework,
                    methods: route.methods.clone(),
                    path: joined(route.framework, &way.prefix, &route.path),
                    handler: route.handler.clone(),
                    names: route.names.clone(),
                    file: route.file.clone(),
                    line: route.line,
                    mounted: way.mounted,
                    dependencies,
                });
            }
        }
        endpoints.sort_by(|a, b| {
            (&a.path, &a.methods, &a.file, a.line).cmp(&(&b.path, &b.methods, &b.file, b.line))
        });
        endpoints
    }

    /// Handles decorators such as `@router.get("/path")`.
    fn decorated(&mut self, site: Site<'_>, decorator: &Invocation, handler: Place) {
        let name = decorator.name();
        let is_method = METHODS.contains(&name);
        if !is_method && !matches!(name, "route" | "api_route" | "websocket") {
            return;
        }
        let Some((_, on)) = decorator.callee.split_last() else {
            return;
        };
        let router = self.router(site, on, 0);
        let Some(path) = decorator
            .argument("path", 0)
            .or_else(|| decorator.keyword("rule"))
            .map(|path| self.text(site, path))
            .filter(|path| router.is_some() || path.starts_with('/'))
        else {
            return;
        };
        let Some(framework) = self.framework(router.as_ref(), name) else {
            return;
        };
        let methods = match name {
            "websocket" => vec!["WEBSOCKET".to_owned()],
            _ if is_method => vec![name.to_uppercase()],
            _ => methods(decorator),
        };
        self.add(site, decorator, (router, framework, methods, path, handler));
    }

    /// Adds a route with the dependencies of its handler and arguments.
    fn add(
        &mut self,
        site: Site<'_>,
        call: &Invocation,
        (router, framework, methods, path, handler): (
            Option<Router>,
            Framework,
            Vec<String>,
            String,
            Place,
        ),
    ) {
        let mut dependencies = self.listed(site, call, By::Route);
        dependencies.extend(self.parameters(&handler));
        let Some(symbol) = self.modules.symbol(&handler) else { return };
        self.routes.push(Route {
            router,
            framework,
            methods,
            path,
            handler,
            names: symbol.path,
            file: site.file.to_owned(),
            line: call.line,
            dependencies,
        });
    }

    /// Handles a call that registers a route or a router.
    fn registered(&mut self, site: Site<'_>, call: &Invocation) {
        let Some((_, on)) = call.callee.split_last() else {
            return;
        };
        let Some(parent) = self.router(site, on, 0) else {
            return;
        };
        match call.name() {
            "include_router" => self.mount(site, call, parent, INCLUDE_ROUTER),
            "register_blueprint" => self.mount(site, call, parent, REGISTER_BLUEPRINT),
            "mount" => self.mount(site, call, parent, MOUNT),
            name => {
                let handler = match name {
                    "add_url_rule" => call.argument("view_func", 2),
                    _ => call.argument("endpoint", 1),
                };
                let path = match name {
                    "add_url_rule" => call.argument("rule", 0),
                    _ => call.argument("path", 0),
                };
                let Some((handler, path)) = handler.zip(path) else {
                    return;
                };
                let path = self.text(site, path);
                let Some(framework) = self.framework(Some(&parent), name) else {
                    return;
                };
                let methods = match name {
                    "add_api_websocket_route" => vec!["WEBSOCKET".to_owned()],
                    _ => methods(call),
                };
                for (handler, own) in self.handlers(site, handler) {
                    let methods = own.map_or(methods.clone(), |method| vec![method]);
                    let router = Some(parent.clone());
                    self.add(site, call, (router, framework, methods, path.clone(), handler));
                }
            }
        }
    }

    /// The handlers: one function, or the methods of a class, each for one HTTP method.
    fn handlers(&mut self, site: Site<'_>, handler: &Argument) -> Vec<(Place, Option<String>)> {
        let Some(steps) = &handler.steps else {
            return Vec::new();
        };
        // Such as `View.as_view("name")`.
        let class = steps.iter().position(|step| *step == Step::Attribute("as_view".to_owned()));
        let steps = &steps[..class.unwrap_or(steps.len())];
        match self.modules.value(site, steps) {
            Value::Function(place) => vec![(place, None)],
            Value::Class(class) => METHODS
                .into_iter()
                .filter_map(|name| {
                    Some((self.modules.method(&class, name)?, Some(name.to_uppercase())))
                })
                .collect(),
            _ => Vec::new(),
        }
    }

    /// Adds the inclusion of a router in `parent`.
    fn mount(
        &mut self,
        site: Site<'_>,
        call: &Invocation,
        parent: Router,
        parameters: MountParameters,
    ) {
        let MountParameters { child, prefix } = parameters;
        let steps = call.argument(child.0, child.1).and_then(|child| child.steps.clone());
        let Some(child) = steps.and_then(|steps| self.router(site, &steps, 0)) else {
            return;
        };
        let prefix = call
            .argument(prefix.0, prefix.1)
            .filter(|prefix| prefix.text != "None")
            .map(|prefix| self.text(site, prefix));
        let dependencies = self.listed(site, call, By::Include);
        self.mounts.entry(child).or_default().push(Mount { parent, prefix, dependencies });
    }

    /// The router that is the value of a chain.
    fn router(&mut self, site: Site<'_>, steps: &[Step], depth: usize) -> Option<Router> {
        if depth > MAX_DEPTH {
            return None;
        }
        let Site { file, around } = site;
        let model = self.modules.model(file)?;
        match steps {
            [Step::Name(name)] => {
                let mut scopes = model.scopes(around);
                scopes.find_map(|(around, scope)| {
                    self.router_in(Site { file, around }, scope, name, depth)
                })
            }
            // `self.router` in the enclosing class.
            [Step::Name(receiver), Step::Attribute(name)]
                if around.is_some_and(|method| {
                    model.definitions[method]
                        .receiver
                        .as_ref()
                        .is_some_and(|first| first.name == *receiver)
                }) =>
            {
                let class = around.and_then(|method| model.definitions[method].parent)?;
                let scope = &model.definitions[class].scope;
                self.router_in(Site { file, around: Some(class) }, scope, name, depth)
            }
            [module @ .., Step::Attribute(name)] => match self.modules.value(site, module) {
                Value::Module(other) => {
                    self.router(Site::module(&other), &[Step::Name(name.clone())], depth + 1)
                }
                Value::Class(class) | Value::Instance(class) => {
                    let model = self.modules.model(&class.file)?;
                    let scope = &model.definitions[class.definition].scope;
                    self.router_in(class.inside(), scope, name, depth)
                }
                _ => None,
            },
            // A factory function: the first router that it binds.
            [function @ .., Step::Call] => match self.modules.value(site, function) {
                Value::Function(place) => {
                    let model = self.modules.model(&place.file)?;
                    let scope = &model.definitions[place.definition].scope;
                    let name = scope.routers.keys().next()?.clone();
                    Some(Router { file: place.file, around: Some(place.definition), name })
                }
                _ => None,
            },
            _ => None,
        }
    }

    /// The router that a name means in `scope`, the innermost one around the site. Outer scopes are
    /// not searched.
    fn router_in(
        &mut self,
        site: Site<'_>,
        scope: &Scope,
        name: &str,
        depth: usize,
    ) -> Option<Router> {
        let Site { file, around } = site;
        if scope.routers.contains_key(name) {
            return Some(Router { file: file.to_owned(), around, name: name.to_owned() });
        }
        if let Some(import) = scope.imports.get(name) {
            let Some(imported) = &import.name else {
                return None;
            };
            let Value::Module(other) = self.modules.find(file, import.level, &import.module)?
            else {
                return None;
            };
            let steps = [Step::Name(imported.clone())];
            return self.router(Site::module(&other), &steps, depth + 1);
        }
        match scope.bindings.get(name)? {
            Binding::Value(steps) if steps.first() != Some(&Step::Name(name.to_owned())) => {
                self.router(site, &steps.clone(), depth + 1)
            }
            _ => None,
        }
    }

    /// The call that creates a router.
    fn made(&mut self, router: &Router) -> Option<Rc<Invocation>> {
        if let Some(known) = self.made.get(router) {
            return known.clone();
        }
        let made = self.modules.model(&router.file).and_then(|model| {
            let scope = match router.around {
                Some(around) => &model.definitions.get(around)?.scope,
                None => &model.scope,
            };
            scope.routers.get(&router.name).cloned().map(Rc::new)
        });
        self.made.insert(router.clone(), made.clone());
        made
    }

    fn framework(&mut self, router: Option<&Router>, name: &str) -> Option<Framework> {
        let made = router.and_then(|router| self.made(router));
        match made.as_ref().map(|made| made.name()) {
            Some("FastAPI" | "APIRouter") => Some(Framework::FastApi),
            Some(_) => Some(Framework::Flask),
            // Without a known router, the name of the decorator decides.
            None if matches!(name, "api_route" | "websocket") => Some(Framework::FastApi),
            None => None,
        }
    }

    /// All ways by which a router is reached.
    fn ways(&mut self, router: &Router, framework: Framework, seen: &mut Vec<Router>) -> Vec<Way> {
        if seen.contains(router) || seen.len() > MAX_DEPTH {
            return Vec::new();
        }
        let Some(made) = self.made(router) else {
            return vec![Way::default()];
        };
        let is_application = !matches!(made.name(), "APIRouter" | "Blueprint");
        let own = match framework {
            Framework::FastApi if is_application => None,
            Framework::FastApi => made.keyword("prefix"),
            Framework::Flask => made.keyword("url_prefix"),
        };
        let own = own.map(|prefix| self.text(router.site(), prefix));
        let dependencies = self.listed(router.site(), &made, By::Router);
        let mounts: Vec<(Router, Option<String>, Vec<DeclaredDependency>)> = self
            .mounts
            .get(router)
            .into_iter()
            .flatten()
            .map(|mount| (mount.parent.clone(), mount.prefix.clone(), mount.dependencies.clone()))
            .collect();
        if is_application && mounts.is_empty() {
            return vec![Way { prefix: String::new(), dependencies, mounted: true }];
        }
        if mounts.is_empty() {
            let prefix = own.unwrap_or_default();
            return vec![Way { prefix, dependencies, mounted: false }];
        }
        seen.push(router.clone());
        let mut ways = Vec::new();
        for (parent, prefix, asked) in mounts {
            let left = MAX_WAYS.saturating_sub(ways.len());
            for mut way in self.ways(&parent, framework, seen).into_iter().take(left) {
                match framework {
                    Framework::FastApi => {
                        way.prefix += prefix.as_deref().unwrap_or_default();
                        way.prefix += own.as_deref().unwrap_or_default();
                    }
                    // The prefix at the registration has precedence over the blueprint's own.
                    Framework::Flask => {
                        let prefix = prefix.as_ref().or(own.as_ref()).cloned().unwrap_or_default();
                        way.prefix = joined(framework, &way.prefix, &prefix);
                    }
                }
                way.dependencies.extend(asked.clone());
                way.dependencies.extend(dependencies.clone());
                ways.push(way);
            }
        }
        seen.pop();
        ways
    }

    /// The dependencies in an argument: `dependencies=[Depends(this)]`.
    fn listed(&mut self, site: Site<'_>, call: &Invocation, by: By) -> Vec<DeclaredDependency> {
        let Some(list) = call.keyword("dependencies") else {
            return Vec::new();
        };
        list.items
            .iter()
            .filter_map(|item| {
                let provider = item.call.as_ref()?.argument("dependency", 0)?;
                let value = self.modules.value(site, provider.steps.as_deref()?);
                Some(DeclaredDependency {
                    written: provider.text.clone(),
                    place: place_of(&value),
                    by,
                })
            })
            .collect()
    }

    /// The dependencies that the parameters of a handler declare.
    fn parameters(&mut self, handler: &Place) -> Vec<DeclaredDependency> {
        let read = |definition: &Definition| (definition.dependencies.clone(), definition.parent);
        let Some((dependencies, parent)) = self.modules.definition(handler, read) else {
            return Vec::new();
        };
        let mut found = Vec::new();
        for dependency in &dependencies {
            let (file, steps) = match &dependency.provider {
                Provider::Callable(steps) => (handler.file.clone(), vec![steps.clone()]),
                Provider::Alias(steps) => match self.alias(&handler.file, steps, 0) {
                    Some(found) => found,
                    None => continue,
                },
            };
            for steps in steps {
                let around = (file == handler.file).then_some(parent).flatten();
                let value = self.modules.value(Site { file: &file, around }, &steps);
                found.push(DeclaredDependency {
                    written: shown(&steps),
                    place: place_of(&value),
                    by: By::Parameter,
                });
            }
        }
        found
    }

    /// The dependencies of a type's name, and the file that declares them.
    fn alias(
        &mut self,
        file: &str,
        steps: &[Step],
        depth: usize,
    ) -> Option<(String, Vec<Vec<Step>>)> {
        if depth > MAX_DEPTH {
            return None;
        }
        let model = self.modules.model(file)?;
        match steps {
            [Step::Name(name)] => {
                if let Some(brought) = model.scope.dependencies.get(name) {
                    return Some((file.to_owned(), brought.clone()));
                }
                let import = model.scope.imports.get(name)?;
                let imported = import.name.clone()?;
                let Value::Module(other) = self.modules.find(file, import.level, &import.module)?
                else {
                    return None;
                };
                self.alias(&other, &[Step::Name(imported)], depth + 1)
            }
            [module @ .., Step::Attribute(name)] => match self
                .modules
                .value(Site::module(file), module)
            {
                Value::Module(other) => self.alias(&other, &[Step::Name(name.clone())], depth + 1),
                _ => None,
            },
            _ => None,
        }
    }

    /// The value of a string argument, or a placeholder: `<settings.PREFIX>`.
    fn text(&mut self, site: Site<'_>, argument: &Argument) -> String {
        if let Some(text) = &argument.string {
            return text.clone();
        }
        let found = argument.steps.as_ref().and_then(|steps| self.string(site, steps, 0));
        found.unwrap_or_else(|| format!("<{}>", argument.text))
    }

    fn string(&mut self, site: Site<'_>, steps: &[Step], depth: usize) -> Option<String> {
        if depth > MAX_DEPTH {
            return None;
        }
        let Site { file, around } = site;
        let model = self.modules.model(file)?;
        match steps {
            [Step::Name(name)] => {
                let bound = model.scopes(around).find_map(|(_, scope)| scope.strings.get(name));
                if let Some(text) = bound {
                    return Some(text.clone());
                }
                let import = model.scope.imports.get(name)?;
                let imported = import.name.clone()?;
                let Value::Module(other) = self.modules.find(file, import.level, &import.module)?
                else {
                    return None;
                };
                self.string(Site::module(&other), &[Step::Name(imported)], depth + 1)
            }
            [owner @ .., Step::Attribute(name)] => match self.modules.value(site, owner) {
                Value::Module(other) => {
                    self.string(Site::module(&other), &[Step::Name(name.clone())], depth + 1)
                }
                Value::Class(class) | Value::Instance(class) => {
                    let model = self.modules.model(&class.file)?;
                    model.definitions.get(class.definition)?.scope.strings.get(name).cloned()
                }
                _ => None,
            },
            _ => None,
        }
    }
}

fn place_of(value: &Value) -> Option<Place> {
    match value {
        Value::Class(place) | Value::Instance(place) | Value::Function(place) => {
            Some(place.clone())
        }
        _ => None,
    }
}

/// The HTTP methods in an argument; the default is GET.
fn methods(call: &Invocation) -> Vec<String> {
    let listed = call.keyword("methods").map(|list| &list.items[..]).unwrap_or_default();
    let mut methods: Vec<String> = listed
        .iter()
        .map(|item| match &item.string {
            Some(name) => name.to_uppercase(),
            None => format!("<{}>", item.text),
        })
        .collect();
    methods.sort();
    methods.dedup();
    if methods.is_empty() { vec!["GET".to_owned()] } else { methods }
}

/// Joins prefix and path: FastAPI concatenates them, Flask joins them with one slash.
fn joined(framework: Framework, prefix: &str, path: &str) -> String {
    match framework {
        Framework::FastApi => format!("{prefix}{path}"),
        Framework::Flask if prefix.is_empty() => path.to_owned(),
        Framework::Flask if path.is_empty() => prefix.to_owned(),
        Framework::Flask => {
            format!("{}/{}", prefix.trim_end_matches('/'), path.trim_start_matches('/'))
        }
    }
}
