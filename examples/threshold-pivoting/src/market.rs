//! Matrices in the coordinate format of Matrix Market (Boisvert, Pozo and Remington, NISTIR 5935, 1996).

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use crate::matrix::{Entry, Matrix};

/// What stands on the first line.
const BANNER: &str = "%%MatrixMarket matrix coordinate";

/// A file that holds no matrix that can be factorised.
#[derive(Debug)]
pub(crate) enum MarketError {
    /// It cannot be read.
    Io(PathBuf, io::Error),
    /// A line, from 1, is not what it should be.
    Line { path: PathBuf, line: usize, expected: &'static str, found: String },
}

impl fmt::Display for MarketError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io(path, source) => write!(f, "{}: {source}", path.display()),
            Self::Line { path, line, expected, found } => {
                write!(f, "{}:{line}: expected {expected}, found `{found}`", path.display())
            }
        }
    }
}

impl std::error::Error for MarketError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Io(_, source) => Some(source),
            Self::Line { .. } => None,
        }
    }
}

/// Reads a file.
pub(crate) fn read(path: &Path) -> Result<Matrix, MarketError> {
    let text = std::fs::read_to_string(path).map_err(|source| MarketError::Io(path.to_owned(), source))?;
    parse(&text).map_err(|(line, expected, found)| {
        let (path, found) = (path.to_owned(), found.chars().take(60).collect());
        MarketError::Line { path, line, expected, found }
    })
}

/// The line, what was expected there, and what was found.
type Wrong<'a> = (usize, &'static str, &'a str);

/// Which entries stand for two: the factor of the mirrored one.
fn mirror(symmetry: &str) -> Option<f64> {
    match symmetry {
        "symmetric" => Some(1.0),
        "skew-symmetric" => Some(-1.0),
        _ => None,
    }
}

fn parse(text: &str) -> Result<Matrix, Wrong<'_>> {
    let mut lines = text.lines().enumerate().map(|(at, line)| (at + 1, line));
    let (_, banner) = lines.next().unwrap_or((1, ""));
    let kind: Vec<&str> = match banner.get(..BANNER.len()) {
        Some(start) if start.eq_ignore_ascii_case(BANNER) => {
            banner[BANNER.len()..].split_whitespace().collect()
        }
        _ => return Err((1, "%%MatrixMarket matrix coordinate", banner)),
    };
    let symmetry = match kind[..] {
        ["real" | "integer", symmetry @ ("general" | "symmetric" | "skew-symmetric")] => symmetry,
        _ => return Err((1, "real or integer numbers, general, symmetric or skew-symmetric", banner)),
    };
    let mut lines = lines.filter(|(_, line)| !line.starts_with('%') && !line.trim().is_empty());
    let (line, size) = lines.next().ok_or((1, "a line with the size", ""))?;
    let wrong_size = (line, "rows, as many columns, and the number of entries", size);
    let sizes: Vec<usize> = size.split_whitespace().map_while(|word| word.parse().ok()).collect();
    let (order, count) = match sizes[..] {
        [rows, columns, count] if rows == columns && rows > 0 => (rows, count),
        _ => return Err(wrong_size),
    };
    let mut entries: Vec<Entry> = Vec::new();
    let mut found = 0;
    for (line, text) in lines {
        let (row, column, value) =
            entry(text, order).ok_or((line, "row, column and value within the size", text))?;
        entries.push((row, column, value));
        if let Some(sign) = mirror(symmetry).filter(|_| row != column) {
            entries.push((column, row, sign * value));
        }
        found += 1;
    }
    if found != count {
        return Err(wrong_size);
    }
    Ok(Matrix::of(order, entries))
}

/// Rows and columns count from 1 in files.
fn entry(text: &str, order: usize) -> Option<Entry> {
    let mut words = text.split_whitespace();
    let mut place = || words.next()?.parse::<usize>().ok().filter(|place| (1..=order).contains(place));
    let (row, column) = (place()? - 1, place()? - 1);
    let value = words.next()?.parse::<f64>().ok().filter(|value| value.is_finite())?;
    words.next().is_none().then_some((row, column, value))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_read() {
        let text =
            "%%MatrixMarket matrix coordinate real general\n% a comment\n\n2 2 3\n1 1 2.5\n2 1 -1e3\n2 2 7\n";
        assert_eq!(parse(text).unwrap(), Matrix::of(2, vec![(0, 0, 2.5), (1, 0, -1e3), (1, 1, 7.0)]));
        let text = "%%matrixmarket Matrix Coordinate integer skew-symmetric\n2 2 1\n2 1 4\n";
        assert_eq!(parse(text).unwrap(), Matrix::of(2, vec![(1, 0, 4.0), (0, 1, -4.0)]));
    }

    #[test]
    fn errors_name_their_line() {
        let check = |rest: &str, line: usize, expected: &str| {
            let text = format!("%%MatrixMarket matrix coordinate real general\n{rest}");
            let (found, wanted, _) = parse(&text).unwrap_err();
            assert!(found == line && wanted.contains(expected), "{rest}: {found}, {wanted}");
        };
        check("", 1, "the size");
        check("2 3 1\n1 1 1\n", 2, "as many columns");
        check("2 2 2\n1 1 1\n", 2, "number of entries");
        check("2 2 1\n3 1 1\n", 3, "within the size");
        check("2 2 1\n1 1 nan\n", 3, "row, column and value");
        check("2 2 1\n1 1 1 1\n", 3, "row, column and value");
        let (line, expected, _) = parse("%%MatrixMarket matrix array real general\n").unwrap_err();
        assert!(line == 1 && expected.contains("coordinate"));
        assert_eq!(parse("%%MatrixMarket matrix coordinate complex general\n").unwrap_err().0, 1);
    }
}
