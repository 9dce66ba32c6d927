//! Tests of TLS from the start and after StartTLS, and of the trusted certificates.

use plimsoll_ldap::session::{ClientCertificate, Options, Security, Server, Session, SessionError, Trust};
use testkit::slapd::{ROOT_DN, ROOT_PASSWORD, Slapd, SlapdOptions, TlsFiles};
use testkit::{Authority, Bearer, Scratch};

use crate::people;

#[test]
fn a_session_is_protected_and_knows_whom_it_speaks_to() {
    let folder = Scratch::new();
    let authority = Authority::new(&folder, "authority");
    let stranger = Authority::new(&folder, "stranger");
    let (certificate, key) = authority.sign(&folder, "server", &["127.0.0.1"], Bearer::Server);
    let tls = Some(TlsFiles { authority: authority.file.clone(), certificate, key });
    let Some(slapd) = Slapd::start(&SlapdOptions { ldif: people(0), tls, ..SlapdOptions::default() }) else {
        return;
    };

    let plain: Server = slapd.url().parse().unwrap();
    let from_the_start: Server = slapd.tls_url().parse().unwrap();
    for server in [plain.clone().with_start_tls(), from_the_start] {
        let with = |trust: Trust| Session::connect(&server, &Options { trust, ..Options::default() });
        let mut session = with(Trust::File(authority.file.clone())).unwrap();
        assert_eq!((session.security(), session.warning()), (server.security, None));
        session.bind(ROOT_DN, ROOT_PASSWORD.as_bytes()).unwrap();
        assert_eq!(session.who_am_i().unwrap(), format!("dn:{ROOT_DN}"));
        session.unbind().unwrap();

        // A session without authentication of the server reports this.
        let mut session = with(Trust::Insecure).unwrap();
        assert!(session.warning().unwrap().contains("not verified"));
        session.bind(ROOT_DN, ROOT_PASSWORD.as_bytes()).unwrap();

        match with(Trust::File(stranger.file.clone())) {
            Err(SessionError::Tls(what)) => {
                assert!(what.contains("the certificate of the server is "), "{what}")
            }
            other => panic!("{other:?}"),
        }
        // The authority is not one of the system's, which may have none at all.
        assert!(matches!(with(Trust::System), Err(SessionError::Tls(_))));
        // The same server under a name that is not in its certificate.
        let other = Server { host: "localhost".into(), ..server.clone() };
        match Session::connect(
            &other,
            &Options { trust: Trust::File(authority.file.clone()), ..Options::default() },
        ) {
            Err(SessionError::Tls(what)) => {
                assert!(what.contains(", and not for localhost"), "{what}")
            }
            other => panic!("{other:?}"),
        }
    }
    // A port without TLS.
    let wrong = Server { security: Security::Tls, ..plain };
    match Session::connect(&wrong, &Options { trust: Trust::Insecure, ..Options::default() }) {
        Err(SessionError::Tls(_) | SessionError::Closed { .. } | SessionError::Io { .. }) => {}
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_client_is_bound_as_its_certificate_says() {
    let folder = Scratch::new();
    let authority = Authority::new(&folder, "authority");
    let (certificate, key) = authority.sign(&folder, "server", &["127.0.0.1"], Bearer::Server);
    let tls = Some(TlsFiles { authority: authority.file.clone(), certificate, key });
    let Some(slapd) = Slapd::start(&SlapdOptions { ldif: people(0), tls, ..SlapdOptions::default() }) else {
        return;
    };
    let (certificate, key) = authority.sign(&folder, "sync-engine", &[], Bearer::Client);
    let options = Options {
        trust: Trust::File(authority.file.clone()),
        client_certificate: Some(ClientCertificate { certificate, key }),
        ..Options::default()
    };
    let mut session = Session::connect(&slapd.tls_url().parse().unwrap(), &options).unwrap();
    session.bind_external().unwrap();
    assert_eq!(session.who_am_i().unwrap(), "dn:cn=sync-engine");
}

#[test]
fn files_that_cannot_be_used_are_reported() {
    let folder = Scratch::new();
    let empty = folder.file("empty.pem", "no certificate");
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let server: Server =
        format!("ldaps://127.0.0.1:{}", listener.local_addr().unwrap().port()).parse().unwrap();
    for (trust, words) in [
        (Trust::File(empty.clone()), "holds no certificate: it must be in PEM form"),
        (Trust::File(folder.join("missing.pem")), "missing.pem"),
    ] {
        match Session::connect(&server, &Options { trust, ..Options::default() }) {
            Err(SessionError::Tls(what)) => assert!(what.contains(words), "{what}"),
            other => panic!("{other:?}"),
        }
    }
}
