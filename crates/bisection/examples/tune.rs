use bisection::watch::selfcheck::watch_check;
fn main() {
    let args: Vec<f64> = std::env::args().skip(1).map(|a| a.parse().unwrap()).collect();
    let check = watch_check(args[0] as u32, args[1] as u64);
    for r in check.rows.iter().filter(|r| r.rule == "knee watch") {
        println!(
            "{} {:30.30} exact {:5.1} at once {:5.1} more {:5.1} wrong {:5.2} runs {:.0} + {:.1} in {:.1}",
            r.layout,
            r.about,
            100.0 * r.exact,
            r.at_once.map_or(f64::NAN, |x| 100.0 * x),
            r.more_runs.unwrap_or(f64::NAN),
            100.0 * r.wrong,
            r.runs,
            r.compared_runs,
            r.compared
        );
    }
}
