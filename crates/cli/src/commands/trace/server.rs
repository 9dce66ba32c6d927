//! The number of operations from a directory server's own statistics, read over LDAP.

use std::collections::BTreeMap;

use ldap::Filter;
use ldap::message::{List, Scope, SearchRequest};
use ldap::session::wait::Interrupt;
use ldap::session::{Options, SearchItem, Server, Session, SessionError};
use model::Secret;

/// How to reach the server.
pub(super) struct Access<'a> {
    pub(super) url: &'a str,
    pub(super) bind_dn: Option<&'a str>,
    pub(super) password: Option<Secret>,
}

/// The statistics of one kind of server.
struct Statistics {
    server: &'static str,
    base: &'static str,
    scope: Scope,
    attributes: &'static [&'static str],
}

/// OpenLDAP has an entry for each operation, 389 Directory Server an attribute.
static KINDS: [Statistics; 2] = [
    Statistics {
        server: "OpenLDAP",
        base: "cn=Operations,cn=Monitor",
        scope: Scope::OneLevel,
        attributes: &["monitorOpCompleted"],
    },
    Statistics {
        server: "389 Directory Server",
        base: "cn=snmp,cn=monitor",
        scope: Scope::Base,
        attributes: &[
            "unauthbinds",
            "simpleauthbinds",
            "strongauthbinds",
            "searchops",
            "modifyentryops",
            "addentryops",
            "removeentryops",
            "modifyrdnops",
            "compareops",
        ],
    },
];

/// The operations that are counted.
const OPERATIONS: [&str; 7] = ["bind", "search", "modify", "add", "delete", "modrdn", "compare"];

/// The operation of an attribute of 389 Directory Server.
fn operation_of(attribute: &str) -> Option<&'static str> {
    Some(match attribute {
        "unauthbinds" | "simpleauthbinds" | "strongauthbinds" => "bind",
        "searchops" => "search",
        "modifyentryops" => "modify",
        "addentryops" => "add",
        "removeentryops" => "delete",
        "modifyrdnops" => "modrdn",
        "compareops" => "compare",
        _ => return None,
    })
}

type Counts = BTreeMap<&'static str, u64>;

/// A session that reads the statistics.
pub(super) struct ServerCounts {
    session: Session,
    kind: &'static Statistics,
    before: Counts,
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
        for kind in &KINDS {
            // A server of the other kind answers that there is no such entry.
            match counts(&mut session, kind) {
                Ok(before) if !before.is_empty() => return Ok(ServerCounts { session, kind, before }),
                Ok(_) => {}
                Err(error) if error.session_goes_on() => {}
                Err(error) => return Err(failed(error)),
            }
        }
        let bases: Vec<&str> = KINDS.iter().map(|kind| kind.base).collect();
        Err(format!(
            "{} has no readable statistics below {}\n  OpenLDAP: load back_monitor and configure \"database monitor\"; otherwise \
             bind as an administrator with --bind-dn and --password",
            access.url,
            bases.join(" or ")
        ))
    }

    /// The name of the server and the entry that is read.
    pub(super) fn method(&self) -> String {
        format!("{} of {}", self.kind.base, self.kind.server)
    }

    /// Operations since the previous read, without the search that reads them.
    pub(super) fn read(&mut self) -> Result<Vec<(String, u64)>, String> {
        let now = counts(&mut self.session, self.kind).map_err(|error| error.to_string())?;
        let before = std::mem::replace(&mut self.before, now);
        let increase = |name: &'static str| {
            let since = self.before.get(name)?.checked_sub(*before.get(name)?)?;
            Some((name.to_string(), if name == "search" { since.saturating_sub(1) } else { since }))
        };
        Ok(OPERATIONS.into_iter().filter_map(increase).collect())
    }
}

fn counts(session: &mut Session, kind: &Statistics) -> Result<Counts, SessionError> {
    let filter = Filter::Present("objectClass".into());
    let request = SearchRequest {
        scope: kind.scope,
        attributes: List::from(kind.attributes),
        ..SearchRequest::subtree(kind.base, &filter)
    };
    let mut search = session.search(request, None)?;
    let mut counts = Counts::new();
    while let Some(item) = search.next()? {
        let SearchItem::Entry { dn, attributes, .. } = item else { continue };
        for attribute in attributes {
            let name = attribute.name.to_ascii_lowercase();
            let operation = match name.as_str() {
                "monitoropcompleted" => entry_operation(dn),
                name => operation_of(name),
            };
            let value = attribute.values.into_iter().next();
            let value = value.and_then(|value| std::str::from_utf8(value.0).ok()?.trim().parse::<u64>().ok());
            if let (Some(operation), Some(value)) = (operation, value) {
                let sum = counts.entry(operation).or_default();
                *sum = sum.saturating_add(value);
            }
        }
    }
    Ok(counts)
}

/// The operation of `cn=Search,cn=Operations,cn=Monitor`.
fn entry_operation(dn: &str) -> Option<&'static str> {
    let name = dn.split(',').next()?.split_once('=')?.1.trim().to_ascii_lowercase();
    OPERATIONS.into_iter().find(|operation| *operation == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_and_attributes_are_operations() {
        assert_eq!(entry_operation("cn=Modrdn,cn=Operations,cn=Monitor"), Some("modrdn"));
        for dn in ["cn=Unbind,cn=Operations,cn=Monitor", "cn", "", "=,"] {
            assert_eq!(entry_operation(dn), None, "{dn}");
        }
        let known = KINDS[1].attributes.iter().filter_map(|attribute| operation_of(attribute));
        assert!(OPERATIONS.iter().all(|operation| known.clone().any(|known| known == *operation)));
    }
}
