//! Control of a running proxy by other processes: JSON lines over a Unix domain socket in a private directory, which no
//! web page and no other user can reach.
//!
//! Each request is one line, and each answer is one line:
//!
//! ```json
//! {"command": "set", "route": "ldap", "settings": {"latency": "50ms", "up.loss": "1%"}}
//! {"command": "set", "reset": true}
//! {"command": "show", "restart": false}
//! ```
//!
//! `route` limits a change to one route. `reset` returns all other settings to their defaults. `restart` starts the
//! statistics again after they were read. An answer has `"ok": true`, and for `show` the document in `"snapshot"`; or
//! `"ok": false`, and `"errors"` with `what` and `help` of each mistake.

use std::ffi::OsString;
use std::io::{self, BufRead, BufReader, Read as _, Write as _};
use std::net::Shutdown;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use files::{Directory, Identity};
use model::{Problem, Problems};
use serde_json::{Map, Value, json};

use crate::proxy::Handle;
use crate::settings::{Assignment, Change};

/// The longest request.
const REQUEST_BYTES_MAX: u64 = 64 << 10;

/// The longest answer.
const ANSWER_BYTES_MAX: u64 = 64 << 20;

/// Clients at the same time.
const CLIENTS_MAX: usize = 16;

/// How long a client waits for an answer, and how long the proxy waits for a client that does not read.
const PATIENCE: Duration = Duration::from_secs(10);

/// A request.
#[derive(Clone, Debug, PartialEq)]
pub enum Request {
    /// Changes settings.
    Set(Change),
    /// Reads the numbers; with `true`, the statistics start again.
    Show(bool),
}

impl Request {
    /// Parses one line.
    ///
    /// # Errors
    /// Every mistake, with what to write instead.
    pub fn parse(line: &str) -> Result<Request, Problems> {
        let object: Map<String, Value> = serde_json::from_str(line).map_err(|error| {
            Problem::new(
                format!("the request is not a JSON object: {error}"),
                "write one line such as {\"command\": \"show\"}",
            )
        })?;
        let mut problems = Problems::new();
        let keys: &[&str] = match object.get("command").and_then(Value::as_str) {
            Some("set") => &["command", "route", "reset", "settings"],
            Some("show") => &["command", "restart"],
            _ => {
                let help = "write {\"command\": \"set\", ...} or {\"command\": \"show\"}";
                return Err(Problem::new("the request has no valid `command`", help).into());
            }
        };
        for key in object.keys().filter(|key| !keys.contains(&key.as_str())) {
            let help = format!("write one of: {}", keys.join(", "));
            problems.push(Problem::new(format!("there is no key `{key}` in this request"), help));
        }
        let request = match keys.contains(&"settings") {
            false => Request::Show(switch(&object, "restart", &mut problems)),
            true => Request::Set(change(&object, &mut problems)),
        };
        problems.or(request)
    }

    /// The line of the request.
    pub fn line(&self) -> String {
        let request = match self {
            Request::Show(restart) => json!({"command": "show", "restart": restart}),
            Request::Set(change) => {
                let settings = change.assignments.iter().map(Assignment::words);
                let settings: Map<String, Value> =
                    settings.map(|(name, value)| (name, Value::String(value))).collect();
                let mut request = json!({"command": "set", "reset": change.reset, "settings": settings});
                if let Some(route) = &change.route {
                    request["route"] = json!(route);
                }
                request
            }
        };
        request.to_string()
    }
}

fn switch(object: &Map<String, Value>, key: &str, problems: &mut Problems) -> bool {
    match object.get(key) {
        None => false,
        Some(Value::Bool(on)) => *on,
        Some(_) => {
            problems.push(Problem::new(format!("`{key}` is not true or false"), "write true or false"));
            false
        }
    }
}

fn change(object: &Map<String, Value>, problems: &mut Problems) -> Change {
    let mut change = Change { reset: switch(object, "reset", problems), ..Change::default() };
    match object.get("route") {
        None => {}
        Some(Value::String(route)) => change.route = Some(route.clone()),
        Some(_) => problems.push(Problem::new("`route` is not a text", "write the name of a route")),
    }
    match object.get("settings") {
        Some(Value::Object(settings)) => {
            for (name, value) in settings {
                let Some(value) = value.as_str() else {
                    let help = format!("write \"{name}\": \"20ms\", with the value as a text");
                    problems.push(Problem::new(format!("the value of `{name}` is not a text"), help));
                    continue;
                };
                match Assignment::parse(name, value) {
                    Ok(assignment) => change.assignments.push(assignment),
                    Err(problem) => problems.push(problem),
                }
            }
        }
        None if change.reset => {}
        _ => problems.push(Problem::new(
            "the request has no `settings`",
            "write {\"command\": \"set\", \"settings\": {\"latency\": \"20ms\"}}",
        )),
    }
    change.sort();
    change
}

/// Serves the control socket of a proxy until it is dropped.
#[derive(Debug)]
pub struct ControlServer {
    folder: Directory,
    name: OsString,
    identity: Option<Identity>,
    shared: Arc<Served>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug)]
