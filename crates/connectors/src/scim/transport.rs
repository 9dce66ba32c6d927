//! Sockets for HTTP whose waits end with the timeout of the whole request, and at an interrupt.

use std::io::{self, ErrorKind, Read as _, Write as _};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use ldap::session::wait;
use rustix::event::PollFlags;
use ureq::unversioned::resolver::{ResolvedSocketAddrs, Resolver};
use ureq::unversioned::transport::{
    Buffers, ConnectionDetails, Connector, LazyBuffers, NextTimeout, Transport,
};
use ureq::{Error, config::Config, http::Uri};

use metadir::Interrupt;

/// The replacement of an unlimited timeout.
const LONG: Duration = Duration::from_secs(24 * 3600);
/// Limit of the addresses of a host name that are tried.
const ADDRESSES_MAX: usize = 16;

/// Resolves host names and opens connections.
#[derive(Clone, Debug)]
pub(super) struct Network(pub(super) Interrupt);

fn deadline(timeout: NextTimeout) -> Instant {
    Instant::now() + timeout.not_zero().map_or(LONG, |time| (*time).min(LONG))
}

fn failed(error: io::Error, timeout: NextTimeout) -> Error {
    match error.kind() {
        ErrorKind::TimedOut => Error::Timeout(timeout.reason),
        _ => Error::Io(error),
    }
}

impl Resolver for Network {
    fn resolve(&self, uri: &Uri, _: &Config, timeout: NextTimeout) -> Result<ResolvedSocketAddrs, Error> {
        let host = uri.host().unwrap_or_default();
        let host = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
        let port = uri.port_u16().unwrap_or(if uri.scheme_str() == Some("https") { 443 } else { 80 });
        let found = wait::resolve(host, port, deadline(timeout), &self.0);
        let mut addresses = self.empty();
        for address in found.map_err(|error| failed(error, timeout))?.into_iter().take(ADDRESSES_MAX) {
            addresses.push(address);
        }
        Ok(addresses)
    }
}

impl<In: Transport> Connector<In> for Network {
    type Out = Socket;

    fn connect(&self, details: &ConnectionDetails<'_>, _: Option<In>) -> Result<Option<Socket>, Error> {
        let stream = wait::open(&details.addrs, deadline(details.timeout), &self.0);
        let (input, output) = (details.config.input_buffer_size(), details.config.output_buffer_size());
        Ok(Some(Socket {
            stream: stream.map_err(|error| failed(error, details.timeout))?,
            buffers: LazyBuffers::new(input, output),
            interrupt: self.0.clone(),
        }))
    }
}

/// A non-blocking connection.
#[derive(Debug)]
pub(super) struct Socket {
    stream: TcpStream,
    buffers: LazyBuffers,
    interrupt: Interrupt,
}

/// Repeats an operation until it is done, with waits between.
fn until<T>(
    stream: &TcpStream,
    flags: PollFlags,
    deadline: Instant,
    interrupt: &Interrupt,
    mut attempt: impl FnMut() -> io::Result<T>,
) -> io::Result<T> {
    loop {
        let time = wait::slice(deadline, interrupt)?;
        match attempt() {
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                wait::ready(stream, flags, time)?;
            }
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            done => return done,
        }
    }
}

impl Transport for Socket {
    fn buffers(&mut self) -> &mut dyn Buffers {
        &mut self.buffers
    }

    fn transmit_output(&mut self, amount: usize, timeout: NextTimeout) -> Result<(), Error> {
        let deadline = deadline(timeout);
        let mut left = self.buffers.output().get(..amount).unwrap_or_default();
        while !left.is_empty() {
            let written =
                until(&self.stream, PollFlags::OUT, deadline, &self.interrupt, || (&self.stream).write(left));
            match written.map_err(|error| failed(error, timeout))? {
                0 => return Err(Error::Io(ErrorKind::WriteZero.into())),
                count => left = &left[count..],
            }
        }
        Ok(())
    }

    fn await_input(&mut self, timeout: NextTimeout) -> Result<bool, Error> {
        let into = self.buffers.input_append_buf();
        let read = until(&self.stream, PollFlags::IN, deadline(timeout), &self.interrupt, || {
            (&self.stream).read(into)
        });
        let count = read.map_err(|error| failed(error, timeout))?;
        self.buffers.input_appended(count);
        Ok(count > 0)
    }

    fn is_open(&mut self) -> bool {
        // Between two responses a server sends nothing, so readable means closed.
        let read = (&self.stream).read(&mut [0]);
        read.is_err_and(|error| error.kind() == ErrorKind::WouldBlock)
    }
}
