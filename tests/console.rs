//! `cofferdam console`: who may use the page, what its forms do, and what it shows.

mod app;
mod browser;
mod subsets;

use std::cell::RefCell;
use std::fmt::Write as _;
use std::io::{BufRead as _, BufReader};
use std::net::SocketAddr;
use std::process::Child;

use serde_json::{Value, json};

use crate::mcp::server::Request;
use crate::mcp::stdio::Session;
use crate::mcp::{ASKING, plugin};
use crate::support::{Place, wait_until};
use crate::trial::configure;

/// A console that runs, and the browser that has opened it.
struct Console {
    child: Child,
    /// The address that it has printed.
    url: String,
    address: SocketAddr,
    /// The path that its pages are below.
    base: String,
    cookie: String,
    /// The token of the last form that was seen.
    csrf: RefCell<String>,
}

impl Console {
    /// Starts it; its address is not opened.
    fn start(place: &Place) -> Self {
        let mut child = place.command(&["console", "--no-open"]).spawn().unwrap();
        let mut url = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut url).unwrap();
        let url = url.trim_end().to_owned();
        let rest = url.strip_prefix("http://").unwrap_or_else(|| panic!("{url:?}"));
        let (address, path) = rest.split_once('/').unwrap();
        let (base, _) = path.split_once('?').unwrap();
        let (address, base) = (address.parse().unwrap(), format!("/{base}"));
        Self { child, url, address, base, cookie: String::new(), csrf: RefCell::default() }
    }

    fn open(place: &Place) -> Self {
        let mut console = Self::start(place);
        let (status, head, _) = console.enter();
        assert_eq!(status, 200, "{head}");
        let cookie = head.lines().find_map(|line| line.strip_prefix("set-cookie: ")).unwrap();
        console.cookie = cookie.split(';').next().unwrap().to_owned();
        console
    }

    fn enter(&self) -> (u16, String, String) {
        let path = self.url.strip_prefix(&format!("http://{}", self.address)).unwrap();
        self.request(path).ask(self.address)
    }

    fn request(&self, path: &str) -> Request {
        Request::get(path).with("Host", &self.address.to_string())
    }

    /// A request for a page, as the browser makes it.
    fn page(&self, page: &str) -> Request {
        self.request(&format!("{}{page}", self.base)).with("Cookie", &self.cookie)
    }

    fn get(&self, page: &str) -> String {
        let (status, _, body) = self.page(page).ask(self.address);
        assert_eq!(status, 200, "{page}: {body}");
        if let Some(csrf) = values(&body, "csrf").first() {
            self.csrf.replace((*csrf).to_owned());
        }
        body
    }

    /// A form, as the browser sends it.
    fn form(&self, action: &str, fields: &[(&str, &str)]) -> Request {
        let mut body = format!("csrf={}", self.csrf.borrow());
        for (name, value) in fields {
            let _ = write!(body, "&{name}={}", encoded(value));
        }
        self.page(action)
            .by("POST")
            .with("Origin", &format!("http://{}", self.address))
            .with("Content-Type", "application/x-www-form-urlencoded")
            .with_body(&body)
    }

    /// Sends a form; returns the status and what the next page says.
    fn send(&self, action: &str, fields: &[(&str, &str)]) -> (u16, String) {
        let (status, head, body) = self.form(action, fields).ask(self.address);
        match head.lines().find_map(|line| line.strip_prefix("location: ")) {
            Some(next) => (status, self.get(next)),
            None => (status, body),
        }
    }
}

impl Drop for Console {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Encodes a value of a form.
fn encoded(value: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric();
    let encode =
        |byte: u8| if plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") };
    value.bytes().map(encode).collect()
}

/// The values of the fields of this name.
fn values<'a>(page: &'a str, name: &str) -> Vec<&'a str> {
    let start = format!("name=\"{name}\" value=\"");
    page.split(&start).skip(1).map(|rest| rest.split('"').next().unwrap()).collect()
}

fn value_of<'a>(page: &'a str, name: &str) -> &'a str {
    values(page, name).first().unwrap_or_else(|| panic!("{name}: {page}"))
}

/// Holds what these calls of a session change.
fn hold(place: &Place, session: &str, files: &[(&str, &str)]) {
    let write = |(path, content): &(&str, &str)| json!({"type": "write_file", "path": path, "content": content});
    let envelope = json!({ "actions": files.iter().map(write).collect::<Vec<Value>>() });
    let ended = place.run_with(&["run", "--hold", "--session", session], &envelope.to_string());
    assert_eq!(ended.status, 0, "{} {}", ended.stdout, ended.stderr);
}

/// The id of the only proposal.
fn proposal(place: &Place) -> String {
    let listed = place.run(&["review"]).json();
    listed["proposals"][0]["id"].as_str().unwrap_or_else(|| panic!("{listed}")).to_owned()
}

/// A file of 40 lines in which every tenth line was changed.
fn numbered(word: &str) -> String {
    let line =
        |at: usize| if at % 10 == 5 { format!("{word} {at}\n") } else { format!("line {at}\n") };
    (0..40).map(line).collect()
}

