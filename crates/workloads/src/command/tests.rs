use std::fs;
use std::net::TcpListener;
use std::time::Duration;

use engine::workload::{Admission, Done, Operation, Outcome};
use model::cost::CostKind;
use model::launch::Doing;
use testkit::Scratch;

use super::*;
use crate::testing::{drive, settings_of};

/// A command given to the shell.
fn configure(script: &str, pairs: &[(&str, &str)]) -> Box<dyn Workload> {
    let mut all = vec![("command", script), ("shell", "true")];
    all.extend(pairs);
    COMMAND.configure(&settings_of(settings::SETTINGS, &all)).unwrap()
}

fn run(script: &str, pairs: &[(&str, &str)]) -> Result<Vec<Done>, LoadError> {
    let mut workload = configure(script, pairs);
    let problems = workload.check();
    assert!(problems.is_empty(), "{problems}");
    workload.prepare(0, &mut |_| true)?;
    let done = drive(&*workload, 1, usize::MAX)?;
    workload.clean_up()?;
    Ok(done)
}

fn outcomes(done: &[Done]) -> Vec<Outcome> {
    done.iter().map(|done| done.outcome).collect()
}

#[test]
fn each_launch_is_prepared_and_its_output_kept() {
    let folder = Scratch::new();
    let (log, output) = (folder.join("log"), folder.join("output"));
    let done = run(
        &format!("echo launch >> '{0}'; cat '{0}' | wc -l", log.display()),
        &[
            ("repeat", "3"),
            ("prepare", &format!("echo prepare >> '{}'", log.display())),
            ("output", output.to_str().unwrap()),
        ],
    )
    .unwrap();
    assert_eq!(done.iter().map(|done| done.kind).collect::<Vec<_>>(), [0, 1, 1]);
    assert_eq!(outcomes(&done), [Outcome::Well; 3]);
    assert_eq!(fs::read_to_string(log).unwrap(), "prepare\nlaunch\n".repeat(3));
    assert_eq!(fs::read_to_string(output).unwrap(), "2\n4\n6\n");
}

#[test]
fn launches_of_the_warm_up_are_made_and_not_counted() {
    let folder = Scratch::new();
    let log = folder.join("log");
    let script = format!("echo launch >> '{}'", log.display());
    let done = run(&script, &[("repeat", "2"), ("warmup", "3")]).unwrap();
    assert_eq!(done.iter().map(|done| done.kind).collect::<Vec<_>>(), [1, 1]);
    assert_eq!(fs::read_to_string(&log).unwrap(), "launch\n".repeat(5));
    // A warm-up that fails stops the run, as nothing measured after it would mean anything.
    let error = run("exit 3", &[("warmup", "1")]).unwrap_err();
    assert_eq!(error.to_string().lines().next(), Some("`/bin/sh -c 'exit 3'` ended with exit status 3"));
    // So does an interruption.
    let mut workload = configure(&script, &[("warmup", "1000000")]);
    workload.prepare(0, &mut |_| false).unwrap();
    assert_eq!(fs::read_to_string(&log).unwrap(), "launch\n".repeat(5));
}

#[test]
fn a_failure_is_counted_with_its_reason_or_stops_the_run() {
    for (script, pairs, expected) in [
        ("exit 3", vec![], "exit status 3"),
        ("kill -9 $$", vec![], "signal 9"),
        ("sleep 60", vec![("timeout", "100ms")], "timed out"),
        ("echo no", vec![("until_line", "ready")], "exit status 0 before it was ready"),
    ] {
        let mut allowing = vec![("repeat", "2"), ("allow_failure", "true")];
        allowing.extend(pairs.iter().copied());
        let done = run(script, &allowing).unwrap();
        let [Outcome::Failed(code), Outcome::Failed(_)] = outcomes(&done)[..] else { panic!("{done:?}") };
        assert_eq!(configure(script, &[]).describe_failure(code), expected);
        let error = run(script, &pairs).unwrap_err();
        assert!(error.what.starts_with(&format!("`/bin/sh -c '{script}'` ")), "{error}");
        assert!(error.what.ends_with(expected), "{error}");
        assert!(error.help.contains("allow_failure"), "{error}");
    }
    let error = run("true", &[("prepare", "exit 7")]).unwrap_err();
    assert_eq!(error.what, "the command to prepare a launch ended with exit status 7");
}

#[test]
fn codes_have_words() {
    let workload = configure("true", &[]);
    for (code, words) in [
        (1, "exit status 1"),
        (0x10f, "signal 15"),
        (0x200, "timed out"),
        (0x401, "exit status 1 before it was ready"),
        (0x50b, "signal 11 before it was ready"),
        (0x999, "failure 2457"),
    ] {
        assert_eq!(workload.describe_failure(code), words);
    }
}

