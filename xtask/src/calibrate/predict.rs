//! What is predicted from a part of a record, beside what is planted.

use std::path::Path;

use serde_json::Value;

use super::planted::USERS;
use crate::program::json;

/// Loads from which capacity is predicted: up to this share of the knee.
const BELOW_KNEE: f64 = 0.7;

/// What `plimsoll size` predicts from the levels up to 0.7 of the knee: value, low, high.
pub(super) fn predict(
    program: &Path,
    folder: &Path,
    name: &str,
    capacity: f64,
    knee: f64,
) -> Result<Option<(f64, f64, f64)>, String> {
    let question = format!("{:.1}/s", capacity * 0.8);
    let arguments =
        ["size", name, "--for", &question, "--up-to", &format!("{:.2}", BELOW_KNEE * knee), "--json"];
    let answer = json(program, &arguments.map(str::to_string), folder)?;
    let carries = &answer["answer"]["carries_per_s"];
    let at_least = answer["answer"]["at_least"].as_bool().unwrap_or(true);
    let number = |key: &str| carries[key].as_f64();
    Ok(number("value")
        .zip(number("low"))
        .zip(number("high"))
        .map(|((value, low), high)| (value, low, high))
        .filter(|_| !at_least))
}

/// The highest throughput of the universal scalability law drawn through the levels up to 0.7 of the knee, as a spreadsheet
/// does it: `N / X` is a parabola in `N - 1`, by least squares. What somebody gets who never refuses.
pub(super) fn law_only(document: &Value, knee: f64) -> Option<f64> {
    let mut points: Vec<(f64, f64)> = Vec::new();
    for trial in document["trials"].as_array()? {
        let all = trial["operations"].as_array().and_then(|operations| operations.last());
        let number = |key: &str| all.and_then(|all| all[key].as_f64());
        let of_load = trial["treatment"]["label"].as_str().is_some_and(|label| label.contains("load.closed"));
        if let (Some(users), Some(rate), true) = (number("concurrency"), number("rate_per_s"), of_load)
            && users <= BELOW_KNEE * knee * 1.02
            && rate > 0.0
        {
            points.push((users - 1.0, users / rate));
        }
    }
    let [constant, linear, square] = parabola(&points)?;
    // g = 1 / constant, a - b = linear g, b = square g; negative costs are none.
    let coherency = (square / constant).max(0.0);
    let contention = (linear / constant - coherency).max(0.0);
    let throughput = |n: f64| n / (constant * (1.0 + contention * (n - 1.0) + coherency * n * (n - 1.0)));
    match () {
        () if coherency > 0.0 => Some(throughput(((1.0 - contention).max(0.0) / coherency).sqrt().max(1.0))),
        () if contention > 0.0 => Some(1.0 / (constant * contention)),
        () => Some(throughput(USERS as f64)),
    }
}

/// `y = c0 + c1 x + c2 x^2` by least squares; none with fewer than three different x.
fn parabola(points: &[(f64, f64)]) -> Option<[f64; 3]> {
    let sum = |value: &dyn Fn(f64, f64) -> f64| points.iter().map(|(x, y)| value(*x, *y)).sum::<f64>();
    let power = |exponent: i32| sum(&|x, _| x.powi(exponent));
    let matrix =
        [[power(0), power(1), power(2)], [power(1), power(2), power(3)], [power(2), power(3), power(4)]];
    let right = [sum(&|_, y| y), sum(&|x, y| x * y), sum(&|x, y| x * x * y)];
    let determinant = |m: &[[f64; 3]; 3]| {
        m[0][0] * (m[1][1] * m[2][2] - m[1][2] * m[2][1]) - m[0][1] * (m[1][0] * m[2][2] - m[1][2] * m[2][0])
            + m[0][2] * (m[1][0] * m[2][1] - m[1][1] * m[2][0])
    };
    let whole = determinant(&matrix);
    let mut solution = [0.0; 3];
    for (at, value) in solution.iter_mut().enumerate() {
        let mut replaced = matrix;
        for (row, right) in replaced.iter_mut().zip(right) {
            row[at] = right;
        }
        *value = determinant(&replaced) / whole;
    }
    solution.iter().all(|value| value.is_finite()).then_some(solution)
}

/// What twice of a resource is predicted to give, and what it gave, as ratios of throughput.
pub(super) fn what_if(
    program: &Path,
    folder: &Path,
    name: &str,
    document: &Value,
    resource: &str,
) -> Result<Option<(f64, f64)>, String> {
    let arguments = ["size", name, "--for", "1/s", "--json"].map(str::to_string);
    let answer = json(program, &arguments, folder)?;
    let rows = answer["answer"]["resources"].as_array();
    let row = rows.into_iter().flatten().find(|row| row["resource"] == resource);
    let gave = document["comparison"].as_array().into_iter().flatten().find(|row| {
        row["metric"] == "rate_per_s"
            && row["configuration"].as_str().is_some_and(|label| label.starts_with("host."))
    });
    Ok(row.and_then(|row| row["twice_gives"].as_f64()).zip(gave.and_then(|row| row["ratio"].as_f64())))
}
