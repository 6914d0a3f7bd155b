//! What removing a cause would gain, and from what that is known: doses in the record, the law of its curve, or a bound of
//! the ledger.

use analysis::{Curve, curves};
use answers::{DoseReport, Gain, RATE, doses, sweep};
use laws::{Estimate, LawGain, Sweep, gain_by_law};
use ledger::{Answer, Cause, GainBound, GainIf, gain_bound};
use records::{Opened, Point};
use reports::law_name;
use text::quantity::{duration_ns, short};

/// What a record says about gains at one of its points.
pub struct Removal<'a> {
    point: &'a Point,
    doses: Vec<DoseReport>,
    /// The curve that the point is of, if it has enough CPU counts for a law and one task a CPU.
    sweep: Option<Sweep>,
}

impl<'a> Removal<'a> {
    pub fn for_point(opened: &'a Opened, point: &'a Point) -> Removal<'a> {
        let curves = curves(opened);
        let has_point = |curve: &&Curve| curve.cells.iter().any(|cell| cell.point == point);
        let own = curves.iter().find(has_point).filter(|own| own.tasks_per_cpu == Some(1.0));
        let sweep =
            own.and_then(|curve| sweep(&opened.record, curve, RATE).and_then(Sweep::for_laws).ok());
        let is_own = |dose: &DoseReport| dose.workload == point.workload && dose.form == point.form;
        Removal { point, doses: doses(&curves).into_iter().filter(is_own).collect(), sweep }
    }

    /// Sentences about what the slower side would gain without a cause; none for a cause against the difference.
    pub fn sentences(&self, answer: &Answer, cause: &Cause) -> Vec<String> {
        let Some(bound) = gain_bound(answer, cause) else { return Vec::new() };
        let mut sentences = vec![bounded(&bound)];
        sentences.extend(self.by_doses());
        if let Some(sweep) = &self.sweep {
            let gain = gain_by_law(sweep, self.point.cpus, cause.own_ns / 1e9);
            sentences.extend(gain.and_then(|gain| by_law(&gain, cause.own_ns)));
        }
        sentences
    }

    /// What doses at this number of CPUs say about less time.
    fn by_doses(&self) -> Vec<String> {
        let told = |dose: &DoseReport| {
            let at = dose.points.iter().find(|point| point.cpus == self.point.cpus)?;
            let Gain { removed_ns, gain, .. } = at.gains.last()?;
            Some(format!(
                "By the doses of this record, {} less {} gains {}",
                duration_ns(*removed_ns),
                dose.place,
                percent(gain)
            ))
        };
        self.doses.iter().filter_map(told).collect()
    }
}

fn bounded(bound: &GainBound) -> String {
    let Some(most) = bound.at_most else {
        return "Without it: how much faster, the ledger does not bound, since all other time may be \
                waiting for it"
            .to_string();
    };
    // From twice as fast on, people think in times, not in percent more.
    const TIMES_MIN: f64 = 1.0;
    let most = match most {
        more if more >= TIMES_MIN => format!("{} times as fast", short(1.0 + more)),
        more => format!("{} % faster", short(100.0 * more)),
    };
    match bound.if_what {
        GainIf::WaitingBecomesWork => {
            format!("Without it: at most {most}, if what waits here worked instead (a bound)")
        }
        GainIf::AllWaitingIsForIt => format!(
            "Without it: at most {most}, if all waiting is for it; none, if nothing waits for it (bounds)"
        ),
        GainIf::NothingWaits => format!("Without it: up to {most}, since hardly anything waits"),
    }
}

fn by_law(gain: &LawGain, removed_ns: f64) -> Option<String> {
    let part = |place: &str, gain: Option<Estimate>| {
        gain.map(|gain| format!("{} if it is {place} the lock", percent(&gain)))
    };
    let parts: Vec<String> = [part("inside", gain.inside), part("outside", gain.outside)]
        .into_iter()
        .flatten()
        .collect();
    (!parts.is_empty()).then(|| {
        format!(
            "By the law of its curve ({}), {} less gains {}",
            law_name(gain.law),
            duration_ns(removed_ns),
            parts.join(", ")
        )
    })
}

/// `12 % (9 to 15)`, or why there is no interval.
fn percent(share: &Estimate) -> String {
    let digits = |share: f64| short(100.0 * share);
    let interval = match share.interval {
        None => " (no interval: each point ran once)".to_string(),
        Some((low, high)) if high.is_infinite() => format!(" ({} or more)", digits(low)),
        Some((low, high)) => format!(" ({} to {})", digits(low), digits(high)),
    };
    format!("{} %{interval}", digits(share.value))
}
