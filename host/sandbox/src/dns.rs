//! Reads a query to a name server, and makes the response that the name does not exist: RFC 1035,
//! section 4.

/// The length of a message's header in bytes.
const HEADER_BYTES: usize = 12;

/// The longest part of a name, in bytes.
const MAX_LABEL_BYTES: usize = 63;

/// The longest name in a message, with the lengths of its parts, in bytes.
const MAX_NAME_BYTES: usize = 255;

/// Reads the first question of a message. Returns its name in lower case without a dot at the end,
/// and a message that says that no such name exists (`NXDOMAIN`); `None` if the message is no question
/// or the name has other characters than letters, digits, `-` and `_`.
pub fn refuse_question(message: &[u8]) -> Option<(String, Vec<u8>)> {
    let header = message.get(..HEADER_BYTES)?;
    let is_answer = header[2] & 0x80 != 0;
    let questions = u16::from_be_bytes([header[4], header[5]]);
    if is_answer || questions == 0 {
        return None;
    }
    let (name, length) = name(&message[HEADER_BYTES..])?;
    // The type and the class follow.
    let question = message.get(HEADER_BYTES..HEADER_BYTES + length + 4)?;
    let mut answer = Vec::with_capacity(HEADER_BYTES + question.len());
    answer.extend_from_slice(&header[..2]);
    // An answer to the same kind of question, as wanted: recursion, which is available, 3: no such name.
    answer.extend_from_slice(&[0x80 | (header[2] & 0x79), 0x83]);
    answer.extend_from_slice(&[0, 1, 0, 0, 0, 0, 0, 0]);
    answer.extend_from_slice(question);
    Some((name, answer))
}

/// Reads a name, and returns how many bytes it has in the message.
fn name(bytes: &[u8]) -> Option<(String, usize)> {
    let (mut name, mut at) = (String::new(), 0);
    loop {
        let length = usize::from(*bytes.get(at)?);
        at += 1;
        if length == 0 {
            break;
        }
        let label = bytes.get(at..at + length)?;
        at += length;
        let is_plain = |byte: &u8| byte.is_ascii_alphanumeric() || [b'-', b'_'].contains(byte);
        // A longer part would be a reference to another name, which a question needs not have.
        if length > MAX_LABEL_BYTES || at >= MAX_NAME_BYTES || !label.iter().all(is_plain) {
            return None;
        }
        if !name.is_empty() {
            name.push('.');
        }
        name.extend(label.iter().map(|byte| char::from(byte.to_ascii_lowercase())));
    }
    (!name.is_empty()).then_some((name, at))
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use super::*;

    fn question(labels: &[&[u8]]) -> Vec<u8> {
        let mut message = vec![7, 8, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0];
        for label in labels {
            message.push(label.len() as u8);
            message.extend_from_slice(label);
        }
        message.extend_from_slice(&[0, 0, 1, 0, 1]);
        message
    }

    #[test]
    fn a_question_is_answered_with_no_such_name() {
        let message = question(&[b"Registry", b"npmjs", b"org"]);
        let (name, answer) = refuse_question(&message).unwrap();
        assert_eq!(name, "registry.npmjs.org");
        assert_eq!(answer[..HEADER_BYTES], [7, 8, 0x81, 0x83, 0, 1, 0, 0, 0, 0, 0, 0]);
        assert_eq!(answer[HEADER_BYTES..], message[HEADER_BYTES..]);
        // What follows, such as options, is not in the answer.
        let more = [message, vec![0, 0, 41, 2, 0]].concat();
        assert_eq!(refuse_question(&more), Some((name, answer)));
    }

    #[test]
    fn other_messages_are_left_out() {
        let good = question(&[b"a", b"b"]);
        for length in 0..good.len() {
            assert_eq!(refuse_question(&good[..length]), None, "{length} bytes");
        }
        let changed = |at: usize, to: u8| {
            let mut message = good.clone();
            message[at] = to;
            refuse_question(&message)
        };
        assert_eq!(changed(2, 0x81), None, "an answer");
        assert_eq!(changed(5, 0), None, "no question");
        assert_eq!(changed(12, 0xc0), None, "a reference");
        assert_eq!(changed(13, b'\n'), None, "a control character");
        assert_eq!(changed(13, 0xff), None, "no ASCII");
        assert_eq!(refuse_question(&question(&[])), None, "the root");
        assert_eq!(refuse_question(&question(&[&[b'a'; 64]])), None, "a long part");
        assert!(refuse_question(&question(&[&[b'a'; 63]])).is_some());
        assert_eq!(refuse_question(&question(&[b"a"; 200].map(|a| &a[..]))), None, "a long name");
    }
}
