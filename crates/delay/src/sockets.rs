//! Sockets that listen and connect without waiting.

use std::net::SocketAddr;
use std::os::fd::OwnedFd;

use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType, sockopt};

/// Connections that wait to be accepted.
pub(crate) const BACKLOG: i32 = 1024;

/// A socket that listens on an address. The port stays its own when the socket stops listening.
///
/// # Errors
/// When the address is in use, or not one of this host.
pub(crate) fn listen(address: SocketAddr) -> Result<OwnedFd, Errno> {
    let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let bound = |address: SocketAddr| {
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        let socket = rustix::net::socket_with(family, SocketType::STREAM, flags, None)?;
        sockopt::set_socket_reuseaddr(&socket, true)?;
        rustix::net::bind(&socket, &address)?;
        Ok(socket)
    };
    let mut socket = bound(address)?;
    if address.port() == 0 {
        // The kernel keeps only a port that was named: another socket names the one that it selected.
        socket = bound(local_address(&socket)?)?;
    }
    rustix::net::listen(&socket, BACKLOG)?;
    Ok(socket)
}

/// The address of a bound socket.
pub(crate) fn local_address(socket: &OwnedFd) -> Result<SocketAddr, Errno> {
    SocketAddr::try_from(rustix::net::getsockname(socket)?)
}

/// Connects without waiting; whether it is already connected.
pub(crate) fn begin_connect(address: SocketAddr) -> Result<(OwnedFd, bool), Errno> {
    let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let socket = rustix::net::socket_with(family, SocketType::STREAM, flags, None)?;
    let _ = sockopt::set_tcp_nodelay(&socket, true);
    match rustix::net::connect(&socket, &address) {
        Ok(()) => Ok((socket, true)),
        Err(Errno::INPROGRESS | Errno::INTR) => Ok((socket, false)),
        Err(error) => Err(error),
    }
}
