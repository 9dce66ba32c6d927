//! The resources that a load requires: from a sweep with the use of each resource to amounts, headroom and
//! what-if answers.
//!
//! The basis is the utilization law. A regression of the use of a resource on throughput gives the demand of
//! an operation; the amount divided by the demand is the capacity of the resource. The smallest capacity is
//! that of the system, unless an unmeasured resource is the limit. In this case throughput is flat while
//! every measured resource is idle.

mod copy;
mod import;
mod mix;
mod record;

pub use copy::copy_time;
pub use import::import_time;
pub use mix::mix_price;
pub use record::sizing;

use model::{Estimate, HostResource};

pub use crate::law::PLANNED_UTILIZATION;
use crate::law::knee::{self, LoadLimit};
use crate::law::mva::{Network, Station, solve};
use crate::law::operational::{DemandFit, fit_demand};
use crate::law::predict::{self, EXTRAPOLATED, FARTHEST, Predictor, Refusal};
use crate::law::scalability::Growth;
use crate::law::{Point, mva};
use crate::statistics::{CONFIDENCE, median, t_interval};
use crate::words;

/// Share of a resource's capacity that throughput must reach if this resource is the limit.
const EXPLAINS: f64 = 0.85;
/// How much a fitted demand may differ at a larger load, beyond the error of the fit: one standard deviation
/// of its logarithm per unit of the logarithm of the distance, and at least. From services with a known
/// limit: at 1.5 times the last load, their requests needed up to 4 % less CPU time, and the same of a disk.
const DEMAND_ERROR_PER_DISTANCE: f64 = 0.05;
const DEMAND_ERROR_LEAST: f64 = 0.01;
/// Limit of the leave-one-out error above which a demand is reported to depend on the load.
const DEMAND_ERROR: f64 = 0.2;

/// How a resource can be increased.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scale {
    /// By parallel servers: CPUs, threads, connections. Its use is in busy servers.
    Servers,
    /// By speed: operations or bytes per second. Its use is in these units.
    Speed,
}

/// A resource of the system.
#[derive(Clone, Debug, PartialEq)]
pub struct Resource {
    /// `CPU`, `disk vda`.
    pub name: String,
    /// The host resource; none if no factor changes it, for example for threads.
    pub of_host: Option<HostResource>,
    /// Its unit: `CPUs`, `IOPS`, `bytes/s`.
    pub unit: String,
    /// The available amount.
    pub amount: f64,
    /// How it can be increased.
    pub scale: Scale,
}

/// One measured level of load.
#[derive(Clone, Debug, PartialEq)]
pub struct Level {
    /// Users, or operations in flight; for an open load the mean number in flight, which is throughput times
    /// response time.
    pub concurrency: f64,
    /// Operations per second.
    pub throughput_per_s: f64,
    /// The response time of the goal, ms, with its interval; none without such a goal.
    pub response_ms: Option<Estimate>,
    /// Use of each resource, in the unit of its amount, in the order of the resources; NaN if unknown.
    pub uses: Vec<f64>,
}

/// The required load.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Need {
    /// Operations per second.
    pub throughput_per_s: f64,
    /// The response time of the goal, ms.
    pub response_ms: Option<f64>,
}

/// The requirement for one resource.
#[derive(Clone, Debug, PartialEq)]
pub struct Amount {
    /// The index of the resource.
    pub resource: usize,
    /// Demand of an operation, and use without load.
    pub demand: DemandFit,
    /// The throughput at which it is saturated, with the interval of the demand.
    pub carries_per_s: Estimate,
    /// Its capacity without other uses.
    pub all_per_s: f64,
    /// The amount required at [`PLANNED_UTILIZATION`].
    pub needed: Estimate,
}

/// The effect of doubling one resource.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct WhatIf {
    /// The index of the resource.
    pub resource: usize,
    /// The maximum capacity of the system divided by the present one: 1 if the resource is not the limit.
    pub capacity_ratio: f64,
    /// Throughput at the largest measured concurrency divided by the present one, by mean value analysis;
    /// none if it does not describe the sweep.
    pub throughput_ratio: Option<f64>,
}

/// The limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    /// This resource, by index.
    Resource(usize),
    /// An unmeasured resource: throughput is flat while no measured resource is saturated. It is the service
    /// itself, or something it waits for.
    NotMeasured,
    /// No limit yet: throughput still grows. Contains the resource that would be saturated first.
    NotReached(Option<usize>),
}

