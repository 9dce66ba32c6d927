//! Doubts about what a load reached over the network. The workload records the facts.

use model::{Doubt, DoubtKind, Level};

use crate::measured::Measured;
use crate::words;

/// Whether every certificate of a server was accepted.
const INSECURE: &str = "tls.insecure";
/// How often a server sent what no request asked for.
const UNSOLICITED: [&str; 2] = ["responses.unsolicited", "responses.unexpected"];
/// Responses that ended with a connection of TLS that was cut, or whose server does not say that it ends.
const WITHOUT_NOTIFY: &str = "responses.without_close_notify";
/// Searches that succeeded, and those of them that found nothing.
const SEARCHES: &str = "search.succeeded";
const WITHOUT_ENTRIES: &str = "search.without_entries";
/// Share of the searches that find nothing from which it is reported: a few may be meant to.
const WITHOUT_ENTRIES_SHARE: f64 = 0.01;
/// The addresses of a name that got no connections, and why.
const LEFT_OUT: &str = "address.left_out";
/// The connections to each address of a name with several.
const CONNECTIONS: &str = "address.connections.";

/// Facts of the load: of this host, or of the machines that drove it.
pub(super) fn doubts(measured: &Measured, found: &mut Vec<Doubt>) {
    let facts = &measured.record.run.facts;
    let named = |wanted: &str| {
        let wanted = wanted.to_string();
        facts.iter().filter(move |(name, _)| {
            **name == wanted
                || name.strip_prefix("machine.").is_some_and(|rest| rest.ends_with(&format!(".{wanted}")))
        })
    };
    if named(INSECURE).any(|(_, level)| *level == Level::Flag(true)) {
        found.push(Doubt::new(
            DoubtKind::Unverified,
            "the certificate of the server was not verified (`insecure`): another host could have answered in its place",
            "name the file of the certificate with `ca`, and leave `insecure` out",
        ));
    }
    let sum = |name: &str| -> u64 {
        named(name).map(|(_, level)| if let Level::Count(count) = level { *count } else { 0 }).sum()
    };
    let cut = sum(WITHOUT_NOTIFY);
    if cut > 0 {
        found.push(Doubt::new(
            DoubtKind::Incomplete,
            format!(
                "{} had no length and ended with a connection that TLS did not close (close_notify): they may be cut",
                words::count(cut as usize, "response")
            ),
            "let the server state the length of its responses, or end TLS before the connection; compare `responses.body_bytes_min` with the whole",
        ));
    }
    let (searches, without) = (sum(SEARCHES), sum(WITHOUT_ENTRIES));
    if without > 0 && without as f64 >= WITHOUT_ENTRIES_SHARE * searches as f64 {
        found.push(Doubt::new(
            DoubtKind::NothingFound,
            match without == searches {
                true => "no search found an entry: the times are those of searches for nothing".into(),
                false => format!("{} of {} searches found no entry", words::whole(without), words::whole(searches)),
            },
            "check that the base, the scope, the filter and the rights of the bind DN find what you mean (`ldapsearch`)",
        ));
    }
    let times: u64 = UNSOLICITED.iter().map(|name| sum(name)).sum();
    if times > 0 {
        found.push(Doubt::new(
            DoubtKind::Unsolicited,
            format!(
                "the server sent {} without a request: other responses may be those to earlier requests",
                words::count(times as usize, "response")
            ),
            "look for the fault in the server, or in the proxy in front of it: its response times are not those shown",
        ));
    }
    let left_out: Vec<String> = named(LEFT_OUT).map(|(_, level)| level.to_string()).collect();
    if !left_out.is_empty() {
        found.push(Doubt::new(
            DoubtKind::LeftOut,
            format!("these addresses of the server got no load: {}", left_out.join(", ")),
            "start the server there, or name the addresses to load in the URL",
        ));
    }
    let unused: Vec<&str> = facts
        .iter()
        .filter(|(_, level)| **level == Level::Count(0))
        .filter_map(|(name, _)| name.strip_prefix(CONNECTIONS))
        .collect();
    if !unused.is_empty() {
        found.push(Doubt::new(
            DoubtKind::LeftOut,
            format!("there were fewer connections than addresses of the server; no load went to {}", unused.join(", ")),
            "have more operations in flight, or fewer on each connection (`streams`, `depth`); or load one address (`addresses = \"first\"`)",
        ));
    }
}
