//! The daemon of a variant, held by a worker of its own: started, watched, and ended with the worker, however that ends.
//! The worker that is measured only reads its CPU time.

use host::clock::now_ns;
use host::descendants::{self, TreeUsage};
use records::{Event, Job, StartedServer};

use crate::program::TerminationSignals;
use crate::say;
use crate::scratch::Scratch;
use crate::server::RunningServer;

/// Starts the daemon, says that it is ready, and stops it once the worker is asked to end. A daemon that ends first is an
/// error.
pub fn hold(job: &Job, daemon: &StartedServer, started_ns: u64) -> Result<(), String> {
    let signals = TerminationSignals::block()?;
    descendants::adopt();
    let scratch = Scratch::create(&job.scratch)?;
    let result = RunningServer::start("daemon", daemon, &job.cpus, None, &signals).and_then(
        |mut running| {
            say(&Event::Ready { tasks: 1, startup_s: (now_ns() - started_ns) as f64 / 1e9 });
            running.stay(&signals)?;
            running
                .stop(false, &signals)
                .into_iter()
                .for_each(|warning| say(&Event::Warning(warning)));
            Ok(())
        },
    );
    let killed = descendants::kill(&Default::default());
    scratch.try_remove();
    result?;
    killed.map_err(|why| format!("after the daemon, {why}"))
}

/// The CPU time of the run's daemon so far, if it has one.
pub fn usage(job: &Job) -> Option<TreeUsage> {
    descendants::usage_from(job.daemon? as i32)
}

/// What the daemon used between two readings, as metrics.
pub fn gauges(before: Option<TreeUsage>, after: Option<TreeUsage>) -> Vec<(String, f64)> {
    let used = before.zip(after).map(|(before, after)| after.since(before));
    let times = used.map(|used| {
        let times = [
            ("daemon.cpu_s", used.user_us + used.system_us),
            ("daemon.user_s", used.user_us),
            ("daemon.system_s", used.system_us),
        ];
        times.map(|(name, us)| (name.to_string(), us as f64 / 1e6))
    });
    times.into_iter().flatten().collect()
}
