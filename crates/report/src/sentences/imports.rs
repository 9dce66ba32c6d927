//! What is said of imports.

use model::result::OperationResult;
use model::run::WorkloadTraits;

use crate::text::{Quantity, rate_word};

/// `50,002 entries in 2.29 s (21.8 k entries/s, 18.1 MB/s)`.
pub(super) fn amount(whole: &OperationResult, measured_s: f64, traits: &WorkloadTraits) -> String {
    let entries = Quantity::Count.show(whole.completed as f64);
    let mut rates = vec![Quantity::Rate(rate_word(traits)).show(whole.rate_per_s)];
    rates.extend((whole.bytes_per_s > 0.0).then(|| Quantity::BytesPerSecond.show(whole.bytes_per_s)));
    format!("{entries} entries in {} ({})", Quantity::Seconds.show(measured_s), rates.join(", "))
}
