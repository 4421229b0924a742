//! Hosts and servers that are killed, leases that are taken away, and servers that refuse.

use std::time::Instant;

use tempfile::tempdir;
use tokio_rustls::rustls::{ClientConfig, RootCertStore};

use super::*;
use crate::queue::QueueCredentials;
use crate::queue::lease::LEASE_TTL;
use crate::queue::sealed::{Kind, token};

#[tokio::test(flavor = "multi_thread")]
async fn the_workspace_of_a_killed_host_is_taken_over() {
    let server = Server::start();
    let (first, second) = (connect(&server).await, connect(&server).await);
    let mut times = Vec::new();
    for round in 0..5 {
        let (record, workspace) = (Arc::default(), format!("workspace {round}"));
        let killed = Running::start(&first, "killed", Sleeper::new("killed", &record), 1);
        first.submit(&request(&workspace, "key", 60_000)).await.unwrap();
        wait_until(|| !keys(&record, &workspace).is_empty()).await;
        let other = Running::start(&second, "other", Sleeper::new("other", &record), 1);
        sleep(Duration::from_millis(500 + 70 * round)).await;
        drop(killed);
        let begun = Instant::now();
        wait_until(|| keys(&record, &workspace).len() == 2).await;
        times.push(begun.elapsed());
        drop(other);
        first.calls.purge().await.unwrap();
    }
    // A request that is submitted after the holder was killed, which had nothing to do.
    let record = Arc::default();
    let killed = Running::start(&first, "killed", Sleeper::new("killed", &record), 1);
    first.submit(&request("idle", "key", 0)).await.unwrap();
    assert_results(&first, "idle", ["key".to_owned()]).await;
    let other = Running::start(&second, "other", Sleeper::new("other", &record), 1);
    drop(killed);
    let begun = Instant::now();
    first.submit(&request("idle", "next", 0)).await.unwrap();
    assert_results(&first, "idle", ["next".to_owned()]).await;
    times.push(begun.elapsed());
    other.stop().await;
    eprintln!("takeover after {times:?}");
    let longest = times.into_iter().max().unwrap();
    // At most 1.5 seconds on an idle machine.
    assert!(longest < Duration::from_secs(4), "{longest:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_that_was_stored_is_lost_if_the_server_is_killed() {
    let mut server = Server::start();
    let queue = connect(&server).await;
    let record = Arc::default();
    let all: Vec<String> = (0..50).map(|number| format!("key-{number}")).collect();
    for key in &all {
        queue.submit(&request("a", key, 30)).await.unwrap();
    }
    server.kill();
    wait_until(|| !queue.is_connected()).await;
    let error = queue.submit(&request("a", "late", 0)).await.unwrap_err();
    assert!(matches!(error, QueueError::Unreachable(_)), "{error}");
    let error = queue.result("a", "key-0", Duration::ZERO).await.unwrap_err();
    assert!(matches!(error, QueueError::Unreachable(_)), "{error}");
    // A host waits for the server.
    let host = Running::start(&queue, "host", Sleeper::new("host", &record), 1);
    sleep(Duration::from_millis(300)).await;
    server.restart();
    wait_until(|| keys(&record, "a").len() > 10).await;
    server.kill();
    sleep(Duration::from_millis(300)).await;
    server.restart();
    assert_results(&queue, "a", all.clone()).await;
    let worked: BTreeSet<String> = keys(&record, "a").into_iter().collect();
    assert!(all.iter().all(|key| worked.contains(key)));
    host.stop().await;
    // Results stay readable.
    server.kill();
    server.restart();
    let queue = connect(&server).await;
    assert_results(&queue, "a", all).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_lost_if_the_server_does_not_respond_for_some_time() {
    let server = Server::start();
    let (first, second) = (connect(&server).await, connect(&server).await);
    let record = Arc::default();
    let all: Vec<String> = (0..20).map(|number| format!("key-{number}")).collect();
    for key in &all {
        first.submit(&request("a", key, 100)).await.unwrap();
    }
    let hosts = [
        Running::start(&first, "one", Sleeper::new("one", &record), 1),
        Running::start(&second, "two", Sleeper::new("two", &record), 1),
    ];
    wait_until(|| keys(&record, "a").len() > 3).await;
    server.freeze(true);
    let begun = Instant::now();
    let error = first.submit(&request("a", "late", 0)).await.unwrap_err();
    assert!(matches!(error, QueueError::Unreachable(_)), "{error}");
    // No host starts a request after its lease has ended.
    let before = keys(&record, "a").len();
    sleep((2 * LEASE_TTL).saturating_sub(begun.elapsed())).await;
    assert!(keys(&record, "a").len() <= before + 1);
    server.freeze(false);
    assert_results(&first, "a", all).await;
    // The error did not say that the request was not stored.
    first.submit(&request("a", "late", 0)).await.unwrap();
    assert_results(&second, "a", ["late".to_owned()]).await;
    for host in hosts {
        host.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_host_ends_without_a_server() {
    let mut server = Server::start();
    let queue = connect(&server).await;
    let record = Arc::default();
    queue.submit(&request("a", "key", 500)).await.unwrap();
    let host = Running::start(&queue, "host", Sleeper::new("host", &record), 1);
    wait_until(|| !keys(&record, "a").is_empty()).await;
    server.kill();
    host.stop().await;
    // The request is still there for the next host.
    server.restart();
    let queue = connect(&server).await;
    let host = Running::start(&queue, "next", Sleeper::new("next", &record), 1);
    assert_results(&queue, "a", ["key".to_owned()]).await;
    host.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_has_lost_its_files_is_set_up_again() {
    let mut server = Server::start();
    let queue = connect(&server).await;
    let record = Arc::default();
    let host = Running::start(&queue, "host", Sleeper::new("host", &record), 1);
    server.kill();
    std::fs::remove_dir_all(server.files().join("jetstream")).unwrap();
    server.restart();
    let submitted = async {
        while queue.submit(&request("a", "key", 0)).await.is_err() {
            sleep(Duration::from_millis(50)).await;
        }
    };
    timeout(WAIT, submitted).await.unwrap();
    assert_results(&queue, "a", ["key".to_owned()]).await;
    host.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_host_whose_lease_was_taken_away_ends_its_call_and_no_more() {
    let server = Server::start();
    let queue = connect(&server).await;
    let record = Arc::default();
    for key in ["first", "second"] {
        queue.submit(&request("a", key, 1000)).await.unwrap();
    }
    let host = Running::start(&queue, "host", Sleeper::new("host", &record), 1);
    wait_until(|| !keys(&record, "a").is_empty()).await;
    let other = secret().seal(Kind::Lease, &token("a"), b"another host".to_vec());
    let taken = Instant::now();
    // The holder may renew it at the same time.
    while queue.leases.entry(token("a")).await.unwrap().unwrap().value != other {
        queue.leases.put(token("a"), other.clone()).await.unwrap();
    }
    assert_results(&queue, "a", ["first".to_owned()]).await;
    wait_until(|| keys(&record, "a").len() == 2).await;
    // The other holder never renews, so the lease was free after some time.
    assert!(taken.elapsed() >= LEASE_TTL, "{:?}", taken.elapsed());
    assert_results(&queue, "a", ["second".to_owned()]).await;
    host.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn two_holders_at_the_same_time_lead_to_one_result() {
    let server = Server::start();
    let queue = connect(&server).await;
    let record = Arc::default();
    queue.submit(&request("a", "key", 1000)).await.unwrap();
    let one = Running::start(&queue, "one", Sleeper::new("one", &record), 1);
    wait_until(|| !keys(&record, "a").is_empty()).await;
    // As if the lease had ended by a clock that jumps.
    queue.leases.purge(token("a")).await.unwrap();
    let two = Running::start(&queue, "two", Sleeper::new("two", &record), 1);
    wait_until(|| keys(&record, "a").len() == 2).await;
    assert_results(&queue, "a", ["key".to_owned()]).await;
    queue.submit(&request("a", "next", 0)).await.unwrap();
    assert_results(&queue, "a", ["next".to_owned()]).await;
    for host in [one, two] {
        host.stop().await;
    }
    assert_eq!(queue.first_request(&token("a")).await.unwrap().map(|found| found.sequence), None);
}

#[tokio::test(flavor = "multi_thread")]
async fn credentials_are_checked() {
    let place = tempdir().unwrap();
    let files = place.path().to_str().unwrap().to_owned();
    let options = ["--jetstream", "--store_dir", &files, "--user", "ada", "--pass", "secret"];
    let server = Server::with(place, options.map(str::to_owned).to_vec());
    let password = |password: &str| QueueCredentials::Password {
        user: "ada".to_owned(),
        password: password.to_owned(),
    };
    for (credentials, is_right) in [
        (password("secret"), true),
        (password("other"), false),
        (QueueCredentials::None, false),
        (QueueCredentials::Token("secret".to_owned()), false),
    ] {
        let options = QueueOptions { credentials, ..QueueOptions::default() };
        match Queue::connect(&server.address(), secret(), options).await {
            Ok(queue) => assert!(is_right && queue.is_connected()),
            Err(error) => assert!(matches!(error, QueueError::Refused(_)) && !is_right, "{error}"),
        }
    }
    let credentials = QueueCredentials::File("no credentials".to_owned());
    let options = QueueOptions { credentials, ..QueueOptions::default() };
    let error = Queue::connect(&server.address(), secret(), options).await.unwrap_err();
    assert!(matches!(error, QueueError::Credentials(_)), "{error}");
    let error = Queue::connect("nats://127.0.0.1:1", secret(), QueueOptions::default()).await;
    assert!(matches!(error, Err(QueueError::Unreachable(_))), "{error:?}");
}

/// A server does not say whether it will start JetStream; that an account may not use it is permanent.
#[tokio::test(flavor = "multi_thread")]
async fn jetstream_may_be_started_later_but_not_for_an_account_without_it() {
    let mut server = Server::with(tempdir().unwrap(), Vec::new());
    let error = Queue::connect(&server.address(), secret(), QueueOptions::default()).await;
    let error = error.unwrap_err();
    assert!(matches!(error, QueueError::NoJetStream(_)) && error.may_pass(), "{error}");
    assert!(error.to_string().contains("store_dir"), "{error}");
    server.kill();
    let files = server.files().to_str().unwrap().to_owned();
    server.restart_with(["--jetstream", "--store_dir", &files].map(str::to_owned).to_vec());
    connect(&server).await;

    let place = tempdir().unwrap();
    let configuration = place.path().join("nats.conf");
    let text = format!(
        r#"jetstream {{ store_dir: "{}" }}
        accounts {{
            with {{ jetstream: enabled, users: [{{ user: ada, password: secret }}] }}
            without {{ users: [{{ user: bob, password: secret }}] }}
        }}"#,
        place.path().display()
    );
    std::fs::write(&configuration, text).unwrap();
    let options = ["--config".to_owned(), configuration.to_str().unwrap().to_owned()];
    let server = Server::with(place, options.to_vec());
    let connect_as = async |user: &str| {
        let (user, password) = (user.to_owned(), "secret".to_owned());
        let credentials = QueueCredentials::Password { user, password };
        let options = QueueOptions { credentials, ..QueueOptions::default() };
        Queue::connect(&server.address(), secret(), options).await
    };
    connect_as("ada").await.unwrap();
    let error = connect_as("bob").await.unwrap_err();
    assert!(matches!(error, QueueError::Refused(_)) && !error.may_pass(), "{error}");
    assert!(error.to_string().contains("jetstream: enabled"), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn connections_are_encrypted_and_certificates_checked() {
    let place = tempdir().unwrap();
    let made = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
    let [certificate, key] = ["certificate.pem", "key.pem"].map(|name| place.path().join(name));
    std::fs::write(&certificate, made.cert.pem()).unwrap();
    std::fs::write(&key, made.signing_key.serialize_pem()).unwrap();
    let files = place.path().to_str().unwrap().to_owned();
    let certificate = certificate.to_str().unwrap().to_owned();
    let key = key.to_str().unwrap().to_owned();
    let options = ["--jetstream", "--store_dir", &files, "--tls", "--tlscert", &certificate];
    let options = [&options[..], &["--tlskey", &key]].concat();
    let server = Server::with(place, options.into_iter().map(str::to_owned).collect());
    let address = format!("tls://localhost:{}", server.port());
    let mut roots = RootCertStore::empty();
    roots.add(made.cert.der().clone()).unwrap();
    let tls = ClientConfig::builder().with_root_certificates(roots).with_no_client_auth();
    let options = QueueOptions { tls: Some(Arc::new(tls)), ..QueueOptions::default() };
    let queue = Queue::connect(&address, secret(), options).await.unwrap();
    queue.submit(&request("a", "key", 0)).await.unwrap();
    let error = Queue::connect(&address, secret(), QueueOptions::default()).await.unwrap_err();
    assert!(matches!(error, QueueError::Unreachable(_)), "{error}");
    // A server without TLS is not used without it.
    let plain = Server::start();
    let address = plain.address().replace("nats://", "tls://");
    let error = Queue::connect(&address, secret(), QueueOptions::default()).await.unwrap_err();
    assert!(matches!(error, QueueError::Unreachable(_)), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn names_sizes_and_numbers_are_limited() {
    let server = Server::start();
    let queue = connect(&server).await;
    let long = "k".repeat(257);
    for (workspace, key) in
        [("", "key"), ("a\n", "key"), ("a", ""), ("a", "k y"), ("a", "ü"), ("a", &long)]
    {
        let is_right = |error: &QueueError| match error {
            QueueError::Name { .. } => workspace != "a",
            QueueError::Key(_) => workspace == "a",
            _ => false,
        };
        let error = queue.submit(&request(workspace, key, 0)).await.unwrap_err();
        assert!(is_right(&error), "{error}");
        let error = queue.result(workspace, key, Duration::ZERO).await.unwrap_err();
        assert!(is_right(&error), "{error}");
    }
    let mut large = request("a", "large", 0);
    large.body = "x".repeat(crate::queue::MAX_REQUEST_BYTES - 500).into();
    queue.submit(&large).await.unwrap();
    large.key = "too-large".to_owned();
    large.body = "x".repeat(crate::queue::MAX_REQUEST_BYTES).into();
    let error = queue.submit(&large).await.unwrap_err();
    assert!(matches!(error, QueueError::TooLarge { .. }), "{error}");
    for number in 1..crate::queue::MAX_WAITING_REQUESTS {
        queue.submit(&request("a", &number.to_string(), 0)).await.unwrap();
    }
    let error = queue.submit(&request("a", "one-too-many", 0)).await.unwrap_err();
    assert!(matches!(error, QueueError::Full(_)), "{error}");
    queue.submit(&request("b", "in-another-workspace", 0)).await.unwrap();
    let (_, stop) = watch::channel(false);
    let worker = Sleeper::new("", &Arc::default());
    assert!(matches!(queue.serve("", worker, 1, stop).await, Err(QueueError::Name { .. })));
    for secret in [&b"short"[..], &[b'x'; 5000]] {
        assert!(matches!(FleetSecret::new(secret), Err(QueueError::Secret { .. })));
    }
}

#[tokio::test]
async fn an_address_names_servers_and_nothing_else() {
    for address in [
        "",
        "127.0.0.1",
        "http://127.0.0.1:4222",
        "nats://",
        "nats://ada:secret@127.0.0.1:4222",
        "nats://127.0.0.1:4222/path",
        "nats://127.0.0.1:4222?query",
        "nats://127.0.0.1:4222,",
        &"nats://127.0.0.1:4222,".repeat(20),
        &format!("nats://{}", "x".repeat(5000)),
    ] {
        let error = Queue::connect(address, secret(), QueueOptions::default()).await.unwrap_err();
        assert!(matches!(error, QueueError::Address { .. }), "{address}: {error}");
        assert!(!error.to_string().contains("secret"), "{error}");
    }
}