/// A prediction of the last measured level from the lower ones.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct HeldOut {
    /// The level.
    pub concurrency: f64,
    /// The prediction from the other levels.
    pub predicted_per_s: Estimate,
    /// The measurement.
    pub measured_per_s: f64,
}

/// The answer.
#[derive(Clone, Debug, PartialEq)]
pub struct Sizing {
    /// The limit of the present system.
    pub limit: Limit,
    /// The capacity of the present system. `high` is infinite if no limit was seen.
    pub carries_per_s: Estimate,
    /// The capacity divided by the requirement, minus 1: 0.2 means 20 % headroom.
    pub headroom: Estimate,
    /// Whether the answer is beyond the measured range, according to [`EXTRAPOLATED`].
    pub extrapolated: bool,
    /// The largest load at which the response goal is met; none without such a goal.
    pub response_limit: Option<LoadLimit>,
    /// Each resource with a known demand, the scarcest first.
    pub amounts: Vec<Amount>,
    /// The effect of doubling each of them.
    pub what_if: Vec<WhatIf>,
    /// The cross-validation on the last level; none if the sweep is too short.
    pub held_out: Option<HeldOut>,
    /// Assumptions.
    pub assumptions: Vec<String>,
    /// Warnings that limit the answer.
    pub warnings: Vec<String>,
}

impl Resource {
    /// The resource as a station: `times` units of use per second and operation.
    fn station(&self, demand: f64, times: f64) -> Station {
        let whole = (self.amount * times).round();
        match self.scale {
            Scale::Servers if self.amount.fract() == 0.0 && (1.0..=1024.0).contains(&whole) => {
                Station { demand_s: demand, servers: whole as u32 }
            }
            _ => Station { demand_s: demand / (self.amount * times), servers: 1 },
        }
    }
}

