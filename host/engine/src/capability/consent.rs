//! `cofferdam:host/consent`: whether a plugin may do something that no file and no origin shows. The rules
//! and the answers of the user decide ([`ConsentGuard`](crate::call::ConsentGuard)); this module ends the
//! instance if the user has to be asked.

use wasmtime::{Result, Trap};

use super::bindings::cofferdam::host::consent::Host;
use super::state::CallState;
use crate::call::{ConsentAnswer, Stop};
use cofferdam_core::outcome::SkippedCode;

impl Host for CallState {
    fn request(&mut self, class: String, key: String) -> Result<std::result::Result<(), ()>> {
        let context = &self.context;
        let grant = &context.permissions.grant;
        let redacted = |text: &str| context.redacted(text);
        let remembered = context.session.consents();
        match context.consents.decide(grant, remembered, (&class, &key), redacted) {
            ConsentAnswer::Yes => Ok(Ok(())),
            ConsentAnswer::No => Ok(Err(())),
            ConsentAnswer::Asked => {
                let why = "a person has to say yes first".to_owned();
                context.control.note(Stop::Ended(SkippedCode::ApprovalPending.into(), why));
                Err(Trap::Interrupt.into())
            }
        }
    }
}
