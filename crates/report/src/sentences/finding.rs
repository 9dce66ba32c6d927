//! The claims of findings in sentences.

use model::claim::{ChangeCause, Claim, Lateness, MemoryClaim, Starvation};
use model::{Finding, FindingKind, Unit};

use super::{copy, launches, service, storage};
use crate::text::{Quantity, capitalized, cpus, per_s, percent, things, time_ms, time_s, times};

/// The claim of a finding in sentences, with the number of trials if not all show it.
pub fn finding(finding: &Finding) -> String {
    let side = finding.side.as_ref().map_or(String::new(), |side| format!("{side}: "));
    let step =
        finding.step.as_ref().map_or(String::new(), |step| format!("{}: ", capitalized(step.as_str())));
    format!("{side}{step}{}", claim_in(finding, finding.trials.len(), finding.of_trials))
}

/// The claim, seen in so many of so many trials.
pub(super) fn claim_in(finding: &Finding, trials: usize, of: usize) -> String {
    match trials {
        0 => claim(finding),
        all if all >= of => claim(finding),
        some => format!("{} Seen in {some} of {of} trials.", claim(finding)),
    }
}

/// What is claimed, without the side and the trials.
fn claim(finding: &Finding) -> String {
    let kind = finding.kind;
    let about = finding.about.as_ref().map_or(String::new(), ToString::to_string);
    // That of the load has no name.
    let host = finding.about.as_ref().and_then(|about| about.host.as_deref());
    let of_host = host.map_or(String::new(), |host| format!(" of {host}"));
    let on_host = host.map_or(String::new(), |host| format!(" on {host}"));
    match &finding.claim {
        Claim::Generator { threads, ran_share, wait_share, late, starved_by } => {
            generator(kind, *threads, &on_host, [*ran_share, *wait_share], late.as_ref(), starved_by.as_ref())
        }
        Claim::CpusUsed { process, used_cpus, allowed_cpus } => format!(
            "The CPUs were the limit: {} used {} of {} allowed CPUs.",
            own(process),
            things(*used_cpus),
            things(*allowed_cpus)
        ),
        Claim::OneThreadBusy { process, busiest_thread_cpus, used_cpus } => format!(
            "One thread of {} was the limit: it used {} of a CPU, and all threads together used {}.",
            own(process),
            percent(*busiest_thread_cpus),
            cpus(*used_cpus)
        ),
        Claim::CopyingInMemory { ran_share, wait_share } => format!(
            "The CPU was the limit: the threads of the load copied data in memory {} and waited for a \
            CPU {} of the time. They did not wait for a disk.",
            percent(*ran_share),
            percent(*wait_share)
        ),
        Claim::HostCpus { busy_share, waited_share } => {
            let waited = waited_share.map_or(String::new(), |share| {
                format!(", and some task waited for a CPU {} of the time", percent(share))
            });
            match kind {
                FindingKind::RuledOut => {
                    format!("The CPUs{of_host} were not the limit: {} busy{waited}.", percent(*busy_share))
                }
                FindingKind::Limits => {
                    format!("The CPUs{of_host} were the limit: {} busy{waited}.", percent(*busy_share))
                }
                FindingKind::Observation if host.is_some() => {
                    format!("The CPUs{of_host} were {} busy{waited}.", percent(*busy_share))
                }
                FindingKind::Observation => format!(
                    "The CPUs were {} busy{waited}. The counters do not separate the measured system from other programs: stop other programs and measure again.",
                    percent(*busy_share)
                ),
            }
        }
        Claim::HostDisk { queue, in_flight, transfer_ms, busy_share, waited_share } => {
            let transfer = transfer_ms.map_or(String::new(), |ms| format!(", {} per request", time_ms(ms)));
            let busy = busy_share.map_or(String::new(), |share| format!("{} busy, ", percent(share)));
            let waited = waited_share.map_or(String::new(), |share| {
                format!(" Some task of this host was blocked on I/O {} of the time.", percent(share))
            });
            let was = match kind {
                FindingKind::Limits => "was the limit",
                FindingKind::RuledOut => "was not the limit",
                FindingKind::Observation => "was in use",
            };
            let in_flight = match things(*in_flight).as_str() {
                "1" => "1 operation".to_string(),
                number => format!("{number} operations"),
            };
            format!(
                "{} {was}: {busy}average queue {}{transfer}, with {in_flight} of the load in flight.{waited}",
                capitalized(&about),
                things(*queue)
            )
        }
        Claim::Service(claim) => service::service(claim),
        Claim::Pauses(claim) => service::pauses(kind, claim),
        Claim::SuspectedPauses { intervals, of_intervals, longest_s, usual_s, lost_share, interval_s } => {
            format!(
                "The system may pause: in {intervals} of {of_intervals} intervals the slowest operation \
                took {}, in the others {}, and throughput was lower by {} in total. Intervals of {} are \
                too long to show a pause: set a shorter `load.interval`.",
                super::spread(longest_s, time_s),
                time_s(*usual_s),
                percent(*lost_share),
                time_s(*interval_s)
            )
        }
        Claim::IoLimitReached(limit) => format!("The I/O limit was reached: {}.", storage::reached(limit)),
        Claim::Device(claim) => storage::device(kind, &about, claim),
        Claim::DeviceShared { factor } => format!(
            "{} transferred {} the bytes of this load: another program used it. Stop that program and measure again.",
            capitalized(&about),
            times(*factor)
        ),
        Claim::BlockSizes { from, to, series } => storage::block_sizes(from, to, series),
        Claim::LoadSweep(sweep) => storage::load_sweep(sweep, false),
        Claim::Memory(claim) => memory(kind, claim, &of_host),
        Claim::MemoryLimit { process, used_share, limit_bytes, reached } => {
            let used = format!("{} of {} in use", percent(*used_share), Quantity::Bytes.show(*limit_bytes));
            match reached {
                true => format!(
                    "{process} reached its memory limit, but this was not the bottleneck: {used}, \
                    including the page cache, and there were no refaults."
                ),
                false => format!("The memory limit of {process} was not reached: {used}."),
            }
        }
        Claim::ListenOverflows { per_s: refused } => format!(
            "The accept queue of a service{on_host} overflowed: {} connections/s were refused. It accepts too \
            slowly for this load, or its backlog is too short.",
            things(*refused)
        ),
        Claim::Retransmissions { per_s: sent, share } => format!(
            "{} of the TCP segments{on_host} were retransmitted ({}): the network lost them.",
            percent(*share),
            per_s(*sent)
        ),
        Claim::PacketsDropped { per_s: dropped } => {
            format!(
                "{} packets/s were dropped{on_host}: the input queue of a CPU overflowed.",
                things(*dropped)
            )
        }
        Claim::RateChanged { at_s, before, after, unit, moved_bytes, cause } => {
            let show = |rate: f64| match unit {
                Unit::BytesPerSecond => Quantity::BytesPerSecond.show(rate),
                _ => per_s(rate),
            };
            let numbers = format!("{} before, {} after", show(*before), show(*after));
            let place = match moved_bytes {
                Some(bytes) => format!("after {} and {}", time_s(*at_s), Quantity::Bytes.show(*bytes)),
                None => format!("after {}", time_s(*at_s)),
            };
            match cause {
                ChangeCause::WriteBackCache => {
                    format!("The write-back cache was exhausted {place}: {numbers}.")
                }
                ChangeCause::CacheBelowSystem => format!(
                    "A write-back cache below the operating system was exhausted {place}: {numbers}. This is inferred from \
                     the rate alone."
                ),
                ChangeCause::Copying => format!(
                    "Throughput changed {place}: {numbers}. The kernel copied data in memory; the disk was not the limit."
                ),
                ChangeCause::NotShown => {
                    format!("Throughput changed {place}: {numbers}. The counters do not show why.")
                }
            }
        }
        Claim::WriteCache { cache, drain } => copy::write_cache(cache, drain.as_ref()),
        Claim::CacheCosts {
            configuration,
            without,
            past_bytes_per_s,
            without_bytes_per_s,
            ratio,
            break_even_bytes,
        } => copy::cache_costs(&copy::Costs {
            configuration,
            without,
            past_bytes_per_s: *past_bytes_per_s,
            without_bytes_per_s: *without_bytes_per_s,
            ratio: *ratio,
            break_even_bytes: *break_even_bytes,
        }),
        Claim::ClosingFlush { flush_s, of_s, bytes_per_s, bytes_per_s_without } => format!(
            "The final flush took {} of {}: {} with it, {} without it.",
            time_s(*flush_s),
            time_s(*of_s),
            Quantity::BytesPerSecond.show(*bytes_per_s),
            Quantity::BytesPerSecond.show(*bytes_per_s_without)
        ),
        Claim::FirstLaunch { first_ms, later_ms, later, differences } => {
            launches::first([*first_ms, *later_ms], *later, differences.as_deref())
        }
        Claim::Launch(claim) => launches::launch(kind, claim),
        Claim::Statuses { shares } => {
            let each: Vec<String> =
                shares.iter().map(|of| format!("{} ({})", of.status, percent(of.share))).collect();
            let list = super::listed(&each);
            match shares.first().is_some_and(|most| (300..400).contains(&most.status)) {
                true => format!(
                    "The server redirected requests: responses had status {list}. The response times are \
                    those of the redirect, not of the page: request the final address, or set \
                    `expect_status`."
                ),
                false => format!(
                    "Responses had status {list}, and their times are mixed: set `expect_status` to the status of success."
                ),
            }
        }
        Claim::AnswerSizes { max_bytes, .. } if *max_bytes <= 0.0 => {
            "All responses had an empty body: check that the server processes the request.".into()
        }
        Claim::AnswerSizes { min_bytes, max_bytes } => format!(
            "Responses had bodies of {} to {}: check that the small ones are valid responses.",
            Quantity::Bytes.show(*min_bytes),
            Quantity::Bytes.show(*max_bytes)
        ),
        Claim::ErrorText { word } => format!(
            "The first response counts as successful, but its body begins with \"{word}\": check that \
            the server processes the request."
        ),
        Claim::LaunchesShifted { from_launch, at_s, before_ms, after_ms, differences } => {
            launches::shifted(*from_launch, *at_s, [*before_ms, *after_ms], differences.as_deref())
        }
    }
}

