//! When the blocks of a cell end, and that the comparison then says what ended them.

use super::*;

/// How many blocks a cell gets, where each variant has its factor.
fn blocks_until_decided(experiment: &str, factors: &[f64]) -> u32 {
    let names: Vec<&str> = ["a", "b", "c"][..factors.len()].to_vec();
    let opened = record("r", experiment, &names, json!([blocks(80, factors)]));
    let points: Vec<usize> = (0..factors.len()).collect();
    let goes_on = |block: &u32| {
        let before: Vec<&Run> = opened.runs.iter().filter(|run| run.block < *block).collect();
        !points_to_run(&opened.record, &points, &before, *block).is_empty()
    };
    (0..200).take_while(goes_on).count() as u32
}

#[test]
fn the_deciding_part_of_runs_decides_as_the_runs_do() {
    let mut values = blocks(12, &[1.0, 1.05]);
    values[4][1] = json!({"operations_per_s": 3.0, "steal_percent": 3.2, "fairness": 1.0});
    let opened = record("r", "", &["a", "b"], json!([values]));
    let parts = opened.runs.iter().map(|run| deciding_part(run, "operations_per_s"));
    let runs = Runs::from(parts.collect::<Vec<Run>>());
    let slim = Opened { folder: PathBuf::new(), record: opened.record.clone(), runs };
    let reasons = |opened: &Opened| -> Vec<Option<String>> {
        let blocks = blocks::blocks(&opened.record, &[0, 1], &opened.runs);
        blocks.iter().map(|block| block.reasons.first().map(|(_, _, why)| why.clone())).collect()
    };
    assert_eq!(reasons(&slim), reasons(&opened));
    assert!(slim.runs.iter().all(|run| run.value("fairness").is_none()));
}

#[test]
fn blocks_go_on_until_all_is_decided_or_the_cap_is_reached() {
    let experiment =
        "[compare]\nuntil_decided = true\n[[variant]]\nname = 'a'\n[[variant]]\nname = 'b'";
    assert_eq!(blocks_until_decided(experiment, &[1.0, 1.0]), 8);
    assert_eq!(blocks_until_decided(experiment, &[1.0, 1.2]), 10);
    assert_eq!(blocks_until_decided(experiment, &[1.0, 1.2, 1.0]), 10);
    assert_eq!(blocks_until_decided("", &[1.0, 1.0]), 5);
    assert_eq!(blocks_until_decided("blocks = 7", &[1.0, 1.0]), 7);
}

#[test]
fn a_host_that_disturbs_every_block_is_given_up() {
    let check = |experiment: &str, quiet: Option<usize>, expected: usize| {
        let mut values = blocks(80, &[1.0, 1.0]);
        for (number, block) in values.as_array_mut().unwrap().iter_mut().enumerate() {
            if Some(number) != quiet {
                block[1] = json!({"operations_per_s": 3.0, "steal_percent": 3.2});
            }
        }
        let opened = record("r", experiment, &["a", "b"], json!([values]));
        let goes_on = |block: &u32| {
            let before: Vec<&Run> = opened.runs.iter().filter(|run| run.block < *block).collect();
            !points_to_run(&opened.record, &[0, 1], &before, *block).is_empty()
        };
        assert_eq!((0..200).take_while(goes_on).count(), expected, "{quiet:?}");
    };
    check(&capped(30), None, 12);
    check(&capped(30), Some(11), 40);
    check("blocks = 30", None, 40);
}

/// The experiment of two variants that goes on until decided, with this cap.
fn capped(cap: u32) -> String {
    format!(
        "blocks = {cap}\n[compare]\nuntil_decided = true\n[[variant]]\nname = 'a'\n[[variant]]\n\
         name = 'b'"
    )
}

#[test]
fn a_small_cap_has_one_look_at_its_end() {
    for cap in 5..10 {
        assert_eq!(blocks_until_decided(&capped(cap), &[1.0, 1.2]), cap);
    }
}

#[test]
fn there_is_no_block_after_the_last_look() {
    // Too wide for any verdict: the sign of the difference alternates.
    let values: Vec<[f64; 2]> = (0..120)
        .map(|i| (i % 2, 1300.0 + (i / 2 * 37 % 101) as f64))
        .map(|(turned, far)| if turned == 0 { [1000.0, far] } else { [far, 1000.0] })
        .collect();
    for (cap, last) in [(20, 20), (50, 40), (100, 60)] {
        let opened = record("r", &capped(cap), &["a", "b"], json!([values]));
        let goes_on = |block: &u32| {
            let before: Vec<&Run> = opened.runs.iter().filter(|run| run.block < *block).collect();
            !points_to_run(&opened.record, &[0, 1], &before, *block).is_empty()
        };
        assert_eq!((0..200).take_while(goes_on).count(), last, "cap {cap}");
    }
}

