//! The begin of TLS in a session.

use std::io::ErrorKind;
use std::sync::Arc;

use rustls::ClientConnection;

use super::{Options, Server, SessionError};

/// The client side of a TLS connection to this host.
pub(super) fn begin(host: &str, options: &Options) -> Result<ClientConnection, SessionError> {
    let config = tls::client(&options.trust, options.client_certificate.as_ref());
    let name = tls::server_name(host).map_err(SessionError::Tls)?;
    ClientConnection::new(Arc::new(config.map_err(SessionError::Tls)?), name)
        .map_err(|error| SessionError::Tls(format!("TLS with {host} cannot begin: {error}")))
}

/// Converts a failure during the handshake to an error with help.
pub(super) fn refused(server: &Server, error: SessionError) -> SessionError {
    match error {
        SessionError::Io { error, .. } if error.kind() == ErrorKind::InvalidData => {
            SessionError::Tls(format!(
                "TLS with {server} failed: {}. Name the file of the authority that signed the server's certificate and the host as the certificate has it, and see that this port speaks TLS",
                tls::failure(&error)
            ))
        }
        other => other,
    }
}
