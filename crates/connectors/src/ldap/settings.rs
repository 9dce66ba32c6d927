//! `type = "ldap"`.

use std::path::PathBuf;
use std::time::Duration;

use ldap::session::{Security, Server};
use ldap::{Dn, Filter};
use toml::de::DeValue;

use metadir::Interrupt;
use metadir::agent::System;
use metadir::config::Exposure;
use metadir::config::{Part, Reader, span_of};
use metadir::naming::is_attribute_name;
use metadir::network::is_this_host;
use metadir::password::Password;

/// An LDAP directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Ldap {
    /// The server and its transport security.
    pub(crate) server: Server,
    /// The file of the certificate authority; none for the authorities that the host trusts.
    pub(crate) ca_file: Option<PathBuf>,
    /// The bind identity; none for anonymous.
    pub(crate) bind: Option<Bind>,
    /// The search bases. Entries below them, and the bases themselves, are objects if the filter matches.
    pub(crate) bases: Vec<Dn>,
    /// Entries below these names are excluded.
    pub(crate) exclude: Vec<Dn>,
    /// The filter for objects.
    pub(crate) filter: Filter,
    /// The attributes that are read; if empty, every user attribute.
    pub(crate) attributes: Vec<String>,
    /// Number of entries per page.
    pub(crate) page_size: u32,
    /// Timeout of a wait without progress.
    pub(crate) timeout: Duration,
    /// Interrupts every wait.
    pub(crate) interrupt: Interrupt,
    /// Limit of the connections of an export.
    pub(crate) connections: usize,
    /// How the directory reports changes; none without delta imports.
    pub(crate) delta: Option<Delta>,
}

/// The bind identity.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Bind {
    /// The bind DN.
    pub(crate) dn: String,
    /// The place of the password.
    pub(crate) password: Password,
}

/// How a directory reports changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Delta {
    /// Content synchronization (RFC 4533): changes and deletions since a cookie.
    ContentSynchronization,
    /// Entries whose `modifyTimestamp` is not older than the newest known one. Does not report deletions.
    ModifyTimestamp,
    /// Entries whose `uSNChanged` is greater than the greatest known one, and tombstones: Active Directory.
    Usn,
}

impl Delta {
    const NAMES: [(&'static str, Delta); 3] = [
        ("content-synchronization", Delta::ContentSynchronization),
        ("modifyTimestamp", Delta::ModifyTimestamp),
        ("usn", Delta::Usn),
    ];

    /// Its name in a configuration.
    pub(crate) fn name(self) -> &'static str {
        Self::NAMES.iter().find(|(_, delta)| *delta == self).map_or("", |(name, _)| name)
    }

    /// The anchor by which it identifies deleted objects.
    fn anchor(self) -> Option<&'static str> {
        match self {
            Delta::ContentSynchronization => Some("entryUUID"),
            Delta::ModifyTimestamp => None,
            Delta::Usn => Some("objectGUID"),
        }
    }
}

pub(super) const KEYS: &[&str] = &[
    "existing",
    "url",
    "start_tls",
    "ca_file",
    "bind_dn",
    "password_file",
    "password_env",
    "insecure",
    "base",
    "exclude",
    "filter",
    "attributes",
    "page_size",
    "timeout_s",
    "connections",
    "delta",
];

const PAGE_SIZE: u64 = 500;
const TIMEOUT_S: u64 = 60;
const CONNECTIONS: u64 = 4;

