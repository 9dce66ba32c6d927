//! The certificate authorities that a client trusts.

use std::path::Path;

use rustls::RootCertStore;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;

/// The certificates of a PEM file, or without one, those of the authorities that this host trusts. There is at
/// least one.
///
/// # Errors
/// What was read, and why that failed.
pub(crate) fn certificates(file: Option<&Path>) -> Result<Vec<CertificateDer<'static>>, String> {
    let Some(file) = file else {
        let found = rustls_native_certs::load_native_certs();
        return match (found.certs.is_empty(), found.errors.first()) {
            (false, _) => Ok(found.certs),
            (true, Some(error)) => Err(format!("reading the certificate authorities of this host: {error}")),
            (true, None) => {
                Err("this host has no certificate authorities: install ca-certificates, or name a file"
                    .into())
            }
        };
    };
    let read = CertificateDer::pem_file_iter(file).and_then(Iterator::collect::<Result<Vec<_>, _>>);
    match read {
        Ok(certificates) if certificates.is_empty() => {
            Err(format!("{} holds no certificate: it must be in PEM form", file.display()))
        }
        Ok(certificates) => Ok(certificates),
        Err(error) => Err(format!("certificates cannot be read from {}: {error}", file.display())),
    }
}

/// The trusted certificates as [`certificates`] reads them, and the same as a store of authorities.
///
/// # Errors
/// What was read, and why that failed.
pub(crate) fn trusted(file: Option<&Path>) -> Result<(Vec<CertificateDer<'static>>, RootCertStore), String> {
    let certificates = certificates(file)?;
    let mut store = RootCertStore::empty();
    // Some old certificates of a host cannot be parsed; they are skipped, and authenticate nobody.
    let (known, _) = store.add_parsable_certificates(certificates.iter().cloned());
    match (known, file) {
        (0, Some(file)) => Err(format!("no certificate in {} can be used", file.display())),
        (0, None) => Err("no certificate of an authority that this host trusts can be used".into()),
        _ => Ok((certificates, store)),
    }
}
