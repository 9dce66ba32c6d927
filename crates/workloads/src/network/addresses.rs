//! The addresses of a server: which of them get connections, and how many each got.
//!
//! A name with several addresses stands for several servers, for example behind DNS round robin. Connections are opened to
//! them in turn. They have one order, that of their numbers, so that a run can be repeated while the name server rotates its
//! answers.

use std::collections::BTreeMap;
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use engine::workload::{Combined, LoadError, Share};
use model::Level;

use super::host::{self, Permission};

model::choice! {
    /// Which addresses of a name with several get connections.
    pub(crate) enum AddressChoice {
        /// All of one family, except those of loopback names.
        Auto = "auto",
        All = "all",
        First = "first",
    }
}

/// The description of the setting.
pub(crate) const ABOUT: &str = "Which addresses of a name with several get connections. \"all\": in turn, all addresses of one family (IPv4 or IPv6) that accept a connection. \"first\": the first that accepts. \"auto\": \"all\", except for loopback names such as localhost.";

const CONNECTIONS: &str = "address.connections.";
const REQUESTS: &str = "address.requests.";
const FAILED: &str = "address.failed.";
const LEFT_OUT: &str = "address.left_out";

/// The addresses of a server.
#[derive(Clone, Debug, Default)]
pub(crate) struct Addresses {
    /// Those that get connections: all of them in turn, or the first one and after it those to try when it refuses.
    pub(crate) used: Vec<SocketAddr>,
    /// Whether they get connections in turn.
    pub(crate) are_spread: bool,
    /// Those that were meant to get connections, and why they get none.
    pub(crate) left_out: Vec<(SocketAddr, String)>,
}

impl Addresses {
    /// One address, or several of which the first that accepts is used.
    #[cfg(test)]
    pub(crate) fn in_order(used: Vec<SocketAddr>) -> Addresses {
        Addresses { used, ..Addresses::default() }
    }

    /// Resolves `HOST:PORT` and connects to the addresses that are used. `host` is the name without port and brackets.
    /// Returns the first connection.
    pub(crate) fn find(
        choice: AddressChoice,
        authority: &str,
        host: &str,
        permission: &Permission,
        patience: Duration,
    ) -> Result<(Addresses, TcpStream), LoadError> {
        let resolved = host::resolve(authority, host, permission)?;
        let are_spread = match choice {
            AddressChoice::All => true,
            AddressChoice::First => false,
            AddressChoice::Auto => !is_loopback_name(host),
        };
        choose(resolved, are_spread, authority, |address| TcpStream::connect_timeout(address, patience))
    }

    /// The index of the address of a connection that was tried at `tried` addresses before; none if no other may be tried.
    /// Where they are used in turn, an address that refuses is not replaced by another: the failure is its own.
    pub(crate) fn next(&self, turn: &mut Turn, tried: usize) -> Option<usize> {
        match self.are_spread {
            true => (tried == 0).then(|| turn.next(self.used.len())),
            false => (tried < self.used.len()).then_some(tried),
        }
    }

    /// Those that get connections as long as they accept them.
    pub(crate) fn connected(&self) -> &[SocketAddr] {
        if self.are_spread { &self.used } else { &self.used[..self.used.len().min(1)] }
    }

    /// Whether several addresses share the connections.
    pub(crate) fn are_shared(&self) -> bool {
        self.are_spread && self.used.len() > 1
    }

    /// The addresses in words: `10.0.0.1:80, 10.0.0.2:80`.
    pub(crate) fn words(&self) -> String {
        self.connected().iter().map(SocketAddr::to_string).collect::<Vec<_>>().join(", ")
    }

    /// What the check says about them.
    pub(crate) fn reached(&self, authority: &str) -> String {
        let turn = if self.are_shared() { " in turn" } else { "" };
        let left_out = match self.left_out_words() {
            Some(words) => format!("; left out: {words}"),
            None => String::new(),
        };
        format!("{authority}: connections go to {}{turn}{left_out}", self.words())
    }

    fn left_out_words(&self) -> Option<String> {
        let words = self.left_out.iter().map(|(address, why)| format!("{address} ({why})"));
        (!self.left_out.is_empty()).then(|| words.collect::<Vec<_>>().join(", "))
    }