struct Served {
    handle: Handle,
    listener: UnixListener,
    wake: OwnedFd,
    is_ending: AtomicBool,
    /// The open connections, to end them; each with its number.
    clients: Mutex<Vec<(u64, UnixStream)>>,
}

impl ControlServer {
    /// Listens on a socket. Its directory is created with mode 0700 if it does not exist.
    ///
    /// # Errors
    /// When the directory is not private, the name is used by another process or another kind of file, or the socket
    /// cannot be created. The message says what to do.
    pub fn start(path: &Path, handle: Handle) -> io::Result<ControlServer> {
        let (folder, name) = place(path)?;
        remove_stale(&folder, &name, path)?;
        // By the descriptor of the directory: its path may be longer than an address of a socket.
        let listener = UnixListener::bind(address(&folder, &name))?;
        listener.set_nonblocking(true)?;
        let identity = folder.identity_of(&name).ok();
        let wake = crate::event_loop::wake_descriptor()?;
        let shared = Arc::new(Served {
            handle,
            listener,
            wake,
            is_ending: AtomicBool::new(false),
            clients: Mutex::default(),
        });
        let of_thread = Arc::clone(&shared);
        let thread = std::thread::Builder::new().name("control".into()).spawn(move || accept(&of_thread))?;
        Ok(ControlServer { folder, name, identity, shared, thread: Some(thread) })
    }
}

impl Drop for ControlServer {
    fn drop(&mut self) {
        self.shared.is_ending.store(true, Ordering::Relaxed);
        let _ = rustix::io::write(&self.shared.wake, &1_u64.to_ne_bytes());
        for (_, client) in &*self.shared.clients() {
            let _ = client.shutdown(Shutdown::Both);
        }
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
        if let Some(identity) = self.identity {
            // What replaced it belongs to others.
            let _ = self.folder.remove_if(&self.name, identity);
        }
    }
}

impl Served {
    fn clients(&self) -> std::sync::MutexGuard<'_, Vec<(u64, UnixStream)>> {
        self.clients.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The private directory of a socket, and its name there.
fn place(path: &Path) -> io::Result<(Directory, OsString)> {
    let path = std::path::absolute(path)?;
    let (Some(folder), Some(name)) = (path.parent(), path.file_name()) else {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "the path does not end with a name"));
    };
    Ok((files::private::open(folder)?, name.to_os_string()))
}

fn address(folder: &Directory, name: &std::ffi::OsStr) -> PathBuf {
    Path::new("/proc/self/fd").join(folder.as_fd().as_raw_fd().to_string()).join(name)
}

/// Removes the socket of a proxy that was killed.
fn remove_stale(folder: &Directory, name: &std::ffi::OsStr, path: &Path) -> io::Result<()> {
    let found = match rustix::fs::statat(folder, name, rustix::fs::AtFlags::SYMLINK_NOFOLLOW) {
        Ok(found) => found,
        Err(rustix::io::Errno::NOENT) => return Ok(()),
        Err(error) => return Err(error.into()),
    };
    let is_socket = rustix::fs::FileType::from_raw_mode(found.st_mode) == rustix::fs::FileType::Socket;
    let refused = |text: &str| {
        Err(io::Error::new(
            io::ErrorKind::AlreadyExists,
            format!("{} {text}: name another path with --control", path.display()),
        ))
    };
    if !is_socket {
        return refused("exists and is not a socket");
    }
    match UnixStream::connect(address(folder, name)) {
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => folder.remove(name),
        _ => refused("is in use by another proxy"),
    }
}

fn accept(served: &Arc<Served>) {
    use rustix::event::{PollFd, PollFlags, poll};
    for number in 0.. {
        let mut waiting =
            [PollFd::new(&served.listener, PollFlags::IN), PollFd::new(&served.wake, PollFlags::IN)];
        let polled = poll(&mut waiting, None);
        if served.is_ending.load(Ordering::Relaxed) {
            return;
        }
        if polled.is_err() {
            continue;
        }
        let Ok((client, _)) = served.listener.accept() else {
            // Without free descriptors, the same client is reported again at once.
            std::thread::sleep(Duration::from_millis(10));
            continue;
        };
        let Ok(kept) = client.try_clone() else { continue };
        let mut clients = served.clients();
        if clients.len() >= CLIENTS_MAX {
            continue;
        }
        clients.push((number, kept));
        drop(clients);
        let of_thread = Arc::clone(served);
        let serve = move || {
            // A client that leaves ends only its connection.
            let _ = answer_all(&client, &of_thread.handle);
            let _ = client.shutdown(Shutdown::Both);
            of_thread.clients().retain(|(kept, _)| *kept != number);
        };
        if std::thread::Builder::new().name("control".into()).spawn(serve).is_err() {
            served.clients().retain(|(kept, _)| *kept != number);
        }
    }
}

