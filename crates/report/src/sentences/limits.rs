//! What limits, in a few words: the resource, how much of it was used, and what comes next.

use model::claim::ServiceState;
use model::resource::Detail;
use model::result::Configuration;
use model::verdict::{Closest, Limit, UnsaturatedReason};
use model::{Claim, Owner, Resource, ResourceClass, ResultDocument, Verdict};

use super::listed;
use crate::labels;
use crate::text::{capitalized, percent};

/// A resource by what it does, as administrators call it: `flushes of slapd`, `CPU of metadir (one core)`, `vda writes`.
pub(crate) fn resource_words(resource: &Resource) -> String {
    let class = resource.class;
    let owner = match &resource.of {
        None => "",
        Some(Owner::Device(name) | Owner::Process(name) | Owner::Address(name) | Owner::Setting(name)) => {
            name
        }
    };
    let on = resource.host.as_ref().map_or(String::new(), |host| format!(" of {host}"));
    let of = |what: &str| match owner.is_empty() {
        true => format!("{what}{on}"),
        false => format!("{what} of {owner}{on}"),
    };
    match (class, resource.detail) {
        (ResourceClass::Disk, detail) => {
            let what = match detail {
                None => return resource.to_string(),
                Some(Detail::Flushes) => "flushes",
                Some(Detail::Transfers) => "reads and writes",
                Some(Detail::Reads) => "reads",
                Some(Detail::Writes) => "writes",
                Some(Detail::PageFaults) => "page faults",
            };
            match resource.of {
                Some(Owner::Device(_)) => format!("{owner} {what}{on}"),
                _ => of(what),
            }
        }
        (ResourceClass::Cpu, _) => of("CPU"),
        (ResourceClass::CpuQuota, _) => of("CPU quota"),
        (ResourceClass::SingleThread, _) => format!("{} (one core)", of("CPU")),
        (ResourceClass::Downstream, _) => of("answers"),
        (ResourceClass::Pause, _) => of("pauses"),
        _ => of(class.words()),
    }
}

/// What limits, in a few words: `flushes of slapd`, `latency of vda`, `nothing saturated`.
pub(crate) fn limit_words(verdict: &Verdict, document: &ResultDocument) -> String {
    match verdict {
        Verdict::Bottleneck { limit: Limit::One { resource, .. }, .. } if matches!(claim_of(verdict, document), Some(Claim::Device(device)) if device.one_at_a_time) => {
            match &resource.of {
                Some(Owner::Device(name)) => format!("latency of {name}"),
                _ => format!("latency of {}", resource_words(resource)),
            }
        }
        Verdict::Bottleneck { limit, .. } => match limit {
            Limit::One { resource, .. } => resource_words(resource),
            Limit::Together { resources, .. } => {
                let names: Vec<String> = resources.iter().map(|one| host_word(one.words())).collect();
                format!("{} together", listed(&names))
            }
            Limit::CloseTo { resource, other } => {
                let other = other.as_ref().map_or("what was not changed".to_string(), resource_words);
                format!("{} and {other} together", host_word(resource.words()))
            }
        },
        Verdict::NotSaturated { carried: UnsaturatedReason::Waited { finding } } => {
            match document.findings.get(*finding).map(|finding| &finding.claim) {
                Some(Claim::Service(claim)) => format!("waits of {}", claim.process),
                Some(Claim::Launch(claim)) => format!("waits of {}", claim.command),
                _ => "waits of its own".into(),
            }
        }
        Verdict::NotSaturated { .. } => "nothing saturated".into(),
        Verdict::GeneratorBound { .. } => "load generator".into(),
        Verdict::Inconclusive { .. } => "not clear".into(),
    }
}

fn host_word(word: &str) -> String {
    if word == "cpu" { "CPU".into() } else { word.to_string() }
}

