//! Latencies and their percentiles, in bounded memory.
//!
//! A percentile is the nearest-rank one: the smallest value that at least that many percent of
//! all values do not exceed (definition 1 of Hyndman and Fan, "Sample Quantiles in Statistical
//! Packages", 1996). It is a latency that occurred, so a threshold is met exactly or not at all.
//!
//! The number of occurrences of each value is kept. If there are too many different values, all are
//! rounded to fewer binary digits. Until then percentiles are exact; afterwards their error is at
//! most [`Figures::relative_error`]. A histogram with fixed buckets would never be exact.

use std::collections::BTreeMap;

use serde::Serialize;

/// The maximum number of different values.
const MAX_VALUES: usize = 8_192;

/// The binary digits of a number after the first one.
const MANTISSA_DIGITS: u32 = f64::MANTISSA_DIGITS - 1;

/// The binary digits after the first one that remain when values are rounded for the first time.
const FIRST_ROUNDING_DIGITS: u32 = 14;

/// Collects latencies in milliseconds.
#[derive(Debug, Clone)]
pub struct Latencies {
    /// Occurrences by value. The keys are the bits of non-negative numbers, which sort like the
    /// numbers.
    values: BTreeMap<u64, u64>,
    /// The binary digits that remain of each value.
    digits: u32,
    count: u64,
    sum: f64,
    max: f64,
}

/// Statistics of latencies in milliseconds; all of them 0 if there are no latencies.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct Figures {
    /// The mean of all latencies.
    pub avg: f64,
    /// The median (50th percentile).
    pub p50: f64,
    /// The 95th percentile of all latencies.
    pub p95: f64,
    /// The 99th percentile of all latencies.
    pub p99: f64,
    /// The longest of all latencies.
    pub max: f64,
    /// The maximum relative error of the percentiles; omitted if they are exact.
    #[serde(skip_serializing_if = "is_zero")]
    pub relative_error: f64,
}

fn is_zero(value: &f64) -> bool {
    *value == 0.0
}

impl Default for Latencies {
    fn default() -> Self {
        Self { values: BTreeMap::new(), digits: MANTISSA_DIGITS, count: 0, sum: 0.0, max: 0.0 }
    }
}

impl Latencies {
    /// Adds a latency. A negative one counts as 0.
    pub fn add(&mut self, milliseconds: f64) {
        // Not `max`: a negative zero has bits of its own.
        let value = if milliseconds > 0.0 { milliseconds } else { 0.0 };
        self.count += 1;
        self.sum += value;
        self.max = self.max.max(value);
        *self.values.entry(rounded(value.to_bits(), self.digits)).or_default() += 1;
        while self.values.len() > MAX_VALUES {
            self.digits = (self.digits - 1).min(FIRST_ROUNDING_DIGITS);
            let exact = std::mem::take(&mut self.values);
            for (bits, count) in exact {
                *self.values.entry(rounded(bits, self.digits)).or_default() += count;
            }
        }
    }

    /// The sum of all latencies.
    pub fn sum(&self) -> f64 {
        self.sum
    }

    /// The statistics of all latencies.
    pub fn figures(&self) -> Figures {
        let [p50, p95, p99] = self.percentiles([50, 95, 99]);
        let avg = if self.count == 0 { 0.0 } else { self.sum / self.count as f64 };
        // The error of repeated rounding is less than one unit of the last digit.
        let is_exact = self.digits == MANTISSA_DIGITS;
        let relative_error = if is_exact { 0.0 } else { 0.5_f64.powi(self.digits.cast_signed()) };
        Figures { avg, p50, p95, p99, max: self.max, relative_error }
    }

    /// Returns percentiles; `percents` have to be sorted.
    fn percentiles<const N: usize>(&self, percents: [u32; N]) -> [f64; N] {
        let mut values = self.values.iter();
        let (mut value, mut seen) = (0, 0);
        percents.map(|percent| {
            let rank = (u128::from(self.count) * u128::from(percent)).div_ceil(100);
            while seen < rank {
                let Some((bits, count)) = values.next() else { break };
                value = *bits;
                seen += u128::from(*count);
            }
            f64::from_bits(value).min(self.max)
        })
    }
}

