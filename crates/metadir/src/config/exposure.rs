//! Protection against eavesdropping: one rule for all servers, and its one exception, `insecure = true`.

use std::net::IpAddr;
use std::ops::Range;

use super::part::{Part, Reader, span_of};

/// Whether a host name means this host: `localhost` or a loopback address.
pub(crate) fn is_this_host(host: &str) -> bool {
    let host = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
    host.trim_end_matches('.').eq_ignore_ascii_case("localhost")
        || host.parse::<IpAddr>().is_ok_and(|address| address.to_canonical().is_loopback())
}

/// Data that would be sent to another host without TLS.
pub(super) struct Exposure {
    /// The data and the destination: "the password would go to ldap://x:389".
    pub(super) what: String,
    /// How to protect it: "write ldaps://".
    pub(super) help: &'static str,
    /// The place in the configuration.
    pub(super) span: Range<usize>,
}

impl Reader {
    /// Reports exposed data as an error; with `insecure = true` as a warning.
    pub(super) fn exposed(&mut self, part: &Part<'_>, exposed: Option<Exposure>) {
        let is_wanted = self.truth(part, "insecure").unwrap_or(false);
        let Some(Exposure { what, help, span }) = exposed else { return };
        let what = format!("{what} without TLS, so others on the network could read and change it");
        if is_wanted {
            self.warn(span_of(part, "insecure"), what, help);
        } else {
            self.wrong(
                span,
                what,
                format!("{help}; or insecure = true if the network is protected otherwise"),
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loopback_addresses_and_localhost_are_this_host() {
        for host in [
            "localhost",
            "LocalHost",
            "localhost.",
            "127.0.0.1",
            "127.9.9.9",
            "::1",
            "[::1]",
            "::ffff:127.0.0.1",
        ] {
            assert!(is_this_host(host), "{host}");
        }
        for host in
            ["", "db", "localhost.plim.example", "10.0.0.1", "128.0.0.1", "::2", "127.0.0.1.plim.example"]
        {
            assert!(!is_this_host(host), "{host}");
        }
    }
}
