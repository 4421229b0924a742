//! Consent for actions that no file and no origin shows. The manifest declares their classes.

use crate::ToolError;
use crate::bindings::cofferdam::host::consent;

/// Asks whether the user consents to an action of a class of the manifest, about a key of 1 to 400 bytes. The
/// user may be asked: then the instance ends here, and the call is made again with the answer. So ask before
/// doing what can't be undone.
///
/// # Errors
/// `ConsentRefused`. The host tells the caller why.
pub fn request(class: &str, key: &str) -> Result<(), ToolError> {
    consent::request(class, key).map_err(|()| {
        ToolError::denied("ConsentRefused", format!("there is no consent for {class} '{key}'"))
    })
}
