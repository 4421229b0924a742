//! Forms that plugins ask the user to fill in: the flat JSON Schemas that MCP allows for elicitation. A form
//! is read from a plugin, which is not trusted, so it is bounded and all its texts are inert. Asking is not
//! part of this module.
//!
//! Source: <https://modelcontextprotocol.io/specification/2025-11-25/client/elicitation>.

use cofferdam_text::{is_active, shorten, visible};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Number, Value, json};

use crate::schema::Schema;

/// The largest form, in bytes of JSON.
pub const MAX_FORM_BYTES: usize = 16 << 10;

/// The most fields of a form.
pub const MAX_FIELDS: usize = 20;

/// The most choices of a field.
pub const MAX_CHOICES: usize = 100;

/// The longest name of a field, title or choice, in bytes.
pub const MAX_NAME_BYTES: usize = 200;

/// The longest text that a user can give for a field, in characters.
pub const MAX_TEXT_CHARS: u32 = 10_000;

/// The longest description of a field, in bytes.
const MAX_DESCRIPTION_BYTES: usize = 1000;

/// A form with at least one field.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "Value", into = "Value")]
pub struct Form {
    fields: Vec<Field>,
}

/// A field of a form.
#[derive(Debug, Clone, PartialEq)]
pub struct Field {
    name: String,
    is_required: bool,
    schema: FieldSchema,
}

/// The answer of a user to a form.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum FormAnswer {
    /// The filled form; it fits.
    Accepted(Map<String, Value>),
    /// The user has said no.
    Declined,
    /// The user has given no answer.
    Cancelled,
}

/// What a plugin has written is no form.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct FormError(String);

