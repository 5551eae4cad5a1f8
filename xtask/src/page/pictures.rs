//! Pictures of pages, beside those that were looked at and found good.
//!
//! What lies in `pictures/` is each picture made small: a pixel is the mean of a block. So text becomes a shade, and another
//! font or browser changes little. What is drawn is compared once more without text, where there is little to allow for.

use std::fs;
use std::path::Path;

use image::RgbImage;
use image::imageops::{FilterType, resize};

use super::{browse, made_up};
use crate::steps::root;

/// A page, and how large the window is.
struct Shot {
    name: &'static str,
    workers: usize,
    size: (u32, u32),
    dark: bool,
    /// How tall each of [`PARTS`] is.
    tall: [u32; 4],
}

/// What stands above the lanes, and is kept as tall as it is, so that wider fonts do not move the lanes.
const PARTS: [&str; 4] = ["header", "#first", "#tools", "#legend"];
const WIDE: [u32; 4] = [76, 230, 58, 18];
const NARROW: [u32; 4] = [128, 370, 88, 36];

const SHOTS: &[Shot] = &[
    Shot { name: "light", workers: 4, size: (1200, 900), dark: false, tall: WIDE },
    Shot { name: "dark", workers: 4, size: (1200, 900), dark: true, tall: WIDE },
    Shot { name: "narrow", workers: 4, size: (500, 900), dark: false, tall: NARROW },
    Shot { name: "lanes", workers: 64, size: (1200, 900), dark: false, tall: WIDE },
];

/// What is left out of a picture, and how exact the rest is.
struct Kind {
    name: &'static str,
    /// Before the page's own.
    script: &'static str,
    style: &'static str,
    /// Pixels of a block's edge.
    block: u32,
    /// How many blocks around are looked at for one that is like it.
    around: u32,
    /// So many blocks of a hundred may differ by more than [`FAR`].
    most_far: f64,
    /// And all of them by so much on average.
    most_mean: f64,
}

/// A picture is taken again if it is not as it should be: a busy machine may be late with a part of it.
const TRIES: u32 = 3;
/// Of 255 shades of a colour.
const FAR: u8 = 40;

/// The limits are between what three other fonts make of the pictures and what is seen where a part is not drawn.
const KINDS: &[Kind] = &[
    Kind {
        name: "whole",
        script: "",
        style: "",
        block: 20,
        around: 1,
        most_far: 1.0,
        most_mean: 2.2,
    },
    Kind {
        name: "drawn",
        script: "<script>CanvasRenderingContext2D.prototype.fillText = () => {};</script>",
        style: "* { color: transparent !important } svg text { fill: transparent !important } \
                table { table-layout: fixed; width: 420px } #tools *, #legend * { visibility: hidden }",
        block: 10,
        around: 0,
        most_far: 0.1,
        most_mean: 0.1,
    },
];

/// Takes all pictures, and compares them; or keeps them as those to compare with.
pub(super) fn pictures(browser: &Path, room: &Path, accept: bool) -> Result<(), String> {
    let mut faults = Vec::new();
    for (shot, kind) in SHOTS.iter().flat_map(|shot| KINDS.iter().map(move |kind| (shot, kind))) {
        let name = format!("{}-{}", shot.name, kind.name);
        let whole = room.join(format!("{name}.png"));
        let known = root().join(format!("xtask/src/page/pictures/{name}.png"));
        if accept {
            save(&shot.take(kind, browser, room, &whole)?, &known)?;
            println!("xtask: {name} is to look like {} from now on", whole.display());
            continue;
        }
        let good = open(&known)?;
        let mut fault = None;
        for _ in 0..TRIES {
            let small = shot.take(kind, browser, room, &whole)?;
            match difference(kind, &good, &small) {
                Ok(told) => {
                    println!("xtask: {name}: {told}");
                    fault = None;
                    break;
                }
                Err(told) => fault = Some((told, small)),
            }
        }
        if let Some((told, small)) = fault {
            let beside = room.join(format!("{name}-small.png"));
            save(&small, &beside)?;
            let (whole, beside, known) = (whole.display(), beside.display(), known.display());
            faults.push(format!("{name}: {told}: see {whole}, and {beside} beside {known}"));
        }
    }
    if faults.is_empty() {
        return Ok(());
    }
    faults.push("if that is how they should look: cargo xtask page --accept".into());
    Err(faults.join("\n"))
}