    /// Adds the facts about them, with the counts of each.
    pub(crate) fn add_facts(&self, counts: &[AddressCounts], facts: &mut BTreeMap<String, Level>) {
        if let Some(words) = self.left_out_words() {
            let all = match facts.get(LEFT_OUT) {
                Some(Level::Text(others)) => format!("{others}, {words}"),
                _ => words,
            };
            facts.insert(LEFT_OUT.into(), Level::Text(all));
        }
        if !self.are_shared() {
            return;
        }
        for (address, counts) in self.used.iter().zip(counts) {
            for (name, count) in
                [(CONNECTIONS, counts.connections), (REQUESTS, counts.requests), (FAILED, counts.failed)]
            {
                facts.insert(format!("{name}{address}"), Level::Count(count));
            }
        }
    }
}

/// How a fact about addresses of several machines is one of the load; none for another fact.
pub(crate) fn combined(fact: &str) -> Option<Combined> {
    [CONNECTIONS, REQUESTS, FAILED].iter().any(|name| fact.starts_with(name)).then_some(Combined::Sum)
}

/// What went to an address, warm-up included.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct AddressCounts {
    /// Connections that were opened.
    pub(crate) connections: u64,
    /// Requests that ended on them, and those of them that failed.
    pub(crate) requests: u64,
    pub(crate) failed: u64,
}

impl AddressCounts {
    pub(crate) fn add(&mut self, other: &AddressCounts) {
        self.connections += other.connections;
        self.requests += other.requests;
        self.failed += other.failed;
    }
}

/// The order in which one worker uses the addresses of a server.
///
/// The connections of all workers together are spread evenly: connection `n` of worker `i` of `w` has the number
/// `i + n * w`. Where `w` and the number of addresses have a common divisor, that alone would always lead a worker to the
/// same ones, so that it moves on by one after each cycle.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Turn {
    index: u64,
    of: u64,
    opened: u64,
}

impl Turn {
    pub(crate) fn new(share: &Share) -> Turn {
        Turn { index: u64::from(share.index), of: u64::from(share.of.max(1)), opened: 0 }
    }

    /// The index of the next address of so many.
    fn next(&mut self, addresses: usize) -> usize {
        let all = (addresses as u64).max(1);
        let cycle = all / greatest_common_divisor(all, self.of);
        let shift = if cycle == all { 0 } else { self.opened / cycle };
        let at = (self.index + self.opened.wrapping_mul(self.of) + shift) % all;
        self.opened = self.opened.wrapping_add(1);
        at as usize
    }
}

fn greatest_common_divisor(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { greatest_common_divisor(b, a % b) }
}

/// Whether a name is one of the loopback interface, of which `::1` and `127.0.0.1` are the same host (RFC 6761, section
/// 6.3, and the names in /etc/hosts of the distributions).
fn is_loopback_name(host: &str) -> bool {
    let host = host.trim_end_matches('.').to_ascii_lowercase();
    let first = host.split('.').next().unwrap_or_default();
    ["localhost", "localhost4", "localhost6", "ip6-localhost", "ip6-loopback"].contains(&first)
        || host.ends_with(".localhost")
}

