//! Lines of a possibly compressed file, in bounded memory.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;

use flate2::bufread::MultiGzDecoder;

/// Longest line that is kept, in bytes; the rest of a longer one is read and dropped.
const LONGEST: usize = 64 * 1024;

/// Opens a file; one that begins like gzip is decompressed on the way.
pub(crate) fn open(path: &Path) -> io::Result<Box<dyn BufRead>> {
    let mut file = BufReader::with_capacity(256 * 1024, File::open(path)?);
    let compressed = file.fill_buf()?.starts_with(&[0x1f, 0x8b]);
    if compressed {
        Ok(Box::new(BufReader::with_capacity(256 * 1024, MultiGzDecoder::new(file))))
    } else {
        Ok(Box::new(file))
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
            let end = available.iter().position(|byte| *byte == b'\n');
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

    /// True if the line was longer than what is kept.
    pub(crate) fn was_cut(&self) -> bool {
        self.cut
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
}

impl<'a> Iterator for Fields<'a> {
    type Item = (u64, &'a [u8]);

    fn next(&mut self) -> Option<Self::Item> {
        while self.line.get(self.at).is_some_and(|byte| byte.is_ascii_whitespace()) {
            self.at += 1;
        }
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