#[test]
fn only_the_browser_that_opened_the_address_is_answered() {
    let place = Place::new();
    hold(&place, "task", &[("a", "a\n")]);
    let console = Console::open(&place);
    console.get(&format!("proposal?id={}", proposal(&place)));
    // The address is of no use afterwards.
    let (status, head, body) = console.enter();
    assert_eq!((status, head.contains("set-cookie")), (403, false), "{body}");
    let inbox = console.page("inbox");
    let ask = |request: Request| request.ask(console.address);
    assert_eq!(ask(console.page("inbox")).0, 200);
    for foreign in ["", "cofferdam-console=", "cofferdam-console=0", "other=1"] {
        let (status, _, body) = ask(console.page("inbox").with("Cookie", foreign));
        assert_eq!((status, body.contains("<html")), (403, false), "{foreign}: {body}");
    }
    for file in ["console.css", "console.js", "events", "nothing"] {
        assert_eq!(ask(console.page(file).without("Cookie")).0, 403, "{file}");
    }
    // DNS rebinding.
    let port = console.address.port();
    for host in ["evil.example", "localhost", &format!("evil.example:{port}"), "127.0.0.1"] {
        assert_eq!(ask(console.page("inbox").with("Host", host)).0, 421, "{host}");
    }
    assert_eq!(ask(console.page("inbox").and("Host", "evil.example")).0, 421);
    // Another page of this machine, and one without an origin.
    for origin in ["http://evil.example", "null", "http://127.0.0.1:1"] {
        assert_eq!(ask(console.page("inbox").with("Origin", origin)).0, 403, "{origin}");
        assert_eq!(ask(console.form("undo", &[]).with("Origin", origin)).0, 403, "{origin}");
    }
    assert_eq!(ask(console.form("undo", &[]).without("Origin")).0, 403);
    for csrf in ["", "csrf=", "csrf=0"] {
        assert_eq!(ask(console.form("undo", &[]).with_body(csrf)).0, 403, "{csrf}");
    }
    let (status, head, _) = ask(inbox);
    assert_eq!(status, 200);
    for wanted in [
        "content-security-policy: default-src 'none'",
        "frame-ancestors 'none'",
        "x-content-type-options: nosniff",
        "referrer-policy: same-origin",
        "cache-control: no-store",
    ] {
        assert!(head.contains(wanted), "{wanted}: {head}");
    }
    assert!(!head.contains("unsafe") && !head.contains("access-control"), "{head}");
    // Other machines can't connect, and the body of a form is bounded.
    assert!(console.address.ip().is_loopback());
    let large = console.form("undo", &[]).with_body(&"x".repeat(5 << 20));
    assert!(large.try_ask(console.address).is_none_or(|(status, ..)| status == 413));
}

/// The same changes, held in two workspaces: one is decided about on the page, the other one by the command.
struct Both {
    places: [Place; 2],
    console: Console,
    /// The proposal in each of them.
    ids: [String; 2],
}

impl Both {
    fn new() -> Self {
        let places = [Place::new(), Place::new()];
        let new = numbered("new");
        for place in &places {
            for file in ["a", "b", "c"] {
                place.write(file, numbered("old"));
            }
            place.write("crlf", "one\r\ntwo\r\n");
            let crlf = ("crlf", "one\r\n2\r\n");
            hold(place, "task", &[("a", &new), ("b", &new), ("c", &new), ("sub/d", "d\n"), crlf]);
        }
        let console = Console::open(&places[0]);
        let ids = [proposal(&places[0]), proposal(&places[1])];
        Self { places, console, ids }
    }

    fn page(&self) -> String {
        self.console.get(&format!("proposal?id={}", self.ids[0]))
    }

    /// Decides on the page, and returns the next one.
    fn decide(&self, fields: &[(&str, &str)]) -> String {
        let page = self.page();
        let seen = [("id", self.ids[0].as_str()), ("view", value_of(&page, "view"))];
        let (status, page) = self.console.send("decide", &[&seen, fields].concat());
        assert_eq!(status, 303, "{page}");
        page
    }

    /// Decides by the command.
    fn command(&self, verdict: &str, options: &[&str]) {
        let ended = self.places[1].run(&[&["review", verdict, &self.ids[1]], options].concat());
        assert_eq!(ended.status, 0, "{}", ended.stderr);
    }

    /// Accepts the first hunk of a file with other lines. A text field returns them with carriage returns.
    fn edit(&self, path: &str, (from, to): (&str, &str)) {
        let page = self.page();
        let heading = format!("<bdi>{path}</bdi></h2>");
        let of_file = page.split("<section class=\"file\"").find(|part| part.contains(&heading));
        let hunk = values(of_file.unwrap(), "hunk")[0];
        let view = value_of(&page, "view");
        let page = self.console.get(&format!("edit?id={}&hunk={hunk}&view={view}", self.ids[0]));
        let text =
            page.split_once("wrap=\"off\">\n").unwrap().1.split("</textarea>").next().unwrap();
        let edited = text.replace(from, to);
        assert_ne!(edited, text);
        self.decide(&[("do", "edit"), ("hunk", hunk), ("text", &edited.replace('\n', "\r\n"))]);
        let lines = if path == "crlf" { edited.replace('\n', "\r\n") } else { edited };
        let file = self.places[1].home_file("edited");
        std::fs::write(&file, lines).unwrap();
        self.command("accept", &["--edit", &format!("{hunk}={}", file.display())]);
    }
}

