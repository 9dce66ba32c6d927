//! Tests that predictions are as accurate as their intervals, on published sweeps and on simulated systems
//! with known throughput.

use plimsoll_analysis::law::Point;
use plimsoll_analysis::law::mva::{Network, Station, solve};
use plimsoll_analysis::law::predict::{FARTHEST, Predictor};
use plimsoll_analysis::law::scalability::Scalability;
use plimsoll_analysis::random::Random;
use plimsoll_analysis::statistics::median;

use crate::datasets::sweeps;

/// Predictions by their distance.
#[derive(Default)]
struct Score {
    errors: Vec<(f64, f64, bool, f64)>,
}

impl Score {
    fn add(&mut self, predictor: &Predictor, concurrency: f64, truth_per_s: f64) {
        let Ok(prediction) = predictor.throughput(concurrency) else { return };
        let found = prediction.throughput_per_s;
        let covered = found.low <= truth_per_s && truth_per_s <= found.high;
        let half_width = 0.5 * (found.high - found.low) / found.value;
        self.errors.push((prediction.distance, (found.value / truth_per_s - 1.0).abs(), covered, half_width));
    }

    /// The median error, the 90 % quantile of the error, the covered share and the number of predictions.
    fn between(&self, from: f64, to: f64) -> (f64, f64, f64, usize) {
        let chosen: Vec<_> = self.errors.iter().filter(|(d, ..)| *d > from && *d <= to).collect();
        let mut errors: Vec<f64> = chosen.iter().map(|(_, error, ..)| *error).collect();
        errors.sort_by(f64::total_cmp);
        let covered = chosen.iter().filter(|(_, _, covered, _)| *covered).count();
        let ninety = errors.get((errors.len() * 9 / 10).min(errors.len().saturating_sub(1)));
        let share = covered as f64 / chosen.len().max(1) as f64;
        (median(&errors).unwrap_or(0.0), ninety.copied().unwrap_or(0.0), share, chosen.len())
    }

    fn print(&self, name: &str) {
        for (from, to) in [(0.0, 1.0), (1.0, 1.25), (1.25, 1.5), (1.5, 2.0)] {
            let (half, ninety, covered, count) = self.between(from, to);
            let widths: Vec<f64> =
                self.errors.iter().filter(|(d, ..)| *d > from && *d <= to).map(|e| e.3).collect();
            println!(
                "{name:>12} {from:.2}..{to:.2}: {count:4} predictions, median error {:.1} %, 90th {:.1} %, \
                 covered {:.0} %, half-width {:.0} %",
                half * 100.0,
                ninety * 100.0,
                covered * 100.0,
                median(&widths).unwrap_or(0.0) * 100.0
            );
        }
    }
}

#[test]
fn published_sweeps_are_predicted_from_their_first_points() {
    let mut all = Score::default();
    for (name, points) in sweeps() {
        let mut score = Score::default();
        for kept in 4..points.len() {
            let Ok(predictor) = Predictor::new(&points[..kept], None) else { continue };
            for point in &points[kept..] {
                score.add(&predictor, point.concurrency, point.throughput_per_s);
            }
        }
        score.print(name);
        assert!(score.between(0.0, FARTHEST).2 >= 0.8, "{name}");
        all.errors.extend(score.errors);
    }
    let (median, ninety, covered, count) = all.between(0.0, FARTHEST);
    println!("{count} predictions: {median} {ninety} {covered}");
    assert!(count > 200 && covered >= 0.8 && median <= 0.06, "{count} {covered} {median}");
}

/// A system whose throughput is known at every load.
enum System {
    Queues(Vec<f64>),
    Law(Scalability),
}

impl System {
    /// Queues in series, a pool of threads, or a system with coherency cost.
    fn draw(random: &mut Random, users: u32) -> System {
        let think_s = 0.2 * random.unit();
        let kind = random.below(4);
        if kind == 3 {
            return System::Law(Scalability {
                contention: 0.005 + 0.1 * random.unit(),
                coherency: 0.002 * random.unit(),
                rate_at_one_per_s: 50.0,
            });
        }
        let count = 1 + random.below(4);
        let stations = (0..count)
            .map(|_| match kind {
                0 => Station { demand_s: 0.002 + 0.02 * random.unit(), servers: 1 },
                _ => {
                    let servers = 1 + random.below(8) as u32;
                    Station { demand_s: f64::from(servers) * (0.002 + 0.02 * random.unit()), servers }
                }
            })
            .collect();
        let solutions = solve(&Network { stations, think_s }, users).unwrap();
        System::Queues(solutions.into_iter().map(|solution| solution.throughput_per_s).collect())
    }

    fn throughput_per_s(&self, users: u32) -> f64 {
        match self {
            System::Queues(rates) => rates[users as usize - 1],
            System::Law(law) => law.throughput_per_s(f64::from(users)),
        }
    }
}

#[test]
fn simulated_systems_are_covered() {
    let mut random = Random::new(20);
    let (mut score, mut refused) = (Score::default(), 0);
    for system in 0..120 {
        let noise = 0.005 + 0.04 * random.unit();
        let system_at = System::draw(&mut random, 128);
        // Loads are doubled, or increased by half; measured up to a load before, at or after the bend.
        let levels: &[u32] = match system % 2 {
            0 => &[1, 2, 4, 8, 16, 32, 64],
            _ => &[1, 2, 3, 4, 6, 9, 13, 20, 30, 45, 64],
        };
        let kept = 4 + random.below(levels.len() - 3);
        let points: Vec<Point> = levels[..kept]
            .iter()
            .map(|users| Point {
                concurrency: f64::from(*users),
                throughput_per_s: system_at.throughput_per_s(*users) * (1.0 + noise * random.normal()),
            })
            .collect();
        let Ok(predictor) = Predictor::new(&points, None) else {
            refused += 1;
            continue;
        };
        let last = f64::from(levels[kept - 1]);
        for distance in [0.75, 1.15, 1.4, 1.6, 2.0] {
            let users = (last * distance).round();
            score.add(&predictor, users, system_at.throughput_per_s(users as u32));
        }
    }
    score.print("simulated");
    let (_, _, covered, count) = score.between(0.0, FARTHEST);
    println!("{count} predictions, {covered} covered, {refused} refused");
    assert!(refused < 12, "{refused} systems refused, all of which follow a law");
    for (from, to) in [(0.0, 1.0), (1.0, 1.25), (1.25, 1.5), (1.5, 2.0)] {
        assert!(score.between(from, to).2 >= 0.8, "{from} to {to}");
    }
    let near = score.between(1.0, 1.25);
    assert!(near.0 <= 0.05 && near.1 <= 0.15, "{near:?}");
}
