//! `response.hlog`: what is decoded is a histogram of nanoseconds as the product writes them, and can be added up.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let mut total = model::study::new_histogram();
    record::readers::histogram_log(bytes, |_, histogram| {
        assert!(histogram.sigfig() <= 3 && histogram.low() == 1);
        let counted: u64 = histogram.iter_recorded().fold(0, |sum, step| sum.saturating_add(step.count_at_value()));
        assert_eq!(counted, histogram.len());
        for quantile in [0.0, 0.5, 0.99, 1.0] {
            assert!(histogram.value_at_quantile(quantile) <= histogram.max().max(1) || histogram.is_empty());
        }
        let _ = total.add(histogram);
    });
});