/// Rounds the bits of a non-negative number to `digits` binary digits after its first one.
fn rounded(bits: u64, digits: u32) -> u64 {
    match MANTISSA_DIGITS - digits {
        0 => bits,
        dropped => (bits + (1 << (dropped - 1))) >> dropped << dropped,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A direct implementation of the definition.
    fn naive(values: &[f64], percent: u32) -> f64 {
        let mut sorted = values.to_vec();
        sorted.sort_by(f64::total_cmp);
        let enough = |value: &f64| {
            let not_above = sorted.iter().filter(|other| *other <= value).count();
            not_above * 100 >= sorted.len() * percent as usize
        };
        sorted.iter().copied().find(enough).unwrap_or_default()
    }

    fn latencies(values: &[f64]) -> Latencies {
        let mut latencies = Latencies::default();
        values.iter().for_each(|value| latencies.add(*value));
        latencies
    }

    /// A deterministic sequence of pseudo-random numbers (xorshift64).
    fn random() -> impl FnMut() -> u64 {
        let mut state = 0x9e37_79b9_7f4a_7c15_u64;
        move || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state
        }
    }

    #[test]
    fn percentiles_match_the_definition() {
        let mut random = random();
        for length in (0..120).chain([500, 1000, 1001]) {
            // Few different values in some iterations, many in others.
            let spread = [3, 50, 1_000_000][length % 3];
            let values: Vec<f64> =
                (0..length).map(|_| (random() % spread) as f64 / 1000.0).collect();
            let percents = [1, 10, 50, 90, 95, 99, 100];
            let found = latencies(&values).percentiles(percents);
            assert_eq!(found, percents.map(|percent| naive(&values, percent)), "{values:?}");
            assert_eq!(latencies(&values).figures().relative_error, 0.0);
        }
    }

    #[test]
    fn percentiles_of_few_values_are_exact() {
        let of = |values: &[f64]| {
            let Figures { avg, p50, p95, p99, max, .. } = latencies(values).figures();
            [avg, p50, p95, p99, max]
        };
        assert_eq!(of(&[]), [0.0; 5]);
        assert_eq!(of(&[7.0]), [7.0; 5]);
        // The two calls in the example of the tool schemas.
        assert_eq!(of(&[234.0, 456.0]), [345.0, 234.0, 456.0, 456.0, 456.0]);
        let hundred: Vec<f64> = (1..=100).map(f64::from).collect();
        assert_eq!(of(&hundred), [50.5, 50.0, 95.0, 99.0, 100.0]);
        assert_eq!(of(&[-0.0, 0.0, -5.0]), [0.0; 5]);
    }

    #[test]
    fn the_rounding_error_is_within_its_bound() {
        let mut random = random();
        let mut values = Vec::new();
        for _ in 0..100_000 {
            // From a microsecond to minutes, distributed evenly by order of magnitude.
            let exponent = (random() % 100_000) as f64 / 100_000.0 * 18.0 - 6.9;
            values.push(exponent.exp());
        }
        let kept = latencies(&values);
        assert!(kept.values.len() <= MAX_VALUES, "{}", kept.values.len());
        let error = kept.figures().relative_error;
        assert!(error > 0.0 && error < 0.01, "{error}");
        values.sort_by(f64::total_cmp);
        let percents = [1, 50, 95, 99, 100];
        for (percent, found) in percents.iter().zip(kept.percentiles(percents)) {
            let exact = values[(values.len() * *percent as usize).div_ceil(100) - 1];
            assert!((found - exact).abs() <= exact * error, "{percent}: {found}, exactly {exact}");
        }
        let mean = values.iter().sum::<f64>() / 100_000.0;
        assert!((kept.figures().avg - mean).abs() < 1e-6 * mean);
    }

    #[test]
    fn rounding_keeps_five_seconds() {
        let mut latencies = Latencies::default();
        (0..20_000).for_each(|n| latencies.add(f64::from(n) / 7.0));
        assert!(latencies.figures().relative_error > 0.0);
        assert_eq!(rounded(5000_f64.to_bits(), latencies.digits), 5000_f64.to_bits());
    }
}
