//! The queue with a real server, which `cargo xtask test` installs, and with messages that others made.
#![expect(
    clippy::disallowed_methods,
    clippy::panic,
    clippy::print_stderr,
    clippy::unwrap_used,
    reason = "tests"
)]

mod attacks;
mod failures;
mod server;
mod work;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use serde_json::json;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};

use self::server::Server;
use super::{FleetSecret, Queue, QueueError, QueueOptions, Request, TryLater, Worker};

const SECRET: &[u8] = b"a secret of a fleet, which has more than 32 bytes";

/// For how long results are waited for.
const WAIT: Duration = Duration::from_secs(20);

fn secret() -> FleetSecret {
    FleetSecret::new(SECRET).unwrap()
}

async fn connect(server: &Server) -> Queue {
    Queue::connect(&server.address(), secret(), QueueOptions::default()).await.unwrap()
}

/// A request whose body says how long it takes, in milliseconds.
fn request(workspace: &str, key: &str, milliseconds: u64) -> Request {
    Request {
        key: key.to_owned(),
        workspace: workspace.to_owned(),
        body: json!({ "milliseconds": milliseconds }),
    }
}

/// All that the hosts of a test have done.
#[derive(Default)]
struct Record {
    /// Each run: the host, the workspace and the key.
    runs: Vec<(String, String, String)>,
    running: BTreeMap<String, usize>,
    most_running: usize,
    /// Whether two requests of one workspace ran at the same time.
    has_overlapped: bool,
}

/// A worker that sleeps for as long as a request says.
#[derive(Clone)]
struct Sleeper {
    host: String,
    record: Arc<Mutex<Record>>,
}

impl Sleeper {
    fn new(host: &str, record: &Arc<Mutex<Record>>) -> Self {
        Self { host: host.to_owned(), record: Arc::clone(record) }
    }
}

impl Worker for Sleeper {
    async fn work(&self, request: Request) -> Result<Bytes, TryLater> {
        let run = (self.host.clone(), request.workspace.clone(), request.key.clone());
        {
            let mut record = self.record.lock().unwrap();
            record.runs.push(run);
            let running = record.running.entry(request.workspace.clone()).or_default();
            *running += 1;
            record.has_overlapped |= record.running[&request.workspace] > 1;
            record.most_running = record.most_running.max(record.running.values().sum());
        }
        sleep(Duration::from_millis(request.body["milliseconds"].as_u64().unwrap())).await;
        *self.record.lock().unwrap().running.get_mut(&request.workspace).unwrap() -= 1;
        Ok(result_of(&request.key))
    }
}

fn result_of(key: &str) -> Bytes {
    format!("result of {key}").into()
}

/// A host that serves in the background. If it is dropped, it is killed.
struct Running {
    task: JoinHandle<Result<(), QueueError>>,
    stop: watch::Sender<bool>,
}

impl Running {
    fn start<W: Worker>(queue: &Queue, host: &str, worker: W, parallel: usize) -> Self {
        let (stop, stopped) = watch::channel(false);
        let (queue, host) = (queue.clone(), host.to_owned());
        let task = tokio::spawn(async move { queue.serve(&host, worker, parallel, stopped).await });
        Self { task, stop }
    }

    async fn stop(mut self) {
        self.stop.send(true).unwrap();
        timeout(WAIT, &mut self.task).await.unwrap().unwrap().unwrap();
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Waits until a condition is true.
async fn wait_until(condition: impl Fn() -> bool) {
    let waiting = async {
        while !condition() {
            sleep(Duration::from_millis(5)).await;
        }
    };
    timeout(WAIT, waiting).await.unwrap();
}

/// The keys of a workspace's runs, in order.
fn keys(record: &Mutex<Record>, workspace: &str) -> Vec<String> {
    let record = record.lock().unwrap();
    let runs = record.runs.iter().filter(|(_, of, _)| of == workspace);
    runs.map(|(_, _, key)| key.clone()).collect()
}

/// Asserts that each request has its result.
async fn assert_results(queue: &Queue, workspace: &str, keys: impl IntoIterator<Item = String>) {
    for key in keys {
        let result = queue.result(workspace, &key, WAIT).await.unwrap();
        assert_eq!(result, Some(result_of(&key)), "{workspace} {key}");
    }
}
