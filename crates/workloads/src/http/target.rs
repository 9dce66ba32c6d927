//! The target of requests: the addresses of a host, resolved once.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use engine::workload::LoadError;

use super::settings::{HttpPlan, HttpVersion};
use super::url::Origin;
use crate::network::addresses::Addresses;
use crate::network::host::PATIENCE;
use crate::network::tls::TlsClient;

/// The names of the protocols in the handshake of TLS (RFC 7301, RFC 9113 section 3.2).
const HTTP1: &[u8] = b"http/1.1";
pub(super) const HTTP2: &[u8] = b"h2";

/// A server of a load.
#[derive(Clone, Debug)]
pub(super) struct Server {
    /// Its addresses.
    pub(super) addresses: Addresses,
    /// What TLS with it needs, if it is reached over TLS.
    pub(super) tls: Option<TlsClient>,
}

/// The servers of a load, and how they are spoken to.
#[derive(Clone, Debug, Default)]
pub(super) struct Servers {
    /// In the order of the scenario, or the one of the URL.
    pub(super) all: Vec<Server>,
    /// Whether the load uses HTTP/2: `auto` does so only if each server offers it over TLS.
    pub(super) is_http2: bool,
}

/// Finds all servers of a plan.
pub(super) fn find_all(plan: &HttpPlan) -> Result<Servers, LoadError> {
    let origins = plan.origins();
    let mut all = Vec::new();
    let mut is_http2 = plan.version != HttpVersion::One && !origins.is_empty();
    for origin in origins {
        let (server, offers_http2) = find(plan, origin)?;
        is_http2 &= offers_http2;
        all.push(server);
    }
    // What is offered during the load is what was chosen here.
    let protocol = if is_http2 { HTTP2 } else { HTTP1 };
    for server in &mut all {
        server.tls = server.tls.take().map(|tls| tls.with_protocol(protocol));
    }
    Ok(Servers { all, is_http2 })
}

/// How long a server is observed that must not send anything before a request.
const GREETING: Duration = Duration::from_millis(50);

/// The addresses of the host, what TLS with it needs, and whether it offers HTTP/2. Connects, makes a handshake, and sends no
/// request.
fn find(plan: &HttpPlan, origin: &Origin) -> Result<(Server, bool), LoadError> {
    let timeout = &plan.timeout;
    let protocols = match plan.version {
        HttpVersion::Auto => &[HTTP2, HTTP1][..],
        HttpVersion::One => &[HTTP1],
        HttpVersion::Two => &[HTTP2],
    };
    let tls = origin.is_tls.then(|| TlsClient::new(origin.host_name(), &plan.tls, protocols)).transpose()?;
    let authority = origin.host_and_port();
    let patience = Duration::from_nanos(*timeout).min(PATIENCE);
    let (addresses, stream) =
        Addresses::find(plan.addresses, &authority, origin.host_name(), &plan.permission, patience)?;
    let wants_http2 = plan.version == HttpVersion::Two;
    let mut offers_http2 = true;
    match &tls {
        Some(tls) => {
            for address in addresses.connected() {
                let offers = tls.try_handshake(address, patience)?.as_deref() == Some(HTTP2);
                if wants_http2 && !offers {
                    return Err(no_http2(address, true));
                }
                offers_http2 &= offers;
            }
        }
        None if wants_http2 => {
            if let Some(address) = addresses.used.first().filter(|_| !answers_http2(stream, patience)) {
                return Err(no_http2(address, false));
            }
        }
        None => {
            offers_http2 = false;
            keeps_silent(&stream)?;
        }
    }
    Ok((Server { addresses, tls }, offers_http2))
}

/// Checks that a server sends nothing before a request: what it sends would be counted as the response to the first one, and
/// each further response as that to the next request.
fn keeps_silent(stream: &TcpStream) -> Result<(), LoadError> {
    let mut bytes = [0; 64];
    let read = stream.set_read_timeout(Some(GREETING)).and_then(|()| stream.peek(&mut bytes));
    let (Ok(length @ 1..), Ok(address)) = (read, stream.peer_addr()) else { return Ok(()) };
    let line = bytes[..length].split(|byte| matches!(byte, b'\r' | b'\n')).next().unwrap_or_default();
    Err(LoadError::new(
        format!(
            "{address} sends \"{}\" before it gets a request, which no server of HTTP/1.1 does",
            String::from_utf8_lossy(line).escape_debug()
        ),
        "check that the port is that of a web server, and the server or the proxy in front of it",
    ))
}

/// Whether a server answers the preface of HTTP/2 with SETTINGS (RFC 9113 section 3.4). Sends no request.
fn answers_http2(mut stream: TcpStream, patience: Duration) -> bool {
    const SETTINGS: u8 = 4;
    let preface = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";
    let mut head = [0; 9];
    stream
        .set_read_timeout(Some(patience))
        .and_then(|()| stream.set_write_timeout(Some(patience)))
        .and_then(|()| stream.write_all(preface))
        .and_then(|()| stream.read_exact(&mut head))
        .is_ok_and(|()| matches!(head, [0, _, _, SETTINGS, 0, 0, 0, 0, 0]))
}

fn no_http2(address: &SocketAddr, is_tls: bool) -> LoadError {
    match is_tls {
        true => LoadError::new(
            format!("{address} does not offer HTTP/2 over TLS (ALPN h2)"),
            "enable HTTP/2 at the server (nginx: `listen 443 ssl http2`), or set `http_version` to 1.1",
        ),
        false => LoadError::new(
            format!("{address} does not answer in HTTP/2 without TLS"),
            "enable HTTP/2 in clear text at the server (nginx: `listen 80 http2`), write an https URL, or set `http_version` to 1.1",
        ),
    }
}
