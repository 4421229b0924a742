#![expect(clippy::unwrap_used, reason = "tests")]
use super::*;

/// The shipped definition of the lint agent.
const LINT: &str = include_str!("../../../../examples/agents/lint/lint_subagent.yaml");

#[test]
fn the_lint_agent_matches_its_source() {
    let agent = CheckedDefinition::parse(LINT).unwrap();
    let definition = agent.definition();
    assert_eq!(definition.name, "lint_agent");
    assert!(definition.model.is_some() && definition.max_turns.is_some());
    let tools: Vec<(&str, &str)> =
        definition.tools.iter().map(|tool| (tool.name.as_str(), tool.tool.as_str())).collect();
    assert_eq!(
        tools,
        [
            ("run_linter", "lint_agent.run_linter"),
            ("apply_fix", "lint_agent.apply_fix"),
            ("read_file", "lint_agent.read_file"),
            ("submit_result", "lint_agent.submit"),
        ]
    );
    assert_eq!(definition.context_providers["ruff_config"].tool, "lint_agent.ruff_config");
    assert_eq!(definition.tools[0].context_providers, ["ruff_config"]);
    let role = agent.role(Some("src/app.py")).unwrap();
    assert_eq!(role.scope().paths(), ["src/app.py", ".ruff.toml", "ruff.toml", "pyproject.toml"]);
    assert!(
        role.allows("lint_agent", "submit", true)
            && !role.allows("lint_agent", "ruff_config", true)
    );
    assert_eq!(role.qualified("submit_result").map(|name| &**name), Some("lint_agent.submit"));
    let providers = agent.provider_role(Some("src/app.py")).unwrap();
    assert!(
        providers.allows("lint_agent", "ruff_config", true)
            && !providers.allows("lint_agent", "submit", true)
    );

    // The lint agent, "System Prompt Guidance", point by point.
    let values = ["ruff_config", "node_text"].map(|name| (name.to_owned(), format!("<{name}>")));
    let prompt = agent.prompt("src/app.py", &values.into()).unwrap();
    let system = prompt.system.replace('\n', " ");
    for said in [
        "preserve",
        "conservative",
        "report",
        "`run_linter` with `check_only` set to true",
        "`submit_result`",
    ] {
        assert!(system.contains(said), "{said}: {system}");
    }
    for said in ["src/app.py", "<node_text>", "<ruff_config>"] {
        assert!(prompt.user.contains(said), "{said}: {}", prompt.user);
    }
    let without =
        [("ruff_config".to_owned(), String::new()), ("node_text".to_owned(), "x".to_owned())];
    let prompt = agent.prompt("src/app.py", &without.into()).unwrap();
    assert!(prompt.user.contains("no configuration"), "{}", prompt.user);
}

#[test]
fn what_is_put_into_a_template_is_none() {
    let agent = CheckedDefinition::parse(
        "name: a\ninitial_context: {system_prompt: s, node_context: '{{ text }}'}\ncontext_providers: {text: {tool: a.b}}\ntools: [{name: x, tool: a.b}]\n",
    )
    .unwrap();
    let values = BTreeMap::from([("text".to_owned(), "{{ node_id }} <&> {% if".to_owned())]);
    assert_eq!(agent.prompt("t", &values).unwrap().user, values["text"]);
    assert_eq!(agent.definition().scope, ["{{ node_id }}"]);
    assert!(agent.needs_target());
}

#[test]
fn without_a_target_the_scope_is_empty() {
    let agent = CheckedDefinition::parse(LINT).unwrap();
    let role = agent.role(None).unwrap();
    assert!(!role.scope().is_everything());
    assert!(!role.scope().allows("src/app.py"));
    for target in ["../x.py", "/etc/passwd", "", ".", "./", "a/../../b"] {
        assert!(agent.role(Some(target)).is_err(), "{target:?}");
    }
}

/// A valid definition.
const BASE: &str = "name: a\ninitial_context: {system_prompt: s}\ntools: [{name: x, tool: a.b}]\n";

/// [`BASE`] with a part replaced.
fn with(from: &str, to: &str) -> String {
    assert!(BASE.contains(from), "{from}");
    BASE.replace(from, to)
}

