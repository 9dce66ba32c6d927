//! The number of operations from a directory server's own statistics, read over LDAP.

use ldap::session::statistics::{BASES, OPERATIONS, OperationCounts, ServerStatistics};
use ldap::session::wait::Interrupt;
use ldap::session::{Options, Server, Session, SessionError};
use model::Secret;

/// How to reach the server.
pub(super) struct Access<'a> {
    pub(super) url: &'a str,
    pub(super) bind_dn: Option<&'a str>,
    pub(super) password: Option<Secret>,
}

/// A session that reads the statistics.
pub(super) struct ServerCounts {
    statistics: ServerStatistics,
    before: OperationCounts,
}

impl ServerCounts {
    /// Connects, and finds out which statistics the server has.
    pub(super) fn open(access: &Access<'_>) -> Result<ServerCounts, String> {
        let failed = |error: SessionError| {
            format!(
                "{error}\n  the statistics of the server are read from --server; check the URL and --bind-dn"
            )
        };
        let server: Server = access.url.parse().map_err(failed)?;
        let options = Options { interrupt: Interrupt::by(crate::interrupt::flag()), ..Options::default() };
        let mut session = Session::connect(&server, &options).map_err(failed)?;
        if let Some(dn) = access.bind_dn {
            let password = access.password.as_ref().map_or("", Secret::reveal);
            session.bind(dn, password.as_bytes()).map_err(failed)?;
        }
        let Some(mut statistics) = ServerStatistics::open(session).map_err(failed)? else {
            return Err(format!(
                "{} has no readable statistics below {}\n  OpenLDAP: load back_monitor and configure \"database monitor\"; \
                 otherwise bind as an administrator with --bind-dn and --password",
                access.url,
                BASES.join(" or ")
            ));
        };
        let before = statistics.read().map_err(failed)?;
        Ok(ServerCounts { statistics, before })
    }

    /// The name of the server and the entry that is read.
    pub(super) fn method(&self) -> String {
        self.statistics.method()
    }

    /// Operations since the previous read.
    pub(super) fn read(&mut self) -> Result<Vec<(String, u64)>, String> {
        let now = self.statistics.read().map_err(|error| error.to_string())?;
        let before = std::mem::replace(&mut self.before, now);
        let increase = |name: &'static str| {
            let since = self.before.get(name)?.checked_sub(*before.get(name)?)?;
            Some((name.to_string(), since))
        };
        Ok(OPERATIONS.into_iter().filter_map(increase).collect())
    }
}
