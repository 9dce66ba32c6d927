//! `host.cpu_quota`: how much CPU time the target may use.

use std::fs;
use std::path::Path;

use engine::factor::{Factor, FactorKind, FactorTarget, Moment, Undo};
use engine::source::Unavailable;
use model::experiment::FactorInfo;
use model::{HostResource, Level, MILLISECOND, Nanos, SettingKind};
use rustix::process::Pid;
use rustix::thread::sched_getaffinity;

use crate::cgroup::{CPU, OwnGroup, Version, write};

/// The factor.
pub const CPU_QUOTA: FactorKind = FactorKind {
    info: FactorInfo {
        path: "host.cpu_quota",
        kind: SettingKind::CpuLimit,
        about: "CPU quota of the target, in CPUs, with a period of 100 ms. Use \"unlimited\" as the baseline: it moves the target to the same kind of cgroup without a quota.",
        resource: Some(HostResource::Cpu),
        needs_on: false,
        parameters: &[],
        named: false,
        of_dependency: false,
    },
    moment: |_| Moment::Prepared,
    open,
};

/// The period of a quota.
const PERIOD_US: u64 = 100_000;

/// The least quota that the kernel accepts is 1 ms.
const CPUS_MIN: f64 = 1_000.0 / PERIOD_US as f64;

/// After two periods, the previous quota has no effect any more.
const UNTIL_IT_COUNTS: Nanos = 200 * MILLISECOND;

const V1_QUOTA: &str = "cpu.cfs_quota_us";
const V1_PERIOD: &str = "cpu.cfs_period_us";
const V2_FILE: &str = "cpu.max";

struct CpuQuota {
    group: OwnGroup,
    first: Option<Pid>,
}

fn open(target: &FactorTarget) -> Result<Box<dyn Factor>, Unavailable> {
    let group = OwnGroup::plan(&target.root, &target.processes, CPU)?;
    let first = target.processes.first().and_then(|process| Pid::from_raw(i32::try_from(*process).ok()?));
    Ok(Box::new(CpuQuota { group, first }))
}

/// The quota of a level in microseconds per period; none is unlimited.
fn quota_us(level: &Level) -> Result<Option<u64>, Unavailable> {
    match level {
        Level::Unlimited => Ok(None),
        Level::Number(cpus) if (CPUS_MIN..1e6).contains(cpus) => {
            Ok(Some((cpus * PERIOD_US as f64).round() as u64))
        }
        other => Err(Unavailable(format!("{other} is not a number of CPUs from {CPUS_MIN}"))),
    }
}

/// The quota of one group, in CPUs. The root has none, and in v2 no file.
fn quota_of(version: Version, group: &Path) -> Option<f64> {
    let number = |text: &str| text.trim().parse::<f64>().ok();
    let (quota, period) = match version {
        Version::V1 => {
            let read = |file: &str| number(&fs::read_to_string(group.join(file)).ok()?);
            (read(V1_QUOTA)?, read(V1_PERIOD)?)
        }
        Version::V2 => {
            let text = fs::read_to_string(group.join(V2_FILE)).ok()?;
            let (quota, period) = text.split_once(' ')?;
            (number(quota)?, number(period)?)
        }
    };
    (quota > 0.0 && period > 0.0).then_some(quota / period)
}

impl CpuQuota {
    fn version(&self) -> Version {
        self.group.home().version
    }

    /// The quota of the group itself.
    fn own(&self) -> Option<f64> {
        quota_of(self.version(), self.group.path())
    }

    /// The least quota of its parent groups.
    fn of_others(&self) -> Option<f64> {
        let others = self.group.home().lineage().filter(|at| *at != self.group.path());
        others.filter_map(|at| quota_of(self.version(), at)).min_by(f64::total_cmp)
    }

    /// The number of CPUs that its processes may run on now.
    fn allowed(&self) -> Option<f64> {
        Some(f64::from(sched_getaffinity(Some(self.first?)).ok()?.count()))
    }
}

impl Factor for CpuQuota {
    fn check(&self, level: &Level) -> Result<(), Unavailable> {
        quota_us(level)?;
        let file = self.group.home().path.join(V1_QUOTA);
        if self.version() == Version::V1 && !file.exists() {
            return Err(Unavailable(format!(
                "the kernel was built without quotas (CONFIG_CFS_BANDWIDTH): there is no {}",
                file.display()
            )));
        }
        self.group.check()
    }