#[test]
fn a_line_ends_the_time_and_the_command_is_then_ended() {
    let folder = Scratch::new();
    let pid = folder.join("pid");
    let output = folder.join("output");
    let script = format!("echo $$ > '{}'; echo starting; echo 'now ready: 80' >&2; sleep 60", pid.display());
    let done = run(
        &script,
        &[("repeat", "2"), ("until_line", "^now ready: \\d+$"), ("output", output.to_str().unwrap())],
    )
    .unwrap();
    assert_eq!(outcomes(&done), [Outcome::Well; 2]);
    let pid = fs::read_to_string(pid).unwrap();
    assert!(!fs::exists(format!("/proc/{}", pid.trim())).unwrap());
    assert!(fs::read_to_string(output).unwrap().starts_with("starting\nnow ready: 80\n"));
}

#[test]
fn no_time_holds_the_preparation() {
    use engine::arrivals::{Arrivals, MeasuredTime};
    use engine::drive::{Book, Numbers, Stop, drive};
    let mut workload = configure("true", &[("repeat", "3"), ("prepare", "sleep 0.05")]);
    workload.prepare(0, &mut |_| true).unwrap();
    let share = Share { lane: 0, index: 0, of: 1, in_flight_max: 1, is_open: false, seed: 0 };
    let mut worker = workload.worker(&share).unwrap();
    let clock = engine::clock::Clock::get();
    let measured = MeasuredTime::new(1);
    let mut arrivals = Arrivals::new(&workload.default_shape(), 0, 1, 0, clock.now(), &measured);
    let book = std::sync::Mutex::new(Book::new(2));
    let numbers = Numbers { first: 0, step: 1 };
    drive(
        &mut *worker,
        &mut arrivals,
        &mut engine::pace::Pace::new(&clock, false),
        &Stop::default(),
        &book,
        numbers,
        1,
    )
    .unwrap();
    let book = book.into_inner().unwrap();
    assert_eq!((book.kinds[0].completed, book.kinds[1].completed), (1, 2));
    for kind in &book.kinds {
        let times = kind.times();
        assert_eq!(times.lag.max(), 0);
        assert_eq!(times.response, times.service);
    }
}

/// A free port that the kernel gives to nobody who asks for any (those begin at 32768).
fn free_port() -> u16 {
    static NEXT: std::sync::atomic::AtomicU16 = std::sync::atomic::AtomicU16::new(0);
    let first = 20_000 + (std::process::id() % 10_000) as u16;
    loop {
        let port = first + NEXT.fetch_add(1, Ordering::Relaxed) % 2000;
        if TcpListener::bind(("127.0.0.1", port)).is_ok() {
            return port;
        }
    }
}

/// Serves `answer` to every connection until it is dropped, from a port of its own.
struct Server {
    address: String,
    stop: std::sync::Arc<std::sync::atomic::AtomicBool>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Server {
    /// Begins to listen once `mark` exists, and lets the port go when it does not any more.
    fn start(mark: std::path::PathBuf, answers: Vec<&'static str>) -> Server {
        use std::io::{Read, Write};
        let address = format!("127.0.0.1:{}", free_port());
        let stop = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
        let (reported, place) = (stop.clone(), address.clone());
        let thread = std::thread::spawn(move || {
            let mut listener: Option<TcpListener> = None;
            let mut answers = answers.into_iter().cycle();
            while !reported.load(Ordering::Relaxed) {
                match (&listener, mark.exists()) {
                    (None, true) => {
                        let new = TcpListener::bind(&place).unwrap();
                        new.set_nonblocking(true).unwrap();
                        listener = Some(new);
                    }
                    (Some(_), false) => listener = None,
                    _ => {}
                }
                if let Some(Ok((mut stream, _))) = listener.as_ref().map(TcpListener::accept) {
                    let _ = stream.set_read_timeout(Some(Duration::from_millis(500)));
                    let mut request = [0; 512];
                    // A connection that asks nothing is a probe of the port.
                    if stream.read(&mut request).is_ok_and(|bytes| bytes > 0) {
                        let _ = stream.write_all(answers.next().unwrap_or("").as_bytes());
                    }
                }
                std::thread::sleep(Duration::from_millis(1));
            }
        });
        Server { address, stop, thread: Some(thread) }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        let _ = self.thread.take().map(std::thread::JoinHandle::join);
    }
}

/// Stands for a server: what it does when it starts and ends decides whether the port is open.
fn marking(mark: &std::path::Path) -> String {
    let mark = mark.display();
    format!("trap \"rm -f '{mark}'; exit\" TERM; : > '{mark}'; sleep 60 & wait")
}

#[test]
fn a_port_that_answers_ends_the_time() {
    let folder = Scratch::new();
    let mark = folder.join("up");
    let server = Server::start(mark.clone(), vec![]);
    let done = run(&marking(&mark), &[("repeat", "2"), ("until_port", &server.address)]).unwrap();
    assert_eq!(outcomes(&done), [Outcome::Well; 2]);
    assert!(!mark.exists());
}

#[test]
fn a_page_that_is_served_ends_the_time() {
    let folder = Scratch::new();
    let mark = folder.join("up");
    let answers = vec![
        "",
        "HTTP/1.1 503 Service Unavailable\r\n\r\n",
        "SSH-2.0\r\n",
        "HTTP/1.1 204 No Content\r\n\r\n",
    ];
    let server = Server::start(mark.clone(), answers);
    let url = format!("http://{}/health", server.address);
    let done = run(&marking(&mark), &[("repeat", "2"), ("until_http", &url)]).unwrap();
    assert_eq!(outcomes(&done), [Outcome::Well; 2]);
}

#[test]
fn a_port_someone_else_answers_is_not_measured() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let mut workload = configure("sleep 60", &[("until_port", &address), ("stop", "0s")]);
    workload.prepare(0, &mut |_| true).unwrap();
    let error = drive(&*workload, 1, 1).unwrap_err();
    assert_eq!(error.what, format!("{address} answers although the command is not running"));
}

