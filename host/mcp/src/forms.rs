//! Questions of plugins as clients and other programs show them: what the user reads, the form, and the
//! answers. How they are asked is not decided here.

use std::collections::BTreeMap;

use rmcp::model::{ElicitRequestParams, ElicitResult, ElicitationAction, ElicitationSchema};
use serde_json::Value;

use cofferdam_core::form::{Form, FormAnswer};
use cofferdam_core::outcome::{DenialCode, Failure};
use cofferdam_engine::call::PluginQuestion;
use cofferdam_engine::host::AskedForms;
use cofferdam_text::visible;
use cofferdam_workspace::QuestionAnswer;

/// How the key of a question begins; its number follows. That of a question about a call is another one.
pub(super) const QUESTION: &str = "question";

/// The key of a question, counted from 1.
pub(super) fn key(number: usize) -> String {
    format!("{QUESTION}-{number}")
}

/// What the user reads. The words of the plugin stand behind marks, so they can't look like the host's.
pub(super) fn message(tool: &str, question: &PluginQuestion) -> String {
    let PluginQuestion { plugin, message, .. } = question;
    let quoted: String =
        visible::lines(message).lines().map(|line| format!("\n> {line}")).collect();
    format!(
        "The plugin '{plugin}' asks you something for the call of {tool}. Its words are those behind the marks; \
         your answer goes to the plugin and approves nothing. Do not give it passwords or other secrets.\n{quoted}"
    )
}

/// The request to a client that shows a question.
///
/// # Errors
/// `ApprovalNeeded`: the protocol has no such form.
pub(super) fn request(
    tool: &str,
    question: &PluginQuestion,
) -> Result<ElicitRequestParams, Failure> {
    let requested_schema: ElicitationSchema = serde_json::from_value(question.form.schema())
        .map_err(|error| {
            Failure::new(DenialCode::ApprovalNeeded, format!("no client shows this form: {error}"))
        })?;
    let message = message(tool, question);
    Ok(ElicitRequestParams::FormElicitationParams { meta: None, message, requested_schema })
}

/// The answers of a client that makes its call again; `None` if one is missing or does not fit its form.
pub(super) fn all(
    asked: &AskedForms,
    answers: &BTreeMap<String, ElicitResult>,
) -> Option<Vec<FormAnswer>> {
    let one = |(number, question): (usize, &PluginQuestion)| {
        filled(&question.form, answers.get(&key(number))?).ok()
    };
    (1..).zip(&asked.questions).map(one).collect()
}

/// The answer of a client. One that does not fit the form is none.
pub(super) fn of_client(form: &Form, answer: &ElicitResult) -> FormAnswer {
    filled(form, answer).unwrap_or_else(|why| {
        tracing::warn!("an answer does not fit the form of its question: {}", visible::line(&why));
        FormAnswer::Cancelled
    })
}

/// The answer of a user at a terminal or in the console.
pub(super) fn of_user(form: &Form, answer: QuestionAnswer) -> FormAnswer {
    match answer {
        QuestionAnswer::Form(FormAnswer::Accepted(content)) => {
            form.answer(content).map_or(FormAnswer::Cancelled, FormAnswer::Accepted)
        }
        QuestionAnswer::Form(answer) => answer,
        // It is the answer to a question about a call.
        _ => FormAnswer::Declined,
    }
}

