use proptest::prelude::*;

use super::{KIND, at_most_one, totals};
use crate::fixture::Host;

#[test]
fn shares_come_from_the_totals_and_not_from_the_averages() {
    let host = Host::copy_of("metal");
    let mut pressure = host.open(&KIND, &[]);
    pressure.read();
    assert_eq!(pressure.present(), "", "no window yet");
    host.replace("proc/pressure/cpu", "total=2000000", "total=2500000");
    host.replace("proc/pressure/io", "total=2000000", "total=4100000");
    pressure.read_after(2 * model::SECOND);
    insta::assert_snapshot!(pressure.present(), @r"
    pressure.cpu_some_share 0.25
    pressure.cpu_full_share 0
    pressure.memory_some_share 0
    pressure.memory_full_share 0
    pressure.io_some_share 1
    pressure.io_full_share 0
    ");
}

#[test]
fn a_kernel_without_it_is_distinguished_from_one_without_pressure() {
    let why = Host::copy_of("no-psi").try_open(&KIND, &[]).err().unwrap();
    assert!(why.0.contains("psi=1"), "{why}");
    let host = Host::copy_of("metal");
    // Before Linux 5.13 the processors had no second line.
    host.write("proc/pressure/cpu", "some avg10=0.00 avg60=0.00 avg300=0.00 total=5\n");
    let mut pressure = host.open(&KIND, &[]);
    pressure.read();
    pressure.read();
    assert_eq!(pressure.get("pressure.cpu_some_share", ""), Some(0.0));
    assert_eq!(pressure.get("pressure.cpu_full_share", ""), None);
}

proptest! {
    #[test]
    fn any_bytes_are_parsed_without_panic(text: Vec<u8>) {
        let _ = totals(&text);
    }

    #[test]
    fn shares_stay_within_one(share in 0.0..1e9_f64) {
        prop_assert!(at_most_one(share) <= 1.0);
        prop_assert!(at_most_one(f64::NAN * share).is_nan());
    }
}
