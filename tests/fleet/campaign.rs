//! Clients submit envelopes to hosts, directly and by a queue. Hosts and the server of the queue are killed,
//! and stopped for a while, again and again, and deliveries are repeated at random. Afterwards, the history
//! of each workspace is compared with what the clients were told.
//!
//! The full run is `COFFERDAM_FLEET_CALLS=20000 cargo xtask test --release fleet::campaign`.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::history::{Answered, Counts, check};
use super::nats::Nats;
use super::{Host, ask, push, write};
use crate::mcp::server::Request;
use crate::support::Place;

/// How many envelopes are submitted in the tests; `COFFERDAM_FLEET_CALLS` sets another number.
const CALLS: usize = 300;

const HOSTS: usize = 4;
const CLIENTS: usize = 8;

/// How many envelopes there are for a workspace, on average.
const CALLS_PER_WORKSPACE: usize = 60;
const MAX_WORKSPACES: usize = 64;

/// The shortest and longest time between two disturbances.
const PAUSE_MS: (u64, u64) = (200, 1000);

/// For how long a process is stopped: more than a lease lasts, or less.
const FROZEN_MS: (u64, u64) = (200, 3000);

/// How long a call may take, with all repetitions.
const TIMEOUT: Duration = Duration::from_secs(120);

/// A generator of numbers that is the same in every run (SplitMix64).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, most: u64) -> u64 {
        self.next() % most
    }
}

/// An envelope, and what it writes if it succeeds.
fn envelope(key: &str, random: &mut Random) -> (Value, Vec<(String, String)>) {
    let register = |number: u64| format!("registers/r{number}");
    let (first, second) = (random.below(4), random.below(4));
    match random.below(10) {
        // Fails, and must have no effect.
        0 => {
            let actions = json!({"actions": [
                {"type": "write_file", "path": register(first), "content": key},
                {"type": "delete_path", "path": "no such file"},
            ]});
            (actions, Vec::new())
        }
        1 | 2 => {
            let (one, two) = (register(first), format!("logs/{second}/{key}"));
            let actions = json!({"actions": [
                {"type": "write_file", "path": one, "content": key},
                {"type": "write_file", "path": two, "content": "x"},
            ]});
            (actions, vec![(one, key.to_owned()), (two, "x".to_owned())])
        }
        _ => (write(&register(first), key), vec![(register(first), key.to_owned())]),
    }
}

