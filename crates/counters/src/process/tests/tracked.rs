//! The threads that are shown one by one.

use std::io::{Read, Write};
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use super::set;
use crate::fixture::{Host, Probe};
use crate::process::KIND;
use crate::reader::{fields, number};

/// Set in the process that [`a_process_of_stages`] is.
const FILE: &str = "PLIMSOLL_TEST_STAGES";

/// The file that is opened so that each write is a flush too.
fn synced_file(path: impl AsRef<std::path::Path>) -> std::path::PathBuf {
    path.as_ref().with_extension("synced")
}

/// Not a test: the process that the test below watches, which ends with its standard input.
#[test]
#[ignore = "the process that another test watches"]
#[expect(clippy::disallowed_methods, reason = "a thread that flushes needs a file")]
fn a_process_of_stages() {
    let Some(path) = std::env::var_os(FILE) else { return };
    let spawn = |name: &str, work: Box<dyn FnMut() + Send>| {
        let mut work = work;
        let thread = std::thread::Builder::new().name(name.into());
        thread
            .spawn(move || {
                loop {
                    work()
                }
            })
            .unwrap();
    };
    let mut synced = std::fs::OpenOptions::new();
    let synced = synced.write(true).create(true).truncate(true).custom_flags(libc::O_DSYNC);
    let synced = synced.open(synced_file(&path)).unwrap();
    // As databases write the page by which a transaction counts.
    spawn("synced", Box::new(move || synced.write_all_at(&[1; 4096], 0).unwrap()));
    let mut file = std::fs::File::create(path).unwrap();
    spawn(
        "flush",
        Box::new(move || {
            file.write_all(&[1; 4096]).unwrap();
            file.sync_data().unwrap();
            file.set_len(0).unwrap();
        }),
    );
    spawn("spin", Box::new(std::hint::spin_loop));
    for _ in 0..2 {
        spawn("wait", Box::new(std::thread::park));
    }
    spawn("tick", Box::new(|| std::thread::sleep(Duration::from_secs(1000))));
    let _ = std::io::stdin().read(&mut [0]);
    std::process::exit(0);
}

struct Stages {
    process: Child,
    file: std::path::PathBuf,
}

#[expect(clippy::disallowed_methods, reason = "the test makes what the source reads")]
impl Stages {
    fn start() -> Stages {
        let program = std::env::current_exe().unwrap();
        // Beside the program, because temporary files are often kept in memory, where a flush does nothing.
        let file = program.with_file_name(format!("plimsoll-stages-{}", std::process::id()));
        let mut command = Command::new(program);
        command.args(["--exact", "process::tests::tracked::a_process_of_stages", "--ignored"]);
        command.env(FILE, &file).stdin(Stdio::piped()).stdout(Stdio::null());
        Stages { process: command.spawn().unwrap(), file }
    }

    /// Seconds of processor time of the thread of this name, by clock ticks.
    fn processor_time_s(&self, name: &str) -> f64 {
        let tasks = std::fs::read_dir(format!("/proc/{}/task", self.process.id())).unwrap();
        for task in tasks {
            let text = std::fs::read(task.unwrap().path().join("stat")).unwrap();
            let text = text.split(|&byte| byte == b'(').nth(1).unwrap();
            if let Some(rest) = text.strip_prefix(format!("{name}) ").as_bytes()) {
                let mut ticks = fields(rest).skip(11).map(|field| number(field).unwrap());
                return (ticks.next().unwrap() + ticks.next().unwrap()) as f64 / 100.0;
            }
        }
        panic!("no thread {name}");
    }
}

#[expect(clippy::disallowed_methods, reason = "the test removes what it made")]
impl Drop for Stages {
    fn drop(&mut self) {
        drop(self.process.stdin.take());
        let _ = self.process.wait();
        let _ = std::fs::remove_file(&self.file);
        let _ = std::fs::remove_file(synced_file(&self.file));
    }
}

