//! What tests of several workloads need.

use engine::workload::{Admission, Completion, Done, LoadError, Operation, Share, Workload};
use model::{SettingInfo, Settings};

/// The defaults of a table and these settings, as written.
pub(crate) fn settings_of(table: &[SettingInfo], pairs: &[(&str, &str)]) -> Settings {
    let mut settings = Settings::defaults(table);
    for (name, text) in pairs {
        let info = table.iter().find(|info| info.name == *name).unwrap();
        settings.set(name, info.kind.parse(text).unwrap());
    }
    settings
}

/// Drives one worker until it has no more work, or for at most `operations_max` operations: the measuring loop without
/// its clock.
pub(crate) fn drive(
    workload: &dyn Workload,
    in_flight: u32,
    operations_max: usize,
) -> Result<Vec<Done>, LoadError> {
    let share = Share { lane: 0, index: 0, of: 1, in_flight_max: in_flight, is_open: false, seed: 5 };
    let mut worker = workload.worker(&share)?;
    let (mut taken, mut completions) = (Vec::new(), Vec::<Completion>::new());
    let mut free: Vec<u32> = (0..in_flight).rev().collect();
    let mut exhausted = false;
    let mut number = 0;
    loop {
        while !exhausted && taken.len() + (in_flight as usize - free.len()) < operations_max {
            let Some(ticket) = free.last().copied() else { break };
            match worker.submit(Operation::new(ticket, number)) {
                Admission::Accepted => {
                    free.pop();
                }
                Admission::Completed(result) => taken.push(result),
                Admission::Busy | Admission::Preparing => break,
                Admission::Exhausted => exhausted = true,
            }
            number += 1;
        }
        if free.len() == in_flight as usize && (exhausted || taken.len() >= operations_max) {
            return Ok(taken);
        }
        worker.reap(u64::MAX, &mut completions)?;
        for completion in completions.drain(..) {
            free.push(completion.ticket);
            taken.push(completion.done);
        }
    }
}
