//! How a server ends TLS, and a response with it.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ServerConfig, ServerConnection};
use testkit::{Authority, Bearer, Scratch};

use super::{driven, fact, words};

/// What a server does after it sent its response, and what the load says of it.
#[derive(Clone, Copy)]
enum End {
    /// It ends TLS, and waits for the end of the connection by the other side.
    Notify,
    /// The same, with bytes behind, which are not encrypted.
    NotifyAndMore,
    /// It ends the connection only.
    Connection,
}

/// A server with one response, which ends in this way. Its address and the file of its authority.
fn ending(response: &'static str, end: End, folder: &Scratch) -> (String, String) {
    let authority = Authority::new(folder, "authority");
    let (certificate, key) = authority.sign(folder, "server", &["127.0.0.1"], Bearer::Server);
    let chain = CertificateDer::pem_file_iter(&certificate).unwrap().map(Result::unwrap).collect();
    let key = PrivateKeyDer::from_pem_file(&key).unwrap();
    let config = ServerConfig::builder_with_provider(rustls::crypto::ring::default_provider().into())
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(chain, key)
        .unwrap();
    let config = Arc::new(config);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("https://{}/", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            let connection = ServerConnection::new(config.clone()).unwrap();
            std::thread::spawn(move || serve(stream, connection, response, end));
        }
    });
    (url, authority.file.display().to_string())
}

fn serve(mut socket: TcpStream, mut tls: ServerConnection, response: &str, end: End) {
    socket.set_nodelay(true).unwrap();
    let mut request = Vec::new();
    let mut bytes = [0; 1024];
    while !request.ends_with(b"\r\n\r\n") {
        let read = rustls::Stream::new(&mut tls, &mut socket).read(&mut bytes);
        let Ok(read @ 1..) = read else { return };
        request.extend_from_slice(&bytes[..read]);
    }
    tls.writer().write_all(response.as_bytes()).unwrap();
    if !matches!(end, End::Connection) {
        tls.send_close_notify();
    }
    let mut out = Vec::new();
    while tls.wants_write() {
        tls.write_tls(&mut out).unwrap();
    }
    if matches!(end, End::NotifyAndMore) {
        out.extend([0x55; 40]);
    }
    let _ = socket.write_all(&out);
    if !matches!(end, End::Connection) {
        while matches!(socket.read(&mut bytes), Ok(1..)) {}
    }
}

#[test]
fn the_end_of_tls_is_the_end_of_a_response_and_without_it_a_response_may_be_cut() {
    const UNTIL_THE_END: &str = "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nhello";
    const WITH_LENGTH: &str = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello";
    const CUT: &str = "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhello";
    const CUT_CHUNK: &str = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n";
    let cut = "closed early, in the middle of a response";
    let none = "closed early, before any response";
    for (response, end, expected, without_notify) in [
        (UNTIL_THE_END, End::Notify, None, false),
        (UNTIL_THE_END, End::NotifyAndMore, None, false),
        (UNTIL_THE_END, End::Connection, None, true),
        // A connection that the server has ended is not used again.
        (WITH_LENGTH, End::Notify, None, false),
        (WITH_LENGTH, End::Connection, None, false),
        (CUT, End::Notify, Some(cut), false),
        (CUT, End::NotifyAndMore, Some(cut), false),
        (CUT, End::Connection, Some(cut), false),
        (CUT_CHUNK, End::Notify, Some(cut), false),
        ("", End::Notify, Some(none), false),
    ] {
        let folder = Scratch::new();
        let (url, ca) = ending(response, end, &folder);
        // What is waited for takes this long.
        let (workload, done) = driven(&url, &[("ca", &ca), ("timeout", "30s")], 2, 10);
        let expected: Vec<String> = expected.into_iter().map(str::to_string).collect();
        assert_eq!(words(&*workload, &done), expected, "{response:?}");
        let facts = workload.facts();
        assert_eq!(facts.contains_key("responses.without_close_notify"), without_notify, "{response:?}");
        if without_notify {
            assert!(fact(&*workload, "responses.without_close_notify") >= 10);
        }
    }
}
