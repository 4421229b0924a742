//! `save_agent_report`: validates a report and writes its three files.

use cofferdam_report_format::place::EXTENSIONS;
use cofferdam_report_format::{Agent, Args, Summary};
use cofferdam_sdk::{Context, ToolError};
use serde::Serialize;
use serde_json::Number;

use crate::check::check;
use crate::place;

/// The result of `save_agent_report`.
#[derive(Debug, Serialize)]
pub struct Output {
    /// The paths of the new files.
    pub report: Files,
    /// The agent that reported.
    pub agent_name: Agent,
    /// The phase that was verified.
    pub phase: Number,
    /// The number of findings.
    pub summary: Summary,
}

/// Absolute paths of a report's files.
#[derive(Debug, Serialize)]
pub struct Files {
    /// The report as submitted.
    pub json: String,
    /// The report as Markdown.
    pub markdown: String,
    /// The report as a web page.
    pub html: String,
}

/// Writes the three files. If one of them exists, the call fails and the host discards the others.
///
/// # Errors
/// Those of [`check`], [`place::find`] and [`Context::create`]; `InvalidOutput` if the report can't
/// be serialized.
pub fn run(args: Args, context: &Context) -> Result<Output, ToolError> {
    let report = check(args, context)?;
    let stem = place::find(&report, context)?;
    let create = |extension, contents: String| {
        let path = context.resolve(&format!("{stem}.{extension}"))?;
        context.create(&path, contents.as_bytes())?;
        Ok::<_, ToolError>(context.absolute(&path))
    };
    let [json_name, markdown_name, html_name] = EXTENSIONS;
    let json = report
        .args
        .to_json()
        .map_err(|error| ToolError::failed("InvalidOutput", error.to_string()))?;
    let files = Files {
        json: create(json_name, json)?,
        markdown: create(markdown_name, report.to_markdown())?,
        html: create(html_name, report.to_html())?,
    };
    let Args { agent_name, phase, summary, .. } = report.args;
    Ok(Output { report: files, agent_name, phase, summary })
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use std::fs;

    use serde_json::{Value, json};

    use super::*;

    const INPUT: &str = include_str!("../../../schemas/tools/report.save_agent_report.input.json");
    const OUTPUT: &str =
        include_str!("../../../schemas/tools/report.save_agent_report.output.json");

    /// The texts of the three files in the order of their extensions, the workspace, and the
    /// result.
    fn saved(args: &Value) -> ([String; 3], String, Value) {
        let directory = tempfile::tempdir().unwrap();
        let context = Context::for_directory(directory.path());
        let args = serde_json::from_value(args.clone()).unwrap();
        let output = run(args, &context).unwrap();
        let Files { json, markdown, html } = &output.report;
        let texts = [json, markdown, html].map(|path| fs::read_to_string(path).unwrap());
        (texts, context.workspace().to_owned(), serde_json::to_value(output).unwrap())
    }

    fn examples() -> Vec<Value> {
        let schema: Value = serde_json::from_str(INPUT).unwrap();
        schema["examples"].as_array().unwrap().clone()
    }

    #[test]
    fn the_examples_are_saved() {
        let schema =
            |text| jsonschema::draft202012::new(&serde_json::from_str(text).unwrap()).unwrap();
        let (input, output) = (schema(INPUT), schema(OUTPUT));
        let stems =
            ["wave-1/best-practices-enforcer", "security-auditor", "best-practices-enforcer"];
        assert_eq!(examples().len(), stems.len());
        for (example, stem) in examples().iter().zip(stems) {
            assert!(input.is_valid(example), "{example}");
            let ([json, markdown, html], workspace, answer) = saved(example);
            assert!(output.is_valid(&answer), "{answer}");
            for (field, extension) in [("json", "json"), ("markdown", "md"), ("html", "html")] {
                let wanted = format!("{workspace}/reports/phase-3/{stem}.{extension}");
                assert_eq!(answer["report"][field], wanted);
            }
            for field in ["agent_name", "phase", "summary"] {
                assert_eq!(answer[field], example[field]);
            }
            assert_eq!(serde_json::from_str::<Value>(&json).unwrap(), *example);
            for finding in example["findings"].as_array().unwrap() {
                let place = format!("{}:{}", finding["file"].as_str().unwrap(), finding["line"]);
                assert!(markdown.contains(&format!("`{place}`")), "{markdown}");
                assert!(
                    markdown.contains(&format!("```\n{}\n```", finding["fix"].as_str().unwrap()))
                );
                assert!(html.contains(finding["id"].as_str().unwrap()), "{html}");
            }
            assert_eq!(html.contains("None."), example["findings"] == json!([]));
        }
    }

    #[test]
    fn unknown_fields_are_refused() {
        let example = &examples()[0];
        for place in ["", "/summary", "/findings/0"] {
            let mut more = example.clone();
            more.pointer_mut(place).unwrap()["surprise"] = json!(1);
            assert!(serde_json::from_value::<Args>(more).is_err(), "{place}");
        }
    }

    #[test]
    fn markdown_reads_well() {
        let ([_, markdown, _], ..) = saved(&examples()[0]);
        let wanted = "\
# best-practices-enforcer: phase 3, Wave1

| total | critical | high | medium | low |
| --: | --: | --: | --: | --: |
| 2 | 0 | 0 | 1 | 1 |

- Started: 2026-02-07T10:30:00Z
- Ended: 2026-02-07T10:35:00Z
- Duration: 5m

## Findings

### MEDIUM: BP001

`/Users/bruno/sec-llm-workbench/src/models/user.py:12`

Using Pydantic v1 'class Config' pattern instead of ConfigDict

Fix:

```
Replace with: model_config = ConfigDict(validate_assignment=True)
```
";
        assert!(markdown.starts_with(wanted), "{markdown}");
    }

    #[test]
    fn text_of_agents_is_escaped() {
        let hostile = "</pre><script>alert(1)</script>\n```\n| a | b |\n\x1b[2J\u{202e}\u{e0041}<!-- \
                       ![x](http://x.test) \" onload='x'";
        let mut args = examples()[1].clone();
        for field in ["id", "finding", "fix"] {
            args["findings"][0][field] = json!(hostile);
        }
        args["findings"][0]["file"] = json!(format!("/{hostile}"));
        let (texts, ..) = saved(&args);
        for text in &texts {
            for c in ['\x1b', '\u{202e}', '\u{e0041}'] {
                assert!(!text.contains(c), "{c:?}: {text}");
            }
        }
        let [json, markdown, html] = texts;
        assert_eq!(serde_json::from_str::<Value>(&json).unwrap(), args);

        assert!(!html.contains("<script") && !html.contains("<!--"), "{html}");
        assert_eq!(html.matches("</pre>").count(), 1);
        assert!(html.contains("&lt;/pre&gt;&lt;script&gt;alert(1)&lt;/script&gt;"), "{html}");
        assert!(html.contains("⟨U+001B⟩[2J⟨U+202E⟩⟨U+E0041⟩&lt;!--"), "{html}");

        // The heading is one line; the paragraph is escaped; the fix has the longer fence.
        assert!(
            markdown.contains(r"### CRITICAL: \</pre\>\<script\>alert(1)\</script\>⟨U+000A⟩\`\`\`")
        );
        assert!(markdown.contains("\\\n\\| a \\| b \\|\\\n"), "{markdown}");
        assert!(markdown.contains(r"!\[x\](http\://x.test)"), "{markdown}");
        assert!(markdown.contains("````\n</pre><script>"), "{markdown}");
    }
}
