use super::*;
use crate::{Fault, Options};

/// The layout of 2.2 on a system with two sockets, with `-L`.
const TEXT: &str = "\
WARNING: a message

Command Line: diskspd -b64K -d10 -o4 -t2 -r -w30 -Sh -L d:\\a.dat d:\\b.dat

Input parameters:

\ttimespan:   1
\t-------------
\tduration: 10s
\twarm up time: 5s
\tcool down time: 0s
\tmeasuring latency
\trandom seed: 0
\tpath: 'd:\\a.dat'
\t\tthink time: 0ms
\t\tburst size: 0
\t\tsoftware cache disabled
\t\thardware write cache disabled, writethrough on
\t\tperforming mix test (read/write ratio: 70/30)
\t\tblock size: 64KiB
\t\tusing random I/O (alignment: 64KiB)
\t\tnumber of outstanding I/O operations per thread: 4
\t\tthreads per file: 2
\t\tusing I/O Completion Ports
\t\tIO priority: normal
\tpath: 'd:\\b.dat'
\t\tsoftware cache disabled
\t\thardware write cache disabled, writethrough on
\t\tperforming mix test (read/write ratio: 70/30)
\t\tblock size: 64KiB
\t\tusing random I/O (alignment: 64KiB)
\t\tnumber of outstanding I/O operations per thread: 4
\t\tthreads per file: 2
\t\tthroughput rate-limited to 100 IOPS

System information:

\tcomputer name: host
\tstart time: 2024/05/06 07:08:09 UTC

\tcpu count:\t\t4

Results for timespan 1:
*******************************************************************************

actual test time:\t10.01s
thread count:\t\t4

Socket | Core | CPU |  Usage |  User  | Kernel |  Idle
--------------------------------------------------------
      0|     0|    0|  20.00%|   5.00%|  15.00%|  80.00%
      1|     1|    1|  10.00%|   1.00%|   9.00%|  90.00%
--------------------------------------------------------
                avg.|  15.00%|   3.00%|  12.00%|  85.00%

Total IO
thread |       bytes     |     I/Os     |    MiB/s   |  I/O per s |  AvgLat  | LatStdDev |  file
-----------------------------------------------------------------------------------------
     0 |         4587520 |           70 |       0.44 |       6.99 |    2.500 |     1.000 | d:\\a.dat (1GiB)
     1 |         1966080 |           30 |       0.19 |       3.00 |    3.500 |     1.000 | d:\\b.dat (1GiB)
-----------------------------------------------------------------------------------------
total:           6553600 |          100 |       0.62 |       9.99 |    2.800 |     1.100

Read IO
thread |       bytes     |     I/Os     |    MiB/s   |  I/O per s |  AvgLat  | LatStdDev |  file
-----------------------------------------------------------------------------------------
     0 |         4587520 |           70 |       0.44 |       6.99 |    2.500 |     1.000 | d:\\a.dat (1GiB)
-----------------------------------------------------------------------------------------
total:           4587520 |           70 |       0.44 |       6.99 |    2.500 |     1.000

Write IO
thread |       bytes     |     I/Os     |    MiB/s   |  I/O per s |  AvgLat  | LatStdDev |  file
-----------------------------------------------------------------------------------------
     1 |         1966080 |           30 |       0.19 |       3.00 |    3.500 |     1.000 | d:\\b.dat (1GiB)
-----------------------------------------------------------------------------------------
total:           1966080 |           30 |       0.19 |       3.00 |    3.500 |       N/A


Latency distribution: d:\\a.dat
  %-ile |  Read (ms) | Write (ms) | Total (ms)
----------------------------------------------
    min |      9.000 |        N/A |      9.000

Total latency distribution:
  %-ile |  Read (ms) | Write (ms) | Total (ms)
----------------------------------------------
    min |      0.500 |        N/A |      0.500
   50th |      2.000 |      3.000 |      2.100
   90th |      4.000 |      5.000 |      4.100
   95th |      5.000 |      6.000 |      5.100
   99th |      6.000 |      7.000 |      6.100
3-nines |      7.000 |      8.000 |      7.100
    max |      9.000 |     10.000 |     10.000
";

/// The layout of 2.0.14, without `-L`.
const OLD: &str = "\
Command Line: diskspd -d5 x

Input parameters:

\ttimespan:   1
\t-------------
\tduration: 5s
\tpath: 'x'
\t\tusing software and hardware write cache
\t\tperforming mix test (write/read ratio: 40/100)
\t\tblock size: 65536
\t\tnumber of outstanding I/O operations: 2
\t\tstride size: 131072
\t\tthreads per file: 1

Results for timespan 1:
*******************************************************************************

actual test time:\t5.00s
thread count:\t\t1
proc count:\t\t1

