//! Pictures, read whole or not at all.

use std::io::{Cursor, Write};
use std::path::Path;

use image::{DynamicImage, ImageDecoder, ImageFormat, ImageReader, RgbImage};

use crate::error::Error;
use crate::input;

/// Reads a PNG or JPEG picture as it is meant to be seen: turned upright, and on white where it is
/// transparent.
pub(crate) fn read(path: &Path) -> Result<RgbImage, Error> {
    decode(&input::read(path)?).map_err(|message| Error::input(path, message))
}

/// Writes a picture as PNG.
pub(crate) fn write(picture: &RgbImage, to: &mut dyn Write) -> std::io::Result<()> {
    let encoder = image::codecs::png::PngEncoder::new(to);
    picture.write_with_encoder(encoder).map_err(std::io::Error::other)
}

/// How many pixels a picture may have. Each is computed with as three numbers of eight bytes: 3.2 GB.
const MOST: u64 = 1 << 27;

fn decode(bytes: &[u8]) -> Result<RgbImage, String> {
    if bytes.is_empty() {
        return Err("the file is empty".into());
    }
    // The decoders make up what is missing at the end of a file; nobody wants that computed with.
    let (format, whole) = match image::guess_format(bytes) {
        Ok(format @ ImageFormat::Png) => (format, png_is_whole(bytes)),
        Ok(format @ ImageFormat::Jpeg) => (format, jpeg_is_whole(bytes)),
        _ => return Err("not a PNG or JPEG picture".into()),
    };
    if !whole {
        return Err("the picture is cut short".into());
    }
    let upright = || {
        let mut decoder = ImageReader::with_format(Cursor::new(bytes), format).into_decoder()?;
        let (width, height) = decoder.dimensions();
        if u64::from(width) * u64::from(height) > MOST {
            return Ok(Err(format!("the picture is too large: {width} x {height} pixels")));
        }
        let orientation = decoder.orientation()?;
        let mut picture = DynamicImage::from_decoder(decoder)?;
        picture.apply_orientation(orientation);
        Ok(Ok(picture))
    };
    let picture: Result<DynamicImage, String> = upright().map_err(|error: image::ImageError| {
        let message = error.to_string();
        format!("the picture cannot be read: {}", message.lines().next().unwrap_or_default())
    })?;
    picture.map(on_white)
}

fn on_white(picture: DynamicImage) -> RgbImage {
    if !picture.color().has_alpha() {
        return picture.into_rgb8();
    }
    let picture = picture.into_rgba8();
    RgbImage::from_fn(picture.width(), picture.height(), |x, y| {
        let [red, green, blue, alpha] = picture.get_pixel(x, y).0.map(u32::from);
        let mix = |colour| ((colour * alpha + 255 * (255 - alpha) + 127) / 255) as u8;
        image::Rgb([red, green, blue].map(mix))
    })
}

/// Whether the chunks of a PNG file reach to the one that ends it.
fn png_is_whole(bytes: &[u8]) -> bool {
    const SIGNATURE: usize = 8;
    const AROUND: usize = 12; // Length, type and checksum.
    let mut rest = bytes.get(SIGNATURE..).unwrap_or_default();
    while let Some((length, kind)) = rest.split_first_chunk::<4>() {
        let length = u32::from_be_bytes(*length) as usize;
        if rest.len() < length.saturating_add(AROUND) {
            return false;
        }
        if kind.starts_with(b"IEND") {
            return true;
        }
        rest = &rest[length + AROUND..];
    }
    false
}

/// Whether the segments of a JPEG file reach to the mark that ends it.
///
/// Segments are passed over by their length: the end of a thumbnail inside is not the end.
fn jpeg_is_whole(bytes: &[u8]) -> bool {
    let mut at = 0;
    loop {
        // Inside compressed data, FF 00 is a byte and D0 to D7 are marks to restart at.
        let Some(gap) = bytes[at..].windows(2).position(|pair| {
            pair[0] == 0xff && !matches!(pair[1], 0x00 | 0x01 | 0xd0..=0xd8 | 0xff)
        }) else {
            return false;
        };
        at += gap + 2;
        if bytes[at - 1] == 0xd9 {
            return true;
        }
        let Some(&[high, low]) = bytes.get(at..at + 2) else {
            return false;
        };
        at += usize::from(u16::from_be_bytes([high, low]));
        if at > bytes.len() {
            return false;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::made_up;

    fn encoded(format: ImageFormat) -> Vec<u8> {
        let mut bytes = Cursor::new(Vec::new());
        made_up::picture(40, 24).write_to(&mut bytes, format).unwrap();
        bytes.into_inner()
    }

    #[test]
    fn what_is_written_is_read_again() {
        let picture = made_up::picture(40, 24);
        let mut bytes = Vec::new();
        write(&picture, &mut bytes).unwrap();
        assert_eq!(decode(&bytes), Ok(picture));
    }

    #[test]
    fn a_picture_cut_anywhere_is_refused() {
        for format in [ImageFormat::Png, ImageFormat::Jpeg] {
            let bytes = encoded(format);
            assert!(decode(&bytes).is_ok());
            for end in 0..bytes.len() {
                assert!(decode(&bytes[..end]).is_err(), "{format:?} cut at {end}");
            }
        }
    }

    #[test]
    fn what_follows_the_picture_does_not_matter() {
        for format in [ImageFormat::Png, ImageFormat::Jpeg] {
            assert!(decode(&[encoded(format), b"more".to_vec()].concat()).is_ok());
        }
    }

    #[test]
    fn a_cut_is_not_healed_by_the_end_of_a_thumbnail() {
        let bytes = encoded(ImageFormat::Jpeg);
        let thumbnail = [&[0xff, 0xe1, 0x00, 0x06, 0xff, 0xd8, 0xff, 0xd9], &bytes[2..]].concat();
        let bytes = [&bytes[..2], &thumbnail].concat();
        assert!(decode(&bytes).is_ok());
        assert_eq!(decode(&bytes[..bytes.len() - 2]).unwrap_err(), "the picture is cut short");
    }

    #[test]
    fn what_is_transparent_is_seen_on_white() {
        let pixels =
            image::RgbaImage::from_fn(3, 1, |x, _| image::Rgba([10, 0, 255, x as u8 * 127]));
        let seen = on_white(DynamicImage::ImageRgba8(pixels));
        let seen: Vec<[u8; 3]> = seen.pixels().map(|pixel| pixel.0).collect();
        assert_eq!(seen, [[255; 3], [133, 128, 255], [11, 1, 255]]);
    }
}
