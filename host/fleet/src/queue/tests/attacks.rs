//! Messages that others have made or changed.

use async_nats::HeaderMap;
use async_nats::jetstream::kv::Operation;

use super::*;
use crate::queue::calls_subject;
use crate::queue::sealed::{Kind, Place, token};

/// Publishes a message in the name of another program.
async fn publish(queue: &Queue, subject: String, message: impl Into<Bytes>) {
    queue.publish(subject, HeaderMap::new(), message.into()).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn forged_and_damaged_requests_are_dropped_and_never_worked_off() {
    let server = Server::start();
    let queue = connect(&server).await;
    let record = Arc::default();
    let (subject, here) = (calls_subject(&token("a")), token("a"));
    let other_secret = FleetSecret::new(&[7; 32]).unwrap();
    let good = request("a", "forged", 0).encode(&secret()).unwrap();
    let mut altered = good.to_vec();
    let at = altered.windows(6).position(|bytes| bytes == b"forged").unwrap();
    altered[at..at + 6].copy_from_slice(b"FORGED");
    let sealed = |content: Vec<u8>| secret().seal(Kind::Request, &here, content);
    let document = |rest: &str| {
        let request = r#""key": "forged", "workspace": "a", "body": {"milliseconds": 0}"#;
        format!("{{\"version\": 1, \"request\": {{{request}}}{rest}}}").into_bytes()
    };
    let mut messages = vec![
        Bytes::new(),
        Bytes::from_static(b"garbage"),
        vec![0; (1 << 20) - 100].into(),
        altered.into(),
        good.slice(..good.len() - 1),
        [&good[..], b"x"].concat().into(),
        request("a", "forged", 0).encode(&other_secret).unwrap(),
        // Of another workspace.
        request("b", "forged", 0).encode(&secret()).unwrap(),
        // Authentic, but for another purpose.
        secret().seal(Kind::Result, &here, document("")),
        // Authentic, but not valid.
        sealed(b"[".repeat(100_000)),
        sealed(document(", \"more\": 1")),
        sealed(document("").into_iter().map(|b| if b == b'1' { b'2' } else { b }).collect()),
        sealed(document("").repeat(2)),
    ];
    for (workspace, key) in [("a", ""), ("a", "k\n"), ("b", "key")] {
        let request = json!({ "key": key, "workspace": workspace, "body": { "milliseconds": 0 } });
        let document = json!({ "version": 1, "request": request });
        messages.push(sealed(document.to_string().into_bytes()));
    }
    for message in messages {
        publish(&queue, subject.clone(), message).await;
    }
    // Not the name of a workspace.
    publish(&queue, calls_subject("x"), "garbage").await;
    let host = Running::start(&queue, "host", Sleeper::new("host", &record), 2);
    // Hints of others do no harm.
    for hint in [&b""[..], b"\xff\xfe", &[b'a'; 100_000]] {
        queue.client.publish("cofferdam.work", Bytes::copy_from_slice(hint)).await.unwrap();
    }
    queue.submit(&request("a", "good", 0)).await.unwrap();
    assert_results(&queue, "a", ["good".to_owned()]).await;
    assert_eq!(record.lock().unwrap().runs.len(), 1);
    host.stop().await;
    assert!(queue.first_request(&here).await.unwrap().is_none());
}

#[tokio::test(flavor = "multi_thread")]
async fn forged_results_are_not_returned() {
    let server = Server::start();
    let queue = connect(&server).await;
    let record = Arc::default();
    let subject = |key: &str| {
        let place = Place::new("a", key).unwrap();
        format!("cofferdam.results.{place}")
    };
    queue.store_result(&Place::new("a", "other").unwrap(), b"result of other").await.unwrap();
    let other = queue.results.get_last_raw_message_by_subject(&subject("other")).await.unwrap();
    let place = Place::new("a", "key").unwrap().to_string();
    for forged in [
        Bytes::from_static(b"garbage"),
        Bytes::new(),
        // Of another key.
        other.payload,
        // Authentic, but not a result, or of no known kind.
        secret().seal(Kind::Request, &place, b"\0forged".to_vec()),
        secret().seal(Kind::Result, &place, Vec::new()),
        secret().seal(Kind::Result, &place, b"\x09forged".to_vec()),
    ] {
        publish(&queue, subject("key"), forged.clone()).await;
        let waiting = queue.result("a", "key", Duration::from_millis(100));
        assert_eq!(waiting.await.unwrap(), None, "{forged:?}");
        // A message that arrives while the result is waited for.
        let waiting = queue.result("a", "key", Duration::from_millis(300));
        let (found, sent) =
            tokio::join!(waiting, queue.client.publish(subject("key"), forged.clone()));
        sent.unwrap();
        assert_eq!(found.unwrap(), None, "{forged:?}");
    }
    // The request is worked off, although there is something in the place of its result.
    queue.submit(&request("a", "key", 0)).await.unwrap();
    let host = Running::start(&queue, "host", Sleeper::new("host", &record), 1);
    assert_results(&queue, "a", ["key".to_owned()]).await;
    host.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn forged_leases_keep_no_host_away() {
    let server = Server::start();
    let queue = connect(&server).await;
    let record = Arc::default();
    let of_other_workspace = secret().seal(Kind::Lease, &token("b"), b"{}".to_vec());
    let too_large = secret().seal(Kind::Lease, &token("a"), vec![b' '; 10_000]);
    for (number, forged) in
        [Bytes::from_static(b"garbage"), Bytes::new(), of_other_workspace, too_large]
            .into_iter()
            .enumerate()
    {
        let key = format!("key-{number}");
        queue.leases.put(token("a"), forged).await.unwrap();
        queue.submit(&request("a", &key, 0)).await.unwrap();
        let host = Running::start(&queue, "host", Sleeper::new("host", &record), 1);
        let begun = std::time::Instant::now();
        assert_results(&queue, "a", [key]).await;
        assert!(begun.elapsed() < Duration::from_secs(1), "{:?}", begun.elapsed());
        host.stop().await;
    }
    let lease = queue.leases.entry(token("a")).await.unwrap().unwrap();
    assert_eq!(lease.operation, Operation::Delete);
}
