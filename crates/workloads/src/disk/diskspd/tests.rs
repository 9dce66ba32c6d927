use engine::workload::WorkloadKind;
use hdrhistogram::Histogram;
use model::Shape;

use super::super::KIND;
use super::*;

/// Files that exist, by name.
fn size_of(path: &str) -> Option<u64> {
    match path {
        "a.dat" => Some(64 << 20),
        "b.dat" => Some(16 << 20),
        "odd.dat" => Some((1 << 20) + 1000),
        "tiny.dat" => Some(1000),
        "/dev/sdb" => Some(1 << 40),
        _ => None,
    }
}

fn words(line: &str) -> Vec<String> {
    line.split_whitespace().map(str::to_string).collect()
}

fn read(line: &str) -> DiskspdRun {
    parse(&words(line), &size_of).unwrap_or_else(|problems| panic!("{line}: {problems}"))
}

/// The jobs of a command line, after the settings that all have, which must fit together.
fn settings_of(line: &str) -> (Settings, Vec<String>) {
    let settings = read(line).settings();
    if let Err(problems) = KIND.configure(&settings).map(|_| ()) {
        panic!("{line}: {problems}");
    }
    let jobs = settings.get(&settings::JOBS);
    (settings, jobs)
}

#[test]
fn keys_become_settings() {
    for (line, expected) in [
        // Those of diskspd where nothing is said.
        (
            "a.dat",
            &[
                ("block_size", "64KiB"),
                ("outstanding", "2"),
                ("access", "sequential"),
                ("read_percent", "100%"),
                ("cache", "page-cache"),
                ("write_through", "false"),
                ("keep", "true"),
            ][..],
        ),
        (
            "-b4K -o32 -t4 -r -w30 -Sh -L a.dat",
            &[
                ("block_size", "4KiB"),
                ("outstanding", "32"),
                ("access", "random"),
                ("read_percent", "70%"),
                ("cache", "direct"),
                ("write_through", "true"),
            ],
        ),
        ("-h -w100 a.dat", &[("cache", "direct"), ("write_through", "true"), ("read_percent", "0%")]),
        ("-S a.dat", &[("cache", "direct"), ("write_through", "false")]),
        ("-Su a.dat", &[("cache", "direct")]),
        ("-Sb -Sw -w50 a.dat", &[("cache", "page-cache"), ("write_through", "true")]),
        ("-Suw -w50 a.dat", &[("cache", "direct"), ("write_through", "true")]),
        // Nothing is written.
        ("-Sw a.dat", &[("write_through", "false")]),
        ("-r4K -b64K a.dat", &[("align", "4KiB"), ("block_size", "64KiB")]),
        // A size in blocks counts the block that is stated behind it.
        ("-r2b -b4K a.dat", &[("align", "8KiB")]),
        ("-rs100 a.dat", &[("access", "random")]),
        ("-s256K a.dat", &[("stride", "256KiB"), ("access", "sequential")]),
        ("-s4b -b8k a.dat", &[("stride", "32KiB")]),
        ("-si -t4 a.dat", &[("stride", "256KiB")]),
        ("-Z -w100 a.dat", &[("compressible", "100%")]),
        ("-Zr -w100 -Z1M a.dat", &[("compressible", "0%")]),
        ("-F1 -O8 a.dat", &[("outstanding", "8")]),
    ] {
        let (settings, _) = settings_of(line);
        for (name, value) in expected {
            let level = settings.level(name).map(|level| level.to_string());
            assert_eq!(level.as_deref(), Some(*value), "{line}: {name}");
        }
    }
}

