use super::*;
use crate::testing::{self, samples, seconds, texts};

mod writer;

use writer::{Count, File, Names, Part, item, list, names, object, record, value};

/// 2013-02-19 18:50:17, local time, in units of 100 ns since 1601.
const BEGIN: i64 = 130_057_734_170_000_000;
const SECOND: i64 = 10_000_000;

const DISK: Names<'static> = Names {
    host: r"\\DB1",
    object: "PhysicalDisk",
    instance: Some("0 C:"),
    counter: "Avg. Disk Bytes/Write",
};
const CPU: Names<'static> =
    Names { host: r"\\DB1", object: "Processor", instance: Some("*"), counter: "% Processor Time" };
const MEMORY: Names<'static> =
    Names { host: r"\\DB1", object: "Memory", instance: None, counter: "Available MBytes" };

fn log(bytes: &[u8]) -> Result<Box<dyn CounterLog>, Fault> {
    testing::log("blg", bytes, &Options::default())
}

/// A list of three counters: an average, one of all instances, and a raw one.
fn three() -> Vec<u8> {
    list(&[(0, 0x4002_0500, DISK), (1, 0x2151_0500, CPU), (0, 0x0001_0000, MEMORY)])
}

/// A sample of them, `at` seconds after the begin.
fn sample(at: i64) -> Vec<u8> {
    let time = BEGIN + at * SECOND;
    let cpu = |idle: i64| (idle * at * SECOND / 100, 7 + at * SECOND);
    record(&[
        value(0, time, (40_960 * at, 10 * at)),
        item(time, &[("0", cpu(75)), ("0", cpu(50)), ("_Total", cpu(90))]),
        value(0, time, (800 + at, 0)),
    ])
}

/// A log of some samples, a second apart, in buffers of 4096 bytes.
fn three_log(seconds: i64) -> Vec<u8> {
    let mut file = File::new(64, 4096);
    file.event(0x20, BEGIN - 10, (1, 1), &three());
    for at in 0..seconds {
        file.event(0x22, BEGIN + at * SECOND, (1, 1), &sample(at));
    }
    file.end()
}

#[test]
fn a_log_has_the_values_that_performance_monitor_shows() {
    let mut log = log(&three_log(3)).unwrap();
    let first = log.columns().0[0].clone();
    assert_eq!(
        (first.host.as_str(), first.path.as_str()),
        ("DB1", r"PhysicalDisk(0 C:)\Avg. Disk Bytes/Write")
    );
    assert_eq!(log.family(), CounterFamily::PerformanceMonitor);
    let found = samples(&mut *log, seconds);
    let cpu = r"Processor(0)\% Processor Time=25 Processor(0#1)\% Processor Time=50 Processor(_Total)\% Processor Time=10";
    let rates = format!(
        r"PhysicalDisk(0 C:)\Avg. Disk Bytes/Write=4096 {}",
        cpu.replace("=10", "=9.999999999999998")
    );
    assert_eq!(
        found,
        [
            r"1361328617..1361328617 Memory\Available MBytes=800".to_string(),
            format!(r"1361328617..1361328618 {rates} Memory\Available MBytes=801"),
            format!(r"1361328618..1361328619 {rates} Memory\Available MBytes=802"),
        ]
    );
    // Pacific Standard Time.
    assert_eq!(log.clock(), (None, Some(8 * 3600)));
    assert_eq!(log.notes(), []);
}

#[test]
fn values_that_are_not_valid_are_absent() {
    let mut file = File::new(32, 4096);
    file.event(
        0x20,
        BEGIN,
        (1, 1),
        &list(&[(0, 0x1041_0400, MEMORY), (0, 0x4003_0402, DISK), (0, 0x1234_5678, DISK)]),
    );
    // Valid, no data, valid, valid, back to a smaller one, valid.
    for (at, (status, raw)) in
        [(0, 10), (0xc000_0bc6, 20), (0, 30), (1, 40), (0, 5), (0, 15)].into_iter().enumerate()
    {
        let time = BEGIN + i64::try_from(at).unwrap() * SECOND;
        let raw = (raw, i64::try_from(at).unwrap() * SECOND);
        let values = [value(status, time, raw), value(0, time, raw), value(0, time, raw)];
        file.event(0x22, time, (1, 1), &record(&values));
    }
    let mut log = log(&file.end()).unwrap();
    let values: Vec<Option<String>> = samples(&mut *log, seconds)
        .iter()
        .map(|sample| sample.split_once('=').map(|(_, value)| value.to_string()))
        .collect();
    assert_eq!(values, [None, None, None, Some("0.001".into()), None, Some("0.001".into())]);
    assert_eq!(texts(&log.notes()), [format!("{UNKNOWN_TYPE} (6 times, first here)")]);
}

