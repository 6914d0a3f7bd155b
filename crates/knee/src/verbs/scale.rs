//! `knee scale`: what a curve says about scaling: its knee, its peak, a cliff, and the law that explains it.

pub mod curve_file;

use std::path::Path;
use std::process::ExitCode;

use analysis::Curve;
use answers::{CurveIdentity, CurveScaling, DoseReport, ScalingEntry, Scalings, as_json};
use anyhow::{Result, bail};
use host::terminal::print;
use laws::{Hysteresis, Sweep, scaling};
use ledger::explain;
use records::{Opened, Profile};
use reports::{doses_text, titled_curves};
use store::Store;
use text::Style;

use super::find::find;

/// Whose curve to look at.
#[derive(clap::Args, Debug)]
pub struct CurveSource {
    /// Record: `last`, a label, an id or its start, a directory; or a file *.csv
    ///
    /// The first column of a file has numbers of CPUs, the others rates.
    #[arg(default_value = "last")]
    which: String,
    /// Rate metric of the record to analyse
    #[arg(long, value_name = "NAME", default_value = "operations_per_s")]
    metric: String,
    /// Rate columns of the file; several columns are repeated runs
    #[arg(long = "rate", value_name = "COLUMN", value_delimiter = ',')]
    rates: Vec<String>,
}

/// The curves of a source.
pub struct Sweeps {
    pub all: Vec<TitledSweep>,
    /// What doses among them say.
    pub doses: Vec<DoseReport>,
}

/// A curve with its title.
pub struct TitledSweep {
    pub title: String,
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
}

impl CurveSource {
    /// The curves, at least one.
    pub fn sweeps(&self, store: &Store, style: &Style) -> Result<Sweeps> {
        let path = Path::new(&self.which);
        if path.extension().is_some_and(|extension| extension == "csv") {
            let runs = curve_file::read(path, &self.rates)?;
            let title = format!("\n{}\n", self.which);
            let identity = CurveIdentity::File { file: self.which.clone() };
            let all = vec![TitledSweep {
                title,
                identity,
                has_task_per_cpu: true,
                sweep: Sweep::without_zeros(runs),
                grows: None,
                hysteresis: None,
            }];
            return Ok(Sweeps { all, doses: Vec::new() });
        }
        let record = store::open(&find(&self.which, store)?)?;
        let (titles, curves): (Vec<String>, Vec<Curve>) =
            titled_curves(&record, style).into_iter().unzip();
        if curves.is_empty() {
            bail!("{} has no finished run", record.record.id);
        }
        let profiles = store::profiles(&record)?;
        let sweep = |(title, curve): (&String, &Curve)| TitledSweep {
            grows: grows(&record, curve, &profiles),
            hysteresis: answers::hysteresis(&record.record, curve, &self.metric),
            title: title.clone(),
            identity: CurveIdentity::measured(curve),
            has_task_per_cpu: curve.tasks_per_cpu == Some(1.0),
            sweep: answers::sweep(&record.record, curve, &self.metric)
                .map(|sweep| sweep.with_doses(answers::dosed_points(&curves, curve, &self.metric))),
        };
        let all = titles.iter().zip(&curves).map(sweep).collect();
        Ok(Sweeps { all, doses: answers::doses(&curves) })
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
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Prints what the curves say. Curves with too few CPU counts are named.
pub fn run(arguments: &Arguments, store: &Store) -> Result<ExitCode> {
    let style = Style::for_stdout();
    let Sweeps { all, doses } = arguments.source.sweeps(store, &style)?;
    let why = all.iter().find_map(|one| one.sweep.as_ref().err());
    let says_nothing =
        |one: &TitledSweep| one.sweep.is_err() && one.grows.is_none() && one.hysteresis.is_none();
    if let Some(why) = why.filter(|_| doses.is_empty() && all.iter().all(says_nothing)) {
        bail!("{why}");
    }
    if arguments.json {
        let curve = |one: TitledSweep| {
            let TitledSweep { identity, sweep, grows, hysteresis, .. } = one;
            ScalingEntry::Curve(CurveScaling::new(identity, &sweep, grows, hysteresis))
        };
        let doses = doses.into_iter().map(|dose| ScalingEntry::Dose { dose });
        print(as_json(&Scalings(all.into_iter().map(curve).chain(doses).collect()))?)?;
        return Ok(ExitCode::SUCCESS);
    }
    // Where doses were measured, curves too short for a law are no news.
    let shown = all.iter().filter(|one| doses.is_empty() || !says_nothing(one));
    let texts = shown.map(|one| {
        let scale = match &one.sweep {
            Ok(sweep) => reports::scale(&scaling(sweep), one.has_task_per_cpu, &style),
            Err(why) => format!("{why}\n"),
        };
        let loops = one.hysteresis.as_ref().map(reports::hysteresis_sentence);
        let more = [loops, one.grows.clone()].into_iter().flatten();
        let more: String = more.map(|line| text::prose::wrapped(&line, style.width, 2)).collect();
        one.title.clone() + &scale + &more
    });
    let text = texts.collect::<String>() + &doses_text(&doses, &style);
    print(text.trim_start_matches('\n').to_string())?;
    Ok(ExitCode::SUCCESS)
}
