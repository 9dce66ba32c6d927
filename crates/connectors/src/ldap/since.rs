//! The watermark of a directory: a cookie, a time or a number of the server, never a time of the local clock.

use ldap::controls::SHOW_DELETED;
use ldap::filter::Assertion;
use ldap::message::{List, Operation, Scope, SearchRequest};
use ldap::session::{SearchItem, Session, SessionError};
use ldap::{Control, Filter};

use super::{Directory, entry, text_of};
use crate::ldap::settings::Delta;
use metadir::agent::AgentError;
use metadir::hologram::Hash;

/// The position up to which a directory was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Since {
    /// The cookie of a content synchronization.
    Cookie(Vec<u8>),
    /// A second; changes within it may or may not have been read.
    Time(String),
    /// All changes up to this number (USN) of this server were read.
    Usn { server: String, usn: u64 },
}

impl Since {
    fn delta(&self) -> Delta {
        match self {
            Since::Cookie(_) => Delta::ContentSynchronization,
            Since::Time(_) => Delta::ModifyTimestamp,
            Since::Usn { .. } => Delta::Usn,
        }
    }

    /// Encodes the watermark: its kind, a fingerprint of the settings, and its value.
    pub(super) fn write(&self, directory: &Directory) -> String {
        let what = match self {
            Since::Cookie(cookie) => hex(cookie),
            Since::Time(time) => time.clone(),
            Since::Usn { server, usn } => format!("{usn}@{server}"),
        };
        format!("{} {} {what}", self.delta().name(), fingerprint(directory))
    }

    /// Decodes a watermark.
    pub(super) fn parse(text: &str, directory: &Directory) -> Result<Since, AgentError> {
        let settings = &directory.settings;
        let Some(delta) = settings.delta else {
            let why = "there is no `delta` in its settings, so changes are not queried: run a full-import";
            return Err(AgentError::NotSupported(why.into()));
        };
        let mut words = text.splitn(3, ' ');
        let mut next = || words.next().unwrap_or_default();
        let (name, of, what) = (next(), next(), next());
        if name != delta.name() || of != fingerprint(directory) {
            let why = "the settings of the directory have changed since the last import: run a full-import";
            return Err(AgentError::NotSupported(why.into()));
        }
        let since = match delta {
            Delta::ContentSynchronization => bytes(what).map(Since::Cookie),
            Delta::ModifyTimestamp => second(what).map(Since::Time),
            Delta::Usn => what
                .split_once('@')
                .and_then(|(usn, server)| Some(Since::Usn { server: server.into(), usn: usn.parse().ok()? })),
        };
        since.ok_or_else(|| {
            let why = "the watermark in the store is damaged: run a full-import";
            AgentError::NotSupported(why.into())
        })
    }
}

