//! `[machines]`: other machines that drive the load, or whose counters are read.

use serde::{Deserialize, Serialize};

use crate::{Secret, SecretParts};

crate::settings! {
    /// The keys of the table.
    pub static MACHINE_SETTINGS;

    pub(super) static LOAD: crate::Key<Vec<Secret>> = crate::Key::secrets(
        "load", SecretParts::Machine,
        "Machines that drive the load together, each its part: a host name, \"ssh://USER@HOST:PORT\", \"NAME=exec:COMMAND\" that starts `plimsoll agent`, or \"nats://HOST/FLEET?agents=N\". Default: this machine.",
    );

    pub(super) static WATCH: crate::Key<Vec<Secret>> = crate::Key::secrets(
        "watch", SecretParts::Machine,
        "Machines whose counters are read, and that drive no load; written like those of `load`.",
    );

    pub(super) static ON_LOSS: crate::Key<OnLoss> = crate::Key::choice(
        "on_loss",
        "What follows when a machine that drives load is lost: its trial does not count in any case.",
    );
}

crate::choice! {
    /// What follows the loss of a machine that drives load.
    pub enum OnLoss {
        /// The next trial reaches it again.
        Reconnect = "reconnect",
        /// Further trials divide the load among the other machines.
        Divide = "divide",
    }
}

/// The machines of an experiment, as written.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MachineList {
    /// Those that drive the load; none if this one does.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub load: Vec<Secret>,
    /// Those that are only watched.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub watch: Vec<Secret>,
    /// Whether the load of a lost machine is divided among the others in further trials. Otherwise it is reached again.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub divides_on_loss: bool,
}

impl MachineList {
    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.load.is_empty() && self.watch.is_empty()
    }

    /// All of them, and whether each drives load.
    pub fn all(&self) -> impl Iterator<Item = (&str, bool)> {
        let load = self.load.iter().map(|text| (text.reveal(), true));
        load.chain(self.watch.iter().map(|text| (text.reveal(), false)))
    }

    /// The entry of a machine that is only watched, by its name.
    pub fn watched(&self, name: &str, name_of: NameOfMachine) -> Option<&str> {
        self.watch.iter().map(Secret::reveal).find(|text| name_of(text).is_ok_and(|found| found == name))
    }

    /// A machine that cannot be used, or whose name another one has: its text, the problem and what to write.
    pub fn problems(&self, name_of: NameOfMachine) -> Vec<(String, String, String)> {
        let mut names: Vec<String> = Vec::new();
        let mut problems = Vec::new();
        for (text, _) in self.all() {
            match name_of(text) {
                Err((what, help)) => problems.push((text.to_string(), what, help)),
                Ok(name) if names.contains(&name) => {
                    let what = format!("two machines have the name {name}");
                    problems.push((
                        text.to_string(),
                        what,
                        format!("give one of them another: NAME={}", SecretParts::Machine.hide(text)),
                    ));
                }
                Ok(name) => names.push(name),
            }
        }
        problems
    }
}

/// The name of a machine in results, from what the experiment says of it. The error is the problem and what to write.
pub type NameOfMachine = fn(&str) -> Result<String, (String, String)>;
