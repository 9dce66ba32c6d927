//! The numbers of all operations.

mod ranking;
mod timeline;

use std::collections::BTreeMap;

use model::wire::{WireKind, WireOperation, WireRankedBy, WireRanking, WireResult, WireTimeline};

use crate::ldap::shape_into;
use crate::operation::{Kind, Operation, Outcome, Protocol};
use crate::times::Times;
use ranking::Ranking;
use timeline::Timeline;

/// The most different results of one kind. Servers have few; a hostile capture may have many.
const RESULTS_MAX: usize = 256;

#[derive(Debug, Default)]
struct OfKind {
    operations: u64,
    failed: u64,
    times: Times,
    firsts: Times,
    slow: u64,
    entries: u64,
    request_bytes: u64,
    response_bytes: u64,
    results: BTreeMap<Outcome, u64>,
    /// The result of the last operation and how often it was counted in a row.
    run: (Option<Outcome>, u64),
}

impl OfKind {
    /// Counts a result. Most are the same as the one before.
    fn count(&mut self, outcome: Option<Outcome>) {
        if self.run.0 == outcome {
            self.run.1 += 1;
            return;
        }
        let (before, count) = std::mem::replace(&mut self.run, (outcome, 1));
        if let Some(before) = before
            && (self.results.len() < RESULTS_MAX || self.results.contains_key(&before))
        {
            *self.results.entry(before).or_default() += count;
        }
    }
}

pub(crate) struct Totals {
    slow_ns: Option<u64>,
    top: usize,
    kinds: Vec<OfKind>,
    filters: Ranking,
    bases: Ranking,
    names: Ranking,
    paths: Ranking,
    slowest: Vec<(u64, Operation)>,
    timeline: Timeline,
    shape: String,
}

/// The parts of a document that describe operations.
pub(crate) struct Finished {
    pub(crate) kinds: Vec<WireKind>,
    pub(crate) rankings: Vec<WireRanking>,
    pub(crate) slowest: Vec<WireOperation>,
    pub(crate) timeline: WireTimeline,
}

impl Totals {
    pub(crate) fn new(slow_ns: Option<u64>, top: usize) -> Self {
        Totals {
            slow_ns,
            top,
            kinds: (0..Kind::COUNT).map(|_| OfKind::default()).collect(),
            filters: Ranking::new(WireRankedBy::Filter),
            bases: Ranking::new(WireRankedBy::Base),
            names: Ranking::new(WireRankedBy::Name),
            paths: Ranking::new(WireRankedBy::Path),
            slowest: Vec::new(),
            timeline: Timeline::new(),
            shape: String::new(),
        }
    }

    /// Adds an operation of a capture that began at this time.
    pub(crate) fn add(&mut self, operation: &Operation, begin_ns: u64) {
        let kind = &mut self.kinds[operation.kind.index()];
        kind.operations += 1;
        kind.request_bytes += operation.request_bytes;
        kind.response_bytes += operation.response_bytes;
        kind.entries += operation.entries;
        kind.count(operation.outcome);
        if operation.outcome.is_some_and(|outcome| !outcome.is_success()) {
            kind.failed += 1;
        }
        if let Some(first_ns) = operation.first_time_ns() {
            kind.firsts.record(first_ns);
        }
        self.timeline.add(operation, operation.end_ns.saturating_sub(begin_ns));
        let Some(time_ns) = operation.time_ns() else { return };
        kind.times.record(time_ns);
        if self.slow_ns.is_some_and(|slow_ns| time_ns > slow_ns) {
            kind.slow += 1;
        }
        match operation.kind.protocol() {
            Protocol::Ldap => {
                if shape_into(operation, &mut self.shape) {
                    self.filters.add(&self.shape, operation, self.slow_ns);
                }
                if operation.kind == Kind::SEARCH {
                    self.bases.add(&operation.base, operation, self.slow_ns);
                }
                self.names.add(&operation.name, operation, self.slow_ns);
            }
            Protocol::Http => self.paths.add(&operation.path, operation, self.slow_ns),
        }
        self.rank(time_ns, operation);
    }

    /// Keeps the slowest operations.
    fn rank(&mut self, time_ns: u64, operation: &Operation) {
        if self.slowest.len() >= self.top {
            match self.slowest.last() {
                Some((least, _)) if time_ns > *least => self.slowest.pop(),
                _ => return,
            };
        }
        let place = self.slowest.partition_point(|(time, _)| *time >= time_ns);
        self.slowest.insert(place, (time_ns, operation.clone()));
    }

    pub(crate) fn finish(self, begin_ns: u64, seconds: f64, unanswered: &[u64; Kind::COUNT]) -> Finished {
        let has_limit = self.slow_ns.is_some();
        let mut kinds = Vec::new();
        for ((kind, mut of), unanswered) in Kind::all().zip(self.kinds).zip(unanswered) {
            if of.operations == 0 && *unanswered == 0 {
                continue;
            }
            of.count(None);
            let mut results: Vec<WireResult> = of
                .results
                .into_iter()
                .map(|(outcome, count)| WireResult { name: outcome.name(), number: outcome.number(), count })
                .collect();
            results.sort_by_key(|result| (std::cmp::Reverse(result.count), result.number));
            kinds.push(WireKind {
                protocol: kind.protocol().name().into(),
                kind: kind.name().into(),
                operations: of.operations,
                failed: of.failed,
                unanswered: *unanswered,
                response_ms: of.times.milliseconds(),
                first_ms: of.firsts.milliseconds(),
                slow: has_limit.then_some(of.slow),
                entries: of.entries,
                request_bytes: of.request_bytes,
                response_bytes: of.response_bytes,
                results,
            });
        }
        let rankings = [self.filters, self.bases, self.names, self.paths];
        Finished {
            kinds,
            rankings: rankings.into_iter().filter_map(|of| of.finish(self.top, has_limit)).collect(),
            slowest: self.slowest.iter().map(|(_, operation)| operation.document(begin_ns)).collect(),
            timeline: self.timeline.finish(seconds),
        }
    }
}

impl Operation {
    /// As a part of a document about a capture that began at this time.
    pub fn document(&self, begin_ns: u64) -> WireOperation {
        let ms = |ns: u64| ns as f64 / 1e6;
        WireOperation {
            at_s: self.request_ns.saturating_sub(begin_ns) as f64 / 1e9,
            protocol: self.kind.protocol().name().into(),
            kind: self.kind.name().into(),
            time_ms: self.time_ns().map(ms),
            first_ms: self.first_time_ns().map(ms),
            result: self.outcome.map(Outcome::name).unwrap_or_default(),
            entries: self.entries,
            response_bytes: self.response_bytes,
            connection: self.connection,
            client: self.client.to_string(),
            server: self.server.to_string(),
            base: self.base.clone(),
            filter: self.filter_text(),
            name: self.name.to_string(),
            method: self.method.clone(),
            path: self.path.clone(),
        }
    }
}