#[test]
fn decisions_on_the_page_leave_the_bytes_of_the_command() {
    let both = Both::new();
    let [by_page, by_command] = &both.places;
    assert!(both.console.get("inbox").contains("changes of the session"));
    // Ids of hunks are digests, so they are the same in both places.
    let page = both.page();
    let hunks = values(&page, "hunk");
    assert_eq!(hunks.len(), 14, "{page}");
    both.decide(&[("do", "accept-chosen"), ("hunk", hunks[0]), ("hunk", hunks[2])]);
    both.command("accept", &["--hunk", hunks[0], "--hunk", hunks[2]]);
    let said = both.decide(&[("do", "reject-chosen"), ("hunk", hunks[4]), ("comment", "keep <b>")]);
    assert!(said.contains("1 hunk rejected"), "{said}");
    both.command("reject", &["--hunk", hunks[4], "-m", "keep <b>"]);
    both.decide(&[("do", "marked"), ("accept", hunks[5]), ("reject", hunks[6])]);
    both.command("accept", &["--hunk", hunks[5]]);
    both.command("reject", &["--hunk", hunks[6]]);
    both.decide(&[("accept-one", hunks[1])]);
    both.command("accept", &["--hunk", hunks[1]]);
    both.edit("c", ("new 5", "newer 5\n+and 6"));
    both.edit("crlf", ("+2", "+two\n+2"));
    let said = both.decide(&[("do", "accept-all")]);
    assert!(said.contains("nothing is left of the proposal"), "{said}");
    let shown = by_command.run(&["review", "show", &both.ids[1]]).json();
    both.command("accept", &["--view", shown["view"].as_str().unwrap()]);
    for file in ["a", "b", "c", "sub/d", "crlf"] {
        assert_eq!(by_page.read(file), by_command.read(file), "{file}");
    }
    assert!(by_page.read("c").contains("newer 5\nand 6\n"), "{}", by_page.read("c"));
    assert_eq!(by_page.read("crlf"), "one\r\ntwo\r\n2\r\n");
    let log = by_page.run(&["log", "--format", "text", "--limit", "100"]).stdout;
    assert!(log.contains("by console") && log.contains("comment keep <b>"), "{log}");
    let read = r#"{"actions": [{"type": "read_file", "path": "a"}]}"#;
    let told = by_page.run_with(&["run", "--session", "task"], read);
    assert!(told.stdout.contains("keep <b>"), "{}", told.stdout);
}

#[test]
fn a_stale_view_is_refused_with_the_new_one() {
    let place = Place::new();
    place.write("a", numbered("old"));
    hold(&place, "task", &[("a", &numbered("new"))]);
    let console = Console::open(&place);
    let id = proposal(&place);
    let page = console.get(&format!("proposal?id={id}"));
    let (view, hunk) = (value_of(&page, "view").to_owned(), value_of(&page, "hunk").to_owned());
    hold(&place, "task", &[("b", "b\n")]);
    for fields in [
        &[("do", "accept-all")][..],
        &[("do", "reject-all")],
        // Also of a hunk that is still there.
        &[("do", "accept-chosen"), ("hunk", &hunk)],
        &[("accept-one", &hunk)],
        &[("accept-file", "a")],
        &[("do", "edit"), ("hunk", &hunk), ("text", "x")],
    ] {
        let seen = [("id", id.as_str()), ("view", view.as_str()), ("comment", "my words")];
        let (status, body) = console.send("decide", &[&seen, fields].concat());
        assert_eq!(status, 409, "{fields:?}: {body}");
        assert!(body.contains("has changed since") && body.contains("my words"), "{body}");
        assert_ne!(value_of(&body, "view"), view);
        let nothing = console.send("decide", &[&[("id", id.as_str())], fields].concat());
        assert_eq!(nothing.0, 409, "{}", nothing.1);
    }
    assert_eq!(place.read("a"), numbered("old"));
    // The workspace has moved on as well.
    place.write("a", numbered("other"));
    let page = console.get(&format!("proposal?id={id}"));
    assert!(page.contains("COLLIDES"), "{page}");
    let seen = [("id", id.as_str()), ("view", value_of(&page, "view")), ("do", "accept-all")];
    let (status, body) = console.send("decide", &seen);
    assert_eq!(status, 409);
    assert!(body.contains("other changes in the same place"), "{body}");
    assert!(!place.workspace().join("b").exists());
}

