//! What scripts get of a page: its curves with the runs behind them, ledgers and stacks, as data that nothing takes for markup.
//! Much data is compressed.

use std::io::Write;

use explanations::ledger::{LedgerNode, LedgerTree};
use explanations::recording::{FlameGraph, FlameNode};
use flate2::Compression;
use flate2::write::GzEncoder;
use reports::{CurvePanel, PanelLine, PanelPoint};
use serde_json::{Value, json};

use crate::html::Markup;
use crate::html::hash::base64;
use crate::page::{Block, Page};

/// More letters than these are compressed.
const PLAIN_MAX: usize = 40_000;

/// Writes the data of a page; nothing if it has no drawings. The single runs behind curves stand by
/// themselves: a million of them take a browser a second to read, which it does when somebody asks for them.
pub fn data(markup: &mut Markup, page: &Page) {
    let sections = page.sections.iter().enumerate();
    let blocks = sections.flat_map(|(index, section)| {
        let blocks = section.blocks.iter().enumerate();
        blocks.map(move |(number, block)| (format!("s{}-{number}", index + 1), block))
    });
    let (mut charts, mut ledgers, mut flames) = (Vec::new(), Vec::new(), Vec::new());
    let mut all_runs = serde_json::Map::new();
    for (id, block) in blocks {
        match block {
            Block::Curves(panel) => {
                charts.push(chart(&id, panel));
                if panel.lines.iter().flat_map(|line| &line.points).any(|one| !one.runs.is_empty())
                {
                    all_runs.insert(id, runs(panel));
                }
            }
            Block::Ledger(tree) => ledgers.push(ledger(&id, tree)),
            Block::Flame(graph) => flames.push(flame(&id, graph)),
            Block::Text(_)
            | Block::Table(_)
            | Block::Matrix(_)
            | Block::Manual(_)
            | Block::Folded(..) => (),
        }
    }
    if charts.is_empty() && ledgers.is_empty() && flames.is_empty() {
        return;
    }
    let value = json!({ "charts": charts, "ledgers": ledgers, "flames": flames });
    written(markup, "knee-data", value);
    if !all_runs.is_empty() {
        written(markup, "knee-runs", Value::Object(all_runs));
    }
}

fn written(markup: &mut Markup, id: &'static str, value: Value) {
    let json = value.to_string();
    let letters = (json.len() > PLAIN_MAX).then(|| compressed(&json));
    match letters {
        Some(Ok(letters)) => markup.data(id, "application/gzip+json", &Value::String(letters)),
        Some(Err(_)) | None => markup.data(id, "application/json", &value),
    }
}

fn compressed(json: &str) -> std::io::Result<String> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(json.as_bytes())?;
    Ok(base64(&encoder.finish()?))
}

fn chart(id: &str, panel: &CurvePanel) -> Value {
    json!({
        "id": id,
        "metric": panel.metric,
        "unit": panel.unit,
        "over": panel.over,
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

/// CPUs, tasks, mean, standard deviation, idle share.
fn point(point: &PanelPoint) -> Value {
    json!([point.cpus, point.tasks, point.spread.mean, point.spread.stddev, point.idle])
}

/// The runs of each point of each line as columns, which take a third of the time of rows to read: numbers,
/// blocks, values, and the positions of those that were left out.
fn runs(panel: &CurvePanel) -> Value {
    let columns = |point: &PanelPoint| {
        let runs = || point.runs.iter();
        let left_out = runs().enumerate().filter(|(_, run)| run.discarded).map(|(at, _)| at);
        json!([
            runs().map(|run| run.run).collect::<Vec<_>>(),
            runs().map(|run| run.block).collect::<Vec<_>>(),
            runs().map(|run| run.value).collect::<Vec<_>>(),
            left_out.collect::<Vec<_>>(),
        ])
    };
    let line = |line: &PanelLine| line.points.iter().map(columns).collect::<Vec<_>>();
    json!(panel.lines.iter().map(line).collect::<Vec<_>>())
}

fn ledger(id: &str, tree: &LedgerTree) -> Value {
    json!({
        "id": id,
        "heading": tree.heading,
        "columns": tree.columns,
        "details": tree.details,
        "root": ledger_node(&tree.root),
    })
}

/// Name, ns for each column, values and details as text, what made the change (half the interval, by count,
/// by cost, each null where unknown; null where nothing is compared), and the rows below.
fn ledger_node(row: &LedgerNode) -> Value {
    let change = row.change.map(|change| {
        let (count, cost) = change.parts_ns.unzip();
        json!([change.half_ns, count, cost])
    });
    let rows: Vec<Value> = row.rows.iter().map(ledger_node).collect();
    json!([row.name, row.ns, row.values, row.details, change, rows])
}

fn flame(id: &str, graph: &FlameGraph) -> Value {
    json!({
        "id": id,
        "columns": graph.columns,
        "samples": graph.samples,
        "root": flame_node(&graph.root),
    })
}

/// Name, ns for each column, and what it calls.
fn flame_node(node: &FlameNode) -> Value {
    // A thousandth of a nanosecond is below what any number of samples tells.
    let ns: Vec<f64> = node.ns.iter().map(|ns| (1e3 * ns).round() / 1e3).collect();
    json!([node.name, ns, node.nodes.iter().map(flame_node).collect::<Vec<_>>()])
}
