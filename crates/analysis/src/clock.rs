//! How far the clock of a log of counters is from that of a load, by the counter that follows the rate of the load.
//!
//! Clocks differ by whole hours, where a time zone was not known, and by up to two minutes beside. For each such offset, the rate of
//! the load in the windows of the samples is correlated with each counter: the values, and their changes from one sample to the
//! next, so that two trends are not taken for each other. Before and after a run, the rate is zero. An offset is an estimate only
//! if no other one is nearly as good.

/// Whole hours of an offset, and seconds beside.
const HOURS_MAX: i64 = 14;
const SECONDS_MAX: i64 = 120;

/// The fewest samples while the load ran, and the most that are compared.
const SAMPLES_MIN: usize = 20;
const SAMPLES_MAX: usize = 400;

/// The lowest correlation of the values, and of their changes.
const VALUES_MIN: f64 = 0.8;
const CHANGES_MIN: f64 = 0.5;

/// How much lower the score of each other offset has to be: the mean of both correlations.
const LEAD_MIN: f64 = 0.15;

/// The part of a run by which the time before and after it is looked at too.
const BESIDE: f64 = 0.25;

/// Operations of a load in a span of time, seconds since any moment.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Done {
    /// Its begin.
    pub begin_s: f64,
    /// Its end.
    pub end_s: f64,
    /// Operations per second.
    pub rate_per_s: f64,
}

/// The samples of a log: when each began and ended, by the clock of the log, seconds since the same moment; and the values of each
/// counter, NaN where there is none.
#[derive(Clone, Debug, Default)]
pub struct Samples {
    /// Begin and end of each, in order.
    pub spans: Vec<(f64, f64)>,
    /// A value for each of them, for each counter.
    pub counters: Vec<Vec<f64>>,
}

/// An estimate.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ClockOffset {
    /// Seconds by which the clock of the log is ahead of that of the load.
    pub ahead_s: i64,
    /// The counter that follows the load.
    pub counter: usize,
    /// Pearson's correlation of its values with the rate of the load.
    pub correlation: f64,
    /// The samples that were compared.
    pub samples: usize,
}

/// Why there is no estimate.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum NoOffset {
    /// The load or the log has too few values, or none that vary.
    TooFew,
    /// No counter follows the load: the highest correlation.
    NoneFollows(f64),
    /// Several offsets are about as good: two of them, in seconds.
    Ambiguous(i64, i64),
}

/// Estimates how far the clock of a log is ahead of that of a load.
///
/// # Errors
/// If nothing follows the load, or it is not clear when.
pub fn offset(load: &[Done], log: &Samples) -> Result<ClockOffset, NoOffset> {
    let total = Total::of(load).ok_or(NoOffset::TooFew)?;
    let log = shortened(log, &total);
    let mut tried: Vec<Tried> = Vec::new();
    let (mut highest, mut has_samples) = (f64::NEG_INFINITY, false);
    for hour in -HOURS_MAX..=HOURS_MAX {
        for second in -SECONDS_MAX..=SECONDS_MAX {
            let ahead_s = 3600 * hour + second;
            let Some((first, rates)) = total.rates(&log, ahead_s as f64) else { continue };
            has_samples = true;
            let mut best: Option<Tried> = None;
            for (counter, values) in log.counters.iter().enumerate() {
                let values = &values[first..first + rates.len()];
                let Some((of_values, of_changes)) = correlations(&rates, values) else { continue };
                highest = highest.max(of_values);
                let here = Tried { ahead_s, counter, of_values, of_changes, samples: rates.len() };
                if best.is_none_or(|best| here.score() > best.score()) {
                    best = Some(here);
                }
            }
            tried.extend(best);
        }
    }
    let best = tried.iter().copied().max_by(|a, b| a.score().total_cmp(&b.score()));
    let Some(best) = best.filter(|_| has_samples) else { return Err(NoOffset::TooFew) };
    if best.of_values < VALUES_MIN || best.of_changes < CHANGES_MIN {
        return Err(NoOffset::NoneFollows(highest));
    }
    // Neighbours of the best are nearly as good, within the length of a sample.
    let length_s = log.spans.iter().map(|(begin, end)| end - begin).fold(0.0, f64::max);
    let near_s = (2.0 * length_s).ceil().max(2.0) as i64;
    let others = tried.iter().filter(|other| (other.ahead_s - best.ahead_s).abs() > near_s);
    match others.max_by(|a, b| a.score().total_cmp(&b.score())) {
        Some(other) if other.score() > best.score() - LEAD_MIN => {
            Err(NoOffset::Ambiguous(best.ahead_s, other.ahead_s))
        }
        _ => Ok(ClockOffset {
            ahead_s: best.ahead_s,
            counter: best.counter,
            correlation: best.of_values,
            samples: best.samples,
        }),
    }
}

