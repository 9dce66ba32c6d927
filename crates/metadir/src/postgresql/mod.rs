//! A blocking session with a PostgreSQL server, with a timeout and an interrupt for every wait.

mod connect;
mod server;
mod tls;
mod wire;

use std::fmt;
use std::future::Future;
use std::io::Cursor;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker, ready};
use std::time::{Duration, Instant};

use futures_util::{SinkExt as _, TryStreamExt as _};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_postgres::types::{BorrowToSql, ToSql};
use tokio_postgres::{AsyncMessage, CopyInSink, Row, RowStream, Statement, ToStatement};

use self::connect::Place;
use self::connect::connect;
pub use self::server::{Failure, Server, chain, cut, help_of};
use self::tls::Tls;
pub use self::wire::Grace;
use self::wire::{ANSWER_BYTES_MAX, Progress, Wire};

/// Timeout of closing a session.
const GOODBYE: Duration = Duration::from_millis(500);

/// An error.
#[derive(Debug)]
pub enum Error {
    /// The server refuses, or the protocol is violated.
    Server(tokio_postgres::Error),
    /// The connection failed.
    Connect(std::io::Error),
    /// The session was abandoned, for this reason.
    GivenUp(String),
}

impl From<tokio_postgres::Error> for Error {
    fn from(error: tokio_postgres::Error) -> Error {
        Error::Server(error)
    }
}

impl fmt::Display for Error {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Server(error) => out.write_str(&chain(error)),
            Error::Connect(error) => write!(out, "error connecting to server: {error}"),
            Error::GivenUp(why) => out.write_str(why),
        }
    }
}

/// The state machine of the protocol, which ends with the session.
type Protocol = dyn Future<Output = Result<(), tokio_postgres::Error>> + Send;

/// Drives the protocol.
struct Driver {
    /// The protocol; none before its start and after its end.
    connection: Option<Pin<Box<Protocol>>>,
    wire: Arc<Wire>,
    woken: Arc<WakeFlag>,
    waker: Waker,
    timeout: Duration,
}

/// A connection that notes notifications, and drives its protocol to its end.
struct Listening<S, T> {
    connection: tokio_postgres::Connection<S, T>,
    notified: Arc<AtomicBool>,
}

impl<S, T> Future for Listening<S, T>
where
    S: AsyncRead + AsyncWrite + Unpin,
    T: AsyncRead + AsyncWrite + Unpin,
{
    type Output = Result<(), tokio_postgres::Error>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        loop {
            match ready!(self.connection.poll_message(context)) {
                Some(Ok(AsyncMessage::Notification(_))) => self.notified.store(true, Ordering::Release),
                Some(Ok(_)) => {}
                Some(Err(error)) => return Poll::Ready(Err(error)),
                None => return Poll::Ready(Ok(())),
            }
        }
    }
}

/// Whether the state machine was woken since the last poll.
struct WakeFlag(AtomicBool);

impl Wake for WakeFlag {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.0.store(true, Ordering::Release);
    }
}

impl Driver {
    fn new(wire: Arc<Wire>, timeout: Duration) -> Driver {
        let woken = Arc::new(WakeFlag(AtomicBool::new(false)));
        Driver { connection: None, wire, waker: Arc::clone(&woken).into(), woken, timeout }
    }

    /// Runs an operation within its timeout.
    fn run<T>(
        &mut self,
        progress: Progress,
        bytes_max: u64,
        operation: impl Future<Output = Result<T, tokio_postgres::Error>>,
    ) -> Result<T, Error> {
        self.wire.begin(progress, self.timeout, bytes_max);
        self.drive(operation).map_err(|error| match self.wire.given_up() {
            Some(why) => Error::GivenUp(why),
            None => error,
        })
    }

