//! The self-check as a page: for each kind of noise what every rule says at every true change,
//! what else our rule says, and whether it does what it promises.

use analysis::Noise;
use analysis::selfcheck::{
    EFFECTS, Limit, Promise, Proportion, RuleCell, RuleRow, SMALLEST_EFFECT, Selfcheck, Standing,
};
use pages::{Block, Page, PageKind, PageTable, Section};
use text::prose::counted;
use text::table::{Align, Table};

/// The page of a self-check.
pub fn page(check: &Selfcheck) -> Page {
    let Selfcheck { trials, seed, .. } = check;
    let intro = format!(
        "How often each rule says \"changed\", by simulation: {trials} comparisons for each number, \
         seed {seed}. ± is half of a 95 % interval; of too few \
         comparisons the interval stands alone, as 0..32. The columns of runs are means, both variants \
         together. knee interleaves the variants in random order; the others measure one, then the \
         other, by the rules that their documentation and users describe."
    );
    let of_noise = |noise: Noise| {
        Section::open(&format!("Noise: {}", noise.about()), vec![plain(changed(check, noise))])
    };
    let mut sections: Vec<Section> = Noise::ALL.map(of_noise).into();
    sections.push(Section::open("All three verdicts of knee", in_full(check).into()));
    sections.push(promises(&check.promises));
    Page {
        answers: vec![answer(&check.promises)],
        sections,
        method: vec![intro],
        ..Page::new("verdicts of knee and of other tools, by simulation", PageKind::Check)
    }
}

/// A table whose section says what it is.
pub fn plain(table: Table) -> Block {
    Block::Table(PageTable::plain("", table, &[]))
}

/// Which promises are kept.
pub fn answer(promises: &[Promise]) -> String {
    let of = |standing: Standing| promises.iter().filter(move |one| one.standing == standing);
    let missed: Vec<&str> = of(Standing::Missed).map(|one| one.what.as_str()).collect();
    let near = match of(Standing::Near).count() {
        0 => String::new(),
        near => format!(", {near} {}", Standing::Near.words()),
    };
    let all = counted(promises.len(), "promise");
    match &missed[..] {
        [] => format!("{} of {all} met{near}", of(Standing::Met).count()),
        missed => format!("{} of {all} MISSED: {}", missed.len(), missed.join("; ")),
    }
}

/// How often each rule says "changed" on one kind of noise.
fn changed(check: &Selfcheck, noise: Noise) -> Table {
    let per_effect = EFFECTS.map(|effect| {
        let truth = format!("true {:.0} %", 100.0 * effect);
        [(format!("{truth}\nchanged %"), Align::Right), ("\nruns".to_string(), Align::Right)]
    });
    let first = ("\nrule".to_string(), Align::Left);
    let mut table = Table::new([first].into_iter().chain(per_effect.into_iter().flatten()));
    for row in check.rows.iter().filter(|row| row.noise == noise) {
        let cell = |cell: &RuleCell| [percent(&cell.changed), format!("{:.0}", cell.runs)];
        let cells = row.cells.iter().flat_map(cell);
        table.row([row.rule.clone()].into_iter().chain(cells).collect());
    }
    table
}

/// All three answers of the rules that have three.
fn in_full(check: &Selfcheck) -> [Block; 2] {
    let headings = EFFECTS.map(|effect| (format!("{:.0} %", 100.0 * effect), Align::Right));
    let first = [("rule", Align::Left), ("noise", Align::Left)];
    let first = first.map(|(heading, align)| (heading.to_string(), align));
    let mut table = Table::new(first.into_iter().chain(headings));
    for RuleRow { rule, noise, cells, .. } in check.rows.iter().filter(|row| row.equivalence) {
        let answer = |cell: &RuleCell| {
            let shares = [&cell.changed, &cell.same, &cell.cannot_tell];
            shares.map(|share| format!("{:.1}", 100.0 * share.share)).join("/")
        };
        let about = noise.about().split([',', ':']).next().unwrap_or_default();
        let names = [rule.clone(), about.to_string()];
        table.row(names.into_iter().chain(cells.iter().map(answer)).collect());
    }
    let note = format!(
        "changed/same/cannot tell, in % of the comparisons, at each true change; \"same\" is \
         within {:.0} %.",
        100.0 * SMALLEST_EFFECT
    );
    [plain(table), Block::Text(vec![note])]
}

/// Figures beside their limits.
pub fn promises(figures: &[Promise]) -> Section {
    let columns = [
        ("figure", Align::Left),
        ("limit", Align::Right),
        ("measured", Align::Right),
        ("standing", Align::Left),
    ];
    let mut table = Table::new(columns);
    for figure in figures {
        let words = figure.standing.words().to_string();
        table.row(vec![figure.what.clone(), limit(figure), measured(figure), words]);
    }
    let note = "MISSED: the interval excludes the limit.".to_string();
    Section::open("Promises", vec![plain(table), Block::Text(vec![note])])
}