#[test]
fn a_reap_returns_at_its_time_and_a_dropped_worker_leaves_nothing_running() {
    let folder = Scratch::new();
    let pid = folder.join("pid");
    let mut workload = configure(&format!("sleep 60 & echo $! > '{}'; wait", pid.display()), &[]);
    workload.prepare(0, &mut |_| true).unwrap();
    let mut worker = workload
        .worker(&Share { lane: 0, index: 0, of: 1, in_flight_max: 1, is_open: false, seed: 0 })
        .unwrap();
    let operation = Operation::new(0, 0);
    assert_eq!(worker.submit(operation), Admission::Preparing);
    let mut done = Vec::new();
    worker.reap(u64::MAX, &mut done).unwrap();
    assert_eq!(worker.submit(operation), Admission::Accepted);
    assert_eq!(worker.submit(Operation::new(1, 1)), Admission::Busy);
    let clock = engine::clock::Clock::get();
    // Until the shell has written the number of its child.
    while fs::read_to_string(&pid).unwrap_or_default().trim().is_empty() {
        worker.reap(clock.now() + model::MILLISECOND, &mut done).unwrap();
    }
    assert!(done.is_empty());
    let child = format!("/proc/{}", fs::read_to_string(&pid).unwrap().trim());
    assert!(fs::exists(&child).unwrap());
    drop(worker);
    // A child whose parent is gone is reaped by another process, soon.
    let state = || fs::read_to_string(format!("{child}/stat")).unwrap_or_default();
    assert!(state().is_empty() || state().contains(") Z "), "{}", state());
}

#[test]
fn a_cold_start_needs_the_right_to_drop_the_cache() {
    let workload = configure("true", &[("cold", "true"), ("repeat", "1")]);
    let problems = workload.check();
    let writable = fs::OpenOptions::new().write(true).open(engine::page_cache::DROP_CACHES).is_ok();
    if writable {
        assert!(problems.is_empty(), "{problems}");
    } else {
        assert!(problems.0[0].what.starts_with("the page cache cannot be dropped"), "{problems}");
    }
}

/// Drives a command to its end, and what each launch had used.
fn usages(workload: &dyn Workload) -> Vec<model::launch::Usage> {
    let mut worker = workload
        .worker(&Share { lane: 0, index: 0, of: 1, in_flight_max: 1, is_open: false, seed: 9 })
        .unwrap();
    let mut found = Vec::new();
    let mut number = 0;
    loop {
        match worker.submit(Operation::new(0, number)) {
            Admission::Exhausted => return found,
            Admission::Accepted => number += 1,
            _ => {}
        }
        worker.reap(u64::MAX, &mut Vec::new()).unwrap();
        found.extend(worker.usages().unwrap().drain(..).map(|(_, usage)| usage));
    }
}

fn used(script: &str, pairs: &[(&str, &str)]) -> Vec<model::launch::Usage> {
    let mut workload = configure(script, pairs);
    workload.prepare(0, &mut |_| true).unwrap();
    usages(&*workload)
}

