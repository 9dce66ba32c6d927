//! Certificates of test servers and of their clients.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::path::PathBuf;

use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer,
    KeyPair,
};

use crate::Scratch;

/// A certificate authority. Its files are in PEM form.
pub struct Authority {
    /// The file of its certificate.
    pub file: PathBuf,
    issuer: Issuer<'static, KeyPair>,
}

/// For whom a certificate is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bearer {
    /// A server.
    Server,
    /// A client.
    Client,
}

impl Authority {
    /// A new authority with its file in a folder.
    pub fn new(folder: &Scratch, name: &str) -> Self {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let certificate = params.self_signed(&key).unwrap();
        let file = folder.file(&format!("{name}.pem"), certificate.pem());
        Authority { file, issuer: Issuer::new(params, key) }
    }

    /// The files of a certificate for these host names or addresses, and of its key.
    pub fn sign(&self, folder: &Scratch, name: &str, hosts: &[&str], bearer: Bearer) -> (PathBuf, PathBuf) {
        let key = KeyPair::generate().unwrap();
        let hosts: Vec<String> = hosts.iter().map(ToString::to_string).collect();
        let mut params = CertificateParams::new(hosts).unwrap();
        params.distinguished_name = DistinguishedName::new();
        params.distinguished_name.push(DnType::CommonName, name);
        params.extended_key_usages = vec![match bearer {
            Bearer::Server => ExtendedKeyUsagePurpose::ServerAuth,
            Bearer::Client => ExtendedKeyUsagePurpose::ClientAuth,
        }];
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        (
            folder.file(&format!("{name}.pem"), certificate.pem()),
            folder.file(&format!("{name}.key"), key.serialize_pem()),
        )
    }
}
