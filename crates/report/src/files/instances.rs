//! `results.csv` and `results.parquet` of a multi-job: its instances with their arguments and their outcomes. Both are
//! written in one pass, group by group of rows, so that memory does not grow with the multi-job.

use std::fs::File;
use std::io::BufWriter;
use std::path::Path;
use std::sync::Arc;

use parquet::basic::{Compression, LogicalType, Repetition, Type as Physical};
use parquet::data_type::{ByteArray, ByteArrayType, DataType, Int32Type, Int64Type};
use parquet::errors::Result as ParquetResult;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
use parquet::schema::types::{Type, TypePtr};

use super::{FileError, atomic};

const CSV: &str = "results.csv";
const PARQUET: &str = "results.parquet";
/// Rows of a group, at most, and how many bytes of text.
const ROWS_PER_GROUP: usize = 1 << 14;
const BYTES_PER_GROUP: usize = 1 << 25;
/// The prefix of an argument's name that equals another column.
const ARGUMENT: &str = "argument.";
/// The columns before and behind the arguments.
const BEFORE: [&str; 1] = ["instance"];
const BEHIND: [&str; 9] =
    ["state", "exit_code", "how", "tries", "server", "job", "elapsed_ms", "output", "error"];

/// An instance of a multi-job.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct InstanceRow {
    /// Its number.
    pub instance: u32,
    /// The values of its arguments, as the program got them.
    pub values: Vec<String>,
    /// `completed`, `failed`, `cancelled`, `submitted` or `waiting`.
    pub state: String,
    /// Its exit code, if it has one.
    pub exit_code: Option<i32>,
    /// How it ended, for people.
    pub how: String,
    /// How often it was run to an end.
    pub tries: u8,
    /// Where it ended, or nothing.
    pub server: String,
    /// In which job, or nothing.
    pub job: String,
    /// How long it took.
    pub elapsed_ms: Option<u64>,
    /// Its standard output.
    pub output: String,
    /// The end of its standard error, if it failed.
    pub error: String,
}

impl InstanceRow {
    fn bytes(&self) -> usize {
        let values: usize = self.values.iter().map(String::len).sum();
        values + self.how.len() + self.output.len() + self.error.len()
    }
}

/// Writes both files into a folder: so many instances, whose arguments have these names.
///
/// # Errors
///
/// If a file cannot be written, or `row` fails for an instance.
pub fn write_instances<E: From<FileError>>(
    dir: &Path,
    names: &[String],
    instances: u32,
    mut row: impl FnMut(u32) -> Result<InstanceRow, E>,
) -> Result<(), E> {
    let columns = columns(names);
    let (csv, parquet) = (dir.join(CSV), dir.join(PARQUET));
    let mut text = Text::create(&csv, &columns)?;
    let mut table = Table::create(&parquet, &columns)?;
    let (mut group, mut bytes) = (Vec::new(), 0);
    for instance in 0..instances {
        let row = row(instance)?;
        text.write(&row)?;
        bytes += row.bytes();
        group.push(row);
        if group.len() == ROWS_PER_GROUP || bytes >= BYTES_PER_GROUP {
            table.write(&group)?;
            group.clear();
            bytes = 0;
        }
    }
    table.write(&group)?;
    text.close()?;
    Ok(table.close()?)
}

fn columns(names: &[String]) -> Vec<String> {
    let own = |name: &String| match BEFORE.iter().chain(&BEHIND).any(|column| column == name) {
        true => format!("{ARGUMENT}{name}"),
        false => name.clone(),
    };
    let before = BEFORE.iter().map(|name| (*name).to_owned());
    before.chain(names.iter().map(own)).chain(BEHIND.iter().map(|name| (*name).to_owned())).collect()
}

/// The CSV file on its way.
struct Text<'a> {
    path: &'a Path,
    writer: csv::Writer<BufWriter<File>>,
}

impl Text<'_> {
    fn create<'a>(path: &'a Path, columns: &[String]) -> Result<Text<'a>, FileError> {
        let file = File::create(atomic::temporary(path));
        let file = file.map_err(|source| FileError::io(path, "write this file", source))?;
        let mut text = Text { path, writer: csv::Writer::from_writer(BufWriter::new(file)) };
        text.record(columns.iter().cloned())?;
        Ok(text)
    }

    fn write(&mut self, row: &InstanceRow) -> Result<(), FileError> {
        let number = |number: Option<i64>| number.map(|number| number.to_string()).unwrap_or_default();
        let behind = [
            row.state.clone(),
            number(row.exit_code.map(i64::from)),
            row.how.clone(),
            row.tries.to_string(),
            row.server.clone(),
            row.job.clone(),
            number(row.elapsed_ms.map(|ms| i64::try_from(ms).unwrap_or(i64::MAX))),
            row.output.clone(),
            row.error.clone(),
        ];
        let before = std::iter::once(row.instance.to_string());
        self.record(before.chain(row.values.iter().cloned()).chain(behind))
    }

    fn record(&mut self, fields: impl Iterator<Item = String>) -> Result<(), FileError> {
        let written = self.writer.write_record(fields);
        written.map_err(|error| FileError::io(self.path, "write this file", error.into()))
    }

    fn close(mut self) -> Result<(), FileError> {
        let written = self.writer.flush();
        written.map_err(|source| FileError::io(self.path, "write this file", source))?;
        atomic::rename(&atomic::temporary(self.path), self.path)
    }
}

