//! What the workloads find, and that the number of threads never matters.

use std::fs;
use std::io::Write;
use std::process::{Command, Stdio};

use image::{Rgb, RgbImage, Rgba, RgbaImage};
use serde_json::Value;

use crate::{Room, data, digits};

#[test]
fn kmeans_finds_what_scikit_learn_finds() {
    let room = Room::new("kmeans-digits");
    room.file("digits.csv", digits());
    let json = room
        .raddle("run kmeans --input digits.csv --label last --k 10 --output out.csv --json")
        .json();
    let inertia = json["inertia"].as_f64().unwrap();
    assert!((inertia / 1_167_859.384_006_598_5 - 1.0).abs() < 1e-9, "{inertia}");
    assert_eq!(json["iterations"], 14);
    assert_eq!(json["converged"], true);
    assert_eq!(json["workload"], "kmeans");
    assert_eq!(json["input"], "digits.csv");
    assert_eq!(fs::read_to_string(room.path("out.csv")).unwrap(), data("digits-clusters.csv"));
}

#[test]
fn knn_finds_what_a_plain_search_finds() {
    let room = Room::new("knn-digits");
    room.file("digits.csv", digits());
    for (k, correct) in [(1, 1776), (3, 1777), (5, 1775)] {
        let json = room.raddle(&format!("run knn --input digits.csv --k {k} --json")).json();
        assert_eq!((&json["correct"], &json["total"]), (&correct.into(), &1797.into()));
    }
    let text = room.raddle("run knn --input digits.csv --k 3").well();
    assert!(text.contains("correct 1777 of 1797"), "{text}");
}

#[test]
fn labels_may_be_text_and_a_header_is_skipped() {
    let room = Room::new("header");
    room.file("t.csv", "size,kind\r\n1,small cat\r\n2,small cat\r\n9,dog\r\n8,dog\r\n");
    let json = room.raddle("run knn --input t.csv --k 1 --json").json();
    assert_eq!((&json["correct"], &json["total"]), (&4.into(), &4.into()));
    let json = room.raddle("run kmeans --input t.csv --k 2 --label last --json").json();
    assert_eq!((&json["rows"], &json["inertia"]), (&4.into(), &1.0.into()));
}

#[test]
fn kmeans_prints_its_result_for_people() {
    let room = Room::new("kmeans-text");
    room.file("t.csv", "0\n4\n10\n14\n");
    let text = room.raddle("run kmeans --input t.csv --k 2 --threads 2 --init plusplus").well();
    for part in ["kmeans of t.csv, 4 rows, 1 column", "inertia ", "iterations ", " on 2 threads"] {
        assert!(text.contains(part), "{part}: {text}");
    }
}

#[test]
fn the_number_of_threads_does_not_matter() {
    let room = Room::new("threads");
    room.file("digits.csv", digits());
    room.file(
        "lines",
        (0..30_000_u32)
            .map(|i| format!("{}\n", i.wrapping_mul(2_654_435_761) % 9000))
            .collect::<String>(),
    );
    picture().save(room.path("in.png")).unwrap();
    for line in [
        "kmeans --input digits.csv --k 12 --init plusplus --seed 5 --output out",
        "kmeans --input digits.csv --k 10 --max-iter 3 --output out",
        "knn --input digits.csv --k 4",
        "quantize --input in.png --k 7 --output out",
        "sort --input lines --output out",
        "fib --n 20",
    ] {
        let mut first = None;
        for threads in [1, 2, 3, 8] {
            let mut json = room.raddle(&format!("run {line} --threads {threads} --json")).json();
            let object = json.as_object_mut().unwrap();
            assert_eq!(object.remove("threads"), Some(threads.into()));
            for name in ["seconds_of_each_run", "seconds_one_thread_of_each_run"] {
                assert_eq!(object.remove(name).unwrap().as_array().unwrap().len(), 1);
            }
            object.remove("processors_used_by_others");
            let seconds = ["seconds", "seconds_one_thread", "speedup"]
                .map(|name| object.remove(name).and_then(|value| value.as_f64()).expect(name));
            assert!(seconds.iter().all(|&number| number > 0.0), "{seconds:?}");
            let phases = object.remove("phases");
            let total = phases.map(|phases| phases["total_us"].as_f64().unwrap());
            assert_eq!(total.is_some_and(|total| total > 0.0), threads > 1);
            let found = (json, fs::read(room.path("out")).ok());
            assert_eq!(first.get_or_insert_with(|| found.clone()), &found, "{line}: {threads}");
        }
    }
}

#[test]
fn every_workload_makes_up_what_it_is_not_given() {
    let room = Room::new("made-up");
    for line in ["kmeans --k 3 --max-iter 3", "knn --k 1", "quantize --k 4 --max-iter 3", "sort"] {
        let json = room.raddle(&format!("run {line} --json")).json();
        assert_eq!(json["input"], Value::Null);
        assert!(json["generated"].is_string(), "{json}");
    }
    let text = room.raddle("run quantize --k 2 --max-iter 1").well();
    assert!(text.contains("made-up data") && text.contains("not kept"), "{text}");
    assert_eq!(room.names(), [""; 0]);
}

