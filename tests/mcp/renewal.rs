//! A server whose settings and plugins change while it runs: notifications, new results, and
//! attacks by a workspace.

use std::fs;
use std::io::BufRead as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::sleep;
use std::time::{Duration, Instant};

use cofferdam_core::outcome::Outcome;
use cofferdam_engine::host::{Config, Host, OpenError, RunOptions};
use cofferdam_plugin::registry::Plugin as Taken;
use serde_json::{Value, json};
use tokio::runtime::Builder;

use super::client::{Client, Connection, Era, Sdk};
use super::http::{call, list, result};
use super::server::{Request, SERVE, Server};
use super::{TIMEOUT, ends};
use crate::hostile::component::{Component, Packed, manifest};
use crate::install::Plugin;
use crate::support::{Place, guest};
use crate::trial::configure;

const TOOL: &str = "conformance__until";

/// A plugin with the guest's name, whose tool `until` returns this text at once.
fn stand_in(text: &str) -> Vec<u8> {
    let answer = json!({ "text": text }).to_string();
    let escaped = answer.replace('"', "\\22");
    let component =
        Component::new(&format!("(call $answer (i32.const 1024) (i32.const {}))", answer.len()))
            .module(&format!("(data (i32.const 1024) \"{escaped}\")"));
    let mut manifest = manifest();
    manifest["name"] = json!("conformance");
    manifest["requests"] = json!({});
    manifest["tools"][0]["name"] = json!("until");
    fs::read(Packed::new(&component.build(), &manifest).path).unwrap()
}

/// Replaces a file atomically.
fn put(path: &Path, bytes: &[u8]) {
    let beside = path.with_extension("new");
    fs::write(&beside, bytes).unwrap();
    fs::rename(beside, path).unwrap();
}

/// A server with the guest in a file that can be replaced.
fn serve(place: &Place) -> (Server, PathBuf) {
    let file = place.home_file("guest.wasm");
    fs::copy(guest("conformance"), &file).unwrap();
    configure(place, "[grants.conformance]\nfiles = 'read'\n[limits]\ncall-ms = 600000\n");
    let mut command = place.command(SERVE);
    (Server::started(command.args(["--plugin", file.to_str().unwrap()])), file)
}

fn text(body: &str) -> Value {
    result(body)["structuredContent"]["text"].take()
}

/// Polls until the condition holds.
fn wait_for(what: &str, done: impl Fn() -> bool) {
    let begin = Instant::now();
    while !done() {
        assert!(begin.elapsed() < TIMEOUT, "{what}");
        sleep(Duration::from_millis(50));
    }
}

/// Subscribes as a client of revision 2026-07-28; returns the stream after the server has
/// confirmed.
fn listen(server: &Server, path: &str) -> impl Iterator<Item = String> + use<> {
    let filter = json!({"notifications": {"toolsListChanged": true, "promptsListChanged": true}});
    let stream = server.send(&Request::post(path, "subscriptions/listen", &filter));
    let mut lines = stream.lines().map(Result::unwrap).filter(|line| line.contains("jsonrpc"));
    let agreed = lines.next().unwrap();
    assert!(agreed.contains("notifications/subscriptions/acknowledged"), "{agreed}");
    assert!(
        agreed.contains("toolsListChanged") && agreed.contains("promptsListChanged"),
        "{agreed}"
    );
    lines
}

#[test]
fn a_call_keeps_the_plugin_that_it_started_with() {
    let place = Place::new();
    let (server, file) = serve(&place);
    let mut changes = listen(&server, "/mcp");
    let mut old = server.send(&call("/mcp", TOOL, &json!({"file": "go.txt"}))).lines();
    let begun = old.by_ref().map(Result::unwrap).find(|line| line.contains("progress"));
    assert!(begun.is_some());
    put(&file, &stand_in("the second"));
    let heard = changes.next().unwrap();
    assert!(heard.contains("notifications/tools/list_changed"), "{heard}");
    // The tool has another schema now, so these arguments are refused.
    let (_, _, body) = server.ask(&call("/mcp", TOOL, &json!({})));
    assert_eq!(text(&body), "the second", "{body}");
    put(&file, &stand_in("the third"));
    wait_for("the third plugin is there", || {
        text(&server.ask(&call("/mcp", TOOL, &json!({}))).2) == "the third"
    });
    place.write("go.txt", "");
    let answer = old.map(Result::unwrap).find(|line| line.contains("structuredContent")).unwrap();
    assert!(answer.contains("The guest that waited."), "{answer}");
    let events: Vec<Value> = ends(&place.workspace())
        .into_iter()
        .filter(|line| line["event"] == "host_renewed")
        .collect();
    assert_eq!(events.len(), 2);
    assert_eq!(events[0]["reason"], "conformance changed");
}

