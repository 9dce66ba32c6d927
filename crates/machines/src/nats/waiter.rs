//! The agent's side: waits for coordinators, and serves one at a time.

use std::fs::File;
use std::io::pipe;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use async_nats::{Client, Message, Subscriber};
use futures_util::StreamExt;
use model::{Ending, Host};
use tokio::net::unix::pipe::{Receiver, Sender};
use tokio::runtime::Handle;
use tokio::sync::oneshot;

use super::bus::{SERVER_MAX, file, start_runtime, wait};
use super::carry::{Session, carry};
use super::connect::{Connected, Line, connect};
use super::place::Place;
use super::talk::{self, Answer, Claim, Offer};

/// How often a session looks whether the agent is to stop.
const LOOK_UP: Duration = Duration::from_millis(100);

/// A coordinator has claimed this agent. Its messages are read from `input`, and the answers are written to `output`.
pub struct Claimed {
    /// From the coordinator.
    pub input: File,
    /// To the coordinator.
    pub output: File,
    /// Its host, as it says.
    pub coordinator: String,
}

/// What happened while an agent waited.
pub enum Waited {
    /// A coordinator came.
    Claimed(Claimed),
    /// Something to be said.
    Note(String),
    /// Nothing.
    Nothing,
}

/// An agent that waits for coordinators, on a thread of its own.
pub struct Waiter {
    arrived: mpsc::Receiver<Waited>,
    busy: Arc<Mutex<Option<String>>>,
    client: Client,
    runtime: Handle,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Waiter {
    /// Connects to the server of a place. When `stops` is set, sessions end.
    ///
    /// # Errors
    /// Why the server cannot be reached or lets nobody in, and what to do.
    pub fn connect(
        place: &Place,
        name: &str,
        host: &Host,
        stops: &'static AtomicBool,
    ) -> Result<Waiter, String> {
        let (runtime, stop, thread) = start_runtime()?;
        let offer = Offer::new(&talk::new_id()?, name, host);
        let (to, arrived) = mpsc::channel();
        let busy = Arc::<Mutex<Option<String>>>::default();
        let waiting = Waiting { place: place.clone(), offer, busy: busy.clone(), to, stops };
        let connected = async {
            let Connected { client, line, .. } = connect(place, &format!("plimsoll agent {name}")).await?;
            let failed = |error: &dyn std::fmt::Display| format!("{}: {error}", place.server());
            let offers = client.subscribe(place.offer()).await.map_err(|error| failed(&error))?;
            let claims =
                client.subscribe(place.claim(&waiting.offer.id)).await.map_err(|error| failed(&error))?;
            // A refusal of the subjects would arrive before the answer.
            client.flush().await.map_err(|error| failed(&error))?;
            tokio::spawn(watch(line, waiting.to.clone()));
            tokio::spawn(waiting.wait(client.clone(), offers, claims));
            Ok::<_, String>(client)
        };
        let client = wait(&runtime, place, stops, SERVER_MAX, connected).map_err(|ending| match ending {
            Ending::Failed(why) => why,
            ending => ending.to_string(),
        })?;
        Ok(Waiter { arrived, busy, client, runtime, stop: Some(stop), thread: Some(thread) })
    }

    /// Waits for a coordinator.
    ///
    /// # Errors
    /// When none can come any more.
    pub fn next(&self, at_most: Duration) -> Result<Waited, String> {
        match self.arrived.recv_timeout(at_most) {
            Ok(waited) => Ok(waited),
            Err(RecvTimeoutError::Timeout) => Ok(Waited::Nothing),
            Err(RecvTimeoutError::Disconnected) => Err("the connection to NATS has ended".into()),
        }
    }

    /// The coordinator has been served: another one may come.
    pub fn free(&self) {
        *self.busy.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }
}

impl Drop for Waiter {
    fn drop(&mut self) {
        // The ends of sessions are still sent.
        let flush = async { tokio::time::timeout(Duration::from_secs(1), self.client.flush()).await };
        let _ = self.runtime.block_on(flush);
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Says when the connection is lost and made again.
async fn watch(line: Arc<Line>, to: mpsc::Sender<Waited>) {
    let mut was_lost = false;
    loop {
        tokio::time::sleep(LOOK_UP).await;
        let is_lost = line.lost_since().is_some();
        if is_lost != was_lost {
            let text =
                if is_lost { "the connection to NATS was lost" } else { "the connection to NATS is back" };
            if to.send(Waited::Note(text.into())).is_err() {
                return;
            }
            was_lost = is_lost;
        }
    }
}

struct Waiting {
    place: Place,
    offer: Offer,
    busy: Arc<Mutex<Option<String>>>,
    to: mpsc::Sender<Waited>,
    stops: &'static AtomicBool,
}

impl Waiting {
    async fn wait(self, client: Client, mut offers: Subscriber, mut claims: Subscriber) {
        loop {
            let (message, answer) = tokio::select! {
                Some(message) = offers.next() => {
                    let busy = self.busy.lock().unwrap_or_else(PoisonError::into_inner).clone();
                    (message, talk::write(&Offer { busy, ..self.offer.clone() }))
                }
                Some(message) = claims.next() => {
                    let answer = self.claimed(&client, &message).await;
                    (message, talk::write(&answer))
                }
                else => return,
            };
            if let Some(reply) = message.reply {
                // Who asked asks again.
                let _ = client.publish(reply, answer.into()).await;
            }
        }
    }

    async fn claimed(&self, client: &Client, message: &Message) -> Answer {
        let Some(claim) = talk::read::<Claim>(&message.payload) else {
            return Answer::Refused { why: "its claim could not be understood".into() };
        };
        if let Err(why) = claim.check() {
            return Answer::Refused { why };
        }
        {
            let mut busy = self.busy.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(coordinator) = &*busy {
                return Answer::Busy { coordinator: coordinator.clone() };
            }
            *busy = Some(claim.coordinator.clone());
        }
        match self.begin(client, claim).await {
            Ok(()) => Answer::Accepted,
            Err(why) => {
                *self.busy.lock().unwrap_or_else(PoisonError::into_inner) = None;
                Answer::Refused { why }
            }
        }
    }

    async fn begin(&self, client: &Client, claim: Claim) -> Result<(), String> {
        let failed = |error: std::io::Error| error.to_string();
        let from =
            client.subscribe(self.place.down(&claim.session)).await.map_err(|error| error.to_string())?;
        // The server knows the subject before the coordinator uses it.
        client.flush().await.map_err(|error| error.to_string())?;
        let (input, to_agent) = pipe().map_err(failed)?;
        let (from_agent, output) = pipe().map_err(failed)?;
        let to_agent = Sender::from_owned_fd(to_agent.into()).map_err(failed)?;
        let from_agent = Receiver::from_owned_fd(from_agent.into()).map_err(failed)?;
        let session = Session {
            client: client.clone(),
            to: self.place.up(&claim.run, &claim.session),
            from,
            kept: None,
            // Its messages are not kept: a coordinator that lost one begins again.
            connected: tokio::sync::watch::channel(0).1,
        };
        let stops = self.stops;
        tokio::spawn(async move {
            let stop = async {
                while !stops.load(Ordering::Relaxed) {
                    tokio::time::sleep(LOOK_UP).await;
                }
            };
            carry(session, from_agent, to_agent, stop).await;
        });
        let claimed = Claimed { input: file(input), output: file(output), coordinator: claim.coordinator };
        self.to.send(Waited::Claimed(claimed)).map_err(|_| "it ends".to_string())
    }
}
