//! Consent for actions that no file and no origin shows: the rules of the settings, what users decide, and
//! what plugins, callers and the journal are told. The guest `courier` asks for what it is told to.

use std::pin::Pin;
use std::sync::{Arc, Mutex};

use cofferdam_core::outcome::{DenialCode, Failure, Outcome};
use cofferdam_engine::call::{Later, Session};
use cofferdam_engine::host::{Approval, Approver, Proposal, RunOptions};
use serde_json::{Value, json};

use crate::hostile::component::Packed;
use crate::http::records::journal;
use crate::support::{Ended, Place};
use crate::trial::{Trial, configure};

/// Grants the guest files, and nothing else.
const FILES: &str = "[grants.courier]\nfiles = 'write'\n";

/// A user who gives these answers, one after the other, and then no more.
struct User {
    answers: Mutex<Vec<Result<Later, &'static str>>>,
    asked: Mutex<Vec<String>>,
}

impl User {
    fn new(answers: &[Result<Later, &'static str>]) -> Arc<Self> {
        let answers = Mutex::new(answers.iter().rev().cloned().collect());
        Arc::new(Self { answers, asked: Mutex::default() })
    }

    fn asked(&self) -> Vec<String> {
        self.asked.lock().unwrap().clone()
    }
}

impl Approver for User {
    fn approve<'a>(
        &'a self,
        proposal: &'a Proposal,
    ) -> Pin<Box<dyn Future<Output = Result<Approval, Failure>> + Send + 'a>> {
        let request = proposal.consent.as_ref().unwrap();
        assert!(proposal.for_session && proposal.flow.is_none());
        self.asked.lock().unwrap().push(format!("{}: {request}", request.plugin));
        let answer = self.answers.lock().unwrap().pop().expect("no more questions");
        let answer = match answer {
            Ok(later) => Ok(Approval { tree: proposal.tree, later }),
            Err(why) => Err(Failure::new(DenialCode::Declined, why)),
        };
        Box::pin(async move { answer })
    }

    fn was_asked(&self) -> bool {
        false
    }
}

fn asking(user: &Arc<User>) -> RunOptions {
    RunOptions { approver: Some(user.clone()), ..RunOptions::default() }
}

fn trial(rules: &str) -> Trial {
    let settings = format!("{FILES}{rules}");
    Trial::with(Place::new(), vec![Packed::guest("courier")], &settings)
}

/// Takes some steps in one call.
fn go(trial: &Trial, options: &RunOptions, steps: &[&[&str]]) -> Outcome {
    trial.call_with(options, "courier.go", json!({ "steps": steps }))
}

/// Takes some steps in a call that has to succeed; returns what came of them.
#[track_caller]
fn went(trial: &Trial, options: &RunOptions, steps: &[&[&str]]) -> Vec<String> {
    match go(trial, options, steps) {
        Outcome::Executed(output) => {
            let results = output["results"].as_array().unwrap().iter();
            results.map(|result| result.as_str().unwrap().to_owned()).collect()
        }
        other => panic!("{steps:?}: {other:?}"),
    }
}

/// What the journal says of the latest call: class, key and decision of each request.
fn recorded(trial: &Trial) -> Vec<(String, String, String)> {
    let calls = journal(trial);
    let last = calls.iter().rev().find(|line| line["tool"] == "courier.go").unwrap();
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let of =
        |record: &Value| (text(&record["class"]), text(&record["key"]), text(&record["decision"]));
    last["consents"].as_array().into_iter().flatten().map(of).collect()
}

/// The requests of a call that only differ in their decisions.
fn decisions(trial: &Trial) -> Vec<String> {
    recorded(trial).into_iter().map(|(_, _, decision)| decision).collect()
}

const YES: &[&str] = &["yes"];
const REFUSED: &[&str] = &["ConsentRefused"];

#[test]
fn a_pattern_allows_keys_and_everything_else_is_refused() {
    let trial = trial("[grants.courier.consent]\ndrop = { allow = ['cache.db: *'] }\n");
    let options = RunOptions::default();
    for (class, key, wanted, decision) in [
        ("drop", "cache.db: a", YES, "granted"),
        ("drop", "cache.db: ", YES, "granted"),
        ("drop", "app.db: a", REFUSED, "not_granted"),
        ("drop", "Cache.db: a", REFUSED, "not_granted"),
        ("pay", "cache.db: a", REFUSED, "not_granted"),
        ("steal", "cache.db: a", REFUSED, "undeclared"),
        ("", "cache.db: a", REFUSED, "undeclared"),
        ("drop", "", REFUSED, "invalid_key"),
    ] {
        assert_eq!(went(&trial, &options, &[&["consent", class, key]]), wanted, "{class} {key}");
        let line = (class.to_owned(), key.to_owned(), decision.to_owned());
        assert_eq!(recorded(&trial), [line]);
    }
}

