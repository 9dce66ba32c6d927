//! The coordinator's state under a simulated clock and network: delays, machines that die, freeze or are cut off at any
//! moment, messages of different machines in any order.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use engine::drive::Book;
use engine::lanes::MachinePart;
use hdrhistogram::Histogram;
use model::random::Random;
use model::study::new_histogram;
use model::{Host, Load, MILLISECOND, Nanos, Phase, SECOND, Settings, WarmUp};

use super::*;
use crate::message::{InputHead, IntervalHead, of_book};
use crate::received::{Arriving, sha256};

/// The longest time without a look at the state.
const TICK: Nanos = 100 * MILLISECOND;

/// The time that a trial may take in all, whatever happens.
const LIMIT: Nanos = 60 * SECOND;

/// What befalls a machine.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Fate {
    None,
    /// Its connection ends then.
    Dies(Nanos),
    /// It says nothing from then on, and its connection stays open.
    Freezes(Nanos),
    /// Its messages need this much longer from then on.
    Lags(Nanos, Nanos),
    /// It never sends such a message, and all others.
    Omits(Kind),
    /// It sends such a message again and again.
    Repeats(Kind),
}

/// What a message of an agent is.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Kind {
    Hello,
    Pong,
    Checked,
    Factor,
    Want,
    Preparing,
    Ready,
    Interval,
    Finished,
    Ended,
}

const KINDS: [Kind; 10] = [
    Kind::Hello,
    Kind::Pong,
    Kind::Checked,
    Kind::Factor,
    Kind::Want,
    Kind::Preparing,
    Kind::Ready,
    Kind::Interval,
    Kind::Finished,
    Kind::Ended,
];

fn kind_of(message: &FromAgent) -> Option<Kind> {
    Some(match message {
        FromAgent::Hello { .. } => Kind::Hello,
        FromAgent::Pong { .. } => Kind::Pong,
        FromAgent::Checked { .. } => Kind::Checked,
        FromAgent::Factor { .. } => Kind::Factor,
        FromAgent::Want { .. } => Kind::Want,
        FromAgent::Preparing { .. } => Kind::Preparing,
        FromAgent::Ready { .. } => Kind::Ready,
        FromAgent::Interval(_) => Kind::Interval,
        FromAgent::Finished(_) => Kind::Finished,
        FromAgent::Ended { .. } => Kind::Ended,
        _ => return None,
    })
}

/// Something that happens at a machine or at the coordinator.
#[derive(Debug)]
enum Happening {
    /// A message reaches a machine.
    ToAgent(Box<Frame<ToAgent>>),
    /// A message reaches the coordinator.
    FromAgent(Box<Frame<FromAgent>>),
    /// The connection of a machine is seen to be closed.
    Closed,
    /// A machine has prepared its trial.
    Prepared,
    /// An interval ends at a machine.
    IntervalEnds,
    /// A trial ends at a machine.
    Finishes,
}

struct Event {
    at: Nanos,
    number: u64,
    machine: usize,
    what: Happening,
}

impl PartialEq for Event {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}
impl Eq for Event {}
impl PartialOrd for Event {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for Event {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.at, self.number).cmp(&(other.at, other.number))
    }
}

/// A simulated agent.
struct Agent {
    fate: Fate,
    /// Its clock minus ours.
    offset: i64,
    /// When its next message can arrive at the earliest: a connection keeps the order.
    arrives: Nanos,
    /// When the next message can reach it at the earliest.
    receives: Nanos,
    zero: Nanos,
    end: Nanos,
    measured_from: Option<Nanos>,
    is_running: bool,
    /// The file of the trial, while it arrives.
    file: Option<Arriving>,
    /// Whether it has the file of the trial.
    has_file: bool,
    /// Operations of the measured phase that it has sent.
    sent: u64,
    /// When its load really started, on our clock.
    started: Option<Nanos>,
}

