//! Working requests off: order, several workspaces, several hosts, ends.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use async_nats::jetstream::kv::Operation;

use super::*;
use crate::queue::lease::LEASE_TTL;
use crate::queue::sealed::token;

fn numbered(count: usize) -> Vec<String> {
    (0..count).map(|number| format!("key-{number}")).collect()
}

async fn submit_all(queue: &Queue, workspace: &str, keys: &[String], milliseconds: u64) {
    for key in keys {
        queue.submit(&request(workspace, key, milliseconds)).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_of_a_workspace_are_worked_off_in_order_and_workspaces_in_parallel() {
    let server = Server::start();
    let queue = connect(&server).await;
    let (record, all) = (Arc::default(), numbered(20));
    let workspaces = ["a", "b", "name with spaces.*.>", "日本"];
    let host = Running::start(&queue, "host", Sleeper::new("host", &record), 4);
    for workspace in workspaces {
        submit_all(&queue, workspace, &all, 5).await;
    }
    for workspace in workspaces {
        assert_results(&queue, workspace, all.clone()).await;
        assert_eq!(keys(&record, workspace), all, "{workspace}");
    }
    host.stop().await;
    let record = record.lock().unwrap();
    assert!(!record.has_overlapped);
    assert!(record.most_running > 1, "{}", record.most_running);
}

#[tokio::test(flavor = "multi_thread")]
async fn no_more_workspaces_than_allowed_are_worked_off_at_the_same_time_and_all_have_turns() {
    let server = Server::start();
    let queue = connect(&server).await;
    let record = Arc::default();
    for number in 0..6 {
        submit_all(&queue, &format!("workspace {number}"), &numbered(3), 20).await;
    }
    let begun = Instant::now();
    let host = Running::start(&queue, "host", Sleeper::new("host", &record), 2);
    for number in 0..6 {
        assert_results(&queue, &format!("workspace {number}"), numbered(3)).await;
    }
    // Idle leases are given back for those that wait.
    assert!(begun.elapsed() < Duration::from_secs(4), "{:?}", begun.elapsed());
    host.stop().await;
    assert_eq!(record.lock().unwrap().most_running, 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_workspace_with_many_requests_does_not_keep_the_others_waiting() {
    let server = Server::start();
    let queue = connect(&server).await;
    let record = Arc::default();
    submit_all(&queue, "busy", &numbered(40), 250).await;
    let host = Running::start(&queue, "host", Sleeper::new("host", &record), 1);
    wait_until(|| !keys(&record, "busy").is_empty()).await;
    submit_all(&queue, "other", &numbered(1), 0).await;
    assert_results(&queue, "other", numbered(1)).await;
    assert!(keys(&record, "busy").len() < 40);
    host.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn two_hosts_share_the_workspaces_and_keep_the_order_of_each() {
    let server = Server::start();
    let (first, second) = (connect(&server).await, connect(&server).await);
    let record = Arc::default();
    let hosts = [
        Running::start(&first, "one", Sleeper::new("one", &record), 5),
        Running::start(&second, "two", Sleeper::new("two", &record), 5),
    ];
    let workspaces: Vec<String> = (0..10).map(|number| format!("workspace {number}")).collect();
    for workspace in &workspaces {
        submit_all(&first, workspace, &numbered(10), 10).await;
    }
    for workspace in &workspaces {
        assert_results(&second, workspace, numbered(10)).await;
        assert_eq!(keys(&record, workspace), numbered(10), "{workspace}");
    }
    for host in hosts {
        host.stop().await;
    }
    let record = record.lock().unwrap();
    assert!(!record.has_overlapped);
    let hosts: BTreeSet<_> = record.runs.iter().map(|(host, ..)| host).collect();
    assert_eq!(hosts.len(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_that_was_submitted_twice_is_worked_off_once() {
    let server = Server::start();
    let queue = connect(&server).await;
    let record = Arc::default();
    let twice = request("a", "key", 50);
    for _ in 0..3 {
        queue.submit(&twice).await.unwrap();
    }
    let host = Running::start(&queue, "host", Sleeper::new("host", &record), 1);
    assert_results(&queue, "a", ["key".to_owned()]).await;
    // As if it was submitted again after the server has forgotten the key.
    let message = twice.encode(&secret()).unwrap();
    let subject = crate::queue::calls_subject(&token("a"));
    queue.publish(subject, async_nats::HeaderMap::new(), message).await.unwrap();
    queue.submit(&request("a", "next", 0)).await.unwrap();
    // A key is one of its workspace.
    queue.submit(&request("b", "key", 0)).await.unwrap();
    assert_results(&queue, "a", ["next".to_owned()]).await;
    assert_eq!(keys(&record, "a"), ["key", "next"]);
    host.stop().await;
    let host = Running::start(&queue, "host", Sleeper::new("host", &record), 1);
    assert_results(&queue, "b", ["key".to_owned()]).await;
    host.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn at_the_end_the_request_under_way_is_finished_and_leases_are_given_back() {
    let server = Server::start();
    let queue = connect(&server).await;
    let record = Arc::default();
    submit_all(&queue, "a", &numbered(2), 500).await;
    let host = Running::start(&queue, "host", Sleeper::new("host", &record), 2);
    wait_until(|| !keys(&record, "a").is_empty()).await;
    assert!(queue.leases.entry(token("a")).await.unwrap().unwrap().operation == Operation::Put);
    host.stop().await;
    assert_eq!(keys(&record, "a"), ["key-0"]);
    let result = queue.result("a", "key-0", Duration::ZERO).await.unwrap();
    assert_eq!(result, Some(result_of("key-0")));
    let lease = queue.leases.entry(token("a")).await.unwrap().unwrap();
    assert_eq!(lease.operation, Operation::Delete);
    assert_eq!(queue.result("a", "key-1", Duration::ZERO).await.unwrap(), None);
    // The next host continues at once.
    let begun = Instant::now();
    let host = Running::start(&queue, "next", Sleeper::new("next", &record), 2);
    wait_until(|| keys(&record, "a").len() == 2).await;
    assert!(begun.elapsed() < LEASE_TTL, "{:?}", begun.elapsed());
    host.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_that_is_longer_than_a_lease_runs_once() {
    let server = Server::start();
    let queue = connect(&server).await;
    let record = Arc::default();
    queue.submit(&request("a", "long", 3 * LEASE_TTL.as_millis() as u64)).await.unwrap();
    let hosts =
        ["one", "two"].map(|name| Running::start(&queue, name, Sleeper::new(name, &record), 1));
    assert_results(&queue, "a", ["long".to_owned()]).await;
    assert_eq!(keys(&record, "a"), ["long"]);
    for host in hosts {
        host.stop().await;
    }
}

/// Fails twice, in two ways, and has then results that are too large.
struct Unsteady(AtomicUsize);

impl Worker for Unsteady {
    async fn work(&self, request: Request) -> Result<Bytes, TryLater> {
        match self.0.fetch_add(1, Ordering::SeqCst) {
            0 => Err(TryLater("the store can't be reached".to_owned())),
            1 => panic!("a fault"),
            _ if request.key == "largest" => Ok(vec![0; crate::queue::MAX_RESULT_BYTES].into()),
            _ if request.key == "large" => Ok(vec![0; crate::queue::MAX_RESULT_BYTES + 1].into()),
            _ => Ok(result_of(&request.key)),
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_that_fails_is_tried_again_and_a_large_result_is_an_error() {
    let server = Server::start();
    let queue = connect(&server).await;
    for key in ["first", "large", "largest", "last"] {
        let mut request = request("a", key, 0);
        if key == "largest" {
            let rest = request.encode(&secret()).unwrap().len();
            let body = "x".repeat(crate::queue::MAX_REQUEST_BYTES - rest);
            request.body = json!({ "milliseconds": 0, "": body });
            request.body[""] = body[..body.len() - r#","":"""#.len()].into();
            let bytes = request.encode(&secret()).unwrap().len();
            assert_eq!(bytes, crate::queue::MAX_REQUEST_BYTES);
        }
        queue.submit(&request).await.unwrap();
    }
    let host = Running::start(&queue, "host", Unsteady(AtomicUsize::new(0)), 1);
    assert_results(&queue, "a", ["first".to_owned()]).await;
    let error = queue.result("a", "large", WAIT).await.unwrap_err();
    assert!(matches!(error, QueueError::TooLarge { .. }), "{error}");
    let largest = queue.result("a", "largest", WAIT).await.unwrap().unwrap();
    assert_eq!(largest.len(), crate::queue::MAX_RESULT_BYTES);
    assert_results(&queue, "a", ["last".to_owned()]).await;
    host.stop().await;
}
