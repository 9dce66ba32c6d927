//! Join rules compare values as the connected systems do, and follow them when they change.

use super::Metadirectory;
use crate::rules::{comparisons_note, known_comparisons};
use crate::stage::StepError;
use crate::synchronize::renew;

impl Metadirectory {
    /// Reads how the system of an agent compares the values of its join rules. If it changed, the keys of the join
    /// rules are built again. Returns what an administrator should know.
    ///
    /// # Errors
    /// When the store fails.
    pub(super) fn follow_comparisons(&mut self, at: usize) -> Result<Vec<String>, StepError> {
        let (config, id) = (&self.agents[at], self.rules.agents[at].id);
        let attributes = self.rules.compared_by_system(id);
        let attributes: Vec<&str> = attributes.iter().map(|of| self.names.name(*of)).collect();
        if attributes.is_empty() {
            return Ok(Vec::new());
        }
        let usual = config.system.comparison();
        let said = match config.system.comparisons(&attributes) {
            Ok(said) => said,
            Err(error) => {
                let compared = self.rules.compared_as(id, &self.names);
                let compared =
                    compared.iter().map(|(name, comparison)| format!("`{name}` {}", comparison.name()));
                let compared = compared.collect::<Vec<_>>().join(", ");
                return Ok(vec![format!("{error}; until then, join rules compare {compared}")]);
            }
        };
        let (mut text, mut notes) = (String::new(), Vec::new());
        for (name, comparison) in attributes.iter().zip(said) {
            match comparison {
                Some(comparison) if comparison == usual => {}
                Some(comparison) => text.push_str(&format!("{name}\t{}\n", comparison.name())),
                None => notes.push(format!(
                    "the schema of {} does not say how `{name}` is compared: join rules compare it {}; write \
                     `ignore_case` in the join rule to decide it",
                    config.name,
                    usual.name()
                )),
            }
        }
        let (note, text) = (comparisons_note(id), Some(text).filter(|text| !text.is_empty()));
        if self.store.note(&note)? != text {
            self.store.set_note(&note, text.as_deref())?;
            let store = self.store.as_mut();
            let known = known_comparisons(store, &self.rules, &self.names, &self.agents)?;
            self.rules.compare_as(known, store, &self.names)?;
            self.fingerprints[at].set_comparisons(self.rules.compared_as(id, &self.names));
            renew(store, &self.rules, &self.names, self.batch_objects)?;
            store.commit()?;
        }
        Ok(notes)
    }
}
