//! Wrong results of load tests: starved generators, throttled groups, caches, empty answers, failing servers,
//! short and unsteady runs. Each must be noticed, named and end with the exit code that README.md promises; honest runs
//! must raise none of it.

use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::calibrate::label;
use crate::fault::Fault;
use crate::files::Repository;
use crate::program::{Ended, Folder, cargo, plimsoll};

/// What the load generator, or the whole program, is put into.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Place {
    /// Nothing.
    Quiet,
    /// A control group that may use this much of one CPU, in percent.
    CpuQuota(u32),
    /// Beside so many processes that spin.
    Spinners(usize),
    /// A control group that may read so often a second from the disk.
    Reads(u32),
    /// Beside so many processes that begin to spin after so many seconds.
    LateSpinners(usize, u32),
    /// Interrupted, as by Ctrl-C, after so many milliseconds.
    Interrupted(u32),
    /// With all of `{file}` in the page cache.
    Cached,
}

/// What must be noticed.
#[derive(Clone, Copy, Debug)]
enum Expectation {
    /// This verdict, as the calibration names it.
    Verdict(&'static str),
    /// A doubt of this kind.
    Doubt(&'static str),
    /// A finding with this sign.
    Sign(&'static str),
    /// A fact of the first trial with this text.
    Fact(&'static str, &'static str),
    /// No doubt of this kind.
    NoDoubt(&'static str),
    /// None of the alarms.
    Nothing,
}

/// One lie, or one honest run.
struct Case {
    name: &'static str,
    place: Place,
    /// Arguments of the service `planted`; none where there is none.
    service: Option<&'static str>,
    /// The command: `{file}` is a file of random data on the disk, `{zero}` one of zeros, `{sparse}` one of holes,
    /// `{memory}` one in memory, `{new}` a name of no file yet, `{url}` the service, `{crowd}` four times the number of CPUs.
    command: &'static str,
    exit: &'static [i32],
    noticed: &'static [Expectation],
}

const fn lie(
    name: &'static str,
    place: Place,
    command: &'static str,
    exit: &'static [i32],
    noticed: &'static [Expectation],
) -> Case {
    Case { name, place, service: None, command, exit, noticed }
}

const fn served(
    name: &'static str,
    place: Place,
    service: &'static str,
    command: &'static str,
    exit: &'static [i32],
    noticed: &'static [Expectation],
) -> Case {
    Case { name, place, service: Some(service), command, exit, noticed }
}

const fn honest(name: &'static str, command: &'static str) -> Case {
    Case { name, place: Place::Quiet, service: None, command, exit: &[0], noticed: &[Expectation::Nothing] }
}

const fn honest_service(name: &'static str, service: &'static str, command: &'static str) -> Case {
    Case {
        name,
        place: Place::Quiet,
        service: Some(service),
        command,
        exit: &[0],
        noticed: &[Expectation::Nothing],
    }
}

use Expectation::{Doubt, Fact, NoDoubt, Nothing, Sign, Verdict};
use Place::{Cached, CpuQuota, Interrupted, LateSpinners, Quiet, Reads, Spinners};

/// What a fast source of data is read at: the generator may be the limit, or throughput may vary.
const ANY: &[i32] = &[0, 97, 98];
const GENERATOR: &[Expectation] = &[Verdict("load-generator")];

static LIES: &[Case] = &[
    lie("disk-quota", CpuQuota(10), "disk {file} --duration 3s --warm-up 1s", &[97], GENERATOR),
    lie("disk-spinners", Spinners(6), "disk {file} --duration 3s --warm-up 1s", &[97], GENERATOR),
    lie("disk-io-limit", Reads(200), "disk {file} --duration 3s --warm-up 1s", &[97], GENERATOR),
    lie(
        "disk-deep-quota",
        CpuQuota(10),
        "disk {file} --outstanding 32 --duration 3s --warm-up 1s",
        &[97],
        GENERATOR,
    ),
    lie(
        "disk-open-quota",
        CpuQuota(5),
        "disk {file} --rate 4000/s --duration 3s --warm-up 1s",
        &[97],
        GENERATOR,
    ),
    lie(
        "disk-open-spinners",
        Spinners(6),
        "disk {file} --rate 4000/s --duration 3s --warm-up 1s",
        &[97],
        GENERATOR,
    ),
    lie(
        "disk-cached-quota",
        CpuQuota(10),
        "disk {file} --page-cache --duration 3s --warm-up 1s",
        &[97],
        GENERATOR,
    ),
    lie("null-quota", CpuQuota(10), "null --rate 300000/s --duration 3s --warm-up 1s", &[97], GENERATOR),
    lie("null-spinning", Quiet, "null --duration 3s --warm-up 1s", &[97], GENERATOR),
    served(
        "http-quota",
        CpuQuota(10),
        "--workers 16 --keep-alive",
        "http {url} --concurrency 8 --duration 3s --warm-up 1s",
        &[97],
        GENERATOR,
    ),
    served(
        "http-spinners",
        Spinners(6),
        "--workers 16 --keep-alive",
        "http {url} --concurrency 8 --duration 3s --warm-up 1s",
        &[97],
        GENERATOR,
    ),
    served(
        "http-open-quota",
        CpuQuota(5),
        "--workers 16 --keep-alive",
        "http {url} --rate 3000/s --duration 3s --warm-up 1s",
        &[97],
        GENERATOR,
    ),
    lie("copy-quota", CpuQuota(5), "copy {file} {new}", &[97], GENERATOR),
    lie(
        "exec-quota",
        CpuQuota(5),
        "exec --repeat 20 -- sh -c 'i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done'",
        &[97],
        GENERATOR,
    ),
    lie(
        "exec-spinners",
        Spinners(6),
        "exec --repeat 20 -- sh -c 'i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done'",
        &[98],
        &[Sign("host_cpus")],
    ),
    // More threads than CPUs wait for one another, and that is in the response times.
    lie(
        "disk-many-threads",
        Quiet,
        "disk {file} --threads {crowd} --duration 3s --warm-up 1s",
        ANY,
        &[Doubt("generator")],
    ),
    // The service takes the CPUs that the generator on the same host needs.
    served(
        "http-beside",
        Quiet,
        "--workers 16 --cpu-ms 2 --keep-alive",
        "http {url} --concurrency 16 --duration 3s --warm-up 1s --watch process:planted",
        ANY,
        &[Doubt("generator")],
    ),
    served(
        "failing",
        Quiet,
        "--workers 16 --keep-alive --sleep-ms 5 --fail-percent 90",
        "http {url} --concurrency 4 --duration 2s --warm-up 500ms",
        &[99],
        &[Doubt("failures")],
    ),
    served(
        "failing-a-little",
        Quiet,
        "--workers 16 --keep-alive --sleep-ms 5 --fail-percent 3",
        "http {url} --concurrency 4 --duration 2s --warm-up 500ms",
        &[99],
        &[Doubt("failures")],
    ),
    served(
        "all-redirected",
        Quiet,
        "--workers 16 --keep-alive --sleep-ms 5 --redirect-percent 100",
        "http {url} --concurrency 4 --duration 2s --warm-up 500ms",
        &[0],
        &[Sign("statuses")],
    ),
    served(
        "some-redirected",
        Quiet,
        "--workers 16 --keep-alive --sleep-ms 5 --redirect-percent 30",
        "http {url} --concurrency 4 --duration 2s --warm-up 500ms",
        &[0],
        &[Sign("statuses")],
    ),
    served(
        "sizes-vary",
        Quiet,
        "--workers 16 --keep-alive --sleep-ms 5 --body-bytes-max 20000",
        "http {url} --concurrency 4 --duration 2s --warm-up 500ms",
        &[0],
        &[Sign("answer_sizes")],
    ),
    served(
        "says-error",
        Quiet,
        "--workers 16 --keep-alive --sleep-ms 5 --text ERROR_database_down",
        "http {url} --concurrency 4 --duration 2s --warm-up 500ms",
        &[0],
        &[Sign("error_text")],
    ),
    served(
        "empty",
        Quiet,
        "--workers 16 --keep-alive --sleep-ms 5 --body-bytes 0",
        "http {url} --concurrency 4 --duration 2s --warm-up 500ms",
        &[0],
        &[Sign("answer_sizes")],
    ),
    lie("zeros", Quiet, "disk {zero} --duration 3s --warm-up 500ms", ANY, &[Doubt("compressible")]),
    lie("holes", Quiet, "disk {sparse} --duration 3s --warm-up 500ms", ANY, &[Doubt("holes")]),
    lie(
        "memory",
        Quiet,
        "disk {memory} --duration 3s --warm-up 500ms --page-cache",
        ANY,
        &[Doubt("not_the_device")],
    ),
    lie(
        "cached",
        Cached,
        "disk {file} --page-cache --duration 3s --warm-up 500ms",
        ANY,
        &[Doubt("not_the_device")],
    ),
    lie(
        "volatile",
        Quiet,
        "disk {new} --size 256MiB --write --duration 3s --warm-up 500ms",
        ANY,
        &[Doubt("volatile_cache")],
    ),
    lie("short", Quiet, "disk {file} --duration 300ms --warm-up 100ms", ANY, &[Doubt("short")]),
    lie("100ms", Quiet, "disk {file} --duration 100ms --warm-up 0s", ANY, &[Doubt("short")]),
    served(
        "100ms-http",
        Quiet,
        "--workers 16 --keep-alive --sleep-ms 5",
        "http {url} --concurrency 4 --duration 100ms --warm-up 0s",
        ANY,
        &[Doubt("short")],
    ),
    lie(
        "compressible",
        Quiet,
        "disk {new} --size 256MiB --write --write-through --compressible 80% --duration 3s --warm-up 500ms",
        ANY,
        &[Doubt("compressible")],
    ),
    // io_uring hands buffered writes to threads of the kernel, which makes them many times slower.
    lie(
        "buffered-writes",
        Quiet,
        "disk {new} --size 256MiB --write --page-cache --duration 3s --warm-up 500ms",
        ANY,
        &[Fact("back_end", "system-calls"), Doubt("not_the_device")],
    ),
    // Without spinning a worker is woken late, and that is in the response times.
    lie(
        "open-lag",
        Quiet,
        "null --rate 500/s --no-spin --duration 12s --warm-up 1s",
        &[0, 97],
        &[Doubt("own_lag")],
    ),
    lie(
        "unsteady",
        LateSpinners(6, 4),
        "null --duration 8s --warm-up 500ms",
        &[97, 98],
        &[Doubt("unsteady")],
    ),
    lie(
        "interrupted-making",
        Interrupted(600),
        "disk {new} --size 8GiB --duration 5s",
        &[130],
        &[Doubt("cut_short"), NoDoubt("not_the_device")],
    ),
    lie(
        "other-back-end",
        Quiet,
        "disk {file} --vary back_end=io_uring,system-calls --duration 2s --warm-up 500ms",
        ANY,
        &[NoDoubt("back_ends_differ")],
    ),
    lie(
        "exec-shifted",
        Quiet,
        "exec --repeat 40 -- sh -c 'n=$(cat {new} 2>/dev/null || echo 0); echo $((n+1)) > {new}; [ $n -lt 15 ] || sleep 0.05; sleep 0.05'",
        &[0, 98],
        &[Sign("launches_shifted")],
    ),
    lie("no-device", Quiet, "disk /dev/plimsoll-sdzz --duration 1s", &[2], &[]),
    served(
        "pauses",
        Quiet,
        "--workers 64 --sleep-ms 20 --pause-ms 300 --pause-every-ms 1000 --keep-alive",
        "http {url} --concurrency 32 --duration 6s --warm-up 1s --interval 50ms",
        &[0, 98],
        &[Sign("pauses")],
    ),
    served(
        "throttled-service",
        Quiet,
        "--workers 64 --lock-ms 10 --keep-alive",
        "http {url} --concurrency 32 --duration 4s --warm-up 1s --watch process:planted",
        &[0],
        &[Verdict("lock")],
    ),
    lie("nothing-launched", Quiet, "exec --repeat 5 -- false", &[1], &[]),
];

static HONEST: &[Case] = &[
    honest("disk", "disk {file} --duration 12s --warm-up 1s"),
    honest("disk-deep", "disk {file} --outstanding 16 --duration 12s --warm-up 1s"),
    honest("disk-two", "disk {file} --outstanding 2 --duration 12s --warm-up 1s"),
    honest("disk-64k", "disk {file} --block-size 64KiB --duration 12s --warm-up 1s"),
    honest("disk-sequential", "disk {file} --sequential --block-size 1MiB --duration 12s --warm-up 1s"),
    honest("disk-open", "disk {file} --rate 500/s --duration 12s --warm-up 1s"),
    honest("disk-open-poisson", "disk {file} --rate 200/s --arrivals poisson --duration 12s --warm-up 1s"),
    honest("disk-write", "disk {new} --size 256MiB --write --write-through --duration 12s --warm-up 1s"),
    honest(
        "disk-mixed",
        "disk {new} --size 256MiB --read-percent 70% --write-through --duration 12s --warm-up 1s",
    ),
    honest("disk-fsync", "disk {new} --size 256MiB --write --fsync-every 1 --duration 12s --warm-up 1s"),
    honest("disk-goal", "disk {file} --duration 12s --warm-up 1s --goal 'read.p99 <= 1s'"),
    honest("disk-sweep", "disk {file} --vary outstanding=1,4,16 --duration 12s --warm-up 1s"),
    honest("disk-sizes", "disk {file} --vary block_size=4KiB,64KiB,1MiB --duration 12s --warm-up 1s"),
    honest("disk-steps", "disk {file} --threads 1 --steps 1,4,16 --duration 12s --warm-up 1s"),
    honest("null-open", "null --rate 500/s --duration 12s --warm-up 1s"),
    honest("copy", "copy generate:10GiB {new}"),
    honest("exec", "exec --repeat 30 -- true"),
    honest("exec-sleep", "exec --repeat 15 -- sleep 0.05"),
    honest("exec-shell", "exec --repeat 30 -- sh -c 'exit 0'"),
    honest("exec-goal", "exec --repeat 30 --goal 'response.p90 <= 5s' -- true"),
    honest_service(
        "http-lock",
        "--workers 64 --lock-ms 10 --keep-alive",
        "http {url} --concurrency 16 --duration 12s --warm-up 1s --watch process:planted",
    ),
    honest_service(
        "http-pool",
        "--workers 8 --sleep-ms 20",
        "http {url} --no-keep-alive --concurrency 32 --duration 12s --warm-up 1s --watch process:planted",
    ),
    honest_service(
        "http-cpu",
        "--workers 64 --single-thread-cpu-ms 5 --keep-alive",
        "http {url} --concurrency 16 --duration 12s --warm-up 1s --watch process:planted",
    ),
    honest_service(
        "http-open",
        "--workers 64 --sleep-ms 5 --keep-alive",
        "http {url} --rate 200/s --duration 12s --warm-up 1s",
    ),
    honest_service(
        "http-poisson",
        "--workers 64 --sleep-ms 5 --keep-alive",
        "http {url} --rate 100/s --arrivals poisson --duration 12s --warm-up 1s",
    ),
    honest_service(
        "http-goal",
        "--workers 64 --sleep-ms 5 --keep-alive",
        "http {url} --rate 100/s --duration 12s --warm-up 1s --goal 'get.p99 <= 1s'",
    ),
    honest_service(
        "http-few",
        "--workers 64 --sleep-ms 10 --keep-alive",
        "http {url} --concurrency 2 --duration 12s --warm-up 1s --watch process:planted",
    ),
    honest_service(
        "http-sweep",
        "--workers 16 --sleep-ms 10 --keep-alive",
        "http {url} --vary concurrency=1,4,8 --duration 12s --warm-up 1s --watch process:planted",
    ),
    honest_service(
        "http-reads",
        "--workers 4 --sleep-ms 4 --reads 2 --file {file} --keep-alive",
        "http {url} --concurrency 4 --duration 12s --warm-up 1s --watch process:planted",
    ),
    honest_service(
        "http-flushes",
        "--workers 2 --sleep-ms 4 --flushes 1 --file {file} --keep-alive",
        "http {url} --concurrency 2 --duration 12s --warm-up 1s --watch process:planted",
    ),
];

/// Doubts that say that a run was not what it seems. That throughput was not steady is none: a disk may be so.
const ALARMS: [&str; 8] =
    ["littles_law", "not_issued", "generator", "failures", "short", "damaged", "corrupted", "cut_short"];

/// Runs them; names choose.
pub(crate) fn run(repository: &Repository, arguments: &[String]) -> Result<Vec<Fault>, String> {
    let chosen = |case: &&Case| arguments.is_empty() || arguments.iter().any(|name| name == case.name);
    let program = plimsoll(repository)?;
    cargo(repository, &["build", "--release", "--locked", "-p", "plimsoll-testkit", "--bin", "planted"])?;
    let folder = Folder::new(repository, "lies")?;
    let data = Data::make(&folder.0)?;
    let mut faults = Vec::new();
    println!("{:<20} {:>5} {:>5}  {:<16} noticed", "case", "exit", "want", "verdict");
    let cases = LIES.iter().chain(HONEST).filter(chosen);
    for (at, case) in cases.enumerate() {
        let others = other_tasks();
        let seen = carry_out(&program, &folder.0, &data, case, at)?;
        let mut wrong = seen.wrong(case);
        // What the program says is then true of this machine.
        if !wrong.is_empty() && others >= 1.0 {
            wrong.push(format!("{others:.1} other tasks were ready to run: repeat it on a quiet machine"));
        }
        println!(
            "{:<20} {:>5} {:>5}  {:<16} {}{}",
            case.name,
            seen.exit,
            expected_codes(case.exit),
            seen.verdict,
            seen.noticed.join(" "),
            if wrong.is_empty() { String::new() } else { format!("   WRONG: {}", wrong.join("; ")) }
        );
        if !wrong.is_empty() {
            let help = format!("plimsoll {}: {}", case.command, seen.text);
            faults.push(Fault::new(case.name, wrong.join("; "), help));
        }
    }
    Ok(faults)
}

/// Tasks that are ready to run besides this one, on average over a quarter of a second.
fn other_tasks() -> f64 {
    const LOOKS: u32 = 25;
    let others = || {
        std::thread::sleep(std::time::Duration::from_millis(10));
        let text = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
        let running = text.split_whitespace().nth(3).and_then(|field| field.split('/').next());
        running.and_then(|count| count.parse::<u32>().ok()).unwrap_or(1).saturating_sub(1)
    };
    f64::from((0..LOOKS).map(|_| others()).sum::<u32>()) / f64::from(LOOKS)
}

/// Exit codes that are right: `0`, `0/98`.
fn expected_codes(codes: &[i32]) -> String {
    codes.iter().map(i32::to_string).collect::<Vec<_>>().join("/")
}

/// What came of a case.
struct CaseResult {
    exit: i32,
    verdict: String,
    /// Facts of the first trial.
    facts: Value,
    /// Kinds of doubts and signs of findings.
    noticed: Vec<String>,
    text: String,
}

impl CaseResult {
    /// What is not as it should be.
    fn wrong(&self, case: &Case) -> Vec<String> {
        let has = |name: &str| self.noticed.iter().any(|noticed| noticed == name);
        let mut wrong = Vec::new();
        if !case.exit.contains(&self.exit) {
            wrong.push(format!("exit code {} instead of {}", self.exit, expected_codes(case.exit)));
        }
        for noticed in case.noticed {
            match noticed {
                Verdict(wanted) if self.verdict != *wanted => wrong.push(format!("no verdict {wanted}")),
                Doubt(kind) if !has(kind) => wrong.push(format!("no doubt {kind}")),
                Sign(sign) if !has(sign) => wrong.push(format!("no finding {sign}")),
                NoDoubt(kind) if has(kind) => wrong.push(format!("false alarm {kind}")),
                Fact(name, text) if self.facts[*name]["text"] != *text => {
                    wrong.push(format!("{name} is {}, not {text}", self.facts[*name]));
                }
                Nothing => wrong.extend(
                    ALARMS.iter().filter(|alarm| has(alarm)).map(|alarm| format!("false alarm {alarm}")),
                ),
                _ => {}
            }
        }
        wrong
    }
}

/// The files that cases read.
struct Data {
    file: PathBuf,
    zero: PathBuf,
    sparse: PathBuf,
    memory: PathBuf,
}

impl Data {
    fn make(folder: &Path) -> Result<Data, String> {
        let data = Data {
            file: folder.join("random.dat"),
            zero: folder.join("zero.dat"),
            sparse: folder.join("sparse.dat"),
            memory: PathBuf::from(format!("/dev/shm/plimsoll-lies-{}.dat", std::process::id())),
        };
        let random = |path: &Path| format!("head -c 256M /dev/urandom > {}", path.display());
        for line in [
            random(&data.file),
            format!("head -c 256M /dev/zero > {}", data.zero.display()),
            format!("truncate -s 256M {}", data.sparse.display()),
            format!("head -c 64M /dev/urandom > {}", data.memory.display()),
            "sync".into(),
        ] {
            shell(&line)?;
        }
        Ok(data)
    }
}

impl Drop for Data {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.memory);
    }
}

/// Waits until something listens on a port.
fn wait_for(port: u16) -> Result<(), String> {
    for _ in 0..500 {
        if std::net::TcpStream::connect(("127.0.0.1", port)).is_ok() {
            return Ok(());
        }
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    Err(format!("planted does not listen on port {port}"))
}

fn shell(line: &str) -> Result<(), String> {
    let status = Command::new("sh").args(["-c", line]).status();
    match status {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("{line}: {status}")),
        Err(error) => Err(format!("{line}: {error}")),
    }
}

/// A control group that is removed with its case.
struct Group(PathBuf);

impl Group {
    /// A group with a file set in it, in the hierarchy of a controller; on a host with one hierarchy for all, there.
    fn new(controller: &str, settings: [(&str, String); 2]) -> Result<Group, String> {
        let old = Path::new("/sys/fs/cgroup").join(controller);
        let (parent, (file, text)) = match (old.is_dir(), settings) {
            (true, [v1, _]) => (old, v1),
            (false, [_, v2]) => (PathBuf::from("/sys/fs/cgroup"), v2),
        };
        let group = Group(parent.join(format!("plimsoll-lies-{}", std::process::id())));
        std::fs::create_dir_all(&group.0).map_err(|error| format!("{}: {error}", group.0.display()))?;
        let path = group.0.join(file);
        std::fs::write(&path, text).map_err(|error| format!("{}: {error}", path.display()))?;
        Ok(group)
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir(&self.0);
    }
}

/// The number of the device that a file is on, as `MAJOR:MINOR`, of the whole disk.
fn device_of(path: &Path) -> Result<String, String> {
    let line = format!("lsblk -no MAJ:MIN $(findmnt -no SOURCE -T {}) | head -1", path.display());
    let output = Command::new("sh").args(["-c", &line]).output().map_err(|error| error.to_string())?;
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_string())
}

fn carry_out(
    program: &Path,
    folder: &Path,
    data: &Data,
    case: &Case,
    at: usize,
) -> Result<CaseResult, String> {
    let port = TcpListener::bind("127.0.0.1:0")
        .and_then(|listener| listener.local_addr())
        .map_err(|error| error.to_string())?
        .port();
    let fill = |text: &str| {
        text.replace("{file}", &data.file.display().to_string())
            .replace("{zero}", &data.zero.display().to_string())
            .replace("{sparse}", &data.sparse.display().to_string())
            .replace("{memory}", &data.memory.display().to_string())
            .replace(
                "{crowd}",
                &(4 * std::thread::available_parallelism().map_or(2, usize::from)).to_string(),
            )
            .replace("{new}", &folder.join(format!("new-{at}.dat")).display().to_string())
            .replace("{url}", &format!("http://127.0.0.1:{port}/"))
    };
    let mut ended = Vec::new();
    if let Some(service) = case.service {
        let mut command = Command::new(program.with_file_name("planted"));
        command.args(["--listen", &format!("127.0.0.1:{port}")]).args(fill(service).split(' '));
        command.stdout(Stdio::null());
        ended.push(Ended(command.spawn().map_err(|error| format!("planted: {error}"))?));
        wait_for(port)?;
    }
    let group = match case.place {
        CpuQuota(percent) => Some(Group::new(
            "cpu",
            [
                ("cpu.cfs_quota_us", (1000 * percent).to_string()),
                ("cpu.max", format!("{} 100000", 1000 * percent)),
            ],
        )?),
        Reads(per_s) => {
            let device = device_of(folder)?;
            Some(Group::new(
                "blkio",
                [
                    ("blkio.throttle.read_iops_device", format!("{device} {per_s}")),
                    ("io.max", format!("{device} riops={per_s}")),
                ],
            )?)
        }
        Spinners(count) => {
            for _ in 0..count {
                let spin = Command::new("sh").args(["-c", "while :; do :; done"]).spawn();
                ended.push(Ended(spin.map_err(|error| error.to_string())?));
            }
            None
        }
        LateSpinners(count, after_s) => {
            for _ in 0..count {
                let line = format!("sleep {after_s}; while :; do :; done");
                let spin = Command::new("sh").args(["-c", &line]).spawn();
                ended.push(Ended(spin.map_err(|error| error.to_string())?));
            }
            None
        }
        Cached => {
            shell(&format!("cat {} > /dev/null", data.file.display()))?;
            None
        }
        Quiet | Interrupted(_) => None,
    };
    let run = folder.join(format!("run-{}", case.name));
    let (before, after) = match fill(case.command).split_once(" -- ") {
        Some((before, after)) => (before.to_string(), format!(" -- {after}")),
        None => (fill(case.command), String::new()),
    };
    let line = format!("{} {before} --json --quiet --run-dir {}{after}", program.display(), run.display());
    let entered = match (&group, case.place) {
        (Some(group), _) => format!("echo $$ > {}/cgroup.procs && {line}", group.0.display()),
        (None, Interrupted(after_ms)) => {
            format!("timeout --preserve-status -s INT {} {line}", f64::from(after_ms) / 1e3)
        }
        (None, _) => line,
    };
    let output = Command::new("sh").args(["-c", &entered]).output().map_err(|error| error.to_string())?;
    drop(ended);
    drop(group);
    let document = String::from_utf8_lossy(&output.stdout);
    let begin = document.find("{\n").unwrap_or(document.len());
    let document: Value = serde_json::from_str(&document[begin..]).unwrap_or(Value::Null);
    let _ = std::fs::remove_dir_all(&run);
    let trials = document["trials"].as_array().into_iter().flatten();
    let doubts = trials.flat_map(|trial| trial["doubts"].as_array().into_iter().flatten());
    let doubts = doubts.chain(document["doubts"].as_array().into_iter().flatten());
    let kinds = doubts.filter_map(|doubt| doubt["kind"].as_str());
    let findings = document["findings"].as_array().into_iter().flatten();
    let signs = findings.filter(|finding| finding["kind"] != "ruled_out");
    let signs = signs.filter_map(|finding| finding["claim"]["sign"].as_str());
    let mut noticed: Vec<String> = kinds.chain(signs).map(str::to_string).collect();
    noticed.sort();
    noticed.dedup();
    let text = match document["verdict"]["text"].as_str() {
        Some(text) => text.to_string(),
        None => String::from_utf8_lossy(&output.stderr).into_owned(),
    };
    let exit = output.status.code().unwrap_or(-1);
    let facts = document["trials"][0]["facts"].clone();
    Ok(CaseResult { exit, verdict: label(&document["verdict"]), facts, noticed, text })
}
