//! The log of exchanges: a CSV file that a thread of its own writes.

use std::fs::File;
use std::io::{self, BufWriter, Write as _};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError, sync_channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use files::Output;
use model::Nanos;

use crate::exchange::Exchange;
use crate::shared::clock_ns;

/// Exchanges that wait to be written. Further ones are counted as lost.
const WAITING_MAX: usize = 1 << 16;

/// How long exchanges stay in memory.
const FLUSH_EVERY: Duration = Duration::from_secs(1);

/// The first line.
const HEADER: &str = "route,connection,start_unix_ns,request_bytes,first_byte_ns,last_byte_ns,reply_bytes\n";

/// An exchange of a connection.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Logged {
    pub(crate) route: usize,
    pub(crate) connection: u64,
    pub(crate) exchange: Exchange,
}

/// What happened to the exchanges.
#[derive(Debug, Default)]
pub(crate) struct LogCounts {
    pub(crate) written: AtomicU64,
    /// Not written: the disk was too slow, or full.
    pub(crate) lost: AtomicU64,
}

/// The log. It is complete when it is dropped.
#[derive(Debug)]
pub(crate) struct ExchangeLog {
    sender: Option<SyncSender<Logged>>,
    thread: Option<JoinHandle<()>>,
    counts: Arc<LogCounts>,
}

impl ExchangeLog {
    /// Creates the file and starts the thread. `routes` are the names of the routes.
    ///
    /// # Errors
    /// When the file cannot be created or a thread cannot be started.
    pub(crate) fn create(path: &Path, routes: Vec<String>) -> io::Result<ExchangeLog> {
        let mut file = Output::create(path, files::SHARED_FILE)?.into_file()?;
        file.write_all(HEADER.as_bytes())?;
        let (sender, receiver) = sync_channel(WAITING_MAX);
        let counts = Arc::new(LogCounts::default());
        let of_thread = Arc::clone(&counts);
        let thread = std::thread::Builder::new()
            .name("exchanges".into())
            .spawn(move || write(file, &routes, &receiver, &of_thread))?;
        Ok(ExchangeLog { sender: Some(sender), thread: Some(thread), counts })
    }

    /// Adds an exchange without waiting for the disk.
    pub(crate) fn add(&mut self, logged: Logged) {
        if let Some(sender) = &self.sender
            && let Err(TrySendError::Full(_) | TrySendError::Disconnected(_)) = sender.try_send(logged)
        {
            self.counts.lost.fetch_add(1, Ordering::Relaxed);
        }
    }

    pub(crate) fn counts(&self) -> Arc<LogCounts> {
        Arc::clone(&self.counts)
    }
}

impl Drop for ExchangeLog {
    fn drop(&mut self) {
        self.sender = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn write(file: File, routes: &[String], receiver: &Receiver<Logged>, counts: &LogCounts) {
    // The wall clock at the zero of the monotonic clock.
    let unix_ns = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_nanos() as u64);
    let zero_unix_ns = unix_ns.saturating_sub(clock_ns());
    let mut file = BufWriter::with_capacity(1 << 16, file);
    let (mut waiting, mut flushed) = (0_u64, Instant::now());
    loop {
        let received = receiver.recv_timeout(FLUSH_EVERY);
        let mut result = match &received {
            Ok(logged) => line(&mut file, routes, zero_unix_ns, logged),
            Err(_) => Ok(()),
        };
        waiting += u64::from(received.is_ok());
        if received.is_err() || flushed.elapsed() >= FLUSH_EVERY {
            result = result.and_then(|()| file.flush());
            flushed = Instant::now();
            if result.is_ok() {
                counts.written.fetch_add(std::mem::take(&mut waiting), Ordering::Relaxed);
            }
        }
        if result.is_err() {
            counts.lost.fetch_add(std::mem::take(&mut waiting), Ordering::Relaxed);
        }
        if matches!(received, Err(RecvTimeoutError::Disconnected)) {
            return;
        }
    }
}

fn line(
    file: &mut BufWriter<File>,
    routes: &[String],
    zero_unix_ns: Nanos,
    logged: &Logged,
) -> io::Result<()> {
    let Logged { route, connection, exchange } = logged;
    let name = routes.get(*route).map_or("", String::as_str);
    writeln!(
        file,
        "{name},{connection},{},{},{},{},{}",
        zero_unix_ns + exchange.start_ns,
        exchange.request_bytes,
        exchange.first_byte_ns,
        exchange.last_byte_ns,
        exchange.reply_bytes
    )
}
