use cofferdam_edit::patch::{ApplyPatch, apply_patch, parse};
use std::time::Instant;
#[test]
fn perf() {
    let d = tempfile::tempdir().unwrap();
    let ctx = cofferdam_sdk::Context::for_directory(d.path());
    let n = 1_000_000;
    std::fs::write(d.path().join("x"), "a\n".repeat(5_000_000)).unwrap();
    let cases: Vec<(&str, String)> = vec![
        (
            "one hunk add",
            format!("--- /dev/null\n+++ b/new\n@@ -0,0 +1,5000000 @@\n{}", "+\n".repeat(5_000_000)),
        ),
        (
            "wrong counts blank",
            format!("--- a/x\n+++ b/x\n@@ -1,9999999 +1,9999999 @@\n{}", "\n".repeat(10_000_000)),
        ),
        (
            "many small bad hunks",
            format!(
                "--- a/x\n+++ b/x\n{}",
                (0..400_000)
                    .map(|i| format!("@@ -{0},9 +{0},9 @@\n-b\n+c\n", i * 2 + 1))
                    .collect::<String>()
            ),
        ),
        (
            "many good hunks",
            format!(
                "--- a/x\n+++ b/x\n{}",
                (0..400_000)
                    .map(|i| format!("@@ -{0} +{0} @@\n-a\n+c\n", i * 2 + 1))
                    .collect::<String>()
            ),
        ),
        (
            "long pattern",
            format!("--- a/x\n+++ b/x\n@@ -1,2000001 +1,0 @@\n{}-b\n", "-a\n".repeat(2_000_000)),
        ),
        ("many plain headers", "--- a/x\n+++ b/x\n@@ -1,99 +1,99 @@\n-a\n+b\n".repeat(n / 5)),
        (
            "signatures",
            format!("--- a/x\n+++ b/x\n@@ -1,99 +1,99 @@\n-a\n{}", "-- \n".repeat(2 * n)),
        ),
        (
            "blank hunks",
            format!("--- a/x\n+++ b/x\n{}", "@@ -1 +1 @@\n-a\n+b\n\n\n\n\n\n\n\n".repeat(n / 3)),
        ),
        ("diff git junk", "diff --git \n".repeat(n)),
        (
            "one long line",
            format!("--- a/x\n+++ b/x\n@@ -1 +1 @@\n-{}\n+b\n", "z".repeat(10_000_000)),
        ),
    ];
    for (name, patch) in cases {
        let t = Instant::now();
        let r = parse(patch.as_bytes())
            .map(|p| p.files.len())
            .map_err(|e| e.to_string().chars().take(100).collect::<String>());
        let tp = t.elapsed();
        let t = Instant::now();
        let a = apply_patch(&ApplyPatch { patch: patch.clone() }, &ctx)
            .map(|p| p.output.output.len())
            .map_err(|e| e.message.chars().take(160).collect::<String>());
        println!(
            "{name}: {} MB parse {tp:?} {r:?}; apply {:?} {a:?}",
            patch.len() / 1_000_000,
            t.elapsed()
        );
    }
}
// fuzz
#[test]
fn fuzz() {
    let seeds = [
        "diff --git a/x b/x\nold mode 100644\nnew mode 100755\nindex 1..2\n--- a/x\n+++ b/x\n@@ -1,3 +1,3 @@ f\n a\n-b\n+c\n d\n\\ No newline at end of file\n@@ -9 +9,2 @@\n-a\n+b\n+c\n-- \n2.3\n\n",
        "--- /dev/null\n+++ \"b/\\303\\244\"\t2024\n@@ -0,0 +1 @@\n+a\n--- a/x\r\n+++ /dev/null\r\n@@ -1 +0,0 @@\r\n-a\r\n",
        "diff --git a/x b/y\nsimilarity index 90%\nrename from x\nrename to y\n--- a/x\n+++ b/y\n@@ -1,7 +1,7 @@\n-a\n+b\n\ndiff --git \"a/q\" \"b/q\"\ndeleted file mode 100644\n",
    ];
    let d = tempfile::tempdir().unwrap();
    let ctx = cofferdam_sdk::Context::for_directory(d.path());
    std::fs::write(d.path().join("x"), "a\nb\nd").unwrap();
    let mut s = 88172645463325252u64;
    let mut r = |n: usize| {
        s ^= s << 13;
        s ^= s >> 7;
        s ^= s << 17;
        (s % n.max(1) as u64) as usize
    };
    let secs = std::env::var("FUZZ").ok().and_then(|v| v.parse().ok()).unwrap_or(5);
    let t = Instant::now();
    let (mut n, mut ok, mut applied) = (0u64, 0u64, 0u64);
    while t.elapsed().as_secs() < secs {
        let mut v: Vec<u8> = seeds[r(3)].as_bytes().to_vec();
        for _ in 0..1 + r(6) {
            match r(6) {
                0 => {
                    let i = r(v.len());
                    if !v.is_empty() {
                        v.remove(i);
                    }
                }
                1 => {
                    let i = r(v.len() + 1);
                    let b = b"\n\r +-\\@\"/0159,adbx\t\xff\0";
                    let c = b[r(b.len())];
                    v.insert(i, c);
                }
                2 => {
                    let i = r(v.len() + 1);
                    v.truncate(i);
                }
                3 | 4 => {
                    let mut l: Vec<Vec<u8>> =
                        v.split_inclusive(|b| *b == b'\n').map(|l| l.to_vec()).collect();
                    if l.is_empty() {
                        continue;
                    }
                    let (a, b) = (r(l.len()), r(l.len()));
                    match r(3) {
                        0 => {
                            l.swap(a, b);
                        }
                        1 => {
                            l.remove(a);
                        }
                        _ => {
                            let x = l[a].clone();
                            l.insert(b, x);
                        }
                    }
                    v = l.concat();
                }
                _ => {
                    let o = seeds[r(3)].as_bytes();
                    let i = r(v.len() + 1);
                    let j = r(o.len());
                    let k = j + r(o.len() - j);
                    v.splice(i..i, o[j..k].iter().copied());
                }
            }
        }
        n += 1;
        if parse(&v).is_ok() {
            ok += 1;
        }
        if let Ok(p) = String::from_utf8(v) {
            if apply_patch(&ApplyPatch { patch: p }, &ctx).is_ok() {
                applied += 1;
            }
        }
    }
    println!("{n} runs, {ok} parsed, {applied} applied");
}