#[test]
fn each_thread_of_each_target_is_a_job() {
    for (line, expected) in [
        ("a.dat", &["thread0: files=a.dat; size=64MiB"][..]),
        ("-t2 -r a.dat", &["thread0: files=a.dat; size=64MiB", "thread1: files=a.dat; size=64MiB"]),
        (
            "-t2 a.dat b.dat",
            &[
                "thread0-file0: files=a.dat; size=64MiB",
                "thread1-file0: files=a.dat; size=64MiB",
                "thread2-file1: files=b.dat; size=16MiB",
                "thread3-file1: files=b.dat; size=16MiB",
            ],
        ),
        (
            "-F2 a.dat b.dat",
            &[
                "thread0-file0: files=a.dat; size=64MiB",
                "thread0-file1: files=b.dat; size=16MiB",
                "thread1-file0: files=a.dat; size=64MiB",
                "thread1-file1: files=b.dat; size=16MiB",
            ],
        ),
        ("-c8M -f4M new.dat", &["thread0: files=new.dat; size=4MiB"]),
        ("-B1M:2M a.dat", &["thread0: files=a.dat; size=2MiB; offset=1MiB"]),
        ("-B4b -b1M -f32M a.dat", &["thread0: files=a.dat; size=28MiB; offset=4MiB"]),
        // The end of the file comes before the end of the range.
        ("-f1T a.dat", &["thread0: files=a.dat; size=64MiB"]),
        (
            "-T16M -t2 a.dat",
            &["thread0: files=a.dat; size=64MiB", "thread1: files=a.dat; size=48MiB; offset=16MiB"],
        ),
        (
            "-si -t2 b.dat",
            &["thread0: files=b.dat; size=16MiB", "thread1: files=b.dat; size=16320KiB; offset=64KiB"],
        ),
        ("-g100i a.dat", &["thread0: files=a.dat; size=64MiB; rate=100/s"]),
        ("-g8192 -b8K a.dat", &["thread0: files=a.dat; size=64MiB; rate=1000/s"]),
        ("-i1 -j10 -o1 a.dat", &["thread0: files=a.dat; size=64MiB; think=10ms"]),
        (
            "-r -rdpct90/10:0/10:5/20 a.dat",
            &[
                "thread0: files=a.dat; size=64MiB; distribution=zones 90% in 10%, 0% in 10%, 5% in 20%, 5% in 60%",
            ],
        ),
        (
            "-r -rdpct100/25 a.dat",
            &["thread0: files=a.dat; size=64MiB; distribution=zones 100% in 25%, 0% in 75%"],
        ),
        (
            "-r -rdabs75/16M:25/16M a.dat",
            &["thread0: files=a.dat; size=64MiB; distribution=zones 75% in 25%, 25% in 25%, 0% in 50%"],
        ),
        // What is smaller than the ranges has the first of them.
        (
            "-r -rdabs60/8M:20/8M:20/1G a.dat b.dat",
            &[
                "thread0-file0: files=a.dat; size=64MiB; distribution=zones 60% in 12.5%, 20% in 12.5%, 20% in 75%",
                "thread1-file1: files=b.dat; size=16MiB; distribution=zones 75% in 50%, 25% in 50%",
            ],
        ),
    ] {
        assert_eq!(settings_of(line).1, expected, "{line}");
    }
}

#[test]
fn the_load_has_the_times_of_the_command_line() {
    for (line, warm_up_s, measure_s, interval_ms, in_flight) in [
        ("a.dat", 5, 10, None, 2),
        ("-W0 -d60 -t4 -o8 a.dat", 0, 60, None, 32),
        ("-D -W1 a.dat b.dat", 1, 10, Some(1000), 4),
        ("-D250 a.dat", 5, 10, Some(250), 2),
    ] {
        let run = read(line);
        let load = Load::read(&run.load()).unwrap();
        assert_eq!(load.warm_up, model::WarmUp::For(warm_up_s * SECOND), "{line}");
        assert_eq!(load.measure, Some(measure_s * SECOND), "{line}");
        if let Some(ms) = interval_ms {
            assert_eq!(load.interval, ms * SECOND / 1000, "{line}");
        }
        let workload = KIND.configure(&run.settings()).unwrap();
        assert_eq!(workload.default_shape(), Shape::closed(in_flight), "{line}");
    }
    assert_eq!((read("a.dat").seed, read("-z7 a.dat").seed), (0, 7));
}

