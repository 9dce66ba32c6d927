//! What limits, in a few words: the resource, how much of it was used, and what comes next.

use model::claim::ServiceState;
use model::resource::Detail;
use model::result::{Configuration, StepVerdict};
use model::verdict::{Closest, Limit};
use model::{Claim, Owner, Resource, ResourceClass, ResultDocument, Verdict};

use super::listed;
use crate::tables::{SIDE_BY_SIDE, letter};
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
    let of = |what: &str| if owner.is_empty() { what.to_string() } else { format!("{what} of {owner}") };
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
                Some(Owner::Device(_)) => format!("{owner} {what}"),
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

/// What limits, in a few words: `flushes of slapd`, `nothing saturated`.
pub(crate) fn limit_words(verdict: &Verdict) -> String {
    match verdict {
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
    match (&closest.resource, closest.instance.as_str()) {
        (Some(resource), _) => resource_words(resource),
        (None, "") => closest.metric.clone(),
        (None, instance) => format!("{}{{{instance}}}", closest.metric),
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
        (Verdict::Bottleneck { .. }, Some(next)) => format!(" Next: {}.", closest(next)),
        _ => String::new(),
    }
}

/// A limit with the configurations that have it.
struct Shared<'a> {
    limit: String,
    places: Vec<usize>,
    last: &'a StepVerdict,
}

/// What limits each step, over all configurations: `Staging: A flushes of metadir; B CPU of metadir (one core); next: vda writes
/// at 41 %.` Of one configuration the verdict says that of the longest step.
pub(super) fn steps(document: &ResultDocument) -> Vec<String> {
    let mut names: Vec<&str> = Vec::new();
    for step in document.configurations.iter().flat_map(|configuration| &configuration.steps) {
        if !names.contains(&step.operation.as_str()) {
            names.push(step.operation.as_str());
        }
    }
    if let [only] = document.configurations.as_slice() {
        let longest = only.longest_step().map(|step| step.operation.as_str());
        names.retain(|name| Some(*name) != longest);
    }
    names.into_iter().map(|name| step_over(document, name)).collect()
}

fn step_over(document: &ResultDocument, name: &str) -> String {
    let mut shared: Vec<Shared> = Vec::new();
    let configurations = document.configurations.iter().enumerate();
    let of_step = configurations.filter_map(|(place, configuration)| {
        let step = configuration.steps.iter().find(|step| step.operation.as_str() == name)?;
        Some((place, step))
    });
    let mut count = 0;
    for (place, step) in of_step {
        count += 1;
        let limit = limit_words(&step.verdict);
        match shared.iter_mut().find(|known| known.limit == limit) {
            Some(known) => {
                known.places.push(place);
                known.last = step;
            }
            None => shared.push(Shared { limit, places: vec![place], last: step }),
        }
    }
    let texts: Vec<String> = match shared.as_slice() {
        [one] => vec![one.limit.clone()],
        several if document.configurations.len() <= SIDE_BY_SIDE => several
            .iter()
            .map(|one| {
                let letters: Vec<String> = one.places.iter().map(|place| letter(*place)).collect();
                format!("{} {}", letters.join(", "), one.limit)
            })
            .collect(),
        several => {
            several.iter().map(|one| format!("{} in {} of {count}", one.limit, one.places.len())).collect()
        }
    };
    // What comes next is of interest where a change led to.
    let last = shared.iter().max_by_key(|one| one.places.last());
    let next = last.and_then(|one| one.last.next.as_ref());
    let next = next.map_or(String::new(), |next| format!("; next: {}", closest(next)));
    format!("{}: {}{next}.", capitalized(name), texts.join("; "))
}
