//! The file of a host, as `hosts/*.toml` are, of what was measured here.

use std::fmt::Write;

use super::{Layout, Measured, range};
use crate::hosts::{COSTS, Described, TRANSFERS};

/// Where and when.
#[derive(Debug)]
pub struct Occasion {
    /// The host's name, its CPUs, its kernel.
    pub host: String,
    pub model: String,
    /// To the day, and to the minute.
    pub date: String,
    pub time: String,
    pub seconds: f64,
}

/// The text of a file. What could not be measured is as in a host that is no particular one.
pub fn file(
    measured: &Measured,
    layout: &Layout,
    occasion: &Occasion,
    other: &Described,
) -> String {
    let mut text = String::new();
    let Occasion { host, model, time, seconds, .. } = occasion;
    let version = env!("CARGO_PKG_VERSION");
    text +=
        &format!("# Measured by knee calibrate {version} on {host}, {time}, in {seconds:.0} s.\n");
    text += "# What is measured is lower quartile..median..upper quartile of the repeats.\n#\n";
    text += "# Beside its numbers:\n";
    for (what, number) in &measured.beside {
        if let Some(range) = range(&number.values, number.unit) {
            text += &format!("# - {what}: {range}\n");
        }
    }
    let Layout { nodes, cores, threads, .. } = layout;
    text += &format!("about = \"\"\"\n{host}: {model}, {} CPUs", layout.described());
    text += &format!(" ({nodes} × {cores} × {threads}).\"\"\"\n");
    text += &format!("nodes = {nodes}\ncores = {cores}\nthreads = {threads}\n");
    if *nodes > 1 {
        let rows = layout.hops.iter().map(|row| format!("    {row:?},\n"));
        text += &format!("hops = [\n{}]\n", rows.collect::<String>());
    }
    text += "\n[sources]\n";
    for distance in layout.distances() {
        table(&mut text, &format!("transfer.{distance}"), &TRANSFERS, measured, occasion, other);
    }
    table(&mut text, "costs", &COSTS, measured, occasion, other);
    text
}

fn table(
    text: &mut String,
    name: &str,
    keys: &[&str],
    measured: &Measured,
    occasion: &Occasion,
    other: &Described,
) {
    let _ = writeln!(text, "\n[{name}]");
    for key in keys {
        let place = format!("{name}.{key}");
        let number = measured.numbers.get(&place);
        let ranged =
            number.and_then(|number| Some((range(&number.values, number.unit)?, &number.how)));
        let line = match ranged {
            Some((range, how)) => format!(
                "measured = {range:?}, at = \"{}, {}\", how = {how:?}",
                occasion.host, occasion.date,
            ),
            None => {
                let why = measured.missing.get(&place).copied().unwrap_or("it was not measured");
                // Another host may be smaller: then what is farthest there.
                let numbers = other.numbers();
                let like =
                    numbers.get(&place).or_else(|| numbers.get(&format!("transfer.hop1.{key}")));
                let text = like.map_or("0", |number| number.text.as_str());
                format!("assumed = {text:?}, why = \"{why}; as in {}\"", other.name)
            }
        };
        let _ = writeln!(text, "{key} = {{ {line} }}");
    }
}
