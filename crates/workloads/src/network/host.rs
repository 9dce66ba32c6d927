//! The addresses of a host, and whether it may be loaded.

use std::io;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::sync::Arc;
use std::time::Duration;

use engine::allowed::{Allowed, Opener};
use engine::workload::LoadError;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use super::errno_words;

/// How long an address may take to accept, before the load.
pub(crate) const PATIENCE: Duration = Duration::from_secs(5);

/// What a load may reach.
#[derive(Clone, Debug, Default)]
pub(crate) struct Permission {
    /// Hosts that may be loaded although they are on the Internet.
    pub(crate) may_load: Vec<String>,
    /// The limits of the agent that drives the load.
    pub(crate) limits: Option<Arc<Allowed>>,
}

impl Permission {
    /// Opens what of this host a load may use, such as the socket of a server.
    pub(crate) fn opener(&self) -> Opener {
        self.limits.as_ref().map_or_else(Opener::default, Opener::limited_to)
    }
}

/// The addresses of `HOST:PORT`, each once. `host` is the name without the port and without brackets; it must be in a
/// private network, or one of the hosts that the user may load, and within the limits of the agent.
pub(crate) fn resolve(
    authority: &str,
    host: &str,
    permission: &Permission,
) -> Result<Vec<SocketAddr>, LoadError> {
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
    if addresses.is_empty() {
        return Err(LoadError::new(format!("{authority} has no address"), help));
    }
    permit(host, &addresses, &permission.may_load)?;
    if let Some(limits) = &permission.limits {
        limits.host(host, &addresses)?;
    }
    Ok(addresses)
}

/// Refuses addresses on the Internet, unless the user may load this host: a misspelt name must flood nobody.
fn permit(host: &str, addresses: &[SocketAddr], may_load: &[String]) -> Result<(), LoadError> {
    let is_allowed = may_load.iter().any(|allowed| allowed.trim().eq_ignore_ascii_case(host));
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

/// The reason of an error, in the words of the system.
pub(crate) fn words(error: &io::Error) -> String {
    match error.raw_os_error() {
        Some(errno) => errno_words(errno),
        None => error.to_string(),
    }
}

/// Whether a name or an address, without brackets, is of the loopback interface.
pub(crate) fn is_this_host(host: &str) -> bool {
    host == "localhost" || host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

/// Raises the limit of open files to its maximum, because each connection is one.
pub(crate) fn raise_file_limit() {
    let limit = getrlimit(Resource::Nofile);
    if limit.current != limit.maximum {
        // If this fails, a connection reports the limit later.
        let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
        let of = |may_load: &[&str]| {
            let may_load: Vec<String> = may_load.iter().map(ToString::to_string).collect();
            permit("192.0.2.1", &addresses, &may_load)
        };
        let refused = of(&[]).unwrap_err();
        assert_eq!(refused.what, "192.0.2.1 is not in a private network");
        assert!(refused.help.contains("--yes-i-may-load 192.0.2.1"), "{}", refused.help);
        assert!(of(&["example.org"]).is_err());
        assert_eq!(of(&["192.0.2.1"]), Ok(()));
    }
}
