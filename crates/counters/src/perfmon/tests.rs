use std::collections::HashSet;

use proptest::prelude::*;

use super::*;

fn answer(path: &str) -> Vec<(&'static str, Answer, &'static str)> {
    let found = Path::parse(path).map(|path| path.find()).unwrap_or_default();
    found.into_iter().map(|counter| (counter.path, counter.answer, counter.metric)).collect()
}

#[test]
fn the_table_names_metrics_that_exist_and_each_counter_once() {
    let metrics: HashSet<&str> = all_metrics().map(|(_, metric)| metric.name.as_ref()).collect();
    let mut seen = HashSet::new();
    for counter in counters() {
        let path = counter.path;
        let (object, name) = split(path).unwrap();
        assert!(seen.insert((key(object), key(name))), "{path} occurs twice");
        assert_eq!(counter.metric.is_empty(), counter.answer == Answer::Nothing, "{path}");
        assert!(counter.metric.is_empty() || metrics.contains(counter.metric), "{path}: {}", counter.metric);
        let is_sentence =
            counter.about.ends_with('.') && counter.about.starts_with(|c: char| c.is_uppercase());
        assert!(
            is_sentence || (counter.about.is_empty() && counter.answer == Answer::Same),
            "{path}: {}",
            counter.about
        );
        // What a text names is there: a metric as it is written elsewhere.
        for word in counter.about.split([' ', ',', ':', ';']).map(|word| word.trim_end_matches('.')) {
            let source = word.split('.').next().unwrap_or("");
            if word.contains('.') && SOURCES.iter().any(|kind| kind.name == source) {
                assert!(metrics.contains(word), "{path}: {word}");
            }
        }
        assert_eq!(answer(path), [(path, counter.answer, counter.metric)]);
    }
    for (object, about) in OBJECTS {
        assert!(seen.iter().any(|(name, _)| *name == key(object)), "{object}");
        assert_eq!(about_object(object), *about);
    }
    for (alias, object) in ALIASES {
        assert!(!seen.iter().any(|(name, _)| *name == key(alias)), "{alias} has counters of its own");
        assert!(seen.iter().any(|(name, _)| *name == key(object)), "{object}");
    }
}

#[test]
fn the_name_that_a_metric_has_and_the_table_agree() {
    for (_, metric) in all_metrics().filter(|(_, metric)| !metric.perfmon.is_empty()) {
        let found = answer(&metric.perfmon);
        assert!(matches!(found[..], [(_, _, name)] if name == metric.name), "{}: {found:?}", metric.perfmon);
    }
}

#[test]
fn a_path_is_found_as_people_write_it() {
    let read = (r"LogicalDisk\Avg. Disk sec/Read", Answer::Same, "volume.read_s");
    for text in [
        r"LogicalDisk(*)\Avg. Disk sec/Read",
        r"\LogicalDisk(_Total)\Avg. Disk sec/Read",
        r"\\DB01\LogicalDisk(C:)\Avg. Disk sec/Read",
        r"\\db01.example.com\logicaldisk(HarddiskVolume1)\avg. disk sec/read",
        r"LogicalDisk\Avg Disk Sec/Read",
        r"  Logical Disk ( * )\Avg.Disk sec / Read ",
        r"LogicalDisk\Avg. Disk sec/Re*",
    ] {
        assert_eq!(answer(text), [read], "{text}");
    }
    for (text, metric) in [
        (r"PhysicalDisk(0 C:)\Avg. Disk sec/Read", "disk.read_s"),
        (r"Network Adapter(Intel[R] 82574L (2))\Bytes Sent/sec", "network.sent_bytes_per_s"),
        (r"TCPv6\Segments Sent/sec", "network.tcp_sent_segments_per_s"),
        (r"ASP.NET\Requests In Application Queue", "process.accept_queue_connections"),
        (r"ASP.NET v4.0.30319\Requests Queued", "process.accept_queue_connections"),
        (r"MSSQL$PAYROLL:Databases(tempdb)\Log Flushes/sec", "disk.flushes_per_s"),
        (r"SQLServer:Memory Manager\Total Server Memory (KB)", "process.resident_bytes"),
        (r"DirectoryServices(NTDS)\ATQ Threads Total", "process.threads"),
        (r"System\System Up Time", ""),
    ] {
        assert!(matches!(answer(text)[..], [(_, _, name)] if name == metric), "{text}: {:?}", answer(text));
    }
    assert!(answer(r"SQLServer:Locks\*").len() >= 3 && answer(r"Memory\*Cache*").len() >= 4);
    for text in [
        "",
        r"\",
        r"\\host",
        "LogicalDisk",
        r"(x)\y",
        r"Memory\",
        r"\\a\b",
        "a(b\\c",
        r"LogicalDisk\Nonsense",
    ] {
        assert_eq!(answer(text), [], "{text}");
    }
}

