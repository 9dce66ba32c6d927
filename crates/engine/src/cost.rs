//! The cost of driving the load: CPU time and waiting time of the worker threads.

use std::collections::HashMap;
use std::path::PathBuf;

use model::Nanos;
use model::run::GeneratorUse;

use crate::cgroup;
use crate::source::HostRoot;
use crate::threads::{ThreadUse, delays_are_counted, thread_use};

/// The cost of driving the load up to an instant.
#[derive(Default)]
pub(crate) struct Costs {
    threads: Vec<Option<ThreadUse>>,
    spun_ns: u64,
    throttled: Vec<(PathBuf, Nanos)>,
}

impl Costs {
    /// The cost so far. `ended` has the final values of threads that ended.
    pub(crate) fn now(threads: &[u32], ended: &HashMap<u32, ThreadUse>, spun_ns: u64) -> Costs {
        let used = |thread: &u32| ended.get(thread).copied().or_else(|| thread_use(*thread));
        Costs {
            threads: threads.iter().map(used).collect(),
            spun_ns,
            throttled: cgroup::throttled(&HostRoot::live(), std::process::id()),
        }
    }

    /// The cost since an earlier instant, for the threads that both instants include.
    pub(crate) fn since(&self, earlier: &Costs, wall_s: f64) -> GeneratorUse {
        let threads = || earlier.threads.iter().zip(&self.threads);
        let used = |part: fn(&ThreadUse) -> u64| {
            let used = threads().filter_map(|(before, after)| {
                Some(part(after.as_ref()?).saturating_sub(part(before.as_ref()?)))
            });
            used.sum::<u64>() as f64 / 1e9
        };
        let spin_s = self.spun_ns.saturating_sub(earlier.spun_ns) as f64 / 1e9;
        let throttled = self.throttled.iter().filter_map(|(group, after)| {
            let (_, before) = earlier.throttled.iter().find(|(known, _)| known == group)?;
            Some(after.saturating_sub(*before))
        });
        GeneratorUse {
            threads: self.threads.len() as u32,
            cpu_s: (used(|used| used.cpu_ns) - spin_s).max(0.0),
            spin_s,
            user_s: Some(used(|used| used.user_ns)),
            system_s: Some(used(|used| used.system_ns)),
            run_wait_s: used(|used| used.run_wait_ns),
            throttled_s: throttled.max().map(|throttled| throttled as f64 / 1e9),
            blocked_io_s: delays_are_counted().then(|| used(|used| used.blocked_io_ns)),
            wall_s,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spinning_is_no_cost_of_an_operation_and_the_tightest_group_counts() {
        let used = |cpu_ns, run_wait_ns| Some(ThreadUse { cpu_ns, run_wait_ns, ..ThreadUse::default() });
        let throttled = |inner, outer| vec![("/a/b".into(), inner), ("/a".into(), outer)];
        let before = Costs {
            threads: vec![used(1_000_000_000, 0), None],
            spun_ns: 500_000_000,
            throttled: throttled(0, 7_000_000_000),
        };
        let after = Costs {
            threads: vec![used(3_000_000_000, 250_000_000), used(9_000_000_000, 0)],
            spun_ns: 1_500_000_000,
            throttled: throttled(2_000_000_000, 8_000_000_000),
        };
        let cost = after.since(&before, 4.0);
        assert_eq!((cost.threads, cost.cpu_s, cost.spin_s, cost.run_wait_s), (2, 1.0, 1.0, 0.25));
        assert_eq!(cost.throttled_s, Some(2.0));
        let moved = Costs { throttled: vec![("/c".into(), 0)], ..Costs::default() };
        assert_eq!(after.since(&moved, 4.0).throttled_s, None);
    }
}
