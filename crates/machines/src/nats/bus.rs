//! The coordinator's side: finds agents of a fleet, claims them, and connects each by pipes, as if it were a process.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{PipeReader, PipeWriter, Write, pipe};
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use async_nats::jetstream::stream::{Config, StorageType, Stream};
use async_nats::jetstream::{self, Context};
use async_nats::{Client, RequestErrorKind};
use engine::clock::Clock;
use engine::inputs::Input;
use futures_util::StreamExt;
use model::{Ending, Level, Nanos, SECOND, SecretParts, Setting, Settings};
use tokio::net::unix::pipe::{Receiver, Sender};
use tokio::runtime::Handle;
use tokio::sync::oneshot;

use super::carry::{End, Kept, Session, carry};
use super::connect::{Line, connect};
use super::place::Place;
use super::talk::{self, Answer, Claim, Offer, Question};
use crate::address::{Address, Reach};
use crate::hub::Member;
use crate::message::FORMAT;

/// How long agents may take to answer the question who is there.
const OFFERS_WAIT: Duration = Duration::from_secs(1);

/// How long a server may take for what it is asked.
pub(super) const SERVER_MAX: Duration = Duration::from_secs(20);

/// How often a wait looks whether the user wants to stop.
const LOOK_UP: Duration = Duration::from_millis(100);

/// How long the requested number of agents may take to come, before the run and after a loss.
const JOIN_MAX: Duration = Duration::from_secs(60);
const REJOIN_MAX: Duration = Duration::from_secs(30);

/// How long further answers are awaited when enough agents have answered, so that the first by name take part.
const MORE_WAIT: Duration = Duration::from_millis(100);

/// Most answers that are read.
const OFFERS_MAX: usize = 10_000;

/// An interrupted connection to the server is waited for this long: less than agents wait for their coordinator.
const AWAY_MAX: Nanos = 4 * SECOND;

/// What the stream of a run keeps: more than agents send while they wait for their coordinator.
const KEPT_FOR: Duration = Duration::from_secs(10);
const KEPT_BYTES_MAX: i64 = 256 << 20;

/// A stream without messages that is older belongs to no run: in a run, each agent answers twice per second.
const FORSAKEN_AFTER_S: i64 = 60;

/// Replaces the fleets among the machines by their agents, which are claimed when their connection is opened.
///
/// # Errors
/// How it ended: the server or agents cannot be reached, or the user stopped it.
pub(crate) fn expand(
    members: Vec<Member>,
    say: &mut dyn FnMut(&str),
    interrupted: &AtomicBool,
) -> Result<Vec<Member>, Ending> {
    let mut all: Vec<Member> = Vec::new();
    for member in members {
        let Reach::Fleet(place) = &member.address.reach else {
            all.push(member);
            continue;
        };
        let bus = Arc::new(Bus::connect(place, interrupted)?);
        let agents = bus.gather(say, interrupted)?;
        if bus.stream.is_none() {
            say(&format!(
                "fleet {}: the server has no JetStream, so an interruption of the connection to it ends the trial",
                place.fleet
            ));
        }
        for number in 0..agents {
            let name = match (agents, place.agents) {
                (1, Some(1)) => member.address.name.clone(),
                _ => format!("{}-{}", member.address.name, number + 1),
            };
            let reach = Reach::Agent(Slot { bus: bus.clone(), number });
            all.push(Member { address: Address { name, reach }, ..member.clone() });
        }
    }
    let mut names: Vec<&str> = all.iter().map(|member| member.address.name.as_str()).collect();
    names.sort_unstable();
    match names.windows(2).find(|pair| pair[0] == pair[1]) {
        Some(pair) => {
            Err(Ending::Failed(format!("two machines have the name {}: give one of them another", pair[0])))
        }
        None => Ok(all),
    }
}

/// What to do about a secret that would be readable on the way.
pub(crate) const ENCRYPT: &str = "secrets travel only inside SSH or TLS: write tls:// instead of nats://, and give the server a certificate";