fn limit(figure: &Promise) -> String {
    let (sign, limit) = match figure.limit {
        Limit::AtMost(limit) => ("<=", limit),
        Limit::AtLeast(limit) => (">=", limit),
    };
    match figure.interval {
        Some(_) => format!("{sign} {} %", (1000.0 * limit).round() / 10.0),
        None => format!("{sign} {limit}"),
    }
}

fn measured(figure: &Promise) -> String {
    match figure.interval {
        Some(interval) => {
            let share = Proportion { share: figure.measured, interval };
            format!("{} %", percent(&share))
        }
        None => format!("{:.1}", figure.measured),
    }
}

/// A wider half of an interval says how far the share may lie to one side only: few comparisons near 0 or 100 %.
const HALF_MAX: f64 = 0.1;

/// A share in percent with half of its interval, the longer half; of few comparisons the interval alone.
fn percent(share: &Proportion) -> String {
    let (low, high) = share.interval;
    let half = (share.share - low).max(high - share.share);
    if half > HALF_MAX {
        return format!("{:.0}..{:.0}", 100.0 * low, 100.0 * high);
    }
    format!("{:.1}±{:.1}", 100.0 * share.share, 100.0 * half)
}

#[cfg(test)]
mod tests {
    use expect_test::expect;
    use text::Style;

    use super::*;

