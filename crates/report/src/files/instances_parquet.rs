//! `results.parquet` of a multi-job, written group by group of rows.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parquet::basic::{Compression, LogicalType, Repetition, Type as Physical};
use parquet::data_type::{ByteArray, ByteArrayType, DataType, Int32Type, Int64Type};
use parquet::errors::Result as ParquetResult;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
use parquet::schema::types::{Type, TypePtr};

use super::instances::{BEFORE, BEHIND, InstanceRow};
use super::{FileError, atomic};

pub(super) const PARQUET: &str = "results.parquet";
/// The largest number of rows of a group.
pub(super) const ROWS_PER_GROUP: usize = 1 << 14;
/// The largest number of bytes of text of a group.
const BYTES_PER_GROUP: usize = 1 << 25;

/// The Parquet file while it is written, under its temporary name.
pub(super) struct Table {
    path: PathBuf,
    writer: SerializedFileWriter<File>,
    arguments: usize,
    group: Vec<InstanceRow>,
    /// The bytes of text in the group.
    bytes: usize,
}

impl Table {
    pub(super) fn create(dir: &Path, columns: &[String]) -> Result<Table, FileError> {
        let path = dir.join(PARQUET);
        let file = File::create(atomic::temporary(&path));
        let file = file.map_err(|source| FileError::io(&path, "write this file", source))?;
        let properties = WriterProperties::builder()
            .set_compression(Compression::SNAPPY)
            .set_created_by("pliant".to_owned())
            .build();
        let writer = schema(columns)
            .and_then(|schema| SerializedFileWriter::new(file, schema, Arc::new(properties)))
            .map_err(|source| FileError::parquet(&path, source))?;
        let arguments = columns.len() - BEFORE.len() - BEHIND.len();
        Ok(Table { path, writer, arguments, group: Vec::new(), bytes: 0 })
    }

    pub(super) fn write(&mut self, row: InstanceRow) -> Result<(), FileError> {
        self.bytes += row.bytes();
        self.group.push(row);
        if self.group.len() == ROWS_PER_GROUP || self.bytes >= BYTES_PER_GROUP {
            self.flush()?;
        }
        Ok(())
    }

    /// Writes the rows of the present group, if there are any.
    fn flush(&mut self) -> Result<(), FileError> {
        let rows = std::mem::take(&mut self.group);
        self.bytes = 0;
        if rows.is_empty() {
            return Ok(());
        }
        let written = self.write_group(&rows);
        written.map_err(|source| FileError::parquet(&self.path, source))
    }

    fn write_group(&mut self, rows: &[InstanceRow]) -> ParquetResult<()> {
        let mut group = self.writer.next_row_group()?;
        column::<Int64Type>(&mut group, rows.iter().map(|row| Some(i64::from(row.instance))))?;
        for argument in 0..self.arguments {
            let value = |row: &InstanceRow| row.values.get(argument).map_or("", String::as_str).into();
            column::<ByteArrayType>(&mut group, rows.iter().map(|row| Some(value(row))))?;
        }
        words(&mut group, rows, |row| &row.state)?;
        column::<Int32Type>(&mut group, rows.iter().map(|row| row.exit_code))?;
        words(&mut group, rows, |row| &row.how)?;
        column::<Int32Type>(&mut group, rows.iter().map(|row| Some(i32::from(row.tries))))?;
        words(&mut group, rows, |row| &row.server)?;
        words(&mut group, rows, |row| &row.job)?;
        let ms = |ms: u64| i64::try_from(ms).unwrap_or(i64::MAX);
        column::<Int64Type>(&mut group, rows.iter().map(|row| row.elapsed_ms.map(ms)))?;
        // A column of texts is UTF-8; the CSV file has the bytes.
        let text = |bytes: &[u8]| Some(ByteArray::from(String::from_utf8_lossy(bytes).as_ref()));
        column::<ByteArrayType>(&mut group, rows.iter().map(|row| text(&row.output)))?;
        column::<ByteArrayType>(&mut group, rows.iter().map(|row| text(&row.error)))?;
        group.close().map(drop)
    }

    pub(super) fn close(mut self) -> Result<(), FileError> {
        self.flush()?;
        self.writer.close().map_err(|source| FileError::parquet(&self.path, source))?;
        atomic::rename(&atomic::temporary(&self.path), &self.path)
    }
}

fn schema(columns: &[String]) -> ParquetResult<TypePtr> {
    let behind = columns.len() - BEHIND.len();
    let field = |(at, name): (usize, &String)| {
        let own = if at < BEFORE.len() || at >= behind { name.as_str() } else { "" };
        let (physical, logical, repetition) = match own {
            "instance" => (Physical::INT64, None, Repetition::REQUIRED),
            "exit_code" => (Physical::INT32, None, Repetition::OPTIONAL),
            "tries" => (Physical::INT32, None, Repetition::REQUIRED),
            "elapsed_ms" => (Physical::INT64, None, Repetition::OPTIONAL),
            _ => (Physical::BYTE_ARRAY, Some(LogicalType::String), Repetition::REQUIRED),
        };
        let field = Type::primitive_type_builder(name, physical);
        field.with_repetition(repetition).with_logical_type(logical).build().map(Arc::new)
    };
    let fields = columns.iter().enumerate().map(field).collect::<ParquetResult<Vec<_>>>()?;
    Type::group_type_builder("instances").with_fields(fields).build().map(Arc::new)
}

fn words(
    group: &mut SerializedRowGroupWriter<'_, File>,
    rows: &[InstanceRow],
    word: impl Fn(&InstanceRow) -> &String,
) -> ParquetResult<()> {
    column::<ByteArrayType>(group, rows.iter().map(|row| Some(ByteArray::from(word(row).as_str()))))
}

/// Writes the next column of a group; where a value is missing the column is an optional one.
fn column<T: DataType>(
    group: &mut SerializedRowGroupWriter<'_, File>,
    values: impl Iterator<Item = Option<T::T>>,
) -> ParquetResult<()> {
    let Some(mut column) = group.next_column()? else { return Ok(()) };
    let (mut there, mut levels) = (Vec::new(), Vec::new());
    for value in values {
        levels.push(i16::from(value.is_some()));
        there.extend(value);
    }
    // Columns whose values are all required take no levels and ignore these.
    column.typed::<T>().write_batch(&there, Some(&levels), None)?;
    column.close()
}