/// That settings or files have a secret, and that a machine would receive it over a connection without TLS.
pub(crate) fn unencrypted_secret(
    members: &[Member],
    settings: &Settings,
    inputs: &[&Input],
) -> Option<String> {
    let is_plain =
        |member: &&Member| matches!(&member.address.reach, Reach::Agent(slot) if !slot.is_encrypted());
    let member = members.iter().find(is_plain)?;
    let has_secret = |setting: &Setting| {
        let mut level = setting.level.clone();
        level.secrets_mut().iter().any(|secret| secret.to_string() != secret.reveal())
    };
    let of_settings = settings.0.iter().find(|(_, setting)| has_secret(setting)).map(|(name, _)| name);
    let of_files = || inputs.iter().find(|input| may_have_secret(input)).map(|input| &input.name);
    let name = of_settings.or_else(of_files)?;
    Some(format!(
        "`{name}` has a secret, and machine {} is reached over NATS without TLS",
        member.address.name
    ))
}

/// Whether a file is a secret or has one. If its reader does not know, it may have a private key, or a value or a column with a name
/// such as `password`.
fn may_have_secret(input: &Input) -> bool {
    let hides = |text: &str| SecretParts::Pairs.hide(text) != text;
    let text = String::from_utf8_lossy(&input.content);
    let columns = text.lines().next().unwrap_or_default().split(',');
    input.is_secret.unwrap_or_else(|| {
        text.contains("PRIVATE KEY")
            || hides(&text)
            || columns.map(|name| name.trim_matches(['"', ' '])).any(|name| hides(&format!("{name}: x")))
    })
}

/// Whether a stream keeps what the agents of each fleet send.
pub(crate) fn facts(members: &[Member]) -> BTreeMap<String, Level> {
    let fleets = members.iter().filter_map(|member| match &member.address.reach {
        Reach::Agent(slot) => Some(slot.fleet()),
        _ => None,
    });
    fleets.map(|(fleet, is_kept)| (format!("nats.{fleet}.jetstream"), Level::Flag(is_kept))).collect()
}

/// One of the agents of a fleet that an experiment uses.
#[derive(Clone)]
pub struct Slot {
    bus: Arc<Bus>,
    number: usize,
}

impl PartialEq for Slot {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.bus, &other.bus) && self.number == other.number
    }
}

impl Eq for Slot {}

impl std::fmt::Debug for Slot {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "agent {} of {}", self.number, self.bus.shared.place.fleet)
    }
}

/// The pipes of a session: they stand for the standard streams of a process.
pub(crate) struct Pipes {
    pub(crate) input: OwnedFd,
    pub(crate) output: OwnedFd,
    pub(crate) errors: OwnedFd,
}

impl Slot {
    /// Begins a session with the agent, or with another free one if it is gone. It is claimed in the background; why it could not
    /// be is in the errors.
    ///
    /// # Errors
    /// When there are no pipes.
    pub(crate) fn open(&self) -> std::io::Result<Pipes> {
        self.bus.open(self.number)
    }

    /// Whether the connection to the server is interrupted, but not for long: nothing that is missing says anything about the agent.
    pub(crate) fn is_away(&self) -> bool {
        let since = self.bus.shared.line.lost_since();
        since.is_some_and(|since| Clock::get().now().saturating_sub(since) < AWAY_MAX)
    }

    /// Whether secrets may be sent to it.
    pub(crate) fn is_encrypted(&self) -> bool {
        self.bus.is_tls
    }

    /// The fleet, and whether a stream keeps what its agents send.
    pub(crate) fn fleet(&self) -> (&str, bool) {
        (&self.bus.shared.place.fleet, self.bus.stream.is_some())
    }
}

/// What the sessions share.
struct Shared {
    place: Place,
    client: Client,
    line: Arc<Line>,
    run: String,
    host: String,
    /// The agent of each slot.
    agents: Mutex<BTreeMap<usize, Offer>>,
    sessions: AtomicUsize,
}

/// A connection to the server of a fleet, on a thread of its own. Dropping it ends the sessions and removes the stream.
struct Bus {
    shared: Arc<Shared>,
    is_tls: bool,
    stream: Option<Stream>,
    runtime: Handle,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

/// Starts a runtime on a thread of its own, which ends when the sender is used or dropped.
pub(super) fn start_runtime() -> Result<(Handle, oneshot::Sender<()>, JoinHandle<()>), String> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_io()
        .enable_time()
        .build()
        .map_err(|error| error.to_string())?;
    let handle = runtime.handle().clone();
    let (stop, stopped) = oneshot::channel();
    let thread = std::thread::Builder::new()
        .name("nats".into())
        .spawn(move || {
            let _ = runtime.block_on(stopped);
        })
        .map_err(|error| error.to_string())?;
    Ok((handle, stop, thread))
}

