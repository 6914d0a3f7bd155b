//! `knee scale`: what a curve says about scaling: its knee, its peak, a cliff, and the law that explains it.

mod ceiling_file;
pub mod curve_file;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use analysis::Curve;
use answers::{
    CurveCeiling, CurveIdentity, CurveScaling, DoseReport, ScalingEntry, Scalings, curve_metric,
    rate_name,
};
use anyhow::{Result, bail};
use laws::{Hysteresis, Sweep};
use ledger::explain;
use pages::{CurvePart, ViewFlags};
use records::{Opened, Profile};
use reports::{draw_ceilings, sweep_panel, titled_curves};
use store::Store;

use self::ceiling_file::Ceilings;
use super::find::find;

/// Whose curve to look at.
#[derive(clap::Args, Debug)]
pub struct CurveSource {
    /// Record: `last`, a label, an id or its start, a directory; or a file *.csv, *.tsv, *.dat, *.txt
    ///
    /// The first column of a file has numbers of CPUs (or of what its heading names), the others rates.
    #[arg(default_value = "last")]
    which: String,
    /// Rate metric of the record to analyse
    #[arg(long, value_name = "NAME", default_value = "operations_per_s")]
    pub metric: String,
    /// Rate columns of the file; several columns are repeated runs
    #[arg(long = "rate", value_name = "COLUMN", value_delimiter = ',')]
    rates: Vec<String>,
    /// Answer of `knee conflicts OPERATION --json`, to show the rate at which more CPUs stop to help
    #[arg(long, value_name = "FILE")]
    ceiling: Option<PathBuf>,
}

/// The curves of a source.
pub struct Sweeps {
    pub all: Vec<TitledSweep>,
    /// What doses among them say.
    pub doses: Vec<DoseReport>,
    /// What they are of, in a few words.
    pub title: String,
    /// The record that has them; none of a file.
    pub record: Option<Opened>,
}

/// A curve with its title.
pub struct TitledSweep {
    pub title: String,
    /// The name of its rates.
    pub rate: String,
    /// What identifies it among others, as data.
    pub identity: CurveIdentity,
    /// Whether each CPU had one task.
    pub has_task_per_cpu: bool,
    /// Why it cannot be used, if it cannot.
    pub sweep: Result<Sweep, String>,
    /// What an operation costs more at the most CPUs, if ledgers tell.
    pub grows: Option<String>,
    /// Whether rates depend on the way to a CPU count, if sweeps went up and down.
    pub hysteresis: Option<Hysteresis>,
    /// Traced rates at which more CPUs stop to help.
    pub ceilings: Vec<CurveCeiling>,
}

impl CurveSource {
    /// The curves, at least one, with their ceilings.
    pub fn sweeps(&self, store: &Store) -> Result<Sweeps> {
        let ceilings =
            self.ceiling.as_deref().map(|path| Ceilings::read(path, &self.metric)).transpose()?;
        let mut sweeps = self.curves(store)?;
        if let Some(ceilings) = ceilings {
            ceilings.check_use(sweeps.all.iter().map(|one| &one.identity))?;
            for one in &mut sweeps.all {
                one.ceilings = ceilings.of(&one.identity, one.sweep.as_ref().ok());
            }
        }
        Ok(sweeps)
    }

