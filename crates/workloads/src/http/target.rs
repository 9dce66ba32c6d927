//! The target of requests: the addresses of a host, resolved once.

use std::io;
use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::time::Duration;

use engine::workload::LoadError;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use super::failure::errno_words;
use super::settings::HttpPlan;
use super::tls::TlsClient;

/// How long an address may take to accept, before the load.
const PATIENCE: Duration = Duration::from_secs(5);

/// The addresses of the host, the first that accepts a connection first, and what TLS with it needs. Connects, makes a
/// handshake, and sends nothing else.
pub(super) fn find(plan: &HttpPlan) -> Result<(Vec<SocketAddr>, Option<TlsClient>), LoadError> {
    let HttpPlan { url, timeout, .. } = plan;
    let tls = url.is_tls.then(|| TlsClient::new(url, &plan.tls)).transpose()?;
    let authority = &url.authority;
    let help = "check the host name and the DNS settings of this machine";
    let resolved = authority
        .to_socket_addrs()
        .map_err(|error| LoadError::new(format!("{authority} has no address: {}", words(&error)), help))?;
    let mut addresses: Vec<SocketAddr> = Vec::new();
    for address in resolved {
        if !addresses.contains(&address) {
            addresses.push(address);
        }
    }
    let patience = Duration::from_nanos(*timeout).min(PATIENCE);
    let mut reasons = Vec::new();
    for (place, address) in addresses.iter().enumerate() {
        match TcpStream::connect_timeout(address, patience) {
            Ok(_) => {
                if let Some(tls) = &tls {
                    tls.try_handshake(address, patience)?;
                }
                addresses.rotate_left(place);
                return Ok((addresses, tls));
            }
            Err(error) => reasons.push(format!("{address}: {}", words(&error))),
        }
    }
    Err(match reasons.is_empty() {
        true => LoadError::new(format!("{authority} has no address"), help),
        false => LoadError::new(
            format!("nothing accepts a connection at {authority} ({})", reasons.join("; ")),
            "check that the server is running and that the port is correct",
        ),
    })
}

fn words(error: &io::Error) -> String {
    match error.raw_os_error() {
        Some(errno) => errno_words(errno),
        None => error.to_string(),
    }
}

/// Raises the limit of open files to its maximum, because each connection is one.
pub(super) fn raise_file_limit() {
    let limit = getrlimit(Resource::Nofile);
    if limit.current != limit.maximum {
        // If this fails, a connection reports the limit later.
        let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum });
    }
}
