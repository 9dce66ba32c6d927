//! Least squares: linear regression with several variables, and curves with lower bounds on their parameters.

/// Limit of the iterations of a fit: hundreds of times the number for a well-posed curve.
const STEPS_MAX: usize = 500;

/// The result of a fit.
#[derive(Clone, Debug)]
pub(crate) struct Solution {
    /// The parameters.
    pub(crate) parameters: Vec<f64>,
    /// Their covariance, `s^2 (J'J)^-1`; a parameter at its bound is treated as free. None if some parameters
    /// cannot be distinguished.
    pub(super) covariance: Option<Vec<Vec<f64>>>,
    /// Sum of squared residuals.
    pub(super) residual_sum: f64,
    /// Number of values minus number of free parameters.
    pub(crate) degrees: usize,
}

impl Solution {
    /// The residual standard error; none without a degree of freedom.
    pub(super) fn residual_stderr(&self) -> Option<f64> {
        (self.degrees > 0).then(|| (self.residual_sum / self.degrees as f64).sqrt())
    }

    /// The standard error of the sum of the parameters weighted by `gradient`.
    pub(crate) fn stderr(&self, gradient: &[f64]) -> Option<f64> {
        let covariance = self.covariance.as_ref()?;
        let mut variance = 0.0;
        for (row, left) in covariance.iter().zip(gradient) {
            for (value, right) in row.iter().zip(gradient) {
                variance += left * value * right;
            }
        }
        (variance >= 0.0 && variance.is_finite()).then(|| variance.sqrt())
    }
}

/// The inverse of a symmetric matrix with a positive diagonal, by Gauss-Jordan elimination. The diagonal is
/// first scaled to one, so that parameters of very different size cause no problem. None if the matrix is
/// singular.
fn inverse(matrix: &[Vec<f64>]) -> Option<Vec<Vec<f64>>> {
    let n = matrix.len();
    let scale: Vec<f64> = (0..n).map(|i| matrix[i][i].sqrt()).collect();
    if scale.iter().any(|scale| !(*scale > 0.0 && scale.is_finite())) {
        return None;
    }
    // The matrix with the unit matrix on its right.
    let mut rows: Vec<Vec<f64>> = (0..n)
        .map(|i| {
            let left = (0..n).map(|j| matrix[i][j] / scale[i] / scale[j]);
            left.chain((0..n).map(|j| f64::from(u8::from(i == j)))).collect()
        })
        .collect();
    for column in 0..n {
        let pivot = (column..n).max_by(|a, b| rows[*a][column].abs().total_cmp(&rows[*b][column].abs()))?;
        rows.swap(column, pivot);
        let head = rows[column][column];
        if !(head.abs() > 1e-12) {
            return None;
        }
        rows[column].iter_mut().for_each(|value| *value /= head);
        let pivot_row = rows[column].clone();
        for (_, row) in rows.iter_mut().enumerate().filter(|(at, _)| *at != column) {
            let factor = row[column];
            row.iter_mut().zip(&pivot_row).for_each(|(value, pivot)| *value -= factor * pivot);
        }
    }
    Some((0..n).map(|i| (0..n).map(|j| rows[i][n + j] / scale[i] / scale[j]).collect()).collect())
}

/// `J'J` and `J'r` of a Jacobian (one row per value) and residuals.
fn normal_equations(jacobian: &[Vec<f64>], residuals: &[f64]) -> (Vec<Vec<f64>>, Vec<f64>) {
    let n = jacobian.first().map_or(0, Vec::len);
    let mut product = vec![vec![0.0; n]; n];
    let mut gradient = vec![0.0; n];
    for (row, residual) in jacobian.iter().zip(residuals) {
        for i in 0..n {
            gradient[i] += row[i] * residual;
            for j in 0..n {
                product[i][j] += row[i] * row[j];
            }
        }
    }
    (product, gradient)
}

fn times(matrix: &[Vec<f64>], vector: &[f64]) -> Vec<f64> {
    matrix.iter().map(|row| row.iter().zip(vector).map(|(a, b)| a * b).sum()).collect()
}

fn squares(values: &[f64]) -> f64 {
    values.iter().map(|value| value * value).sum()
}

fn covariance(jacobian: &[Vec<f64>], variance: f64) -> Option<Vec<Vec<f64>>> {
    let (product, _) = normal_equations(jacobian, &vec![0.0; jacobian.len()]);
    let mut inverse = inverse(&product)?;
    inverse.iter_mut().flatten().for_each(|value| *value *= variance);
    Some(inverse)
}

/// The linear combination of `rows` closest to `values`: one row of variables per value. None if there are
/// fewer values than variables, or the variables cannot be distinguished.
pub(crate) fn line(rows: &[Vec<f64>], values: &[f64]) -> Option<Solution> {
    let variables = rows.first()?.len();
    if rows.len() != values.len() || values.len() < variables {
        return None;
    }
    let (product, right) = normal_equations(rows, values);
    let parameters = times(&inverse(&product)?, &right);
    let fitted = times(rows, &parameters);
    let residuals: Vec<f64> = values.iter().zip(&fitted).map(|(value, fitted)| value - fitted).collect();
    let (residual_sum, degrees) = (squares(&residuals), values.len() - variables);
    let variance = if degrees > 0 { residual_sum / degrees as f64 } else { f64::NAN };
    let covariance = covariance(rows, variance);
    Some(Solution { parameters, covariance, residual_sum, degrees })
}