CPU |  Usage |  User  |  Kernel |  Idle
-------------------------------------------
   0|  -nan(ind)%|   1.00%|    9.00%|  90.00%
-------------------------------------------
avg.|  -nan(ind)%|   1.00%|    9.00%|  90.00%

Total IO
thread |       bytes     |     I/Os     |     MB/s   |  I/O per s |  file
------------------------------------------------------------------------------
     0 |          655360 |           10 |       0.13 |       2.00 | x (100MB)
------------------------------------------------------------------------------
total:            655360 |           10 |       0.13 |       2.00

Read IO
thread |       bytes     |     I/Os     |     MB/s   |  I/O per s |  file
------------------------------------------------------------------------------
     0 |          655360 |           10 |       0.13 |       2.00 | x (100MB)
------------------------------------------------------------------------------
total:            655360 |           10 |       0.13 |       2.00

Write IO
thread |       bytes     |     I/Os     |     MB/s   |  I/O per s |  file
------------------------------------------------------------------------------
     0 |               0 |            0 |       0.00 |       0.00 | x (100MB)
------------------------------------------------------------------------------
total:                 0 |            0 |       0.00 |       0.00
";

const XML: &str = r#"<Results>
  <System>
    <ComputerName>host</ComputerName>
    <Tool>
      <Version>2.2</Version>
      <VersionDate>2024/06/03</VersionDate>
    </Tool>
    <RunTime>2024/05/06 07:08:09 UTC</RunTime>
  </System>
  <Profile>
    <Progress>0</Progress>
    <TimeSpans>
      <TimeSpan>
        <Duration>10</Duration>
        <Warmup>5</Warmup>
        <Cooldown>0</Cooldown>
        <ThreadCount>4</ThreadCount>
        <RequestCount>0</RequestCount>
        <Targets>
          <Target>
            <Path>d:\a & b.dat</Path>
            <BlockSize>8192</BlockSize>
            <BaseFileOffset>0</BaseFileOffset>
            <DisableOSCache>true</DisableOSCache>
            <WriteThrough>true</WriteThrough>
            <Random>8192</Random>
            <MaxFileSize>0</MaxFileSize>
            <RequestCount>8</RequestCount>
            <WriteRatio>30</WriteRatio>
            <Throughput unit="IOPS">100</Throughput>
            <ThreadsPerFile>1</ThreadsPerFile>
          </Target>
        </Targets>
      </TimeSpan>
      <TimeSpan>
        <Duration>10</Duration>
        <Warmup>5</Warmup>
        <ThreadCount>0</ThreadCount>
        <Targets>
          <Target>
            <Path>x</Path>
            <BlockSize>65536</BlockSize>
            <StrideSize>65536</StrideSize>
            <InterlockedSequential>true</InterlockedSequential>
            <WriteRatio>100</WriteRatio>
          </Target>
        </Targets>
      </TimeSpan>
    </TimeSpans>
  </Profile>
  <TimeSpan>
    <TestTimeSeconds>10.00</TestTimeSeconds>
    <ThreadCount>4</ThreadCount>
    <CpuUtilization>
      <CPU>
        <Id>0</Id>
        <UsagePercent>20.00</UsagePercent>
      </CPU>
      <Average>
        <UsagePercent>15.00</UsagePercent>
        <UserPercent>-nan(ind)</UserPercent>
        <KernelPercent>12.00</KernelPercent>
      </Average>
    </CpuUtilization>
    <Latency ReadHistoBuckets="5" WriteHistoBuckets="5" TotalHistoBuckets="5">
      <AverageReadMilliseconds>2.500</AverageReadMilliseconds>
      <ReadLatencyStdev>1.000</ReadLatencyStdev>
      <Bucket>
        <Percentile>0</Percentile>
        <ReadMilliseconds>0.500</ReadMilliseconds>
        <TotalMilliseconds>0.500</TotalMilliseconds>
      </Bucket>
      <Bucket>
        <Percentile>99.9</Percentile>
        <ReadMilliseconds>7.000</ReadMilliseconds>
      </Bucket>
      <Bucket>
        <Percentile>99.99</Percentile>
        <ReadMilliseconds>8.000</ReadMilliseconds>
      </Bucket>
      <Bucket>
        <Percentile>100</Percentile>
        <ReadMilliseconds>9.000</ReadMilliseconds>
      </Bucket>
    </Latency>
    <Thread>
      <Id>0</Id>
      <Target>
        <FileSize>1073741824</FileSize>
        <ReadBytes>81920</ReadBytes>
        <ReadCount>10</ReadCount>
        <WriteBytes>0</WriteBytes>
        <WriteCount>0</WriteCount>
      </Target>
      <Target>
        <FileSize>1073741824</FileSize>
        <ReadBytes>81920</ReadBytes>
        <ReadCount>10</ReadCount>
        <WriteBytes>8192</WriteBytes>
        <WriteCount>1</WriteCount>
      </Target>
    </Thread>
  </TimeSpan>
  <TimeSpan>
    <Error>The test was interrupted before the measurements began. No results are displayed.</Error>
  </TimeSpan>
