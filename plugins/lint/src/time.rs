//! How long linters may take.

/// The share of a call's time, as a divisor, and the most milliseconds of it, that are kept back
/// for the answer.
const RESERVE: (u32, u32) = (10, 500);

/// The milliseconds that a linter may take: what was asked for, and no more than what is left of
/// the call `elapsed_ms` after its start. Never 0, which would mean no limit.
pub fn timeout_ms(asked_seconds: Option<u32>, deadline_ms: u32, elapsed_ms: u128) -> u32 {
    let (share, most) = RESERVE;
    let left = deadline_ms
        .saturating_sub((deadline_ms / share).min(most))
        .saturating_sub(u32::try_from(elapsed_ms).unwrap_or(u32::MAX));
    let asked = asked_seconds.map_or(u32::MAX, |seconds| seconds.saturating_mul(1000));
    asked.min(left).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn linters_end_before_the_call_does() {
        for (asked, deadline, elapsed, wanted) in [
            (None, 30_000, 0, 29_500),
            (None, 1_000, 100, 800),
            (Some(5), 30_000, 0, 5_000),
            (Some(300), 30_000, 2_000, 27_500),
            (Some(u32::MAX), 600_000, 0, 599_500),
            (None, 1_000, 5_000, 1),
        ] {
            assert_eq!(timeout_ms(asked, deadline, elapsed), wanted, "{asked:?} {deadline}");
        }
    }
}
