//! Whatever cannot be used is refused in one line that says where, with exit code 2, and nothing is
//! written.

use std::io::Cursor;

use image::{ImageFormat, RgbImage};

use crate::{Ended, Room};

#[test]
fn tables() {
    let room = Room::new("bad-tables");
    for (content, message) in [
        ("", "t.csv: the file is empty"),
        ("\n\n", "t.csv: the file is empty"),
        ("a,b\n", "t.csv: no row has a number"),
        ("1,2\n3\n", "t.csv:2:2: 1 fields in a row, 2 in the first"),
        ("1,2\n3,4,5\n", "t.csv:2:3: 3 fields in a row, 2 in the first"),
        ("1,2\r\n\r\n3,four\r\n", "t.csv:3:2: \"four\" is not a number"),
        ("x,y\n1,2\n3,four\n", "t.csv:3:2: \"four\" is not a number"),
        ("one,2\n3,4\n", "t.csv:1:1: \"one\" is not a number"),
        ("1,2\n3,\n", "t.csv:2:2: a number is missing"),
        ("1,2\nNaN,4\n", "t.csv:2:1: \"NaN\" is not a finite number"),
        ("1,2\n3,-inf\n", "t.csv:2:2: \"-inf\" is not a finite number"),
        ("1,2\n3,1e400\n", "t.csv:2:2: \"1e400\" is not a finite number"),
        ("1,2\n", "t.csv: --k is 2, but there are only 1 row"),
    ] {
        room.file("t.csv", content);
        let message_found =
            room.raddle("run kmeans --input t.csv --k 2 --output out.csv").refused();
        assert_eq!(message_found, message, "{content:?}");
    }
    room.file("t.csv", "1,a\nx,b\n");
    assert_eq!(
        room.raddle("run knn --input t.csv --k 1").refused(),
        "t.csv:2:1: \"x\" is not a number"
    );
    room.file("t.csv", "1,a\n2,\"b\n3,c\n4,d\n");
    assert_eq!(
        room.raddle("run knn --input t.csv --k 1").refused(),
        "t.csv:2:2: a quote that is opened here is never closed"
    );
    room.file("t.csv", "1,a\n2,b\n");
    assert_eq!(
        room.raddle("run knn --input t.csv --k 2").refused(),
        "t.csv: --k is 2, but there are only 1 row besides each"
    );
    room.file("t.csv", "1\n2\n");
    assert_eq!(
        room.raddle("run kmeans --input t.csv --k 1 --label last").refused(),
        "t.csv:1:1: a label needs a feature beside it"
    );
    room.file("t.csv", b"1,2\n\xff\xfe,3\n");
    room.raddle("run kmeans --input t.csv --k 1").refused();
    assert_eq!(room.names(), ["t.csv"]);
}

#[test]
fn files_that_are_not_there_or_no_files() {
    let room = Room::new("bad-files");
    std::fs::create_dir(room.path("dir")).unwrap();
    for workload in ["kmeans", "knn", "quantize", "sort"] {
        let missing = room.raddle(&format!("run {workload} --input none")).refused();
        assert!(missing.starts_with("none: "), "{missing}");
        let directory = room.raddle(&format!("run {workload} --input dir")).refused();
        assert!(directory.starts_with("dir: "), "{directory}");
    }
}

#[test]
fn outputs_that_cannot_be_written() {
    let room = Room::new("bad-outputs");
    room.file("t.csv", "1\n2\n");
    std::fs::create_dir(room.path("dir")).unwrap();
    let cannot = |output: &str| {
        let line = format!("run kmeans --input t.csv --k 1 --output {output}");
        let message = room.raddle(&line).refused();
        assert!(message.starts_with(&format!("{output}: cannot be written: ")), "{message}");
    };
    cannot("dir");
    cannot("none/out.csv");
    cannot("t.csv/out.csv");
    cannot("out.csv/");
    cannot("dir/out.csv/");
    #[cfg(unix)]
    {
        std::os::unix::fs::symlink("loop", room.path("loop")).unwrap();
        cannot("loop");
        std::fs::remove_file(room.path("loop")).unwrap();
    }
    room.raddle("run kmeans --input t.csv --k 1 --json --output -").refused();
    room.raddle("run quantize --k 1 --output out.jpg").refused();
    assert_eq!(room.names(), ["dir", "t.csv"]);
}

