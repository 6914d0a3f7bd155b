//! Samples: raw values inside a run. All kinds share one Parquet table of five columns, which pandas,
//! polars and DuckDB open directly. While a record grows, samples are JSON lines, one per run, because
//! a Parquet file is readable only once it is whole.

use std::fs::File;
use std::panic::catch_unwind;
use std::sync::Arc;

use anyhow::{Context, Result, bail};
use host::HeldFolder;
use parquet::basic::{Compression, ZstdLevel};
use parquet::column::writer::ColumnWriter;
use parquet::data_type::ByteArray;
use parquet::file::properties::WriterProperties;
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::file::writer::SerializedFileWriter;
use parquet::record::RowAccessor;
use parquet::schema::parser::parse_message_type;
use records::Sample;
use serde::{Deserialize, Serialize};

use crate::parquet_limits::{self, GROUP_ROWS};
use crate::record_files::RESULTS_LIMIT;

/// The samples of one run: one line while the record grows.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RunSamples {
    pub run: u32,
    pub samples: Vec<Sample>,
}

const SCHEMA: &str = "message samples {
    REQUIRED INT32 run;
    REQUIRED BINARY metric (UTF8);
    OPTIONAL INT32 task;
    OPTIONAL INT64 at_ns;
    REQUIRED DOUBLE value;
}";

/// Writes all samples of a record.
pub fn write_parquet(folder: &HeldFolder, name: &str, runs: &[RunSamples]) -> Result<()> {
    folder.replace_by(name, "samples.tmp", |file| {
        let schema = Arc::new(parse_message_type(SCHEMA)?);
        let properties = WriterProperties::builder()
            .set_compression(Compression::ZSTD(ZstdLevel::try_new(3)?))
            .build();
        let mut writer = SerializedFileWriter::new(file, schema, Arc::new(properties))?;
        let rows: Vec<(u32, &Sample)> =
            runs.iter().flat_map(|r| r.samples.iter().map(move |s| (r.run, s))).collect();
        for group in rows.chunks(GROUP_ROWS) {
            write_group(&mut writer, group)?;
        }
        writer.close()?;
        Ok(())
    })
}

fn write_group(
    writer: &mut SerializedFileWriter<&File>,
    rows: &[(u32, &Sample)],
) -> parquet::errors::Result<()> {
    let run: Vec<i32> = rows.iter().map(|(run, _)| *run as i32).collect();
    let metric: Vec<ByteArray> = rows.iter().map(|(_, s)| s.metric.as_str().into()).collect();
    let task: Vec<i32> = rows.iter().filter_map(|(_, s)| s.task.map(|t| t as i32)).collect();
    let has_task: Vec<i16> = rows.iter().map(|(_, s)| s.task.is_some() as i16).collect();
    let at: Vec<i64> = rows.iter().filter_map(|(_, s)| s.at_ns).collect();
    let has_at: Vec<i16> = rows.iter().map(|(_, s)| s.at_ns.is_some() as i16).collect();
    let value: Vec<f64> = rows.iter().map(|(_, s)| s.value).collect();

    let mut group = writer.next_row_group()?;
    let mut column = 0;
    while let Some(mut writer) = group.next_column()? {
        match (column, writer.untyped()) {
            (0, ColumnWriter::Int32ColumnWriter(w)) => w.write_batch(&run, None, None)?,
            (1, ColumnWriter::ByteArrayColumnWriter(w)) => w.write_batch(&metric, None, None)?,
            (2, ColumnWriter::Int32ColumnWriter(w)) => {
                w.write_batch(&task, Some(&has_task), None)?
            }
            (3, ColumnWriter::Int64ColumnWriter(w)) => w.write_batch(&at, Some(&has_at), None)?,
            (4, ColumnWriter::DoubleColumnWriter(w)) => w.write_batch(&value, None, None)?,
            _ => unreachable!("the schema has these five columns"),
        };
        writer.close()?;
        column += 1;
    }
    group.close()?;
    Ok(())
}

/// Reads the file of [`write_parquet`]: the samples of each run, in order.
pub fn read_parquet(folder: &HeldFolder, name: &str) -> Result<Vec<RunSamples>> {
    let path = folder.path().join(name);
    let file = folder.open_file(name, RESULTS_LIMIT)?;
    let file = file.with_context(|| format!("{} is missing", path.display()))?;
    let read = || -> Result<Vec<RunSamples>> {
        let reader = SerializedFileReader::new(file.try_clone()?)?;
        parquet_limits::check(&file, reader.metadata()).context("not the samples of runs")?;
        let mut runs: Vec<RunSamples> = Vec::new();
        for row in reader.get_row_iter(None)? {
            let row = row?;
            let run = row.get_int(0)? as u32;
            let sample = Sample {
                metric: row.get_string(1)?.clone(),
                task: row.get_int(2).ok().map(|t| t as u32),
                at_ns: row.get_long(3).ok(),
                value: row.get_double(4)?,
            };
            match runs.last_mut() {
                Some(last) if last.run == run => last.samples.push(sample),
                _ => runs.push(RunSamples { run, samples: vec![sample] }),
            }
        }
        Ok(runs)
    };
    // The Parquet library panics on some damaged files.
    match catch_unwind(read) {
        Ok(read) => read.with_context(|| format!("reading {}", path.display())),
        Err(_) => bail!("reading {}: it is damaged", path.display()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_come_back_from_parquet_as_they_were() {
        let sample =
            |metric: &str, task, at_ns, value| Sample { metric: metric.into(), task, at_ns, value };
        let runs = vec![
            RunSamples {
                run: 0,
                samples: vec![
                    sample("task.operations", Some(0), None, 12.0),
                    sample("interval.operations", None, Some(20_000_000), 7.5),
                ],
            },
            RunSamples { run: 3, samples: vec![sample("task.operations", Some(1), None, 1e15)] },
        ];
        let folder = tempfile::tempdir().unwrap();
        let folder = HeldFolder::open(folder.path()).unwrap();
        write_parquet(&folder, "samples.parquet", &runs).unwrap();
        assert_eq!(read_parquet(&folder, "samples.parquet").unwrap(), runs);
    }
}
