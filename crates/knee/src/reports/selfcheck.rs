//! The self-check as text: for each kind of noise what every rule says at every true change,
//! what else our rule says, and whether it does what it promises.

use analysis::Noise;
use analysis::selfcheck::{Cell, EFFECTS, Figure, Limit, Row, SMALLEST_EFFECT, Selfcheck, Share};

use super::Style;
use super::prose::wrapped;
use super::table::{Align, Table};

/// All tables.
pub fn selfcheck(check: &Selfcheck, style: &Style) -> String {
    let Selfcheck { trials, seed, .. } = check;
    let intro = format!(
        "How often each rule says \"changed\", by simulation: {trials} comparisons for each number, \
         seed {seed}. {} is half of a 95 % interval. Runs are of both variants together, on \
         average. knee interleaves the variants in random order; the others measure one, then the \
         other. Their rules are as their documentation and users describe them.",
        style.plus_minus()
    );
    let mut text = wrapped(&intro, style.width, 0);
    for noise in Noise::ALL {
        text += &format!("\n{}\n\n", style.bold(&format!("Noise: {}", noise.about())));
        text += &changed(check, noise, style);
    }
    text += &format!("\n{}\n\n", style.bold("What knee says in full"));
    text += &in_full(check, style);
    text += &format!("\n{}\n\n", style.bold("Promises"));
    text + &promises(check, style)
}

/// How often "changed" is said on one kind of noise.
fn changed(check: &Selfcheck, noise: Noise, style: &Style) -> String {
    let per_effect = EFFECTS.map(|effect| {
        let truth = match effect {
            0.0 => "nothing".to_string(),
            _ => format!("{:.0} %", 100.0 * effect),
        };
        [(format!("{truth}\nchanged %"), Align::Right), ("\nruns".to_string(), Align::Right)]
    });
    let first = ("\nrule".to_string(), Align::Left);
    let mut table = Table::new([first].into_iter().chain(per_effect.into_iter().flatten()));
    for row in check.rows.iter().filter(|row| row.noise == noise) {
        let cell = |cell: &Cell| [percent(&cell.changed, style), format!("{:.0}", cell.runs)];
        let cells = row.cells.iter().flat_map(cell);
        table.row([row.rule.clone()].into_iter().chain(cells).collect());
    }
    table.within(style.width).0
}

/// All three answers of the rules that have three.
fn in_full(check: &Selfcheck, style: &Style) -> String {
    let headings = EFFECTS.map(|effect| (format!("{:.0} %", 100.0 * effect), Align::Right));
    let first = [("rule", Align::Left), ("noise", Align::Left)];
    let first = first.map(|(heading, align)| (heading.to_string(), align));
    let mut table = Table::new(first.into_iter().chain(headings));
    for Row { rule, noise, cells, .. } in check.rows.iter().filter(|row| row.equivalence) {
        let answer = |cell: &Cell| {
            let shares = [&cell.changed, &cell.same, &cell.cannot_tell];
            shares.map(|share| format!("{:.1}", 100.0 * share.share)).join(" / ")
        };
        let about = noise.about().split([',', ':']).next().unwrap_or_default();
        let names = [rule.clone(), about.to_string()];
        table.row(names.into_iter().chain(cells.iter().map(answer)).collect());
    }
    let note = format!(
        "changed / same / cannot tell, in % of the comparisons, at each true change; \"same\" is \
         within {:.0} %.",
        100.0 * SMALLEST_EFFECT
    );
    table.within(style.width).0 + &wrapped(&note, style.width, 0)
}

fn promises(check: &Selfcheck, style: &Style) -> String {
    let columns = [
        ("figure", Align::Left),
        ("limit", Align::Right),
        ("measured", Align::Right),
        ("", Align::Left),
    ];
    let mut table = Table::new(columns);
    for figure in &check.figures {
        let met = if figure.met { "met" } else { "MISSED" };
        let cells = [limit(figure), measured(figure, style)];
        let [limit, measured] = cells;
        table.row(vec![figure.what.clone(), limit, measured, met.to_string()]);
    }
    table.within(style.width).0
}

fn limit(figure: &Figure) -> String {
    let (sign, limit) = match figure.limit {
        Limit::AtMost(limit) => ("<=", limit),
        Limit::AtLeast(limit) => (">=", limit),
    };
    match figure.interval {
        Some(_) => format!("{sign} {} %", (1000.0 * limit).round() / 10.0),
        None => format!("{sign} {limit}"),
    }
}

fn measured(figure: &Figure, style: &Style) -> String {
    match figure.interval {
        Some(interval) => {
            let share = Share { share: figure.measured, interval };
            format!("{} %", percent(&share, style))
        }
        None => format!("{:.1}", figure.measured),
    }
}

/// A share in percent with half of its interval, the longer half.
fn percent(share: &Share, style: &Style) -> String {
    let (low, high) = share.interval;
    let half = (share.share - low).max(high - share.share);
    format!("{:.1}{}{:.1}", 100.0 * share.share, style.plus_minus(), 100.0 * half)
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;

    #[test]
    fn the_self_check_as_text() {
        let text = selfcheck(&analysis::selfcheck::selfcheck(8, 1), &Style::PLAIN);
        assert!(text.lines().all(|line| line.len() <= 100 && line == line.trim_end()));
        assert!(text.is_ascii());
        expect![[""]].assert_eq(&text);
    }
}
