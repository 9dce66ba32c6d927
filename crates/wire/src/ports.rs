//! Which protocol a port has.

use crate::operation::Protocol;

/// Ports of servers with their protocols. Other ports are recognized by what is sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ports(Vec<(u16, Protocol)>);

impl Default for Ports {
    fn default() -> Self {
        Ports(vec![(389, Protocol::Ldap), (80, Protocol::Http), (8080, Protocol::Http)])
    }
}

impl Ports {
    /// Sets the protocol of a port.
    pub fn set(&mut self, port: u16, protocol: Protocol) {
        self.0.retain(|(of, _)| *of != port);
        self.0.push((port, protocol));
    }

    /// Sets the protocol of a port, as in `3389=ldap`.
    pub fn set_by_text(&mut self, text: &str) -> Result<(), String> {
        let help = "write PORT=PROTOCOL, such as 3389=ldap or 8081=http";
        let (port, protocol) =
            text.split_once('=').ok_or_else(|| format!("`{text}` is not a port with a protocol: {help}"))?;
        let port: u16 = port
            .trim()
            .parse()
            .ok()
            .filter(|port| *port > 0)
            .ok_or_else(|| format!("`{port}` is not a port: {help}"))?;
        let protocol = Protocol::parse(protocol.trim())
            .ok_or_else(|| format!("`{protocol}` is not a protocol that is analysed: {help}"))?;
        self.set(port, protocol);
        Ok(())
    }

    /// The protocol of a port, if it is known.
    pub fn protocol(&self, port: u16) -> Option<Protocol> {
        self.0.iter().find(|(of, _)| *of == port).map(|(_, protocol)| *protocol)
    }

    /// Every port.
    pub fn all(&self) -> impl Iterator<Item = u16> + '_ {
        self.0.iter().map(|(port, _)| *port)
    }
}
