//! The connected systems of an export as those of the metadirectory.

use std::collections::BTreeSet;

use super::export::{Agent, Connection, Directory, TableConnection};
use super::function::{attribute, quoted};
use super::write::{list, string};

/// The attribute with the type of an object, where a system has several types and none of its own.
pub(super) const TYPE_ATTRIBUTE: &str = "objectType";

/// A system as it is written.
pub(super) struct SystemText {
    /// The lines of its table, without its head.
    pub(super) lines: Vec<String>,
    /// Whether the same system is connected; otherwise a text file replaces it.
    pub(super) is_same: bool,
    /// What has to be completed.
    pub(super) help: String,
}

/// What the rules of an agent use.
pub(super) struct Used<'a> {
    pub(super) name: &'a str,
    pub(super) attributes: &'a BTreeSet<String>,
    pub(super) references: &'a BTreeSet<String>,
}

/// The table of an agent.
pub(super) fn system(agent: &Agent, used: &Used<'_>) -> SystemText {
    let mut text = match &agent.connection {
        Connection::Directory(of) => directory(of, used),
        Connection::Table(of) => table(agent, of, used),
        Connection::Other => file(agent, used),
    };
    if !used.references.is_empty() {
        text.lines.push(format!("references = {}", list(used.references)));
    }
    text
}

fn directory(of: &Directory, used: &Used<'_>) -> SystemText {
    let port = of.port.as_ref().map_or(String::new(), |port| format!(":{port}"));
    let scheme = if of.is_tls { "ldaps" } else { "ldap" };
    let mut lines = vec![
        "type = \"ldap\"".to_string(),
        format!("url = {}", string(&format!("{scheme}://{}{port}", of.host))),
    ];
    if !of.is_tls {
        lines.push("start_tls = true".into());
    }
    if let Some(user) = &of.user {
        lines.push(format!("bind_dn = {}", string(user)));
        lines.push(format!("password_file = {}", string(&format!("{}.password", used.name))));
    }
    lines.push(format!("base = {}", list(&of.bases)));
    // An excluded container outside of the included ones excludes nothing.
    let is_below = |name: &&String| {
        let name = name.to_lowercase();
        of.bases.iter().any(|base| name.ends_with(&format!(",{}", base.to_lowercase())))
    };
    let exclude: Vec<&String> = of.exclude.iter().filter(is_below).collect();
    if !exclude.is_empty() {
        lines.push(format!("exclude = {}", list(exclude)));
    }
    let classes: Vec<String> = of
        .classes
        .iter()
        .filter(|class| is_entry(class))
        .map(|class| format!("(objectClass={class})"))
        .collect();
    match classes.as_slice() {
        [] => {}
        [one] => lines.push(format!("filter = {}", string(one))),
        several => lines.push(format!("filter = {}", string(&format!("(|{})", several.concat())))),
    }
    let mut read: BTreeSet<String> = used.attributes.difference(used.references).cloned().collect();
    read.retain(|name| !matches!(name.as_str(), "dn" | "objectGUID"));
    read.insert("objectClass".into());
    lines.push(format!("attributes = {}", list(&read)));
    lines.push("anchor = \"objectGUID\"".into());
    lines.push("delta = \"usn\"".into());
    SystemText { lines, is_same: true, help: format!("write the password to {}.password", used.name) }
}

/// Whether a class is one of entries that hold identities, not of the tree around them.
fn is_entry(class: &str) -> bool {
    !matches!(class, "container" | "domainDNS" | "organizationalUnit" | "configuration" | "builtinDomain")
}

fn table(agent: &Agent, of: &TableConnection, used: &Used<'_>) -> SystemText {
    // Keywords of libpq: blanks and quotes are escaped in a text between quotes.
    let word = |text: &str| format!("'{}'", text.replace('\\', "\\\\").replace('\'', "\\'"));
    let host = if of.server.is_empty() { "localhost" } else { of.server.as_str() };
    let mut connection = format!("host={} dbname={}", word(host), word(&of.database));
    if let Some(user) = &of.user {
        connection += &format!(" user={}", word(user));
    }
    connection += " sslmode=verify-full";
    let columns: BTreeSet<String> =
        used.attributes.iter().filter(|name| !agent.anchor.contains(name)).cloned().collect();
    let lines = vec![
        "type = \"sql\"".to_string(),
        format!("postgres = {}", string(&connection)),
        format!("table = {}", string(&of.table)),
        format!("columns = {}", list(&columns)),
        format!("anchor = {}", list(&agent.anchor)),
    ];
    let several = if of.has_multivalued { "; name the tables with several values in `values`" } else { "" };
    let delta = if of.has_delta { "; describe the table of changes in `delta`" } else { "" };
    SystemText {
        lines,
        is_same: false,
        help: format!(
            "copy the table or view to PostgreSQL or SQLite, or read a text file that the database writes{several}{delta}"
        ),
    }
}

/// A text file in place of a system that is not supported.
fn file(agent: &Agent, used: &Used<'_>) -> SystemText {
    let anchor = match agent.anchor.is_empty() {
        true => vec!["id".to_string()],
        false => agent.anchor.clone(),
    };
    SystemText {
        lines: vec![
            "type = \"delimited\"".to_string(),
            format!("path = {}", string(&format!("{}.csv", used.name))),
            "value_separator = \"|\"".into(),
            format!("anchor = {}", list(&anchor)),
        ],
        is_same: false,
        help: "connect a system that is supported: a text file, an SQL table, a directory or a SCIM service"
            .into(),
    }
}

/// The condition that an object has this type; none where all objects of the agent have one type.
pub(super) fn objects(agent: &Agent, object_type: &str, types: &BTreeSet<&str>) -> Option<String> {
    match &agent.connection {
        Connection::Directory(_) => {
            let is = |class: &str| format!("{} in cs.objectClass", quoted(class));
            // A computer is a user too.
            let not = types.contains("computer") || object_type == "user";
            Some(match not && object_type == "user" {
                true => format!("{} && !({})", is("user"), is("computer")),
                false => is(object_type),
            })
        }
        Connection::Table(TableConnection { type_column: Some(column), .. }) => {
            Some(format!("{} == {}", attribute("cs", column), quoted(object_type)))
        }
        _ if types.len() < 2 => None,
        _ => Some(format!("{} == {}", attribute("cs", TYPE_ATTRIBUTE), quoted(object_type))),
    }
}

/// What an agent connects, in words.
pub(super) fn category(agent: &Agent) -> String {
    match agent.category.as_str() {
        "" => "its system".into(),
        "FIM" => "the portal (FIM Service)".into(),
        "MSSQL" => "Microsoft SQL Server".into(),
        "Extensible2" => "an ECMA 2 connector".into(),
        other => other.to_string(),
    }
}