/// An object of processes, as logs of `\Process(*)\*` have it.
fn processes(at: i64, names: &[&str]) -> Vec<u8> {
    let counters = [
        (10, 0x1041_0500_u32),
        (12, 0x2002_0400),
        (12, 0x4003_0403),
        (14, 0x3024_0500),
        (16, 0x3002_0400),
        (16, 0x4003_0402),
    ];
    let instances: Vec<Count<'_>> = names
        .iter()
        .map(|name| Count { name, values: vec![100 * at, 1, 4, BEGIN - 5 * SECOND, 500 * at, 10 * at] })
        .collect();
    object(BEGIN + at * SECOND, 230, &counters, Some(&instances))
}

#[test]
fn objects_have_all_their_instances_and_counters() {
    let mut file = File::new(32, 8192);
    file.event(
        0x24,
        BEGIN - 20,
        (1, 1),
        &names(r"\\DB1", &[(230, "Process"), (10, "IO/sec"), (12, "% Used")]),
    );
    file.event(
        0x24,
        BEGIN - 20,
        (1, 1),
        &names(r"\\DB1", &[(14, "Elapsed Time"), (2, "System"), (18, "Threads")]),
    );
    let all = |object| Names { object, instance: Some("*"), counter: "*", ..CPU };
    file.event(
        0x20,
        BEGIN - 10,
        (1, 1),
        &list(&[(16, 16, all("Process")), (16, 16, Names { instance: None, ..all("System") })]),
    );
    for (at, found) in [(0, &["a", "b"][..]), (1, &["a", "a", "b"]), (2, &["b"])] {
        let system = object(BEGIN + at * SECOND, 2, &[(18, 0x0001_0000)], None);
        let data = record(&[processes(at, found), system]);
        // In parts, as long samples are.
        let parts: Vec<&[u8]> = data.chunks(500).collect();
        let count = u32::try_from(parts.len()).unwrap();
        for (part, data) in (1..).zip(parts) {
            file.event(0x22, BEGIN + at * SECOND, (part, count), data);
        }
    }
    file.event(0x23, BEGIN + 3 * SECOND, (1, 1), &[0; 40]);
    let mut log = log(&file.end()).unwrap();
    let found = samples(&mut *log, |_| String::new());
    let of = |name: &str, rate: &str, at: i64| {
        format!(r"{rate} Process({name})\% Used=25 Process({name})\Elapsed Time={}", 5 + at)
            .trim_start()
            .to_string()
    };
    let rate = |name: &str| format!(r"Process({name})\IO/sec=100");
    assert_eq!(
        found,
        [
            format!(r".. {} {} System\Threads=77", of("a", "", 0), of("b", "", 0)),
            format!(
                r".. {} {} System\Threads=77 {}",
                of("a", &rate("a"), 1),
                of("b", &rate("b"), 1),
                of("a#1", "", 1)
            ),
            format!(r".. {} System\Threads=77", of("b", &rate("b"), 2)),
        ]
    );
    // The average has no name.
    assert_eq!(
        texts(&log.notes()),
        ["a counter has no name in the log and was left out (3 times, first here)"]
    );
}

