//! The record of a load, compared with what was captured of it.

use std::collections::BTreeMap;
use std::path::Path;

use model::result::KindCounts;
use model::study::OperationHistograms;
use model::wire::{WireAgainst, WireAgainstKind, WireDocument, WireTimes};
use model::{LatencySummary, Level, Operation, Phase, RunRecord};
use wire::{Protocol, Window};

use crate::carry_out::Failure;
use crate::commands::record;

/// Counts agree if they differ by at most this share.
const AGREEMENT: f64 = 0.01;

/// Or by this many: an operation at each end of the phase can be inside it for the wire and outside it for the client.
const AT_THE_ENDS: f64 = 2.0;

/// The operation of a load that is several operations on the wire.
const LOGIN: &str = "login";

/// The largest file of operations that is read.
const OPERATIONS_BYTES_MAX: u64 = 1 << 20;

/// One trial of a load, as the client recorded it.
pub(super) struct Client {
    run: String,
    trial: String,
    server: String,
    pub(super) window: Window,
    pub(super) protocol: Protocol,
    /// The operations of each kind; with the kind `all` if their names are not kinds.
    kinds: Vec<(String, u64, LatencySummary)>,
    /// Of the client and of others, warm-up included.
    counts: Vec<KindCounts>,
}

impl Client {
    /// Reads a run directory, or one trial of it: `RUN:TRIAL`.
    pub(super) fn load(name: &str) -> Result<Client, Failure> {
        let (loaded, wanted) = match (record::load(name), name.rsplit_once(':')) {
            (Ok(loaded), _) => (loaded, None),
            (Err(_), Some((run, trial))) => (record::load(run)?, Some(trial)),
            (Err(failure), None) => return Err(failure),
        };
        let (path, study, document) = loaded;
        let ids: Vec<String> = study.runs.iter().map(|of| of.run.trial.id()).collect();
        let found = match (wanted, study.runs.as_slice()) {
            (Some(wanted), runs) => runs.iter().find(|of| of.run.trial.id() == wanted),
            (None, [only]) => Some(only),
            (None, _) => None,
        };
        let Some(of) = found else {
            return Err(Failure::usage(format!(
                "error: {name} does not name one trial\n  write RUN:TRIAL with one of: {}",
                ids.join(", ")
            )));
        };
        let result = document.trials.iter().find(|trial| trial.trial == of.run.trial.id());
        let operations = result.map(|trial| trial.operations.as_slice()).unwrap_or_default();
        let names: Vec<&str> =
            operations.iter().map(|of| of.name.as_str()).filter(|name| *name != Operation::ALL).collect();
        let counts = result.map(|trial| trial.counts.clone()).unwrap_or_default();
        Client::of(of, &names, &path, counts)
    }

    fn of(of: &RunRecord, names: &[&str], path: &Path, counts: Vec<KindCounts>) -> Result<Client, Failure> {
        let run = path.display().to_string();
        let protocol = match of.run.workload.as_str() {
            "ldap" => Protocol::Ldap,
            "http" => Protocol::Http,
            other => {
                return Err(Failure::usage(format!(
                    "error: {run} is a run of `{other}`\n  name a run of plimsoll ldap or plimsoll http"
                )));
            }
        };
        let Some(span) = of.run.span(Phase::Measure).filter(|span| span.end_s > span.begin_s) else {
            return Err(Failure::usage(format!("error: {run} has no measured phase\n  run the load again")));
        };
        let kinds = kinds(of, names, path);
        if kinds.iter().any(|(kind, ..)| kind == LOGIN) {
            return Err(Failure::usage(format!(
                "error: {run} has logins, each of which is several operations on the wire\n  name a run of other operations"
            )));
        }
        let at_ns = |s: f64| of.run.started_unix_ns.saturating_add((s * 1e9) as u64);
        let server = match of.run.asked.get("workload.url") {
            Some(Level::Text(url)) => url.clone(),
            _ => String::new(),
        };
        let window = Window { begin_ns: at_ns(span.begin_s), end_ns: at_ns(span.end_s), port: port(&server) };
        Ok(Client { kinds, counts, trial: of.run.trial.id(), run, server, window, protocol })
    }

    /// Compares the record with the operations of its measured phase on the wire.
    pub(super) fn compare(&self, document: &WireDocument) -> WireAgainst {
        let kinds = self.kinds.iter().map(|(kind, client_count, summary)| {
            let on_wire = document.kinds.iter().filter(|of| kind == "all" || of.kind == *kind);
            let wire_count: u64 =
                on_wire.clone().filter_map(|of| of.response_ms).map(|times| times.count).sum();
            let difference = client_count.abs_diff(wire_count) as f64;
            WireAgainstKind {
                kind: kind.clone(),
                client_count: *client_count,
                wire_count,
                counts_agree: difference <= (AGREEMENT * *client_count as f64).max(AT_THE_ENDS),
                client_ms: times(*client_count, summary),
                wire_ms: on_wire.filter_map(|of| of.response_ms).fold(WireTimes::default(), of_several),
            }
        });
        let begin_ns = document.capture.begin_unix_ns;
        let end_ns = begin_ns.saturating_add((document.capture.seconds * 1e9) as u64);
        let length = self.window.end_ns.saturating_sub(self.window.begin_ns);
        let common = end_ns.min(self.window.end_ns).saturating_sub(begin_ns.max(self.window.begin_ns));
        WireAgainst {
            run: self.run.clone(),
            trial: self.trial.clone(),
            server: self.server.clone(),
            begin_unix_ns: self.window.begin_ns,
            seconds: length as f64 / 1e9,
            covered: common as f64 / length.max(1) as f64,
            kinds: kinds.collect(),
            counts: self.counts.clone(),
        }
    }
}

