//! Many records as few large Parquet files, for tools that read whole collections:
//!
//!     DIR/workload=NAME/month=YYYY-MM/records.parquet
//!
//! One row a value, of runs and of raw samples alike; the folders are columns to readers
//! that know Hive partitions (pandas, polars, DuckDB). The month is that of the record's
//! start. Written in one go into a new folder, from records that stay the truth.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, Result, ensure};
use host::durable::sync_folder;
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
}";

/// Rows in a row group: what is held in memory, beside the samples of one record.
const GROUP_ROWS: usize = 1 << 18;

/// What was written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Compacted {
    /// Files.
    pub files: usize,
    /// Rows in them.
    pub rows: usize,
}

/// Writes the records in these folders into a folder that does not exist or is empty.
pub fn compact(folders: &[PathBuf], into: &Path) -> Result<Compacted> {
    refuse_to_mix(into)?;
    let mut written = Compacted::default();
    for ((workload, month), folders) in partitions(folders)? {
        let part = format!("workload={}/month={month}", escaped(&workload));
        let mut file = PartFile::create(&into.join(part))?;
        for folder in folders {
            let opened = crate::open(folder)?;
            add_record(&mut file, &opened, &workload)
                .with_context(|| format!("compacting {}", folder.display()))?;
        }
        written.rows += file.finish()?;
        written.files += 1;
    }
    Ok(written)
}

/// Old files among new ones would count twice.
fn refuse_to_mix(into: &Path) -> Result<()> {
    fs::create_dir_all(into).with_context(|| format!("creating {}", into.display()))?;
    let mut entries = fs::read_dir(into).with_context(|| format!("listing {}", into.display()))?;
    ensure!(entries.next().is_none(), "{} is not empty: name a new folder", into.display());
    Ok(())
}

/// Folders by workload and month, each once, in the order of records' ids.
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
fn add_record(file: &mut PartFile, opened: &Opened, workload: &str) -> Result<()> {
    let mut samples: BTreeMap<u32, Vec<Sample>> = BTreeMap::new();
    for (run, sample) in crate::samples(opened)? {
        samples.entry(run).or_default().push(sample);
    }
    for run in &opened.runs {
        let point = opened.record.points.get(run.point as usize);
        let Some(point) = point.filter(|point| point.workload == workload) else { continue };
        let of = Arc::new(Origin::new(&opened.record, point, run));
        for (metric, value) in values(run) {
            file.add(Row { of: of.clone(), metric, task: None, at_ns: None, value })?;
        }
        for sample in samples.remove(&run.run).unwrap_or_default() {
            let Sample { metric, task, at_ns, value } = sample;
            let task = task.map(|task| task as i32);
            let metric = ByteArray::from(metric.as_str());
            file.add(Row { of: of.clone(), metric, task, at_ns, value })?;
        }
    }
    Ok(())
}

/// Metrics and counters; a failed run says only that.
fn values(run: &Run) -> Vec<(ByteArray, f64)> {
    match &run.outcome {
        Outcome::Failed { .. } => vec![("failed".into(), 1.0)],
        Outcome::Finished { metrics, counters, .. } => {
            let metrics = metrics.iter().map(|(name, value)| (name.as_str().into(), *value));
            let counters = counters.iter().map(|(name, n)| (name.as_str().into(), *n as f64));
            metrics.chain(counters).collect()
        }
    }
}

/// What all rows of one run share. Cheap to copy: the texts are counted references.
struct Origin {
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
}

impl Origin {
    fn new(record: &Record, point: &Point, run: &Run) -> Origin {
        let parameters = serde_json::to_string(&point.parameters).expect("a map of texts is JSON");
        let text = |text: &Option<String>| text.as_deref().map(ByteArray::from);
        Origin {
            record: record.id.as_str().into(),
            run: run.run as i32,
            block: run.block as i32,
            started_us: run.started.as_microsecond(),
            host: text(&record.host.hostname),
            kernel: text(&record.host.kernel_release),
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
        }
    }
}

struct Row {
    of: Arc<Origin>,
    metric: ByteArray,
    task: Option<i32>,
    at_ns: Option<i64>,
    value: f64,
}

/// The file of one partition. It has its name only when it is whole.
struct PartFile {
    writer: SerializedFileWriter<File>,
    folder: PathBuf,
    pending: Vec<Row>,
    rows: usize,
}

