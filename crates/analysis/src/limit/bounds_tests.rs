//! The search over simulated loads, without records.

use model::Search;
use model::limit::{Axis, LimitAnswer, LoadClass};
use proptest::prelude::*;

use super::bounds::{Bracket, Confirmed, FULL_TRIALS_MAX, KnownLoad, Step, confirmed};
use crate::simulate::search_for;

/// Trials after which a search must have ended.
const TRIALS_MAX: usize = 80;

fn search(settings: &[(&str, &str)]) -> Search {
    Search::of(&search_for(settings, &["response.p95 <= 20ms"])).unwrap()
}

/// What one trial shows at a load: the class of full-length trials by their number, and the hint of a short one.
type System<'a> = &'a mut dyn FnMut(f64, bool, u32) -> LoadClass;

struct Ended {
    answer: LimitAnswer,
    found: Confirmed,
    short: usize,
    full: usize,
    loads: Vec<f64>,
}

fn carry_out(search: &Search, system: System<'_>) -> Ended {
    let mut known: Vec<KnownLoad> = Vec::new();
    let (mut short, mut full, mut loads) = (0, 0, Vec::new());
    loop {
        let step = Bracket { search, goal: "response.p95 <= 20ms", known: &known }.next();
        let (load, is_full) = match step {
            Step::Done(answer) => {
                return Ended { answer, found: confirmed(&known), short, full, loads };
            }
            Step::Measure { load, is_full, reason } => {
                assert!(!reason.is_empty());
                (load, is_full)
            }
        };
        assert!(load >= search.min && load <= search.max, "{load} is outside the search");
        assert!(search.axis != Axis::Users || load.fract() == 0.0, "{load} users");
        loads.push(load);
        let at = known.iter().position(|one| one.load == load).unwrap_or_else(|| {
            known.push(KnownLoad { load, full_trials: 0, class: None, hint: None });
            known.len() - 1
        });
        if is_full {
            full += 1;
            known[at].full_trials += 1;
            known[at].class = Some(system(load, true, known[at].full_trials));
            known[at].hint = None;
        } else {
            assert!(
                known[at].class.is_none() && known[at].hint.is_none(),
                "a short trial is repeated at {load}"
            );
            short += 1;
            known[at].hint = Some(system(load, false, 1) == LoadClass::Meets);
        }
        known.sort_by(|a, b| a.load.total_cmp(&b.load));
        assert!(short + full < TRIALS_MAX, "the search does not end: {loads:?}");
    }
}

fn class(meets: bool) -> LoadClass {
    if meets { LoadClass::Meets } else { LoadClass::Misses }
}

fn check_narrow(search: &Search, ended: &Ended) {
    let (lower, upper) = (ended.found.lower.unwrap(), ended.found.upper.unwrap());
    let is_narrow = (upper - lower) / upper <= search.width || search.axis.are_neighbours(lower, upper);
    assert!(is_narrow, "{lower} to {upper}");
}

#[test]
fn a_search_that_nothing_contradicts_is_short() {
    let search = search(&[]);
    let ended = carry_out(&search, &mut |load, _, _| class(load <= 40.0));
    assert_eq!(ended.answer, LimitAnswer::Found);
    assert_eq!((ended.found.lower, ended.found.upper), (Some(40.0), Some(41.0)));
    assert_eq!(ended.loads, [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 45.0, 38.0, 41.0, 39.0, 40.0, 40.0, 41.0]);
    assert_eq!(ended.full, 2);
}

#[test]
fn the_ends_of_the_range_are_confirmed() {
    for settings in [&[][..], &[("open", "100/s")]] {
        let search = search(settings);
        let all = carry_out(&search, &mut |_, _, _| LoadClass::Meets);
        assert_eq!((all.answer, all.found.lower), (LimitAnswer::NotReached, Some(search.max)));
        assert_eq!(all.full, 1);
        let none = carry_out(&search, &mut |_, _, _| LoadClass::Misses);
        assert_eq!((none.answer, none.found.upper), (LimitAnswer::AlwaysMissed, Some(search.min)));
        assert_eq!(none.full, 1);
    }
}

#[test]
fn an_unclear_load_is_extended_and_then_left_between_the_bounds() {
    let search = search(&[("limit_width", "3%")]);
    let mut extended = 0;
    let ended = carry_out(&search, &mut |load, is_full, _| match load {
        _ if is_full && (190.0..=210.0).contains(&load) => {
            extended += 1;
            LoadClass::Unclear
        }
        load => class(load <= 200.0),
    });
    assert_eq!(ended.answer, LimitAnswer::Unclear);
    let (lower, upper) = (ended.found.lower.unwrap(), ended.found.upper.unwrap());
    assert!((180.0..190.0).contains(&lower) && upper > 210.0 && upper <= 220.0, "{lower} to {upper}");
    assert_eq!(extended, FULL_TRIALS_MAX * ended.found.unclear.len() as u32);
    // The next trial at the same load may be clear.
    let ended = carry_out(&search, &mut |load, is_full, trial| match load {
        _ if is_full && trial == 1 => LoadClass::Unclear,
        load => class(load <= 200.0),
    });
    assert_eq!(ended.answer, LimitAnswer::Found);
    check_narrow(&search, &ended);
}

