//! The number of operations from a directory server's own statistics.

use std::collections::BTreeMap;

use super::{SearchItem, Session, SessionError};
use crate::Filter;
use crate::message::{List, Scope, SearchRequest};

/// The statistics of one kind of server.
#[derive(Debug)]
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

/// The entries with the statistics, for messages.
pub const BASES: [&str; 2] = ["cn=Operations,cn=Monitor", "cn=snmp,cn=monitor"];

/// The operations that are counted, in the order in which they are shown.
pub const OPERATIONS: [&str; 7] = ["bind", "search", "modify", "add", "delete", "modrdn", "compare"];

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

/// Completed operations by their names in [`OPERATIONS`], since the server started.
pub type OperationCounts = BTreeMap<&'static str, u64>;

/// A session that reads the statistics of its server.
#[derive(Debug)]
pub struct ServerStatistics {
    session: Session,
    kind: &'static Statistics,
    /// Searches of this session that the next reading contains.
    own: u64,
}

impl ServerStatistics {
    /// Finds out which statistics the server has; none if none that this session may read.
    pub fn open(mut session: Session) -> Result<Option<ServerStatistics>, SessionError> {
        for (tried, kind) in KINDS.iter().enumerate() {
            // A server of the other kind answers that there is no such entry.
            match counts(&mut session, kind) {
                Ok(found) if !found.is_empty() => {
                    return Ok(Some(ServerStatistics { session, kind, own: tried as u64 + 1 }));
                }
                Ok(_) => {}
                Err(error) if error.session_goes_on() => {}
                Err(error) => return Err(error),
            }
        }
        Ok(None)
    }

    /// The entry that is read, and of which server.
    pub fn method(&self) -> String {
        format!("{} of {}", self.kind.base, self.kind.server)
    }

    /// The counts, without the searches that read them.
    pub fn read(&mut self) -> Result<OperationCounts, SessionError> {
        let mut counts = counts(&mut self.session, self.kind)?;
        if let Some(searches) = counts.get_mut("search") {
            *searches = searches.saturating_sub(self.own);
        }
        self.own += 1;
        Ok(counts)
    }
}

fn counts(session: &mut Session, kind: &Statistics) -> Result<OperationCounts, SessionError> {
    let filter = Filter::Present("objectClass".into());
    let request = SearchRequest {
        scope: kind.scope,
        attributes: List::from(kind.attributes),
        ..SearchRequest::subtree(kind.base, &filter)
    };
    let mut search = session.search(request, None)?;
    let mut counts = OperationCounts::new();
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