/// Waits for something from a server. Nothing else waits for servers: it ends after `at_most`, and when the user stops the program.
///
/// # Errors
/// Why there is nothing.
pub(super) fn wait<T>(
    runtime: &Handle,
    place: &Place,
    interrupted: &AtomicBool,
    at_most: Duration,
    something: impl Future<Output = Result<T, String>>,
) -> Result<T, Ending> {
    let is_interrupted = async {
        while !interrupted.load(Ordering::Relaxed) {
            tokio::time::sleep(LOOK_UP).await;
        }
    };
    let late = || format!("{}: the server did not answer within {} s", place.server(), at_most.as_secs());
    runtime.block_on(async {
        tokio::select! {
            result = something => result.map_err(Ending::Failed),
            () = is_interrupted => Err(Ending::Interrupted),
            () = tokio::time::sleep(at_most) => Err(Ending::Failed(late())),
        }
    })
}

impl Bus {
    fn connect(place: &Place, interrupted: &AtomicBool) -> Result<Bus, Ending> {
        let (runtime, stop, thread) = start_runtime().map_err(Ending::Failed)?;
        let run = talk::new_id().map_err(Ending::Failed)?;
        let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
        let name = format!("plimsoll coordinator on {host}");
        let connected = wait(&runtime, place, interrupted, SERVER_MAX, connect(place, &name))?;
        let client = connected.client;
        let stream = match client.server_info().jetstream {
            true => {
                let stream = async { Ok(make_stream(&client, place, &run).await) };
                match wait(&runtime, place, interrupted, SERVER_MAX, stream) {
                    Err(Ending::Interrupted) => return Err(Ending::Interrupted),
                    // The run works without it.
                    made => made.ok().flatten(),
                }
            }
            false => None,
        };
        let shared = Arc::new(Shared {
            place: place.clone(),
            client,
            line: connected.line,
            run,
            host,
            agents: Mutex::default(),
            sessions: AtomicUsize::new(0),
        });
        Ok(Bus { shared, is_tls: connected.is_tls, stream, runtime, stop: Some(stop), thread: Some(thread) })
    }

    /// Waits for the agents of the experiment, and assigns them. Returns how many there are.
    fn gather(&self, say: &mut dyn FnMut(&str), interrupted: &AtomicBool) -> Result<usize, Ending> {
        let Place { fleet, agents: wanted, .. } = &self.shared.place;
        let failed = |why: String| Err(Ending::Failed(why));
        let begin = Instant::now();
        let mut said = String::new();
        loop {
            let offers = self.shared.offers(*wanted);
            let offers = wait(&self.runtime, &self.shared.place, interrupted, SERVER_MAX, offers)?;
            let (busy, free): (Vec<Offer>, Vec<Offer>) =
                offers.usable.into_iter().partition(|of| of.busy.is_some());
            let mut seen = format!("fleet {fleet}: {} free", agents(free.len()));
            if let Some(one) = busy.first() {
                let coordinator = one.busy.as_deref().unwrap_or_default();
                seen += &format!(", {} busy (one works for {coordinator})", busy.len());
            }
            if offers.foreign > 0 {
                seen += &format!(", {} of another version than `{FORMAT}`", offers.foreign);
            }
            let count = match wanted {
                Some(wanted) => (free.len() >= *wanted as usize).then_some(*wanted as usize),
                None => (!free.is_empty()).then_some(free.len()),
            };
            if let Some(count) = count {
                let chosen = free.into_iter().take(count).enumerate().collect();
                *self.shared.agents.lock().unwrap_or_else(PoisonError::into_inner) = chosen;
                return Ok(count);
            }
            let help =
                format!("start them with `plimsoll agent --nats {}/{fleet}`", self.shared.place.server());
            let Some(wanted) = wanted else { return failed(format!("{seen}; {help}")) };
            if begin.elapsed() > JOIN_MAX {
                return failed(format!("{seen}, and the run needs {wanted}; {help}"));
            }
            if seen != said {
                say(&format!("{seen}; waiting for {wanted}"));
                said = seen;
            }
            if interrupted.load(Ordering::Relaxed) {
                return Err(Ending::Interrupted);
            }
        }
    }

