//! The next load of a search for one goal, from the loads classified so far.
//!
//! The method is that of RFC 9971 (MLRsearch): short trials find approximate bounds, full-length trials confirm
//! them. Where a full-length trial contradicts a short one, the search moves away from the bound in steps that
//! double, and uses full-length trials only. The relevant upper bound is the smallest load that misses the
//! goal; the relevant lower bound is the largest load below it that meets the goal. Loads above the upper bound
//! that meet the goal (loss inversion) do not count.

use model::Search;
use model::limit::{LimitAnswer, LoadClass};

/// Number of full-length trials at one load after which its class remains unclear.
pub(crate) const FULL_TRIALS_MAX: u32 = 4;
/// The growth of the load from one short trial to the next while no bound is known.
const GROWTH: f64 = 2.0;
/// The smallest first step away from a contradicted bound, as a share.
const STEP_MIN: f64 = 0.005;
/// Limit of the exponent of a step away from a contradicted bound.
const DOUBLINGS_MAX: i32 = 10;

/// What is known about one load for one goal.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct KnownLoad {
    pub(crate) load: f64,
    /// Completed full-length trials.
    pub(crate) full_trials: u32,
    /// The class by the full-length trials; none without one.
    pub(crate) class: Option<LoadClass>,
    /// Whether the short trials meet the goal; none without one.
    pub(crate) hint: Option<bool>,
}

impl KnownLoad {
    /// Whether the load meets the goal as far as known: by full-length trials, otherwise by short ones.
    fn meets(&self) -> Option<bool> {
        match self.class {
            Some(LoadClass::Meets) => Some(true),
            Some(LoadClass::Misses) => Some(false),
            Some(LoadClass::Unclear) => None,
            None => self.hint,
        }
    }

    fn is_confirmed(&self, class: LoadClass) -> bool {
        self.class == Some(class)
    }
}

/// The words for the steps of a search.
struct Words {
    more: &'static str,
    less: &'static str,
    first: &'static str,
    last: &'static str,
}

const OF_LOADS: Words = Words {
    more: "a larger load",
    less: "a smaller load",
    first: "the smallest load of the search",
    last: "the largest load of the search",
};

/// More strain on the system is less of the resource.
const OF_LEVELS: Words = Words {
    more: "a lower level",
    less: "a higher level",
    first: "the highest level of the search",
    last: "the lowest level of the search",
};

/// The next measurement for a goal.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Step {
    Measure { load: f64, is_full: bool, reason: String },
    Done(LimitAnswer),
}

/// The confirmed bounds of a goal.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Confirmed {
    /// The largest load below the upper bound that meets the goal.
    pub(crate) lower: Option<f64>,
    /// The smallest load that misses the goal.
    pub(crate) upper: Option<f64>,
    /// Loads between the bounds with an unclear class, in ascending order.
    pub(crate) unclear: Vec<f64>,
}

/// The confirmed bounds among these loads, which are in ascending order.
pub(crate) fn confirmed(known: &[KnownLoad]) -> Confirmed {
    let of = |class| known.iter().filter(move |one| one.is_confirmed(class)).map(|one| one.load);
    let upper = of(LoadClass::Misses).next();
    let below = |load: &f64| upper.is_none_or(|upper| *load < upper);
    let lower = of(LoadClass::Meets).rfind(below);
    let above = |load: &f64| lower.is_none_or(|lower| *load > lower);
    let unclear = of(LoadClass::Unclear).filter(|load| below(load) && above(load)).collect();
    Confirmed { lower, upper, unclear }
}

/// A goal's search over loads in ascending order.
pub(crate) struct Bracket<'a> {
    pub(crate) search: &'a Search,
    pub(crate) goal: &'a str,
    pub(crate) known: &'a [KnownLoad],
}

