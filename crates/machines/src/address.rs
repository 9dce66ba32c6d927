//! Where a machine is, as the experiment states it.

use model::SecretParts;

use crate::nats::Place;
use crate::nats::bus::Slot;

/// How a machine is reached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reach {
    /// By the `ssh` of the system: the arguments that name the host.
    Ssh {
        /// `user@host`, or a name of the configuration of ssh.
        destination: String,
        /// Another port.
        port: Option<u16>,
    },
    /// By a command that starts an agent and connects its standard streams.
    Command(Vec<String>),
    /// As agents that wait for work on a NATS server; one entry of an experiment stands for all of them.
    Fleet(Place),
    /// As one of these agents.
    Agent(Slot),
}

/// A machine of an experiment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Address {
    /// Its name in results.
    pub name: String,
    /// How it is reached.
    pub reach: Reach,
}

/// What to write.
const HELP: &str = "write HOST, ssh://USER@HOST:PORT, NAME=exec:COMMAND that starts `plimsoll agent`, or nats://HOST/FLEET?agents=N";

impl Address {
    /// Reads `HOST`, `ssh://USER@HOST:PORT`, `exec:COMMAND` or `nats://HOST:PORT/FLEET`, each with `NAME=` before it.
    ///
    /// # Errors
    /// The problem and what to write.
    pub fn parse(text: &str) -> Result<Address, (String, String)> {
        let wrong = |why: &str| {
            (format!("`{}` is no machine: {why}", SecretParts::Machine.hide(text)), HELP.to_string())
        };
        let (name, place) = match text.split_once('=') {
            Some((name, place)) if is_name(name) => (Some(name), place),
            _ => (None, text),
        };
        if let Some(command) = place.strip_prefix("exec:") {
            let words = shlex::split(command).filter(|words| !words.is_empty());
            let words = words.ok_or_else(|| wrong("the command is empty, or a quote is not closed"))?;
            let name = name.ok_or_else(|| wrong("a command needs a name before it"))?;
            return Ok(Address { name: name.into(), reach: Reach::Command(words) });
        }
        if let Some((scheme @ ("nats" | "tls"), rest)) = place.split_once("://") {
            // Without the text, which may have a password.
            let wrong = |why: String| (format!("an address of NATS is no machine: {why}"), HELP.to_string());
            let place = Place::parse(rest, scheme == "tls").map_err(wrong)?;
            return Ok(Address { name: name.unwrap_or(&place.fleet).into(), reach: Reach::Fleet(place) });
        }
        let authority = match place.split_once("://") {
            Some(("ssh", authority)) => authority.trim_end_matches('/'),
            Some((scheme, _)) => return Err(wrong(&format!("{scheme} is no way to reach one"))),
            None => place,
        };
        if authority.rsplit_once('@').is_some_and(|(user, _)| user.contains([':', '/'])) {
            return Err(wrong("its user is not a name, and a password belongs to the configuration of ssh"));
        }
        let (destination, port) = split_port(authority).ok_or_else(|| wrong("its port is no number"))?;
        let host = destination.rsplit_once('@').map_or(destination, |(_, host)| host);
        // A word that begins with a dash would be an option of ssh.
        if !is_host(host) || destination.starts_with('-') || destination.contains(char::is_whitespace) {
            return Err(wrong("its host is not a name"));
        }
        Ok(Address {
            name: name.unwrap_or(host).into(),
            reach: Reach::Ssh { destination: destination.into(), port },
        })
    }
}

/// The name of a machine in results.
///
/// # Errors
/// The problem and what to write.
pub fn name_of(text: &str) -> Result<String, (String, String)> {
    Address::parse(text).map(|address| address.name)
}

pub(crate) fn is_name(text: &str) -> bool {
    !text.is_empty()
        && !text.starts_with('-')
        && text.chars().all(|c| c.is_alphanumeric() || matches!(c, '-' | '_' | '.'))
}

pub(crate) fn is_host(text: &str) -> bool {
    let inside = text.strip_prefix('[').and_then(|text| text.strip_suffix(']')).unwrap_or(text);
    !inside.is_empty()
        && !inside.starts_with('-')
        && inside.chars().all(|c| c.is_alphanumeric() || matches!(c, '-' | '_' | '.' | ':' | '%'))
}

/// The host and the port of `HOST:PORT` or `[HOST]:PORT`. None for a port that is no number.
pub(crate) fn split_port(authority: &str) -> Option<(&str, Option<u16>)> {
    match authority.rsplit_once(':') {
        // The colons of an IPv6 address without brackets.
        Some((host, _)) if host.contains(':') && !host.ends_with(']') => Some((authority, None)),
        Some((host, port)) => Some((host, Some(port.parse().ok()?))),
        None => Some((authority, None)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn machines_are_hosts_addresses_or_commands() {
        let ssh = |name: &str, destination: &str, port| Address {
            name: name.into(),
            reach: Reach::Ssh { destination: destination.into(), port },
        };
        for (text, expected) in [
            ("gen1", ssh("gen1", "gen1", None)),
            ("ssh://gen1", ssh("gen1", "gen1", None)),
            (
                "ssh://load@gen1.example.com:2222/",
                ssh("gen1.example.com", "load@gen1.example.com", Some(2222)),
            ),
            ("a=ssh://root@[fe80::1]:22", ssh("a", "root@[fe80::1]", Some(22))),
            ("::1", ssh("::1", "::1", None)),
            ("b=gen2", ssh("b", "gen2", None)),
        ] {
            assert_eq!(Address::parse(text), Ok(expected), "{text}");
        }
        let fleet = Address::parse("nats://n1:4333/load?agents=3").unwrap();
        assert_eq!((fleet.name.as_str(), Address::parse("a=tls://n1").unwrap().name.as_str()), ("load", "a"));
        assert!(matches!(fleet.reach, Reach::Fleet(Place { port: 4333, agents: Some(3), tls: false, .. })));
        let command = Address::parse("a=exec:docker exec -i 'c 1' plimsoll agent").unwrap();
        assert_eq!(command.name, "a");
        assert_eq!(
            command.reach,
            Reach::Command(["docker", "exec", "-i", "c 1", "plimsoll", "agent"].map(String::from).to_vec())
        );
    }

    #[test]
    fn what_is_no_machine_is_refused_with_the_reason() {
        for (text, why) in [
            ("", "host"),
            ("-oProxyCommand=x", "host"),
            ("ssh://-oProxyCommand=x", "host"),
            ("ssh://a b", "host"),
            ("ssh://gen1:port", "port"),
            ("http://gen1", "http"),
            ("exec:true", "name"),
            ("a=exec:", "empty"),
            ("a=exec:'true", "quote"),
            ("nats://n1/a.b", "fleet"),
            ("nats://token@n1", "NATS_TOKEN"),
            ("nats:/bob:secret@n1", "nats:/***@n1"),
            ("ssh://bob:secret@n1", "user"),
            ("exec:sshpass -p secret ssh n1", "sshpass -p *** ssh n1"),
        ] {
            let (what, help) = Address::parse(text).unwrap_err();
            assert!(what.contains(why) && help.contains("ssh://"), "{text}: {what}");
            assert!(!what.contains("secret"), "{what}");
        }
    }
}
