use super::KIND;
use crate::fixture::Host;

/// The first line of a `/proc/stat` with these clock ticks, and one core.
fn stat(times: [u64; 8]) -> String {
    let times = times.map(|time| time.to_string()).join(" ");
    format!(
        "cpu  {times} 0 0\ncpu0 {times} 0 0\nintr 100 1 2\nctxt 1000\nbtime 1\nprocesses 50\nprocs_running 3\nprocs_blocked 2\n"
    )
}

#[test]
fn shares_are_of_the_time_accounted_and_add_up() {
    let host = Host::copy_of("vm");
    host.write("proc/stat", stat([100, 0, 100, 1000, 10, 0, 0, 0]));
    let mut cpu = host.open(&KIND, &[]);
    cpu.read();
    assert_eq!(cpu.get("cpu.busy_share", ""), None, "no window yet");
    assert_eq!(cpu.get("cpu.runnable_threads", ""), Some(3.0));
    // 40 ticks in user, 10 nice, 20 system, 20 idle, 5 iowait, 1 irq, 2 softirq, 2 steal.
    host.write("proc/stat", stat([140, 10, 120, 1020, 15, 1, 2, 2]));
    host.replace("proc/stat", "ctxt 1000", "ctxt 1600");
    host.replace("proc/stat", "intr 100", "intr 400");
    host.replace("proc/stat", "processes 50", "processes 56");
    cpu.read_after(2 * model::SECOND);
    insta::assert_snapshot!(cpu.present(), @r"
    cpu.runnable_threads 3
    cpu.blocked_threads 2
    cpu.load_average 1.07
    cpu.busy_share 0.75
    cpu.user_share 0.5
    cpu.system_share 0.2
    cpu.iowait_share 0.05
    cpu.irq_share 0.03
    cpu.steal_share 0.02
    cpu.busy_share{0} 0.75
    cpu.user_share{0} 0.5
    cpu.system_share{0} 0.2
    cpu.iowait_share{0} 0.05
    cpu.irq_share{0} 0.03
    cpu.steal_share{0} 0.02
    cpu.context_switches_per_s 300
    cpu.interrupts_per_s 150
    cpu.processes_created_per_s 3
    ");
}

#[test]
fn a_counter_that_goes_backwards_leaves_its_shares_absent_and_recovers() {
    let host = Host::copy_of("vm");
    host.write("proc/stat", stat([100, 0, 0, 100, 50, 0, 0, 0]));
    let mut cpu = host.open(&KIND, &[]);
    cpu.read();
    host.write("proc/stat", stat([150, 0, 0, 150, 49, 0, 0, 0]));
    cpu.read();
    assert_eq!(cpu.get("cpu.busy_share", "0"), None);
    assert_eq!(cpu.get("cpu.context_switches_per_s", ""), Some(0.0), "what did not go backwards is there");
    host.write("proc/stat", stat([200, 0, 0, 200, 49, 0, 0, 0]));
    cpu.read();
    assert_eq!(cpu.get("cpu.busy_share", "0"), Some(0.5));
}

#[test]
fn a_load_average_that_no_host_has_is_absent() {
    let host = Host::copy_of("vm");
    let mut cpu = host.open(&KIND, &[]);
    for (text, expected) in [
        ("1.07", Some(1.07)),
        ("0.00", Some(0.0)),
        ("-1", None),
        ("-1e30", None),
        ("1e308", None),
        ("inf", None),
        ("NaN", None),
        ("", None),
    ] {
        host.write("proc/loadavg", format!("{text} 0.9 0.8 2/300 4711\n"));
        cpu.read();
        let expected = if text.is_empty() { Some(0.9) } else { expected };
        assert_eq!(cpu.get("cpu.load_average", ""), expected, "{text}");
    }
}

#[test]
fn a_core_taken_offline_is_absent_until_it_has_a_window_again() {
    let host = Host::copy_of("no-psi");
    let whole = host.text("proc/stat");
    let without: String =
        whole.lines().filter(|line| !line.starts_with("cpu2 ")).map(|line| format!("{line}\n")).collect();
    let mut cpu = host.open(&KIND, &[]);
    cpu.read();
    let mut runs = Vec::new();
    for (text, user) in [(&whole, 100_100), (&without, 100_200), (&whole, 100_300), (&whole, 100_400)] {
        host.write("proc/stat", text.replace(" 100000 250", &format!(" {user} 250")));
        cpu.read();
        runs.push(cpu.instances("cpu.user_share").join(","));
    }
    assert_eq!(runs, ["0,1,2,3", "0,1,3", "0,1,3", "0,1,2,3"]);
}

#[test]
fn the_run_queue_is_there_where_the_kernel_keeps_it() {
    let host = Host::copy_of("no-psi");
    let mut cpu = host.open(&KIND, &[]);
    cpu.read();
    host.replace("proc/schedstat", "9000000000 1000000000 ", "9000000000 2500000000 ");
    host.replace("proc/schedstat", "9000000000 2000000000 ", "9000000000 2500000000 ");
    cpu.read();
    let queue: Vec<_> = ["", "0", "1", "2"].map(|core| cpu.get("cpu.run_queue_length", core)).into();
    assert_eq!(queue, [Some(2.0), Some(1.5), Some(0.5), Some(0.0)]);

    let mut without = Host::copy_of("vm").open(&KIND, &[]);
    without.read();
    assert!(without.readings.columns().iter().all(|column| column.metric.name != "cpu.run_queue_length"));
}
