//! Which certificates of servers are accepted.
//!
//! A server is trusted if an authority signed its certificate, or if its certificate is itself one of the trusted ones: a
//! self-signed certificate has no authority. Name and validity are verified in both cases. OpenSSL decides alike, and so
//! does `curl --cacert`.

use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{WebPkiServerVerifier, verify_server_cert_signed_by_trust_anchor, verify_server_name};
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{CertificateError, DigitallySignedStruct, Error, OtherError, RootCertStore, SignatureScheme};

use crate::subject::common_name;

/// Trusts the servers of authorities, and those whose certificate is itself trusted.
#[derive(Debug)]
pub(crate) struct Known {
    by_authority: Arc<WebPkiServerVerifier>,
    certificates: Vec<CertificateDer<'static>>,
    provider: Arc<CryptoProvider>,
}

impl Known {
    pub(crate) fn new(
        certificates: Vec<CertificateDer<'static>>,
        roots: RootCertStore,
        provider: Arc<CryptoProvider>,
    ) -> Result<Known, String> {
        let by_authority = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider.clone())
            .build()
            .map_err(|error| format!("preparing TLS: {error}"))?;
        Ok(Known { by_authority, certificates, provider })
    }

    /// Verifies a certificate that is itself trusted: its validity, its purpose and its name.
    fn verify_itself(
        &self,
        certificate: &CertificateDer<'_>,
        name: &ServerName<'_>,
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let parsed = ParsedCertificate::try_from(certificate)?;
        let mut alone = RootCertStore::empty();
        alone.add(certificate.clone().into_owned())?;
        let algorithms = self.provider.signature_verification_algorithms.all;
        match verify_server_cert_signed_by_trust_anchor(&parsed, &alone, &[], now, algorithms) {
            // It was not signed by itself. The validity was compared before.
            Ok(()) | Err(Error::InvalidCertificate(CertificateError::UnknownIssuer)) => {}
            Err(error) if is_of_authority(&error) => {}
            Err(error) => return Err(error),
        }
        match verify_server_name(&parsed, name) {
            Ok(()) => Ok(ServerCertVerified::assertion()),
            // Without any alternative name it is that of the subject, as it was before RFC 6125.
            Err(Error::InvalidCertificate(CertificateError::NotValidForNameContext {
                presented, ..
            })) if presented.is_empty()
                && common_name(certificate).is_some_and(|own| own.eq_ignore_ascii_case(&name.to_str())) =>
            {
                Ok(ServerCertVerified::assertion())
            }
            Err(error) => Err(error),
        }
    }
}

/// Whether a certificate was refused because it is that of an authority, as `openssl req -x509` makes it. Its validity was
/// compared before.
fn is_of_authority(error: &Error) -> bool {
    let Error::InvalidCertificate(CertificateError::Other(OtherError(inner))) = error else { return false };
    inner.downcast_ref::<webpki::Error>() == Some(&webpki::Error::CaUsedAsEndEntity)
}

impl ServerCertVerifier for Known {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let by_authority =
            self.by_authority.verify_server_cert(end_entity, intermediates, server_name, ocsp_response, now);
        match by_authority {
            Err(_) if self.certificates.contains(end_entity) => {
                self.verify_itself(end_entity, server_name, now)
            }
            // Nobody whom this client trusts has signed it.
            Err(error) if is_of_authority(&error) => Err(CertificateError::UnknownIssuer.into()),
            other => other,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.by_authority.verify_tls12_signature(message, certificate, signed)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.by_authority.verify_tls13_signature(message, certificate, signed)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.by_authority.supported_verify_schemes()
    }
}

/// Trusts every server. That the server has the key of its certificate is still verified.
#[derive(Debug)]
pub(crate) struct Anyone(pub(crate) Arc<CryptoProvider>);

impl ServerCertVerifier for Anyone {
    fn verify_server_cert(
        &self,
        _end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(message, certificate, signed, &self.0.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, certificate, signed, &self.0.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use rustls::crypto::ring;
    use testkit::{Authority, Bearer, Scratch, SelfSigned};

    use super::*;
    use crate::authorities;

    /// What a client that trusts `file` says of a server with this certificate.
    fn verified(file: &Path, certificate: &Path, host: &str) -> Result<(), String> {
        let (certificates, roots) = authorities::trusted(Some(file)).unwrap();
        let known = Known::new(certificates, roots, Arc::new(ring::default_provider())).unwrap();
        let server = authorities::certificates(Some(certificate)).unwrap();
        let name = crate::server_name(host).unwrap();
        let verified = known.verify_server_cert(&server[0], &server[1..], &name, &[], UnixTime::now());
        verified.map(drop).map_err(|error| error.to_string())
    }

    #[test]
    fn a_certificate_that_is_itself_trusted_is_accepted_for_its_names_while_it_is_valid() {
        let folder = Scratch::new();
        let loopback = SelfSigned::LOOPBACK;
        let (expired, not_named) = ("certificate expired", "certificate not valid for name");
        let cases: [(&str, SelfSigned<'_>, &str, &str); 10] = [
            ("authority", loopback, "localhost", ""),
            ("authority", loopback, "127.0.0.1", ""),
            ("authority", loopback, "127.0.0.2", not_named),
            ("authority", loopback, "other", not_named),
            ("expired", SelfSigned { until: 2001, ..loopback }, "localhost", expired),
            ("server", SelfSigned { is_authority: false, ..loopback }, "localhost", ""),
            ("server", SelfSigned { is_authority: false, ..loopback }, "other", not_named),
            ("expired", SelfSigned { until: 2001, is_authority: false, ..loopback }, "localhost", expired),
            ("subject", SelfSigned { hosts: &[], ..loopback }, "LOCALHOST", ""),
            ("subject", SelfSigned { hosts: &[], ..loopback }, "other", not_named),
        ];
        for (kind, case, host, expected) in cases {
            let (certificate, _) = case.make(&folder, kind);
            let found = verified(&certificate, &certificate, host);
            match expected {
                "" => assert_eq!(found, Ok(()), "{kind} {host}"),
                words => {
                    assert!(found.as_ref().is_err_and(|why| why.contains(words)), "{kind} {host} {found:?}")
                }
            }
        }
        // The common name counts only where there are no other names.
        let other = SelfSigned { hosts: &["other"], ..loopback };
        let (certificate, _) = other.make(&folder, "other");
        assert!(verified(&certificate, &certificate, "localhost").unwrap_err().contains(not_named));
    }

    #[test]
    fn a_certificate_that_is_not_trusted_is_refused() {
        let folder = Scratch::new();
        let (mine, _) = SelfSigned::LOOPBACK.make(&folder, "mine");
        let (other, _) = SelfSigned::LOOPBACK.make(&folder, "other");
        // The same names, and the same subject.
        assert!(verified(&mine, &other, "localhost").unwrap_err().ends_with("UnknownIssuer"));
        let authority = Authority::new(&folder, "authority");
        let (signed, _) = authority.sign(&folder, "signed", &["localhost"], Bearer::Server);
        assert_eq!(verified(&authority.file, &signed, "localhost"), Ok(()));
        assert!(verified(&mine, &signed, "localhost").is_err());
        // Trusted on its own, without its authority.
        assert_eq!(verified(&signed, &signed, "localhost"), Ok(()));
        assert!(verified(&signed, &signed, "other").is_err());
        let (client, _) = authority.sign(&folder, "client", &["localhost"], Bearer::Client);
        // It is not for servers.
        assert!(verified(&client, &client, "localhost").is_err());
    }
}