/// A change that can't be used is logged and has no effect.
#[test]
fn a_server_keeps_its_state_if_the_new_one_is_invalid() {
    let place = Place::new();
    let (server, file) = serve(&place);
    let works = || text(&server.ask(&call("/mcp", TOOL, &json!({}))).2);
    put(&file, &stand_in("the first"));
    wait_for("the plugin is there", || works() == "the first");
    put(&file, b"no plugin");
    server.says("the server goes on as it was");
    // A loaded plugin does not need its file.
    assert_eq!(works(), "the first");
    fs::remove_file(&file).unwrap();
    server.says("guest.wasm: No such file");
    put(&file, &stand_in("the second"));
    wait_for("the plugin is there again", || works() == "the second");
    configure(&place, "limits = 'none'\n");
    server.says("line 1");
    assert_eq!(works(), "the second");
    // Settings can also remove tools.
    configure(&place, "[roles.reader]\ntools = []\n");
    wait_for("the role is empty", || {
        result(&server.ask(&list("/mcp/reader")).2)["tools"] == json!([])
    });
    assert_eq!(works(), "the second");
}

#[test]
fn roles_come_and_go_with_the_settings() {
    let place = Place::new();
    let (server, _) = serve(&place);
    assert_eq!(server.ask(&list("/mcp/lister")).0, 404);
    configure(&place, "[roles.lister]\ntools = ['files.glob']\n");
    wait_for("the role is there", || server.ask(&list("/mcp/lister")).0 == 200);
    let mut changes = listen(&server, "/mcp/lister");
    configure(&place, "[roles.lister]\ntools = ['files.glob', 'files.read_file']\n");
    assert!(changes.next().unwrap().contains("notifications/tools/list_changed"));
    assert_eq!(result(&server.ask(&list("/mcp/lister")).2)["tools"].as_array().unwrap().len(), 2);
    configure(&place, "");
    assert!(changes.next().unwrap().contains("notifications/tools/list_changed"));
    wait_for("the role is gone", || server.ask(&list("/mcp/lister")).0 == 404);
    // A server whose own role was removed keeps it.
    configure(&place, "[roles.lister]\ntools = ['files.glob']\n");
    let mut command = place.command(SERVE);
    let of_role = Server::started(command.args(["--role", "lister"]));
    configure(&place, "");
    of_role.says("the server goes on as it was");
    assert_eq!(of_role.ask(&list("/mcp")).0, 200);
}

/// An agent can change files of the workspace, and a server ignores these changes.
#[test]
fn files_in_the_workspace_do_not_change_grants() {
    let place = Place::new();
    place.write("tools/guest.wasm", stand_in("the first"));
    place.write("cofferdam.toml", "[roles.lister]\ntools = ['files.glob']\n");
    let trusting = ["--plugin", "tools/guest.wasm", "--trust-workspace"];
    let server = Server::started(place.command(SERVE).args(trusting));
    let works = || text(&server.ask(&call("/mcp", TOOL, &json!({}))).2);
    assert_eq!(works(), "the first");
    put(&place.workspace().join("tools/guest.wasm"), &stand_in("an agent's"));
    server.says("is in the workspace, and was changed since");
    assert_eq!(works(), "the first");
    place.write("tools/guest.wasm", stand_in("the first"));
    place.write("cofferdam.toml", "[roles.lister]\ntools = ['files.*']\n");
    server.says("was changed since the server was started with --trust-workspace");
    let tools = result(&server.ask(&list("/mcp/lister")).2)["tools"].take();
    assert_eq!(tools.as_array().unwrap().len(), 1);
    // Without --trust-workspace, the workspace's settings are used as the user accepted them.
    let plain = Server::started(&mut place.command(SERVE));
    place.write("cofferdam.toml", "[roles.lister]\ntools = ['files.glob']\n");
    plain.says("does not count: nobody has accepted it");
    assert_eq!(plain.ask(&list("/mcp/lister")).0, 404);
    assert_eq!(place.run(&["policy", "accept"]).status, 0);
    wait_for("the role is there", || plain.ask(&list("/mcp/lister")).0 == 200);
    place.write("cofferdam.toml", "[roles.lister]\ntools = ['files.*']\n");
    plain.says("has changed since it was accepted");
    let tools = result(&plain.ask(&list("/mcp/lister")).2)["tools"].take();
    assert_eq!(tools.as_array().unwrap().len(), 1);
}