    #[test]
    fn the_self_check_as_text() {
        let text = pages::terminal(&page(&analysis::selfcheck::selfcheck(8, 1)), Style::PLAIN);
        assert!(text.lines().all(|line| line.len() <= 100 && line == line.trim_end()));
        assert!(text.is_ascii());
        expect![[r#"
            10 of 15 promises met, 5 beyond, perhaps by chance

            Noise: normal, 3 %
                                 true 0 %         true 2 %         true 5 %        true 10 %
            rule                changed %  runs  changed %  runs  changed %  runs  changed %  runs
            knee                    0..32    99     53..98    70    68..100    22    68..100    21
            knee, Student           0..32    89     53..98    69    68..100    19    68..100    13
            lkp 3v3                 2..47     6      7..59     6    68..100     6    68..100     6
            lkp 5v5                 0..32    10      2..47    10     53..98    10     53..98    10
            lkp 10v10               0..32    20      0..32    20     31..86    20    68..100    20
            lkp 3v3, 5 % class      0..32     6      7..59     6     53..98     6    68..100     6
            larger stddev 5v5       2..47    10      2..47    10    68..100    10    68..100    10
            hyperfine 10v10         0..32    20      0..32    20     41..93    20    68..100    20
            mmtests 10v10           0..32    20      0..32    20      0..32    20      2..47    20
            benchstat 10v10         0..32    20      2..47    20     53..98    20    68..100    20
            benchstat 20v20         7..59    40     14..69    40    68..100    40    68..100    40
            benchstat, rerun        7..59    94    68..100    36    68..100    12    68..100    12

            Noise: bimodal: 1 %, and 30 % of the runs 10 % higher
                                 true 0 %         true 2 %         true 5 %        true 10 %
            rule                changed %  runs  changed %  runs  changed %  runs  changed %  runs
            knee                    0..32   120     22..78   108    68..100    36    68..100    23
            knee, Student           0..32   120      7..59   120    68..100    36    68..100    22
            lkp 3v3                 7..59     6     22..78     6     22..78     6     53..98     6
            lkp 5v5                 7..59    10      7..59    10      7..59    10     31..86    10
            lkp 10v10               0..32    20      0..32    20      2..47    20     14..69    20
            lkp 3v3, 5 % class      2..47     6     22..78     6     14..69     6     41..93     6
            larger stddev 5v5       7..59    10      2..47    10     31..86    10    68..100    10
            hyperfine 10v10         0..32    20      0..32    20      7..59    20     53..98    20
            mmtests 10v10           0..32    20      0..32    20      0..32    20      2..47    20
            benchstat 10v10         2..47    20     22..78    20     22..78    20    68..100    20
            benchstat 20v20         0..32    40     31..86    40    68..100    40    68..100    40
            benchstat, rerun       14..69    94    68..100    20    68..100    18    68..100    14

            Noise: heavy tails: Student's t with 3 degrees of freedom, 3 %
                                 true 0 %         true 2 %         true 5 %        true 10 %
            rule                changed %  runs  changed %  runs  changed %  runs  changed %  runs
            knee                    2..47    56    68..100    78    68..100    23    68..100    20
            knee, Student           2..47    59     53..98    84    68..100    21    68..100    11
            lkp 3v3                 7..59     6     53..98     6    68..100     6    68..100     6
            lkp 5v5                 0..32    10      2..47    10     53..98    10    68..100    10
            lkp 10v10               0..32    20      0..32    20     14..69    20     53..98    20
            lkp 3v3, 5 % class      0..32     6      2..47     6     31..86     6    68..100     6
            larger stddev 5v5       0..32    10     14..69    10    68..100    10    68..100    10
            hyperfine 10v10         0..32    20      0..32    20     53..98    20    68..100    20
            mmtests 10v10           0..32    20      0..32    20      0..32    20     14..69    20
            benchstat 10v10         0..32    20     22..78    20    68..100    20    68..100    20
            benchstat 20v20         0..32    40     53..98    40    68..100    40    68..100    40
            benchstat, rerun        2..47   114    68..100    36    68..100    12    68..100    12

            Noise: drift of 3 %, correlated 0.95 from run to run
                                 true 0 %         true 2 %         true 5 %        true 10 %
            rule                changed %  runs  changed %  runs  changed %  runs  changed %  runs
            knee                    0..32    16    68..100    20    68..100    20    68..100    20
            knee, Student           0..32    16    68..100    15    68..100    10    68..100    10
            lkp 3v3                 2..47     6     41..93     6    68..100     6    68..100     6
            lkp 5v5                 7..59    10     31..86    10    68..100    10    68..100    10
            lkp 10v10              14..69    20     14..69    20     53..98    20    68..100    20
            lkp 3v3, 5 % class      0..32     6      0..32     6     14..69     6    68..100     6
            larger stddev 5v5      14..69    10     31..86    10    68..100    10    68..100    10
            hyperfine 10v10        22..78    20     41..93    20    68..100    20    68..100    20
            mmtests 10v10           0..32    20      7..59    20     41..93    20    68..100    20
            benchstat 10v10        41..93    20     53..98    20    68..100    20    68..100    20
            benchstat 20v20        22..78    40     31..86    40    68..100    40    68..100    40
            benchstat, rerun       14..69    80    68..100    22    68..100    12    68..100    12

            All three verdicts of knee
            rule           noise                   0 %            2 %            5 %           10 %
            knee           normal        0.0/100.0/0.0  87.5/12.5/0.0  100.0/0.0/0.0  100.0/0.0/0.0
            knee, Student  normal        0.0/100.0/0.0  87.5/12.5/0.0  100.0/0.0/0.0  100.0/0.0/0.0
            knee           bimodal       0.0/12.5/87.5  50.0/0.0/50.0  100.0/0.0/0.0  100.0/0.0/0.0
            knee, Student  bimodal       0.0/12.5/87.5  25.0/0.0/75.0  100.0/0.0/0.0  100.0/0.0/0.0
            knee           heavy tails   12.5/87.5/0.0  100.0/0.0/0.0  100.0/0.0/0.0  100.0/0.0/0.0
            knee, Student  heavy tails   12.5/87.5/0.0  87.5/0.0/12.5  100.0/0.0/0.0  100.0/0.0/0.0
            knee           drift of 3 %  0.0/100.0/0.0  100.0/0.0/0.0  100.0/0.0/0.0  100.0/0.0/0.0
            knee, Student  drift of 3 %  0.0/100.0/0.0  100.0/0.0/0.0  100.0/0.0/0.0  100.0/0.0/0.0
            changed/same/cannot tell, in % of the comparisons, at each true change; "same" is within 2 %.

            Promises
            figure                                   limit   measured  standing
            normal, no difference: changed          <= 5 %    0..32 %  met
            normal, 2 % different: changed         >= 85 %   53..98 %  met
            normal, 2 % different: same             <= 5 %    2..47 %  beyond, perhaps by chance
            normal, 5 % different: changed       >= 99.9 %  68..100 %  met
            normal, 5 % different: mean runs         <= 28       22.5  met
            bimodal, no difference: changed         <= 5 %    0..32 %  met
            bimodal, 5 % different: changed        >= 99 %  68..100 %  met
            heavy tails, no difference: changed     <= 5 %    2..47 %  beyond, perhaps by chance
            drift, no difference: changed           <= 5 %    0..32 %  met
            10 files in turn, equal: changed        <= 5 %    2..20 %  beyond, perhaps by chance
            10 files in turn, 10 %: changed        >= 90 %  89..100 %  met
            10, then 10 files, equal: changed       <= 5 %    1..16 %  met
            14, then 14 files, 10 %: changed       >= 90 %   53..98 %  beyond, perhaps by chance
            10 files, any order, equal: changed     <= 5 %    1..16 %  met
            14 files, any order, 10 %: changed     >= 90 %   53..98 %  beyond, perhaps by chance
            MISSED: the interval excludes the limit.

            How often each rule says "changed", by simulation: 8 comparisons for each number, seed 1. +- is half
              of a 95 % interval; of too few comparisons the interval stands alone, as 0..32. The columns of
              runs are means, both variants together. knee interleaves the variants in random order; the others
              measure one, then the other, by the rules that their documentation and users describe.
        "#]].assert_eq(&text);
    }
}
