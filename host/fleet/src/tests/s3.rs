//! Buckets of S3, Google and Azure, with a small server that may lie.

use std::collections::HashMap;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use super::Scene;
use crate::store::{Address, Service};
use crate::{FleetError, PushOptions, Pushed, clone, push};
use cofferdam_workspace::Secret;

/// What a server does.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Behaviour {
    Honest,
    /// Replaces an object that is to be created only once.
    Replaces,
    /// Fails each request.
    Fails,
    /// Answers to the creation of a commit with an error, after it was created.
    LosesAnswers,
    /// Redirects each request to itself.
    Redirects,
    /// Answers each request after 30 ms.
    Slow,
}

struct Server {
    objects: Mutex<HashMap<String, Vec<u8>>>,
    requests: Mutex<Vec<String>>,
    behaviour: Behaviour,
    /// How many requests are under way, and how many were at most.
    under_way: Mutex<(usize, usize)>,
}

/// Starts a server; returns it and its address.
fn serve(behaviour: Behaviour) -> (Arc<Server>, String) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    let (objects, requests, under_way) = <_>::default();
    let server = Arc::new(Server { objects, requests, behaviour, under_way });
    let shared = Arc::clone(&server);
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let server = Arc::clone(&shared);
            // A client that goes away ends only its connection.
            std::thread::spawn(move || drop(server.answer(stream)));
        }
    });
    (server, address)
}

impl Server {
    fn answer(&self, stream: TcpStream) -> std::io::Result<()> {
        let mut reader = BufReader::new(stream);
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            reader.read_line(&mut head)?;
        }
        let lower = head.to_lowercase();
        let header = |name: &str| {
            lower
                .lines()
                .find_map(|line| line.strip_prefix(name)?.strip_prefix(": ").map(str::to_owned))
        };
        let length = header("content-length").map_or(0, |length| length.parse().unwrap());
        let mut body = vec![0; length];
        reader.read_exact(&mut body)?;
        let mut words = head.split(' ');
        let (method, path) = (words.next().unwrap(), words.next().unwrap());
        // Google's client escapes them.
        let path = &path.replace("%2F", "/").replace("%2D", "-").replace("%2E", ".");
        self.requests.lock().unwrap().push(head.clone());
        let is_create = header("if-none-match").is_some_and(|value| value == "*")
            || header("x-goog-if-generation-match").is_some_and(|value| value == "0");
        self.count(1);
        if self.behaviour == Behaviour::Slow {
            std::thread::sleep(Duration::from_millis(30));
        }
        let (status, found) = self.decide(method, path, body, is_create);
        self.count(-1);
        let content = if method == "HEAD" { &[][..] } else { &found };
        let reply = format!(
            "HTTP/1.1 {status}\r\nContent-Length: {}\r\nETag: \"x\"\r\nLocation: {path}\r\n\
             x-goog-generation: 1\r\nLast-Modified: Sat, 28 Nov 2026 00:00:00 GMT\r\nConnection: close\r\n\r\n",
            found.len()
        );
        reader.get_mut().write_all(reply.as_bytes())?;
        reader.get_mut().write_all(content)
    }

    fn count(&self, change: isize) {
        let mut under_way = self.under_way.lock().unwrap();
        let now = under_way.0.checked_add_signed(change).unwrap();
        *under_way = (now, under_way.1.max(now));
    }

    fn decide(
        &self,
        method: &str,
        path: &str,
        body: Vec<u8>,
        is_create: bool,
    ) -> (&'static str, Vec<u8>) {
        let mut objects = self.objects.lock().unwrap();
        match (self.behaviour, method) {
            (Behaviour::Fails, _) => ("500 Internal Server Error", Vec::new()),
            (Behaviour::Redirects, _) => ("301 Moved Permanently", Vec::new()),
            (behaviour, "PUT") => {
                let exists = objects.contains_key(path);
                if exists && is_create && behaviour != Behaviour::Replaces {
                    return ("412 Precondition Failed", Vec::new());
                }
                objects.insert(path.to_owned(), body);
                if behaviour == Behaviour::LosesAnswers && path.contains("/commits/") {
                    return ("500 Internal Server Error", Vec::new());
                }
                ("200 OK", Vec::new())
            }
            _ => match objects.get(path) {
                Some(found) => ("200 OK", found.clone()),
                None => ("404 Not Found", Vec::new()),
            },
        }
    }
}

/// A scene that has credentials for a server.
fn prepared(address: &str) -> (Scene, Address) {
    let mut scene = Scene::new();
    scene.access.variables = [
        ("AWS_ACCESS_KEY_ID", "key"),
        ("AWS_SECRET_ACCESS_KEY", "secret"),
        ("AWS_ENDPOINT", address),
        ("GOOGLE_BEARER_TOKEN", "token"),
        ("GOOGLE_BASE_URL", address),
        ("AZURE_STORAGE_ACCOUNT_NAME", "account"),
        ("AZURE_STORAGE_ACCOUNT_KEY", "c2VjcmV0"),
        ("AZURE_STORAGE_ENDPOINT", address),
        ("OTHER", "ignored"),
    ]
    .map(|(name, value)| (name.to_owned(), value.to_owned()))
    .into();
    scene.make("a", &["x", "sub/y", "empty dir/z"]);
    (scene, bucket(Service::S3))
}

