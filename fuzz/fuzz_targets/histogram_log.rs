//! `response.hlog`: what is decoded is a histogram of nanoseconds as the product writes them, and can be added up. An input
//! that begins with a zero byte is one histogram without the compression and the text around it.
#![no_main]

use hdrhistogram::Histogram;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let mut total = model::study::new_histogram();
    if let Some(payload) = bytes.strip_prefix(b"\0") {
        if let Some(histogram) = record::readers::histogram(payload) {
            check(&histogram, &mut total);
        }
        return;
    }
    record::readers::histogram_log(bytes, |_, histogram| check(histogram, &mut total));
});

fn check(histogram: &Histogram<u64>, total: &mut Histogram<u64>) {
    assert!(histogram.sigfig() <= 3 && histogram.low() == 1);
    let counted: u64 = histogram.iter_recorded().fold(0, |sum, step| sum.saturating_add(step.count_at_value()));
    assert_eq!(counted, histogram.len());
    for quantile in [0.0, 0.5, 0.99, 1.0] {
        histogram.value_at_quantile(quantile);
    }
    let _ = total.add(histogram);
}
