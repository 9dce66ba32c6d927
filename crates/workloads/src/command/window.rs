//! Finds out when a window of a launch appears, from the events of the X server. Nothing is polled: the connection becomes
//! readable with the event.
//!
//! Before the launch, events of all windows directly below the root window are selected: each client makes its windows there,
//! also where a window manager moves them into a frame later. Each new one is followed from then on.

use std::env;
use std::io;
use std::net::{TcpStream, ToSocketAddrs};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use model::SECOND;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, getpgid};
use x11rb::connection::Connection;
use x11rb::errors::{ConnectError, ConnectionError, ReplyError};
use x11rb::protocol::Event;
use x11rb::protocol::xproto::{
    Atom, AtomEnum, ChangeWindowAttributesAux, ConnectionExt, EventMask, MapState, Window,
};
use x11rb::reexports::x11rb_protocol::parse_display::{ConnectAddress, ParsedDisplay, parse_display};
use x11rb::reexports::x11rb_protocol::xauth::get_auth;
use x11rb::rust_connection::{DefaultStream, PollMode, RustConnection, Stream};
use x11rb::utils::RawFdContainer;

/// How long the X server may take to accept a connection or to answer.
const ANSWER_S: i64 = 5;

/// The largest number of a display: its port is 6000 more.
const DISPLAY_MAX: u16 = u16::MAX - 6000;

/// The longest title that is read, in units of four bytes.
const TITLE_MAX: u32 = 1024;

/// Most rounds, and events of a round, before the clock is looked at again.
const ROUNDS_MAX: usize = 16;
const EVENTS_MAX: usize = 256;

/// Most titles that are kept for the message about a window that did not appear.
const SEEN_MAX: usize = 8;

/// The connection to the X server. A server that does not answer is an error, and does not hold up the run.
#[derive(Debug)]
struct Answering(DefaultStream);