/// [`BASE`] with more at its end.
fn and(more: &str) -> String {
    format!("{BASE}{more}")
}

fn check_refused(yaml: &str, wanted: &str) {
    let error = CheckedDefinition::parse(yaml).unwrap_err().to_string();
    assert!(error.contains(wanted), "{yaml}\n{error}");
}

#[test]
fn invalid_definitions_are_refused() {
    CheckedDefinition::parse(BASE).unwrap();
    for (yaml, wanted) in [
        (String::new(), "missing field `name`"),
        ("name: [".to_owned(), "at line 2 column 1"),
        (and("name: b\n"), "duplicate entry with key \"name\""),
        (and("colour: red\n"), "unknown field `colour`"),
        (and("max_turns: 0\n"), "line 4"),
        (and("max_turns: many\n"), "line 4"),
        (and("---\nname: b\n"), "more than one document"),
        (with("name: a\n", ""), "missing field `name`"),
        (with("name: a", "name: a b"), "name: 'a b' is not 1 to 64 letters"),
        (with("system_prompt: s", "system: s"), "unknown field `system`"),
        (
            and("context_providers: {node_id: {tool: a.b}}\n"),
            "context_providers.node_id: is not a valid name",
        ),
        (
            and("context_providers: {a-b: {tool: a.b}}\n"),
            "context_providers.a-b: is not a valid name",
        ),
        (and("context_providers: {c: {tool: b}}\n"), "context_providers.c: 'b' is no tool"),
        (
            with("system_prompt: s", "system_prompt: '{{ nobody }}'"),
            "'nobody' is no variable here; there is node_id",
        ),
        (
            with("system_prompt: s", "system_prompt: '{{ a'"),
            "initial_context.system_prompt: syntax error",
        ),
        (
            with("system_prompt: s", "system_prompt: '{% include \"x\" %}'"),
            "initial_context.system_prompt",
        ),
        (and("scope: []\n"), "scope: is the whole workspace"),
        (and("scope: ['.']\n"), "scope: is the whole workspace"),
        (and("scope: [src, ../x]\n"), "leaves the workspace"),
        (and("scope: [/etc]\n"), "is absolute"),
        (
            and("scope: ['{{ c }}']\ncontext_providers: {c: {tool: a.b}}\n"),
            "scope: 'c' is no variable",
        ),
    ] {
        check_refused(&yaml, wanted);
    }
}

#[test]
fn invalid_tools_are_refused() {
    for (yaml, wanted) in [
        (with("[{name: x, tool: a.b}]", "[]"), "tools: are empty"),
        (with("tool: a.b", "tool: ab"), "tools.x.tool: 'ab' is no tool"),
        (with("tool: a.b", "tool: a.*"), "tools.x.tool: 'a.*' is no tool"),
        (with("tool: a.b", "tool: a.b.c"), "'a.b.c' is no tool"),
        (with("tool: a.b", "tool: a.b, pym: x.pym"), "unknown field `pym`"),
        (
            with("tool: a.b", "tool: a.b, parameters: {type: object, type: object}"),
            "duplicate entry with key \"type\"",
        ),
        (with("tool: a.b}", "tool: a.b}, {name: x, tool: a.c}"), "is there twice"),
        (with("tool: a.b}", "tool: a.b}, {name: y, tool: a.b}"), "is there twice"),
        (
            with("tool: a.b", "tool: a.b, parameters: {type: string}"),
            "tools.x.parameters: describe no object",
        ),
        (
            with("tool: a.b", "tool: a.b, parameters: {type: object, properties: 1}"),
            "tools.x.parameters: no valid JSON Schema",
        ),
        (
            with("tool: a.b", "tool: a.b, context_providers: [ruff]"),
            "tools.x.context_providers: 'ruff' is none of",
        ),
    ] {
        check_refused(&yaml, wanted);
    }
}

/// Nine levels of nine aliases would be 387 million values.
#[test]
fn a_definition_that_grows_without_measure_is_refused() {
    let mut yaml = String::from("name: &a0 lol\n");
    for level in 1..10 {
        let before = format!("*a{}", level - 1);
        yaml += &format!("l{level}: &a{level} [{}]\n", [before.as_str(); 9].join(", "));
    }
    assert!(CheckedDefinition::parse(&yaml).is_err());
}
