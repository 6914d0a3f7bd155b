//! TCP sockets on the loopback interface, and calls of them that a signal must not cut short: what they wait for comes
//! from the task itself, so it comes soon.

use std::io::{self, Read};
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4, TcpListener, TcpStream};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use crate::{Failure, Need, sys, until_done};

/// A loopback interface that is up.
pub(crate) const LOOPBACK: Need =
    Need::Kernel("a loopback interface with 127.0.0.1 (ip link set lo up)", || {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        TcpStream::connect(listener.local_addr()?).map(drop)
    });

/// A socket that listens on a free port.
pub(crate) fn listen() -> Result<TcpListener, Failure> {
    let error = |e| Failure::from_error("listening on 127.0.0.1", e);
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).map_err(error)?;
    // std asks for 128 connections that wait to be accepted; each task may have one.
    // SAFETY: the socket is open.
    sys("listen", unsafe { libc::listen(listener.as_raw_fd(), 4096) })?;
    Ok(listener)
}

/// Where a listener listens.
pub(crate) fn address(listener: &TcpListener) -> Result<libc::sockaddr_in, Failure> {
    let address = listener.local_addr().map_err(|e| Failure::from_error("getsockname", e))?;
    let SocketAddr::V4(address) = address else { unreachable!("it was bound to an IPv4 address") };
    Ok(encoded(address))
}

fn encoded(address: SocketAddrV4) -> libc::sockaddr_in {
    libc::sockaddr_in {
        sin_family: libc::AF_INET as libc::sa_family_t,
        sin_port: address.port().to_be(),
        sin_addr: libc::in_addr { s_addr: u32::from_ne_bytes(address.ip().octets()) },
        sin_zero: [0; 8],
    }
}

/// Connects a new socket. A connect that a signal interrupts goes on in the kernel, so this waits for it.
#[inline(always)]
pub(crate) fn connect(address: &libc::sockaddr_in) -> Result<OwnedFd, Failure> {
    // SAFETY: no preconditions.
    let socket = sys("socket", unsafe {
        libc::socket(libc::AF_INET, libc::SOCK_STREAM | libc::SOCK_CLOEXEC, 0)
    })?;
    // SAFETY: just opened, owned by nothing else.
    let socket = unsafe { OwnedFd::from_raw_fd(socket) };
    let length = size_of::<libc::sockaddr_in>() as libc::socklen_t;
    // SAFETY: the socket is open and the address live.
    match sys("connect", unsafe {
        libc::connect(socket.as_raw_fd(), (&raw const *address).cast(), length)
    }) {
        Ok(_) => Ok(socket),
        Err(failure) if failure.interrupted() => finish(socket),
        Err(failure) => Err(failure),
    }
}

/// Waits until an interrupted connect is done.
#[cold]
fn finish(socket: OwnedFd) -> Result<OwnedFd, Failure> {
    let mut list = [libc::pollfd { fd: socket.as_raw_fd(), events: libc::POLLOUT, revents: 0 }];
    // SAFETY: a live list of one.
    until_done("waiting for a connection", || unsafe { libc::poll(list.as_mut_ptr(), 1, -1) })?;
    let (mut error, mut length): (libc::c_int, _) =
        (0, size_of::<libc::c_int>() as libc::socklen_t);
    // SAFETY: the socket is open and the kernel writes one live int.
    sys("SO_ERROR", unsafe {
        let error = (&raw mut error).cast();
        libc::getsockopt(socket.as_raw_fd(), libc::SOL_SOCKET, libc::SO_ERROR, error, &mut length)
    })?;
    match error {
        0 => Ok(socket),
        errno => Err(Failure::from_error("connect", io::Error::from_raw_os_error(errno))),
    }
}

/// Accepts a connection, one of which has been made.
#[inline(always)]
pub(crate) fn accept(listener: &TcpListener) -> Result<OwnedFd, Failure> {
    let (socket, null) = (listener.as_raw_fd(), std::ptr::null_mut());
    // SAFETY: the socket is open; no address is asked for.
    let accepted = until_done("accept", || unsafe {
        libc::accept4(socket, null, std::ptr::null_mut(), libc::SOCK_CLOEXEC)
    })?;
    // SAFETY: just opened, owned by nothing else.
    Ok(unsafe { OwnedFd::from_raw_fd(accepted) })
}

/// Both ends of a connection, which send at once what is written.
pub(crate) fn pair() -> Result<(TcpStream, TcpStream), Failure> {
    let listener = listen()?;
    let near = TcpStream::from(connect(&address(&listener)?)?);
    let far = TcpStream::from(accept(&listener)?);
    near.set_nodelay(true).map_err(|e| Failure::from_error("TCP_NODELAY", e))?;
    Ok((near, far))
}

/// Reads until the bytes are full; -1 on an error, as libc does.
#[inline(always)]
pub(crate) fn receive(mut from: &TcpStream, bytes: &mut [u8]) -> isize {
    // Goes on after a signal.
    match from.read_exact(bytes) {
        Ok(()) => bytes.len() as isize,
        Err(_) => -1,
    }
}
