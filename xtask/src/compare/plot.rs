//! The plots, as SVG that follows the reader's colour scheme.

use std::fmt::Write as _;

use super::figures::Figures;
use super::pairs::{self, Pair};
use super::simulated;
use super::text::{TOKIO, number};

type Make = fn(&Figures) -> Result<String, String>;

/// The pictures, by the names of their files.
pub(crate) const PLOTS: &[(&str, Make)] = &[
    ("regions", regions),
    ("rayon", |figures| ratios(figures, "raddle beside rayon", &["rayon"])),
    ("chili", |figures| ratios(figures, "raddle beside chili and forte", &["chili", "forte"])),
    ("tokio", |figures| ratios(figures, "raddle beside tokio and futures", TOKIO)),
    ("parking_lot", |figures| ratios(figures, "raddle beside parking_lot", &["parking_lot"])),
    ("ramp-up", ramp_up),
    ("trane", |figures| ratios(figures, "raddle beside Trane on the JVM", &["Trane"])),
];

const WIDTH: f64 = 760.0;
const STYLE: &str = "\
text { font: 12px sans-serif; fill: #222 } .small { font-size: 10px; fill: #666 } .title { font-size: 15px }
.grid { stroke: #ddd } .one { stroke: #888 } .win { fill: #2166ac; stroke: #2166ac } .loss { fill: #b2182b; stroke: #b2182b }
.paper { fill: #fff } .c0 { stroke: #2166ac; fill: none } .c1 { stroke: #b2182b; fill: none }
.c2 { stroke: #5aae61; fill: none } .c3 { stroke: #9970ab; fill: none } polyline { stroke-width: 2 }
@media (prefers-color-scheme: dark) { text { fill: #ddd } .small { fill: #999 } .grid { stroke: #333 }
.paper { fill: #16181c } .win { fill: #6baed6; stroke: #6baed6 } .loss { fill: #ef6548; stroke: #ef6548 }
.c0 { stroke: #6baed6 } .c1 { stroke: #ef6548 } }";

/// A picture of a height, with a title and where it is from.
struct Picture(String);

impl Picture {
    fn new(height: f64, title: &str, figures: &Figures) -> Picture {
        let mut svg = String::new();
        _ = write!(
            svg,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" role=\"img\">\n\
             <title>{0}</title>\n<style>{STYLE}</style>\n\
             <rect class=\"paper\" width=\"{WIDTH}\" height=\"{height}\"/>\n",
            escaped(title)
        );
        let mut picture = Picture(svg);
        picture.text(12.0, 22.0, "title", title);
        let busy = if figures.warning().is_some() { ", on a busy machine" } else { "" };
        let from = format!("{}{busy}", figures.short());
        picture.text(12.0, height - 8.0, "small", &from);
        picture
    }

    fn text(&mut self, x: f64, y: f64, class: &str, text: &str) {
        let text = escaped(text);
        _ = writeln!(self.0, "<text x=\"{x:.1}\" y=\"{y:.1}\" class=\"{class}\">{text}</text>");
    }

    fn line(&mut self, [x1, y1, x2, y2]: [f64; 4], class: &str) {
        _ = writeln!(
            self.0,
            "<line x1=\"{x1:.1}\" y1=\"{y1:.1}\" x2=\"{x2:.1}\" y2=\"{y2:.1}\" class=\"{class}\"/>"
        );
    }

    fn dot(&mut self, x: f64, y: f64, class: &str) {
        _ = writeln!(self.0, "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"4\" class=\"{class}\"/>");
    }

    fn ended(mut self) -> String {
        self.0 += "</svg>\n";
        self.0
    }
}

/// A scale on which equal factors are equal lengths.
#[derive(Clone, Copy)]
struct Scale {
    least: f64,
    most: f64,
    from: f64,
    to: f64,
}

impl Scale {
    fn at(&self, value: f64) -> f64 {
        let part =
            (value.clamp(self.least, self.most) / self.least).ln() / (self.most / self.least).ln();
        self.from + part * (self.to - self.from)
    }

    /// 1, 2 and 5 times powers of ten.
    fn marks(&self) -> Vec<f64> {
        let decades = (-4..=6).flat_map(|power| [1.0, 2.0, 5.0].map(|m| m * 10_f64.powi(power)));
        decades.filter(|mark| (self.least..=self.most).contains(mark)).collect()
    }
}

/// A dot for each comparison, and the range of rounds and builds behind it.
fn ratios(figures: &Figures, title: &str, peers: &[&str]) -> Result<String, String> {
    const ROW: f64 = 17.0;
    const TOP: f64 = 58.0;
    let mut pairs: Vec<Pair> = pairs::all(figures);
    pairs.retain(|pair| peers.contains(&pair.peer) && pair.judged() > 0.0);
    let bottom = TOP + ROW * pairs.len() as f64;
    let title = format!("{title}: ratio of times, less is better");
    let mut picture = Picture::new(bottom + 26.0, &title, figures);
    let scale = Scale { least: 0.02, most: 20.0, from: 400.0, to: WIDTH - 20.0 };
    for mark in scale.marks() {
        let x = scale.at(mark);
        let class = if mark == 1.0 { "one" } else { "grid" };
        picture.line([x, TOP - 10.0, x, bottom], class);
        picture.text(x - 8.0, TOP - 14.0, "small", &plain(mark));
    }
    for (at, pair) in pairs.iter().enumerate() {
        let y = TOP + ROW * (at as f64 + 0.5);
        let class = if pair.judged() > 1.0 { "loss" } else { "win" };
        let name = if peers.len() > 1 {
            format!("{} ({})", short(&pair.title(), 59 - pair.peer.len()), pair.peer)
        } else {
            short(&pair.title(), 62)
        };
        picture.text(12.0, y + 4.0, "", &name);
        if let Some((least, most)) = pair.range() {
            picture.line([scale.at(least), y, scale.at(most), y], class);
        }
        picture.dot(scale.at(pair.judged()), y, class);
    }
    Ok(picture.ended())
}

/// Regions of each size: the time beside that of plain calls.
fn regions(figures: &Figures) -> Result<String, String> {
    const SIZES: [(&str, f64); 8] = [
        ("2 us", 2.0),
        ("5 us", 5.0),
        ("10 us", 10.0),
        ("20 us", 20.0),
        ("50 us", 50.0),
        ("200 us", 200.0),
        ("1 ms", 1000.0),
        ("5 ms", 5000.0),
    ];
    const RUNTIMES: [&str; 4] = ["raddle", "rayon", "chili", "forte"];
    let title = "Time of a region entered from outside, beside the same without a pool";
    let mut picture = Picture::new(340.0, title, figures);
    for (panel, mode) in ["hot", "quiet"].into_iter().enumerate() {
        let left = 50.0 + 370.0 * panel as f64;
        let x = Scale { least: 2.0, most: 5000.0, from: left, to: left + 300.0 };
        let y = Scale { least: 0.4, most: 40.0, from: 280.0, to: 60.0 };
        let said = if mode == "hot" { "back to back" } else { "after a rest" };
        picture.text(left, 48.0, "", said);
        for mark in y.marks() {
            let class = if mark == 1.0 { "one" } else { "grid" };
            picture.line([x.from, y.at(mark), x.to, y.at(mark)], class);
            picture.text(left - 26.0, y.at(mark) + 4.0, "small", &plain(mark));
        }
        for (name, us) in SIZES.into_iter().filter(|(name, _)| !["5 us", "20 us"].contains(name)) {
            picture.text(x.at(us) - 12.0, 296.0, "small", name);
        }
        for (colour, runtime) in RUNTIMES.into_iter().enumerate() {
            let mut points = String::new();
            let beside = left + 110.0 + 52.0 * colour as f64;
            picture.line([beside, 44.0, beside + 10.0, 44.0], &format!("c{colour}"));
            picture.text(beside + 13.0, 48.0, "small", runtime);
            for (name, us) in SIZES {
                let section = format!("{name}, {mode}");
                let alone = figures.row("regions", &section, "sequential")?.median;
                let Ok(row) = figures.row("regions", &section, runtime) else { continue };
                if row.median.is_finite() {
                    let (x, y) = (x.at(us), y.at(row.median / alone));
                    _ = write!(points, "{x:.1},{y:.1} ");
                }
            }
            _ = writeln!(picture.0, "<polyline class=\"c{colour}\" points=\"{}\"/>", points.trim());
        }
    }
    picture.text(
        12.0,
        316.0,
        "small",
        "medians; across: the work in the region; up: how many times as long as without a pool",
    );
    Ok(picture.ended())
}

/// How long it takes until all work, by the size of the pool, for each spread.
fn ramp_up(figures: &Figures) -> Result<String, String> {
    let title = "Ramp-up of a region after some quiet, simulated";
    let mut picture = Picture::new(340.0, title, figures);
    let x = Scale { least: 2.0, most: 1024.0, from: 60.0, to: WIDTH - 30.0 };
    let y = Scale { least: 50.0, most: 5000.0, from: 280.0, to: 60.0 };
    for mark in y.marks() {
        picture.line([x.from, y.at(mark), x.to, y.at(mark)], "grid");
        picture.text(x.from - 36.0, y.at(mark) + 4.0, "small", &plain(mark));
    }
    for workers in simulated::SIZES {
        picture.text(x.at(workers as f64) - 8.0, 296.0, "small", &workers.to_string());
    }
    for (colour, (name, spread)) in simulated::SPREADS.into_iter().enumerate() {
        let mut points = String::new();
        let beside = 60.0 + 90.0 * colour as f64;
        picture.line([beside, 44.0, beside + 10.0, 44.0], &format!("c{colour}"));
        picture.text(beside + 13.0, 48.0, "small", name);
        for workers in simulated::SIZES {
            let us = simulated::larger(figures, workers, spread, "ramp-up")?;
            _ = write!(points, "{:.1},{:.1} ", x.at(workers as f64), y.at(us));
        }
        _ = writeln!(picture.0, "<polyline class=\"c{colour}\" points=\"{}\"/>", points.trim());
    }
    let said = "us, medians; across: workers, each with 500 us of work; a line for so many first forks that wake somebody";
    picture.text(12.0, 316.0, "small", said);
    Ok(picture.ended())
}

fn plain(mark: f64) -> String {
    let text = number(mark);
    if text.contains('.') {
        text.trim_end_matches('0').trim_end_matches('.').to_owned()
    } else {
        text
    }
}

fn short(text: &str, most: usize) -> String {
    if text.chars().count() <= most {
        return text.to_owned();
    }
    text.chars().take(most - 2).chain("..".chars()).collect()
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_factors_are_equal_lengths() {
        let scale = Scale { least: 0.1, most: 10.0, from: 0.0, to: 100.0 };
        assert_eq!(
            [0.1, 1.0, 10.0, 99.0].map(|value| scale.at(value).round()),
            [0.0, 50.0, 100.0, 100.0]
        );
        assert_eq!(scale.marks().len(), 7);
        assert_eq!([0.1, 0.02, 1.0, 20.0].map(plain), ["0.1", "0.02", "1", "20"]);
    }

    #[test]
    fn names_do_not_break_the_picture() {
        assert_eq!(escaped("a < b & \"c\""), "a &lt; b &amp; &quot;c&quot;");
        assert_eq!(short("abcdef", 4), "ab..");
    }
}
