//! `trace_calls`: follows the calls of a function, and the calls of the called functions.

use std::collections::{BTreeMap, HashSet};

use cofferdam_sdk::ToolError;
use serde::Serialize;

use crate::args::TraceCallsArgs;
use crate::language::Language;
use crate::name::Name;
use crate::outline::Kind;
use crate::project::{Deadline, Files};
use crate::python::facts::shown;
use crate::python::resolve::{Modules, Place, Value};
use crate::search::{Search, qualified};

/// The default maximum depth of calls.
pub const DEFAULT_DEPTH: usize = 3;

/// The default maximum number of calls.
const DEFAULT_LIMIT: usize = 200;

/// The maximum number of external names, and of unresolved calls.
const MAX_NAMES: usize = 100;

/// The maximum number of symbols named in a message.
const MAX_NAMED: usize = 10;

/// The result of `trace_calls`.
#[derive(Debug, Serialize)]
pub struct CallTree {
    /// The symbol that the calls start from.
    pub root: Root,
    /// The calls, in order.
    #[serde(flatten)]
    pub traced: Traced,
}

/// A symbol from which calls are followed.
#[derive(Debug, Clone, Serialize)]
#[expect(missing_docs, reason = "the names of Symbol's fields")]
pub struct Root {
    pub symbol: String,
    pub kind: Kind,
    pub file: String,
    pub line: usize,
    pub end_line: usize,
    pub signature: String,
}

/// The calls of a symbol.
#[derive(Debug, Default, Serialize)]
pub struct Traced {
    /// The calls in depth-first order.
    pub calls: Vec<Called>,
    /// The number of calls, with those not shown.
    pub total: usize,
    /// Whether the limit was exceeded, so that some are left out.
    pub truncated: bool,
    /// Calls of names that are not in the workspace: libraries and builtins.
    pub external: Vec<External>,
    /// The number of such names.
    pub external_total: usize,
    /// Calls whose callee can't be determined from the text.
    pub unresolved: Vec<Unresolved>,
    /// The number of such calls.
    pub unresolved_total: usize,
}

/// A call of a symbol in the workspace.
#[derive(Debug, Clone, Serialize)]
#[expect(missing_docs, reason = "the names of Symbol's fields")]
pub struct Called {
    /// The depth of the call; the root's calls have depth 1.
    pub depth: usize,
    /// The callee, with its module.
    pub symbol: String,
    pub kind: Kind,
    /// The file in which the callee is defined.
    pub file: String,
    pub line: usize,
    /// The caller, with its module.
    pub caller: String,
    /// The lines of the calls in the caller's file.
    pub called_at: Vec<usize>,
    /// Why the calls of the callee are not listed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub not_followed: Option<NotFollowed>,
}

/// Why the calls of a callee are not listed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum NotFollowed {
    /// The callee is one of its own callers.
    Cycle,
    /// The callee is listed above, with its calls.
    Repeated,
    /// The maximum depth is reached.
    Depth,
}

/// A called name that is not in the workspace.
#[derive(Debug, Clone, Serialize)]
pub struct External {
    /// The name with its module.
    pub name: String,
    /// The number of calls.
    pub count: usize,
}

/// A call whose callee can't be determined from the text.
#[derive(Debug, Clone, Serialize)]
pub struct Unresolved {
    /// The callee, as it is written.
    pub name: String,
    /// The file of the call.
    pub file: String,
    /// The line of the call.
    pub line: usize,
    /// The function or class that contains the call.
    pub caller: String,
}

