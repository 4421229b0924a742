//! Images for models: decoded to check them, and scaled down where they are too large.

use std::io::Cursor;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use cofferdam_sdk::{ToolError, WorkspacePath};
use image::{DynamicImage, ImageDecoder as _, ImageError, ImageFormat, ImageReader, Limits};
use serde::Serialize;

/// The maximum size of a returned image, in bytes.
const MAX_BYTES: usize = 1 << 20;

/// The maximum width and height of a returned image, in pixels: models scale larger ones down.
const MAX_SIDE: u32 = 1568;

/// The maximum number of pixels of an image that is decoded. With two bytes more for each value of a
/// progressive JPEG, it fits in the memory of an instance.
const MAX_PIXELS: u64 = 24_000_000;

/// The maximum memory for a decoded image, in bytes.
const MAX_DECODED_BYTES: u64 = 100 << 20;

/// An image in an answer.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub struct Image {
    /// The media type, such as `image/png`.
    pub mime_type: &'static str,
    /// The width in pixels.
    pub width: u32,
    /// The height in pixels.
    pub height: u32,
    /// The image in base64. The host sends it to MCP clients, and removes it elsewhere.
    pub data: String,
}

/// Returns the format of an image, by its first bytes.
pub fn format(bytes: &[u8]) -> Option<ImageFormat> {
    use ImageFormat::{Gif, Jpeg, Png, WebP};
    image::guess_format(bytes).ok().filter(|format| matches!(format, Gif | Jpeg | Png | WebP))
}

/// Returns an image with a description. An animation is its first frame.
///
/// # Errors
/// `ImageTooLarge` for one of more than 24 million pixels, `InvalidImage` for one that can't be decoded.
pub fn read(
    path: &WorkspacePath,
    bytes: &[u8],
    format: ImageFormat,
) -> Result<(String, Image), ToolError> {
    let name = name(format);
    let invalid = |error: &dyn std::fmt::Display| {
        let message = format!("{path}: a damaged {name} image: {error}");
        ToolError::invalid_args("InvalidImage", message)
    };
    let reader = || ImageReader::with_format(Cursor::new(bytes), format);
    let too_large = |size: &str| {
        let message =
            format!("{path}: a {name} image {size}is too large to be decoded; read a smaller copy");
        ToolError::limit("ImageTooLarge", message)
    };
    let failed = |error: ImageError, size: &str| match error {
        ImageError::Limits(_) => too_large(size),
        error => invalid(&error),
    };
    let (width, height) = reader().into_dimensions().map_err(|error| failed(error, ""))?;
    let size = format!("of {width} x {height} pixels ");
    if u64::from(width) * u64::from(height) > MAX_PIXELS {
        return Err(too_large(&size));
    }
    let mut reader = reader();
    let mut limits = Limits::default();
    limits.max_alloc = Some(MAX_DECODED_BYTES);
    reader.limits(limits);
    let decoded = decode(reader).map_err(|error| failed(error, &size))?;
    let description = format!("A {name} image of {width} x {height} pixels");
    let fits = bytes.len() <= MAX_BYTES && width.max(height) <= MAX_SIDE;
    // Others may be animations, of which clients show more or less.
    if fits && matches!(format, ImageFormat::Png | ImageFormat::Jpeg) {
        let data = STANDARD.encode(bytes);
        let image = Image { mime_type: format.to_mime_type(), width, height, data };
        return Ok((format!("{description}."), image));
    }
    let image = encoded(&decoded, format).map_err(|error| invalid(&error))?;
    let (shown_width, shown_height, kind) = (image.width, image.height, image.mime_type);
    let description =
        format!("{description}, shown with {shown_width} x {shown_height} as {kind}.");
    Ok((description, image))
}

fn name(format: ImageFormat) -> &'static str {
    match format {
        ImageFormat::Gif => "GIF",
        ImageFormat::Jpeg => "JPEG",
        ImageFormat::WebP => "WebP",
        _ => "PNG",
    }
}

