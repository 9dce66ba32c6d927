//! Writes the changes of a round.

use super::copy::Fields;
use super::round::{FailedRow, Round};
use super::sql::*;
use super::trail::FAIL;
use super::{PIECE_BYTES, Postgres};
use crate::object::{CsId, MvId, Reference};
use crate::store::row::seconds;
use crate::store::{Key, SearchKey, StoreError, trail::Origin};

impl Postgres {
    /// Sends rows to a COPY.
    fn copy<T>(
        &mut self,
        sql: &'static str,
        rows: &[T],
        encode: impl Fn(&mut Fields, &T),
    ) -> Result<(), StoreError> {
        if rows.is_empty() {
            return Ok(());
        }
        let statement = self.statement(sql)?;
        let mut copy = self.client.copy_in(&statement)?;
        let mut fields = Fields::begin();
        for row in rows {
            encode(&mut fields, row);
            if fields.0.len() >= PIECE_BYTES {
                copy.write(std::mem::replace(&mut fields.0, Vec::with_capacity(2 * PIECE_BYTES)))?;
            }
        }
        fields.end();
        copy.write(fields.0)?;
        Ok(copy.finish()?)
    }

    /// Executes the gathered changes of a round: first deletions, then updates, then inserts, so that unique
    /// values are released before they are reused.
    pub(super) fn carry_out(&mut self, round: &Round<'_>) -> Result<(), StoreError> {
        if self.is_batch_used {
            self.client
                .batch_execute("DELETE FROM batch_cs; DELETE FROM batch_image; DELETE FROM batch_before; DELETE FROM batch_mv")?;
        }
        self.delete(round)?;
        self.update(round)?;
        self.insert(round)?;
        self.carry_out_references(round)?;
        self.fail(&round.failures)
    }

    fn delete(&mut self, round: &Round<'_>) -> Result<(), StoreError> {
        if !round.deleted_search.is_empty() {
            let (attributes, values, mvs) = search_columns(&round.deleted_search);
            self.execute(DELETE_SEARCH, &[&attributes, &values, &mvs])?;
        }
        if !round.deleted_keys.is_empty() {
            let (rules, hashes, mvs) = columns(&round.deleted_keys);
            self.execute(DELETE_KEYS, &[&rules, &hashes, &mvs])?;
        }
        if !round.unkeyed.is_empty() {
            self.execute(DROP_JOIN_KEYS, &[&round.unkeyed])?;
        }
        if !round.untimed.is_empty() {
            self.execute(DROP_DELETIONS, &[&round.untimed])?;
        }
        if !round.deleted_cs.is_empty() {
            self.execute(DELETE_CS, &[&round.deleted_cs])?;
            self.execute(DROP_ALL_REFERENCES, &[&round.deleted_cs])?;
        }
        if !round.deleted_mv.is_empty() {
            let statement = self.statement(DELETE_MV)?;
            let deleted = self.client.execute(&statement, &[&round.deleted_mv])?;
            self.mv_count -= deleted as i64;
        }
        Ok(())
    }

    fn update(&mut self, round: &Round<'_>) -> Result<(), StoreError> {
        if !round.moved.is_empty() {
            self.execute(MOVE_BEFORE, &[&round.moved])?;
        }
        if !round.unnamed.is_empty() {
            self.execute(UNNAME_CS, &[&round.unnamed])?;
        }
        if !round.renamed.is_empty() {
            let ids: Vec<i64> = round.renamed.iter().map(|(id, ..)| *id).collect();
            let dns: Vec<&[u8]> = round.renamed.iter().map(|(_, dn, _)| dn.as_bytes()).collect();
            let names: Vec<Option<&[u8]>> =
                round.renamed.iter().map(|(.., name)| name.as_ref().map(|name| name.as_bytes())).collect();
            self.execute(RENAME_CS, &[&ids, &dns, &names])?;
        }
        self.copy(COPY_CS, &round.cs, |fields, object| fields.cs(object))?;
        self.copy(COPY_IMAGES, &round.staged, |fields, (id, image)| fields.image(*id, *image))?;
        self.copy(COPY_BEFORE, &round.kept, |fields, (id, image)| fields.image(*id, Some(image)))?;
        self.copy(COPY_MV, &round.mv, |fields, object| fields.mv(object))?;
        for (sql, is_empty) in [
            (FREE_CS, round.cs.is_empty()),
            (UPDATE_CS, round.cs.is_empty()),
            (UPDATE_IMAGES, round.staged.is_empty()),
            (KEEP_BEFORE, round.kept.is_empty()),
            (UPDATE_MV, round.mv.is_empty()),
        ] {
            if !is_empty {
                // Not prepared: a statement without parameters would keep the plan of its first batch.
                self.client.batch_execute(sql)?;
                self.is_batch_used = true;
            }
        }
        for (sql, ids) in [
            (RESTORE_BEFORE, &round.restored),
            (DROP_BEFORE, &round.restored),
            (DROP_BEFORE, &round.settled_images),
            (DROP_FAILURES, &round.well),
        ] {
            if !ids.is_empty() {
                self.execute(sql, &[ids])?;
            }
        }
        Ok(())
    }

