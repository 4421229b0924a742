//! The facts about names in one file that are needed, together with other files, to resolve calls.

use std::collections::BTreeMap;

use crate::outline::Outline;

/// A step of a chain such as `self.repository().find`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// The name that the chain starts with.
    Name(String),
    /// The attribute of a value: `.name`.
    Attribute(String),
    /// The call of a value: `(...)`.
    Call,
    /// The index of a value: `[...]`.
    Index,
    /// A literal at the start of the chain; the name of its type.
    Literal(&'static str),
}

/// A chain of names, calls and other steps.
pub type Steps = Vec<Step>;

/// Formats a chain as source text, without arguments.
pub fn shown(steps: &[Step]) -> String {
    steps
        .iter()
        .map(|step| match step {
            Step::Name(name) => name.clone(),
            Step::Attribute(name) => format!(".{name}"),
            Step::Call => "()".to_owned(),
            Step::Index => "[]".to_owned(),
            Step::Literal(name) => (*name).to_owned(),
        })
        .collect()
}

/// The value that a name is bound to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Binding {
    /// An instance of this class.
    Instance(Steps),
    /// The value of this chain.
    Value(Steps),
}

/// An import: `import module` or `from module import name`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Import {
    /// The number of leading dots; 0 is absolute.
    pub level: u32,
    /// The components of the module's name.
    pub module: Vec<String>,
    /// The name in the module; `None` for the module itself.
    pub name: Option<String>,
    /// The line, from 1.
    pub line: usize,
}

/// The names in the scope of a module, a class or a function.
#[derive(Debug, Clone, Default)]
pub struct Scope {
    /// The definitions, as indices of [`Model::definitions`]; the last one of a name counts.
    pub definitions: BTreeMap<String, usize>,
    /// The imports, by their names in this scope.
    pub imports: BTreeMap<String, Import>,
    /// Modules that are imported by `import *`.
    pub stars: Vec<Import>,
    /// The values of names; the first binding counts.
    pub bindings: BTreeMap<String, Binding>,
    /// Names that are bound to a string.
    pub strings: BTreeMap<String, String>,
    /// Names of types with dependencies: `Database = Annotated[Session, Depends(get)]`.
    pub dependencies: BTreeMap<String, Vec<Steps>>,
    /// Names that are bound to an application or a router.
    pub routers: BTreeMap<String, Invocation>,
}

/// A call in the body of a function.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Call {
    /// The chain that is called.
    pub callee: Steps,
    /// The line, from 1.
    pub line: usize,
}

/// A call with its arguments.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Invocation {
    /// The chain that is called.
    pub callee: Steps,
    /// The arguments without a name.
    pub arguments: Vec<Argument>,
    /// The arguments with their names.
    pub keywords: Vec<(String, Argument)>,
    /// The line, from 1.
    pub line: usize,
}

impl Invocation {
    /// The argument with this name, or else the one at this position.
    pub fn argument(&self, name: &str, position: usize) -> Option<&Argument> {
        self.keyword(name).or_else(|| self.arguments.get(position))
    }

    /// The argument with this name.
    pub fn keyword(&self, name: &str) -> Option<&Argument> {
        self.keywords.iter().find(|(keyword, _)| keyword == name).map(|(_, argument)| argument)
    }

    /// The last name in the chain that is called.
    pub fn name(&self) -> &str {
        match self.callee.last() {
            Some(Step::Name(name) | Step::Attribute(name)) => name,
            _ => "",
        }
    }
}

/// An argument of a call.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Argument {
    /// The source text, on one line.
    pub text: String,
    /// The chain, if it is one.
    pub steps: Option<Steps>,
    /// The value, if it is a string literal.
    pub string: Option<String>,
    /// The elements, if it is a list, a tuple or a set.
    pub items: Vec<Self>,
    /// The call, if it is one.
    pub call: Option<Box<Invocation>>,
}

/// A dependency that a parameter declares.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Dependency {
    /// The name of the parameter.
    pub parameter: String,
    /// The provider of the dependency.
    pub provider: Provider,
}

/// The provider of a dependency.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Provider {
    /// An explicit provider: `Depends(this)`.
    Callable(Steps),
    /// The parameter's type, which may be a name with dependencies.
    Alias(Steps),
}

/// The definition of a class or a function.
#[derive(Debug, Clone, Default)]
pub struct Definition {
    /// The index in the outline's symbols.
    pub symbol: usize,
    /// The enclosing class or function.
    pub parent: Option<usize>,
    /// Whether it is a class.
    pub is_class: bool,
    /// The base classes of a class.
    pub bases: Vec<Steps>,
    /// The class in a function's return annotation.
    pub returns: Option<Steps>,
    /// The first parameter of a method with an instance or a class.
    pub receiver: Option<Receiver>,
    /// The dependencies that its parameters declare.
    pub dependencies: Vec<Dependency>,
    /// The decorators, in order.
    pub decorators: Vec<Invocation>,
    /// The names in its own scope.
    pub scope: Scope,
    /// The attributes that a method sets on its instance: `self.name = ...`.
    pub attributes: BTreeMap<String, Binding>,
    /// The calls in a function, in the order of the text.
    pub calls: Vec<Call>,
}

/// The first parameter of a method.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Receiver {
    /// The name of the parameter.
    pub name: String,
    /// Whether it is a class instead of an instance.
    pub is_class: bool,
}

/// The facts about one file.
#[derive(Debug, Clone, Default)]
pub struct Model {
    /// The symbols that it defines.
    pub outline: Outline,
    /// The classes and functions, in the order of the text.
    pub definitions: Vec<Definition>,
    /// The names in the module's scope.
    pub scope: Scope,
    /// Calls that register routes and routers, each with the enclosing function.
    pub registrations: Vec<(Option<usize>, Invocation)>,
}

impl Model {
    /// A definition and the enclosing ones, the innermost first.
    pub fn outwards(&self, from: Option<usize>) -> impl Iterator<Item = usize> {
        std::iter::successors(from, |&definition| self.definitions[definition].parent)
    }

    /// The scopes visible from a definition, the innermost first: those of the enclosing
    /// definitions, and the module's.
    pub fn scopes(&self, from: Option<usize>) -> impl Iterator<Item = (Option<usize>, &Scope)> {
        let around = self.outwards(from);
        let around = around.map(|index| (Some(index), &self.definitions[index].scope));
        around.chain([(None, &self.scope)])
    }
}
