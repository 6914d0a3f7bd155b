//! A look at running programs as a file: what was observed, from which the answer can be found again, also by a knee that
//! finds more in it.

use anyhow::{Context, Result, bail, ensure};
use serde::{Deserialize, Serialize};

use crate::live::{Observation, ThreadState};

/// Version of the format. It is raised when a reader of the old version would misread the new one.
const FORMAT: u32 = 1;

/// A look in a file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SavedLook {
    /// The version of the format. It is the first field: the file begins with it.
    knee_look: u32,
    pub observation: Observation,
}

/// The one field that every version has.
#[derive(Deserialize)]
struct Versioned {
    knee_look: u32,
}

impl SavedLook {
    /// How a file of a look begins.
    pub const START: &str = "{\"knee_look\":";

    pub fn new(observation: Observation) -> SavedLook {
        SavedLook { knee_look: FORMAT, observation }
    }

    /// The text of the file.
    ///
    /// # Errors
    /// A number has no form in JSON.
    pub fn text(&self) -> Result<String> {
        Ok(serde_json::to_string(self)? + "\n")
    }

    /// Parses the text of a file. Unknown fields are ignored; an unknown version is refused.
    ///
    /// # Errors
    /// It is no look, of a newer knee, cut short, or not as knee writes it.
    pub fn read(text: &str) -> Result<SavedLook> {
        ensure!(
            text.starts_with(SavedLook::START),
            "this is not a look at running programs: knee explain --pid PID --save FILE writes one"
        );
        match serde_json::from_str::<Versioned>(text) {
            Err(why) if why.is_eof() => {
                bail!("the look is cut short after {} bytes: copy it again", text.len())
            }
            Err(why) => bail!("the look is damaged: {why}"),
            Ok(versioned) => ensure!(
                (1..=FORMAT).contains(&versioned.knee_look),
                "the look has format {}, but this knee reads formats up to {FORMAT}: use a newer knee",
                versioned.knee_look
            ),
        }
        let look: SavedLook = serde_json::from_str(text).context("the look is damaged")?;
        check(&look.observation).context("the look is damaged")?;
        Ok(look)
    }
}

/// Refuses what knee never writes, and would stumble over.
fn check(observation: &Observation) -> Result<()> {
    // Sums of all times must fit in 64 bits.
    const SUM_MAX: u128 = 1 << 62;
    let windows = observation.windows.len();
    let states = || observation.threads.iter().flat_map(|thread| &thread.states);
    let holders = observation.locks.iter().flat_map(|lock| &lock.holder);
    let of_locks = observation.locks.iter().flat_map(|lock| [&lock.wait_ns, &lock.contended_ns]);
    let series = states().map(|time| &time.ns).chain(of_locks).chain(holders.map(|time| &time.ns));
    let mut sum: u128 = 0;
    for values in series {
        ensure!(values.len() == windows, "a row has {} values for {windows} windows", values.len());
        sum += values.iter().map(|ns| u128::from(*ns)).sum::<u128>();
    }
    for window in &observation.windows {
        let cpus = &window.cpus;
        let named = cpus.others.iter().map(|other| u128::from(other.ns)).sum::<u128>();
        let parts = [window.ns, cpus.subject_ns, cpus.idle_ns, cpus.others_ns, cpus.stolen_ns];
        sum += named + parts.map(u128::from).iter().sum::<u128>();
        ensure!(window.ns > 0, "a window has no length");
        let is_counted = window.operations.is_none_or(|n| n.is_finite() && n >= 0.0);
        ensure!(is_counted, "a window has {:?} operations", window.operations);
    }
    let samples = observation.threads.iter().flat_map(|thread| &thread.samples);
    sum += samples.map(|sample| u128::from(sample.times)).sum::<u128>();
    let places =
        observation.locks.iter().flat_map(|lock| lock.waited_in.iter().chain(&lock.held_in));
    sum += places.map(|place| u128::from(place.ns) + u128::from(place.times)).sum::<u128>();
    sum += observation
        .locks
        .iter()
        .flat_map(|lock| &lock.waits_begun)
        .map(|n| u128::from(*n))
        .sum::<u128>();
    sum += observation.own_ns.iter().map(|ns| u128::from(*ns)).sum::<u128>();
    sum += u128::from(observation.gaps_ns);
    ensure!(sum < SUM_MAX, "its times are longer than any look");
    let is_known = |state: &ThreadState| match state {
        ThreadState::Lock(lock) => *lock < observation.locks.len(),
        _ => true,
    };
    ensure!(
        states().all(|time| is_known(&time.state)),
        "a thread waits for a lock that is not there"
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::live::{ObservedThread, ObservedWindow, StateTime};

    fn look() -> Observation {
        let state = StateTime { state: ThreadState::Running, ns: vec![7], times: 1 };
        let thread = ObservedThread { states: vec![state], ..ObservedThread::default() };
        Observation {
            windows: vec![ObservedWindow { ns: 9, ..ObservedWindow::default() }],
            threads: vec![thread],
            ..Observation::default()
        }
    }

    #[test]
    fn a_look_comes_back_as_it_was() {
        let text = SavedLook::new(look()).text().unwrap();
        assert_eq!(SavedLook::read(&text).unwrap().observation, look());
        let newer_field = text.replacen("\"subject\"", "\"later\":1,\"subject\"", 1);
        assert_eq!(SavedLook::read(&newer_field).unwrap().observation, look());
    }

    #[test]
    fn what_is_no_whole_look_is_refused_in_one_sentence() {
        let text = SavedLook::new(look()).text().unwrap();
        let check = |text: &str, expected: &str| {
            let why = format!("{:#}", SavedLook::read(text).unwrap_err());
            assert!(why.contains(expected), "{why}");
            assert!(!why.contains('\n'), "{why}");
        };
        check("", "is not a look");
        check("{\"causes\":[]}", "is not a look");
        for length in SavedLook::START.len()..text.len() - 2 {
            // Within the digits of the version, nothing is missing that one could know of.
            let cut = &text[..length];
            assert!(SavedLook::read(cut).is_err(), "{cut}");
        }
        check(&text[..text.len() / 2], "the look is cut short after");
        check(&text.replacen("\"knee_look\":1", "\"knee_look\":2", 1), "use a newer knee");
        check(&text.replacen("\"ns\":[7]", "\"ns\":[7,8]", 1), "a row has 2 values for 1 windows");
        check(
            &text.replacen("\"ns\":[7]", "\"ns\":[9223372036854775807]", 1),
            "longer than any look",
        );
        check(&text.replacen("\"ns\":9", "\"ns\":0", 1), "a window has no length");
        let lock = "{\"is\":\"lock\",\"of\":3}";
        check(&text.replacen("{\"is\":\"running\"}", lock, 1), "a lock that is not there");
    }
}