#[test]
fn what_is_refused_says_why_and_what_to_do() {
    for (line, what, help) in [
        ("-b4X a.dat", "`-b4X`: `4X` is not a size", "or a number with K, M, G, T or b"),
        ("-b0 a.dat", "`-b0`: a block has 1 byte to 64M", "-b64K"),
        ("-d0 a.dat", "`-d0`: `0` is not a whole number from 1 to 10000000", ""),
        ("-w a.dat", "`-w`: a whole number from 0 to 100 is missing", ""),
        ("-w130 a.dat", "`-w130`: `130` is not a whole number from 0 to 100", ""),
        ("-o0 a.dat", "`-o0`", ""),
        ("-D10 a.dat", "`-D10`: intervals of 10 ms are not recorded", "-D50 to -D60000"),
        ("-fx a.dat", "`-fx`: neither a size nor hints", "hints of r, s and t"),
        ("-r0 a.dat", "`-r0`: blocks cannot be aligned to 0 bytes", "-r4K"),
        ("-r -r4K a.dat", "`-r4K`: -r is stated twice", "keep one"),
        ("-r -s a.dat", "-r and -s contradict each other", "keep one"),
        ("-rs50 a.dat", "`-rs50`: a mix of random and sequential operations in one stream", "`jobs`"),
        ("-rdpct90 -r a.dat", "`-rdpct90`: `90` has no `/`", "-rdpct90/10"),
        ("-rdpct50/100 -r a.dat", "the whole target has only 50 % of the operations", ""),
        ("-rdpct90/60:10/60 -r a.dat", "the shares are more than 100 %", ""),
        ("-rdabs90/1 -r a.dat", "the range `90/1` is smaller than one block", ""),
        ("-rdnorm -r a.dat", "`norm` is neither pct nor abs", ""),
        ("-rdpct90/10 a.dat", "-rd has no meaning for sequential access", "add -r"),
        (
            "-rdabs0/1G:100/1G -r a.dat",
            "-rdabs: `a.dat` ends before the first range that has operations",
            "(-c)",
        ),
        ("-s1K a.dat", "`-s1K`: a distance of 1024 bytes is shorter than the block", "write -s"),
        ("-T1M a.dat", "-T has no effect: one thread uses each target", "-t2"),
        ("-T1M -r -t2 a.dat", "-T has no meaning for random access", "remove -T or -r"),
        ("-si -T1M -t2 a.dat", "-si and -T contradict each other", ""),
        (
            "-T100M -t2 a.dat",
            "`a.dat`: there is no block of 65536 bytes from byte 104857600 on",
            "(-B, -f, -T)",
        ),
        ("-F2 -t2 a.dat", "-F and -t contradict each other", ""),
        ("-O4 a.dat", "-O counts operations of a thread that -F starts, and -F is missing", "write -o"),
        ("-F2 -O4 a.dat b.dat", "-O over several targets is not supported", "write -o"),
        ("-F2 -O4 -g10i a.dat", "-O contradicts -g and -j", ""),
        ("-i5 a.dat", "-i and -j belong together", "-i1 -j10"),
        ("-i5 -j10 a.dat", "bursts of several operations are not supported", "-g<n>i"),
        ("-i1 -j10 -o1 -g5i a.dat", "-g and -j contradict each other", ""),
        ("-g5x a.dat", "`-g5x`", ""),
        ("-B2M -f1M a.dat", "the range ends at or before its base", "make -f larger than -B"),
        ("-B1M:1M -f5M a.dat", "`-f5M`: the end of the range is stated twice", "keep one of -f and -B"),
        ("-B1M -B2M a.dat", "`-B2M`: the base is stated twice", ""),
        ("-Su -Sb a.dat", "`-Sb`: the cache is stated twice", ""),
        ("-Sh -Sw a.dat", "`-Sw`: writing through is stated twice", ""),
        ("-Sq a.dat", "`-Sq`: -S has no letter `q`", ""),
        ("-Sm a.dat", "`-Sm`: memory-mapped I/O is not supported", ""),
        ("-Sr a.dat", "`-Sr`: disabling only the local cache of a remote file is not supported", "mount"),
        ("-Nv a.dat", "`-Nv`: flushing of memory-mapped files is not supported", "-Sw"),
        ("-b1000 -Su a.dat", "-b of 1000 bytes: unbuffered I/O", "round it"),
        ("-B100 -Su a.dat", "-B of 100 bytes: unbuffered I/O", "round it"),
        ("-a0,1 a.dat", "`-a0,1`: binding threads to CPUs is not supported", "`taskset -c 0,1 plimsoll"),
        ("-ePROCESS a.dat", "`-ePROCESS`: event tracing of Windows (ETW)", "`plimsoll show`"),
        ("-I1 a.dat", "`-I1`: the I/O priority is not supported", "`ionice -c 3 plimsoll"),
        ("-I9 a.dat", "`-I9`: the I/O priority is 1, 2 or 3", ""),
        ("-p a.dat", "`-p`: starting the operations of a thread at the same offset", ""),
        ("-ysstart a.dat", "`-ysstart`: an event of Windows is not supported", ""),
        ("-Xp.xml", "`-Xp.xml`: an XML profile is not supported", "`jobs`"),
        ("-R a.dat", "`-R`: `` is not an output format", "-Rtext or -Rxml"),
        ("-Z64K,f a.dat", "`-Z64K,f`: writing the data of a file is not supported", ""),
        ("-Z1K a.dat", "`-Z1K`: the buffer is smaller than one block", ""),
        ("-? a.dat", "`-?`", "-rd -rs"),
        ("-q a.dat", "`-q`: diskspd has no key `-q`", "its keys are -a -b"),
        ("--json a.dat", "`--json`: a flag of Plimsoll is not read here", "in front of --diskspd"),
        ("-b4K", "no file to read or write", "name one at the end"),
        ("new.dat", "`new.dat` is no file or block device that exists", "-c1G"),
        ("tiny.dat", "`tiny.dat`: there is no block of 65536 bytes", ""),
        ("a.dat a.dat", "`a.dat` is named twice", ""),
        ("C:\\data\\x.dat", "`C:\\data\\x.dat` is a path of Windows", "/data/testfile.dat"),
        ("\\\\.\\PhysicalDrive1", "is a disk of Windows", "/dev/sdb"),
        ("#1", "`#1` is a disk of Windows", "`lsblk`"),
        ("*1", "`*1` is a target of an XML profile", "/dev/sdb"),
        ("-t61 a.dat", "61 threads on targets are too many: the figures of at most 60", "(-o)"),
        ("-t46 -w50 a.dat", "46 threads on targets are too many: the figures of at most 45", "(-o)"),
        ("-t2\u{2013}o8 a.dat", "`-t2\u{2013}o8`", "it contains an en dash (U+2013)"),
    ] {
        let problems = parse(&words(line), &size_of).map(|_| ()).unwrap_err();
        let found = problems.0.iter().find(|problem| problem.what.contains(what));
        let Some(found) = found else { panic!("{line}: {what}\nis not in\n{problems}") };
        assert!(found.help.contains(help), "{line}: {help}\nis not in\n{}", found.help);
    }
}

