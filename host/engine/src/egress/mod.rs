//! The network of programs: a proxy for each run, through which a program reaches the origins that it
//! is granted and nothing else.
//!
//! The program is in a network namespace without routes and names; the one thing in it besides the
//! program's own sockets is a listening socket, whose other end is here. The proxy takes `CONNECT` and
//! plain requests, decides about each ([`NetworkRules`]), counts what goes through, and adds
//! credentials. TLS passes with a server name that was compared, or ends here, with an authority that
//! exists for this run only. All connections end with the run.
//!
//! It leaves out what an origin does with a request.

mod account;
mod authority;
mod body;
mod forward;
mod guard;
mod hello;
mod proxy;
mod secrets;
mod tunnel;
mod variables;

use std::io;
use std::net::TcpListener;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use tokio::sync::oneshot;

use crate::call::CallUsage;
use account::Account;
use cofferdam_core::policy::{NetworkRules, Origin};
use cofferdam_plugin::http::Connector;
use guard::Guard;

pub(crate) use authority::Authority;
pub(crate) use secrets::{Secrets, forms};
pub(crate) use variables::{OFFLINE_VARIABLES, variables};

/// How many different refusals are kept for the result.
const MAX_REFUSALS: usize = 16;

/// What a run may reach, and with which secrets.
pub(crate) struct Plan {
    /// The rules of the program.
    pub(crate) rules: NetworkRules,
    /// The authority of the run, which the program trusts.
    pub(crate) authority: Authority,
    /// Secrets that the proxy adds and the program must not see.
    pub(crate) secrets: Secrets,
    /// Values that the program knows and must not send.
    pub(crate) guarded: Vec<String>,
    /// Collects the origins that requests were sent to.
    pub(crate) usage: Arc<CallUsage>,
}

/// The proxy of one run. Dropping it closes all its connections.
pub(crate) struct Egress {
    shared: Arc<Shared>,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<thread::JoinHandle<()>>,
}

/// What all connections of a run share.
struct Shared {
    rules: NetworkRules,
    authority: Authority,
    secrets: Secrets,
    guard: Guard,
    usage: Arc<CallUsage>,
    account: Account,
    connector: Connector,
    refusals: Mutex<Vec<Refusal>>,
}

/// A connection or a request that was not allowed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Refusal {
    /// The origin, if it is one.
    pub(crate) origin: Option<Origin>,
    /// The reason, for the user.
    pub(crate) why: String,
}

impl Egress {
    /// Serves a listening socket on a thread of its own.
    ///
    /// # Errors
    /// Returns an error if there are no more threads or descriptors.
    pub(crate) fn start(listener: TcpListener, plan: Plan) -> io::Result<Self> {
        let Plan { rules, authority, secrets, guarded, usage } = plan;
        let shared = Arc::new(Shared {
            account: Account::new(&rules),
            guard: Guard::new(&guarded),
            rules,
            authority,
            secrets,
            usage,
            connector: Connector::default(),
            refusals: Mutex::default(),
        });
        listener.set_nonblocking(true)?;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let (stop, stopped) = oneshot::channel();
        let served = Arc::clone(&shared);
        let thread =
            thread::Builder::new().name("cofferdam-egress".to_owned()).spawn(move || {
                let _ = runtime.block_on(async {
                    tokio::select! {
                        served = proxy::serve(listener, served) => served,
                        _ = stopped => Ok(()),
                    }
                });
                // Connections of tasks that still run are closed.
                runtime.shutdown_background();
            })?;
        Ok(Self { shared, stop: Some(stop), thread: Some(thread) })
    }

    /// What was refused, each once, in the order of the first times.
    pub(crate) fn refusals(&self) -> Vec<Refusal> {
        self.shared.refusals.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Drop for Egress {
    fn drop(&mut self) {
        self.stop = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Shared {
    /// Remembers a refusal for the result.
    fn refuse(&self, origin: Option<&Origin>, why: String) {
        let refusal = Refusal { origin: origin.cloned(), why };
        let mut refusals = self.refusals.lock().unwrap_or_else(PoisonError::into_inner);
        if refusals.len() < MAX_REFUSALS && !refusals.contains(&refusal) {
            refusals.push(refusal);
        }
    }
}

#[cfg(test)]
mod tests;
