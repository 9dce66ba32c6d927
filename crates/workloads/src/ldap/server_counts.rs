//! The operations that the server counted, beside those of the load: a load that miscounts, or another client, shows.

use std::thread;
use std::time::Duration;

use ldap::session::statistics::{OperationCounts, ServerStatistics};

use super::server;
use super::settings::{Identity, Kind, LdapPlan};

/// How often counts are read that are short, and the time between.
const READINGS: usize = 5;
const BETWEEN_READINGS: Duration = Duration::from_millis(20);

/// The server's counts since the load was prepared.
pub(super) struct ServerCounts {
    statistics: ServerStatistics,
    begin: OperationCounts,
}

impl ServerCounts {
    /// Begins to count; none if the server has no statistics that the load's identity may read.
    pub(super) fn begin(plan: &LdapPlan) -> Option<ServerCounts> {
        let mut statistics = ServerStatistics::open(server::session(plan).ok()?).ok()??;
        let begin = statistics.read().ok()?;
        Some(ServerCounts { statistics, begin })
    }

    /// The operations since then of each kind that the load has, with its own counts; none of a kind that the server does not
    /// count. slapd counts an operation after it has sent the response, so that counts that are short are read again.
    pub(super) fn since(&mut self, requests: &[(&'static str, u64)]) -> Vec<(&'static str, u64)> {
        let mut found = Vec::new();
        for at in 0..READINGS {
            if at > 0 {
                thread::sleep(BETWEEN_READINGS);
            }
            let Ok(now) = self.statistics.read() else { return found };
            let of = |(kind, _): &(&'static str, u64)| {
                Some((*kind, now.get(kind)?.checked_sub(*self.begin.get(kind)?)?))
            };
            found = requests.iter().filter_map(of).collect();
            let is_short = |(kind, counted): &(&str, u64)| {
                requests.iter().any(|(of_load, count)| of_load == kind && counted < count)
            };
            if !found.iter().any(is_short) {
                break;
            }
        }
        found
    }
}

/// The requests of a load by their kind, as a server counts them. Binds are left out where connections bind besides.
pub(super) fn requests(kinds: &[(Kind, u64)], plan: &LdapPlan) -> Vec<(&'static str, u64)> {
    let binds: &[Kind] = match plan.identity {
        Identity::Anonymous => &[Kind::Bind, Kind::Login],
        _ => &[],
    };
    let of = |wanted: &[Kind]| -> u64 {
        kinds.iter().filter(|(kind, _)| wanted.contains(kind)).map(|(_, times)| times).sum()
    };
    [
        ("bind", of(binds)),
        ("search", of(&[Kind::Search, Kind::Login])),
        ("modify", of(&[Kind::Modify])),
        ("add", of(&[Kind::Add])),
        ("delete", of(&[Kind::Delete])),
        ("compare", of(&[Kind::Compare])),
    ]
    .into_iter()
    .filter(|(_, count)| *count > 0)
    .collect()
}
