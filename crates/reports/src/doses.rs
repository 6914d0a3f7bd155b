//! What doses of time say, in tables and sentences.

use answers::{DosePoint, DoseReport};
use laws::Estimate;
use text::prose::counted;
use text::quantity::{duration_ns, short};
use text::table::{Align, Table};

use crate::form_part::FormPart;

/// The title and table of doses, and why some CPU counts are not in it.
pub fn dose_part(report: &DoseReport) -> FormPart {
    let values: Vec<String> = report.values.iter().map(u64::to_string).collect();
    let DoseReport { place, workload, form, parameter, points, .. } = report;
    let title =
        format!("doses {place}: {workload}, {}, {parameter} {}", form.name(), values.join(", "));
    let gains = points.iter().find(|point| point.unusable.is_none()).map(|point| &point.gains);
    let gains = gains.into_iter().flatten();
    let gains = gains.map(|gain| format!("gain of {} less", duration_ns(gain.removed_ns)));
    let headings = ["CPUs".to_string(), "serial".to_string()].into_iter().chain(gains);
    let mut table = Table::new(headings.map(|heading| (heading, Align::Right)));
    let mut sentences = Vec::new();
    let runs = points.iter().flat_map(|point| &point.gains).map(|gain| gain.runs).min();
    sentences.extend(runs.map(|runs| {
        format!(
            "in brackets: where a gain will lie that is measured in {} of each side, 9 of 10 times",
            counted(runs, "run")
        )
    }));
    for DosePoint { cpus, serial, gains, unusable: why } in points {
        if let Some(why) = why {
            sentences.push(format!("on {}: {why}", counted(*cpus as usize, "CPU")));
            continue;
        }
        let serial = serial.as_ref().map_or("-".to_string(), percent);
        let gains = gains.iter().map(|gain| percent(&gain.measured));
        table.row([cpus.to_string(), serial].into_iter().chain(gains).collect());
    }
    FormPart { title, table, sentences }
}

/// How serial the time is with most CPUs; `None` where no CPU count says.
pub fn dose_sentence(report: &DoseReport) -> Option<String> {
    let told = report.points.iter().rev();
    let (cpus, serial) = told.filter_map(|one| Some((one.cpus, one.serial.as_ref()?))).next()?;
    let time = match report.place {
        "inside" | "outside" => format!("time added {} the lock", report.place),
        kind => format!("time added to each contended {kind}"),
    };
    let (on, form) = (counted(cpus as usize, "CPU"), report.form.name());
    Some(format!("{}, {form}: on {on}, {} of {time} is serial", report.workload, percent(serial)))
}

/// `96 % (92 to 99)`.
fn percent(share: &Estimate) -> String {
    let digits = |share: f64| match 100.0 * share {
        infinite if infinite.is_infinite() => "no limit".to_string(),
        percent if percent.abs() >= 1000.0 => format!("{percent:.0}"),
        percent => short(percent),
    };
    let interval =
        share.interval.map(|(low, high)| format!(" ({} to {})", digits(low), digits(high)));
    format!("{} %{}", digits(share.value), interval.unwrap_or_default())
}
