//! What an event loop waits for: clients, or the service it is connected to.

use std::io::Read;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::net::UnixListener;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use rustix::buffer::spare_capacity;
use rustix::event::epoll;

use crate::fixture::Probe;
use crate::process::KIND;

/// Set in the process that [`a_process_with_an_event_loop`] is: where it connects to, and the socket on which it serves.
const PEER: &str = "PLIMSOLL_TEST_PEER";
const SERVES: &str = "PLIMSOLL_TEST_SERVES";

/// Not a test: the process that the test below watches, which ends with its standard input.
#[test]
#[ignore = "the process that another test watches"]
fn a_process_with_an_event_loop() {
    let Some(peer) = std::env::var_os(PEER) else { return };
    let peer: SocketAddr = peer.to_str().unwrap().parse().unwrap();
    let connection = TcpStream::connect(peer).unwrap();
    let epoll = epoll::create(epoll::CreateFlags::CLOEXEC).unwrap();
    let data = || epoll::EventData::new_u64(0);
    let listener = std::env::var_os(SERVES).map(|path| UnixListener::bind(path).unwrap());
    epoll::add(&epoll, &connection, data(), epoll::EventFlags::IN).unwrap();
    if let Some(listener) = &listener {
        epoll::add(&epoll, listener, data(), epoll::EventFlags::IN).unwrap();
    }
    let thread = std::thread::Builder::new().name("loop".into());
    thread
        .spawn(move || {
            let (_connection, _listener) = (connection, listener);
            loop {
                let mut events = Vec::with_capacity(4);
                let _ = epoll::wait(&epoll, spare_capacity(&mut events), None);
            }
        })
        .unwrap();
    let _ = std::io::stdin().read(&mut [0]);
    std::process::exit(0);
}

struct Watched(Child);

impl Drop for Watched {
    fn drop(&mut self) {
        drop(self.0.stdin.take());
        let _ = self.0.wait();
    }
}

#[expect(clippy::disallowed_methods, reason = "the test makes what the source reads")]
fn start(peer: SocketAddr, serves: Option<&std::path::Path>) -> Watched {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "process::tests::event_loop::a_process_with_an_event_loop", "--ignored"]);
    command.env(PEER, peer.to_string()).stdin(Stdio::piped()).stdout(Stdio::null());
    if let Some(path) = serves {
        command.env(SERVES, path);
    }
    Watched(command.spawn().unwrap())
}

#[test]
fn a_loop_waits_for_its_peer_unless_it_serves_somebody() {
    let server = TcpListener::bind("127.0.0.1:0").unwrap();
    let peer = server.local_addr().unwrap();
    let folder = testkit::Scratch::new();
    let socket = folder.join("socket");
    for (serves, expected) in [(None, [1.0, 0.0]), (Some(socket.as_path()), [0.0, 1.0])] {
        let watched = start(peer, serves);
        let _connection = server.accept().unwrap();
        let process = watched.0.id().to_string();
        let mut probe = Probe::live(&KIND, &[&process]);
        let waiting = |probe: &Probe| {
            ["process.peer_wait_threads", "process.event_wait_threads"]
                .map(|metric| probe.get(metric, &process))
        };
        let expected = expected.map(Some);
        // Until it is in its loop, and what the process listens on was looked for.
        for _ in 0..1000 {
            std::thread::sleep(Duration::from_millis(10));
            probe.read_after(10_000_000);
            if waiting(&probe) == expected {
                break;
            }
        }
        assert_eq!(waiting(&probe), expected, "{serves:?}: {}", probe.present());
        let waits = probe.get("process.peer_wait_threads", &format!("{process} to {peer}"));
        assert_eq!(waits, serves.is_none().then_some(1.0), "{}", probe.present());
    }
}