    fn insert(&mut self, round: &Round<'_>) -> Result<(), StoreError> {
        self.copy(COPY_NEW_CS, &round.new_cs, |fields, object| fields.cs(object))?;
        self.copy(COPY_NEW_MV, &round.new_mv, |fields, object| fields.mv(object))?;
        self.mv_count += round.new_mv.len() as i64;
        if !round.new_search.is_empty() {
            let (attributes, values, mvs) = search_columns(&round.new_search);
            self.execute(ADD_SEARCH, &[&attributes, &values, &mvs])?;
        }
        if !round.new_keys.is_empty() {
            let (rules, hashes, mvs) = columns(&round.new_keys);
            self.execute(ADD_KEYS, &[&rules, &hashes, &mvs])?;
        }
        if !round.join_keys.is_empty() {
            let ids: Vec<i64> = round.join_keys.iter().map(|(_, id)| id.0).collect();
            let rules: Vec<i32> = round.join_keys.iter().map(|((rule, _), _)| *rule as i32).collect();
            let hashes: Vec<&[u8]> = round.join_keys.iter().map(|((_, hash), _)| hash.as_bytes()).collect();
            self.execute(ADD_JOIN_KEYS, &[&ids, &rules, &hashes])?;
        }
        if !round.timed.is_empty() {
            let (ids, times): (Vec<i64>, Vec<i64>) = round.timed.iter().copied().unzip();
            self.execute(KEEP_DELETIONS, &[&ids, &times])?;
        }
        Ok(())
    }

    fn fail(&mut self, failures: &[FailedRow<'_>]) -> Result<(), StoreError> {
        if failures.is_empty() {
            return Ok(());
        }
        let agent = |id: i64| self.standing.of(CsId(id)).agent().0 as i32;
        let ids: Vec<i64> = failures.iter().map(|failed| failed.id).collect();
        let agents: Vec<i32> = ids.iter().copied().map(agent).collect();
        let kinds: Vec<i16> = failures.iter().map(|failed| failed.why.kind as i16).collect();
        let attribute = |failed: &FailedRow<'_>| Some(failed.why.attribute?.0 as i32);
        let attributes: Vec<Option<i32>> = failures.iter().map(attribute).collect();
        let texts: Vec<&str> = failures.iter().map(|failed| failed.text.as_ref()).collect();
        let Origin { run, step, at_unix_s } = self.origin.clone();
        let (at, run) = (seconds(at_unix_s), seconds(run));
        self.execute(FAIL, &[&ids, &agents, &kinds, &attributes, &texts, &at, &run, &step])
    }

    fn carry_out_references(&mut self, round: &Round<'_>) -> Result<(), StoreError> {
        let (kept, gone): (Vec<&Reference>, Vec<&Reference>) =
            round.references.iter().copied().partition(|reference| reference.state() != 0);
        let keys = |all: &[&Reference]| -> (Vec<i64>, Vec<i32>, Vec<Vec<u8>>) {
            let cs = all.iter().map(|reference| reference.cs.0).collect();
            let attributes = all.iter().map(|reference| reference.attribute.0 as i32).collect();
            (cs, attributes, all.iter().map(|reference| reference.target.as_bytes().to_vec()).collect())
        };
        if !gone.is_empty() {
            let (cs, attributes, targets) = keys(&gone);
            self.execute(DELETE_REFERENCES, &[&cs, &attributes, &targets])?;
        }
        if !kept.is_empty() {
            let (cs, attributes, targets) = keys(&kept);
            let agents: Vec<i32> = kept.iter().map(|reference| reference.agent.0 as i32).collect();
            let states: Vec<i16> = kept.iter().map(|reference| reference.state() as i16).collect();
            let values: Vec<&[u8]> = kept.iter().map(|reference| reference.value.as_slice()).collect();
            self.execute(KEEP_REFERENCES, &[&cs, &attributes, &targets, &agents, &states, &values])?;
        }
        for (sql, ids) in [(SETTLE_REFERENCES, &round.settled), (UNWANT_REFERENCES, &round.unwanted)] {
            if !ids.is_empty() {
                self.execute(sql, &[ids])?;
                self.execute(DROP_REFERENCES, &[ids])?;
            }
        }
        for (sql, ids) in [(ADD_DUE, &round.due), (DELETE_DUE, &round.done)] {
            if !ids.is_empty() {
                self.execute(sql, &[ids])?;
            }
        }
        Ok(())
    }
}

fn columns(keys: &[(Key, MvId)]) -> (Vec<i32>, Vec<&[u8]>, Vec<i64>) {
    let rules = keys.iter().map(|((rule, _), _)| *rule as i32).collect();
    let hashes = keys.iter().map(|((_, hash), _)| hash.as_bytes()).collect();
    (rules, hashes, keys.iter().map(|(_, mv)| mv.0).collect())
}

fn search_columns<'a>(keys: &[(&'a SearchKey, MvId)]) -> (Vec<i32>, Vec<&'a [u8]>, Vec<i64>) {
    let attributes = keys.iter().map(|((attribute, _), _)| attribute.0 as i32).collect();
    let values = keys.iter().map(|((_, value), _)| value.as_slice()).collect();
    (attributes, values, keys.iter().map(|(_, mv)| mv.0).collect())
}