    fn read(&self) -> Result<Level, Unavailable> {
        let in_force = self.own().into_iter().chain(self.of_others()).min_by(f64::total_cmp);
        Ok(in_force.map_or(Level::Unlimited, Level::Number))
    }

    fn undo(&self, _level: &Level) -> Result<Vec<Undo>, Unavailable> {
        // The period comes first, because a quota that is valid for the previous period may be invalid for
        // another one.
        Ok(self.group.undo(self.group.contents(match self.version() {
            Version::V1 => &[V1_PERIOD, V1_QUOTA],
            Version::V2 => &[V2_FILE],
        })))
    }

    /// The quota is set before the processes enter the group, so they are never in it without a limit.
    fn set(&mut self, level: &Level) -> Result<Nanos, Unavailable> {
        let quota = quota_us(level)?;
        self.group.make()?;
        let at = self.group.path();
        match self.version() {
            Version::V1 => {
                write(&at.join(V1_PERIOD), &PERIOD_US.to_string())?;
                let quota = quota.map_or("-1".into(), |quota| quota.to_string());
                write(&at.join(V1_QUOTA), &quota)?;
            }
            Version::V2 => {
                let quota = quota.map_or("max".into(), |quota| quota.to_string());
                write(&at.join(V2_FILE), &format!("{quota} {PERIOD_US}"))?;
            }
        }
        self.group.enter()?;
        Ok(UNTIL_IT_COUNTS)
    }

    fn scaled(&self, share: f64) -> Result<Level, Unavailable> {
        scaled(self.own(), self.of_others().into_iter().chain(self.allowed()).min_by(f64::total_cmp), share)
    }
}

