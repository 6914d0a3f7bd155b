//! Compaction: many records in a few large Parquet files, for tools that read whole collections:
//!
//!     DIR/workload=NAME/month=YYYY-MM/records.parquet
//!
//! Each row is one value, of a run or of a raw sample. Readers that know Hive partitions (pandas,
//! polars, DuckDB) take the folders as columns: docs/formats/record.md names them all. The month is that of the record's start. The files are
//! written once into a new folder; the records remain the truth.

use std::collections::BTreeMap;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, Result, ensure};
use host::HeldFolder;
use parquet::basic::{Compression, ZstdLevel};
use parquet::column::writer::ColumnWriter;
use parquet::data_type::ByteArray;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::parser::parse_message_type;
use records::{Opened, Outcome, Pass, Point, Record, Run, Sample};

use crate::folder::read_record;

const SCHEMA: &str = "message values {
    REQUIRED BINARY record (UTF8);
    REQUIRED INT32 run;
    REQUIRED INT32 block;
    REQUIRED INT64 started (TIMESTAMP(MICROS,true));
    OPTIONAL BINARY host (UTF8);
    OPTIONAL BINARY kernel (UTF8);
    REQUIRED INT32 semantics;
    REQUIRED BINARY as (UTF8);
    REQUIRED INT32 cpus;
    REQUIRED INT32 tasks;
    REQUIRED BINARY placement (UTF8);
    REQUIRED BINARY parameters (UTF8);
    REQUIRED BINARY pass (UTF8);
    REQUIRED BINARY dir (UTF8);
    REQUIRED BINARY metric (UTF8);
    OPTIONAL INT32 task;
    OPTIONAL INT64 at_ns;
    REQUIRED DOUBLE value;
    OPTIONAL BINARY variant (UTF8);
    REQUIRED BOOLEAN placebo;
    OPTIONAL BINARY left_out (UTF8);
}";

/// Rows in a row group: they are held in memory, in addition to the samples of one record.
const GROUP_ROWS: usize = 1 << 18;

/// What a compaction wrote.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Compacted {
    /// Number of files.
    pub files: usize,
    /// Number of rows in all files.
    pub rows: usize,
}

/// The runs that comparisons leave out, by number, each with the reason.
pub type LeftOut = BTreeMap<u32, String>;

/// Writes the records in these folders into a folder that must be new or empty. `left_out` tells what comparisons
/// leave out of a record.
pub fn compact(
    folders: &[PathBuf],
    into: &Path,
    left_out: fn(&Opened) -> LeftOut,
) -> Result<Compacted> {
    refuse_to_mix(into)?;
    let mut written = Compacted::default();
    for ((workload, month), folders) in partitions(folders)? {
        let part = format!("workload={}/month={month}", escaped(&workload));
        let mut file = PartFile::create(&into.join(part))?;
        for folder in folders {
            let opened = crate::open(folder)?;
            add_record(&mut file, &opened, &workload, &left_out(&opened))
                .with_context(|| format!("compacting {}", folder.display()))?;
        }
        written.rows += file.finish()?;
        written.files += 1;
    }
    Ok(written)
}

/// Refuses a folder with files: old files among new ones would be counted twice.
fn refuse_to_mix(into: &Path) -> Result<()> {
    let is_empty = HeldFolder::create(into)?.list()?.is_empty();
    ensure!(is_empty, "{} is not empty: name a new folder", into.display());
    Ok(())
}

/// The records' folders by workload and month, each record once, in the order of the ids.
fn partitions(folders: &[PathBuf]) -> Result<BTreeMap<(String, String), Vec<&Path>>> {
    let mut by_id = BTreeMap::new();
    for folder in folders {
        let record = read_record(folder)?;
        by_id.insert(record.id.clone(), (folder.as_path(), month(&record), workloads(&record)));
    }
    let mut partitions: BTreeMap<_, Vec<&Path>> = BTreeMap::new();
    for (folder, month, workloads) in by_id.into_values() {
        for workload in workloads {
            partitions.entry((workload, month.clone())).or_default().push(folder);
        }
    }
    Ok(partitions)
}

fn month(record: &Record) -> String {
    let started = record.started().unwrap_or(jiff::Timestamp::UNIX_EPOCH);
    started.strftime("%Y-%m").to_string()
}

fn workloads(record: &Record) -> Vec<String> {
    let mut names: Vec<String> = record.points.iter().map(|p| p.workload.clone()).collect();
    names.sort();
    names.dedup();
    names
}

/// A name as part of a path; Hive readers undo percent escapes.
fn escaped(name: &str) -> String {
    let byte = |b: u8| match b {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'_' | b'-' => char::from(b).to_string(),
        other => format!("%{other:02X}"),
    };
    name.bytes().map(byte).collect()
}

