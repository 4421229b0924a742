//! Content of an answer that is not JSON, such as an image or a recording: an object that the output
//! schema of its tool marks, with a media type and bytes in base64. Only MCP has such content; elsewhere an
//! answer says what it is.

use serde_json::{Map, Value};

use crate::schema::CONTENT;

/// The value of the mark of content whose bytes stay in the answer where there is no such content.
pub const KEPT: &str = "kept";

/// The most parts of one answer, and the size of all together in base64, in bytes. What is more is left
/// out.
const MAX_PARTS: usize = 32;
const MAX_BYTES: usize = 8 << 20;

/// The names of the field with the media type: ours, and in the form of WIT.
const TYPE_FIELDS: [&str; 2] = ["mime_type", "mime-type"];

/// The images that clients of models show.
const IMAGES: [&str; 4] = ["image/gif", "image/jpeg", "image/png", "image/webp"];

/// What a client can do with content.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MediaKind {
    /// Show it: a PNG, JPEG, GIF or WebP image.
    Image,
    /// Play it: audio of any type.
    Audio,
    /// Keep it as a file.
    Other,
}

/// Content of an answer that is not JSON.
#[derive(Debug, PartialEq, Eq)]
pub struct Media {
    /// The media type, such as `image/png`.
    pub mime_type: String,
    /// The bytes in base64.
    pub data: String,
}

/// The parts of an answer.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Parts {
    /// Those that fit.
    pub parts: Vec<Media>,
    /// How many were left out, since there were too many or they were too large.
    pub left_out: usize,
}

impl Media {
    /// What a client can do with it.
    pub fn kind(&self) -> MediaKind {
        match self.mime_type.as_str() {
            image if IMAGES.contains(&image) => MediaKind::Image,
            audio if audio.starts_with("audio/") => MediaKind::Audio,
            _ => MediaKind::Other,
        }
    }
}

/// Takes the bytes of marked content out of an answer, which still describes it. The answer itself can be
/// marked, a property of it, and the items of a list that is one of these. Anything else, and what is no
/// content with a media type and base64, is left where it is.
pub fn take_parts(schema: &Value, answer: &mut Value) -> Parts {
    let mut taken = Parts::default();
    take(schema, answer, &mut taken, |_| true);
    taken
}

/// Removes the bytes of marked content from an answer for which there is no such content.
pub fn drop_parts(schema: &Value, answer: &mut Value) {
    take(schema, answer, &mut Parts::default(), |mark| mark != KEPT);
}

fn take(schema: &Value, answer: &mut Value, taken: &mut Parts, is_meant: impl Fn(&Value) -> bool) {
    let is_marked = |schema: &Value| match &schema[CONTENT] {
        Value::Null | Value::Bool(false) => false,
        mark => is_meant(mark),
    };
    let mut of_place = |schema: &Value, place: &mut Value| match place {
        Value::Object(fields) if is_marked(schema) => taken.take(fields),
        Value::Array(items) if is_marked(&schema["items"]) => {
            items.iter_mut().filter_map(Value::as_object_mut).for_each(|item| taken.take(item));
        }
        _ => {}
    };
    of_place(schema, answer);
    let (Some(properties), Some(fields)) =
        (schema["properties"].as_object(), answer.as_object_mut())
    else {
        return;
    };
    for (name, property) in properties {
        if let Some(field) = fields.get_mut(name) {
            of_place(property, field);
        }
    }
}

impl Parts {
    fn take(&mut self, fields: &mut Map<String, Value>) {
        let mime_type = TYPE_FIELDS.iter().find_map(|name| fields.get(*name)?.as_str());
        let data = fields.get("data").and_then(Value::as_str);
        let (Some(mime_type), Some(data)) = (mime_type, data) else { return };
        if !is_media_type(mime_type) || !is_base64(data) {
            return;
        }
        let mime_type = mime_type.to_ascii_lowercase();
        let Some(Value::String(data)) = fields.shift_remove("data") else { return };
        let size: usize = self.parts.iter().map(|media| media.data.len()).sum();
        if self.parts.len() < MAX_PARTS && size + data.len() <= MAX_BYTES {
            self.parts.push(Media { mime_type, data });
        } else {
            self.left_out += 1;
        }
    }
}

/// Whether a text is a media type without parameters (RFC 6838, section 4.2).
fn is_media_type(text: &str) -> bool {
    let is_name = |name: &str| {
        let is_plain = |b: u8| b.is_ascii_alphanumeric() || b"!#$&-^_.+".contains(&b);
        (1..=127).contains(&name.len()) && name.bytes().all(is_plain)
    };
    text.split_once('/').is_some_and(|(kind, name)| is_name(kind) && is_name(name))
}

