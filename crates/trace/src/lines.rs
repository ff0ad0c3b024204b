//! Lines of a possibly compressed file, in bounded memory.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;

use flate2::bufread::MultiGzDecoder;

use crate::error::Problem;

/// Longest line that is kept, in bytes; the rest of a longer one is read and dropped.
const LONGEST: usize = 64 * 1024;
/// Bytes that are read at a time.
const BLOCK: usize = 256 * 1024;
/// The byte order mark of UTF-8.
const BYTE_ORDER_MARK: &[u8] = "\u{feff}".as_bytes();

/// Opens a file; one that begins like gzip is decompressed on the way.
pub(crate) fn open(path: &Path) -> io::Result<Box<dyn BufRead + Send>> {
    plain(BufReader::with_capacity(BLOCK, File::open(path)?))
}

/// The input, decompressed if it is gzip.
pub(crate) fn plain<'a>(mut input: impl BufRead + Send + 'a) -> io::Result<Box<dyn BufRead + Send + 'a>> {
    let compressed = input.fill_buf()?.starts_with(&[0x1f, 0x8b]);
    if compressed {
        Ok(Box::new(BufReader::with_capacity(BLOCK, Gunzip(MultiGzDecoder::new(input)))))
    } else {
        Ok(Box::new(input))
    }
}

/// Decompresses; damaged data is an error of kind `InvalidData`.
struct Gunzip<R>(MultiGzDecoder<R>);

impl<R: BufRead> Read for Gunzip<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        use io::ErrorKind::{InvalidData, InvalidInput, UnexpectedEof};
        self.0.read(into).map_err(|error| match error.kind() {
            InvalidData | InvalidInput | UnexpectedEof => {
                let message = format!("expected whole gzip data, found it cut off or damaged ({error})");
                io::Error::new(InvalidData, message)
            }
            _ => error,
        })
    }
}

/// Reads lines into one buffer.
pub(crate) struct Lines<R> {
    input: R,
    buffer: Vec<u8>,
    number: u64,
    cut: bool,
}

impl<R: BufRead> Lines<R> {
    pub(crate) fn new(input: R) -> Lines<R> {
        Lines { input, buffer: Vec::with_capacity(512), number: 0, cut: false }
    }

    /// Reads the next line; false at the end of the file.
    pub(crate) fn advance(&mut self) -> io::Result<bool> {
        self.buffer.clear();
        self.cut = false;
        let mut any = false;
        loop {
            let available = match self.input.fill_buf() {
                Ok(available) => available,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
            };
            if available.is_empty() {
                break;
            }
            any = true;
            let end = memchr::memchr(b'\n', available);
            let part = &available[..end.unwrap_or(available.len())];
            let room = LONGEST - self.buffer.len();
            self.cut |= part.len() > room;
            self.buffer.extend_from_slice(&part[..part.len().min(room)]);
            let used = end.map_or(available.len(), |end| end + 1);
            self.input.consume(used);
            if end.is_some() {
                break;
            }
        }
        self.number += u64::from(any);
        if self.number == 1 && self.buffer.starts_with(BYTE_ORDER_MARK) {
            self.buffer.drain(..BYTE_ORDER_MARK.len());
        }
        Ok(any)
    }

    /// The line without its end, as far as it was kept.
    pub(crate) fn line(&self) -> &[u8] {
        self.buffer.strip_suffix(b"\r").unwrap_or(&self.buffer)
    }

    /// The number of the line; 1 is the first.
    pub(crate) fn number(&self) -> u64 {
        self.number
    }

    /// The error of a line longer than the buffer.
    pub(crate) fn too_long(&self) -> Option<Problem> {
        self.cut.then(|| Problem::Line {
            line: self.number,
            column: LONGEST as u64 + 1,
            expected: format!("at most {LONGEST} bytes in a line"),
            found: "a longer one".to_owned(),
        })
    }
}

/// The fields of a line between white space, with their columns (1 is the first byte).
pub(crate) struct Fields<'a> {
    line: &'a [u8],
    at: usize,
}