/// Delivers an envelope to a host or to the queue, until there is a result.
fn deliver(hosts: &[Host<'_>], path: &str, envelope: &str, random: &mut Random) -> String {
    let deadline = Instant::now() + TIMEOUT;
    let mut is_queued = random.below(2) == 0;
    for turn in 0.. {
        let host = &hosts[usize::try_from(random.below(hosts.len() as u64)).unwrap()];
        let address: SocketAddr = host.address();
        let mut request = Request::put(path, envelope);
        if is_queued {
            request = request.with("Prefer", "respond-async");
        }
        // The result of what was queued is asked for, and sometimes it is submitted again.
        if is_queued && turn % 50 > 0 {
            request = Request::get(path);
        }
        match ask(&request, address) {
            Some((200, _, body)) => return body,
            Some((202 | 404, ..)) => {}
            // The queue is not there.
            Some((503, ..)) | None => is_queued = is_queued && random.below(4) > 0,
            Some((status, _, body)) => panic!("{path}: {status} {body}"),
        }
        assert!(Instant::now() < deadline, "{path} was not answered");
        thread::sleep(Duration::from_millis(20));
    }
    String::new()
}

/// What clients were told, by workspace and key.
type Told = Mutex<HashMap<String, HashMap<String, Answered>>>;

fn client(hosts: &[Host<'_>], number: usize, workspaces: usize, told: &Told) {
    let mut random = Random(number as u64);
    let (workspace, key) =
        (format!("w{}", random.below(workspaces as u64)), format!("call-{number}"));
    let (envelope, writes) = envelope(&key, &mut random);
    let (path, envelope) = (format!("/workspaces/{workspace}/calls/{key}"), envelope.to_string());
    let sent = Instant::now();
    let mut answers = Vec::new();
    // Delivered twice at the same time, again later, or once.
    if random.below(5) == 0 {
        thread::scope(|scope| {
            let mut other = Random(random.next());
            let (path, envelope) = (&path, &envelope);
            let second = scope.spawn(move || deliver(hosts, path, envelope, &mut other));
            answers.push(deliver(hosts, path, envelope, &mut random));
            answers.push(second.join().unwrap());
        });
    } else {
        answers.push(deliver(hosts, &path, &envelope, &mut random));
    }
    let answered = Instant::now();
    if random.below(5) == 0 {
        answers.push(deliver(hosts, &path, &envelope, &mut random));
    }
    let call = Answered { writes, sent, answered, answers };
    told.lock().unwrap().entry(workspace).or_default().insert(key, call);
}

/// Kills and freezes hosts and the server of the queue until it is told to stop. Returns how often.
fn disturb(hosts: &[Host<'_>], nats: &Nats, is_over: &AtomicBool) -> usize {
    let mut random = Random(7);
    for times in 0.. {
        let mut pause = |(least, most): (u64, u64)| {
            thread::sleep(Duration::from_millis(least + random.below(most - least)));
        };
        pause(PAUSE_MS);
        if is_over.load(Ordering::Relaxed) {
            return times;
        }
        let host = &hosts[times * 7 % hosts.len()];
        match times % 5 {
            0 | 1 => host.kill(),
            2 => {
                host.freeze(true);
                pause(FROZEN_MS);
                host.freeze(false);
            }
            3 => nats.restart(),
            _ => {
                nats.freeze(true);
                pause(FROZEN_MS);
                nats.freeze(false);
            }
        }
    }
    0
}

#[test]
#[expect(clippy::disallowed_methods, reason = "how long to test")]
#[expect(clippy::print_stderr, reason = "the result of the campaign")]
fn hosts_that_are_killed_and_frozen_lose_nothing_and_repeat_nothing() {
    let calls = std::env::var("COFFERDAM_FLEET_CALLS").ok();
    let calls: usize = calls.map_or(CALLS, |calls| calls.parse().unwrap());
    let workspaces = (calls / CALLS_PER_WORKSPACE).clamp(1, MAX_WORKSPACES);
    let place = Place::new();
    (0..workspaces).for_each(|number| push(&place, &format!("w{number}")));
    let nats = Nats::start(&place);
    let queue = nats.options();
    let queue = queue.each_ref().map(String::as_str);
    let hosts: Vec<_> = (0..HOSTS).map(|number| Host::start(&place, number, &queue)).collect();
    let (told, next, is_over) = (Told::default(), AtomicUsize::new(0), AtomicBool::new(false));
    let begun = Instant::now();
    let faults = thread::scope(|scope| {
        let killer = scope.spawn(|| disturb(&hosts, &nats, &is_over));
        let work = || {
            loop {
                let number = next.fetch_add(1, Ordering::Relaxed);
                if number >= calls {
                    return;
                }
                client(&hosts, number, workspaces, &told);
            }
        };
        let clients: Vec<_> = (0..CLIENTS).map(|_| scope.spawn(work)).collect();
        let ended: Vec<_> = clients.into_iter().map(thread::ScopedJoinHandle::join).collect();
        is_over.store(true, Ordering::Relaxed);
        let faults = killer.join().unwrap();
        ended.into_iter().for_each(|ended| ended.unwrap());
        faults
    });
    let took = begun.elapsed();
    let (mut sum, mut answered) = (Counts::default(), 0);
    let told = told.into_inner().unwrap();
    for (workspace, calls) in &told {
        let counts = check(&place.home_file("store").join(workspace), calls);
        sum.succeeded += counts.succeeded;
        sum.failed += counts.failed;
        sum.without += counts.without;
        answered += calls.len();
    }
    assert_eq!((answered, sum.succeeded + sum.failed), (calls, calls));
    eprintln!("{calls} envelopes, {workspaces} workspaces, {faults} faults, {took:?}: {sum:?}");
    assert!(faults > 0 && sum.succeeded > sum.failed);
    hosts.into_iter().for_each(Host::stop);
}
