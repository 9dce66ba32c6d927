//! Export: what is pending is sent to the connected system, always as differences.
//!
//! What was sent is known only once its batch is committed. After a crash in between it is sent again: agents make each change
//! so that twice is as good as once.

use crate::agent::{Agent, ExportedObject};
use crate::config::Threshold;
use crate::object::{AgentId, Change, CsId, CsObject, Phase};
use crate::stage::StepError;
use crate::statistics::Statistics;
use crate::store::{FailureKind, Population, Store, Write};

/// What an export did.
#[derive(Debug, Default)]
pub struct Exported {
    /// Counters.
    pub statistics: Statistics,
    /// The first objects that the system refused, and why.
    pub refused: Vec<(String, String)>,
}

/// Refusals that are kept to be shown.
const REFUSALS_KEPT: usize = 100;

/// Sends what is pending of a connector space.
///
/// # Errors
/// When the store or the system fails, a threshold is reached, or it is interrupted; what was committed stays.
pub fn export(
    store: &mut dyn Store,
    agent_id: AgentId,
    agent: &mut dyn Agent,
    batch_objects: usize,
    deletes: Threshold,
    progress: &mut dyn FnMut(u64) -> bool,
) -> Result<Exported, StepError> {
    let mut done = Exported::default();
    let most = deletes.most(store.count_imported(agent_id)?);
    let wanted = count_deletes(store, agent_id, batch_objects)?;
    if wanted > most {
        return Err(StepError::Threshold(format!(
            "{wanted} objects would be deleted in the connected system, more than the {most} that safety.export allows; \
             look at them, and run it once with a larger number if that is right"
        )));
    }
    let mut after = CsId(0);
    let mut count = 0;
    loop {
        let mut objects = store.cs_after(agent_id, after, batch_objects, Population::Exporting)?;
        let Some(last) = objects.last() else { return Ok(done) };
        after = last.id;
        objects.retain(|object| object.pending_export.as_ref().is_some_and(|export| export.is_unapplied()));
        if objects.is_empty() {
            continue;
        }
        let changes: Vec<ExportedObject> = objects.iter().filter_map(exported).collect();
        let answers = agent.export(&changes)?;
        let mut writes = Vec::with_capacity(objects.len());
        count += objects.len() as u64;
        for (mut object, answer) in objects.into_iter().zip(answers) {
            let Some(export) = &mut object.pending_export else { continue };
            match answer {
                Ok(()) => {
                    done.statistics.count(match export.change {
                        Change::Add => "export-add",
                        Change::Update => "export-update",
                        Change::Delete => "export-delete",
                    });
                    export.phase = Phase::Unconfirmed;
                    export.attributes.iter_mut().for_each(|pending| pending.phase = Phase::Unconfirmed);
                    if object.has_failed {
                        writes.push(Write::Failure { id: object.id, why: None });
                    }
                    writes.push(Write::Cs(object));
                }
                Err(refused) => {
                    done.statistics.count("export-failure");
                    if done.refused.len() < REFUSALS_KEPT {
                        done.refused.push((object.dn.clone(), refused.0.clone()));
                    }
                    writes
                        .push(Write::Failure { id: object.id, why: Some((FailureKind::Export, refused.0)) });
                }
            }
        }
        store.write(&writes)?;
        store.commit()?;
        if !progress(count) {
            return Err(StepError::Interrupted);
        }
    }
}

fn count_deletes(store: &mut dyn Store, agent: AgentId, batch_objects: usize) -> Result<u64, StepError> {
    let mut after = CsId(0);
    let mut count = 0;
    loop {
        let objects = store.cs_after(agent, after, batch_objects, Population::Exporting)?;
        let Some(last) = objects.last() else { return Ok(count) };
        after = last.id;
        let exports = objects.iter().filter_map(|object| object.pending_export.as_ref());
        let deletes =
            exports.filter(|export| export.change == Change::Delete && export.phase == Phase::Unapplied);
        count += deletes.count() as u64;
    }
}

/// What is to be sent of an object.
fn exported(object: &CsObject) -> Option<ExportedObject> {
    let export = object.pending_export.as_ref()?;
    let unapplied = export.attributes.iter().filter(|pending| pending.phase == Phase::Unapplied);
    Some(ExportedObject {
        change: match (export.change, export.phase) {
            // It is there already; what changed since is sent.
            (Change::Add, Phase::Unconfirmed) => Change::Update,
            (change, _) => change,
        },
        anchor: object.anchor,
        dn: object.dn.clone(),
        new_dn: None,
        attributes: unapplied.map(|pending| (pending.attribute, pending.values.clone())).collect(),
        changed_values: Vec::new(),
    })
}
