//! What the command says about secrets and networks in the settings.

use serde_json::{Value, json};

use crate::support::Place;
use crate::trial::configure;

#[test]
fn secrets_and_networks_are_shown() {
    let place = Place::new();
    configure(
        &place,
        "[secrets.key]\npaths = ['*.key']\norigins = ['https://registry.npmjs.org']\n\
         [[grants.shell.network]]\nprograms = ['bash']\nbundle = 'npm'\n",
    );
    let shown = place.run(&["policy", "show"]).json();
    let secret = json!({
        "secret": "key", "paths": ["*.key"], "origins": ["https://registry.npmjs.org"],
    });
    assert_eq!(shown["secrets"], json!([secret]));
    let described = |value: &Value| value["description"].as_str().unwrap_or_default().to_owned();
    let shell = shown["grants"].as_array().unwrap().iter().find(|grant| grant["plugin"] == "shell");
    let description = described(&shell.unwrap()["network"][0]);
    assert!(description.starts_with("packages of npm: "), "{shell:?}");
    let doctor = place.run(&["doctor"]).json();
    assert_eq!(described(&doctor["networks"][0]), description, "{doctor:#}");
    let explained = place.run(&["policy", "explain", "shell"]).json();
    let asks =
        json!([{"secret": "key", "asks_before_sending_to": ["https://registry.yarnpkg.com"]}]);
    assert_eq!(explained["secrets"], asks, "{explained:#}");
}

#[test]
fn invalid_secrets_are_refused() {
    let place = Place::new();
    for (settings, wanted) in [
        ("[secrets.key]\npaths = ['/etc/x']\n", "secrets.key.paths: '/etc/x' is no pattern"),
        ("[secrets.key]\npaths = []\n", "secrets.key.paths: it names no files"),
        ("[secrets.key]\npaths = ['a']\norigins = ['x.example']\n", "x.example"),
        ("[secrets.key]\npaths = ['a']\nto = []\n", "unknown field `to`"),
    ] {
        configure(&place, settings);
        let ended = place.run(&["policy", "show"]);
        assert!(ended.status != 0 && ended.stderr.contains(wanted), "{settings}: {ended:?}");
    }
}
