//! Connect, accept and close of a TCP connection on the loopback interface.
//!
//! The load of a server whose clients stay for one request. An operation makes a connection and accepts one, and closes
//! both ends, the client's with a reset: so no port waits in TIME_WAIT, and none runs out. Tasks share the table of
//! established connections and the search for a free port, whose cost depends on how many are taken. With
//! `listener=shared` they also share one queue of connections, and each accepts the one that is first, whoever made it.

use std::net::TcpListener;
use std::os::fd::{AsRawFd, OwnedFd};

use crate::{Failure, Family, Forms, Load, Need, Parameter, ParameterKind, Prepared, Spec, Task, sys, tcp, until_done};

pub(crate) static SPEC: Spec = Spec {
    semantics: 1,
    aliases: &[],
    family: Family::Network,
    operation: "one socket connected, one accepted, and both closed",
    forms: Forms::Both,
    parameters: &[Parameter {
        name: "listener",
        about: "own: each task has its own listening socket; shared: all tasks connect to one and accept from it",
        default: "own",
        kind: ParameterKind::Choice(&["own", "shared"]),
    }],
    needs: &[Need::OpenFiles(3), tcp::LOOPBACK],
    prepare,
};

fn prepare(load: &Load) -> Result<Box<dyn Prepared>, Failure> {
    let listener = match load.values.choice("listener") {
        "shared" => Some(tcp::listen()?),
        _ => None,
    };
    Ok(Box::new(Setup { listener }))
}

struct Setup {
    /// The listener that all tasks share.
    listener: Option<TcpListener>,
}

impl Prepared for Setup {
    fn task(&self, _: usize) -> Result<Box<dyn Task + '_>, Failure> {
        let listener = match &self.listener {
            None => tcp::listen()?,
            Some(shared) => {
                shared.try_clone().map_err(|e| Failure::from_error("dup of the listener", e))?
            }
        };
        let address = tcp::address(&listener)?;
        Ok(Box::new(Connector { listener, address, shares: self.listener.is_some(), accepted: 0 }))
    }

    /// Every connection was accepted: none waits.
    fn verify(&self, _: u64) -> Result<(), Failure> {
        self.listener.as_ref().map_or(Ok(()), check_empty)
    }
}

struct Connector {
    listener: TcpListener,
    address: libc::sockaddr_in,
    /// Whether other tasks accept from the listener too.
    shares: bool,
    accepted: u64,
}

impl Task for Connector {
    #[inline(always)]
    fn operate(&mut self) -> Result<(), Failure> {
        let client = tcp::connect(&self.address)?;
        let server = tcp::accept(&self.listener)?;
        self.accepted += 1;
        reset_on_close(&client)?;
        // The client first: so neither end waits for the other.
        drop(client);
        drop(server);
        Ok(())
    }

    fn verify(&mut self, operations: u64) -> Result<(), Failure> {
        if self.accepted == operations {
            return if self.shares { Ok(()) } else { check_empty(&self.listener) };
        }
        Err(Failure::new(format!("{operations} operations counted, but {} accepted", self.accepted)))
    }
}

/// Makes closing the socket a reset.
#[inline(always)]
fn reset_on_close(socket: &OwnedFd) -> Result<(), Failure> {
    let linger = libc::linger { l_onoff: 1, l_linger: 0 };
    let length = size_of::<libc::linger>() as libc::socklen_t;
    // SAFETY: the socket is open and the kernel reads one live value.
    sys("SO_LINGER", unsafe {
        let linger = (&raw const linger).cast();
        libc::setsockopt(socket.as_raw_fd(), libc::SOL_SOCKET, libc::SO_LINGER, linger, length)
    })
    .map(drop)
}

/// Checks that no connection waits to be accepted.
fn check_empty(listener: &TcpListener) -> Result<(), Failure> {
    let mut list = [libc::pollfd { fd: listener.as_raw_fd(), events: libc::POLLIN, revents: 0 }];
    // The signal that stops a task may come as late as here.
    // SAFETY: a live list of one.
    let ready = until_done("poll of the listener", || unsafe { libc::poll(list.as_mut_ptr(), 1, 0) });
    match ready? {
        0 => Ok(()),
        _ => Err(Failure::new("a connection was made and never accepted")),
    }
}