#[test]
fn nothing_is_allowed_without_a_rule() {
    let trial = trial("");
    let steps: &[&[&str]] = &[&["consent", "drop", "a"], &["write", "x", "y"]];
    assert_eq!(went(&trial, &RunOptions::default(), steps), ["ConsentRefused", "written"]);
    assert_eq!(decisions(&trial), ["not_granted"]);
    // A user who could be asked is not.
    let user = User::new(&[]);
    assert_eq!(went(&trial, &asking(&user), &steps[..1]), REFUSED);
    assert!(user.asked().is_empty());
}

const ASK: &str = "[grants.courier.consent]\ndrop = { allow = ['tmp*'], ask = ['*'] }\n";

#[test]
fn a_yes_makes_the_call_again_and_commits_it() {
    let trial = trial(ASK);
    let steps: &[&[&str]] = &[
        &["write", "before", "1"],
        &["consent", "drop", "tmp"],
        &["consent", "drop", "app"],
        &["write", "after", "2"],
    ];
    let user = User::new(&[Ok(Later::None)]);
    assert_eq!(went(&trial, &asking(&user), steps), ["written", "yes", "yes", "written"]);
    assert_eq!(user.asked(), ["courier: drop \"app\" (Drops something)"]);
    assert_eq!((trial.place.read("before"), trial.place.read("after")), ("1".into(), "2".into()));
    assert_eq!(decisions(&trial), ["approved", "granted"]);
    let calls = journal(&trial);
    let call =
        calls.iter().find(|line| line["tool"] == "courier.go" && line["latency_ms"].is_number());
    assert_eq!(call.unwrap()["approver"], "the user");
    let event = calls.iter().find(|line| line["event"] == "approval").unwrap();
    assert_eq!(event["decision"]["answer"], "yes");
    let shown = event["decision"]["shown"].as_str().unwrap();
    assert!(shown.starts_with("drop \"app\" (Drops something): {"), "{shown}");
}

/// What the plugin sees is the same as without a rule; the journal and the caller know the difference.
#[test]
fn a_no_is_like_no_grant_for_the_plugin() {
    let steps: &[&[&str]] = &[&["consent", "drop", "app"], &["write", "x", "1"]];
    let (asked, closed) = (trial(ASK), trial(""));
    let user = User::new(&[Err("the person said no: not today")]);
    let no = go(&asked, &asking(&user), steps);
    let unasked = go(&asked, &RunOptions::default(), steps);
    assert_eq!(decisions(&asked), ["not_asked"]);
    let not_granted = go(&closed, &RunOptions::default(), steps);
    assert_eq!((&no, &unasked), (&not_granted, &not_granted));
    assert_eq!(decisions(&closed), ["not_granted"]);
    let said: Vec<Value> = journal(&asked);
    let declined = said.iter().find(|line| line["consents"][0]["decision"] == "declined").unwrap();
    assert_eq!(declined["outcome"], "executed");
    let event = said.iter().find(|line| line["event"] == "approval").unwrap();
    assert_eq!(event["decision"]["answer"], "no");
}

#[test]
fn a_yes_for_the_session_is_for_the_same_action_in_this_session() {
    let trial = trial(ASK);
    let session = Session::default();
    let user = User::new(&[Ok(Later::All), Err("no"), Err("no"), Ok(Later::None), Err("no")]);
    let ask = |session: &Session, key: &str| {
        let options = RunOptions { session: session.clone(), ..asking(&user) };
        went(&trial, &options, &[&["consent", "drop", key]])
    };
    assert_eq!(ask(&session, "a"), YES);
    assert_eq!(ask(&session, "a"), YES);
    assert_eq!(decisions(&trial), ["remembered"]);
    assert_eq!(user.asked().len(), 1);
    // Another key, and another session.
    assert_eq!(ask(&session, "a "), REFUSED);
    assert_eq!(ask(&Session::default(), "a"), REFUSED);
    assert_eq!(decisions(&trial), ["declined"]);
    // A yes for one call is not remembered.
    assert_eq!(ask(&session, "b"), YES);
    assert_eq!(ask(&session, "b"), REFUSED);
    assert_eq!(user.asked().len(), 5);
    // Nor can others use it who have no user to ask.
    let other = RunOptions::default();
    assert_eq!(went(&trial, &other, &[&["consent", "drop", "a"]]), REFUSED);
    let same = RunOptions { session, ..RunOptions::default() };
    assert_eq!(went(&trial, &same, &[&["consent", "drop", "a"]]), YES);
}

