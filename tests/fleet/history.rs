//! The history of a workspace, read from the files of its store by other code than the host's: each commit
//! is compared with what clients were told.

use std::collections::{BTreeMap, HashMap};
use std::time::Instant;

use cofferdam_plugin::digest::Digest;
use serde_json::Value;

/// The files of a tree with their contents.
type Files = BTreeMap<String, String>;

/// A call that has ended.
pub struct Answered {
    /// What its envelope writes if it succeeds.
    pub writes: Vec<(String, String)>,
    /// When it was sent for the first time, and when the first answer arrived.
    pub sent: Instant,
    pub answered: Instant,
    /// All results that clients got.
    pub answers: Vec<String>,
}

/// What a history has.
#[derive(Debug, Default, Clone, Copy)]
pub struct Counts {
    pub succeeded: usize,
    pub failed: usize,
    /// Commits without a call: those that settled a request of which it was not known whether it had an
    /// effect.
    pub without: usize,
}

/// Reads a file of a store; `None` if there is none.
pub type Read<'a> = dyn Fn(&str) -> Option<Vec<u8>> + 'a;

/// Compares the history of a store with the answers: each call is in one commit, with the result that each
/// client got; the tree of each commit is the one before with the changes of its call; and a call that was
/// answered before another one was sent comes before it.
pub fn check(store: &Read<'_>, calls: &HashMap<String, Answered>) -> Counts {
    let mut objects = Objects { store, read: HashMap::new() };
    let (mut counts, mut files, mut parent) = (Counts::default(), None::<Files>, Value::Null);
    let mut seen = HashMap::new();
    let mut latest_sent = None;
    for number in 1.. {
        let Some(bytes) = store(&format!("commits/{number:020}")) else { break };
        let commit: Value = serde_json::from_slice(&bytes).unwrap();
        assert_eq!((&commit["number"], &commit["parent"]), (&number.into(), &parent));
        parent = digest(&bytes).into();
        let tree = objects.tree(commit["tree"]["digest"].as_str().unwrap());
        let Some(before) = files.replace(tree.clone()) else { continue };
        let Some(key) = commit["call"]["key"].as_str() else {
            assert_eq!(tree, before, "commit {number}");
            counts.without += 1;
            continue;
        };
        assert_eq!(seen.insert(key.to_owned(), number), None, "{key} is in two commits");
        let call = calls.get(key).unwrap_or_else(|| panic!("{key} was never sent"));
        let result = objects.text(commit["call"]["result"].as_str().unwrap());
        assert!(call.answers.iter().all(|answer| *answer == result), "{key}: {result}");
        let mut expected = before;
        if is_success(&result) {
            expected.extend(call.writes.iter().cloned());
            counts.succeeded += 1;
        } else {
            counts.failed += 1;
        }
        assert_eq!(tree, expected, "{key}, commit {number}: {result}");
        assert!(latest_sent.is_none_or(|latest| call.answered >= latest), "{key} is too late");
        latest_sent = latest_sent.max(Some(call.sent));
    }
    for key in calls.keys() {
        assert!(seen.contains_key(key), "{key} was answered, and is in no commit");
    }
    counts
}

/// Whether all calls of an envelope have succeeded.
pub fn is_success(result: &str) -> bool {
    let result: Value = serde_json::from_str(result).unwrap();
    match result["results"].as_array() {
        Some(results) => results.iter().all(|result| result["status"] == "executed"),
        None => result["status"] == "success",
    }
}

fn digest(bytes: &[u8]) -> String {
    Digest::of(bytes).to_string()
}

/// The objects of a store.
struct Objects<'a> {
    store: &'a Read<'a>,
    read: HashMap<String, String>,
}

impl Objects<'_> {
    /// Reads an object, and compares it with its digest.
    fn text(&mut self, name: &str) -> String {
        let read = || {
            let hex = name.strip_prefix("sha256:").unwrap();
            let path = format!("objects/sha256/{}/{}", &hex[..2], &hex[2..]);
            let bytes = (self.store)(&path).unwrap_or_else(|| panic!("{path} is missing"));
            assert_eq!(digest(&bytes), name);
            String::from_utf8(bytes).unwrap()
        };
        self.read.entry(name.to_owned()).or_insert_with(read).clone()
    }

    /// Reads a tree.
    fn tree(&mut self, root: &str) -> Files {
        let (mut files, mut waiting) = (Files::new(), vec![(String::new(), root.to_owned())]);
        while let Some((above, name)) = waiting.pop() {
            let directory: Value = serde_json::from_str(&self.text(&name)).unwrap();
            for entry in directory["entries"].as_array().unwrap() {
                let place = format!("{above}{}", entry["name"].as_str().unwrap());
                if let Some(below) = entry["digest"].as_str() {
                    waiting.push((format!("{place}/"), below.to_owned()));
                    continue;
                }
                let parts = entry["parts"].as_array().unwrap().iter();
                let content = parts.map(|part| self.text(part.as_str().unwrap())).collect();
                files.insert(place, content);
            }
        }
        files
    }
}
