//! Cumulative metrics of the calls in this process.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use opentelemetry::KeyValue;
use opentelemetry::metrics::{Counter, Histogram, Meter, MeterProvider as _};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::error::OTelSdkResult;
use opentelemetry_sdk::metrics::data::ResourceMetrics;
use opentelemetry_sdk::metrics::reader::MetricReader;
use opentelemetry_sdk::metrics::{
    InstrumentKind, ManualReader, Pipeline, SdkMeterProvider, Temporality,
};

use super::scope;
use cofferdam_core::outcome::Status;

/// The upper bounds of the buckets of a duration, in seconds. Source: OpenTelemetry's semantic
/// conventions for MCP, `mcp.server.operation.duration`.
const DURATION_BOUNDS_SECONDS: [f64; 14] =
    [0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0];

/// The name of tools that do not exist. Source: the conventions for `error.type`, which define it
/// for values that are not distinguished.
pub(super) const OTHER_TOOL: &str = "_OTHER";

/// The metrics of a process. The library distinguishes at most 2,000 combinations of tool and outcome.
pub(super) struct Metrics {
    /// What the reader reads from, and holds only weakly.
    _provider: SdkMeterProvider,
    reader: Reader,
    durations: Histogram<f64>,
    busy: Counter<u64>,
    tenants: Tenants,
    /// The number of accepted calls that have not ended.
    held: Arc<AtomicUsize>,
}

/// What the tenants of a fleet have used.
struct Tenants {
    requests: Counter<u64>,
    seconds: Counter<f64>,
    bytes: Counter<u64>,
}

impl Tenants {
    fn new(meter: &Meter) -> Self {
        let requests = meter
            .u64_counter("cofferdam.tenant.requests")
            .with_description("Requests of a tenant, and those above its quota.")
            .with_unit("{request}");
        let seconds = meter
            .f64_counter("cofferdam.tenant.time")
            .with_description("How long the requests of a tenant took, added up.")
            .with_unit("s");
        let bytes = meter
            .u64_counter("cofferdam.tenant.io")
            .with_description("The bytes of a tenant's requests and responses.")
            .with_unit("By");
        Self { requests: requests.build(), seconds: seconds.build(), bytes: bytes.build() }
    }
}

fn tenant(name: &str) -> KeyValue {
    KeyValue::new("cofferdam.tenant", name.to_owned())
}

/// Reads the metrics when they are to be sent. The provider owns one handle, the exporter the other.
#[derive(Debug, Clone)]
struct Reader(Arc<ManualReader>);

impl MetricReader for Reader {
    fn register_pipeline(&self, pipeline: Weak<Pipeline>) {
        self.0.register_pipeline(pipeline);
    }

    fn collect(&self, metrics: &mut ResourceMetrics) -> OTelSdkResult {
        self.0.collect(metrics)
    }

    fn force_flush(&self) -> OTelSdkResult {
        self.0.force_flush()
    }

    fn shutdown_with_timeout(&self, timeout: Duration) -> OTelSdkResult {
        self.0.shutdown_with_timeout(timeout)
    }

    fn temporality(&self, kind: InstrumentKind) -> Temporality {
        self.0.temporality(kind)
    }
}

impl Metrics {
    /// Metrics of a host that runs up to `workers` calls at a time.
    pub(super) fn new(resource: Resource, workers: usize) -> Self {
        let reader = Reader(Arc::new(ManualReader::builder().build()));
        let provider =
            SdkMeterProvider::builder().with_resource(resource).with_reader(reader.clone()).build();
        let meter = provider.meter_with_scope(scope());
        let held: Arc<AtomicUsize> = Arc::default();
        let gauge =
            |name: &'static str, description: &'static str, of: fn(usize, usize) -> usize| {
                let held = Arc::clone(&held);
                meter
                    .u64_observable_gauge(name)
                    .with_description(description)
                    .with_unit("{call}")
                    .with_callback(move |gauge| {
                        gauge.observe(of(held.load(Ordering::Relaxed), workers) as u64, &[]);
                    })
                    .build();
            };
        gauge("cofferdam.calls.running", "Calls that a worker runs.", usize::min);
        gauge(
            "cofferdam.calls.waiting",
            "Calls that wait for a free worker.",
            usize::saturating_sub,
        );
        let busy = meter
            .u64_counter("cofferdam.calls.busy")
            .with_description("Calls that were not taken, since too many waited.")
            .with_unit("{call}")
            .build();
        // Is sent from the start.
        busy.add(0, &[]);
        let durations = meter
            .f64_histogram("cofferdam.call.duration")
            .with_description("How long calls took, refused ones included.")
            .with_unit("s")
            .with_boundaries(DURATION_BOUNDS_SECONDS.to_vec())
            .build();
        let tenants = Tenants::new(&meter);
        Self { _provider: provider, reader, durations, busy, tenants, held }
    }

    /// Counts a call that ended.
    pub(super) fn ended(&self, tool: &str, status: Status, seconds: f64) {
        let attributes = [
            KeyValue::new("gen_ai.tool.name", tool.to_owned()),
            KeyValue::new("cofferdam.outcome", status.as_str()),
        ];
        self.durations.record(seconds, &attributes);
    }

    pub(super) fn refused(&self) {
        self.busy.add(1, &[]);
    }

    /// Counts a request of a tenant.
    pub(super) fn tenant_request(&self, name: &str, is_refused: bool) {
        let refused = KeyValue::new("cofferdam.quota.exceeded", is_refused);
        self.tenants.requests.add(1, &[tenant(name), refused]);
    }

    /// Counts the time and the bytes of a tenant's request.
    pub(super) fn tenant_used(&self, name: &str, time: Duration, bytes: u64) {
        self.tenants.seconds.add(time.as_secs_f64(), &[tenant(name)]);
        self.tenants.bytes.add(bytes, &[tenant(name)]);
    }

    pub(super) fn hold(&self) {
        self.held.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn release(&self) {
        self.held.fetch_sub(1, Ordering::Relaxed);
    }

    /// The metrics so far; `None` if the library can't collect them.
    pub(super) fn collect(&self) -> Option<ResourceMetrics> {
        let mut metrics = ResourceMetrics::default();
        self.reader.collect(&mut metrics).ok()?;
        Some(metrics)
    }
}
