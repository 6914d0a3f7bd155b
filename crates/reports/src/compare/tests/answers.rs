//! What stands first: many variants in one sentence, and why there is no verdict.

use analysis::{Comparison, DiscardedBlock, Verdict};
use expect_test::expect;
use records::Better;

use crate::compare::answer::answers;
use crate::compare::tests::fixtures::{
    BETTER, WORSE, cell, changed, metric, spread, unknown, variants,
};

/// A cell in which variant i changed by so many percent.
fn ranked(changes: &[f64]) -> Comparison {
    let names: Vec<String> = (0..=changes.len()).map(|i| format!("v{i}")).collect();
    let about: Vec<(&str, &str)> = names.iter().map(|name| (name.as_str(), "")).collect();
    let contrast = |change: &f64| {
        let verdict = match change {
            c if *c > 2.0 => BETTER,
            c if *c < -2.0 => WORSE,
            _ => Verdict::Same,
        };
        changed(20, [*change, change - 1.0, change + 1.0], verdict)
    };
    let sides = vec![spread(20, 1e6, 1e4); names.len()];
    let contrasts = changes.iter().map(contrast).collect();
    let rate = metric("operations_per_s", "1/s", Better::Higher, sides, contrasts);
    Comparison { cells: vec![cell("getppid", 4, vec![rate])], ..variants(&about) }
}

#[test]
fn many_variants_are_ranked_in_one_sentence() {
    // Seed 20261128: a shuffle of eleven changes.
    let changes = [7.0, -31.0, 0.5, 44.0, -3.0, 12.0, -0.5, 3.0, 25.0, -12.0, 18.0];
    let said = answers(&ranked(&changes));
    assert_eq!(said.len(), 1, "{said:?}");
    expect![[r#"

        Of 12 variants, the best first: `v4` (+44.0%, faster), `v9` (+25.0%, faster), `v11` (+18.0%, faster), `v6` (+12.0%, faster), `v1` (+7.0%, faster), `v8` (+3.0%, faster), `v3` (+0.5%, same), `v0` (baseline), `v7` (-0.5%, same), `v5` (-3.0%, slower), `v10` (-12.0%, slower), `v2` (-31.0%, slower); each is compared with `v0`, not with its neighbours: getppid, processes, 1 s, 4 CPUs"#]].assert_eq(&format!("\n{}", said[0]));
    assert_eq!(answers(&ranked(&changes[..3])).len(), 3);
}

#[test]
fn a_comparison_without_a_block_says_why_first() {
    let mut none = ranked(&[5.0]);
    none.cells[0].metrics[0].contrasts[0] = unknown("too few runs", 6);
    none.discards.blocks = 3;
    let left_out = |block: u32, percent: f64| DiscardedBlock {
        cell: 0,
        block,
        run: 2 * block,
        reason: format!("the hypervisor took {percent} % of the CPUs used"),
    };
    none.discards.discarded = vec![left_out(0, 3.1), left_out(1, 3.1), left_out(2, 9.0)];
    let said = &answers(&none)[0];
    let why =
        "(left out: 3 of 3 blocks; at worst, in block 2, the hypervisor took 9 % of the CPUs used)";
    assert!(said.contains(&format!("as no block counts {why}")), "{said}");
    let mut many = ranked(&[5.0; 11]);
    many.cells[0].metrics[0].contrasts = vec![unknown("too few runs", 6); 11];
    many.discards = none.discards;
    let said = answers(&many);
    assert_eq!(
        said,
        [format!("No verdict about any of 11 variants against `v0`, as no block counts {why}")]
    );
}
