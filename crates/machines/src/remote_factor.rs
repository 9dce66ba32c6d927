//! A factor of a system under test on another machine, whose agent opens, journals, sets and undoes it.

use std::collections::BTreeMap;
use std::sync::Arc;

use engine::factor::{Factor, Undo};
use engine::machines::MachineFactor;
use engine::source::Unavailable;
use model::{Level, Nanos, SECOND};

use crate::hub::Shared;
use crate::message::{FactorAnswer, FactorAsk};

/// The longest time that a level may need until it has its effect.
const SETTLING_MAX: Nanos = 600 * SECOND;

/// A factor on a machine.
pub(crate) struct RemoteFactor {
    pub(crate) shared: Arc<Shared>,
    /// Index of the machine.
    pub(crate) machine: usize,
    /// Its name.
    pub(crate) name: String,
    pub(crate) factor: MachineFactor,
    /// The last level.
    pub(crate) set: Option<Level>,
    /// How the last level was set.
    pub(crate) remark: String,
}

impl RemoteFactor {
    fn ask(&self, ask: FactorAsk) -> Result<FactorAnswer, Unavailable> {
        self.shared.ask(self.machine, &self.factor, ask)
    }

    fn level(&self, ask: FactorAsk) -> Result<Level, Unavailable> {
        match self.ask(ask)? {
            // What was hidden on the way there is hidden on the way back.
            FactorAnswer::Level(level) => Ok(match &self.set {
                Some(set) if level.reveal() == set.reveal() => set.clone(),
                _ => level,
            }),
            _ => Err(self.other()),
        }
    }

    /// It answered something else.
    fn other(&self) -> Unavailable {
        Unavailable(format!("machine {} gave an answer to another question", self.name))
    }
}

/// The level as the machine needs it.
fn revealed(level: &Level) -> Level {
    match level {
        Level::Secret(secret) => Level::Text(secret.reveal().into()),
        level => level.clone(),
    }
}

impl Factor for RemoteFactor {
    fn check(&self, level: &Level) -> Result<(), Unavailable> {
        self.ask(FactorAsk::Check(revealed(level))).map(drop)
    }

    fn read(&self) -> Result<Level, Unavailable> {
        self.level(FactorAsk::Read)
    }

    /// They are in the journal of the machine.
    fn undo(&self, _level: &Level) -> Result<Vec<Undo>, Unavailable> {
        Ok(Vec::new())
    }

    fn set(&mut self, level: &Level) -> Result<Nanos, Unavailable> {
        self.set = Some(level.clone());
        match self.ask(FactorAsk::Set(revealed(level)))? {
            FactorAnswer::Set { settling, .. } if settling > SETTLING_MAX => {
                Err(Unavailable(format!("machine {} sent a time that no level needs", self.name)))
            }
            FactorAnswer::Set { settling, remark } => {
                self.remark = remark;
                Ok(settling)
            }
            _ => Err(self.other()),
        }
    }

    fn scaled(&self, share: f64) -> Result<Level, Unavailable> {
        self.level(FactorAsk::Scaled(share))
    }

    fn restore(&mut self) -> Result<(), Unavailable> {
        let restored = self.ask(FactorAsk::Restore).map(drop);
        restored.map_err(|Unavailable(why)| {
            Unavailable(format!(
                "{why}; if its agent was killed, `plimsoll restore` on that machine undoes it"
            ))
        })
    }

    fn facts(&mut self) -> BTreeMap<String, Level> {
        match self.ask(FactorAsk::Facts) {
            Ok(FactorAnswer::Facts(facts)) => facts,
            _ => BTreeMap::new(),
        }
    }

    fn remark(&self) -> String {
        let machine = format!("on machine {}", self.name);
        if self.remark.is_empty() { machine } else { format!("{machine}; {}", self.remark) }
    }
}
