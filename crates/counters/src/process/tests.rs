use model::SECOND;
use proptest::prelude::*;

use super::{KIND, parse};
use crate::fixture::{Host, Probe};

mod event_loop;
mod io_limit;
mod tracked;

const SLAPD: &str = "proc/812/stat";
const HELPER: &str = "proc/820/stat";

/// Replaces fields of a `stat` file, counted from the state as in `man proc_pid_stat` (the state is 3).
fn set(host: &Host, path: &str, fields: &[(usize, u64)]) {
    let text = host.text(path);
    let (name, rest) = text.rsplit_once(") ").unwrap();
    let mut rest: Vec<String> = rest.split(' ').map(String::from).collect();
    for &(field, value) in fields {
        rest[field - 3] = value.to_string();
    }
    host.write(path, format!("{name}) {}", rest.join(" ")));
}

/// Makes a process like the helper, with its own PID, parent, name and counters.
fn spawn(host: &Host, pid: u32, parent: u32, name: &str, user_ticks: u64) {
    let original = |path: &str| {
        std::fs::read_to_string(format!("{}/fixtures/vm/{path}", env!("CARGO_MANIFEST_DIR"))).unwrap()
    };
    let like = original(HELPER);
    let (_, rest) = like.rsplit_once(") ").unwrap();
    host.write(&format!("proc/{pid}/stat"), format!("{pid} ({name}) {rest}"));
    let started = 40_000 + u64::from(pid);
    set(
        host,
        &format!("proc/{pid}/stat"),
        &[(4, parent.into()), (10, 100), (14, user_ticks), (15, 0), (22, started)],
    );
    host.write(&format!("proc/{pid}/cmdline"), format!("/opt/{name}\0"));
    host.write(&format!("proc/{pid}/io"), original("proc/820/io"));
    for file in ["status", "schedstat"] {
        host.write(&format!("proc/{pid}/task/{pid}/{file}"), original(&format!("proc/820/task/820/{file}")));
    }
    host.write("proc/loadavg", format!("0.00 0.00 0.00 1/90 {pid}\n"));
}

fn open(host: &Host, name: &str) -> Probe {
    let mut probe = host.open(&KIND, &[name]);
    probe.read();
    probe
}

#[test]
fn counts_no_process_has_do_not_overflow() {
    let host = Host::copy_of("vm");
    let mut probe = open(&host, "slapd");
    // User and system time with those of children, faults, threads, resident pages; of two processes.
    let largest = [10, 11, 12, 13, 14, 15, 16, 17, 20, 24].map(|field| (field, u64::MAX));
    set(&host, SLAPD, &largest);
    set(&host, HELPER, &largest);
    probe.read();
    assert!(probe.get("process.resident_bytes", "slapd").unwrap() >= 1.8e19);
    assert!(probe.get("process.threads", "slapd").unwrap() >= 1.8e19);
    assert!(probe.get("process.busy_cpus", "slapd").unwrap() > 0.0);
}

