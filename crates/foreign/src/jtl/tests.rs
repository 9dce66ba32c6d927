use std::io::Cursor;

use super::*;

fn read_with(text: &str, options: &Options) -> Result<LoadRun, Fault> {
    crate::testing::run("jtl", text.as_bytes(), options)
}

fn read(text: &str) -> Result<LoadRun, Fault> {
    read_with(text, &Options::default())
}

/// Completed, failed and bytes of each operation.
fn totals(run: &LoadRun) -> Vec<(String, u64, u64, u64)> {
    run.histograms
        .keys()
        .map(|name| {
            let of = run.intervals.iter().filter(|interval| interval.operation == *name);
            let sum = |part: fn(&model::Interval) -> u64| of.clone().map(part).sum();
            (name.clone(), sum(|of| of.completed), sum(|of| of.failed), sum(|of| of.bytes))
        })
        .collect()
}

fn has_note(run: &LoadRun, part: &str) -> bool {
    run.notes.iter().any(|note| note.contains(part))
}

const HEADER: &str = "timeStamp,elapsed,label,responseCode,responseMessage,threadName,dataType,success,failureMessage,bytes,sentBytes,grpThreads,allThreads,URL,Latency,IdleTime,Connect\n";

#[test]
fn csv_with_a_header_has_its_requests_by_label() {
    let text = format!(
        "{HEADER}1500000000000,120,Login,200,OK,T 1-1,text,true,,1000,100,2,5,http://a/,110,0,1\n\
         1500000000500,80,\"Home, \"\"first\"\"\npage\",500,Error,T 1-2,text,false,\"x\ny\",300,100,2,7,http://a/,70,0,0\n\
         1500000001000,20,Login,200,OK,T 1-1,text,true,,1000,100,2,4,http://a/,10,0,0\n"
    );
    let run = read(&text).unwrap();
    assert_eq!(totals(&run), [("Home, \"first\"\npage".into(), 1, 1, 0), ("Login".into(), 2, 0, 2000)]);
    assert_eq!((run.tool, run.workload), ("jmeter", "http"));
    assert_eq!(run.began_unix_ns, Some(1_500_000_000_000_000_000));
    assert!((run.seconds - 1.02).abs() < 1e-9);
    assert_eq!(run.shape, Some(Shape::closed(7)));
    assert_eq!(run.histograms["Login"].max() / 1_000_000, 120);
}

#[test]
fn the_layouts_of_several_versions_are_read() {
    for (text, expected, failed) in [
        // Other columns, another order, other delimiters, dates.
        ("label;success;timeStamp;elapsed\nA;true;1500000000000;7\n", "A", 0),
        ("elapsed\ttimeStamp\tlabel\tsuccess\n7\t2017/07/14 02:40:00.000\tA\tFALSE\n", "A", 1),
        ("elapsed^timeStamp^label^success\n7^1500000000000^A^true\n", "A", 0),
        ("\"my var\",timeStamp,elapsed,label,responseCode\n1,1500000000000,7,A,404\n", "A", 1),
        // Without a header: 2.3 to 2.8, 2.9 to 2.13, 3.1 and 5.0.
        ("1500000000000,7,A,200,OK,T 1-1,text,true,300,5\n", "A", 0),
        ("1500000000000,7,A,200,OK,T 1-1,text,true,300,1,1,5\n", "A", 0),
        ("1500000000000,7,A,200,OK,T 1-1,text,true,,300,100,1,1,5,0,0\n", "A", 0),
        ("1500000000000,7,A,200,OK,T 1-1,text,false,\"a, b\",300,100,1,1,http://a/,5,0,0\n", "A", 1),
    ] {
        let run = read(text).unwrap();
        let found = totals(&run);
        assert_eq!((found[0].0.as_str(), found[0].1, found[0].2), (expected, 1, failed), "{text}");
        assert_eq!(run.began_unix_ns, Some(1_500_000_000_000_000_000), "{text}");
        let bytes = found[0].3;
        assert!(bytes == if text.contains("300") && failed == 0 { 300 } else { 0 }, "{text}: {bytes}");
    }
}

#[test]
fn dates_have_the_given_order_and_offset() {
    let text = "timeStamp,elapsed,label,success\n13.02.2020 10:00:00,5,A,true\n";
    let options = Options { utc_offset_s: -3600, date_order: None };
    let run = read_with(text, &options).unwrap();
    assert_eq!(run.began_unix_ns, Some(1_581_584_400_000_000_000));
    assert!(has_note(&run, "no zone") && has_note(&run, "no response messages"));
    let text =
        "timeStamp,elapsed,label,success\n13/02/2020 10:00:00,5,A,true\n02/13/2020 10:00:00,5,A,true\n";
    assert!(read(text).unwrap_err().what.contains("neither the day nor the month"));
}