/// The parameters, each at least its lower bound, of the curve closest to `values`: the Levenberg-Marquardt
/// method with steps truncated at the bounds. `curve` returns its values and its Jacobian. None if there are
/// fewer values than parameters or the start is invalid.
///
/// Marquardt, Journal of the Society for Industrial and Applied Mathematics 11 (1963).
pub(super) fn curve(
    values: &[f64],
    start: &[f64],
    lower: &[f64],
    curve: impl Fn(&[f64]) -> (Vec<f64>, Vec<Vec<f64>>),
) -> Option<Solution> {
    if values.len() < start.len() {
        return None;
    }
    let look = |parameters: &[f64]| {
        let (fitted, jacobian) = curve(parameters);
        let residuals: Vec<f64> = values.iter().zip(&fitted).map(|(value, fitted)| value - fitted).collect();
        let sum = squares(&residuals);
        (residuals, jacobian, sum)
    };
    let mut parameters: Vec<f64> = start.iter().zip(lower).map(|(start, lower)| start.max(*lower)).collect();
    let (mut residuals, mut jacobian, mut sum) = look(&parameters);
    if !sum.is_finite() {
        return None;
    }
    let mut damping = 1e-3;
    for _ in 0..STEPS_MAX {
        let (product, gradient) = normal_equations(&jacobian, &residuals);
        let free: Vec<usize> = (0..parameters.len())
            .filter(|&i| product[i][i] > 0.0 && (parameters[i] > lower[i] || gradient[i] > 0.0))
            .collect();
        let damped: Vec<Vec<f64>> = free
            .iter()
            .map(|&i| {
                let weight = |j: usize| if i == j { 1.0 + damping } else { 1.0 };
                free.iter().map(|&j| product[i][j] * weight(j)).collect()
            })
            .collect();
        let right: Vec<f64> = free.iter().map(|&i| gradient[i]).collect();
        let mut tried = parameters.clone();
        if let Some(inverse) = inverse(&damped) {
            for (&i, step) in free.iter().zip(times(&inverse, &right)) {
                tried[i] = (parameters[i] + step).max(lower[i]);
            }
        }
        let moved = tried
            .iter()
            .zip(&parameters)
            .any(|(new, old)| (new - old).abs() > 1e-11 * (new.abs() + old.abs()));
        let (new_residuals, new_jacobian, new_sum) = look(&tried);
        let mut settled = !moved;
        if new_sum.is_finite() && new_sum <= sum {
            settled |= sum - new_sum <= 1e-13 * sum;
            (parameters, residuals, jacobian, sum) = (tried, new_residuals, new_jacobian, new_sum);
            damping = (damping * 0.1).max(1e-12);
        } else {
            damping *= 10.0;
        }
        if settled || damping > 1e12 {
            break;
        }
    }
    let bound = parameters.iter().zip(lower).filter(|(value, lower)| value <= lower).count();
    let degrees = values.len() - (start.len() - bound);
    let variance = if degrees > 0 { sum / degrees as f64 } else { f64::NAN };
    let covariance = covariance(&jacobian, variance);
    Some(Solution { parameters, covariance, residual_sum: sum, degrees })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_worked_by_hand() {
        // y = 1 + 2x with residuals +0.1, -0.2, +0.1: the line through (0, 1.1), (1, 2.8), (2, 5.1).
        let rows: Vec<Vec<f64>> = (0..3).map(|x| vec![1.0, f64::from(x)]).collect();
        let fit = line(&rows, &[1.1, 2.8, 5.1]).unwrap();
        assert!((fit.parameters[0] - 1.0).abs() < 1e-12 && (fit.parameters[1] - 2.0).abs() < 1e-12);
        // Residual variance 0.06 / 1; the slope's variance is that over sum (x - mean)^2 = 2.
        assert!((fit.stderr(&[0.0, 1.0]).unwrap() - 0.03_f64.sqrt()).abs() < 1e-12);
        assert!(line(&[vec![1.0, 1.0], vec![1.0, 1.0]], &[1.0, 2.0]).is_none());
        assert!(line(&[], &[]).is_none());
    }

    #[test]
    fn an_exponential_is_found_and_a_bound_is_kept() {
        let x: Vec<f64> = (0..8).map(f64::from).collect();
        let model = |parameters: &[f64]| {
            let term = |x: f64| (-parameters[1] * x).exp();
            let values = x.iter().map(|&x| parameters[0] * term(x)).collect();
            let jacobian = x.iter().map(|&x| vec![term(x), -parameters[0] * x * term(x)]).collect();
            (values, jacobian)
        };
        let falling: Vec<f64> = x.iter().map(|x| 5.0 * (-0.3 * x).exp()).collect();
        let fit = curve(&falling, &[1.0, 0.0], &[0.0, 0.0], model).unwrap();
        assert!((fit.parameters[0] - 5.0).abs() < 1e-9 && (fit.parameters[1] - 0.3).abs() < 1e-9);
        // An increasing series would need a negative rate: the bound is active, and the best constant is the
        // mean.
        let rising: Vec<f64> = x.iter().map(|x| 1.0 + x).collect();
        let fit = curve(&rising, &[1.0, 0.2], &[0.0, 0.0], model).unwrap();
        assert!((fit.parameters[0] - 4.5).abs() < 1e-9 && fit.parameters[1] == 0.0, "{fit:?}");
        assert_eq!(fit.degrees, 7);
    }
}
