//! The noise of this machine: how much the speed of a program with constant work varies.
//!
//! It measures the measuring loop with operations that do nothing (the `null` workload), so the result also
//! contains the overhead of the loop. It covers only the CPUs; a disk or a network adds its own noise.

use std::sync::Mutex;
use std::sync::atomic::Ordering;
use std::time::Duration;

use engine::arrivals::{Arrivals, MeasuredTime};
use engine::clock::Clock;
use engine::drive::{Book, Numbers, Stop, drive};
use engine::pace::Pace;
use engine::source::{HostRoot, Source};
use engine::workload::{LoadError, Share, WorkloadKind};
use model::{MILLISECOND, Nanos, Readings, SECOND, Settings, Shape};
use rustix::time::{ClockId, clock_gettime};

/// Length of a window.
const WINDOW: Nanos = 100 * MILLISECOND;

/// Number of rounds into which the windows are grouped: six each of two identical treatments.
const ROUNDS: usize = 12;

/// The measured windows.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Windows {
    /// Operations per second, window by window.
    pub(super) rates: Vec<f64>,
    /// How long they are together.
    pub(super) seconds: f64,
    /// Share of the time the measuring thread was ready to run without a processor; none when the kernel does not say.
    pub(super) run_wait_share: Option<f64>,
    /// Processor time of one operation: unlike the rate, it is the same on a busy machine.
    pub(super) loop_ns: Option<f64>,
}

/// Drives operations that do nothing for `length`, and reports the elapsed time after each window.
pub(super) fn measure(length: Nanos, mut tell: impl FnMut(Nanos) -> bool) -> Result<Windows, LoadError> {
    let clock = Clock::get();
    let workload = workloads::null::NULL
        .configure(&Settings::default())
        .map_err(|problems| LoadError::new(problems.to_string(), ""))?;
    let measured = MeasuredTime::new(length);
    let stop = Stop::default();
    let book = Mutex::new(Book::new(1));
    let count = || book.lock().map_or(0, |book| book.kinds[0].completed);
    let mut rates = Vec::new();
    let mut seconds = 0.0;
    let driven: Result<_, LoadError> = std::thread::scope(|scope| {
        let body = || {
            let share = Share { lane: 0, index: 0, of: 1, in_flight_max: 1, is_open: false, seed: 0 };
            let mut worker = workload.worker(&share)?;
            let mut arrivals = Arrivals::new(&Shape::closed(1), 0, 1, 0, clock.now(), &measured);
            let before = (clock.now(), thread_use());
            drive(
                &mut *worker,
                &mut arrivals,
                &mut Pace::new(&clock, false),
                &stop,
                &book,
                Numbers { first: 0, step: 1 },
                1,
            )?;
            let used = thread_use().zip(before.1).map(|(after, before)| {
                [after[0].saturating_sub(before[0]) as f64, after[1].saturating_sub(before[1]) as f64]
            });
            Ok(used.map(|used| (used, (clock.now() - before.0) as f64)))
        };
        let thread = std::thread::Builder::new().name("noise".into()).spawn_scoped(scope, body);
        let thread =
            thread.map_err(|error| LoadError::new(format!("no thread could be started: {error}"), ""))?;
        // The first window holds the start of the thread and cold caches.
        std::thread::sleep(Duration::from_nanos(WINDOW));
        let begin = clock.now();
        let (mut at, mut done) = (begin, count());
        while at < begin + length && tell(at - begin) && !thread.is_finished() {
            std::thread::sleep(Duration::from_nanos((at + WINDOW).saturating_sub(clock.now())));
            let (now, total) = (clock.now(), count());
            rates.push((total - done) as f64 / ((now - at) as f64 / 1e9));
            seconds += (now - at) as f64 / 1e9;
            (at, done) = (now, total);
        }
        stop.issuing.store(true, Ordering::Relaxed);
        thread.join().unwrap_or_else(|_| Err(LoadError::new("the measuring thread panicked", "")))
    });
    let used = driven?;
    let operations = count() as f64;
    Ok(Windows {
        rates,
        seconds,
        run_wait_share: used.map(|([_, waited], wall)| waited / wall),
        loop_ns: used.filter(|_| operations > 0.0).map(|([cpu, _], _)| cpu / operations),
    })
}

/// Nanoseconds in which this thread ran, and in which it waited for a CPU.
fn thread_use() -> Option<[u64; 2]> {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    let mut fields = text.split_whitespace();
    Some([fields.next()?.parse().ok()?, fields.next()?.parse().ok()?])
}

/// The evaluation of the windows.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Spread {
    /// Nanoseconds an operation takes in the fastest twentieth of the windows.
    pub(super) loop_ns: f64,
    /// Loss of the median window compared with the fastest twentieth, 0 to 1.
    pub(super) median_loss: f64,
    /// Loss of the worst window.
    pub(super) worst_loss: f64,
    /// Smallest detectable change with 6 and with 18 rounds of each treatment.
    pub(super) smallest_change: [f64; 2],
    /// Windows in a round.
    pub(super) round_windows: usize,
}

