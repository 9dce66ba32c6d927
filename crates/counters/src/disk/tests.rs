use proptest::prelude::*;

use super::KIND;
use crate::fixture::Host;

fn line(name: &str, statistics: [u64; 17]) -> String {
    format!(" 254       0 {name} {}\n", statistics.map(|value| value.to_string()).join(" "))
}

#[test]
fn rates_times_and_queues_come_out_as_planted() {
    let host = Host::copy_of("vm");
    host.write(
        "proc/diskstats",
        line("vda", [1000, 5, 8000, 500, 2000, 7, 16000, 4000, 0, 900, 4500, 0, 0, 0, 0, 10, 30]),
    );
    let mut disk = host.open(&KIND, &[]);
    disk.read();
    assert_eq!(disk.present(), "disk.in_flight_operations{vda} 0\n");
    // In two seconds: 200 reads of 8 sectors in 2 ms each, 100 writes of 16 sectors in 10 ms each, 4 flushes of 5 ms.
    host.write(
        "proc/diskstats",
        line("vda", [1200, 15, 9600, 900, 2100, 9, 17600, 5000, 3, 2400, 5920, 0, 0, 0, 0, 14, 50]),
    );
    disk.read_after(2 * model::SECOND);
    insta::assert_snapshot!(disk.present(), @r"
    disk.in_flight_operations{vda} 3
    disk.reads_per_s{vda} 100
    disk.writes_per_s{vda} 50
    disk.transfers_per_s{vda} 150
    disk.read_bytes_per_s{vda} 409600
    disk.write_bytes_per_s{vda} 409600
    disk.read_s{vda} 0.002
    disk.write_s{vda} 0.01
    disk.transfer_s{vda} 0.004666667
    disk.flushes_per_s{vda} 2
    disk.flush_s{vda} 0.005
    disk.queue_length{vda} 0.71
    disk.utilization_share{vda} 0.75
    disk.read_merges_per_s{vda} 5
    disk.write_merges_per_s{vda} 1
    ");
}

#[test]
fn whole_devices_are_shown_and_partitions_only_without_their_disk() {
    let host = Host::copy_of("metal");
    let mut disk = host.open(&KIND, &[]);
    disk.read();
    let instances = disk.instances("disk.in_flight_operations");
    assert_eq!(instances.len(), 1 + 24 + 1 + 2 + 1, "{instances:?}");
    assert_eq!(instances[0], "nvme0n1");
    assert_eq!(instances[25..], ["md127", "dm-0", "dm-1", "mmcblk0boot0"]);

    let host = Host::copy_of("no-psi");
    let mut disk = host.open(&KIND, &[]);
    disk.read();
    assert_eq!(disk.instances("disk.in_flight_operations"), ["sda", "xvda1"]);
}

#[test]
fn a_device_that_did_nothing_yet_appears_with_its_first_operation() {
    let host = Host::copy_of("vm");
    let mut disk = host.open(&KIND, &[]);
    disk.read();
    assert_eq!(disk.instances("disk.in_flight_operations"), ["vda"]);
    host.replace("proc/diskstats", "loop0 0 ", "loop0 10 ");
    disk.read();
    assert_eq!(disk.get("disk.reads_per_s", "loop0"), Some(10.0));
}

#[test]
fn a_device_that_vanishes_is_absent_and_starts_anew_when_it_is_back() {
    let host = Host::copy_of("metal");
    let whole = host.text("proc/diskstats");
    let mut disk = host.open(&KIND, &[]);
    disk.read();
    disk.read();
    assert_eq!(disk.get("disk.reads_per_s", "sdc"), Some(0.0));
    let without: String =
        whole.lines().filter(|line| !line.contains(" sdc")).map(|line| format!("{line}\n")).collect();
    host.write("proc/diskstats", &without);
    disk.read();
    assert_eq!(disk.get("disk.reads_per_s", "sdc"), None);
    assert_eq!(disk.get("disk.reads_per_s", "sdd"), Some(0.0));
    host.write("proc/diskstats", whole.replace("sdc 100000", "sdc 7"));
    disk.read();
    assert_eq!(disk.get("disk.reads_per_s", "sdc"), None);
    host.write("proc/diskstats", whole.replace("sdc 100000", "sdc 12"));
    disk.read();
    assert_eq!(disk.get("disk.reads_per_s", "sdc"), Some(5.0));
}

#[test]
fn kernels_that_do_not_count_flushes_show_none() {
    let host = Host::copy_of("no-psi");
    let mut disk = host.open(&KIND, &[]);
    disk.read();
    host.replace("proc/diskstats", "sda 50000", "sda 50010");
    disk.read();
    assert_eq!(disk.get("disk.reads_per_s", "sda"), Some(10.0));
    assert_eq!(disk.get("disk.flushes_per_s", "sda"), None);
    assert_eq!(disk.get("disk.write_s", "sda"), None, "no writes in the window");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Whatever the counters do, no value is negative and no share above one.
    #[test]
    fn values_stay_in_their_range(samples in proptest::collection::vec(proptest::array::uniform17(0_u64..1 << 40), 2..6)) {
        let host = Host::copy_of("no-psi");
        let mut disk = host.open(&KIND, &[]);
        for statistics in samples {
            host.write("proc/diskstats", line("vda", statistics));
            disk.read();
            for (column, &value) in disk.readings.columns().iter().zip(disk.readings.values()) {
                prop_assert!(value.is_nan() || value >= 0.0, "{} {value}", column.title());
            }
            prop_assert!(disk.get("disk.utilization_share", "vda").unwrap_or(0.0) <= 1.0);
        }
    }
}
