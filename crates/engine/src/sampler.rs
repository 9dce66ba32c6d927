//! Reads every source at regular intervals, on a separate thread.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use model::experiment::{watched_host, watched_url};
use model::run::SamplerCost;
use model::{EventKind, Nanos, Readings, SourceState, SourceStatus};
use rustix::time::{ClockId, clock_gettime};

use crate::clock::Clock;
use crate::source::{EXPORTER, HostRoot, Source, SourceKind, Unavailable};

/// The shortest window of an additional sample.
pub(crate) const WINDOW_MIN: Nanos = 20 * model::MILLISECOND;

/// The period of the kernel's cgroup limits. Systems under test also act at round times. So strictly periodic
/// samples would always see the same part of a period, and thread states in it would not be representative.
const PERIOD: Nanos = 100 * model::MILLISECOND;

/// The delay of a sample after its regular time: less than the interval, and evenly distributed over a
/// period. Fractional parts of multiples of the golden ratio are evenly distributed for any number of
/// samples.
fn later(sample: u64, every: Nanos) -> Nanos {
    ((sample as f64 * std::f64::consts::GOLDEN_RATIO).fract() * every.min(PERIOD) as f64) as Nanos
}

/// When samples are taken.
pub(crate) struct Schedule {
    /// The regular time of the last one.
    pub(crate) beat: Nanos,
    pub(crate) every: Nanos,
    /// How long before the samples of others the regular ones are taken.
    pub(crate) lead: Nanos,
}

impl Schedule {
    /// The time of the next sample, after so many.
    fn next(&mut self, now: Nanos, samples: u64) -> Nanos {
        self.beat += self.every;
        // After a long stall the schedule restarts: a burst of samples would be meaningless.
        if self.beat + self.every < now {
            self.beat = now;
        }
        self.beat + later(samples, self.every)
    }

    /// The time of a sample that is requested now, because a phase begins. The regular ones follow from it.
    fn begin_anew(&mut self, now: Nanos, last_read: Nanos) -> Nanos {
        // A window of a few milliseconds would be shorter than the resolution of the counters.
        let due = now.max(last_read + WINDOW_MIN);
        self.beat = due.saturating_sub(self.lead);
        due
    }
}

/// Requests to the sampling thread.
#[derive(Debug, Default)]
pub(crate) struct SampleRequest {
    /// Take a sample now: a phase begins, and a window should not cross its border.
    pub(crate) now: AtomicBool,
    /// Stop sampling.
    pub(crate) stop: AtomicBool,
}

/// An open source with its success and failure counts.
struct Open {
    name: String,
    source: Box<dyn Source>,
    failures: u64,
    last_failure: String,
}

/// All sources of a run.
pub struct Sampler {
    open: Vec<Open>,
    unavailable: Vec<SourceStatus>,
    readings: Readings,
    cost: SamplerCost,
    last_read: Nanos,
}

impl Sampler {
    /// Opens the sources in `watch`: `host` means every source of the host, `KIND:SELECTION` one with a
    /// selector, a URL an exporter of another host. A source that cannot be opened is stored with the reason.
    pub fn open(kinds: &[SourceKind], root: &HostRoot, watch: &[String]) -> Sampler {
        let mut sampler = Sampler {
            open: Vec::new(),
            unavailable: Vec::new(),
            readings: Readings::new(),
            cost: SamplerCost::default(),
            last_read: 0,
        };
        let (exporters, watch): (Vec<&String>, Vec<&String>) =
            watch.iter().partition(|entry| watched_url(entry).is_some());
        for kind in kinds {
            if kind.selector == EXPORTER {
                for entry in &exporters {
                    let name = format!("{} {}", kind.name, watched_host(entry).unwrap_or_default());
                    sampler.add(name, (kind.open)(root, std::slice::from_ref(*entry)));
                }
                continue;
            }
            let selected: Vec<String> = match kind.selector {
                "" => Vec::new(),
                selector => watch
                    .iter()
                    .filter_map(|entry| entry.split_once(':'))
                    .filter(|(word, _)| *word == selector)
                    .map(|(_, selection)| selection.to_string())
                    .collect(),
            };
            let wanted = match kind.selector {
                "" => watch.iter().any(|entry| *entry == "host"),
                _ => !selected.is_empty(),
            };
            if !wanted {
                continue;
            }
            sampler.add(kind.name.into(), (kind.open)(root, &selected));
        }
        sampler
    }

    /// Adds a source, or the reason why it is none.
    pub(crate) fn add(&mut self, name: String, opened: Result<Box<dyn Source>, Unavailable>) {
        match opened {
            Ok(source) => {
                self.open.push(Open { name, source, failures: 0, last_failure: String::new() });
            }
            Err(why) => {
                self.unavailable.push(SourceStatus { source: name, state: SourceState::Unavailable(why.0) })
            }
        }
    }

    /// Reads every source once. Returns the start and end of the window on the run's clock, and the sources
    /// that failed for the first time, with the reasons.
    pub fn sample(&mut self, clock: Clock) -> (Nanos, Nanos, Vec<(String, String)>) {
        let cpu_before = thread_cpu_s();
        let begin = self.last_read;
        let now = clock.now();
        let mut failures = Vec::new();
        self.readings.clear();
        for open in &mut self.open {
            if let Err(why) = open.source.read(clock.now(), &mut self.readings) {
                if open.failures == 0 {
                    failures.push((open.name.clone(), why.0.clone()));
                }
                open.failures += 1;
                open.last_failure = why.0;
            }
        }
        self.last_read = now;
        self.cost.samples += 1;
        self.cost.cpu_s += thread_cpu_s() - cpu_before;
        if begin != 0 {
            self.cost.wall_s += (now - begin) as f64 / 1e9;
        }
        (if begin == 0 { now } else { begin }, now, failures)
    }