/// A fingerprint of the settings that the objects of an import depend on.
fn fingerprint(directory: &Directory) -> String {
    let settings = &directory.settings;
    let names = |names: &[ldap::Dn]| names.iter().map(ldap::Dn::normalized).collect::<Vec<_>>().join("\n");
    let parts = [
        names(&settings.bases),
        names(&settings.exclude),
        settings.filter.to_string(),
        directory.wanted.join("\n"),
        directory.anchor.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>().join("\n"),
    ];
    format!("{:?}", Hash::of(format!("{parts:?}").as_bytes()))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn bytes(hex: &str) -> Option<Vec<u8>> {
    let digits = hex.as_bytes();
    if !digits.len().is_multiple_of(2) || !digits.iter().all(u8::is_ascii_hexdigit) {
        return None;
    }
    (0..digits.len()).step_by(2).map(|at| u8::from_str_radix(&hex[at..at + 2], 16).ok()).collect()
}

/// A generalized time in UTC (RFC 4517, section 3.3.13) without fractions of a second.
fn second(text: &str) -> Option<String> {
    let (digits, rest) = text.split_at_checked(14)?;
    let fraction = rest.strip_suffix('Z')?;
    let is_fraction = fraction.is_empty()
        || fraction
            .strip_prefix(['.', ','])
            .is_some_and(|rest| rest.bytes().all(|byte| byte.is_ascii_digit()));
    (digits.bytes().all(|byte| byte.is_ascii_digit()) && is_fraction).then(|| format!("{digits}Z"))
}

/// A filter for objects that have at least this value of an attribute.
pub(super) fn at_least(filter: &Filter, attribute: &str, value: &str) -> Filter {
    let least = Assertion { attribute: attribute.into(), value: value.into() };
    Filter::And(vec![filter.clone(), Filter::GreaterOrEqual(least)])
}

/// A filter for objects with a value of an attribute that is greater than this one.
pub(super) fn beyond(filter: &Filter, attribute: &str, value: &str) -> Filter {
    let same = Filter::Equal(Assertion { attribute: attribute.into(), value: value.into() });
    let least = Assertion { attribute: attribute.into(), value: value.into() };
    Filter::And(vec![filter.clone(), Filter::GreaterOrEqual(least), Filter::Not(Box::new(same))])
}

const MODIFY_TIMESTAMP: &str = "modifyTimestamp";
const OBJECT_GUID: &str = "objectGUID";

/// The newest change time below the bases, not older than the known one. It is read before the entries: later
/// changes are not older than it, so the next import reads them again.
pub(super) fn newest(
    session: &mut Session,
    directory: &Directory,
    since: Option<&str>,
) -> Result<String, AgentError> {
    let settings = &directory.settings;
    let what = || format!("asking {} for the newest change", settings.server);
    let failed = |error: SessionError| AgentError::system(what(), error);
    let mut newest = since.map(String::from);
    let mut take = |text: &[u8]| {
        let text = String::from_utf8_lossy(text);
        let time = second(&text).ok_or_else(|| {
            AgentError::system(what(), format!("{MODIFY_TIMESTAMP} {text:?} is not a time in UTC"))
        })?;
        if newest.as_ref().is_none_or(|newest| *newest < time) {
            newest = Some(time);
        }
        Ok::<(), AgentError>(())
    };
    let filter = match since {
        Some(since) => at_least(&settings.filter, MODIFY_TIMESTAMP, since),
        None => settings.filter.clone(),
    };
    for base in &settings.bases {
        let base = base.to_string();
        if since.is_none() {
            // The base itself has a time even if it has no objects below it yet.
            let above = entry(session, &base, &[MODIFY_TIMESTAMP]).map_err(failed)?.unwrap_or_default();
            above.get("modifytimestamp").into_iter().flatten().try_for_each(|value| take(value))?;
        }
        let wanted = [MODIFY_TIMESTAMP];
        let request =
            SearchRequest { attributes: List::from(&wanted), ..SearchRequest::subtree(&base, &filter) };
        let mut search = session.search(request, Some(settings.page_size)).map_err(failed)?;
        while let Some(found) = search.next().map_err(failed)? {
            if let SearchItem::Entry { attributes, .. } = found {
                let of_time =
                    attributes.iter().filter(|found| found.name.eq_ignore_ascii_case(MODIFY_TIMESTAMP));
                let mut values = of_time.flat_map(|attribute| attribute.values);
                values.try_for_each(|value| take(value.0))?;
            }
        }
    }
    newest.ok_or_else(|| {
        let why = format!(
            "no entry has a readable {MODIFY_TIMESTAMP}: allow this account to read it, or remove `delta`"
        );
        AgentError::system(what(), why)
    })
}

/// The highest change number (USN) of an Active Directory server, and the identity of the server: each server
/// has its own numbers, and a restored one begins anew. Also the naming context of a base, which has its
/// deleted objects.
pub(super) fn last_usn(
    session: &mut Session,
    directory: &Directory,
) -> Result<(Since, Vec<String>), AgentError> {
    let settings = &directory.settings;
    let what = || format!("asking {} for its last change", settings.server);
    let failed = |error: SessionError| AgentError::system(what(), error);
    let wanted = ["highestCommittedUSN", "dsServiceName", "namingContexts"];
    let root = entry(session, "", &wanted).map_err(failed)?.unwrap_or_default();
    let usn = text_of(&root, wanted[0]).and_then(|usn| usn.parse().ok()).ok_or_else(|| {
        let why = "its root entry has no highestCommittedUSN: `delta = \"usn\"` is for Active Directory";
        AgentError::system(what(), why)
    })?;
    let service = text_of(&root, wanted[1]).unwrap_or_default();
    let mut server = service.clone();
    if !service.is_empty()
        && let Some(service) = entry(session, &service, &["invocationId"]).map_err(failed)?
        && let Some(id) = service.get("invocationid").and_then(|values| values.first())
    {
        server = hex(id);
    }
    let contexts: Vec<ldap::Dn> = root
        .get("namingcontexts")
        .into_iter()
        .flatten()
        .filter_map(|name| ldap::Dn::parse(&String::from_utf8_lossy(name)).ok())
        .collect();
    let mut of_bases: Vec<String> = Vec::new();
    for base in &settings.bases {
        let around = contexts.iter().filter(|context| base.is_within(context));
        let context = around.max_by_key(|context| context.rdns().len()).unwrap_or(base).to_string();
        if !of_bases.contains(&context) {
            of_bases.push(context);
        }
    }
    Ok((Since::Usn { server, usn }, of_bases))
}

/// Checks that the account sees the deleted objects of a naming context. Otherwise a delta import would miss deletions
/// without an error.
pub(super) fn check_deleted(
    session: &mut Session,
    directory: &Directory,
    context: &str,
) -> Result<(), AgentError> {
    let container = format!("CN=Deleted Objects,{context}");
    let failed = |error: SessionError| {
        let what = format!("asking {} for {container}", directory.settings.server);
        AgentError::system(what, error)
    };
    let filter = Filter::everything();
    let wanted = [OBJECT_GUID];
    let request = SearchRequest {
        scope: Scope::Base,
        attributes: List::from(&wanted),
        ..SearchRequest::subtree(&container, &filter)
    };
    let request = Operation::SearchRequest(request);
    session.submit(&request, &[Control::critical(SHOW_DELETED)]).map_err(failed)?;
    let mut is_seen = false;
    loop {
        match session.next_response().map_err(failed)?.operation {
            // Others see the name without attributes, or nothing.
            Operation::SearchResultEntry { attributes, .. } => {
                is_seen |= attributes.iter().any(|found| found.values.iter().next().is_some());
            }
            Operation::SearchResultDone(_) if is_seen => return Ok(()),
            Operation::SearchResultDone(_) => {
                let why = format!(
                    "this account does not see {container}, so that a delta import would miss deletions: give it the \
                    rights to list that container and to read its properties, or run a full-import"
                );
                return Err(AgentError::NotSupported(why));
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_whole_seconds_in_utc() {
        for (text, expected) in [
            ("20261122080830Z", Some("20261122080830Z")),
            ("20261122080830.0Z", Some("20261122080830Z")),
            ("20261122080830.123456Z", Some("20261122080830Z")),
            ("20261122080830+0100", None),
            ("20261122080830.xZ", None),
            ("202611220808Z", None),
            ("2026112208083éZ", None),
            ("", None),
        ] {
            assert_eq!(second(text).as_deref(), expected, "{text}");
        }
    }

    #[test]
    fn cookies_are_kept_as_digits() {
        let cookie = b"rid=000,csn=\x00\xff";
        assert_eq!(bytes(&hex(cookie)).as_deref(), Some(&cookie[..]));
        for wrong in ["a", "zz", "é0"] {
            assert_eq!(bytes(wrong), None, "{wrong}");
        }
    }
}
