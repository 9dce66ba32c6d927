//! The target directory: OpenLDAP's slapd, or 389 Directory Server.

use std::collections::BTreeMap;

use ldap::Filter;
use ldap::ldif::{Options as LdifOptions, Reader, write_attribute, write_dn};
use ldap::message::SearchRequest;
use ldap::session::{Options, SearchItem, Server, Session};
use plimsoll_metadir::config::StepKind;
use testkit::slapd::{self, ROOT_DN, ROOT_PASSWORD, SUFFIX, SlapdOptions};
use testkit::{Dirsrv, Scratch, Slapd, dirsrv};

use super::days::{Entries, entries_of};

pub(super) enum Target {
    OpenLdap(Slapd),
    Dirsrv(Dirsrv),
}

/// The two units above all other entries.
const UNITS: [&str; 2] = ["people", "groups"];

impl Target {
    pub(super) fn open_ldap() -> Option<Target> {
        let database = "overlay syncprov\nsyncprov-sessionlog 10000\n".to_string();
        let options = SlapdOptions { ldif: slapd::organization(&UNITS), database, tls: None };
        Slapd::start(&options).map(Target::OpenLdap)
    }

    pub(super) fn dirsrv() -> Option<Target> {
        let target = Target::Dirsrv(Dirsrv::start()?);
        let mut session = target.session();
        let ldif = Dirsrv::database() + "\n" + &slapd::units(&UNITS);
        let mut reader = Reader::new(ldif.as_bytes(), LdifOptions::default());
        while let Some(record) = reader.next().unwrap() {
            session.submit_record(&record).unwrap();
            let code = session.next_response().unwrap().operation.result().unwrap().code;
            assert!(code.is_success(), "{}: {code}", record.dn);
        }
        Some(target)
    }

    pub(super) fn slapd(&mut self) -> &mut Slapd {
        match self {
            Target::OpenLdap(slapd) => slapd,
            Target::Dirsrv(_) => panic!("not OpenLDAP"),
        }
    }

    pub(super) fn url(&self) -> String {
        match self {
            Target::OpenLdap(slapd) => slapd.url(),
            Target::Dirsrv(server) => server.url(),
        }
    }

    fn folder(&self) -> &Scratch {
        match self {
            Target::OpenLdap(slapd) => slapd.folder(),
            Target::Dirsrv(server) => server.folder(),
        }
    }

    fn root(&self) -> (&'static str, &'static str) {
        match self {
            Target::OpenLdap(_) => (ROOT_DN, ROOT_PASSWORD),
            Target::Dirsrv(_) => (dirsrv::ROOT_DN, dirsrv::ROOT_PASSWORD),
        }
    }

    fn session(&self) -> Session {
        let mut session =
            Session::connect(&self.url().parse::<Server>().unwrap(), &Options::default()).unwrap();
        let (dn, password) = self.root();
        session.bind(dn, password.as_bytes()).unwrap();
        session
    }

    /// The keys of the configuration.
    pub(super) fn keys(&self) -> String {
        let (dn, password) = self.root();
        let password = self.folder().secret("password", format!("{password}\n"));
        let (anchor, delta) = match self {
            Target::OpenLdap(_) => ("entryUUID", "content-synchronization"),
            Target::Dirsrv(_) => ("nsUniqueId", "modifyTimestamp"),
        };
        format!(
            "url = \"{}\"\nbind_dn = \"{dn}\"\npassword_file = \"{}\"\nanchor = \"{anchor}\"\ndelta = \"{delta}\"",
            self.url(),
            password.display()
        )
    }

    /// The step that confirms an export, including deletions and the names of entries below a renamed one.
    pub(super) fn confirming(&self) -> StepKind {
        match self {
            Target::OpenLdap(_) => StepKind::DeltaImport,
            Target::Dirsrv(_) => StepKind::FullImport,
        }
    }

    /// All contents as LDIF: written by OpenLDAP's own program, or read from the other server.
    pub(super) fn export(&self) -> String {
        if let Target::OpenLdap(slapd) = self {
            return slapd.export();
        }
        let mut session = self.session();
        let everything = Filter::everything();
        let mut search = session.search(SearchRequest::subtree(SUFFIX, &everything), Some(100)).unwrap();
        let mut all: BTreeMap<String, Vec<u8>> = BTreeMap::new();
        while let Some(found) = search.next().unwrap() {
            let SearchItem::Entry { dn, attributes, .. } = found else { panic!("{found:?}") };
            let mut record = b"\n".to_vec();
            write_dn(&mut record, dn);
            for attribute in attributes.iter() {
                attribute
                    .values
                    .iter()
                    .for_each(|value| write_attribute(&mut record, attribute.name, value.0));
            }
            all.insert(dn.into(), record);
        }
        String::from_utf8(all.into_values().flatten().collect()).unwrap()
    }

    pub(super) fn entries(&self) -> Entries {
        entries_of(&self.export())
    }
}
