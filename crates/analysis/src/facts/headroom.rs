//! How much of each resource was used, as a share of what can be used: what would limit next has the largest share.

use model::resource::Detail;
use model::run::GeneratorRole;
use model::verdict::Closest;
use model::{Owner, Resource, ResourceClass, metrics};

use super::service::services;
use crate::measured::Measured;
use crate::statistics::median;

/// How far below the busiest device another one counts as the same: a volume and the disk below it are busy together.
const SAME_DEVICE: f64 = 0.05;

/// The resource that came closest to saturation, but for the limit itself: median over the trials. How much of its space a
/// file system uses says nothing about how fast it is.
pub(crate) fn closest<'a>(
    trials: impl IntoIterator<Item = Measured<'a>>,
    limit: Option<&Resource>,
) -> Option<Closest> {
    let mut all: Vec<(Closest, Vec<f64>)> = Vec::new();
    for used in trials.into_iter().flat_map(|measured| uses(&measured)) {
        match all.iter_mut().find(|(known, _)| is_same(known, &used)) {
            Some((_, shares)) => shares.push(used.share),
            None => all.push((used.clone(), vec![used.share])),
        }
    }
    let mut all: Vec<Closest> = all
        .into_iter()
        .filter_map(|(used, shares)| Some(Closest { share: median(&shares)?, ..used }))
        .collect();
    if let Some(limit) = limit {
        without(&mut all, limit);
    }
    all.into_iter().max_by(|a, b| a.share.total_cmp(&b.share))
}

fn is_same(one: &Closest, other: &Closest) -> bool {
    one.metric == other.metric && one.instance == other.instance
}

/// Takes out what is the limit, or another view of it.
fn without(all: &mut Vec<Closest>, limit: &Resource) {
    let class = |used: &Closest| used.resource.as_ref().map(|resource| resource.class);
    let disks = all.iter().filter(|used| class(used) == Some(ResourceClass::Disk));
    let busiest = disks.map(|used| used.share).fold(0.0, f64::max);
    all.retain(|used| {
        let Some(resource) = &used.resource else { return false };
        match (limit.class, &limit.of) {
            (ResourceClass::Disk, Some(Owner::Device(names))) => {
                !(resource.class == ResourceClass::Disk
                    && names.split(", ").any(|name| name == used.instance))
            }
            // What a process waits for is the device that is busiest.
            (ResourceClass::Disk, _) => {
                !(resource.class == ResourceClass::Disk && used.share >= busiest - SAME_DEVICE)
            }
            (ResourceClass::SingleThread | ResourceClass::CpuQuota, Some(_)) => {
                resource.class != limit.class || resource.of != limit.of
            }
            (class, _) => resource.class != class,
        }
    });
}

/// What was used of each resource that can be full.
fn uses(measured: &Measured) -> Vec<Closest> {
    let mut found = Vec::new();
    let mut add = |metric: &str, instance: &str, share: Option<f64>, resource: Resource| {
        if let Some(share) = share.filter(|share| share.is_finite() && *share >= 0.0) {
            let (metric, instance) = (metric.into(), instance.into());
            found.push(Closest { metric, instance, share, resource: Some(resource) });
        }
    };
    let host = |class| Resource::of_host(class);
    add(metrics::CPU_BUSY_SHARE, "", measured.host_mean(metrics::CPU_BUSY_SHARE), host(ResourceClass::Cpu));
    let stalled = metrics::PRESSURE_MEMORY_SOME_SHARE;
    add(stalled, "", measured.host_mean(stalled), host(ResourceClass::Memory));
    let thread = metrics::PROCESS_BUSIEST_THREAD_CPUS;
    let drives = measured.record.run.traits.generator == GeneratorRole::Drives;
    if drives {
        add(thread, "self", measured.mean(thread, "self"), host(ResourceClass::LoadGenerator));
    }
    for name in services(measured) {
        let of = |class| Resource::of_process(class, name);
        let mean = |metric: &str| measured.mean(metric, name);
        add(thread, name, mean(thread), of(ResourceClass::SingleThread));
        let quota_cpus = mean(metrics::PROCESS_QUOTA_CPUS).filter(|quota| *quota > 0.0);
        let busy = metrics::PROCESS_BUSY_CPUS;
        add(busy, name, quota_cpus.and_then(|quota| Some(mean(busy)? / quota)), of(ResourceClass::CpuQuota));
        for (limit, used) in [
            (metrics::PROCESS_READ_LIMIT_PER_S, metrics::PROCESS_DISK_READS_PER_S),
            (metrics::PROCESS_WRITE_LIMIT_PER_S, metrics::PROCESS_DISK_WRITES_PER_S),
            (metrics::PROCESS_READ_LIMIT_BYTES_PER_S, metrics::PROCESS_READ_BYTES_PER_S),
            (metrics::PROCESS_WRITE_LIMIT_BYTES_PER_S, metrics::PROCESS_WRITE_BYTES_PER_S),
        ] {
            let limit = mean(limit).filter(|limit| *limit > 0.0);
            add(used, name, limit.and_then(|limit| Some(mean(used)? / limit)), of(ResourceClass::IoLimit));
        }
    }
    // A device that serves many requests at once is busy before it is saturated: this is the most that it can be.
    let busy = metrics::DISK_UTILIZATION_SHARE;
    for disk in measured.instances(busy) {
        let resource = Resource::disk(disk).with(mostly(measured, disk));
        add(busy, disk, measured.mean(busy, disk), resource);
    }
    found
}

/// What most requests under way at a device are.
fn mostly(measured: &Measured, disk: &str) -> Detail {
    let under_way = |rate: &str, each: &str| {
        measured.mean(rate, disk).unwrap_or(0.0) * measured.mean(each, disk).unwrap_or(0.0)
    };
    let kinds = [
        (Detail::Reads, under_way(metrics::DISK_READS_PER_S, metrics::DISK_READ_S)),
        (Detail::Writes, under_way(metrics::DISK_WRITES_PER_S, metrics::DISK_WRITE_S)),
        (Detail::Flushes, under_way(metrics::DISK_FLUSHES_PER_S, metrics::DISK_FLUSH_S)),
    ];
    let most = kinds.iter().max_by(|a, b| a.1.total_cmp(&b.1)).filter(|(_, under_way)| *under_way > 0.0);
    most.map_or(Detail::Transfers, |(detail, _)| *detail)
}
