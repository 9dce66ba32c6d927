//! Results of k6: the summary as JSON in all its layouts, and each request as CSV or JSON lines.
//!
//! The response time is `http_req_duration`: sending, waiting and receiving, without the time to connect.

mod points;
mod summary;

use model::{Level, Shape};

use crate::{Content, Fault, Format, LoadRun, Options, Source, input, json, number};

pub(crate) static FORMAT: Format = Format {
    name: "k6",
    about: "k6 summary JSON; CSV and JSON lines: each HTTP request, by its name",
    recognize: |head| recognize(head),
    open,
};

fn recognize(head: &str) -> bool {
    summary::recognize(head) || points::is_csv(head) || points::is_lines(head)
}

fn open(from: Source, _: &Options) -> Result<Content, Fault> {
    let (head, whole) = input::peek(from)?;
    let shown = input::decoded(&head);
    let run = match () {
        () if points::is_csv(&shown) => points::csv(whole)?,
        () if points::is_lines(&shown) => points::lines(whole)?,
        () => summary::run(&json::document(whole)?)?,
    };
    Content::load(vec![run])
}

/// What k6 says about its virtual users and iterations.
#[derive(Default)]
struct Users {
    /// The largest number of virtual users.
    most: Option<f64>,
    iterations: Option<f64>,
    /// Iterations that were not started in time; only arrival-rate executors have them.
    dropped: Option<f64>,
}

impl Users {
    fn add_to(&self, run: &mut LoadRun) {
        for (name, value) in [
            ("k6.vus_max", self.most),
            ("k6.iterations", self.iterations),
            ("k6.dropped_iterations", self.dropped),
        ] {
            if let Some(value) = value.and_then(number::count) {
                run.facts.insert(name.into(), Level::Count(value));
            }
        }
        match (self.dropped, self.most.and_then(number::count)) {
            (Some(_), _) => run.notes.push(
                "an arrival-rate executor dropped iterations: the load is an open loop whose rate k6 does not report"
                    .into(),
            ),
            (None, Some(users @ 1..)) => {
                run.shape = Some(Shape::closed(users));
                run.notes.push(
                    "k6 does not report its executor and sleep times: users are the largest number of VUs, \
                     and an arrival-rate executor is an open loop"
                        .into(),
                );
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests;
