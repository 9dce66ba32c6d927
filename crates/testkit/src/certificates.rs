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

/// A certificate that signed itself, as servers without an authority have it.
#[derive(Clone, Copy, Debug)]
pub struct SelfSigned<'a> {
    /// The common name of its subject.
    pub name: &'a str,
    /// Its alternative names: hosts and addresses.
    pub hosts: &'a [&'a str],
    /// Whether it says that it is that of an authority, as `openssl req -x509` does.
    pub is_authority: bool,
    /// The year in which its validity ends, which began in 1975 or later.
    pub until: i32,
}

impl SelfSigned<'_> {
    /// For 127.0.0.1 and localhost, as `openssl req -x509` makes it.
    pub const LOOPBACK: SelfSigned<'static> =
        SelfSigned { name: "localhost", hosts: &["localhost", "127.0.0.1"], is_authority: true, until: 4000 };

    /// The files of the certificate and of its key in a folder, in PEM form.
    pub fn make(&self, folder: &Scratch, name: &str) -> (PathBuf, PathBuf) {
        let key = KeyPair::generate().unwrap();
        let hosts: Vec<String> = self.hosts.iter().map(ToString::to_string).collect();
        let mut params = CertificateParams::new(hosts).unwrap();
        params.distinguished_name = DistinguishedName::new();
        params.distinguished_name.push(DnType::CommonName, self.name);
        params.is_ca = match self.is_authority {
            true => IsCa::Ca(BasicConstraints::Unconstrained),
            false => IsCa::ExplicitNoCa,
        };
        params.not_before = rcgen::date_time_ymd((self.until - 2000).max(1975), 1, 1);
        params.not_after = rcgen::date_time_ymd(self.until, 1, 1);
        let certificate = params.self_signed(&key).unwrap().pem();
        (
            folder.file(&format!("{name}.pem"), certificate),
            folder.file(&format!("{name}.key"), key.serialize_pem()),
        )
    }
}

/// A certificate authority, and a certificate with its key for a server that it signed, all in PEM form.
pub struct Made {
    /// The certificate of the authority.
    pub authority: String,
    /// The certificate of the server.
    pub certificate: String,
    /// Its key.
    pub key: String,
}

/// The certificate of a server with this name or address, by a new authority.
pub fn made(host: &str) -> Made {
    let (authority, issuer) = issuer("authority");
    let (certificate, key) = signed(&issuer, "server", &[host], Bearer::Server);
    Made { authority, certificate, key }
}

/// The certificate of a new authority, and what signs with it.
fn issuer(name: &str) -> (String, Issuer<'static, KeyPair>) {
    let key = KeyPair::generate().unwrap();
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.distinguished_name.push(DnType::CommonName, name);
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let certificate = params.self_signed(&key).unwrap().pem();
    (certificate, Issuer::new(params, key))
}

/// A signed certificate and its key.
fn signed(issuer: &Issuer<'static, KeyPair>, name: &str, hosts: &[&str], bearer: Bearer) -> (String, String) {
    let key = KeyPair::generate().unwrap();
    let hosts: Vec<String> = hosts.iter().map(ToString::to_string).collect();
    let mut params = CertificateParams::new(hosts).unwrap();
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, name);
    params.extended_key_usages = vec![match bearer {
        Bearer::Server => ExtendedKeyUsagePurpose::ServerAuth,
        Bearer::Client => ExtendedKeyUsagePurpose::ClientAuth,
    }];
    (params.signed_by(&key, issuer).unwrap().pem(), key.serialize_pem())
}

impl Authority {
    /// A new authority with its file in a folder.
    pub fn new(folder: &Scratch, name: &str) -> Self {
        let (certificate, issuer) = issuer(name);
        Authority { file: folder.file(&format!("{name}.pem"), certificate), issuer }
    }

    /// The files of a certificate for these host names or addresses, and of its key.
    pub fn sign(&self, folder: &Scratch, name: &str, hosts: &[&str], bearer: Bearer) -> (PathBuf, PathBuf) {
        let (certificate, key) = signed(&self.issuer, name, hosts, bearer);
        (folder.file(&format!("{name}.pem"), certificate), folder.file(&format!("{name}.key"), key))
    }
}