    /// Drives the protocol until something happened, for a limited time; returns whether it happened.
    fn wait_until(&mut self, time: Duration, has_happened: impl Fn() -> bool) -> Result<bool, Error> {
        self.wire.begin(Progress::None, self.timeout, ANSWER_BYTES_MAX);
        let (begin, waker) = (Instant::now(), self.waker.clone());
        loop {
            let connection = self.connection.as_mut();
            let connection = connection.ok_or_else(|| Error::GivenUp("the session has ended".into()))?;
            if let Poll::Ready(ended) = connection.as_mut().poll(&mut Context::from_waker(&waker)) {
                self.connection = None;
                ended?;
                return Err(Error::GivenUp("the server closed the connection".into()));
            }
            if has_happened() {
                return Ok(true);
            }
            if begin.elapsed() >= time {
                return Ok(false);
            }
            self.wire.wait().map_err(Error::Connect)?;
        }
    }

    fn drive<T>(
        &mut self,
        operation: impl Future<Output = Result<T, tokio_postgres::Error>>,
    ) -> Result<T, Error> {
        let mut operation = pin!(operation);
        let mut context = Context::from_waker(&self.waker);
        loop {
            self.woken.0.store(false, Ordering::Release);
            if let Some(connection) = &mut self.connection
                && let Poll::Ready(ended) = connection.as_mut().poll(&mut context)
            {
                self.connection = None;
                // This error says more than that of an operation on a closed connection.
                ended?;
            }
            if let Poll::Ready(done) = operation.as_mut().poll(&mut context) {
                return Ok(done?);
            }
            if !self.woken.0.load(Ordering::Acquire) {
                self.wire.wait().map_err(Error::Connect)?;
            }
        }
    }
}

/// A session.
pub struct Client {
    /// None once the session is closed.
    inner: Option<tokio_postgres::Client>,
    driver: Driver,
    /// The address for the connection that cancels a query.
    place: Place,
    tls: Option<Tls>,
    /// Whether a notification arrived.
    notified: Arc<AtomicBool>,
}

impl Client {
    /// The protocol's client and its driver.
    fn parts(&mut self) -> Result<(&tokio_postgres::Client, &mut Driver), Error> {
        match &self.inner {
            Some(inner) => Ok((inner, &mut self.driver)),
            None => Err(Error::GivenUp("the session has ended".into())),
        }
    }

    /// Whether the session is closed.
    pub fn is_closed(&self) -> bool {
        self.inner.as_ref().is_none_or(tokio_postgres::Client::is_closed)
            || self.driver.wire.given_up().is_some()
    }

    /// Prepares a statement.
    ///
    /// # Errors
    /// When the server refuses, or the session ends.
    pub fn prepare(&mut self, sql: &str) -> Result<Statement, Error> {
        let (inner, driver) = self.parts()?;
        driver.run(Progress::None, ANSWER_BYTES_MAX, inner.prepare(sql))
    }

    /// Executes statements without parameters.
    pub fn batch_execute(&mut self, sql: &str) -> Result<(), Error> {
        let (inner, driver) = self.parts()?;
        driver.run(Progress::None, ANSWER_BYTES_MAX, inner.batch_execute(sql))
    }

    /// Executes a statement and returns the number of affected rows.
    pub fn execute<S: ?Sized + ToStatement>(
        &mut self,
        statement: &S,
        values: &[&(dyn ToSql + Sync)],
    ) -> Result<u64, Error> {
        let (inner, driver) = self.parts()?;
        driver.run(Progress::None, ANSWER_BYTES_MAX, inner.execute(statement, values))
    }

    /// Waits for a notification of a channel that the session listens to; returns whether one arrived within a time,
    /// which is less than the timeout of the session.
    ///
    /// # Errors
    /// When the session ends.
    pub fn notified_within(&mut self, time: Duration) -> Result<bool, Error> {
        let notified = Arc::clone(&self.notified);
        let (_, driver) = self.parts()?;
        driver.wait_until(time, || notified.swap(false, Ordering::Acquire))
    }

    /// All rows of a query.
    pub fn query<S: ?Sized + ToStatement>(
        &mut self,
        statement: &S,
        values: &[&(dyn ToSql + Sync)],
    ) -> Result<Vec<Row>, Error> {
        let (inner, driver) = self.parts()?;
        driver.run(Progress::Rows, ANSWER_BYTES_MAX, inner.query(statement, values))
    }