#[test]
fn names_of_other_languages_and_parents_are_known() {
    let mut file = File::new(64, 4096);
    let german =
        Names { host: r"\\DB1", object: "Prozessor", instance: Some("_Total"), counter: "Prozessorzeit (%)" };
    let thread = Names { object: "Thread", instance: Some("java/7"), counter: "ID Thread", ..CPU };
    file.event(0x20, BEGIN, (1, 1), &list(&[(0, 0x0001_0000, german), (0, 0x0001_0000, thread)]));
    let part = Part { parent: Some("java"), nth: 2 };
    let both = list(&[(0, 0x0001_0000, Names { instance: Some("7"), ..thread })]);
    let one = writer::with(&both, part);
    // A list of two events before the first sample.
    file.event(0x20, BEGIN, (1, 1), &one);
    file.event(
        0x22,
        BEGIN,
        (1, 1),
        &record(&[value(0, BEGIN, (1, 0)), value(0, BEGIN, (2, 0)), value(0, BEGIN, (3, 0))]),
    );
    let mut log = log(&file.end()).unwrap();
    assert_eq!(
        samples(&mut *log, |_| String::new()),
        [r".. Processor(_Total)\% Processor Time=1 Thread(java/7)\ID Thread=2 Thread(java/7#2)\ID Thread=3"]
    );
    assert_eq!(log.columns().0[0].written, r"Prozessor(_Total)\Prozessorzeit (%)");
}

#[test]
fn events_of_several_processors_are_put_in_order() {
    let mut file = File::new(64, 4096);
    file.set_processors(4);
    file.event(0x20, BEGIN - 10, (1, 1), &three());
    for at in [0, 2, 4] {
        file.event(0x22, BEGIN + at * SECOND, (1, 1), &sample(at));
    }
    file.next_buffer();
    for at in [1, 3] {
        file.event(0x22, BEGIN + at * SECOND, (1, 1), &sample(at));
    }
    let mut log = log(&file.end()).unwrap();
    let times: Vec<String> =
        samples(&mut *log, seconds).iter().map(|sample| sample.split(' ').next().unwrap().into()).collect();
    assert_eq!(
        times[1..],
        [
            "1361328617..1361328618",
            "1361328618..1361328619",
            "1361328619..1361328620",
            "1361328620..1361328621"
        ]
    );
    assert_eq!(log.notes(), []);
}

#[test]
fn logs_one_after_the_other_have_lists_of_their_own() {
    let mut file = File::new(64, 4096);
    for begin in [BEGIN, BEGIN + 100 * SECOND] {
        file.event(0x20, begin - 10, (1, 1), &list(&[(0, 0x1041_0400, MEMORY)]));
        for at in [0, 1] {
            let time = begin + at * SECOND;
            file.event(0x22, time, (1, 1), &record(&[value(0, time, (at, at * SECOND))]));
        }
    }
    let mut log = log(&file.end()).unwrap();
    let ends = [
        "1361328617..1361328617",
        "1361328617..1361328618",
        "1361328717..1361328717",
        "1361328717..1361328718",
    ];
    let found = samples(&mut *log, seconds);
    for (index, (sample, end)) in found.iter().zip(ends).enumerate() {
        assert_eq!(sample.contains('='), index % 2 == 1, "{sample}");
        assert!(sample.starts_with(end), "{sample}");
    }
    assert_eq!(found.len(), 4);
}

#[test]
fn the_hour_that_is_there_twice_goes_on() {
    // 2013-11-03 01:59:59, 01:00:00 and 01:00:01 local time.
    let summer = 130_279_175_990_000_000;
    let mut file = File::new(64, 4096);
    file.event(0x20, summer, (1, 1), &list(&[(0, 0x0001_0000, MEMORY)]));
    for time in [summer, summer - 3599 * SECOND, summer - 3598 * SECOND] {
        file.event(0x22, time, (1, 1), &record(&[value(0, time, (1, 0))]));
    }
    let mut log = log(&file.end()).unwrap();
    assert_eq!(log.clock().1, Some(7 * 3600));
    let found = samples(&mut *log, seconds);
    let ends = ["1383469199..1383469199", "1383469199..1383469200", "1383469200..1383469201"];
    assert!(found.iter().zip(ends).all(|(sample, end)| sample.starts_with(end)), "{found:?}");
    assert_eq!((found.len(), log.notes().len()), (3, 0));
}