/// The name of a process within a sentence.
fn own(process: &str) -> &str {
    if process == "self" { "Plimsoll itself" } else { process }
}

fn generator(
    kind: FindingKind,
    threads: u32,
    on_host: &str,
    [ran, waited]: [f64; 2],
    late: Option<&Lateness>,
    starved_by: Option<&Starvation>,
) -> String {
    let threads = if threads == 1 { "its thread".into() } else { format!("its {threads} threads") };
    let busy = format!("{threads} ran {} and waited for a CPU {} of the time", percent(ran), percent(waited));
    let late = match late {
        None => String::new(),
        Some(Lateness::Issued(share)) => {
            format!(". Only {} of the due operations were issued", percent(*share))
        }
        Some(Lateness::Lag { lag_p99_ms, response_p99_ms }) => format!(
            ". 1 % of the operations were issued {} late or more; the p99 of the response time is {}",
            time_ms(*lag_p99_ms),
            time_ms(*response_p99_ms)
        ),
    };
    let starved_by = match starved_by {
        None => String::new(),
        Some(Starvation::CpuQuota(share)) => {
            format!(" Its own CPU quota throttled it {} of the time.", percent(*share))
        }
        Some(Starvation::OtherProcesses(_)) => " Other processes used the CPUs.".into(),
        Some(Starvation::IoLimit { limit_per_s, observed_per_s, bytes, writes }) => {
            let what = if *writes { "writes" } else { "reads" };
            let show = |value: f64| match bytes {
                true => Quantity::BytesPerSecond.show(value),
                false => format!("{}/s", things(value)),
            };
            format!(
                " A limit on the {what} of its own control group was reached: {} of {}.",
                show(*observed_per_s),
                show(*limit_per_s)
            )
        }
    };
    match kind {
        FindingKind::Limits => {
            format!("The load generator{on_host} was the limit: {busy}{late}.{starved_by}")
        }
        FindingKind::RuledOut => {
            format!("The load generator{on_host} was not the limit: {busy}{late}.{starved_by}")
        }
        FindingKind::Observation => format!(
            "The load generator{on_host} was short of CPU: {busy}{late}.{starved_by} This may have reduced the load: reserve a CPU for it and measure again."
        ),
    }
}

