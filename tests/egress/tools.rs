//! Real tools, which find the proxy and its authority by variables, against a server of the test.

use serde_json::json;

use super::{ended, ran, runner};
use crate::http::server::{Server, answer};

/// The answers of a registry of each kind.
fn registry() -> Server {
    Server::new(|head| {
        match head.split(' ').nth(1).unwrap_or_default() {
        "/simple/colder/" => answer(
            200,
            "Content-Type: text/html\r\n",
            b"<!DOCTYPE html><a href='/packages/colder-1.2.3-py3-none-any.whl'>colder-1.2.3-py3-none-any.whl</a>",
        ),
        "/packages/colder-1.2.3-py3-none-any.whl" => answer(200, "", &wheel()),
        "/colder" => answer(
            200,
            "Content-Type: application/json\r\n",
            br#"{"name":"colder","dist-tags":{"latest":"1.2.3"},"versions":{"1.2.3":{"name":"colder","version":"1.2.3","dist":{"tarball":"https://test.example/colder.tgz"}}}}"#,
        ),
        path if path.starts_with("/a.git/info/refs") => answer(
            200,
            "Content-Type: text/plain\r\n",
            b"1234567890123456789012345678901234567890\trefs/heads/main\n",
        ),
        "/a.git/HEAD" => answer(200, "", b"ref: refs/heads/main\n"),
        path => answer(404, "", path.as_bytes()),
    }
    })
}

#[test]
fn tools_download_through_the_proxy() {
    let server = registry();
    let trial = runner(&ended(&server, "methods = ['GET', 'HEAD']"));
    for (program, command, wanted) in [
        ("curl", "curl -sS https://test.example/colder | head -c 16", "{\"name\":\"colder"),
        (
            "pip3",
            "cd $TMPDIR && pip3 download -q --no-deps --index-url https://test.example/simple/ colder && ls *.whl",
            "colder-1.2.3-py3-none-any.whl",
        ),
        ("npm", "npm view --registry https://test.example/ colder version", "1.2.3"),
        ("git", "git ls-remote https://test.example/a.git", "refs/heads/main"),
    ] {
        let command =
            format!("command -v {program} >/dev/null || {{ echo absent; exit 0; }}; {command}");
        let output = ran(&trial, json!({"program": "bash", "arguments": ["-c", command]}));
        let stdout = output["stdout"].as_str().unwrap_or_default();
        assert!(stdout.contains(wanted) || stdout == "absent\n", "{program}: {output}");
    }
}

/// A wheel: an archive (zip) of stored files.
fn wheel() -> Vec<u8> {
    let (mut archive, mut directory) = (Vec::new(), Vec::new());
    let files = [
        ("colder.py", "x = 1\n"),
        (
            "colder-1.2.3.dist-info/METADATA",
            "Metadata-Version: 2.1\nName: colder\nVersion: 1.2.3\n",
        ),
        (
            "colder-1.2.3.dist-info/WHEEL",
            "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        ),
        ("colder-1.2.3.dist-info/RECORD", ""),
    ];
    for (name, text) in files {
        let at = archive.len() as u32;
        let mut about = vec![20, 0, 0, 0, 0, 0, 0, 0, 0x21, 0];
        about.extend(checksum(text.as_bytes()).to_le_bytes());
        about.extend((text.len() as u32).to_le_bytes().repeat(2));
        about.extend((name.len() as u16).to_le_bytes());
        about.extend([0, 0]);
        archive.extend(b"PK\x03\x04");
        archive.extend(&about);
        archive.extend(name.as_bytes());
        archive.extend(text.as_bytes());
        directory.extend(b"PK\x01\x02\x14\x00");
        directory.extend(&about);
        directory.extend([0; 10]);
        directory.extend(at.to_le_bytes());
        directory.extend(name.as_bytes());
    }
    let (at, length, count) = (archive.len() as u32, directory.len() as u32, files.len() as u16);
    archive.extend(directory);
    archive.extend(b"PK\x05\x06\0\0\0\0");
    archive.extend(count.to_le_bytes().repeat(2));
    archive.extend(length.to_le_bytes());
    archive.extend(at.to_le_bytes());
    archive.extend([0, 0]);
    archive
}

/// CRC-32.
fn checksum(bytes: &[u8]) -> u32 {
    let step = |crc: u32, byte: &u8| {
        (0..8).fold(crc ^ u32::from(*byte), |crc, _| (crc >> 1) ^ (0xedb8_8320 * (crc & 1)))
    };
    !bytes.iter().fold(!0, step)
}
