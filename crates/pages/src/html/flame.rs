//! The place of a flame graph, which scripts draw; without them, and for readers who do not see it, a table of
//! functions says the same in numbers.

use explanations::recording::FlameGraph;
use text::prose::counted;

use crate::html::Markup;
use crate::html::table::table;
use crate::page::PageTable;
use crate::reading;

/// The figure with its table.
pub fn flame(markup: &mut Markup, graph: &FlameGraph, id: &str) {
    markup.element("figure", &[("class", "flame"), ("data-flame", id)], |markup| {
        let samples = graph.columns.iter().zip(&graph.samples);
        let samples: Vec<String> = samples
            .map(|(name, n)| format!("{name}: {}", counted(*n as usize, "sample")))
            .collect();
        markup.element("figcaption", &[], |markup| {
            markup.text("CPU time of the workload's own tasks per operation, by call stack");
            markup.leaf("small", &[], &format!(" ({})", samples.join(", ")));
        });
        let functions = PageTable::plain(
            "Functions by their own CPU time per operation",
            graph.functions.clone(),
            reading::FLAME,
        );
        table(markup, "Functions", &PageTable { is_open: false, ..functions });
    });
}