fn memory(kind: FindingKind, claim: &MemoryClaim, of_host: &str) -> String {
    let available = claim
        .available_bytes
        .map_or(String::new(), |bytes| format!("; {} available", Quantity::Bytes.show(bytes)));
    let stalled = claim.stalled_share.map(|share| match share < 0.0005 {
        true => "no memory stalls".to_string(),
        false => format!("some task stalled for memory {} of the time", percent(share)),
    });
    let killed = match claim.out_of_memory {
        true => " The kernel killed processes because memory ran out (OOM).",
        false => "",
    };
    if let (Some(share), None) = (claim.available_share, &stalled) {
        let share = percent(share);
        return match kind {
            FindingKind::RuledOut => {
                format!("Memory{of_host} was not the limit: {share} of it was available.")
            }
            _ => format!(
                "Memory{of_host} was short: {share} of it was available, and pages were read from disk."
            ),
        };
    }
    let text = match (kind, stalled, claim.direct_scans_per_s) {
        (FindingKind::Limits, Some(stalled), _) => match &claim.limit_of {
            Some(process) => format!("The memory limit of {process} was reached: {stalled}{available}."),
            None => format!("Memory{of_host} was the limit: {stalled}{available}."),
        },
        (FindingKind::RuledOut, Some(stalled), _) => {
            format!("Memory{of_host} was not the limit: {stalled}{available}.")
        }
        (FindingKind::RuledOut, None, _) => {
            format!(
                "Memory{of_host} was not the limit: there was no direct reclaim and there were no refaults{available}."
            )
        }
        (FindingKind::Observation, Some(stalled), _) => {
            format!("Memory{of_host} was short at times: {stalled}{available}.")
        }
        (_, None, Some(scans)) => format!(
            "Memory{of_host} was short at times: {} pages/s were scanned in direct reclaim{available}. This \
            kernel has no pressure stall information, so the stall time is not known.",
            things(scans)
        ),
        (FindingKind::Limits, None, None) => format!("Memory{of_host} was the limit{available}."),
        (FindingKind::Observation, None, None) => format!("Memory{of_host} was short at times{available}."),
    };
    format!("{text}{killed}")
}
