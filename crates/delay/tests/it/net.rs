//! Targets, clients and proxies of tests.

use std::io::Read;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::time::{Duration, Instant};

use model::random::Random;
use plimsoll_delay::{Change, Options, Proxy, RouteOptions};

/// How long a test waits for something that must happen.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

/// Serves each connection on a thread of its own until the test ends.
pub(crate) fn target(serve: impl Fn(TcpStream) + Clone + Send + 'static) -> SocketAddr {
    target_on("127.0.0.1:0", serve)
}

pub(crate) fn target_on(address: &str, serve: impl Fn(TcpStream) + Clone + Send + 'static) -> SocketAddr {
    let listener = TcpListener::bind(address).unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for client in listener.incoming() {
            let (client, serve) = (client.unwrap(), serve.clone());
            client.set_nodelay(true).unwrap();
            std::thread::spawn(move || serve(client));
        }
    });
    address
}

/// A target that returns what it receives, and closes after its client did.
pub(crate) fn echo() -> SocketAddr {
    target(|client| {
        let mut writer = client.try_clone().unwrap();
        let _ = std::io::copy(&mut { client }, &mut writer);
        let _ = writer.shutdown(std::net::Shutdown::Write);
    })
}

pub(crate) fn options(target: SocketAddr, words: &str) -> Options {
    let route = RouteOptions::new("route", "127.0.0.1:0", &target.to_string()).unwrap();
    Options { settings: vec![Change::parse([words]).unwrap()], ..Options::new(vec![route]) }
}

/// A proxy with settings in front of a target.
pub(crate) fn proxy(target: SocketAddr, words: &str) -> Proxy {
    Proxy::start(options(target, words)).unwrap()
}

pub(crate) fn address(proxy: &Proxy) -> SocketAddr {
    proxy.routes()[0].listen
}

pub(crate) fn connect(proxy: &Proxy) -> TcpStream {
    connect_to(address(proxy))
}

pub(crate) fn connect_to(address: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(address).unwrap();
    stream.set_nodelay(true).unwrap();
    // A test that waits for what never comes fails instead of hanging.
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.set_write_timeout(Some(PATIENCE)).unwrap();
    stream
}

/// Bytes that are a function of the seed.
pub(crate) fn bytes(seed: u64, length: usize) -> Vec<u8> {
    let mut random = Random::new(seed);
    (0..length.div_ceil(8)).flat_map(|_| random.next_u64().to_ne_bytes()).take(length).collect()
}

/// Everything until the end of the stream.
pub(crate) fn read_all(stream: &mut TcpStream) -> Vec<u8> {
    let mut found = Vec::new();
    stream.read_to_end(&mut found).unwrap();
    found
}

/// Everything until an error, and the error.
pub(crate) fn read_until_error(stream: &mut TcpStream) -> (Vec<u8>, std::io::ErrorKind) {
    let mut found = Vec::new();
    let mut buffer = [0; 4096];
    loop {
        match stream.read(&mut buffer) {
            Ok(0) => panic!("an orderly end after {} bytes", found.len()),
            Ok(bytes) => found.extend_from_slice(&buffer[..bytes]),
            Err(error) => return (found, error.kind()),
        }
    }
}

/// Waits until something is true.
pub(crate) fn wait_for(what: &str, mut is_true: impl FnMut() -> bool) {
    let begin = Instant::now();
    while !is_true() {
        assert!(begin.elapsed() < PATIENCE, "{what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Closes a socket with a reset.
pub(crate) fn reset(stream: TcpStream) {
    rustix::net::sockopt::set_socket_linger(&stream, Some(Duration::ZERO)).unwrap();
    drop(stream);
}