#[test]
fn all_problems_are_reported_at_once() {
    let line = "-b4Q -w101 -a1 -e -Xp -r -s -i3 C:\\x #2 new.dat";
    let problems = parse(&words(line), &size_of).map(|_| ()).unwrap_err();
    assert_eq!(problems.0.len(), 10, "{problems}");
}

#[test]
fn what_is_not_the_same_here_is_said() {
    for (line, expected) in [
        ("-r -n -I3 -L -v a.dat", &[][..]),
        ("-a a.dat", &["-a: threads are not bound to CPUs"]),
        (
            "-ag -l -x -P1000 -:1 -vs -frs -C5 a.dat",
            &["-ag: ", "-l ", "-x ", "-P1000 ", "-:1 ", "-vs: ", "-frs ", "-C5 "],
        ),
        ("-t2 a.dat", &["each thread reads or writes each target from its start on"]),
        ("-t2 -si a.dat", &["-si: the threads take the blocks in turn"]),
        ("-si a.dat", &["-si has no effect"]),
        ("-t2 -T8M a.dat", &["-T: a thread at the end of the target"]),
        ("-s1M a.dat", &["-s: each further pass"]),
        ("-r -g10i a.dat", &["-g: operations begin on schedule"]),
        ("-r -F2 a.dat b.dat", &["-F: each thread and target"]),
        ("-r -w100 -Z1M a.dat", &["-Z1M: each write has new random data"]),
        ("-c1M a.dat", &["`a.dat` exists with 64MiB: its first 1MiB are used"]),
        ("-c1M new.dat", &[]),
    ] {
        let notes = read(line).notes;
        assert_eq!(notes.len(), expected.len(), "{line}: {notes:?}");
        for (note, begin) in notes.iter().zip(expected) {
            assert!(note.starts_with(begin), "{line}: {note}");
        }
    }
}

