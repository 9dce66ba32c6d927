//! Measurements against peers: each compares a figure of ours with another tool's, in interleaved pairs.
//!
//! A benchmark is one line in [`BENCHMARKS`] and a function that prints its ratios with the command and version of the
//! peer, and returns a fault for each promise that does not hold.

mod before;
mod disk;
mod engines;
mod gate;
mod http;
mod keycloak;
mod ldap;
mod machines;
mod own;
mod rounds;
mod trace;
mod wire;

use std::path::Path;

use crate::fault::Fault;
use crate::files::Repository;

/// One comparison.
pub(crate) struct Benchmark {
    /// What selects it.
    pub(crate) name: &'static str,
    /// One sentence.
    pub(crate) about: &'static str,
    /// How often the contenders are measured in turn, where `--rounds` may say another number; none where there are no rounds.
    pub(crate) rounds: Option<usize>,
    /// Whether it runs only when it is named: it takes long, or needs what few have.
    pub(crate) is_on_demand: bool,
    /// Measures in so many rounds, prints, and reports what missed its bound.
    pub(crate) run: fn(&Repository, usize) -> Result<Vec<Fault>, String>,
}

/// Every comparison, in the order they run.
static BENCHMARKS: &[Benchmark] = &[
    Benchmark {
        name: "null",
        about: "the loop's own cost, timing and recording included",
        rounds: Some(5),
        is_on_demand: false,
        run: own::null,
    },
    Benchmark {
        name: "disk-cache",
        about: "the disk engine against fio on a file in the page cache",
        rounds: Some(7),
        is_on_demand: false,
        run: disk::page_cache,
    },
    Benchmark {
        name: "disk-direct",
        about: "the disk engine against fio past the page cache",
        rounds: Some(7),
        is_on_demand: false,
        run: disk::direct,
    },
    Benchmark {
        name: "engines-cache",
        about: "the back end that a disk load chooses against each of fio's engines, through the page cache",
        rounds: Some(7),
        is_on_demand: true,
        run: engines::page_cache,
    },
    Benchmark {
        name: "engines-direct",
        about: "the same past the page cache",
        rounds: Some(7),
        is_on_demand: true,
        run: engines::direct,
    },
    Benchmark {
        name: "engines-memory",
        about: "the same on a file in memory",
        rounds: Some(7),
        is_on_demand: true,
        run: engines::memory,
    },
    Benchmark {
        name: "http-closed",
        about: "the HTTP engine against wrk, oha, ab, vegeta and k6, on nginx",
        rounds: Some(7),
        is_on_demand: false,
        run: http::closed_loop,
    },
    Benchmark {
        name: "http-tls",
        about: "the same over TLS against wrk and oha",
        rounds: Some(7),
        is_on_demand: true,
        run: http::tls,
    },
    Benchmark {
        name: "http-2",
        about: "HTTP/2 against h2load",
        rounds: Some(7),
        is_on_demand: true,
        run: http::http2,
    },
    Benchmark {
        name: "http-stall",
        about: "an open loop while the server is stopped for a second, against oha, vegeta and k6",
        rounds: Some(3),
        is_on_demand: true,
        run: http::stall,
    },
    Benchmark {
        name: "http-connections",
        about: "memory of 20,000 connections, against wrk and oha",
        rounds: Some(1),
        is_on_demand: true,
        run: http::connections,
    },
    Benchmark {
        name: "ldap-search",
        about: "the LDAP load against searchrate and the crate ldap3, on a stub and on slapd",
        rounds: Some(5),
        is_on_demand: true,
        run: ldap::search,
    },
    Benchmark {
        name: "wire",
        about: "the analysis of a capture of slapd against tshark",
        rounds: Some(5),
        is_on_demand: true,
        run: wire::analysis,
    },
    Benchmark {
        name: "trace",
        about: "what `plimsoll trace` costs a saturated slapd",
        rounds: Some(24),
        is_on_demand: true,
        run: trace::cost,
    },
    Benchmark {
        name: "machines",
        about: "what many agents count beside a server, what their coordinator and SSH cost, and how soon a kill is noticed",
        rounds: Some(50),
        is_on_demand: true,
        run: machines::machines,
    },
    Benchmark {
        name: "gate",
        about: "how often `plimsoll gate` fails for equal versions, and finds one that is 2 % slower",
        rounds: Some(200),
        is_on_demand: true,
        run: gate::gates,
    },
    Benchmark {
        name: "counters",
        about: "what reading every counter costs",
        rounds: None,
        is_on_demand: false,
        run: own::counters,
    },
    Benchmark {
        name: "record",
        about: "an hour of 900 counters: size, time to report and to explain it, memory",
        rounds: None,
        is_on_demand: false,
        run: own::record,
    },
    Benchmark {
        name: "keycloak",
        about: "the metadirectory against Keycloak's federation of a directory, on the same slapd and PostgreSQL",
        rounds: Some(1),
        is_on_demand: true,
        run: keycloak::compare,
    },
];

