//! Tables of numbers, read from CSV.

use std::collections::HashMap;
use std::path::Path;

use crate::error::{Error, quoted};
use crate::input;
use crate::points::Points;

/// Beyond this a squared distance may overflow.
const LARGEST: f64 = 1e100;

/// Whether the last column is a label or a feature like all others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Label {
    /// The last column is a label
    Last,
    /// Every column is a feature
    None,
}

/// The features of each row, and its label as the number of a class.
#[derive(Debug)]
pub(crate) struct Table {
    pub(crate) points: Points,
    /// Numbered from zero as they first appear; empty without labels.
    pub(crate) labels: Vec<u32>,
}

impl Table {
    pub(crate) fn read(path: &Path, label: Label) -> Result<Table, Error> {
        Table::parse(path, &input::read(path)?, label)
    }

    /// The path is for the messages.
    fn parse(path: &Path, text: &[u8], label: Label) -> Result<Table, Error> {
        let mut reader =
            csv::ReaderBuilder::new().has_headers(false).flexible(true).from_reader(text);
        let mut record = csv::ByteRecord::new();
        let mut table = Builder::new(path, text, label);
        while reader.read_byte_record(&mut record).map_err(|e| Error::input(path, e.to_string()))? {
            if reader.position().byte() == text.len() as u64 {
                table.check_last(&record)?;
            }
            table.add(&record)?;
        }
        table.finish()
    }
}

struct Builder<'a> {
    path: &'a Path,
    text: &'a [u8],
    label: Label,
    /// How many fields every row has; none before the first row.
    fields: Option<usize>,
    rows: usize,
    values: Vec<f64>,
    labels: Vec<u32>,
    classes: HashMap<Vec<u8>, u32>,
}

impl<'a> Builder<'a> {
    fn new(path: &'a Path, text: &'a [u8], label: Label) -> Builder<'a> {
        let (values, labels, classes) = (Vec::new(), Vec::new(), HashMap::new());
        Builder { path, text, label, fields: None, rows: 0, values, labels, classes }
    }

    fn add(&mut self, record: &csv::ByteRecord) -> Result<(), Error> {
        let (first, fields) = (self.fields.is_none(), record.len());
        let expected = *self.fields.get_or_insert(fields);
        if fields != expected {
            let message = format!("{fields} fields in a row, {expected} in the first");
            return Err(self.wrong(record, fields.min(expected), message));
        }
        let features = expected - usize::from(self.label == Label::Last);
        if features == 0 {
            return Err(self.wrong(record, 0, "a label needs a feature beside it".into()));
        }
        let none_is_a_number = || record.iter().take(features).all(|f| number(f).is_none());
        if first && none_is_a_number() {
            return Ok(()); // The names of the columns.
        }
        self.rows += 1;
        for (column, field) in record.iter().take(features).enumerate() {
            let usable = |number: &f64| number.abs() <= LARGEST;
            match number(field).filter(usable) {
                Some(number) => self.values.push(number),
                None => return Err(self.wrong(record, column, complaint(field))),
            }
        }
        if let Some(label) = record.get(features) {
            let next = self.classes.len() as u32;
            let class = *self.classes.entry(label.trim_ascii().to_vec()).or_insert(next);
            self.labels.push(class);
        }
        Ok(())
    }

    /// The reader takes the end of the file for the end of a quote, in which all rows lie that come behind a stray one.
    fn check_last(&self, record: &csv::ByteRecord) -> Result<(), Error> {
        let start = start(record);
        let Some(quote) = unclosed(&self.text[start..]) else { return Ok(()) };
        let line = line_at(self.text, start + quote);
        let message = "a quote that is opened here is never closed".into();
        Err(Error::cell(self.path, line, record.len(), message))
    }

    fn finish(self) -> Result<Table, Error> {
        if self.values.is_empty() {
            let empty = self.fields.is_none();
            let message = if empty { "the file is empty" } else { "no row has a number" };
            return Err(Error::input(self.path, message));
        }
        let width = self.values.len() / self.rows;
        let points = Points::new(self.values, width);
        Ok(Table { points, labels: self.labels })
    }

    fn wrong(&self, record: &csv::ByteRecord, column: usize, message: String) -> Error {
        Error::cell(self.path, line_at(self.text, start(record)), column + 1, message)
    }
}

/// Where a record begins in the text.
fn start(record: &csv::ByteRecord) -> usize {
    record.position().map_or(0, |position| position.byte() as usize)
}

/// Where the quote is opened that the end of the text finds open, if it begins where a record does.
fn unclosed(text: &[u8]) -> Option<usize> {
    const BOM: &[u8] = b"\xef\xbb\xbf";
    let first = if text.starts_with(BOM) { BOM.len() } else { 0 };
    let (mut opened, mut field_begins) = (None, true);
    let mut bytes = text.iter().enumerate().skip(first).peekable();
    while let Some((at, &byte)) = bytes.next() {
        match (opened, byte) {
            (None, b'"') if field_begins => opened = Some(at),
            // Two of them within a quote are one that is meant.
            (Some(_), b'"') if bytes.next_if(|&(_, &next)| next == b'"').is_none() => opened = None,
            _ => {}
        }
        field_begins = matches!(byte, b',' | b'\r' | b'\n');
    }
    opened
}

/// A field as a number, whatever number it is.
fn number(field: &[u8]) -> Option<f64> {
    std::str::from_utf8(field).ok()?.trim().parse().ok()
}