/// Sizes a system. `also` are trials that are not load levels but still show the demand of an operation:
/// those of a proof, and those with a reduced or increased resource.
///
/// # Errors
/// When the sweep has too few levels or follows no law, the required load was not completed, and no demand is
/// known. Also when the requirement is more than [`FARTHEST`] times the largest measured throughput: the
/// refusal then has the largest supported one.
pub fn size(resources: &[Resource], levels: &[Level], also: &[Level], need: Need) -> Result<Sizing, Refusal> {
    let points: Vec<Point> = levels
        .iter()
        .map(|level| Point { concurrency: level.concurrency, throughput_per_s: level.throughput_per_s })
        .collect();
    let highest = crate::law::checked(&points).iter().map(|point| point.throughput_per_s).fold(0.0, f64::max);
    let mut amounts: Vec<Amount> = (0..resources.len())
        .filter_map(|at| amount(at, &resources[at], (levels, also), need.throughput_per_s, highest))
        .collect();
    amounts.sort_by(|a, b| a.carries_per_s.value.total_cmp(&b.carries_per_s.value));
    let stations = |doubled: Option<usize>| -> Vec<Station> {
        let station = |amount: &Amount| {
            let times = if doubled == Some(amount.resource) { 2.0 } else { 1.0 };
            resources[amount.resource].station(amount.demand.demands[0].value.max(0.0), times)
        };
        amounts.iter().map(station).collect()
    };
    let predictor = Predictor::new(&points, (!amounts.is_empty()).then(|| stations(None)).as_deref());
    if let Err(refusal) = &predictor
        && highest < need.throughput_per_s
        && amounts.is_empty()
    {
        return Err(refusal.clone());
    }
    let reached = also.iter().map(|level| level.throughput_per_s).fold(highest, f64::max);
    if !(need.throughput_per_s > 0.0 && need.throughput_per_s <= FARTHEST * reached) {
        return Err(Refusal::TooFar(FARTHEST * reached));
    }
    let mut warnings = Vec::new();
    let first = amounts.first().map(|amount| (amount.resource, amount.carries_per_s));
    // Without a law, the measured throughput and the demands are still known.
    let (predictor, growth) = match predictor {
        Ok(predictor) => {
            let growth = predictor.growth();
            (Some(predictor), growth)
        }
        Err(refusal) => {
            warnings.push(match refusal {
                Refusal::TooFewLevels(_) => {
                    "few loads were measured: how throughput grows with the load is not known".to_string()
                }
                _ => "no law describes how throughput follows the load: the answer rests on what was carried and on \
                      what an operation takes of each resource"
                    .to_string(),
            });
            let explained = first.is_some_and(|(_, carries)| highest >= EXPLAINS * carries.value);
            (None, if explained { Growth::Saturated } else { Growth::Linear })
        }
    };
    let (limit, mut carries_per_s) = match (growth, first) {
        // The throughput at the end is the capacity; the resource explains it or not.
        (Growth::Saturated, Some((resource, carries))) if highest >= EXPLAINS * carries.value => {
            let value = highest.max(carries.value.min(1.02 * highest));
            (
                Limit::Resource(resource),
                Estimate { value, low: highest.min(carries.low), high: carries.high.max(value) },
            )
        }
        (Growth::Saturated, first) => {
            let why = match (first, resources.is_empty()) {
                (Some(_), _) => {
                    "throughput is flat while no measured resource is used up: the service itself limits, or what it \
                     waits for, and more of a measured resource will not help"
                }
                (None, false) => {
                    "the use of no resource follows the load, so what an operation takes of it is not known: measure \
                     smaller loads, at which nothing queues"
                }
                (None, true) => {
                    "the use of no resource was recorded: what limits, and what more of it would give, cannot be said"
                }
            };
            warnings.push(why.to_string());
            (Limit::NotMeasured, Estimate { value: highest, low: 0.97 * highest, high: 1.05 * highest })
        }
        (_, Some((resource, carries))) if carries.value <= FARTHEST * highest => {
            warnings.push(
                "no limit was reached: something that was not measured may limit before the resource does"
                    .to_string(),
            );
            // A measured throughput is possible, whatever the demands predict.
            let reached = |value: f64| value.max(highest);
            let Estimate { value, low, high } = carries;
            let carries = Estimate { value: reached(value), low: reached(low), high: reached(high) };
            (Limit::NotReached(Some(resource)), carries)
        }
        (_, first) => {
            warnings.push(format!(
                "no limit was reached and none is near: it carries at least {}, how much more is not known",
                words::per_s(highest)
            ));
            let resource = first.map(|(resource, _)| resource);
            (Limit::NotReached(resource), Estimate { value: highest, low: highest, high: f64::INFINITY })
        }
    };
    let responses: Vec<(f64, Estimate)> =
        levels.iter().filter_map(|level| Some((level.concurrency, level.response_ms?))).collect();
    let response_limit = need.response_ms.and_then(|goal| knee::limit(&responses, goal));
    if let Some(found) = response_limit {
        // Throughput at the loads between which the goal is first missed.
        let at = |load: f64| match &predictor {
            Some(predictor) => predictor.throughput(load).ok().map(|found| found.throughput_per_s.value),
            // The level at which the goal was still met, or missed.
            None => {
                let nearest = points
                    .iter()
                    .min_by(|a, b| (a.concurrency - load).abs().total_cmp(&(b.concurrency - load).abs()));
                nearest.map(|point| point.throughput_per_s)
            }
        };
        let low = found.holds_at.and_then(at).unwrap_or(0.0);
        let high = found.missed_at.and_then(at).unwrap_or(f64::INFINITY);
        let value = found.load.and_then(at).unwrap_or(if found.holds_at.is_some() {
            carries_per_s.value
        } else {
            0.0
        });
        carries_per_s = Estimate {
            value: carries_per_s.value.min(value),
            low: carries_per_s.low.min(low),
            high: carries_per_s.high.min(high).max(carries_per_s.value.min(value)),
        };
    } else if need.response_ms.is_some() {
        warnings.push("the response time of the goal was not measured: only throughput is judged".into());
    }
    for amount in amounts.iter().filter(|amount| amount.demand.left_out_error > DEMAND_ERROR) {
        warnings.push(format!(
            "the demand of {} depends on the load: a level left out was missed by {}",
            resources[amount.resource].name,
            words::percent(amount.demand.left_out_error)
        ));
    }
    let extrapolated = need.throughput_per_s.max(carries_per_s.value) > EXTRAPOLATED * highest;
    if extrapolated {
        warnings.push(format!("extrapolated: the most that was measured is {}", words::per_s(highest)));
    }
    let Estimate { value, low, high } = carries_per_s;
    let value = value.max(0.0);
    let carries_per_s = Estimate { value, low: low.clamp(0.0, value), high: high.max(value) };
    let what_if = what_if(&amounts, limit, &stations, predictor.as_ref(), highest);
    let room = |carries: f64| carries / need.throughput_per_s - 1.0;
    Ok(Sizing {
        limit,
        carries_per_s,
        headroom: Estimate {
            value: room(carries_per_s.value),
            low: room(carries_per_s.low),
            high: room(carries_per_s.high),
        },
        extrapolated,
        response_limit,
        what_if,
        held_out: held_out(&points),
        assumptions: assumptions(),
        warnings,
        amounts,
    })
}

