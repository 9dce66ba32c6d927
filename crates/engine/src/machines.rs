//! Port 4: other machines, which drive parts of the load and whose counters are read.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use model::run::MachineRun;
use model::{Ending, Level, Load, Nanos, Problems, Settings, Shape, Target};
use serde::{Deserialize, Serialize};

use crate::crew::Crew;
use crate::factor::Factor;
use crate::inputs::{Inputs, KeptInputs};
use crate::source::{Source, Unavailable};

/// A trial that machines take part in.
#[derive(Clone, Copy, Debug)]
pub struct MachineTrial<'a> {
    /// The kind of the workload.
    pub workload: &'a str,
    /// Its settings.
    pub settings: &'a Settings,
    /// The load of all machines.
    pub load: &'a Load,
    /// Its shape; none for the default of the workload.
    pub shape: Option<&'a Shape>,
    /// The seed.
    pub seed: u64,
    /// How often the counters are read.
    pub sample_every: Nanos,
    /// The system under test, which may run on one of the machines.
    pub target: Option<&'a Target>,
    /// The files that the load reads.
    pub inputs: &'a Inputs,
}

/// A factor of a system under test that runs on a machine.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MachineFactor {
    /// Its path, such as `host.cpus`.
    pub path: String,
    /// The object of the factor on that machine, if it needs one.
    pub on: Option<String>,
    /// Its other parameters.
    pub parameters: BTreeMap<String, String>,
    /// The system under test, which is already running there.
    pub target: Target,
}

/// The machines of an experiment, while it runs.
pub trait Machines {
    /// Whether any of them drives load.
    fn drive(&self) -> bool;

    /// How many machines take part, and how many the experiment has: a lost one may be left out.
    fn taking_part(&self) -> (usize, usize);

    /// The files of the load, which are sent to the machines that drive it; none if this host does.
    fn inputs(&self) -> Option<Arc<KeptInputs>>;

    /// Asks every machine whether it can take part in such a trial. Changes nothing.
    fn check(&mut self, trial: MachineTrial<'_>) -> Problems;

    /// Prepares a trial on every machine: its data exists, and its workers wait for the start. `operations` are the names of
    /// those of the load, each with whether it counts as throughput; `say` receives progress. Returns the facts that all machines report alike, and the others by machine.
    ///
    /// # Errors
    /// How the trial ended.
    fn prepare(
        &mut self,
        trial: MachineTrial<'_>,
        operations: &[(String, bool)],
        say: &mut dyn FnMut(&str),
        interrupted: &AtomicBool,
    ) -> Result<BTreeMap<String, Level>, Ending>;

    /// The counters of each machine, with its name.
    fn sources(&mut self) -> Vec<(String, Box<dyn Source>)>;

    /// A factor on a machine. It is opened, journaled and undone there; an error says what the machine answered.
    ///
    /// # Errors
    /// When there is no such machine.
    fn factor(&mut self, machine: &str, factor: MachineFactor) -> Result<Box<dyn Factor>, Unavailable>;

    /// Drives the load of the prepared trial.
    fn crew(&mut self) -> &mut dyn Crew;

    /// Ends the trial on every machine. Returns what each of them did.
    fn finish(&mut self) -> Vec<MachineRun>;

    /// Ends the experiment on every machine. Returns what could not be removed or restored.
    fn end(&mut self) -> Vec<String>;
}
