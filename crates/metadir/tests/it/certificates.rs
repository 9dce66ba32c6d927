//! Certificates of test servers.

use rcgen::{BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair};

/// A certificate authority, and a certificate with its key for a server name, all in PEM form.
pub(crate) struct Made {
    pub(crate) authority: String,
    pub(crate) certificate: String,
    pub(crate) key: String,
}

pub(crate) fn made(name: &str) -> Made {
    let key = KeyPair::generate().unwrap();
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.distinguished_name.push(DnType::CommonName, "authority");
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let authority = params.self_signed(&key).unwrap().pem();
    let issuer = Issuer::new(params, key);
    let key = KeyPair::generate().unwrap();
    let mut params = CertificateParams::new(vec![name.to_string()]).unwrap();
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    let certificate = params.signed_by(&key, &issuer).unwrap().pem();
    Made { authority, certificate, key: key.serialize_pem() }
}