impl<'a> Fields<'a> {
    pub(crate) fn of(line: &'a [u8]) -> Fields<'a> {
        Fields { line, at: 0 }
    }

    /// Where the next field would begin.
    pub(crate) fn column(&self) -> u64 {
        self.at as u64 + 1
    }

    /// The next field with its column and its value, if it is a number. An integer of up to 18 digits, which
    /// is what nearly all fields are, is read in one pass.
    pub(crate) fn next_number(&mut self) -> Option<(u64, &'a [u8], Option<i64>)> {
        self.skip_space();
        let start = self.at;
        let negative = self.line.get(start) == Some(&b'-');
        let digits = start + usize::from(negative);
        let mut at = digits;
        let mut value = 0_i64;
        while let Some(byte) = self.line.get(at).filter(|byte| byte.is_ascii_digit()) {
            value = value.wrapping_mul(10).wrapping_add(i64::from(byte - b'0'));
            at += 1;
        }
        let ends = self.line.get(at).is_none_or(u8::is_ascii_whitespace);
        if ends && (1..=18).contains(&(at - digits)) {
            self.at = at;
            let signed = if negative { -value } else { value };
            return Some((start as u64 + 1, &self.line[start..at], Some(signed)));
        }
        let (column, field) = self.next()?;
        Some((column, field, number(field)))
    }

    fn skip_space(&mut self) {
        while self.line.get(self.at).is_some_and(u8::is_ascii_whitespace) {
            self.at += 1;
        }
    }
}

impl<'a> Iterator for Fields<'a> {
    type Item = (u64, &'a [u8]);

    fn next(&mut self) -> Option<Self::Item> {
        self.skip_space();
        let start = self.at;
        while self.line.get(self.at).is_some_and(|byte| !byte.is_ascii_whitespace()) {
            self.at += 1;
        }
        (self.at > start).then(|| (start as u64 + 1, &self.line[start..self.at]))
    }
}

/// A number of a log: an integer, or a decimal that is rounded to the nearest one. None if it is neither, or
/// too large to be a time or a count.
pub(crate) fn number(field: &[u8]) -> Option<i64> {
    let (negative, digits) = match field {
        [b'-', rest @ ..] => (true, rest),
        [b'+', rest @ ..] => (false, rest),
        _ => (false, field),
    };
    if digits.is_empty() {
        return None;
    }
    let mut value = 0_i64;
    for byte in digits {
        if !byte.is_ascii_digit() {
            return decimal(field);
        }
        value = value.checked_mul(10)?.checked_add(i64::from(byte - b'0'))?;
    }
    Some(if negative { -value } else { value })
}

fn decimal(field: &[u8]) -> Option<i64> {
    let numeric = |byte: &u8| byte.is_ascii_digit() || b"+-.eE".contains(byte);
    if !field.iter().all(numeric) {
        return None;
    }
    let value: f64 = std::str::from_utf8(field).ok()?.parse().ok()?;
    (value.abs() < 9e15).then(|| value.round() as i64)
}

/// The number that a header's value begins with: `1664 (72, 1368, 224)` is 1664.
pub(crate) fn leading_number(value: &str) -> Option<i64> {
    let end = value.find(|letter: char| !letter.is_ascii_digit() && letter != '-').unwrap_or(value.len());
    number(&value.as_bytes()[..end])
}

/// Text for an error message: printable, and short.
pub(crate) fn shown(field: &[u8]) -> String {
    let text = String::from_utf8_lossy(field);
    let mut short: String = text.chars().take(40).flat_map(char::escape_default).collect();
    if text.chars().count() > 40 {
        short.push_str("...");
    }
    format!("`{short}`")
}

/// Reads everything, but not more than `limit` bytes.
pub(crate) fn read_all(mut input: impl Read, limit: u64) -> io::Result<Vec<u8>> {
    let mut content = Vec::new();
    let read = input.by_ref().take(limit + 1).read_to_end(&mut content)? as u64;
    if read > limit {
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, format!("expected at most {limit} bytes")));
    }
    Ok(content)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_pass_reads_what_the_plain_reading_does() {
        let check = |line: &str| {
            let mut quick = Fields::of(line.as_bytes());
            let read: Vec<_> = std::iter::from_fn(|| quick.next_number()).collect();
            let plain: Vec<_> =
                Fields::of(line.as_bytes()).map(|(column, field)| (column, field, number(field))).collect();
            assert_eq!(read, plain, "{line}");
        };
        for line in [
            "",
            " \t ",
            "1 -1 +1 - -- 1-1 0x1",
            "999999999999999999 9999999999999999999 -9223372036854775808 9223372036854775807",
            "1.5 -0.4 1e3 nan inf 1e300 .5 5.",
            "  000000000000000000000000000001\tx12 12x ",
        ] {
            check(line);
        }
    }

    #[test]
    fn decimals_are_rounded() {
        for (text, expected) in [
            ("1.4", Some(1)),
            ("1.5", Some(2)),
            ("-1.0", Some(-1)),
            ("1e3", Some(1_000)),
            ("+7", Some(7)),
            ("1e16", None),
            ("nan", None),
            ("inf", None),
            ("", None),
            ("-", None),
            ("1,5", None),
            ("99999999999999999999", None),
        ] {
            assert_eq!(number(text.as_bytes()), expected, "{text}");
        }
    }
}
