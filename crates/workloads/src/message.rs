//! What the pipe and socket workloads pass: a message of some bytes that carries its
//! number, so that what arrived can be told from what was sent before.

use crate::{Failure, Kind, Parameter, sys};

/// The length of a message: one byte as in will-it-scale, at most what an unprivileged
/// pipe or socket takes in at once.
pub(crate) const SIZE: Parameter = Parameter {
    name: "size_bytes",
    about: "length of one message",
    default: "1",
    kind: Kind::Number { min: 1, max: 65536 },
};

/// A message of a fixed length, and where it is received.
pub(crate) struct Message {
    sent: Vec<u8>,
    received: Vec<u8>,
    /// Messages that passed. The low byte of the next number is its first byte.
    passed: u64,
}

impl Message {
    /// A message of `size` bytes, at least 1.
    pub(crate) fn new(size: usize) -> Message {
        assert!(size > 0, "a message has room for its number");
        Message { sent: vec![0x6b; size], received: vec![0; size], passed: 0 }
    }

    /// Passes the next message by one call of each kind, both of which return a number
    /// of bytes, or -1 as libc does.
    #[inline(always)]
    pub(crate) fn pass(
        &mut self,
        send: impl FnOnce(&[u8]) -> isize,
        receive: impl FnOnce(&mut [u8]) -> isize,
    ) -> Result<(), Failure> {
        let size = self.sent.len() as isize;
        self.sent[0] = (self.passed + 1) as u8;
        if sys("sending a message", send(&self.sent))? != size {
            return Err(Failure::new("a message was sent in part only"));
        }
        if sys("receiving a message", receive(&mut self.received))? != size {
            return Err(Failure::new("a message was received in part only"));
        }
        self.passed += 1;
        Ok(())
    }

    /// Every operation passed one whole message, and the last one arrived unchanged;
    /// `left` bytes still wait to be received.
    pub(crate) fn verify(&self, operations: u64, left: usize) -> Result<(), Failure> {
        let passed = self.passed;
        if passed != operations {
            return Err(Failure::new(format!("{operations} counted, {passed} messages passed")));
        }
        if left > 0 {
            return Err(Failure::new(format!("{left} bytes were sent and never received")));
        }
        if passed > 0 && self.received != self.sent {
            return Err(Failure::new("the last message did not arrive as it was sent"));
        }
        Ok(())
    }
}
