//! The operations that the server counted, beside those of the load: a load that miscounts, or another client, shows.

use ldap::session::statistics::{OperationCounts, ServerStatistics};

use super::server;
use super::settings::{Identity, Kind, LdapPlan};

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

    /// The operations of each kind since then; none of a kind that the server does not count.
    pub(super) fn since(&mut self, kinds: &[&'static str]) -> Vec<(&'static str, u64)> {
        let Ok(now) = self.statistics.read() else { return Vec::new() };
        let of = |kind: &&'static str| Some((*kind, now.get(kind)?.checked_sub(*self.begin.get(kind)?)?));
        kinds.iter().filter_map(of).collect()
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
