//! `response.hlog`: what is decoded is a histogram of nanoseconds as the product writes them, and can be added up. An input
//! that begins with a zero byte is one histogram without the compression and the text around it.

/// Checks a histogram, and adds it to a total. No function: the package of histograms is in few crates only.
macro_rules! check {
    ($histogram:expr, $total:expr) => {
        assert!($histogram.sigfig() <= 3 && $histogram.low() == 1);
        let counts = $histogram.iter_recorded().map(|step| step.count_at_value());
        assert_eq!(counts.fold(0_u64, u64::saturating_add), $histogram.len());
        for quantile in [0.0, 0.5, 0.99, 1.0] {
            $histogram.value_at_quantile(quantile);
        }
        let _ = $total.add($histogram);
    };
}

/// Reads an input; panics on a fault of the reader.
pub fn run(bytes: &[u8]) {
    let mut total = model::study::new_histogram();
    if let Some(payload) = bytes.strip_prefix(b"\0") {
        if let Some(histogram) = record::readers::histogram(payload) {
            check!(&histogram, total);
        }
        return;
    }
    record::readers::histogram_log(bytes, |_, histogram| {
        check!(histogram, total);
    });
}
