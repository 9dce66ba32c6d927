use hdrhistogram::Histogram;
use model::{SECOND, Shape};

use super::super::KIND;
use super::*;
use engine::workload::WorkloadKind;

fn words(line: &str) -> Vec<String> {
    line.split_whitespace().map(str::to_string).collect()
}

fn no_file(_: &str) -> io::Result<String> {
    Err(io::Error::from(io::ErrorKind::NotFound))
}

fn param(text: &'static str) -> impl Fn(&str) -> io::Result<String> {
    move |_| Ok(text.to_string())
}

#[test]
fn a_command_line_becomes_a_disk_load() {
    let run = parse(
        &words("-kW -t4 -s120 -o8 -frandom -b8 -BH -LS -Fparam.txt"),
        &param("# disk\n/data/t.dat 2 0x0 100\n"),
    )
    .unwrap();
    let settings = run.settings();
    for (name, expected) in [
        ("files", "/data/t.dat"),
        ("size", "100MiB"),
        ("access", "random"),
        ("read_percent", "0%"),
        ("block_size", "8KiB"),
        // Not the -t4 of the command line: the parameter file decides.
        ("threads", "2"),
        ("outstanding", "8"),
        ("cache", "direct"),
        ("write_through", "false"),
    ] {
        assert_eq!(settings.level(name).unwrap().to_string(), expected, "{name}");
    }
    let load = Load::read(&run.load()).unwrap();
    assert_eq!(load.measure, Some(120 * SECOND));
    let workload = KIND.configure(&settings).unwrap();
    assert_eq!(workload.default_shape(), Shape::closed(16));
}

#[test]
fn defaults_and_buffering_are_those_of_sqlio() {
    let run = parse(&[], &no_file).unwrap();
    let settings = run.settings();
    for (name, expected) in [
        ("files", "testfile.dat"),
        ("read_percent", "100%"),
        ("block_size", "2KiB"),
        ("stride", "128KiB"),
        ("outstanding", "1"),
        ("threads", "1"),
    ] {
        assert_eq!(settings.level(name).unwrap().to_string(), expected, "{name}");
    }
    for (flag, cache, write_through) in [
        ("-BN", "direct", true),
        ("-BH", "direct", false),
        ("-BS", "page-cache", true),
        ("-BY", "page-cache", false),
    ] {
        let settings = parse(&words(&format!("-kW {flag} /d/f")), &no_file).unwrap().settings();
        assert_eq!(
            (settings.get(&settings::CACHE).word(), settings.get(&settings::WRITE_THROUGH)),
            (cache, write_through),
            "{flag}"
        );
    }
    // -o is per thread and file.
    let settings = parse(&words("-o4 /d/a /d/b /d/c"), &no_file).unwrap().settings();
    assert_eq!(settings.get(&settings::OUTSTANDING), 12);
}

#[test]
fn every_problem_is_reported_at_once() {
    let problems = parse(
        &words("-kX -t0 -p1 -mC4 -q -fzigzag -Fparam.txt"),
        &param("a.dat\nb.dat 2 0xZZ 10\nc.dat 1 0 x\nd.dat 1 0 1 extra\n"),
    )
    .unwrap_err();
    let text = problems.to_string();
    for expected in [
        "`-kX`: the kind is R or W",
        "`-t0`: `0` is not a whole number from 1 to 256",
        "`-p1`: binding threads to a processor is not supported",
        "`-mC4`",
        "SQLIO has no flag `-q`",
        "`zigzag` is no order of blocks",
        "param.txt:1",
        "param.txt:2",
        "param.txt:3",
        "param.txt:4",
    ] {
        assert!(text.contains(expected), "{expected}\n{text}");
    }
    let missing = parse(&words("-Fnone.txt"), &no_file).unwrap_err().to_string();
    assert!(missing.contains("`none.txt` cannot be read"), "{missing}");
}

#[test]
fn each_file_of_a_parameter_file_has_its_threads_and_its_size() {
    let run =
        parse(&words("-kW -o4 -Fp.txt"), &param("# files\n/a.dat 2 0x0 16\n/b.dat 1 0x0 32\n")).unwrap();
    let settings = run.settings();
    let jobs = settings.get(&settings::JOBS);
    assert_eq!(jobs.len(), 2);
    for (job, parts) in jobs.iter().zip([["/a.dat", "threads=2", "16MiB"], ["/b.dat", "threads=1", "32MiB"]])
    {
        assert!(parts.iter().all(|part| job.contains(part)), "{job}");
    }
    let workload = KIND.configure(&settings).unwrap();
    assert_eq!(workload.operations(), ["sqlio:write"]);
    assert_eq!(workload.default_shape(), Shape::closed(12));
}

