//! An HTTP/1.1 service with fixed pools of worker threads.
//!
//! One thread waits for requests on all connections. A connection with a request waits in the queue of its pool until one
//! of the workers is free, however many connections there are. The reply says how long it waited and how long it was
//! executed, in a `Server-Timing` field.

use std::collections::{HashMap, VecDeque};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use rustix::event::epoll::{self, EventData, EventFlags};

/// How long a client may take to send a request that it has begun.
const REQUEST_TIME_MAX: Duration = Duration::from_secs(10);
/// The largest request body.
const BODY_BYTES_MAX: usize = 1 << 20;
/// The longest line of a request head, and most of them.
const LINE_BYTES_MAX: u64 = 16 << 10;
const LINES_MAX: usize = 100;
/// The number of the listener among the events.
const LISTENER: u64 = u64::MAX;

/// The pools of a service.
#[derive(Clone, Debug)]
pub struct Pools {
    /// Their number; connections are spread over them.
    pub count: usize,
    /// Worker threads of each.
    pub workers: usize,
    /// Most requests that wait in one queue; further ones are rejected with status 503.
    pub queue_max: usize,
}

/// A request.
#[derive(Debug)]
pub struct Request {
    /// Its method.
    pub method: String,
    /// Its path, with a query if there is one.
    pub path: String,
    /// Its body.
    pub body: Vec<u8>,
}

/// The answer to a request.
#[derive(Debug)]
pub struct Reply {
    /// The HTTP status.
    pub status: u16,
    /// The media type.
    pub media_type: &'static str,
    /// The body.
    pub body: Vec<u8>,
}

impl Reply {
    /// An XML document.
    pub fn xml(status: u16, text: String) -> Reply {
        Reply { status, media_type: "text/xml; charset=utf-8", body: text.into_bytes() }
    }
}

/// What executes the requests of one worker thread.
pub trait Worker {
    /// Executes a request.
    fn reply(&mut self, request: &Request) -> Reply;
}

/// A connection whose request waits for a worker.
struct Waiting {
    connection: Arc<TcpStream>,
    number: u64,
    since: Instant,
}

#[derive(Default)]
struct Queue {
    waiting: Mutex<VecDeque<Waiting>>,
    filled: Condvar,
}

struct Shared {
    epoll: std::os::fd::OwnedFd,
    connections: Mutex<HashMap<u64, Arc<TcpStream>>>,
    queues: Vec<Queue>,
    queue_max: usize,
}

