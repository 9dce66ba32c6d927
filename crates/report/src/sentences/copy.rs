//! What a copy says of a write-back cache.

use model::drain::DrainEnd;
use model::result::Configuration;
use model::{CachePlace, Claim, CopyResult, DrainResult, Estimate, ResultDocument, WriteCache};

use super::finding;
use crate::labels;
use crate::text::{Quantity, percent, sentence_start, time_s};

/// Share of a drain with writes of the device below which it is said that the kernel waited.
const WRITING_SHARE: f64 = 0.8;

fn bytes(value: f64) -> String {
    Quantity::Bytes.show(value)
}

fn rate(value: f64) -> String {
    Quantity::BytesPerSecond.show(value)
}

/// The cache with its rates and its drain, then where it was seen.
pub(super) fn write_cache(cache: &WriteCache, drain: Option<&DrainResult>) -> String {
    let (accepted, into) = (bytes(cache.accepted_bytes.value), rate(cache.into_bytes_per_s));
    let filled = match cache.past_bytes_per_s {
        Some(past) => format!("Cache: {accepted} accepted at {into}, then {}", rate(past.value)),
        None => format!("Cache: at least {accepted} accepted at {into}; the copy did not exhaust it"),
    };
    // Past the page cache nothing is left, wherever the data is.
    let drain = drain.filter(|drain| cache.place == CachePlace::PageCache || drain.bytes_per_s.is_some());
    let drained = drain.and_then(drain_words).map_or(String::new(), |words| format!("; {words}"));
    format!("{filled}{drained}. {}", place(cache))
}

fn place(cache: &WriteCache) -> String {
    let Estimate { value, low, high } = cache.capacity_bytes;
    match cache.place {
        CachePlace::PageCache => {
            let ends = match low < high {
                true => format!(" ({} to {})", bytes(low), bytes(high)),
                false => String::new(),
            };
            format!("It is the page cache: it held {}{ends} of dirty and writeback memory.", bytes(value))
        }
        CachePlace::NotShown => "The counters do not show that it is a cache.".into(),
        CachePlace::BelowSystem => format!(
            "It is below the operating system, and inferred from the rate alone: its capacity is {} to {}. A burst \
             allowance looks the same. Its own drain is not visible.",
            bytes(low),
            bytes(high)
        ),
    }
}

/// The drain; none where no counter showed it.
fn drain_words(drain: &DrainResult) -> Option<String> {
    let length = time_s(drain.length_s());
    let written = match drain.bytes_per_s {
        Some(rate_per_s) => format!("{} written at {}", bytes(drain.bytes), rate(rate_per_s)),
        None => "nothing written".into(),
    };
    match drain.end {
        DrainEnd::NoCounters => None,
        DrainEnd::Rest if drain.bytes_per_s.is_none() => Some("nothing was left to drain".into()),
        DrainEnd::Rest => {
            let rate_words = drain.bytes_per_s.map_or(String::new(), |value| format!(" at {}", rate(value)));
            Some(match drain.writing_s < WRITING_SHARE * drain.length_s() {
                true => format!(
                    "drained in {length}: the device wrote for {}{rate_words}, and the kernel waited for the rest",
                    time_s(drain.writing_s)
                ),
                false => format!("drained in {length}{rate_words}"),
            })
        }
        DrainEnd::TimeLimit => Some(format!("not drained after {length}: {written}")),
        DrainEnd::Interrupted => Some(format!("interrupted after {length} of the drain: {written}")),
    }
}

/// Rates past a cache and without it, and from which size on the cache costs more than none.
pub(super) struct Costs<'a> {
    pub(super) configuration: &'a str,
    pub(super) without: &'a str,
    pub(super) past_bytes_per_s: f64,
    pub(super) without_bytes_per_s: f64,
    pub(super) ratio: Estimate,
    pub(super) break_even_bytes: f64,
}

pub(super) fn cache_costs(costs: &Costs<'_>) -> String {
    let label = crate::labels::series_text;
    let [slower, least, most] =
        [costs.ratio.value, costs.ratio.high, costs.ratio.low].map(|ratio| percent(1.0 - ratio));
    let from = match costs.break_even_bytes > 0.0 {
        true => format!("A copy of more than {} takes longer with it.", bytes(costs.break_even_bytes)),
        false => "A copy of any size takes longer with it.".into(),
    };
    format!(
        "A cache that is too small costs more than none. Past it, {} copies at {}, {slower} slower than {} without a cache, at \
         {} (95 % interval {least} to {most}). {from}",
        label(costs.configuration),
        rate(costs.past_bytes_per_s),
        label(costs.without),
        rate(costs.without_bytes_per_s)
    )
}

/// What copies show of write-back caches: the cache of the only configuration, or of each, and what one costs.
pub(super) fn caches(document: &ResultDocument, said: &mut Vec<usize>) -> Vec<String> {
    let mut texts = Vec::new();
    for (at, of) in document.findings.iter().enumerate() {
        match &of.claim {
            Claim::CacheCosts { .. } => texts.insert(0, finding(of)),
            Claim::WriteCache { .. } if document.configurations.len() <= 1 => texts.push(finding(of)),
            Claim::WriteCache { .. } => texts.extend(caches_by_configuration(document)),
            _ => continue,
        }
        said.push(at);
    }
    texts
}

/// The cache of each configuration that has one, in its replicate with the median rate past it.
fn caches_by_configuration(document: &ResultDocument) -> Vec<String> {
    let of = |configuration: &Configuration| {
        let trials = document.trials.iter().filter(|trial| configuration.trials.contains(&trial.trial));
        let mut copies: Vec<&CopyResult> = trials
            .filter_map(|trial| trial.copy.as_ref().filter(|copy| copy.shown_cache().is_some()))
            .collect();
        let past = |copy: &CopyResult| {
            copy.cache.and_then(|cache| cache.past_bytes_per_s).map_or(0.0, |of| of.value)
        };
        copies.sort_by(|a, b| past(a).total_cmp(&past(b)));
        let copy = copies.get(copies.len() / 2)?;
        let text = write_cache(copy.cache.as_ref()?, copy.drain.as_ref());
        let label = &configuration.treatment.label;
        Some(format!("{}: {text}", sentence_start(&labels::labelled(document, label))))
    };
    document.configurations.iter().filter_map(of).collect()
}
