//! A host reached by ssh, as one that measures chunks.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use host::signals;
use host::terminal::talk;

use super::connection::{Connection, Heard, TICK};
use super::facts::Facts;
use crate::claims::Folder;
use crate::member::{Measurer, Outcome, Share};
use crate::plan_file::Plan;
use crate::remote::{Answer, Copy, Request};

/// How long a host that is asked to stop may take to end its run and to put back what it changed.
const STOP: Duration = Duration::from_secs(60);

/// Difference of clocks that is said: sending and reading take less.
const CLOCK_S: i64 = 60;

/// A host with a knee that can measure the plan.
pub struct RemoteHost {
    connection: Connection,
    pub name: String,
    pub facts: Facts,
}

impl RemoteHost {
    /// Logs in, refuses a host that the plan is not for, and starts this binary there.
    pub fn prepare(
        ssh: &[String],
        name: &str,
        plan: &Plan,
        binary: &Arc<Vec<u8>>,
    ) -> Result<RemoteHost> {
        let (mut connection, facts) = Connection::open(ssh, name)?;
        let now_s = jiff::Timestamp::now().as_second();
        if (facts.clock_s - now_s).abs() > CLOCK_S {
            talk(format_args!(
                "{name}: its clock is {} s {} of this host's: the times in its records are wrong, rates are not",
                (facts.clock_s - now_s).abs(),
                if facts.clock_s > now_s { "ahead" } else { "behind" }
            ));
        }
        // Before the binary is sent, which may take long.
        if let Some(why) = plan.refusal_of_host(&facts.architecture, &facts.kernel) {
            bail!(why);
        }
        ensure!(
            facts.directory.is_some(),
            "files can be written and executed neither in /dev/shm nor in /tmp or /var/tmp there: mount one \
             of them without noexec"
        );
        connection.send_binary(binary)?;
        connection.ask(&Request::Check { plan: Box::new(plan.clone()) })?;
        match connection.hear(Connection::limit_for(binary))? {
            Some(Heard::Answer(Answer::Fit)) => {
                connection.show_messages();
                Ok(RemoteHost { connection, name: name.to_string(), facts })
            }
            Some(Heard::Answer(Answer::Unfit { why })) => bail!(why),
            Some(other) => bail!("it answers {other:?}, which is no answer to a plan"),
            None => bail!("it does not start the binary that was sent, or never received it"),
        }
    }

    /// Passes on what the host sends until these blocks are measured.
    fn follow(&self, plan: &Plan, folder: &Folder, share: &Share) -> Result<Outcome> {
        let copy = Copy::new(&folder.records_of(share.chunk, share.claim));
        let lease = Duration::from_secs_f64(plan.lease_s);
        let (mut any_failed, mut heard, mut stopping) = (false, Instant::now(), None::<Instant>);
        loop {
            if stopping.is_none() && signals::received().is_some() {
                self.connection.ask(&Request::Stop)?;
                stopping = Some(Instant::now());
            }
            let waits = stopping.is_some_and(|since| since.elapsed() > STOP);
            ensure!(!waits, "it was asked to stop, and did not in {:.0} s", STOP.as_secs_f64());
            let Some(next) = self.connection.next(TICK)? else {
                ensure!(
                    heard.elapsed() < lease,
                    "no sign of life in {:.0} s, the lease of a chunk",
                    lease.as_secs_f64()
                );
                continue;
            };
            heard = Instant::now();
            match next {
                Heard::File { path, offset, text } => copy.write(&path, offset, &text)?,
                Heard::Answer(Answer::Removed { path }) => copy.remove(&path)?,
                Heard::Answer(Answer::Renamed { from, to }) => copy.rename(&from, &to)?,
                Heard::Answer(Answer::Run { runs, failed }) => {
                    any_failed |= failed;
                    folder.beat(share.chunk, share.claim, runs)?;
                }
                Heard::Answer(Answer::Ended { interrupted }) => {
                    return Ok(Outcome {
                        is_interrupted: interrupted,
                        any_failed,
                        passed_on: false,
                    });
                }
                Heard::Answer(Answer::Broke { why }) => bail!(why),
                other => bail!("it says {other:?} while it measures"),
            }
        }
    }
}

impl Measurer for RemoteHost {
    /// Was asked when the host was prepared, before any host began.
    fn check_fit(&mut self, _: &Plan) -> Result<()> {
        Ok(())
    }

    fn measure(&mut self, plan: &Plan, folder: &Folder, share: &Share) -> Result<Outcome> {
        self.connection.ask(&Request::Measure { blocks: share.blocks.clone() })?;
        self.follow(plan, folder, share)
            .with_context(|| format!("measuring chunk {} on {}", share.chunk, self.name))
    }
}
