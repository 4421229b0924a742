//! Checks of the recipes in `deploy/`, as far as they can be tried without the systems that they are for
//! (`docs/deploy.md` says what was tried how).
#![expect(clippy::unwrap_used, reason = "tests")]

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;

use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use super::formats::ALL;
use super::formats::tests::{client, release};
use crate::process::{ask, native, output};
use crate::project::{Project, read, read_text, write};
use crate::stamp::hexadecimal;

/// What systemd reports as the exposure of the service, of 10, at most.
const MAX_EXPOSURE: f64 = 4.5;

fn recipe(name: &str) -> PathBuf {
    Project::find().unwrap().root.join("deploy").join(name)
}

/// A recipe in YAML, read by a library of Python; `None` where it is not installed.
fn yaml(name: &str) -> Option<Value> {
    yaml_documents(name).map(|mut documents| documents.swap_remove(0))
}

/// All documents of a recipe in YAML.
fn yaml_documents(name: &str) -> Option<Vec<Value>> {
    let mut python = client("packages/bin/python")?;
    let read =
        "import json, sys, yaml; print(json.dumps(list(yaml.safe_load_all(open(sys.argv[1])))))";
    let text = output(python.args(["-c", read]).arg(recipe(name))).unwrap();
    Some(serde_json::from_str(&text).unwrap())
}

#[test]
fn systemd_accepts_the_service() {
    if ask(native("systemd-analyze").arg("--version")).is_none() {
        return;
    }
    let scratch = tempfile::tempdir().unwrap();
    let unit = scratch.path().join("cofferdam.service");
    // The command is not installed here.
    let text = read_text(&recipe("cofferdam.service")).unwrap();
    assert!(text.contains("ExecStart=/usr/bin/cofferdam "));
    write(&unit, text.replace("/usr/bin/cofferdam ", "/bin/true ")).unwrap();
    output(native("systemd-analyze").args(["--man=no", "verify"]).arg(&unit)).unwrap();
    let exposure = ask(native("systemd-analyze").args(["security", "--offline=true"]).arg(&unit));
    // Versions before 250 can't judge a file.
    let Some(exposure) = exposure else { return };
    let line = exposure.lines().find(|line| line.contains("Overall exposure level")).unwrap();
    let level = line.split_whitespace().find_map(|word| word.parse::<f64>().ok()).unwrap();
    assert!(level <= MAX_EXPOSURE, "{line}");
    for needed in [
        "RestrictNamespaces=",
        "SystemCallFilter=",
        "MemoryDenyWriteExecute=",
        "ProtectKernelTunables=",
    ] {
        assert!(!text.lines().any(|line| line.starts_with(needed)), "{needed} ends the sandbox");
    }
}