/// The Parquet file on its way.
struct Table<'a> {
    path: &'a Path,
    writer: SerializedFileWriter<File>,
    arguments: usize,
}

impl Table<'_> {
    fn create<'a>(path: &'a Path, columns: &[String]) -> Result<Table<'a>, FileError> {
        let file = File::create(atomic::temporary(path));
        let file = file.map_err(|source| FileError::io(path, "write this file", source))?;
        let properties = WriterProperties::builder()
            .set_compression(Compression::SNAPPY)
            .set_created_by("pliant".to_owned())
            .build();
        let writer = schema(columns)
            .and_then(|schema| SerializedFileWriter::new(file, schema, Arc::new(properties)))
            .map_err(|source| FileError::parquet(path, source))?;
        Ok(Table { path, writer, arguments: columns.len() - BEFORE.len() - BEHIND.len() })
    }

    fn write(&mut self, rows: &[InstanceRow]) -> Result<(), FileError> {
        if rows.is_empty() {
            return Ok(());
        }
        let written = self.write_group(rows);
        written.map_err(|source| FileError::parquet(self.path, source))
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
        words(&mut group, rows, |row| &row.output)?;
        words(&mut group, rows, |row| &row.error)?;
        group.close().map(drop)
    }

    fn close(self) -> Result<(), FileError> {
        self.writer.close().map_err(|source| FileError::parquet(self.path, source))?;
        atomic::rename(&atomic::temporary(self.path), self.path)
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

#[cfg(test)]
mod tests {
    use parquet::file::reader::{FileReader, SerializedFileReader};
    use parquet::record::Field;

    use super::*;

    fn row(instance: u32) -> Result<InstanceRow, FileError> {
        let failed = instance % 1000 == 7;
        Ok(InstanceRow {
            instance,
            values: vec![format!("0.{instance:03}"), "a,\"b\"".to_owned()],
            state: if failed { "failed" } else { "completed" }.to_owned(),
            exit_code: (!failed).then_some(0),
            how: "exit code 0".to_owned(),
            tries: 1,
            server: "lyon".to_owned(),
            job: format!("lyon.{}", instance / 100),
            elapsed_ms: Some(u64::from(instance)),
            output: format!("line {instance}\n"),
            error: String::new(),
        })
    }

    #[test]
    fn both_files_have_every_row() {
        let dir = tempfile::tempdir().unwrap();
        let names = ["x", "server"].map(str::to_owned);
        let count = ROWS_PER_GROUP as u32 + 10;
        write_instances(dir.path(), &names, count, row).unwrap();
        let mut reader = csv::Reader::from_path(dir.path().join(CSV)).unwrap();
        let head: Vec<String> = reader.headers().unwrap().iter().map(str::to_owned).collect();
        assert_eq!(head[..4], ["instance", "x", "argument.server", "state"]);
        let records: Vec<csv::StringRecord> = reader.records().map(Result::unwrap).collect();
        assert_eq!(records.len(), count as usize);
        assert_eq!(records[7].iter().collect::<Vec<_>>()[..5], ["7", "0.007", "a,\"b\"", "failed", ""]);
        assert_eq!(&records[8][10], "line 8\n");
        let file = File::open(dir.path().join(PARQUET)).unwrap();
        let reader = SerializedFileReader::new(file).unwrap();
        assert_eq!(reader.num_row_groups(), 2);
        let rows: Vec<_> = reader.get_row_iter(None).unwrap().map(Result::unwrap).collect();
        assert_eq!(rows.len(), count as usize);
        let fields: Vec<(&String, &Field)> = rows[7].get_column_iter().collect();
        assert_eq!(fields[0], (&"instance".to_owned(), &Field::Long(7)));
        assert_eq!(fields[1].1, &Field::Str("0.007".to_owned()));
        assert_eq!(fields[4], (&"exit_code".to_owned(), &Field::Null));
        assert_eq!(fields[9].1, &Field::Long(7));
        // No temporary file remains.
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 2);
    }
}