/// Follows the calls of a function or class that is defined below `root`.
///
/// # Errors
/// `InvalidSymbol`, `SymbolNotFound`, `AmbiguousSymbol`, `NotCallable`, `TimeoutError`.
pub fn trace(
    args: TraceCallsArgs,
    root: String,
    files: &dyn Files,
    deadline: &mut Deadline,
) -> Result<CallTree, ToolError> {
    let name = Name::parse(&args.symbol)?;
    let search = Search {
        name,
        written: args.symbol.clone(),
        root,
        language: Some(Language::Python),
        kinds: Vec::new(),
    };
    let mut modules = Modules::new(files);
    let mut found: Vec<(Place, Root)> = Vec::new();
    let mut others = Vec::new();
    for hit in search.run(files, deadline, usize::MAX)?.hits {
        match definition(&mut modules, &hit.file, &hit.symbol.path, hit.symbol.line) {
            Some(place) => found.push((
                place,
                Root {
                    symbol: hit.qualified,
                    kind: hit.symbol.kind,
                    file: hit.file,
                    line: hit.symbol.line,
                    end_line: hit.symbol.end_line,
                    signature: hit.symbol.signature,
                },
            )),
            None => others.push(hit.qualified),
        }
    }
    // The overloads of a function precede the definition with the body.
    if let Some((_, last)) = found.last()
        && found.iter().all(|(_, one)| one.file == last.file && one.symbol == last.symbol)
    {
        found.drain(..found.len() - 1);
    }
    let total = found.len();
    let Some((place, root)) = found.pop().filter(|_| total == 1) else {
        if total == 0 {
            let others = others.join(", ");
            let message = format!("'{}' is neither a function nor a class: {others}", args.symbol);
            return Err(ToolError::invalid_args("NotCallable", message));
        }
        return Err(ambiguous(&args.symbol, &found, total));
    };
    let mut tracer = Tracer::new(
        &mut modules,
        args.depth.unwrap_or(DEFAULT_DEPTH),
        args.limit.unwrap_or(DEFAULT_LIMIT),
    );
    tracer.follow(&place, deadline)?;
    Ok(CallTree { root, traced: tracer.finish() })
}

/// The error for a name of `total` symbols, of which `found` has all but the last.
fn ambiguous(name: &str, found: &[(Place, Root)], total: usize) -> ToolError {
    let named: Vec<String> = found
        .iter()
        .take(MAX_NAMED)
        .map(|(_, one)| format!("{} ({} line {})", one.symbol, one.file, one.line))
        .collect();
    ToolError::conflict(
        "AmbiguousSymbol",
        format!(
            "'{name}' can mean {total} symbols: {}{}. Write more of the name, or set `path`",
            named.join(", "),
            if total > MAX_NAMED { ", ..." } else { "" }
        ),
    )
}

/// The class or function of a symbol.
fn definition(
    modules: &mut Modules<'_>,
    file: &str,
    path: &[String],
    line: usize,
) -> Option<Place> {
    let model = modules.model(file)?;
    let definition = model.definitions.iter().position(|definition| {
        let symbol = &model.outline.symbols[definition.symbol];
        symbol.path == path && symbol.line == line
    })?;
    Some(Place { file: file.to_owned(), definition })
}

/// Follows calls depth-first, and collects them.
pub struct Tracer<'a, 'b> {
    modules: &'a mut Modules<'b>,
    depth: usize,
    limit: usize,
    traced: Traced,
    external: BTreeMap<String, usize>,
    followed: HashSet<Place>,
    /// The definitions being followed, the outermost first.
    path: Vec<Place>,
}

impl<'a, 'b> Tracer<'a, 'b> {
    /// Follows calls to a maximum depth and number.
    pub fn new(modules: &'a mut Modules<'b>, depth: usize, limit: usize) -> Self {
        Self {
            modules,
            depth,
            limit,
            traced: Traced::default(),
            external: BTreeMap::new(),
            followed: HashSet::new(),
            path: Vec::new(),
        }
    }

    /// Follows the calls of a function, or of a called class.
    ///
    /// # Errors
    /// `TimeoutError`.
    pub fn follow(&mut self, place: &Place, deadline: &mut Deadline) -> Result<(), ToolError> {
        self.followed.insert(place.clone());
        self.path.push(place.clone());
        let followed = self.follow_calls(place, deadline);
        self.path.pop();
        followed
    }