struct World {
    now: Nanos,
    random: Random,
    queue: BinaryHeap<Reverse<Event>>,
    number: u64,
    fleet: Fleet,
    agents: Vec<Agent>,
    interval: Nanos,
    measure: Nanos,
    /// When everything must have ended.
    limit: Nanos,
    /// What the load reads.
    file: Arc<Vec<u8>>,
    /// All response times of the measured phase, as one histogram, and those that the coordinator merged.
    response: Histogram<u64>,
    merged: Histogram<u64>,
}

/// How a simulated trial ended.
#[derive(Debug, PartialEq)]
enum End {
    /// With the operations of the measured phase.
    Completed(u64),
    /// A machine was lost, at this time.
    Lost(usize, Nanos),
}

impl World {
    fn new(seed: u64, machines: usize, fate: impl Fn(usize, &mut Random) -> Fate) -> World {
        let mut random = Random::stream(seed, 0);
        let agents = (0..machines)
            .map(|machine| Agent {
                fate: fate(machine, &mut random),
                offset: (random.below_u64(2_000_000_000).cast_signed()) - 500_000_000,
                arrives: 0,
                receives: 0,
                zero: 0,
                end: 0,
                measured_from: None,
                is_running: false,
                file: None,
                has_file: false,
                sent: 0,
                started: None,
            })
            .collect();
        let now = 10 * SECOND;
        let names = (0..machines).map(|machine| (format!("m{machine}"), true));
        World {
            now,
            random,
            queue: BinaryHeap::new(),
            number: 0,
            fleet: Fleet::new(names, "simulated", 0, now, JOIN_MAX),
            agents,
            interval: SECOND,
            measure: 5 * SECOND,
            limit: LIMIT + now,
            file: Arc::new((0..seed * 7919 % 700_000).map(|at| (at % 251) as u8).collect()),
            response: new_histogram(),
            merged: new_histogram(),
        }
    }

    fn later(&mut self, after: Nanos, machine: usize, what: Happening) {
        self.at(self.now + after, machine, what);
    }

    fn at(&mut self, at: Nanos, machine: usize, what: Happening) {
        self.number += 1;
        self.queue.push(Reverse(Event { at, number: self.number, machine, what }));
    }

    /// The time of one way through the network: mostly some 100 us, seldom 50 ms.
    fn way(&mut self) -> Nanos {
        let usual = 50_000 + self.random.below_u64(200_000);
        if self.random.below_u64(50) == 0 { usual + self.random.below_u64(50_000_000) } else { usual }
    }

    fn is_cut_off(&self, machine: usize) -> bool {
        match self.agents[machine].fate {
            Fate::Dies(at) | Fate::Freezes(at) => self.now >= at,
            _ => false,
        }
    }

    /// A machine says something.
    fn say(&mut self, machine: usize, head: FromAgent, body: Vec<u8>) {
        if self.is_cut_off(machine) {
            return;
        }
        if let Fate::Omits(kind) = self.agents[machine].fate
            && kind_of(&head) == Some(kind)
        {
            return;
        }
        let slower = match self.agents[machine].fate {
            Fate::Lags(at, by) if self.now >= at => by,
            _ => 0,
        };
        let at = (self.now + self.way() + slower).max(self.agents[machine].arrives + 1);
        self.agents[machine].arrives = at;
        self.at(at, machine, Happening::FromAgent(Box::new(Frame { head, body })));
    }

    fn theirs(&self, machine: usize, ours: Nanos) -> Nanos {
        ours.saturating_add_signed(self.agents[machine].offset)
    }

    fn ours(&self, machine: usize, theirs: Nanos) -> Nanos {
        theirs.saturating_add_signed(-self.agents[machine].offset)
    }

    fn deliver(&mut self) {
        for (machine, message) in self.fleet.take_outbox() {
            let at = (self.now + self.way()).max(self.agents[machine].receives + 1);
            self.agents[machine].receives = at;
            self.at(at, machine, Happening::ToAgent(Box::new(message)));
        }
        self.fleet.take_notices();
    }

