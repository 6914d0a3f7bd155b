//! The output of a worker, read as it comes: lines of events.

use std::time::Duration;

use records::Event;

/// Removes the complete lines from `text` and returns their events. A line that is not an event is
/// somebody's debugging output.
pub fn whole_lines(text: &mut Vec<u8>) -> impl Iterator<Item = Event> {
    let whole = text.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
    let lines: Vec<u8> = text.drain(..whole).collect();
    let lines = String::from_utf8_lossy(&lines).into_owned();
    let events: Vec<Event> = lines.lines().filter_map(|line| Event::read(line).ok()).collect();
    events.into_iter()
}

/// Waits for something to read. Returns `false` after `time`, a second, or a signal.
pub fn readable(fd: i32, time: Duration) -> bool {
    let mut poll = libc::pollfd { fd, events: libc::POLLIN, revents: 0 };
    let ms = time.as_millis().min(1000) as i32;
    // SAFETY: one live pollfd.
    unsafe { libc::poll(&mut poll, 1, ms) > 0 }
}
