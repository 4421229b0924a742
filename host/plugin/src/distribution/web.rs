//! Downloads plugins from https addresses.

use super::{FetchError, Fetched};
use crate::http::{Client, Request};
use crate::registry::MAX_COMPONENT_BYTES;
use crate::signature;
use crate::source::{Address, SourceOrigin};

/// Downloads a file, and the signature beside it.
pub async fn fetch(
    client: &Client,
    address: &Address,
    origin: SourceOrigin,
) -> Result<Fetched, FetchError> {
    let bytes = get(client, address, origin, MAX_COMPONENT_BYTES).await?;
    let bytes = bytes.ok_or_else(|| FetchError::missing(address, "there is nothing (404)"))?;
    let beside = address.beside(signature::SUFFIX);
    let signature = get(client, &beside, origin, signature::MAX_SIGNATURE_BYTES).await?;
    let signature = signature.map(|text| String::from_utf8_lossy(&text).into_owned());
    Ok(Fetched { bytes, signature, manifest: None })
}

/// Downloads the content of an address; returns `None` if it does not exist.
async fn get(
    client: &Client,
    address: &Address,
    origin: SourceOrigin,
    most: u64,
) -> Result<Option<Vec<u8>>, FetchError> {
    let named = origin == SourceOrigin::User;
    let answer = client.send(Request { named, ..Request::get(address.clone()) }, most).await?;
    match answer.status.as_u16() {
        200 => Ok(Some(answer.body.into())),
        404 | 410 => Ok(None),
        _ => Err(FetchError::answer(address, format!("the host answers {}", answer.status))),
    }
}