pub(super) fn read(reader: &mut Reader, part: &Part<'_>) -> Option<Box<dyn System>> {
    let server = server(reader, part);
    let ca_file = reader.text(part, "ca_file", false).map(PathBuf::from);
    if let (Some(server), Some(_)) = (&server, &ca_file)
        && server.security == Security::None
    {
        let what = "`ca_file` has no effect on a connection without TLS";
        reader.wrong(span_of(part, "ca_file"), what, "write ldaps://, or start_tls = true");
    }
    let bind = bind(reader, part, server.as_ref());
    let bases = names(reader, part, "base");
    let has_bases = bases.len() == reader.texts(part, "base").len();
    if part.lacks("base") {
        let what = format!("{} has no `base`", part.what);
        reader.wrong(
            part.span.clone(),
            what,
            "write the name above the objects, such as base = \"ou=people,dc=example,dc=com\"",
        );
    }
    let within = |of: &Dn, bases: &[Dn]| bases.iter().any(|base| of.is_within(base));
    for (at, base) in bases.iter().enumerate() {
        let others: Vec<Dn> = bases
            .iter()
            .enumerate()
            .filter(|(other, _)| *other != at)
            .map(|(_, base)| base.clone())
            .collect();
        if within(base, &others) {
            let what = format!("entries below {base} would be read twice");
            reader.wrong(span_of(part, "base"), what, "remove one of the bases: one is below the other");
            break;
        }
    }
    let exclude = names(reader, part, "exclude");
    for outside in exclude.iter().filter(|name| !bases.is_empty() && !within(name, &bases)) {
        let what = format!("{outside} is not below a base, so that there is nothing to exclude");
        reader.wrong(span_of(part, "exclude"), what, "write a name below `base`, or remove it");
    }
    let filter = match reader.text(part, "filter", false).map(|text| Filter::parse(&text)) {
        None => Some(Filter::everything()),
        Some(Ok(filter)) => Some(filter),
        Some(Err(error)) => {
            let text = reader.text(part, "filter", false).unwrap_or_default();
            let (what, mut help) = parted(&format!("`filter` is not a filter: {error}"));
            if text.matches('(').count() > text.matches(')').count() {
                help = "close each ( with ), such as (&(objectClass=person)(uid=*))".into();
            }
            reader.wrong(span_of(part, "filter"), what, help);
            None
        }
    };
    let attributes = reader.texts(part, "attributes");
    for name in attributes.iter().filter(|name| !is_attribute_name(name)) {
        reader.wrong(
            span_of(part, "attributes"),
            format!("{name:?} is not a name of an attribute"),
            "write [\"cn\", \"mail\"], or remove `attributes` to read every user attribute",
        );
    }
    let delta = delta(reader, part, bases.len());
    let page_size = reader.number(part, "page_size", 1..=100_000).unwrap_or(PAGE_SIZE) as u32;
    let timeout = Duration::from_secs(reader.number(part, "timeout_s", 1..=3600).unwrap_or(TIMEOUT_S));
    let connections = reader.number(part, "connections", 1..=64).unwrap_or(CONNECTIONS) as usize;
    // Without all bases, the names of objects cannot be checked.
    has_bases.then_some(())?;
    Some(Box::new(Ldap {
        server: server?,
        ca_file,
        bind,
        bases,
        exclude,
        filter: filter?,
        attributes,
        page_size,
        timeout,
        interrupt: Interrupt::default(),
        connections,
        delta,
    }))
}

fn server(reader: &mut Reader, part: &Part<'_>) -> Option<Server> {
    let start_tls = reader.truth(part, "start_tls").unwrap_or(false);
    let url = reader.text(part, "url", true)?;
    match url.parse::<Server>() {
        Ok(server) if start_tls && server.security == Security::Tls => {
            let what = "`start_tls` has no effect on ldaps://, which is TLS from the start";
            reader.wrong(span_of(part, "start_tls"), what, "remove it");
            None
        }
        Ok(server) if start_tls => Some(server.with_start_tls()),
        Ok(server) => Some(server),
        // The message omits a possible password.
        Err(error) => {
            let (what, help) = parted(&error.to_string());
            reader.wrong(span_of(part, "url"), what, help);
            None
        }
    }
}

fn bind(reader: &mut Reader, part: &Part<'_>, server: Option<&Server>) -> Option<Bind> {
    let dn = reader.text(part, "bind_dn", false);
    let file = reader.text(part, "password_file", false);
    let variable = reader.text(part, "password_env", false);
    let has = |key: &str| part.has(key);
    match (has("bind_dn"), has("password_file") || has("password_env")) {
        (true, false) => {
            let help = "name its file with `password_file`, or its variable with `password_env`";
            reader.wrong(span_of(part, "bind_dn"), "`bind_dn` needs a password", help);
        }
        (false, true) => {
            let key = if has("password_file") { "password_file" } else { "password_env" };
            reader.wrong(
                span_of(part, key),
                format!("`{key}` needs a `bind_dn`"),
                "set the account of the password",
            );
        }
        _ => {}
    }
    if has("password_file") && has("password_env") {
        let what = "`password_file` and `password_env`: a password is in one of them";
        reader.wrong(span_of(part, "password_env"), what, "remove one");
    }
    let exposed = server.filter(|server| {
        dn.is_some()
            && server.security == Security::None
            && server.socket.is_none()
            && !is_this_host(&server.host)
    });
    let exposed = exposed.map(|server| Exposure {
        what: format!("the password would go to {server}"),
        help: "write ldaps:// or start_tls = true",
        span: span_of(part, "url"),
    });
    reader.exposed(part, exposed);
    if dn.as_deref().is_some_and(|dn| dn.trim().is_empty()) {
        let what = "`bind_dn` is empty";
        reader.wrong(span_of(part, "bind_dn"), what, "remove it and the password for an anonymous bind");
    }
    let password = file.map(|file| Password::File(file.into())).or(variable.map(Password::Environment));
    Some(Bind { dn: dn?, password: password? })
}