/// The answer of a client, checked against the form.
///
/// # Errors
/// What does not fit.
fn filled(form: &Form, answer: &ElicitResult) -> Result<FormAnswer, String> {
    Ok(match answer.action {
        ElicitationAction::Accept => match answer.content.clone() {
            Some(Value::Object(content)) => FormAnswer::Accepted(form.answer(content)?),
            None => FormAnswer::Accepted(form.answer(serde_json::Map::new())?),
            Some(_) => return Err("the content is no object".to_owned()),
        },
        ElicitationAction::Decline => FormAnswer::Declined,
        _ => FormAnswer::Cancelled,
    })
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use super::*;
    use serde_json::json;

    fn question(message: &str, properties: Value) -> PluginQuestion {
        let form = json!({"type": "object", "properties": properties, "required": ["name"]});
        let form = Form::parse(&form.to_string()).unwrap();
        PluginQuestion { plugin: "survey".to_owned(), message: message.to_owned(), form }
    }

    fn named() -> PluginQuestion {
        question("Your name?", json!({"name": {"type": "string"}}))
    }

    #[test]
    fn the_words_of_a_plugin_can_not_look_like_those_of_the_host() {
        let words = "Name?\n\nMay shell.run_command be called?\u{202e}\u{1b}[2J";
        let shown = message("survey.ask", &question(words, json!({"name": {"type": "string"}})));
        assert!(
            shown.starts_with("The plugin 'survey' asks you something for the call of survey.ask.")
        );
        let end = "secrets.\n\n> Name?\n> \n> May shell.run_command be called?⟨U+202E⟩⟨U+001B⟩[2J";
        assert!(shown.ends_with(end), "{shown}");
    }

    #[test]
    fn the_protocol_has_every_kind_of_field() {
        let properties = json!({
            "name": {"type": "string", "title": "Name", "minLength": 1, "default": "John Doe"},
            "mail": {"type": "string", "format": "email"},
            "age": {"type": "integer", "minimum": 0, "default": 30},
            "score": {"type": "number", "default": 95.5},
            "sure": {"type": "boolean", "default": true},
            "plain": {"type": "string", "enum": ["a", "b"], "default": "a"},
            "titled": {"type": "string", "oneOf": [{"const": "a", "title": "A"}]},
            "old": {"type": "string", "enum": ["a"], "enumNames": ["A"]},
            "some": {"type": "array", "items": {"type": "string", "enum": ["a", "b"]}},
            "many": {"type": "array", "items": {"anyOf": [{"const": "a", "title": "A"}]}, "maxItems": 1},
        });
        let request = request("survey.ask", &question("?", properties.clone())).unwrap();
        let request = serde_json::to_value(request).unwrap();
        let schema = &request["requestedSchema"];
        assert_eq!(schema["required"], json!(["name"]));
        for (name, field) in properties.as_object().unwrap() {
            for (keyword, value) in field.as_object().unwrap() {
                let sent = &schema["properties"][name][keyword];
                let is_same =
                    sent == value || sent.as_f64().is_some_and(|n| value.as_f64() == Some(n));
                assert!(is_same, "{name} {keyword}: {schema}");
            }
        }
    }

    #[test]
    fn an_answer_counts_only_if_it_fits() {
        let result = |answer: Value| -> ElicitResult { serde_json::from_value(answer).unwrap() };
        let accepted =
            |content: Value| FormAnswer::Accepted(serde_json::from_value(content).unwrap());
        for (answer, wanted) in [
            (
                json!({"action": "accept", "content": {"name": "Ada", "x": 1}}),
                Some(accepted(json!({"name": "Ada"}))),
            ),
            (json!({"action": "decline", "content": {"name": "Ada"}}), Some(FormAnswer::Declined)),
            (json!({"action": "cancel"}), Some(FormAnswer::Cancelled)),
            (json!({"action": "accept"}), None),
            (json!({"action": "accept", "content": []}), None),
            (json!({"action": "accept", "content": {"name": 5}}), None),
        ] {
            let none = wanted.clone().unwrap_or(FormAnswer::Cancelled);
            assert_eq!(of_client(&named().form, &result(answer.clone())), none, "{answer}");
            let asked = AskedForms {
                tool: "survey.ask".to_owned(),
                args: json!({}),
                questions: vec![named()],
            };
            let answers = [(key(1), result(answer))].into();
            assert_eq!(all(&asked, &answers), wanted.map(|answer| vec![answer]));
            assert_eq!(all(&asked, &BTreeMap::new()), None);
        }
        let form = named().form;
        assert_eq!(of_user(&form, QuestionAnswer::Once), FormAnswer::Declined);
        let wrong = QuestionAnswer::Form(accepted(json!({})));
        assert_eq!(of_user(&form, wrong), FormAnswer::Cancelled);
    }
}
