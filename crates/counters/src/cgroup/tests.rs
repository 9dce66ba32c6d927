use super::KIND;
use crate::fixture::Host;

#[test]
fn version_1_with_an_empty_version_2_beside_it_is_read_whole() {
    let host = Host::copy_of("vm");
    let mut cgroup = host.open(&KIND, &["shop"]);
    cgroup.read();
    for (path, from, to) in [
        ("cpuacct/shop/cpuacct.usage", "60000000000", "61000000000"),
        ("cpuacct/shop/cpuacct.usage_user", "45000000000", "45800000000"),
        ("cpu/shop/cpu.stat", "nr_periods 1000", "nr_periods 1020"),
        ("cpu/shop/cpu.stat", "nr_throttled 400", "nr_throttled 415"),
        ("cpu/shop/cpu.stat", "throttled_time 20000000000", "throttled_time 23000000000"),
        ("memory/shop/memory.failcnt", "12", "22"),
        ("blkio/shop/blkio.throttle.io_service_bytes_recursive", "Read 4096000", "Read 4915200"),
        ("blkio/shop/blkio.throttle.io_serviced_recursive", "Read 1000", "Read 1200"),
        ("unified/shop/cpu.pressure", "total=5000000", "total=6000000"),
    ] {
        host.replace(&format!("sys/fs/cgroup/{path}"), from, to);
    }
    cgroup.read_after(2 * model::SECOND);
    insta::assert_snapshot!(cgroup.present(), @r"
    cgroup.quota_cpus{shop} 0.5
    cgroup.memory_used_bytes{shop} 209715200
    cgroup.memory_limit_bytes{shop} 268435456
    cgroup.busy_cpus{shop} 0.5
    cgroup.user_cpus{shop} 0.4
    cgroup.system_cpus{shop} 0
    cgroup.periods_per_s{shop} 10
    cgroup.throttled_share{shop} 0.75
    cgroup.throttled_cpus{shop} 1.5
    cgroup.memory_limit_hits_per_s{shop} 5
    cgroup.oom_kills_per_s{shop} 0
    cgroup.read_bytes_per_s{shop} 409600
    cgroup.write_bytes_per_s{shop} 0
    cgroup.reads_per_s{shop} 100
    cgroup.writes_per_s{shop} 0
    cgroup.cpu_some_share{shop} 0.5
    cgroup.cpu_full_share{shop} 0
    cgroup.memory_some_share{shop} 0
    cgroup.memory_full_share{shop} 0
    cgroup.io_some_share{shop} 0
    cgroup.io_full_share{shop} 0
    ");
}

#[test]
fn version_2_says_the_same() {
    let host = Host::copy_of("metal");
    let group = "/system.slice/slapd.service";
    let mut cgroup = host.open(&KIND, &[group]);
    cgroup.read();
    for (file, from, to) in [
        ("cpu.stat", "usage_usec 60000000", "usage_usec 61000000"),
        ("cpu.stat", "user_usec 45000000", "user_usec 45800000"),
        ("cpu.stat", "nr_periods 1000", "nr_periods 1020"),
        ("cpu.stat", "nr_throttled 400", "nr_throttled 415"),
        ("cpu.stat", "throttled_usec 20000000", "throttled_usec 23000000"),
        ("memory.events", "\nmax 12", "\nmax 22"),
        ("io.stat", "rbytes=4096000", "rbytes=4915200"),
        ("io.stat", "rios=1000", "rios=1200"),
        ("cpu.pressure", "total=5000000", "total=6000000"),
    ] {
        host.replace(&format!("sys/fs/cgroup{group}/{file}"), from, to);
    }
    cgroup.read_after(2 * model::SECOND);
    insta::assert_snapshot!(cgroup.present(), @r"
    cgroup.quota_cpus{/system.slice/slapd.service} 1.5
    cgroup.memory_used_bytes{/system.slice/slapd.service} 209715200
    cgroup.busy_cpus{/system.slice/slapd.service} 0.5
    cgroup.user_cpus{/system.slice/slapd.service} 0.4
    cgroup.system_cpus{/system.slice/slapd.service} 0
    cgroup.periods_per_s{/system.slice/slapd.service} 10
    cgroup.throttled_share{/system.slice/slapd.service} 0.75
    cgroup.throttled_cpus{/system.slice/slapd.service} 1.5
    cgroup.memory_limit_hits_per_s{/system.slice/slapd.service} 5
    cgroup.oom_kills_per_s{/system.slice/slapd.service} 0
    cgroup.read_bytes_per_s{/system.slice/slapd.service} 409600
    cgroup.write_bytes_per_s{/system.slice/slapd.service} 0
    cgroup.reads_per_s{/system.slice/slapd.service} 100
    cgroup.writes_per_s{/system.slice/slapd.service} 0
    cgroup.cpu_some_share{/system.slice/slapd.service} 0.5
    cgroup.cpu_full_share{/system.slice/slapd.service} 0
    cgroup.memory_some_share{/system.slice/slapd.service} 0
    cgroup.memory_full_share{/system.slice/slapd.service} 0
    cgroup.io_some_share{/system.slice/slapd.service} 0
    cgroup.io_full_share{/system.slice/slapd.service} 0
    ");
}

#[test]
fn a_group_may_come_later_go_and_be_written_with_its_mount_point() {
    let host = Host::copy_of("metal");
    let (kept, gone) = ("sys/fs/cgroup/late/memory.current", "sys/fs/cgroup/late");
    let mut cgroup = host.open(&KIND, &["/sys/fs/cgroup/late"]);
    cgroup.read();
    assert_eq!(cgroup.present(), "");
    assert_eq!(cgroup.source.limits(), "there is no cgroup `/sys/fs/cgroup/late`");
    host.write(kept, "4096\n");
    cgroup.read();
    assert_eq!(cgroup.get("cgroup.memory_used_bytes", "/sys/fs/cgroup/late"), Some(4096.0));
    assert_eq!(cgroup.source.limits(), "");
    host.remove(gone);
    cgroup.read();
    assert_eq!(cgroup.present(), "");
}

#[test]
fn no_limit_is_no_number() {
    let host = Host::copy_of("vm");
    host.write("sys/fs/cgroup/cpu/shop/cpu.cfs_quota_us", "-1\n");
    host.write("sys/fs/cgroup/memory/shop/memory.limit_in_bytes", "9223372036854771712\n");
    let mut cgroup = host.open(&KIND, &["shop"]);
    cgroup.read();
    assert_eq!(cgroup.get("cgroup.quota_cpus", "shop"), None);
    assert_eq!(cgroup.get("cgroup.memory_limit_bytes", "shop"), None);
    assert_eq!(cgroup.get("cgroup.memory_used_bytes", "shop"), Some(209715200.0));
}

#[test]
fn a_host_without_cgroups_or_a_selection_says_so() {
    assert!(Host::copy_of("no-psi").try_open(&KIND, &["x"]).err().unwrap().0.contains("mount"));
    assert!(Host::copy_of("vm").try_open(&KIND, &[]).err().unwrap().0.contains("cgroup:"));
}
