//! Sends telemetry in the background, and drops what can't be sent in time.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use hyper::{Method, header};
use serde_json::Value;
use tokio::sync::mpsc;
use tokio::time::{MissedTickBehavior, interval_at, timeout};
use tokio_util::sync::CancellationToken;

use super::metrics::Metrics;
use super::settings::{Settings, Target};
use super::{Span, encode, now};
use cofferdam_plugin::http::{Client, ClientError, Request};

/// The maximum number of spans per request.
const MAX_BATCH_SPANS: usize = 512;

/// How much of a response is read, in bytes.
const MAX_RESPONSE_BYTES: u64 = 64 << 10;

/// The background task that sends telemetry.
pub(super) struct Exporter {
    pub settings: Settings,
    pub spans: mpsc::Receiver<Span>,
    pub metrics: Arc<Metrics>,
    pub workers: usize,
    pub end: CancellationToken,
}

/// The connection state, and whether the last request of each kind failed.
struct Sender {
    client: Client,
    resource: Value,
    failed: bool,
}

impl Exporter {
    /// Sends telemetry until it is stopped, then sends the rest.
    pub(super) async fn run(mut self) {
        let start = now();
        let mut sender = Sender {
            client: Client::new(self.settings.ca_file.take())
                .through(std::mem::take(&mut self.settings.proxies)),
            resource: encode::resource(&self.settings.resource),
            failed: false,
        };
        let mut spans_due = ticks(self.settings.delay);
        let mut metrics_due = ticks(self.settings.interval);
        let mut batch = Vec::new();
        loop {
            tokio::select! {
                () = self.end.cancelled() => break,
                Some(span) = self.spans.recv() => {
                    batch.push(span);
                    if batch.len() < MAX_BATCH_SPANS {
                        continue;
                    }
                    self.send_spans(&mut sender, &mut batch).await;
                }
                _ = spans_due.tick() => self.send_spans(&mut sender, &mut batch).await,
                _ = metrics_due.tick() => self.send_metrics(&mut sender, start).await,
            }
        }
        while let Ok(span) = self.spans.try_recv() {
            batch.push(span);
        }
        self.send_spans(&mut sender, &mut batch).await;
        self.send_metrics(&mut sender, start).await;
    }

    async fn send_spans(&self, sender: &mut Sender, batch: &mut Vec<Span>) {
        let Some(target) = &self.settings.traces else { return batch.clear() };
        for spans in batch.chunks(MAX_BATCH_SPANS) {
            sender.send(target, &encode::traces(&sender.resource, spans)).await;
        }
        batch.clear();
    }

    async fn send_metrics(&self, sender: &mut Sender, start: u128) {
        let Some(target) = &self.settings.metrics else { return };
        let (workers, now) = (self.workers, now());
        let document = encode::metrics(&sender.resource, &self.metrics, workers, start, now);
        sender.send(target, &document).await;
    }
}

fn ticks(every: Duration) -> tokio::time::Interval {
    let mut ticks = interval_at(tokio::time::Instant::now() + every, every);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    ticks
}

impl Sender {
    /// Sends a document, without retries. Logs only the first of several failures in a row.
    async fn send(&mut self, target: &Target, document: &Value) {
        let mut headers = target.headers.clone();
        headers.push((header::CONTENT_TYPE, "application/json".to_owned()));
        let request = Request {
            method: Method::POST,
            address: target.address.clone(),
            headers,
            body: Bytes::from(document.to_string()),
            named: true,
        };
        // Logs only the origin of the address: the rest may contain a secret.
        let origin = &target.address.origin;
        let failed =
            match timeout(target.timeout, self.client.send(request, MAX_RESPONSE_BYTES)).await {
                Ok(Ok(answer)) if answer.status.is_success() => None,
                Ok(Ok(answer)) => Some(format!("{origin} answered {}", answer.status)),
                Ok(Err(ClientError::Unreachable(why))) => Some(why),
                Ok(Err(_)) | Err(_) => Some(format!("{origin} did not answer in time")),
            };
        let before = std::mem::replace(&mut self.failed, failed.is_some());
        match failed {
            Some(why) if !before => {
                tracing::warn!("telemetry is not taken: {why}");
            }
            None if before => tracing::warn!("telemetry is taken again by {origin}"),
            _ => {}
        }
    }
}