#[test]
fn files_are_marked_as_reviewed() {
    let place = Place::new();
    place.write("a", numbered("old"));
    hold(&place, "task", &[("a", &numbered("new")), ("b", "b\n")]);
    let id = proposal(&place);
    let address = format!("proposal?id={id}");
    let console = Console::open(&place);
    let page = console.get(&address);
    assert!(page.contains("0 of 2 files reviewed"), "{page}");
    let view = value_of(&page, "view").to_owned();
    let mark = |name: &str, path: &str| {
        console.send("mark", &[("id", id.as_str()), ("view", view.as_str()), (name, path)])
    };
    let (status, page) = mark("reviewed", "a");
    assert_eq!(status, 303, "{page}");
    assert!(page.contains("1 of 2 files reviewed") && page.contains("Not reviewed"), "{page}");
    assert_eq!(page.matches("<details open>").count(), 1, "{page}");
    mark("reviewed", "b");
    assert!(console.get("inbox").contains("2 of 2 files reviewed"));
    mark("unreviewed", "b");
    // In another process, and after a restart.
    let listed = place.run(&["review"]).json();
    assert_eq!(listed["proposals"][0]["reviewed"], json!(["a"]), "{listed}");
    let text = place.run(&["review", "--format", "text"]).stdout;
    assert!(text.contains("1 of 2 files reviewed"), "{text}");
    let shown = place.run(&["review", "show", &id]).json();
    assert_eq!(shown["files"][0]["reviewed"], true, "{shown}");
    assert_eq!(shown["files"][1]["reviewed"], false, "{shown}");
    let text = place.run(&["review", "show", &id, "--format", "text"]).stdout;
    assert!(text.contains("changed a  reviewed\n") && text.contains("1 of 2 files"), "{text}");
    drop(console);
    let console = Console::open(&place);
    assert!(console.get(&address).contains("1 of 2 files reviewed"));
    // Once the change is another one, it was not reviewed.
    hold(&place, "task", &[("a", &numbered("newer"))]);
    assert!(console.get(&address).contains("0 of 2 files reviewed"));
    let seen = [("id", id.as_str()), ("view", view.as_str()), ("reviewed", "a")];
    let (status, body) = console.send("mark", &seen);
    assert_eq!(status, 409, "{body}");
    assert!(body.contains("has changed since") && body.contains("0 of 2 files"), "{body}");
}

#[test]
fn several_proposals_are_decided_about_at_once() {
    let place = Place::new();
    place.write("c", "old\n");
    for (session, path) in
        [("one", "a"), ("two", "b"), ("three", "c"), ("four", "d"), ("five", "e")]
    {
        hold(&place, session, &[(path, "new\n")]);
    }
    let console = Console::open(&place);
    let inbox = console.get("inbox");
    let chosen = values(&inbox, "chosen").into_iter().map(str::to_owned).collect::<Vec<_>>();
    assert_eq!(chosen.len(), 5, "{inbox}");
    let decide = |verdict: &str, chosen: &[String]| {
        let mut fields = vec![("verdict", verdict), ("comment", "all <b>")];
        fields.extend(chosen.iter().map(|chosen| ("chosen", chosen.as_str())));
        let (status, page) = console.send("decide-all", &fields);
        assert_eq!(status, 303, "{page}");
        page
    };
    // One has another revision by now, and one collides.
    hold(&place, "two", &[("b2", "new\n")]);
    place.write("c", "theirs\n");
    let said = decide("accept", &chosen[..4]);
    assert!(said.contains("The session one: 1 hunk accepted"), "{said}");
    assert!(
        said.contains("The session two: nothing was decided: its changes are other ones"),
        "{said}"
    );
    assert!(
        said.contains("The session three: nothing was decided: the workspace has other"),
        "{said}"
    );
    assert!(said.contains("The session four: 1 hunk accepted"), "{said}");
    assert_eq!(
        (place.read("a"), place.read("c"), place.read("d")),
        ("new\n".into(), "theirs\n".into(), "new\n".into())
    );
    assert!(!place.workspace().join("b").exists() && !place.workspace().join("e").exists());
    // What was decided about, and nothing.
    assert!(
        decide("accept", &chosen[..1]).contains("nothing was decided: there is no open proposal")
    );
    assert!(decide("accept", &[]).contains("choose held changes first"));
    assert_eq!(console.send("decide-all", &[("chosen", &chosen[4])]).0, 422);
    let left = console.get("inbox");
    let left: Vec<String> = values(&left, "chosen").into_iter().map(str::to_owned).collect();
    assert_eq!(left.len(), 3);
    let said = decide("reject", &left);
    assert_eq!(said.matches("rejected; nothing is left of the proposal").count(), 3, "{said}");
    let read = r#"{"actions": [{"type": "read_file", "path": "a"}]}"#;
    let told = place.run_with(&["run", "--session", "five"], read);
    assert!(told.stdout.contains("all <b>"), "{}", told.stdout);
}

#[test]
fn what_is_held_names_the_console_that_is_open() {
    let place = Place::new();
    let write = json!({"type": "write_file", "path": "a", "content": "a\n"});
    let envelope = json!({"actions": [write]}).to_string();
    let notice = || place.run_with(&["run", "--hold", "--session", "task"], &envelope).stdout;
    assert!(notice().contains("or on `cofferdam console`"), "{}", notice());
    let console = Console::open(&place);
    let told = notice();
    let link = format!("http://{}/open?proposal={}", console.address, proposal(&place));
    assert!(told.contains(&format!("or in the open console ({link})")), "{told}");
    for secret in [console.base.trim_matches('/'), console.url.split_once("token=").unwrap().1] {
        assert!(!told.contains(secret), "{told}");
    }
    // The link is for every browser, and shows nothing of the workspace.
    let (status, head, body) = console.request(&link).ask(console.address);
    assert!(status == 200 && head.contains("frame-ancestors 'none'"), "{head}");
    assert!(body.contains("This browser has not opened the console"), "{body}");
    let (_, _, script) = console.request("/open.js").ask(console.address);
    let proposal = proposal(&place);
    for text in [&head, &body, &script] {
        assert!(
            !text.contains(console.base.trim_matches('/')) && !text.contains(&proposal),
            "{text}"
        );
    }
    // Not by another name of this machine, nor from another page.
    for (name, value) in [("Host", "evil.example"), ("Origin", "http://evil.example")] {
        let (status, ..) = console.request("/open").with(name, value).ask(console.address);
        assert!(status == 421 || status == 403, "{name}: {status}");
    }
    drop(console);
    wait_until(|| notice().contains("or on `cofferdam console`"));
}