/// Adds the runs of one workload, with their samples, to its file.
fn add_record(
    file: &mut PartFile,
    opened: &Opened,
    workload: &str,
    left_out: &LeftOut,
) -> Result<()> {
    let mut samples: BTreeMap<u32, Vec<Sample>> = BTreeMap::new();
    for (run, sample) in crate::samples(opened)? {
        samples.entry(run).or_default().push(sample);
    }
    for run in &opened.runs {
        let point = opened.record.points.get(run.point as usize);
        let Some(point) = point.filter(|point| point.workload == workload) else { continue };
        let run_columns = Arc::new(RunColumns::new(&opened.record, point, run, left_out));
        for (metric, value) in values(run) {
            let run = run_columns.clone();
            file.add(ValueRow { run, metric, task: None, at_ns: None, value })?;
        }
        for sample in samples.remove(&run.run).unwrap_or_default() {
            let Sample { metric, task, at_ns, value } = sample;
            let task = task.map(|task| task as i32);
            let metric = ByteArray::from(metric.as_str());
            file.add(ValueRow { run: run_columns.clone(), metric, task, at_ns, value })?;
        }
    }
    Ok(())
}

/// The metrics and counters of a run; for a failed run only `failed`.
fn values(run: &Run) -> Vec<(ByteArray, f64)> {
    match &run.outcome {
        Outcome::Failed { .. } => vec![("failed".into(), 1.0)],
        Outcome::Finished { metrics, counters, .. } => {
            let metrics = metrics.iter().map(|(name, value)| (name.into(), value));
            let counters = counters.iter().map(|(name, n)| (name.into(), n as f64));
            metrics.chain(counters).collect()
        }
    }
}

/// The columns that all rows of a run share.
struct RunColumns {
    record: ByteArray,
    run: i32,
    block: i32,
    started_us: i64,
    host: Option<ByteArray>,
    kernel: Option<ByteArray>,
    semantics: i32,
    form: ByteArray,
    cpus: i32,
    tasks: i32,
    placement: ByteArray,
    parameters: ByteArray,
    pass: ByteArray,
    dir: ByteArray,
    variant: Option<ByteArray>,
    placebo: bool,
    left_out: Option<ByteArray>,
}

impl RunColumns {
    fn new(record: &Record, point: &Point, run: &Run, left_out: &LeftOut) -> RunColumns {
        let parameters = serde_json::to_string(&point.parameters).expect("a map of texts is JSON");
        RunColumns {
            record: record.id.as_str().into(),
            run: run.run as i32,
            block: run.block as i32,
            started_us: run.started.as_microsecond(),
            host: record.host_of_run(run.run).map(ByteArray::from),
            kernel: record.host.kernel_release.as_deref().map(ByteArray::from),
            semantics: point.semantics as i32,
            form: point.form.name().into(),
            cpus: point.cpus as i32,
            tasks: point.tasks as i32,
            placement: point.placement.name().into(),
            parameters: parameters.as_str().into(),
            pass: match point.pass {
                Pass::Rate => "rate".into(),
                Pass::Latency => "latency".into(),
            },
            dir: point.dir.to_string_lossy().as_ref().into(),
            variant: (!point.variant.is_empty()).then(|| point.variant.as_str().into()),
            placebo: run.placebo,
            left_out: left_out.get(&run.run).map(|why| why.as_str().into()),
        }
    }
}

struct ValueRow {
    run: Arc<RunColumns>,
    metric: ByteArray,
    task: Option<i32>,
    at_ns: Option<i64>,
    value: f64,
}

/// The file of one partition. It gets its name when it is whole.
struct PartFile {
    writer: SerializedFileWriter<File>,
    folder: HeldFolder,
    pending: Vec<ValueRow>,
    rows: usize,
}

const GROWING: &str = "records.parquet.tmp";
const WHOLE: &str = "records.parquet";

impl PartFile {
    fn create(folder: &Path) -> Result<PartFile> {
        let path = folder.join(GROWING);
        let held = HeldFolder::create(folder)?;
        let create = || -> Result<SerializedFileWriter<File>> {
            let schema = Arc::new(parse_message_type(SCHEMA)?);
            let properties = WriterProperties::builder()
                .set_compression(Compression::ZSTD(ZstdLevel::try_new(3)?))
                .build();
            Ok(SerializedFileWriter::new(held.create_new(GROWING)?, schema, Arc::new(properties))?)
        };
        let writer = create().with_context(|| format!("creating {}", path.display()))?;
        Ok(PartFile { writer, folder: held, pending: Vec::new(), rows: 0 })
    }

    fn add(&mut self, row: ValueRow) -> Result<()> {
        self.pending.push(row);
        if self.pending.len() >= GROUP_ROWS { self.flush() } else { Ok(()) }
    }

