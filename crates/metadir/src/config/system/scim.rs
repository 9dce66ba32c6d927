//! `type = "scim"`.

use std::path::{Path, PathBuf};
use std::time::Duration;

use toml::de::DeValue;

use super::super::exposure::{Exposed, is_this_host};
use super::super::part::{Part, Reader, span_of};
use super::System;
use crate::Interrupt;
use crate::agent::scim::{Kind, Path as Attribute};
use crate::naming::Naming;

/// A service that speaks SCIM 2.0 (RFC 7643, RFC 7644).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scim {
    /// Where it is, without a slash at the end: `https://host/scim/v2`.
    pub url: String,
    /// Where the bearer token is; none to show none.
    pub token: Option<Token>,
    /// Authorities to trust, instead of those of the system.
    pub ca_file: Option<PathBuf>,
    /// What is read and changed.
    pub resource: Resource,
    /// The attributes that are read and changed.
    pub attributes: Vec<Attribute>,
    /// Resources asked for at a time.
    pub page_size: u64,
    /// The longest that an answer may take.
    pub timeout: Duration,
    /// What ends every wait.
    pub interrupt: Interrupt,
    /// Requests under way at a time in an export.
    pub connections: usize,
    /// Changes sent in one request; 0 for a request for each.
    pub bulk: usize,
    /// How a resource is changed.
    pub update: Update,
}

impl Scim {
    pub(super) fn relative_to(&mut self, folder: &Path) {
        let token = match &mut self.token {
            Some(Token::File(file)) => Some(file),
            _ => None,
        };
        token.into_iter().chain(&mut self.ca_file).for_each(|file| *file = folder.join(&*file));
    }
}

/// Where a secret is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Token {
    /// In a file.
    File(PathBuf),
    /// In a variable of the environment.
    Environment(String),
}

/// A type of resources.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Resource {
    /// Users, whose name is `userName`.
    Users,
    /// Groups, which have no name that only one of them may have.
    Groups,
}

/// How a resource is changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Update {
    /// By the changes.
    Patch,
    /// By reading it and writing it whole.
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

pub(super) fn read(reader: &mut Reader, part: &Part<'_>) -> Option<System> {
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
        reader.wrong(span_of(part, "token_env"), what, "take one out");
    }
    let token = token_file.map(|file| Token::File(file.into())).or_else(|| token_env.map(Token::Environment));
    let exposed = url.as_deref().filter(|url| token.is_some() && is_exposed(url));
    let exposed = exposed.map(|url| Exposed {
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
    if part.table.get("attributes").is_none() {
        let what = format!("{} has no `attributes`", part.what);
        let help = "name what is read and changed: [\"userName\", \"name.familyName\", \"emails[type eq \\\"work\\\"].value\"]";
        reader.wrong(part.span.clone(), what, help);
    }
    // Whether the anchor is text, the reader of agents says.
    paths(reader, part, "anchor");
    let resource = reader.choice(part, "resource", &Resource::NAMES).unwrap_or(Resource::Users);
    let update = reader.choice(part, "update", &[("patch", Update::Patch), ("put", Update::Put)]);
    Some(System::Scim(Scim {
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

/// Whether others could read what goes to a base.
fn is_exposed(url: &str) -> bool {
    let host = url.parse::<ureq::http::Uri>().ok().and_then(|url| url.host().map(String::from));
    !url.starts_with("https://") && !host.is_some_and(|host| is_this_host(&host))
}

/// What is wrong with a base; none when nothing is.
fn mistake(url: &str) -> Option<&'static str> {
    let rest = url.strip_prefix("https://").or_else(|| url.strip_prefix("http://"));
    let Some(rest) = rest else { return Some("begins neither with https:// nor with http://") };
    let host = rest.split('/').next().unwrap_or_default();
    match () {
        () if host.contains('@') => Some("holds a user; a token goes into `token_file` or `token_env`"),
        () if url.contains(['?', '#']) => Some("has more behind its path"),
        () if host.is_empty() || url.parse::<ureq::http::Uri>().is_err() => Some("is no URL"),
        () => None,
    }
}

/// The paths of a list.
fn paths(reader: &mut Reader, part: &Part<'_>, key: &str) -> Vec<Attribute> {
    let Some(value) = part.table.get(key) else { return Vec::new() };
    let listed = match value.get_ref() {
        DeValue::Array(listed) => listed.iter().collect(),
        _ => vec![value],
    };
    let mut paths = Vec::new();
    for value in listed {
        // What is no text is told once.
        let text = match value.get_ref() {
            DeValue::String(text) => text.to_string(),
            _ if key == "anchor" => continue,
            _ => match reader.as_text(value, key) {
                Some(text) => text,
                None => continue,
            },
        };
        match Attribute::parse(&text) {
            // What is sent is kept until an import shows it.
            Ok(_) if text.eq_ignore_ascii_case("password") => {
                let what = format!("`password` in `{key}` of {}: no service ever shows it", part.what);
                reader.wrong(
                    value.span(),
                    what,
                    "leave it out; services send new users a way to choose their own",
                );
            }
            Ok(path) => paths.push(path),
            Err(why) => {
                let what = format!("{text:?} in `{key}` of {} leads to no attribute: {why}", part.what);
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
    use super::super::super::{Config, System};
    use super::*;

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
        let mut config = Config::parse(EXAMPLE).unwrap();
        assert_eq!(config.agents[0].anchor, ["id"]);
        let System::Scim(scim) = &mut config.agents[0].system else { panic!("{:?}", config.agents) };
        assert_eq!(scim.url, "https://id.plim.example/scim/v2");
        assert_eq!(scim.token, Some(Token::Environment("SCIM_TOKEN".into())));
        let paths: Vec<&str> = scim.attributes.iter().map(Attribute::text).collect();
        assert_eq!(paths, ["userName", "emails[type eq \"work\"].value", "urn:plim:User:remote"]);
        assert_eq!((scim.bulk, scim.connections, scim.update), (100, 4, Update::Patch));
    }

    #[test]
    fn every_mistake_is_told_with_its_line() {
        let text = EXAMPLE
            .replace("https://id", "https://me:geheim@id")
            .replace("token_env", "token_file = \"t\"\ntoken_env")
            .replace("\"userName\"", "\"user name\", \"password\"")
            .replace("bulk = 100", "bulk = \"many\"\nresource = \"Devices\"\nanchor = \"id[\"");
        let mistakes = Config::parse(&text).unwrap_err();
        let told: Vec<(usize, &str)> = mistakes
            .iter()
            .map(|mistake| (text[..mistake.span.start].matches('\n').count() + 1, mistake.what.as_str()))
            .collect();
        let expected = [
            (10, "holds a user"),
            (12, "a token is in one of them"),
            (13, "\"user name\" in `attributes`"),
            (13, "`password` in `attributes`"),
            (15, "`bulk` is a number from 0 to 10000"),
            (16, "is not \"Devices\""),
            (17, "\"id[\" in `anchor`"),
        ];
        assert_eq!(told.len(), expected.len(), "{told:?}");
        for ((line, what), (expected_line, part)) in told.iter().zip(expected) {
            assert!(*line == expected_line && what.contains(part), "{line}: {what}");
        }
        assert!(!format!("{mistakes:?}").contains("geheim"));
    }
}
