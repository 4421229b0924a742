//! What a client gets beside an answer: images, and links to long output of programs, which it reads in parts.

use serde_json::{Value, json};

use super::http::{call, result};
use super::server::{Request, Server};
use crate::support::Place;
use crate::trial::configure;

const SETTINGS: &str = "[grants.shell]\nfiles = 'write'\nprocess = ['bash']\n\
                        [roles.runner]\ntools = ['shell.*']\n[limits]\nresult-kb = 16\n";

fn read(server: &Server, path: &str, uri: &str) -> Result<Value, String> {
    let request = Request::post(path, "resources/read", &json!({"uri": uri}));
    let (_, _, body) = server.ask(&request.with("Mcp-Name", uri));
    let document: Value = result(&body);
    if document.is_null() { Err(body) } else { Ok(document["contents"][0].clone()) }
}

#[test]
fn a_client_reads_long_output_in_parts() {
    let place = Place::new();
    configure(&place, SETTINGS);
    let server = Server::new(&place, &[]);
    let printed: String = (1..=300_000).map(|n| format!("{n} é\n")).collect();
    for (command, is_error) in [
        ("for ((n = 1; n <= 300000; n++)); do echo $n é; done", false),
        ("seq 99999; exit 3", true),
    ] {
        let args = json!({"command": command});
        let (_, _, body) = server.ask(&call("/mcp/runner", "shell.bash", &args));
        let result = result(&body);
        assert_eq!(result["isError"] == true, is_error, "{result}");
        let content = result["content"].as_array().unwrap();
        let links = content.iter().filter(|block| block["type"] == "resource_link");
        // The answer itself may be a link as well, if it is too large.
        let is_output = |link: &&Value| link["name"] == "Output of bash (stdout)";
        let output: Vec<&Value> = links.filter(is_output).collect();
        assert_eq!(output.len(), 1, "{result}");
        assert_eq!(output[0]["mimeType"], "text/plain");
        let uri = output[0]["uri"].as_str().unwrap();
        let note = format!("{uri}?offset=0&length=16384");
        assert!(
            content
                .iter()
                .any(|block| { block["text"].as_str().is_some_and(|text| text.contains(&note)) })
        );
        if is_error {
            assert_eq!(output[0]["size"], 588_888);
            continue;
        }
        // Other roles can't read it, and all parts together are the whole output.
        assert!(read(&server, "/mcp", uri).is_err());
        let size = output[0]["size"].as_u64().unwrap();
        assert_eq!(size, printed.len() as u64);
        let mut whole = String::new();
        for offset in (0..size).step_by(999_999) {
            let part = format!("{uri}?offset={offset}&length=999999");
            let part = read(&server, "/mcp/runner", &part).unwrap();
            assert_eq!(part["mimeType"], "text/plain");
            whole += part["text"].as_str().unwrap();
        }
        assert!(whole == printed);
        let beyond = read(&server, "/mcp/runner", &format!("{uri}?offset=99999999"));
        assert!(beyond.unwrap_err().contains("none at 99999999"));
        std::fs::remove_dir_all(place.workspace().join(".cofferdam/output")).unwrap();
        let gone = read(&server, "/mcp/runner", uri).unwrap_err();
        assert!(gone.contains("has made room for later output"), "{gone}");
    }
}

/// A PNG file of one pixel.
const PNG: &[u8] =
    b"\x89PNG\x0d\x0a\x1a\x0a\x00\x00\x00\x0dIHDR\x00\x00\x00\x01\x00\x00\x00\x01\x08\x02\
      \x00\x00\x00\x90wS\xde\x00\x00\x00\x0cIDATx\x9cc\xf8\xcf\xc0\x00\x00\x03\x01\x01\x00\
      \xc9\xfe\x92\xef\x00\x00\x00\x00IEND\xaeB`\x82";

/// The same in base64.
const DATA: &str =
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAIAAACQd1PeAAAADElEQVR4nGP4z8AAAAMBAQDJ/pLvAAAAAElFTkSuQmCC";

#[test]
fn a_client_gets_an_image_once_and_other_answers_have_none() {
    let place = Place::new();
    place.write("a.png", PNG);
    place.write("broken.png", &PNG[..40]);
    let path = place.workspace().join("a.png");
    let shown = json!({
        "path": path,
        "content": "A PNG image of 1 x 1 pixels.",
        "size": PNG.len(),
        "image": {"mime_type": "image/png", "width": 1, "height": 1},
    });
    let server = Server::new(&place, &[]);
    for (role, tool) in [("/mcp", "read_file"), ("/mcp/reader", "read_code")] {
        let (_, _, body) = server.ask(&call(role, tool, &json!({"path": "a.png"})));
        let result = result(&body);
        let image = json!({"type": "image", "data": DATA, "mimeType": "image/png"});
        let text = json!({"type": "text", "text": shown.to_string()});
        assert_eq!(result["content"], json!([text, image]), "{result}");
        assert_eq!(result["structuredContent"], shown);
        assert_eq!(body.matches(DATA).count(), 1);
    }
    let (_, _, body) = server.ask(&call("/mcp", "read_file", &json!({"path": "broken.png"})));
    let broken = result(&body);
    assert_eq!(broken["isError"], true, "{broken}");
    assert!(broken["content"][0]["text"].as_str().unwrap().starts_with("InvalidImage: broken.png"));
    // A resource is text: an image is none.
    let uri = format!("file://{}", path.display());
    assert!(read(&server, "/mcp", &uri).unwrap_err().contains("UnicodeDecodeError"));
    let called = place.run(&["call", "files.read_file", r#"{"path": "a.png"}"#]);
    assert_eq!(called.json(), shown);
}
