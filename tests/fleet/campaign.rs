//! Clients submit envelopes to hosts, directly and by a queue. Hosts, the store and the server of the queue
//! are killed and stopped for a while, connections between any two of them are cut, and clocks are set,
//! again and again; deliveries are repeated at random. Afterwards, the history of each workspace is compared
//! with what the clients were told.
//!
//! The full runs are `COFFERDAM_FLEET_CALLS=20000 cargo xtask test --release fleet::campaign`.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::history::{Answered, Counts, check};
use super::nats::Nats;
use super::network::{Network, Node, isolated, run};
use super::{Host, ask, copies, origin, write};
use crate::mcp::server::Request;
use crate::store::{BUCKET, S3};
use crate::support::{Ended, Place, built};

/// How many envelopes are submitted in the tests; `COFFERDAM_FLEET_CALLS` sets another number.
const CALLS_WITH_DIRECTORY: usize = 400;
const CALLS_WITH_BUCKET: usize = 60;

const HOSTS: usize = 4;
const CLIENTS: usize = 8;

/// The nodes: the clients, the hosts, the server of the queue and that of the store.
const CLIENT: usize = 0;
const QUEUE: usize = HOSTS + 1;
const STORE: usize = HOSTS + 2;

/// How many envelopes there are for a workspace, on average.
const CALLS_PER_WORKSPACE: usize = 60;
const MAX_WORKSPACES: usize = 64;

/// The shortest and longest time between two disturbances.
const PAUSE_MS: (u64, u64) = (200, 1000);

/// For how long a process is stopped, or a connection cut: more than a lease lasts, or less.
const FROZEN_MS: (u64, u64) = (200, 3000);

/// How far a clock is set, in seconds: less than the store's limit for signatures, which are refused beyond it.
const CLOCK_JUMP_SECONDS: u64 = 600;

/// How far it is set if nothing is signed: 40 days.
const LARGE_CLOCK_JUMP_SECONDS: u64 = 40 * 24 * 60 * 60;

/// The size of the file system of a store in a directory, in MiB: it is filled at times.
const DISK_MIB: u64 = 1024;

/// How long a call may take, with all repetitions.
const TIMEOUT: Duration = Duration::from_secs(180);

/// What hosts and clients know of each other.
const TOKEN: &str = "token";

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

    fn index(&mut self, count: usize) -> usize {
        usize::try_from(self.below(count as u64)).unwrap()
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

/// Where the truth is.
enum Store {
    /// A directory that all hosts see, on a disk of its own.
    Directory(PathBuf),
    S3(S3),
}

impl Store {
    fn directory(place: &Place) -> Self {
        let path = place.home_file("store");
        fs::create_dir_all(&path).unwrap();
        let options = format!("size={DISK_MIB}m");
        let mut mount = Node::local().command("/bin/mount".as_ref());
        run(mount.args(["-t", "tmpfs", "-o", &options, "none"]).arg(&path));
        Self::Directory(path)
    }

    fn address(&self) -> String {
        match self {
            Self::Directory(path) => path.to_str().unwrap().to_owned(),
            Self::S3(_) => format!("s3://{BUCKET}"),
        }
    }

    fn environment(&self) -> Vec<(&'static str, String)> {
        match self {
            Self::Directory(_) => Vec::new(),
            Self::S3(server) => server.environment().to_vec(),
        }
    }

    fn read(&self, name: &str) -> Option<Vec<u8>> {
        match self {
            Self::Directory(path) => fs::read(path.join(name)).ok(),
            Self::S3(server) => server.read(name),
        }
    }
}

impl Drop for Store {
    fn drop(&mut self) {
        if let Self::Directory(path) = self {
            run(Node::local().command("/bin/umount".as_ref()).arg("--lazy").arg(path));
        }
    }
}

/// The fleet that is disturbed.
struct Scene<'a> {
    network: &'a Network,
    store: &'a Store,
    nats: &'a Nats,
    hosts: Vec<Host<'a>>,
    /// The files with the offset of each host's clock; empty if there is no library that sets clocks.
    clocks: Vec<PathBuf>,
}

/// The library that makes a program see another time.
fn clock_library() -> Option<PathBuf> {
    let library = built().parent().unwrap().join("programs/bin/libfaketimeMT.so.1");
    library.exists().then_some(library)
}