    fn curves(&self, store: &Store) -> Result<Sweeps> {
        let path = Path::new(&self.which);
        if curve_file::is_one(path) {
            let (axis, runs) = curve_file::read(path, &self.rates)?;
            let identity = CurveIdentity::File { file: self.which.clone() };
            let all = vec![TitledSweep {
                title: String::new(),
                rate: self.metric.clone(),
                identity,
                has_task_per_cpu: true,
                sweep: Sweep::without_zeros(&axis, runs),
                grows: None,
                hysteresis: None,
                ceilings: Vec::new(),
            }];
            let title = self.which.clone();
            return Ok(Sweeps { all, doses: Vec::new(), title, record: None });
        }
        let record = store::open(&find(&self.which, store)?)?;
        let (titles, curves): (Vec<String>, Vec<Curve>) =
            titled_curves(&record).into_iter().unzip();
        if curves.is_empty() {
            bail!("{} has no finished run", record.record.id);
        }
        let profiles = store::profiles(&record)?;
        let sweep = |(title, curve): (&String, &Curve)| TitledSweep {
            grows: grows(&record, curve, &profiles),
            hysteresis: answers::hysteresis(&record.record, curve, &self.metric),
            title: title.clone(),
            rate: rate_name(&record.record, &curve_metric(&record.record, curve, &self.metric)),
            identity: CurveIdentity::measured(curve),
            // On another axis, each step of it is one more that works.
            has_task_per_cpu: curve.tasks_per_cpu == Some(1.0) || !curve.axis.is_cpus(),
            sweep: answers::sweep(&record.record, curve, &self.metric)
                .map(|sweep| sweep.with_doses(answers::dosed_points(&curves, curve, &self.metric))),
            ceilings: Vec::new(),
        };
        let all = titles.iter().zip(&curves).map(sweep).collect();
        let (doses, title) = (answers::doses(&curves), record.record.experiment.name.clone());
        Ok(Sweeps { all, doses, title, record: Some(record) })
    }
}

/// The growth of a curve's ledgers in a sentence, if it has any.
fn grows(record: &Opened, curve: &Curve, profiles: &[Profile]) -> Option<String> {
    if profiles.is_empty() {
        return None;
    }
    let index = |cell: &analysis::CurveCell| {
        record.record.points.iter().position(|point| std::ptr::eq(point, cell.point))
    };
    let points = curve.cells.iter().filter_map(index);
    let explained: Vec<_> = points.map(|point| explain(record, profiles, point)).collect();
    explanations::ledger::growth_sentence(record, &explained.iter().collect::<Vec<_>>(), false)
}

/// What to look at, and how to print it.
#[derive(clap::Args, Debug)]
pub struct Arguments {
    #[command(flatten)]
    source: CurveSource,
    #[command(flatten)]
    view: ViewFlags,
}

/// Prints what the curves say. Curves with too few CPU counts are named.
pub fn run(arguments: &Arguments, store: &Store) -> Result<ExitCode> {
    let Sweeps { mut all, doses, title, record } = arguments.source.sweeps(store)?;
    for one in &mut all {
        one.sweep = one.sweep.clone().and_then(Sweep::for_laws);
    }
    let why = all.iter().find_map(|one| one.sweep.as_ref().err());
    let says_nothing = |one: &TitledSweep| {
        one.sweep.is_err()
            && one.grows.is_none()
            && one.hysteresis.is_none()
            && one.ceilings.is_empty()
    };
    if let Some(why) = why.filter(|_| doses.is_empty() && all.iter().all(says_nothing)) {
        let id = record.as_ref().map(|record| &record.record.id);
        let rest = id.map(|id| {
            format!("; knee show {id} has the rates there, and how near each is to linear scaling")
        });
        bail!("{why}{}", rest.unwrap_or_default());
    }
    let mut parts = Vec::new();
    let curves = all.into_iter().map(|one| {
        let TitledSweep {
            title,
            rate,
            identity,
            has_task_per_cpu,
            sweep,
            grows,
            hysteresis,
            ceilings,
        } = one;
        let says = CurveScaling::new(identity, &sweep, grows, hysteresis, ceilings);
        let panel = |sweep: &Sweep| {
            let mut panel = sweep_panel(&rate, sweep, says.scaling.as_ref());
            draw_ceilings(&mut panel, &says.ceilings);
            panel
        };
        parts.push(CurvePart { title, panel: sweep.as_ref().ok().map(panel), has_task_per_cpu });
        ScalingEntry::Curve(says)
    });
    let curves: Vec<ScalingEntry> = curves.collect();
    let doses = doses.into_iter().map(|dose| ScalingEntry::Dose { dose });
    let says = Scalings(curves.into_iter().chain(doses).collect());
    let page = || Ok(pages::scaling(&title, record.as_ref(), parts, &says));
    arguments.view.print(|| Ok(&says), page)?;
    Ok(ExitCode::SUCCESS)
}