#[test]
fn containers_run_without_rights() {
    let text = read_text(&recipe("Containerfile")).unwrap();
    let instructions: BTreeMap<&str, &str> =
        text.lines().filter_map(|line| line.split_once(' ')).collect();
    assert_eq!(instructions["USER"], "cofferdam");
    assert_eq!(instructions["VOLUME"], r#"["/workspace", "/home/cofferdam"]"#);
    let Some(compose) = yaml("compose.yaml") else { return };
    let service = &compose["services"]["cofferdam"];
    assert_eq!(service["cap_drop"], json!(["ALL"]));
    assert_eq!(service["security_opt"], json!(["no-new-privileges:true"]));
    assert_eq!(service["read_only"], true);
    assert_eq!(service["user"], "1000:1000");
    assert_eq!(service["ports"], json!(["127.0.0.1:8080:8080"]));
}

#[test]
fn hosts_of_a_fleet_run_without_rights() {
    let Some(compose) = yaml("fleet.compose.yaml") else { return };
    for host in ["host1", "host2"] {
        let service = &compose["services"][host];
        assert_eq!(service["cap_drop"], json!(["ALL"]));
        assert_eq!(service["security_opt"], json!(["no-new-privileges:true"]));
        assert_eq!((&service["read_only"], &service["user"]), (&json!(true), &json!("1000:1000")));
    }
    // The arguments are those of the command.
    let options = fs::read_to_string(Project::find().unwrap().root.join("docs/cli.md")).unwrap();
    let deployment = yaml_documents("fleet.kubernetes.yaml").unwrap().swap_remove(0);
    let pod = &deployment["spec"]["template"]["spec"];
    let container = &pod["containers"][0];
    let of_kubernetes = container["args"].as_array().unwrap().iter();
    let of_compose = compose["services"]["host1"]["command"].as_array().unwrap().iter();
    for option in of_kubernetes.chain(of_compose).map(|option| option.as_str().unwrap()) {
        let name = option.split('=').next().unwrap();
        assert!(options.contains(name), "{option}");
    }
    assert_eq!(container["readinessProbe"]["httpGet"]["path"], "/ready");
    let rights = &container["securityContext"];
    assert_eq!(rights["capabilities"]["drop"], json!(["ALL"]));
    assert_eq!(rights["readOnlyRootFilesystem"], true);
    assert_eq!(rights["allowPrivilegeEscalation"], false);
    assert_eq!(pod["securityContext"]["runAsNonRoot"], true);
}

/// Runs the steps as GitHub's runner does, with an archive whose command is a script.
#[test]
fn the_action_installs_what_has_the_checksum() {
    let Some(action) = yaml("action.yml") else { return };
    assert_eq!(action["runs"]["using"], "composite");
    let steps = action["runs"]["steps"].as_array().unwrap();
    assert_eq!(steps.len(), 2);
    let (install, run) = (&steps[0], &steps[1]);
    let scratch = tempfile::tempdir().unwrap();
    let (project, release, tree) = release(scratch.path());
    let archive = (ALL[0].make)(&project, &release, &tree).unwrap();
    let digest = hexadecimal(&Sha256::digest(read(&archive).unwrap()));
    let file = |name: &str| scratch.path().join(name);
    let step = |step: &Value, path: &str, variables: [(&str, &str); 2]| {
        let mut bash = native("bash");
        bash.args([
            "--noprofile",
            "--norc",
            "-eo",
            "pipefail",
            "-c",
            step["run"].as_str().unwrap(),
        ])
        .current_dir(scratch.path())
        .env("PATH", path)
        .env("RUNNER_TEMP", scratch.path())
        .env("GITHUB_PATH", file("path"))
        .env("GITHUB_OUTPUT", file("output"))
        .envs(variables);
        output(&mut bash)
    };
    let system = "/usr/bin:/bin";
    let at = archive.to_str().unwrap();
    let other = hexadecimal(&Sha256::digest(b"another archive"));
    assert!(step(install, system, [("ARCHIVE", at), ("SHA256", &other)]).is_err());
    assert!(!file("path").exists(), "nothing is installed that has another checksum");
    step(install, system, [("ARCHIVE", at), ("SHA256", &digest)]).unwrap();
    let installed = read_text(&file("path")).unwrap();
    let path = format!("{}:{system}", installed.trim());
    step(run, &path, [("ENVELOPE", "envelope.json"), ("SHA256", &digest)]).unwrap();
    let results = read_text(&file("output")).unwrap();
    let results = results.trim().strip_prefix("results=").unwrap();
    // What the script in place of the command prints.
    assert_eq!(fs::read_to_string(results).unwrap(), "files.wasm\n");
}

#[test]
fn the_development_container_starts_the_server_in_its_workspace() {
    let text = read_text(&recipe("devcontainer.json")).unwrap();
    let container: Value = serde_json::from_str(&text).unwrap();
    let server = &container["customizations"]["vscode"]["mcp"]["servers"]["cofferdam"];
    assert_eq!(server["args"], json!(["--workspace", "${containerWorkspaceFolder}", "serve"]));
    assert_ne!(container["remoteUser"], "root");
    let installed = container["postCreateCommand"].as_str().unwrap();
    assert!(installed.contains("cofferdam_*_amd64.deb"), "{installed}");
}