/// The command of a host.
fn serve(
    place: &Place,
    (network, store, nats): (&Network, &Store, &Nats),
    number: usize,
    clock: &Path,
) -> Command {
    let node = &network.nodes[number + 1];
    let mut command = node.command(&built().join("cofferdam"));
    let token = place.home_file("token");
    fs::write(&token, TOKEN).unwrap();
    command
        .args(["serve", "--role", "main", "--queue-unencrypted", "--http"])
        .arg(format!("{}:8080", node.address))
        .args(nats.options())
        .args(["--store", &store.address(), "--copies"])
        .arg(copies(place, number))
        .arg("--token-file")
        .arg(token);
    place.prepare(&mut command);
    command.envs(store.environment());
    if let Some(library) = clock_library() {
        command.env("LD_PRELOAD", library).env("FAKETIME_TIMESTAMP_FILE", clock);
        // The clock that only goes forward, and the times of files, are those of the system.
        command.envs([("DONT_FAKE_MONOTONIC", "1"), ("NO_FAKE_STAT", "1")]);
        command.envs([("FAKETIME_CACHE_DURATION", "1"), ("FAKETIME_DISABLE_SHM", "1")]);
    }
    command
}

/// Delivers an envelope to a host or to the queue, until there is a result.
fn deliver(hosts: &[Host<'_>], path: &str, envelope: &str, random: &mut Random) -> String {
    let deadline = Instant::now() + TIMEOUT;
    let mut is_queued = random.below(2) == 0;
    let mut last = String::new();
    for turn in 0.. {
        let host = &hosts[random.index(hosts.len())];
        let mut request = Request::put(path, envelope);
        if is_queued {
            request = request.with("Prefer", "respond-async");
        }
        // The result of what was queued is asked for, and sometimes it is submitted again.
        if is_queued && turn % 50 > 0 {
            request = Request::get(path);
        }
        let request = request.with("Authorization", &format!("Bearer {TOKEN}")).from([0; 4].into());
        match ask(&request, host.address()) {
            Some((200, _, body)) => return body,
            Some((202 | 404, ..)) => {}
            // The queue is not there, or the store.
            Some((503, _, body)) => {
                (is_queued, last) = (is_queued && random.below(4) > 0, body);
            }
            None => is_queued = is_queued && random.below(4) > 0,
            Some((status, _, body)) => panic!("{path}: {status} {body}"),
        }
        assert!(Instant::now() < deadline, "{path} was not answered: {last}");
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

/// How often each kind of disturbance took place.
#[derive(Debug, Default)]
struct Faults {
    kills: usize,
    stops: usize,
    cuts: usize,
    clocks: usize,
    full: usize,
}

impl Faults {
    fn sum(&self) -> usize {
        self.kills + self.stops + self.cuts + self.clocks + self.full
    }
}

impl Scene<'_> {
    /// Disturbs the fleet until it is told to stop.
    fn disturb(&self, is_over: &AtomicBool) -> Faults {
        let (mut random, mut faults) = (Random(7), Faults::default());
        for turn in 0.. {
            pause(&mut random, PAUSE_MS);
            if is_over.load(Ordering::Relaxed) {
                break;
            }
            let host = random.index(HOSTS);
            match turn % 8 {
                0 | 7 => {
                    self.hosts[host].kill();
                    faults.kills += 1;
                }
                4 => {
                    stop(|is_stopped| self.hosts[host].freeze(is_stopped), &mut random);
                    faults.stops += 1;
                }
                5 if turn % 16 < 8 => {
                    self.nats.restart(&self.network.nodes[QUEUE]);
                    faults.kills += 1;
                }
                5 => {
                    stop(|is_stopped| self.nats.freeze(is_stopped), &mut random);
                    faults.stops += 1;
                }
                1 | 6 => {
                    self.cut(&mut random);
                    faults.cuts += 1;
                }
                2 => faults.clocks += usize::from(self.set_clock(host, &mut random)),
                _ => self.disturb_store(turn, &mut faults, &mut random),
            }
        }
        faults
    }

    fn disturb_store(&self, turn: usize, faults: &mut Faults, random: &mut Random) {
        match self.store {
            Store::Directory(path) => {
                let rest = path.join("rest");
                stop(
                    |is_full| if is_full { fill(&rest) } else { fs::remove_file(&rest).unwrap() },
                    random,
                );
                faults.full += 1;
            }
            Store::S3(server) if turn % 16 < 8 => {
                stop(|is_stopped| server.freeze(is_stopped), random);
                faults.stops += 1;
            }
            Store::S3(server) => {
                server.restart(&self.network.nodes[STORE]);
                faults.kills += 1;
            }
        }
    }

    /// Cuts one or two connections for a while: of a host to a client, another host, the queue or the store.
    fn cut(&self, random: &mut Random) {
        let pairs: Vec<_> = (0..=random.index(2))
            .map(|_| {
                let host = random.index(HOSTS) + 1;
                let others: Vec<_> = (CLIENT..=STORE).filter(|other| *other != host).collect();
                (host, others[random.index(others.len())])
            })
            .collect();
        let all = |is_cut| pairs.iter().for_each(|(one, two)| self.network.cut(*one, *two, is_cut));
        stop(all, random);
    }

    /// Sets a host's clock forward or back.
    fn set_clock(&self, host: usize, random: &mut Random) -> bool {
        let Some(file) = self.clocks.get(host) else { return false };
        let most = match self.store {
            Store::Directory(_) => LARGE_CLOCK_JUMP_SECONDS,
            Store::S3(_) => CLOCK_JUMP_SECONDS,
        };
        let sign = if random.below(2) == 0 { '+' } else { '-' };
        let new = file.with_extension("new");
        fs::write(&new, format!("{sign}{}", random.below(most))).unwrap();
        fs::rename(&new, file).unwrap();
        true
    }
}

fn pause(random: &mut Random, (least, most): (u64, u64)) {
    thread::sleep(Duration::from_millis(least + random.below(most - least)));
}

/// Stops something for a while.
fn stop(set: impl Fn(bool), random: &mut Random) {
    set(true);
    pause(random, FROZEN_MS);
    set(false);
}

/// Takes all space that is left.
fn fill(file: &Path) {
    let mut file = fs::File::create(file).unwrap();
    let zeros = vec![0; 1 << 20];
    while std::io::Write::write_all(&mut file, &zeros).is_ok() {}
}

/// Creates the workspaces in the store.
fn push_all(place: &Place, store: &Store, workspaces: usize) {
    for number in 0..workspaces {
        let name = format!("w{number}");
        let address = format!("{}/{name}", store.address());
        let mut command = place.command(&["workspace", "push", &address]);
        command.current_dir(origin(place, &name)).envs(store.environment());
        let ended = Ended::of(&mut command);
        assert_eq!(ended.status, 0, "{ended:?}");
    }
}

#[expect(clippy::disallowed_methods, reason = "how long to test")]
#[expect(clippy::print_stderr, reason = "the result of the campaign")]
fn campaign(place: &Place, network: &Network, store: &Store, usual: usize) {
    let calls = std::env::var("COFFERDAM_FLEET_CALLS").ok();
    let calls: usize = calls.map_or(usual, |calls| calls.parse().unwrap());
    let workspaces = (calls / CALLS_PER_WORKSPACE).clamp(1, MAX_WORKSPACES);
    push_all(place, store, workspaces);
    let nats = Nats::start(place, &network.nodes[QUEUE]);
    let clock = |number: usize| place.home_file(&format!("clock-{number}"));
    (0..HOSTS).for_each(|number| fs::write(clock(number), "+0").unwrap());
    let host = |number| {
        let nats = &nats;
        Host::of(move || serve(place, (network, store, nats), number, &clock(number)))
    };
    let hosts = (0..HOSTS).map(host).collect();
    let clocks = clock_library().iter().flat_map(|_| (0..HOSTS).map(clock)).collect();
    let scene = Scene { network, store, nats: &nats, hosts, clocks };
    let (told, next, is_over) = (Told::default(), AtomicUsize::new(0), AtomicBool::new(false));
    let begun = Instant::now();
    let faults = thread::scope(|scope| {
        let killer = scope.spawn(|| scene.disturb(&is_over));
        let work = || {
            loop {
                let number = next.fetch_add(1, Ordering::Relaxed);
                if number >= calls {
                    return;
                }
                client(&scene.hosts, number, workspaces, &told);
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
    let sum = compare(store, &told.into_inner().unwrap(), calls);
    eprintln!("{calls} envelopes, {workspaces} workspaces, {faults:?}, {took:?}: {sum:?}");
    assert!(faults.sum() > 0 && sum.succeeded > sum.failed);
    scene.hosts.into_iter().for_each(Host::stop);
}

/// Compares the histories with what clients were told.
fn compare(
    store: &Store,
    told: &HashMap<String, HashMap<String, Answered>>,
    calls: usize,
) -> Counts {
    let (mut sum, mut answered) = (Counts::default(), 0);
    for (workspace, calls) in told {
        let counts = check(&|name| store.read(&format!("{workspace}/{name}")), calls);
        sum.succeeded += counts.succeeded;
        sum.failed += counts.failed;
        sum.without += counts.without;
        answered += calls.len();
    }
    assert_eq!((answered, sum.succeeded + sum.failed), (calls, calls));
    sum
}

#[test]
fn a_fleet_with_a_directory_loses_nothing_and_repeats_nothing() {
    if !isolated("fleet::campaign::a_fleet_with_a_directory_loses_nothing_and_repeats_nothing") {
        return;
    }
    let (place, network) = (Place::new(), Network::new(STORE + 1));
    campaign(&place, &network, &Store::directory(&place), CALLS_WITH_DIRECTORY);
}

#[test]
fn a_fleet_with_a_bucket_loses_nothing_and_repeats_nothing() {
    if !isolated("fleet::campaign::a_fleet_with_a_bucket_loses_nothing_and_repeats_nothing") {
        return;
    }
    let (place, network) = (Place::new(), Network::new(STORE + 1));
    let server = S3::start(&place, &network.nodes[STORE]);
    campaign(&place, &network, &Store::S3(server), CALLS_WITH_BUCKET);
}