#[test]
fn a_service_and_what_it_started_are_added_up() {
    let host = Host::copy_of("vm");
    let mut probe = open(&host, "slapd");
    assert_eq!(probe.get("process.processes", "slapd"), Some(2.0), "{}", probe.present());
    assert_eq!(probe.get("process.busy_cpus", "slapd"), None, "no window yet");
    // In two seconds slapd uses one second of processor time, its helper half a second.
    set(&host, SLAPD, &[(14, 1080), (15, 520), (12, 60)]);
    set(&host, HELPER, &[(14, 100)]);
    host.write("proc/812/io", "rchar: 1200000\nwchar: 2000000\nsyscr: 5400\nsyscw: 6000\nread_bytes: 4505600\nwrite_bytes: 8192000\n");
    host.write("proc/812/task/815/schedstat", "5000000000 5000000000 950\n");
    host.replace(
        "proc/812/task/816/status",
        "voluntary_ctxt_switches:\t300",
        "voluntary_ctxt_switches:\t380",
    );
    probe.read_after(2 * SECOND);
    insta::assert_snapshot!(probe.present(), @r"
    process.processes{slapd} 2
    process.threads{slapd} 4
    process.resident_bytes{slapd} 106496000
    process.running_threads{slapd} 1
    process.sleeping_threads{slapd} 2
    process.disk_wait_threads{slapd} 1
    process.other_threads{slapd} 0
    process.quota_cpus{slapd} 0.5
    process.read_limit_per_s{slapd} 200
    process.write_limit_bytes_per_s{slapd} 1048576
    process.memory_limit_bytes{slapd} 268435456
    process.memory_charged_bytes{slapd} 209715200
    process.busy_cpus{slapd} 0.75
    process.user_cpus{slapd} 0.65
    process.system_cpus{slapd} 0.1
    process.minor_faults_per_s{slapd} 0
    process.major_faults_per_s{slapd} 10
    process.read_call_bytes_per_s{slapd} 100000
    process.write_call_bytes_per_s{slapd} 0
    process.read_calls_per_s{slapd} 200
    process.write_calls_per_s{slapd} 0
    process.read_bytes_per_s{slapd} 204800
    process.write_bytes_per_s{slapd} 0
    process.run_queue_length{slapd} 1.5
    process.voluntary_switches_per_s{slapd} 40
    process.involuntary_switches_per_s{slapd} 0
    process.busiest_thread_cpus{slapd} 1
    process.thread_cpus{slapd thread writer} 1
    process.thread_ready_share{slapd thread writer} 1.5
    process.thread_flush_wait_share{slapd thread writer} 0
    process.thread_transfer_wait_share{slapd thread writer} 0
    process.thread_peer_wait_share{slapd thread writer} 0
    process.thread_lock_wait_share{slapd thread writer} 0
    process.thread_timer_wait_share{slapd thread writer} 0
    process.thread_idle_share{slapd thread writer} 0
    process.throttled_share{slapd} 0
    process.disk_reads_per_s{slapd} 0
    process.disk_writes_per_s{slapd} 0
    ");
}

#[test]
fn processes_are_found_by_name_program_and_pid() {
    let host = Host::copy_of("vm");
    for (selector, processes) in [
        ("slapd", Some(2.0)),
        ("812", Some(2.0)),
        ("helper", Some(1.0)),
        ("bash", Some(1.0)),
        ("slap", None),
        ("7", None),
    ] {
        let probe = open(&host, selector);
        assert_eq!(probe.get("process.processes", selector), processes, "{selector}");
        assert_eq!(probe.source.limits().contains("is running"), processes.is_none(), "{selector}");
    }
}

#[test]
fn a_child_that_ends_is_not_counted_twice() {
    let host = Host::copy_of("vm");
    let mut probe = open(&host, "slapd");
    probe.read();
    assert_eq!(probe.get("process.busy_cpus", "slapd"), Some(0.0));
    // The helper (75 ticks, 302 faults so far) uses 5 ticks more and ends; slapd waits for it and is given its account.
    host.remove("proc/820");
    set(&host, SLAPD, &[(11, 310), (13, 2), (16, 55), (17, 25)]);
    host.write("proc/812/io", "rchar: 1000100\nwchar: 2000200\nsyscr: 5005\nsyscw: 6006\nread_bytes: 4100096\nwrite_bytes: 8192000\n");
    probe.read();
    assert_eq!(probe.get("process.busy_cpus", "slapd"), Some(0.05));
    assert_eq!(probe.get("process.read_bytes_per_s", "slapd"), Some(0.0));
    assert_eq!(probe.get("process.minor_faults_per_s", "slapd"), Some(10.0));
    assert_eq!(probe.get("process.processes", "slapd"), Some(1.0));
    probe.read();
    assert_eq!(probe.get("process.busy_cpus", "slapd"), Some(0.0));
}

#[test]
fn a_child_the_parent_waits_for_later_or_never_is_not_counted_twice_either() {
    let host = Host::copy_of("vm");
    let mut probe = open(&host, "slapd");
    probe.read();
    host.remove("proc/820");
    set(&host, SLAPD, &[(14, 1010)]);
    probe.read();
    assert_eq!(
        probe.get("process.busy_cpus", "slapd"),
        Some(0.1),
        "nothing is taken off before it was added"
    );
    set(&host, SLAPD, &[(14, 1020), (11, 300), (16, 50), (17, 25)]);
    probe.read();
    assert_eq!(probe.get("process.busy_cpus", "slapd"), Some(0.1), "added now, taken off now");
}

#[test]
fn a_new_process_counts_from_its_beginning_and_one_that_was_there_before_does_not() {
    let host = Host::copy_of("vm");
    let mut probe = open(&host, "slapd");
    spawn(&host, 950, 812, "worker", 30);
    probe.read();
    assert_eq!(probe.get("process.processes", "slapd"), Some(3.0));
    assert_eq!(probe.get("process.busy_cpus", "slapd"), Some(0.3));
    // bash has been there for long and becomes slapd only now.
    host.replace("proc/900/stat", "(bash)", "(slapd)");
    probe.read();
    assert_eq!(probe.get("process.processes", "slapd"), Some(4.0));
    assert_eq!(probe.get("process.busy_cpus", "slapd"), Some(0.0));
}

#[test]
fn a_process_that_becomes_another_program_after_the_first_sample_is_found_at_once() {
    let host = Host::copy_of("vm");
    for pid in 901..=960 {
        spawn(&host, pid, 1, "worker", 0);
    }
    set(&host, "proc/960/stat", &[(14, 30), (22, 90_000)]);
    let mut probe = open(&host, "metadir");
    host.replace("proc/960/stat", "(worker)", "(metadir)");
    probe.read();
    assert_eq!(probe.get("process.processes", "metadir"), Some(1.0));
    // What it did before it was found is not the run's.
    probe.read();
    assert_eq!(probe.get("process.busy_cpus", "metadir"), Some(0.0));
}

#[test]
fn a_service_that_ends_is_absent_and_one_started_again_is_found() {
    let host = Host::copy_of("vm");
    let mut probe = open(&host, "slapd");
    host.remove("proc/812");
    host.remove("proc/820");
    probe.read();
    assert_eq!(probe.present(), "");
    assert_eq!(probe.source.limits(), "no process `slapd` is running");
    spawn(&host, 960, 1, "slapd", 20);
    probe.read();
    assert_eq!(probe.get("process.busy_cpus", "slapd"), Some(0.2));
    set(&host, "proc/960/stat", &[(14, 70)]);
    probe.read();
    assert_eq!(probe.get("process.busy_cpus", "slapd"), Some(0.5));
}

#[test]
fn io_that_may_not_be_read_is_absent_and_said_so() {
    let host = Host::copy_of("vm");
    host.remove("proc/820/io");
    let mut probe = open(&host, "slapd");
    probe.read();
    assert_eq!(probe.get("process.read_bytes_per_s", "slapd"), None);
    assert_eq!(probe.get("process.busy_cpus", "slapd"), Some(0.0));
    assert!(probe.source.limits().contains("1 of its processes belong to another user"));
}

#[test]
fn of_many_threads_some_are_looked_at_and_all_are_estimated() {
    let host = Host::copy_of("vm");
    let (status, threads) = (host.text("proc/812/task/812/status"), 200_u64);
    for tid in 2000..2000 + threads - 3 {
        // Every second one runs or is ready to.
        let state = if tid % 2 == 0 { "R (running)" } else { "S (sleeping)" };
        host.write(&format!("proc/812/task/{tid}/status"), status.replace("S (sleeping)", state));
        host.write(&format!("proc/812/task/{tid}/schedstat"), "1000000000 1000000000 5\n");
    }
    set(&host, SLAPD, &[(20, threads)]);
    let mut probe = host.open(&KIND, &["812"]);
    probe.read();
    let (mut running, mut waiting) = (0.0, 0.0);
    let rounds = 13_u64;
    for round in 1..=rounds {
        for tid in 2000..2000 + threads - 3 {
            // Each waits a tenth of the time.
            let waited = 1_000_000_000 + round * 100_000_000;
            host.write(&format!("proc/812/task/{tid}/schedstat"), format!("1000000000 {waited} 5\n"));
        }
        probe.read();
        running += probe.get("process.running_threads", "812").unwrap();
        waiting = probe.get("process.run_queue_length", "812").unwrap();
    }
    assert_eq!(probe.get("process.threads", "812"), Some(201.0), "exact, helper included");
    let running = running / rounds as f64;
    assert!((running - 99.0).abs() < 5.0, "{running}");
    assert!((waiting - 19.7).abs() < 0.1, "{waiting}");
    assert!(probe.source.limits().starts_with("16 of the 201 threads of `812`"), "{}", probe.source.limits());
}

#[test]
fn this_process_is_itself_alone_and_its_work_is_seen() {
    let mut probe = Probe::live(&KIND, &["self"]);
    probe.read_after(1);
    let began = std::time::Instant::now();
    let mut spun = 0_u64;
    while began.elapsed() < std::time::Duration::from_millis(200) {
        spun = std::hint::black_box(spun + 1);
    }
    probe.read_after(began.elapsed().as_nanos() as u64);
    assert_eq!(probe.get("process.processes", "self"), Some(1.0));
    assert!(probe.get("process.busy_cpus", "self").unwrap() > 0.0);
    assert!(probe.get("process.read_calls_per_s", "self").unwrap() > 0.0);
    assert!(probe.get("process.busiest_thread_cpus", "self").unwrap() > 0.0);
}

#[test]
fn selections_are_checked_when_opened() {
    let host = Host::copy_of("vm");
    assert!(host.try_open(&KIND, &[]).err().unwrap().0.contains("process:slapd"));
    let many: Vec<String> = (0..65).map(|number| format!("p{number}")).collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    assert!(host.try_open(&KIND, &many).is_err());
    assert!(host.try_open(&KIND, &["slapd"; 65]).is_ok(), "the same one again is no other one");
}

#[test]
fn a_name_may_hold_blanks_and_parentheses() {
    let host = Host::copy_of("vm");
    let text = host.text(HELPER);
    let stat = parse::stat(text.as_bytes()).unwrap();
    assert_eq!((stat.name, stat.parent, stat.threads), (&b"tmux: server (1)"[..], 812, 1));
    assert_eq!((stat.user_ticks, stat.system_ticks), ([50, 0], [25, 0]));
    assert_eq!((stat.started, stat.resident_pages), (20100, 400));
    assert_eq!(parse::program(b"/usr/bin/python3\0x.py\0"), b"python3");
    assert_eq!(parse::program(b""), b"");
    assert_eq!(parse::last_pid(b"0.00 0.12 0.17 1/88 9012\n"), Some(9012));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn any_bytes_are_parsed_without_panic(text: Vec<u8>) {
        let _ = (parse::stat(&text), parse::status(&text), parse::io(&text), parse::schedstat(&text));
        let _ = (parse::program(&text), parse::last_pid(&text));
    }

    /// Processes come, work, and end, and their parent waits for them or has the kernel throw their account away:
    /// what was done is reported, and reported once.
    #[test]
    fn nothing_is_counted_twice(
        waits in any::<bool>(),
        steps in proptest::collection::vec((0_u64..50, any::<bool>()), 1..8),
    ) {
        let host = Host::copy_of("vm");
        let mut probe = open(&host, "slapd");
        let (mut done, mut reported, mut collected, mut faults) = (0, 0.0, 0, 0);
        for (pid, (ticks, ends)) in (950..).zip(steps) {
            spawn(&host, pid, 812, "worker", ticks);
            done += ticks;
            probe.read();
            reported += probe.get("process.busy_cpus", "slapd").unwrap();
            if ends {
                host.remove(&format!("proc/{pid}"));
                if waits {
                    collected += ticks;
                    faults += 100;
                    set(&host, SLAPD, &[(11, faults), (16, collected)]);
                }
                probe.read();
                reported += probe.get("process.busy_cpus", "slapd").unwrap();
            }
        }
        let done = done as f64 / 100.0;
        prop_assert!((reported - done).abs() < 1e-6, "{reported} of {done}");
    }
}

/// Threads of this very process that wait for known things, read through the real kernel.
#[test]
fn what_threads_wait_for_is_reported_from_their_calls() {
    use std::io::Read;
    use std::net::{TcpListener, TcpStream};
    use std::sync::{Arc, Condvar, Mutex};

    let listener = Arc::new(TcpListener::bind("127.0.0.1:0").unwrap());
    let at = listener.local_addr().unwrap();
    let own = std::process::id().to_string();
    let mut probe = Probe::live(&KIND, &[&own]);
    probe.read();
    // Its port is found before the connections are made, as with a service that was there first.
    let waiting: Vec<TcpStream> = (0..4).map(|_| TcpStream::connect(at).unwrap()).collect();
    let gate = Arc::new((Mutex::new(()), Condvar::new()));
    for _ in 0..3 {
        let gate = gate.clone();
        std::thread::spawn(move || {
            let held = gate.0.lock().unwrap();
            drop(gate.1.wait(held).unwrap());
        });
    }
    let (mut inbound, _) = listener.accept().unwrap();
    std::thread::spawn(move || inbound.read(&mut [0; 8]));
    std::thread::spawn(|| std::thread::sleep(std::time::Duration::from_secs(1000)));
    let idle = TcpListener::bind("127.0.0.1:0").unwrap();
    std::thread::spawn(move || idle.accept());
    let reading = waiting[3].try_clone().unwrap();
    std::thread::spawn(move || (&reading).read(&mut [0; 8]));

    // Until every thread sleeps, which it does within moments.
    let mut reached = String::new();
    for _ in 0..200 {
        std::thread::sleep(std::time::Duration::from_millis(10));
        probe.read();
        let count = |metric: &str| probe.get(&format!("process.{metric}"), &own).unwrap_or(f64::NAN);
        let found = [
            count("same_lock_wait_threads") >= 3.0,
            count("lock_wait_threads") >= 3.0,
            count("timer_wait_threads") >= 1.0,
            count("accept_wait_threads") >= 1.0,
            count("client_wait_threads") >= 1.0,
            count("peer_wait_threads") >= 1.0,
            count("accept_queue_connections") >= 3.0,
            count("accept_queue_limit") > 0.0,
        ];
        if found.iter().all(|found| *found) {
            let peers = probe.instances("process.peer_wait_threads");
            assert!(peers.contains(&format!("{own} to {at}").as_str()), "{peers:?}");
            reached.clear();
            break;
        }
        reached = format!("{found:?}\n{}", probe.present());
    }
    assert!(reached.is_empty(), "{reached}");
}

#[test]
fn a_quota_and_a_memory_limit_of_its_cgroup_are_read_with_the_process() {
    let host = Host::copy_of("vm");
    host.write("proc/mounts", "cgroup /sys/fs/cgroup/cpu cgroup rw,cpu,cpuacct 0 0\ncgroup /sys/fs/cgroup/memory cgroup rw,memory 0 0\n\
         cgroup /sys/fs/cgroup/blkio cgroup rw,blkio 0 0\n");
    host.write("proc/812/cgroup", "3:memory:/small\n2:cpu,cpuacct:/half\n1:blkio:/slow\n");
    let serviced = "blkio.throttle.io_serviced";
    let reads = |group: &str, reads: u64| {
        let text = format!("254:0 Read {reads}\n254:0 Write 7\nTotal {}\n", reads + 7);
        host.write(&format!("sys/fs/cgroup/blkio{group}/{serviced}"), &text);
    };
    reads("/slow", 100);
    reads("", 5000);
    host.write("sys/fs/cgroup/cpu/half/cpu.cfs_quota_us", "50000\n");
    host.write("sys/fs/cgroup/cpu/half/cpu.cfs_period_us", "100000\n");
    host.write(
        "sys/fs/cgroup/cpu/half/cpu.stat",
        "nr_periods 100\nnr_throttled 10\nthrottled_time 5000000\n",
    );
    host.write("sys/fs/cgroup/memory/small/memory.limit_in_bytes", "104857600\n");
    host.write("sys/fs/cgroup/memory/small/memory.usage_in_bytes", "104000000\n");
    let mut probe = open(&host, "slapd");
    host.write(
        "sys/fs/cgroup/cpu/half/cpu.stat",
        "nr_periods 120\nnr_throttled 25\nthrottled_time 9000000\n",
    );
    reads("/slow", 140);
    probe.read();
    let get = |metric: &str| probe.get(metric, "slapd");
    assert_eq!(get("process.quota_cpus"), Some(0.5), "{}", probe.present());
    assert_eq!(get("process.throttled_share"), Some(0.75));
    assert_eq!(get("process.memory_limit_bytes"), Some(104_857_600.0));
    assert_eq!(get("process.memory_charged_bytes"), Some(104_000_000.0));
    assert_eq!(get("process.disk_reads_per_s").zip(get("process.disk_writes_per_s")), Some((40.0, 0.0)));
    // Outside a group of its own it has no limit, and the I/O of everybody is not taken for its own.
    host.write("proc/812/cgroup", "3:memory:/small\n2:cpu,cpuacct:/\n1:blkio:/\n");
    for _ in 0..2 {
        reads("", 6000);
        probe.read();
    }
    assert_eq!(probe.get("process.disk_reads_per_s", "slapd"), None);
    assert_eq!(probe.get("process.quota_cpus", "slapd"), None);
}
