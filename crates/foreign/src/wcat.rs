//! The log of WCAT 6 as XML (`log.xml`): report, section, table, item and data with a name.
//!
//! Only what is certain is read: virtual clients, requests per second, requests and errors, and percentiles of the response time.

use model::{Level, Shape};
use roxmltree::{Document, Node, ParsingOptions};

use crate::load::{Whole, of_percentiles};
use crate::number::count;
use crate::tags::Tags;
use crate::{Content, Fault, Format, LoadRun, Options, Source, lines};

pub(crate) static FORMAT: Format = Format {
    name: "wcat",
    about: "WCAT 6 log.xml: requests, errors, rate and percentiles of the summary",
    recognize: |head| recognize(head),
    open,
};

/// The largest file, and the most nodes in it.
const BYTES_MAX: usize = 32 << 20;
const NODES_MAX: u32 = 2_000_000;

/// The deepest nesting; WCAT has five levels.
const DEPTH_MAX: usize = 64;

/// Tables that only WCAT has.
const TABLES: [&str; 2] = ["summarydata", "transstats"];

fn recognize(head: &str) -> bool {
    let mut tags = Tags::new(head.as_bytes());
    let mut next = || tags.next().ok().flatten();
    if !head.trim_start().starts_with('<') || next().is_none_or(|tag| tag.name != "report") {
        return false;
    }
    while let Some(tag) = next() {
        if tag.name == "table" && tag.get(&["name"]).is_some_and(|name| TABLES.contains(&name)) {
            return true;
        }
    }
    false
}

fn open(from: Source, _: &Options) -> Result<Content, Fault> {
    let text = lines::whole(from, BYTES_MAX)?;
    // The parser calls itself for each level.
    let mut tags = Tags::new(text.as_bytes());
    let mut depth = 0_usize;
    while let Some(tag) = tags.next()? {
        match (tag.is_end, tag.is_empty) {
            (true, _) => depth = depth.saturating_sub(1),
            (false, false) => depth += 1,
            (false, true) => {}
        }
        if depth > DEPTH_MAX {
            return Err(Fault::at(tag.line, "tags are nested more than 64 deep", "the file is damaged"));
        }
    }
    let options = ParsingOptions { allow_dtd: false, nodes_limit: NODES_MAX, ..ParsingOptions::default() };
    let document = Document::parse_with_options(&text, options).map_err(|error| {
        Fault::at(u64::from(error.pos().row), format!("the XML is damaged: {error}"), "run the test again")
    })?;
    Content::load(vec![run(&document)?])
}

/// The items of a table.
fn items<'a>(document: &'a Document<'a>, section: &str, table: &str) -> Vec<Node<'a, 'a>> {
    let named = |node: &Node<'_, '_>, tag: &str, name: &str| {
        node.has_tag_name(tag) && node.attribute("name") == Some(name)
    };
    document
        .root_element()
        .children()
        .filter(|node| named(node, "section", section))
        .flat_map(|section| section.children().filter(|node| named(node, "table", table)).collect::<Vec<_>>())
        .flat_map(|table| table.children().filter(|node| node.has_tag_name("item")).collect::<Vec<_>>())
        .collect()
}

/// A number of an item.
fn number(item: &Node<'_, '_>, name: &str) -> Option<f64> {
    let data =
        item.children().find(|node| node.has_tag_name("data") && node.attribute("name") == Some(name))?;
    let value: f64 = data.text()?.trim().parse().ok()?;
    (value.is_finite() && value >= 0.0).then_some(value)
}

/// The sum of a figure over transactions. The first item may be that sum already.
fn total(items: &[Node<'_, '_>], name: &str) -> Option<f64> {
    let values: Vec<f64> = items.iter().filter_map(|item| number(item, name)).collect();
    let (first, others) = values.split_first()?;
    let rest: f64 = others.iter().sum();
    Some(if !others.is_empty() && (first - rest).abs() < 0.5 { *first } else { first + rest })
}

