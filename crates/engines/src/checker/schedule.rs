//! A schedule: which task takes each step, and which alternative where a step has several.
//!
//! As text: steps with dots between them. `2` is a step of task 2, `2f` the oldest store in
//! its buffer becoming visible, `2a1` its step with alternative 1, `2s` a spurious wakeup,
//! `2i` an interrupt, `2t` a time-out, `2e` a signal that ends a sleep; `x3` after a step: three times.

use std::fmt;
use std::str::FromStr;

/// The alternative in which the task itself takes no step: its oldest store becomes visible.
pub const FLUSH: u8 = u8::MAX;
/// The alternative in which a sleeping task wakes without having been woken.
pub const SPURIOUS: u8 = u8::MAX - 1;
/// The alternative in which the task is interrupted before its step, which it takes afterwards.
pub const INTERRUPT: u8 = u8::MAX - 2;
/// The alternative in which the time-out of a sleep ends it.
pub const TIME_OUT: u8 = u8::MAX - 3;
/// The alternative in which a signal ends a sleep, and the task is told (EINTR). All below this are the task's own.
pub const SIGNAL: u8 = u8::MAX - 4;

/// One step: a task and its alternative.
pub type Turn = (u8, u8);

/// Whether it ends a sleep without a wake-up and without a time-out.
pub fn is_by_itself(alternative: u8) -> bool {
    [SPURIOUS, SIGNAL].contains(&alternative)
}

/// Whether nothing but time-outs goes on where these are all turns.
pub fn only_time_outs(turns: &[Turn]) -> bool {
    let is = |which: u8| turns.iter().any(|&(_, alternative)| alternative == which);
    let others = |&(_, alternative): &Turn| !is_by_itself(alternative) && alternative != TIME_OUT;
    is(TIME_OUT) && !turns.iter().any(others)
}

/// Which task takes each step.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Schedule(pub(super) Vec<Turn>);

impl Schedule {
    /// The number of steps.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether no task takes a step.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl fmt::Display for Schedule {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let runs = self.0.chunk_by(|a, b| a == b);
        for (i, run) in runs.enumerate() {
            let (task, alternative) = run[0];
            write!(f, "{}{task}", if i > 0 { "." } else { "" })?;
            match alternative {
                0 => {}
                FLUSH => write!(f, "f")?,
                SPURIOUS => write!(f, "s")?,
                INTERRUPT => write!(f, "i")?,
                TIME_OUT => write!(f, "t")?,
                SIGNAL => write!(f, "e")?,
                other => write!(f, "a{other}")?,
            }
            if run.len() > 1 {
                write!(f, "x{}", run.len())?;
            }
        }
        Ok(())
    }
}

impl FromStr for Schedule {
    type Err = String;

    fn from_str(text: &str) -> Result<Schedule, String> {
        let mut turns = Vec::new();
        for token in text.split('.').filter(|token| !token.is_empty()) {
            let (turn, times) =
                parse_step(token).ok_or(format!("'{token}' is not a step of a schedule"))?;
            turns.extend(std::iter::repeat_n(turn, times));
        }
        Ok(Schedule(turns))
    }
}

fn parse_step(token: &str) -> Option<(Turn, usize)> {
    let (step, times) = token.split_once('x').unwrap_or((token, "1"));
    let digits = step.len() - step.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    let (task, suffix) = step.split_at(digits);
    let alternative = match suffix {
        "" => 0,
        "f" => FLUSH,
        "s" => SPURIOUS,
        "i" => INTERRUPT,
        "t" => TIME_OUT,
        "e" => SIGNAL,
        _ => suffix.strip_prefix('a')?.parse().ok()?,
    };
    let times = times.parse().ok().filter(|times| *times <= 1_000_000)?;
    Some(((task.parse().ok()?, alternative), times))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_schedule_is_read_as_it_was_written() {
        for text in ["", "0", "0x3.1f.1.2a1x2.12s.1i.1t.1e"] {
            assert_eq!(text.parse::<Schedule>().unwrap().to_string(), text);
        }
        assert_eq!("0.0..0".parse::<Schedule>().unwrap().to_string(), "0x3");
        for text in ["x", "1y", "0x", "0xx2", "a1", "300"] {
            assert!(text.parse::<Schedule>().is_err(), "{text}");
        }
    }
}
