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
         seed {seed}. ± is half of a 95 % interval. The columns of runs are means, both variants \
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

/// A share in percent with half of its interval, the longer half.
fn percent(share: &Proportion) -> String {
    let (low, high) = share.interval;
    let half = (share.share - low).max(high - share.share);
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
            7 of 9 promises met, 2 beyond, perhaps by chance

            Noise: normal, 3 %
                                  true 0 %           true 2 %           true 5 %          true 10 %
            rule                 changed %  runs    changed %  runs    changed %  runs    changed %  runs
            knee                 0.0+-32.4    99   87.5+-34.6    70  100.0+-32.4    22  100.0+-32.4    21
            knee, Student        0.0+-32.4    89   87.5+-34.6    69  100.0+-32.4    19  100.0+-32.4    13
            lkp 3v3             12.5+-34.6     6   25.0+-34.1     6  100.0+-32.4     6  100.0+-32.4     6
            lkp 5v5              0.0+-32.4    10   12.5+-34.6    10   87.5+-34.6    10   87.5+-34.6    10
            lkp 10v10            0.0+-32.4    20    0.0+-32.4    20   62.5+-31.9    20  100.0+-32.4    20
            lkp 3v3, 5 % class   0.0+-32.4     6   25.0+-34.1     6   87.5+-34.6     6  100.0+-32.4     6
            larger stddev 5v5   12.5+-34.6    10   12.5+-34.6    10  100.0+-32.4    10  100.0+-32.4    10
            hyperfine 10v10      0.0+-32.4    20    0.0+-32.4    20   75.0+-34.1    20  100.0+-32.4    20
            mmtests 10v10        0.0+-32.4    20    0.0+-32.4    20    0.0+-32.4    20   12.5+-34.6    20
            benchstat 10v10      0.0+-32.4    20   12.5+-34.6    20   87.5+-34.6    20  100.0+-32.4    20
            benchstat 20v20     25.0+-34.1    40   37.5+-31.9    40  100.0+-32.4    40  100.0+-32.4    40
            benchstat, rerun    25.0+-34.1    94  100.0+-32.4    36  100.0+-32.4    12  100.0+-32.4    12

            Noise: bimodal: 1 %, and 30 % of the runs 10 % higher
                                  true 0 %           true 2 %           true 5 %          true 10 %
            rule                 changed %  runs    changed %  runs    changed %  runs    changed %  runs
            knee                 0.0+-32.4   120   50.0+-28.5   108  100.0+-32.4    36  100.0+-32.4    23
            knee, Student        0.0+-32.4   120   25.0+-34.1   120  100.0+-32.4    36  100.0+-32.4    22
            lkp 3v3             25.0+-34.1     6   50.0+-28.5     6   50.0+-28.5     6   87.5+-34.6     6
            lkp 5v5             25.0+-34.1    10   25.0+-34.1    10   25.0+-34.1    10   62.5+-31.9    10
            lkp 10v10            0.0+-32.4    20    0.0+-32.4    20   12.5+-34.6    20   37.5+-31.9    20
            lkp 3v3, 5 % class  12.5+-34.6     6   50.0+-28.5     6   37.5+-31.9     6   75.0+-34.1     6
            larger stddev 5v5   25.0+-34.1    10   12.5+-34.6    10   62.5+-31.9    10  100.0+-32.4    10
            hyperfine 10v10      0.0+-32.4    20    0.0+-32.4    20   25.0+-34.1    20   87.5+-34.6    20
            mmtests 10v10        0.0+-32.4    20    0.0+-32.4    20    0.0+-32.4    20   12.5+-34.6    20
            benchstat 10v10     12.5+-34.6    20   50.0+-28.5    20   50.0+-28.5    20  100.0+-32.4    20
            benchstat 20v20      0.0+-32.4    40   62.5+-31.9    40  100.0+-32.4    40  100.0+-32.4    40
            benchstat, rerun    37.5+-31.9    94  100.0+-32.4    20  100.0+-32.4    18  100.0+-32.4    14

            Noise: heavy tails: Student's t with 3 degrees of freedom, 3 %
                                  true 0 %           true 2 %           true 5 %          true 10 %
            rule                 changed %  runs    changed %  runs    changed %  runs    changed %  runs
            knee                12.5+-34.6    56  100.0+-32.4    78  100.0+-32.4    23  100.0+-32.4    20
            knee, Student       12.5+-34.6    59   87.5+-34.6    84  100.0+-32.4    21  100.0+-32.4    11
            lkp 3v3             25.0+-34.1     6   87.5+-34.6     6  100.0+-32.4     6  100.0+-32.4     6
            lkp 5v5              0.0+-32.4    10   12.5+-34.6    10   87.5+-34.6    10  100.0+-32.4    10
            lkp 10v10            0.0+-32.4    20    0.0+-32.4    20   37.5+-31.9    20   87.5+-34.6    20
            lkp 3v3, 5 % class   0.0+-32.4     6   12.5+-34.6     6   62.5+-31.9     6  100.0+-32.4     6
            larger stddev 5v5    0.0+-32.4    10   37.5+-31.9    10  100.0+-32.4    10  100.0+-32.4    10
            hyperfine 10v10      0.0+-32.4    20    0.0+-32.4    20   87.5+-34.6    20  100.0+-32.4    20
            mmtests 10v10        0.0+-32.4    20    0.0+-32.4    20    0.0+-32.4    20   37.5+-31.9    20
            benchstat 10v10      0.0+-32.4    20   50.0+-28.5    20  100.0+-32.4    20  100.0+-32.4    20
            benchstat 20v20      0.0+-32.4    40   87.5+-34.6    40  100.0+-32.4    40  100.0+-32.4    40
            benchstat, rerun    12.5+-34.6   114  100.0+-32.4    36  100.0+-32.4    12  100.0+-32.4    12

            Noise: drift of 3 %, correlated 0.95 from run to run
                                  true 0 %           true 2 %           true 5 %          true 10 %
            rule                 changed %  runs    changed %  runs    changed %  runs    changed %  runs
            knee                 0.0+-32.4    16  100.0+-32.4    20  100.0+-32.4    20  100.0+-32.4    20
            knee, Student        0.0+-32.4    16  100.0+-32.4    15  100.0+-32.4    10  100.0+-32.4    10
            lkp 3v3             12.5+-34.6     6   75.0+-34.1     6  100.0+-32.4     6  100.0+-32.4     6
            lkp 5v5             25.0+-34.1    10   62.5+-31.9    10  100.0+-32.4    10  100.0+-32.4    10
            lkp 10v10           37.5+-31.9    20   37.5+-31.9    20   87.5+-34.6    20  100.0+-32.4    20
            lkp 3v3, 5 % class   0.0+-32.4     6    0.0+-32.4     6   37.5+-31.9     6  100.0+-32.4     6
            larger stddev 5v5   37.5+-31.9    10   62.5+-31.9    10  100.0+-32.4    10  100.0+-32.4    10
            hyperfine 10v10     50.0+-28.5    20   75.0+-34.1    20  100.0+-32.4    20  100.0+-32.4    20
            mmtests 10v10        0.0+-32.4    20   25.0+-34.1    20   75.0+-34.1    20  100.0+-32.4    20
            benchstat 10v10     75.0+-34.1    20   87.5+-34.6    20  100.0+-32.4    20  100.0+-32.4    20
            benchstat 20v20     50.0+-28.5    40   62.5+-31.9    40  100.0+-32.4    40  100.0+-32.4    40
            benchstat, rerun    37.5+-31.9    80  100.0+-32.4    22  100.0+-32.4    12  100.0+-32.4    12

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
            figure                                   limit       measured  standing
            normal, no difference: changed          <= 5 %    0.0+-32.4 %  met
            normal, 2 % different: changed         >= 85 %   87.5+-34.6 %  met
            normal, 2 % different: same             <= 5 %   12.5+-34.6 %  beyond, perhaps by chance
            normal, 5 % different: changed       >= 99.9 %  100.0+-32.4 %  met
            normal, 5 % different: mean runs         <= 28           22.5  met
            bimodal, no difference: changed         <= 5 %    0.0+-32.4 %  met
            bimodal, 5 % different: changed        >= 99 %  100.0+-32.4 %  met
            heavy tails, no difference: changed     <= 5 %   12.5+-34.6 %  beyond, perhaps by chance
            drift, no difference: changed           <= 5 %    0.0+-32.4 %  met
            MISSED: the interval excludes the limit.

            How often each rule says "changed", by simulation: 8 comparisons for each number, seed 1. +- is half
              of a 95 % interval. The columns of runs are means, both variants together. knee interleaves the
              variants in random order; the others measure one, then the other, by the rules that their
              documentation and users describe.
        "#]].assert_eq(&text);
    }
}