impl Stream for Answering {
    fn poll(&self, mode: PollMode) -> io::Result<()> {
        let mut flags = PollFlags::empty();
        flags.set(PollFlags::IN, mode.readable());
        flags.set(PollFlags::OUT, mode.writable());
        let time = Timespec { tv_sec: ANSWER_S, tv_nsec: 0 };
        match poll(&mut [PollFd::new(&self.0, flags)], Some(&time)) {
            Ok(0) => Err(io::Error::new(
                io::ErrorKind::TimedOut,
                format!("the X server did not answer within {ANSWER_S} s"),
            )),
            Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    fn read(&self, buffer: &mut [u8], descriptors: &mut Vec<RawFdContainer>) -> io::Result<usize> {
        self.0.read(buffer, descriptors)
    }

    fn write(&self, buffer: &[u8], descriptors: &mut Vec<RawFdContainer>) -> io::Result<usize> {
        self.0.write(buffer, descriptors)
    }
}

/// Why the windows of a display cannot be watched, and what to do.
pub(super) type Unwatchable = (String, String);

/// The windows that were made since it was opened.
pub(super) struct Windows {
    connection: RustConnection<Answering>,
    root: Window,
    /// `_NET_WM_NAME`, the title in UTF-8.
    name: Atom,
    /// `_NET_WM_PID`.
    process: Atom,
    /// What a title has to contain.
    title: String,
    /// The name of this host, as clients state theirs.
    host: Vec<u8>,
    made: Vec<Made>,
    /// Titles of windows that did not count, for the message.
    seen: Vec<String>,
    is_behind: bool,
}

/// A window that was made since.
struct Made {
    window: Window,
    /// Whether a property changed since its title and process were read.
    is_changed: bool,
    /// Whether its title and process are those that are waited for.
    is_wanted: bool,
}

impl Windows {
    /// Connects to the display that `DISPLAY` names, and selects the events of windows that are made from now on.
    ///
    /// # Errors
    /// When there is no display, or its server does not accept this client.
    pub(super) fn open(title: &str) -> Result<Windows, Unwatchable> {
        let display = env::var("DISPLAY").unwrap_or_default();
        if display.is_empty() {
            return Err(match env::var_os("WAYLAND_DISPLAY") {
                Some(_) => (
                    "windows of Wayland are not supported, and DISPLAY is not set".into(),
                    "use XWayland: set DISPLAY, and start the program as an X client (GDK_BACKEND=x11, QT_QPA_PLATFORM=xcb)"
                        .into(),
                ),
                None => (
                    "there is no X display: DISPLAY is not set".into(),
                    "set it, such as DISPLAY=:0, or use a display without a screen: xvfb-run -a plimsoll exec ..."
                        .into(),
                ),
            });
        }
        // `x11rb` adds the number to that of a port without a check.
        let parsed = parse_display(Some(&display)).ok().filter(|parsed| parsed.display <= DISPLAY_MAX);
        let parsed = parsed.ok_or_else(|| {
            (
                format!("DISPLAY is `{display}`, which is no X display"),
                "set it, such as DISPLAY=:0".to_string(),
            )
        })?;
        connect(&parsed).and_then(|connection| select(connection, &parsed, title)).map_err(|error| {
            let help = match &error {
                ConnectError::SetupFailed(_) | ConnectError::SetupAuthenticate(_) => {
                    "it does not accept this user: set XAUTHORITY, or run as the user who owns the display"
                }
                _ => "is it running? A display without a screen: xvfb-run -a plimsoll exec ...",
            };
            let why = match &error {
                ConnectError::SetupFailed(failed) => {
                    String::from_utf8_lossy(&failed.reason).trim().to_string()
                }
                ConnectError::IoError(error) => error.to_string(),
                other => other.to_string(),
            };
            (format!("the X server of DISPLAY={display} cannot be used: {why}"), help.to_string())
        })
    }

    /// Whether a window of this process group, whose title contains the text, can be seen. Reads the events that came.
    ///
    /// # Errors
    /// When the connection is lost.
    pub(super) fn appeared(&mut self, group: i32) -> io::Result<bool> {
        self.is_behind = true;
        // Clients that change a title without end must not keep the time limit from being noticed.
        for _ in 0..ROUNDS_MAX {
            let mut is_anything = false;
            for _ in 0..EVENTS_MAX {
                let Some(event) = self.connection.poll_for_event().map_err(lost)? else { break };
                is_anything = true;
                self.note(&event).map_err(lost)?;
            }
            if !is_anything {
                self.is_behind = false;
                return Ok(false);
            }
            for at in 0..self.made.len() {
                if std::mem::take(&mut self.made[at].is_changed) {
                    let window = self.made[at].window;
                    self.made[at].is_wanted = self.is_wanted(window, group).map_err(lost)?;
                }
            }
            for made in self.made.iter().filter(|made| made.is_wanted) {
                // A frame that is not mapped yet hides the window in it.
                let attributes = self.connection.get_window_attributes(made.window).map_err(lost)?;
                if answered(attributes.reply())
                    .map_err(lost)?
                    .is_some_and(|of| of.map_state == MapState::VIEWABLE)
                {
                    return Ok(true);
                }
            }
            // Events that came with the answers are read in the next round.
        }
        Ok(false)
    }

    /// Whether events are left that were read already, so that [`Windows::source`] does not show them.
    pub(super) fn is_behind(&self) -> bool {
        self.is_behind
    }

    /// What appeared instead, for the message of a launch that failed.
    pub(super) fn seen(&self) -> String {
        match self.seen.as_slice() {
            [] if env::var_os("WAYLAND_DISPLAY").is_some() => {
                "no other window with a title appeared; if the program uses Wayland, start it as an X client (GDK_BACKEND=x11, QT_QPA_PLATFORM=xcb)".into()
            }
            [] => "no other window with a title appeared".into(),
            seen => format!("other windows that appeared: {}", seen.join(", ")),
        }
    }

    /// Becomes readable when there are events.
    pub(super) fn source(&self) -> BorrowedFd<'_> {
        self.connection.stream().0.as_fd()
    }

    fn note(&mut self, event: &Event) -> Result<(), ConnectionError> {
        match event {
            Event::CreateNotify(event) if event.parent == self.root => {
                let events = EventMask::STRUCTURE_NOTIFY | EventMask::PROPERTY_CHANGE;
                let select = ChangeWindowAttributesAux::new().event_mask(events);
                // Its title and state are read after this, so no change is missed in between.
                self.connection.change_window_attributes(event.window, &select)?;
                self.made.push(Made { window: event.window, is_changed: true, is_wanted: false });
            }
            Event::PropertyNotify(event) => {
                if let Some(made) = self.made.iter_mut().find(|made| made.window == event.window) {
                    made.is_changed = true;
                }
            }
            Event::DestroyNotify(event) => self.made.retain(|made| made.window != event.window),
            _ => {}
        }
        Ok(())
    }

    /// Whether the title contains the text and the window is one of the launch.
    fn is_wanted(&mut self, window: Window, group: i32) -> Result<bool, ConnectionError> {
        let Some(title) = self.title_of(window)? else { return Ok(false) };
        let is_titled = title.contains(&self.title);
        let process = if is_titled { self.process_of(window)? } else { None };
        // A client that does not state its process may be the one.
        let is_own =
            process.is_none_or(|process| getpgid(Some(process)).is_ok_and(|of| of.as_raw_pid() == group));
        if is_titled && is_own {
            return Ok(true);
        }
        let seen = match process {
            Some(process) => format!(
                "`{title}` of process {}, which is not in the process group of the launch",
                process.as_raw_pid()
            ),
            None => format!("`{title}`"),
        };
        if !title.is_empty() && self.seen.len() < SEEN_MAX && !self.seen.contains(&seen) {
            self.seen.push(seen);
        }
        Ok(false)
    }

    /// The title: `_NET_WM_NAME`, else `WM_NAME`; none of a window that is gone.
    fn title_of(&self, window: Window) -> Result<Option<String>, ConnectionError> {
        let Some(name) = self.property(window, self.name, TITLE_MAX)? else { return Ok(None) };
        if !name.is_empty() {
            return Ok(Some(String::from_utf8_lossy(&name).into_owned()));
        }
        let name = self.property(window, AtomEnum::WM_NAME.into(), TITLE_MAX)?;
        Ok(name.map(|name| match String::from_utf8(name) {
            Ok(name) => name,
            // The type STRING is Latin-1.
            Err(error) => error.as_bytes().iter().copied().map(char::from).collect(),
        }))
    }

    /// The process that made it, where the client states it and runs on this host.
    fn process_of(&self, window: Window) -> Result<Option<Pid>, ConnectionError> {
        let process = self.property(window, self.process, 1)?.unwrap_or_default();
        let Ok(bytes) = <[u8; 4]>::try_from(process.as_slice()) else { return Ok(None) };
        let machine =
            self.property(window, AtomEnum::WM_CLIENT_MACHINE.into(), TITLE_MAX)?.unwrap_or_default();
        // The number means another process on another host, or in a container with a name of its own.
        let is_here = machine.is_empty() || machine == self.host;
        let number = i32::try_from(u32::from_ne_bytes(bytes)).unwrap_or(0);
        Ok(Pid::from_raw(number).filter(|_| is_here && number > 0))
    }

    /// A property; empty when the window has none of that name, none when the window is gone.
    fn property(
        &self,
        window: Window,
        name: Atom,
        longs_max: u32,
    ) -> Result<Option<Vec<u8>>, ConnectionError> {
        let request = self.connection.get_property(false, window, name, AtomEnum::ANY, 0, longs_max)?;
        Ok(answered(request.reply())?.map(|reply| reply.value))
    }
}

/// An answer; none when the server refused, as it does for a window that is gone.
fn answered<T>(reply: Result<T, ReplyError>) -> Result<Option<T>, ConnectionError> {
    match reply {
        Ok(reply) => Ok(Some(reply)),
        Err(ReplyError::X11Error(_)) => Ok(None),
        Err(ReplyError::ConnectionError(error)) => Err(error),
    }
}

fn lost(error: ConnectionError) -> io::Error {
    match error {
        ConnectionError::IoError(error) => error,
        other => io::Error::other(other.to_string()),
    }
}

fn connect(display: &ParsedDisplay) -> Result<RustConnection<Answering>, ConnectError> {
    let mut failure = None;
    for address in display.connect_instruction() {
        let stream = match &address {
            ConnectAddress::Socket(path) => {
                UnixStream::connect(path).and_then(DefaultStream::from_unix_stream)
            }
            ConnectAddress::Hostname(host, port) => {
                connect_tcp(host, *port).and_then(DefaultStream::from_tcp_stream)
            }
            _ => continue,
        };
        let (stream, (family, peer)) = match stream {
            Ok(stream) => stream,
            Err(error) => {
                failure = Some(error);
                continue;
            }
        };
        // Without a cookie the server may still accept this user.
        let (name, data) = get_auth(family, &peer, display.display).ok().flatten().unwrap_or_default();
        let screen = usize::from(display.screen);
        return RustConnection::connect_to_stream_with_auth_info(Answering(stream), screen, name, data);
    }
    Err(failure.unwrap_or_else(|| io::ErrorKind::NotFound.into()).into())
}

fn connect_tcp(host: &str, port: u16) -> io::Result<TcpStream> {
    let mut failure = io::Error::from(io::ErrorKind::NotFound);
    for address in (host, port).to_socket_addrs()? {
        match TcpStream::connect_timeout(&address, Duration::from_nanos(ANSWER_S as u64 * SECOND)) {
            Ok(stream) => return Ok(stream),
            Err(error) => failure = error,
        }
    }
    Err(failure)
}

/// Selects the events of windows that are made below the root window.
fn select(
    connection: RustConnection<Answering>,
    display: &ParsedDisplay,
    title: &str,
) -> Result<Windows, ConnectError> {
    let refused = |error: ReplyError| match error {
        ReplyError::ConnectionError(error) => ConnectError::IoError(lost(error)),
        ReplyError::X11Error(error) => ConnectError::IoError(io::Error::other(format!("{error:?}"))),
    };
    let root = connection.setup().roots.get(usize::from(display.screen)).map(|screen| screen.root);
    let root = root.ok_or(ConnectError::InvalidScreen)?;
    let prepare = || -> Result<(Atom, Atom), ReplyError> {
        let name = connection.intern_atom(false, b"_NET_WM_NAME")?;
        let process = connection.intern_atom(false, b"_NET_WM_PID")?;
        let select = ChangeWindowAttributesAux::new().event_mask(EventMask::SUBSTRUCTURE_NOTIFY);
        connection.change_window_attributes(root, &select)?.check()?;
        Ok((name.reply()?.atom, process.reply()?.atom))
    };
    let (name, process) = prepare().map_err(refused)?;
    let host = rustix::system::uname().nodename().to_bytes().to_vec();
    Ok(Windows {
        connection,
        root,
        name,
        process,
        title: title.into(),
        host,
        made: Vec::new(),
        seen: Vec::new(),
        is_behind: false,
    })
}