#[test]
fn a_call_leads_to_few_questions_and_records() {
    let trial = trial(ASK);
    let yes: Vec<Result<Later, &str>> = vec![Ok(Later::None); 8];
    let user = User::new(&yes);
    assert_eq!(went(&trial, &asking(&user), &[&["consents", "drop", "100"]]), ["8"]);
    assert_eq!(user.asked().len(), 8);
    assert_eq!(decisions(&trial).iter().filter(|decision| *decision == "too_many").count(), 1);

    let trial = self::trial("[grants.courier.consent]\ndrop = { allow = ['*'] }\n");
    let options = RunOptions::default();
    // There is no consent without a record, also after a flood of other requests.
    assert_eq!(went(&trial, &options, &[&["consents", "drop", "10000"]]), ["64"]);
    assert_eq!(recorded(&trial).len(), 65);
    let flood: &[&[&str]] = &[&["consents", "pay", "10000"], &["consent", "drop", "app"]];
    assert_eq!(went(&trial, &options, flood), ["0", "ConsentRefused"]);
    let flood: &[&[&str]] = &[&["consents", "steal", "10000"], &["consent", "drop", "app"]];
    assert_eq!(went(&trial, &options, flood), ["0", "ConsentRefused"]);
}

#[test]
fn keys_are_bounded_and_shown_without_active_characters() {
    let trial = trial("[grants.courier.consent]\ndrop = { ask = ['*'] }\n");
    let user = User::new(&[Ok(Later::None), Ok(Later::None)]);
    for (bytes, wanted) in [("400", "yes"), ("401", "no"), ("10000000", "no")] {
        assert_eq!(went(&trial, &asking(&user), &[&["long-consent", "drop", bytes]]), [wanted]);
        assert!(recorded(&trial)[0].1.len() <= 400);
    }
    assert_eq!(decisions(&trial), ["invalid_key"]);
    assert_eq!(
        went(&trial, &asking(&user), &[&["long-consent", &"x".repeat(5_000_000), "9"]]),
        ["no"]
    );
    assert!(recorded(&trial)[0].0.len() <= 100);
    let key = "a\u{202e}b\n\u{1b}[31m\" (Does nothing)";
    assert_eq!(went(&trial, &asking(&user), &[&["consent", "drop", key]]), YES);
    let asked = user.asked().pop().unwrap();
    assert_eq!(
        asked,
        "courier: drop \"a⟨U+202E⟩b⟨U+000A⟩⟨U+001B⟩[31m\" (Does nothing)\" (Drops something)"
    );
    assert_eq!(recorded(&trial)[0].1, "a⟨U+202E⟩b⟨U+000A⟩⟨U+001B⟩[31m\" (Does nothing)");
}

/// Runs SQL by the command.
fn run(place: &Place, sql: &str) -> Ended {
    let args = json!({"path": "shop.db", "sql": sql}).to_string();
    place.run(&["call", "sqlite.execute_sql", &args])
}

fn shop(settings: &str) -> Place {
    let place = Place::new();
    let create = "CREATE TABLE items (a); INSERT INTO items VALUES (1), (2); CREATE TABLE tmp (a); \
                  CREATE TABLE log (a); CREATE TRIGGER t AFTER INSERT ON log BEGIN DELETE FROM items; END";
    let args = json!({"path": "shop.db", "sql": create, "create": true});
    assert_eq!(place.run(&["call", "sqlite.execute_sql", &args.to_string()]).status, 0);
    if !settings.is_empty() {
        configure(&place, settings);
    }
    place
}

#[test]
fn a_table_is_dropped_or_emptied_with_consent_only() {
    let place = shop("[grants.sqlite.consent]\ndrop = { allow = ['shop.db: tmp'] }\n");
    let before = std::fs::read(place.workspace().join("shop.db")).unwrap();
    for sql in [
        "DROP TABLE items",
        "DELETE FROM items",
        "DELETE FROM items WHERE a > 0",
        "DELETE FROM items WHERE a = 1; DELETE FROM items WHERE a = 2",
        "INSERT INTO log VALUES (1)",
        "DROP TABLE tmp; DROP TABLE items",
        "BEGIN; DROP TABLE items; COMMIT",
        "/* SELECT */ dRoP tAbLe IF EXISTS main.\"items\"",
    ] {
        let ended = run(&place, sql);
        assert!(ended.stdout.contains("ConsentRefused"), "{sql}: {ended:?}");
        assert!(ended.stdout.contains("[grants.sqlite.consent.drop]"), "{sql}: {ended:?}");
        assert!(std::fs::read(place.workspace().join("shop.db")).unwrap() == before, "{sql}");
    }
    for sql in ["DELETE FROM items WHERE a = 1", "DELETE FROM tmp", "DROP TABLE tmp", "VACUUM"] {
        let ended = run(&place, sql);
        assert_eq!(ended.status, 0, "{sql}: {ended:?}");
    }
    // A built-in plugin without rules has no consent at all.
    let ended = run(&shop(""), "DROP TABLE tmp");
    assert!(ended.stdout.contains("shop.db: tmp"), "{ended:?}");
}

