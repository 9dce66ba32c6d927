//! What a copy shows of a write-back cache: the rate into it and past it, its capacity, and its drain.

use model::claim::ChangeCause;
use model::drain::{DrainEnd, DrainFacts, is_at_rest, is_writing};
use model::{CachePlace, CopyResult, DrainResult, Estimate, Phase, WriteCache};

use super::changes::{Changes, Stretch, cause};
use crate::measured::Measured;
use crate::statistics::{CONFIDENCE, steady_mean, t_interval};

/// The share of a copy that must be in memory at its end if the page cache absorbed a part of it.
const ABSORBED_SHARE: f64 = 0.1;
/// Rate past a cache as a share of the rate into it, at most.
const SLOWER: f64 = 0.9;
/// How exactly a sample begins where the copy ended, seconds.
const SLACK_S: f64 = 0.02;

/// None for other workloads, and without a copied byte.
pub(crate) fn of(measured: &Measured) -> Option<CopyResult> {
    let of_files = measured.of_files();
    let [measured] = of_files.as_slice() else { return None };
    if !measured.is_copy() {
        return None;
    }
    let series = measured.series();
    let (first, last) = (series.first()?, series.last()?);
    // The rates of windows multiply back to whole bytes but for the last digits of a float.
    let bytes = series.iter().map(|window| window.bytes_per_s * window.length_s()).sum::<f64>().round();
    let length_s: f64 = series.iter().map(|window| window.length_s()).sum();
    if !(bytes > 0.0 && length_s > 0.0) {
        return None;
    }
    let rates: Vec<f64> = series.iter().map(|window| window.bytes_per_s).collect();
    let drain = drain(measured, last.end_s);
    let in_memory = || not_full(measured, bytes, bytes / length_s, last.end_s);
    // What memory holds is shown, unlike the cause of a fall that no counter explains.
    let cache = match full(measured) {
        Some(fall) if fall.place == CachePlace::NotShown => in_memory().or(Some(fall)),
        found => found.or_else(in_memory),
    };
    let ends = |of: Estimate| of.low.is_finite() && of.value.is_finite() && of.high.is_finite();
    let finite = |cache: &WriteCache| {
        ends(cache.accepted_bytes) && ends(cache.capacity_bytes) && cache.past_bytes_per_s.is_none_or(ends)
    };
    let result = CopyResult {
        bytes,
        accepted_s: last.end_s - first.begin_s,
        mean_bytes_per_s: with_noise(bytes / length_s, &rates),
        cache: cache.filter(finite),
        drain: drain.filter(|drain| drain.bytes.is_finite() && drain.end_s.is_finite()),
    };
    (ends(result.mean_bytes_per_s) && result.accepted_s.is_finite()).then_some(result)
}

/// A rate with the interval of the noise between windows, which is that of a ratio: no rate is negative. Without a second
/// window it is the value itself.
fn with_noise(value: f64, windows: &[f64]) -> Estimate {
    let noise = steady_mean(windows).or_else(|| t_interval(windows, CONFIDENCE));
    let relative = noise.map_or(0.0, |noise| (noise.high - noise.value) / noise.value);
    let relative = if relative.is_finite() { relative.max(0.0) } else { 0.0 };
    // No mean is beyond the range of its values.
    let least = windows.iter().copied().fold(value, f64::min);
    let most = windows.iter().copied().fold(value, f64::max);
    Estimate { value, low: (value * (-relative).exp()).max(least), high: (value * relative.exp()).min(most) }
}

/// A cache that was full during the copy: the rate fell for good, and the counters show why.
fn full(measured: &Measured) -> Option<WriteCache> {
    let changes = Changes::of(measured);
    let at = changes.sharpest()?;
    let place = match cause(measured, &changes.stretches[at - 1], &changes.stretches[at]).0 {
        ChangeCause::WriteBackCache => CachePlace::PageCache,
        ChangeCause::CacheBelowSystem => CachePlace::BelowSystem,
        ChangeCause::Copying | ChangeCause::NotShown => CachePlace::NotShown,
    };
    let (into, past) =
        (changes.together(&changes.stretches[..at])?, changes.together(&changes.stretches[at..])?);
    let lasts = changes.stretches[at..].iter().all(|after| after.rate < into.rate);
    if !(lasts && past.bytes_per_s <= SLOWER * into.bytes_per_s && past.bytes_per_s > 0.0) {
        return None;
    }
    let part = |of: &Stretch| -> Vec<Stretch> {
        let inside = |window: &&Stretch| window.begin_s >= of.begin_s && window.end_s <= of.end_s;
        changes.windows.iter().filter(inside).copied().collect()
    };
    let (windows_into, windows_past) = (part(&into), part(&past));
    let past_rates: Vec<f64> = windows_past.iter().map(|window| window.bytes_per_s).collect();
    // The change is somewhere in the windows on either side of it.
    let accepted = into.bytes();
    let accepted_bytes = Estimate {
        value: accepted,
        low: (accepted - past.bytes_per_s * windows_into.last()?.length_s()).max(0.0),
        high: accepted + windows_past.first()?.bytes(),
    };
    let without_drained = |accepted: f64| accepted * (1.0 - past.bytes_per_s / into.bytes_per_s);
    let capacity_bytes = match place {
        CachePlace::PageCache => held(measured, &past)?,
        CachePlace::BelowSystem | CachePlace::NotShown => Estimate {
            value: without_drained(accepted),
            low: without_drained(accepted_bytes.low),
            high: accepted_bytes.high,
        },
    };
    Some(WriteCache {
        place,
        into_bytes_per_s: into.bytes_per_s,
        past_bytes_per_s: Some(with_noise(past.bytes_per_s, &past_rates)),
        accepted_bytes,
        capacity_bytes,
        full_at_s: Some(past.begin_s),
    })
}

