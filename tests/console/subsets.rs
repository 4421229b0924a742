//! Random subsets of hunks, accepted, edited and rejected by the forms of the console, against `git apply` of
//! the same hunks.

use std::collections::BTreeSet;
use std::fs;
use std::num::NonZero;
use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use serde_json::json;

use super::{Console, value_of, values};
use crate::campaign::Random;
use crate::mcp::stdio::Session;
use crate::support::Place;
use crate::trial::configure;

/// The variable with another number of subsets: `COFFERDAM_SUBSETS=10000`.
const SUBSETS_VARIABLE: &str = "COFFERDAM_SUBSETS";

/// How many subsets are compared in each run of the tests.
const SUBSETS: usize = 100;

/// After how many subsets a new workspace is begun.
const PER_WORKSPACE: usize = 100;

/// The files of each round.
const FILES: [&str; 4] = ["d 0/f\u{e9}0", "d 1/<f>1", "f2", "created"];

/// A workspace whose changes are held, its console, and a directory that git changes instead.
struct Round {
    place: Place,
    peer: Place,
    console: Console,
    session: Session,
    calls: u64,
}

impl Round {
    fn new() -> Self {
        let [place, peer] = [Place::new(), Place::new()];
        configure(&place, "hold = ['*']\n");
        let console = Console::open(&place);
        let session = Session::begun(&place, &json!({}));
        Self { place, peer, console, session, calls: 0 }
    }

    fn call(&mut self, tool: &str, arguments: &serde_json::Value) {
        self.calls += 1;
        self.session.call(self.calls, tool, arguments);
        let answer = self.session.answer(self.calls);
        assert_eq!(answer["result"]["isError"], false, "{answer}");
    }

    /// Holds random changes of random files. Returns the id of the proposal, if anything has changed.
    fn hold(&mut self, random: &mut Random) -> Option<String> {
        for path in &FILES[..3] {
            let old = any_text(random);
            self.place.write(path, &old);
            self.peer.write(path, &old);
            match random.below(8) {
                0 => self.call("files__delete_path", &json!({"path": path})),
                chance => {
                    let new = if chance == 1 { any_text(random) } else { edited(random, &old) };
                    self.call("files__write_file", &json!({"path": path, "content": new}));
                }
            }
        }
        for place in [&self.place, &self.peer] {
            let _ = fs::remove_file(place.workspace().join(FILES[3]));
        }
        self.call("files__write_file", &json!({"path": FILES[3], "content": any_text(random)}));
        let inbox = self.console.get("inbox");
        let (id, _) = values(&inbox, "chosen").first()?.split_once('.')?;
        Some(id.to_owned())
    }

    /// Decides by a form of the page of the proposal.
    fn decide(&self, id: &str, fields: &[(&str, &str)]) {
        let page = self.console.get(&format!("proposal?id={id}"));
        let seen = [("id", id), ("view", value_of(&page, "view"))];
        let (status, page) = self.console.send("decide", &[&seen, fields].concat());
        assert_eq!(status, 303, "{page}");
    }

    /// The patch of these hunks.
    fn patch(&self, id: &str, hunks: &BTreeSet<&str>) -> String {
        let hunks = hunks.iter().flat_map(|hunk| ["--hunk", hunk]);
        let args = ["review", "show", id, "--format", "text"].into_iter().chain(hunks);
        let patch = self.place.run(&args.collect::<Vec<_>>());
        assert_eq!(patch.status, 0, "{}", patch.stderr);
        patch.stdout
    }

    /// Lets git apply a patch. The counts of its lines may be wrong.
    fn apply(&self, patch: &str) {
        let file = self.peer.home_file("patch");
        fs::write(&file, patch).unwrap();
        let patch = file.to_str().unwrap();
        self.peer.with_git(&["apply", "--recount", "--whitespace=nowarn", patch]);
    }

    /// Accepts a random hunk with other added lines, if it has some and the console can edit it. Returns whether
    /// it did.
    fn edit(&self, id: &str, random: &mut Random) -> bool {
        let page = self.console.get(&format!("proposal?id={id}"));
        // Those with a link to the form.
        let mut hunks = values(&page, "hunk");
        hunks.retain(|hunk| page.contains(&format!("hunk={hunk}")));
        let Some(hunk) = hunks.get(random.below(hunks.len())) else { return false };
        self.console.get(&format!("edit?id={id}&hunk={hunk}&view={}", value_of(&page, "view")));
        let patch = self.patch(id, &[*hunk].into());
        let header = patch.find("\n@@ ").unwrap() + 1;
        let (head, lines) = patch.split_at(header + patch[header..].find('\n').unwrap() + 1);
        let other = |line: &str| match (line.strip_prefix('+'), random.below(3)) {
            (Some(line), 1) => format!("+other {line}"),
            (Some(line), 2) => format!("+one more {line}+{line}"),
            _ => line.to_owned(),
        };
        let text: String = lines.split_inclusive('\n').map(other).collect();
        if text != lines {
            self.apply(&format!("{head}{text}"));
            // A text field has its own line ends.
            let typed = text.replace("\r\n", "\n").replace('\n', "\r\n");
            self.decide(id, &[("do", "edit"), ("hunk", hunk), ("text", &typed)]);
        }
        text != lines
    }

