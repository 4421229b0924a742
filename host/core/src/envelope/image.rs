//! An image in an answer: a property that the output schema of its tool marks, with its bytes in base64.
//! Only MCP has images; elsewhere an answer says what the image is.

use serde_json::Value;

use crate::schema::IMAGE;

/// The media types that clients of models show.
const MIME_TYPES: [&str; 4] = ["image/gif", "image/jpeg", "image/png", "image/webp"];

/// The bytes of an image.
#[derive(Debug, PartialEq, Eq)]
pub struct Image {
    /// One of the media types that clients of models show.
    pub mime_type: String,
    /// The bytes in base64.
    pub data: String,
}

/// Takes the bytes of an image out of an answer, which still describes the image. Anything that is not
/// marked in the output schema, or is not an image in base64, is left where it is.
pub fn take_image(schema: &Value, answer: &mut Value) -> Option<Image> {
    let properties = schema["properties"].as_object()?;
    let (name, _) = properties.iter().find(|(_, property)| property[IMAGE] == true)?;
    let fields = answer.get_mut(name)?.as_object_mut()?;
    let mime_type = fields.get("mime_type")?.as_str()?.to_owned();
    let data = fields.get("data")?.as_str()?;
    let is_base64 = |byte: u8| byte.is_ascii_alphanumeric() || b"+/=".contains(&byte);
    if !MIME_TYPES.contains(&mime_type.as_str()) || !data.bytes().all(is_base64) {
        return None;
    }
    let Some(Value::String(data)) = fields.shift_remove("data") else { return None };
    Some(Image { mime_type, data })
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use serde_json::json;

    use super::*;

    #[test]
    fn the_bytes_are_taken_and_the_description_stays() {
        let schema = json!({"properties": {"path": {}, "picture": {IMAGE: true}}});
        let answer = |fields: Value| json!({"path": "a.png", "picture": fields});
        let mut shown = answer(json!({"mime_type": "image/png", "width": 1, "data": "iVBO+/=="}));
        let taken = take_image(&schema, &mut shown).unwrap();
        assert_eq!((&*taken.mime_type, &*taken.data), ("image/png", "iVBO+/=="));
        assert_eq!(shown, answer(json!({"mime_type": "image/png", "width": 1})));
        assert_eq!(take_image(&schema, &mut shown), None);
    }

    #[test]
    fn what_is_not_a_marked_image_is_left() {
        let schema = json!({"properties": {"image": {IMAGE: true}, "other": {}}});
        let image = json!({"mime_type": "image/png", "data": "aaaa"});
        let unmarked = json!({"properties": {"image": {}}});
        let mut unchanged = json!({"image": image});
        assert_eq!(take_image(&unmarked, &mut unchanged), None);
        assert_eq!(take_image(&Value::Null, &mut unchanged), None);
        assert_eq!(unchanged, json!({"image": image}));
        for answer in [
            json!({"other": image}),
            json!({"image": {"mime_type": "text/html", "data": "aaaa"}}),
            json!({"image": {"mime_type": "image/svg+xml", "data": "aaaa"}}),
            json!({"image": {"mime_type": "image/png", "data": "<script>"}}),
            json!({"image": {"mime_type": "image/png", "data": [1]}}),
            json!({"image": {"data": "aaaa"}}),
            json!({"image": "aaaa"}),
            json!(["image"]),
        ] {
            let mut unchanged = answer.clone();
            assert_eq!(take_image(&schema, &mut unchanged), None, "{answer}");
            assert_eq!(unchanged, answer);
        }
    }
}