    fn happens(&mut self, machine: usize, what: Happening) {
        match what {
            Happening::FromAgent(frame) => {
                if let Fate::Repeats(kind) = self.agents[machine].fate
                    && kind_of(&frame.head) == Some(kind)
                {
                    self.later(TICK, machine, Happening::FromAgent(frame.clone()));
                }
                self.fleet.received(self.now, machine, *frame);
            }
            Happening::Closed => self.fleet.closed(machine, "the connection was closed"),
            _ if self.is_cut_off(machine) => {}
            Happening::ToAgent(message) => self.agent_receives(machine, *message),
            Happening::Prepared => {
                let ready = FromAgent::Ready { facts: BTreeMap::new(), operations: vec!["get".into()] };
                self.say(machine, ready, Vec::new());
            }
            Happening::IntervalEnds => self.interval_ends(machine),
            // It may be stopped at the end of its last interval.
            Happening::Finishes => {
                if std::mem::take(&mut self.agents[machine].is_running) {
                    self.say(machine, FromAgent::Finished(Box::default()), Vec::new());
                }
            }
        }
    }

    /// A machine asks for what is missing of its file, or prepares the trial.
    fn ask(&mut self, machine: usize) {
        while let Some((sha256, offset, bytes)) = self.agents[machine].file.as_mut().and_then(Arriving::ask) {
            self.say(machine, FromAgent::Want { sha256, offset, bytes }, Vec::new());
        }
        if self.agents[machine].file.take_if(|file| file.is_whole()).is_some() {
            self.agents[machine].has_file = true;
            let takes = self.random.below_u64(2 * SECOND);
            self.later(takes, machine, Happening::Prepared);
        }
    }

    fn agent_receives(&mut self, machine: usize, message: Frame<ToAgent>) {
        match message.head {
            ToAgent::Hello { .. } => {
                let hello = FromAgent::Hello { format: FORMAT.into(), host: Box::new(Host::default()) };
                self.say(machine, hello, Vec::new());
            }
            ToAgent::Ping { number } => {
                let at = self.theirs(machine, self.now);
                self.say(machine, FromAgent::Pong { number, at, unix_ns: self.now }, Vec::new());
            }
            ToAgent::Check { .. } => {
                self.say(machine, FromAgent::Checked { problems: Vec::new() }, Vec::new())
            }
            ToAgent::Factor { number, .. } => {
                self.say(machine, FromAgent::Factor { number, answer: Ok(FactorAnswer::Done) }, Vec::new());
            }
            ToAgent::End => self.say(machine, FromAgent::Ended { left: Vec::new() }, Vec::new()),
            ToAgent::Prepare { trial } => {
                self.say(machine, FromAgent::Preparing { text: "making files".into() }, Vec::new());
                let head = trial.inputs.unwrap().remove(0);
                self.agents[machine].file = Some(Arriving::begin(head).unwrap());
                self.ask(machine);
            }
            ToAgent::File { sha256, offset } => {
                self.agents[machine].file.as_mut().unwrap().take(&sha256, offset, &message.body).unwrap();
                self.ask(machine);
            }
            ToAgent::Start { at } => {
                let ours = self.ours(machine, at).max(self.now);
                let agent = &mut self.agents[machine];
                (agent.zero, agent.end, agent.is_running) = (at, 0, true);
                agent.started = Some(ours);
                let interval = self.interval;
                self.at(ours + interval, machine, Happening::IntervalEnds);
            }
            ToAgent::MeasureFrom { at } => self.agents[machine].measured_from = Some(at),
            ToAgent::Stop { .. } if self.agents[machine].is_running => {
                self.later(MILLISECOND, machine, Happening::Finishes);
            }
            _ => {}
        }
    }