#[test]
fn what_is_watched_for_a_path() {
    for (path, entry) in [
        (r"LogicalDisk(*)\Avg. Disk sec/Read", "host"),
        (r"\\WEB1\Processor(_Total)\% Processor Time", "host"),
        (r"Process(slapd)\% Processor Time", "process:slapd"),
        (r"Process(w3wp#2)\Working Set", "process:w3wp"),
        (r"Process V2(w3wp:1234)\Working Set", "process:1234"),
        (r"Thread(slapd/3)\% Processor Time", "process:slapd"),
    ] {
        assert_eq!(watched(path).unwrap().unwrap().entry, entry, "{path}");
    }
    assert_eq!(watched("host"), None);
    assert_eq!(watched("process:slapd"), None);
    let refused: Vec<String> = [
        r"Process(_Total)\% Processor Time",
        r"Process(*)\% Processor Time",
        r"ASP.NET\Requests In Application Queue",
        r"Process(nginx)\Private Bytes",
        r"PhysicalDisk(*)\Disk Bytes/sec",
        r"System\System Up Time",
        r"LogicalDisk(*)\Avg. Disk sec/Raed",
        r"LogiclDisk(*)\Disk Reads/sec",
        r"Memory\Ballast",
        r"Elephants\Trunks/sec",
    ]
    .into_iter()
    .map(|path| match watched(path) {
        Some(Err((what, help))) => format!("{what}\n    {help}"),
        other => panic!("{path}: {other:?}"),
    })
    .collect();
    insta::assert_snapshot!(refused.join("\n"), @r"
    `Process(_Total)\% Processor Time` names no process
        write Process(NAME)\% Processor Time, or process:NAME
    `Process(*)\% Processor Time` names no process
        write Process(NAME)\% Processor Time, or process:NAME
    `ASP.NET\Requests In Application Queue` has no metric of the same meaning; the nearest is process.accept_queue_connections
        write process:NAME to watch it. Connections of a watched server that wait to be accepted. What its program queues inside is known to it alone: see its status page.
    `Process(nginx)\Private Bytes` has no metric of the same meaning; the nearest is process.resident_bytes
        write process:nginx to watch it. Memory that was allocated and never touched is not counted, shared memory is.
    `PhysicalDisk(*)\Disk Bytes/sec` has no metric of the same meaning; the nearest is disk.read_bytes_per_s
        write host to watch it. Bytes read; add disk.write_bytes_per_s.
    `System\System Up Time` has no metric of the same meaning
        Use uptime.
    `LogicalDisk(*)\Avg. Disk sec/Raed` is no known counter of Performance Monitor
        did you mean `LogicalDisk\Avg. Disk sec/Read`?
    `LogiclDisk(*)\Disk Reads/sec` is no known counter of Performance Monitor
        did you mean `LogicalDisk\Disk Reads/sec`?
    `Memory\Ballast` is no known counter of Performance Monitor
        `plimsoll watch --list 'Memory\*'` has its known counters
    `Elephants\Trunks/sec` is no known counter of Performance Monitor
        `plimsoll watch --list 'Process\*'` has the known counters of an object
    ");
}

proptest! {
    #[test]
    fn any_text_is_parsed_without_panic(text: String, pattern: Vec<u8>, bytes: Vec<u8>) {
        let _ = watched(&text);
        let _ = watched(&format!("\\\\{text}\\{text}(\\{text}"));
        let _ = matches(&pattern, &bytes);
    }

    #[test]
    fn a_star_stands_for_any_text(before in "[a-z]{0,4}", between in "[a-z]{0,4}", after in "[a-z]{1,4}") {
        let text = format!("{before}{between}{after}");
        let pattern = format!("{before}*{after}");
        prop_assert!(matches(pattern.as_bytes(), text.as_bytes()));
        let longer = format!("{text}1");
        prop_assert!(!matches(pattern.as_bytes(), longer.as_bytes()));
    }
}