/// What the page cache held while it was full: mean, least and most of the host's dirty and writeback memory, or the most
/// that the copied files had, where that is known.
fn held(measured: &Measured, past: &Stretch) -> Option<Estimate> {
    let drain = measured.drain();
    if let Some(held) = drain.as_ref().and_then(|drain| drain.held).filter(|held| held.most_bytes > 0) {
        return Some(Estimate::exact(held.most_bytes as f64));
    }
    let before = drain.and_then(|drain| drain.before).map_or(0.0, |before| before.unwritten_bytes);
    let held: Vec<f64> = measured
        .unwritten()
        .filter(|(at_s, _)| *at_s > past.begin_s && *at_s <= past.end_s)
        .map(|(_, bytes)| (bytes - before).max(0.0))
        .collect();
    Some(Estimate {
        value: crate::statistics::mean(&held)?,
        low: held.iter().copied().fold(f64::INFINITY, f64::min),
        high: held.iter().copied().fold(0.0, f64::max),
    })
}

/// The page cache, when the copy ended before it was full: a part of the bytes was still in memory at the end.
fn not_full(measured: &Measured, bytes: f64, bytes_per_s: f64, end_s: f64) -> Option<WriteCache> {
    if measured.is_direct() {
        return None;
    }
    let drain = measured.drain()?;
    let of_host = || {
        let before = drain.before?.unwritten_bytes;
        let during = measured.unwritten().filter(|(at_s, _)| *at_s >= measured.begin_s && *at_s <= end_s);
        let first_after = measured.unwritten().find(|(at_s, _)| *at_s > end_s);
        let held = during.chain(first_after).map(|(_, held)| held - before).fold(0.0, f64::max);
        (!is_at_rest(held, 0.0, 0.0, 0.0)).then_some(held)
    };
    let held = drain.held.map(|held| held.most_bytes as f64).or_else(of_host)?.min(bytes);
    (held >= ABSORBED_SHARE * bytes).then_some(WriteCache {
        place: CachePlace::PageCache,
        into_bytes_per_s: bytes_per_s,
        past_bytes_per_s: None,
        accepted_bytes: Estimate::exact(bytes),
        capacity_bytes: Estimate::exact(held),
        full_at_s: None,
    })
}

/// What the devices wrote after the last byte was accepted, the final flush included.
fn drain(measured: &Measured, begin_s: f64) -> Option<DrainResult> {
    let DrainFacts { end, devices, before, held } = measured.drain()?;
    let devices: Vec<&str> = devices.iter().map(String::as_str).collect();
    let (unwritten_before, written_before) =
        before.map_or((0.0, 0.0), |before| (before.unwritten_bytes, before.written_bytes_per_s));
    let writes = measured.writes_of(&devices);
    let is_drain = |rate: f64| is_writing(rate, written_before);
    let cool_down = measured.record.run.span(Phase::CoolDown).filter(|span| span.end_s > begin_s);
    let watched_s = cool_down.map_or(begin_s, |span| span.end_s);
    // A sample that begins during the copy has writes of the copy.
    let last_write = || {
        let after = writes.iter().filter(|(begin, ..)| *begin >= begin_s - SLACK_S);
        after.filter(|(.., rate)| is_drain(*rate)).map(|(_, end, _)| *end).fold(begin_s, f64::max)
    };
    let is_stacked = devices != measured.devices();
    let rested_s = match held {
        // The files were watched themselves: the last byte left memory when watching ended, or with the flush.
        Some(held) if held.left_bytes > 0 => watched_s,
        Some(_) if measured.is_direct() => begin_s,
        Some(_) => cool_down.map_or(begin_s, |span| span.begin_s.max(begin_s)),
        None => {
            let held = measured.unwritten();
            let late = held
                .filter(|(at_s, bytes)| *at_s > begin_s && !is_at_rest(*bytes, unwritten_before, 0.0, 0.0));
            late.map(|(at_s, _)| at_s).fold(last_write(), f64::max)
        }
    };
    let rested_s = if is_stacked { rested_s.max(last_write()) } else { rested_s };
    let end_s = if end == DrainEnd::Rest { rested_s } else { rested_s.max(watched_s) };
    let (mut bytes, mut writing_s) = (0.0, 0.0);
    for (begin, end, rate) in &writes {
        let overlap_s = end.min(end_s) - begin.max(begin_s);
        if overlap_s > 0.0 && is_drain(*rate) {
            bytes += (rate - written_before).max(0.0) * overlap_s;
            writing_s += overlap_s;
        }
    }
    Some(DrainResult {
        begin_s,
        end_s,
        writing_s,
        bytes,
        bytes_per_s: (writing_s > 0.0).then(|| bytes / writing_s),
        end,
    })
}