</Results>
"#;

fn runs(text: &str) -> Result<Vec<LoadRun>, Fault> {
    crate::testing::runs("diskspd", text.as_bytes(), &Options::default())
}

fn has_note(run: &LoadRun, part: &str) -> bool {
    run.notes.iter().any(|note| note.contains(part))
}

fn unix_ns(time: &str) -> Option<i64> {
    Some(time.parse::<jiff::Timestamp>().unwrap().as_nanosecond() as i64)
}

#[test]
fn text_is_read_by_its_headers() {
    let found = runs(&format!("{TEXT}\r\n{OLD}")).unwrap();
    let [first, old] = &found[..] else { panic!("{found:?}") };
    assert_eq!((first.seconds, first.line, first.label.as_str()), (10.01, 43, "time span 1"));
    assert_eq!(first.shape, Some(Shape::closed(16)));
    assert_eq!(first.began_unix_ns, unix_ns("2024-05-06T07:08:14Z"));
    let [read, write] = &first.intervals[..] else { panic!("{:?}", first.intervals) };
    assert_eq!((read.operation.as_str(), read.completed, read.bytes), ("read", 70, 4_587_520));
    assert_eq!((write.operation.as_str(), write.completed, write.bytes), ("write", 30, 1_966_080));
    let times = read.response;
    assert_eq!((times.min, times.mean, times.p50, times.p90), (0.5, 2.5, 2.0, 4.0));
    assert_eq!((times.p95, times.p99, times.p999, times.max), (5.0, 6.0, 7.0, 9.0));
    assert!(write.response.min.is_nan() && write.response.max == 10.0);
    // Those of both together are in the column of all, of the last table.
    let of_both: Vec<&Level> =
        ["p50", "p95", "p999"].iter().map(|name| &first.facts[&format!("imported.ms.all.{name}")]).collect();
    assert_eq!(of_both, [&Level::Number(2.1), &Level::Number(5.1), &Level::Number(7.1)]);
    let settings: Vec<String> = first
        .settings
        .iter()
        .map(|(name, level)| format!("{}={level}", name.trim_start_matches("workload.")))
        .collect();
    assert_eq!(
        settings,
        [
            "access=random",
            "block_size=64KiB",
            "cache=direct",
            "files=d:\\a.dat,d:\\b.dat",
            "outstanding=4",
            "read_percent=70%",
            "size=1GiB",
            "threads=4",
            "write_through=true"
        ]
    );
    assert_eq!(first.facts["diskspd.cpu.usage"], Level::Percent(15.0));
    assert_eq!(first.facts["diskspd.cpu.kernel"], Level::Percent(12.0));
    assert_eq!(first.facts["diskspd.read.latency_stddev"], Level::Time(1_000_000));
    assert!(!first.facts.contains_key("diskspd.write.latency_stddev"));
    assert!(has_note(first, "limited to 100 IOPS"), "{:?}", first.notes);

    assert_eq!((old.intervals.len(), old.intervals[0].completed), (1, 10));
    assert!(old.intervals[0].response.mean.is_nan() && old.intervals[0].response.p99.is_nan());
    assert_eq!(old.settings["workload.read_percent"], Level::Percent(60.0));
    assert_eq!(old.settings["workload.access"], Level::Text("sequential".into()));
    assert_eq!(old.settings["workload.stride"], Level::Bytes(131_072));
    assert_eq!(old.settings["workload.cache"], Level::Text("page-cache".into()));
    assert_eq!(old.settings["workload.size"], Level::Bytes(100 << 20));
    assert!(!old.facts.contains_key("diskspd.cpu.usage") && old.began_unix_ns.is_none());
}

#[test]
fn text_that_was_cut_is_used_as_far_as_it_is_whole() {
    let cut = &TEXT[..TEXT.find("\nRead IO").unwrap()];
    let found = runs(cut).unwrap();
    assert_eq!((found[0].intervals[0].operation.as_str(), found[0].intervals[0].completed), ("mixed", 100));
    assert!(has_note(&found[0], "tables of reads and writes are missing"), "{:?}", found[0].notes);
    let results = runs(&TEXT[TEXT.find("Results for").unwrap()..]).unwrap();
    assert_eq!(
        (results[0].shape.clone(), &results[0].settings["workload.threads"]),
        (None, &Level::Count(4))
    );
    let cut = &TEXT[..TEXT.find("total:").unwrap()];
    assert_eq!(
        runs(cut).unwrap_err().to_string(),
        "line 43: the time span that begins here has no line with its operations"
    );
    let found = runs(&format!("{OLD}{cut}")).unwrap();
    assert!(found.len() == 1 && has_note(&found[0], "left out: line 91:"), "{:?}", found[0].notes);
}

