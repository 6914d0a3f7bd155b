//! The battery of planted causes: pairs of variants whose difference is known because it was made,
//! in `bench/planted/pairs.toml`, and what `knee explain` says of each. Scored: is the cause that
//! it names first the planted one, is it right about more often or dearer, is the size that of
//! clean runs, and is it silent where variants are equal. With `--drawn`, the pairs are drawn from a seed
//! instead; `--neighbour` keeps the host busy beside them, and `--from-perf` explains what perf recorded of them.

mod answer;
mod drawn;
mod pair;
mod verdict;

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use rand::RngExt;

use crate::neighbour::Neighbour;
use crate::report::{Figure, Limit};
use crate::{Bench, Options, output, workspace};
pub use answer::only_record;
use pair::{Pair, Pairs};
use verdict::Verdict;

const PROGRAMS: &[&str] = &["calls", "tasks", "beside"];

/// Measures the pairs that are wanted, prints what was said of each, and returns the score.
pub fn measure(bench: &mut Bench, options: &Options) -> Result<Vec<Figure>> {
    let folder = built()?;
    let pairs = if options.drawn + options.drawn_equal > 0 {
        let seed =
            options.seed.context("--drawn needs a --seed, so that its score can be repeated")?;
        drawn::pairs(seed, options.drawn, options.drawn_equal, &folder)?
    } else {
        wanted(options)?
    };
    let _neighbour = options.neighbour.then(|| Neighbour::start(bench.random.random()));
    let mut verdicts = Vec::new();
    for (number, pair) in pairs.iter().enumerate() {
        eprintln!("planted {} of {}: {}", number + 1, pairs.len(), pair.name);
        let answers = if options.from_perf {
            answer::from_perf(bench, pair)
        } else {
            answer::of(bench, pair, options, &folder)
        };
        let verdict = answers
            .map_or_else(|why| Verdict::failed(pair, &why), |answers| Verdict::of(pair, &answers));
        eprintln!("    {}", verdict.line());
        verdicts.push(verdict);
    }
    println!("{}", verdict::table(&verdicts));
    Ok(score(&verdicts))
}

fn wanted(options: &Options) -> Result<Vec<Pair>> {
    let path = workspace().join("bench/planted/pairs.toml");
    let text = std::fs::read_to_string(&path).with_context(|| format!("reading {path:?}"))?;
    let Pairs { mut pairs } = toml::from_str(&text).with_context(|| format!("in {path:?}"))?;
    if !options.planted.is_empty() {
        pairs.retain(|pair| options.planted.iter().any(|name| pair.name.contains(name.as_str())));
        ensure!(!pairs.is_empty(), "no pair of {path:?} is called so");
    }
    Ok(pairs)
}

/// Where the programs are, compiled as any user would.
fn built() -> Result<PathBuf> {
    let folder = workspace().join("target/bench");
    std::fs::create_dir_all(&folder).with_context(|| format!("making {}", folder.display()))?;
    for program in PROGRAMS {
        let source = workspace().join("bench/planted").join(program).with_extension("c");
        let flags = ["-O2", "-Wall", "-Wextra", "-Werror", "-static", "-pthread", "-o"];
        let built = folder.join(format!("planted-{program}"));
        output(Command::new("cc").args(flags).arg(built).arg(source))?;
    }
    Ok(folder)
}

fn score(verdicts: &[Verdict]) -> Vec<Figure> {
    let share = |name: &str, limit, of: &dyn Fn(&Verdict) -> Option<bool>| {
        let values: Vec<bool> = verdicts.iter().filter_map(of).collect();
        let right = values.iter().filter(|right| **right).count();
        let value = right as f64 / values.len() as f64;
        let name = format!("planted: {name} ({right} of {})", values.len());
        (!values.is_empty()).then(|| Figure { name, unit: "", limit, values: vec![value] })
    };
    let invented: usize = verdicts.iter().map(|verdict| verdict.invented).sum();
    let equal: usize = verdicts.iter().map(|verdict| verdict.equal).sum();
    let invented = Figure {
        name: format!("planted: causes invented in {equal} differences of equals"),
        unit: "",
        limit: Limit::AtMost(0.0),
        values: vec![invented as f64],
    };
    let figures = [
        share("first cause right", Limit::AtLeast(0.9), &|v| v.first_right),
        share("of those, count or cost right", Limit::AtLeast(0.95), &|v| v.how_right),
        share("of those, size within 10 % (drawn: 15 %)", Limit::AtLeast(0.9), &|v| v.size_right),
        share("refused", Limit::AtMost(0.02), &|v| v.first_right.map(|_| v.refused)),
    ];
    figures.into_iter().flatten().chain((equal > 0).then_some(invented)).collect()
}