/// What was done most at the looks.
fn most(usage: &model::launch::Usage) -> Option<Doing> {
    usage.looks.iter().max_by_key(|(_, count)| **count).map(|(doing, _)| *doing)
}

#[test]
fn what_each_launch_used_is_known_with_what_it_waited_for() {
    let folder = Scratch::new();
    let file = folder.join("file");
    let write = format!("dd if=/dev/zero of='{}' bs=4096 count=50 oflag=dsync status=none", file.display());
    // The shell waits for dd, which is not the last command.
    let launches = used(&format!("{write}; true"), &[("repeat", "2")]);
    assert_eq!(launches.iter().map(|usage| usage.number).collect::<Vec<_>>(), [1, 2]);
    for usage in &launches {
        assert!(!usage.goes_on);
        let of = |kind| usage.used.get(&kind).copied().unwrap_or_else(|| panic!("{kind:?}: {usage:?}"));
        assert!(of(CostKind::UserCpu) + of(CostKind::SystemCpu) > 0, "{usage:?}");
        assert!(of(CostKind::WriteCalls) >= 50, "{usage:?}");
        assert!(of(CostKind::MinorFaults) > 0 && of(CostKind::VoluntarySwitches) > 0, "{usage:?}");
        // A file system in memory writes to no device.
        assert!(is_in_memory(&file) || of(CostKind::WrittenBytes) >= 50 * 4096, "{usage:?}");
        assert!(usage.used.contains_key(&CostKind::ReadBytes), "{usage:?}");
    }
}

fn is_in_memory(path: &std::path::Path) -> bool {
    const TMPFS_MAGIC: i128 = 0x0102_1994;
    rustix::fs::statfs(path).is_ok_and(|found| i128::from(found.f_type) == TMPFS_MAGIC)
}

#[test]
fn what_a_launch_does_is_seen_by_looking_at_it() {
    let [usage] = &used("exec sleep 1", &[("repeat", "1")])[..] else { panic!("one launch") };
    assert_eq!(most(usage), Some(Doing::Asleep), "{usage:?}");
    let [usage] =
        &used("while [ ! -e /proc/$$/none ]; do :; done & sleep 1; kill $!", &[("repeat", "1")])[..]
    else {
        panic!("one launch")
    };
    // One spins while the others wait: it is what counts.
    assert_eq!(most(usage), Some(Doing::Running), "{usage:?}");
    assert!(usage.running_threads >= usage.looks[&Doing::Running], "{usage:?}");
}

#[test]
fn a_launch_that_goes_on_is_asked_while_it_runs() {
    let script = "i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done; echo ready; sleep 60";
    let launches = used(script, &[("repeat", "2"), ("until_line", "ready")]);
    assert_eq!(launches.len(), 2);
    for usage in &launches {
        assert!(usage.goes_on);
        assert!(usage.used[&CostKind::UserCpu] + usage.used[&CostKind::SystemCpu] > 0, "{usage:?}");
        assert!(usage.used[&CostKind::MinorFaults] > 0 && usage.used[&CostKind::PeakBytes] > 0, "{usage:?}");
        // Of threads that ended before they are gone: unknown, not zero.
        assert!(!usage.used.contains_key(&CostKind::VoluntarySwitches), "{usage:?}");
        // The shell's one thread did the work.
        assert!(usage.used.contains_key(&CostKind::Ready), "{usage:?}");
    }
    // It failed, and what it used until then is known too.
    let [timed_out] =
        &used("sleep 60", &[("repeat", "1"), ("timeout", "50ms"), ("allow_failure", "true")])[..]
    else {
        panic!("one launch")
    };
    assert!(timed_out.goes_on && timed_out.used.contains_key(&CostKind::MinorFaults), "{timed_out:?}");
}

#[test]
fn processes_that_a_launch_leaves_behind_are_said_not_to_be_counted() {
    let mut workload = configure("sleep 60 & exit 0", &[("repeat", "3")]);
    workload.prepare(0, &mut |_| true).unwrap();
    let mut worker = workload
        .worker(&Share { lane: 0, index: 0, of: 1, in_flight_max: 1, is_open: false, seed: 1 })
        .unwrap();
    loop {
        if worker.submit(Operation::new(0, 0)) == Admission::Exhausted {
            break;
        }
        worker.reap(u64::MAX, &mut Vec::new()).unwrap();
    }
    let mut remarks = Vec::new();
    worker.remarks(&mut remarks);
    assert_eq!(
        remarks,
        ["a launch left processes in the background, which were ended: what they used is not counted"]
    );
}