#[test]
fn dashes_and_quotes_of_a_word_processor_are_understood() {
    let flags: Vec<String> = ["\u{2013}kW", "\u{2212}b64", "\u{2014}S16", "\u{2013}F\u{201c}p.txt\u{201d}"]
        .map(String::from)
        .into();
    let text = "\u{feff}# files\r\n\u{201c}/data/f.dat\u{201d} 2\u{a0}0x0 100\r\n";
    let run = parse(&flags, &param(text)).unwrap();
    assert_eq!((run.kind, run.block_kib, run.files[0].path.as_str()), (SqlioKind::Write, 64, "/data/f.dat"));
    assert_eq!((run.threads, run.files[0].size_mb), (2, Some(100)));
    assert_eq!(run.settings().get(&settings::OFFSET), Some(1 << 20));
    for path in ["E:\\testfile.dat", "e:", "e:testfile.dat", "\\\\server\\share\\f.dat"] {
        let problems = parse(&[path.to_string()], &no_file).unwrap_err().to_string();
        assert!(problems.contains("is a path of Windows"), "{problems}");
    }
    assert!(parse(&["./d:e/f".to_string()], &no_file).is_ok());
}

#[test]
fn a_letter_that_is_not_understood_is_named() {
    for (flags, text, expected) in [
        ("-t2\u{2013}o8", "", "an en dash (U+2013)"),
        ("-frandom\u{2019}", "", "a typographic quote (U+2019)"),
        ("-Fp.txt", "/data/f.dat 2 0\u{d7}0 100\n", "a multiplication sign (U+00D7)"),
        ("-Fp.txt", "/data/f.dat 2 0x0 \u{2013}100\u{2026}\n", "an ellipsis (U+2026)"),
    ] {
        let read = |_: &str| Ok(text.to_string());
        let problems = parse(&words(flags), &read).unwrap_err().to_string();
        assert!(problems.contains(expected), "{flags}: {problems}");
    }
}

#[test]
fn flags_that_are_refused_say_what_to_use() {
    for (flags, what, help) in [
        (
            "-dEF t.dat",
            "`-dEF`: this system has no drive letters",
            "name the file in a folder of each disk, such as /mnt/e/t.dat /mnt/f/t.dat",
        ),
        (
            "-dC",
            "`-dC`: this system has no drive letters",
            "name the file in a folder of each disk, such as /mnt/c/testfile.dat",
        ),
        ("-d", "`-d`: the letters of the drives are missing", "name the files"),
        (
            "-R1,2",
            "`-R1,2`: a list of disk numbers is not supported",
            "name the block devices as files, such as /dev/sdb (`lsblk` lists them)",
        ),
        (
            "-pI3",
            "`-pI3`: binding threads to a processor is not supported",
            "leave it out and start `taskset -c 3 plimsoll disk --sqlio ...`",
        ),
        (
            "-aR0x3",
            "`-aR0x3`: binding threads to processors is not supported",
            "leave it out and start `taskset MASK plimsoll disk --sqlio ...`, or vary `host.cpus`",
        ),
        (
            "-mC4 -b8",
            "`-mC4`: scattering one operation over several blocks is not supported",
            "use a block of the same size: -b32 instead of -b8 -mC4",
        ),
    ] {
        let problems = parse(&words(flags), &no_file).unwrap_err();
        let [problem] = problems.0.as_slice() else { panic!("{flags}: {problems}") };
        assert_eq!((problem.what.as_str(), problem.help.as_str()), (what, help), "{flags}");
    }
}

#[test]
fn what_has_no_effect_is_said() {
    let run = parse(&words("-64 -i10 -LSi -UA -v1.1.1 -D3 f.dat"), &no_file).unwrap();
    assert_eq!(run.notes.len(), 6, "{:?}", run.notes);
}

