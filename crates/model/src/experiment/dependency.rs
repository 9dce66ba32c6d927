//! The dependencies of the system under test, and what connects to their proxies instead of to them.
//!
//! A text names the proxy of a dependency as `${dependency:NAME}`, which is replaced before the text is used. In the
//! settings of the load, the address of the dependency is replaced as well, so a load needs no placeholder.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::{Experiment, Target};
use crate::secret::replace_placeholders;
use crate::{Level, Placeholder, Secret, Settings};

/// The parameter of a variation that has the address where a proxy listens.
pub const LISTEN: &str = "listen";

/// Where a proxy listens unless the user chose an address: port 0 selects a free port.
pub const LISTEN_ANYWHERE: &str = "127.0.0.1:0";

/// The beginning of the environment variables that have the addresses of the proxies.
const VARIABLE: &str = "PLIMSOLL_DEPENDENCY_";

/// The port of an address without one, by the scheme of its URL.
const PORTS: [(&str, u16); 8] = [
    ("http", 80),
    ("https", 443),
    ("ldap", 389),
    ("ldaps", 636),
    ("postgres", 5432),
    ("postgresql", 5432),
    ("mysql", 3306),
    ("redis", 6379),
];

/// The names of this host on the loopback interface.
const LOOPBACK: [&str; 3] = ["127.0.0.1", "localhost", "[::1]"];

/// A system that the system under test depends on, or that the load connects to. A proxy stands before it for the whole
/// experiment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Dependency {
    /// Its name.
    pub name: String,
    /// Its address as the user wrote it: a URL, or host and port.
    pub address: String,
    /// Where its proxy listens; none for a free port.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub listen: Option<String>,
    /// The factor that sets the delay of its proxy, such as `network.delay.directory`.
    pub factor: String,
    /// 1-based line in the experiment file, 0 when it is not in a file.
    #[serde(default, skip)]
    pub line: u32,
}

impl Dependency {
    /// Host and port of the address.
    ///
    /// # Errors
    /// The problem and what to write.
    pub fn host_and_port(&self) -> Result<(&str, u16), (String, &'static str)> {
        let (scheme, host) = authority(&self.address);
        let wrong = || (format!("`{}` is not an address of a dependency", self.address), ADDRESS_HELP);
        let is_host = |host: &str| {
            let inner = host.strip_prefix('[').and_then(|inner| inner.strip_suffix(']'));
            !inner.unwrap_or(host).is_empty() && inner.is_some() == host.contains(':')
        };
        let port = host.rsplit_once(':').filter(|(host, port)| is_host(host) && !port.ends_with(']'));
        match port {
            Some((host, port)) => match port.parse::<u16>() {
                Ok(port) if port > 0 => Ok((host, port)),
                _ => Err(wrong()),
            },
            None if is_host(host) => match default_port(scheme) {
                Some(port) => Ok((host, port)),
                None => Err((format!("`{}` has no port", self.address), ADDRESS_HELP)),
            },
            None => Err(wrong()),
        }
    }

    /// The environment variable of the target and of commands that has the address of its proxy.
    pub fn variable(&self) -> String {
        let upper = |c: char| if c == '-' { '_' } else { c.to_ascii_uppercase() };
        VARIABLE.chars().chain(self.name.chars().map(upper)).collect()
    }

    /// Host and port in one text.
    pub fn authority(&self) -> String {
        self.host_and_port().map_or_else(|_| self.address.clone(), |(host, port)| format!("{host}:{port}"))
    }

    /// Whether a name can be used in a placeholder, a path and an environment variable.
    pub fn is_name(name: &str) -> bool {
        name.starts_with(|c: char| c.is_ascii_alphabetic())
            && name.chars().all(|c| c.is_ascii_alphanumeric() || "-_".contains(c))
    }
}

const ADDRESS_HELP: &str = "write a URL or host and port, such as \"ldap://127.0.0.1:3389\" or \"db1:5432\"";

fn default_port(scheme: &str) -> Option<u16> {
    PORTS.iter().find(|(known, _)| *known == scheme).map(|(_, port)| *port)
}