impl Bracket<'_> {
    /// The next measurement, or the end.
    pub(crate) fn next(&self) -> Step {
        let found = confirmed(self.known);
        if let Some(step) = self.extension(&found) {
            return step;
        }
        match (found.lower, found.upper) {
            (None, None) if found.unclear.is_empty() => self.short_trials(),
            (Some(lower), None) => self.above(lower, &found),
            (None, Some(upper)) => self.below(upper, &found),
            (None, None) => self.below(found.unclear[0], &found),
            (Some(lower), Some(upper)) => self.between(lower, upper, &found),
        }
    }

    /// Another trial at a load that is still unclear.
    fn extension(&self, found: &Confirmed) -> Option<Step> {
        let is_open =
            |one: &&KnownLoad| found.unclear.contains(&one.load) && one.full_trials < FULL_TRIALS_MAX;
        let open = self.known.iter().find(is_open)?;
        let reason = format!(
            "the result at {} is too close to {} to tell: full-length trial {} of at most {FULL_TRIALS_MAX}",
            self.text(open.load),
            self.goal,
            open.full_trials + 1
        );
        Some(self.full(open.load, reason))
    }

    /// Short trials until the bounds are as close as requested; then the first confirmation.
    fn short_trials(&self) -> Step {
        let search = self.search;
        let known: Vec<(f64, bool)> =
            self.known.iter().filter_map(|one| Some((one.load, one.meets()?))).collect();
        let upper = known.iter().find(|(_, meets)| !meets).map(|(load, _)| *load);
        let lower = known.iter().filter(|(load, meets)| *meets && upper.is_none_or(|upper| *load < upper));
        let lower = lower.map(|(load, _)| *load).next_back();
        let goal = self.goal;
        match (lower, upper) {
            (None, None) => self.short(search.first, "the first guess".into()),
            (Some(lower), None) if lower >= search.max => self.full(
                lower,
                format!(
                    "a short trial met {goal} at {}, {}: confirm it",
                    self.text(lower),
                    self.words().last
                ),
            ),
            (Some(lower), None) => self.short(
                self.up(lower, lower * GROWTH).min(search.max),
                format!("{} met {goal}: {}", self.text(lower), self.words().more),
            ),
            (None, Some(upper)) if upper <= search.min => self.full(
                upper,
                format!(
                    "a short trial missed {goal} at {}, {}: confirm it",
                    self.text(upper),
                    self.words().first
                ),
            ),
            (None, Some(upper)) => self.short(
                self.down(upper, upper / GROWTH).max(search.min),
                format!("{} missed {goal}: {}", self.text(upper), self.words().less),
            ),
            (Some(lower), Some(upper)) if self.is_narrow(lower, upper) => self.full(
                lower,
                format!(
                    "short trials met {goal} at {} and missed it at {}: confirm {}",
                    self.text(lower),
                    self.text(upper),
                    self.text(lower)
                ),
            ),
            (Some(lower), Some(upper)) => self.short(
                self.middle(lower, upper),
                format!(
                    "{goal} was met at {} and missed at {}: between them",
                    self.text(lower),
                    self.text(upper)
                ),
            ),
        }
    }

    /// A load above the lower bound, to confirm that it misses the goal.
    fn above(&self, lower: f64, found: &Confirmed) -> Step {
        let base = found.unclear.last().copied().unwrap_or(lower);
        if base >= self.search.max {
            return Step::Done(match found.unclear.is_empty() {
                true => LimitAnswer::NotReached,
                false => LimitAnswer::Unclear,
            });
        }
        // Without an upper bound, every confirmed load is one step up.
        let confirmed = self.known.iter().filter(|one| one.class.is_some()).count();
        let hints = self.known.iter().filter(|one| one.load > base && one.class.is_none());
        let missed = hints.filter(|one| one.hint == Some(false)).map(|one| one.load).next();
        let stepped = base * self.stride(confirmed);
        let load = match missed {
            Some(missed) if confirmed <= 1 => missed,
            Some(missed) => missed.min(self.up(base, stepped)),
            None => self.up(base, stepped),
        };
        let reason = match confirmed {
            _ if !found.unclear.is_empty() => {
                format!("{} at {}: {}", self.cannot_tell(), self.text(base), self.words().more)
            }
            0 | 1 => format!("{} meets {}: confirm what misses it", self.text(base), self.goal),
            _ => format!(
                "{} meets {} in a full-length trial: {}",
                self.text(base),
                self.goal,
                self.words().more
            ),
        };
        self.full(load.min(self.search.max), reason)
    }

    /// A load below the upper bound, or below an unclear load, to confirm that it meets the goal.
    fn below(&self, upper: f64, found: &Confirmed) -> Step {
        let base = found.unclear.first().copied().unwrap_or(upper);
        if base <= self.search.min {
            return Step::Done(match found.unclear.is_empty() {
                true => LimitAnswer::AlwaysMissed,
                false => LimitAnswer::Unclear,
            });
        }
        // Without a lower bound, every confirmed load that does not meet the goal is one step down.
        let is_step = |one: &&KnownLoad| one.class.is_some_and(|class| class != LoadClass::Meets);
        let confirmed = self.known.iter().filter(is_step).count();
        let hints = self.known.iter().filter(|one| one.load < base && one.class.is_none());
        let met = hints.filter(|one| one.hint == Some(true)).map(|one| one.load).next_back();
        let stepped = self.down(base, base / self.stride(confirmed));
        let load = match met {
            Some(met) if confirmed <= 1 => met,
            Some(met) => met.max(stepped),
            None => stepped,
        };
        let reason = match found.unclear.is_empty() {
            true => format!(
                "{} misses {} in a full-length trial: {}",
                self.text(base),
                self.goal,
                self.words().less
            ),
            false => format!("{} at {}: {}", self.cannot_tell(), self.text(base), self.words().less),
        };
        self.full(load.max(self.search.min), reason)
    }

    /// A load between two confirmed bounds, if they are not close enough.
    fn between(&self, lower: f64, upper: f64, found: &Confirmed) -> Step {
        if self.is_narrow(lower, upper) {
            return Step::Done(LimitAnswer::Found);
        }
        let first = found.unclear.first().copied().unwrap_or(upper);
        let last = found.unclear.last().copied().unwrap_or(lower);
        let reason = |low: f64, high: f64| {
            format!("{} is between {} and {}: between them", self.goal, self.text(low), self.text(high))
        };
        // Half of the width on either side of an unclear load can still make the whole narrow enough.
        if !self.is_within(lower, first, 0.5) {
            return self.full(self.middle(lower, first), reason(lower, first));
        }
        if last > lower && !self.is_within(last, upper, 0.5) {
            return self.full(self.middle(last, upper), reason(last, upper));
        }
        Step::Done(LimitAnswer::Unclear)
    }

    fn cannot_tell(&self) -> String {
        format!("{FULL_TRIALS_MAX} full-length trials can't tell whether {} is met", self.goal)
    }

    /// Whether two bounds are as close as requested, or neighbours.
    fn is_narrow(&self, lower: f64, upper: f64) -> bool {
        self.is_within(lower, upper, 1.0)
    }

    /// Whether two loads are as close as this part of the requested width, or neighbours.
    fn is_within(&self, lower: f64, upper: f64, part: f64) -> bool {
        self.search.axis.are_neighbours(lower, upper) || (upper - lower) / upper <= part * self.search.width
    }

    /// The ratio of a step away from a contradicted bound: it doubles with each step.
    fn stride(&self, steps: usize) -> f64 {
        let doublings = i32::try_from(steps.saturating_sub(1)).unwrap_or(DOUBLINGS_MAX).min(DOUBLINGS_MAX);
        (1.0 + self.search.width.max(STEP_MIN)).powf(2f64.powi(doublings)).min(GROWTH * GROWTH)
    }

    /// A load that can be set and is larger.
    fn up(&self, base: f64, wanted: f64) -> f64 {
        self.search.axis.above(base, wanted)
    }

    /// A load that can be set and is smaller.
    fn down(&self, base: f64, wanted: f64) -> f64 {
        self.search.axis.below(base, wanted)
    }

    /// The geometric mean of two loads, which differs from both.
    fn middle(&self, lower: f64, upper: f64) -> f64 {
        self.search.axis.middle(lower, upper)
    }

    fn words(&self) -> &'static Words {
        if self.search.axis.is_resource() { &OF_LEVELS } else { &OF_LOADS }
    }

    fn text(&self, load: f64) -> String {
        self.search.text(load)
    }

    fn short(&self, load: f64, reason: String) -> Step {
        Step::Measure { load, is_full: false, reason }
    }

    fn full(&self, load: f64, reason: String) -> Step {
        Step::Measure { load, is_full: true, reason }
    }
}
