//! Checks an index that a program wrote, by the format of gitformat-index(5).

use super::{Result, invalid, is_name};
use sha1_checked::{Digest as _, Sha1};

/// The length of the header, in bytes.
const HEADER: usize = 12;

/// The length of the checksum, in bytes.
const CHECKSUM: usize = 20;

/// The length of an entry before its name, in bytes.
const FIXED: usize = 62;

/// The flag of an entry with two more bytes of flags.
const EXTENDED: u16 = 0x4000;

/// Checks the signature, the version, the checksum, each name, and that no other file takes part.
pub(super) fn check(index: &[u8]) -> Result<()> {
    let content = index.len().checked_sub(CHECKSUM).map(|length| index.split_at(length));
    let Some((content, checksum)) = content else { return Err(invalid("the index is cut off")) };
    if Sha1::digest(content)[..] != *checksum {
        return Err(invalid("the index does not have its own checksum"));
    }
    match entries(content) {
        Some(Ok(end)) => extensions(&content[end..]),
        Some(Err(name)) => Err(invalid(format!(
            "the index has an entry that git would not accept: {}",
            cofferdam_text::shorten(&String::from_utf8_lossy(&name), 200)
        ))),
        None => Err(invalid("the index is not one of version 2, 3 or 4, or it is cut off")),
    }
}

/// Reads all entries; returns where they end, or the first invalid name.
fn entries(content: &[u8]) -> Option<std::result::Result<usize, Vec<u8>>> {
    let number = |at: usize| -> Option<u32> {
        Some(u32::from_be_bytes(content.get(at..at + 4)?.try_into().ok()?))
    };
    let (version, count) = (number(4)?, number(8)?);
    if content.get(..4)? != b"DIRC" || !matches!(version, 2..=4) {
        return None;
    }
    let mut at = HEADER;
    let mut name: Vec<u8> = Vec::new();
    for _ in 0..count {
        let flags = content.get(at + FIXED - 2..at + FIXED)?;
        let is_extended = u16::from_be_bytes(flags.try_into().ok()?) & EXTENDED != 0;
        let mut start = at + FIXED + if is_extended { 2 } else { 0 };
        if version == 4 {
            let (dropped, after) = varint(content, start)?;
            name.truncate(name.len().checked_sub(dropped)?);
            start = after;
        } else {
            name.clear();
        }
        let length = content.get(start..)?.iter().position(|byte| *byte == 0)?;
        name.extend(&content[start..start + length]);
        if !name.split(|byte| *byte == b'/').all(is_name) {
            return Some(Err(name));
        }
        let end = start + length;
        // Entries of versions 2 and 3 are filled up with 1 to 8 NULs.
        at = if version == 4 { end + 1 } else { at + ((end - at + 8) & !7) };
    }
    (at <= content.len()).then_some(Ok(at))
}

/// Reads a number of version 4; returns it and where it ends.
fn varint(content: &[u8], mut at: usize) -> Option<(usize, usize)> {
    let mut value = 0_usize;
    loop {
        let byte = *content.get(at)?;
        at += 1;
        value = value.checked_mul(128)?.checked_add(usize::from(byte & 127))?;
        if byte & 128 == 0 {
            return Some((value, at));
        }
        value = value.checked_add(1)?;
    }
}

/// Checks the extensions: git ignores unknown ones whose names begin with a capital letter.
fn extensions(mut rest: &[u8]) -> Result<()> {
    while !rest.is_empty() {
        let header = rest.split_at_checked(8).and_then(|(header, after)| {
            let length = u32::from_be_bytes(header[4..].try_into().ok()?);
            Some((&header[..4], after.get(usize::try_from(length).ok()?..)?))
        });
        let Some((name, after)) = header else {
            return Err(invalid("an extension of the index is cut off"));
        };
        if !name[0].is_ascii_uppercase() {
            return Err(invalid(format!(
                "the index has the extension '{}'; split and sparse indexes are not supported",
                name.escape_ascii()
            )));
        }
        rest = after;
    }
    Ok(())
}