fn assumptions() -> Vec<String> {
    [
        "the mix of operations, their data and what is cached stay as they were measured".to_string(),
        "what an operation demands does not depend on the load, and new resources are as fast as today's"
            .to_string(),
        format!("a plan uses at most {} of a resource", words::percent(PLANNED_UTILIZATION)),
    ]
    .into()
}

/// An estimate under the assumption that a demand remains constant up to `distance` times the highest
/// measured throughput.
fn carried_on(estimate: Estimate, distance: f64) -> Estimate {
    let per_distance = DEMAND_ERROR_PER_DISTANCE * distance.max(1.0).ln();
    let model = predict::reach(per_distance.hypot(DEMAND_ERROR_LEAST));
    let Estimate { value, low, high } = estimate;
    let factor = |ratio: f64| ratio.ln().hypot(model).exp();
    Estimate { value, low: value / factor(value / low), high: value * factor(high / value) }
}

/// The demand for one resource; none if its use does not follow the load.
fn amount(
    at: usize,
    resource: &Resource,
    (levels, also): (&[Level], &[Level]),
    needed_per_s: f64,
    highest_per_s: f64,
) -> Option<Amount> {
    let used = |of: &[&[Level]]| -> Vec<(f64, f64)> {
        let used = of.iter().flat_map(|of| of.iter());
        let used = used.filter_map(|level| Some((level.throughput_per_s, *level.uses.get(at)?)));
        used.filter(|(rate, used)| *rate > 0.0 && used.is_finite()).collect()
    };
    let is_known = |fit: &DemandFit| fit.demands.first().is_some_and(|each| each.low > 0.0);
    let fitted = |used: &[(f64, f64)]| {
        let rates: Vec<Vec<f64>> = used.iter().map(|(rate, _)| vec![*rate]).collect();
        let uses: Vec<f64> = used.iter().map(|(_, used)| *used).collect();
        fit_demand(&rates, &uses).filter(is_known)
    };
    // If all loads saturate the resource, its use does not follow the throughput. Trials with a changed
    // amount show the demand; otherwise the utilization law gives it, including the use by others.
    let all = used(&[levels, also]);
    let demand = fitted(&used(&[levels])).or_else(|| fitted(&all)).or_else(|| by_ratio(&all))?;
    let per_operation = *demand.demands.first()?;
    if !(resource.amount > 0.0) {
        return None;
    }
    let background = demand.background.value.max(0.0);
    if background >= resource.amount {
        // Saturated without any load: the demand of an operation is unknown.
        return None;
    }
    let carries = |each: f64| (resource.amount - background) / each;
    let needed = |each: f64| (each * needed_per_s + background) / PLANNED_UTILIZATION;
    let Estimate { value, low, high } = per_operation;
    let carries = Estimate { value: carries(value), low: carries(high), high: carries(low) };
    let needed = Estimate { value: needed(value), low: needed(low), high: needed(high) };
    let amount = Amount {
        resource: at,
        carries_per_s: carried_on(carries, carries.value / highest_per_s),
        all_per_s: resource.amount / value,
        needed: carried_on(needed, needed_per_s / highest_per_s),
        demand,
    };
    let finite =
        |estimate: &Estimate| [estimate.value, estimate.low, estimate.high].iter().all(|end| end.is_finite());
    (value > 0.0 && finite(&amount.carries_per_s) && finite(&amount.needed)).then_some(amount)
}