#[test]
fn what_is_lost_is_said() {
    let whole = three_log(40);
    let notes = |bytes: &[u8]| {
        let mut log = log(bytes).unwrap();
        let count = samples(&mut *log, seconds).len();
        (count, texts(&log.notes()))
    };
    let one = |what: &str| vec![what.to_string()];
    assert_eq!(notes(&whole), (40, vec![]));
    // Cut within a buffer.
    let (count, found) = notes(&whole[..4096 * 3 + 2000]);
    assert_eq!(count, 29);
    assert_eq!(found, one("the file ends within a buffer: what it has was read"));
    // A buffer is missing, and one was never written.
    let missing = [&whole[..8192], &whole[12_288..], &[0; 4096]].concat();
    assert_eq!(notes(&missing).1, one("buffers are missing: their samples are absent"));
    // An event, and a buffer, are damaged.
    let mut damaged = whole.clone();
    damaged[8192 + 72..8192 + 76].fill(0xff);
    assert_eq!(notes(&damaged).1, one("an event is damaged: the rest of its buffer was left out"));
    damaged[8192..8196].fill(0);
    assert_eq!(notes(&damaged).1, one("a buffer is damaged and was left out"));
    let mut file = File::new(64, 4096);
    file.set_lost(3, 1);
    file.event(0x20, BEGIN, (1, 1), &three());
    // The second of three parts is absent, and the third sample is cut.
    let data = sample(1);
    file.event(0x22, BEGIN, (1, 3), &data[..200]);
    file.event(0x22, BEGIN, (3, 3), &data[200..]);
    file.event(0x22, BEGIN + SECOND, (1, 1), &data);
    file.event(0x22, BEGIN + 2 * SECOND, (1, 1), &data[..200]);
    file.event(0x22, BEGIN + SECOND, (1, 1), &data);
    file.event(0x21, BEGIN + 3 * SECOND, (1, 1), &data);
    file.event(0x22, BEGIN + 3 * SECOND, (1, 2), &data);
    assert_eq!(
        notes(&file.end()),
        (
            2,
            vec![
                "the log says what was lost (events: 3, buffers: 1): these samples are absent".to_string(),
                "a part of a sample is absent: the sample was left out".into(),
                "an event is of an unknown kind and was left out".into(),
                "the file ends within a sample, which was left out".into(),
                "a sample is damaged: values of it are absent".into(),
                "a sample is not later than the one before and was left out".into(),
            ]
        )
    );
}

#[test]
fn what_cannot_be_read_is_refused_with_what_to_do() {
    let refused = |bytes: &[u8]| {
        let Err(fault) = log(bytes) else { panic!("it was read") };
        assert!(fault.help.contains("relog"), "{fault:?}");
        fault.what
    };
    let whole = three_log(3);
    // No event of counters, or no sample.
    assert_eq!(
        refused(&whole[..4096]),
        "a trace of Windows 6.2, 64 bits without counters of Performance Monitor"
    );
    let mut file = File::new(32, 4096);
    file.event(0x20, BEGIN, (1, 1), &three());
    assert_eq!(
        refused(&file.end()),
        "a binary log of Windows 6.2, 32 bits without a sample that can be read"
    );
    let mut other = whole.clone();
    other[4096 + 72 + 6] = 61;
    assert_eq!(refused(&other), "a binary log whose counters have the version 61, which is not known");
    let mut file = File::new(64, 4096);
    file.set_mode(0x0400_0001);
    assert_eq!(refused(&file.end()), "a binary log with compressed buffers, which are not read");
    let mut file = File::new(64, 4096);
    let mut damaged = three();
    damaged[8] = 0xff;
    file.event(0x20, BEGIN, (1, 1), &damaged);
    assert_eq!(refused(&file.end()), "the list of counters is damaged");
    // A circular log that began again: what is before is kept.
    let mut file = File::new(64, 4096);
    file.set_mode(2);
    file.event(0x20, BEGIN, (1, 1), &three());
    file.event(0x22, BEGIN, (1, 1), &sample(0));
    file.next_buffer();
    file.event(0x22, BEGIN + SECOND, (1, 1), &sample(1));
    let mut bytes = file.end();
    bytes[2 * 4096 + 24] = 0;
    let mut log = log(&bytes).unwrap();
    let mut found = Sample::default();
    assert!(log.next(&mut found).unwrap());
    assert!(!log.next(&mut found).unwrap());
    assert_eq!(
        texts(&log.notes()),
        ["a circular log: buffer 3 is earlier than the one before it, and the rest was left out"]
    );
    // A list that is damaged after samples.
    let mut file = File::new(64, 4096);
    file.event(0x20, BEGIN, (1, 1), &three());
    file.event(0x22, BEGIN, (1, 1), &sample(0));
    file.event(0x20, BEGIN + SECOND, (1, 1), &damaged);
    file.event(0x22, BEGIN + SECOND, (1, 1), &sample(1));
    let mut log = testing::log("blg", &file.end(), &Options::default()).unwrap();
    assert_eq!(samples(&mut *log, seconds).len(), 1);
    assert_eq!(texts(&log.notes()), ["the list of counters is damaged: the rest was left out"]);
}

