//! A component for WASI 0.3, as people write it for other hosts: asynchronous functions, streams, and
//! files by the interfaces of WASI 0.3. The function `attack` never ends, or uses more and more.
#![cfg(target_family = "wasm")]

use std::mem::forget;

use futures_util::future::{join, join_all};
use wasip3::cli::{environment, stderr, stdin, stdout};
use wasip3::clocks::{monotonic_clock, system_clock};
use wasip3::filesystem::preopens::get_directories;
use wasip3::filesystem::types::{Descriptor, DescriptorFlags, OpenFlags, PathFlags};
use wasip3::http::client;
use wasip3::http::types::{Fields, Request, Response, Scheme};
use wasip3::random::random::get_random_bytes;
use wasip3::{wit_future, wit_stream};
use wit_bindgen::StreamReader;

#[allow(clippy::all, clippy::allow_attributes_without_reason, reason = "generated")]
mod bindings {
    wit_bindgen::generate!({ path: "wit", world: "concurrent" });
    use super::Concurrent;
    export!(Concurrent);
}

struct Concurrent;

const MILLISECOND: u64 = 1_000_000;

fn words(error: impl std::fmt::Debug) -> String {
    format!("{error:?}")
}

/// The first directory that is open from the start.
fn top() -> Result<Descriptor, String> {
    let first = get_directories().into_iter().next();
    first.map(|(directory, _)| directory).ok_or("no directory".to_owned())
}

async fn open(path: &str, create: OpenFlags, flags: DescriptorFlags) -> Result<Descriptor, String> {
    let top = top()?;
    let opened = top.open_at(PathFlags::SYMLINK_FOLLOW, path.to_owned(), create, flags);
    opened.await.map_err(words)
}

/// A stream of these bytes, and the future that writes them.
fn stream_of(bytes: Vec<u8>) -> (StreamReader<u8>, impl Future<Output = ()>) {
    let (mut writer, reader) = wit_stream::new();
    (reader, async move {
        writer.write_all(bytes).await;
    })
}

impl bindings::Guest for Concurrent {
    async fn greet(name: String) -> Result<String, String> {
        match name.as_str() {
            "" => Err("no name".to_owned()),
            "crash" => std::process::abort(),
            name => Ok(format!("Hello, {name}.")),
        }
    }

    async fn side_by_side(waits: u32, ms: u64) -> u64 {
        let begun = monotonic_clock::now();
        join_all((0..waits).map(|_| monotonic_clock::wait_for(ms * MILLISECOND))).await;
        (monotonic_clock::now() - begun) / MILLISECOND
    }

    async fn surroundings() -> (u32, u32, u32) {
        let (input, ended) = stdin::read_via_stream();
        let input = input.collect().await;
        let _ = ended.await;
        let (arguments, variables) =
            (environment::get_arguments().len(), environment::get_environment().len());
        (arguments as u32, variables as u32, input.len() as u32)
    }

    async fn chance() -> (Vec<u8>, i64) {
        (get_random_bytes(32), system_clock::now().seconds)
    }

    async fn say(text: String, times: u32) {
        let bytes = text.repeat(times as usize).into_bytes();
        let ((output, write), (errors, complain)) = (stream_of(bytes.clone()), stream_of(bytes));
        let written = join(stdout::write_via_stream(output).into_future(), write);
        let complained = join(stderr::write_via_stream(errors).into_future(), complain);
        let _ = join(written, complained).await;
    }

    async fn fetch(authority: String, path: String) -> Result<String, String> {
        let (trailers, no_trailers) = wit_future::new(|| Ok(None));
        drop(trailers);
        let (request, _sent) = Request::new(Fields::new(), None, no_trailers, None);
        let wrong = |()| "no such address".to_owned();
        request.set_scheme(Some(&Scheme::Https)).map_err(wrong)?;
        request.set_authority(Some(&authority)).map_err(wrong)?;
        request.set_path_with_query(Some(&path)).map_err(wrong)?;
        let response = client::send(request).await.map_err(words)?;
        let status = response.get_status_code();
        let (received, was_received) = wit_future::new(|| Ok(()));
        drop(received);
        let (body, _trailers) = Response::consume_body(response, was_received);
        let body = body.collect().await;
        Ok(format!("{status} {}", String::from_utf8_lossy(&body)))
    }