/// Whether a text is base64 with padding (RFC 4648, section 4).
fn is_base64(text: &str) -> bool {
    let bytes = text.trim_end_matches('=');
    let is_digit = |byte: u8| byte.is_ascii_alphanumeric() || b"+/".contains(&byte);
    text.len().is_multiple_of(4) && text.len() - bytes.len() <= 2 && bytes.bytes().all(is_digit)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn media(mime_type: &str, data: &str) -> Media {
        Media { mime_type: mime_type.to_owned(), data: data.to_owned() }
    }

    #[test]
    fn the_bytes_are_taken_and_the_description_stays() {
        let marked = json!({CONTENT: true});
        let image = json!({"mime_type": "image/png", "width": 1, "data": "iVBO+A=="});
        let sound = json!({"mime-type": "audio/WAV", "data": "UklG"});
        let list = json!({"items": marked});
        for (schema, mut answer, left) in [
            (
                json!({"properties": {"path": {}, "picture": marked, "parts": list}}),
                json!({"path": "a", "picture": image, "parts": [sound, 1]}),
                json!({"path": "a", "picture": {"mime_type": "image/png", "width": 1},
                       "parts": [{"mime-type": "audio/WAV"}, 1]}),
            ),
            (
                list.clone(),
                json!([image, sound]),
                json!([{"mime_type": "image/png", "width": 1}, {"mime-type": "audio/WAV"}]),
            ),
        ] {
            let taken = take_parts(&schema, &mut answer);
            assert_eq!(taken.parts, [media("image/png", "iVBO+A=="), media("audio/wav", "UklG")]);
            assert_eq!((&answer, taken.left_out), (&left, 0));
            assert_eq!(take_parts(&schema, &mut answer), Parts::default());
        }
        let mut whole = sound.clone();
        let taken = take_parts(&marked, &mut whole);
        assert_eq!(
            (taken.parts[0].kind(), whole),
            (MediaKind::Audio, json!({"mime-type": "audio/WAV"}))
        );
        assert_eq!(media("image/png", "").kind(), MediaKind::Image);
        assert_eq!(media("image/svg+xml", "").kind(), MediaKind::Other);
    }

    #[test]
    fn what_is_not_marked_content_is_left() {
        let schema =
            json!({"properties": {"image": {CONTENT: true}, "other": {}, "off": {CONTENT: false}}});
        let image = json!({"mime_type": "image/png", "data": "aaaa"});
        for answer in [
            json!({"other": image}),
            json!({"off": image}),
            json!({"unknown": image}),
            image.clone(),
            json!([image]),
            json!({"image": {"mime_type": "png", "data": "aaaa"}}),
            json!({"image": {"mime_type": "image/png; a=b", "data": "aaaa"}}),
            json!({"image": {"mime_type": "image/", "data": "aaaa"}}),
            json!({"image": {"mime_type": "image/png", "data": "<script>"}}),
            json!({"image": {"mime_type": "image/png", "data": "aaa"}}),
            json!({"image": {"mime_type": "image/png", "data": "a==="}}),
            json!({"image": {"mime_type": "image/png", "data": [1]}}),
            json!({"image": {"data": "aaaa"}}),
            json!({"image": "aaaa"}),
            json!(["image"]),
        ] {
            let mut unchanged = answer.clone();
            assert_eq!(take_parts(&schema, &mut unchanged), Parts::default(), "{answer}");
            drop_parts(&schema, &mut unchanged);
            assert_eq!(unchanged, answer);
        }
        assert_eq!(take_parts(&Value::Null, &mut image.clone()), Parts::default());
    }

    #[test]
    fn bytes_stay_elsewhere_only_where_the_mark_says_so() {
        let answer = || json!({"data": "aaaa", "mime_type": "text/csv"});
        for (mark, stays) in [(json!(true), false), (json!(KEPT), true)] {
            let mut dropped = answer();
            drop_parts(&json!({CONTENT: mark}), &mut dropped);
            assert_eq!(dropped == answer(), stays);
            let mut taken = answer();
            assert_eq!(take_parts(&json!({CONTENT: mark}), &mut taken).parts.len(), 1);
            assert_eq!(taken, json!({"mime_type": "text/csv"}));
        }
    }

    #[test]
    fn there_are_not_too_many_parts_and_bytes() {
        let one = |size: usize| json!({"mime_type": "image/png", "data": "a".repeat(size)});
        for (sizes, kept) in [(vec![4; MAX_PARTS + 3], MAX_PARTS), (vec![MAX_BYTES, 4, 0], 2)] {
            let mut answer: Value = sizes.iter().map(|size| one(*size)).collect();
            let taken = take_parts(&json!({"items": {CONTENT: true}}), &mut answer);
            assert_eq!((taken.parts.len(), taken.left_out), (kept, sizes.len() - kept));
            assert!(!answer.to_string().contains("aaaa"));
        }
    }
}