    /// Forgets when the last sample was: the window of the next one begins with it.
    pub(crate) fn restart(&mut self) {
        self.last_read = 0;
    }

    /// The latest sample.
    pub fn readings(&self) -> &Readings {
        &self.readings
    }

    /// Every source, and whether it was readable.
    pub fn status(&self) -> Vec<SourceStatus> {
        let read = self.open.iter().map(|open| SourceStatus {
            source: open.name.clone(),
            state: match open.failures {
                0 => SourceState::Active,
                samples => SourceState::Failing { samples, why: open.last_failure.clone() },
            },
        });
        read.chain(self.unavailable.iter().cloned()).collect()
    }

    /// The limitations of the sources, in sentences.
    pub fn limits(&self) -> Vec<String> {
        self.open.iter().map(|open| open.source.limits()).filter(|limits| !limits.is_empty()).collect()
    }

    /// The cost of reading so far.
    pub fn cost(&self) -> SamplerCost {
        self.cost
    }

    /// Samples now and by `schedule` until it is stopped. The interval does not drift, but each sample is
    /// delayed by up to 100 ms. Passes each sample with its window on the run's clock to `keep`.
    pub(crate) fn run(
        &mut self,
        clock: Clock,
        mut schedule: Schedule,
        request: &SampleRequest,
        keep: &mut dyn FnMut(Nanos, Nanos, &Readings),
        tell: &mut dyn FnMut(Nanos, EventKind, String),
    ) {
        loop {
            let (begin, end, failures) = self.sample(clock);
            for (source, why) in failures {
                tell(end, EventKind::Source, format!("source {source} could not be read: {why}"));
            }
            if end > begin {
                keep(begin, end, &self.readings);
            }
            let mut due = schedule.next(clock.now(), self.cost.samples);
            let mut is_requested = false;
            while clock.now() < due {
                if request.now.swap(false, Ordering::Relaxed) {
                    is_requested = true;
                    due = schedule.begin_anew(clock.now(), self.last_read);
                    continue;
                }
                if request.stop.load(Ordering::Relaxed) && !is_requested {
                    return;
                }
                // A request unparks this thread.
                std::thread::park_timeout(Duration::from_nanos(due.saturating_sub(clock.now())));
            }
            // The end of the last phase is read, so that counts are complete.
            if request.stop.load(Ordering::Relaxed) && !is_requested {
                return;
            }
        }
    }
}

fn thread_cpu_s() -> f64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_of_other_machines_are_taken_before_ours_in_each_phase() {
        const MS: Nanos = model::MILLISECOND;
        let mut ours = Schedule { beat: 5_000 * MS, every: 1_000 * MS, lead: 0 };
        let mut theirs = Schedule { beat: 4_900 * MS, every: 1_000 * MS, lead: 100 * MS };
        let is_before = |ours: &mut Schedule, theirs: &mut Schedule, sample| {
            let (ours, theirs) = (ours.next(5_000 * MS, sample), theirs.next(5_000 * MS, sample));
            assert_eq!(ours - theirs, 100 * MS);
            ours
        };
        assert!((6_000 * MS..6_100 * MS).contains(&is_before(&mut ours, &mut theirs, 1)));
        // The border of a phase is the same for all.
        assert_eq!(ours.begin_anew(6_500 * MS, 6_000 * MS), 6_500 * MS);
        assert_eq!(theirs.begin_anew(6_500 * MS, 6_495 * MS), 6_515 * MS);
        theirs.begin_anew(6_500 * MS, 6_000 * MS);
        assert!((7_500 * MS..7_600 * MS).contains(&is_before(&mut ours, &mut theirs, 2)));
        // After a stall, no burst.
        assert!(ours.next(20_000 * MS, 3) >= 20_000 * MS);
    }

    struct Silent;

    impl Source for Silent {
        fn read(&mut self, _: Nanos, _: &mut Readings) -> Result<(), Unavailable> {
            Ok(())
        }
    }

    #[test]
    fn each_exporter_is_a_source_with_its_own_state() {
        let kind = SourceKind {
            name: "scrape",
            about: "",
            metrics: &[],
            selector: EXPORTER,
            open: |_, selected| match selected {
                [entry] if !entry.contains("bad") => Ok(Box::new(Silent)),
                _ => Err(Unavailable(selected.join(" "))),
            },
        };
        let watch = ["host", "db1=http://10.0.0.5:9100/m", "process:http://a", "https://bad/m ca=x"];
        let sampler = Sampler::open(&[kind], &HostRoot::live(), &watch.map(String::from));
        let expected = [
            ("scrape db1", SourceState::Active),
            ("scrape bad", SourceState::Unavailable("https://bad/m ca=x".into())),
        ];
        let status = |(source, state): (&str, SourceState)| SourceStatus { source: source.into(), state };
        assert_eq!(sampler.status(), expected.map(status));
    }

    #[test]
    fn samples_meet_every_part_of_a_period() {
        for every_ms in [10, 100, 250, 1000] {
            let every = every_ms * model::MILLISECOND;
            let times: Vec<Nanos> = (1..=40).map(|sample| sample * every + later(sample, every)).collect();
            assert!(times.windows(2).all(|pair| pair[1] - pair[0] >= every / 3), "{times:?}");
            let mut seen = [0; 4];
            for time in times {
                seen[(time % PERIOD * 4 / PERIOD) as usize] += 1;
            }
            assert!(seen.iter().all(|count| (7..=13).contains(count)), "every {every_ms} ms: {seen:?}");
        }
    }
}
