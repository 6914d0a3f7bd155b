fn main() {
    let args: Vec<u64> = std::env::args().skip(1).map(|a| a.parse().unwrap()).collect();
    for seed in args[1]..=args[2] {
        let check = bisection::watch::selfcheck::watch_check(args[0] as u32, seed);
        for r in check.rows {
            println!(
                "{:34} {:28} exact {:5.3} once {:5.3} wrong {:5.3} runs {:6.1} more {:5.1} cruns {:6.1} n {:4.1}",
                r.about,
                r.rule,
                r.exact,
                r.at_once.unwrap_or(-1.0),
                r.wrong,
                r.runs,
                r.more_runs.unwrap_or(-1.0),
                r.compared_runs,
                r.compared
            );
        }
    }
}
