//! What one file says about its names: enough to find out, together with other files, what a
//! call calls.

use std::collections::BTreeMap;

use crate::outline::Outline;

/// One part of a chain such as `self.repository().find`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// The name that the chain starts with.
    Name(String),
    /// `.name`
    Attribute(String),
    /// `(...)`
    Call,
    /// `[...]`
    Index,
    /// A literal that the chain starts with; the name of its type.
    Literal(&'static str),
}

/// A chain of names, calls and so on.
pub type Steps = Vec<Step>;

/// A chain as it is written, without arguments.
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

/// What a name is bound to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Binding {
    /// It holds an instance of this class.
    Instance(Steps),
    /// It holds what this chain stands for.
    Value(Steps),
}

/// `import module` or `from module import name`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Import {
    /// How many dots lead the module: 0 is absolute.
    pub level: u32,
    /// The module's names.
    pub module: Vec<String>,
    /// The name in the module; none stands for the module itself.
    pub name: Option<String>,
    /// The line, from 1.
    pub line: usize,
}

/// The names of a module, a class or a function.
#[derive(Debug, Clone, Default)]
pub struct Scope {
    /// The definitions, as indices of [`Model::definitions`]; the last of a name counts.
    pub definitions: BTreeMap<String, usize>,
    /// What is imported, under the name that it has here.
    pub imports: BTreeMap<String, Import>,
    /// Modules of which all names are imported.
    pub stars: Vec<Import>,
    /// What names are bound to; the first binding counts.
    pub bindings: BTreeMap<String, Binding>,
    /// Names that are bound to a text.
    pub strings: BTreeMap<String, String>,
    /// Names of types that bring dependencies: `Database = Annotated[Session, Depends(get)]`.
    pub dependencies: BTreeMap<String, Vec<Steps>>,
    /// Names that are bound to an application or a router.
    pub routers: BTreeMap<String, Invocation>,
}

/// A call in a function's body.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Call {
    /// What is called.
    pub callee: Steps,
    /// The line, from 1.
    pub line: usize,
}

/// A call with what it passes on, where that matters.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Invocation {
    /// What is called.
    pub callee: Steps,
    /// Arguments by position.
    pub arguments: Vec<Argument>,
    /// Arguments by name.
    pub keywords: Vec<(String, Argument)>,
    /// The line, from 1.
    pub line: usize,
}

impl Invocation {
    /// The argument of this name, or else the one at this position.
    pub fn argument(&self, name: &str, position: usize) -> Option<&Argument> {
        self.keyword(name).or_else(|| self.arguments.get(position))
    }

    /// The argument of this name.
    pub fn keyword(&self, name: &str) -> Option<&Argument> {
        self.keywords.iter().find(|(keyword, _)| keyword == name).map(|(_, argument)| argument)
    }

    /// The last name of what is called.
    pub fn name(&self) -> &str {
        match self.callee.last() {
            Some(Step::Name(name) | Step::Attribute(name)) => name,
            _ => "",
        }
    }
}

/// One argument.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Argument {
    /// As it is written, on one line.
    pub text: String,
    /// The chain that it is, if it is one.
    pub steps: Option<Steps>,
    /// The text that it is, if it is a literal.
    pub string: Option<String>,
    /// The members, if it is a list, a tuple or a set.
    pub items: Vec<Self>,
    /// The call that it is, if it is one.
    pub call: Option<Box<Invocation>>,
}

/// A dependency that a function's parameter asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Dependency {
    /// The parameter.
    pub parameter: String,
    /// What provides it.
    pub provider: Provider,
}

/// What provides a dependency.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Provider {
    /// `Depends(this)`
    Callable(Steps),
    /// The parameter's type may be a name that brings dependencies.
    Alias(Steps),
}

/// A class or a function.
#[derive(Debug, Clone, Default)]
pub struct Definition {
    /// Its place in the outline's symbols.
    pub symbol: usize,
    /// The class or function around it.
    pub parent: Option<usize>,
    /// Whether it is a class.
    pub is_class: bool,
    /// A class's bases.
    pub bases: Vec<Steps>,
    /// The class that a function's return annotation names.
    pub returns: Option<Steps>,
    /// The first parameter, of a method that has one for its instance or class.
    pub receiver: Option<Receiver>,
    /// The dependencies that its parameters ask for.
    pub dependencies: Vec<Dependency>,
    /// The decorators.
    pub decorators: Vec<Invocation>,
    /// Its own names.
    pub scope: Scope,
    /// What a method binds on its instance: `self.name = ...`.
    pub attributes: BTreeMap<String, Binding>,
    /// What a function calls, in the order of the text.
    pub calls: Vec<Call>,
}

/// What the first parameter of a method stands for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Receiver {
    /// The parameter's name.
    pub name: String,
    /// Whether it is the class rather than an instance.
    pub is_class: bool,
}

/// One file.
#[derive(Debug, Clone, Default)]
pub struct Model {
    /// What it defines.
    pub outline: Outline,
    /// The classes and functions, in the order of the text.
    pub definitions: Vec<Definition>,
    /// The module's own names.
    pub scope: Scope,
    /// Calls that put routes and routers together, each with the function that they are in.
    pub registrations: Vec<(Option<usize>, Invocation)>,
}

impl Model {
    /// A definition and those around it, the innermost first.
    pub fn outwards(&self, from: Option<usize>) -> impl Iterator<Item = usize> {
        std::iter::successors(from, |&definition| self.definitions[definition].parent)
    }

    /// The names that can be seen from a definition, the innermost first: those of each definition
    /// around it, and the module's own.
    pub fn scopes(&self, from: Option<usize>) -> impl Iterator<Item = (Option<usize>, &Scope)> {
        let around = self.outwards(from);
        let around = around.map(|index| (Some(index), &self.definitions[index].scope));
        around.chain([(None, &self.scope)])
    }
}