/// The demand by the utilization law, D = U / X, if the trials agree on it; none otherwise, because the use
/// is then not caused by the operations.
fn by_ratio(used: &[(f64, f64)]) -> Option<DemandFit> {
    let each: Vec<f64> = used.iter().map(|(rate, used)| used / rate).filter(|each| *each > 0.0).collect();
    let value = median(&each)?;
    let spread = |end: f64| each.iter().copied().fold(value, if end > 0.0 { f64::max } else { f64::min });
    let (low, high) = (spread(-1.0), spread(1.0));
    let interval = t_interval(&each, CONFIDENCE).unwrap_or(Estimate { value, low, high });
    (high <= RATIOS_AGREE * low && interval.low > 0.0).then(|| DemandFit {
        demands: vec![Estimate { value, low: interval.low.min(value), high: interval.high.max(value) }],
        stderrs: vec![0.5 * (interval.high - interval.low)],
        background: Estimate::exact(0.0),
        background_stderr: 0.0,
        residual_stderr: 0.0,
        points: each.len(),
        left_out_error: high / low - 1.0,
    })
}

/// Limit of the ratio of the largest to the smallest use per operation, up to which trials agree on one
/// demand.
const RATIOS_AGREE: f64 = 1.5;

/// The effect of doubling each resource: the new smallest capacity divided by the old one, and the throughput
/// of the network of measured demands at the largest measured concurrency.
fn what_if(
    amounts: &[Amount],
    limit: Limit,
    stations: &dyn Fn(Option<usize>) -> Vec<Station>,
    predictor: Option<&Predictor>,
    highest_per_s: f64,
) -> Vec<WhatIf> {
    // An unmeasured resource is the limit at the measured throughput, whatever the capacities of the others.
    let other = if limit == Limit::NotMeasured { highest_per_s } else { f64::INFINITY };
    let capacity = |doubled: Option<usize>| {
        let carries = |amount: &Amount| {
            // The use without load does not grow with the amount.
            let more = if doubled == Some(amount.resource) { amount.all_per_s } else { 0.0 };
            amount.carries_per_s.value + more
        };
        amounts.iter().map(carries).fold(other, f64::min)
    };
    let users =
        predictor.and_then(|predictor| predictor.points().last()).map_or(1.0, |last| last.concurrency);
    let delay_s = predictor.and_then(Predictor::measured_delay_s).filter(|_| limit != Limit::NotMeasured);
    let most = if users <= f64::from(mva::USERS_MAX_SEVERAL) { users.round().max(1.0) as u32 } else { 0 };
    let throughput = |doubled: Option<usize>| {
        let network = Network { stations: stations(doubled), think_s: delay_s? };
        Some(solve(&network, most)?.last()?.throughput_per_s)
    };
    let now = throughput(None);
    let row = |amount: &Amount| WhatIf {
        resource: amount.resource,
        capacity_ratio: capacity(Some(amount.resource)) / capacity(None),
        throughput_ratio: throughput(Some(amount.resource)).zip(now).map(|(new, now)| new / now),
    };
    amounts.iter().map(row).collect()
}