#[test]
fn a_command_line_is_read_as_it_stands_in_a_mail() {
    let typed: Vec<String> =
        ["\u{2013}b4K\u{a0}\u{2013}d10", "\u{2212}Sh", "\u{2014}r", "\u{201c}a.dat\u{201d}"]
            .map(String::from)
            .into();
    let run = parse(&typed, &size_of).unwrap();
    assert_eq!((run.block_bytes, run.seconds, run.unbuffered), (4096, 10, true));
    assert_eq!(run.access, DiskspdAccess::Random { align: 4096 });
    assert_eq!(run.targets[0].path, "a.dat");
}

/// What is looked at before the clock starts, such as a cache below the file system, is looked at once for like jobs.
#[test]
fn threads_that_do_the_same_are_copies() {
    for (line, expected) in [
        ("-r -t3 a.dat", vec![false, true, true]),
        ("-r -F2 a.dat b.dat", vec![false, false, true, true]),
        ("-T1M -t3 a.dat", vec![false, false, false]),
    ] {
        let jobs = jobs::read(&read(line).settings()).unwrap();
        assert_eq!(jobs.iter().map(|job| job.plan.is_copy).collect::<Vec<_>>(), expected, "{line}");
    }
}

#[test]
fn the_most_streams_are_accepted() {
    for line in [
        "-t60 -r a.dat",
        "-t45 -w50 -r a.dat",
        "-F15 -w50 -r a.dat b.dat /dev/sdb",
        "-F20 a.dat b.dat /dev/sdb",
    ] {
        let (_, jobs) = settings_of(line);
        assert!(jobs.len() >= 45, "{line}");
    }
}

/// Two threads; the first reads and writes, the second only reads.
fn numbers(streams: usize) -> DiskspdNumbers {
    let transfers = |latencies_us: &[(u64, u64)], rates: &[f64]| {
        let mut latency_ns = Histogram::<u64>::new(3).unwrap();
        for (count, us) in latencies_us {
            latency_ns.record_n(us * 1000, *count).unwrap();
        }
        let operations = latency_ns.len();
        Transfers { operations, bytes: operations * 4096, latency_ns, rates_per_s: rates.to_vec() }
    };
    let first = StreamNumbers {
        read: transfers(&[(90, 100), (10, 2000)], &[60.0, 40.0]),
        write: transfers(&[(50, 500)], &[20.0, 30.0]),
    };
    let second = StreamNumbers { read: transfers(&[(100, 100)], &[50.0, 50.0]), ..Default::default() };
    DiskspdNumbers {
        host: "server1".into(),
        start: "2026/11/21 19:30:05 UTC".into(),
        cpu_count: 2,
        seconds: 2.0,
        cpus: vec![
            CpuUse { number: 0, user: 10.0, kernel: 20.5, idle: 69.5 },
            CpuUse { number: 1, user: 100.0, kernel: 0.0, idle: 0.0 },
        ],
        streams: [first, second].into_iter().cycle().take(streams).collect(),
    }
}

