//! The operations that the server counted, beside those of the load: a load that miscounts, or another client, shows.

use std::time::Duration;

use ldap::session::statistics::{OperationCounts, ServerStatistics};
use ldap::session::{Options, Security, Session};

use super::settings::{Identity, Kind, LdapPlan};

/// How long the server may take to accept the session.
const PATIENCE: Duration = Duration::from_secs(5);

/// The server's counts since the load was prepared.
pub(super) struct ServerCounts {
    statistics: ServerStatistics,
    begin: OperationCounts,
}

/// Operations of one kind, warm-up included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Counts {
    pub(super) client: u64,
    pub(super) server: u64,
}

impl ServerCounts {
    /// Begins to count; none if the server has no statistics that the load's identity may read, or is reached over TLS.
    pub(super) fn begin(plan: &LdapPlan) -> Option<ServerCounts> {
        if plan.server.security != Security::None {
            return None;
        }
        let options = Options { connect_timeout: PATIENCE, response_timeout: PATIENCE, ..Options::default() };
        let mut session = Session::connect(&plan.server, &options).ok()?;
        match &plan.identity {
            Identity::Anonymous => {}
            Identity::Simple { dn, password } => session.bind(dn, password.reveal().as_bytes()).ok()?,
            Identity::External => session.bind_external().ok()?,
        }
        let mut statistics = ServerStatistics::open(session).ok()??;
        let begin = statistics.read().ok()?;
        Some(ServerCounts { statistics, begin })
    }

    /// The kinds that the load has, each with both counts. Binds are left out where connections bind besides.
    pub(super) fn compare(&mut self, kinds: &[(Kind, u64)], plan: &LdapPlan) -> Vec<(&'static str, Counts)> {
        let Ok(now) = self.statistics.read() else { return Vec::new() };
        let of = |operation: &'static str, wanted: &[Kind]| {
            let client: u64 =
                kinds.iter().filter(|(kind, _)| wanted.contains(kind)).map(|(_, times)| times).sum();
            let server = now.get(operation)?.checked_sub(*self.begin.get(operation)?)?;
            (client > 0).then_some((operation, Counts { client, server }))
        };
        let binds: &[Kind] = match plan.identity {
            Identity::Anonymous => &[Kind::Bind, Kind::Login],
            _ => &[],
        };
        [
            of("bind", binds),
            of("search", &[Kind::Search, Kind::Login]),
            of("modify", &[Kind::Modify]),
            of("add", &[Kind::Add]),
            of("delete", &[Kind::Delete]),
            of("compare", &[Kind::Compare]),
        ]
        .into_iter()
        .flatten()
        .collect()
    }
}
