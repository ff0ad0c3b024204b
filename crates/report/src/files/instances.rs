//! `results.csv` of a multi-job, and with the feature `parquet` `results.parquet`: its instances with their arguments and
//! outcomes. Both are written in one pass, so that memory does not grow with the multi-job.

use std::fs::File;
use std::io::BufWriter;
use std::path::Path;

#[cfg(feature = "parquet")]
use super::instances_parquet::Table;
use super::{FileError, atomic};

const CSV: &str = "results.csv";
/// The prefix of an argument's name that equals another column.
const ARGUMENT: &str = "argument.";
/// The columns before and behind the arguments.
pub(super) const BEFORE: [&str; 1] = ["instance"];
pub(super) const BEHIND: [&str; 9] =
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
    pub output: Vec<u8>,
    /// The end of its standard error, if it failed.
    pub error: Vec<u8>,
}

impl InstanceRow {
    /// The bytes of its texts.
    #[cfg(feature = "parquet")]
    pub(super) fn bytes(&self) -> usize {
        let values: usize = self.values.iter().map(String::len).sum();
        values + self.how.len() + self.output.len() + self.error.len()
    }
}

/// Writes the files into a folder: `instances` rows, whose arguments have these names.
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
    let csv = dir.join(CSV);
    let mut text = Text::create(&csv, &columns)?;
    #[cfg(feature = "parquet")]
    let mut table = Table::create(dir, &columns)?;
    for instance in 0..instances {
        let row = row(instance)?;
        text.write(&row)?;
        #[cfg(feature = "parquet")]
        table.write(row)?;
    }
    #[cfg(feature = "parquet")]
    table.close()?;
    Ok(text.close()?)
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
        text.record(columns.iter())?;
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
        ];
        let before = std::iter::once(row.instance.to_string());
        let texts = before.chain(row.values.iter().cloned()).chain(behind).map(String::into_bytes);
        self.record(texts.chain([row.output.clone(), row.error.clone()]))
    }

    fn record(&mut self, fields: impl Iterator<Item: AsRef<[u8]>>) -> Result<(), FileError> {
        let written = self.writer.write_record(fields);
        written.map_err(|error| FileError::io(self.path, "write this file", error.into()))
    }

    fn close(mut self) -> Result<(), FileError> {
        let written = self.writer.flush();
        written.map_err(|source| FileError::io(self.path, "write this file", source))?;
        atomic::rename(&atomic::temporary(self.path), self.path)
    }
}

#[cfg(all(test, feature = "parquet"))]
mod tests {
    use parquet::file::reader::{FileReader, SerializedFileReader};
    use parquet::record::Field;

    use super::super::instances_parquet::{PARQUET, ROWS_PER_GROUP};
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
            output: if instance == 9 {
                b"\xff\n".to_vec()
            } else {
                format!("line {instance}\n").into_bytes()
            },
            error: Vec::new(),
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
        let records: Vec<csv::ByteRecord> = reader.byte_records().map(Result::unwrap).collect();
        assert_eq!(records.len(), count as usize);
        let first: [&[u8]; 5] = [b"7", b"0.007", b"a,\"b\"", b"failed", b""];
        assert_eq!(records[7].iter().collect::<Vec<_>>()[..5], first);
        assert_eq!(
            [&records[8][10], &records[9][10]],
            [b"line 8\n" as &[u8], b"\xff\n"],
            "as it was written"
        );
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
