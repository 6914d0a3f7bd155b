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
    /// Up to when all time is in some row.
    booked: Time,
    /// Up to when a booking counts whole: the end of the window, once that has begun. Before, rows are filled up to its
    /// begin and then emptied. 0 after its end.
    whole_until: Time,
    /// The row of the last booking, and from when it is.
    last: (TimeRow, Time),
    rows: [Time; ROWS.len()],
    window: (Time, Time),
}

impl Account {
    /// An empty account for this window.
    pub fn new(window: (Time, Time)) -> Account {
        Account {
            booked: 0,
            whole_until: whole_until(window, 0),
            last: (TimeRow::Asleep, 0),
            rows: [0; ROWS.len()],
            window,
        }
    }

    /// Books all time up to `until` that is in no row yet.
    #[inline]
    pub fn book(&mut self, row: TimeRow, until: Time) {
        if until > self.booked {
            if until <= self.whole_until {
                self.rows[row as usize] += until - self.booked;
            } else {
                self.book_in_parts(row, until);
            }
            self.last = (row, self.booked);
            self.booked = until;
        }
    }

    /// Books up to `until` what lies in the window.
    #[cold]
    #[inline(never)]
    fn book_in_parts(&mut self, row: TimeRow, until: Time) {
        if self.booked <= self.window.0 {
            self.rows = [0; ROWS.len()];
        }
        self.rows[row as usize] += self.counts(self.booked, until);
        self.whole_until = whole_until(self.window, until);
    }

    /// Takes back the part of the last booking that is after `now`, when it is interrupted.
    /// Returns when that is, not before the booking's start, and how much is left of which row.
    pub fn take_back(&mut self, now: Time) -> (Time, Time, TimeRow) {
        let (row, from) = self.last;
        let (now, end) = (now.clamp(from, self.booked), self.booked);
        self.rows[row as usize] -= self.counts(now, end);
        self.booked = now;
        self.whole_until = whole_until(self.window, now);
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

    /// The time of each row, once everything is booked up to the window's end.
    pub fn rows(&self) -> [Time; ROWS.len()] {
        self.rows
    }
}

/// [`Account::whole_until`] of an account that is booked up to this time.
fn whole_until(window: (Time, Time), booked: Time) -> Time {
    match booked {
        // Also at its very begin, where rows may still hold what was before.
        _ if booked <= window.0 => window.0,
        _ if booked < window.1 => window.1,
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Bookings and what is taken back of them, at random, against the sum of what lies in the window.
    #[test]
    fn rows_hold_what_lies_in_the_window() {
        let mut random = 1_u64;
        let mut below = |bound: u64| {
            random = random.wrapping_mul(0x5851_F42D_4C95_7F2D).wrapping_add(1);
            (random >> 33) % bound
        };
        for _ in 0..2000 {
            let window = (below(3) * 50, 150 + below(2) * 50);
            let mut account = Account::new(window);
            let mut intervals: Vec<(TimeRow, Time, Time)> = Vec::new();
            let mut now = 0;
            while now < window.1 {
                let row = ROWS[below(3) as usize];
                let until = now + below(60);
                account.book(row, until);
                if until > now {
                    intervals.push((row, now, until));
                    now = until;
                }
                if below(4) == 0 && now > 0 {
                    let (stop, ..) = account.take_back(now - below(30).min(now));
                    let (_, from, to) = intervals.last_mut().expect("something is booked");
                    *to = stop;
                    assert!(from <= to);
                    now = stop;
                }
            }
            let inside = |from: Time, to: Time| to.min(window.1).saturating_sub(from.max(window.0));
            for (row, time) in ROWS.into_iter().zip(account.rows()) {
                let own = intervals.iter().filter(|interval| interval.0 == row);
                let expected: Time = own.map(|&(_, from, to)| inside(from, to)).sum();
                assert_eq!(time, expected, "{row:?} of {window:?}: {intervals:?}");
            }
        }
    }
}