/// An offset with the counter that is best there.
#[derive(Clone, Copy)]
struct Tried {
    ahead_s: i64,
    counter: usize,
    of_values: f64,
    of_changes: f64,
    samples: usize,
}

impl Tried {
    fn score(&self) -> f64 {
        0.5 * (self.of_values + self.of_changes)
    }
}

/// The operations of the load up to each time.
struct Total {
    /// Times, and operations until then.
    points: Vec<(f64, f64)>,
    begin_s: f64,
    end_s: f64,
}

impl Total {
    fn of(load: &[Done]) -> Option<Total> {
        let is_valid = |of: &&Done| {
            of.end_s > of.begin_s
                && of.rate_per_s >= 0.0
                && (of.end_s * of.rate_per_s * of.begin_s).is_finite()
        };
        let mut load: Vec<Done> = load.iter().filter(is_valid).copied().collect();
        load.sort_by(|a, b| a.begin_s.total_cmp(&b.begin_s));
        let (begin_s, mut end_s) = (load.first()?.begin_s, load.first()?.begin_s);
        let (mut points, mut sum) = (vec![(begin_s, 0.0)], 0.0);
        for of in load {
            // Spans that overlap are counted from the end of the last one.
            let from_s = of.begin_s.max(end_s);
            if of.end_s <= from_s {
                continue;
            }
            if from_s > end_s {
                points.push((from_s, sum));
            }
            sum += of.rate_per_s * (of.end_s - from_s);
            end_s = of.end_s;
            points.push((end_s, sum));
        }
        (sum > 0.0).then_some(Total { points, begin_s, end_s })
    }

    /// The operations until a time.
    fn until(&self, at_s: f64) -> f64 {
        let after = self.points.partition_point(|(time_s, _)| *time_s < at_s);
        let (Some(after), Some(before)) =
            (self.points.get(after), after.checked_sub(1).map(|at| self.points[at]))
        else {
            return self.points.get(after).map_or(self.points[self.points.len() - 1].1, |first| first.1);
        };
        before.1 + (after.1 - before.1) * (at_s - before.0) / (after.0 - before.0)
    }

    /// The rate of the load in the samples that were taken while it ran, and shortly before and after, if the clock of the log is
    /// ahead by so much; with the first of these samples. None if there are too few.
    fn rates(&self, log: &Samples, ahead_s: f64) -> Option<(usize, Vec<f64>)> {
        let length_s = self.end_s - self.begin_s;
        let (begin_s, end_s) = (self.begin_s + ahead_s, self.end_s + ahead_s);
        let beside_s = BESIDE * length_s;
        let first = log.spans.partition_point(|(begin, _)| *begin < begin_s - beside_s);
        let last = log.spans.partition_point(|(_, end)| *end <= end_s + beside_s);
        let spans = log.spans.get(first..last)?;
        let inside = spans.iter().filter(|(begin, end)| *end > begin_s && *begin < end_s);
        let (count, seen_s) = inside.fold((0, 0.0), |(count, sum), (begin, end)| {
            (count + 1, sum + end.min(end_s) - begin.max(begin_s))
        });
        // The log has to have been written nearly all the time.
        if count < SAMPLES_MIN || seen_s < 0.8 * length_s {
            return None;
        }
        let rate = |(begin, end): &(f64, f64)| {
            (self.until(end - ahead_s) - self.until(begin - ahead_s)) / (end - begin)
        };
        Some((first, spans.iter().map(rate).collect()))
    }
}

