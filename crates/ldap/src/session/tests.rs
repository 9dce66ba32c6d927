//! Tests of server behaviour that a real server cannot be made to show: the servers are simulated.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::thread::JoinHandle;

use super::*;
use crate::Filter;
use crate::message::LdapResult;

/// Simulates a server for one client; returns its address and the thread with the result.
fn play<T: Send + 'static>(
    act: impl FnOnce(std::net::TcpStream) -> T + Send + 'static,
) -> (Server, JoinHandle<T>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    rustix::net::sockopt::set_socket_recv_buffer_size(&listener, 16 << 10).unwrap();
    rustix::net::sockopt::set_socket_send_buffer_size(&listener, 16 << 10).unwrap();
    let server = format!("ldap://{}", listener.local_addr().unwrap()).parse().unwrap();
    (server, std::thread::spawn(move || act(listener.accept().unwrap().0)))
}

fn connect(server: &Server, options: &Options) -> Session {
    Session::connect(server, options).unwrap()
}

/// Options with very short timeouts.
fn impatient() -> Options {
    Options { response_timeout: Duration::from_millis(20), ..Options::default() }
}

/// Reads requests until the client disconnects. Calls `answer` with each request and the buffer for the
/// responses.
fn serve(mut stream: std::net::TcpStream, mut answer: impl FnMut(&Message<'_>, &mut Vec<u8>)) {
    let (mut input, mut out, mut piece) = (Vec::new(), Vec::new(), [0; 4096]);
    loop {
        while let Ok(message::Frame::Whole(length)) = message::frame(&input, 1 << 20) {
            out.clear();
            answer(&Message::decode(&input[..length]).unwrap(), &mut out);
            input.drain(..length);
            // The client may have disconnected.
            let _ = stream.write_all(&out);
        }
        match stream.read(&mut piece) {
            Ok(0) | Err(_) => return,
            Ok(count) => input.extend_from_slice(&piece[..count]),
        }
    }
}

fn respond(id: u32, operation: Operation<'_>, out: &mut Vec<u8>) {
    Message::new(id, operation).encode(out);
}

fn error_of(bytes: Vec<u8>, options: &Options) -> SessionError {
    let (server, playing) = play(move |mut stream| {
        let mut piece = [0; 64];
        let _ = stream.read(&mut piece);
        stream.write_all(&bytes).unwrap();
    });
    let error = connect(&server, options).delete("dc=a").unwrap_err();
    playing.join().unwrap();
    assert!(!error.session_goes_on());
    error
}

#[test]
fn requests_in_flight_are_no_deadlock_with_a_server_that_must_be_read_first() {
    // More responses than the network buffers, from a server that does not read further until they are
    // received.
    let (server, playing) = play(|stream| {
        let diagnostic = "x".repeat(10_000);
        serve(stream, |message, out| {
            let result = LdapResult { diagnostic: &diagnostic, ..LdapResult::SUCCESS };
            respond(message.id, Operation::DelResponse(result), out);
        });
    });
    let mut session = connect(&server, &Options::default());
    let Transport::Plain(stream) = &session.transport else { panic!("TLS") };
    // A small receive buffer, whatever the system's default is.
    rustix::net::sockopt::set_socket_recv_buffer_size(stream, 16 << 10).unwrap();
    rustix::net::sockopt::set_socket_send_buffer_size(stream, 16 << 10).unwrap();
    let dn = format!("cn={}", "y".repeat(2_000));
    for _ in 0..200 {
        session.submit(&Operation::DelRequest { dn: &dn }, &[]).unwrap();
    }
    for id in 1..=200 {
        assert_eq!(session.next_response().unwrap().id, id);
    }
    assert_eq!(session.in_flight(), 0);
    drop(session);
    playing.join().unwrap();
}

#[test]
fn a_silent_server_is_left_in_time() {
    let (server, playing) = play(|mut stream| {
        let mut all = Vec::new();
        stream.read_to_end(&mut all).unwrap();
        all
    });
    let mut session = connect(&server, &impatient());
    let error = session.delete("dc=a").unwrap_err();
    assert!(
        error.to_string().ends_with("waited 0.02 s for delRequest. Raise the timeout if the server is slow"),
        "{error}"
    );
    assert!(session.response_within(Duration::ZERO).unwrap().is_none());
    let filter = Filter::everything();
    let mut search = session.search(SearchRequest::subtree("", &filter), None).unwrap();
    assert!(matches!(search.next(), Err(SessionError::Timeout { .. })));
    drop(search);
    drop(session);
    // The request that failed was abandoned.
    let said = playing.join().unwrap();
    let mut names = Vec::new();
    let mut rest = &said[..];
    while let Ok(message::Frame::Whole(length)) = message::frame(rest, 1 << 20) {
        names.push(Message::decode(&rest[..length]).unwrap().operation.name());
        rest = &rest[length..];
    }
    assert_eq!(names, ["delRequest", "abandonRequest", "searchRequest", "abandonRequest"]);
}

#[test]
fn a_server_that_never_speaks_tls_is_left_in_time() {
    let (server, playing) = play(|mut stream| {
        let mut all = Vec::new();
        let _ = stream.read_to_end(&mut all);
    });
    let server = Server { security: Security::Tls, ..server };
    let options =
        Options { connect_timeout: Duration::from_millis(500), trust: Trust::Insecure, ..Options::default() };
    match Session::connect(&server, &options) {
        Err(SessionError::Timeout { what: "TLS", .. }) => {}
        other => panic!("{other:?}"),
    }
    playing.join().unwrap();
}

#[test]
fn what_is_sent_before_tls_is_not_taken_for_what_is_sent_in_it() {
    let (server, playing) = play(|stream| {
        serve(stream, |message, out| {
            let answer = Operation::ExtendedResponse { result: LdapResult::SUCCESS, oid: None, value: None };
            respond(message.id, answer, out);
            // From an attacker before TLS, who wants it to be trusted after TLS.
            respond(
                2,
                Operation::BindResponse { result: LdapResult::SUCCESS, server_credentials: None },
                out,
            );
        });
    });
    let options = Options { trust: Trust::Insecure, ..Options::default() };
    match Session::connect(&server.with_start_tls(), &options) {
        Err(SessionError::Tls(what)) => {
            assert!(what.contains("between its answer to StartTLS and TLS"), "{what}")
        }
        other => panic!("{other:?}"),
    }
    playing.join().unwrap();
}

#[test]
fn what_ends_a_session_is_reported() {
    assert!(
        error_of(Vec::new(), &Options::default())
            .to_string()
            .ends_with("closed the connection: one request was open")
    );

    let mut notice = Vec::new();
    let result =
        LdapResult { code: ResultCode::Unavailable, diagnostic: "going down", ..LdapResult::SUCCESS };
    let goodbye = Operation::ExtendedResponse { result, oid: Some(NOTICE_OF_DISCONNECTION), value: None };
    respond(UNSOLICITED, goodbye, &mut notice);
    let reported = error_of(notice, &Options::default()).to_string();
    assert!(reported.ends_with("closed the connection: unavailable (52): going down"), "{reported}");

    let reported = error_of(b"HTTP/1.1 400 Bad Request\r\n\r\n".to_vec(), &Options::default()).to_string();
    assert!(reported.contains("this is not an LDAP message"), "{reported}");

    let mut long = Vec::new();
    respond(
        1,
        Operation::DelResponse(LdapResult { diagnostic: &"x".repeat(500), ..LdapResult::SUCCESS }),
        &mut long,
    );
    let reported = error_of(long, &Options { message_bytes_max: 400, ..Options::default() }).to_string();
    assert!(reported.ends_with("a message is longer than allowed"), "{reported}");

    let mut other = Vec::new();
    respond(1, Operation::AddResponse(LdapResult::SUCCESS), &mut other);
    let reported = error_of(other, &Options::default()).to_string();
    assert!(reported.ends_with("a response of another kind than the request"), "{reported}");

    let mut other = Vec::new();
    respond(1, Operation::DelResponse(LdapResult::SUCCESS), &mut other);
    // The response to a request that was never sent; then the connection ends.
    respond(7, Operation::AddResponse(LdapResult::SUCCESS), &mut other);
    let (server, playing) = play(move |mut stream| {
        let _ = stream.read(&mut [0; 64]);
        stream.write_all(&other).unwrap();
    });
    let mut session = connect(&server, &Options::default());
    session.delete("dc=a").unwrap();
    session.submit(&Operation::DelRequest { dn: "dc=a" }, &[]).unwrap();
    assert!(session.next_response().is_err());
    playing.join().unwrap();
}

#[test]
fn a_port_where_nobody_listens_is_reported() {
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let server: Server = format!("ldap://127.0.0.1:{port}").parse().unwrap();
    let error = Session::connect(&server, &Options::default()).unwrap_err();
    assert!(error.to_string().starts_with(&format!("{server} cannot be reached: ")), "{error}");
}

#[test]
fn no_error_shows_a_password() {
    let (server, playing) = play(|stream| {
        serve(stream, |message, out| {
            let result = LdapResult { code: ResultCode::InvalidCredentials, ..LdapResult::SUCCESS };
            respond(message.id, Operation::BindResponse { result, server_credentials: None }, out);
        });
    });
    // Timeouts that overflow the clock are limited.
    let patient =
        Options { connect_timeout: Duration::MAX, response_timeout: Duration::MAX, ..Options::default() };
    let mut session = connect(&server, &patient);
    let error = session.bind("cn=a", b"hunter2").unwrap_err();
    assert!(!format!("{error} {error:?} {session:?}").contains("hunter2"));
    let error = "ldap://me:hunter2@host".parse::<Server>().unwrap_err();
    assert!(!error.to_string().contains("hunter2"), "{error}");
    drop(session);
    playing.join().unwrap();
}

/// The error of a search for everything in pages of 2 entries, over a session with a timeout of 1 s.
fn search_error(
    options: &Options,
    mut answer: impl FnMut(&Message<'_>, &mut Vec<u8>) + Send + 'static,
) -> SessionError {
    let (server, playing) = play(move |stream| serve(stream, |message, out| answer(message, out)));
    let mut session = connect(&server, options);
    let filter = Filter::everything();
    let mut search = session.search(SearchRequest::subtree("", &filter), Some(2)).unwrap();
    let error = loop {
        match search.next() {
            Ok(Some(_)) => {}
            Ok(None) => panic!("the search ended"),
            Err(error) => break error,
        }
    };
    drop(search);
    drop(session);
    playing.join().unwrap();
    error
}

fn entry(id: u32, out: &mut Vec<u8>) {
    respond(id, Operation::SearchResultEntry { dn: "cn=a", attributes: List::NONE }, out);
}

#[test]
fn what_nobody_asked_for_is_no_progress() {
    let second = Options { response_timeout: Duration::from_secs(1), ..Options::default() };
    type Answer = fn(u32, &mut Vec<u8>);
    let answers: [Answer; 4] = [
        |id, out| respond(id, Operation::IntermediateResponse { oid: None, value: None }, out),
        |id, out| respond(id, Operation::SearchResultReference(List::from(&["ldap://a"])), out),
        // The third and all following entries exceed the requested page.
        entry,
        |id, out| respond(id + 1, Operation::SearchResultDone(LdapResult::SUCCESS), out),
    ];
    for answer in answers {
        let error = search_error(&second, move |message, out| {
            if matches!(message.operation, Operation::SearchRequest(_)) {
                (0..300_000).for_each(|_| answer(message.id, out));
            }
        });
        let reported = error.to_string();
        assert!(
            reported.contains("nothing that was requested") || reported.contains("waited 1 s"),
            "{reported}"
        );
    }
}

#[test]
fn pages_without_an_entry_come_to_an_end() {
    let error = search_error(&Options::default(), |message, out| {
        if !matches!(message.operation, Operation::SearchRequest(_)) {
            return;
        }
        let mut value = Vec::new();
        PagedResults { size: 0, cookie: b"more" }.encode(&mut value);
        let control = Control { oid: PAGED_RESULTS, critical: false, value: Some(&value) };
        let done = Operation::SearchResultDone(LdapResult::SUCCESS);
        Message { id: message.id, operation: done, controls: List::from(&[control]) }.encode(out);
    });
    assert!(error.to_string().contains(ENDLESS), "{error}");
}

#[test]
fn a_slow_search_that_goes_on_is_waited_for() {
    let (server, playing) = play(|mut stream| {
        let _ = stream.read(&mut [0; 4096]);
        for _ in 0..8 {
            let mut out = Vec::new();
            entry(1, &mut out);
            stream.write_all(&out).unwrap();
            std::thread::sleep(Duration::from_millis(250));
        }
        let mut out = Vec::new();
        respond(1, Operation::SearchResultDone(LdapResult::SUCCESS), &mut out);
        stream.write_all(&out).unwrap();
    });
    let second = Options { response_timeout: Duration::from_millis(1500), ..Options::default() };
    let mut session = connect(&server, &second);
    let filter = Filter::everything();
    let mut search = session.search(SearchRequest::subtree("", &filter), None).unwrap();
    let mut count = 0;
    while search.next().unwrap().is_some() {
        count += 1;
    }
    assert_eq!(count, 8);
    playing.join().unwrap();
}

#[test]
fn an_interruption_ends_a_wait() {
    let flag: &'static std::sync::atomic::AtomicBool = Box::leak(Box::new(false.into()));
    let (server, playing) = play(|mut stream| {
        let _ = stream.read(&mut [0; 4096]);
        flag.store(true, std::sync::atomic::Ordering::Relaxed);
        let _ = stream.read_to_end(&mut Vec::new());
    });
    let patient = Duration::from_secs(3600);
    let options = Options { response_timeout: patient, interrupt: Interrupt::by(flag), ..Options::default() };
    let mut session = connect(&server, &options);
    assert!(matches!(session.delete("dc=a"), Err(SessionError::Interrupted)));
    drop(session);
    playing.join().unwrap();
    let again = Session::connect(&server, &options);
    assert!(matches!(again, Err(SessionError::Interrupted)), "{again:?}");
}

#[test]
fn long_texts_of_a_server_are_cut() {
    let mut long = Vec::new();
    let diagnostic = "x".repeat(1 << 20);
    let result = LdapResult { code: ResultCode::Busy, diagnostic: &diagnostic, ..LdapResult::SUCCESS };
    respond(1, Operation::DelResponse(result), &mut long);
    let (server, playing) = play(move |mut stream| {
        let _ = stream.read(&mut [0; 64]);
        stream.write_all(&long).unwrap();
    });
    let reported = connect(&server, &Options::default()).delete("dc=a").unwrap_err().to_string();
    assert!(reported.contains("xxx...") && reported.len() < 2000, "{} characters", reported.len());
    playing.join().unwrap();
}
