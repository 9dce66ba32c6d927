//! Messages of agents and of coordinators: a byte with the side and the machine, then frames. What agents say reaches machines that
//! drive load.

use std::sync::Arc;

use engine::drive::Book;
use machines::fleet::{Fleet, Machine};
use machines::frame::{self, Frame};
use machines::message::{FORMAT, FromAgent, ToAgent, TrialPart};
use model::{Load, Settings, WarmUp};

/// Reads an input; panics on a fault of the reader.
pub fn run(bytes: &[u8]) {
    let Some((first, mut rest)) = bytes.split_first() else { return };
    if first & 1 == 1 {
        while let Ok(frame) = frame::read::<ToAgent>(&mut rest) {
            if let ToAgent::Check { trial } | ToAgent::Prepare { trial } = frame.head {
                if let Some(part) = trial.part {
                    assert!(part.index < part.of, "{part:?}");
                }
                assert!(trial.load.interval > 0 && trial.sample_every > 0);
                let _ = trial.reveal();
            }
        }
        return;
    }
    let mut fleet = running();
    let machine = usize::from(first >> 1 & 1);
    let mut now = 2_000_000_000;
    while let Ok(frame) = frame::read::<FromAgent>(&mut rest) {
        fleet.received(now, machine, frame);
        now += 10_000_000;
        fleet.tick(now);
        fleet.take_outbox();
        fleet.take_notices();
        let mut book = Book::new(1);
        fleet.take(now, &mut book);
        let other = book.kinds[0].other.as_ref().map_or(0, |times| times.response.len());
        assert_eq!(book.kinds[0].due.response.len() + other, book.kinds[0].completed);
    }
    let _ = fleet.machines().iter().map(Machine::run).collect::<Vec<_>>();
}

/// Two machines that drive a load.
fn running() -> Fleet {
    let mut fleet =
        Fleet::new([("a".to_string(), true), ("b".to_string(), true)], "run", 0, 0, 1_000_000_000);
    let part = || TrialPart {
        workload: "null".into(),
        settings: Settings::default(),
        secrets: Vec::new(),
        load: Load::of_workload(None),
        shape: None,
        seed: 1,
        part: None,
        watch: Vec::new(),
        sample_every: 1,
        target: None,
        inputs: Some(Vec::new()),
    };
    for machine in 0..2 {
        fleet.connected(0, machine);
        let hello = FromAgent::Hello { format: FORMAT.into(), host: Box::default() };
        fleet.received(0, machine, Frame::from(hello));
    }
    // Short, so that messages that ask for it are found.
    fleet.offer("f", &Arc::new(vec![7; 100]));
    fleet.prepare(0, vec![part(), part()], vec![true]);
    for machine in 0..2 {
        let ready = FromAgent::Ready { facts: Default::default(), operations: vec!["nothing".into()] };
        fleet.received(0, machine, Frame::from(ready));
    }
    fleet.start(1_000_000_000, 1_000_000_000, WarmUp::For(0));
    fleet
}
