//! Write to and read from a TCP connection of the task's own, on the loopback interface.
//!
//! A write passes the whole network stack on the task's CPU: TCP, IP, the loopback device, its softirq, and TCP again,
//! which queues the bytes at the other socket. The connection is the task's own, so what bends the curve is what the stack has
//! for all: its memory accounting, conntrack and netfilter, where there are rules, and the allocators. Compare with
//! unix_socket, which passes the same bytes without a network.

use std::net::TcpStream;
use std::os::fd::AsRawFd;

use crate::message::{self, Message};
use crate::{Failure, Family, Forms, Load, Need, Prepared, Spec, Task, each_task, sys, tcp};

pub(crate) static SPEC: Spec = Spec {
    semantics: 1,
    aliases: &[],
    family: Family::Network,
    operation: "one message written to a TCP socket and read from its peer",
    forms: Forms::Both,
    parameters: &[message::SIZE],
    needs: &[Need::OpenFiles(3), tcp::LOOPBACK],
    prepare,
};

fn prepare(load: &Load) -> Result<Box<dyn Prepared>, Failure> {
    let size = load.values.number("size_bytes") as usize;
    each_task(move |_| {
        let (near, far) = tcp::pair()?;
        Ok(Passer { near, far, message: Message::new(size) })
    })
}

struct Passer {
    near: TcpStream,
    far: TcpStream,
    message: Message,
}

impl Task for Passer {
    #[inline(always)]
    fn operate(&mut self) -> Result<(), Failure> {
        let (near, far) = (self.near.as_raw_fd(), &self.far);
        self.message.pass(
            // SAFETY: the socket is open and the bytes are live.
            |bytes| unsafe { libc::write(near, bytes.as_ptr().cast(), bytes.len()) },
            |bytes| tcp::receive(far, bytes),
        )
    }

    fn verify(&mut self, operations: u64) -> Result<(), Failure> {
        let mut left: libc::c_int = 0;
        // SAFETY: the socket is open and the kernel writes one live int.
        sys("FIONREAD of the socket", unsafe {
            libc::ioctl(self.far.as_raw_fd(), libc::FIONREAD, &mut left)
        })?;
        self.message.verify(operations, left as usize)
    }
}