#[test]
fn a_hopeless_variant_is_given_up_and_does_not_stop_the_others() {
    let mut values = blocks(20, &[1.0, 1.05, 1.1]);
    for block in 0..20 {
        values[block][2] = Value::Null;
    }
    let opened = record("r", "blocks = 10", &["a", "b", "c"], json!([values]));
    let points = |block: u32| {
        let before: Vec<&Run> = opened.runs.iter().filter(|run| run.block < block).collect();
        points_to_run(&opened.record, &[0, 1, 2], &before, block)
    };
    assert_eq!(points(2), [0, 1, 2]);
    assert_eq!(points(3), [0, 1]);
    assert_eq!(points(9), [0, 1]);
    assert!(points(10).is_empty());
}

#[test]
fn the_comparison_says_what_stopped_the_blocks() {
    for seed in 0..20 {
        let mut values = blocks(60, &[1.0, 1.0 + 0.01 * (seed % 5) as f64, 0.97]);
        for block in (seed..60).step_by(7) {
            values[block][seed % 3] = Value::Null;
        }
        let experiment = capped(60);
        let names = ["a", "b", "c"];
        let whole = record("r", &experiment, &names, json!([values]));
        let before = |block: u32| -> Vec<&Run> {
            whole.runs.iter().filter(|run| run.block < block).collect()
        };
        let end = (0..)
            .find(|block| {
                points_to_run(&whole.record, &[0, 1, 2], &before(*block), *block).is_empty()
            })
            .expect("an end");
        let runs = before(end).into_iter().cloned().collect::<Vec<Run>>().into();
        let opened = Opened { folder: PathBuf::new(), record: whole.record.clone(), runs };
        let arms = names.map(|name| Arm { name, record: &opened, variant: name });
        let comparison = compare(&arms, &CompareOptions::default()).expect("a comparison");
        for contrast in &comparison.cells[0].metrics[0].contrasts {
            let decided = contrast.verdict.is_change() || contrast.verdict == crate::Verdict::Same;
            assert!(decided || contrast.n == 60, "seed {seed}: {contrast:?}");
        }
    }
}

#[test]
fn a_part_of_the_blocks_has_spares_for_those_that_the_host_disturbs() {
    // Blocks 4, 5 and 6 of 20, and two spares.
    let (asked, spares) = ([4, 5, 6], [24, 25]);
    let held = |disturbed: &[usize]| {
        let mut values = blocks(30, &[1.0, 1.05]);
        for block in disturbed {
            values[*block][1] = json!({"operations_per_s": 3.0, "steal_percent": 3.2});
        }
        let mut opened = record("r", "blocks = 20", &["a", "b"], json!([values]));
        opened.record.blocks = Some([&asked[..], &spares[..]].concat());
        let runs = |block: &&u32| {
            let is_before = |run: &&Run| {
                run.block < **block
                    && opened.record.blocks.iter().flatten().any(|b| *b == run.block)
            };
            let before: Vec<&Run> = opened.runs.iter().filter(is_before).collect();
            !points_to_run(&opened.record, &[0, 1], &before, **block).is_empty()
        };
        opened.record.blocks.iter().flatten().filter(runs).copied().collect::<Vec<u32>>()
    };
    assert_eq!(held(&[]), [4, 5, 6]);
    assert_eq!(held(&[5]), [4, 5, 6, 24]);
    // A spare may be disturbed too.
    assert_eq!(held(&[5, 24]), [4, 5, 6, 24, 25]);
    assert_eq!(held(&[4, 5, 6]), [4, 5, 6, 24, 25]);
}

#[test]
fn a_gate_runs_what_it_set_aside_again_once_nothing_else_is_open() {
    let experiment = "blocks = 60\n[compare]\nuntil_decided = true\nsmallest_effect = 0.05\n[compare.gate]\n\
        alpha = 0.01\nbudget_s = 100.0\n[[variant]]\nname = 'a'\n[[variant]]\nname = 'b'";
    // Differences alternate around none, and around a tenth.
    let cell = |level: f64| -> Vec<[f64; 2]> {
        let value = |block: i32| 1000.0 * (level + 0.037 * f64::from(block % 2 * 2 - 1)).exp();
        (0..60).map(|block| [1000.0, value(block)]).collect()
    };
    let opened = record("r", experiment, &["a", "b"], json!([cell(0.0), cell(0.1)]));
    let cells = [vec![0, 1], vec![2, 3]];
    let check = |blocks: [u32; 2], may_reexamine: bool, expected: [&[usize]; 2]| {
        let of_cell = |cell: usize| -> Vec<&Run> {
            let is_own = |run: &&Run| run.point as usize / 2 == cell && run.block < blocks[cell];
            opened.runs.iter().filter(is_own).collect()
        };
        let runs = [of_cell(0), of_cell(1)];
        let block = blocks[1];
        assert_eq!(
            gate_points_to_run(&opened.record, &cells, &runs, block, may_reexamine),
            expected,
            "{blocks:?}"
        );
    };
    check([7, 7], true, [&[0, 1], &[2, 3]]);
    check([8, 8], true, [&[], &[2, 3]]);
    check([8, 14], true, [&[0, 1], &[]]);
    check([8, 14], false, [&[], &[]]);
}