    async fn directories() -> Vec<String> {
        get_directories().into_iter().map(|(_, name)| name).collect()
    }

    async fn read_note(path: String) -> Result<String, String> {
        let file = open(&path, OpenFlags::empty(), DescriptorFlags::READ).await?;
        let (bytes, ended) = file.read_via_stream(0);
        let bytes = bytes.collect().await;
        ended.await.map_err(words)?;
        String::from_utf8(bytes).map_err(words)
    }

    async fn write_note(path: String, text: String, append: bool) -> Result<(), String> {
        let create =
            if append { OpenFlags::CREATE } else { OpenFlags::CREATE | OpenFlags::TRUNCATE };
        let file = open(&path, create, DescriptorFlags::WRITE).await?;
        let (stream, write) = stream_of(text.into_bytes());
        let ended = match append {
            true => file.append_via_stream(stream),
            false => file.write_via_stream(stream, 0),
        };
        let (ended, ()) = join(ended.into_future(), write).await;
        ended.map_err(words)
    }

    async fn list_notes(path: String) -> Result<Vec<String>, String> {
        let directory = open(&path, OpenFlags::DIRECTORY, DescriptorFlags::READ).await?;
        let (entries, ended) = directory.read_directory();
        let entries = entries.collect().await;
        ended.await.map_err(words)?;
        let mut names: Vec<String> =
            entries.into_iter().map(|entry| format!("{} {:?}", entry.name, entry.type_)).collect();
        names.sort();
        Ok(names)
    }

    async fn rename_note(path: String, to: String) -> Result<(), String> {
        let top = top()?;
        top.rename_at(path, &top, to).await.map_err(words)
    }

    async fn remove_note(path: String) -> Result<(), String> {
        top()?.unlink_file_at(path).await.map_err(words)
    }

    async fn make_directory(path: String) -> Result<(), String> {
        top()?.create_directory_at(path).await.map_err(words)
    }

    async fn link_note(path: String, target: String) -> Result<(), String> {
        top()?.symlink_at(target, path).await.map_err(words)
    }

    async fn size(path: String) -> Result<u64, String> {
        let stat = top()?.stat_at(PathFlags::SYMLINK_FOLLOW, path).await;
        Ok(stat.map_err(words)?.size)
    }

    async fn listen() -> StreamReader<u8> {
        stream_of(Vec::new()).0
    }

    async fn attack(how: String, path: String) -> Result<u64, String> {
        match how.as_str() {
            "wait" => monotonic_clock::wait_for(u64::MAX).await,
            "spin" => loop {
                std::hint::spin_loop();
            },
            "yield" => loop {
                wit_bindgen::yield_async().await;
            },
            "calls" => loop {
                monotonic_clock::wait_for(0).await;
            },
            "future" => {
                let (writer, reader) = wit_future::new(|| Ok(()));
                let _: Result<(), wasip3::cli::types::ErrorCode> = reader.await;
                drop(writer);
            }
            "waits" => {
                let waits = || monotonic_clock::wait_for(u64::MAX);
                join_all((0..10_000).map(|_| waits())).await;
            }
            "streams" => (0..10_000).for_each(|_| forget(wit_stream::new::<u8>())),
            "futures" => (0..10_000).for_each(|_| forget(stdin::read_via_stream())),
            "unread" => {
                let (mut writer, _reader) = wit_stream::new();
                loop {
                    writer.write_all(vec![0_u8; 1 << 20]).await;
                }
            }
            "log" => {
                let (mut writer, reader) = wit_stream::new();
                let write = async {
                    loop {
                        writer.write_all(vec![b'x'; 1 << 16]).await;
                    }
                };
                let _ = join(stdout::write_via_stream(reader).into_future(), write).await;
            }
            "hoard" => {
                let mut hoard = Vec::new();
                loop {
                    hoard.push(vec![1_u8; 1 << 20]);
                    wit_bindgen::yield_async().await;
                }
            }
            "grow" => {
                let flags = DescriptorFlags::READ | DescriptorFlags::WRITE;
                let file = open(&path, OpenFlags::empty(), flags).await?;
                let (bytes, _ended) = file.read_via_stream(0);
                file.append_via_stream(bytes).await.map_err(words)?;
            }
            how => return Err(format!("no attack {how}")),
        }
        Ok(0)
    }
}