#[test]
fn large_proposals_are_shown_in_parts_that_say_what_is_left_out() {
    let place = Place::new();
    let lines = |word: &str| -> String {
        let line = |at: usize| match at % 8 {
            0 => format!("{word} {at}\n"),
            _ => format!("line {at}\n"),
        };
        (0..8 * 1_100).map(line).collect()
    };
    place.write("a", lines("old"));
    let long = format!("{}\n", "x".repeat(3_000)).repeat(2_500);
    hold(&place, "task", &[("a", &lines("new")), ("b", &long)]);
    let console = Console::open(&place);
    let first = console.get(&format!("proposal?id={}", proposal(&place)));
    assert_eq!(values(&first, "hunk").len(), 1_000);
    assert!(first.contains("Not all of its 1101 hunks are on this page."), "{}", first.len());
    let next = first.split("rel=\"next\" href=\"").nth(1).unwrap().split('"').next().unwrap();
    let second = console.get(&next.replace("&amp;", "&"));
    assert_eq!(values(&second, "hunk").len(), 101);
    assert!(!second.contains("rel=\"next\""));
    assert!(second.contains("… 952 more bytes"), "{}", &second[second.len() - 3000..]);
    assert!(
        second.contains("more lines are not shown here")
            && second.contains("cofferdam review show")
    );
    assert!(second.len() < 8 << 20, "{}", second.len());
    // The whole proposal is decided about from each part.
    let id = proposal(&place);
    let seen = [("id", id.as_str()), ("view", value_of(&second, "view")), ("do", "reject-all")];
    let (status, said) = console.send("decide", &seen);
    assert_eq!(status, 303);
    assert!(said.contains("1101 hunks rejected"), "{said}");
}

#[test]
fn hostile_content_is_inert_on_every_page() {
    let place = Place::new();
    let path = "<img src=x onerror=alert(1)>\u{202e}\u{1b}\"'.sh";
    hold(
        &place,
        "task",
        &[
            (path, "<script>alert(1)</script>\u{202e}\u{200b}\u{1b}[2J\u{feff}\n"),
            (".envrc", "export A=1\n"),
        ],
    );
    let unknown = json!({"actions": [{"type": "<script>alert(2)</script>\u{202e}"}]}).to_string();
    place.run_with(&["run"], &unknown);
    place.run(&["call", "no.such\u{202e}<script>", "{}"]);
    let console = Console::open(&place);
    let id = proposal(&place);
    let mut pages =
        vec!["inbox".to_owned(), format!("proposal?id={id}&show=side"), "journal".to_owned()];
    let page = console.get(&format!("proposal?id={id}"));
    assert!(
        page.contains("&lt;script&gt;alert(1)&lt;/script&gt;\\u{202e}\\u{200b}\\u{1b}[2J\\u{feff}"),
        "{page}"
    );
    let seen = [("id", id.as_str()), ("view", value_of(&page, "view")), ("do", "accept-all")];
    let (status, said) = console.send("decide", &seen);
    assert_eq!(status, 303, "{said}");
    let commit = place.run(&["log", "--commits"]).json()["records"][0]["commit"]
        .as_str()
        .unwrap()
        .to_owned();
    pages.extend(["history".to_owned(), format!("commit?id={commit}"), "figures".to_owned()]);
    pages.push("journal?q=%3Cscript%3Ealert%22".to_owned());
    pages.push("commit?id=%3Cscript%3E%E2%80%AE".to_owned());
    for page in &pages {
        let (_, _, body) = console.page(page).ask(console.address);
        for hostile in ["<img src=x", "<script>alert", "\u{202e}", "\u{1b}", "\u{feff}", "\u{200b}"]
        {
            assert!(!body.contains(hostile), "{page}: {hostile:?}: {body}");
        }
        assert!(!body.contains("style="), "{page}: {body}");
        assert!(body.matches("<script").count() <= 1, "{page}: {body}");
    }
}

