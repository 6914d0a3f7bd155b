//! What scripts get of a page: its curves with the runs behind them, as data that nothing takes for markup.
//! Much data is compressed.

use std::io::Write;

use flate2::Compression;
use flate2::write::GzEncoder;
use reports::{CurvePanel, PanelLine, PanelPoint};
use serde_json::{Value, json};

use crate::html::Markup;
use crate::html::hash::base64;
use crate::page::{Block, Page};

/// More letters than these are compressed.
const PLAIN_MAX: usize = 40_000;

/// Writes the data of a page; nothing if it has no curves.
pub fn data(markup: &mut Markup, page: &Page) {
    let sections = page.sections.iter().enumerate();
    let blocks = sections.flat_map(|(index, section)| {
        let blocks = section.blocks.iter().enumerate();
        blocks.map(move |(number, block)| (format!("s{}-{number}", index + 1), block))
    });
    let charts: Vec<Value> = blocks
        .filter_map(|(id, block)| match block {
            Block::Curves(panel) => Some(chart(&id, panel)),
            Block::Text(_) | Block::Table(_) | Block::Ledger(_) => None,
        })
        .collect();
    if charts.is_empty() {
        return;
    }
    let value = Value::Array(charts);
    if value.to_string().len() <= PLAIN_MAX {
        return markup.data("knee-data", "application/json", &value);
    }
    match compressed(&value) {
        Ok(letters) => markup.data("knee-data", "application/gzip+json", &Value::String(letters)),
        Err(_) => markup.data("knee-data", "application/json", &value),
    }
}

fn compressed(value: &Value) -> std::io::Result<String> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(value.to_string().as_bytes())?;
    Ok(base64(&encoder.finish()?))
}

fn chart(id: &str, panel: &CurvePanel) -> Value {
    json!({
        "id": id,
        "metric": panel.metric,
        "unit": panel.unit,
        "ideal": panel.ideal,
        "lines": panel.lines.iter().map(line).collect::<Vec<_>>(),
    })
}

fn line(line: &PanelLine) -> Value {
    let knee = line.scaling.as_ref().map(|scaling| scaling.knee.value);
    json!({
        "name": line.name,
        "form": line.form,
        "knee": knee.filter(|knee| knee.is_finite()),
        "points": line.points.iter().map(point).collect::<Vec<_>>(),
    })
}

/// CPUs, tasks, mean, standard deviation, idle share, and the runs: number, block, value, whether left out.
fn point(point: &PanelPoint) -> Value {
    let runs = point.runs.iter();
    let runs = runs.map(|run| json!([run.run, run.block, run.value, u8::from(run.discarded)]));
    json!([
        point.cpus,
        point.tasks,
        point.spread.mean,
        point.spread.stddev,
        point.idle,
        runs.collect::<Vec<_>>()
    ])
}
