//! What a scenario costs the generator for each request, as a ratio to the cheapest kind of request in the same run.
//!
//! ```text
//! cargo run --release -p plimsoll-workloads --example scenario_cost -- [ROUNDS]
//! ```
//!
//! Prints the median time of planning a request and judging its response, for each kind of request and check.

use std::path::Path;
use std::process::ExitCode;
use std::time::Instant;

use plimsoll_workloads::http::scenario::{Response, Scenario, Session};

/// Requests of each kind in a round.
const REQUESTS: u64 = 20_000;

/// Kinds of requests: a name, and the lines of the request.
const KINDS: [(&str, &str); 7] = [
    ("constant", "url = \"/x\""),
    ("template", "url = \"/x/${number}\"\nheader = \"X: ${uuid}\""),
    ("template and body", "method = \"POST\"\nurl = \"/x/${number}\"\nbody = \"<a>${user}</a>\""),
    ("check contains", "url = \"/x\"\ncheck = [{ contains = \"last\" }]"),
    ("check regex", "url = \"/x\"\ncheck = [{ regex = \"id=\\\"(\\\\d+)\\\" last\" }]"),
    ("check XPath", "url = \"/x\"\ncheck = [{ xpath = \"//item[@id='99']\" }]"),
    ("check JSON path", "url = \"/x\"\ncheck = [{ json_path = \"$.items[-1].id\" }]"),
];

fn main() -> ExitCode {
    let rounds = std::env::args().nth(1).and_then(|text| text.parse().ok()).unwrap_or(9_usize).max(1);
    let xml: String = (0..100).map(|id| format!("<item id=\"{id}\">name</item>")).collect();
    let xml = format!("<items>{xml}<!-- id=\"7\" last --></items>");
    let json: Vec<String> = (0..100).map(|id| format!("{{\"id\":{id},\"name\":\"name\"}}")).collect();
    let json = format!("{{\"items\":[{}]}}", json.join(","));
    let mut kinds = Vec::new();
    for (name, lines) in KINDS {
        let text =
            format!("base = \"http://a\"\n[[transaction]]\nname = \"t\"\n[[transaction.request]]\n{lines}\n");
        let mut no_secret = |_: model::Placeholder<'_>| Err((String::new(), String::new()));
        match Scenario::parse(&text, name, Path::new("/"), &mut no_secret) {
            Ok(scenario) => kinds.push((name, scenario, Vec::new())),
            Err(problems) => {
                #[allow(clippy::print_stderr, reason = "so that it is seen")]
                {
                    eprintln!("{problems}");
                }
                return ExitCode::FAILURE;
            }
        }
    }
    for _ in 0..rounds {
        for (name, scenario, times) in &mut kinds {
            let body = if name.contains("JSON") { &json } else { &xml };
            times.push(round(scenario, body.as_bytes()));
        }
    }
    let mut cheapest = None;
    for (name, _, times) in &mut kinds {
        times.sort_by(f64::total_cmp);
        let median = times.get(times.len() / 2).copied().unwrap_or_default();
        let ratio = median / *cheapest.get_or_insert(median);
        #[allow(clippy::print_stdout, reason = "it is what the program is for")]
        {
            println!("{name:20} {median:9.0} ns/request  {ratio:7.1} times constant");
        }
    }
    ExitCode::SUCCESS
}

/// Nanoseconds for each request of one kind.
fn round(scenario: &Scenario, body: &[u8]) -> f64 {
    let mut session = Session::new(scenario, 1, 0);
    let begin = Instant::now();
    for number in 0..REQUESTS {
        let Ok(planned) = session.next(scenario, number, 0, 0) else { return f64::NAN };
        std::hint::black_box((planned.head, planned.body));
        let response = Response { status: 200, body, body_bytes: body.len() as u64, ..Response::default() };
        if session.took(scenario, &response).failure.is_some() {
            return f64::NAN;
        }
    }
    begin.elapsed().as_nanos() as f64 / REQUESTS as f64
}
