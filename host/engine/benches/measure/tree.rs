//! A generated source tree to search, identical on every machine and kept between runs.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

/// A word that occurs in exactly three files.
pub const RARE_WORD: &str = "quite_unlikely_identifier";

/// The number of files in the tree.
const FILE_COUNT: usize = 16_000;

/// The numbers of the files that contain [`RARE_WORD`].
const FILES_WITH_RARE_WORD: [usize; 3] = [137, 7_919, 15_485];

const WORDS: [&str; 24] = [
    "buffer", "cursor", "engine", "filter", "handle", "index", "journal", "kernel", "limit",
    "memory", "number", "offset", "packet", "queue", "reader", "stream", "table", "update",
    "value", "worker", "load", "store", "parse", "render",
];

/// Creates the tree unless it exists. Returns its number of files.
pub fn create(folder: &Path) -> usize {
    let complete = folder.join("complete");
    if !complete.is_file() {
        let _ = fs::remove_dir_all(folder);
        let mut random = Random(0x9E37_79B9_7F4A_7C15);
        for number in 0..FILE_COUNT {
            let place = folder.join(format!("crate{}/src/module{}", number % 40, number / 40 % 20));
            fs::create_dir_all(&place).unwrap();
            fs::write(place.join(format!("file{number}.rs")), source(number, &mut random)).unwrap();
        }
        fs::write(complete, "").unwrap();
    }
    FILE_COUNT
}

/// Generates text that looks like source code, between 1 and 20 KB.
fn source(number: usize, random: &mut Random) -> String {
    let mut text = format!("//! Module {number}.\n\nuse std::collections::HashMap;\n\n");
    for function in 0..3 + random.below(50) {
        let (first, second, third) = (random.word(), random.word(), random.word());
        let _ = write!(
            text,
            "/// Returns the {second} of a {first}.\npub fn {first}_{second}(table: &HashMap<u64, u64>, {third}: u64) -> Option<u64> {{\n    \
             let {third}_value = table.get(&{third})?.wrapping_mul({});\n    \
             if {third}_value > {} {{ return None; }}\n    Some({third}_value)\n}}\n\n",
            random.below(1000),
            random.below(100_000),
        );
        if function == 1 && FILES_WITH_RARE_WORD.contains(&number) {
            let _ = writeln!(text, "// {RARE_WORD}");
        }
    }
    text
}

/// A linear congruential generator (Knuth's MMIX constants): the same sequence on every machine.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % bound
    }

    fn word(&mut self) -> &'static str {
        WORDS[self.below(WORDS.len() as u64) as usize]
    }
}
