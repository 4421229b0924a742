//! Sends telemetry in the background with OpenTelemetry's own exporters, and drops what can't be sent
//! in time.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use hyper::{Method, Response, header};
use opentelemetry_http::{HttpClient, HttpError};
use opentelemetry_otlp::{
    ExporterBuildError, MetricExporter, RetryPolicy, SpanExporter, WithExportConfig, WithHttpConfig,
};
use opentelemetry_sdk::metrics::exporter::PushMetricExporter as _;
use opentelemetry_sdk::trace::{SpanData, SpanExporter as _};
use tokio::sync::{Notify, mpsc};
use tokio::time::{MissedTickBehavior, interval_at, timeout};
use tokio_util::sync::CancellationToken;

use super::metrics::Metrics;
use super::settings::{Settings, Target};
use cofferdam_core::policy::Origin;
use cofferdam_plugin::http::{Client, ClientError, Request};

/// The maximum number of spans per request.
const MAX_BATCH_SPANS: usize = 512;

/// How much of a response is read, in bytes.
const MAX_RESPONSE_BYTES: u64 = 64 << 10;

/// How often a request is repeated, and the longest pause before it: enough for a collector that
/// restarts, within the timeout of a request (10 s unless the user sets another one).
const MAX_RETRIES: usize = 8;
const MAX_RETRY_DELAY: Duration = Duration::from_secs(2);

/// The background task that sends telemetry.
pub(super) struct Exporter {
    spans: mpsc::Receiver<SpanData>,
    metrics: Arc<Metrics>,
    end: CancellationToken,
    link: Arc<Link>,
    span_exporter: Option<SpanExporter>,
    metric_exporter: Option<MetricExporter>,
    delay: Duration,
    interval: Duration,
}

/// The user's client, and whether the last request failed.
struct Link {
    client: Client,
    failed: AtomicBool,
    /// Tells of each request that fails.
    failure: Notify,
}

/// The user's client for one target, as OpenTelemetry's exporters use it.
struct Sender {
    link: Arc<Link>,
    target: Target,
}

impl Exporter {
    /// Prepares to send the spans that come in `spans`, and the metrics.
    ///
    /// # Errors
    /// If the library refuses a setting.
    pub(super) fn new(
        settings: Settings,
        spans: mpsc::Receiver<SpanData>,
        metrics: Arc<Metrics>,
        end: CancellationToken,
    ) -> Result<Self, ExporterBuildError> {
        let link = Arc::new(Link {
            client: Client::new(settings.ca_file).through(settings.proxies),
            failed: AtomicBool::new(false),
            failure: Notify::new(),
        });
        let span_exporter = settings.traces.map(|target| {
            let exporter = configured(SpanExporter::builder().with_http(), target, &link).build();
            exporter.map(|mut exporter| {
                exporter.set_resource(&settings.resource);
                exporter
            })
        });
        let metric_exporter = settings
            .metrics
            .map(|target| configured(MetricExporter::builder().with_http(), target, &link).build());
        Ok(Self {
            spans,
            metrics,
            end,
            link,
            span_exporter: span_exporter.transpose()?,
            metric_exporter: metric_exporter.transpose()?,
            delay: settings.delay,
            interval: settings.interval,
        })
    }

    /// Sends telemetry until it is stopped, then sends the rest, without retries.
    pub(super) async fn run(mut self) {
        let mut spans_due = ticks(self.delay);
        let mut metrics_due = ticks(self.interval);
        let mut batch = Vec::new();
        loop {
            tokio::select! {
                () = self.end.cancelled() => break,
                Some(span) = self.spans.recv() => {
                    batch.push(span);
                    if batch.len() < MAX_BATCH_SPANS {
                        continue;
                    }
                    self.send_spans(&mut batch).await;
                }
                _ = spans_due.tick() => self.send_spans(&mut batch).await,
                _ = metrics_due.tick() => self.send_metrics().await,
            }
        }
        while let Ok(span) = self.spans.try_recv() {
            batch.push(span);
        }
        tokio::select! {
            biased;
            () = self.link.failure.notified() => {}
            () = async {
                self.send_spans(&mut batch).await;
                self.send_metrics().await;
            } => {}
        }
    }

