//! Reading CSV files whose columns are known: values with a typed error that names line and column.

use std::path::Path;

use csv::StringRecord;
use pliant_model::{ClusterId, Platform, Time};

use super::FileError;

/// Calls `visit` with each row of `path` after checking its header.
pub(super) fn for_each_row(
    path: &Path,
    columns: &'static [&'static str],
    mut visit: impl FnMut(Row<'_>) -> Result<(), FileError>,
) -> Result<(), FileError> {
    let file = std::fs::File::open(path).map_err(|source| FileError::io(path, "read this file", source))?;
    let mut reader = csv::ReaderBuilder::new().buffer_capacity(1 << 18).from_reader(file);
    let failed = |source| FileError::csv(path, source);
    let header = reader.headers().map_err(failed)?;
    if header.iter().ne(columns.iter().copied()) {
        let found = header.iter().collect::<Vec<_>>().join(",");
        return Err(FileError::Header { path: path.to_owned(), expected: columns.join(","), found });
    }
    let mut record = StringRecord::new();
    while reader.read_record(&mut record).map_err(failed)? {
        visit(Row { path, columns, record: &record })?;
    }
    Ok(())
}

/// One row; values are taken by their position among the columns.
#[derive(Clone, Copy)]
pub(super) struct Row<'a> {
    path: &'a Path,
    columns: &'static [&'static str],
    record: &'a StringRecord,
}

impl<'a> Row<'a> {
    pub(super) fn text(&self, column: usize) -> &'a str {
        self.record.get(column).unwrap_or_default()
    }

    pub(super) fn line(&self) -> u64 {
        self.record.position().map_or(0, csv::Position::line)
    }

    pub(super) fn wrong(&self, column: usize, expected: &'static str) -> FileError {
        FileError::Value {
            path: self.path.to_owned(),
            line: self.line(),
            column: self.columns[column],
            expected,
            found: self.text(column).to_owned(),
        }
    }

    pub(super) fn contradiction(&self, expected: &'static str, found: String) -> FileError {
        FileError::Row { path: self.path.to_owned(), line: self.line(), expected, found }
    }

    pub(super) fn number<T: std::str::FromStr>(&self, column: usize) -> Result<T, FileError> {
        self.text(column).parse().map_err(|_| self.wrong(column, "a whole number in range"))
    }

    /// An instant, bounded so that sums of times cannot overflow.
    pub(super) fn time(&self, column: usize) -> Result<Time, FileError> {
        let seconds: i64 = self.number(column)?;
        if seconds.abs() > Time::MAX.0 {
            return Err(self.wrong(column, "seconds within a quarter of 2^63"));
        }
        Ok(Time(seconds))
    }

    pub(super) fn cluster(&self, column: usize, platform: &Platform) -> Result<ClusterId, FileError> {
        platform
            .find(self.text(column))
            .ok_or_else(|| self.wrong(column, "the name of a cluster in summary.json"))
    }
}