impl Shot {
    /// Writes the picture, and gives the small one.
    fn take(
        &self,
        kind: &Kind,
        browser: &Path,
        room: &Path,
        to: &Path,
    ) -> Result<RgbImage, String> {
        let parts = PARTS.iter().zip(self.tall);
        let tall: String = parts
            .map(|(part, tall)| format!("{part} {{ height: {tall}px; overflow: hidden }}\n"))
            .collect();
        let mut html = made_up::run(self.workers).html();
        // As the page's own button has it, but from the start: not all of a picture that is painted anew need be in time.
        let scheme = if self.dark { "dark" } else { "light" };
        for (old, new) in [
            ("<html", format!("<html class=\"{scheme}\"")),
            ("</style>", format!("{tall}{}</style>", kind.style)),
            ("</head>", format!("{}</head>", kind.script)),
        ] {
            html = html.replacen(old, &new, 1);
        }
        let page = to.with_extension("html");
        fs::write(&page, html).map_err(|error| format!("{}: {error}", page.display()))?;
        // Not to take an old one for it.
        let _ = fs::remove_file(to);
        let output = browse(browser, room, self.size)
            .args(["--hide-scrollbars", "--force-device-scale-factor=1"])
            .arg("--run-all-compositor-stages-before-draw")
            .arg(format!("--screenshot={}", to.display()))
            .arg(format!("file://{}", page.display()))
            .output()
            .map_err(|error| format!("{}: {error}", browser.display()))?;
        let picture = open(to).map_err(|error| {
            let said = String::from_utf8_lossy(&output.stderr);
            format!("{error}; the browser says: {}", said.lines().last().unwrap_or_default())
        })?;
        let size = picture.dimensions();
        if size == self.size {
            return Ok(small(&picture, kind.block));
        }
        Err(format!("{}: a picture of {size:?} pixels, not of {:?}", to.display(), self.size))
    }
}

fn open(path: &Path) -> Result<RgbImage, String> {
    let picture = image::open(path).map_err(|error| format!("{}: {error}", path.display()))?;
    Ok(picture.to_rgb8())
}

fn save(picture: &RgbImage, path: &Path) -> Result<(), String> {
    picture.save(path).map_err(|error| format!("{}: {error}", path.display()))
}

fn small(picture: &RgbImage, block: u32) -> RgbImage {
    resize(picture, picture.width() / block, picture.height() / block, FilterType::Triangle)
}

/// How far two small pictures differ, in words; an error if that is too far.
fn difference(kind: &Kind, known: &RgbImage, seen: &RgbImage) -> Result<String, String> {
    if known.dimensions() != seen.dimensions() {
        return Err(format!("{:?} blocks instead of {:?}", seen.dimensions(), known.dimensions()));
    }
    // What one has and the other has not differs seen from either.
    let sides = [beside(kind, known, seen), beside(kind, seen, known)];
    let far = sides[0].0.max(sides[1].0);
    let mean = sides[0].1.max(sides[1].1);
    let told = format!("{far:.1} % of the blocks differ, all by {mean:.2} of 255 on average");
    if far > kind.most_far || mean > kind.most_mean { Err(told) } else { Ok(told) }
}

/// Of each block of `a`: how far the most similar block of `b` is, there or around it. In a hundred, how many are far; and
/// the mean.
fn beside(kind: &Kind, a: &RgbImage, b: &RgbImage) -> (f64, f64) {
    let near = |at: u32, end: u32| at.saturating_sub(kind.around)..(at + kind.around + 1).min(end);
    let (mut far, mut sum) = (0, 0);
    for (x, y, block) in a.enumerate_pixels() {
        let around = near(y, b.height()).flat_map(|y| near(x, b.width()).map(move |x| (x, y)));
        let apart = around.map(|(x, y)| {
            let colours = block.0.iter().zip(b.get_pixel(x, y).0);
            colours.map(|(a, b)| a.abs_diff(b)).max().unwrap_or(0)
        });
        let least = apart.min().unwrap_or(0);
        far += u32::from(least > FAR);
        sum += u32::from(least);
    }
    let blocks = f64::from((a.width() * a.height()).max(1));
    (100.0 * f64::from(far) / blocks, f64::from(sum) / blocks)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn known(name: &str, kind: &Kind) -> RgbImage {
        let path = root().join(format!("xtask/src/page/pictures/{name}-{}.png", kind.name));
        open(&path).unwrap()
    }

    #[test]
    fn pictures_that_differ_are_told_apart() {
        for kind in KINDS {
            let light = known("light", kind);
            difference(kind, &light, &light).unwrap();
            difference(kind, &light, &known("dark", kind)).unwrap_err();
            difference(kind, &light, &known("lanes", kind)).unwrap_err();
            difference(kind, &light, &known("narrow", kind)).unwrap_err();
            // Without the second lane's bar, and the empty page after it.
            let mut lost = light.clone();
            let page = *light.get_pixel(0, 0);
            for y in 540 / kind.block..580 / kind.block {
                (0..lost.width()).for_each(|x| lost.put_pixel(x, y, page));
            }
            difference(kind, &light, &lost).unwrap_err();
            difference(kind, &lost, &light).unwrap_err();
        }
    }
}