    async fn send_spans(&self, batch: &mut Vec<SpanData>) {
        let Some(exporter) = &self.span_exporter else { return batch.clear() };
        while !batch.is_empty() {
            let rest = batch.split_off(batch.len().min(MAX_BATCH_SPANS));
            // A failure was logged by the sender.
            let _ = exporter.export(std::mem::replace(batch, rest)).await;
        }
    }

    async fn send_metrics(&self) {
        if let (Some(exporter), Some(metrics)) = (&self.metric_exporter, self.metrics.collect()) {
            // A failure was logged by the sender.
            let _ = exporter.export(&metrics).await;
        }
    }
}

/// Configures an exporter of OpenTelemetry for a target.
fn configured<B: WithExportConfig + WithHttpConfig>(
    builder: B,
    target: Target,
    link: &Arc<Link>,
) -> B {
    let retries =
        RetryPolicy::recommended().with_max_retries(MAX_RETRIES).with_max_delay(MAX_RETRY_DELAY);
    let builder = builder
        .with_endpoint(target.address.to_string())
        .with_protocol(target.protocol)
        .with_timeout(target.timeout)
        .with_retry_policy(retries);
    let builder = match target.compression {
        Some(compression) => builder.with_compression(compression),
        None => builder,
    };
    builder.with_http_client(Sender { link: Arc::clone(link), target })
}

fn ticks(every: Duration) -> tokio::time::Interval {
    let mut ticks = interval_at(tokio::time::Instant::now() + every, every);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    ticks
}

impl Link {
    /// Logs the first of several failures in a row, and the first success after them.
    fn report(&self, origin: &Origin, failure: Option<&str>) {
        let before = self.failed.swap(failure.is_some(), Ordering::Relaxed);
        match failure {
            Some(why) if !before => tracing::warn!("telemetry is not taken: {why}"),
            None if before => tracing::warn!("telemetry is taken again by {origin}"),
            _ => {}
        }
        if failure.is_some() {
            self.failure.notify_waiters();
        }
    }
}

impl fmt::Debug for Sender {
    /// Shows only the origin of the address: the rest may contain a secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Sender({})", self.target.address.origin)
    }
}

#[async_trait]
impl HttpClient for Sender {
    async fn send_bytes(
        &self,
        request: hyper::Request<Bytes>,
    ) -> Result<Response<Bytes>, HttpError> {
        let (head, body) = request.into_parts();
        // Other headers of the request are those of the environment, which the target has already.
        let own = [header::CONTENT_TYPE, header::CONTENT_ENCODING].into_iter().filter_map(|name| {
            let value = head.headers.get(&name)?.to_str().ok()?.to_owned();
            Some((name, value))
        });
        let Target { address, headers, timeout: limit, .. } = &self.target;
        let request = Request {
            method: Method::POST,
            address: address.clone(),
            headers: headers.iter().cloned().chain(own).collect(),
            body,
            named: true,
            follows: true,
        };
        let origin = &address.origin;
        let answer = timeout(*limit, self.link.client.send(request, MAX_RESPONSE_BYTES)).await;
        let failure = match &answer {
            Ok(Ok(answer)) if answer.status.is_success() => None,
            Ok(Ok(answer)) => Some(format!("{origin} answered {}", answer.status)),
            Ok(Err(ClientError::Unreachable(why))) => Some(why.clone()),
            Ok(Err(_)) | Err(_) => Some(format!("{origin} did not answer in time")),
        };
        self.link.report(origin, failure.as_deref());
        let Ok(Ok(answer)) = answer else { return Err(failure.unwrap_or_default().into()) };
        let mut response = Response::builder().status(answer.status);
        if let Some(wait) = answer.headers.get(header::RETRY_AFTER) {
            response = response.header(header::RETRY_AFTER, wait);
        }
        Ok(response.body(answer.body)?)
    }
}
