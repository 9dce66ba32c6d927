//! Where requests go: the addresses of a host, found once.

use std::io;
use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::time::Duration;

use engine::workload::LoadError;
use model::Nanos;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use super::failure::errno_words;
use super::settings::Url;

/// How long an address may take to accept, before the load.
const PATIENCE: Duration = Duration::from_secs(5);

/// The addresses of the host, the first that accepts a connection first. Connects and sends nothing.
pub(super) fn find(url: &Url, timeout: Nanos) -> Result<Vec<SocketAddr>, LoadError> {
    let authority = &url.authority;
    let help = "is the name of the host right, and does this machine know it?";
    let resolved = authority
        .to_socket_addrs()
        .map_err(|error| LoadError::new(format!("{authority} has no address: {}", words(&error)), help))?;
    let mut addresses: Vec<SocketAddr> = Vec::new();
    for address in resolved {
        if !addresses.contains(&address) {
            addresses.push(address);
        }
    }
    let patience = Duration::from_nanos(timeout).min(PATIENCE);
    let mut reasons = Vec::new();
    for (place, address) in addresses.iter().enumerate() {
        match TcpStream::connect_timeout(address, patience) {
            Ok(_) => {
                addresses.rotate_left(place);
                return Ok(addresses);
            }
            Err(error) => reasons.push(format!("{address}: {}", words(&error))),
        }
    }
    Err(match reasons.is_empty() {
        true => LoadError::new(format!("{authority} has no address"), help),
        false => LoadError::new(
            format!("nothing accepts a connection at {authority} ({})", reasons.join("; ")),
            "is the server started, and is this its port?",
        ),
    })
}

fn words(error: &io::Error) -> String {
    match error.raw_os_error() {
        Some(errno) => errno_words(errno),
        None => error.to_string(),
    }
}

/// Lets this process open as many files as it may, since each connection is one.
pub(super) fn raise_file_limit() {
    let limit = getrlimit(Resource::Nofile);
    if limit.current != limit.maximum {
        // Where it is refused, the connection that finds no room says so.
        let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum });
    }
}