/// The samples near enough to the load, joined so that not too many are compared.
fn shortened(log: &Samples, total: &Total) -> Samples {
    let most_s = (3600 * HOURS_MAX + SECONDS_MAX) as f64 + (total.end_s - total.begin_s);
    let is_near = |(begin, end): &(f64, f64)| {
        end > begin && *end > total.begin_s - most_s && *begin < total.end_s + most_s
    };
    let kept: Vec<usize> = (0..log.spans.len()).filter(|at| is_near(&log.spans[*at])).collect();
    let lengths: Vec<f64> = kept.iter().map(|at| log.spans[*at].1 - log.spans[*at].0).collect();
    let mean_s = lengths.iter().sum::<f64>() / lengths.len().max(1) as f64;
    let expected = (1.0 + 2.0 * BESIDE) * (total.end_s - total.begin_s) / mean_s.max(1e-9);
    let joined = ((expected / SAMPLES_MAX as f64).ceil() as usize).max(1);
    let mean = |values: &[f64], group: &[usize]| {
        let of = |at: &usize| values.get(*at).copied().unwrap_or(f64::NAN);
        group.iter().map(of).sum::<f64>() / group.len() as f64
    };
    Samples {
        spans: kept
            .chunks(joined)
            .map(|group| (log.spans[group[0]].0, log.spans[group[group.len() - 1]].1))
            .collect(),
        counters: log
            .counters
            .iter()
            .map(|values| kept.chunks(joined).map(|group| mean(values, group)).collect())
            .collect(),
    }
}

/// Pearson's correlation of values, and of their changes; none if they do not vary, or if too many are missing.
fn correlations(rates: &[f64], values: &[f64]) -> Option<(f64, f64)> {
    let known: Vec<(f64, f64)> =
        rates.iter().zip(values).map(|(a, b)| (*a, *b)).filter(|(_, b)| b.is_finite()).collect();
    if known.len() < SAMPLES_MIN || 10 * known.len() < 9 * rates.len() {
        return None;
    }
    let changes: Vec<(f64, f64)> =
        known.windows(2).map(|two| (two[1].0 - two[0].0, two[1].1 - two[0].1)).collect();
    Some((pearson(&known)?, pearson(&changes)?))
}

