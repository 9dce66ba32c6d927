//! What sending and receiving alone cost: a closed loop over HTTP/1.1 on one epoll, without a clock for each request, without
//! a record, and with responses that are not read. The floor of what a load generator can reach on a machine.
//!
//! `bare_loop 127.0.0.1:8080 /path CONNECTIONS SECONDS` prints the number of responses and of responses per second.
#![forbid(unsafe_code)]
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a program's own output")]

use std::io;
use std::net::TcpStream;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use rustix::event::{Timespec, epoll};
use rustix::net::{RecvFlags, SendFlags, recv, send};

/// Most events at a time.
const EVENTS_MAX: usize = 256;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let done = match arguments.as_slice() {
        [address, path, connections, seconds] => match (connections.parse(), seconds.parse()) {
            (Ok(connections), Ok(seconds)) => run(address, path, connections, seconds),
            _ => Err(io::Error::other("CONNECTIONS and SECONDS are numbers")),
        },
        _ => Err(io::Error::other("wants ADDRESS PATH CONNECTIONS SECONDS")),
    };
    match done {
        Ok((responses, length)) => {
            println!("{responses} responses, {:.0} per second", responses as f64 / length.as_secs_f64());
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("bare_loop: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(address: &str, path: &str, connections: usize, seconds: u64) -> io::Result<(u64, Duration)> {
    let request = format!("GET {path} HTTP/1.1\r\nHost: {address}\r\nUser-Agent: bare_loop\r\n\r\n");
    let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
    let mut sockets = Vec::new();
    for number in 0..connections {
        let socket = TcpStream::connect(address)?;
        socket.set_nodelay(true)?;
        socket.set_nonblocking(true)?;
        let flags = epoll::EventFlags::IN | epoll::EventFlags::RDHUP | epoll::EventFlags::ET;
        epoll::add(&epoll, &socket, epoll::EventData::new_u64(number as u64), flags)?;
        sockets.push(socket);
    }
    let begin = Instant::now();
    for socket in &sockets {
        send(socket, request.as_bytes(), SendFlags::NOSIGNAL)?;
    }
    let mut events = Vec::with_capacity(EVENTS_MAX);
    let mut buffer = vec![0_u8; 64 << 10];
    let mut responses = 0;
    while begin.elapsed() < Duration::from_secs(seconds) {
        let timeout = Timespec { tv_sec: 0, tv_nsec: 50_000_000 };
        epoll::wait(&epoll, rustix::buffer::spare_capacity(&mut events), Some(&timeout))?;
        for event in events.drain(..) {
            let Some(socket) = sockets.get(event.data.u64() as usize) else { continue };
            match recv(socket, &mut *buffer, RecvFlags::empty()) {
                Ok((_, 0)) => return Err(io::ErrorKind::UnexpectedEof.into()),
                // A small response comes whole.
                Ok(_) => {
                    responses += 1;
                    send(socket, request.as_bytes(), SendFlags::NOSIGNAL)?;
                }
                Err(rustix::io::Errno::AGAIN) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
    Ok((responses, begin.elapsed()))
}
