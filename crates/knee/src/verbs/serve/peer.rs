//! Whose program has opened a connection to this host's own address: the kernel lists both ends of it.

use std::fs;
use std::net::{IpAddr, SocketAddr, TcpStream};

/// The user of the program at the other end; `None` if the kernel's lists do not have it, or cannot be read.
pub fn user(stream: &TcpStream) -> Option<u32> {
    let (own, other) = (stream.local_addr().ok()?, stream.peer_addr().ok()?);
    // A program may have asked for an IPv4 address by way of IPv6.
    ["/proc/net/tcp", "/proc/net/tcp6"].iter().find_map(|path| {
        let table = fs::read_to_string(path).ok()?;
        user_of(&table, other, own)
    })
}

/// The user of the socket with this address that is connected to the other one.
fn user_of(table: &str, address: SocketAddr, to: SocketAddr) -> Option<u32> {
    let (address, to) = (written(address)?, written(to)?);
    table.lines().skip(1).find_map(|line| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let is_open = OPEN_STATES.contains(fields.get(3)?);
        let is_it = fields[1].ends_with(&address) && fields[2].ends_with(&to) && is_open;
        if is_it { fields.get(7)?.parse().ok() } else { None }
    })
}

/// States of a socket that a program still holds. The kernel lists others under user 0.
const OPEN_STATES: [&str; 4] = ["01", "04", "05", "08"];

/// An IPv4 address as the lists have it: the end of an IPv6 address, too, where it stands for one.
fn written(address: SocketAddr) -> Option<String> {
    let IpAddr::V4(ip) = address.ip() else { return None };
    Some(format!("{:08X}:{:04X}", u32::from_ne_bytes(ip.octets()), address.port()))
}

#[cfg(test)]
mod tests {
    use std::net::{Shutdown, TcpListener};

    use super::*;

    #[test]
    fn the_user_of_the_other_end_is_found() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let other = TcpStream::connect(address).unwrap();
        let (stream, _) = listener.accept().unwrap();
        assert_eq!(user(&stream), Some(host::paths::user()));
        // A reader that has asked says that no more comes.
        other.shutdown(Shutdown::Write).unwrap();
        assert_eq!(user(&stream), Some(host::paths::user()));
        let mapped = TcpStream::connect(format!("[::ffff:127.0.0.1]:{}", address.port()));
        if let Ok(_mapped) = mapped {
            let (stream, _) = listener.accept().unwrap();
            assert_eq!(user(&stream), Some(host::paths::user()));
        }
    }

    #[test]
    fn only_a_socket_that_is_held_counts() {
        let table = |state: &str, user: u32| {
            format!(
                "sl local_address rem_address st tx_queue rx_queue tr tm->when retrnsmt uid\n\
                 0: 0100007F:D431 0100007F:1F51 {state} 0:0 00:0 0 {user} 0 1\n"
            )
        };
        let [other, own] = ["127.0.0.1:54321", "127.0.0.1:8017"].map(|a| a.parse().unwrap());
        let check = |state, user, expected| {
            assert_eq!(user_of(&table(state, user), other, own), expected, "{state}");
        };
        if cfg!(target_endian = "little") {
            check("01", 1001, Some(1001));
            check("06", 0, None);
        }
        assert_eq!(user_of(&table("01", 7), own, other), None);
        assert_eq!(user_of("garbage\n0: x\n", other, own), None);
    }
}