/// Why a field is not a number to calculate with.
fn complaint(field: &[u8]) -> String {
    let text = String::from_utf8_lossy(field);
    let shown = quoted(text.trim());
    match number(field) {
        _ if text.trim().is_empty() => "a number is missing".into(),
        None => format!("{shown} is not a number"),
        Some(number) if number.is_finite() => format!("{shown} is beyond {LARGEST:e}"),
        Some(_) => format!("{shown} is not a finite number"),
    }
}

/// The line of the record that the CSV reader met at `start`, counted from one.
///
/// The reader stops between the two bytes that end a line, and counts the empty lines before a
/// record as part of it; this does not.
fn line_at(text: &[u8], start: usize) -> u64 {
    let skipped = text[start..].iter().take_while(|byte| matches!(byte, b'\r' | b'\n')).count();
    let before = &text[..start + skipped];
    let ends = before.iter().enumerate().filter(|&(at, &byte)| match byte {
        b'\n' => true,
        b'\r' => before.get(at + 1) != Some(&b'\n'),
        _ => false,
    });
    ends.count() as u64 + 1
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str, label: Label) -> Result<Table, String> {
        Table::parse(Path::new("t"), text.as_bytes(), label).map_err(|error| error.to_string())
    }

    fn values(text: &str) -> Result<Vec<f64>, String> {
        parse(text, Label::None).map(|table| table.points.values().to_vec())
    }

    #[test]
    fn reads_numbers() {
        assert_eq!(values("1,2\n3,4\n"), Ok(vec![1.0, 2.0, 3.0, 4.0]));
        assert_eq!(values("1,2\r\n\r\n3,4"), Ok(vec![1.0, 2.0, 3.0, 4.0]));
        assert_eq!(values("\u{feff}1, -2e3 \n\"+.5\",0"), Ok(vec![1.0, -2000.0, 0.5, 0.0]));
    }

    #[test]
    fn a_first_row_without_a_number_is_a_header() {
        assert_eq!(values("a,b\n1,2\n"), Ok(vec![1.0, 2.0]));
        assert_eq!(values(",\n1,2\n"), Ok(vec![1.0, 2.0]));
        assert_eq!(values("a,2\n1,2\n").unwrap_err(), "t:1:1: \"a\" is not a number");
        assert_eq!(values("1,2\na,b\n").unwrap_err(), "t:2:1: \"a\" is not a number");
        assert_eq!(values("nan,inf\n").unwrap_err(), "t:1:1: \"nan\" is not a finite number");
        assert_eq!(values("a,b\n").unwrap_err(), "t: no row has a number");
        // The label of a header does not matter.
        assert_eq!(parse("a,b,7\n1,2,x\n", Label::Last).unwrap().points.len(), 1);
    }

    #[test]
    fn labels_are_any_text_and_numbered_as_they_appear() {
        let table = parse("1,b\n2,a c\n3, b\n4,\n", Label::Last).unwrap();
        assert_eq!((table.points.width(), table.labels), (1, vec![0, 1, 0, 2]));
    }

    #[test]
    fn a_quote_is_closed() {
        for (text, place) in [
            ("1,2\n3,\"4\n5,6\n7,8\n", "t:2:2"),
            ("1,2\n3,4\n5,\"", "t:3:2"),
            ("\u{feff}\"1", "t:1:1"),
            ("\"1", "t:1:1"),
            ("1\r\n\r\n\"2\"\"\r\n3\r\n", "t:3:1"),
            ("\"a\nb\",\"c\n", "t:2:2"),
        ] {
            let message = format!("{place}: a quote that is opened here is never closed");
            assert_eq!(values(text).unwrap_err(), message, "{text:?}");
        }
        for text in [
            "1,\"b\n3,c\n\"",
            "1,\"b\"\"\"",
            "1,\"\"",
            "1,b\"",
            "1,\"b\"\"\"\n",
            "1,\"b\"c\"",
            "1, \"b",
        ] {
            assert_eq!(parse(text, Label::Last).map(|table| table.labels), Ok(vec![0]), "{text:?}");
        }
    }

    #[test]
    fn names_line_and_column() {
        for (text, message) in [
            ("", "t: the file is empty"),
            ("\n\n", "t: the file is empty"),
            ("1,2\n3\n", "t:2:2: 1 fields in a row, 2 in the first"),
            ("1,2\n\n3,4,5\n", "t:3:3: 3 fields in a row, 2 in the first"),
            ("1,2\r\n3,x\r\n", "t:2:2: \"x\" is not a number"),
            ("1,2\r\n\r\n\r\n3,x", "t:4:2: \"x\" is not a number"),
            ("1,2\r3,x\r", "t:2:2: \"x\" is not a number"),
            ("1,2\n3,\n", "t:2:2: a number is missing"),
            ("1,2\n3,1e999\n", "t:2:2: \"1e999\" is not a finite number"),
            ("1,2\n3,-1e101\n", "t:2:2: \"-1e101\" is beyond 1e100"),
            ("1,2\n-inf,4\n", "t:2:1: \"-inf\" is not a finite number"),
            ("\u{feff}1\n2\nx\n", "t:3:1: \"x\" is not a number"),
            ("1,\"2\n3\"\n", "t:1:2: \"2\\n3\" is not a number"),
        ] {
            assert_eq!(values(text).unwrap_err(), message, "{text:?}");
        }
        let single = parse("1\n", Label::Last).unwrap_err();
        assert_eq!(single, "t:1:1: a label needs a feature beside it");
    }
}