#[test]
fn the_report_has_diskspds_layout() {
    let run = read("-b4K -d2 -W0 -o4 -t2 -r -w30 -Sh -L -D1000 b.dat");
    let expected = "
Command Line: plimsoll disk --diskspd -b4K -d2 -W0 -o4 -t2 -r -w30 -Sh -L -D1000 b.dat

Input parameters:

\ttimespan:   1
\t-------------
\tduration: 2s
\twarm up time: 0s
\tcool down time: 0s
\taffinity disabled
\tmeasuring latency
\tgathering IOPS at intervals of 1000ms
\trandom seed: 0
\tpath: 'b.dat'
\t\tthink time: 0ms
\t\tburst size: 0
\t\tsoftware cache disabled
\t\thardware write cache disabled, writethrough on
\t\tperforming mix test (read/write ratio: 70/30)
\t\tblock size: 4KiB
\t\tusing random I/O (alignment: 4KiB)
\t\tnumber of outstanding I/O operations per thread: 4
\t\tthreads per file: 2
\t\tIO priority: normal

System information:

\tcomputer name: server1
\tstart time: 2026/11/21 19:30:05 UTC

\tcpu count:\t\t2

Results for timespan 1:
*******************************************************************************

actual test time:\t2.00s
thread count:\t\t2
proc count:\t\t2

CPU |  Usage |  User  | Kernel |  Idle
----------------------------------------
   0|  30.50%|  10.00%|  20.50%|  69.50%
   1| 100.00%| 100.00%|   0.00%|   0.00%
----------------------------------------
avg.|  65.25%|  55.00%|  10.25%|  34.75%

Total IO
thread |       bytes     |     I/Os     |    MiB/s   |  I/O per s |  AvgLat  | IopsStdDev | LatStdDev |  file
------------------------------------------------------------------------------------------------------------------
     0 |          614400 |          150 |       0.29 |      75.00 |    0.360 |       5.00 |     0.476 | b.dat (16MiB)
     1 |          409600 |          100 |       0.20 |      50.00 |    0.100 |       0.00 |     0.000 | b.dat (16MiB)
------------------------------------------------------------------------------------------------------------------
total:           1024000 |          250 |       0.49 |     125.00 |    0.256 |       5.00 |     0.390

Read IO
thread |       bytes     |     I/Os     |    MiB/s   |  I/O per s |  AvgLat  | IopsStdDev | LatStdDev |  file
------------------------------------------------------------------------------------------------------------------
     0 |          409600 |          100 |       0.20 |      50.00 |    0.290 |      10.00 |     0.570 | b.dat (16MiB)
     1 |          409600 |          100 |       0.20 |      50.00 |    0.100 |       0.00 |     0.000 | b.dat (16MiB)
------------------------------------------------------------------------------------------------------------------
total:            819200 |          200 |       0.39 |     100.00 |    0.195 |      10.00 |     0.414

Write IO
thread |       bytes     |     I/Os     |    MiB/s   |  I/O per s |  AvgLat  | IopsStdDev | LatStdDev |  file
------------------------------------------------------------------------------------------------------------------
     0 |          204800 |           50 |       0.10 |      25.00 |    0.500 |       5.00 |     0.000 | b.dat (16MiB)
     1 |               0 |            0 |       0.00 |       0.00 |    0.000 |       0.00 |       N/A | b.dat (16MiB)
------------------------------------------------------------------------------------------------------------------
total:            204800 |           50 |       0.10 |      25.00 |    0.500 |       5.00 |     0.000

Total latency distribution:
  %-ile |  Read (ms) | Write (ms) | Total (ms)
----------------------------------------------
    min |      0.100 |      0.500 |      0.100
   25th |      0.100 |      0.500 |      0.100
   50th |      0.100 |      0.500 |      0.100
   75th |      0.100 |      0.500 |      0.100
   90th |      0.100 |      0.500 |      0.500
   95th |      0.100 |      0.500 |      0.500
   99th |      2.001 |      0.500 |      2.001
3-nines |      2.001 |      0.500 |      2.001
4-nines |      2.001 |      0.500 |      2.001
5-nines |      2.001 |      0.500 |      2.001
6-nines |      2.001 |      0.500 |      2.001
7-nines |      2.001 |      0.500 |      2.001
8-nines |      2.001 |      0.500 |      2.001
9-nines |      2.001 |      0.500 |      2.001
    max |      2.001 |      0.500 |      2.001
";
    assert_eq!(report(&run, &numbers(2)), expected);
}

