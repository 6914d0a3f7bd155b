//! Where the simulated time of tasks and CPUs goes, by row, as in a measured ledger.

use super::Time;

/// What a task spends its time on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimeRow {
    /// Works outside of critical sections.
    Work,
    /// Works inside a critical section.
    Inside,
    /// Executes instructions, and uses lines that its CPU has.
    Local,
    /// Waits for lines that it requested.
    Transfer,
    /// Waits for a word to change, and rereads it.
    Spinning,
    /// Goes to sleep, wakes others, is switched to, exits to the host.
    System,
    /// Sends interrupts.
    Sending,
    /// Is interrupted, and handles the interrupt.
    Interrupted,
    /// Could run, but other tasks have its CPU.
    Ready,
    /// Sleeps, or is being woken.
    Asleep,
}

/// All rows, in the order in which they are shown.
pub const ROWS: [TimeRow; 10] = [
    TimeRow::Work,
    TimeRow::Inside,
    TimeRow::Local,
    TimeRow::Transfer,
    TimeRow::Spinning,
    TimeRow::System,
    TimeRow::Sending,
    TimeRow::Interrupted,
    TimeRow::Ready,
    TimeRow::Asleep,
];

impl TimeRow {
    /// Its name in reports.
    pub fn name(self) -> &'static str {
        match self {
            TimeRow::Work => "work outside",
            TimeRow::Inside => "work inside",
            TimeRow::Local => "own lines",
            TimeRow::Transfer => "waiting for lines",
            TimeRow::Spinning => "spinning",
            TimeRow::System => "sleeping and waking",
            TimeRow::Sending => "sending interrupts",
            TimeRow::Interrupted => "interrupts",
            TimeRow::Ready => "waiting for a CPU",
            TimeRow::Asleep => "asleep",
        }
    }

    /// Whether the task has a CPU during that time.
    pub fn runs(self) -> bool {
        !matches!(self, TimeRow::Ready | TimeRow::Asleep)
    }
}

/// The time of one task within a window, by row.
#[derive(Clone, Debug)]
pub struct Account {
    window: (Time, Time),
    /// Up to when all time is in some row.
    booked: Time,
    /// The row of the last booking, and from when it is.
    last: (TimeRow, Time),
    rows: [Time; ROWS.len()],
}

impl Account {
    /// An empty account for this window.
    pub fn new(window: (Time, Time)) -> Account {
        Account { window, booked: 0, last: (TimeRow::Asleep, 0), rows: [0; ROWS.len()] }
    }

    /// Books all time up to `until` that is in no row yet.
    #[inline]
    pub fn book(&mut self, row: TimeRow, until: Time) {
        if until > self.booked {
            self.rows[row as usize] += self.counts(self.booked, until);
            self.last = (row, self.booked);
            self.booked = until;
        }
    }

    /// Takes back the part of the last booking that is after `now`, when it is interrupted.
    /// Returns when that is, not before the booking's start, and how much is left of which row.
    pub fn take_back(&mut self, now: Time) -> (Time, Time, TimeRow) {
        let (row, from) = self.last;
        let (now, end) = (now.clamp(from, self.booked), self.booked);
        self.rows[row as usize] -= self.counts(now, end);
        self.booked = now;
        (now, end - now, row)
    }

    /// The row of the last booking.
    pub fn last(&self) -> TimeRow {
        self.last.0
    }

    /// How much of an interval lies in the window.
    #[inline(always)]
    fn counts(&self, from: Time, to: Time) -> Time {
        to.min(self.window.1).saturating_sub(from.max(self.window.0))
    }

    /// The time of each row.
    pub fn rows(&self) -> [Time; ROWS.len()] {
        self.rows
    }
}