/// How a user gives the value of a field.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Input {
    /// The user types a text.
    Text,
    /// The user types a number.
    Number,
    /// The user chooses yes or no.
    Bool,
    /// The user chooses one of these values, each with its title.
    One(Vec<(String, String)>),
    /// The user chooses any of these values, each with its title.
    Many(Vec<(String, String)>),
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct FieldSchema {
    #[serde(rename = "type")]
    kind: Kind,
    #[serde(skip_serializing_if = "Option::is_none")]
    title: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    description: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    min_length: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_length: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    format: Option<TextFormat>,
    #[serde(skip_serializing_if = "Option::is_none")]
    minimum: Option<Number>,
    #[serde(skip_serializing_if = "Option::is_none")]
    maximum: Option<Number>,
    #[serde(rename = "enum", skip_serializing_if = "Option::is_none")]
    values: Option<Vec<String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    enum_names: Option<Vec<String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    one_of: Option<Vec<Titled>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    min_items: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_items: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    items: Option<Items>,
    #[serde(skip_serializing_if = "Option::is_none")]
    default: Option<Value>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Kind {
    String,
    Integer,
    Number,
    Boolean,
    Array,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum TextFormat {
    Email,
    Uri,
    Date,
    DateTime,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Items {
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    kind: Option<Kind>,
    #[serde(rename = "enum", skip_serializing_if = "Option::is_none")]
    values: Option<Vec<String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    any_of: Option<Vec<Titled>>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Titled {
    #[serde(rename = "const")]
    value: String,
    title: String,
}

impl Kind {
    /// The keywords of its schemas besides `type`, `title`, `description` and `default`.
    fn keywords(self) -> &'static [&'static str] {
        match self {
            Self::String => &["minLength", "maxLength", "format", "enum", "enumNames", "oneOf"],
            Self::Integer | Self::Number => &["minimum", "maximum"],
            Self::Boolean => &[],
            Self::Array => &["minItems", "maxItems", "items"],
        }
    }
}

impl Form {
    /// Reads a form of a plugin.
    ///
    /// # Errors
    /// What is wrong with it: it is too large, has a keyword or a value that forms don't have, no choices,
    /// characters that hide or reorder text, or a default that does not fit.
    pub fn parse(text: &str) -> Result<Self, FormError> {
        if text.len() > MAX_FORM_BYTES {
            return Err(FormError(format!("the form is larger than {MAX_FORM_BYTES} bytes")));
        }
        let schema: Value = serde_json::from_str(text)
            .map_err(|error| FormError(format!("the form is not JSON: {error}")))?;
        Self::from_schema(schema)
    }

    fn from_schema(schema: Value) -> Result<Self, FormError> {
        let wrong = |why: String| Err(FormError(why));
        let Value::Object(mut schema) = schema else {
            return wrong("the form is not an object".to_owned());
        };
        if schema.remove("type") != Some("object".into()) {
            return wrong("the form has the type 'object'".to_owned());
        }
        schema.remove("$schema");
        let required = match schema.remove("required") {
            None => Vec::new(),
            Some(names) => serde_json::from_value::<Vec<String>>(names)
                .map_err(|_| FormError("'required' is a list of names".to_owned()))?,
        };
        let Some(Value::Object(properties)) = schema.remove("properties") else {
            return wrong("the form has no 'properties'".to_owned());
        };
        if let Some(name) = schema.keys().next() {
            return wrong(format!("a form has no '{}'", visible::line(&shorten(name, 60))));
        }
        if properties.is_empty() || properties.len() > MAX_FIELDS {
            return wrong(format!("a form has 1 to {MAX_FIELDS} fields"));
        }
        if !required.iter().all(|name| properties.contains_key(name)) {
            return wrong("'required' names a field that does not exist".to_owned());
        }
        let field = |(name, schema)| Field::parse(name, schema, &required);
        let form = Self { fields: properties.into_iter().map(field).collect::<Result<_, _>>()? };
        let default = |field: &Field| Some((field.name.clone(), field.schema.default.clone()?));
        let defaults = form.fields.iter().filter_map(default).collect();
        form.check(&defaults).map_err(|why| FormError(format!("a default does not fit: {why}")))?;
        Ok(form)
    }

    /// Its fields, in their order.
    pub fn fields(&self) -> &[Field] {
        &self.fields
    }

    /// Returns its JSON Schema, with inert texts.
    pub fn schema(&self) -> Value {
        let mut schema = self.without_required();
        let required = self.fields.iter().filter(|field| field.is_required);
        let required: Vec<&str> = required.map(|field| field.name.as_str()).collect();
        if !required.is_empty() {
            schema["required"] = json!(required);
        }
        schema
    }

    fn without_required(&self) -> Value {
        let of = |field: &Field| {
            let schema = serde_json::to_value(&field.schema).unwrap_or_default();
            (field.name.clone(), schema)
        };
        let properties: Map<String, Value> = self.fields.iter().map(of).collect();
        json!({"type": "object", "properties": properties})
    }

    /// Checks the answer of a user, and returns what belongs to the form of it: fields that the form does not
    /// have are left out, and so are those that are null.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn answer(&self, mut content: Map<String, Value>) -> Result<Map<String, Value>, String> {
        let mut answer = Map::new();
        for field in &self.fields {
            match content.remove(&field.name).filter(|value| !value.is_null()) {
                Some(value) => drop(answer.insert(field.name.clone(), value)),
                None if field.is_required => return Err(format!("{}: it is required", field.name)),
                None => {}
            }
        }
        self.check(&answer)?;
        Ok(answer)
    }

    /// Checks values of some of its fields.
    fn check(&self, values: &Map<String, Value>) -> Result<(), String> {
        let is_long = |text: &Value| {
            text.as_str().is_some_and(|text| text.chars().count() > MAX_TEXT_CHARS as usize)
        };
        if let Some((name, _)) = values.iter().find(|(_, value)| is_long(value)) {
            return Err(format!("{name}: at most {MAX_TEXT_CHARS} characters"));
        }
        let schema = Schema::compile(self.without_required()).map_err(|error| error.to_string())?;
        let problems = schema.problems(&Value::Object(values.clone()), "");
        match problems.first() {
            None => Ok(()),
            Some(problem) => {
                let place = problem.pointer.trim_start_matches('/');
                Err(format!("{place}: it is {}", problem.expected))
            }
        }
    }
}

impl TryFrom<Value> for Form {
    type Error = FormError;

    fn try_from(schema: Value) -> Result<Self, FormError> {
        Self::from_schema(schema)
    }
}

impl From<Form> for Value {
    fn from(form: Form) -> Self {
        form.schema()
    }
}

impl Field {
    fn parse(name: String, schema: Value, required: &[String]) -> Result<Self, FormError> {
        let is_name = (1..=MAX_NAME_BYTES).contains(&name.len())
            && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-.".contains(&byte));
        if !is_name {
            let why = "the name of a field has letters, digits, '_', '-' and '.', at most 200";
            return Err(FormError(why.to_owned()));
        }
        let wrong = |why: &str| FormError(format!("the field '{name}': {why}"));
        let kind = schema.get("type").cloned().and_then(|kind| serde_json::from_value(kind).ok());
        let kind: Kind = kind.ok_or_else(|| {
            wrong("its type is string, integer, number, boolean, or array (of choices)")
        })?;
        let known = ["type", "title", "description", "default"];
        let keywords = schema.as_object().into_iter().flat_map(|schema| schema.keys());
        for keyword in keywords {
            if !known.contains(&keyword.as_str()) && !kind.keywords().contains(&keyword.as_str()) {
                let keyword = visible::line(&shorten(keyword, 60));
                return Err(wrong(&format!("a field of this type has no '{keyword}'")));
            }
        }
        let mut schema: FieldSchema =
            serde_json::from_value(schema).map_err(|error| wrong(&error.to_string()))?;
        schema.check().map_err(|why| wrong(&why))?;
        schema.title = schema.title.map(|title| visible::line(&title));
        schema.description = schema.description.map(|text| visible::line(&text));
        let is_required = required.contains(&name);
        Ok(Self { name, is_required, schema })
    }

    /// Its name in the answer.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// What the user is shown as its name.
    pub fn title(&self) -> &str {
        self.schema.title.as_deref().unwrap_or(&self.name)
    }

    /// What the user is told about it.
    pub fn description(&self) -> Option<&str> {
        self.schema.description.as_deref()
    }

    /// Whether an answer has to have it.
    pub fn is_required(&self) -> bool {
        self.is_required
    }

    /// The value that it has unless the user changes it.
    pub fn default(&self) -> Option<&Value> {
        self.schema.default.as_ref()
    }

    /// How a user gives its value.
    pub fn input(&self) -> Input {
        match (self.schema.kind, self.schema.choices()) {
            (Kind::Array, choices) => Input::Many(choices),
            (Kind::String, choices) if choices.is_empty() => Input::Text,
            (Kind::String, choices) => Input::One(choices),
            (Kind::Integer | Kind::Number, _) => Input::Number,
            (Kind::Boolean, _) => Input::Bool,
        }
    }

    /// The value that a user has given by texts, several for [`Input::Many`]; `None` if there is none.
    ///
    /// # Errors
    /// What is wrong with it. Whether the value fits is checked with the whole answer.
    pub fn read(&self, texts: &[&str]) -> Result<Option<Value>, String> {
        let first = texts.first().copied().unwrap_or_default();
        let given = Some(first.trim()).filter(|text| !text.is_empty());
        Ok(match self.input() {
            Input::Many(_) if texts.is_empty() && !self.is_required => None,
            Input::Many(_) => Some(json!(texts)),
            Input::Text => Some(first).filter(|text| !text.is_empty()).map(Value::from),
            Input::One(_) => given.map(Value::from),
            Input::Number => match given {
                None => None,
                Some(text) => {
                    let number: Option<Number> = serde_json::from_str(text).ok();
                    let number = number.ok_or_else(|| format!("{}: it is a number", self.name))?;
                    Some(Value::Number(number))
                }
            },
            Input::Bool => match given.map(str::to_lowercase).as_deref() {
                None => None,
                Some("yes" | "y" | "true") => Some(true.into()),
                Some("no" | "n" | "false") => Some(false.into()),
                Some(_) => return Err(format!("{}: it is yes or no", self.name)),
            },
        })
    }
}

impl FieldSchema {
    /// The values to choose from, each with its title; empty if there is no choice.
    fn choices(&self) -> Vec<(String, String)> {
        let titled = |choices: &[Titled]| {
            let pair = |choice: &Titled| (choice.value.clone(), visible::line(&choice.title));
            choices.iter().map(pair).collect::<Vec<_>>()
        };
        let (values, named) = match &self.items {
            Some(items) => (&items.values, &items.any_of),
            None => (&self.values, &self.one_of),
        };
        if let Some(named) = named {
            return titled(named);
        }
        let values = values.as_deref().unwrap_or_default();
        let names = self.enum_names.as_deref().unwrap_or_default();
        let pair = |(at, value): (usize, &String)| {
            let title = names.get(at).map_or_else(|| value.clone(), |name| visible::line(name));
            (value.clone(), title)
        };
        values.iter().enumerate().map(pair).collect()
    }

    /// Checks what does not follow from the types.
    fn check(&mut self) -> Result<(), String> {
        let long =
            |text: &Option<String>, most| text.as_ref().is_some_and(|text| text.len() > most);
        if long(&self.title, MAX_NAME_BYTES) || long(&self.description, MAX_DESCRIPTION_BYTES) {
            return Err("its title or description is too long".to_owned());
        }
        let is_choice = self.values.is_some() || self.one_of.is_some() || self.items.is_some();
        let is_text =
            self.min_length.is_some() || self.max_length.is_some() || self.format.is_some();
        let both = match &self.items {
            Some(items) => items.values.is_some() && items.any_of.is_some(),
            None => self.values.is_some() && self.one_of.is_some(),
        };
        let has_names = self.enum_names.as_ref().map(Vec::len);
        let values = self.values.as_ref().map(Vec::len);
        let is_of_text = |items: &Items| items.kind.is_none_or(|kind| kind == Kind::String);
        if (self.kind == Kind::Array) != self.items.is_some()
            || (is_choice && is_text)
            || both
            || has_names.is_some_and(|names| values != Some(names))
            || !self.items.as_ref().is_none_or(is_of_text)
        {
            return Err(
                "its choices are written as 'enum', or as 'oneOf' ('anyOf' in the 'items' of an \
                        array) with 'const' and 'title'"
                    .to_owned(),
            );
        }
        if is_choice {
            self.check_choices()?;
        }
        let numbers = [&self.minimum, &self.maximum];
        let is_whole = |number: &&Number| number.is_i64();
        if self.kind == Kind::Integer && !numbers.into_iter().flatten().all(|n| is_whole(&n)) {
            return Err("the bounds of an integer are integers".to_owned());
        }
        let default = self.default.as_ref().and_then(Value::as_str).unwrap_or_default();
        if default.chars().any(is_active) {
            return Err("its default has characters that hide or reorder text".to_owned());
        }
        Ok(())
    }

    fn check_choices(&mut self) -> Result<(), String> {
        let choices = self.choices();
        let fits = |(value, title): &(String, String)| {
            (1..=MAX_NAME_BYTES).contains(&value.len())
                && (1..=MAX_NAME_BYTES).contains(&title.len())
                && !value.chars().any(|c| c == '\n' || is_active(c))
        };
        if choices.is_empty() || choices.len() > MAX_CHOICES || !choices.iter().all(fits) {
            return Err(format!(
                "it has 1 to {MAX_CHOICES} choices of 1 to {MAX_NAME_BYTES} bytes, without characters \
                 that hide or reorder text"
            ));
        }
        for (at, (value, _)) in choices.iter().enumerate() {
            if choices.iter().take(at).any(|(other, _)| other == value) {
                return Err("two of its choices are the same".to_owned());
            }
        }
        // What the user sees is inert.
        let named = match &mut self.items {
            Some(items) => &mut items.any_of,
            None => &mut self.one_of,
        };
        for (choice, (_, title)) in named.iter_mut().flatten().zip(&choices) {
            choice.title.clone_from(title);
        }
        for (name, (_, title)) in self.enum_names.iter_mut().flatten().zip(&choices) {
            name.clone_from(title);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use super::*;

    fn form(properties: Value, required: Value) -> Result<Form, FormError> {
        let schema = json!({"type": "object", "properties": properties, "required": required});
        Form::parse(&schema.to_string())
    }

    /// A form with each kind of field.
    fn full() -> Form {
        let form = form(
            json!({
                "name": {"type": "string", "title": "Your\u{202e} name", "minLength": 2, "maxLength": 5},
                "mail": {"type": "string", "format": "email"},
                "age": {"type": "integer", "minimum": 1, "default": 30},
                "score": {"type": "number", "maximum": 100, "default": 95.5},
                "sure": {"type": "boolean", "default": true},
                "plain": {"type": "string", "enum": ["a", "b"], "default": "a"},
                "titled": {"type": "string", "oneOf": [{"const": "a", "title": "A\u{1b}"}]},
                "old": {"type": "string", "enum": ["a", "b"], "enumNames": ["One", "Two"]},
                "some": {"type": "array", "items": {"type": "string", "enum": ["a", "b"]}, "minItems": 1},
                "many": {"type": "array", "items": {"anyOf": [{"const": "a", "title": "A"}]}},
            }),
            json!(["name"]),
        );
        form.unwrap()
    }

    #[test]
    fn a_form_is_shown_as_it_was_written_without_active_characters() {
        let form = full();
        let schema = form.schema();
        assert_eq!(schema["required"], json!(["name"]));
        assert_eq!(schema["properties"]["name"]["title"], "Your⟨U+202E⟩ name");
        assert_eq!(schema["properties"]["titled"]["oneOf"][0]["title"], "A⟨U+001B⟩");
        assert_eq!(schema["properties"]["old"]["enumNames"], json!(["One", "Two"]));
        assert_eq!(
            schema["properties"]["score"],
            json!({"type": "number", "maximum": 100, "default": 95.5})
        );
        assert_eq!(Form::parse(&schema.to_string()).unwrap(), form);
        assert_eq!(serde_json::from_value::<Form>(schema).unwrap(), form);
        let names: Vec<&str> = form.fields().iter().map(Field::name).collect();
        assert_eq!(names[..3], ["name", "mail", "age"]);
        let old = form.fields().iter().find(|field| field.name == "old").unwrap();
        let pair = |value: &str, title: &str| (value.to_owned(), title.to_owned());
        assert_eq!(old.input(), Input::One(vec![pair("a", "One"), pair("b", "Two")]));
    }

    #[test]
    fn what_is_no_form_is_refused() {
        let nothing = || json!([]);
        let text = |schema: Value| form(json!({"a": schema}), nothing());
        let many: Map<String, Value> =
            (0..=MAX_FIELDS).map(|at| (format!("f{at}"), json!({"type": "string"}))).collect();
        let choices: Vec<String> = (0..=MAX_CHOICES).map(|at| at.to_string()).collect();
        for (parsed, wanted) in [
            (Form::parse("{"), "not JSON"),
            (Form::parse("[]"), "not an object"),
            (Form::parse("{}"), "the type 'object'"),
            (Form::parse(r#"{"type": "object"}"#), "no 'properties'"),
            (Form::parse(&" ".repeat(MAX_FORM_BYTES + 1)), "larger than"),
            (Form::parse(r#"{"type": "object", "properties": {}, "allOf": []}"#), "no 'allOf'"),
            (form(json!({}), nothing()), "1 to 20 fields"),
            (form(Value::Object(many), nothing()), "1 to 20 fields"),
            (form(json!({"a": {"type": "string"}}), json!(["b"])), "does not exist"),
            (form(json!({"a b": {"type": "string"}}), nothing()), "the name of a field"),
            (form(json!({"": {"type": "string"}}), nothing()), "the name of a field"),
            (text(json!({"type": "object"})), "its type is string"),
            (text(json!(1)), "its type is string"),
            (text(json!({"type": "string", "pattern": "(a+)+$"})), "no 'pattern'"),
            (text(json!({"type": "string", "$ref": "#"})), "no '$ref'"),
            (text(json!({"type": "string", "minimum": 1})), "no 'minimum'"),
            (text(json!({"type": "integer", "minimum": 0.5})), "bounds of an integer"),
            (text(json!({"type": "string", "format": "password"})), "unknown variant"),
            (text(json!({"type": "string", "enum": []})), "1 to 100 choices"),
            (text(json!({"type": "string", "enum": choices})), "1 to 100 choices"),
            (text(json!({"type": "string", "enum": ["a", "a"]})), "the same"),
            (text(json!({"type": "string", "enum": ["a\u{202e}"]})), "hide or reorder"),
            (text(json!({"type": "string", "enum": ["a"], "maxLength": 3})), "its choices"),
            (text(json!({"type": "string", "enum": ["a"], "enumNames": []})), "its choices"),
            (text(json!({"type": "string", "enumNames": ["a"]})), "its choices"),
            (text(json!({"type": "array"})), "its choices"),
            (text(json!({"type": "array", "items": {"type": "string"}})), "1 to 100 choices"),
            (text(json!({"type": "array", "items": {"type": "object"}})), "unknown variant"),
            (
                text(json!({"type": "array", "items": {"type": "integer", "enum": ["1"]}})),
                "its choices",
            ),
            (text(json!({"type": "string", "default": 5})), "does not fit: a: it is a string"),
            (text(json!({"type": "string", "default": "\u{1b}[2J"})), "hide or reorder"),
            (text(json!({"type": "string", "enum": ["a"], "default": "b"})), "does not fit"),
            (text(json!({"type": "string", "title": "x".repeat(MAX_NAME_BYTES + 1)})), "too long"),
        ] {
            let error = parsed.unwrap_err().to_string();
            assert!(error.contains(wanted), "{wanted}: {error}");
        }
    }

    #[test]
    fn an_answer_has_to_fit_the_form() {
        let answer = |content: Value| {
            let Value::Object(content) = content else { unreachable!() };
            full().answer(content).map(Value::Object)
        };
        let fits = json!({"name": "Ada", "age": 3, "score": 1.5, "sure": false, "some": ["b"]});
        assert_eq!(answer(fits.clone()), Ok(fits));
        // What the form does not have is left out.
        let more = json!({"name": "Ada", "age": null, "admin": true});
        assert_eq!(answer(more), Ok(json!({"name": "Ada"})));
        for (content, wanted) in [
            (json!({}), "name: it is required"),
            (json!({"name": null}), "name: it is required"),
            (json!({"name": "A"}), "name: it is at least 2 characters"),
            (json!({"name": "Adalbert"}), "name: it is at most 5 characters"),
            (json!({"name": ["Ada"]}), "name: it is a string"),
            (json!({"name": "Ada", "mail": "x"}), "mail: it is a string in the format 'email'"),
            (json!({"name": "Ada", "mail": "x".repeat(10_001)}), "mail: at most 10000 characters"),
            (json!({"name": "Ada", "age": 1.5}), "age: it is an integer"),
            (json!({"name": "Ada", "age": 0}), "age: it is at least 1"),
            (json!({"name": "Ada", "sure": "yes"}), "sure: it is a boolean"),
            (json!({"name": "Ada", "plain": "c"}), "plain: it is one of \"a\", \"b\""),
            (json!({"name": "Ada", "titled": "c"}), "titled: it is "),
            (json!({"name": "Ada", "some": []}), "some: it is at least one item"),
            (json!({"name": "Ada", "many": ["c"]}), "many/0: it is "),
        ] {
            let error = answer(content).unwrap_err();
            assert!(error.starts_with(wanted), "{wanted}: {error}");
        }
    }

    #[test]
    fn texts_of_a_user_become_values() {
        let form = full();
        let read = |name: &str, texts: &[&str]| {
            form.fields().iter().find(|field| field.name == name).unwrap().read(texts)
        };
        for (name, texts, wanted) in [
            ("name", vec![" Ada "], Ok(Some(json!(" Ada ")))),
            ("name", vec![""], Ok(None)),
            ("age", vec![" 30 "], Ok(Some(json!(30)))),
            ("age", vec![""], Ok(None)),
            ("age", vec!["thirty"], Err("age: it is a number".to_owned())),
            ("score", vec!["1.5"], Ok(Some(json!(1.5)))),
            ("sure", vec!["Yes"], Ok(Some(json!(true)))),
            ("sure", vec!["no"], Ok(Some(json!(false)))),
            ("sure", vec!["perhaps"], Err("sure: it is yes or no".to_owned())),
            ("plain", vec!["b"], Ok(Some(json!("b")))),
            ("some", vec![], Ok(None)),
            ("some", vec!["a", "b"], Ok(Some(json!(["a", "b"])))),
        ] {
            assert_eq!(read(name, &texts), wanted, "{name} {texts:?}");
        }
    }
}
