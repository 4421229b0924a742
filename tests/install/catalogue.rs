//! Catalogues of plugins: written, signed, searched and installed from.

use std::fs;

use serde_json::{Value, json};

use super::signatures::Author;
use super::web::{answer, path};
use super::{Plugin, assert_contains};
use crate::http::server::Server;
use crate::support::{Ended, Place, built, copy_command};
use crate::trial::configure;

/// A place with plugins in a directory, a catalogue of them, and its author.
fn published() -> Option<(Place, Author, String)> {
    let place = Place::new();
    let ada = Author::new(&place, "ada")?;
    fs::create_dir(place.home_file("site")).unwrap();
    let lines =
        Plugin::new("lines").requests(json!({"files": "write"})).tool("sort", "Sorts a file");
    let files = [("lines", lines), ("words", Plugin::new("words").version("2.0.0"))];
    let files = files.map(|(name, plugin)| {
        let file = place.beside(&format!("site/{name}.wasm"), &plugin);
        ada.sign(&file);
        file.to_str().unwrap().to_owned()
    });
    let catalogue = place.home_file("site/catalogue.toml");
    let name = catalogue.to_str().unwrap().to_owned();
    let (files, key) = (files.each_ref().map(String::as_str), ada.key());
    let written = [&["plugin", "catalogue"], &files[..], &["--output", &name, "--key", &key]];
    assert_eq!(place.works(&written.concat())["plugins"], json!(["lines", "words"]));
    Some((place, ada, name))
}

fn names(found: &Value) -> Vec<&str> {
    let plugins = found["plugins"].as_array().unwrap();
    plugins.iter().map(|plugin| plugin["name"].as_str().unwrap()).collect()
}

#[test]
fn a_plugin_is_found_and_installed_by_the_command_that_the_search_prints() {
    let Some((place, ada, catalogue)) = published() else { return };
    let from = ["plugin", "search", "--catalogue", &catalogue, "--key", &ada.key()];
    assert_contains(&place.refused(3, &from), &["it is not signed", "nothing of this catalogue"]);
    ada.sign(catalogue.as_ref());
    assert_eq!(names(&place.works(&from)), ["lines", "words"]);

    let hint = place.refused(2, &["plugin", "search"]);
    assert_contains(&hint, &["names no catalogue", "[catalogues.NAME]"]);
    let settings = format!("[catalogues.mine]\nsource = '{catalogue}'\nkey = '{}'\n", ada.key());
    configure(&place, &settings);
    let found = place.works(&["plugin", "search", "sort"]);
    assert_eq!(names(&found), ["lines"]);
    let entry = &found["plugins"][0];
    assert_eq!(entry["catalogue"], "mine");
    assert_eq!(entry["asks_for"], json!(["reading and changing files of the workspace"]));
    assert_eq!(found["catalogues"][0]["plugins"], 2);
    let text = place.run(&["plugin", "search", "sort", "--format", "text"]).stdout;
    assert_contains(
        &text,
        &["lines 0.1.0 (mine)", "tools: go, sort", "cofferdam plugin install '"],
    );
    let none = place.run(&["plugin", "search", "databases", "--format", "text"]).stdout;
    assert_eq!(none, "no plugin matches\n");

    // The printed command, as a shell splits it.
    let command = entry["install"].as_str().unwrap().replace('\'', "");
    let args: Vec<&str> = command.split(' ').skip(1).chain(["--deny"]).collect();
    let installed = place.works(&args);
    assert_eq!(installed["plugins"][0]["signer"], ada.key());
    assert_eq!(place.go("lines").status, 0);
    // The catalogue names the content: another file in its place is not installed.
    place.works(&["plugin", "remove", "lines", "--everywhere"]);
    let file = place.beside("site/lines.wasm", &Plugin::new("lines").version("0.0.1"));
    ada.sign(&file);
    assert_contains(&place.refused(3, &args), &["sha256:"]);
}

#[test]
fn a_catalogue_on_the_web_names_plugins_beside_it_and_no_files() {
    let Some((place, ada, catalogue)) = published() else { return };
    let eve = Author::new(&place, "eve").unwrap();
    ada.sign(catalogue.as_ref());
    let site = place.home_file("site");
    let server = Server::new(move |head| match fs::read(site.join(&path(head)[1..])) {
        Ok(bytes) => answer("200 OK", "", &bytes),
        Err(_) => answer("404 Not Found", "", b"nothing"),
    });
    let at = format!("https://localhost:{}/catalogue.toml", server.address().port());
    let search = |key: &str| {
        place.trusting(&server, &["plugin", "search", "--catalogue", &at, "--key", key])
    };
    let found = search(&ada.key()).json();
    let source = found["plugins"][1]["source"].as_str().unwrap();
    assert_eq!(source, at.replace("catalogue.toml", "words.wasm"));
    let other = search(&eve.key());
    assert_eq!(other.status, 3, "{other:?}");
    assert_contains(&other.stderr, &["another key"]);

    for (entry, why) in [
        ("source = '/etc/passwd'", "no path relative to this catalogue"),
        ("source = './../lines.wasm'", "no '..'"),
        ("source = 'ftp://example.org/a'", "https:// and oci://"),
        ("source = './a.wasm'\nrun = 'x'", "unknown field `run`"),
    ] {
        let text = format!(
            "version = 1\n[[plugins]]\nname = 'a'\nversion = '1.0.0'\ndescription = 'x'\n{entry}\n"
        );
        fs::write(&catalogue, text).unwrap();
        ada.sign(catalogue.as_ref());
        let refused = search(&ada.key());
        assert_eq!((refused.status, refused.stdout.as_str()), (3, ""), "{refused:?}");
        assert_contains(&refused.stderr, &[why]);
    }
}