/// Judges the windows; none when there are too few of them.
///
/// The windows are grouped in order into 12 rounds, as an interleaved comparison of a thing with itself has them. With
/// `s` the standard deviation of the rounds' means as a share of their mean, two means of `n` rounds each differ by
/// chance with a standard error of `s * sqrt(2 / n)`. A change is called real when it is larger than the 97.5 %
/// quantile of Student's t with `2n - 2` degrees of freedom times that, and to be found four times out of five it must
/// be larger still by the 80 % quantile: `(t_0.975 + t_0.8) * s * sqrt(2 / n)`. The rounds of a real comparison are
/// longer, and their means differ less as far as the noise is not correlated; that is not counted on.
pub(super) fn spread(rates: &[f64]) -> Option<Spread> {
    let round_windows = rates.len() / ROUNDS;
    if round_windows == 0 {
        return None;
    }
    let mut sorted = rates.to_vec();
    sorted.sort_by(f64::total_cmp);
    let at = |share: f64| sorted[((sorted.len() - 1) as f64 * share).round() as usize];
    let (worst, median, fastest) = (sorted[0], at(0.5), at(0.95));
    if median <= 0.0 {
        return None;
    }
    let means: Vec<f64> = rates
        .chunks_exact(round_windows)
        .take(ROUNDS)
        .map(|round| round.iter().sum::<f64>() / round_windows as f64)
        .collect();
    let mean = means.iter().sum::<f64>() / means.len() as f64;
    let variance = means.iter().map(|of| (of / mean - 1.0).powi(2)).sum::<f64>() / (means.len() - 1) as f64;
    let s = variance.sqrt();
    // Student's t: 97.5 % and 80 % quantiles at 10 and at 34 degrees of freedom.
    let smallest_change =
        [(6.0, 2.228 + 0.879), (18.0, 2.032 + 0.852)].map(|(n, t): (f64, f64)| t * s * (2.0 / n).sqrt());
    Some(Spread {
        loop_ns: 1e9 / fastest,
        median_loss: (1.0 - median / fastest).max(0.0),
        worst_loss: 1.0 - worst / fastest,
        smallest_change,
        round_windows,
    })
}

/// Length of a window in milliseconds.
pub(super) fn window_ms() -> u64 {
    WINDOW / MILLISECOND
}

/// Share of one processor that reading every source of the host once a second takes: many samples one after another,
/// which the sources are reported are a second apart, so that what they do once a second is done each time.
pub(super) fn sampler_share() -> Option<f64> {
    const SAMPLES: u64 = 50;
    let root = HostRoot::live();
    let host = counters::SOURCES.iter().filter(|kind| kind.selector.is_empty());
    let mut sources: Vec<Box<dyn Source>> = host.filter_map(|kind| (kind.open)(&root, &[]).ok()).collect();
    let mut readings = Readings::new();
    let mut sample = |number: u64| {
        readings.clear();
        for source in &mut sources {
            // A source that fails costs what it costs; that it fails is reported elsewhere.
            let _ = source.read(number * SECOND, &mut readings);
        }
    };
    sample(1);
    let before = clock_gettime(ClockId::ThreadCPUTime);
    (2..2 + SAMPLES).for_each(&mut sample);
    let after = clock_gettime(ClockId::ThreadCPUTime);
    let used = (after.tv_sec - before.tv_sec) as f64 + (after.tv_nsec - before.tv_nsec) as f64 / 1e9;
    (!sources.is_empty()).then_some(used / SAMPLES as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_even_machine_can_tell_any_change() {
        let spread = spread(&[1e7; 48]).unwrap();
        assert_eq!((spread.loop_ns, spread.median_loss, spread.worst_loss), (100.0, 0.0, 0.0));
        assert_eq!(spread.smallest_change, [0.0, 0.0]);
        assert_eq!(spread.round_windows, 4);
    }

    #[test]
    fn the_change_that_can_be_reported_follows_the_spread_of_the_rounds() {
        // Rounds of one window, alternately 1 % above and below the mean: s = 0.01 * sqrt(12 / 11).
        let rates: Vec<f64> = (0..12).map(|round| if round % 2 == 0 { 99.0 } else { 101.0 }).collect();
        let spread = spread(&rates).unwrap();
        let s = 0.01 * (12.0_f64 / 11.0).sqrt();
        assert!((spread.smallest_change[0] - 3.107 * s * (1.0_f64 / 3.0).sqrt()).abs() < 1e-12);
        assert!((spread.smallest_change[1] - 2.884 * s / 3.0).abs() < 1e-12);
        assert!((spread.worst_loss - (1.0 - 99.0 / 101.0)).abs() < 1e-12);
    }

    #[test]
    fn one_bad_window_is_the_worst_and_not_the_median() {
        let mut rates = vec![100.0; 60];
        rates[17] = 40.0;
        let spread = spread(&rates).unwrap();
        assert_eq!(spread.median_loss, 0.0);
        assert!((spread.worst_loss - 0.6).abs() < 1e-12);
        assert!(spread.smallest_change[0] > spread.smallest_change[1]);
    }

    #[test]
    fn too_little_says_nothing() {
        assert_eq!(spread(&[1.0; 11]), None);
        assert_eq!(spread(&[]), None);
        assert_eq!(spread(&[0.0; 24]), None);
    }

    #[test]
    fn the_loop_is_driven_and_stopped() {
        let mut reported = 0;
        let windows = measure(3 * WINDOW, |_| {
            reported += 1;
            true
        })
        .unwrap();
        assert_eq!(windows.rates.len(), reported);
        assert!(windows.rates.iter().all(|rate| rate.is_finite() && *rate >= 0.0), "{windows:?}");
        assert_eq!(measure(100 * SECOND, |_| false).unwrap().rates, [] as [f64; 0]);
    }
}
