//! Tests of will-it-scale run by knee against the same tests run by will-it-scale's own program: operations per second of
//! CPU time, as processes and threads, with 1 and 2 tasks.
//!
//! Both programs run at the same time, and one of them is always stopped: windows of 20 ms of knee and of theirs
//! alternate, in random order within each pair. What else happens on the host then disturbs both alike, and what it takes
//! of the CPUs counts on neither side. A ratio of two windows is one value. What is drawn once for each start, such
//! as addresses, does not average out over windows: so both programs are started anew several times, twice at first, and
//! more often where that does not decide.
//!
//! Both see a folder of their own as /tmp, since a test that is ended early leaves its files there.
//!
//! knee runs as its user would start it. Of their program, compiled from the folder of the suite, one line is another:
//! instead of printing a line each second, it waits until its input ends, and then ends as it does itself. Nothing of
//! it is kept in this tree.

mod group;
mod side;
mod suite;
mod verdict;

use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use rand::seq::SliceRandom;
use tempfile::TempDir;

use crate::report::{Figure, Limit};
use crate::{Bench, Options};
use side::{Side, Work};
use suite::Suite;
use verdict::{LIMIT, Start, Verdict, around_median, median};

const TASKS: [usize; 2] = [1, 2];
const FORMS: [&str; 2] = ["processes", "threads"];

/// How long one program runs before the other takes its turn.
const WINDOW: Duration = Duration::from_millis(20);

/// Starts of both programs that each case gets at least.
const STARTS_MIN: usize = 2;

/// Ratios for all tests of the suite in `--suite`, or those that `--test` names.
pub fn measure(bench: &mut Bench, options: &Options) -> Result<Vec<Figure>> {
    let folder =
        options.suite.as_deref().context("name the folder of will-it-scale with --suite")?;
    let folder =
        &folder.canonicalize().with_context(|| format!("looking for {}", folder.display()))?;
    for path in [folder, &bench.knee] {
        ensure!(
            !path.starts_with("/tmp"),
            "{}: the measured programs get a /tmp of their own, so knee and the suite must lie elsewhere",
            path.display()
        );
    }
    let home = TempDir::new_in("/var/tmp").context("making a folder for programs and records")?;
    let suite = Suite { folder, home: home.path() };
    let main = suite.main_that_ends_with_its_input()?;
    println!(
        "| test | form | tasks | ratio | 95 % | medians of the starts | verdict |\n|---|---|---|---|---|---|---|"
    );
    let mut verdicts = Vec::new();
    let mut ratios = Vec::new();
    for test in suite.tests(&options.test)? {
        for form in FORMS {
            let theirs = suite.build(&test, form, &main)?;
            for tasks in TASKS {
                let case = Case { suite: &suite, test: &test, theirs: &theirs, form, tasks };
                if !case.is_wanted(&options.test) {
                    continue;
                }
                match case.measure(bench, options) {
                    Ok(starts) => {
                        println!("{}", case.row(&starts));
                        verdicts.push(Verdict::new(&starts));
                        ratios.push(median(&starts.concat()));
                    }
                    Err(why) => eprintln!("{} is not measured: {why:#}", case.what()),
                }
            }
        }
    }
    println!();
    let count = |wanted| verdicts.iter().filter(|verdict| **verdict == wanted).count() as f64;
    let figure =
        |name: &str, limit, values| Figure { name: name.to_string(), unit: "", limit, values };
    let told = |verdict: Verdict, limit| {
        figure(&format!("cases of own-loads: {}", verdict.told()), limit, vec![count(verdict)])
    };
    Ok(vec![
        figure("knee / will-it-scale by CPU time, over the cases", Limit::AtLeast(LIMIT), ratios),
        told(Verdict::Below, Limit::AtMost(0.0)),
        told(Verdict::Reaches, Limit::None),
        told(Verdict::DiffersByStart, Limit::None),
        told(Verdict::CannotTell, Limit::None),
    ])
}

/// One test in one form with one number of tasks.
struct Case<'a> {
    suite: &'a Suite<'a>,
    test: &'a Path,
    theirs: &'a Path,
    form: &'static str,
    tasks: usize,
}

impl Case<'_> {
    fn name(&self) -> String {
        self.test.file_stem().unwrap_or_default().to_string_lossy().into_owned()
    }

    /// Whether one of these words names it, `mmap2:threads:2` or a beginning of that, or there are none.
    fn is_wanted(&self, named: &[String]) -> bool {
        let own = [self.name(), self.form.to_string(), self.tasks.to_string()];
        let names = |case: &String| case.split(':').zip(&own).all(|(word, own)| word == own);
        named.is_empty() || named.iter().any(names)
    }

    fn what(&self) -> String {
        format!("{}, {} as {}", self.name(), host::counted(self.tasks, "task"), self.form)
    }

    /// A line of the table.
    fn row(&self, starts: &[Start]) -> String {
        let all = starts.concat();
        let (low, high) = around_median(&all);
        let medians: Vec<String> =
            starts.iter().map(|start| format!("{:.3}", median(start))).collect();
        format!(
            "| {} | {} | {} | {:.3} | {low:.3} to {high:.3} | {} | {} |",
            self.name(),
            self.form,
            self.tasks,
            median(&all),
            medians.join(", "),
            Verdict::new(starts).told()
        )
    }

    /// Starts both programs until that decides, `--pairs` times at most.
    fn measure(&self, bench: &mut Bench, options: &Options) -> Result<Vec<Start>> {
        let mut starts = Vec::new();
        while starts.len() < options.pairs.max(STARTS_MIN) {
            starts.push(self.start_both(bench, options)?);
            if starts.len() >= STARTS_MIN && Verdict::new(&starts) == Verdict::Reaches {
                break;
            }
        }
        Ok(starts)
    }

    fn start_both(&self, bench: &mut Bench, options: &Options) -> Result<Start> {
        let mut knee = bench.knee(self.suite.home);
        knee.arg("run").arg(self.test).args(["--json", "--blocks", "1", "--as", self.form]);
        knee.args(["--cpus", if self.tasks == 1 { "1" } else { "2" }, "--seconds", "600"]);
        let tmp = self.suite.home.join("tmp");
        let theirs = Side::of_will_it_scale(self.theirs, self.tasks, &tmp)?;
        // It warms up while knee starts, and waits half a second before knee's release.
        let ours = Side::of_knee(&knee, self.form, self.tasks, &tmp)?;
        ours.stop()?;
        theirs.stop()?;
        let windows = (options.seconds / WINDOW.as_secs_f64()).ceil().max(2.0) as usize;
        let mut ratios = Vec::new();
        let per_cpu_s = |work: Work| work.operations / work.cpu_ns;
        for _ in 0..windows {
            let mut order = [&ours, &theirs];
            order.shuffle(&mut bench.random);
            let [first, second] = [order[0].run_for(WINDOW)?, order[1].run_for(WINDOW)?];
            let (our, their) = if std::ptr::eq(order[0], &raw const ours) {
                (first, second)
            } else {
                (second, first)
            };
            // Where a task did not run, there is nothing to compare.
            let ratio = per_cpu_s(our) / per_cpu_s(their);
            ratios.extend((ratio.is_finite() && ratio > 0.0).then_some(ratio));
        }
        ours.end()?;
        theirs.end()?;
        ensure!(ratios.len() >= 2, "no operation ended within {WINDOW:?}");
        Ok(ratios)
    }
}
