//! The use of each resource as a share of its capacity: the next limit has the largest share.

use model::metric::{instance_on, split_instance};
use model::resource::Detail;
use model::run::GeneratorRole;
use model::verdict::Closest;
use model::{Owner, Resource, ResourceClass, metrics};

use super::io_limit::LIMIT_REACHED;
use super::service::services;
use crate::measured::Measured;
use crate::statistics::median;

/// The difference in utilization up to which another device counts as the same: a volume and its disk are
/// busy together.
const SAME_DEVICE: f64 = 0.05;

/// The resource closest to saturation, except the limit itself: median over the trials. File system usage is
/// ignored, because it says nothing about speed.
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

/// Removes the limit and other views of it.
fn without(all: &mut Vec<Closest>, limit: &Resource) {
    let of_class = |used: &Closest, class| used.resource.as_ref().filter(|own| own.class == class).cloned();
    let is_disk = |used: &Closest| of_class(used, ResourceClass::Disk).is_some();
    let busiest = all.iter().filter(|used| is_disk(used)).map(|used| used.share).fold(0.0, f64::max);
    let of_limit = |used: &Closest| {
        let own = of_class(used, ResourceClass::IoLimit);
        own.is_some_and(|own| own.of == limit.of) && used.share >= LIMIT_REACHED
    };
    // A process at its I/O limit waits for this limit and not for the device.
    let is_throttled = all.iter().any(of_limit);
    let is_of_its_host = |used: &Closest| used.resource.as_ref().is_some_and(|own| own.host == limit.host);
    all.retain(|used| {
        !is_of_its_host(used)
            || match (limit.class, &limit.of) {
                (ResourceClass::Disk, Some(Owner::Device(names))) => {
                    let disk = split_instance(&used.instance).1;
                    !(is_disk(used) && names.split(", ").any(|name| name == disk))
                }
                (ResourceClass::Disk, _) if is_throttled => !of_limit(used),
                // A process waits for the busiest device.
                (ResourceClass::Disk, _) => !(is_disk(used) && used.share >= busiest - SAME_DEVICE),
                (class @ (ResourceClass::SingleThread | ResourceClass::CpuQuota), Some(_)) => {
                    of_class(used, class).is_none_or(|own| own.of != limit.of)
                }
                (class, _) => of_class(used, class).is_none(),
            }
    });
}

/// The use of each resource that can be saturated.
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
    // A device that serves requests concurrently is busy before it is saturated: this is an upper bound.
    let busy = metrics::DISK_UTILIZATION_SHARE;
    let has_files = |of: &Measured| of.host() == measured.host();
    let own = measured.instances(busy).filter(|_| measured.of_files().iter().any(has_files));
    for disk in own {
        let resource = Resource::disk(disk).with(mostly(measured, disk));
        add(busy, disk, measured.mean(busy, disk), resource);
    }
    for host in measured.hosts() {
        let there = measured.on(host);
        for (metric, class) in
            [(metrics::CPU_BUSY_SHARE, ResourceClass::Cpu), (stalled, ResourceClass::Memory)]
        {
            add(metric, &instance_on(host, ""), there.mean(metric, ""), Resource::of_host(class).on(host));
        }
        for disk in there.instances(busy) {
            let resource = Resource::disk(disk).with(mostly(&there, disk)).on(host);
            add(busy, &instance_on(host, disk), there.mean(busy, disk), resource);
        }
    }
    found
}

/// The kind of most requests in progress at a device.
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simulate::{Simulated, single};
    use model::Shape;

    /// A service, a disk with a volume on it, another disk, and a partly used CPU.
    fn closest_to(limit: Option<&Resource>, others: &[(&'static str, &'static str, f64)]) -> (String, f64) {
        let mut run = Simulated::of(Shape::closed(8), 1000.0, 8.0)
            .http()
            .counter("cpu.busy_share", "", &[0.3])
            .counter("process.threads", "svc", &[8.0])
            .counter("process.busy_cpus", "svc", &[0.5])
            .counter("process.busiest_thread_cpus", "svc", &[0.4])
            .counter("process.busiest_thread_cpus", "self", &[0.2])
            .counter("disk.utilization_share", "vda", &[0.9])
            .counter("disk.utilization_share", "dm-0", &[0.88])
            .counter("disk.utilization_share", "vdb", &[0.35])
            .counter("disk.reads_per_s", "vdb", &[50.0])
            .counter("disk.read_s", "vdb", &[0.002])
            .counter("filesystem.used_share", "/", &[0.99]);
        for (metric, instance, value) in others {
            run = run.counter(metric, instance, &[*value]);
        }
        let study = single(&run);
        let found = closest([Measured::of(&study.runs[0])], limit).unwrap();
        (found.resource.unwrap().to_string(), (found.share * 1e6).round() / 1e6)
    }

    #[test]
    fn what_comes_next_is_no_other_view_of_the_limit() {
        use ResourceClass::{Cpu, CpuQuota, Disk, LoadGenerator, SingleThread};
        let of = |class| Resource::of_process(class, "svc");
        let io_limit = ("process.read_limit_per_s", "svc", 100.0);
        let reads = |per_s| ("process.disk_reads_per_s", "svc", per_s);
        let quota = ("process.quota_cpus", "svc", 0.52);
        type Case<'a> = (Option<Resource>, &'a [(&'static str, &'static str, f64)], (&'a str, f64));
        let cases: [Case; 8] = [
            (None, &[], ("disk vda (transfers)", 0.9)),
            (Some(of(Cpu)), &[], ("disk vda (transfers)", 0.9)),
            // The volume on the disk is the disk itself.
            (Some(of(Disk).with(Detail::Flushes)), &[], ("single thread of svc", 0.4)),
            (Some(Resource::disk("vda, dm-0")), &[quota], ("cpu quota of svc", 0.961538)),
            (Some(of(CpuQuota)), &[quota], ("disk vda (transfers)", 0.9)),
            // The process waits for a limit that is reached; the device has headroom.
            (Some(of(Disk)), &[io_limit, reads(99.0)], ("disk vda (transfers)", 0.9)),
            (Some(of(Disk)), &[io_limit, reads(60.0)], ("I/O limit of svc", 0.6)),
            (
                Some(of(SingleThread)),
                &[("disk.utilization_share", "vda", 0.1)],
                ("disk dm-0 (transfers)", 0.88),
            ),
        ];
        for (limit, others, (next, share)) in cases {
            assert_eq!(closest_to(limit.as_ref(), others), (next.to_string(), share), "{limit:?} {others:?}");
        }
        let idle = [("disk.utilization_share", "vda", 0.0), ("disk.utilization_share", "dm-0", 0.0)];
        let idle =
            [idle[0], idle[1], ("process.busiest_thread_cpus", "svc", 0.1), ("cpu.busy_share", "", 0.1)];
        assert_eq!(closest_to(None, &idle), ("disk vdb (reads)".into(), 0.35));
        let generator = [idle[0], idle[1], idle[2], idle[3], ("process.busiest_thread_cpus", "self", 0.8)];
        assert_eq!(closest_to(None, &generator), ("load generator".into(), 0.8));
        let limit = Resource::of_host(LoadGenerator);
        assert_eq!(closest_to(Some(&limit), &generator), ("disk vdb (reads)".into(), 0.35));
    }
}