/// A share of the effective number of CPUs, in steps of 0.001: of the group's own quota, and limited by the
/// CPUs available around it.
fn scaled(own: Option<f64>, there_is: Option<f64>, share: f64) -> Result<Level, Unavailable> {
    let in_force = own.into_iter().chain(there_is).min_by(f64::total_cmp);
    let in_force = in_force
        .ok_or_else(|| Unavailable("the number of CPUs that its processes may use is not known".into()))?;
    let most = there_is.unwrap_or(in_force);
    let cpus = ((in_force * share).min(most) * 1000.0).floor() / 1000.0;
    match () {
        () if !cpus.is_finite() || cpus < CPUS_MIN => {
            Err(Unavailable(format!("{cpus} CPUs are less than the smallest quota, {CPUS_MIN}")))
        }
        () if share > 1.0 && cpus <= in_force => {
            Err(Unavailable(format!("it may use all {most} available CPUs already")))
        }
        () => Ok(Level::Number(cpus)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Spinner, UndoSteps, controller, controller_v2, cpu_s_of};
    use engine::source::HostRoot;
    use testkit::Scratch;

    #[test]
    fn a_quota_is_a_number_of_cpus() {
        for (level, expected) in [
            (Level::Number(0.5), Some(Some(50_000))),
            (Level::Number(2.0), Some(Some(200_000))),
            (Level::Number(0.333), Some(Some(33_300))),
            (Level::Unlimited, Some(None)),
            (Level::Number(0.001), None),
            (Level::Number(f64::NAN), None),
            (Level::Count(1), None),
        ] {
            assert_eq!(quota_us(&level).ok(), expected, "{level}");
        }
    }

    #[test]
    fn a_share_is_of_what_is_in_force_and_no_more_than_there_is() {
        for (own, there_is, share, expected) in [
            (Some(0.5), Some(2.0), 0.7, Some(0.35)),
            (None, Some(2.0), 0.7, Some(1.4)),
            (Some(4.0), Some(2.0), 0.7, Some(1.4)),
            (Some(0.01), Some(2.0), 0.7, None),
            (Some(f64::INFINITY), None, 0.7, None),
            (None, None, 0.7, None),
            (Some(0.5), Some(2.0), 1.0 / 0.7, Some(0.714)),
            (Some(1.8), Some(2.0), 1.0 / 0.7, Some(2.0)),
            (Some(2.0), Some(2.0), 1.0 / 0.7, None),
            (None, Some(2.0), 1.0 / 0.7, None),
            (Some(0.5), None, 1.0 / 0.7, None),
        ] {
            let level = scaled(own, there_is, share).ok();
            assert_eq!(level, expected.map(Level::Number), "{share} of {own:?} of {there_is:?}");
        }
    }

    #[test]
    fn v2_has_one_file_and_the_least_quota_of_the_line_holds() {
        let host = Scratch::new();
        host.file("proc/9/cgroup", "0::/slice/plimsoll-target-1-0\n");
        host.file("proc/self/mountinfo", "30 25 0:26 / /cg rw - cgroup2 cgroup2 rw\n");
        host.file("cg/cgroup.controllers", "cpu\n");
        host.file("cg/slice/cgroup.controllers", "cpu\n");
        host.file("cg/slice/cgroup.subtree_control", "cpu\n");
        host.file("cg/slice/cpu.max", "150000 100000\n");
        host.file("cg/slice/plimsoll-target-1-0/cgroup.procs", "9\n");
        let own = host.file("cg/slice/plimsoll-target-1-0/cpu.max", "max 100000\n");
        let target = FactorTarget::of(HostRoot::at(host.path()), vec![9]);
        let mut factor = open(&target).unwrap();
        factor.check(&Level::Number(0.5)).unwrap();
        assert_eq!(factor.read().unwrap(), Level::Number(1.5));
        // The result must not depend on the number of CPUs of process 9 on this host.
        assert!(matches!(factor.scaled(0.5), Ok(Level::Number(cpus)) if (0.5..=0.75).contains(&cpus)));
        assert!(factor.scaled(2.0).is_err(), "the limit above is another's");
        let undo = factor.undo(&Level::Unlimited).unwrap();
        assert_eq!(undo, [Undo::WriteControl { path: own.clone(), text: "max 100000".into() }]);
        factor.set(&Level::Number(0.5)).unwrap();
        assert_eq!(fs::read_to_string(&own).unwrap(), "50000 100000");
        assert_eq!(factor.read().unwrap(), Level::Number(0.5));
        factor.set(&Level::Number(4.0)).unwrap();
        assert_eq!(factor.read().unwrap(), Level::Number(1.5), "the group above has less");
        for _ in 0..2 {
            undo.iter().for_each(|step| crate::undo::carry_out(step).unwrap());
            assert_eq!(fs::read_to_string(&own).unwrap(), "max 100000");
        }
    }

    #[test]
    fn a_spinner_gets_its_quota_with_its_children() {
        let spinner = Spinner::start(2);
        let target = FactorTarget::of(HostRoot::live(), vec![spinner.process()]);
        let opened = open(&target).and_then(|factor| factor.check(&Level::Number(0.3)).map(|()| factor));
        if opened.is_err() && testkit::lacks(controller(CPU)) {
            return;
        }
        testkit::partly_lacks(controller_v2(CPU));
        let mut factor = opened.unwrap();
        let undo_steps = UndoSteps(factor.undo(&Level::Unlimited).unwrap());
        let before = factor.read().unwrap();
        let settling = factor.set(&Level::Number(0.3)).unwrap();
        assert_eq!(factor.read().unwrap(), Level::Number(0.3));
        // More can be set, up to the number of CPUs; also by a factor that is opened later.
        assert_eq!(factor.scaled(2.0).unwrap(), Level::Number(0.6));
        assert_eq!(open(&target).unwrap().scaled(2.0).unwrap(), Level::Number(0.6));
        std::thread::sleep(std::time::Duration::from_nanos(settling));
        let (begin, used) = (std::time::Instant::now(), cpu_s_of(&spinner.processes()));
        std::thread::sleep(std::time::Duration::from_secs(2));
        let cpus = (cpu_s_of(&spinner.processes()) - used) / begin.elapsed().as_secs_f64();
        // An upper limit, not a timing: two unlimited spinners use at least one CPU on any host.
        assert!((0.02..0.45).contains(&cpus), "{cpus} CPUs under a quota of 0.3");
        for _ in 0..2 {
            undo_steps.execute();
        }
        assert_eq!(factor.read().unwrap(), before);
    }
}