#[test]
fn fib_with_and_without_a_cut_off() {
    let room = Room::new("fib");
    for line in ["--n 25", "--n 25 --cutoff 12", "--n 25 --cutoff 80"] {
        assert_eq!(room.raddle(&format!("run fib {line} --json")).json()["result"], 75_025);
    }
    assert_eq!(room.raddle("run fib --n 0 --json").json()["result"], 0);
    // The options of all workloads may come first.
    assert_eq!(room.raddle("--json --threads 1 run fib --n 1").json()["threads"], 1);
}

/// Two colours in a few shades each.
fn picture() -> RgbImage {
    RgbImage::from_fn(60, 40, |x, y| {
        let shade = (y % 5) as u8 * 4;
        if x < 30 { Rgb([200 + shade, 30, 20]) } else { Rgb([10, 60 + shade, 180]) }
    })
}

#[test]
fn quantize_reduces_the_colours() {
    let room = Room::new("quantize");
    picture().save(room.path("in.png")).unwrap();
    picture().save(room.path("in.jpg")).unwrap();
    room.raddle("run quantize --input in.png --k 2 --output out.png").well();
    let painted = image::open(room.path("out.png")).unwrap().into_rgb8();
    for (x, y, pixel) in painted.enumerate_pixels() {
        assert_eq!(pixel.0, if x < 30 { [208, 30, 20] } else { [10, 68, 180] }, "{x} {y}");
    }
    let json = room.raddle("run quantize --input in.jpg --k 5 --output out.png --json").json();
    assert_eq!((&json["width"], &json["height"]), (&60.into(), &40.into()));
    let mut colours: Vec<_> =
        image::open(room.path("out.png")).unwrap().into_rgb8().pixels().copied().collect();
    colours.sort_by_key(|pixel| pixel.0);
    colours.dedup();
    assert!((2..=5).contains(&colours.len()), "{colours:?}");
}

#[test]
fn quantize_leaves_a_picture_of_few_colours_and_puts_a_transparent_one_on_white() {
    let room = Room::new("quantize-few");
    picture().save(room.path("in.png")).unwrap();
    let json = room.raddle("run quantize --input in.png --k 300 --output out.png --json").json();
    assert_eq!(json["inertia"], 0.0);
    assert_eq!(image::open(room.path("out.png")).unwrap().into_rgb8(), picture());

    RgbaImage::from_pixel(3, 3, Rgba([9, 9, 9, 0])).save(room.path("glass.png")).unwrap();
    room.raddle("run quantize --input glass.png --k 1 --output out.png").well();
    let white = RgbImage::from_pixel(3, 3, Rgb([255; 3]));
    assert_eq!(image::open(room.path("out.png")).unwrap().into_rgb8(), white);
}

#[test]
fn sort_orders_lines_as_bytes() {
    let room = Room::new("sort");
    let texts: [&[u8]; 8] = [
        b"",
        b"\n",
        b"b\na",
        b"b\na\n",
        b"B\r\nb\r\nA\n\n\nA\r\n",
        b"a\0c\na\na\0b\na\0\n\0\n",
        b"\xff\xfe\n\xc3\xa9\nz\n\x80",
        b"same prefix b\nsame prefix a\nsame pre\nsame prefix b",
    ];
    let many: Vec<u8> =
        (0..200_000_u32).flat_map(|i| i.wrapping_mul(2_654_435_761).to_le_bytes()).collect();
    for text in texts.into_iter().chain([many.as_slice()]) {
        room.file("in", text);
        let json = room.raddle("run sort --input in --output out --threads 3 --json").json();
        let mut lines: Vec<&[u8]> = text.split_inclusive(|&byte| byte == b'\n').collect();
        assert_eq!(json["lines"], lines.len());
        lines.iter_mut().for_each(|line| *line = line.strip_suffix(b"\n").unwrap_or(line));
        lines.sort();
        let expected: Vec<u8> =
            lines.iter().flat_map(|line| [line, b"\n".as_slice()].concat()).collect();
        let sorted = fs::read(room.path("out")).unwrap();
        assert!(sorted == expected, "{}", text[..text.len().min(60)].escape_ascii());
        if let Some(theirs) = system_sort(text) {
            assert!(sorted == theirs, "{}", text[..text.len().min(60)].escape_ascii());
        }
    }
}

/// What the `sort` of the system makes of it, where there is one that agrees to be asked.
fn system_sort(text: &[u8]) -> Option<Vec<u8>> {
    if !cfg!(target_os = "linux") {
        return None;
    }
    let mut sort = Command::new("sort")
        .arg("-s")
        .env("LC_ALL", "C")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .ok()?;
    // It reads everything before it writes anything: no deadlock.
    sort.stdin.take()?.write_all(text).ok()?;
    Some(sort.wait_with_output().ok()?.stdout)
}