    /// Whether something is left to decide.
    fn is_open(&self, id: &str) -> bool {
        self.console.get("inbox").contains(id)
    }

    /// Accepts a random subset of the hunks, and lets git apply it.
    fn subset(&self, id: &str, random: &mut Random) {
        let page = self.console.get(&format!("proposal?id={id}"));
        let all = values(&page, "hunk");
        let (chosen, others): (BTreeSet<&str>, BTreeSet<&str>) =
            all.iter().partition(|_| random.below(2) == 0);
        if !chosen.is_empty() {
            self.apply(&self.patch(id, &chosen));
        }
        let each = |name: &'static str, hunks: &BTreeSet<&str>| -> Vec<(&str, String)> {
            hunks.iter().map(|hunk| (name, (*hunk).to_owned())).collect()
        };
        let decide = |verdict: &'static str, hunks: Vec<(&str, String)>| {
            let mut fields = vec![("do", verdict)];
            fields.extend(hunks.iter().map(|(name, hunk)| (*name, hunk.as_str())));
            self.decide(id, &fields);
        };
        match random.below(3) {
            _ if chosen.is_empty() => decide("reject-all", Vec::new()),
            _ if others.is_empty() => decide("accept-all", Vec::new()),
            0 => decide("accept-chosen", each("hunk", &chosen)),
            1 => decide("marked", [each("accept", &chosen), each("reject", &others)].concat()),
            _ => {
                decide("reject-chosen", each("hunk", &others));
                decide("accept-all", Vec::new());
            }
        }
    }

    /// Rejects what is left, so that the next round begins with nothing.
    fn close(&self, id: &str) {
        if self.is_open(id) {
            self.decide(id, &[("do", "reject-all")]);
        }
    }
}

#[test]
#[expect(clippy::disallowed_methods, clippy::print_stderr, reason = "the number of subsets")]
fn random_subsets_leave_what_git_apply_leaves() {
    let subsets = std::env::var(SUBSETS_VARIABLE).map_or(SUBSETS, |count| count.parse().unwrap());
    let [next, compared, edits] = [0, 0, 0].map(AtomicUsize::new);
    let work = || loop {
        let begin = next.fetch_add(PER_WORKSPACE, Ordering::Relaxed);
        if begin >= subsets {
            return;
        }
        let (count, edited) = compare(begin..subsets.min(begin + PER_WORKSPACE));
        edits.fetch_add(edited, Ordering::Relaxed);
        let so_far = compared.fetch_add(count, Ordering::Relaxed) + count;
        eprintln!("{so_far} random subsets have left what git apply leaves");
    };
    let workers = thread::available_parallelism().map_or(1, NonZero::get);
    thread::scope(|scope| (0..workers).for_each(|_| drop(scope.spawn(work))));
    let compared = compared.into_inner();
    assert!(compared * 10 >= subsets * 9, "{compared}");
    let edits = edits.into_inner();
    assert!(edits * 10 >= subsets, "{edits}");
}

/// Compares the subsets of these seeds. Returns how many of them have changed anything, and how many with an
/// edited hunk.
fn compare(seeds: Range<usize>) -> (usize, usize) {
    let (mut round, mut compared, mut edits) = (Round::new(), 0, 0);
    for seed in seeds {
        let mut random = Random::new(seed);
        let Some(id) = round.hold(&mut random) else { continue };
        if random.below(2) == 0 && round.edit(&id, &mut random) {
            edits += 1;
        }
        if round.is_open(&id) {
            round.subset(&id, &mut random);
        }
        for path in FILES {
            let of = |place: &Place| fs::read(place.workspace().join(path)).ok();
            assert_eq!(of(&round.place), of(&round.peer), "seed {seed}: {path}");
        }
        round.close(&id);
        compared += 1;
    }
    round.session.close();
    (compared, edits)
}

/// Few different lines, so that a hunk fits in several places.
fn any_line(random: &mut Random) -> String {
    let end = if random.below(9) == 0 { "\r\n" } else { "\n" };
    format!("{}{end}", ["a", "b", "", " x", "-- a/f", "@@ -1 +1 @@"][random.below(6)])
}

fn any_text(random: &mut Random) -> String {
    let mut text: String = (0..1 + random.below(60)).map(|_| any_line(random)).collect();
    if random.below(4) == 0 {
        text.pop();
    }
    text
}

/// The text with some lines removed, replaced and added.
fn edited(random: &mut Random, text: &str) -> String {
    let mut edited = String::new();
    for line in text.split_inclusive('\n') {
        match random.below(12) {
            0 => {}
            1 => edited.push_str(&any_line(random)),
            2 => edited.extend([line.to_owned(), any_line(random)]),
            _ => edited.push_str(line),
        }
    }
    edited
}