/// Decodes an image as it is meant to be seen.
fn decode(reader: ImageReader<Cursor<&[u8]>>) -> Result<DynamicImage, ImageError> {
    let mut decoder = reader.into_decoder()?;
    let orientation = decoder.orientation()?;
    let mut image = DynamicImage::from_decoder(decoder)?;
    image.apply_orientation(orientation);
    Ok(image)
}

/// Encodes an image, as JPEG if it was one, within the bounds of a returned image.
fn encoded(image: &DynamicImage, format: ImageFormat) -> Result<Image, ImageError> {
    let format = match format {
        ImageFormat::Jpeg => ImageFormat::Jpeg,
        _ => ImageFormat::Png,
    };
    let mut side = MAX_SIDE.min(image.width().max(image.height()));
    loop {
        let scaled = match image.width().max(image.height()) > side {
            true => image.thumbnail(side, side),
            false => image.clone(),
        };
        let scaled = match format {
            ImageFormat::Jpeg => DynamicImage::ImageRgb8(scaled.into_rgb8()),
            _ => DynamicImage::ImageRgba8(scaled.into_rgba8()),
        };
        let mut bytes = Cursor::new(Vec::new());
        scaled.write_to(&mut bytes, format)?;
        let bytes = bytes.into_inner();
        if bytes.len() <= MAX_BYTES || side == 1 {
            let (width, height) = (scaled.width(), scaled.height());
            let data = STANDARD.encode(bytes);
            return Ok(Image { mime_type: format.to_mime_type(), width, height, data });
        }
        side = (side * 3 / 4).max(1);
    }
}