/// A user installs, updates and removes plugins; the official clients are notified, over each
/// transport, with each era of the protocol.
#[test]
fn clients_are_notified_of_installed_updated_and_removed_plugins() {
    let place = Place::new();
    let server = Server::new(&place, &[]);
    let mut clients = Vec::new();
    for sdk in [Sdk::Python, Sdk::TypeScript] {
        for era in [Era::Sessions, Era::Stateless] {
            for url in [None, Some(server.url("/mcp"))] {
                let (elicitation, listens, options, token) = (false, true, &[][..], None);
                let connection = Connection {
                    sdk,
                    era,
                    elicitation,
                    listens,
                    tasks: false,
                    options,
                    url,
                    token,
                };
                let (mut client, _) = Client::connect(&place, &connection).unwrap();
                assert_eq!(tools_of_lines(&mut client), [""; 0], "{sdk:?} {era:?}");
                clients.push(client);
            }
        }
    }
    let hear = |clients: &mut Vec<Client>, tools: &[&str]| {
        for client in clients {
            // Some clients are notified twice of one change, by two mechanisms.
            client.get(json!({"do": "change"}));
            while tools_of_lines(client) != tools {
                client.get(json!({"do": "change"}));
            }
        }
    };
    let file = place.beside("lines.wasm", &Plugin::new("lines"));
    place.works(&["plugin", "install", file.to_str().unwrap()]);
    hear(&mut clients, &["go"]);
    for client in &mut clients {
        assert_eq!(client.call("lines__go", json!({}))["structuredContent"], json!({}));
    }
    let newer = Plugin::new("lines").version("0.2.0").tool("more", "goes on");
    place.beside("lines.wasm", &newer);
    place.works(&["plugin", "update", "lines"]);
    hear(&mut clients, &["go", "more"]);
    for client in &mut clients {
        assert_eq!(client.call("lines__more", json!({}))["structuredContent"], json!({}));
    }
    place.works(&["plugin", "remove", "lines"]);
    hear(&mut clients, &[]);
    for client in &mut clients {
        let request = json!({"do": "call", "tool": "lines__go", "arguments": {}});
        let error = client.ask(&request).unwrap_err();
        assert_eq!(error["code"], -32602, "{error}");
    }
}

fn tools_of_lines(client: &mut Client) -> Vec<String> {
    let page = client.get(json!({"do": "tools"}));
    let tools = page["tools"].as_array().unwrap().iter();
    let names = tools.map(|tool| tool["name"].as_str().unwrap().to_owned());
    names.filter(|name| ["go", "more"].contains(&name.as_str())).collect()
}

/// The plugins of an old host are dropped with it; what all hosts share stays.
#[test]
fn replaced_hosts_release_their_memory() {
    let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let _timers = runtime.enter();
    let place = Place::new();
    let file = place.home_file("guest.wasm");
    let config = || Config {
        plugins: vec![file.clone()],
        workers: Some(2),
        ..Config::new(place.workspace())
    };
    let answer = |host: &Host| {
        let options = RunOptions::default();
        let (answer, _) = runtime.block_on(host.call("conformance.until", "{}", &options)).unwrap();
        match answer.outcome {
            Outcome::Executed(answer) => answer["text"].as_str().unwrap().to_owned(),
            Outcome::Failed(failure) => failure.code.to_string(),
        }
    };
    put(&file, &stand_in("0"));
    let mut host = Host::open(config()).unwrap();
    for number in 1..=50 {
        assert_eq!(answer(&host), (number - 1).to_string());
        put(&file, &stand_in(&number.to_string()));
        let new = host.renewed(config()).unwrap();
        let taken: Vec<_> = host.registry().plugins().iter().map(Arc::downgrade).collect();
        assert!(taken.iter().all(|plugin: &std::sync::Weak<Taken>| plugin.upgrade().is_some()));
        host = new;
        assert!(taken.iter().all(|plugin| plugin.upgrade().is_none()));
    }
    assert_eq!(host.stats().tools[0].calls, 50);
    // A file that is not the installed one is not run.
    put(&file, &stand_in("unseen"));
    assert_eq!(answer(&host), "PluginChanged");
    fs::copy(&file, place.workspace().join("inside.wasm")).unwrap();
    let inside = Config { plugins: vec![place.workspace().join("inside.wasm")], ..config() };
    assert!(matches!(host.renewed(inside), Err(OpenError::InWorkspace(_))));
}
