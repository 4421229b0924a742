//! The health of a host, computed from the results of probes by the rule of the tool schemas
//! ("Health Check"). No I/O: `cli::health` runs the probes.

use std::time::Duration;

use jiff::Timestamp;
use serde::Serialize;

use crate::journal::{HealthRecord, Verdict};

/// The latency from which on a probe counts as slow.
pub const SLOW: Duration = Duration::from_secs(3);

/// The latency above which a successful probe counts as failed.
pub const TOO_SLOW: Duration = Duration::from_secs(10);

/// The result of one probe.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Probe {
    /// What was probed, such as a plugin.
    pub probe: String,
    /// Whether it works, and fast enough.
    pub verdict: Verdict,
    /// The latency of the probe, in milliseconds.
    pub latency_ms: f64,
    /// What the probe found, or what was wrong.
    pub detail: String,
    /// Whether no tool can be called if this probe fails.
    pub essential: bool,
}

impl Probe {
    /// The result of a probe: failed if it returned an error or took more than 10 s, degraded from
    /// 3 s on, healthy otherwise.
    pub fn new(
        probe: impl Into<String>,
        essential: bool,
        latency: Duration,
        answer: Result<String, String>,
    ) -> Self {
        let verdict = match &answer {
            Err(_) => Verdict::Failed,
            Ok(_) if latency < SLOW => Verdict::Healthy,
            Ok(_) if latency <= TOO_SLOW => Verdict::Degraded,
            Ok(_) => Verdict::Failed,
        };
        let latency_ms = (latency.as_secs_f64() * 1e6).round() / 1e3;
        let detail = answer.unwrap_or_else(|error| error);
        Self { probe: probe.into(), verdict, latency_ms, detail, essential }
    }
}

/// The results of all probes.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Health {
    /// The health of the host.
    pub verdict: Verdict,
    /// The latency of the slowest probe, in milliseconds.
    pub latency_ms: f64,
    /// All probes, in the order in which they ran.
    pub probes: Vec<Probe>,
}

impl Health {
    /// Healthy if all probes are healthy; failed if all probes or an essential one failed
    /// ("complete failure"); degraded otherwise ("partial failure", or slow).
    pub fn of(probes: Vec<Probe>) -> Self {
        let failed = |probe: &Probe| probe.verdict == Verdict::Failed;
        let verdict = if probes.iter().all(failed)
            || probes.iter().any(|probe| probe.essential && failed(probe))
        {
            Verdict::Failed
        } else if probes.iter().all(|probe| probe.verdict == Verdict::Healthy) {
            Verdict::Healthy
        } else {
            Verdict::Degraded
        };
        let latency_ms = probes.iter().map(|probe| probe.latency_ms).fold(0.0, f64::max);
        Self { verdict, latency_ms, probes }
    }

    /// The record of the results for the journal.
    pub fn record(&self) -> HealthRecord {
        let failed = self.probes.iter().filter(|probe| probe.verdict == Verdict::Failed);
        HealthRecord {
            timestamp: Timestamp::now(),
            event: HealthRecord::EVENT.to_owned(),
            verdict: self.verdict,
            latency_ms: self.latency_ms,
            failed: failed.map(|probe| probe.probe.clone()).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn probe(essential: bool, milliseconds: u64, works: bool) -> Probe {
        let answer = if works { Ok("fine".to_owned()) } else { Err("broken".to_owned()) };
        Probe::new("p", essential, Duration::from_millis(milliseconds), answer)
    }

    #[test]
    fn thresholds_are_those_of_the_tool_schemas() {
        use Verdict::{Degraded, Failed, Healthy};
        for (milliseconds, works, wanted) in [
            (0, true, Healthy),
            (2_999, true, Healthy),
            (3_000, true, Degraded),
            (10_000, true, Degraded),
            (10_001, true, Failed),
            (1, false, Failed),
        ] {
            let found = probe(false, milliseconds, works).verdict;
            assert_eq!(found, wanted, "{milliseconds} ms, works: {works}");
        }
    }

    #[test]
    fn a_failed_probe_degrades_and_a_failed_essential_probe_fails() {
        use Verdict::{Degraded, Failed, Healthy};
        let (fine, slow, broken) =
            (probe(false, 1, true), probe(false, 4_000, true), probe(false, 1, false));
        let (call, no_call, slow_call) =
            (probe(true, 1, true), probe(true, 1, false), probe(true, 11_000, true));
        for (probes, wanted) in [
            (vec![call.clone(), fine.clone()], Healthy),
            (vec![call.clone(), slow], Degraded),
            (vec![call.clone(), broken.clone()], Degraded),
            (vec![no_call, fine.clone()], Failed),
            (vec![slow_call, fine], Failed),
            (vec![broken.clone(), broken], Failed),
            (vec![], Failed),
        ] {
            assert_eq!(Health::of(probes.clone()).verdict, wanted, "{probes:?}");
        }
        assert_eq!(Health::of(vec![call, probe(false, 2_500, true)]).latency_ms, 2_500.0);
    }

    #[test]
    fn the_record_names_failed_probes() {
        let health = Health::of(vec![probe(true, 1, true), probe(false, 1, false)]);
        let record = health.record();
        assert_eq!((record.verdict, record.failed), (Verdict::Degraded, vec!["p".to_owned()]));
        assert_eq!(record.event, "health_check");
    }
}
