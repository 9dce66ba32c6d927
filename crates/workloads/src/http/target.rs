//! The target of requests: the addresses of a host, resolved once.

use std::io;
use std::net::{IpAddr, SocketAddr, TcpStream, ToSocketAddrs};
use std::time::Duration;

use engine::workload::LoadError;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use super::failure::errno_words;
use super::settings::{HttpPlan, Url};
use super::tls::TlsClient;

/// How long an address may take to accept, before the load.
const PATIENCE: Duration = Duration::from_secs(5);

/// A server of a load.
#[derive(Clone, Debug)]
pub(super) struct Server {
    /// Its addresses; the one to try first comes first.
    pub(super) addresses: Vec<SocketAddr>,
    /// What TLS with it needs, if it is reached over TLS.
    pub(super) tls: Option<TlsClient>,
}

/// All servers of a plan: in the order of the scenario, or the one of the URL.
pub(super) fn find_all(plan: &HttpPlan) -> Result<Vec<Server>, LoadError> {
    match &plan.scenario {
        Some(read) => {
            read.scenario.origins().iter().map(|origin| find(plan, &Url::of_origin(origin))).collect()
        }
        None => Ok(vec![find(plan, &plan.url)?]),
    }
}

/// The addresses of the host, the first that accepts a connection first, and what TLS with it needs. Connects, makes a
/// handshake, and sends nothing else.
fn find(plan: &HttpPlan, url: &Url) -> Result<Server, LoadError> {
    let timeout = &plan.timeout;
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
    permitted(plan, url, &addresses)?;
    let patience = Duration::from_nanos(*timeout).min(PATIENCE);
    let mut reasons = Vec::new();
    for (place, address) in addresses.iter().enumerate() {
        match TcpStream::connect_timeout(address, patience) {
            Ok(_) => {
                if let Some(tls) = &tls {
                    tls.try_handshake(address, patience)?;
                }
                addresses.rotate_left(place);
                return Ok(Server { addresses, tls });
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

/// Refuses addresses on the Internet, unless the user may load this host: a misspelt name must flood nobody.
fn permitted(plan: &HttpPlan, url: &Url, addresses: &[SocketAddr]) -> Result<(), LoadError> {
    let host = url.name();
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
        let of = |plan: &HttpPlan| permitted(plan, &plan.url, &addresses);
        let refused = of(&plan(&[url])).unwrap_err();
        assert_eq!(refused.what, "192.0.2.1 is not in a private network");
        assert!(refused.help.contains("--yes-i-may-load 192.0.2.1"), "{}", refused.help);
        let other = plan(&[url, ("yes_i_may_load", "example.org")]);
        assert!(of(&other).is_err());
        let allowed = plan(&[url, ("yes_i_may_load", "192.0.2.1")]);
        assert_eq!(of(&allowed), Ok(()));
    }
}
