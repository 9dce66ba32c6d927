//! The analysis of one capture: from packets to a document.

use std::io::Read;

use model::wire::{MissedKind, WIRE_FORMAT, WireCapture, WireDocument, WireError, WireMissed};

use crate::capture::{Capture, CaptureError, Packet};
use crate::condition::Condition;
use crate::connections::Connections;
use crate::operation::Operation;
use crate::packet::{Endpoint, Skip, segment};
use crate::ports::Ports;
use crate::shared::Shared;
use crate::totals::Totals;

/// The operations that a run of a load is compared with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    /// Only operations that end at or after this time, nanoseconds since 1970.
    pub begin_ns: u64,
    /// Only operations that end before this time.
    pub end_ns: u64,
    /// Only operations of servers on this port, if it is known.
    pub port: Option<u16>,
}

impl Window {
    fn has(&self, operation: &Operation) -> bool {
        let is_server = |server: Endpoint| self.port.is_none_or(|port| server.port == port);
        (self.begin_ns..self.end_ns).contains(&operation.end_ns) && is_server(operation.server)
    }
}

/// What to analyse.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The protocols of ports.
    pub ports: Ports,
    /// Only operations that meet this are counted.
    pub condition: Option<Condition>,
    /// Operations that take longer than this are slow, nanoseconds.
    pub slow_ns: Option<u64>,
    /// Only these operations are counted.
    pub window: Option<Window>,
    /// Rows of each list.
    pub top: usize,
}

impl Default for Settings {
    fn default() -> Self {
        Settings { ports: Ports::default(), condition: None, slow_ns: None, window: None, top: 10 }
    }
}

/// An analysis that takes one packet after another.
#[expect(clippy::vec_box, reason = "operations come and go in boxes, whose buffers are used again")]
pub struct Analysis {
    settings: Settings,
    shared: Shared,
    connections: Connections,
    totals: Totals,
    begin_ns: Option<u64>,
    last_ns: u64,
    packets: u64,
    segments: u64,
    not_selected: u64,
    done: Vec<Box<Operation>>,
}

impl Analysis {
    /// An analysis without packets yet.
    pub fn new(settings: Settings) -> Self {
        Analysis {
            connections: Connections::new(settings.ports.clone()),
            totals: Totals::new(settings.slow_ns, settings.top),
            shared: Shared::default(),
            begin_ns: None,
            last_ns: 0,
            packets: 0,
            segments: 0,
            not_selected: 0,
            done: Vec::new(),
            settings,
        }
    }

    /// Analyses a whole capture. `each` gets every counted operation, and the time of the first packet in nanoseconds since
    /// 1970. What was read before an error is in the document, with the error.
    pub fn of(
        from: impl Read,
        source: &str,
        settings: Settings,
        mut each: impl FnMut(&Operation, u64),
    ) -> Result<WireDocument, CaptureError> {
        let mut capture = Capture::open(from)?;
        let mut analysis = Analysis::new(settings);
        let error = loop {
            match capture.packet() {
                Ok(Some(packet)) => analysis.take(&packet, &mut each),
                Ok(None) => break None,
                Err(error) => break Some(error),
            }
        };
        let mut document = analysis.finish(&mut each);
        document.source = source.into();
        document.capture.format = capture.format().name().into();
        document.capture.bytes = capture.bytes();
        document.capture.error = error.map(|error| WireError { offset: error.offset, what: error.what });
        add_missed(&mut document.missed, MissedKind::Dropped, capture.dropped());
        Ok(document)
    }

    /// Takes the next packet.
    pub fn take(&mut self, packet: &Packet<'_>, each: &mut impl FnMut(&Operation, u64)) {
        self.packets += 1;
        match packet.time_ns {
            None => self.shared.miss(MissedKind::WithoutTime, 0),
            Some(time_ns) => {
                if time_ns < self.shared.now_ns {
                    self.shared.miss(MissedKind::BackInTime, 0);
                }
                self.shared.begin_ns = *self.begin_ns.get_or_insert(time_ns);
                self.shared.now_ns = time_ns;
                self.last_ns = self.last_ns.max(time_ns);
            }
        }
        if packet.bytes.len() < packet.length {
            self.shared.miss(MissedKind::TruncatedPackets, (packet.length - packet.bytes.len()) as u64);
        }
        match segment(packet.link, packet.bytes, packet.length) {
            Ok(segment) => {
                self.segments += 1;
                self.connections.accept(&segment, &mut self.shared);
                if !self.shared.done.is_empty() {
                    self.count(each);
                }
            }
            Err(skip) => {
                let kind = match skip {
                    Skip::Link(_) => MissedKind::OtherLinks,
                    Skip::NotIp | Skip::NotTcp => MissedKind::OtherPackets,
                    Skip::Fragment => MissedKind::Fragments,
                    Skip::Truncated | Skip::Invalid => MissedKind::InvalidPackets,
                };
                self.shared.miss(kind, packet.length as u64);
            }
        }
    }

    /// Counts the operations that ended.
    fn count(&mut self, each: &mut impl FnMut(&Operation, u64)) {
        std::mem::swap(&mut self.done, &mut self.shared.done);
        let begin_ns = self.begin_ns.unwrap_or(0);
        for operation in self.done.drain(..) {
            if self.settings.window.is_some_and(|window| !window.has(&operation)) {
                self.shared.miss(MissedKind::OutsideRun, 0);
            } else if self.settings.condition.as_ref().is_some_and(|of| !of.is_met(&operation, begin_ns)) {
                self.not_selected += 1;
            } else {
                self.totals.add(&operation, begin_ns);
                each(&operation, begin_ns);
            }
            self.shared.recycle(operation);
        }
    }

    /// Ends the analysis.
    pub fn finish(mut self, each: &mut impl FnMut(&Operation, u64)) -> WireDocument {
        let top = self.settings.top;
        let connections = std::mem::replace(&mut self.connections, Connections::new(Ports::default()));
        let connections = connections.finish(top, &mut self.shared);
        self.count(each);
        let begin_ns = self.begin_ns.unwrap_or(0);
        let seconds = self.last_ns.saturating_sub(begin_ns) as f64 / 1e9;
        let finished = self.totals.finish(begin_ns, seconds, &self.shared.unanswered);
        let mut missed = Vec::new();
        for kind in MissedKind::ALL {
            let count = self.shared.missed(*kind);
            if count.count > 0 {
                missed.push(WireMissed { kind: *kind, count: count.count, bytes: count.bytes });
            }
        }
        add_missed(&mut missed, MissedKind::UnansweredRequests, self.shared.unanswered.iter().sum());
        WireDocument {
            format: WIRE_FORMAT.into(),
            source: String::new(),
            capture: WireCapture {
                begin_unix_ns: begin_ns,
                seconds,
                packets: self.packets,
                segments: self.segments,
                ..WireCapture::default()
            },
            condition: self.settings.condition.as_ref().map(ToString::to_string).unwrap_or_default(),
            not_selected: self.not_selected,
            slow_ms: self.settings.slow_ns.map(|ns| ns as f64 / 1e6),
            kinds: finished.kinds,
            rankings: finished.rankings,
            slowest: finished.slowest,
            timeline: finished.timeline,
            connections,
            missed,
            against: None,
        }
    }
}

/// Adds a count in the order of the kinds, if it is not zero.
fn add_missed(missed: &mut Vec<WireMissed>, kind: MissedKind, count: u64) {
    if count > 0 {
        let place = missed.partition_point(|of| (of.kind as usize) < kind as usize);
        missed.insert(place, WireMissed { kind, count, bytes: 0 });
    }
}