    fn interval_ends(&mut self, machine: usize) {
        if !self.agents[machine].is_running {
            return;
        }
        let agent = &self.agents[machine];
        let (zero, end) = (agent.zero, agent.zero + agent.end + self.interval);
        let is_measured = agent.measured_from.is_some_and(|from| end > from);
        let is_last = agent.measured_from.is_some_and(|from| end >= from + self.measure);
        let mut book = Book::new(1);
        let count = self.random.below_u64(20);
        for _ in 0..count {
            let kind = &mut book.kinds[0];
            kind.completed += 1;
            let time = 1 + self.random.below_u64(1_000_000);
            for histogram in kind.due.each_mut() {
                histogram.record(time).unwrap();
            }
            if is_measured {
                self.response.record(time).unwrap();
            }
        }
        let phase = if is_measured { Phase::Measure } else { Phase::WarmUp };
        let (head, body): (IntervalHead, Vec<u8>) = of_book(phase, end, zero, &mut book);
        self.say(machine, FromAgent::Interval(Box::new(head)), body);
        let agent = &mut self.agents[machine];
        agent.end += self.interval;
        agent.sent += if is_measured { count } else { 0 };
        match is_last {
            true => self.later(MILLISECOND, machine, Happening::Finishes),
            false => {
                let next = self.ours(machine, end) + self.interval;
                self.at(next, machine, Happening::IntervalEnds);
            }
        }
    }

    /// Lets time pass until `is_done`; the first lost machine ends it.
    fn until(&mut self, is_done: impl Fn(&Fleet) -> bool) -> Result<(), End> {
        loop {
            if let Some((machine, _)) = self.fleet.lost() {
                let lost = self.fleet.machines().iter().position(|of| of.name == machine.name);
                return Err(End::Lost(lost.unwrap_or_default(), self.now));
            }
            if is_done(&self.fleet) {
                return Ok(());
            }
            assert!(self.now < self.limit, "it hangs: {:?}", self.fleet);
            let tick = self.fleet.next_tick(self.now).clamp(self.now + MILLISECOND, self.now + TICK);
            while self.queue.peek().is_some_and(|Reverse(event)| event.at <= tick) {
                let Some(Reverse(event)) = self.queue.pop() else { break };
                self.now = event.at.max(self.now);
                self.happens(event.machine, event.what);
                self.deliver();
            }
            self.now = tick;
            self.fleet.tick(self.now);
            self.deliver();
        }
    }

    fn join(&mut self) -> Result<(), End> {
        for machine in 0..self.agents.len() {
            if let Fate::Dies(at) = self.agents[machine].fate {
                self.at(at + MILLISECOND, machine, Happening::Closed);
            }
            self.fleet.connected(self.now, machine);
        }
        self.deliver();
        self.until(Fleet::has_clocks)
    }

    fn parts(&mut self) -> Vec<TrialPart> {
        let of = self.agents.len() as u32;
        let head =
            InputHead { name: "users.csv".into(), sha256: sha256(&self.file), bytes: self.file.len() as u64 };
        let part = |index| TrialPart {
            workload: "null".into(),
            settings: Settings::default(),
            secrets: Vec::new(),
            load: Load::of_workload(None),
            shape: None,
            seed: 1,
            part: Some(MachinePart { index, of }),
            watch: Vec::new(),
            sample_every: SECOND,
            target: None,
            inputs: Some(vec![head.clone()]),
        };
        self.fleet.offer(&head.sha256, &self.file);
        (0..of).map(part).collect()
    }

