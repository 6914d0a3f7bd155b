//! Write to and read from a pair of Unix sockets of the task's own.
//!
//! Each message is a buffer from the slab allocator, charged to the sending socket and
//! to the memory cgroup, put into the receiver's queue under its lock and freed again.
//! The sockets are the task's own, so what bends the curve is the slab and page
//! allocators and the accounting, the more the larger the message. Compare with pipe,
//! which moves the same bytes without a socket buffer.

use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use crate::message::{self, Message};
use crate::{
    Failure, Family, Forms, Load, Need, Parameter, ParameterKind, Prepared, Spec, Task, each_task,
    sys,
};

pub(crate) static SPEC: Spec = Spec {
    semantics: 2,
    aliases: &["unix1"],
    family: Family::Scheduling,
    operation: "one message written to a Unix socket and read from its peer",
    forms: Forms::Both,
    parameters: &[
        message::SIZE,
        Parameter {
            name: "kind",
            about: "stream, or datagram, which preserves message boundaries",
            default: "stream",
            kind: ParameterKind::Choice(&["stream", "datagram"]),
        },
    ],
    needs: &[Need::OpenFiles(2)],
    prepare,
};

fn prepare(load: &Load) -> Result<Box<dyn Prepared>, Failure> {
    let kind = match load.values.choice("kind") {
        "stream" => libc::SOCK_STREAM,
        _ => libc::SOCK_DGRAM,
    };
    let size = load.values.number("size_bytes") as usize;
    each_task(move |_| {
        let mut ends = [0; 2];
        // SAFETY: the kernel writes two live ints.
        sys("socketpair", unsafe {
            // The calls must not block: a host that allows too small a buffer gets an error.
            let kind = kind | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
            libc::socketpair(libc::AF_UNIX, kind, 0, ends.as_mut_ptr())
        })?;
        // SAFETY: just opened, owned by nothing else.
        let [near, far] = ends.map(|fd| unsafe { OwnedFd::from_raw_fd(fd) });
        Ok(Passer { near, far, message: Message::new(size) })
    })
}

struct Passer {
    near: OwnedFd,
    far: OwnedFd,
    message: Message,
}

impl Task for Passer {
    #[inline(always)]
    fn operate(&mut self) -> Result<(), Failure> {
        let (near, far) = (self.near.as_raw_fd(), self.far.as_raw_fd());
        self.message.pass(
            // SAFETY: the socket is open and the bytes are live.
            |bytes| unsafe { libc::write(near, bytes.as_ptr().cast(), bytes.len()) },
            // SAFETY: as above.
            |bytes| unsafe { libc::read(far, bytes.as_mut_ptr().cast(), bytes.len()) },
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