/// How much of a limit was used, in the words of the claim that it rests on: `92 % of time`, `0.97 of a CPU`.
pub(crate) fn use_words(claim: &Claim, used: f64) -> String {
    let share = percent(used);
    let of_a_cpu = || format!("{used:.2} of a CPU");
    match claim {
        Claim::Service(claim) => match &claim.state {
            ServiceState::Throttled { .. } => format!("throttled {share} of periods"),
            ServiceState::SingleThread { .. } => of_a_cpu(),
            ServiceState::MemoryLimitReached { .. } => format!("{share} of the limit"),
            ServiceState::AllThreadsAtWork { .. } => "no thread idle".into(),
            ServiceState::Sending { .. } => format!("{share} of the answers"),
            _ => format!("{share} of time"),
        },
        Claim::OneThreadBusy { .. } => of_a_cpu(),
        Claim::CpusUsed { .. } => format!("{share} of the CPUs"),
        Claim::HostCpus { .. } => format!("{share} busy"),
        Claim::IoLimitReached(_) => format!("{share} of the limit"),
        _ => format!("{share} of time"),
    }
}

/// The claim that a verdict rests on.
pub(crate) fn claim_of<'a>(verdict: &Verdict, document: &'a ResultDocument) -> Option<&'a Claim> {
    let at = match verdict {
        Verdict::Bottleneck { finding, .. } => (*finding)?,
        Verdict::GeneratorBound { finding } => *finding,
        Verdict::NotSaturated { .. } | Verdict::Inconclusive { .. } => return None,
    };
    Some(&document.findings.get(at)?.claim)
}

/// A resource that came close to saturation, by its name: `vda writes`.
pub(crate) fn closest_words(closest: &Closest) -> String {
    match &closest.resource {
        Some(resource) => resource_words(resource),
        None => labels::counter(&closest.metric, &closest.instance),
    }
}

/// The same with how much of it was used: `vda writes at 41 %`.
pub fn closest(closest: &Closest) -> String {
    format!("{} at {}", closest_words(closest), percent(closest.share))
}

/// Which step took longest, where there are several, as the verdict is about that one.
pub(super) fn lead(configuration: &Configuration) -> Option<String> {
    let longest = configuration.longest_step().filter(|_| configuration.steps.len() > 1)?;
    let all_s: f64 = configuration.steps.iter().map(|step| step.busy_s).sum();
    let share = percent(longest.busy_s / all_s);
    Some(format!("{} took longest, {share} of the time.", capitalized(longest.operation.as_str())))
}

/// What comes next after a limit; empty where nothing limits, or it is not known.
pub(super) fn next_sentence(verdict: &Verdict, next: Option<&Closest>) -> String {
    match (verdict, next) {
        (Verdict::Bottleneck { .. }, Some(next)) => format!(" Next limit: {}.", closest(next)),
        _ => String::new(),
    }
}

/// What limits each step of a configuration, in a sentence: `Staging limited by flushes of metadir, synchronization by CPU of
/// metadir (one core); next: vda writes at 41 %.` None where it has no steps; of a single configuration the verdict says it of
/// the longest step.
pub(super) fn limits_of_steps(configuration: &Configuration, document: &ResultDocument) -> Option<String> {
    let longest = configuration.longest_step()?.operation.as_str();
    let is_alone = document.configurations.len() < 2;
    let shown = configuration.steps.iter().filter(|step| !(is_alone && step.operation.as_str() == longest));
    let texts: Vec<String> = shown
        .map(|step| match &step.verdict {
            Verdict::Bottleneck { .. } | Verdict::GeneratorBound { .. } => {
                format!("{} limited by {}", step.operation, limit_words(&step.verdict, document))
            }
            other => format!("{} {}", step.operation, limit_words(other, document)),
        })
        .collect();
    let last = configuration.steps.iter().find(|step| step.operation.as_str() == longest);
    let next = last.filter(|_| !is_alone).and_then(|step| step.next.as_ref());
    let next = next.map_or(String::new(), |next| format!("; next limit: {}", closest(next)));
    (!texts.is_empty()).then(|| format!("{}{next}.", capitalized(&texts.join(", "))))
}
