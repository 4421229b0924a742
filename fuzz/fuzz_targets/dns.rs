//! Any bytes are a question to the name server of a run, or none: a name that is read is plain text, and
//! the answer is one to the same question.
#![no_main]

use cofferdam_sandbox::refuse_question;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|message: &[u8]| {
    let Some((name, answer)) = refuse_question(message) else { return };
    let is_plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "-_.".contains(c);
    assert!(name.len() <= 253 && name.chars().all(is_plain), "{name:?}");
    assert!(name.split('.').all(|part| (1..=63).contains(&part.len())), "{name}");
    assert_eq!(answer[..2], message[..2]);
    assert!(answer[2] & 0x80 != 0 && answer[3] & 0xf == 3);
    assert_eq!(answer[12..], message[12..answer.len()], "another question");
    assert_eq!(refuse_question(&answer), None, "an answer is no question");
});
