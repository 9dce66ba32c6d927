//! Where agents wait, as the experiment or the agent states it: `nats://HOST:PORT/FLEET?agents=40`.

use std::path::PathBuf;

use crate::address::{is_host, is_name, split_port};

/// The fleet of agents and coordinators that name none.
const FLEET: &str = "default";

/// The registered port of NATS.
const PORT: u16 = 4222;

/// Most agents of one fleet in an experiment.
const AGENTS_MAX: u32 = 1000;

/// A fleet of agents, and the server that they are reached through. It has no secret: those are in files and in variables of
/// the environment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// The server, with brackets around an IPv6 address.
    pub host: String,
    /// Its port.
    pub port: u16,
    /// The name that agents of one purpose have in common.
    pub fleet: String,
    /// How many agents take part; none for all that answer.
    pub agents: Option<u32>,
    /// Where the credentials are.
    pub files: Files,
    /// Whether the connection must be one of TLS: `tls://`, or a file for it.
    pub tls: bool,
}

/// Files with credentials. None is read from the variable with the name beside it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Files {
    /// A token: `token-file`. The variable `NATS_TOKEN` has the token itself.
    pub token: Option<PathBuf>,
    /// A user's JWT and seed: `creds`, `NATS_CREDS`.
    pub creds: Option<PathBuf>,
    /// The seed of an NKEY: `nkey`, `NATS_NKEY`.
    pub nkey: Option<PathBuf>,
    /// The authorities that signed the server's certificate: `ca`, `NATS_CA`.
    pub ca: Option<PathBuf>,
    /// A client certificate: `cert`, `NATS_CERT`.
    pub cert: Option<PathBuf>,
    /// Its key: `key`, `NATS_KEY`.
    pub key: Option<PathBuf>,
}

impl Files {
    /// The file of this name in an address.
    pub fn file(&mut self, name: &str) -> Option<&mut Option<PathBuf>> {
        Some(match name {
            "token-file" => &mut self.token,
            "creds" => &mut self.creds,
            "nkey" => &mut self.nkey,
            "ca" => &mut self.ca,
            "cert" => &mut self.cert,
            "key" => &mut self.key,
            _ => return None,
        })
    }
}

impl Place {
    /// Reads what follows `nats://` or `tls://`.
    ///
    /// # Errors
    /// Why it is none, without the text, which may have a password.
    pub fn parse(rest: &str, tls: bool) -> Result<Place, String> {
        let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
        let (authority, fleet) = rest.split_once('/').unwrap_or((rest, ""));
        if authority.contains('@') {
            return Err("credentials in an address can be read in the list of processes and in records: set NATS_TOKEN, or NATS_USER and NATS_PASSWORD, or append ?creds=FILE".into());
        }
        let (host, port) = split_port(authority).ok_or("its port is no number")?;
        if !is_host(host) {
            return Err("its host is not a name".into());
        }
        // An IPv6 address without brackets has no port.
        let host =
            if host.contains(':') && !host.starts_with('[') { format!("[{host}]") } else { host.into() };
        let fleet = if fleet.is_empty() { FLEET } else { fleet };
        // A dot would begin another part of a subject.
        if !is_name(fleet) || fleet.contains('.') || !fleet.is_ascii() {
            return Err(format!("`{fleet}` is not a name of a fleet: use letters, digits, - and _"));
        }
        let port = port.unwrap_or(PORT);
        let mut place = Place { host, port, fleet: fleet.into(), agents: None, files: Files::default(), tls };
        for (name, value) in query
            .split('&')
            .filter(|pair| !pair.is_empty())
            .map(|pair| pair.split_once('=').unwrap_or((pair, "")))
        {
            if value.is_empty() {
                return Err(format!("`{name}` has no value"));
            }
            if name == "agents" {
                let agents = value.parse().ok().filter(|count| (1..=AGENTS_MAX).contains(count));
                place.agents = Some(agents.ok_or_else(|| format!("`agents` is not 1 to {AGENTS_MAX}"))?);
            } else if let Some(file) = place.files.file(name) {
                *file = Some(value.into());
            } else {
                return Err(format!(
                    "`{name}` is unknown: agents, token-file, creds, nkey, ca, cert and key are known"
                ));
            }
        }
        Ok(place)
    }

    /// The server, for messages.
    pub fn server(&self) -> String {
        let scheme = if self.tls { "tls" } else { "nats" };
        format!("{scheme}://{}:{}", self.host, self.port)
    }

    /// The subject of offers: who asks for agents receives one answer of each.
    pub(super) fn offer(&self) -> String {
        format!("plimsoll.{}.offer", self.fleet)
    }

    /// The subject by which one agent is claimed.
    pub(super) fn claim(&self, agent: &str) -> String {
        format!("plimsoll.{}.agent.{agent}.claim", self.fleet)
    }

    /// The subject of what a coordinator sends in a session.
    pub(super) fn down(&self, session: &str) -> String {
        format!("plimsoll.{}.down.{session}", self.fleet)
    }

    /// The subject of what an agent sends in a session of a run.
    pub(super) fn up(&self, run: &str, session: &str) -> String {
        format!("plimsoll.{}.up.{run}.{session}", self.fleet)
    }

    /// The name of the stream that keeps what agents send in a run, or the beginning of the names of all of this fleet.
    pub(super) fn stream(&self, run: &str) -> String {
        format!("plimsoll-{}-{run}", self.fleet)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_has_a_server_a_fleet_and_files() {
        let plain = |host: &str, port, fleet: &str| Place {
            host: host.into(),
            port,
            fleet: fleet.into(),
            agents: None,
            files: Files::default(),
            tls: false,
        };
        for (text, expected) in [
            ("n1", plain("n1", 4222, "default")),
            ("n1:4333/", plain("n1", 4333, "default")),
            ("n1/load?agents=40", Place { agents: Some(40), ..plain("n1", 4222, "load") }),
            ("[::1]:1/a-b_1", plain("[::1]", 1, "a-b_1")),
            ("::1", plain("[::1]", 4222, "default")),
            (
                "n1/load?creds=/etc/a b.creds&ca=c.pem",
                Place {
                    files: Files {
                        creds: Some("/etc/a b.creds".into()),
                        ca: Some("c.pem".into()),
                        ..Files::default()
                    },
                    ..plain("n1", 4222, "load")
                },
            ),
        ] {
            assert_eq!(Place::parse(text, false), Ok(expected), "{text}");
        }
    }

    #[test]
    fn what_is_no_place_is_refused_without_its_secrets() {
        for (text, why) in [
            ("", "host"),
            ("n1:port", "port"),
            ("me:hunter2@n1", "NATS_PASSWORD"),
            ("hunter2@n1/load", "NATS_TOKEN"),
            ("n1/a.b", "fleet"),
            ("n1/a/b", "fleet"),
            ("n1/*", "fleet"),
            ("n1/>", "fleet"),
            ("n1/load?agents=0", "1 to 1000"),
            ("n1/load?agents=x", "1 to 1000"),
            ("n1/load?agents", "no value"),
            ("n1/load?password=hunter2", "unknown"),
        ] {
            let found = Place::parse(text, false).unwrap_err();
            assert!(found.contains(why) && !found.contains("hunter2"), "{text}: {found}");
        }
    }
}