/// The scheme, and host and port of a URL; the scheme may be missing.
fn authority(text: &str) -> (&str, &str) {
    let (scheme, rest) = text.split_once("://").unwrap_or(("", text));
    let rest = rest.split(['/', '?', '#']).next().unwrap_or(rest);
    (scheme, rest.rsplit_once('@').map_or(rest, |(_, host)| host))
}

/// Where to connect to instead of to each dependency.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Proxies(Vec<(Dependency, String)>);

impl Proxies {
    /// The dependencies themselves: before proxies run, texts are checked with these addresses.
    pub fn absent(dependencies: &[Dependency]) -> Proxies {
        Proxies(dependencies.iter().map(|one| (one.clone(), one.authority())).collect())
    }

    /// A proxy for a dependency, with the address `HOST:PORT` that it listens on.
    pub fn add(&mut self, dependency: &Dependency, address: String) {
        self.0.push((dependency.clone(), address));
    }

    /// The environment variables of the target and of commands.
    pub fn variables(&self) -> Vec<(String, String)> {
        self.0.iter().map(|(dependency, address)| (dependency.variable(), address.clone())).collect()
    }

    /// The settings of the load: placeholders and the addresses of dependencies are replaced.
    pub fn load(&self, settings: &Settings) -> Settings {
        let mut replaced = settings.clone();
        for setting in replaced.0.values_mut() {
            change_texts(&mut setting.level, &mut |text| self.connect(&self.fill(text)));
        }
        replaced
    }

    /// The system under test: placeholders are replaced.
    pub fn target(&self, target: &Target) -> Target {
        let mut replaced = target.clone();
        for setting in replaced.settings.0.values_mut() {
            change_texts(&mut setting.level, &mut |text| self.fill(text));
        }
        replaced.environment.values_mut().for_each(|value| value.change(|text| self.fill(text)));
        replaced
    }

    /// The parameters of a factor: placeholders are replaced.
    pub fn parameters(&self, parameters: &BTreeMap<String, Secret>) -> BTreeMap<String, Secret> {
        parameters.iter().map(|(name, text)| (name.clone(), text.map(|text| self.fill(text)))).collect()
    }

    /// What is replaced in the settings of the load, for the record: the setting, the name of the dependency, its address
    /// and that of its proxy.
    pub fn replaced(&self, settings: &Settings) -> Vec<(String, &str, String, &str)> {
        let mut found = Vec::new();
        for (name, setting) in &settings.0 {
            for (dependency, address) in &self.0 {
                if uses(&setting.level, &mut |text| names_address(text, dependency)) {
                    found.push((
                        name.clone(),
                        dependency.name.as_str(),
                        dependency.authority(),
                        address.as_str(),
                    ));
                }
            }
        }
        found
    }

    /// A text whose placeholders are replaced; those of unknown dependencies stay.
    fn fill(&self, text: &str) -> String {
        let filled = replace_placeholders(text, |placeholder| {
            let Placeholder::Dependency(reference) = placeholder else { return Ok(None) };
            let (name, part) = reference.split_once('.').unwrap_or((reference, ""));
            let address = self.0.iter().find(|(dependency, _)| dependency.name == name).map(|(_, at)| at);
            let halves = address.and_then(|address| address.rsplit_once(':'));
            Ok::<_, std::convert::Infallible>(match (part, halves) {
                ("", _) => address.cloned(),
                ("host", Some((host, _))) => Some(host.trim_matches(['[', ']']).to_string()),
                ("port", Some((_, port))) => Some(port.to_string()),
                _ => None,
            })
        });
        filled.unwrap_or_else(|never| match never {})
    }

    /// A text in which the addresses of dependencies are replaced by those of their proxies.
    fn connect(&self, text: &str) -> String {
        let mut text = text.to_string();
        for (dependency, address) in &self.0 {
            text = replace_address(&text, dependency, address);
        }
        text
    }
}

