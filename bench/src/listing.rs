//! Listing a large store: 10 000 copies of a real record under ids of their own, listed with
//! the index and with the index deleted. The files themselves stay in the page cache.

use std::env::temp_dir;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use jiff::{SignedDuration, Timestamp};
use rand::RngExt;
use store::Id;

use crate::report::{Figure, Limit};
use crate::{Bench, fresh_directory, output};

const RECORDS: usize = 10_000;
const REPEATS: usize = 10;

/// Wall times of `knee list`, warm and cold, and of what TAB asks for.
pub fn measure(bench: &mut Bench) -> Result<Vec<Figure>> {
    let home = fresh_directory(&temp_dir())?;
    let template = make_template(bench, home.path())?;
    eprintln!("copying {} to {RECORDS} records", template.display());
    fill(bench, &home.path().join("records"), &template)?;
    // The index does not trust folders changed within its clock's grain.
    std::thread::sleep(Duration::from_secs(3));
    let mut cold = Vec::new();
    let mut warm = Vec::new();
    let mut completed = Vec::new();
    for repeat in 1..=REPEATS {
        eprintln!("listing: {repeat} of {REPEATS}");
        let _ = fs::remove_dir_all(home.path().join("cache"));
        cold.push(list(bench, home.path())?);
        warm.push(list(bench, home.path())?);
        completed.push(complete(bench, home.path(), "")?);
        completed.push(complete(bench, home.path(), "20")?);
    }
    let figure = |what, unit, limit, values| Figure {
        name: format!("{RECORDS} records listed, {what}"),
        unit,
        limit,
        values,
    };
    Ok(vec![
        figure("with the index", "ms", Limit::AtMost(50.0), warm),
        figure("index deleted", "ms", Limit::AtMost(2000.0), cold),
        figure("completed in a shell", "ms", Limit::AtMost(30.0), completed),
    ])
}

/// A record of a short run over all CPUs, taken out of the store. Returns its folder.
fn make_template(bench: &Bench, home: &Path) -> Result<PathBuf> {
    let mut command = bench.knee(home);
    command.args(["run", "getppid", "--seconds", "0.02", "--json", "--dir"]).arg(home);
    output(&mut command)?;
    let only_entry = |folder: &Path| -> Result<PathBuf> {
        Ok(fs::read_dir(folder)?.next().context("the store is empty")??.path())
    };
    let shard = only_entry(&home.join("records"))?;
    let template = home.join("template");
    fs::rename(only_entry(&shard)?, &template)?;
    Ok(template)
}

/// Copies the template into the store, a minute apart in time.
fn fill(bench: &mut Bench, store: &Path, template: &Path) -> Result<()> {
    let record = fs::read_to_string(template.join("record.json"))?;
    let value: serde_json::Value = serde_json::from_str(&record)?;
    let old = value["id"].as_str().context("the record has an id")?;
    let now = Timestamp::now();
    for number in 1..=RECORDS {
        let id = Id::new(now - SignedDuration::from_mins(number as i64), bench.random.random());
        // Shards are named by the first digits of the id's random part.
        let folder = store.join(&id.as_str()[16..18]).join(id.as_str());
        fs::create_dir_all(&folder)?;
        fs::write(folder.join("record.json"), record.replace(old, id.as_str()))?;
        for name in ["runs.ndjson", "samples.parquet"] {
            fs::copy(template.join(name), folder.join(name))?;
        }
    }
    Ok(())
}

/// Lists all records; returns the wall time in ms.
fn list(bench: &Bench, home: &Path) -> Result<f64> {
    let mut command = bench.knee(home);
    command.args(["list", "-n", &RECORDS.to_string()]);
    let since = Instant::now();
    let listed = output(&mut command)?.stdout;
    let ms = since.elapsed().as_secs_f64() * 1e3;
    let lines = listed.iter().filter(|byte| **byte == b'\n').count();
    ensure!(lines == RECORDS, "{lines} of {RECORDS} records were listed");
    Ok(ms)
}

/// Asks for the records whose names begin so, as a shell does at TAB; returns the wall time in ms.
fn complete(bench: &Bench, home: &Path, beginning: &str) -> Result<f64> {
    let mut command = bench.knee(home);
    command.args(["complete", &format!("--line=knee show {beginning}")]);
    let since = Instant::now();
    let offered = output(&mut command)?.stdout;
    let ms = since.elapsed().as_secs_f64() * 1e3;
    ensure!(
        offered.starts_with(if beginning.is_empty() { b"last\n" } else { b"20" }),
        "no records were offered"
    );
    Ok(ms)
}