#[test]
fn time_spans_of_xml_are_summed() {
    let found = runs(&format!("WARNING\n{XML}{XML}")).unwrap();
    let [first, _] = &found[..] else { panic!("{found:?}") };
    assert_eq!((first.version.as_str(), first.line, first.seconds), ("2.2", 52, 10.0));
    assert_eq!(first.shape, Some(Shape::closed(32)));
    assert_eq!(first.began_unix_ns, unix_ns("2024-05-06T07:08:14Z"));
    let [read, write] = &first.intervals[..] else { panic!("{:?}", first.intervals) };
    assert_eq!((read.completed, read.bytes, write.completed, write.bytes), (20, 163_840, 1, 8192));
    assert_eq!(
        (read.response.min, read.response.mean, read.response.p999, read.response.max),
        (0.5, 2.5, 7.0, 9.0)
    );
    assert!(read.response.p50.is_nan() && write.response.mean.is_nan() && write.response.max.is_nan());
    assert_eq!(first.settings["workload.files"], Level::List(vec![Level::Text("d:\\a & b.dat".into())]));
    assert_eq!(first.settings["workload.size"], Level::Bytes(1 << 30));
    assert_eq!(first.settings["workload.outstanding"], Level::Count(8));
    assert_eq!(first.settings["workload.threads"], Level::Count(4));
    assert_eq!(first.facts["diskspd.cpu.usage"], Level::Percent(15.0));
    assert!(!first.facts.contains_key("diskspd.cpu.user"));
    assert!(has_note(first, "diskspd was interrupted"), "{:?}", first.notes);
}

#[test]
fn xml_that_was_cut_is_used_as_far_as_it_is_whole() {
    let found = runs(&XML[..XML.find("<Error>").unwrap()]).unwrap();
    assert_eq!(found.len(), 1);
    assert!(
        has_note(&found[0], "left out: line 1: the document that begins here has no end"),
        "{:?}",
        found[0].notes
    );
    let fault = runs(&XML[..XML.find("<Thread>").unwrap()]).unwrap_err();
    assert_eq!(fault.to_string(), "line 1: the document that begins here has no end");
    let fault = runs(&XML.replace("</Duration>", "</Other>")).unwrap_err();
    assert!(fault.line == 14 && fault.what.starts_with("is not XML"), "{fault}");
}

#[test]
fn deeply_nested_xml_is_no_panic() {
    let deep = format!("<Results>\n<TimeSpan>{}", "<a>".repeat(200_000));
    assert!(runs(&deep).is_err());
    assert!(runs(&format!("{deep}{}</TimeSpan></Results>", "</a>".repeat(200_000))).is_err());
}

proptest::proptest! {
    #[test]
    fn no_cut_or_change_is_a_panic(
        which in 0..3_usize, at in 0..4000_usize, change in "[-|:<>/0-9a-zI \n&;]{0,20}", cut in 0..300_usize,
    ) {
        let whole = [TEXT, OLD, XML][which];
        let at = at.min(whole.len());
        let end = (at + cut).min(whole.len());
        if let (Some(begin), Some(rest)) = (whole.get(..at), whole.get(end..)) {
            let changed = format!("{begin}{change}{rest}");
            let _ = xml::open(Box::new(std::io::Cursor::new(changed.clone().into_bytes())));
            let _ = text::open(Box::new(std::io::Cursor::new(changed.into_bytes())));
        }
    }
}

/// A C library prints the decimal sign of the locale that a program asks for, and spreadsheets add a separator of thousands.
#[test]
fn figures_with_decimal_commas_are_the_same_figures() {
    let of = |text: &str| {
        let runs = crate::testing::runs("diskspd", text.as_bytes(), &Options::default()).unwrap();
        format!("{:?}", runs.iter().map(|run| (&run.seconds, &run.intervals, &run.facts)).collect::<Vec<_>>())
    };
    let (head, results) = TEXT.split_at(TEXT.find("Results for").unwrap());
    let is_digit = |at: usize| results.as_bytes().get(at).is_some_and(u8::is_ascii_digit);
    let with_commas: String = results
        .char_indices()
        .map(|(at, sign)| match sign {
            '.' if at > 0 && is_digit(at - 1) && is_digit(at + 1) => ',',
            sign => sign,
        })
        .collect();
    assert!(with_commas.contains("10,01s") && with_commas.contains("15,00%"), "{with_commas}");
    assert_eq!(of(&format!("{head}{with_commas}")), of(TEXT));
}