#[test]
fn a_file_that_is_made_or_extended_is_reported() {
    let mut run = parse(&words("there.dat new.dat"), &no_file).unwrap();
    run.find_sizes(|file| (file == "there.dat").then_some(1 << 20)).unwrap();
    assert_eq!(run.notes, ["`new.dat` does not exist: it is made with 1GiB, and kept"]);
    let text = report(&run, &numbers());
    let expected = "\
using current size: 0 MB for file: there.dat
size of file new.dat needs to be: 1073741824 bytes
current file size:\t0 bytes
need to expand by:\t1073741824 bytes
expanding new.dat ... done.
using default size: 0 MB for file: new.dat
";
    assert!(text.contains(expected), "{text}");
    let mut run = parse(&words("/dev/null /dev/zero /tmp /absent/new.dat"), &no_file).unwrap();
    run.find_sizes(|_| None).unwrap();
    assert_eq!(run.notes, [""; 0], "they are refused, not made");
    let mut run = parse(&words("-Fp.txt"), &param("new.dat 1 0x0 16\n")).unwrap();
    for (present, expected) in [
        (None, Some((16 << 20, 0))),
        (Some(4 << 20), Some((16 << 20, 4 << 20))),
        (Some(16 << 20), None),
        (Some(64 << 20), None),
    ] {
        run.notes.clear();
        run.find_sizes(|_| present).unwrap();
        let found = run.files[0].expansion.map(|of| (of.needed_bytes, of.present_bytes));
        assert_eq!(found, expected, "{present:?}");
        assert_eq!(run.notes.len(), usize::from(present.is_none()));
        assert_eq!(report(&run, &numbers()).contains("need to expand by:"), expected.is_some());
    }
}

/// Latencies of a run: 10 operations of 0.5 ms, 60 of 3.2 ms, 30 of 100 ms.
fn numbers() -> SqlioNumbers {
    let mut latencies = Histogram::<u64>::new_with_bounds(1, 60 * SECOND, 3).unwrap();
    for (count, us) in [(10, 500), (60, 3200), (30, 100_000)] {
        latencies.record_n(us * 1000, count).unwrap();
    }
    SqlioNumbers::from_histogram(&latencies, 2.0, 100 * 8192)
}

#[test]
fn numbers_come_from_a_histogram() {
    let numbers = numbers();
    assert_eq!((numbers.ios_per_s, numbers.bytes_per_s), (50.0, 409_600.0));
    assert_eq!((numbers.min_ms, numbers.avg_ms, numbers.max_ms), (0, 31, 100));
    let mut expected = [0; 25];
    (expected[0], expected[3], expected[24]) = (10, 60, 30);
    assert_eq!(numbers.histogram_percent, expected);
    let empty = Histogram::<u64>::new(3).unwrap();
    assert_eq!(SqlioNumbers::from_histogram(&empty, 0.0, 0).ios_per_s, 0.0);
}

#[test]
fn the_report_has_sqlios_layout() {
    let run =
        parse(&words("-kW -s120 -o1 -frandom -b8 -BH -LS -Fparam.txt"), &param("/test.dat 2 0x0 20000"))
            .unwrap();
    let expected = "\
sqlio v1.5.SG
using system counter for latency timings, 1000000000 counts per second
parameter file used: param.txt
\tfile /test.dat with 2 threads (0-1) using mask 0x0 (0)
2 threads writing for 120 secs to file /test.dat
\tusing 8KB random IOs
\tenabling multiple I/Os per thread with 1 outstanding
\tbuffering set to use hardware disk cache (but not file cache)
using specified size: 20000 MB for file: /test.dat
initialization done
CUMULATIVE DATA:
throughput metrics:
IOs/sec:     50.00
MBs/sec:     0.39
latency metrics:
Min_Latency(ms): 0
Avg_Latency(ms): 31
Max_Latency(ms): 100
histogram:
ms: 0  1  2  3  4  5  6  7  8  9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24+
%: 10  0  0 60  0  0  0  0  0  0  0  0  0  0  0  0  0  0  0  0  0  0  0  0 30
";
    assert_eq!(report(&run, &numbers()), expected);
    let mut all_in_one = numbers();
    all_in_one.histogram_percent = [0; 25];
    all_in_one.histogram_percent[0] = 100;
    assert!(report(&run, &all_in_one).contains("\n%:100  0  0"), "fields are three wide");
}

proptest::proptest! {
    #[test]
    fn no_text_panics(
        arguments in proptest::collection::vec("(-[a-zA-Z0-9]{0,3})?.{0,12}", 0..6),
        parameters in "(.{0,30}\n){0,4}",
    ) {
        let mut arguments = arguments;
        arguments.push("-Fp".into());
        if let Ok(run) = parse(&arguments, &|_| Ok(parameters.clone())) {
            let _ = (KIND.configure(&run.settings()).is_ok(), Load::read(&run.load()).is_ok());
        }
    }
}