/// Serves requests until the process ends. `make` makes the worker of each thread, before the first request.
///
/// # Errors
/// Where the service cannot be started.
pub fn serve<W: Worker + Send + 'static>(
    listener: &TcpListener,
    pools: &Pools,
    mut make: impl FnMut() -> io::Result<W>,
) -> io::Result<()> {
    let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
    let queues = (0..pools.count.max(1)).map(|_| Queue::default()).collect();
    let shared =
        Arc::new(Shared { epoll, connections: Mutex::default(), queues, queue_max: pools.queue_max });
    for pool in 0..shared.queues.len() {
        for _ in 0..pools.workers.max(1) {
            let (shared, mut worker) = (shared.clone(), make()?);
            thread::Builder::new().name("worker".into()).spawn(move || work(&shared, pool, &mut worker))?;
        }
    }
    listener.set_nonblocking(true)?;
    epoll::add(&shared.epoll, listener, EventData::new_u64(LISTENER), EventFlags::IN)?;
    let mut next_number = 0_u64;
    let mut events: Vec<epoll::Event> = Vec::with_capacity(256);
    loop {
        events.clear();
        match epoll::wait(&shared.epoll, rustix::buffer::spare_capacity(&mut events), None) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(errno) => return Err(errno.into()),
        }
        for event in &events {
            match event.data.u64() {
                LISTENER => accept(&shared, listener, &mut next_number),
                number => enqueue(&shared, number),
            }
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn accept(shared: &Shared, listener: &TcpListener, next_number: &mut u64) {
    while let Ok((connection, _)) = listener.accept() {
        let prepared = connection
            .set_nodelay(true)
            .and_then(|()| connection.set_nonblocking(false))
            .and_then(|()| connection.set_read_timeout(Some(REQUEST_TIME_MAX)))
            .and_then(|()| connection.set_write_timeout(Some(REQUEST_TIME_MAX)));
        if prepared.is_err() {
            continue;
        }
        let (number, connection) = (*next_number, Arc::new(connection));
        *next_number += 1;
        lock(&shared.connections).insert(number, connection.clone());
        let flags = EventFlags::IN | EventFlags::ONESHOT;
        if epoll::add(&shared.epoll, &*connection, EventData::new_u64(number), flags).is_err() {
            lock(&shared.connections).remove(&number);
        }
    }
}

/// A connection has a request, or has ended.
fn enqueue(shared: &Shared, number: u64) {
    let Some(connection) = lock(&shared.connections).get(&number).cloned() else { return };
    let queue = &shared.queues[(number % shared.queues.len() as u64) as usize];
    let mut waiting = lock(&queue.waiting);
    if waiting.len() >= shared.queue_max {
        drop(waiting);
        let text = b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
        let _ = (&*connection).write_all(text);
        lock(&shared.connections).remove(&number);
        return;
    }
    waiting.push_back(Waiting { connection, number, since: Instant::now() });
    drop(waiting);
    queue.filled.notify_one();
}

fn work(shared: &Shared, pool: usize, worker: &mut dyn Worker) {
    let queue = &shared.queues[pool];
    loop {
        let mut waiting = lock(&queue.waiting);
        let next = loop {
            match waiting.pop_front() {
                Some(next) => break next,
                None => waiting = queue.filled.wait(waiting).unwrap_or_else(PoisonError::into_inner),
            }
        };
        drop(waiting);
        let waited = next.since.elapsed();
        let flags = EventFlags::IN | EventFlags::ONESHOT;
        let is_kept = answer(&next.connection, worker, waited).is_ok_and(|is_kept| is_kept)
            && epoll::modify(&shared.epoll, &*next.connection, EventData::new_u64(next.number), flags)
                .is_ok();
        if !is_kept {
            lock(&shared.connections).remove(&next.number);
        }
    }
}

/// Reads one request and answers it. Returns whether the connection stays open.
fn answer(connection: &TcpStream, worker: &mut dyn Worker, waited: Duration) -> io::Result<bool> {
    let begin = Instant::now();
    let Some((request, is_kept)) = read_request(&mut BufReader::new(connection))? else { return Ok(false) };
    let reply = worker.reply(&request);
    let ms = |time: Duration| time.as_secs_f64() * 1e3;
    let connection_field = if is_kept { "keep-alive" } else { "close" };
    let mut text = format!(
        "HTTP/1.1 {} {}\r\nContent-Type: {}\r\nContent-Length: {}\r\nServer-Timing: queue;dur={:.3}, execute;dur={:.3}\r\nConnection: {connection_field}\r\n\r\n",
        reply.status,
        if reply.status < 400 { "OK" } else { "Error" },
        reply.media_type,
        reply.body.len(),
        ms(waited),
        ms(begin.elapsed()),
    )
    .into_bytes();
    text.extend_from_slice(&reply.body);
    (&*connection).write_all(&text)?;
    Ok(is_kept)
}

/// A request, and whether the client wants to keep the connection; none where the client has ended.
fn read_request(connection: &mut impl BufRead) -> io::Result<Option<(Request, bool)>> {
    let wrong = |what: &str| io::Error::new(io::ErrorKind::InvalidData, what.to_string());
    let line = |connection: &mut dyn BufRead| -> io::Result<String> {
        let mut line = String::new();
        connection.take(LINE_BYTES_MAX).read_line(&mut line)?;
        Ok(line)
    };
    let first = line(connection)?;
    let mut words = first.split_whitespace();
    let (Some(method), Some(path)) = (words.next(), words.next()) else { return Ok(None) };
    let (method, path) = (method.to_string(), path.to_string());
    let (mut length, mut is_kept) = (0_usize, true);
    for _ in 0..LINES_MAX {
        let field = line(connection)?;
        let field = field.trim_end();
        if field.is_empty() {
            let mut body = vec![0; length];
            connection.read_exact(&mut body)?;
            return Ok(Some((Request { method, path, body }, is_kept)));
        }
        let (name, value) = field.split_once(':').ok_or_else(|| wrong("a header field without a colon"))?;
        match name.to_ascii_lowercase().as_str() {
            "content-length" => {
                length = value.trim().parse().map_err(|_| wrong("Content-Length"))?;
                if length > BODY_BYTES_MAX {
                    return Err(wrong("the body is too large"));
                }
            }
            "connection" => is_kept = !value.trim().eq_ignore_ascii_case("close"),
            "transfer-encoding" => return Err(wrong("chunked bodies are not supported")),
            _ => {}
        }
    }
    Err(wrong("too many header fields"))
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]
mod tests {
    use super::*;

    #[test]
    fn requests_are_read() {
        let read = |text: &str| read_request(&mut text.as_bytes());
        let (request, is_kept) =
            read("POST /a?b HTTP/1.1\r\nHost: x\r\ncontent-length: 3\r\n\r\nabc").unwrap().unwrap();
        assert_eq!(
            (request.method.as_str(), request.path.as_str(), request.body.as_slice()),
            ("POST", "/a?b", &b"abc"[..])
        );
        assert!(is_kept);
        assert!(!read("GET / HTTP/1.1\r\nConnection: close\r\n\r\n").unwrap().unwrap().1);
        assert!(read("").unwrap().is_none());
        for wrong in [
            "GET / HTTP/1.1\r\nnonsense\r\n\r\n",
            "POST / HTTP/1.1\r\nContent-Length: 9999999\r\n\r\n",
            "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n",
            "POST / HTTP/1.1\r\nContent-Length: 5\r\n\r\nab",
        ] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
    }
}
