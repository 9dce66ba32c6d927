//! `host.cores`: number of cores that the target may use, each with all of its hardware threads.

use engine::factor::{FactorKind, Moment};
use model::SettingKind;
use model::experiment::FactorInfo;

use crate::cpus::{Counted, open_counted};
use crate::topology::Topology;

/// The factor.
pub const CORES: FactorKind = FactorKind {
    info: FactorInfo {
        path: "host.cores",
        kind: SettingKind::Count { min: 1, max: 4096 },
        about: "Number of cores that the target may use, each with all of its hardware threads: the first ones of those it was allowed at the start.",
        resource: None,
        needs_on: false,
        parameters: &[],
        named: false,
        of_dependency: false,
    },
    moment: |_| Moment::Prepared,
    open: |target| open_counted(target, Counted::Cores(Topology::read(&target.root)?)),
};
