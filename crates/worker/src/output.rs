//! What a command writes: read while it runs, so that it never blocks on a full pipe. Only both ends
//! are kept, so that endless output takes bounded memory.

use std::collections::VecDeque;
use std::io::{self, Read};
use std::os::fd::AsRawFd;

/// Bytes kept of the beginning, and as many of the end.
const KEPT_BYTES: usize = 8 << 20;

/// Last words: how many bytes of the output are searched, how many lines and letters are quoted.
const LAST_BYTES: usize = 4096;
const LAST_LINES: usize = 3;
const LAST_LETTERS: usize = 400;

/// One stream of a command, and what has been read of it.
pub struct Output<S> {
    stream: Option<S>,
    kept: KeptOutput,
}

/// Both ends of an output.
#[derive(Default)]
pub struct KeptOutput {
    start: Vec<u8>,
    end: VecDeque<u8>,
    lost: u64,
}

impl<S: Read + AsRawFd> Output<S> {
    /// Reads from a pipe, which becomes non-blocking; from none, nothing.
    pub fn new(stream: Option<S>) -> Output<S> {
        stream.iter().for_each(set_nonblocking);
        Output { stream, kept: KeptOutput::default() }
    }

    /// The descriptor to wait for; -1, which poll(2) passes over, once it has ended.
    pub fn descriptor(&self) -> i32 {
        self.stream.as_ref().map_or(-1, AsRawFd::as_raw_fd)
    }

    /// Reads what is there, at most `times` times a pipe's content.
    pub fn read(&mut self, times: usize) {
        let mut chunk = [0; 1 << 16];
        for _ in 0..times {
            let Some(stream) = &mut self.stream else { return };
            match stream.read(&mut chunk) {
                Ok(0) => self.stream = None,
                Ok(n) => self.kept.push(&chunk[..n]),
                Err(e) if e.kind() == io::ErrorKind::Interrupted => (),
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => return,
                Err(_) => self.stream = None,
            }
        }
    }

    pub fn into_kept(self) -> KeptOutput {
        self.kept
    }
}

/// Makes reads of a stream return at once.
pub fn set_nonblocking(stream: &impl AsRawFd) {
    // SAFETY: plain calls on an open descriptor.
    unsafe {
        let flags = libc::fcntl(stream.as_raw_fd(), libc::F_GETFL);
        libc::fcntl(stream.as_raw_fd(), libc::F_SETFL, flags | libc::O_NONBLOCK);
    }
}

impl KeptOutput {
    /// An output that is known as a whole.
    pub fn from_bytes(bytes: &[u8]) -> KeptOutput {
        let mut kept = KeptOutput::default();
        kept.push(bytes);
        kept
    }

    /// Appends bytes; those in the middle of a long output are lost.
    pub fn push(&mut self, bytes: &[u8]) {
        let room = (KEPT_BYTES - self.start.len()).min(bytes.len());
        let (first, rest) = bytes.split_at(room);
        self.start.extend(first);
        self.end.extend(rest);
        let over = self.end.len().saturating_sub(KEPT_BYTES);
        self.end.drain(..over);
        self.lost += over as u64;
    }

    /// Bytes that were not kept.
    pub fn lost(&self) -> u64 {
        self.lost
    }

    /// The output; its middle is missing if it was too long.
    pub fn text(&self) -> String {
        let (first, second) = self.end.as_slices();
        let bytes = match self.lost {
            0 => [&self.start[..], first, second].concat(),
            _ => [&self.start[..], b"\n", first, second].concat(),
        };
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// The last lines on one line, without control characters; empty if there are none.
    pub fn last_words(&self) -> String {
        let text = self.start.iter().chain(&self.end).rev().take(LAST_BYTES).copied();
        let mut bytes: Vec<u8> = text.collect();
        bytes.reverse();
        last_words(&bytes)
    }
}

/// The last lines of a text on one line, without control characters. Of a panic of Rust, its message: the backtrace and
/// more come after it.
pub fn last_words(bytes: &[u8]) -> String {
    let bytes = &bytes[bytes.len().saturating_sub(LAST_BYTES)..];
    let text = String::from_utf8_lossy(bytes);
    let clean = |line: &str| line.trim().chars().filter(|c| !c.is_control()).collect::<String>();
    let lines = text.lines().map(clean).filter(|line| !line.is_empty());
    let lines: Vec<String> = lines.collect();
    let last = match lines.iter().position(|line| line.contains("panicked at ")) {
        Some(panic) => &lines[panic..lines.len().min(panic + 2)],
        None => &lines[lines.len().saturating_sub(LAST_LINES)..],
    };
    let last = last.join(" / ");
    let letters = last.chars().count();
    if letters > LAST_LETTERS {
        format!("…{}", last.chars().skip(letters - LAST_LETTERS).collect::<String>())
    } else {
        last
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_ends_of_a_long_text_are_kept() {
        let mut kept = KeptOutput::default();
        for line in 0..3_000_000 {
            kept.push(format!("line {line}\n").as_bytes());
        }
        let text = kept.text();
        assert!(text.starts_with("line 0\nline 1\n") && text.ends_with("line 2999999\n"));
        assert_eq!(text.len(), 2 * KEPT_BYTES + 1);
        assert!(kept.lost() > 10 << 20);
        assert_eq!(kept.last_words(), "line 2999997 / line 2999998 / line 2999999");
    }

    #[test]
    fn last_words_are_short_and_harmless() {
        let check = |text: &[u8], expected: &str| assert_eq!(last_words(text), expected);
        check(b"", "");
        check(b"\n\n", "");
        check(b"one\n\x1b[2Jtwo\r\n", "one / [2Jtwo");
        check(b"\xff\xfe", "\u{fffd}\u{fffd}");
        let panic = "begin\nthread 'main' (7) panicked at a.rs:3:5:\nindex out of bounds\nstack backtrace:\n  0: f\n  1: g\nabort\n";
        check(panic.as_bytes(), "thread 'main' (7) panicked at a.rs:3:5: / index out of bounds");
        assert_eq!(last_words(&[b'a'; 9000]).chars().count(), LAST_LETTERS + 1);
    }
}
