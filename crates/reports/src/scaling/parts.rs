//! A record taken apart, for pages: titles, tables, sentences and curves, as values.

use std::collections::BTreeSet;

use analysis::{Curve, curves};
use records::{Opened, Pass};

use crate::curve_panel::{CurvePanel, for_curves};
use crate::curve_table::RATE;
use crate::known_metric;
use crate::loads::{LoadSetting, forms, lanes, loads};
use crate::scaling::{Detail, FormPart, Report, has, lane, load_name, without_axis};

/// A load: its tables, one for each form, and its curves.
pub struct RecordPart {
    pub title: String,
    /// What its tasks did; `None` for commands.
    pub setting: Option<LoadSetting>,
    pub forms: Vec<FormPart>,
    /// Tables of time(1) and of counters, if they were asked for.
    pub details: Vec<FormPart>,
    pub panels: Vec<CurvePanel>,
}

/// All loads of a record: by the requested metrics, or without any the columns of each kind of load.
pub fn record_parts(record: &Opened, detail: &Detail) -> Vec<RecordPart> {
    let curves = curves(record);
    let report = Report { record, detail };
    let mut commands = BTreeSet::new();
    let mut parts = Vec::new();
    for load in loads(&curves) {
        let point = load[0].point;
        if !detail.metrics.is_empty() {
            parts.extend(report.part_of_metrics(&load));
        } else if point.command.is_none() {
            parts.push(report.load_part(&load));
        } else if commands.insert(&point.workload) {
            let all = curves.iter().filter(|curve| curve.point.workload == point.workload);
            parts.push(report.whole_command_part(&all.collect::<Vec<_>>()));
        }
    }
    parts
}

impl Report<'_> {
    fn load_part(&self, load: &[&Curve]) -> RecordPart {
        let is_rate = load[0].point.pass == Pass::Rate;
        let form = |curves: Vec<&Curve>| {
            if is_rate { self.rate_part(&curves) } else { self.latency_part(&curves) }
        };
        let panel = |lane: Vec<&Curve>| self.panel(&lane, RATE);
        let drawn = if is_rate { lanes(load) } else { Vec::new() };
        RecordPart {
            title: load_name(&without_axis(load[0])),
            setting: setting(load),
            forms: forms(load).into_iter().map(form).collect(),
            details: self.details_of_forms(load),
            panels: drawn.into_iter().map(panel).collect(),
        }
    }

    /// A load by the requested metrics; `None` where no run has one of them.
    fn part_of_metrics(&self, load: &[&Curve]) -> Option<RecordPart> {
        let metrics = || self.detail.metrics.iter().filter(|metric| has(load, metric));
        let by_metric = |metric: &String| {
            forms(load).into_iter().map(|curves| self.metric_part(&curves, metric)).collect()
        };
        let parts: Vec<Vec<FormPart>> = metrics().map(by_metric).collect();
        let panels = metrics()
            .flat_map(|metric| lanes(load).into_iter().map(move |lane| self.panel(&lane, metric)));
        (!parts.is_empty()).then(|| RecordPart {
            title: load_name(&without_axis(load[0])),
            setting: setting(load),
            panels: panels.collect(),
            forms: parts.into_iter().flatten().collect(),
            details: self.details_of_forms(load),
        })
    }

    fn whole_command_part(&self, curves: &[&Curve]) -> RecordPart {
        let point = curves[0].point;
        let metric = self.record.record.deciding(point);
        RecordPart {
            title: point.workload.clone(),
            setting: None,
            forms: vec![self.command_part(curves)],
            details: curves.iter().flat_map(|curve| self.details(&[curve])).collect(),
            panels: curves.iter().map(|curve| self.panel(&[curve], &metric)).collect(),
        }
    }

    fn details_of_forms(&self, load: &[&Curve]) -> Vec<FormPart> {
        forms(load).iter().flat_map(|curves| self.details(curves)).collect()
    }

    fn panel(&self, curves: &[&Curve], metric: &str) -> CurvePanel {
        let described = self.record.record.metrics.get(metric);
        let own = known_metric(metric).map(|metric| metric.unit);
        let unit = described.map_or(own.unwrap_or_default(), |metric| metric.unit.as_str());
        let name = |curve: &&Curve| match curve.point.variant.as_str() {
            "" => self.record.record.known_form(curve.point).to_string(),
            variant => match self.record.record.known_form(curve.point) {
                "" => variant.to_string(),
                form => format!("{variant}, {form}"),
            },
        };
        let names: Vec<String> = curves.iter().map(name).collect();
        let title = lane(curves[0]).trim_start().to_string();
        for_curves(title, curves, &names, metric, unit)
    }
}

fn setting(load: &[&Curve]) -> Option<LoadSetting> {
    let point = load[0].point;
    let runs = load.iter().flat_map(|curve| &curve.cells).flat_map(|cell| &cell.runs);
    let works = runs.filter_map(|run| run.metrics()).flat_map(|metrics| metrics.iter());
    let own = point.command.is_none();
    own.then(|| LoadSetting::new(&point.workload, &point.parameters, works))
}