/// The plugins of the host and the example make a catalogue of their own.
#[test]
fn the_plugins_of_the_host_have_a_catalogue() {
    let place = Place::new();
    let Some(ada) = Author::new(&place, "ada") else { return };
    let folder = built().join("plugins");
    let mut files = vec![built().join("examples/hello.wasm")];
    let plugins = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    files.extend(plugins.filter(|file| file.extension().is_some_and(|suffix| suffix == "wasm")));
    let catalogue = place.home_file("catalogue.toml");
    let catalogue = catalogue.to_str().unwrap();
    let mut args = vec!["plugin", "catalogue", "--output", catalogue];
    args.extend(["--from", "https://example.org/plugins/"]);
    args.extend(files.iter().map(|file| file.to_str().unwrap()));
    let written = place.works(&args);
    assert_eq!(written["plugins"].as_array().unwrap().len(), files.len());
    ada.sign(catalogue.as_ref());
    let search = |words: &str| {
        place.works(&["plugin", "search", words, "--catalogue", catalogue, "--key", &ada.key()])
    };
    assert_eq!(names(&search("greets"))[0], "hello");
    let found = search("grep");
    assert_eq!(found["plugins"][0]["source"], "https://example.org/plugins/grep.wasm");
    assert_eq!(names(&search("eslint"))[0], "eslint");
}

#[test]
fn a_command_without_plugins_fetches_those_of_a_release() {
    let place = Place::new();
    let Some(ada) = Author::new(&place, "ada") else { return };
    fs::create_dir(place.home_file("release")).unwrap();
    let plugin = |name: &str| {
        let file = place.home_file(&format!("release/{name}.wasm"));
        fs::copy(built().join("plugins").join(format!("{name}.wasm")), &file).unwrap();
        file.to_str().unwrap().to_owned()
    };
    let files = ["files", "grep"].map(plugin);
    let catalogue = place.home_file("release/catalogue.toml").to_str().unwrap().to_owned();
    place.works(&["plugin", "catalogue", &files[0], &files[1], "--output", &catalogue]);
    // The command alone, as `cargo install` leaves it.
    let alone = place.home_file("bin/cofferdam");
    fs::create_dir(alone.parent().unwrap()).unwrap();
    copy_command(&alone);
    let run = |args: &[&str]| Ended::of(&mut place.command_at(&alone, args));
    let fetch = ["plugin", "fetch", &catalogue, "--key", &ada.key()];
    let refused = |args: &[&str], status: i32, words: &[&str]| {
        let ended = run(args);
        assert_eq!(ended.status, status, "{ended:?}");
        assert_contains(&ended.stderr, words);
    };
    let read = ["call", "read_file", r#"{"path": "a.txt"}"#];
    refused(&read, 5, &["the built-in plugins are missing", "`cofferdam plugin fetch`"]);
    refused(&fetch, 3, &["it is not signed"]);
    ada.sign(catalogue.as_ref());
    let fetched = run(&fetch);
    assert_eq!((fetched.status, &fetched.json()["plugins"]), (0, &json!(["files", "grep"])));
    place.write("a.txt", "text\n");
    let answer = run(&read);
    assert_eq!((answer.status, &answer.json()["content"]), (0, &json!("text\n")), "{answer:?}");

    // What the catalogue does not mean is refused, and what was fetched stays.
    fs::copy(&files[0], &files[1]).unwrap();
    refused(&fetch, 2, &["grep: ", "and the catalogue says sha256:"]);
    let text = fs::read_to_string(&catalogue).unwrap();
    for (old, new, words) in [
        ("digest = ", "# digest = ", "the catalogue has no digest of it"),
        (
            "version = \"0.1.0\"",
            "version = \"9.0.0\"",
            "it has version 9.0.0, and this command 0.1.0",
        ),
        ("name = \"grep\"", "name = \"files\"", "each once"),
    ] {
        fs::write(&catalogue, text.replace(old, new)).unwrap();
        ada.sign(catalogue.as_ref());
        refused(&fetch, 2, &[words]);
    }
    assert_eq!(run(&read).status, 0);
}
