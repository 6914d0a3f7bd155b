//! Free TCP ports for the servers that runs start.

use std::net::{Ipv4Addr, TcpListener};

use anyhow::{Context, Result};

/// Below the ports that the kernel gives to clients (net.ipv4.ip_local_port_range), and above those of
/// well-known services.
pub const PORTS: std::ops::Range<u32> = 20_000..32_000;

/// A port of an address of this host on which nothing listens. Different runs and processes begin their search at different
/// ports, since a server that has ended leaves connections that keep its port for a minute.
pub fn free(address: Ipv4Addr, run: u32) -> Result<u16> {
    let length = PORTS.end - PORTS.start;
    let first = std::process::id().wrapping_mul(97).wrapping_add(run.wrapping_mul(7));
    let ports = (0..length).map(|offset| PORTS.start + first.wrapping_add(offset) % length);
    let is_free = |port: &u16| TcpListener::bind((address, *port)).is_ok();
    let mut ports = ports.filter_map(|port| u16::try_from(port).ok());
    ports.find(is_free).with_context(|| {
        format!(
            "no TCP port of {address} from {} to {} is free for the server",
            PORTS.start, PORTS.end
        )
    })
}
