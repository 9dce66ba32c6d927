//! The individually shown threads of a service.
//!
//! The busiest stage limits a pipeline, and counts of threads by state do not show which one that is.

use model::{Nanos, Readings};

use super::Metric;
use super::threads::{Thread, Threads, WaitReason};
use crate::reader::{Buffer, KernelFile};
use crate::series::Columns;

/// Threads of one selection shown at the same time at most.
const THREADS_MAX: usize = 8;
/// Maximum number of names in one run, including ended threads, because columns are never removed.
const NAMES_MAX: usize = 2 * THREADS_MAX;
/// What a thread does at least to be shown, where there are more than can be: its share of time running, ready to run or
/// waiting for a disk or a peer.
const SHARE_MIN: f64 = 0.1;

/// The metrics that are 0 or 1 in a sample.
const SAMPLED: [Metric; 6] = [
    Metric::ThreadFlush,
    Metric::ThreadTransfer,
    Metric::ThreadPeer,
    Metric::ThreadLock,
    Metric::ThreadTimer,
    Metric::ThreadIdle,
];

/// The threads of one selection that are shown, each kept until it ends.
#[derive(Default)]
pub(super) struct Tracked {
    places: Vec<Place>,
    /// Threads that may be taken in, by how busy they are.
    candidates: Vec<(f64, usize)>,
}

/// A name under which one thread at a time is shown.
struct Place {
    name: String,
    columns: Columns<Metric>,
    is_taken: bool,
}

impl Tracked {
    /// Adds the busy threads of a process, and sets the values of those that were just sampled.
    pub(super) fn set(
        &mut self,
        out: &mut Readings,
        process: &str,
        threads: &mut Threads,
        now: Nanos,
        buffer: &mut Buffer,
    ) {
        self.take_in(process, &mut threads.list, now, buffer);
        for thread in threads.list.iter().filter(|thread| thread.is_seen(now)) {
            if let Some(place) = thread.place.and_then(|place| self.places.get_mut(place)) {
                place.set(out, thread);
            }
        }
    }

    fn take_in(&mut self, process: &str, threads: &mut [Thread], now: Nanos, buffer: &mut Buffer) {
        self.places.iter_mut().for_each(|place| place.is_taken = false);
        self.candidates.clear();
        let least = if threads.len() > THREADS_MAX { SHARE_MIN } else { f64::MIN_POSITIVE };
        let mut taken = 0;
        for (index, thread) in threads.iter().enumerate() {
            match thread.place {
                Some(place) => {
                    taken += 1;
                    self.places[place].is_taken = true;
                }
                None if thread.is_seen(now) => {
                    let share = busy_share(thread, threads.len());
                    if share >= least {
                        self.candidates.push((share, index));
                    }
                }
                None => {}
            }
        }
        self.candidates.sort_unstable_by(|(a, _), (b, _)| b.total_cmp(a));
        self.candidates.truncate(THREADS_MAX.saturating_sub(taken));
        // Those that started first get the first numbers, in every trial.
        self.candidates.sort_unstable_by_key(|(_, index)| *index);
        for at in 0..self.candidates.len() {
            let (_, index) = self.candidates[at];
            let thread = &mut threads[index];
            let name = name(thread, buffer);
            thread.place = self.place(process, name);
        }
    }

    /// A free place of this name, made when there is none; nothing when too many names were given.
    fn place(&mut self, process: &str, name: String) -> Option<usize> {
        let of_name = |place: &&Place| place.name == name;
        let free = self.places.iter().position(|place| !place.is_taken && of_name(&place));
        let index = match free {
            None if self.places.len() >= NAMES_MAX => return None,
            None => {
                let instance = match self.places.iter().filter(of_name).count() {
                    0 => format!("{process} thread {name}"),
                    known => format!("{process} thread {name} {}", known + 1),
                };
                self.places.push(Place { name, columns: Columns::new(&instance), is_taken: false });
                self.places.len() - 1
            }
            Some(free) => free,
        };
        self.places[index].is_taken = true;
        Some(index)
    }
}

impl Place {
    fn set(&mut self, out: &mut Readings, thread: &Thread) {
        if let Some([ran, waited, ..]) = thread.rates {
            self.columns.set(out, Metric::ThreadCpus, ran / 1e9);
            self.columns.set(out, Metric::ThreadReady, waited / 1e9);
        }
        let Some(moment) = thread.moment.filter(|moment| moment.is_known) else { return };
        for metric in SAMPLED {
            let share = if moment.wait.and_then(sampled).is_some_and(|of| of as usize == metric as usize) {
                1.0
            } else {
                0.0
            };
            self.columns.set(out, metric, share);
        }
    }
}

/// The metric that a wait counts for.
fn sampled(wait: WaitReason) -> Option<Metric> {
    Some(match wait {
        WaitReason::Flush => Metric::ThreadFlush,
        WaitReason::Transfer => Metric::ThreadTransfer,
        WaitReason::Peer(_) => Metric::ThreadPeer,
        WaitReason::Lock(_) => Metric::ThreadLock,
        WaitReason::Timer => Metric::ThreadTimer,
        WaitReason::Events | WaitReason::Accept | WaitReason::Client => Metric::ThreadIdle,
        WaitReason::Other => return None,
    })
}

/// The share of its time that a thread was not waiting for work, as far as one look shows. Of few threads, what waits for
/// another thread or for a time is not idle either.
fn busy_share(thread: &Thread, threads: usize) -> f64 {
    let rates = thread.rates.map_or(0.0, |[ran, waited, ..]| (ran.max(0.0) + waited.max(0.0)) / 1e9);
    let waits = match thread.moment.and_then(|moment| moment.wait) {
        Some(WaitReason::Flush | WaitReason::Transfer | WaitReason::Peer(_)) => 1.0,
        Some(WaitReason::Lock(_) | WaitReason::Timer | WaitReason::Other) if threads <= THREADS_MAX => 1.0,
        _ => 0.0,
    };
    rates + waits
}

/// The name of a thread, without what cannot be shown; its number when it has none.
fn name(thread: &Thread, buffer: &mut Buffer) -> String {
    let text = KernelFile::at(thread.folder.join("comm")).read_once(buffer).unwrap_or_default();
    let name = String::from_utf8_lossy(text.strip_suffix(b"\n").unwrap_or(text));
    match name.trim().is_empty() {
        true => thread.folder.file_name().unwrap_or_default().to_string_lossy().into_owned(),
        false => name.replace(char::is_control, "\u{fffd}"),
    }
}