/// How often an earlier program and this one are measured in turn.
const BEFORE_ROUNDS: usize = 5;

/// Runs the benchmarks whose names contain one of the arguments; without arguments all but those on demand. `--rounds N` says how
/// often the contenders are measured in turn. `--before FILE` measures an earlier program and this one in turn instead.
pub(crate) fn run(repository: &Repository, arguments: &[String]) -> Result<Vec<Fault>, String> {
    match arguments {
        [flag, program] if flag == "--before" => {
            return before::compare(repository, Path::new(program), BEFORE_ROUNDS);
        }
        [flag, ..] if flag == "--before" => {
            return Err("--before wants the file of an earlier program, and nothing else".into());
        }
        _ => {}
    }
    let mut faults = Vec::new();
    for (benchmark, rounds) in chosen(arguments)? {
        println!("== {}: {}", benchmark.name, benchmark.about);
        faults.extend((benchmark.run)(repository, rounds)?);
    }
    Ok(faults)
}

/// What the arguments choose, and in how many rounds.
fn chosen(arguments: &[String]) -> Result<Vec<(&'static Benchmark, usize)>, String> {
    let (mut rounds, mut words) = (None, Vec::new());
    let mut rest = arguments.iter();
    while let Some(word) = rest.next() {
        if word == "--rounds" {
            let number = rest.next().and_then(|text| text.parse().ok()).filter(|number| *number > 0);
            rounds = Some(number.ok_or("--rounds wants a number above 0")?);
        } else if word.starts_with('-') {
            return Err(format!("{word} is no flag of this: names, and --rounds N"));
        } else {
            words.push(word.as_str());
        }
    }
    let chosen: Vec<&Benchmark> = BENCHMARKS
        .iter()
        .filter(|benchmark| match words.is_empty() {
            true => !benchmark.is_on_demand,
            false => words.iter().any(|word| benchmark.name.contains(word)),
        })
        .collect();
    if chosen.is_empty() {
        let names: Vec<&str> = BENCHMARKS.iter().map(|benchmark| benchmark.name).collect();
        return Err(format!(
            "no benchmark was chosen; registered in xtask/src/bench/mod.rs: [{}]",
            names.join(", ")
        ));
    }
    if rounds.is_some() && chosen.iter().all(|benchmark| benchmark.rounds.is_none()) {
        return Err("what was chosen has no rounds".into());
    }
    let in_rounds = |benchmark: &Benchmark| benchmark.rounds.map_or(1, |usual| rounds.unwrap_or(usual));
    Ok(chosen.into_iter().map(|benchmark| (benchmark, in_rounds(benchmark))).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reported(arguments: &str) -> Result<Vec<String>, String> {
        let words: Vec<String> = arguments.split_whitespace().map(str::to_string).collect();
        let shown = |(benchmark, rounds): (&Benchmark, usize)| format!("{} {rounds}", benchmark.name);
        Ok(chosen(&words)?.into_iter().map(shown).collect())
    }

    #[test]
    fn what_takes_long_runs_when_it_is_named() {
        let usual = reported("").unwrap_or_default();
        assert!(usual.contains(&"disk-cache 7".to_string()), "{usual:?}");
        assert!(!usual.iter().any(|name| name.starts_with("keycloak")), "{usual:?}");
        assert_eq!(reported("keycloak"), Ok(vec!["keycloak 1".into()]));
    }

    #[test]
    fn rounds_are_those_that_were_asked_for_where_there_are_any() {
        assert_eq!(
            reported("disk-c counters --rounds 3"),
            Ok(vec!["disk-cache 3".into(), "counters 1".into()])
        );
        assert_eq!(reported("counters --rounds 3"), Err("what was chosen has no rounds".into()));
        for wrong in ["http --rounds", "http --rounds 0", "http --rounds many"] {
            assert_eq!(reported(wrong), Err("--rounds wants a number above 0".into()), "{wrong}");
        }
    }
}
