//! One session between a coordinator and an agent: bytes of two pipes as numbered messages, in both directions.

use std::collections::VecDeque;
use std::time::Duration;

use async_nats::jetstream::stream::{DirectGetErrorKind, Stream};
use async_nats::{Client, Subscriber};
use futures_util::StreamExt;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::unix::pipe::{Receiver, Sender};
use tokio::sync::watch;
use tokio::time::Instant;

use super::piece::{self, HEAD_BYTES, Inbound, PIECE_BYTES_MAX, Piece};

/// How long a missing message is looked for in the stream of the run, and how often.
const MISSING_MAX: Duration = Duration::from_secs(1);
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// How a session is carried.
pub(super) struct Session {
    pub(super) client: Client,
    /// The subject to send to.
    pub(super) to: String,
    /// What arrives.
    pub(super) from: Subscriber,
    /// What keeps messages that arrived while the connection was lost.
    pub(super) kept: Option<Kept>,
    /// Changes when the connection is made again.
    pub(super) connected: watch::Receiver<u64>,
}

/// The messages of a session in the stream of its run.
pub(super) struct Kept {
    pub(super) stream: Stream,
    pub(super) subject: String,
    /// The next of the stream.
    pub(super) next: u64,
}

/// How a session ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// This side closed its pipe.
    Here,
    /// The other side ended it, with the reason; empty if it was over.
    There(String),
    /// It could not go on.
    Failed(String),
}

/// Carries a session until one side ends it, or `stop` is done.
pub(super) async fn carry(
    mut session: Session,
    mut input: Receiver,
    mut output: Sender,
    stop: impl Future<Output = ()>,
) -> End {
    let mut sent = 0;
    let end = tokio::select! {
        end = exchange(&mut session, &mut input, &mut output, &mut sent) => end,
        () = stop => End::Here,
    };
    if !matches!(end, End::There(_)) {
        let why = match &end {
            End::Failed(why) => why.clone(),
            _ => String::new(),
        };
        let last = piece::encode(sent, &Piece::End(why));
        // The other side would notice the silence too.
        let _ = session.client.publish(session.to.clone(), last.into()).await;
        let _ = tokio::time::timeout(MISSING_MAX, session.client.flush()).await;
    }
    end
}

async fn exchange(session: &mut Session, input: &mut Receiver, output: &mut Sender, sent: &mut u64) -> End {
    let Session { client, to, from, kept, connected } = session;
    let size = PIECE_BYTES_MAX.min(client.max_payload().saturating_sub(HEAD_BYTES)).max(1);
    let mut buffer = vec![0; size];
    let mut inbound = Inbound::default();
    let mut missing_since: Option<Instant> = None;
    connected.mark_unchanged();
    loop {
        let mut ready = VecDeque::new();
        let mut look = false;
        tokio::select! {
            read = input.read(&mut buffer) => match read {
                Ok(0) => return End::Here,
                Ok(count) => {
                    let message = piece::encode(*sent, &Piece::Data(buffer[..count].to_vec()));
                    *sent += 1;
                    if let Err(error) = client.publish(to.clone(), message.into()).await {
                        return End::Failed(format!("a message could not be sent: {error}"));
                    }
                }
                Err(error) => return End::Failed(error.to_string()),
            },
            message = from.next() => {
                let Some(message) = message else { return End::Failed("the connection to NATS has ended".into()) };
                match inbound.take(&message.payload) {
                    Ok(pieces) => ready.extend(pieces),
                    Err(why) => return End::Failed(why),
                }
                look = inbound.missing() > 0 && missing_since.is_none();
            }
            // What was sent meanwhile did not arrive here.
            Ok(()) = connected.changed() => look = true,
            () = tokio::time::sleep(LOOK_EVERY), if missing_since.is_some() => look = true,
        }
        if look && let Some(kept) = kept {
            match kept.read(&mut inbound).await {
                Ok(pieces) => ready.extend(pieces),
                Err(why) => return End::Failed(why),
            }
        }
        missing_since = match inbound.missing() {
            0 => None,
            // Messages on one subject arrive in order, so without a stream it will not come.
            count if kept.is_none() || missing_since.is_some_and(|since| since.elapsed() > MISSING_MAX) => {
                return End::Failed(format!("{count} messages were lost on the way"));
            }
            _ => missing_since.or_else(|| Some(Instant::now())),
        };
        for piece in ready {
            match piece {
                Piece::Data(bytes) => {
                    // Nobody reads any more.
                    if output.write_all(&bytes).await.is_err() {
                        return End::Here;
                    }
                }
                Piece::End(why) => return End::There(why),
            }
        }
    }
}

impl Kept {
    /// Takes the messages that were kept since the last time.
    async fn read(&mut self, inbound: &mut Inbound) -> Result<Vec<Piece>, String> {
        let mut ready = Vec::new();
        loop {
            match self.stream.direct_get_next_for_subject(self.subject.as_str(), Some(self.next)).await {
                Ok(message) => {
                    self.next = message.sequence + 1;
                    ready.extend(inbound.take(&message.payload)?);
                }
                Err(error) if error.kind() == DirectGetErrorKind::NotFound => return Ok(ready),
                // It is asked again while something is missing.
                Err(_) => return Ok(ready),
            }
        }
    }
}