#[test]
fn questions_of_calls_are_answered() {
    let place = Place::new();
    configure(&place, ASKING);
    let console = Console::open(&place);
    assert!(console.get("inbox").contains("No call waits for an answer"));
    assert_eq!(place.run(&["review", "answer"]).status, 2);
    let mut session = Session::begun(&place, &json!({}));
    let mut run = |id: u64, command: &str| {
        session.call(id, "shell__run_command", &json!({ "command": command }));
        wait_until(|| console.get("inbox").contains("May shell.run_command be called?"));
        let page = console.get("inbox");
        let question = value_of(&page, "question").to_owned();
        (question, page)
    };
    let (question, page) = run(1, "echo \u{202e}one >> ran");
    assert!(page.contains("echo \\u{202e}one") && page.contains("tests 0"), "{page}");
    let answer = |question: &str, answer: &str| {
        let fields = [("question", question), ("answer", answer), ("reason", "use two")];
        let (status, page) = console.send("answer", &fields);
        assert_eq!(status, 303, "{page}");
        page
    };
    assert!(answer(&question, "no").contains("has your answer"));
    // Once.
    assert!(answer(&question, "once").contains("does not wait for an answer any more"));
    let (question, _) = run(2, "echo two >> ran");
    assert!(answer("0190a0b0-0000-4000-8000-000000000000", "once").contains("does not wait"));
    answer(&question, "session");
    let texts = [session.answer(1), session.answer(2)].map(|answer| answer.to_string());
    assert!(texts[0].contains("the person said no: use two"), "{texts:?}");
    session.call(3, "shell__run_command", &json!({"command": "true"}));
    assert_eq!(session.answer(3)["result"]["isError"], false);
    assert_eq!(place.read("ran"), "two\n");
    let log = place.run(&["log"]).stdout;
    assert!(log.contains("the user of cofferdam console"), "{log}");
    // Another one of the same workspace says so.
    let other = Console::open(&place);
    assert!(other.get("inbox").contains("Another process answers the questions"));
}

/// A question of a plugin whose texts attack the page.
fn hostile_question() -> Value {
    let form = json!({
        "type": "object",
        "properties": {
            "name": {"type": "string", "title": "<b>Name", "maxLength": 10},
            "age": {"type": "integer", "default": 30},
            "sure": {"type": "boolean"},
            "color": {"type": "string", "oneOf": [{"const": "r", "title": "<i>Red"}]},
            "some": {"type": "array", "items": {"type": "string", "enum": ["a", "b"]}},
        },
        "required": ["name"],
    });
    json!({"questions": [{"message": "<script>alert(1)</script>\u{202e}", "form": form}]})
}

#[test]
fn questions_of_plugins_are_answered() {
    let place = Place::new();
    configure(&place, "[grants.conformance]\nquestions = true\n");
    let console = Console::open(&place);
    let mut session = Session::begun(&place, &json!({}));
    let mut ask = |id: u64| {
        session.call(id, "conformance__ask_user", &hostile_question());
        wait_until(|| console.get("inbox").contains("A question of the plugin"));
        let page = console.get("inbox");
        (value_of(&page, "question").to_owned(), page)
    };
    let (question, page) = ask(1);
    assert!(page.contains("The plugin 'conformance' asks you something"), "{page}");
    assert!(page.contains("&lt;script&gt;alert(1)") && !page.contains("<script>alert"), "{page}");
    assert!(page.contains("&lt;b&gt;Name") && page.contains("&lt;i&gt;Red"), "{page}");
    let send = |fields: &[(&str, &str)]| {
        let fields = [&[("question", question.as_str())], fields].concat();
        console.send("answer", &fields).1
    };
    let form = |fields: &[(&str, &str)]| send(&[&[("answer", "form")], fields].concat());
    assert!(send(&[("answer", "once")]).contains("no such answer"));
    let name = ("field-name", "Ada");
    for (fields, wanted) in [
        (vec![], "name: it is required"),
        (vec![("field-name", "Ada, Countess")], "at most 10 characters"),
        (vec![name, ("field-age", "x")], "it is a number"),
        (vec![name, ("field-color", "g")], "color: it is"),
    ] {
        let page = form(&fields);
        assert!(page.contains("Nothing was answered") && page.contains(wanted), "{wanted}: {page}");
    }
    let some = [("field-some", "a"), ("field-some", "b"), ("name", "Eve")];
    let filled = [&[name, ("field-age", "36"), ("field-sure", "yes")], &some[..]].concat();
    assert!(form(&filled).contains("has your answer"));
    let (second, _) = ask(2);
    console.send("answer", &[("question", &second), ("answer", "decline")]);
    let [one, two] = [session.answer(1), session.answer(2)].map(|answer| answer.to_string());
    let content = r#"{\"name\":\"Ada\",\"age\":36,\"sure\":true,\"some\":[\"a\",\"b\"]}"#;
    assert!(one.contains(&content.replace('"', "\\\"")) || one.contains(content), "{one}");
    assert!(two.contains("action=decline"), "{two}");
    assert!(place.run(&["log"]).stdout.contains("the user of cofferdam console"));
}

