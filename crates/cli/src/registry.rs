//! The registry: the only module that knows all workloads, sources and factors.

use engine::session::Registry;

/// All workloads, sources and factors of this build.
pub(crate) static REGISTRY: Registry = Registry {
    workloads: workloads::KINDS,
    sources: counters::SOURCES,
    factors: factors::FACTORS,
    target_group: factors::target_group::TARGET_GROUP,
    carry_out: factors::undo::carry_out,
    nothing_left: factors::undo::nothing_left,
    watched: counters::perfmon::watched,
    exporter: counters::scrape::check,
    machine: machines::address::name_of,
};