#[test]
fn the_columns_follow_the_command_line() {
    let text = report(&read("-t2 -r b.dat"), &numbers(2));
    assert!(
        text.contains("\nthread |       bytes     |     I/Os     |    MiB/s   |  I/O per s |  file\n"),
        "{text}"
    );
    assert!(text.contains(&format!("\n{}\n", "-".repeat(78))) && !text.contains("%-ile"), "{text}");
    let text = report(&read("-F1 -L -r -c1536K a.dat odd.dat"), &numbers(2));
    for line in [
        "\tthread pool with 1 threads",
        "Latency distribution: a.dat",
        "Latency distribution: odd.dat",
        "Total latency distribution:",
        "     0 |          614400 |          150 |       0.29 |      75.00 |    0.360 |     0.476 | a.dat (1.50MiB)",
    ] {
        assert!(text.lines().any(|found| found == line), "{line}\n{text}");
    }
    let nothing = DiskspdNumbers { cpus: Vec::new(), seconds: 1.0, ..numbers(2) };
    assert!(report(&read("-t2 -r b.dat"), &nothing).contains("\navg.|    NaN%|"), "CPUs that were not read");
    let never = DiskspdNumbers { seconds: 0.0, ..numbers(2) };
    assert!(!report(&read("b.dat"), &never).contains("Total IO"));
}

/// The elements of a document with their text, as `Results/TimeSpan/ThreadCount=2`. Panics where an element is not closed.
fn elements(xml: &str) -> Vec<String> {
    let (mut open, mut found) = (Vec::new(), Vec::new());
    for line in xml.lines().map(str::trim) {
        let tag = line.strip_prefix('<').unwrap_or_else(|| panic!("`{line}`"));
        let (tag, text) = tag.split_once('>').unwrap();
        let name = tag.split(' ').next().unwrap();
        match (name.strip_prefix('/'), text.strip_suffix(&format!("</{name}>"))) {
            (Some(name), _) => assert_eq!(open.pop(), Some(name), "{line}"),
            (None, Some(text)) => found.push(format!("{}/{tag}={text}", open.join("/"))),
            (None, None) if tag.ends_with('/') => found.push(format!("{}/{tag}", open.join("/"))),
            (None, None) => open.push(name),
        }
    }
    assert!(open.is_empty(), "{open:?}");
    found
}

