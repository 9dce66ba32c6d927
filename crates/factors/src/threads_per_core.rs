//! `host.threads_per_core`: number of hardware threads of each core that the target may use.

use engine::factor::{FactorKind, Moment};
use model::SettingKind;
use model::experiment::FactorInfo;

use crate::cpus::{Counted, open_counted};
use crate::topology::Topology;

/// The factor.
pub const THREADS_PER_CORE: FactorKind = FactorKind {
    info: FactorInfo {
        path: "host.threads_per_core",
        kind: SettingKind::Count { min: 1, max: 4096 },
        about: "Number of hardware threads of each core that the target may use. With 1, every core is used and no sibling, as with SMT (Hyper-Threading) off.",
        resource: None,
        needs_on: false,
        parameters: &[],
        named: false,
        of_dependency: false,
    },
    moment: |_| Moment::Prepared,
    open: |target| open_counted(target, Counted::ThreadsPerCore(Topology::read(&target.root)?)),
};
