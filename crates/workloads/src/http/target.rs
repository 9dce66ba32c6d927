//! The target of requests: the addresses of a host, resolved once.

use std::io::{self, Read as _, Write as _};
use std::net::{IpAddr, SocketAddr, TcpStream, ToSocketAddrs};
use std::time::Duration;

use engine::workload::LoadError;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use super::failure::errno_words;
use super::settings::{HttpPlan, HttpVersion};
use super::tls::TlsClient;
use super::url::Origin;

/// How long an address may take to accept, before the load.
const PATIENCE: Duration = Duration::from_secs(5);

/// The names of the protocols in the handshake of TLS (RFC 7301, RFC 9113 section 3.2).
const HTTP1: &[u8] = b"http/1.1";
pub(super) const HTTP2: &[u8] = b"h2";

/// A server of a load.
#[derive(Clone, Debug)]
pub(super) struct Server {
    /// Its addresses; the one to try first comes first.
    pub(super) addresses: Vec<SocketAddr>,
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
    let origins = match &plan.scenario {
        Some(read) => read.scenario.origins(),
        None => std::slice::from_ref(&plan.origin),
    };
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

/// The addresses of the host, the first that accepts a connection first, what TLS with it needs, and whether it offers
/// HTTP/2. Connects, makes a handshake, and sends no request.
fn find(plan: &HttpPlan, origin: &Origin) -> Result<(Server, bool), LoadError> {
    let timeout = &plan.timeout;
    let protocols = match plan.version {
        HttpVersion::Auto => &[HTTP2, HTTP1][..],
        HttpVersion::One => &[HTTP1],
        HttpVersion::Two => &[HTTP2],
    };
    let tls = origin.is_tls.then(|| TlsClient::new(origin.host_name(), &plan.tls, protocols)).transpose()?;
    let authority = origin.host_and_port();
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
    permitted(plan, origin, &addresses)?;
    let patience = Duration::from_nanos(*timeout).min(PATIENCE);
    let mut reasons = Vec::new();
    for (place, address) in addresses.iter().enumerate() {
        match TcpStream::connect_timeout(address, patience) {
            Ok(stream) => {
                let wants_http2 = plan.version == HttpVersion::Two;
                let offers_http2 = match &tls {
                    Some(tls) => tls.try_handshake(address, patience)?.as_deref() == Some(HTTP2),
                    None => wants_http2 && answers_http2(stream, patience),
                };
                if wants_http2 && !offers_http2 {
                    return Err(no_http2(address, origin.is_tls));
                }
                addresses.rotate_left(place);
                return Ok((Server { addresses, tls }, offers_http2));
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

/// Refuses addresses on the Internet, unless the user may load this host: a misspelt name must flood nobody.
fn permitted(plan: &HttpPlan, origin: &Origin, addresses: &[SocketAddr]) -> Result<(), LoadError> {
    let host = origin.host_name();
    let is_allowed = plan.may_load.iter().any(|allowed| allowed.trim().eq_ignore_ascii_case(host));
    match addresses.iter().map(SocketAddr::ip).find(|address| is_public(*address)) {
        Some(address) if !is_allowed => Err(LoadError::new(
            match host == address.to_string() {
                true => format!("{host} is not in a private network"),
                false => format!("{host} has the address {address}, which is not in a private network"),
            },
            format!(
                "if you may load this host, say so: --yes-i-may-load {host} (in a file: yes_i_may_load = [\"{host}\"])"
            ),
        )),
        _ => Ok(()),
    }
}

/// Whether an address is neither of this host nor of a private network (RFC 1918, 3927, 4193, 4291, 6598).
fn is_public(address: IpAddr) -> bool {
    match address.to_canonical() {
        IpAddr::V4(address) => {
            let [first, second, ..] = address.octets();
            let is_shared = first == 100 && second & 0xc0 == 64;
            !(address.is_loopback()
                || address.is_private()
                || address.is_link_local()
                || address.is_unspecified()
                || is_shared)
        }
        IpAddr::V6(address) => {
            !(address.is_loopback()
                || address.is_unique_local()
                || address.is_unicast_link_local()
                || address.is_unspecified())
        }
    }
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::settings::SETTINGS;
    use crate::testing::settings_of;

    #[test]
    fn only_addresses_of_the_internet_are_public() {
        for (address, expected) in [
            ("127.0.0.1", false),
            ("10.1.2.3", false),
            ("172.31.0.1", false),
            ("172.32.0.1", true),
            ("192.168.7.7", false),
            ("169.254.1.1", false),
            ("100.64.0.1", false),
            ("100.128.0.1", true),
            ("8.8.8.8", true),
            ("::1", false),
            ("fd00::1", false),
            ("fe80::1", false),
            ("::ffff:10.0.0.1", false),
            ("::ffff:8.8.8.8", true),
            ("2001:db8::1", true),
        ] {
            assert_eq!(is_public(address.parse().unwrap()), expected, "{address}");
        }
    }

    #[test]
    fn a_host_on_the_internet_is_loaded_only_with_permission() {
        // An address of documentation (RFC 5737): nothing is sent to it.
        let addresses = ["192.0.2.1:80".parse().unwrap()];
        let plan = |pairs: &[(&str, &str)]| HttpPlan::read(&settings_of(SETTINGS, pairs)).unwrap();
        let url = ("url", "http://192.0.2.1/");
        let of = |plan: &HttpPlan| permitted(plan, &plan.origin, &addresses);
        let refused = of(&plan(&[url])).unwrap_err();
        assert_eq!(refused.what, "192.0.2.1 is not in a private network");
        assert!(refused.help.contains("--yes-i-may-load 192.0.2.1"), "{}", refused.help);
        let other = plan(&[url, ("yes_i_may_load", "example.org")]);
        assert!(of(&other).is_err());
        let allowed = plan(&[url, ("yes_i_may_load", "192.0.2.1")]);
        assert_eq!(of(&allowed), Ok(()));
    }
}