#[test]
fn a_dry_run_decides_by_the_same_rules() {
    let place = shop("[grants.sqlite.consent]\ndrop = { allow = ['* tmp'], ask = ['*'] }\n");
    let before = std::fs::read(place.workspace().join("shop.db")).unwrap();
    let envelope = |sql: &str| {
        json!({"actions": [{"type": "sqlite.execute_sql", "path": "shop.db", "sql": sql}]})
            .to_string()
    };
    let dry = place.run_with(&["run", "--dry-run", "-"], &envelope("DROP TABLE tmp"));
    assert_eq!(dry.status, 0, "{dry:?}");
    let dry = place.run_with(&["run", "--dry-run", "-"], &envelope("DROP TABLE items"));
    assert!(dry.status == 3 && dry.stdout.contains("no user can be asked here"), "{dry:?}");
    assert!(std::fs::read(place.workspace().join("shop.db")).unwrap() == before);
}

#[test]
fn classes_are_shown_to_users() {
    let place = shop("[grants.sqlite.consent]\ndrop = { allow = ['a'], ask = ['b*'] }\n");
    let explained = place.run(&["policy", "explain", "sqlite"]).json();
    let capabilities = explained["capabilities"].as_array().unwrap();
    let class = capabilities.iter().find(|each| each["capability"] == "consent=drop").unwrap();
    assert_eq!(class["granted"], true);
    let allows = class["allows"].as_str().unwrap();
    assert!(allows.contains("Drops or empties a table of a database"), "{allows}");
    let why = class["why"].as_str().unwrap();
    assert!(why.contains("allow = [\"a\"]") && why.contains("ask = [\"b*\"]"), "{why}");
    // The other capabilities of a built-in plugin stay.
    assert!(
        capabilities
            .iter()
            .any(|each| each["capability"] == "files=write" && each["granted"] == true)
    );
    let inspected = place.run(&["plugin", "inspect", "sqlite"]).json();
    assert!(inspected["asks_for"].to_string().contains("Drops or empties a table"), "{inspected}");

    let place = Place::new();
    let granted = place.run(&["policy", "grant", "sqlite", "consent=drop"]);
    assert_eq!(granted.status, 0, "{granted:?}");
    let settings = place.home().join(".config/cofferdam/cofferdam.toml");
    let text = std::fs::read_to_string(settings).unwrap();
    assert!(text.contains("drop = { ask = [\"*\"] }"), "{text}");
}

#[test]
fn invalid_rules_are_refused() {
    for (rules, wanted) in [
        (
            "[grants.courier.consent]\nDrop = { allow = ['*'] }\n",
            "grants.courier.consent.Drop: a class has",
        ),
        (
            "[grants.courier.consent]\ndrop = { allow = [''] }\n",
            "grants.courier.consent.drop: the pattern",
        ),
        ("[grants.courier.consent]\ndrop = { deny = ['*'] }\n", "unknown field `deny`"),
    ] {
        let place = Place::new();
        configure(&place, rules);
        let ended = place.run(&["policy", "show"]);
        assert!(ended.status != 0 && ended.stderr.contains(wanted), "{rules}: {ended:?}");
    }
}

/// A refusal that ends in an error tells the caller what a person can do.
#[test]
fn the_caller_is_told_what_would_allow_it() {
    let place = shop("");
    let ended = run(&place, "DROP TABLE items");
    let error = &ended.json()["error"];
    assert_eq!(error["code"], "ConsentRefused");
    let message = error["message"].as_str().unwrap();
    assert_eq!(
        message,
        "there is no consent for drop 'shop.db: items'; 'sqlite' was refused consent for drop \
         \"shop.db: items\" (Drops or empties a table of a database): a person can allow it, or choose to \
         be asked, by patterns under [grants.sqlite.consent.drop] in cofferdam.toml"
    );
}