/// Changes every text in a level. What is shown of a text with secret parts stays as it is.
fn change_texts(level: &mut Level, change: &mut dyn FnMut(&str) -> String) {
    match level {
        Level::Text(text) => *text = change(text),
        Level::Secret(secret) => secret.change(change),
        Level::List(levels) => levels.iter_mut().for_each(|level| change_texts(level, change)),
        _ => {}
    }
}

/// Whether a text in a level has a property.
fn uses(level: &Level, has: &mut dyn FnMut(&str) -> bool) -> bool {
    match level {
        Level::Text(text) => has(text),
        Level::Secret(secret) => has(secret.reveal()),
        Level::List(levels) => levels.iter().any(|level| uses(level, has)),
        _ => false,
    }
}

/// The spellings of an address in texts, each with what may not follow it.
fn spellings(dependency: &Dependency) -> Vec<(String, &'static str)> {
    let Ok((host, port)) = dependency.host_and_port() else { return Vec::new() };
    let hosts = if LOOPBACK.contains(&host) { LOOPBACK.to_vec() } else { vec![host] };
    let mut all: Vec<(String, &str)> = hosts.iter().map(|host| (format!("{host}:{port}"), "")).collect();
    let (scheme, _) = authority(&dependency.address);
    if default_port(scheme) == Some(port) {
        all.extend(hosts.iter().map(|host| (format!("{scheme}://{host}"), ":.-")));
    }
    all
}

/// Where a spelling of the address begins and ends in a text, from an offset on.
fn find_address(text: &str, from: usize, dependency: &Dependency) -> Option<(usize, usize)> {
    let is_of_name = |c: char| c.is_ascii_alphanumeric() || ".-".contains(c);
    let in_one = |(spelling, not_after): &(String, &str)| {
        let found = text[from..].match_indices(spelling.as_str()).map(|(at, _)| from + at);
        let mut found = found.filter(|at| {
            let (before, after) = (&text[..*at], &text[at + spelling.len()..]);
            !before.ends_with(is_of_name)
                && !after.starts_with(|c: char| c.is_ascii_alphanumeric() || not_after.contains(c))
        });
        found.next().map(|at| (at, at + spelling.len()))
    };
    spellings(dependency).iter().filter_map(in_one).min()
}

fn names_address(text: &str, dependency: &Dependency) -> bool {
    find_address(text, 0, dependency).is_some()
}

fn replace_address(text: &str, dependency: &Dependency, address: &str) -> String {
    let (scheme, _) = authority(&dependency.address);
    let (mut out, mut rest_from) = (String::new(), 0);
    while let Some((begin, end)) = find_address(text, rest_from, dependency) {
        out += &text[rest_from..begin];
        if text[begin..end].contains("://") {
            out += scheme;
            out += "://";
        }
        out += address;
        rest_from = end;
    }
    out + &text[rest_from..]
}

/// The names in the placeholders of dependencies in a text.
pub(crate) fn references(text: &str) -> Vec<String> {
    let mut names = Vec::new();
    let _ = replace_placeholders(text, |placeholder| {
        if let Placeholder::Dependency(reference) = placeholder {
            names.push(reference.to_string());
        }
        Ok::<_, std::convert::Infallible>(None)
    });
    names
}

impl Experiment {
    /// The dependency whose proxy this factor delays.
    pub fn dependency(&self, factor: &str) -> Option<&Dependency> {
        self.dependencies.iter().find(|dependency| dependency.factor == factor)
    }

    /// The names of the dependencies that the load connects to: its settings have their address or placeholder.
    pub fn dependencies_of_load(&self) -> BTreeSet<&str> {
        let varied = self.vary.iter().filter(|variation| variation.factor.area() == "workload");
        let varied = varied.flat_map(|variation| variation.baseline.iter().chain(&variation.levels));
        let levels: Vec<&Level> =
            self.workload.settings.0.values().map(|setting| &setting.level).chain(varied).collect();
        let is_used = |dependency: &&Dependency| {
            let mut names = |text: &str| names_address(text, dependency) || refers_to(text, dependency);
            levels.iter().any(|level| uses(level, &mut names))
        };
        self.dependencies.iter().filter(is_used).map(|dependency| dependency.name.as_str()).collect()
    }

