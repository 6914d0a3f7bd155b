//! The check of gates as a page: for each kind of noise how often a rule calls what is as before changed, and how often it
//! finds the case that is slower.

use analysis::Noise;
use analysis::selfcheck::{GateCheck, GateRow, Proportion};
use pages::{Page, PageKind, Section};
use text::table::{Align, Table};

use super::verdicts::plain;

/// The page of a check of gates.
pub fn page(check: &GateCheck) -> Page {
    let GateCheck { trials, seed, cases, rows } = check;
    let method = format!(
        "{trials} simulated pull requests of {cases} cases for each number, seed {seed}. \"False\" is the share in which a case \
         that is as before is called slower or faster; \"found\" that in which the one slower case is. knee runs base and \
         head of all cases in turn; the others run all of the base, then all of the head, by the rules that their \
         documentation describes."
    );
    let of_noise = |noise: Noise| {
        Section::open(&format!("Noise: {}", noise.about()), vec![plain(table(rows, noise))])
    };
    Page {
        answers: vec![answer(rows)],
        sections: Noise::ALL.map(of_noise).into(),
        method: vec![method],
        ..Page::new("gates of knee and rules of other tools, by simulation", PageKind::Check)
    }
}

/// "knee: at most 1.0 % of the pull requests with a false verdict, 96.2 % of slowdowns of 3 % found at normal noise".
fn answer(rows: &[GateRow]) -> String {
    let mut ours = rows.iter().filter(|row| row.rule == "knee gate");
    let worst = ours.clone().map(|row| row.false_verdict.share).fold(0.0, f64::max);
    let found = ours.find(|row| row.noise == Noise::Gaussian && row.planted == 0.03);
    let found = found.map_or(0.0, |row| row.found.share);
    format!(
        "knee gate: false verdicts in at most {:.1} % of the pull requests on any noise; slowdowns of 3 % on normal noise \
         found in {:.1} %",
        100.0 * worst,
        100.0 * found
    )
}

fn table(rows: &[GateRow], noise: Noise) -> Table {
    let of_noise: Vec<&GateRow> = rows.iter().filter(|row| row.noise == noise).collect();
    let mut planted: Vec<f64> = of_noise.iter().map(|row| row.planted).collect();
    planted.sort_by(f64::total_cmp);
    planted.dedup();
    let headings = planted.iter().flat_map(|planted| {
        let truth = format!("{:.0} % slower\n", 100.0 * planted);
        let found = (*planted > 0.0).then(|| (format!("{truth}found %"), Align::Right));
        [(format!("{truth}false %"), Align::Right)]
            .into_iter()
            .chain(found)
            .chain((*planted == 0.0).then(|| ("\nruns".to_string(), Align::Right)))
    });
    let mut table = Table::new([("\nrule".to_string(), Align::Left)].into_iter().chain(headings));
    let mut rules: Vec<&str> = of_noise.iter().map(|row| row.rule.as_str()).collect();
    rules.dedup();
    for rule in rules {
        let cells = planted.iter().flat_map(|planted| {
            let row = of_noise.iter().find(|row| row.rule == rule && row.planted == *planted);
            let share = |share: &Proportion| format!("{:.1}", 100.0 * share.share);
            row.into_iter().flat_map(move |row| {
                let found = (*planted > 0.0).then(|| share(&row.found));
                let runs = (*planted == 0.0).then(|| format!("{:.0}", row.runs));
                [share(&row.false_verdict)].into_iter().chain(found).chain(runs)
            })
        });
        table.row([rule.to_string()].into_iter().chain(cells).collect());
    }
    table
}