#[test]
fn what_is_no_log_is_not_recognized() {
    let whole = three_log(1);
    for (at, value) in [(0, 1), (72, 3), (73, 1), (74, 3), (75, 0), (104, 1)] {
        let mut bytes = whole.clone();
        bytes[at] = value;
        assert!(Header::parse(&bytes).is_none(), "{at}");
    }
    assert!(Header::parse(&whole[..300]).is_none());
    assert!(Header::parse(&whole).is_some());
}

/// Reads all that can be read.
fn read_all(bytes: &[u8]) -> usize {
    let Ok(mut log) = testing::log("blg", bytes, &Options::default()) else { return 0 };
    let mut sample = Sample::default();
    let mut count = 0;
    while log.next(&mut sample).unwrap_or(false) {
        assert!(sample.begin_unix_ns <= sample.end_unix_ns);
        assert!(sample.values.len() <= log.columns().0.len());
        assert!(sample.values.iter().all(|value| !value.is_infinite()));
        count += 1;
    }
    log.notes();
    count
}

/// A log with all kinds of values.
fn mixed_log() -> Vec<u8> {
    let mut file = File::new(32, 4096);
    file.event(
        0x24,
        BEGIN - 20,
        (1, 1),
        &names(r"\\DB1", &[(230, "Process"), (10, "IO/sec"), (12, "% Used"), (14, "Time"), (16, "A")]),
    );
    let all = Names { object: "Process", instance: Some("*"), counter: "*", ..CPU };
    file.event(
        0x20,
        BEGIN - 10,
        (1, 1),
        &list(&[(16, 16, all), (1, 0x2151_0500, CPU), (0, 0x1041_0400, MEMORY)]),
    );
    for at in 0..4 {
        let time = BEGIN + at * SECOND;
        let values =
            [processes(at, &["a", "b", "a"]), item(time, &[("0", (at, at))]), value(0, time, (at, at))];
        file.event(0x22, time, (1, 1), &record(&values));
    }
    file.end()
}

#[test]
fn a_log_that_is_cut_anywhere_keeps_what_is_before() {
    let whole = mixed_log();
    let mut before = 0;
    assert_eq!(read_all(&whole), 4);
    for length in (0..whole.len()).step_by(7).filter(|length| *length > 4096) {
        let count = read_all(&whole[..length]);
        assert!(count >= before, "{length}");
        before = count;
    }
}

proptest::proptest! {
    #[test]
    fn no_changed_byte_is_a_panic(changes in proptest::collection::vec((0_usize..16_384, proptest::num::u8::ANY), 1..20)) {
        let mut bytes = mixed_log();
        for (at, value) in changes {
            if let Some(byte) = bytes.get_mut(at) {
                *byte = value;
            }
        }
        read_all(&bytes);
    }

    #[test]
    fn no_bytes_after_the_header_are_a_panic(rest in proptest::collection::vec(proptest::num::u8::ANY, 0..5000), at in 0_usize..4000) {
        let mut bytes = mixed_log();
        let at = 4096 + at;
        bytes.truncate(at);
        bytes.extend_from_slice(&rest);
        read_all(&bytes);
    }
}