#[test]
fn the_xml_has_diskspds_elements() {
    let run = read("-b4K -t2 -r -rdpct90/10 -w30 -Suw -L -D500 -g100i -Rxml b.dat");
    let xml = report(&run, &numbers(2));
    assert!(xml.starts_with("<Results>\n"), "{xml}");
    let found = elements(&xml);
    let in_profile = "Results/Profile/TimeSpans/TimeSpan/";
    for expected in [
        "Results/System/ComputerName=server1".to_string(),
        format!("{in_profile}MeasureLatency=true"),
        format!("{in_profile}Targets/Target/Random=4096"),
        format!("{in_profile}Targets/Target/Distribution/Percent/Range IO=\"90\"=10"),
        format!("{in_profile}Targets/Target/Throughput unit=\"IOPS\"=100"),
        format!("{in_profile}Targets/Target/WriteRatio=30"),
        "Results/TimeSpan/TestTimeSeconds=2.00".into(),
        "Results/TimeSpan/ProcCount=2".into(),
        "Results/TimeSpan/CpuUtilization/Average/UsagePercent=65.25".into(),
        "Results/TimeSpan/Latency/AverageTotalMilliseconds=0.256".into(),
        "Results/TimeSpan/Latency/Bucket/Percentile=99.9999999".into(),
        "Results/TimeSpan/Iops/IopsStdDev=5.000".into(),
        "Results/TimeSpan/Iops/Bucket SampleMillisecond=\"500\" Read=\"110\" Write=\"20\" Total=\"130\"/"
            .into(),
        "Results/TimeSpan/Thread/Id=1".into(),
        "Results/TimeSpan/Thread/Target/FileSize=16777216".into(),
        "Results/TimeSpan/Thread/Target/AverageReadLatencyMilliseconds=0.290".into(),
    ] {
        assert!(found.contains(&expected), "{expected}\n{xml}");
    }
    let sum = |name: &str| -> u64 {
        let name = format!("Results/TimeSpan/Thread/Target/{name}=");
        found.iter().filter_map(|element| element.strip_prefix(&name)?.parse::<u64>().ok()).sum()
    };
    assert_eq!(
        (sum("IOCount"), sum("ReadCount"), sum("WriteCount"), sum("WriteBytes")),
        (250, 200, 50, 204_800)
    );
    assert_eq!(found.iter().filter(|element| element.contains("/Bucket/Percentile=")).count(), 108);
    // A pool of threads has all files in each.
    let pool = elements(&report(&read("-F2 -Rxml a.dat b.dat"), &numbers(4)));
    assert_eq!(pool.iter().filter(|element| element.contains("TimeSpan/Thread/Id=")).count(), 2);
    assert_eq!(pool.iter().filter(|element| element.contains("TimeSpan/Thread/Target/Path=")).count(), 4);
    let odd = elements(&profile(&read("-Rpxml a&<b>.dat")));
    assert!(odd.iter().any(|element| element.ends_with("Target/Path=a&amp;&lt;b&gt;.dat")), "{odd:?}");
    let never = DiskspdNumbers { seconds: 0.0, ..numbers(2) };
    assert!(elements(&report(&run, &never)).iter().any(|element| element.contains("TimeSpan/Error=")));
}

proptest::proptest! {
    #[test]
    fn what_is_accepted_fits_together(
        keys in proptest::collection::vec(
            "-(b[1-9]{1,5}K?|[BTf][0-9]{1,6}[Kb]?|r[0-9]{0,4}K?|s[i]?[0-9]{0,7}|t[1-9]|F[1-9]|[oO][1-9]{1,2}|w[0-9]{1,2}|S[uwhb]?|g[0-9]{1,5}i?|[ij]1|rdpct[0-9]{1,2}/[0-9]{1,2}|rdabs[0-9]{1,2}/[0-9]{1,2}M|Z[r]?|[LnD]|c[0-9]{1,4}[KM])",
            0..6,
        ),
        word in proptest::option::weighted(0.1, ".{0,6}"),
        targets in 1_usize..4,
    ) {
        let files = ["a.dat", "odd.dat", "tiny.dat"];
        let mut arguments = keys;
        arguments.extend(word);
        arguments.extend(files[..targets].iter().map(ToString::to_string));
        if let Ok(run) = parse(&arguments, &size_of) {
            let configured = KIND.configure(&run.settings()).map(|_| ());
            assert!(configured.is_ok(), "{arguments:?}: {}", configured.unwrap_err());
            assert!(Load::read(&run.load()).is_ok(), "{arguments:?}");
            assert!(report(&run, &DiskspdNumbers::default()).to_lowercase().contains("timespan"));
        }
    }
}
