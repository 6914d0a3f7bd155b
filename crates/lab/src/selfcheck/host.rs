//! The check of a host's verdicts as a page: what equal and planted comparisons were called.

use analysis::host_check::{HostCheck, HostCheckRow};
use pages::{Page, PageKind, Section};
use text::quantity::signed;
use text::table::{Align, Table};

use super::verdicts::{answer, plain, promises};

/// The page of a check of a host.
pub fn page(check: &HostCheck) -> Page {
    let intro = format!(
        "How often knee is right on {}: real operations on one CPU, {} s a run, compared in blocks \
         until decided. Each workload is compared with itself, unchanged and with work of a known \
         length added after each operation, or while a lock is held (hold_ns). Smallest effect 2 %, at most 60 blocks.",
        host(check),
        check.seconds
    );
    let comparisons = Section::open("Comparisons", vec![plain(table(&check.rows))]);
    Page {
        answers: vec![answer(&check.figures)],
        sections: vec![comparisons, promises(&check.figures)],
        method: vec![intro],
        ..Page::new("verdicts on this host", PageKind::Check)
    }
}

fn host(check: &HostCheck) -> String {
    let host = &check.host;
    let parts = [&host.hostname, &host.kernel_release, &host.cpu_model, &host.hypervisor];
    let known: Vec<&str> = parts.into_iter().filter_map(|part| part.as_deref()).collect();
    known.join(", ")
}

fn table(rows: &[HostCheckRow]) -> Table {
    let mut table = Table::new([
        ("workload", Align::Left),
        ("planted", Align::Right),
        ("n", Align::Right),
        ("changed", Align::Right),
        ("wrong\nsign", Align::Right),
        ("same", Align::Right),
        ("cannot\ntell", Align::Right),
        ("median of\nestimates", Align::Right),
        ("blocks\neach", Align::Right),
        ("blocks\nleft out", Align::Right),
    ]);
    for row in rows {
        let planted = match row.planted {
            0.0 => "nothing".to_string(),
            share => format!("{:.0} %", 100.0 * share),
        };
        let estimate = row.estimate.map(|change| format!("{} %", signed(100.0 * change, 2)));
        let counts = [row.comparisons, row.changed, row.wrong, row.same, row.open];
        let mut cells = vec![row.workload.clone(), planted];
        cells.extend(counts.map(|count| count.to_string()));
        cells.push(estimate.unwrap_or("-".to_string()));
        cells.push(format!("{:.1}", row.blocks));
        cells.push(row.discarded.to_string());
        table.row(cells);
    }
    table
}
