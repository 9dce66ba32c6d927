//! The trusted server certificates, and the client certificate.

use std::io::ErrorKind;
use std::path::Path;
use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::{ClientConfig, ClientConnection, DigitallySignedStruct, RootCertStore, SignatureScheme};

use super::{Options, Server, SessionError, Trust, authorities};

/// The client side of a TLS connection to this host.
pub(super) fn begin(host: &str, options: &Options) -> Result<ClientConnection, SessionError> {
    let wrong = |error: rustls::Error| SessionError::Tls(format!("TLS with {host} cannot begin: {error}"));
    let provider = Arc::new(ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider.clone())
        .with_safe_default_protocol_versions()
        .map_err(wrong)?;
    let builder = match &options.trust {
        Trust::System => builder.with_root_certificates(trusted(None)?),
        Trust::File(file) => builder.with_root_certificates(trusted(Some(file))?),
        Trust::Insecure => builder.dangerous().with_custom_certificate_verifier(Arc::new(Anyone(provider))),
    };
    let config = match &options.client_certificate {
        None => builder.with_no_client_auth(),
        Some(own) => {
            let chain = authorities::certificates(Some(&own.certificate)).map_err(SessionError::Tls)?;
            let key = PrivateKeyDer::from_pem_file(&own.key)
                .map_err(|error| unreadable(&own.key, "private key", &error))?;
            builder.with_client_auth_cert(chain, key).map_err(|error| {
                let file = own.certificate.display();
                SessionError::Tls(format!("the certificate in {file} cannot be used with its key: {error}"))
            })?
        }
    };
    let name = ServerName::try_from(host.to_string()).map_err(|_| {
        SessionError::Tls(format!("`{host}` cannot be in a certificate: write a name or an address"))
    })?;
    ClientConnection::new(Arc::new(config), name).map_err(wrong)
}

/// Converts a failure during the handshake to an error with help.
pub(super) fn refused(server: &Server, error: SessionError) -> SessionError {
    match error {
        SessionError::Io { error, .. } if error.kind() == ErrorKind::InvalidData => {
            SessionError::Tls(format!(
                "TLS with {server} failed: {error}. Name the file of the authority that signed the server's certificate and the host as the certificate has it, and see that this port speaks TLS"
            ))
        }
        other => other,
    }
}

fn unreadable(file: &Path, what: &str, error: &rustls::pki_types::pem::Error) -> SessionError {
    SessionError::Tls(format!("{what} cannot be read from {}: {error}", file.display()))
}

fn trusted(file: Option<&Path>) -> Result<RootCertStore, SessionError> {
    authorities::trusted(file).map_err(SessionError::Tls)
}

/// Trusts every server. That the server has the key of its certificate is still verified.
#[derive(Debug)]
struct Anyone(Arc<CryptoProvider>);

impl ServerCertVerifier for Anyone {
    fn verify_server_cert(
        &self,
        _end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(message, certificate, signed, &self.0.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, certificate, signed, &self.0.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
