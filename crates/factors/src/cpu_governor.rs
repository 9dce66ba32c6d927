//! `host.cpu_governor`: what chooses the clock of the CPUs.

use engine::factor::{Factor, FactorKind, FactorTarget, Moment, Undo};
use engine::source::Unavailable;
use model::experiment::FactorInfo;
use model::{Level, Nanos, SettingKind};

use crate::cpufreq::Policies;

/// The factor.
pub const CPU_GOVERNOR: FactorKind = FactorKind {
    info: FactorInfo {
        path: "host.cpu_governor",
        kind: SettingKind::Text,
        about: "Governor that chooses the clock of all CPUs of the host, such as performance or powersave. Needs root, and a machine that shows its clock.",
        resource: None,
        needs_on: false,
        parameters: &[],
        named: false,
        of_dependency: false,
    },
    moment: |_| Moment::Prepared,
    open,
};

const GOVERNOR: &str = "scaling_governor";
const GOVERNORS: &str = "scaling_available_governors";

struct CpuGovernor(Policies);

fn open(target: &FactorTarget) -> Result<Box<dyn Factor>, Unavailable> {
    Ok(Box::new(CpuGovernor(Policies::find(&target.root)?)))
}

impl CpuGovernor {
    fn requested(&self, level: &Level) -> Result<String, Unavailable> {
        let name = level.to_string();
        for available in self.0.read(GOVERNORS)? {
            if !available.split_ascii_whitespace().any(|governor| governor == name) {
                return Err(Unavailable(format!(
                    "the governor {name} is requested, and there are {available}"
                )));
            }
        }
        Ok(name)
    }
}

impl Factor for CpuGovernor {
    fn check(&self, level: &Level) -> Result<(), Unavailable> {
        self.requested(level)?;
        self.0.check_writable(GOVERNOR)
    }

    fn read(&self) -> Result<Level, Unavailable> {
        let mut names = self.0.read(GOVERNOR)?;
        names.dedup();
        Ok(Level::Text(names.join(", ")))
    }

    fn undo(&self, _level: &Level) -> Result<Vec<Undo>, Unavailable> {
        self.0.undo(GOVERNOR)
    }

    fn set(&mut self, level: &Level) -> Result<Nanos, Unavailable> {
        let name = self.requested(level)?;
        self.0.write(GOVERNOR, &name)?;
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
    fn the_governor_is_set_and_restored() {
        let machine = example();
        let mut factor = open(&FactorTarget::of(HostRoot::at(machine.path()), Vec::new())).unwrap();
        let text = |name: &str| Level::Text(name.into());
        assert_eq!(factor.read().unwrap(), text("powersave"));
        factor.check(&text("performance")).unwrap();
        let undo = factor.undo(&text("performance")).unwrap();
        factor.set(&text("performance")).unwrap();
        assert_eq!(factor.read().unwrap(), text("performance"));
        undo.iter().for_each(|step| carry_out(step).unwrap());
        assert_eq!(factor.read().unwrap(), text("powersave"));
        let error = factor.check(&text("ondemand")).unwrap_err().0;
        assert_eq!(error, "the governor ondemand is requested, and there are performance powersave");
    }
}
