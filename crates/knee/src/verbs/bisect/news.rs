//! What a bisection says while it goes on: a line for each thing that was done.

use bisection::{Ends, Foresight, Quantiles};
use bisector::{Commit, Confirmed, LayoutCheck, Progress, Range, Request, Session, Source, Wait};
use host::counted;
use host::terminal::{hint, talk};
use text::quantity::{log_change, signed};

/// Says what there is to search.
pub fn before(request: &Request, range: &Range) {
    talk(format_args!(
        "{} between {} and {}",
        counted(range.changes(), request.source.unit()),
        range.commits[0].short(),
        range.commits[range.changes()].short()
    ));
    if let Source::Git { directory, bad, .. } = &request.source
        && let Ok(repository) = guests::kernels::Repository::open(directory)
        && let Ok(bad) = repository.resolve(bad)
        && repository.has_uncommitted(&bad)
    {
        talk(format_args!("uncommitted changes in {} are not built", directory.display()));
    }
}

/// Says which ends have another name now than when the bisection began, or none.
pub fn moved(session: &Session) {
    let Source::Git { directory, good, bad, .. } = &session.request.source else { return };
    let Ok(repository) = guests::kernels::Repository::open(directory) else { return };
    let ends =
        [(good, &session.range.commits[0]), (bad, &session.range.commits[session.range.changes()])];
    for (name, commit) in ends {
        let what = match repository.resolve(name) {
            Ok(now) if now.commit == commit.id => continue,
            Ok(_) => "has moved since",
            Err(_) => "is gone",
        };
        talk(format_args!(
            "{name} {what}: the bisection goes on with {}, as it began",
            commit.short()
        ));
    }
}

/// One piece of news.
pub fn tell(progress: &Progress, range: &Range) {
    match progress {
        Progress::Built { commit, seconds } => {
            hint(format_args!("built {} in {seconds:.1} s", commit.short()));
        }
        Progress::Equal { commit, to } => talk(format_args!(
            "{} loads the code and data of {}: nothing between them matters",
            commit.short(),
            to.short(),
        )),
        Progress::Skipped { commit, why } => {
            talk(format_args!("{} is skipped: {why}", commit.short()));
        }
        Progress::Candidates { all, unread, reproducible } => {
            candidates(*all, *unread, *reproducible);
        }
        Progress::Bound { runs } => talk(format_args!(
            "the change is sure; the search ends after {} at most: 2.5 times the mean at the smallest distance of the ends \
             that the runs leave open",
            counted(*runs as usize, "run")
        )),
        Progress::Ends { ends } => talk(format_args!("ends: {}", ends_text(ends))),
        Progress::Apart(forecast) => {
            talk(format_args!("forecast: {}", forecast_text(forecast)));
        }
        Progress::Disturbed { left_out, blocks } => talk(format_args!(
            "the host disturbed {left_out} of {} of the comparison, so it says nothing: comparing again",
            counted(*blocks, "block")
        )),
        Progress::Waiting(Wait::Begins { busy, most_s }) => talk(format_args!(
            "others use {:.0} % of the CPUs: waiting for a quiet moment, for {} at most",
            100.0 * busy,
            duration(*most_s)
        )),
        Progress::Waiting(Wait::Ends { is_quiet: true, seconds }) => {
            talk(format_args!("the host is quiet after {}: comparing on", duration(*seconds)));
        }
        Progress::Waiting(Wait::Ends { is_quiet: false, .. }) => {
            talk("the host did not become quiet: comparing on as it is");
        }
        Progress::Step { number, commits, left } => {
            let one = |(commit, runs, mean): &(&Commit, usize, f64)| {
                let runs = counted(*runs, "run");
                format!("{}: {runs}, mean {}", commit.short(), analysis::rounded(*mean, 4))
            };
            let measured = commits.iter().map(one).collect::<Vec<_>>().join(", ");
            let measured = if commits.is_empty() { "nothing measured" } else { &measured };
            let left = left.as_ref().map(|left| left.text(range)).unwrap_or_default();
            talk(format_args!("step {number}  {measured}; {left}"));
        }
    }
}

/// `29 to 77 runs to search, then 100 to 160 to compare what is found, 158 in all at the median; 8 to 11 builds; 12 to 20 min
/// more (8 of 10 of 30 simulated bisections)`
pub fn forecast_text(forecast: &Foresight) -> String {
    let Foresight { simulated, search, comparisons, all, seconds_left, .. } = forecast;
    let parts = if comparisons.runs.high > 0.0 {
        format!(
            "{} runs to search, then {} to compare what is found",
            limits(&search.runs),
            limits(&comparisons.runs)
        )
    } else {
        format!("{} runs", limits(&search.runs))
    };
    let [least, most] = [seconds_left.low, seconds_left.high].map(duration);
    let more = match (least.split_once(' '), most.split_once(' ')) {
        _ if least == most => most,
        (Some((number, unit)), Some((_, of_most))) if unit == of_most => {
            format!("{number} to {most}")
        }
        _ => format!("{least} to {most}"),
    };
    format!(
        "{parts}, {:.0} in all at the median; {} builds; {more} more (8 of 10 of {simulated} simulated bisections)",
        all.runs.middle,
        limits(&all.builds),
    )
}

/// `36 to 111`
fn limits(Quantiles { low, high, .. }: &Quantiles) -> String {
    if low == high { format!("{low:.0}") } else { format!("{low:.0} to {high:.0}") }
}

fn candidates(all: usize, unread: usize, reproducible: Option<bool>) {
    if unread > 0 {
        let rest = all - unread;
        talk(format_args!(
            "{rest} of {} touch what the builds of the ends read; the others are candidates of a fiftieth \
             the weight",
            counted(all, "commit")
        ));
    }
    if reproducible == Some(false) {
        talk(
            "two builds of the good end differ: equal builds of different commits will not be recognised",
        );
    }
}

fn ends_text(ends: &Ends) -> String {
    format!(
        "bad {} against good, +-{:.2} % (standard error), {} that spread by {:.2} %",
        log_change(ends.difference, 2),
        100.0 * ends.error,
        counted(ends.runs as usize, "run"),
        100.0 * ends.deviation
    )
}

/// A time for people.
pub fn duration(seconds: f64) -> String {
    match seconds {
        s if s < 100.0 => format!("{s:.0} s"),
        s if s < 6000.0 => format!("{:.0} min", s / 60.0),
        s => format!("{:.1} h", s / 3600.0),
    }
}

/// What an independent comparison means.
pub fn confirmed(confirmed: Confirmed) -> &'static str {
    match confirmed {
        Confirmed::Yes => "CONFIRMED by runs that took no part in the search",
        Confirmed::No => "NOT CONFIRMED: do not blame this commit",
        Confirmed::CannotTell => "not decided by as many runs as allowed",
        Confirmed::Disturbed => {
            "NOT COMPARED: the host disturbed each comparison. knee bisect --resume compares again; with --wait 1h, it \
             waits that long for a quiet host"
        }
    }
}

/// What other layouts of the same code say.
pub fn layouts(check: &LayoutCheck) -> String {
    let one = |(change, error): (&f64, &f64)| {
        format!("{} % +-{:.2}", signed(100.0 * change, 2), 100.0 * error)
    };
    let all: Vec<String> = check.changes.iter().zip(&check.errors).map(one).collect();
    let verdict = if check.holds {
        "it is the code, not its place"
    } else {
        "NOT IN ALL LAYOUTS: the place of the code may explain it"
    };
    format!(
        "Linked in {} (padding, order of objects), change and standard error: {}: {verdict}",
        counted(all.len(), "other layout"),
        all.join(", ")
    )
}