    /// A whole trial, as the engine carries it out.
    fn trial(&mut self) -> Result<u64, End> {
        let parts = self.parts();
        self.fleet.prepare(self.now, parts, vec![true]);
        self.deliver();
        self.until(|fleet| fleet.all(&State::Ready))?;
        let zero = self.fleet.start(self.now, self.interval, WarmUp::Auto);
        self.deliver();
        let mut begin = zero;
        let mut measured = None;
        let mut counted = 0;
        loop {
            let end = begin + self.interval;
            self.until(|fleet| fleet.has_interval(end))?;
            let mut book = Book::new(1);
            self.fleet.take(end, &mut book);
            if measured.is_some_and(|from| end > from) {
                counted += book.kinds[0].completed;
                self.merged.add(&book.kinds[0].due.response).unwrap();
            }
            begin = end;
            if measured.is_none() && end >= zero + 2 * self.interval {
                measured = Some(self.fleet.begin_measured(end, self.now));
                self.deliver();
            }
            if measured.is_some_and(|from| end >= from + self.measure) {
                break;
            }
        }
        self.fleet.stop(self.now, false);
        self.deliver();
        self.until(Fleet::is_finished)?;
        Ok(counted)
    }

    fn carry_out(&mut self) -> End {
        self.join().and_then(|()| self.trial()).map_or_else(|end| end, End::Completed)
    }

    fn ask_about_a_factor(&mut self) -> Result<(), End> {
        let factor = MachineFactor {
            path: "host.cpus".into(),
            on: None,
            parameters: BTreeMap::new(),
            target: model::Target::default(),
        };
        self.fleet.ask_factor(self.now, 0, factor, FactorAsk::Read);
        self.deliver();
        self.until(|fleet| fleet.machines[0].answer.is_some())?;
        self.fleet.take_answer(0);
        Ok(())
    }

    /// Every wait of a coordinator, one after another.
    fn experiment(&mut self) -> Result<(), End> {
        self.join()?;
        let parts = self.parts();
        self.fleet.check(self.now, parts);
        self.deliver();
        self.until(Fleet::is_settled)?;
        self.ask_about_a_factor()?;
        self.trial()?;
        self.fleet.stop(self.now, true);
        self.deliver();
        self.until(Fleet::is_settled)?;
        self.fleet.trial_over();
        self.fleet.end(self.now);
        self.deliver();
        self.until(Fleet::has_ended)
    }

    /// The difference between the first and the last start.
    fn skew(&self) -> Nanos {
        let starts = || self.agents.iter().filter_map(|agent| agent.started);
        starts().max().unwrap_or(0) - starts().min().unwrap_or(0)
    }
}

#[test]
fn all_that_was_done_is_counted_once() {
    for seed in 0..100 {
        let mut world = World::new(seed, 1 + seed as usize % 7, |_, _| Fate::None);
        let end = world.carry_out();
        let sent: u64 = world.agents.iter().map(|agent| agent.sent).sum();
        let completed: u64 = world.fleet.machines().iter().map(|machine| machine.completed).sum();
        let lost = world.fleet.lost().map(|(machine, why)| (machine.name.clone(), why.to_string()));
        assert_eq!((end, completed), (End::Completed(sent), sent), "seed {seed} {lost:?}");
        assert!(world.merged == world.response, "seed {seed}: the histograms differ");
        assert!(world.agents.iter().all(|agent| agent.has_file), "seed {seed}");
    }
}

#[test]
fn machines_start_together_within_the_uncertainty_of_their_clocks() {
    for seed in 0..30 {
        let mut world = World::new(seed, 50, |_, _| Fate::None);
        world.carry_out();
        let uncertainty = |machine: &Machine| machine.clock.kept().unwrap().uncertainty;
        let most = world.fleet.machines().iter().map(uncertainty).max().unwrap();
        assert!(world.skew() <= 2 * most, "seed {seed}: {} of {most}", world.skew());
    }
}

