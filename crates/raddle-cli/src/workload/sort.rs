//! `raddle run sort`: the lines of a file in the order of their bytes.

use std::io::{self, Write};

use raddle::Worker;

use crate::args::{Common, SortArgs};
use crate::error::Error;
use crate::files::Files;
use crate::input;
use crate::made_up;
use crate::merge_sort::{sort, steps};
use crate::progress::Progress;
use crate::report::count;
use crate::timing;

/// A line without its end. Most comparisons are decided by its first bytes, kept at hand as a
/// number. A tuple, because the standard library knows of those when they are all zeros: see [`sort`].
type Line<'a> = (u64, Option<&'a [u8]>);

fn line(bytes: &[u8]) -> Line<'_> {
    let mut first = [0; 8];
    let length = bytes.len().min(8);
    first[..length].copy_from_slice(&bytes[..length]);
    (u64::from_be_bytes(first), Some(bytes))
}

fn bytes<'a>(line: &Line<'a>) -> &'a [u8] {
    line.1.unwrap_or_default()
}

pub(crate) fn run(args: &SortArgs, common: &Common) -> Result<(), Error> {
    common.refuse_plan("its lines would be sent twice")?;
    let files = Files::of(args.input.path())?;
    let setup = timing::Setup::new(common, &files)?;
    let text = match args.input.path() {
        Some(path) => input::read(path)?,
        None => made_up::lines(1_000_000, 40),
    };
    let output = super::output(args.output.as_ref(), common, &files)?;

    let lines = lines(&text);
    let work = |worker: &Worker, progress: &Progress| sort(worker, &lines, (0, None), progress);
    let timed = timing::compare(setup, Some(steps(lines.len())), work, same)?;
    let sorted = &timed.value;

    let what = format!("{}, {}", count(lines.len(), "line"), count(text.len(), "byte"));
    let mut report = super::report("sort", args.input.path(), &what);
    report.fact("lines", lines.len());
    report.fact("bytes", text.len());
    timed.tell(&mut report);
    if output.is_none() {
        report.remark("the sorted lines were not kept; write them with --output FILE");
    }
    super::finish(report, output, |to| write(sorted, to), common.json)
}

/// The lines of a text; whether the last one ends in a newline makes no difference.
fn lines(text: &[u8]) -> Vec<Line<'_>> {
    let mut lines: Vec<Line<'_>> = text.split(|&byte| byte == b'\n').map(line).collect();
    if lines.last().is_some_and(|last| bytes(last).is_empty()) {
        lines.pop();
    }
    lines
}

/// The very same pieces of the text, so that also equal lines are in the same order.
fn same(a: &Vec<Line<'_>>, b: &Vec<Line<'_>>) -> bool {
    a.len() == b.len() && a.iter().zip(b).all(|(a, b)| std::ptr::eq(bytes(a), bytes(b)))
}

fn write(lines: &[Line<'_>], to: &mut dyn Write) -> io::Result<()> {
    for line in lines {
        to.write_all(bytes(line))?;
        to.write_all(b"\n")?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_last_line_needs_no_end() {
        let parts = |text: &'static [u8]| -> Vec<&[u8]> {
            lines(text).into_iter().map(|found| bytes(&found)).collect()
        };
        assert_eq!(parts(b""), Vec::<&[u8]>::new());
        assert_eq!(parts(b"\n"), [b""]);
        assert_eq!(parts(b"a\nb"), parts(b"a\nb\n"));
        assert_eq!(parts(b"a\r\n\n\0b"), [b"a\r".as_slice(), b"", b"\0b"]);
    }

    proptest! {
        #[test]
        fn lines_are_in_the_order_of_their_bytes(
            a in prop::collection::vec(0_u8..3, 0..12), b in prop::collection::vec(0_u8..3, 0..12),
        ) {
            prop_assert_eq!(line(&a).cmp(&line(&b)), a.cmp(&b));
        }
    }
}
