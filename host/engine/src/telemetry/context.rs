//! Which span of somebody else's a call is part of.
//!
//! Source: W3C Trace Context, level 1, <https://www.w3.org/TR/trace-context/>.

use std::str::FromStr;

/// The longest `tracestate` that is passed on, in bytes (section 3.3.1.5).
const STATE: usize = 512;

/// A span of the caller's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Parent {
    /// Its trace.
    pub(super) trace: [u8; 16],
    /// The span.
    pub(super) span: [u8; 8],
    /// Whether the caller records it. Otherwise nothing that belongs to it is recorded here.
    pub(super) sampled: bool,
    /// What tracing systems add (`tracestate`); it is passed on as it is.
    pub(super) state: Option<String>,
}

/// No `traceparent`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NoParent;

impl Parent {
    /// The same with a `tracestate`, unless that is too long or no text of that kind.
    #[must_use]
    pub fn with_state(mut self, state: Option<&str>) -> Self {
        let is_plain = |state: &&str| {
            state.len() <= STATE && state.bytes().all(|byte| (0x20..0x7f).contains(&byte))
        };
        self.state = state.filter(is_plain).map(str::to_owned);
        self
    }
}

impl FromStr for Parent {
    type Err = NoParent;

    /// Reads a `traceparent`. A later version may have more at its end.
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

/// Bytes that are written as lower-case hexadecimal digits.
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

    /// The example of section 3.2.2.
    const EXAMPLE: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

    #[test]
    fn a_parent_is_read_as_the_recommendation_says() {
        let parent: Parent = EXAMPLE.parse().unwrap();
        assert_eq!((parent.trace[0], parent.trace[15]), (0x4b, 0x36));
        assert_eq!(parent.span, [0x00, 0xf0, 0x67, 0xaa, 0x0b, 0xa9, 0x02, 0xb7]);
        assert!(parent.sampled);
        for (flags, sampled) in [("00", false), ("03", true), ("ff", true), ("fe", false)] {
            let text = EXAMPLE.replace("-01", &format!("-{flags}"));
            assert_eq!(text.parse::<Parent>().unwrap().sampled, sampled, "{flags}");
        }
        // Of a later version, what is known is read.
        let later = EXAMPLE.replacen("00", "01", 1);
        assert_eq!(later.parse(), Ok(parent.clone()));
        assert_eq!(format!("{later}-what-comes").parse(), Ok(parent));
    }

    #[test]
    fn what_is_no_parent_is_left_out() {
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
    fn a_state_is_passed_on_within_its_bounds() {
        let with = |state: &str| EXAMPLE.parse::<Parent>().unwrap().with_state(Some(state)).state;
        assert_eq!(with("rojo=1,congo=2").as_deref(), Some("rojo=1,congo=2"));
        for state in [&*"x".repeat(STATE + 1), "a\nb", "é"] {
            assert_eq!(with(state), None);
        }
    }
}