    /// The dependencies that nothing in the experiment connects to. A program that the target starts may still read their
    /// environment variables, and one that is configured by hand may connect to the address in `listen`.
    pub fn unused_dependencies(&self) -> Vec<&Dependency> {
        let of_load = self.dependencies_of_load();
        let is_unused = |dependency: &&Dependency| {
            let mut names = |text: &str| refers_to(text, dependency);
            let in_target = self.target.as_ref().is_some_and(|target| {
                target.settings.0.values().any(|setting| uses(&setting.level, &mut names))
                    || target.environment.values().any(|value| refers_to(value.reveal(), dependency))
            });
            let mut parameters = self.vary.iter().flat_map(|variation| variation.parameters.values());
            dependency.listen.is_none()
                && !of_load.contains(dependency.name.as_str())
                && !in_target
                && !parameters.any(|text| refers_to(text.reveal(), dependency))
        };
        self.dependencies.iter().filter(is_unused).collect()
    }
}

fn refers_to(text: &str, dependency: &Dependency) -> bool {
    let is_name = |reference: &String| reference.split('.').next() == Some(dependency.name.as_str());
    references(text).iter().any(is_name) || text.contains(&dependency.variable())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dependency(address: &str) -> Dependency {
        Dependency {
            name: "data-base".into(),
            address: address.into(),
            listen: None,
            factor: "network.delay.data-base".into(),
            line: 0,
        }
    }

    #[test]
    fn an_address_has_host_and_port() {
        for (address, expected) in [
            ("127.0.0.1:5432", Some(("127.0.0.1", 5432))),
            ("ldap://dir1", Some(("dir1", 389))),
            ("ldap://dir1:3389/dc=x?y", Some(("dir1", 3389))),
            ("postgresql://me:pw@db1/x", Some(("db1", 5432))),
            ("http://[::1]:8080/", Some(("[::1]", 8080))),
            ("https://[fe80::1]", Some(("[fe80::1]", 443))),
            ("db1", None),
            ("x://db1", None),
            ("db1:0", None),
            ("db1:port", None),
            (":80", None),
            ("::1:80", None),
            ("http://", None),
        ] {
            assert_eq!(dependency(address).host_and_port().ok(), expected, "{address}");
        }
    }

    #[test]
    fn the_load_connects_to_the_proxy() {
        for (address, text, expected) in [
            ("http://127.0.0.1:8080", "http://127.0.0.1:8080/a", "http://127.0.0.1:4711/a"),
            ("http://127.0.0.1:8080", "http://localhost:8080/a", "http://127.0.0.1:4711/a"),
            ("127.0.0.1:80", "http://127.0.0.1:8080/a", "http://127.0.0.1:8080/a"),
            ("127.0.0.1:80", "10.127.0.0.1:80 x127.0.0.1:80", "10.127.0.0.1:80 x127.0.0.1:80"),
            (
                "http://portal",
                "http://portal/a http://portal:80?",
                "http://127.0.0.1:4711/a http://127.0.0.1:4711?",
            ),
            (
                "http://portal",
                "http://portal.example.com/ portal http://portal:81/",
                "http://portal.example.com/ portal http://portal:81/",
            ),
            ("db:5432", "host=db port=5432", "host=db port=5432"),
            (
                "db:5432",
                "${dependency:data-base} ${dependency:data-base.host} ${dependency:data-base.port}",
                "127.0.0.1:4711 127.0.0.1 4711",
            ),
            ("db:5432", "${dependency:other} ${env:A}", "${dependency:other} ${env:A}"),
        ] {
            let mut proxies = Proxies::default();
            proxies.add(&dependency(address), "127.0.0.1:4711".into());
            let mut settings = Settings::default();
            settings.set("text", Level::List(vec![Level::Text(text.into())]));
            let replaced = proxies.load(&settings);
            assert_eq!(
                replaced.level("text"),
                Some(&Level::List(vec![Level::Text(expected.into())])),
                "{address}"
            );
            assert_eq!(proxies.variables()[0].0, "PLIMSOLL_DEPENDENCY_DATA_BASE");
        }
    }
}
