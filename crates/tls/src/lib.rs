//! The client side of TLS: which servers are trusted, the client certificate, and the names in certificates. Everything
//! that connects to a server takes its configuration from here.
#![forbid(unsafe_code)]

mod authorities;
mod failure;
mod subject;
mod verifier;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::ConfigBuilder;
use rustls::client::WantsClientCert;
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{PrivateKeyDer, ServerName};

use verifier::{Anyone, Known};

pub use failure::failure;
pub use rustls::ClientConfig;

/// The trusted server certificates.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Trust {
    /// Certificates of the authorities that this host trusts.
    System,
    /// Certificates of the authorities in this PEM file, and the certificates in it themselves.
    File(PathBuf),
    /// All certificates: another host could impersonate the server and read all data. Whoever uses it reports it.
    Insecure,
}

/// A certificate with its key, in PEM files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientCertificate {
    /// The file with the certificate chain.
    pub certificate: PathBuf,
    /// The file of its private key.
    pub key: PathBuf,
}

/// The configuration of connections with TLS 1.2 and 1.3.
///
/// # Errors
/// What could not be read or used, and why.
pub fn client(trust: &Trust, own: Option<&ClientCertificate>) -> Result<ClientConfig, String> {
    let provider = Arc::new(ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider.clone())
        .with_safe_default_protocol_versions()
        .map_err(|error| format!("preparing TLS: {error}"))?;
    let file = match trust {
        Trust::System => None,
        Trust::File(file) => Some(file.as_path()),
        Trust::Insecure => {
            let anyone = Arc::new(Anyone(provider));
            return authenticate(builder.dangerous().with_custom_certificate_verifier(anyone), own);
        }
    };
    let (certificates, roots) = authorities::trusted(file)?;
    let known = Arc::new(Known::new(certificates, roots, provider)?);
    authenticate(builder.dangerous().with_custom_certificate_verifier(known), own)
}

/// Adds the client certificate.
fn authenticate(
    builder: ConfigBuilder<ClientConfig, WantsClientCert>,
    own: Option<&ClientCertificate>,
) -> Result<ClientConfig, String> {
    let Some(own) = own else { return Ok(builder.with_no_client_auth()) };
    let chain = authorities::certificates(Some(&own.certificate))?;
    let key = PrivateKeyDer::from_pem_file(&own.key)
        .map_err(|error| unreadable(&own.key, "private key", &error))?;
    builder.with_client_auth_cert(chain, key).map_err(|error| {
        let file = own.certificate.display();
        format!("the certificate in {file} cannot be used with its key: {error}")
    })
}

/// The name of a host as its certificate has it.
///
/// # Errors
/// When it is neither a name nor an address.
pub fn server_name(host: &str) -> Result<ServerName<'static>, String> {
    ServerName::try_from(host.to_string())
        .map_err(|_| format!("`{host}` cannot be in a certificate: write a name or an address"))
}

fn unreadable(file: &Path, what: &str, error: &rustls::pki_types::pem::Error) -> String {
    format!("{what} cannot be read from {}: {error}", file.display())
}
