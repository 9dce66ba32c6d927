//! Writes the pages of the stored runs to a folder, to look at: `cargo run -p plimsoll-report --example page -- FOLDER`.
#![allow(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    clippy::panic,
    clippy::print_stdout,
    dead_code,
    unreachable_pub,
    reason = "an example reads its argument and writes files"
)]

#[path = "../src/recorded.rs"]
mod recorded;

use std::time::Instant;

use model::Phase;
use recorded::Recorded;

fn main() {
    let folder = std::env::args().nth(1).unwrap_or_else(|| ".".into());
    let folder = std::fs::canonicalize(folder).unwrap();
    std::env::set_current_dir(env!("CARGO_MANIFEST_DIR")).unwrap();
    let hour = ("hour", for_an_hour(recorded::run("disk")));
    for (name, run) in recorded::all().iter().cloned().chain([hour]) {
        let start = Instant::now();
        let page = plimsoll_report::html(&run.document, &run.study);
        let took = start.elapsed();
        let path = folder.join(format!("{name}.html"));
        std::fs::write(&path, &page).unwrap();
        println!("{}: {} bytes in {:.1} ms", path.display(), page.len(), took.as_secs_f64() * 1e3);
    }
}

/// A run whose measured phase is repeated until it lasts an hour: how long a page takes that has so much to draw.
fn for_an_hour(run: Recorded) -> Recorded {
    let Recorded { mut document, mut study } = run;
    let record = &mut study.runs[0];
    let at = record.run.phases.iter().position(|span| span.phase == Phase::Measure).unwrap();
    let (begin_s, length_s) = {
        let span = &record.run.phases[at];
        (span.begin_s, span.end_s - span.begin_s)
    };
    let times = (3600.0 / length_s) as u32;
    let measured: Vec<_> =
        record.intervals.iter().filter(|each| each.phase == Phase::Measure).cloned().collect();
    let table = &mut record.readings;
    let sampled: Vec<usize> = (0..table.begin_s.len()).filter(|row| table.begin_s[*row] >= begin_s).collect();
    let columns: Vec<_> = record.histograms.values().map(|each| each.heat.clone()).collect();
    for repeated in 1..times {
        let later_s = f64::from(repeated) * length_s;
        for interval in &measured {
            let (begin_s, end_s) = (interval.begin_s + later_s, interval.end_s + later_s);
            record.intervals.push(model::Interval { begin_s, end_s, ..interval.clone() });
        }
        for row in &sampled {
            table.begin_s.push(table.begin_s[*row] + later_s);
            table.end_s.push(table.end_s[*row] + later_s);
            table.values.iter_mut().for_each(|values| values.push(values[*row]));
        }
        for (histograms, columns) in record.histograms.values_mut().zip(&columns) {
            let shifted = columns.iter().map(|column| model::study::HeatColumn {
                begin_s: column.begin_s + later_s,
                end_s: column.end_s + later_s,
                ..column.clone()
            });
            histograms.heat.extend(shifted);
        }
    }
    record.run.phases[at].end_s = begin_s + f64::from(times) * length_s;
    document.trials[0].measured_s = f64::from(times) * length_s;
    Recorded { document, study }
}
