use super::KIND;
use crate::fixture::Host;

#[test]
fn gauges_are_bytes_and_counters_rates() {
    let host = Host::copy_of("no-psi");
    let mut memory = host.open(&KIND, &[]);
    memory.read();
    assert_eq!(memory.get("memory.major_faults_per_s", ""), None, "no window yet");
    for (from, to) in [
        ("pgmajfault 5000", "pgmajfault 5010"),
        ("pgpgin 5000000", "pgpgin 5000100"),
        ("pswpout 200", "pswpout 260"),
        ("allocstall_normal 7", "allocstall_normal 9"),
        ("allocstall_movable 3", "allocstall_movable 5"),
        ("workingset_refault 1000", "workingset_refault 1500"),
        ("pgscan_direct 300", "pgscan_direct 340"),
        ("pgsteal_kswapd 69000", "pgsteal_kswapd 69080"),
        ("pgsteal_direct 280", "pgsteal_direct 310"),
        ("pgscan_direct_throttle 99", "pgscan_direct_throttle 1099"),
    ] {
        host.replace("proc/vmstat", from, to);
    }
    memory.read_after(2 * model::SECOND);
    insta::assert_snapshot!(memory.present(), @r"
    memory.total_bytes 8201658368
    memory.free_bytes 206073856
    memory.available_bytes 5242880000
    memory.cached_bytes 4915200000
    memory.dirty_bytes 4194304
    memory.writeback_bytes 0
    memory.slab_bytes 307200000
    memory.swap_used_bytes 99479552
    memory.major_faults_per_s 5
    memory.paged_in_bytes_per_s 51200
    memory.paged_out_bytes_per_s 0
    memory.swap_ins_per_s 0
    memory.swap_outs_per_s 30
    memory.background_scans_per_s 0
    memory.direct_scans_per_s 20
    memory.allocation_stalls_per_s 2
    memory.refaults_per_s 250
    memory.reclaimed_pages_per_s 55
    ");
}

#[test]
fn what_a_kernel_does_not_count_is_absent() {
    let host = Host::copy_of("vm");
    host.replace("proc/vmstat", "oom_kill 0\n", "");
    host.replace("proc/meminfo", "MemAvailable:", "MemAvail:");
    let mut memory = host.open(&KIND, &[]);
    memory.read();
    memory.read();
    assert_eq!(memory.get("memory.oom_kills_per_s", ""), None);
    assert_eq!(memory.get("memory.available_bytes", ""), None);
    assert_eq!(memory.get("memory.refaults_per_s", ""), Some(0.0));
    assert_eq!(memory.get("memory.swap_used_bytes", ""), Some(0.0));
}

#[test]
fn without_vmstat_the_gauges_remain() {
    let host = Host::copy_of("vm");
    let mut memory = host.open(&KIND, &[]);
    memory.read();
    host.remove("proc/vmstat");
    memory.read();
    assert_eq!(memory.get("memory.major_faults_per_s", ""), None);
    assert!(memory.get("memory.free_bytes", "").is_some());
}
