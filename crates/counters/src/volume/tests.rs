use engine::source::HostRoot;

use super::{KIND, disk_below};
use crate::fixture::Host;

#[test]
fn partitions_and_mapped_volumes_are_shown_and_whole_disks_are_not() {
    let host = Host::copy_of("metal");
    let mut volume = host.open(&KIND, &[]);
    volume.read();
    let instances = volume.instances("volume.in_flight_operations");
    assert_eq!(instances[..3], ["nvme0n1p1", "nvme0n1p2", "sda1"]);
    // The name of dm-1 is not known on this host.
    assert_eq!(instances[instances.len() - 3..], ["md127p1", "vg-root", "dm-1"]);
    assert_eq!(instances.len(), 2 + 24 + 1 + 2, "{instances:?}");

    let host = Host::copy_of("no-psi");
    let mut volume = host.open(&KIND, &[]);
    volume.read();
    assert_eq!(volume.instances("volume.in_flight_operations"), ["sda1"], "xvda1 has no disk");
}

#[test]
fn rates_times_and_queues_of_a_volume() {
    let host = Host::copy_of("metal");
    let mut volume = host.open(&KIND, &[]);
    volume.read();
    // In one second: 50 reads of 8 sectors in 2 ms each, 10 writes in 5 ms each.
    host.replace(
        "proc/diskstats",
        "dm-0 100000 500 8000000 20000 200000 900 16000000 100000 4 90000 121500",
        "dm-0 100050 500 8000400 20100 200010 900 16000160 100050 1 90120 121650",
    );
    volume.read();
    let shown: Vec<_> =
        volume.present().lines().filter(|line| line.contains("{vg-root}")).map(String::from).collect();
    insta::assert_snapshot!(shown.join("\n"), @r"
    volume.in_flight_operations{vg-root} 1
    volume.reads_per_s{vg-root} 50
    volume.writes_per_s{vg-root} 10
    volume.transfers_per_s{vg-root} 60
    volume.read_bytes_per_s{vg-root} 204800
    volume.write_bytes_per_s{vg-root} 81920
    volume.read_s{vg-root} 0.002
    volume.write_s{vg-root} 0.005
    volume.transfer_s{vg-root} 0.0025
    volume.queue_length{vg-root} 0.15
    volume.utilization_share{vg-root} 0.12
    ");
}

#[test]
fn a_volume_that_gets_the_number_of_another_one_is_not_taken_for_it() {
    let host = Host::copy_of("metal");
    let mut volume = host.open(&KIND, &[]);
    volume.read();
    volume.read();
    assert_eq!(volume.get("volume.reads_per_s", "vg-root"), Some(0.0));
    // Removed and made anew between two reads: its counters are smaller.
    host.write("sys/block/dm-0/dm/name", "vg-scratch\n");
    host.replace("proc/diskstats", "dm-0 100000", "dm-0 7");
    volume.read();
    host.replace("proc/diskstats", "dm-0 7", "dm-0 10");
    volume.read();
    assert_eq!(volume.get("volume.reads_per_s", "vg-root"), None);
    assert_eq!(volume.get("volume.reads_per_s", "vg-scratch"), Some(3.0));
}

#[test]
fn the_disk_below_a_volume_is_found() {
    let host = Host::copy_of("metal");
    for (volume, disk) in [
        ("nvme0n1p1", Some("nvme0n1")),
        ("sda1", Some("sda")),
        // On nvme0n1p2.
        ("vg-root", Some("nvme0n1")),
        ("no-such", None),
        ("sdz1", None),
        ("", None),
    ] {
        assert_eq!(disk_below(&host.root(), volume).as_deref(), disk, "{volume}");
    }
    // A loop in what the kernel says ends.
    host.write("sys/block/dm-7/dm/name", "itself\n");
    host.write("sys/block/dm-7/slaves/dm-7/size", "");
    assert_eq!(disk_below(&host.root(), "itself"), None);
    assert_eq!(disk_below(&HostRoot::at("/nonexistent"), "sda1"), None);
}
