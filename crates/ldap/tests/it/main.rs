//! Tests of sessions with a real server: OpenLDAP's slapd.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod allocation;
mod operations;
mod others;
mod synchronization;
mod tls;

use std::fmt::Write as _;

use plimsoll_ldap::session::{Options, Server, Session};
use testkit::slapd::{self, ROOT_DN, ROOT_PASSWORD, SUFFIX, Slapd};

/// The suffix entry, `ou=people` below it, and a number of people.
fn people(count: usize) -> String {
    let mut ldif = slapd::organization(&["people"]);
    for number in 0..count {
        writeln!(
            ldif,
            "dn: uid=p{number},ou=people,{SUFFIX}\nobjectClass: inetOrgPerson\nuid: p{number}\ncn: Person {number}\nsn: {number}\n"
        )
        .unwrap();
    }
    ldif
}

fn connect(url: &str) -> Session {
    Session::connect(&url.parse::<Server>().unwrap(), &Options::default()).unwrap()
}

/// A session as administrator.
fn root(slapd: &Slapd) -> Session {
    let mut session = connect(&slapd.url());
    session.bind(ROOT_DN, ROOT_PASSWORD.as_bytes()).unwrap();
    session
}
