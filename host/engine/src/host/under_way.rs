//! Calls under way, as a user sees them in another process, and their cancellation by that user. A call that
//! ends soon is not shown: it costs a timer.

use std::convert::Infallible;
use std::future::pending;
use std::io;
use std::pin::pin;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use tokio::sync::watch;
use tokio::time::sleep;

use super::Host;
use super::cancel::{cancelled, is_cancelled};
use super::context::RunOptions;
use super::ended::Ended;
use crate::call::Observer;
use crate::dispatch::ValidCall;
use crate::journal::{DecisionRecord, Entry, Event};
use crate::runtime::blocking;
use cofferdam_core::outcome::{Outcome, SkippedCode};
use cofferdam_text::shorten;
use cofferdam_workspace::{CallProgress, RunningCall, ShownCall, may_show_call};

/// How long a call is under way before it is shown.
const QUIET_TIME: Duration = Duration::from_millis(500);

/// How often to look whether a call was cancelled, and whether there is progress to show.
const POLL_INTERVAL: Duration = Duration::from_millis(250);

/// How much is shown of a message or a name, in bytes.
const MAX_SHOWN_BYTES: usize = 1 << 10;

/// A call under way.
pub(super) struct UnderWay {
    id: String,
    call: Mutex<RunningCall>,
    cancel: watch::Sender<bool>,
    /// Whether the run is cancelled that the call belongs to.
    of_run: Option<watch::Receiver<bool>>,
    /// The user who has cancelled the call.
    by: OnceLock<String>,
}

impl UnderWay {
    /// A call that begins now. Also returns the options to make it with: they tell of its progress, and
    /// cancel it.
    pub(super) fn new(
        host: &Host,
        call: &ValidCall,
        options: &RunOptions,
    ) -> (Arc<Self>, RunOptions) {
        let short = |name: &String| shorten(name, MAX_SHOWN_BYTES);
        let running = RunningCall {
            tool: call.tool().qualified_name().to_string(),
            session: options.session.name().to_string(),
            client: options.client_name.as_ref().map(short),
            role: options.role.as_ref().map(short),
            since: Timestamp::now(),
            has_started: false,
            progress: None,
        };
        let (cancel, cancelled) = watch::channel(is_cancelled(options.cancel.as_ref()));
        let under_way = Arc::new(Self {
            id: uuid::Uuid::now_v7().to_string(),
            call: Mutex::new(running),
            cancel,
            of_run: options.cancel.clone(),
            by: OnceLock::new(),
        });
        let next = Arc::clone(options.observer.as_ref().unwrap_or(&host.shared.observer));
        let observer = Watched { call: Arc::clone(&under_way), next };
        let options = RunOptions {
            cancel: Some(cancelled),
            observer: Some(Arc::new(observer)),
            ..options.clone()
        };
        (under_way, options)
    }

    /// Identifies the call in the journal.
    pub(super) fn id(&self) -> &str {
        &self.id
    }

    /// Shows the call, and cancels it with its run, or when a user wants that. Never ends.
    pub(super) async fn watch(&self, host: &Host) -> Infallible {
        let with_run = async {
            cancelled(self.of_run.clone()).await;
            self.cancel.send_replace(true);
            pending().await
        };
        let mut with_run = pin!(with_run);
        let mut by_user = pin!(self.show(host));
        tokio::select! {
            never = &mut with_run => never,
            never = &mut by_user => never,
        }
    }

    async fn show(&self, host: &Host) -> Infallible {
        sleep(QUIET_TIME).await;
        let (mut shown, mut last) = (None, None);
        loop {
            if shown.is_none() && !may_show_call() {
                sleep(POLL_INTERVAL).await;
                continue;
            }
            let call = self.call.lock().unwrap_or_else(PoisonError::into_inner).clone();
            let is_new = last.as_ref() != Some(&call);
            last = Some(call.clone());
            let (workspace, id) = (Arc::clone(&host.services.workspace), self.id.clone());
            let step = blocking(move || {
                let mut shown: Option<ShownCall> = shown;
                match &mut shown {
                    None => shown = workspace.show_call(&id, &call)?,
                    Some(shown) if is_new => shown.replace(&call)?,
                    Some(_) => {}
                }
                let by = shown.as_ref().map(ShownCall::cancelled_by).transpose()?.flatten();
                Ok::<_, io::Error>((shown, by))
            });
            match step.await {
                Ok((now, by)) => {
                    shown = now;
                    by.into_iter().for_each(|by| self.cancelled_by(host, &by));
                }
                Err(error) => {
                    tracing::warn!("a call under way is not shown: {error}");
                    return pending().await;
                }
            }
            sleep(POLL_INTERVAL).await;
        }
    }

    /// Cancels the call for a user, and records that once.
    fn cancelled_by(&self, host: &Host, by: &str) {
        let by = format!("the user of {}", shorten(by, MAX_SHOWN_BYTES));
        if self.by.set(by.clone()).is_err() {
            return;
        }
        let call = self.call.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let mut event = Event::decided(
            Event::CANCELLED,
            DecisionRecord {
                answer: "cancelled".to_owned(),
                approver: by,
                client: call.client,
                session: Some(call.session),
                role: call.role,
                ..DecisionRecord::default()
            },
        );
        event.tool = Some(call.tool);
        event.call = Some(self.id.clone());
        host.append(Entry::Event(event));
        self.cancel.send_replace(true);
    }

    /// Says in the result of the call that a user has cancelled it, if it has ended so.
    pub(super) fn name_user(&self, ended: &mut Ended) {
        if let (Outcome::Failed(failure), Some(by)) = (&mut ended.answer.outcome, self.by.get())
            && failure.code.as_str() == SkippedCode::Cancelled.as_str()
        {
            failure.message = format!("{by} has cancelled the call");
        }
    }
}

/// Keeps what a call has reported last.
struct Watched {
    call: Arc<UnderWay>,
    next: Arc<dyn Observer>,
}

impl Observer for Watched {
    fn started(&self) {
        self.call.call.lock().unwrap_or_else(PoisonError::into_inner).has_started = true;
        self.next.started();
    }

    fn message(&self, call: &str, level: tracing::Level, message: &str) {
        self.next.message(call, level, message);
    }

    fn progress(&self, call: &str, done: u64, total: Option<u64>, message: &str) {
        let short = shorten(message, MAX_SHOWN_BYTES);
        let progress = Some(CallProgress { done, total, message: short });
        self.call.call.lock().unwrap_or_else(PoisonError::into_inner).progress = progress;
        self.next.progress(call, done, total, message);
    }
}
