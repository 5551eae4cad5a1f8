//! `raddle run quantize`: a picture with k colours.

use std::io::Write;
use std::path::Path;

use image::{Rgb, RgbImage};
use raddle::Worker;

use crate::args::{Common, QuantizeArgs};
use crate::cluster::{Clusters, lloyd};
use crate::error::Error;
use crate::files::Files;
use crate::points::Points;
use crate::progress::Progress;
use crate::remote;
use crate::{made_up, picture, timing};

pub(crate) fn run(args: &QuantizeArgs, common: &Common) -> Result<(), Error> {
    let files = Files::of(args.input.path())?;
    let setup = timing::Setup::new(common, &files)?;
    let mut options = args.lloyd.options(args.k, args.init, args.max_iter)?;
    check_name(args.output.as_deref())?;
    let original = match args.input.path() {
        Some(path) => picture::read(path)?,
        None => made_up::picture(1024, 768),
    };
    let points = colours(&original);
    // More colours than there are pixels leave a picture as it is, as do more than it has.
    options.k = options.k.min(points.len());
    super::check_k(options.k, points.len(), args.input.path(), "pixels")?;
    let output = super::output(args.output.as_ref(), common, &files)?;

    let work = |worker: &Worker, progress: &Progress| lloyd(worker, &points, options, progress);
    let steps = Some(options.max_iter as u64);
    let timed = match &common.plan {
        None => timing::compare(setup, steps, work, Clusters::same)?,
        Some(plan) => remote::kmeans(plan, common, &points, options, steps, work)?,
    };
    let found = &timed.value;

    let (width, height) = original.dimensions();
    let what = format!("{width} x {height} pixels");
    let mut report = super::report("quantize", args.input.path(), &what);
    report.datum("width", width);
    report.datum("height", height);
    super::kmeans::tell(&mut report, found, options);
    let palette = palette(found);
    report.told("palette", palette.clone(), shown(&palette));
    timed.tell(&mut report);
    if output.is_none() {
        report.remark("the picture was not kept; write it with --output OUT.png");
    }
    let write = |to: &mut dyn Write| picture::write(&repainted(&original, found), to);
    super::finish(report, output, write, common.json)
}

/// A picture called JPEG that is a PNG helps nobody.
fn check_name(output: Option<&Path>) -> Result<(), Error> {
    match output.and_then(|path| Some((path, path.extension()?))) {
        Some((path, extension)) if !extension.eq_ignore_ascii_case("png") => {
            Err(Error::input(path, "the picture is written as PNG: name it .png"))
        }
        _ => Ok(()),
    }
}

fn colours(picture: &RgbImage) -> Points {
    Points::new(picture.as_raw().iter().map(|&value| f64::from(value)).collect(), 3)
}

/// The centre as a colour that a picture can hold.
fn colour(centre: &[f64]) -> Rgb<u8> {
    Rgb(std::array::from_fn(|channel| centre[channel].round() as u8))
}

fn repainted(original: &RgbImage, found: &Clusters) -> RgbImage {
    let palette: Vec<Rgb<u8>> = found.centres.rows().map(colour).collect();
    let mut picture = original.clone();
    for (pixel, &label) in picture.pixels_mut().zip(&found.labels) {
        *pixel = palette[label as usize];
    }
    picture
}

/// The colours in use, as `#rrggbb`, the most frequent first.
fn palette(found: &Clusters) -> Vec<String> {
    let mut uses = vec![0_usize; found.centres.len()];
    found.labels.iter().for_each(|&label| uses[label as usize] += 1);
    let mut order: Vec<usize> = (0..uses.len()).filter(|&label| uses[label] > 0).collect();
    order.sort_by_key(|&label| std::cmp::Reverse(uses[label]));
    let mut names: Vec<String> = Vec::new();
    for label in order {
        let Rgb([red, green, blue]) = colour(found.centres.row(label));
        names.push(format!("#{red:02x}{green:02x}{blue:02x}"));
    }
    names
}

fn shown(palette: &[String]) -> String {
    const SHOWN: usize = 6;
    let more = if palette.len() > SHOWN { " .." } else { "" };
    palette[..palette.len().min(SHOWN)].join(" ") + more
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::{Init, Options};
    use raddle::Pool;

    fn quantized(picture: &RgbImage, k: usize) -> (RgbImage, Clusters) {
        let points = colours(picture);
        let options = Options { k, init: Init::Plusplus, seed: 1, max_iter: 50 };
        let found = Pool::new(2)
            .unwrap()
            .run(|worker| lloyd(worker, &points, options, &Progress::hidden()));
        (repainted(picture, &found), found)
    }

    #[test]
    fn more_colours_than_the_picture_has_leave_it_as_it_is() {
        let picture = RgbImage::from_fn(8, 8, |x, y| Rgb([(x / 3) as u8 * 90, 0, y as u8 / 4]));
        let (painted, found) = quantized(&picture, 40);
        assert_eq!(painted, picture);
        assert_eq!((found.inertia, palette(&found).len()), (0.0, 6));
    }

    #[test]
    fn the_colours_are_the_middles_of_what_they_stand_for() {
        let greys = [10, 20, 200, 201];
        let picture = RgbImage::from_fn(4, 1, |x, _| Rgb([greys[x as usize]; 3]));
        let (painted, found) = quantized(&picture, 2);
        let painted: Vec<u8> = painted.pixels().map(|pixel| pixel.0[0]).collect();
        assert_eq!(painted, [15, 15, 201, 201]);
        assert_eq!(found.inertia, 3.0 * (25.0 + 25.0 + 0.25 + 0.25));
    }

    #[test]
    fn only_png_is_promised() {
        assert!(check_name(Some(Path::new("a.PNG"))).is_ok());
        assert!(check_name(Some(Path::new("-"))).is_ok());
        assert!(check_name(None).is_ok());
        assert!(check_name(Some(Path::new("a.jpg"))).is_err());
    }
}
