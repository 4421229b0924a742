//! Asks components of ACT for the list of their tools. The instance is granted nothing, and has the limits of
//! a call.

use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;

use super::Host;
use crate::call::{Quiet, Stop};
use crate::capability::CallContext;
use crate::dispatch;
use crate::runtime::{CallRequest, LoadError, blocking};
use cofferdam_core::policy::Capabilities;
use cofferdam_plugin::typed::act::ToolList;
use cofferdam_plugin::typed::{self, Beside, TypedError};
use cofferdam_workspace::fair_queue::Client;

/// How long a component may take to list its tools.
const LIST_TIME: Duration = Duration::from_secs(10);

/// The largest list that is looked at, in bytes of JSON. What is pinned is smaller.
const MAX_LIST_BYTES: usize = 1 << 20;

/// Why a component of ACT has no list of tools.
#[derive(Debug, thiserror::Error)]
pub enum ToolListError {
    /// It has a manifest, or typed functions.
    #[error("it is no component of ACT")]
    NotAct,
    /// What it declares or its list can't be used.
    #[error(transparent)]
    Typed(#[from] TypedError),
    /// It can't be loaded.
    #[error(transparent)]
    Load(#[from] LoadError),
    /// It returned an error, crashed or exceeded a limit.
    #[error("the component of ACT does not list its tools: {0}")]
    Failed(String),
}

impl Host {
    /// Asks a component of ACT for its tools; returns the text of the list, to be kept beside the component.
    /// `called` is the name of its file or repository. No setting of this host applies, except its limits.
    ///
    /// # Errors
    /// See [`ToolListError`].
    pub fn tool_list<'a>(
        &'a self,
        component: &'a [u8],
        called: &'a str,
    ) -> BoxFuture<'a, Result<String, ToolListError>> {
        self.asked_for_tools(component, called).boxed()
    }

    async fn asked_for_tools(
        &self,
        component: &[u8],
        called: &str,
    ) -> Result<String, ToolListError> {
        let manifest = match typed::derive(component, called, &Beside::default()) {
            Err(TypedError::Unlisted(manifest)) => *manifest,
            Err(error) => return Err(error.into()),
            Ok(_) => return Err(ToolListError::NotAct),
        };
        let (runtime, bytes) = (Arc::clone(&self.runtime), component.to_vec());
        let prepare = move || runtime.prepare_unlisted(&bytes, &manifest, &|| false);
        let prepared = blocking(prepare).await?;
        let context = Arc::new(self.sealed());
        let limits = context.limits.clone();
        let request = CallRequest {
            tool: String::new(),
            args: String::new(),
            client: Client::default(),
            context,
        };
        let failed = |stop: &Stop| dispatch::stop_failure(stop, &limits).message;
        let answer = match self.shared.workers.run(prepared, request).await {
            Ok(Ok(answer)) => answer,
            Ok(Err(error)) => return Err(ToolListError::Failed(error.message)),
            Err(stop) => return Err(ToolListError::Failed(failed(&stop))),
        };
        let answer = serde_json::from_str(&answer)
            .map_err(|error| ToolListError::Failed(error.to_string()))?;
        Ok(ToolList::new(component, answer)?.to_text()?)
    }

    /// The context of a call that is granted nothing.
    fn sealed(&self) -> CallContext {
        let mut limits = self.policy.limits().clone();
        limits.call = limits.call.min(LIST_TIME);
        limits.output = limits.output.min(MAX_LIST_BYTES);
        self.without_a_call(limits, Capabilities::NONE, Arc::new(Quiet))
    }
}
