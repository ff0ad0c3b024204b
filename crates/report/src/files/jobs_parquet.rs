//! `jobs.parquet`: the columns of `jobs.csv`, typed, compressed with Snappy; cluster and reason as
//! dictionaries. Written column by column in groups of rows, so that memory does not grow with the run.

use std::fs::File;
use std::path::Path;
use std::sync::Arc;

use parquet::basic::Compression;
use parquet::data_type::{BoolType, ByteArray, ByteArrayType, DataType, Int32Type, Int64Type};
use parquet::errors::Result as ParquetResult;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
use parquet::schema::parser::parse_message_type;
use pliant_model::{JobOutcome, Reason, Run};

use super::{FileError, atomic};

const ROWS_PER_GROUP: usize = 1 << 17;
/// Values written at a time, which bounds the memory of the writer.
const ROWS_AT_ONCE: usize = 1 << 11;

const SCHEMA: &str = "message jobs {
    required int64 job (INTEGER(64,false));
    required binary cluster (UTF8);
    required int64 submit;
    required int64 start;
    required int64 end;
    required int32 procs (INTEGER(32,false));
    required int64 walltime;
    required int32 moves (INTEGER(32,false));
    required boolean managed;
    required binary reason (UTF8);
}";

/// Writes the file.
pub(super) fn write(path: &Path, run: &Run) -> Result<(), FileError> {
    let temporary = atomic::temporary(path);
    let file = File::create(&temporary).map_err(|source| FileError::io(path, "write this file", source))?;
    write_rows(file, run).map_err(|source| FileError::parquet(path, source))?;
    atomic::rename(&temporary, path)
}

fn write_rows(file: File, run: &Run) -> ParquetResult<()> {
    let schema = Arc::new(parse_message_type(SCHEMA)?);
    let properties = WriterProperties::builder()
        .set_compression(Compression::SNAPPY)
        // Times and numbers hardly repeat; a dictionary would only be built and thrown away.
        .set_dictionary_enabled(false)
        .set_column_dictionary_enabled("cluster".into(), true)
        .set_column_dictionary_enabled("reason".into(), true)
        .set_created_by("pliant".to_owned())
        .build();
    let names: Vec<ByteArray> =
        run.platform.clusters().iter().map(|cluster| cluster.name.as_str().into()).collect();
    let mut writer = SerializedFileWriter::new(file, schema, Arc::new(properties))?;
    for jobs in run.jobs.chunks(ROWS_PER_GROUP) {
        let mut group = writer.next_row_group()?;
        column::<Int64Type>(&mut group, jobs, |job| job.log_id as i64)?;
        column::<ByteArrayType>(&mut group, jobs, |job| names[job.cluster.index()].clone())?;
        column::<Int64Type>(&mut group, jobs, |job| job.submit.0)?;
        column::<Int64Type>(&mut group, jobs, |job| job.start.0)?;
        column::<Int64Type>(&mut group, jobs, |job| job.end.0)?;
        column::<Int32Type>(&mut group, jobs, |job| job.procs.0 as i32)?;
        column::<Int64Type>(&mut group, jobs, |job| job.walltime.0)?;
        column::<Int32Type>(&mut group, jobs, |job| job.moves as i32)?;
        column::<BoolType>(&mut group, jobs, |job| job.managed)?;
        let mut words = Words::default();
        column::<ByteArrayType>(&mut group, jobs, |job| words.of(job.reason))?;
        group.close()?;
    }
    writer.close()?;
    Ok(())
}

/// Writes the next column of a group of rows.
fn column<T: DataType>(
    group: &mut SerializedRowGroupWriter<'_, File>,
    jobs: &[JobOutcome],
    mut value: impl FnMut(&JobOutcome) -> T::T,
) -> ParquetResult<()> {
    let Some(mut column) = group.next_column()? else { return Ok(()) };
    let mut values: Vec<T::T> = Vec::with_capacity(ROWS_AT_ONCE.min(jobs.len()));
    for part in jobs.chunks(ROWS_AT_ONCE) {
        values.clear();
        values.extend(part.iter().map(&mut value));
        column.typed::<T>().write_batch(&values, None, None)?;
    }
    column.close()
}

/// The words of the reasons met so far: cloning one shares its bytes, making one allocates.
#[derive(Default)]
struct Words(Vec<(Reason, ByteArray)>);

impl Words {
    fn of(&mut self, reason: Reason) -> ByteArray {
        if let Some((_, word)) = self.0.iter().find(|(known, _)| *known == reason) {
            return word.clone();
        }
        let word = ByteArray::from(reason.word());
        self.0.push((reason, word.clone()));
        word
    }
}