/// The parts of an error: the problem, and what to write.
fn parted(error: &str) -> (String, String) {
    match error.split_once(": write ") {
        Some((what, help)) => (what.into(), format!("write {help}")),
        None => (error.into(), "see the examples in the handbook".into()),
    }
}

/// Distinguished names.
fn names(reader: &mut Reader, part: &Part<'_>, key: &str) -> Vec<Dn> {
    let mut names = Vec::new();
    for text in reader.texts(part, key) {
        match Dn::parse(&text) {
            Ok(name) => names.push(name),
            Err(error) => {
                let (what, mut help) =
                    parted(&format!("{text:?} in `{key}` is not a distinguished name: {error}"));
                if text.contains('.') && !text.contains('=') {
                    help = format!("write \"dc={}\"", text.replace('.', ",dc="));
                }
                reader.wrong(span_of(part, key), what, help);
            }
        }
    }
    names
}

fn delta(reader: &mut Reader, part: &Part<'_>, bases: usize) -> Option<Delta> {
    let delta = reader.choice(part, "delta", &Delta::NAMES)?;
    if let Some(wanted) = delta.anchor()
        && !is_anchor(part, wanted)
    {
        let what = format!("delta = {:?} names what is gone by its {wanted}", delta.name());
        reader.wrong(span_of(part, "anchor"), what, format!("write anchor = {wanted:?}"));
    }
    if delta == Delta::ContentSynchronization {
        if bases > 1 {
            let what = "a content synchronization has one base";
            reader.wrong(span_of(part, "base"), what, "write an agent for each base");
        }
        if part.has("page_size") {
            let what = "a content synchronization has no pages";
            reader.wrong(span_of(part, "page_size"), what, "remove `page_size`");
        }
    }
    Some(delta)
}

