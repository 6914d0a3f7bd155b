//! I5: file locks off the global lock. 128 processes lock and unlock one file, or one each; the
//! figure is the sum over processes of the time that takes them.
//!
//! All processes begin together and take turns on the CPUs, so the sum is their number times the
//! time of the test, and its ratio is that of throughputs, waiting for a CPU included.

use anyhow::Result;
use records::Placement;

use super::null_models::{closed, contention_of, serial_share, usl};
use super::{Drawn, Fitted, Incident, Input, Nulls, Predicted, Reported, Standing, Target, fitted};
use crate::simulations::mechanisms::Operated;

pub const INCIDENT: Incident = Incident {
    name: "I5",
    title: "file locks off the global lock: time to lock and unlock, after / before",
    sources: &[
        "J. Layton, Re: [PATCH v2 00/14] locks: scalability improvements for file locking, 2013-06-11",
        "J. Layton, locks: protect most of the file_lock handling with i_lock, Linux 3.11",
    ],
    hosts: &["uma-2", "opteron-32"],
    inputs,
    fitted: Some(Fitted {
        name: "work of a pair of flock calls outside of all locks, ns",
        to: "flock02 on 2 CPUs, 0.693",
    }),
    targets: &[
        target("posix01, one file,  2 CPUs", 420.179 / 780.505, Standing::Claimed),
        target("posix02, own files, 2 CPUs", 257.242 / 319.866, Standing::Claimed),
        target("flock01, one file,  2 CPUs", 729.303 / 704.610, Standing::Claimed),
        target("flock02, own files, 2 CPUs", FLOCK02_ON_2, Standing::Anchor),
        target("posix01, one file,  32 CPUs", 25504.77 / 30889.16, Standing::Claimed),
        target("posix02, own files, 32 CPUs", 541.355 / 1354.737, Standing::Claimed),
        target("flock01, one file,  32 CPUs", 24743.348 / 23617.876, Standing::Claimed),
        target("flock02, own files, 32 CPUs", 8.476 / 1348.646, Standing::Claimed),
    ],
    nulls,
    predict,
    figure: None,
    lacks: &[
        "with one file on 2 CPUs one task or two sleep at a time, in the model; so the walk over all who do, \
         which was made faster, is short, and posix01 is missed. The times of the report, 5 us a pair of \
         calls, leave none for long walks either: what made posix01 faster there is not known. If each \
         task that wakes took the CPU at once, it would be 0.6 to 1.05 times: tasks fall into step \
         differently",
        "CPUs that all have something to do do not balance",
        "the CPU of the 2-way host is not known; its transfers are those within a socket of Intel's",
    ],
};

const FLOCK02_ON_2: f64 = 167.231 / 241.263;

const fn target(what: &'static str, ratio: f64, standing: Standing) -> Target {
    Target { what, reported: Reported::Ratio(ratio), standing }
}

fn inputs() -> Vec<Input> {
    let report = "the report";
    vec![
        Input::found("processes", 128.0, report),
        Input::assumed(
            "work under the lock",
            50.0,
            200.0,
            "ns",
            "one to some hundred instructions beside the accesses to what is shared",
        ),
        Input::assumed(
            "work under the locks beside",
            5.0,
            20.0,
            "ns",
            "ten to forty instructions for each: of who waits, and of what this CPU's tasks hold",
        ),
        Input::assumed(
            "the lock of everything beside the list of all",
            0.0,
            1.0,
            "",
            "declared one after the other, they are in one cache line at 5 of 8 places; 0.5 and more: they are",
        ),
        Input::assumed(
            "more work of a pair of fcntl calls",
            50.0,
            350.0,
            "ns",
            "who locks takes two more records, clears and frees them; both copy a structure from the user",
        ),
    ]
}

/// What flock02 on 2 CPUs says about flock02 on 32, as the only anchor there is.
fn nulls() -> Vec<Nulls> {
    let serial = serial_share(FLOCK02_ON_2);
    let flock02 = Nulls {
        usl: Some(usl(32.0, contention_of(2.0, 2.0 * FLOCK02_ON_2), 0.0) / 32.0),
        queueing: Some(closed(32, 1.0 - serial, |_| serial) / 32.0),
    };
    let mut all = vec![Nulls::default(); 8];
    all[7] = flock02;
    all
}

/// Whose locks, and on which files.
#[derive(Clone, Copy)]
struct Test {
    kind: &'static str,
    files: u64,
}

const POSIX01: Test = Test { kind: "posix", files: 1 };
const POSIX02: Test = Test { kind: "posix", files: 128 };
const FLOCK01: Test = Test { kind: "flock", files: 1 };
const FLOCK02: Test = Test { kind: "flock", files: 128 };

fn predict(drawn: &Drawn) -> Result<Predicted> {
    let outside = fitted([50.0, 20_000.0], FLOCK02_ON_2, |outside| {
        ratio(drawn, outside, ("uma-2", 2), FLOCK02)
    })?;
    let mut values = Vec::new();
    for host in [("uma-2", 2), ("opteron-32", 32)] {
        for test in [POSIX01, POSIX02, FLOCK01, FLOCK02] {
            values.push(ratio(drawn, outside, host, test)?);
        }
    }
    Ok(Predicted { fitted: Some(outside), values })
}

/// Time after the change over that before: throughput before over that after.
fn ratio(drawn: &Drawn, outside: f64, (host, cpus): (&str, usize), test: Test) -> Result<f64> {
    let host = drawn.cpus(host, Placement::Cores, cpus);
    let more = drawn.get("more work of a pair of fcntl calls");
    // All before the lock is had.
    let more = if test.kind == "posix" { more } else { 0.0 };
    // Long enough for some hundred operations of the slowest.
    let length_us = match (test.files, cpus) {
        (1, 32) => 60_000,
        (1, _) => 30_000,
        (_, 32) => 8_000,
        _ => 2_000,
    };
    let rate = |design, length_us| {
        let operated = Operated::new("file_locks", design)?
            .with("kind", test.kind)
            .with("files", test.files)
            .with("in_lock_ns", drawn.whole("work under the lock"))
            .with("in_beside_ns", drawn.whole("work under the locks beside"))
            // Half of what a pair does beside is between the calls.
            .with("held_ns", (outside / 2.0).round());
        let operated = Operated { work_ns: (outside / 2.0 + more).round() as u64, ..operated };
        let tasks = drawn.whole("processes") as usize;
        anyhow::Ok(drawn.run(&operated, &host, tasks, length_us)?.outcome.rate())
    };
    // The patches as they were posted woke under the lock of the blocked; operations of the
    // last row are some hundred times as many.
    let after_us = if test.files > 1 && test.kind == "flock" { 1_000 } else { length_us };
    let together = drawn.get("the lock of everything beside the list of all") >= 0.5;
    let before = if together { "before+together" } else { "before" };
    Ok(rate(before, length_us)? / rate("after+wake-locked", after_us)?)
}