#[test]
fn what_short_trials_do_not_show_is_found_in_full_length_ones() {
    let search = search(&[("open", "1000/s")]);
    for shown in [0.5, 0.8, 1.2, 2.0, 3.0] {
        let ended = carry_out(&search, &mut |load, is_full, _| {
            class(load <= if is_full { 777.0 } else { 777.0 * shown })
        });
        assert_eq!(ended.answer, LimitAnswer::Found, "{shown}");
        check_narrow(&search, &ended);
        assert!(ended.found.lower <= Some(777.0) && ended.found.upper > Some(777.0), "{shown}");
        assert!(ended.full <= 16, "{shown}: {} full-length trials", ended.full);
    }
}

proptest! {
    #[test]
    fn the_interval_contains_the_truth(
        is_rate: bool,
        truth in 1.0f64..1000.0,
        first in 1u32..2000,
        width in 1u32..30,
        shown in 0.3f64..3.0,
    ) {
        let guess = if is_rate { ("open", format!("{first}/s")) } else { ("closed", first.to_string()) };
        let settings = [(guess.0, guess.1.as_str()), ("limit_width", &format!("{width}%"))];
        let search = search(&settings);
        let ended = carry_out(&search, &mut |load, is_full, _| {
            class(load <= if is_full { truth } else { truth * shown })
        });
        match ended.answer {
            LimitAnswer::Found => {
                check_narrow(&search, &ended);
                prop_assert!(ended.found.lower <= Some(truth) && ended.found.upper > Some(truth));
            }
            LimitAnswer::AlwaysMissed => prop_assert!(truth < search.min),
            LimitAnswer::NotReached => prop_assert!(truth >= search.max),
            other => prop_assert!(false, "{other:?}: nothing was unclear"),
        }
        prop_assert!(ended.short <= 24 && ended.full <= 24, "{} short, {} full", ended.short, ended.full);
    }

    /// Any answers at all: the search ends, and its bounds are in order.
    #[test]
    fn a_search_ends_whatever_it_is_answered(
        is_rate: bool,
        seed: u64,
        width in 1u32..30,
    ) {
        let guess = if is_rate { ("open", "300/s") } else { ("closed", "30") };
        let search = search(&[guess, ("limit_width", &format!("{width}%"))]);
        let mut random = crate::random::Random::new(seed);
        let ended = carry_out(&search, &mut |_, _, _| match random.below(5) {
            0 | 1 => LoadClass::Meets,
            2 | 3 => LoadClass::Misses,
            _ => LoadClass::Unclear,
        });
        let Confirmed { lower, upper, unclear } = ended.found;
        prop_assert!(lower.zip(upper).is_none_or(|(lower, upper)| lower < upper));
        prop_assert!(unclear.iter().all(|load| lower.is_none_or(|lower| lower < *load)));
        prop_assert!(unclear.iter().all(|load| upper.is_none_or(|upper| *load < upper)));
    }
}

/// The levels of a resource: multiples of 64 MiB, or listed sizes.
fn search_of_levels(levels: &[u64]) -> Search {
    let sizes = levels.iter().map(|size| model::Level::Bytes(*size << 26)).collect();
    let mut experiment = crate::simulate::search_for(&[], &[]);
    experiment.goals = vec![model::Goal::parse("response.p95 <= 20ms", &[]).unwrap()];
    experiment.vary =
        vec![model::Variation { levels: sizes, ..crate::simulate::vary("host.memory", None, &[]) }];
    experiment.smallest = Some(experiment.vary[0].factor.clone());
    Search::of(&experiment).unwrap()
}

proptest! {
    /// The answer is the smallest level that is enough and its neighbour, whatever short trials show.
    #[test]
    fn the_smallest_level_is_found(
        levels in proptest::collection::btree_set(1u64..500, 2..60),
        truth in 1u64..500,
        shown in 0.3f64..3.0,
    ) {
        let levels: Vec<u64> = levels.into_iter().collect();
        let search = search_of_levels(&levels);
        let ended = carry_out(&search, &mut |position, is_full, _| {
            let level = search.axis.value(position) / f64::from(1 << 26);
            class(level >= truth as f64 * if is_full { 1.0 } else { shown })
        });
        let level = |position: Option<f64>| {
            position.map(|position| (search.axis.value(position) / f64::from(1 << 26)).round() as u64)
        };
        let smallest = levels.iter().copied().find(|level| *level >= truth);
        let below = levels.iter().copied().rfind(|level| *level < truth);
        prop_assert_eq!((level(ended.found.lower), level(ended.found.upper)), (smallest, below));
        let expected = match (smallest, below) {
            (Some(_), Some(_)) => LimitAnswer::Found,
            (Some(_), None) => LimitAnswer::NotReached,
            _ => LimitAnswer::AlwaysMissed,
        };
        prop_assert_eq!(ended.answer, expected);
        prop_assert!(ended.short <= 16 && ended.full <= 24, "{} short, {} full", ended.short, ended.full);
    }
}