#[test]
fn calls_are_approved_by_a_pattern_for_a_time() {
    let place = Place::new();
    configure(&place, ASKING);
    let console = Console::open(&place);
    let mut session = Session::begun(&place, &json!({}));
    let run = |session: &mut Session, id: u64, command: &str| {
        session.call(id, "shell__run_command", &json!({ "command": command }));
    };
    run(&mut session, 1, "echo 'a*b' >> ran");
    wait_until(|| console.get("inbox").contains("May shell.run_command be called?"));
    let page = console.get("inbox");
    // The star of the command itself stands for a star.
    assert!(page.contains("echo 'a\\\\*b' &gt;&gt; ran"), "{page}");
    let question = value_of(&page, "question").to_owned();
    let answer = |pattern: &str, minutes: &str| {
        let fields = [
            ("question", question.as_str()),
            ("answer", "like"),
            ("pattern", pattern),
            ("minutes", minutes),
        ];
        console.send("answer", &fields).1
    };
    let pattern = json!({"command": "echo * >> ran"}).to_string();
    for (pattern, minutes, wanted) in [
        ("{", "5", "the pattern is not JSON"),
        (r#"{"command": "cat *"}"#, "5", "the pattern does not match this call"),
        (r#"{"command": "*", "more": 1}"#, "5", "the pattern does not match this call"),
        (&pattern, "0", "the time is 1 to 1440 minutes"),
        (&pattern, "soon", "the time is 1 to 1440 minutes"),
    ] {
        let page = answer(pattern, minutes);
        assert!(page.contains("Nothing was answered") && page.contains(wanted), "{page}");
    }
    assert!(answer(&pattern, "5").contains("has your answer"));
    assert_eq!(session.answer(1)["result"]["isError"], false);
    run(&mut session, 2, "echo two >> ran");
    assert_eq!(session.answer(2)["result"]["isError"], false);
    assert_eq!(place.read("ran"), "a*b\ntwo\n");
    run(&mut session, 3, "rm ran");
    wait_until(|| console.get("inbox").contains("rm ran"));
}

/// Waits until a call of this tool is shown as under way; returns its id and the page.
fn under_way(console: &Console, tool: &str) -> (String, String) {
    wait_until(|| console.get("calls").contains(&format!(" of {tool}\">Cancel<")));
    let page = console.get("calls");
    (value_of(&page, "call").to_owned(), page)
}

#[test]
fn calls_under_way_are_seen_and_cancelled() {
    let place = Place::new();
    configure(&place, ASKING);
    let console = Console::open(&place);
    let mut session = Session::begun(&place, &json!({}));
    // A short one costs no file. On a busy machine, not each of them is short.
    let calls = place.workspace().join(".cofferdam/calls");
    let costs_a_file = || {
        let _ = std::fs::remove_dir_all(&calls);
        session.call(1, "conformance__test_simple_text", &json!({}));
        session.answer(1);
        calls.exists()
    };
    assert!(!std::iter::repeat_with(costs_a_file).take(50).all(|costs| costs));
    assert!(console.get("calls").contains("No call is under way"));
    let cancel = |call: &str| {
        let (status, page) = console.send("cancel", &[("call", call)]);
        assert_eq!(status, 303, "{page}");
        page
    };
    for (id, how) in [(2, "sleep"), (3, "compute")] {
        session.call(id, "conformance__wait", &json!({ "how": how }));
        wait_until(|| console.get("calls").contains("waiting"));
        let (call, page) = under_way(&console, "conformance.wait");
        assert!(page.contains("<bdi>tests 0</bdi>") && page.contains("conformance.wait"), "{page}");
        assert!(cancel(&call).contains("The call is asked to end"));
        let answer = session.answer(id)["result"].clone();
        assert_eq!(answer["isError"], true, "{answer}");
        let wanted = "Cancelled: the user of cofferdam console has cancelled the call";
        assert!(answer.to_string().contains(wanted), "{answer}");
        assert!(cancel(&call).contains("not under way any more"));
        assert!(!console.get("calls").contains("Cancel the call"));
        let page = console.get(&format!("call?id={call}"));
        assert!(page.contains("call_cancelled") && page.contains("cofferdam console"), "{page}");
    }
    // One that waits for an answer.
    session.call(4, "shell__run_command", &json!({"command": "echo one >> ran"}));
    let (call, page) = under_way(&console, "shell.run_command");
    assert!(page.contains("waits for you or for its turn"), "{page}");
    cancel(&call);
    assert!(session.answer(4).to_string().contains("has cancelled the call"));
    assert!(console.get("inbox").contains("No call waits for an answer"));
    assert!(!place.workspace().join("ran").exists());
    let log = place.run(&["log", "--format", "text"]).stdout;
    let wanted = "call_cancelled  cancelled  shell.run_command  by the user of cofferdam console";
    assert!(log.contains(wanted), "{log}");
    assert!(console.get("calls").contains("The sessions of the latest "));
}

#[test]
fn calls_of_the_command_are_cancelled_and_those_of_killed_processes_are_not_shown() {
    let place = Place::new();
    let console = Console::open(&place);
    let start = || {
        let mut command = place.command(&["call", "conformance.wait", r#"{"how": "sleep"}"#]);
        let child = command.args(plugin()).spawn().unwrap();
        (child, under_way(&console, "conformance.wait").0)
    };
    let (child, call) = start();
    console.send("cancel", &[("call", &call)]);
    let ended = child.wait_with_output().unwrap();
    let printed =
        String::from_utf8(ended.stdout).unwrap() + &String::from_utf8(ended.stderr).unwrap();
    assert!(printed.contains("the user of cofferdam console has cancelled"), "{printed}");
    let (mut child, call) = start();
    child.kill().unwrap();
    child.wait().unwrap();
    wait_until(|| console.get("calls").contains("No call is under way"));
    let (_, page) = console.send("cancel", &[("call", &call)]);
    assert!(page.contains("not under way any more"), "{page}");
    assert_eq!(std::fs::read_dir(place.workspace().join(".cofferdam/calls")).unwrap().count(), 0);
}

#[test]
fn the_record_is_searched_and_commits_are_undone() {
    let place = Place::new();
    place.write("a", "old\n");
    let write = json!({"type": "write_file", "path": "a", "content": "new\n"});
    place.run_with(
        &["run"],
        &json!({"actions": [write, {"type": "read_file", "path": "none"}]}).to_string(),
    );
    let console = Console::open(&place);
    let journal = console.get("journal");
    assert!(
        journal.contains("files.write_file") && journal.contains("files.read_file"),
        "{journal}"
    );
    let found = console.get("journal?q=cli+WRITE_file");
    assert!(found.contains("files.write_file") && !found.contains(">files.read_file<"), "{found}");
    let failed = console.get("journal?kind=failed");
    assert!(
        !failed.contains(">files.write_file<") && failed.contains(">files.read_file<"),
        "{failed}"
    );
    assert!(console.get("journal?q=nothing-has-this").contains("Nothing is found"));
    let records = place.run(&["log"]).json()["records"].clone();
    let call = records
        .as_array()
        .unwrap()
        .iter()
        .find_map(|record| record["call"].as_str())
        .unwrap()
        .to_owned();
    let page = console.get(&format!("call?id={call}"));
    assert!(page.contains("Decisions, events and commits"), "{page}");
    let commit = place.run(&["log", "--commits"]).json()["records"][0]["commit"]
        .as_str()
        .unwrap()
        .to_owned();
    let page = console.get(&format!("commit?id={commit}"));
    assert!(page.contains("Undo this commit"), "{page}");
    // Something else has changed the file.
    place.write("a", "other\n");
    let page = console.get(&format!("commit?id={commit}"));
    assert!(page.contains("a has other content") && !page.contains("Undo this commit"), "{page}");
    let (status, body) = console.send("undo", &[("id", &commit)]);
    assert_eq!((status, place.read("a").as_str()), (409, "other\n"), "{body}");
    place.write("a", "new\n");
    let (status, body) = console.send("undo", &[("id", &commit)]);
    assert_eq!((status, place.read("a").as_str()), (303, "old\n"), "{body}");
    let figures = console.get("figures");
    assert!(
        figures.contains("<svg") && figures.contains("Calls by client, role and agent"),
        "{figures}"
    );
    let permissions = console.get("permissions");
    for wanted in ["files.write_file", "Capability", "it came with the host", "code-reviewer"] {
        assert!(permissions.contains(wanted), "{wanted}: {permissions}");
    }
}

#[test]
fn a_denied_call_says_why_and_what_would_be_allowed() {
    let place = Place::new();
    let console = Console::open(&place);
    let denied =
        place.run(&["call", "git_commit.git_commit", r#"{"message": "m", "paths": ["a"]}"#]);
    assert_eq!(denied.status, 3, "{}", denied.stdout);
    let records = place.run(&["log", "--limit", "1"]).json();
    let page = console.get(&format!("call?id={}", records["records"][0]["call"].as_str().unwrap()));
    let grant = "needs a grant that the plugin does not have. Grant it";
    for wanted in ["NotGranted", grant, "href=\"permissions#plugin-git_commit\""] {
        assert!(page.contains(wanted), "{wanted}: {page}");
    }
    let permissions = console.get("permissions");
    assert!(permissions.contains("id=\"plugin-git_commit\""), "{permissions}");
}

#[test]
fn an_undone_commit_is_made_again() {
    let place = Place::new();
    place.write("a", "old\n");
    let write = json!({"type": "write_file", "path": "a", "content": "new\n"});
    place.run_with(&["run"], &json!({ "actions": [write] }).to_string());
    let records = place.run(&["log", "--commits"]).json()["records"].clone();
    let commit = records[0]["commit"].as_str().unwrap().to_owned();
    let console = Console::open(&place);
    console.get(&format!("commit?id={commit}"));
    let (status, body) = console.send("undo", &[("id", &commit)]);
    assert_eq!((status, place.read("a").as_str()), (303, "old\n"), "{body}");
    // The undo of the undo, from the list.
    let history = console.get("history");
    assert!(history.contains("undone") && history.contains("Redo the commit"), "{history}");
    assert!(console.get(&format!("commit?id={commit}")).contains("Redo this commit"));
    let undo = value_of(&history, "id").to_owned();
    let (status, body) = console.send("undo", &[("id", &undo)]);
    assert_eq!((status, place.read("a").as_str()), (303, "new\n"), "{body}");
    assert!(body.contains(&format!("The commit {} is made again", &commit[..13])), "{body}");
    let history = console.get("history");
    let page = console.get(&format!("commit?id={commit}"));
    assert!(page.contains("Undo this commit"), "{page}");
    // The commit and the undo of its undo stand; only the undo is undone.
    assert_eq!(history.matches("Redo the commit").count(), 1, "{history}");
    place.write("a", "other\n");
    let (status, body) = console.send("undo", &[("id", value_of(&history, "id"))]);
    assert_eq!((status, place.read("a").as_str()), (409, "other\n"), "{body}");
    // The undo and the undo of the undo, together.
    let range = console.get(&format!("range?from={}", &commit));
    assert!(range.contains("-old") && range.contains("+new"), "{range}");
    let undone = &values(&console.get("history"), "from")[1].to_owned();
    let range = console.get(&format!("range?from={commit}&to={undone}&show=side"));
    assert!(range.contains("Together they changed nothing"), "{range}");
    assert_eq!(console.page("range?from=x").ask(console.address).0, 404);
}
