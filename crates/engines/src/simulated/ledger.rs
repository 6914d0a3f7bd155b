//! Where the simulated time of tasks and CPUs goes, in the rows that a measured ledger has too.

use super::Time;

/// What a task or a CPU does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Row {
    /// Works outside.
    Work,
    /// Works inside, between entering and leaving.
    Inside,
    /// Uses lines that it has, and goes through its instructions.
    Local,
    /// Waits for lines that it asked for.
    Transfer,
    /// Waits for a word to change, and looks at it.
    Spinning,
    /// Goes to sleep, wakes others, changes places with other tasks, leaves its guest.
    System,
    /// Sends interrupts.
    Sending,
    /// Is interrupted, and does what it then has to.
    Interrupted,
    /// Could run, but other tasks have its CPU.
    Ready,
    /// Sleeps, or is being woken.
    Asleep,
}

/// All rows, in the order in which they are shown.
pub const ROWS: [Row; 10] = [
    Row::Work,
    Row::Inside,
    Row::Local,
    Row::Transfer,
    Row::Spinning,
    Row::System,
    Row::Sending,
    Row::Interrupted,
    Row::Ready,
    Row::Asleep,
];

impl Row {
    /// What it is called.
    pub fn name(self) -> &'static str {
        match self {
            Row::Work => "work outside",
            Row::Inside => "work inside",
            Row::Local => "own lines",
            Row::Transfer => "waiting for lines",
            Row::Spinning => "spinning",
            Row::System => "sleeping and waking",
            Row::Sending => "sending interrupts",
            Row::Interrupted => "interrupts",
            Row::Ready => "waiting for a CPU",
            Row::Asleep => "asleep",
        }
    }

    /// Whether the task has a CPU meanwhile.
    pub fn runs(self) -> bool {
        !matches!(self, Row::Ready | Row::Asleep)
    }
}

/// Time by row, of one task, within a window.
#[derive(Clone, Debug)]
pub struct Account {
    window: (Time, Time),
    /// Up to when all time is in some row.
    booked: Time,
    /// What was booked last: its row, and from when.
    last: (Row, Time),
    rows: [Time; ROWS.len()],
}

impl Account {
    /// An account of what happens within the window.
    pub fn new(window: (Time, Time)) -> Account {
        Account { window, booked: 0, last: (Row::Asleep, 0), rows: [0; ROWS.len()] }
    }

    /// Books all time up to `until` that is in no row yet.
    #[inline]
    pub fn book(&mut self, row: Row, until: Time) {
        if until > self.booked {
            self.rows[row as usize] += self.counts(self.booked, until);
            self.last = (row, self.booked);
            self.booked = until;
        }
    }

    /// Takes back what was booked last, from `now` on: it is interrupted. Returns when that is,
    /// which is not before it began, and what has to be done later: how long, and in which row.
    pub fn take_back(&mut self, now: Time) -> (Time, Time, Row) {
        let (row, from) = self.last;
        let (now, end) = (now.clamp(from, self.booked), self.booked);
        self.rows[row as usize] -= self.counts(now, end);
        self.booked = now;
        (now, end - now, row)
    }

    /// What was booked last.
    pub fn last(&self) -> Row {
        self.last.0
    }

    /// How much of an interval lies in the window.
    fn counts(&self, from: Time, to: Time) -> Time {
        to.min(self.window.1).saturating_sub(from.max(self.window.0))
    }

    /// The time of each row.
    pub fn rows(&self) -> [Time; ROWS.len()] {
        self.rows
    }
}