/// Connects to the addresses by `connect`. The family is that of the first one that accepts.
fn choose<S: Send>(
    mut resolved: Vec<SocketAddr>,
    are_spread: bool,
    authority: &str,
    connect: impl Fn(&SocketAddr) -> std::io::Result<S> + Sync,
) -> Result<(Addresses, S), LoadError> {
    let mut left_out = Vec::new();
    let mut found = None;
    for (place, address) in resolved.iter().enumerate() {
        match connect(address) {
            Ok(stream) => {
                found = Some((place, *address, stream));
                break;
            }
            Err(error) => left_out.push((*address, host::words(&error))),
        }
    }
    let Some((place, first, stream)) = found else {
        let reasons: Vec<String> =
            left_out.iter().map(|(address, why)| format!("{address}: {why}")).collect();
        return Err(LoadError::new(
            format!("nothing accepts a connection at {authority} ({})", reasons.join("; ")),
            "check that the server is running and that the port is correct",
        ));
    };
    resolved.rotate_left(place);
    if !are_spread {
        // The others are tried again when it refuses.
        return Ok((Addresses { used: resolved, are_spread, left_out: Vec::new() }, stream));
    }
    let is_of_family = |address: &SocketAddr| address.is_ipv4() == first.is_ipv4();
    left_out.retain(|(address, _)| is_of_family(address));
    let others: Vec<SocketAddr> = resolved
        .iter()
        .skip(1)
        .copied()
        .filter(|address| is_of_family(address) && left_out.iter().all(|(refused, _)| refused != address))
        .collect();
    // Together: one that does not answer needs the whole patience.
    let tried: Vec<std::io::Result<S>> = std::thread::scope(|scope| {
        let threads: Vec<_> = others.iter().map(|address| scope.spawn(|| connect(address))).collect();
        let panicked = |_| Err(std::io::Error::other("the attempt to connect broke down"));
        threads.into_iter().map(|thread| thread.join().unwrap_or_else(panicked)).collect()
    });
    let mut used = vec![first];
    for (address, tried) in others.into_iter().zip(tried) {
        match tried {
            Ok(_) => used.push(address),
            Err(error) => left_out.push((address, host::words(&error))),
        }
    }
    used.sort();
    left_out.sort();
    Ok((Addresses { used, are_spread, left_out }, stream))
}

#[cfg(test)]
mod tests {
    use std::io::{Error, ErrorKind};

    use super::*;

    /// Chooses from these addresses; those with port 1 refuse.
    fn chosen(addresses: &[&str], are_spread: bool) -> Result<(Vec<String>, Vec<String>), String> {
        let resolved = addresses.iter().map(|text| text.parse().unwrap()).collect();
        let connect = |address: &SocketAddr| match address.port() {
            1 => Err(Error::from_raw_os_error(111)),
            2 => Err(Error::from(ErrorKind::TimedOut)),
            _ => Ok(()),
        };
        let texts = |addresses: &[SocketAddr]| addresses.iter().map(SocketAddr::to_string).collect();
        let (found, ()) = choose(resolved, are_spread, "a:80", connect).map_err(|error| error.what)?;
        let left_out = found.left_out.iter().map(|(address, why)| format!("{address} {why}"));
        Ok((texts(&found.used), left_out.collect()))
    }

    #[test]
    fn all_addresses_of_one_family_that_accept_are_used_in_one_order() {
        let refused = "connection refused";
        for (addresses, used, left_out) in [
            (&["10.0.0.2:80", "10.0.0.1:80"][..], &["10.0.0.1:80", "10.0.0.2:80"][..], vec![]),
            (&["10.0.0.1:80", "10.0.0.2:80"], &["10.0.0.1:80", "10.0.0.2:80"], vec![]),
            // The family of the first one.
            (&["[::2]:80", "10.0.0.1:80", "[::1]:80"], &["[::1]:80", "[::2]:80"], vec![]),
            (&["10.0.0.1:80", "[::1]:80"], &["10.0.0.1:80"], vec![]),
            // The first one that accepts.
            (&["[::1]:1", "10.0.0.1:80", "10.0.0.2:80"], &["10.0.0.1:80", "10.0.0.2:80"], vec![]),
            (
                &["10.0.0.3:1", "10.0.0.2:80", "10.0.0.1:1", "10.0.0.4:80"],
                &["10.0.0.2:80", "10.0.0.4:80"],
                vec![format!("10.0.0.1:1 {refused}"), format!("10.0.0.3:1 {refused}")],
            ),
            (&["10.0.0.3:80", "10.0.0.2:1"], &["10.0.0.3:80"], vec![format!("10.0.0.2:1 {refused}")]),
        ] {
            let used: Vec<String> = used.iter().map(ToString::to_string).collect();
            assert_eq!(chosen(addresses, true), Ok((used, left_out)), "{addresses:?}");
        }
        assert_eq!(
            chosen(&["10.0.0.1:1", "[::1]:1"], true).unwrap_err(),
            "nothing accepts a connection at a:80 (10.0.0.1:1: connection refused; [::1]:1: connection refused)"
        );
    }