/// Answers the requests of one client until it leaves.
fn answer_all(client: &UnixStream, handle: &Handle) -> io::Result<()> {
    client.set_nonblocking(false)?;
    client.set_write_timeout(Some(PATIENCE))?;
    let mut reader = BufReader::new(client);
    let mut line = Vec::new();
    loop {
        line.clear();
        reader.by_ref().take(REQUEST_BYTES_MAX).read_until(b'\n', &mut line)?;
        if line.is_empty() {
            return Ok(());
        }
        let is_whole = line.ends_with(b"\n") || (line.len() as u64) < REQUEST_BYTES_MAX;
        let answer = match std::str::from_utf8(&line) {
            Ok(text) if is_whole => answer(text, handle),
            _ => failure(
                &Problem::new("the request is not a line of text", "write one JSON object per line").into(),
            ),
        };
        let mut writer = client;
        writer.write_all(format!("{answer}\n").as_bytes())?;
        if !is_whole {
            return Ok(());
        }
    }
}

fn answer(line: &str, handle: &Handle) -> Value {
    match Request::parse(line) {
        Err(problems) => failure(&problems),
        Ok(Request::Show(restarts)) => json!({"ok": true, "snapshot": handle.snapshot(restarts)}),
        Ok(Request::Set(change)) => match handle.set(change) {
            Ok(()) => json!({"ok": true}),
            Err(problems) => failure(&problems),
        },
    }
}

fn failure(problems: &Problems) -> Value {
    let errors: Vec<Value> =
        problems.0.iter().map(|problem| json!({"what": problem.what, "help": problem.help})).collect();
    json!({"ok": false, "errors": errors})
}

/// Why a request to a running proxy failed.
#[derive(Debug, thiserror::Error)]
pub enum RequestError {
    /// Nobody listens.
    #[error("no proxy can be reached at {}: {}\n  start one: plimsoll delay --control {} ...", .0.display(), .1, .0.display())]
    Unreachable(PathBuf, io::Error),
    /// The connection ended, or the answer is not one of a proxy.
    #[error("the proxy at {} did not answer: {}\n  check that it still runs", .0.display(), .1)]
    NoAnswer(PathBuf, io::Error),
    /// The proxy rejected the request.
    #[error("{0}")]
    Rejected(Problems),
}

/// Sends a request to a running proxy; its answer.
///
/// # Errors
/// When no proxy listens there, it does not answer within 10 seconds, or it rejects the request.
pub fn request(path: &Path, request: &Request) -> Result<Value, RequestError> {
    let unreachable = |error| RequestError::Unreachable(path.to_path_buf(), error);
    let stream = (|| {
        let (folder, name) = Directory::of_file(path)?;
        UnixStream::connect(address(&folder, &name))
    })()
    .map_err(unreachable)?;
    let line = (|| {
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        let mut writer = &stream;
        writer.write_all(format!("{}\n", request.line()).as_bytes())?;
        let mut line = String::new();
        BufReader::new(&stream).take(ANSWER_BYTES_MAX).read_line(&mut line)?;
        serde_json::from_str::<Value>(&line).map_err(io::Error::other)
    })();
    let answer = line.map_err(|error| RequestError::NoAnswer(path.to_path_buf(), error))?;
    if answer["ok"] == Value::Bool(true) {
        return Ok(answer);
    }
    let text = |value: &Value| value.as_str().unwrap_or_default().to_string();
    let errors = answer["errors"].as_array().map(Vec::as_slice).unwrap_or_default();
    let problems = errors.iter().map(|error| Problem::new(text(&error["what"]), text(&error["help"])));
    Err(RequestError::Rejected(Problems(problems.collect())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_read_as_it_was_written() {
        let change = |words: &str| Request::Set(Change::parse([words]).unwrap());
        for request in [
            Request::Show(false),
            Request::Show(true),
            change("none"),
            change("route=ldap none up.latency=1500us down.loss=7%"),
            change(
                "jitter=1ms distribution=pareto bandwidth=1.5MB/s burst=64KiB black-hole=on reset-after=off",
            ),
        ] {
            // The order of settings with different names has no meaning.
            let read = Request::parse(&request.line()).unwrap();
            assert_eq!(read.line(), request.line());
        }
    }

    #[test]
    fn all_mistakes_of_a_request_are_reported() {
        for (line, expected) in [
            ("", "the request is not a JSON object"),
            ("[]", "the request is not a JSON object"),
            ("{}", "the request has no valid `command`"),
            (r#"{"command": "set"}"#, "the request has no `settings`"),
            (r#"{"command": "set", "settings": {"latency": 5}}"#, "the value of `latency` is not a text"),
            (r#"{"command": "show", "reset": true}"#, "there is no key `reset` in this request"),
            (r#"{"command": "show", "restart": 1}"#, "`restart` is not true or false"),
        ] {
            let problems = Request::parse(line).unwrap_err();
            assert_eq!(problems.0.len(), 1, "{problems}");
            assert!(problems.0[0].what.starts_with(expected), "{problems}");
        }
        let line =
            r#"{"command": "set", "route": 1, "settings": {"latenzy": "5ms", "up.loss": "1"}, "x": 1}"#;
        let problems = Request::parse(line).unwrap_err();
        assert_eq!(problems.0.len(), 4, "{problems}");
    }
}
