//! `type = "scim"`.

use std::path::PathBuf;
use std::time::Duration;

use toml::de::DeValue;

use super::path::{Kind, Path as Attribute};
use metadir::Interrupt;
use metadir::agent::System;
use metadir::config::Exposure;
use metadir::config::{Part, Reader, span_of};
use metadir::naming::Naming;
use metadir::network::is_this_host;
use metadir::password::Password;

/// A service that supports SCIM 2.0 (RFC 7643, RFC 7644).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scim {
    /// The base URL without a slash at the end: `https://host/scim/v2`.
    pub url: String,
    /// The place of the bearer token; none for requests without a token.
    pub token: Option<Password>,
    /// The file of the certificate authorities that replace those of the system.
    pub ca_file: Option<PathBuf>,
    /// The resource type.
    pub resource: Resource,
    /// The attributes that are read and changed.
    pub attributes: Vec<Attribute>,
    /// Number of resources per page.
    pub page_size: u64,
    /// Timeout of a response.
    pub timeout: Duration,
    /// Interrupts every wait.
    pub interrupt: Interrupt,
    /// Number of concurrent requests of an export.
    pub connections: usize,
    /// Number of changes per bulk request; 0 for one request per change.
    pub bulk: usize,
    /// How a resource is changed.
    pub update: Update,
}

/// A resource type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Resource {
    /// Users, with the name `userName`.
    Users,
    /// Groups, without a unique name.
    Groups,
}

/// How a resource is changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Update {
    /// By PATCH with the changes.
    Patch,
    /// By GET and PUT of the whole resource.
    Put,
}

impl Resource {
    const NAMES: [(&'static str, Resource); 2] = [("Users", Resource::Users), ("Groups", Resource::Groups)];

    pub(super) fn naming(self) -> Naming {
        match self {
            Resource::Users => Naming::Name,
            Resource::Groups => Naming::Anchor,
        }
    }

    /// Its name in URLs.
    pub fn name(self) -> &'static str {
        match self {
            Resource::Users => "Users",
            Resource::Groups => "Groups",
        }
    }
}

pub(super) const KEYS: &[&str] = &[
    "existing",
    "url",
    "token_file",
    "token_env",
    "insecure",
    "ca_file",
    "resource",
    "attributes",
    "booleans",
    "integers",
    "page_size",
    "timeout_s",
    "connections",
    "bulk",
    "update",
];

pub(super) fn read(reader: &mut Reader, part: &Part<'_>) -> Option<Box<dyn System>> {
    let url = reader.text(part, "url", true);
    let url = url.and_then(|url| match mistake(&url) {
        None => Some(url.trim_end_matches('/').to_string()),
        Some(what) => {
            let what = format!("`url` of {} {what}", part.what);
            reader.wrong(span_of(part, "url"), what, "write the base of the service: https://host/scim/v2");
            None
        }
    });
    let token_file = reader.text(part, "token_file", false);
    let token_env = reader.text(part, "token_env", false);
    if token_file.is_some() && token_env.is_some() {
        let what = "`token_file` and `token_env`: a token is in one of them";
        reader.wrong(span_of(part, "token_env"), what, "remove one");
    }
    let token =
        token_file.map(|file| Password::File(file.into())).or_else(|| token_env.map(Password::Environment));
    let exposed = url.as_deref().filter(|url| token.is_some() && is_exposed(url));
    let exposed = exposed.map(|url| Exposure {
        what: format!("the token would go to {url}"),
        help: "write https://",
        span: span_of(part, "url"),
    });
    reader.exposed(part, exposed);
    let mut attributes: Vec<Attribute> = Vec::new();
    for (key, kind) in
        [("attributes", None), ("booleans", Some(Kind::Boolean)), ("integers", Some(Kind::Integer))]
    {
        for path in paths(reader, part, key) {
            let path = kind.map_or(path.clone(), |kind| path.of_kind(kind));
            match attributes.iter_mut().find(|known| known.text() == path.text()) {
                Some(known) => *known = path,
                None => attributes.push(path),
            }
        }
    }
    if part.lacks("attributes") {
        let what = format!("{} has no `attributes`", part.what);
        let help = "name the attributes to read and change: [\"userName\", \"name.familyName\", \"emails[type eq \\\"work\\\"].value\"]";
        reader.wrong(part.span.clone(), what, help);
    }
    // The common check of anchors reports values that are not text.
    paths(reader, part, "anchor");
    let resource = reader.choice(part, "resource", &Resource::NAMES).unwrap_or(Resource::Users);
    let update = reader.choice(part, "update", &[("patch", Update::Patch), ("put", Update::Put)]);
    Some(Box::new(Scim {
        page_size: reader.number(part, "page_size", 1..=10_000).unwrap_or(200),
        timeout: Duration::from_secs(reader.number(part, "timeout_s", 1..=3600).unwrap_or(60)),
        interrupt: Interrupt::default(),
        connections: reader.number(part, "connections", 1..=64).unwrap_or(4) as usize,
        bulk: reader.number(part, "bulk", 0..=10_000).unwrap_or(0) as usize,
        ca_file: reader.text(part, "ca_file", false).map(Into::into),
        update: update.unwrap_or(Update::Patch),
        url: url?,
        token,
        resource,
        attributes,
    }))
}

/// Whether data to a base URL could be read by others.
fn is_exposed(url: &str) -> bool {
    let host = url.parse::<ureq::http::Uri>().ok().and_then(|url| url.host().map(String::from));
    !url.starts_with("https://") && !host.is_some_and(|host| is_this_host(&host))
}

/// The error in a base URL; none if it is valid.
fn mistake(url: &str) -> Option<&'static str> {
    let rest = url.strip_prefix("https://").or_else(|| url.strip_prefix("http://"));
    let Some(rest) = rest else { return Some("begins neither with https:// nor with http://") };
    let host = rest.split('/').next().unwrap_or_default();
    match () {
        () if host.contains('@') => Some("contains a user; put a token into `token_file` or `token_env`"),
        () if url.contains(['?', '#']) => Some("has a query or a fragment"),
        () if host.is_empty() || url.parse::<ureq::http::Uri>().is_err() => Some("is not a URL"),
        () => None,
    }
}

