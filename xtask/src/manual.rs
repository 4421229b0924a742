//! Checks of the manual: every link leads to a page and a heading that exist, and every test that
//! `docs/safety.md` cites exists.
#![expect(clippy::unwrap_used, reason = "tests")]

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use crate::project::{files_below, read_text};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_owned()
}

/// The pages of the manual: the Markdown files beside `Cargo.toml` and those in `docs`.
fn pages() -> Vec<PathBuf> {
    let entries = std::fs::read_dir(root()).unwrap();
    let top = entries.map(|entry| entry.unwrap().path());
    let all = top.chain(files_below(&root().join("docs")).unwrap());
    let mut pages: Vec<PathBuf> =
        all.filter(|path| path.extension().is_some_and(|end| end == "md")).collect();
    pages.sort();
    assert!(pages.len() > 20, "{pages:?}");
    pages
}

/// The lines of a page outside of code blocks.
fn prose(page: &Path) -> Vec<String> {
    let mut is_code = false;
    let text = read_text(page).unwrap();
    let lines = text.lines().filter(|line| {
        let is_fence = line.trim_start().starts_with("```");
        is_code ^= is_fence;
        !is_code && !is_fence
    });
    lines.map(str::to_owned).collect()
}

/// The anchors of a page's headings, as GitHub makes them. A repeated heading is numbered.
fn anchors(page: &Path) -> BTreeSet<String> {
    let mut anchors = BTreeSet::new();
    for line in prose(page) {
        let Some((_, heading)) =
            line.split_once("# ").filter(|(hashes, _)| hashes.chars().all(|c| c == '#'))
        else {
            continue;
        };
        let kept = heading.to_lowercase();
        let kept = kept.chars().filter(|c| c.is_alphanumeric() || "-_ ".contains(*c));
        let anchor: String = kept.map(|c| if c == ' ' { '-' } else { c }).collect();
        let numbered = (0..).map(|n| if n == 0 { anchor.clone() } else { format!("{anchor}-{n}") });
        let free = numbered.into_iter().find(|name| !anchors.contains(name));
        anchors.extend(free);
    }
    anchors
}

#[test]
fn every_link_leads_somewhere() {
    for page in pages() {
        for line in prose(&page) {
            for link in line.split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
                if link.starts_with("http") {
                    continue;
                }
                let (path, anchor) = link.split_once('#').unwrap_or((link, ""));
                let target = match path {
                    "" => page.clone(),
                    path => page.parent().unwrap().join(path),
                };
                assert!(target.exists(), "{}: no file for {link}", page.display());
                let is_found = anchor.is_empty() || anchors(&target).contains(anchor);
                assert!(is_found, "{}: no heading for {link}", page.display());
            }
        }
    }
}

/// The third column of the table of attacks names tests, modules and files, in backticks.
#[test]
fn every_test_that_the_attacks_cite_exists() {
    let mut sources = String::new();
    for place in ["fuzz/fuzz_targets", "host", "plugins", "tests"] {
        for file in files_below(&root().join(place)).unwrap() {
            if file.extension().is_some_and(|end| end == "rs") {
                sources += &read_text(&file).unwrap();
            }
        }
    }
    let rows = prose(&root().join("docs/safety.md"));
    let rows = rows.iter().skip_while(|line| !line.starts_with("| attack |"));
    let rows: Vec<&String> = rows.skip(2).take_while(|line| line.starts_with('|')).collect();
    assert!(rows.len() > 80, "{}", rows.len());
    for row in rows {
        let cited = row.trim_end_matches(" |").rsplit(" | ").next().unwrap();
        for name in cited.split('`').skip(1).step_by(2) {
            if name.contains('/') {
                let is_case = root().join("tests/cases").join(name.rsplit('/').next().unwrap());
                assert!(root().join(name).exists() || is_case.exists(), "no file {name}: {row}");
                continue;
            }
            let last = name.rsplit("::").next().unwrap();
            let is_cited = match last.strip_suffix('*') {
                Some(beginning) => sources.contains(&format!("fn {beginning}")),
                None => [format!("fn {last}("), format!("mod {last}"), format!("\"{last}\"")]
                    .iter()
                    .any(|item| sources.contains(item)),
            };
            let is_case = root().join("tests/cases").join(last).exists();
            let is_command = name.starts_with("cargo ");
            assert!(is_cited || is_case || is_command, "no test {name}: {row}");
        }
    }
}