#[cfg(test)]
pub(crate) mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use std::path::Path;

    use cofferdam_sdk::Context;
    use image::codecs::gif::GifEncoder;
    use image::{Frame, RgbImage, RgbaImage};

    use super::*;

    /// Returns an image that does not compress well.
    fn noise(width: u32, height: u32, format: ImageFormat) -> Vec<u8> {
        let mut state = 1_u32;
        let image = RgbImage::from_fn(width, height, |_, _| {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            image::Rgb(state.to_be_bytes()[..3].try_into().unwrap())
        });
        written(&image.into(), format)
    }

    pub(crate) fn plain(width: u32, height: u32, format: ImageFormat) -> Vec<u8> {
        written(&DynamicImage::new_rgb8(width, height), format)
    }

    fn written(image: &DynamicImage, format: ImageFormat) -> Vec<u8> {
        let mut bytes = Cursor::new(Vec::new());
        image.write_to(&mut bytes, format).unwrap();
        bytes.into_inner()
    }

    fn shown(bytes: &[u8]) -> Result<(String, Image), ToolError> {
        let path = Context::for_directory(Path::new("/")).resolve("a").unwrap();
        read(&path, bytes, format(bytes).unwrap())
    }

    fn decoded(image: &Image) -> DynamicImage {
        let bytes = STANDARD.decode(&image.data).unwrap();
        assert!(bytes.len() <= MAX_BYTES, "{}", bytes.len());
        assert_eq!(image::guess_format(&bytes).unwrap().to_mime_type(), image.mime_type);
        let decoded = image::load_from_memory(&bytes).unwrap();
        assert_eq!((decoded.width(), decoded.height()), (image.width, image.height));
        decoded
    }

    #[test]
    fn small_images_are_returned_as_they_are() {
        for (format, name) in [(ImageFormat::Png, "PNG"), (ImageFormat::Jpeg, "JPEG")] {
            let bytes = plain(1568, 20, format);
            let (description, image) = shown(&bytes).unwrap();
            assert_eq!(description, format!("A {name} image of 1568 x 20 pixels."));
            assert_eq!(STANDARD.decode(&image.data).unwrap(), bytes);
            decoded(&image);
        }
        for (format, name) in [(ImageFormat::Gif, "GIF"), (ImageFormat::WebP, "WebP")] {
            let (description, image) = shown(&plain(9, 7, format)).unwrap();
            let wanted = format!("A {name} image of 9 x 7 pixels, shown with 9 x 7 as image/png.");
            assert_eq!(description, wanted);
            decoded(&image);
        }
    }

    #[test]
    fn large_images_are_scaled_down() {
        let (description, image) = shown(&plain(1569, 100, ImageFormat::Png)).unwrap();
        let wanted = "A PNG image of 1569 x 100 pixels, shown with 1568 x 100 as image/png.";
        assert_eq!(description, wanted);
        decoded(&image);
        for format in [ImageFormat::Png, ImageFormat::Jpeg] {
            let bytes = noise(1500, 900, format);
            assert!(bytes.len() > MAX_BYTES);
            let (_, image) = shown(&bytes).unwrap();
            assert_eq!(image.mime_type, format.to_mime_type());
            decoded(&image);
        }
        // One pixel high stays one pixel high.
        assert_eq!(shown(&plain(9000, 1, ImageFormat::Png)).unwrap().1.height, 1);
    }

    #[test]
    fn an_animation_is_its_first_frame() {
        let mut bytes = Vec::new();
        let mut encoder = GifEncoder::new(&mut bytes);
        for colour in [[255, 0, 0, 255], [0, 255, 0, 255]] {
            let frame = RgbaImage::from_pixel(4, 3, image::Rgba(colour));
            encoder.encode_frame(Frame::new(frame)).unwrap();
        }
        drop(encoder);
        let image = decoded(&shown(&bytes).unwrap().1).into_rgba8();
        assert_eq!(image.get_pixel(0, 0).0, [255, 0, 0, 255]);
    }

    #[test]
    fn damaged_images_are_errors() {
        for format in [ImageFormat::Png, ImageFormat::Jpeg, ImageFormat::Gif, ImageFormat::WebP] {
            let bytes = noise(16, 16, format);
            for end in (12..bytes.len()).step_by(7) {
                if let Err(error) = shown(&bytes[..end]) {
                    assert_eq!(error.code, "InvalidImage", "{error}");
                }
                let mut damaged = bytes.clone();
                damaged[end] ^= 0xff;
                // An image or an error, but no panic.
                let _ = shown(&damaged);
            }
            let error = shown(&bytes[..bytes.len() / 4]).unwrap_err();
            assert!(
                error.message.starts_with(&format!("a: a damaged {} ", name(format))),
                "{error}"
            );
        }
        assert_eq!(format(b"BM and so on"), None);
        assert_eq!(format(b"\x89PNX\r\n\x1a\n"), None);
    }

    #[test]
    fn images_of_too_many_pixels_are_not_decoded() {
        let png = plain(60, 60, ImageFormat::Png);
        for side in [60_000_u32, 5_000, u32::MAX >> 1] {
            // A header without its checksum is refused too, but as damaged.
            let mut header = b"IHDR".to_vec();
            header.extend([side.to_be_bytes(), side.to_be_bytes()].concat());
            header.extend(&png[24..29]);
            let sum = crc32(&header);
            let bytes = [&png[..12], &header, &sum.to_be_bytes(), &png[33..]].concat();
            let error = shown(&bytes).unwrap_err();
            assert_eq!(error.code, "ImageTooLarge", "{error}");
        }
        let mut gif = plain(6, 6, ImageFormat::Gif);
        gif[6..10].fill(0xff);
        assert_eq!(shown(&gif).unwrap_err().code, "ImageTooLarge");
    }

    /// The checksum of a PNG chunk.
    fn crc32(bytes: &[u8]) -> u32 {
        !bytes.iter().fold(u32::MAX, |sum, &byte| {
            (0..8).fold(sum ^ u32::from(byte), |sum, _| {
                (sum >> 1) ^ if sum & 1 == 1 { 0xedb8_8320 } else { 0 }
            })
        })
    }
}
