//! `host.cpu_mhz`: the highest clock of all CPUs.

use engine::factor::{Factor, FactorKind, FactorTarget, Moment, Undo};
use engine::source::Unavailable;
use model::experiment::FactorInfo;
use model::{Level, Nanos, SettingKind};

use crate::cpufreq::Policies;

/// The factor.
pub const CPU_MHZ: FactorKind = FactorKind {
    info: FactorInfo {
        path: "host.cpu_mhz",
        kind: SettingKind::Count { min: 1, max: 100_000 },
        about: "Highest clock of all CPUs of the host in MHz (scaling_max_freq). Needs root, and a machine that shows its clock.",
        resource: None,
        needs_on: false,
        parameters: &[],
        named: false,
        of_dependency: false,
    },
    moment: |_| Moment::Prepared,
    open,
};

/// The files of a policy, in kHz.
const HIGHEST: &str = "scaling_max_freq";
const SLOWEST: &str = "cpuinfo_min_freq";
const FASTEST: &str = "cpuinfo_max_freq";

struct CpuMhz(Policies);

fn open(target: &FactorTarget) -> Result<Box<dyn Factor>, Unavailable> {
    Ok(Box::new(CpuMhz(Policies::find(&target.root)?)))
}

impl CpuMhz {
    fn requested_mhz(&self, level: &Level) -> Result<u64, Unavailable> {
        let Level::Count(mhz) = level else {
            return Err(Unavailable(format!("{level} is not a clock in MHz")));
        };
        let slowest = self.0.numbers(SLOWEST)?.into_iter().max().unwrap_or(0) / 1000;
        let fastest = self.0.numbers(FASTEST)?.into_iter().min().unwrap_or(0) / 1000;
        match (slowest..=fastest).contains(mhz) {
            true => Ok(*mhz),
            false => Err(Unavailable(format!(
                "{mhz} MHz are requested, and the CPUs run at {slowest} to {fastest} MHz"
            ))),
        }
    }
}

impl Factor for CpuMhz {
    fn check(&self, level: &Level) -> Result<(), Unavailable> {
        self.requested_mhz(level)?;
        self.0.check_writable(HIGHEST)
    }

    fn read(&self) -> Result<Level, Unavailable> {
        Ok(Level::Count(self.0.numbers(HIGHEST)?.into_iter().max().unwrap_or(0) / 1000))
    }

    fn undo(&self, _level: &Level) -> Result<Vec<Undo>, Unavailable> {
        self.0.undo(HIGHEST)
    }

    fn set(&mut self, level: &Level) -> Result<Nanos, Unavailable> {
        let mhz = self.requested_mhz(level)?;
        self.0.write(HIGHEST, &(mhz * 1000).to_string())?;
        Ok(0)
    }
}

#[cfg(test)]
mod tests {
    use engine::source::HostRoot;

    use super::*;
    use crate::cpufreq::example;
    use crate::undo::carry_out;

    #[test]
    fn the_highest_clock_is_set_and_restored() {
        let machine = example();
        let mut factor = open(&FactorTarget::of(HostRoot::at(machine.path()), Vec::new())).unwrap();
        assert_eq!(factor.read().unwrap(), Level::Count(3600));
        factor.check(&Level::Count(1800)).unwrap();
        let undo = factor.undo(&Level::Count(1800)).unwrap();
        factor.set(&Level::Count(1800)).unwrap();
        assert_eq!(factor.read().unwrap(), Level::Count(1800));
        assert_eq!(machine.text("sys/devices/system/cpu/cpufreq/policy4/scaling_max_freq"), "1800000");
        undo.iter().for_each(|step| carry_out(step).unwrap());
        assert_eq!(factor.read().unwrap(), Level::Count(3600));
        for (level, what) in [
            (Level::Count(4000), "4000 MHz are requested, and the CPUs run at 800 to 3600 MHz"),
            (Level::Count(100), "100 MHz are requested, and the CPUs run at 800 to 3600 MHz"),
            (Level::Unlimited, "is not a clock in MHz"),
        ] {
            let error = factor.check(&level).unwrap_err().0;
            assert!(error.contains(what), "{error}");
        }
    }

    #[test]
    fn a_machine_that_shows_no_clock_is_named() {
        let error = open(&FactorTarget::of(HostRoot::at("/nowhere"), Vec::new())).err().unwrap().0;
        assert!(error.contains("there is no policy in /sys/devices/system/cpu/cpufreq"), "{error}");
    }
}
