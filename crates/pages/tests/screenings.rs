//! The page of a screening on a terminal.

use answers::{ScreenedCell, ScreenedOption};
use bisection::Effect;
use expect_test::expect;
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
        effects: Some(vec![Effect { size: 0.004, half: 0.01 }, Effect { size: -0.05, half: 0.01 }]),
    };
    let page = pages::screening("app", &[option("cache"), option("hash")], &[cell]);
    expect![[r#"
        1 of 2 options has an effect on wall_s

        app, 2 CPUs: wall_s, 40 runs
        option  from  to   change  interval        verdict
        hash    off   on  -4.88 %  [-5.82, -3.92]  has an effect
        cache   off   on  +0.40 %  [-0.60, +1.41]  no effect shown

        The intervals hold for all options together at 99 %. What two options do only together is not seen,
          and counts towards others: measure the options that matter in all combinations.
    "#]].assert_eq(&pages::terminal(&page, Style::PLAIN));
}