    /// The row of a query that returns exactly one.
    pub fn query_one<S: ?Sized + ToStatement>(
        &mut self,
        statement: &S,
        values: &[&(dyn ToSql + Sync)],
    ) -> Result<Row, Error> {
        let (inner, driver) = self.parts()?;
        driver.run(Progress::None, ANSWER_BYTES_MAX, inner.query_one(statement, values))
    }

    /// The row of a query that returns at most one.
    pub fn query_opt<S: ?Sized + ToStatement>(
        &mut self,
        statement: &S,
        values: &[&(dyn ToSql + Sync)],
    ) -> Result<Option<Row>, Error> {
        let (inner, driver) = self.parts()?;
        driver.run(Progress::None, ANSWER_BYTES_MAX, inner.query_opt(statement, values))
    }

    /// The rows of a query as a stream: unread rows remain in the server.
    pub fn rows<S, P>(&mut self, statement: &S, values: Vec<P>) -> Result<Rows<'_>, Error>
    where
        S: ?Sized + ToStatement,
        P: BorrowToSql,
        Vec<P>: IntoIterator<Item = P, IntoIter: ExactSizeIterator>,
    {
        let (inner, driver) = self.parts()?;
        let rows = driver.run(Progress::None, u64::MAX, inner.query_raw(statement, values))?;
        Ok(Rows { rows: Box::pin(rows), driver })
    }

    /// Begins to send rows to a COPY.
    pub fn copy_in(&mut self, statement: &Statement) -> Result<Copy<'_>, Error> {
        let (inner, driver) = self.parts()?;
        let sink = driver.run(Progress::None, ANSWER_BYTES_MAX, inner.copy_in(statement))?;
        Ok(Copy { sink: Box::pin(sink), driver })
    }

    /// Cancels the current query on the server and closes the session without reading the rest of the result.
    pub fn cancel(&mut self) {
        let Some(inner) = self.inner.take() else { return };
        let token = inner.cancel_token();
        drop(inner);
        self.driver.connection = None;
        // If the cancellation fails, the server notices that the connection is closed.
        let _ = self.place.cancel(&token, self.tls.as_ref());
    }
}

impl Drop for Client {
    /// Terminates the session in the protocol, so that the server logs no error.
    fn drop(&mut self) {
        if self.inner.take().is_some()
            && let Some(connection) = self.driver.connection.take()
        {
            self.driver.timeout = GOODBYE;
            let _ = self.driver.run(Progress::None, ANSWER_BYTES_MAX, connection);
        }
    }
}

/// The rows of a query as a stream.
pub struct Rows<'a> {
    rows: Pin<Box<RowStream>>,
    driver: &'a mut Driver,
}

impl Rows<'_> {
    /// The next row; none after the last one.
    ///
    /// # Errors
    /// When the server refuses, or the session ends.
    pub fn next_row(&mut self) -> Result<Option<Row>, Error> {
        self.driver.run(Progress::None, u64::MAX, self.rows.try_next())
    }
}

/// Rows that are sent to a COPY.
pub struct Copy<'a> {
    sink: Pin<Box<CopyInSink<Cursor<Vec<u8>>>>>,
    driver: &'a mut Driver,
}

impl Copy<'_> {
    /// Sends bytes of the copy.
    ///
    /// # Errors
    /// When the server refuses, or the session ends.
    pub fn write(&mut self, bytes: Vec<u8>) -> Result<(), Error> {
        self.driver.run(Progress::Sent, ANSWER_BYTES_MAX, self.sink.send(Cursor::new(bytes)))
    }

    /// Ends the copy.
    ///
    /// # Errors
    /// When the server refuses, or the session ends.
    pub fn finish(mut self) -> Result<(), Error> {
        self.driver.run(Progress::Sent, ANSWER_BYTES_MAX, self.sink.as_mut().finish()).map(drop)
    }
}