fn held_out(points: &[Point]) -> Option<HeldOut> {
    let last = points.iter().max_by(|a, b| a.concurrency.total_cmp(&b.concurrency))?;
    let others: Vec<Point> =
        points.iter().copied().filter(|point| point.concurrency < last.concurrency).collect();
    let predicted = Predictor::new(&others, None).ok()?.throughput(last.concurrency).ok()?;
    Some(HeldOut {
        concurrency: last.concurrency,
        predicted_per_s: predicted.throughput_per_s,
        measured_per_s: last.throughput_per_s,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;
    use crate::statistics::median;

    fn resources() -> Vec<Resource> {
        let resource = |name: &str, unit: &str, amount, scale| Resource {
            name: name.into(),
            of_host: None,
            unit: unit.into(),
            amount,
            scale,
        };
        vec![resource("CPU", "CPUs", 2.0, Scale::Servers), resource("disk", "IOPS", 400.0, Scale::Speed)]
    }

    /// 2 CPUs with `cpu_s` per operation, a disk of 400 IOPS with `reads` per operation, 20 ms elsewhere, and
    /// optionally a pool of threads that are held for 40 ms.
    fn network(cpu_s: f64, reads: f64, pool: Option<u32>) -> Network {
        let mut stations =
            vec![Station { demand_s: cpu_s, servers: 2 }, Station { demand_s: reads / 400.0, servers: 1 }];
        stations.extend(pool.map(|servers| Station { demand_s: 0.04, servers }));
        Network { stations, think_s: 0.02 }
    }

    fn sweep(network: &Network, users: &[u32], noise: f64, random: &mut Random) -> Vec<Level> {
        let all = solve(network, *users.last().unwrap()).unwrap();
        let (cpu_s, reads) = (network.stations[0].demand_s, network.stations[1].demand_s * 400.0);
        let level = |users: &u32| {
            let found = &all[*users as usize - 1];
            let x = found.throughput_per_s;
            let mut noisy = |value: f64| value * (1.0 + noise * random.normal());
            Level {
                concurrency: f64::from(*users),
                throughput_per_s: noisy(x),
                response_ms: Some(Estimate::exact(found.response_s * 1e3)),
                uses: vec![noisy(0.05 + x * cpu_s), noisy(x * reads)],
            }
        };
        users.iter().map(level).collect()
    }

    fn need(throughput_per_s: f64) -> Need {
        Need { throughput_per_s, response_ms: None }
    }

    #[test]
    fn the_scarce_resource_is_named_and_sized() {
        // 25 ms of CPU: 2 CPUs carry (2 - 0.05) / 0.025 = 78/s; the disk carries 200/s at two reads per
        // operation.
        let mut random = Random::new(4);
        let levels = sweep(&network(0.025, 2.0, None), &[1, 2, 4, 8, 16, 32], 0.005, &mut random);
        let found = size(&resources(), &levels, &[], need(100.0)).unwrap();
        assert_eq!(found.limit, Limit::Resource(0), "{found:?}");
        assert!((found.carries_per_s.value / 78.0 - 1.0).abs() < 0.05, "{:?}", found.carries_per_s);
        assert!(found.headroom.value < -0.15 && found.headroom.value > -0.30);
        // 100/s times 25 ms plus the background use, at 70 %: 3.64 CPUs.
        let cpu = &found.amounts[0];
        assert!((cpu.needed.value - 3.64).abs() < 0.15 && cpu.needed.low < 3.64 && cpu.needed.high > 3.64);
        let twice: Vec<(usize, f64)> =
            found.what_if.iter().map(|row| (row.resource, row.capacity_ratio)).collect();
        assert!(twice[0].0 == 0 && (twice[0].1 - 3.95 / 1.95).abs() < 0.01 && twice[1].1 == 1.0, "{twice:?}");
        assert!(found.what_if[0].throughput_ratio.unwrap() > 1.7);
        let held_out = found.held_out.unwrap();
        assert!(held_out.predicted_per_s.low <= held_out.measured_per_s);
        assert!(found.extrapolated && found.warnings.iter().any(|text| text.contains("extrapolated")));
        assert_eq!(found.assumptions.len(), 3);
        assert!(matches!(size(&resources(), &levels, &[], need(1e3)), Err(Refusal::TooFar(_))));
        // Two levels are too few for a law, but sufficient for the demands.
        let few = size(&resources(), &levels[..2], &[], need(50.0)).unwrap();
        assert!(few.warnings[0].starts_with("few loads were measured"), "{:?}", few.warnings);
        assert!((few.carries_per_s.value / 78.0 - 1.0).abs() < 0.3, "{:?}", few.carries_per_s);
        let bare = levels[..2].iter().map(|level| Level { uses: vec![f64::NAN; 2], ..level.clone() });
        let bare: Vec<Level> = bare.collect();
        assert!(size(&resources(), &bare, &[], need(50.0)).is_err());
    }

    #[test]
    fn what_was_not_measured_is_not_blamed_on_a_resource() {
        // Four threads held for 40 ms: 100/s, with CPU and disk half idle.
        let mut random = Random::new(4);
        let levels = sweep(&network(0.005, 1.0, Some(4)), &[1, 2, 4, 8, 16, 32, 64], 0.005, &mut random);
        let found = size(&resources(), &levels, &[], need(100.0)).unwrap();
        assert_eq!(found.limit, Limit::NotMeasured, "{found:?}");
        assert!(found.what_if.iter().all(|row| row.capacity_ratio == 1.0 && row.throughput_ratio.is_none()));
        assert!((found.carries_per_s.value / 100.0 - 1.0).abs() < 0.03);
    }

    #[test]
    fn a_response_goal_lowers_what_is_carried() {
        let mut random = Random::new(4);
        let system = network(0.025, 2.0, None);
        let levels = sweep(&system, &[1, 2, 3, 4, 6, 8, 12, 16], 0.001, &mut random);
        let goal = |response_ms| Need { throughput_per_s: 60.0, response_ms: Some(response_ms) };
        let loose = size(&resources(), &levels, &[], goal(1e6)).unwrap();
        let tight = size(&resources(), &levels, &[], goal(50.0)).unwrap();
        assert!(tight.carries_per_s.value < 0.95 * loose.carries_per_s.value, "{tight:?}");
        let limit = tight.response_limit.unwrap();
        assert!(limit.holds_at.unwrap() < limit.missed_at.unwrap());
        assert!(loose.response_limit.unwrap().missed_at.is_none());
    }

    proptest::proptest! {
        #[test]
        fn whatever_was_recorded_nothing_fails_and_nothing_is_nan(
            levels in proptest::collection::vec(
                (proptest::num::f64::ANY, 0.5f64..50.0, proptest::num::f64::ANY, 0.0f64..2.0),
                0..9,
            ),
            wild in proptest::bool::ANY,
            rate in proptest::num::f64::ANY,
        ) {
            let levels: Vec<Level> = levels
                .into_iter()
                .enumerate()
                .map(|(at, (any, tame, other, used))| {
                    let users = (at + 1) as f64;
                    let lawful = 10.0 * users / (0.9 + 0.1 * users) * (1.0 + 0.001 * tame);
                    Level {
                        concurrency: if wild { any } else { users },
                        throughput_per_s: if wild { other } else { lawful },
                        response_ms: Some(Estimate::exact(any)),
                        uses: if wild { vec![used, other] } else { vec![used + lawful / 20.0, tame * users] },
                    }
                })
                .collect();
            for target in [rate, 15.0] {
                let need = Need { throughput_per_s: target, response_ms: wild.then_some(rate) };
                if let Ok(found) = size(&resources(), &levels, &[], need) {
                    let carries = found.carries_per_s;
                    proptest::prop_assert!(carries.value.is_finite() && !carries.low.is_nan());
                    proptest::prop_assert!(carries.low <= carries.value && carries.value <= carries.high, "{:?}", carries);
                    proptest::prop_assert!(found.what_if.iter().all(|row| row.capacity_ratio >= 1.0));
                }
            }
        }
    }

    #[test]
    fn capacity_is_predicted_from_loads_below_the_knee() {
        // Loads up to 0.7 of the knee; 60 systems limited by the CPU or the disk, with 1 % noise.
        let mut random = Random::new(9);
        let (mut errors, mut covered, mut factors, mut limits) = (Vec::new(), 0, 0, 0);
        const SYSTEMS: usize = 60;
        for _ in 0..SYSTEMS {
            let (cpu_s, reads) = (0.002 + 0.006 * random.unit(), 0.5 + 2.5 * random.unit());
            let mut system = network(cpu_s, reads, None);
            system.think_s = 0.05 + 0.1 * random.unit();
            // The use without load reduces the capacity of the CPU.
            let by_resource = [1.95 / cpu_s, 400.0 / reads];
            let truth = by_resource[0].min(by_resource[1]);
            let knee = truth * (system.think_s + cpu_s + reads / 400.0);
            let users: Vec<u32> =
                (1..=6).map(|step| (0.7 * knee * f64::from(step) / 6.0).round().max(1.0) as u32).collect();
            let levels = sweep(&system, &users, 0.01, &mut random);
            let Ok(found) = size(&resources(), &levels, &[], need(0.6 * truth)) else { continue };
            let carries = found.carries_per_s;
            errors.push((carries.value / truth - 1.0).abs());
            covered += usize::from(carries.low <= truth && truth <= carries.high);
            let scarce = usize::from(by_resource[1] < by_resource[0]);
            limits += usize::from(found.limit == Limit::NotReached(Some(scarce)));
            let true_factor = (2.0 * by_resource[scarce]).min(by_resource[1 - scarce]) / truth;
            let row = found.what_if.iter().find(|row| row.resource == scarce).unwrap();
            factors += usize::from((row.capacity_ratio / true_factor - 1.0).abs() <= 0.1);
        }
        errors.sort_by(f64::total_cmp);
        let ninety = errors[errors.len() * 9 / 10];
        println!("{} {:?} {ninety} {covered} {factors} {limits}", errors.len(), median(&errors));
        assert!(errors.len() >= SYSTEMS - 3);
        assert!(median(&errors).unwrap() <= 0.05 && ninety <= 0.15);
        assert!(covered * 10 >= errors.len() * 8, "{covered}");
        assert!(factors * 10 >= errors.len() * 9 && limits * 10 >= errors.len() * 9, "{factors} {limits}");
    }
}
