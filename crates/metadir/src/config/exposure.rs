//! What others on the way could read: the one rule for all servers, and its one exception, `insecure = true`.

use std::net::IpAddr;
use std::ops::Range;

use super::part::{Part, Reader, span_of};

/// Whether a server of this name runs on the host we are on: `localhost`, or a loopback address.
pub(crate) fn is_this_host(host: &str) -> bool {
    let host = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
    host.trim_end_matches('.').eq_ignore_ascii_case("localhost")
        || host.parse::<IpAddr>().is_ok_and(|address| address.to_canonical().is_loopback())
}

/// Something that would go to another host without TLS.
pub(super) struct Exposed {
    /// What it is, and where it would go: "the password would go to ldap://x:389".
    pub(super) what: String,
    /// How it is protected: "write ldaps://".
    pub(super) help: &'static str,
    /// Where the configuration says so.
    pub(super) span: Range<usize>,
}

impl Reader {
    /// Refuses what is exposed; with `insecure = true` it is a warning.
    pub(super) fn exposed(&mut self, part: &Part<'_>, exposed: Option<Exposed>) {
        let is_wanted = self.truth(part, "insecure").unwrap_or(false);
        let Some(Exposed { what, help, span }) = exposed else { return };
        let what = format!("{what} without TLS, and others on the way could read and change it");
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
