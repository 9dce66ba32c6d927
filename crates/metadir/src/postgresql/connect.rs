//! Opens sessions.

use std::io;
use std::net::SocketAddr;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use ldap::session::wait;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, sockopt};
use tokio_postgres::config::{Host, TargetSessionAttrs};
use tokio_postgres::{CancelToken, Config, NoTls};

use super::tls::{Handshake, Tls};
use super::wire::{ANSWER_BYTES_MAX, Grace, Progress, Socket, Stream, Wire};
use super::{Client, Driver, Error, Listening};
use crate::Interrupt;

/// The default timeout of a new connection.
const CONNECT: Duration = Duration::from_secs(10);

/// The address of a server.
pub(super) struct Place {
    address: Address,
    /// The name that the server's certificate must have.
    name: Option<String>,
    interrupt: Interrupt,
    grace: Grace,
}

enum Address {
    Tcp(SocketAddr),
    Unix(PathBuf),
}

/// Opens a session with the first server that accepts one. `timeout` limits each wait in it.
pub(crate) fn connect(
    config: &Config,
    tls: Option<&Tls>,
    timeout: Duration,
    interrupt: &Interrupt,
    grace: Grace,
) -> Result<Client, Error> {
    let (hosts, addresses, ports) = (config.get_hosts(), config.get_hostaddrs(), config.get_ports());
    let time = config.get_connect_timeout().copied().unwrap_or(CONNECT).min(timeout);
    let mut last = Error::Connect(io::Error::new(io::ErrorKind::InvalidInput, "no host is named"));
    for at in 0..hosts.len().max(addresses.len()) {
        let deadline = Instant::now() + time;
        let port = ports.get(at).or(ports.first()).copied().unwrap_or(5432);
        let name = match hosts.get(at) {
            Some(Host::Tcp(name)) => Some(name.clone()),
            _ => None,
        };
        let found = match (addresses.get(at), hosts.get(at)) {
            (Some(address), _) => Ok(vec![Address::Tcp(SocketAddr::new(*address, port))]),
            (None, Some(Host::Tcp(host))) => wait::resolve(host, port, deadline, interrupt)
                .map(|found| found.into_iter().map(Address::Tcp).collect()),
            (None, Some(Host::Unix(folder))) => {
                Ok(vec![Address::Unix(folder.join(format!(".s.PGSQL.{port}")))])
            }
            (None, None) => Ok(Vec::new()),
        };
        match found {
            Err(error) => last = Error::Connect(error),
            Ok(found) => {
                for address in found {
                    let (name, interrupt) = (name.clone(), interrupt.clone());
                    let place = Place { address, name, interrupt, grace };
                    match place.begin(config, tls, deadline, timeout) {
                        Ok(client) => return Ok(client),
                        Err(error) => last = error,
                    }
                }
            }
        }
        if interrupt.is_over() {
            break;
        }
    }
    Err(last)
}

impl Place {
    /// Opens a socket, and returns the remaining time.
    fn open(&self, deadline: Instant) -> io::Result<(Arc<Wire>, Duration)> {
        let socket = match &self.address {
            Address::Tcp(address) => Socket::Tcp(wait::open(&[*address], deadline, &self.interrupt)?),
            Address::Unix(path) => Socket::Unix(open_unix(path, deadline, &self.interrupt)?),
        };
        let left = deadline.saturating_duration_since(Instant::now());
        Ok((Wire::new(socket, self.interrupt.clone(), self.grace), left))
    }

    /// The TLS handshake to be made.
    fn handshake(&self, tls: &Tls) -> Result<Handshake, Error> {
        let refused = |why: &str| Error::Connect(io::Error::new(io::ErrorKind::InvalidInput, why));
        let name =
            self.name.as_deref().ok_or_else(|| refused("TLS needs `host`, the name in the certificate"))?;
        tls.handshake(name).map_err(|_| refused("TLS: `host` cannot be in a certificate"))
    }

    fn begin(
        self,
        config: &Config,
        tls: Option<&Tls>,
        deadline: Instant,
        timeout: Duration,
    ) -> Result<Client, Error> {
        let (wire, left) = self.open(deadline).map_err(Error::Connect)?;
        if let (Address::Tcp(_), true) = (&self.address, config.get_keepalives()) {
            // Keepalives detect a server that vanished while nothing is sent.
            let kept = sockopt::set_socket_keepalive(wire.as_ref(), true)
                .and_then(|()| sockopt::set_tcp_keepidle(wire.as_ref(), config.get_keepalives_idle()));
            kept.map_err(|error| Error::Connect(error.into()))?;
        }
        let mut driver = Driver::new(Arc::clone(&wire), left);
        let notified = Arc::new(AtomicBool::new(false));
        let inner = match tls {
            None => {
                let begun = config.connect_raw(Stream::new(&wire, false), NoTls);
                let (inner, connection) = driver.run(Progress::None, ANSWER_BYTES_MAX, begun)?;
                let notified = Arc::clone(&notified);
                driver.connection = Some(Box::pin(Listening { connection, notified }));
                inner
            }
            Some(tls) => {
                let begun = config.connect_raw(Stream::new(&wire, true), self.handshake(tls)?);
                let (inner, connection) = driver.run(Progress::None, ANSWER_BYTES_MAX, begun)?;
                let notified = Arc::clone(&notified);
                driver.connection = Some(Box::pin(Listening { connection, notified }));
                inner
            }
        };
        driver.timeout = timeout;
        let mut client = Client { inner: Some(inner), driver, place: self, tls: tls.cloned(), notified };
        let wanted = match config.get_target_session_attrs() {
            TargetSessionAttrs::ReadWrite => "off",
            TargetSessionAttrs::ReadOnly => "on",
            _ => return Ok(client),
        };
        let found: String = client.query_one("SHOW transaction_read_only", &[])?.try_get(0)?;
        if found == wanted {
            return Ok(client);
        }
        let why = "the server does not match target_session_attrs";
        Err(Error::Connect(io::Error::other(why)))
    }

    /// Cancels the current query of a session.
    pub(super) fn cancel(&self, token: &CancelToken, tls: Option<&Tls>) -> Result<(), Error> {
        let (wire, left) = self.open(Instant::now() + super::GOODBYE).map_err(Error::Connect)?;
        let mut driver = Driver::new(Arc::clone(&wire), left);
        match tls {
            None => {
                let cancel = token.cancel_query_raw(Stream::new(&wire, false), NoTls);
                driver.run(Progress::None, ANSWER_BYTES_MAX, cancel)
            }
            Some(tls) => {
                let cancel = token.cancel_query_raw(Stream::new(&wire, true), self.handshake(tls)?);
                driver.run(Progress::None, ANSWER_BYTES_MAX, cancel)
            }
        }
    }
}

/// A non-blocking connection to a Unix socket. If its queue is full, the connection is refused and tried
/// again.
fn open_unix(path: &Path, deadline: Instant, interrupt: &Interrupt) -> io::Result<UnixStream> {
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let address = SocketAddrUnix::new(path)?;
    loop {
        let socket = rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
        match rustix::net::connect(&socket, &address) {
            Ok(()) => return Ok(UnixStream::from(socket)),
            Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR) => {
                std::thread::sleep(wait::slice(deadline, interrupt)?.min(Duration::from_millis(10)));
            }
            Err(error) => return Err(error.into()),
        }
    }
}
