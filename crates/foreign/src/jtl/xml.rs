//! JTL as XML: `testResults` with a tag for each sample; since 2.1 with short names, before with `sampleResult`.

use std::io::Read;

use super::{Sample, Samples, is_good, time, transaction};
use crate::date::DateOrder;
use crate::tags::{Tag, Tags};
use crate::{Fault, Options};

/// The deepest nesting of samples.
const DEPTH_MAX: usize = 256;

/// Whether the first tag is that of JMeter.
pub(super) fn recognize(head: &str) -> bool {
    head.trim_start().starts_with('<')
        && matches!(Tags::new(head.as_bytes()).next(), Ok(Some(tag)) if tag.name == "testResults")
}

/// A sample that is not closed.
enum Open {
    /// It is counted, so that those in it are not.
    Counted,
    /// A transaction controller, and how many samples in it are counted.
    Transaction(Box<Tag>, u64),
}

pub(super) fn read<R: Read>(from: R, options: &Options) -> Result<Samples, Fault> {
    let mut samples = Samples::default();
    let mut open: Vec<Open> = Vec::new();
    let mut tags = Tags::new(from);
    let mut is_ended = false;
    loop {
        let tag = match tags.next() {
            Ok(None) => break,
            Ok(Some(tag)) => tag,
            Err(fault) if samples.count > 0 => {
                samples.notes.push(format!("{fault}; what follows was left out"));
                break;
            }
            Err(fault) => return Err(fault),
        };
        is_ended = tag.is_end && tag.name == "testResults";
        if !matches!(tag.name.as_str(), "httpSample" | "sample" | "sampleResult") {
            continue;
        }
        if tag.is_end {
            if let Some(Open::Transaction(tag, inner)) = open.pop() {
                match inner {
                    0 => add(&mut samples, &tag, options),
                    _ => samples.opened += 1,
                }
            }
            continue;
        }
        let is_nested = matches!(open.last(), Some(Open::Counted));
        let is_empty = tag.is_empty;
        let opened = match (is_nested, transaction(tag.get(&["rm", "responseMessage"]))) {
            (true, _) => {
                samples.nested += 1;
                Open::Counted
            }
            (false, Some(_)) if !is_empty => Open::Transaction(Box::new(tag), 0),
            (false, of_transaction) => {
                add(&mut samples, &tag, options);
                for outer in open.iter_mut().filter(|_| of_transaction.is_none()) {
                    if let Open::Transaction(_, inner) = outer {
                        *inner += 1;
                    }
                }
                Open::Counted
            }
        };
        if !is_empty {
            if open.len() == DEPTH_MAX {
                return Err(Fault::at(0, "samples are nested more than 256 deep", "the file is damaged"));
            }
            open.push(opened);
        }
    }
    if tags.is_cut || !is_ended {
        samples.notes.push("the file has no end: the last samples may be missing".into());
    }
    Ok(samples)
}

fn add(samples: &mut Samples, tag: &Tag, options: &Options) {
    let number = |names: &[&str]| tag.get(names)?.trim().parse::<u64>().ok();
    let begin = tag.get(&["ts", "timeStamp"]);
    let begin = begin.and_then(|text| {
        let order = options.date_order.unwrap_or(DateOrder::MonthFirst);
        time(text.as_bytes(), order, options.utc_offset_s)
    });
    let has_failed = match (tag.get(&["s", "success"]), tag.get(&["rc", "rs", "responseCode"])) {
        (Some("true"), _) => Some(false),
        (Some("false"), _) => Some(true),
        (None, Some(code)) => {
            samples.has_no_success = true;
            Some(!is_good(code))
        }
        _ => None,
    };
    let (Some(begin_unix_ns), Some(elapsed_ms), Some(has_failed)) =
        (begin, number(&["t", "time"]), has_failed)
    else {
        samples.unread.add(tag.line);
        return;
    };
    samples.add(&Sample {
        label: tag.get(&["lb", "label"]).unwrap_or("request"),
        begin_unix_ns,
        elapsed_ms,
        has_failed,
        bytes: number(&["by"]),
        threads: number(&["na"]),
        samples: number(&["sc"]),
        transaction: transaction(tag.get(&["rm", "responseMessage"])),
    });
}
