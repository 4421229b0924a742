//! The trace context of a caller, which the span of a call belongs to.
//!
//! Source: W3C Trace Context, level 1, <https://www.w3.org/TR/trace-context/>.

use std::str::FromStr;

/// The maximum length of a `tracestate` that is passed on, in bytes (section 3.3.1.5).
const MAX_STATE_BYTES: usize = 512;

/// The caller's span, of which a call is a part.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Parent {
    /// The id of the trace.
    pub(super) trace: [u8; 16],
    /// The id of the caller's span.
    pub(super) span: [u8; 8],
    /// Whether the caller records the trace. Otherwise spans that belong to it are not recorded
    /// here.
    pub(super) sampled: bool,
    /// The vendor-specific `tracestate`, passed on unchanged.
    pub(super) state: Option<String>,
}

/// The error that a text is not a valid `traceparent`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NoParent;

impl Parent {
    /// Adds a `tracestate`, unless it is too long or not valid.
    #[must_use]
    pub fn with_state(mut self, state: Option<&str>) -> Self {
        let is_plain = |state: &&str| {
            state.len() <= MAX_STATE_BYTES && state.bytes().all(|byte| (0x20..0x7f).contains(&byte))
        };
        self.state = state.filter(is_plain).map(str::to_owned);
        self
    }
}

impl FromStr for Parent {
    type Err = NoParent;

    /// Parses a `traceparent`. Later versions may have additional fields at the end.
    fn from_str(text: &str) -> Result<Self, NoParent> {
        let parts: Vec<&str> = text.split('-').collect();
        let [version, trace, span, flags, rest @ ..] = parts.as_slice() else {
            return Err(NoParent);
        };
        let [version] = hex::<1>(version)?;
        if version == 0xff || (version == 0 && !rest.is_empty()) {
            return Err(NoParent);
        }
        let (trace, span, [flags]) = (hex(trace)?, hex(span)?, hex::<1>(flags)?);
        if trace == [0; 16] || span == [0; 8] {
            return Err(NoParent);
        }
        Ok(Self { trace, span, sampled: flags & 1 == 1, state: None })
    }
}

/// Parses lower-case hexadecimal digits.
fn hex<const N: usize>(text: &str) -> Result<[u8; N], NoParent> {
    let digit = |digit: u8| match digit {
        b'0'..=b'9' => Ok(digit - b'0'),
        b'a'..=b'f' => Ok(digit - b'a' + 10),
        _ => Err(NoParent),
    };
    if text.len() != 2 * N {
        return Err(NoParent);
    }
    let mut bytes = [0; N];
    for (byte, pair) in bytes.iter_mut().zip(text.as_bytes().chunks_exact(2)) {
        *byte = digit(pair[0])? << 4 | digit(pair[1])?;
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use super::*;

    /// The example in section 3.2.2.
    const EXAMPLE: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

    #[test]
    fn traceparent_is_parsed_by_the_specification() {
        let parent: Parent = EXAMPLE.parse().unwrap();
        assert_eq!((parent.trace[0], parent.trace[15]), (0x4b, 0x36));
        assert_eq!(parent.span, [0x00, 0xf0, 0x67, 0xaa, 0x0b, 0xa9, 0x02, 0xb7]);
        assert!(parent.sampled);
        for (flags, sampled) in [("00", false), ("03", true), ("ff", true), ("fe", false)] {
            let text = EXAMPLE.replace("-01", &format!("-{flags}"));
            assert_eq!(text.parse::<Parent>().unwrap().sampled, sampled, "{flags}");
        }
        // The known fields of later versions are parsed.
        let later = EXAMPLE.replacen("00", "01", 1);
        assert_eq!(later.parse(), Ok(parent.clone()));
        assert_eq!(format!("{later}-what-comes").parse(), Ok(parent));
    }

    #[test]
    fn invalid_traceparents_are_rejected() {
        for text in [
            String::new(),
            "-".to_owned(),
            EXAMPLE.to_uppercase(),
            EXAMPLE.replacen("00", "ff", 1),
            EXAMPLE.replace("4bf92f3577b34da6a3ce929d0e0e4736", &"0".repeat(32)),
            EXAMPLE.replace("00f067aa0ba902b7", &"0".repeat(16)),
            EXAMPLE.replace('b', "g"),
            EXAMPLE.replace('-', "_"),
            format!("{EXAMPLE}-more"),
            format!("{EXAMPLE} "),
            EXAMPLE[1..].to_owned(),
            EXAMPLE[..EXAMPLE.len() - 1].to_owned(),
            "00-é".to_owned(),
        ] {
            assert_eq!(text.parse::<Parent>(), Err(NoParent), "{text}");
        }
    }

    #[test]
    fn tracestate_is_limited() {
        let with = |state: &str| EXAMPLE.parse::<Parent>().unwrap().with_state(Some(state)).state;
        assert_eq!(with("rojo=1,congo=2").as_deref(), Some("rojo=1,congo=2"));
        for state in [&*"x".repeat(MAX_STATE_BYTES + 1), "a\nb", "é"] {
            assert_eq!(with(state), None);
        }
    }
}
