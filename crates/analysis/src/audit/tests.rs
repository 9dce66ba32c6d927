//! Any figures are judged without a panic, and those of a simulated queue without a finding.

use model::audit::Audit;
use model::figure::{Figure, Figures, Quantity};

use super::of_figures;

fn audit(results: &[Figures]) -> Audit {
    of_figures("test", results, &[])
}

/// A closed load with `users` users whose times are exponential, as a report prints it with so many decimals.
fn closed(users: f64, mean_s: f64, seconds: f64, decimals: usize) -> Figures {
    let rate = users / mean_s;
    // Percentiles of the exponential distribution: -mean ln(1 - p).
    let at = |percent: f64| -mean_s * (1.0 - percent / 100.0).ln() * 1e3;
    let ms = |value: f64| format!("{value:.decimals$} ms");
    let text = [
        (Quantity::InFlight, format!("{users}")),
        (Quantity::Rate, format!("{rate:.decimals$}/s")),
        (Quantity::Elapsed, format!("{seconds} s")),
        (Quantity::Count, format!("{:.0}", rate * seconds)),
        (Quantity::Mean, ms(mean_s * 1e3)),
        (Quantity::Min, ms(0.0)),
        (Quantity::Percentile(50.0), ms(at(50.0))),
        (Quantity::Percentile(90.0), ms(at(90.0))),
        (Quantity::Percentile(99.0), ms(at(99.0))),
        (Quantity::Max, ms(at(100.0 - 100.0 / (rate * seconds)))),
    ];
    let figures = text.iter().map(|(quantity, text)| Figure::parse(*quantity, text).unwrap());
    Figures { name: "closed".into(), figures: figures.collect(), ..Figures::default() }
}

proptest::proptest! {
    #[test]
    fn a_right_result_has_no_finding_whatever_its_digits(
        users in 1_u32..200, mean_ms in 0.5_f64..500.0, decimals in 1_usize..5,
    ) {
        let found = audit(&[closed(f64::from(users), mean_ms / 1e3, 2_000.0, decimals)]);
        proptest::prop_assert!(found.findings.is_empty(), "{:?}", found.findings);
    }

    /// Half or twice of a rate, a count, a mean or what is in flight does not fit the others.
    #[test]
    fn a_wrong_figure_is_found(users in 1_u32..200, mean_ms in 1.0_f64..500.0, which in 0_usize..4, up in proptest::bool::ANY) {
        let mut of = closed(f64::from(users), mean_ms / 1e3, 2_000.0, 3);
        let quantity = [Quantity::Rate, Quantity::Count, Quantity::Mean, Quantity::InFlight][which];
        let at = of.figures.iter().position(|figure| figure.quantity == quantity).unwrap();
        let factor = if up { 2.0 } else { 0.5 };
        of.figures[at] = Figure::measured(quantity, of.figures[at].value * factor, 1e-3);
        let found = audit(&[of]);
        proptest::prop_assert!(!found.findings.is_empty(), "{quantity} x {factor}");
    }

    #[test]
    fn any_figures_are_judged(values in proptest::collection::vec((0_usize..18, "[0-9]{1,6}(\\.[0-9]{1,3})?"), 0..12), base in proptest::bool::ANY) {
        let figures: Vec<Figure> = values
            .iter()
            .filter_map(|(at, digits)| {
                let quantity = Quantity::NAMED[*at].1;
                let unit = match quantity.dimension() {
                    model::figure::Dimension::Time => "ms",
                    model::figure::Dimension::Bytes => "MB",
                    model::figure::Dimension::Throughput => "MB/s",
                    _ => "",
                };
                Figure::parse(quantity, &format!("{digits} {unit}")).ok()
            })
            .collect();
        let one = Figures { name: "one".into(), figures: figures.clone(), histogram: figures.iter().map(|of| (of.value, of.clone())).collect(), ..Figures::default() };
        let other = Figures { name: "other".into(), base: base.then(|| "one".into()), figures, ..Figures::default() };
        let found = of_figures("test", &[one, other], &[]);
        proptest::prop_assert!(found.findings.iter().all(|found| !found.of.is_empty()));
    }
}
