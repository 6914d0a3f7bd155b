//! Fits of `keep` and `busy` to curves of additions and of compare-and-exchanges.

use described_hosts::Draw;
use studies::simulations::keep::{STEP, STORMS, StormPoint, fit, simulated};

#[test]
fn a_fit_recovers_what_simulated_curves_were_made_with() {
    let described = described_hosts::find("skylake-4").unwrap();
    let check = |keep: f64, busy: f64| {
        let mut host = described.host(Draw::Middle);
        let transfer = &mut host.transfers[1];
        transfer.keep_per_mille = (1000.0 * keep) as u32;
        transfer.busy_per_mille = (1000.0 * busy) as u32;
        let point = |design: &'static str, count: usize| {
            let cpus: Vec<usize> = (0..count).collect();
            let ns = simulated(&host, design, &cpus, 77).unwrap();
            StormPoint { design, cpus, ns }
        };
        let counts = [2, 3, 4];
        let points = STORMS.iter().flat_map(|name| counts.map(|count| point(name, count)));
        let fit = fit(&described.host(Draw::Middle), "node", points.collect()).unwrap();
        let is_near = |found: f64, known: f64| (found - known).abs() <= STEP + 1e-9;
        assert!(is_near(fit.keep[1], keep) && is_near(fit.busy[1], busy), "{:?}", fit.lines());
        assert!(fit.residual < 0.02 && fit.why_weak().is_none(), "{:?}", fit.lines());
    };
    check(0.15, 0.96);
    check(0.5, 0.6);
}

#[test]
fn a_fit_says_when_it_misses_and_when_nothing_checks_it() {
    let host = described_hosts::find("uma-2").unwrap().host(Draw::Middle);
    let check = |keep: Option<u32>, expected: &str| {
        let mut known = host.clone();
        known.transfers[1].keep_per_mille = keep.unwrap_or(0);
        let point = |design: &'static str| StormPoint {
            design,
            cpus: vec![0, 1],
            // No CPU adds in a picosecond to a word that others have.
            ns: keep.map_or(0.001, |_| simulated(&known, design, &[0, 1], 5).unwrap()),
        };
        let fit = fit(&host, "node", STORMS.map(point).to_vec()).unwrap();
        let why = fit.why_weak().unwrap();
        assert!(why.starts_with(expected), "{why}");
        assert_eq!((fit.misses(), fit.lines().len()), (keep.is_none(), 3));
    };
    check(Some(300), "node: only 2 CPUs are at this distance");
    check(None, "node: the fit misses by");
}
