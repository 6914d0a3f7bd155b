//! A screening as text: the effect of each option, the largest first.

use answers::{ScreenedCell, ScreenedOption};
use bisection::Effect;
use text::Style;
use text::prose::{counted, wrapped};
use text::quantity::signed;
use text::table::{Align, Table};

/// A table for each cell.
pub fn screening(options: &[ScreenedOption], cells: &[ScreenedCell], style: &Style) -> String {
    let texts: Vec<String> = cells.iter().map(|cell| one(options, cell, style)).collect();
    texts.join("\n")
}

fn one(options: &[ScreenedOption], cell: &ScreenedCell, style: &Style) -> String {
    let ScreenedCell { title, metric, runs, effects } = cell;
    let head =
        format!("{}\n", style.bold(&format!("{title}: {metric}, {}", counted(*runs, "run"))));
    let Some(effects) = effects else {
        let why = match runs {
            0 => "no run finished\n",
            _ => "too few runs finished: every setting needs two (--blocks)\n",
        };
        return head + why;
    };
    let mut table = Table::new([
        ("option", Align::Left),
        ("from", Align::Left),
        ("to", Align::Left),
        ("change", Align::Right),
        ("interval", Align::Left),
        ("", Align::Left),
    ]);
    let mut rows: Vec<(&ScreenedOption, &Effect)> = options.iter().zip(effects).collect();
    rows.sort_by(|a, b| b.1.size.abs().total_cmp(&a.1.size.abs()));
    let percent = |log: f64| signed(100.0 * log.exp_m1(), 2);
    for (option, effect) in rows {
        let [first, second] = &option.values;
        table.row(vec![
            option.key.clone(),
            first.clone(),
            second.clone(),
            percent(effect.size) + " %",
            format!(
                "[{}, {}]",
                percent(effect.size - effect.half),
                percent(effect.size + effect.half)
            ),
            if effect.is_shown() { "has an effect" } else { "no effect shown" }.to_string(),
        ]);
    }
    let shown = effects.iter().filter(|effect| effect.is_shown()).count();
    let tail = format!(
        "{} of {} have an effect. The intervals hold for all of them together at 99 %. What two options do only \
         together is not seen, and counts towards others: measure the options that matter in all combinations.",
        shown,
        counted(options.len(), "option")
    );
    head + &table.within(style.width).0 + &wrapped(&tail, style.width, 0)
}

#[cfg(test)]
mod tests {
    use bisection::Effect;

    use super::{ScreenedCell, ScreenedOption, screening};
    use text::Style;

    #[test]
    fn the_largest_effect_stands_first() {
        let option = |key: &str| ScreenedOption {
            key: key.to_string(),
            values: ["off".to_string(), "on".to_string()],
        };
        let cell = ScreenedCell {
            title: "app, 2 CPUs".to_string(),
            metric: "wall_s".to_string(),
            runs: 40,
            effects: Some(vec![
                Effect { size: 0.004, half: 0.01 },
                Effect { size: -0.05, half: 0.01 },
            ]),
        };
        let text = screening(&[option("cache"), option("hash")], &[cell], &Style::PLAIN);
        expect_test::expect![[r#"
            app, 2 CPUs: wall_s, 40 runs
            option  from  to   change  interval
            hash    off   on  -4.88 %  [-5.82, -3.92]  has an effect
            cache   off   on  +0.40 %  [-0.60, +1.41]  no effect shown
            1 of 2 options have an effect. The intervals hold for all of them together at 99 %. What two options
            do only together is not seen, and counts towards others: measure the options that matter in all
            combinations.
        "#]].assert_eq(&text);
    }
}
