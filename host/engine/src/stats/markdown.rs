//! The statistics as Markdown text.

use cofferdam_text::markdown::{code_span, escape, table};
use cofferdam_text::visible as inert;

use super::text::{IS_NUMBER, PLUGIN_COLUMNS, TOOL_COLUMNS, cells, uses};
use super::{PluginUse, Scope, Summary};

impl Summary {
    /// The statistics as Markdown.
    pub fn to_markdown(&self, title: &str) -> String {
        let line = |text: &str| escape(&inert::line(text));
        let mut blocks = vec![format!("# {}", line(title)), line(&self.period_in_words())];
        blocks.push("## Alerts".to_owned());
        let alert = |alert: &super::Alert| {
            let (scope, message) = (line(&alert.scope), line(&alert.message));
            format!("- **{scope}**: {message}. {}.", line(&alert.advice))
        };
        let alerts: Vec<String> = self.alerts.iter().map(alert).collect();
        blocks.push(if alerts.is_empty() { "None.".to_owned() } else { alerts.join("\n") });
        blocks.push("## Calls".to_owned());
        let row = |scope: &Scope| {
            let name = line(&scope.name);
            [name].into_iter().chain(cells(scope)).collect()
        };
        let rows: Vec<Vec<String>> = self.tools.iter().chain([&self.total]).map(row).collect();
        blocks.push(table(&TOOL_COLUMNS, &IS_NUMBER, &rows));
        if !self.plugins.is_empty() {
            blocks.push("## Plugins".to_owned());
            let row =
                |plugin: &PluginUse| [line(&plugin.name)].into_iter().chain(uses(plugin)).collect();
            let rows: Vec<Vec<String>> = self.plugins.iter().map(row).collect();
            blocks.push(table(&PLUGIN_COLUMNS, &IS_NUMBER, &rows));
        }
        let facts = self.facts();
        let facts = facts.iter().map(|(about, value)| format!("- {about}: {}", line(value)));
        blocks.push(facts.collect::<Vec<_>>().join("\n"));
        if !self.lines.problems.is_empty() {
            blocks.push("## Lines that can't be read".to_owned());
            let items = self.lines.problems.iter().map(|problem| {
                let place = format!("{}:{}", problem.file, problem.line);
                format!("- {}: {}", code_span(&inert::line(&place)), line(&problem.problem))
            });
            blocks.push(items.collect::<Vec<_>>().join("\n"));
        }
        blocks.join("\n\n") + "\n"
    }
}