#[test]
fn requests_count_and_not_their_transactions() {
    let message = "\"Number of samples in transaction : 2, number of failing samples : 0\"";
    let row = |label: &str, message: &str| format!("1500000000000,9,{label},200,{message},T 1-1,,true\n");
    let header = "timeStamp,elapsed,label,responseCode,responseMessage,threadName,dataType,success\n";
    let inner = format!("{header}{}{}{}", row("A", "OK"), row("B", "OK"), row("T", message));
    let run = read(&inner).unwrap();
    assert_eq!(totals(&run).len(), 2);
    assert!(has_note(&run, "left out: 1 sample of transaction controllers"), "{:?}", run.notes);
    // With "generate parent sample" their requests are not in the file.
    let run = read(&format!("{header}{}{}", row("T", message), row("T", message))).unwrap();
    assert_eq!(totals(&run), [("T".into(), 2, 0, 0)]);
    assert!(has_note(&run, "counted: 2 samples of transaction controllers"));
}

#[test]
fn xml_counts_pages_and_the_requests_of_transactions() {
    let sample = |name: &str, label: &str, end: &str| {
        format!(
            "<{name} t=\"7\" it=\"0\" lt=\"5\" ts=\"1500000000000\" s=\"true\" lb=\"{label}\" rc=\"200\" rm=\"OK\" \
             tn=\"T 1-1\" dt=\"text\" by=\"300\" ng=\"1\" na=\"3\"{end}\n"
        )
    };
    let controller = |label: &str, end: &str| {
        sample("sample", label, end).replace(
            "rm=\"OK\"",
            "rm=\"Number of samples in transaction : 2, number of failing samples : 0\"",
        )
    };
    let text = format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testResults version=\"1.2\">\n{}{}<java.net.URL>http://a/?&amp;</java.net.URL>\n</httpSample>\n{}{}{}</sample>\n{}\n</testResults>\n",
        sample("httpSample", "Page &lt;1&gt;", ">"),
        sample("httpSample", "redirect", "/>"),
        controller("T", ">"),
        sample("httpSample", "A", "/>"),
        sample("httpSample", "B", "/>"),
        controller("empty", "/>"),
    );
    let run = read(&text).unwrap();
    let found = totals(&run);
    let names: Vec<&str> = found.iter().map(|(name, ..)| name.as_str()).collect();
    assert_eq!(names, ["A", "B", "Page <1>"]);
    assert!(has_note(&run, "left out: 1 sample in a page"));
    assert!(has_note(&run, "left out: 1 transaction controller, whose"));
    assert_eq!(run.shape, Some(Shape::closed(3)));
    assert!(!has_note(&run, "no end"));
    // Cut in a tag.
    let run = read(&text[..text.find("lb=\"B\"").unwrap()]).unwrap();
    assert_eq!(totals(&run).len(), 2);
    assert!(has_note(&run, "no end"));
    let old = "<testResults><sampleResult timeStamp=\"1500000000000\" dataType=\"text\" threadName=\"T\" label=\"A\" \
               time=\"280\" responseMessage=\"OK\" responseCode=\"200\" success=\"true\"/></testResults>";
    assert_eq!(totals(&read(old).unwrap()), [("A".into(), 1, 0, 0)]);
}

#[test]
fn damaged_files_say_what_is_missing() {
    for (text, line, expected) in [
        (format!("{HEADER}x,y\n"), 2, "the row has no time"),
        (HEADER.to_string(), 0, "no samples"),
        ("<testResults version=\"1.2\">".to_string(), 0, "no samples"),
        ("timeStamp,elapsed,label,success,SampleCount\n1500000000000,7,A,true,9\n".to_string(), 0, "sums"),
    ] {
        let fault = read(&text).unwrap_err();
        assert_eq!((fault.line, fault.what.contains(expected)), (line, true), "{text}: {fault}");
    }
    let cut = format!("{HEADER}1500000000000,7,A,200,OK,T,text,true,,3,1,1,1,u,5,0,0\n1500000001000,1");
    let run = read(&cut).unwrap();
    assert_eq!(totals(&run)[0].1, 1);
    assert!(has_note(&run, "line 3 cannot be read"));
}

#[test]
fn files_of_others_are_not_taken() {
    for text in [
        "timestamp,elapsed\n1,2\n",
        "a,b,c\n1,2,3\n",
        "<html><testResults/></html>",
        "1500000000000,7,A,200,OK,T,text,yes,3,5\n",
        "",
    ] {
        assert!(!recognize(text), "{text}");
    }
}

proptest::proptest! {
    #[test]
    fn no_text_is_a_panic(text in "(timeStamp,elapsed,label,success\n|<testResults>)?([0-9a-z\",;<>/=. \n-]{0,40}\n){0,8}") {
        let _ = open(Box::new(Cursor::new(text.into_bytes())), &Options::default());
    }

    #[test]
    fn no_xml_is_a_panic(parts in proptest::collection::vec(0..6_usize, 0..40)) {
        let pieces = ["<sample rm=\"Number of samples in transaction : 1\">", "</sample>", "<httpSample t=\"1\" ts=\"1500000000000\" s=\"true\">",
            "</httpSample>", "<sample t=\"9\" ts=\"1500000000000\" s=\"true\"/>", "<"];
        let text: String = std::iter::once("<testResults>").chain(parts.iter().map(|at| pieces[*at])).collect();
        let _ = open(Box::new(Cursor::new(text.into_bytes())), &Options::default());
    }
}