    fn open(&self, slot: usize) -> std::io::Result<Pipes> {
        let (from_hub, input): (PipeReader, PipeWriter) = pipe()?;
        let (output, to_hub) = pipe()?;
        let (errors, mut why) = pipe()?;
        // Their constructors need the reactor of the runtime.
        let _inside = self.runtime.enter();
        let from_hub = Receiver::from_owned_fd(from_hub.into())?;
        let to_hub = Sender::from_owned_fd(to_hub.into())?;
        let (shared, stream) = (self.shared.clone(), self.stream.clone());
        shared.sessions.fetch_add(1, Ordering::Relaxed);
        self.runtime.spawn(async move {
            let end = match shared.begin(slot, stream).await {
                Ok(session) => carry(session, from_hub, to_hub, std::future::pending()).await,
                Err(error) => End::Failed(error),
            };
            if let End::There(text) | End::Failed(text) = end
                && !text.is_empty()
            {
                let _ = writeln!(why, "{text}");
            }
            shared.sessions.fetch_sub(1, Ordering::Relaxed);
        });
        Ok(Pipes { input: input.into(), output: output.into(), errors: errors.into() })
    }
}

fn agents(count: usize) -> String {
    format!("{count} agent{}", if count == 1 { "" } else { "s" })
}

/// The agents that answered.
struct Offers {
    /// By name.
    usable: Vec<Offer>,
    /// How many are of another version.
    foreign: usize,
}

impl Shared {
    /// Who is there. Returns soon after `enough` are free.
    async fn offers(&self, enough: Option<u32>) -> Result<Offers, String> {
        let failed = |error: &dyn std::fmt::Display| format!("{}: {error}", self.place.server());
        let inbox = self.client.new_inbox();
        let mut answers = self.client.subscribe(inbox.clone()).await.map_err(|error| failed(&error))?;
        let question = talk::write(&Question::new()).into();
        let asked = self.client.publish_with_reply(self.place.offer(), inbox, question).await;
        asked.map_err(|error| failed(&error))?;
        let (mut usable, mut foreign): (Vec<Offer>, usize) = (Vec::new(), 0);
        let mut deadline = tokio::time::Instant::now() + OFFERS_WAIT;
        while let Ok(Some(message)) = tokio::time::timeout_at(deadline, answers.next()).await {
            // The server says by an empty message that nobody listens.
            if message.payload.is_empty() {
                tokio::time::sleep_until(deadline).await;
                break;
            }
            match talk::read::<Offer>(&message.payload) {
                Some(offer) if offer.is_usable() => usable.push(offer),
                _ => foreign += 1,
            }
            let free = usable.iter().filter(|offer| offer.busy.is_none()).count();
            if enough.is_some_and(|enough| free >= enough as usize) {
                deadline = deadline.min(tokio::time::Instant::now() + MORE_WAIT);
            }
            if usable.len() + foreign >= OFFERS_MAX {
                break;
            }
        }
        usable.sort_by(|a, b| (&a.name, &a.id).cmp(&(&b.name, &b.id)));
        usable.dedup_by(|a, b| a.id == b.id);
        Ok(Offers { usable, foreign })
    }

