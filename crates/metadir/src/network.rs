//! Addresses of hosts.

use std::net::IpAddr;

/// Whether a host name means this host: `localhost` or a loopback address.
pub fn is_this_host(host: &str) -> bool {
    let host = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
    host.trim_end_matches('.').eq_ignore_ascii_case("localhost")
        || host.parse::<IpAddr>().is_ok_and(|address| address.to_canonical().is_loopback())
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