fn run<'a>(document: &'a Document<'a>) -> Result<LoadRun, Fault> {
    let first = |section: &str, table: &str, name: &str| {
        items(document, section, table).iter().find_map(|item| number(item, name))
    };
    let rate = first("summary", "summarydata", "rps").filter(|rate| *rate > 0.0);
    let transactions = items(document, "details", "transstats");
    let requests = total(&transactions, "requests").filter(|count| *count > 0.0);
    let (Some(rate), Some(requests)) = (rate, requests) else {
        return Err(Fault::at(
            0,
            "the log of WCAT has no requests per second (summarydata, rps) or no requests (transstats)",
            "was the test stopped too early?",
        ));
    };
    let mut run = LoadRun { tool: "wcat", workload: "http", seconds: requests / rate, ..LoadRun::default() };
    run.set_scripted();
    run.set_time_step_ms(1.0);
    run.notes.push("the duration is computed: the number of requests divided by their rate".into());
    let virtual_clients = first("header", "collection", "virtualclients").filter(|count| *count >= 1.0);
    let clients = first("header", "collection", "clients").filter(|count| *count >= 1.0);
    if let Some(virtual_clients) = virtual_clients {
        if let Some(users) = count(virtual_clients * clients.unwrap_or(1.0)) {
            run.shape = Some(Shape::closed(users));
            run.set("connections", Level::Count(users));
        }
        let facts = [("wcat.virtual_clients", Some(virtual_clients)), ("wcat.clients", clients)];
        run.facts.extend(
            facts.into_iter().filter_map(|(name, value)| Some((name.into(), Level::Count(count(value?)?)))),
        );
        match clients {
            Some(_) => {}
            None => run.notes.push("the log does not have the number of clients: one is assumed".into()),
        }
    }
    if transactions.len() > 1 {
        run.notes
            .push(format!("requests and errors are those of {} rows of transactions", transactions.len()));
    }
    let failed = total(&transactions, "errors");
    if failed.is_none() {
        run.notes.push("the log has no errors: all requests count as successful".into());
    }
    let histograms = items(document, "details", "histogram");
    let percentiles = [50.0, 90.0, 95.0, 99.0].into_iter().filter_map(|percent: f64| {
        Some((percent, number(histograms.first()?, &format!("response_time_{percent}"))?))
    });
    let times = of_percentiles(percentiles);
    if !times.p50.is_nan() {
        run.notes.push("response times are taken as milliseconds".into());
    }
    if histograms.len() > 1 {
        run.notes.push(format!("the log has {} histograms; the first one is read", histograms.len()));
    }
    run.notes.push("bytes of WCAT are not read".into());
    let impossible = |what: &str| Fault::at(0, format!("the number of {what} is none that can be"), "");
    let completed = count(requests).ok_or_else(|| impossible("requests"))?;
    let failed = count(failed.unwrap_or(0.0)).ok_or_else(|| impossible("errors"))?;
    run.add_whole(
        "request",
        Whole { completed, failed: failed.min(completed), bytes: 0, times, concurrency: f64::NAN },
    );
    Ok(run)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<LoadRun, Fault> {
        crate::testing::run("wcat", text.as_bytes(), &Options::default())
    }

    const TEXT: &str = "<?xml version=\"1.0\"?>\n<?xml-stylesheet type=\"text/xsl\" href=\"report.xsl\"?>\n\
        <report name=\"wcat\">\n<section name=\"header\"><table name=\"collection\"><item>\
        <data name=\"clients\">2</data><data name=\"virtualclients\">50</data></item></table></section>\n\
        <section name=\"summary\"><table name=\"summarydata\"><item><data name=\"rps\">1250.5</data></item></table></section>\n\
        <section name=\"details\"><table name=\"histogram\"><item><data name=\"response_time_50\">12</data>\
        <data name=\"response_time_95\">40</data><data name=\"response_time_99\">90</data></item></table>\n\
        <table name=\"transstats\"><item><data name=\"requests\">75030</data><data name=\"errors\">7</data></item></table>\n\
        </section></report>\n";

    #[test]
    fn a_log_has_its_summary() {
        let run = read(TEXT).unwrap();
        assert_eq!((run.tool, run.workload, run.shape.clone()), ("wcat", "http", Some(Shape::closed(100))));
        assert!((run.seconds - 60.0).abs() < 1e-9);
        let of = &run.intervals[0];
        assert_eq!((of.completed, of.failed), (75_030, 7));
        let times = of.response;
        assert_eq!((times.p50, times.p95, times.p99), (12.0, 40.0, 90.0));
        assert!(times.p90.is_nan() && times.mean.is_nan());
        assert_eq!(run.settings["workload.connections"], Level::Count(100));
    }

    #[test]
    fn transactions_are_summed_once() {
        let item = |count: u32| {
            format!("<item><data name=\"requests\">{count}</data><data name=\"errors\">1</data></item>")
        };
        for (counts, expected) in [([30, 10, 20], 30), ([10, 20, 40], 70)] {
            let items: String = counts.map(item).concat();
            let (before, rest) = TEXT.split_once("<table name=\"transstats\">").unwrap();
            let (_, after) = rest.split_once("</table>").unwrap();
            let run = read(&format!("{before}<table name=\"transstats\">{items}</table>{after}")).unwrap();
            assert_eq!(run.intervals[0].completed, expected);
            assert!(run.notes.iter().any(|note| note.contains("3 rows")), "{:?}", run.notes);
        }
    }

    #[test]
    fn damaged_and_foreign_files_are_refused() {
        let fault = read(&TEXT[..TEXT.len() - 20]).unwrap_err();
        assert!(fault.what.contains("damaged") && fault.line > 0, "{fault}");
        let fault = read(&TEXT.replace("name=\"rps\"", "name=\"x\"")).unwrap_err();
        assert!(fault.what.contains("no requests per second"), "{fault}");
        let deep = format!("<report><table name=\"transstats\">{}", "<a>".repeat(100_000));
        assert!(read(&deep).unwrap_err().what.contains("64 deep"));
        for text in [
            "<report><table name=\"other\"/></report>",
            "<reports><table name=\"transstats\"/></reports>",
            "report",
            "",
        ] {
            assert!(!recognize(text), "{text}");
        }
    }

    proptest::proptest! {
        #[test]
        fn no_text_is_a_panic(at in 0_usize..1000, text in "[<>/a-z\"=0-9. &;]{0,12}") {
            let at = TEXT.floor_char_boundary(at % TEXT.len());
            let text = format!("{}{text}{}", &TEXT[..at], &TEXT[at..]);
            let _ = open(Box::new(std::io::Cursor::new(text.into_bytes())), &Options::default());
        }
    }
}