    fn flush(&mut self) -> Result<()> {
        let rows = std::mem::take(&mut self.pending);
        self.rows += rows.len();
        write_group(&mut self.writer, &rows)
            .with_context(|| format!("writing into {}", self.folder.path().display()))
    }

    /// Finishes the file and returns its number of rows.
    fn finish(mut self) -> Result<usize> {
        if !self.pending.is_empty() {
            self.flush()?;
        }
        let path = self.folder.path().join(WHOLE);
        let finish = || -> Result<()> {
            self.writer.into_inner()?.sync_all()?;
            self.folder.rename(GROWING, WHOLE)?;
            self.folder.sync()
        };
        finish().with_context(|| format!("writing {}", path.display()))?;
        Ok(self.rows)
    }
}

/// Writes a row group, column by column in the order of the schema.
fn write_group(
    writer: &mut SerializedFileWriter<File>,
    rows: &[ValueRow],
) -> parquet::errors::Result<()> {
    let mut group = writer.next_row_group()?;
    let mut column = 0;
    while let Some(mut writer) = group.next_column()? {
        match writer.untyped() {
            ColumnWriter::Int32ColumnWriter(w) => {
                let (values, present) = optional(rows, |row| number(row, column));
                w.write_batch(&values, present.as_deref(), None)?
            }
            ColumnWriter::Int64ColumnWriter(w) => {
                let (values, present) = optional(rows, |row| time(row, column));
                w.write_batch(&values, present.as_deref(), None)?
            }
            ColumnWriter::DoubleColumnWriter(w) => {
                let values: Vec<f64> = rows.iter().map(|row| row.value).collect();
                w.write_batch(&values, None, None)?
            }
            ColumnWriter::BoolColumnWriter(w) => {
                let values: Vec<bool> = rows.iter().map(|row| row.run.placebo).collect();
                w.write_batch(&values, None, None)?
            }
            ColumnWriter::ByteArrayColumnWriter(w) => {
                let (values, present) = optional(rows, |row| text(row, column));
                w.write_batch(&values, present.as_deref(), None)?
            }
            _ => unreachable!("the schema has columns of these five types"),
        };
        writer.close()?;
        column += 1;
    }
    group.close()?;
    Ok(())
}

/// The values that are present, and for each row of an optional column whether its value is present.
fn optional<T>(
    rows: &[ValueRow],
    value: impl Fn(&ValueRow) -> ColumnValue<T>,
) -> (Vec<T>, Option<Vec<i16>>) {
    let mut values = Vec::with_capacity(rows.len());
    let mut present = Vec::new();
    for row in rows {
        match value(row) {
            ColumnValue::Required(value) => values.push(value),
            ColumnValue::Optional(value) => {
                present.push(value.is_some() as i16);
                values.extend(value);
            }
        }
    }
    (values, (!present.is_empty()).then_some(present))
}

/// A value of a required or of an optional column.
enum ColumnValue<T> {
    Required(T),
    Optional(Option<T>),
}

fn number(row: &ValueRow, column: usize) -> ColumnValue<i32> {
    let run = &row.run;
    match column {
        1 => ColumnValue::Required(run.run),
        2 => ColumnValue::Required(run.block),
        6 => ColumnValue::Required(run.semantics),
        8 => ColumnValue::Required(run.cpus),
        9 => ColumnValue::Required(run.tasks),
        15 => ColumnValue::Optional(row.task),
        _ => unreachable!("column {column} holds no 32-bit numbers"),
    }
}

fn time(row: &ValueRow, column: usize) -> ColumnValue<i64> {
    match column {
        3 => ColumnValue::Required(row.run.started_us),
        16 => ColumnValue::Optional(row.at_ns),
        _ => unreachable!("column {column} holds no 64-bit numbers"),
    }
}

fn text(row: &ValueRow, column: usize) -> ColumnValue<ByteArray> {
    let run = &row.run;
    match column {
        0 => ColumnValue::Required(run.record.clone()),
        4 => ColumnValue::Optional(run.host.clone()),
        5 => ColumnValue::Optional(run.kernel.clone()),
        7 => ColumnValue::Required(run.form.clone()),
        10 => ColumnValue::Required(run.placement.clone()),
        11 => ColumnValue::Required(run.parameters.clone()),
        12 => ColumnValue::Required(run.pass.clone()),
        13 => ColumnValue::Required(run.dir.clone()),
        14 => ColumnValue::Required(row.metric.clone()),
        18 => ColumnValue::Optional(run.variant.clone()),
        20 => ColumnValue::Optional(run.left_out.clone()),
        _ => unreachable!("column {column} holds no text"),
    }
}