    #[test]
    fn the_first_address_that_accepts_is_followed_by_the_others() {
        let (used, left_out) = chosen(&["[::1]:1", "10.0.0.2:80", "10.0.0.1:80"], false).unwrap();
        assert_eq!(used, ["10.0.0.2:80", "10.0.0.1:80", "[::1]:1"]);
        assert!(left_out.is_empty());
        let found = Addresses::in_order(vec!["10.0.0.2:80".parse().unwrap(), "10.0.0.1:80".parse().unwrap()]);
        let mut turn = Turn { index: 3, of: 4, opened: 0 };
        let all: Vec<Option<usize>> = (0..3).map(|tried| found.next(&mut turn, tried)).collect();
        assert_eq!(all, [Some(0), Some(1), None]);
        assert_eq!(found.words(), "10.0.0.2:80");
    }

    #[test]
    fn connections_of_all_workers_are_spread_evenly_and_those_of_each_in_turn() {
        for (workers, addresses) in
            (1..=6u64).flat_map(|workers| (1..=5usize).map(move |addresses| (workers, addresses)))
        {
            for connections in 1..=12u64 {
                let mut counts = vec![0u64; addresses];
                // The first ones have one connection more.
                for index in 0..workers {
                    let mut turn = Turn { index, of: workers, opened: 0 };
                    let own = connections / workers + u64::from(index < connections % workers);
                    (0..own).for_each(|_| counts[turn.next(addresses)] += 1);
                }
                let (least, most) = (counts.iter().min().unwrap(), counts.iter().max().unwrap());
                let case = format!("{connections} of {workers} workers to {addresses} addresses: {counts:?}");
                assert!(most - least <= 1, "{case}");
            }
            let mut turn = Turn { index: 0, of: workers, opened: 0 };
            let mut counts = vec![0u64; addresses];
            (0..60).for_each(|_| counts[turn.next(addresses)] += 1);
            assert!(counts.iter().all(|count| *count == 60 / addresses as u64), "{workers} {counts:?}");
        }
        let mut turn = Turn { index: 0, of: 1, opened: 0 };
        assert_eq!((0..5).map(|_| turn.next(2)).collect::<Vec<_>>(), [0, 1, 0, 1, 0]);
    }

    #[test]
    fn loopback_names_are_one_host() {
        for (host, expected) in [
            ("localhost", true),
            ("LocalHost.", true),
            ("localhost.localdomain", true),
            ("ip6-loopback", true),
            ("web.localhost", true),
            ("multi.test", false),
            ("localhoster", false),
            ("127.0.0.1", false),
            ("web1", false),
        ] {
            assert_eq!(is_loopback_name(host), expected, "{host}");
        }
    }

    #[test]
    fn facts_have_the_share_of_each_address_where_there_are_several() {
        let of = |used: &[&str], are_spread| Addresses {
            used: used.iter().map(|text| text.parse().unwrap()).collect(),
            are_spread,
            left_out: vec![("10.0.0.9:80".parse().unwrap(), "connection refused".into())],
        };
        let counts = [AddressCounts { connections: 2, requests: 9, failed: 1 }, AddressCounts::default()];
        let mut facts = BTreeMap::new();
        of(&["10.0.0.1:80", "10.0.0.2:80"], true).add_facts(&counts, &mut facts);
        let texts: Vec<String> = facts.iter().map(|(name, level)| format!("{name}={level}")).collect();
        assert_eq!(
            texts,
            [
                "address.connections.10.0.0.1:80=2",
                "address.connections.10.0.0.2:80=0",
                "address.failed.10.0.0.1:80=1",
                "address.failed.10.0.0.2:80=0",
                "address.left_out=10.0.0.9:80 (connection refused)",
                "address.requests.10.0.0.1:80=9",
                "address.requests.10.0.0.2:80=0",
            ]
        );
        assert!(facts.keys().filter(|name| combined(name) == Some(Combined::Sum)).count() == 6);
        facts.clear();
        of(&["10.0.0.1:80"], true).add_facts(&counts, &mut facts);
        assert_eq!(facts.keys().collect::<Vec<_>>(), ["address.left_out"]);
    }
}