/// The port of a URL.
fn port(url: &str) -> Option<u16> {
    let (scheme, rest) = url.split_once("://")?;
    let host = rest.split(['/', '?']).next()?.rsplit('@').next()?;
    match host.rsplit_once(':') {
        Some((before, port)) if !before.contains('[') || before.ends_with(']') => port.parse().ok(),
        _ => Some(match scheme {
            "ldap" => 389,
            "ldaps" => 636,
            "https" => 443,
            _ => 80,
        }),
    }
}

/// The operations of a load by their kind on the wire. `names` are those of its operations, without derived ones.
fn kinds(of: &RunRecord, names: &[&str], path: &Path) -> Vec<(String, u64, LatencySummary)> {
    let kinds_of_names = kinds_of_names(path);
    let mut kinds: BTreeMap<String, (u64, OperationHistograms)> = BTreeMap::new();
    let is_kind = |name: &str| wire::Kind::all().any(|kind| kind.name() == name);
    let counts = names.iter().map(|name| (*name, of.measured(name).map(|interval| interval.completed).sum()));
    let counted: Vec<(&str, u64)> = counts.filter(|(_, completed)| *completed > 0).collect();
    let kind_of = |name: &str| kinds_of_names.get(name).cloned().unwrap_or_else(|| name.to_string());
    // A login stays apart, because it cannot be compared.
    let all_known = counted.iter().all(|(name, _)| kind_of(name) == LOGIN || is_kind(&kind_of(name)));
    for (name, completed) in counted {
        let kind = if all_known { kind_of(name) } else { "all".to_string() };
        let entry = kinds.entry(kind).or_insert_with(|| (0, OperationHistograms::default()));
        entry.0 += completed;
        if let Some(histograms) = of.histograms.get(name) {
            // Both grow as needed, so that all values fit.
            let _ = entry.1.response.add(&histograms.response);
        }
    }
    kinds
        .into_iter()
        .map(|(kind, (count, histograms))| (kind, count, LatencySummary::of(&histograms.response)))
        .collect()
}

/// The kinds of the operations of a mixed load, which have names of their own.
fn kinds_of_names(path: &Path) -> BTreeMap<String, String> {
    let text = files::Directory::open(path)
        .and_then(|folder| folder.read("operations.toml", OPERATIONS_BYTES_MAX))
        .ok()
        .and_then(|bytes| String::from_utf8(bytes).ok());
    let table: toml::Table = text.and_then(|text| text.parse().ok()).unwrap_or_default();
    let operations = table.get("operation").and_then(toml::Value::as_array);
    let mut names = BTreeMap::new();
    for operation in operations.into_iter().flatten() {
        let word = |key: &str| operation.get(key).and_then(toml::Value::as_str);
        let kind = word("operation").unwrap_or("search");
        names.insert(word("name").unwrap_or(kind).to_string(), kind.to_string());
    }
    names
}

fn times(count: u64, summary: &LatencySummary) -> WireTimes {
    let LatencySummary { mean, p50, p95, p99, max, .. } = *summary;
    if !mean.is_finite() {
        return WireTimes { count: 0, ..WireTimes::default() };
    }
    WireTimes { count, mean, p50, p95, p99, max }
}

/// The times of several kinds together: exact in count, mean and maximum, and weighted in percentiles.
fn of_several(a: WireTimes, b: WireTimes) -> WireTimes {
    let count = a.count + b.count;
    let weighted =
        |of: fn(&WireTimes) -> f64| (of(&a) * a.count as f64 + of(&b) * b.count as f64) / count.max(1) as f64;
    WireTimes {
        count,
        mean: weighted(|of| of.mean),
        p50: weighted(|of| of.p50),
        p95: weighted(|of| of.p95),
        p99: weighted(|of| of.p99),
        max: a.max.max(b.max),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_port_of_a_server_is_in_its_url() {
        for (url, expected) in [
            ("ldap://127.0.0.1:3389", Some(3389)),
            ("ldap://ds1", Some(389)),
            ("http://user@web:8080/path?x=1:2", Some(8080)),
            ("http://[::1]:81/", Some(81)),
            ("http://[::1]/", Some(80)),
            ("ds1", None),
        ] {
            assert_eq!(port(url), expected, "{url}");
        }
    }
}
