//! HTTPS of the clients that use `ureq`: exporters, SCIM services, and where metrics are sent. `ureq` has a TLS client of its
//! own, which refuses a server certificate that is itself trusted. This one is that of every other connection.
#![forbid(unsafe_code)]

use std::fmt;
use std::io::{Read as _, Write as _};
use std::sync::Arc;

use rustls::{ClientConnection, StreamOwned};
use tls::ClientConfig;
use ureq::config::Config;
use ureq::unversioned::resolver::DefaultResolver;
use ureq::unversioned::transport::{
    Buffers, ConnectionDetails, Connector, Either, LazyBuffers, NextTimeout, TcpConnector, Transport,
    TransportAdapter,
};
use ureq::{Agent, Error};

/// An agent with this configuration. The TLS of requests to an `https` URL is `tls`; without it they fail.
pub fn agent(config: Config, tls: Option<ClientConfig>) -> Agent {
    let connector = Connector::<()>::chain(TcpConnector::default(), Secured::new(tls));
    Agent::with_parts(config, connector, DefaultResolver::default())
}

/// Begins TLS on the connections to `https` URLs.
#[derive(Clone, Debug)]
pub struct Secured(Option<Arc<ClientConfig>>);

impl Secured {
    /// With this TLS; without it, requests to `https` URLs fail.
    pub fn new(tls: Option<ClientConfig>) -> Secured {
        Secured(tls.map(Arc::new))
    }
}

impl<In: Transport> Connector<In> for Secured {
    type Out = Either<In, SecuredTransport>;

    fn connect(
        &self,
        details: &ConnectionDetails<'_>,
        chained: Option<In>,
    ) -> Result<Option<Self::Out>, Error> {
        let Some(transport) = chained else { return Ok(None) };
        if !details.needs_tls() {
            return Ok(Some(Either::A(transport)));
        }
        let Some(config) = &self.0 else { return Err(Error::Tls("TLS was not prepared")) };
        let host = details.uri.host().unwrap_or_default().trim_start_matches('[').trim_end_matches(']');
        let name = tls::server_name(host).map_err(|_| Error::Tls("the host cannot be in a certificate"))?;
        let mut connection = ClientConnection::new(config.clone(), name)?;
        let mut socket = TransportAdapter::new(transport.boxed(), details.current_time.clone());
        socket.set_timeout(details.timeout);
        connection.complete_io(&mut socket)?;
        let stream = StreamOwned { conn: connection, sock: socket };
        let buffers =
            LazyBuffers::new(details.config.input_buffer_size(), details.config.output_buffer_size());
        Ok(Some(Either::B(SecuredTransport { buffers, stream })))
    }
}

/// A connection with TLS.
pub struct SecuredTransport {
    buffers: LazyBuffers,
    stream: StreamOwned<ClientConnection, TransportAdapter>,
}

impl fmt::Debug for SecuredTransport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SecuredTransport").finish_non_exhaustive()
    }
}

impl Transport for SecuredTransport {
    fn buffers(&mut self) -> &mut dyn Buffers {
        &mut self.buffers
    }

    fn transmit_output(&mut self, amount: usize, timeout: NextTimeout) -> Result<(), Error> {
        self.stream.get_mut().set_timeout(timeout);
        let output = self.buffers.output().get(..amount).unwrap_or_default();
        self.stream.write_all(output)?;
        Ok(())
    }

    fn await_input(&mut self, timeout: NextTimeout) -> Result<bool, Error> {
        self.stream.get_mut().set_timeout(timeout);
        let input = self.buffers.input_append_buf();
        let amount = self.stream.read(input)?;
        self.buffers.input_appended(amount);
        Ok(amount > 0)
    }

    fn is_open(&mut self) -> bool {
        self.stream.get_mut().get_mut().is_open()
    }

    fn is_tls(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use testkit::{Nginx, Scratch, SelfSigned};
    use tls::Trust;

    use super::*;

    #[test]
    fn a_certificate_that_is_itself_trusted_is_accepted() {
        let folder = Scratch::new();
        let (certificate, key) = SelfSigned::LOOPBACK.make(&folder, "own");
        let (other, _) = SelfSigned::LOOPBACK.make(&folder, "other");
        let http =
            format!("ssl_certificate {}; ssl_certificate_key {};", certificate.display(), key.display());
        let page = "location = /page { return 200 hi; }";
        let Some(nginx) = Nginx::start(folder, "ssl", &http, page) else { return };
        let get = |host: &str, trust: Trust| {
            let tls = tls::client(&trust, None).unwrap();
            let agent = agent(Agent::config_builder().proxy(None).build(), Some(tls));
            let url = format!("https://{host}:{}/page", nginx.port);
            agent.get(&url).call()?.body_mut().read_to_string()
        };
        for host in ["localhost", "127.0.0.1"] {
            assert_eq!(get(host, Trust::File(certificate.clone())).unwrap(), "hi");
            assert_eq!(get(host, Trust::Insecure).unwrap(), "hi");
            let refused = get(host, Trust::File(other.clone())).unwrap_err();
            assert!(refused.to_string().contains("invalid peer certificate: UnknownIssuer"), "{refused}");
        }
        let plain = agent(Agent::config_builder().proxy(None).build(), None);
        assert!(plain.get(&format!("https://localhost:{}/page", nginx.port)).call().is_err());
    }
}
