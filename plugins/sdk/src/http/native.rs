//! Requests in a native build: nothing is sent.

use super::{Error, Parts, Request, Response};

pub(super) fn send(_: &Request, _: &Parts<'_>) -> Result<Response, Error> {
    Err(Error::Setup("nothing is sent without a host".to_owned()))
}