/// A process whose threads do known things, read through the real kernel.
#[test]
fn what_each_thread_does_is_seen() {
    const SHARES: [&str; 6] = ["flush_wait", "transfer_wait", "peer_wait", "lock_wait", "timer_wait", "idle"];
    let stages = Stages::start();
    let process = stages.process.id().to_string();
    let mut probe = Probe::live(&KIND, &[&process]);
    let mut last = Instant::now();
    let mut read = |probe: &mut Probe| {
        std::thread::sleep(Duration::from_millis(10));
        let window = last.elapsed();
        last += window;
        probe.read_after(window.as_nanos() as u64);
        window.as_secs_f64()
    };
    let get = |probe: &Probe, metric: &str, thread: &str| {
        probe.get(&format!("process.thread_{metric}"), &format!("{process} thread {thread}"))
    };
    let shares =
        |probe: &Probe, thread: &str| SHARES.map(|share| get(probe, &format!("{share}_share"), thread));

    // Until all of them are where they stay.
    let waits = |probe: &Probe| {
        ["wait", "wait 2"].map(|thread| get(probe, "lock_wait_share", thread)) == [Some(1.0); 2]
            && get(probe, "timer_wait_share", "tick") == Some(1.0)
            && get(probe, "cpus", "spin").is_some()
            && get(probe, "cpus", "flush").is_some()
            && get(probe, "cpus", "synced").is_some()
    };
    for _ in 0..1000 {
        read(&mut probe);
        if waits(&probe) {
            break;
        }
    }
    assert!(waits(&probe), "{}", probe.present());

    let outer = stages.processor_time_s("spin");
    read(&mut probe);
    let inner = stages.processor_time_s("spin");
    let (mut ran_s, mut flushes, mut others, mut synced) = (0.0, 0.0, 0.0, 0.0);
    for sample in 1.. {
        let now = stages.processor_time_s("spin");
        ran_s += read(&mut probe) * get(&probe, "cpus", "spin").unwrap();
        let [flush, rest @ ..] = shares(&probe, "flush").map(Option::unwrap);
        flushes += flush;
        others += rest.iter().sum::<f64>();
        let [flush, transfer, ..] = shares(&probe, "synced").map(Option::unwrap);
        synced += flush;
        assert_eq!(transfer, 0.0, "what it writes is flushed");
        for thread in ["wait", "wait 2"] {
            let expected = [0.0, 0.0, 0.0, 1.0, 0.0, 0.0].map(Some);
            assert_eq!(shares(&probe, thread), expected, "{thread}");
            assert_eq!(get(&probe, "cpus", thread), Some(0.0));
        }
        assert_eq!(shares(&probe, "spin"), [Some(0.0); 6]);
        assert!(get(&probe, "ready_share", "spin").unwrap() >= 0.0);
        // Few, because on a busy machine the thread waits for a CPU after each of its short flushes.
        if sample >= 50 && flushes >= 20.0 && synced >= 5.0 {
            // What it got is known to a clock tick, and the kernel adds to `schedstat` once a tick.
            let outer = stages.processor_time_s("spin") - outer;
            assert!(
                ran_s > 0.0 && ran_s >= now - inner - 0.03 && ran_s <= outer + 0.03,
                "{ran_s} of {outer} s"
            );
            break;
        }
        assert!(sample < 3000, "{flushes} flushes, {synced} synced writes");
    }
    assert!(others < flushes, "{others} other waits beside {flushes} for a flush");
    let names = probe.instances("process.thread_cpus");
    assert!(names.len() <= 8 && !names.contains(&format!("{process} thread wait 3").as_str()), "{names:?}");
}

#[test]
fn this_process_is_not_taken_apart() {
    let mut probe = Probe::live(&KIND, &["self"]);
    probe.read();
    probe.read();
    assert!(probe.instances("process.thread_cpus").is_empty());
}

fn thread(host: &Host, tid: u32, name: &str, ran_ms: u64, state: &str) {
    let status = host.text("proc/812/task/812/status").replace("S (sleeping)", state);
    let folder = format!("proc/812/task/{tid}");
    host.write(&format!("{folder}/status"), status);
    host.write(&format!("{folder}/schedstat"), format!("{} 0 5\n", ran_ms * 1_000_000));
    host.write(&format!("{folder}/comm"), format!("{name}\n"));
}

#[test]
fn of_many_threads_the_busiest_are_shown_and_kept() {
    let host = Host::copy_of("vm");
    let busy = 2100..2110_u32;
    // The first ones are the busiest; the others do nothing.
    let ran_ms = |tid: u32, second: u64| {
        if busy.contains(&tid) { second * (900 - u64::from(tid - 2100) * 50) } else { 0 }
    };
    for tid in 2000..2200 {
        thread(&host, tid, if tid % 2 == 0 { "even" } else { "odd" }, ran_ms(tid, 1), "S (sleeping)");
    }
    set(&host, super::SLAPD, &[(20, 203)]);
    let mut probe = host.open(&KIND, &["812"]);
    probe.read();
    for second in 2..20 {
        for tid in busy.clone() {
            let path = format!("proc/812/task/{tid}/schedstat");
            host.write(&path, format!("{} 0 5\n", ran_ms(tid, second) * 1_000_000));
        }
        probe.read();
    }
    let mut shown = probe.instances("process.thread_cpus");
    assert_eq!(shown.len(), 8, "each of them looked at in each sample: {shown:?}");
    shown.sort_unstable();
    assert_eq!(&shown[..3], ["812 thread even", "812 thread even 2", "812 thread even 3"]);
    let cpus = |probe: &Probe, name: &str| probe.get("process.thread_cpus", name);
    let sum: f64 = shown.iter().filter_map(|name| cpus(&probe, name)).sum();
    // All that are busy are of about the same busyness; which eight were looked at first decides.
    assert!((4.8..=5.9).contains(&sum), "{sum}");
    // Ten samples a second look at a fifth as many threads, and at fewer of those shown than of all others.
    probe.read_after(100_000_000);
    assert_eq!(probe.instances("process.thread_cpus").len(), 2);
    assert!(probe.source.limits().starts_with("3 of the 204 threads"), "{}", probe.source.limits());
}

#[test]
fn a_thread_that_ends_gives_its_name_to_the_next_one() {
    let host = Host::copy_of("vm");
    let mut probe = host.open(&KIND, &["812"]);
    probe.read();
    let mut last = 816;
    for (tid, threads) in [(900, 4), (901, 3), (902, 4)] {
        thread(&host, tid, "work\u{7}er", 500, "S (sleeping)");
        host.remove(&format!("proc/812/task/{last}"));
        last = tid;
        // Another number of threads has them listed again.
        set(&host, super::SLAPD, &[(20, threads)]);
        probe.read();
        assert_eq!(probe.instances("process.thread_cpus"), ["812 thread work\u{fffd}er"], "{tid}");
        assert!(probe.instances("process.thread_idle_share").is_empty(), "its call may not be read");
    }
}