fn bucket(service: Service) -> Address {
    Address::Bucket { service, bucket: "bucket".to_owned(), prefix: "some/prefix".to_owned() }
}

fn push_to(scene: &Scene, address: &Address) -> Result<Pushed, FleetError> {
    let tool_of = |_: &str| None;
    let options = PushOptions { pull: false, ignored: false, message: None, tool_of: &tool_of };
    let workspace = scene.open("a");
    scene.runtime.block_on(push(&workspace, Some(address.clone()), &scene.access, options))
}

#[test]
fn a_workspace_is_pushed_and_cloned_through_a_bucket() {
    for (service, credentials) in [
        (Service::S3, "AWS4-HMAC-SHA256"),
        (Service::Google, "Bearer token"),
        (Service::Azure, "SharedKey account:"),
    ] {
        let (server, address) = serve(Behaviour::Honest);
        let (scene, _) = prepared(&address);
        assert_eq!(push_to(&scene, &bucket(service)).unwrap().number, 1);
        let names: Vec<String> = server.objects.lock().unwrap().keys().cloned().collect();
        let is_below = |name: &String| name.starts_with("/bucket/some/prefix/");
        assert!(names.iter().all(is_below), "{names:?}");
        let requests = server.requests.lock().unwrap().clone();
        assert!(requests.iter().all(|head| head.contains(credentials)), "{requests:?}");
        let directory = scene.path("b");
        let cloned = clone(bucket(service), &directory, Secret::OfProcess, &scene.access);
        scene.runtime.block_on(cloned).unwrap();
        assert_eq!(scene.tree("a"), scene.tree("b"));
    }
}

#[test]
fn a_clone_of_a_bucket_reads_several_objects_at_a_time() {
    let (server, address) = serve(Behaviour::Slow);
    let (scene, store) = prepared(&address);
    for number in 0..200 {
        scene.write("a", &format!("many/{number}"), number.to_string());
    }
    push_to(&scene, &store).unwrap();
    server.requests.lock().unwrap().clear();
    server.under_way.lock().unwrap().1 = 0;
    let directory = scene.path("b");
    let cloned = clone(store, &directory, Secret::OfProcess, &scene.access);
    let cloned = scene.runtime.block_on(cloned).unwrap();
    assert_eq!((cloned.written, cloned.fetched_objects), (203, 207));
    assert_eq!(scene.tree("a"), scene.tree("b"));
    let is_object = |head: &&String| head.contains("/objects/");
    assert_eq!(server.requests.lock().unwrap().iter().filter(is_object).count(), 207);
    let most = server.under_way.lock().unwrap().1;
    assert!((4..=crate::PARALLEL).contains(&most), "{most}");
}

#[test]
fn a_store_that_replaces_commits_is_refused() {
    for service in [Service::S3, Service::Google, Service::Azure] {
        let (server, address) = serve(Behaviour::Replaces);
        let (scene, _) = prepared(&address);
        let error = push_to(&scene, &bucket(service)).unwrap_err();
        assert!(matches!(error, FleetError::NoConditionalPut(_)), "{error:?}");
        let names: Vec<String> = server.objects.lock().unwrap().keys().cloned().collect();
        assert_eq!(names, ["/bucket/some/prefix/cofferdam-store.json"]);
    }
}

#[test]
fn a_commit_whose_answer_was_lost_counts() {
    let (server, address) = serve(Behaviour::LosesAnswers);
    let (scene, store) = prepared(&address);
    assert_eq!(push_to(&scene, &store).unwrap().number, 1);
    let objects = server.objects.lock().unwrap();
    assert_eq!(objects.keys().filter(|name| name.contains("/commits/")).count(), 1);
}

#[test]
fn a_store_that_fails_or_redirects_is_named() {
    for behaviour in [Behaviour::Fails, Behaviour::Redirects] {
        let (server, address) = serve(behaviour);
        let (scene, store) = prepared(&address);
        let before = scene.tree("a");
        let error = push_to(&scene, &store).unwrap_err();
        assert!(matches!(error, FleetError::Store(_)), "{error:?}");
        assert_eq!(scene.tree("a"), before);
        let requests = server.requests.lock().unwrap();
        assert!(
            requests
                .iter()
                .all(|head| head.starts_with("GET /bucket/some/prefix/cofferdam-store.json"))
        );
    }
}

#[test]
fn credentials_go_only_to_this_machine_without_encryption() {
    let (scene, store) = prepared("http://192.0.2.1:9000");
    let error = push_to(&scene, &store).unwrap_err();
    assert!(matches!(error, FleetError::Store(_)), "{error:?}");
    let (mut scene, store) = prepared("http://127.0.0.1:1");
    scene.access.variables.clear();
    for (store, variable) in [
        (store, "AWS_ACCESS_KEY_ID"),
        (bucket(Service::Google), "GOOGLE_SERVICE_ACCOUNT"),
        (bucket(Service::Azure), "AZURE_STORAGE_ACCOUNT_NAME"),
    ] {
        let error = push_to(&scene, &store).unwrap_err().to_string();
        assert!(error.contains(variable), "{error}");
    }
}