/// The paths in an array.
fn paths(reader: &mut Reader, part: &Part<'_>, key: &str) -> Vec<Attribute> {
    let Some(value) = part.get(key) else { return Vec::new() };
    let listed = match value.get_ref() {
        DeValue::Array(listed) => listed.iter().collect(),
        _ => vec![value],
    };
    let mut paths = Vec::new();
    for value in listed {
        // Values that are not text are reported once.
        let text = match value.get_ref() {
            DeValue::String(text) => text.to_string(),
            _ if key == "anchor" => continue,
            _ => match reader.as_text(value, key) {
                Some(text) => text,
                None => continue,
            },
        };
        match Attribute::parse(&text) {
            // Sent values are stored until an import confirms them, which a password must not be.
            Ok(_) if text.eq_ignore_ascii_case("password") => {
                let what = format!("`password` in `{key}` of {}: services never return it", part.what);
                reader.wrong(
                    value.span(),
                    what,
                    "remove it, and set an initial password in [outbound.write_only]",
                );
            }
            Ok(path) => paths.push(path),
            Err(why) => {
                let what = format!("{text:?} in `{key}` is not a path: {why}");
                reader.wrong(
                    value.span(),
                    what,
                    "write userName, name.familyName or emails[type eq \"work\"].value",
                );
            }
        }
    }
    paths
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parse;
    use std::any::Any;

    const EXAMPLE: &str = r#"
[store]
sqlite = "metadirectory.db"

[metaverse.person]
attributes = { login = "text" }

[agents.service]
type = "scim"
url = "https://id.plim.example/scim/v2/"
token_env = "SCIM_TOKEN"
attributes = ["userName", "emails[type eq \"work\"].value"]
booleans = ["urn:plim:User:remote"]
bulk = 100

[agents.staff]
type = "delimited"
path = "staff.csv"
anchor = "id"
"#;

    #[test]
    fn settings_are_read_and_the_anchor_is_the_id() {
        let config = parse(EXAMPLE).unwrap();
        assert_eq!(config.agents[0].anchor, ["id"]);
        let scim: &Scim = (config.agents[0].system.as_ref() as &dyn Any).downcast_ref().unwrap();
        assert_eq!(scim.url, "https://id.plim.example/scim/v2");
        assert_eq!(scim.token, Some(Password::Environment("SCIM_TOKEN".into())));
        let paths: Vec<&str> = scim.attributes.iter().map(Attribute::text).collect();
        assert_eq!(paths, ["userName", "emails[type eq \"work\"].value", "urn:plim:User:remote"]);
        assert_eq!((scim.bulk, scim.connections, scim.update), (100, 4, Update::Patch));
    }

    #[test]
    fn every_mistake_is_reported_with_its_line() {
        let text = EXAMPLE
            .replace("https://id", "https://me:geheim@id")
            .replace("token_env", "token_file = \"t\"\ntoken_env")
            .replace("\"userName\"", "\"user name\", \"password\"")
            .replace("bulk = 100", "bulk = \"many\"\nresource = \"Devices\"\nanchor = \"id[\"");
        let mistakes = parse(&text).unwrap_err();
        let reported: Vec<(usize, &str)> = mistakes
            .iter()
            .map(|mistake| (text[..mistake.span.start].matches('\n').count() + 1, mistake.what.as_str()))
            .collect();
        let expected = [
            (10, "contains a user"),
            (12, "a token is in one of them"),
            (13, "\"user name\" in `attributes`"),
            (13, "`password` in `attributes`"),
            (15, "`bulk` is a number from 0 to 10000"),
            (16, "cannot be \"Devices\""),
            (17, "\"id[\" in `anchor`"),
        ];
        assert_eq!(reported.len(), expected.len(), "{reported:?}");
        for ((line, what), (expected_line, part)) in reported.iter().zip(expected) {
            assert!(*line == expected_line && what.contains(part), "{line}: {what}");
        }
        assert!(!format!("{mistakes:?}").contains("geheim"));
    }
}
