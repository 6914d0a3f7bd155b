//! A stream that several programs write to, one after the other, and between them lines of the shell that starts them.
//! These begin with a mark, a number that no program can guess, so that no output is taken for one.

use std::collections::VecDeque;
use std::io::{self, Read};
use std::os::fd::AsRawFd;

use crate::output::{KeptOutput, set_nonblocking};

/// A line of the shell is shorter.
const LINE_BYTES_MAX: usize = 4096;

/// The stream, what was read of it, and the lines of the shell that were not taken yet.
pub struct MarkedOutput<S> {
    stream: Option<S>,
    mark: Vec<u8>,
    /// What may be the begin of a mark or of its line.
    pending: Vec<u8>,
    kept: KeptOutput,
    lines: VecDeque<String>,
}

impl<S: Read + AsRawFd> MarkedOutput<S> {
    /// Reads from a pipe, which becomes non-blocking.
    pub fn new(stream: Option<S>, mark: &str) -> MarkedOutput<S> {
        stream.iter().for_each(set_nonblocking);
        MarkedOutput {
            stream,
            mark: mark.as_bytes().to_vec(),
            pending: Vec::new(),
            kept: KeptOutput::default(),
            lines: VecDeque::new(),
        }
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
                Ok(n) => self.sort(&chunk[..n]),
                Err(e) if e.kind() == io::ErrorKind::Interrupted => (),
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => return,
                Err(_) => self.stream = None,
            }
        }
    }

    /// The next line of the shell, without its mark.
    pub fn take_line(&mut self) -> Option<String> {
        self.lines.pop_front()
    }

    /// What programs wrote since the last time.
    pub fn take_output(&mut self) -> KeptOutput {
        if self.stream.is_none() {
            self.kept.push(&std::mem::take(&mut self.pending));
        }
        std::mem::take(&mut self.kept)
    }

    /// Tells lines of the shell from what programs write.
    fn sort(&mut self, bytes: &[u8]) {
        self.pending.extend_from_slice(bytes);
        while let Some(start) = find(&self.pending, &self.mark) {
            self.kept.push(&self.pending[..start]);
            self.pending.drain(..start);
            let end = self.pending.iter().take(LINE_BYTES_MAX).position(|byte| *byte == b'\n');
            let Some(end) =
                end.or((self.pending.len() >= LINE_BYTES_MAX).then_some(self.mark.len()))
            else {
                return;
            };
            let line = &self.pending[self.mark.len()..end];
            self.lines.push_back(String::from_utf8_lossy(line).trim().to_string());
            self.pending.drain(..=end);
        }
        let certain = self.pending.len().saturating_sub(self.mark.len() - 1);
        self.kept.push(&self.pending[..certain]);
        self.pending.drain(..certain);
    }
}

fn find(text: &[u8], word: &[u8]) -> Option<usize> {
    text.windows(word.len()).position(|window| window == word)
}

#[cfg(test)]
mod tests {
    use std::process::ChildStdout;

    use super::*;

    #[test]
    fn lines_of_the_shell_are_told_from_output_however_it_is_cut() {
        let text =
            b"one\ntwo 0123 no mark01\n0123456789abcdef end 0 1\nthree0123456789abcdef stopped\n";
        for size in 1..text.len() {
            let mut output = MarkedOutput::<ChildStdout>::new(None, "0123456789abcdef");
            text.chunks(size).for_each(|chunk| output.sort(chunk));
            assert_eq!(output.take_output().text(), "one\ntwo 0123 no mark01\nthree", "{size}");
            assert_eq!(output.take_line().as_deref(), Some("end 0 1"));
            assert_eq!(output.take_line().as_deref(), Some("stopped"));
            assert_eq!(output.take_line(), None);
        }
    }
}