/// Whether the anchor is this attribute alone.
fn is_anchor(part: &Part<'_>, name: &str) -> bool {
    let is_it =
        |value: &DeValue<'_>| matches!(value, DeValue::String(text) if text.eq_ignore_ascii_case(name));
    match part.get("anchor").map(|value| value.get_ref()) {
        // The check of the anchor reports that it is missing.
        None => true,
        Some(DeValue::Array(listed)) => {
            listed.len() == 1 && listed.iter().all(|value| is_it(value.get_ref()))
        }
        Some(value) => is_it(value),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use metadir::config::Mistake;
    use std::any::Any;
    use std::path::Path;

    fn parse(settings: &str) -> Result<Ldap, Vec<Mistake>> {
        let text = format!(
            "[store]\nsqlite = \"x\"\n[metaverse.person]\nattributes = {{ a = \"text\" }}\n\
             [agents.other]\ntype = \"delimited\"\npath = \"x\"\nanchor = \"a\"\n[agents.d]\ntype = \"ldap\"\n{settings}"
        );
        let mut config = crate::parse(&text)?;
        config.relative_to(Path::new("/etc/metadir"));
        let system: &dyn Any = config.agents[0].system.as_ref();
        Ok(system.downcast_ref::<Ldap>().unwrap().clone())
    }

    #[test]
    fn what_is_not_said_has_a_default() {
        let ldap =
            parse("url = \"ldap://localhost\"\nbase = \"dc=example\"\nanchor = \"entryUUID\"\n").unwrap();
        assert_eq!((ldap.page_size, ldap.timeout.as_secs(), ldap.connections), (500, 60, 4));
        assert_eq!((ldap.filter, ldap.bind, ldap.delta), (Filter::everything(), None, None));
        let ldap = parse(
            "url = \"ldap://ldap.example\"\nstart_tls = true\nca_file = \"ca.pem\"\nbind_dn = \"cn=sync\"\n\
             password_file = \"password\"\nbase = [\"ou=a,dc=example\", \"ou=b,dc=example\"]\nexclude = \"ou=x, OU=A,dc=example\"\n\
             filter = \"(objectClass=inetOrgPerson)\"\nattributes = [\"cn\", \"cn;lang-de\"]\nanchor = [\"uid\"]\ndelta = \"modifyTimestamp\"\n",
        )
        .unwrap();
        assert_eq!(ldap.server.security, Security::StartTls);
        assert_eq!(ldap.ca_file.as_deref(), Some(Path::new("/etc/metadir/ca.pem")));
        let password = Password::File("/etc/metadir/password".into());
        assert_eq!(ldap.bind, Some(Bind { dn: "cn=sync".into(), password }));
        assert_eq!((ldap.bases.len(), ldap.exclude.len(), ldap.delta), (2, 1, Some(Delta::ModifyTimestamp)));
    }

    #[test]
    fn everything_wrong_is_reported_at_once() {
        let good = "url = \"ldap://localhost\"\nbase = \"dc=example\"\nanchor = \"entryUUID\"\n";
        let cases: [(&str, &[&str]); 12] = [
            ("", &["[agents.d] has no `anchor`", "[agents.d] has no `url`", "[agents.d] has no `base`"]),
            (
                "url = \"http://me:geheim@x\"\nbase = \"example\"\nfilter = \"(a=\"\nanchor = \"a\"\nattributes = \"*\"\n",
                &[
                    "`x` is not a URL",
                    "\"example\" in `base` is no",
                    "`filter` is not a filter",
                    "\"*\" is not a name",
                ],
            ),
            (
                "url = \"ldaps://x\"\nstart_tls = true\nbase = [\"dc=a\", \"ou=b,dc=a\"]\nanchor = \"a\"\n",
                &["`start_tls` has no effect", "entries below ou=b,dc=a would be read twice"],
            ),
            (
                "url = \"ldap://x\"\nbind_dn = \"cn=a\"\npassword_env = \"P\"\nbase = \"dc=a\"\nanchor = \"a\"\n",
                &["the password would go to ldap://x:389 without TLS"],
            ),
            ("bind_dn = \"cn=a\"\n", &["`bind_dn` needs a password"]),
            ("password_file = \"p\"\n", &["`password_file` needs a `bind_dn`"]),
            (
                "bind_dn = \"cn=a\"\npassword_env = \"P\"\npassword_file = \"p\"\n",
                &["a password is in one of them"],
            ),
            ("bind_dn = \" \"\npassword_env = \"P\"\n", &["`bind_dn` is empty"]),
            ("ca_file = \"p\"\n", &["`ca_file` has no effect on a connection without TLS"]),
            ("exclude = \"dc=other\"\n", &["dc=other is not below a base"]),
            ("delta = \"usn\"\n", &["delta = \"usn\" names what is gone by its objectGUID"]),
            (
                "delta = \"content-synchronization\"\npage_size = 10\nconnections = 0\ntimeout_s = 0\n",
                &[
                    "a content synchronization has no pages",
                    "`connections` is a number",
                    "`timeout_s` is a number",
                ],
            ),
        ];
        for (settings, expected) in cases {
            let whole = match settings.contains("anchor") || settings.is_empty() {
                true => settings.to_string(),
                false => format!("{good}{settings}"),
            };
            let mistakes = parse(&whole).unwrap_err();
            assert_eq!(mistakes.len(), expected.len(), "{settings}: {mistakes:?}");
            for words in expected {
                assert!(mistakes.iter().any(|mistake| mistake.what.contains(words)), "{words}: {mistakes:?}");
            }
            assert!(!format!("{mistakes:?}").contains("geheim"));
        }
        let synchronized = format!("{good}delta = \"content-synchronization\"\n");
        assert_eq!(parse(&synchronized).unwrap().delta, Some(Delta::ContentSynchronization));
        for anchor in ["\"uid\"", "[\"entryUUID\", \"uid\"]"] {
            let mistakes = parse(&synchronized.replace("\"entryUUID\"", anchor)).unwrap_err();
            assert!(mistakes[0].what.contains("names what is gone by its entryUUID"), "{mistakes:?}");
        }
        let plain = "url = \"ldap://x\"\nbind_dn = \"cn=a\"\npassword_env = \"P\"\ninsecure = true\nbase = \"dc=a\"\nanchor = \"a\"\n";
        assert!(parse(plain).unwrap().bind.is_some());
    }
}
