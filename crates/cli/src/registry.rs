//! Where the adapters meet: the only place that knows every workload, source and factor.

use engine::session::Registry;

/// Everything this build can drive, read and turn.
pub(crate) static REGISTRY: Registry = Registry {
    workloads: workloads::KINDS,
    sources: counters::SOURCES,
    factors: factors::FACTORS,
    target_group: factors::target_group::TARGET_GROUP,
    carry_out: factors::undo::carry_out,
};