fn pearson(pairs: &[(f64, f64)]) -> Option<f64> {
    let count = pairs.len() as f64;
    let (a, b) = pairs.iter().fold((0.0, 0.0), |(a, b), (x, y)| (a + x, b + y));
    let (a, b) = (a / count, b / count);
    let (mut both, mut of_a, mut of_b) = (0.0, 0.0, 0.0);
    for (x, y) in pairs {
        both += (x - a) * (y - b);
        of_a += (x - a) * (x - a);
        of_b += (y - b) * (y - b);
    }
    // What is constant but for rounding does not vary.
    let varies = |sum: f64, mean: f64| sum > 1e-12 * mean * mean * count && sum > 0.0;
    let found = both / (of_a.sqrt() * of_b.sqrt());
    (varies(of_a, a) && varies(of_b, b) && found.is_finite()).then_some(found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;

    /// A load whose rate changes at random every few seconds, from second 100,000 on.
    fn load(random: &mut Random, seconds: usize) -> Vec<Done> {
        let mut rate_per_s = 1000.0;
        (0..seconds)
            .map(|at| {
                if at % 7 == 0 {
                    rate_per_s = 500.0 + 1000.0 * random.unit();
                }
                let begin_s = 100_000.0 + at as f64;
                Done { begin_s, end_s: begin_s + 1.0, rate_per_s }
            })
            .collect()
    }

    /// The log of a counter that follows a load with so much noise, on a clock that is ahead.
    fn log(load: &[Done], ahead_s: f64, step_s: f64, noise: f64, random: &mut Random) -> Samples {
        let total = Total::of(load).unwrap();
        let count = (3.0 * (total.end_s - total.begin_s) / step_s) as usize;
        let first_s = total.begin_s - (total.end_s - total.begin_s) + 0.37;
        let spans: Vec<(f64, f64)> =
            (0..count).map(|at| (first_s + at as f64 * step_s, first_s + (at + 1) as f64 * step_s)).collect();
        let value = |(begin, end): &(f64, f64)| (total.until(*end) - total.until(*begin)) / (end - begin);
        let follows = spans.iter().map(|span| 2.0 * value(span) + noise * (random.unit() - 0.5)).collect();
        let other: Vec<f64> = spans.iter().map(|_| random.unit()).collect();
        let spans = spans.iter().map(|(begin, end)| (begin + ahead_s, end + ahead_s)).collect();
        Samples { spans, counters: vec![other, follows] }
    }

    #[test]
    fn a_steady_load_is_found_by_its_begin_and_end() {
        let mut random = Random::new(3);
        let steady: Vec<Done> = (0..60)
            .map(|at| Done {
                begin_s: 5e4 + f64::from(at),
                end_s: 5e4 + f64::from(at + 1),
                rate_per_s: 800.0,
            })
            .collect();
        let found = offset(&steady, &log(&steady, 3612.0, 1.0, 100.0, &mut random)).unwrap();
        assert!((found.ahead_s - 3612).abs() <= 1 && found.counter == 1, "{found:?}");
        assert!(found.correlation > 0.9, "{found:?}");
    }

    #[test]
    fn a_load_that_repeats_is_ambiguous() {
        let mut random = Random::new(4);
        let waves: Vec<Done> = (0..300)
            .map(|at| Done {
                begin_s: f64::from(at),
                end_s: f64::from(at + 1),
                rate_per_s: if at / 10 % 2 == 0 { 1000.0 } else { 0.0 },
            })
            .collect();
        let found = offset(&waves, &log(&waves, 0.0, 1.0, 10.0, &mut random));
        assert!(matches!(found, Err(NoOffset::Ambiguous(..))), "{found:?}");
    }

    #[test]
    fn too_little_is_said_to_be_so() {
        let mut random = Random::new(5);
        let short = load(&mut random, 10);
        assert_eq!(offset(&short, &log(&short, 0.0, 1.0, 0.0, &mut random)), Err(NoOffset::TooFew));
        assert_eq!(offset(&[], &Samples::default()), Err(NoOffset::TooFew));
        let nothing = [Done { begin_s: 1.0, end_s: 1.0, rate_per_s: f64::NAN }];
        assert_eq!(offset(&nothing, &Samples::default()), Err(NoOffset::TooFew));
    }

    proptest::proptest! {
        #![proptest_config(proptest::prelude::ProptestConfig { cases: 12, ..Default::default() })]

        #[test]
        fn a_planted_offset_is_found(
            seed in 0_u64..1_000_000, hours in -14_i64..=14, seconds in -118_i64..=118, step in 1_u32..4, noise in 0.0..300.0,
        ) {
            let mut random = Random::new(seed);
            let load = load(&mut random, 150);
            let planted = 3600 * hours + seconds;
            let log = log(&load, planted as f64, f64::from(step), noise, &mut random);
            let found = offset(&load, &log).unwrap();
            proptest::prop_assert!((found.ahead_s - planted).abs() <= 1, "{planted}: {found:?}");
            proptest::prop_assert_eq!(found.counter, 1);
        }

        #[test]
        fn noise_has_no_offset(seed in 0_u64..1_000_000, walks in proptest::bool::ANY) {
            let mut random = Random::new(seed);
            let load = load(&mut random, 120);
            let spans: Vec<(f64, f64)> = (0..1000).map(|at| (99_500.0 + f64::from(at), 99_501.0 + f64::from(at))).collect();
            let mut last = 0.0;
            let counters = (0..8).map(|_| {
                let next = |_: &(f64, f64)| {
                    last = if walks { last + random.unit() - 0.5 } else { random.unit() };
                    last
                };
                spans.iter().map(next).collect()
            });
            let counters = counters.collect();
            let found = offset(&load, &Samples { spans, counters });
            proptest::prop_assert!(matches!(found, Err(NoOffset::NoneFollows(_))), "{found:?}");
        }
    }
}