    /// Claims an agent for a slot: the one that it had, or another free one.
    async fn begin(&self, slot: usize, stream: Option<Stream>) -> Result<Session, String> {
        let deadline = Instant::now() + REJOIN_MAX;
        let mut refused = String::new();
        loop {
            let known = self.agents.lock().unwrap_or_else(PoisonError::into_inner).get(&slot).cloned();
            if let Some(agent) = known {
                match self.claim(&agent, stream.clone()).await? {
                    Ok(session) => return Ok(session),
                    Err(why) => refused = format!("agent {}: {why}", agent.name),
                }
            }
            let offers = self.offers(None).await?;
            let waits = {
                let mut agents = self.agents.lock().unwrap_or_else(PoisonError::into_inner);
                let is_taken =
                    |offer: &Offer| agents.iter().any(|(of, taken)| *of != slot && taken.id == offer.id);
                let next = offers.usable.into_iter().find(|offer| offer.busy.is_none() && !is_taken(offer));
                match next {
                    Some(next) => agents.insert(slot, next).is_none(),
                    None => true,
                }
            };
            if Instant::now() > deadline {
                return Err(match refused.is_empty() {
                    true => "no agent is free".into(),
                    false => format!("{refused}; no other agent is free"),
                });
            }
            if waits {
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        }
    }

    /// Asks an agent for a session. The inner error is why this agent does not take part.
    async fn claim(&self, agent: &Offer, stream: Option<Stream>) -> Result<Result<Session, String>, String> {
        let failed = |error: &dyn std::fmt::Display| format!("{}: {error}", self.place.server());
        let session = talk::new_id()?;
        let up = self.place.up(&self.run, &session);
        let connected = self.line.watch();
        let from = self.client.subscribe(up.clone()).await.map_err(|error| failed(&error))?;
        let claim = Claim {
            format: FORMAT.into(),
            run: self.run.clone(),
            session: session.clone(),
            coordinator: self.host.clone(),
        };
        let answer = match self.client.request(self.place.claim(&agent.id), talk::write(&claim).into()).await
        {
            Ok(message) => talk::read::<Answer>(&message.payload),
            Err(error) => {
                return Ok(Err(match error.kind() {
                    RequestErrorKind::NoResponders => "it is gone".into(),
                    RequestErrorKind::TimedOut => "it does not answer".into(),
                    _ => error.to_string(),
                }));
            }
        };
        Ok(match answer {
            Some(Answer::Accepted) => Ok(Session {
                client: self.client.clone(),
                to: self.place.down(&session),
                from,
                kept: stream.map(|stream| Kept { stream, subject: up, next: 1 }),
                connected,
            }),
            Some(Answer::Busy { coordinator }) => Err(format!("it works for {coordinator}")),
            Some(Answer::Refused { why }) => Err(why),
            None => Err("its answer could not be understood".into()),
        })
    }
}

/// The stream of a run. Those of runs that were killed are removed. None where the server does not permit streams.
async fn make_stream(client: &Client, place: &Place, run: &str) -> Option<Stream> {
    let context = jetstream::new(client.clone());
    remove_forsaken(&context, place).await;
    let config = Config {
        name: place.stream(run),
        subjects: vec![place.up(run, "*")],
        description: Some("what agents of a run of plimsoll send".into()),
        max_age: KEPT_FOR,
        max_bytes: KEPT_BYTES_MAX,
        storage: StorageType::Memory,
        allow_direct: true,
        ..Config::default()
    };
    context.create_stream(config).await.ok()
}

async fn remove_forsaken(context: &Context, place: &Place) {
    let prefix = place.stream("");
    let now_s = engine::clock::unix_ns().cast_signed() / 1_000_000_000;
    let mut streams = context.streams();
    while let Ok(Some(Ok(info))) = tokio::time::timeout(OFFERS_WAIT, streams.next()).await {
        let is_old = now_s - info.created.unix_timestamp() > FORSAKEN_AFTER_S;
        if info.config.name.starts_with(&prefix) && info.state.messages == 0 && is_old {
            // Another coordinator may have removed it.
            let _ = context.delete_stream(&info.config.name).await;
        }
    }
}

impl Drop for Bus {
    fn drop(&mut self) {
        let Bus { shared, stream, .. } = self;
        self.runtime.block_on(async {
            let deadline = Instant::now() + Duration::from_secs(1);
            while shared.sessions.load(Ordering::Relaxed) > 0 && Instant::now() < deadline {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
            if stream.is_some() && shared.line.lost_since().is_none() {
                let context = jetstream::new(shared.client.clone());
                let removed = context.delete_stream(shared.place.stream(&shared.run));
                // One that stays is empty soon, and the next run removes it.
                let _ = tokio::time::timeout(OFFERS_WAIT, removed).await;
            }
            let _ = tokio::time::timeout(OFFERS_WAIT, shared.client.flush()).await;
        });
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// The blocking end of a pipe.
pub(super) fn file(fd: impl Into<OwnedFd>) -> File {
    File::from(fd.into())
}
