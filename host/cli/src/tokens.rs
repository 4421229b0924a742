//! Counts tokens by `o200k_base`, the encoding of OpenAI's models since GPT-4o. Other vendors'
//! encodings are not public; this count is close enough for comparisons.

use std::io;

use serde_json::Value;
use tiktoken_rs::o200k_base_singleton;

use super::output::Output;
use super::{CliError, exit};

/// The encoding's name.
pub const ENCODING: &str = "o200k_base";

/// The number of tokens in `text`; special tokens are counted as plain text.
pub fn count(text: &str) -> usize {
    o200k_base_singleton().encode_ordinary(text).len()
}

/// Prints the number of tokens of each string in a JSON list on standard input.
pub fn execute(output: &Output) -> Result<u8, CliError> {
    let texts: Vec<String> = serde_json::from_reader(io::stdin().lock()).map_err(CliError::host)?;
    output.json(&texts.iter().map(|text| Value::from(count(text))).collect())?;
    Ok(exit::OK)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The expected counts come from another implementation (the crate `bpe-openai` 0.3.2).
    #[test]
    fn token_counts_equal_those_of_another_implementation() {
        for (text, tokens) in TOKENS {
            assert_eq!(count(text), tokens, "{text:?}");
        }
    }

    const TOKENS: [(&str, usize); 5] = [
        ("", 0),
        ("hello world", 2),
        ("{\"type\":\"string\",\"minLength\":1}", 10),
        ("<|endoftext|>", 7),
        ("ß — 日本語\n", 5),
    ];
}
