//! The message that the pipe and socket workloads pass. It carries its number, so that
//! an earlier message is not mistaken for it.

use crate::{Failure, Parameter, ParameterKind, sys};

/// The length of a message: by default one byte, as in will-it-scale; at most what an
/// unprivileged pipe or socket accepts in one call.
pub(crate) const SIZE: Parameter = Parameter {
    name: "size_bytes",
    about: "length of one message",
    default: "1",
    kind: ParameterKind::Number { min: 1, max: 65536 },
};

/// A message of fixed length, and the buffer that receives it.
pub(crate) struct Message {
    sent: Vec<u8>,
    received: Vec<u8>,
    /// Messages passed so far. A message's first byte is the low byte of its number.
    passed: u64,
}

impl Message {
    /// A message of `size` bytes, at least 1.
    pub(crate) fn new(size: usize) -> Message {
        assert!(size > 0, "a message has room for its number");
        Message { sent: vec![0x6b; size], received: vec![0; size], passed: 0 }
    }

    /// Passes the next message by one call each. Both return a number of bytes, or -1 as
    /// libc does.
    #[inline(always)]
    pub(crate) fn pass(
        &mut self,
        send: impl FnOnce(&[u8]) -> isize,
        receive: impl FnOnce(&mut [u8]) -> isize,
    ) -> Result<(), Failure> {
        let size = self.sent.len() as isize;
        self.sent[0] = (self.passed + 1) as u8;
        if sys("sending a message", send(&self.sent))? != size {
            return Err(Failure::new("only part of a message was sent"));
        }
        if sys("receiving a message", receive(&mut self.received))? != size {
            return Err(Failure::new("only part of a message was received"));
        }
        self.passed += 1;
        Ok(())
    }

    /// Checks that every operation passed one whole message and that the last one arrived
    /// unchanged. `left` is the number of bytes not received yet.
    pub(crate) fn verify(&self, operations: u64, left: usize) -> Result<(), Failure> {
        let passed = self.passed;
        if passed != operations {
            return Err(Failure::new(format!(
                "{operations} operations counted, but {passed} messages passed"
            )));
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