/// Kills, freezes or slows one machine at any moment. The trial does not count unless all figures of that machine had arrived,
/// and the loss is noticed within two seconds.
#[test]
fn a_lost_machine_is_noticed_in_time_and_never_missing_from_a_total() {
    let mut lost = 0;
    for seed in 0..600 {
        let machines = 2 + seed as usize % 5;
        let unlucky = seed as usize % machines;
        let fate = |machine: usize, random: &mut Random| {
            let at = 10 * SECOND + random.below_u64(12 * SECOND);
            match (machine == unlucky, seed % 3) {
                (false, _) => Fate::None,
                (_, 0) => Fate::Dies(at),
                (_, 1) => Fate::Freezes(at),
                _ => Fate::Lags(at, 3 * SECOND),
            }
        };
        let mut world = World::new(seed, machines, fate);
        let befell = match world.agents[unlucky].fate {
            Fate::Dies(at) | Fate::Freezes(at) | Fate::Lags(at, _) => at,
            Fate::None | Fate::Omits(_) | Fate::Repeats(_) => unreachable!(),
        };
        match world.carry_out() {
            End::Lost(machine, at) => {
                lost += 1;
                assert_eq!(machine, unlucky, "seed {seed}");
                let noticed = at.saturating_sub(befell);
                assert!(noticed <= 2 * SECOND, "seed {seed}: {noticed} ns");
            }
            End::Completed(counted) => {
                let sent: u64 = world.agents.iter().map(|agent| agent.sent).sum();
                assert_eq!(counted, sent, "seed {seed}");
            }
        }
    }
    assert!(lost > 400, "only {lost} of 600 trials met a loss");
}

/// An agent that answers pings and everything else, but one message never comes.
#[test]
fn a_machine_that_keeps_one_message_to_itself_is_lost() {
    let mut omitted = Vec::new();
    for kind in KINDS {
        let fate = |machine, _: &mut Random| if machine == 0 { Fate::Omits(kind) } else { Fate::None };
        let mut world = World::new(7, 2, fate);
        world.limit = 1000 * SECOND;
        match world.experiment() {
            // Not needed: progress in words.
            Ok(()) => assert_eq!(kind, Kind::Preparing),
            Err(End::Lost(machine, _)) => {
                let (_, why) = world.fleet.lost().unwrap();
                omitted.push(format!("{kind:?}: {why}"));
                assert_eq!(machine, 0);
            }
            Err(end) => panic!("{end:?}"),
        }
    }
    assert_eq!(
        omitted,
        [
            "Hello: it was not reached within 120 s",
            "Pong: it did not answer for 1.2 s",
            "Checked: it did not check the load within 120 s",
            "Factor: it did not answer about a factor within 300 s",
            "Want: it reported nothing new about its preparation of the trial within 900 s",
            "Ready: it reported nothing new about its preparation of the trial within 900 s",
            "Interval: its figures are 1.2 s late",
            "Finished: its figures are 1.2 s late",
            "Ended: it did not end within 35 s",
        ]
    );
}

/// What is repeated is no progress.
#[test]
fn a_machine_that_repeats_a_message_for_ever_holds_nothing_up() {
    for kind in KINDS {
        for is_stuck in [false, true] {
            let fate = |machine, _: &mut Random| if machine == 0 { Fate::Repeats(kind) } else { Fate::None };
            let mut world = World::new(7, 2, fate);
            world.limit = 1000 * SECOND;
            if is_stuck {
                // Of the other machine, so that both are waited for.
                world.agents[1].fate = Fate::Omits(Kind::Ready);
            }
            let _ = world.experiment();
        }
    }
}

#[test]
fn what_is_ended_after_the_user_stopped_the_run_takes_ten_seconds_at_most() {
    for kind in [Kind::Finished, Kind::Factor, Kind::Ended] {
        let mut world = World::new(7, 2, |_, _| Fate::Omits(kind));
        world.join().unwrap();
        let parts = world.parts();
        world.fleet.prepare(world.now, parts, vec![true]);
        world.deliver();
        let begun = world.now;
        world.fleet.hurry(begun);
        let end = match kind {
            Kind::Factor => world.ask_about_a_factor(),
            Kind::Finished => {
                world.fleet.stop(world.now, true);
                world.until(Fleet::is_settled)
            }
            _ => {
                world.fleet.end(world.now);
                world.until(Fleet::has_ended)
            }
        };
        assert!(matches!(end, Err(End::Lost(..))), "{kind:?}: {end:?}");
        assert!(world.now - begun <= 11 * SECOND, "{kind:?}: {} ns", world.now - begun);
    }
}

