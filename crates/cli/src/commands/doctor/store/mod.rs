//! `doctor --store`: what an administrator checks of the store of a metadirectory.

mod facts;
mod judge;
mod page;
mod postgres;
mod sqlite;
#[cfg(test)]
mod tests;

use super::judge::Mark;
use crate::carry_out::Failure;
use crate::commands::metadir;
use crate::exit::Exit;
use crate::output;

/// Checks the store of a configuration file.
pub(super) fn run(path: &str, strict: bool, json: bool) -> Result<Exit, Failure> {
    let config = metadir::read(path)?;
    let inspection = config
        .inspect_store()
        .map_err(|error| Failure::failed(format!("{error}\n  [store] of {path} names this store")))?;
    let facts = facts::look(inspection, config.audit_keep_s);
    let checks = judge::judge(&facts);
    match json {
        true => {
            let document = page::json(path, &facts, &checks);
            output::json(&serde_json::to_string_pretty(&document).map_err(Failure::failed)?);
        }
        false => {
            let width = usize::from(output::width().min(100));
            output::result(&page::text(path, &facts, &checks, width, strict));
        }
    }
    Ok(match strict && super::page::count(&checks, Mark::Fault) > 0 {
        true => Exit::Failed,
        false => Exit::Good,
    })
}