/// As in a PNG file.
fn crc(bytes: &[u8]) -> u32 {
    let step = |sum: u32| if sum & 1 == 1 { 0xedb8_8320 ^ (sum >> 1) } else { sum >> 1 };
    let byte = |sum: u32, &byte: &u8| (0..8).fold(sum ^ u32::from(byte), |sum, _| step(sum));
    !bytes.iter().fold(!0, byte)
}

#[test]
fn pictures() {
    let room = Room::new("bad-pictures");
    let refused = |content: &[u8], message: &str| {
        room.file("in", content);
        let found = room.raddle("run quantize --input in --k 2 --output out.png").refused();
        assert!(found.starts_with(&format!("in: {message}")), "{found}");
    };
    refused(b"", "the file is empty");
    refused(b"hello", "not a PNG or JPEG picture");
    refused(b"GIF89a\x01\x00\x01\x00", "not a PNG or JPEG picture");
    let picture = RgbImage::from_fn(64, 64, |x, y| image::Rgb([x as u8 * 3, y as u8 * 3, 77]));
    for format in [ImageFormat::Png, ImageFormat::Jpeg] {
        let mut bytes = Cursor::new(Vec::new());
        picture.write_to(&mut bytes, format).unwrap();
        let bytes = bytes.into_inner();
        for end in [bytes.len() / 2, bytes.len() - 40, bytes.len() - 1] {
            refused(&bytes[..end], "the picture is cut short");
        }
        if format == ImageFormat::Png {
            let mut damaged = bytes.clone();
            damaged[bytes.len() / 2] ^= 0xff;
            refused(&damaged, "the picture cannot be read");
        }
    }
    // A few bytes that say that they are very many.
    let mut huge = Cursor::new(Vec::new());
    RgbImage::new(1, 1).write_to(&mut huge, ImageFormat::Png).unwrap();
    let mut huge = huge.into_inner();
    let mut sized = |side: u32, colours: u8| {
        for at in [16, 20] {
            huge[at..at + 4].copy_from_slice(&side.to_be_bytes());
        }
        huge[25] = colours;
        let sum = crc(&huge[12..29]).to_be_bytes();
        huge[29..33].copy_from_slice(&sum);
        huge.clone()
    };
    refused(&sized(65_535, 2), "the picture is too large: 65535 x 65535 pixels");
    // Grey ones are as large once they are computed with.
    refused(&sized(32_767, 0), "the picture is too large: 32767 x 32767 pixels");
    refused(b"\xff\xd8\xff\xd9", "the picture cannot be read");
    let tiny = RgbImage::new(1, 1);
    tiny.save(room.path("tiny.png")).unwrap();
    room.raddle("run quantize tiny.png --output out.png").well();
    assert_eq!(image::open(room.path("out.png")).unwrap().into_rgb8(), tiny);
    assert_eq!(room.names(), ["in", "out.png", "tiny.png"]);
}

#[test]
fn an_error_is_one_line_whatever_it_names() {
    let room = Room::new("bad-names");
    let named = "a\n\x1b[31mb";
    let what_if = format!("{named}=1");
    for words in [
        &["man", named][..],
        &["trace", "scale", "t", "--what-if", named],
        &["run", "kmeans", "--k", named],
        &["trace", "summary", named],
        &["trace", "scale", "t", "--what-if", &what_if],
    ] {
        let told = Ended::refused(room.start("").args(words).output().unwrap().into());
        assert!(!told.contains(char::is_control), "{told:?}");
    }
}