#[test]
fn a_thousand_machines_take_part() {
    let mut world = World::new(1, 1000, |_, _| Fate::None);
    let end = world.carry_out();
    let sent = world.agents.iter().map(|agent| agent.sent).sum();
    assert_eq!(end, End::Completed(sent));

    let fate = |machine, random: &mut Random| match machine % 100 {
        7 => Fate::Dies(13 * SECOND + random.below_u64(5 * SECOND)),
        _ => Fate::None,
    };
    let mut world = World::new(2, 1000, fate);
    assert!(matches!(world.carry_out(), End::Lost(machine, _) if machine % 100 == 7));
}

#[test]
fn the_machines_that_others_wait_for_are_named() {
    let names = |count: usize| (1..=count).map(|number| (format!("gen{number}"), true));
    assert_eq!(Fleet::new(names(1), "run", 0, 0, JOIN_MAX).waiting(), "");
    let mut fleet = Fleet::new(names(5), "run", 0, 0, JOIN_MAX);
    assert_eq!(fleet.waiting(), "0 of 5 machines reached, waiting for gen1, gen2, gen3 and 2 more");
    for (machine, state) in [State::Ready, State::Ready, State::Preparing, State::LeftOut, State::Preparing]
        .into_iter()
        .enumerate()
    {
        fleet.machines[machine].state = state;
    }
    assert_eq!(fleet.waiting(), "2 of 4 machines ready, waiting for gen3, gen5");
    fleet.machines[2].state = State::Ready;
    fleet.machines[4].state = State::Ready;
    assert_eq!(fleet.waiting(), "");
}

#[test]
fn a_machine_gets_only_pieces_of_files_of_the_run() {
    let file = Arc::new(vec![7; 100_000]);
    for (sha256, offset, bytes, expected) in [
        ("known", 0, 65_536, Some(65_536)),
        ("known", 65_536, 34_464, Some(34_464)),
        ("known", 0, u64::MAX, Some(65_536)),
        ("known", 65_536, 65_536, None),
        ("known", u64::MAX, 1, None),
        ("other", 0, 1, None),
    ] {
        let mut fleet = Fleet::new([("a".to_string(), true)], "run", 0, 0, JOIN_MAX);
        fleet.offer("known", &file);
        fleet.machines[0].since.files = 100_000;
        fleet.received(0, 0, Frame::from(FromAgent::Want { sha256: sha256.into(), offset, bytes }));
        let sent: Option<usize> = fleet.take_outbox().pop().map(|(_, frame)| frame.body.len());
        assert_eq!(
            (sent, fleet.lost().is_none()),
            (expected, expected.is_some()),
            "{sha256} {offset} {bytes}"
        );
    }
}

#[test]
fn a_machine_is_not_lost_while_its_connection_is_known_to_be_interrupted() {
    let mut fleet = Fleet::new([("a".to_string(), true)], "run", 0, 0, JOIN_MAX);
    fleet.connected(0, 0);
    let hello = FromAgent::Hello { format: FORMAT.into(), host: Box::new(Host::default()) };
    fleet.received(0, 0, Frame::from(hello));
    // It has been asked, and does not answer.
    let mut now = 0;
    while now < 4 * SECOND {
        now += TICK;
        fleet.excuse(now, 0);
        fleet.tick(now);
        assert_eq!(fleet.machines()[0].state, State::Present, "{now}");
    }
    let back = now;
    while fleet.lost().is_none() {
        now += TICK;
        fleet.tick(now);
    }
    assert!(now - back <= LOST_AFTER + TICK, "{}", now - back);
}