    fn follow_calls(&mut self, place: &Place, deadline: &mut Deadline) -> Result<(), ToolError> {
        let depth = self.path.len();
        let body = self.body(place);
        let Some((body, caller)) = body.zip(self.name(place)) else {
            return Ok(());
        };
        for (target, called_at) in self.targets(&body, &caller, deadline)? {
            let has_calls = self.has_calls(&target);
            let not_followed = if self.path.contains(&target) {
                Some(NotFollowed::Cycle)
            } else if self.followed.contains(&target) && has_calls {
                Some(NotFollowed::Repeated)
            } else if depth >= self.depth && has_calls {
                Some(NotFollowed::Depth)
            } else {
                None
            };
            self.traced.total += 1;
            if self.traced.calls.len() < self.limit
                && let (Some(symbol), Some(name)) =
                    (self.modules.symbol(&target), self.name(&target))
            {
                self.traced.calls.push(Called {
                    depth,
                    symbol: name,
                    kind: symbol.kind,
                    file: target.file.clone(),
                    line: symbol.line,
                    caller: caller.clone(),
                    called_at,
                    not_followed,
                });
            }
            if not_followed.is_none() && depth < self.depth {
                self.follow(&target, deadline)?;
            }
        }
        Ok(())
    }

    /// The classes and functions in the workspace that `body` calls, each with the lines of the
    /// calls. Counts the other calls as external or unresolved.
    fn targets(
        &mut self,
        body: &Place,
        caller: &str,
        deadline: &mut Deadline,
    ) -> Result<Vec<(Place, Vec<usize>)>, ToolError> {
        let mut targets: Vec<(Place, Vec<usize>)> = Vec::new();
        let calls = self.modules.definition(body, |definition| definition.calls.clone());
        for call in calls.iter().flatten() {
            deadline.check(10_000)?;
            let value = self.modules.value(body.inside(), &call.callee);
            match self.modules.called(&value) {
                Value::Class(target) | Value::Function(target) => {
                    match targets.iter_mut().find(|(known, _)| *known == target) {
                        Some((_, lines)) => lines.push(call.line),
                        None => targets.push((target, vec![call.line])),
                    }
                }
                // The call of the attribute of `super()` counts instead.
                Value::External(name) if name == "builtins.super" => {}
                Value::External(name) => *self.external.entry(name).or_default() += 1,
                _ => {
                    self.traced.unresolved_total += 1;
                    if self.traced.unresolved.len() < MAX_NAMES {
                        self.traced.unresolved.push(Unresolved {
                            name: shown(&call.callee),
                            file: body.file.clone(),
                            line: call.line,
                            caller: caller.to_owned(),
                        });
                    }
                }
            }
        }
        for (_, lines) in &mut targets {
            lines.dedup();
        }
        Ok(targets)
    }

    fn has_calls(&mut self, place: &Place) -> bool {
        let body = self.body(place);
        let read = |body: Place| self.modules.definition(&body, |body| !body.calls.is_empty());
        body.and_then(read).unwrap_or(false)
    }

    /// The function that runs when a definition is called: of a class, its constructor.
    fn body(&mut self, place: &Place) -> Option<Place> {
        if self.modules.definition(place, |definition| definition.is_class)? {
            return self.modules.constructor(place);
        }
        Some(place.clone())
    }

    fn name(&mut self, place: &Place) -> Option<String> {
        qualified_name(self.modules, place)
    }

    /// Returns the calls that were followed.
    pub fn finish(self) -> Traced {
        let external_total = self.external.len();
        let external = self.external.into_iter().take(MAX_NAMES);
        Traced {
            truncated: self.traced.calls.len() < self.traced.total,
            external: external.map(|(name, count)| External { name, count }).collect(),
            external_total,
            ..self.traced
        }
    }
}

/// The name of a definition, with its module.
pub fn qualified_name(modules: &mut Modules<'_>, place: &Place) -> Option<String> {
    let symbol = modules.symbol(place)?;
    let module = Language::Python.modules(&place.file, None);
    Some(qualified(Language::Python, &module, &symbol.path))
}