#[test]
fn wishes_that_cannot_be_granted() {
    let room = Room::new("bad-wishes");
    room.file("t.csv", "1,2\n3,4\n");
    for (line, message) in [
        ("run kmeans --input t.csv --k 0", "--k must be at least 1"),
        ("run knn --input t.csv --k 0", "--k must be at least 1"),
        ("run quantize --k 0", "--k must be at least 1"),
        ("run kmeans --input t.csv --k 1 --max-iter 0", "--max-iter must be at least 1"),
        (
            "run knn --input t.csv --label none",
            "--label none: knn guesses labels, so it needs a column of them",
        ),
        ("run fib --n 91", "--n must be at most 90"),
        ("run fib --threads 0", "--threads must be at least 1"),
        ("run sort --threads 0", "--threads must be at least 1"),
        ("--threads 0", "--threads must be at least 1"),
        ("--quick run fib", "--quick is for measuring, without a command"),
    ] {
        assert_eq!(room.raddle(line).refused(), message, "{line}");
    }
    let which = "requires a subcommand but one was not provided [subcommands: ";
    for (line, message) in [
        ("run", format!("'raddle run' {which}kmeans, knn, quantize, sort, fib, help]")),
        ("trace", format!("'raddle trace' {which}summary, scale, doctor, diff, html, ")),
    ] {
        let told = Ended::refused(room.start(line).output().unwrap().into());
        assert!(told.starts_with(&message), "{line}: {told}");
    }
    for (line, message) in [
        ("run nothing", "unrecognized subcommand 'nothing' (see raddle --help)"),
        (
            "run kmeans --k two",
            "invalid value 'two' for '--k <K>': invalid digit found in string (see raddle --help)",
        ),
        ("--nothing", "unexpected argument '--nothing' found (see raddle --help)"),
        (
            "run sort t.csv --input t.csv",
            "the argument '[FILE]' cannot be used with '--input <FILE>'",
        ),
        ("run fib --runs 0", "--runs must be at least 1"),
        ("--runs 2", "--runs is for `raddle run`"),
        ("trace summary t.csv --runs 2", "--runs is for `raddle run`"),
        ("man nothing", "no command `nothing`"),
        ("trace summary t.csv --threads 2", "--threads is for `raddle run` and for measuring"),
        ("trace summary t.csv --plan threads:2", "--plan is for kmeans, knn and quantize: there"),
        ("plan --threads 3 sequential", "--threads is for `raddle run` and for measuring"),
        ("completions bash --threads 2", "--threads is for `raddle run` and for measuring"),
        ("completions --json bash", "--json is for results: this prints a text"),
        ("completions bash --plan threads", "--plan is for kmeans, knn and quantize: there"),
        ("man --json", "--json is for results: this prints a text"),
        ("man --trace t", "--trace is for `raddle run`: there is no run to record"),
        ("man --runs 2", "--runs is for `raddle run`"),
        ("trace summary t.csv --retries 2", "--retries is for kmeans, knn and quantize: there"),
        ("run fib --retries 2", "--retries is for kmeans, knn and quantize: its forks are"),
        ("run knn t.csv --retries 2", "--retries needs --plan PLAN"),
    ] {
        let told = room.raddle(line).refused();
        assert!(told.starts_with(message), "{line}: {told}");
    }
    for line in ["run fib --n -1", "completions none"] {
        assert!(room.start(line).output().map(Ended::from).unwrap().refused().len() > 20, "{line}");
    }
}

#[test]
fn file_names_cannot_break_the_line() {
    let room = Room::new("bad-names");
    let ended = room.start("run sort --input").arg("a\nb").output().unwrap().into();
    let message = Ended::refused(ended);
    assert!(message.starts_with("a\\nb: "), "{message}");
}

#[cfg(unix)]
#[test]
fn file_names_cannot_break_a_report_or_a_warning() {
    let room = Room::new("bad-names-told");
    room.file("a\nb", "2\n1\n");
    let mut sort = room.start("run sort --runs 1");
    sort.args(["a\nb", "--output", "c\nd", "--trace", "e\nf"]);
    let report = Ended::from(sort.output().unwrap()).well();
    for part in ["sort of a\\nb, 2 lines", " c\\nd\n", " e\\nf, "] {
        assert!(report.contains(part), "{part}: {report}");
    }

    let whole = std::fs::read(room.path("e\nf")).unwrap();
    room.file("e\nf", &whole[..whole.len() - 5]);
    let shown = Ended::from(room.start("trace summary").arg("e\nf").output().unwrap());
    assert!(shown.stderr.starts_with("raddle: e\\nf: byte "), "{shown:?}");
}