const GROWING: &str = "records.parquet.tmp";
const WHOLE: &str = "records.parquet";

impl PartFile {
    fn create(folder: &Path) -> Result<PartFile> {
        let path = folder.join(GROWING);
        let create = || -> Result<SerializedFileWriter<File>> {
            fs::create_dir_all(folder)?;
            let schema = Arc::new(parse_message_type(SCHEMA)?);
            let properties = WriterProperties::builder()
                .set_compression(Compression::ZSTD(ZstdLevel::try_new(3)?))
                .build();
            Ok(SerializedFileWriter::new(File::create(&path)?, schema, Arc::new(properties))?)
        };
        let writer = create().with_context(|| format!("creating {}", path.display()))?;
        Ok(PartFile { writer, folder: folder.to_path_buf(), pending: Vec::new(), rows: 0 })
    }

    fn add(&mut self, row: Row) -> Result<()> {
        self.pending.push(row);
        if self.pending.len() >= GROUP_ROWS { self.flush() } else { Ok(()) }
    }

    fn flush(&mut self) -> Result<()> {
        let rows = std::mem::take(&mut self.pending);
        self.rows += rows.len();
        write_group(&mut self.writer, &rows)
            .with_context(|| format!("writing into {}", self.folder.display()))
    }

    /// Returns how many rows it has.
    fn finish(mut self) -> Result<usize> {
        if !self.pending.is_empty() {
            self.flush()?;
        }
        let path = self.folder.join(WHOLE);
        let finish = || -> Result<()> {
            self.writer.into_inner()?.sync_all()?;
            fs::rename(self.folder.join(GROWING), &path)?;
            sync_folder(&self.folder)
        };
        finish().with_context(|| format!("writing {}", path.display()))?;
        Ok(self.rows)
    }
}

/// Writes the columns one after the other, in the order of the schema.
fn write_group(
    writer: &mut SerializedFileWriter<File>,
    rows: &[Row],
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
            ColumnWriter::ByteArrayColumnWriter(w) => {
                let (values, present) = optional(rows, |row| text(row, column));
                w.write_batch(&values, present.as_deref(), None)?
            }
            _ => unreachable!("the schema has columns of these four types"),
        };
        writer.close()?;
        column += 1;
    }
    group.close()?;
    Ok(())
}

/// The values that are there, and for each row whether it is.
fn optional<T>(rows: &[Row], value: impl Fn(&Row) -> Cell<T>) -> (Vec<T>, Option<Vec<i16>>) {
    let mut values = Vec::with_capacity(rows.len());
    let mut present = Vec::new();
    for row in rows {
        match value(row) {
            Cell::Required(value) => values.push(value),
            Cell::Optional(value) => {
                present.push(value.is_some() as i16);
                values.extend(value);
            }
        }
    }
    (values, (!present.is_empty()).then_some(present))
}

/// A value of a column that all rows have, or of one that some lack.
enum Cell<T> {
    Required(T),
    Optional(Option<T>),
}

fn number(row: &Row, column: usize) -> Cell<i32> {
    let of = &row.of;
    match column {
        1 => Cell::Required(of.run),
        2 => Cell::Required(of.block),
        6 => Cell::Required(of.semantics),
        8 => Cell::Required(of.cpus),
        9 => Cell::Required(of.tasks),
        15 => Cell::Optional(row.task),
        _ => unreachable!("column {column} holds no 32-bit numbers"),
    }
}

fn time(row: &Row, column: usize) -> Cell<i64> {
    match column {
        3 => Cell::Required(row.of.started_us),
        16 => Cell::Optional(row.at_ns),
        _ => unreachable!("column {column} holds no 64-bit numbers"),
    }
}

fn text(row: &Row, column: usize) -> Cell<ByteArray> {
    let of = &row.of;
    match column {
        0 => Cell::Required(of.record.clone()),
        4 => Cell::Optional(of.host.clone()),
        5 => Cell::Optional(of.kernel.clone()),
        7 => Cell::Required(of.form.clone()),
        10 => Cell::Required(of.placement.clone()),
        11 => Cell::Required(of.parameters.clone()),
        12 => Cell::Required(of.pass.clone()),
        13 => Cell::Required(of.dir.clone()),
        14 => Cell::Required(row.metric.clone()),
        _ => unreachable!("column {column} holds no text"),
    }
}
