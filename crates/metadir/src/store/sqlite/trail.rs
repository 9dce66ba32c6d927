//! What the store keeps beside the objects.

use rusqlite::{OptionalExtension as _, Row, params};

use super::{Sqlite, for_ids};
use crate::agent::DiscoveryError;
use crate::hologram::{Attribute, Hash};
use crate::index_key::IndexKey;
use crate::object::{AgentId, CsId};
use crate::store::row::seconds;
use crate::store::trail::{
    ChangeBatch, ChangeFilter, Failure, HeldPart, Hold, KeptDiscovery, KeptFailure, Origin, Times, Trail,
};
use crate::store::{FailureKind, StoreError, discovery_hash};

/// What format 5 has in addition to format 4.
pub(super) const CHANGE_LOG: &str = "
ALTER TABLE failure ADD COLUMN agent INTEGER NOT NULL DEFAULT 0;
ALTER TABLE failure ADD COLUMN attribute INTEGER;
ALTER TABLE failure ADD COLUMN first_unix_s INTEGER NOT NULL DEFAULT 0;
ALTER TABLE failure ADD COLUMN last_unix_s INTEGER NOT NULL DEFAULT 0;
ALTER TABLE failure ADD COLUMN count INTEGER NOT NULL DEFAULT 1;
ALTER TABLE failure ADD COLUMN run INTEGER NOT NULL DEFAULT 0;
ALTER TABLE failure ADD COLUMN step TEXT NOT NULL DEFAULT '';
UPDATE failure SET agent = coalesce((SELECT cs.agent FROM cs WHERE cs.id = failure.cs), 0);
CREATE INDEX failure_agent ON failure (agent, cs);
ALTER TABLE step ADD COLUMN run_number INTEGER NOT NULL DEFAULT 0;
ALTER TABLE step ADD COLUMN by_user TEXT NOT NULL DEFAULT '';
CREATE TABLE discovery (
    number INTEGER PRIMARY KEY,
    agent INTEGER NOT NULL,
    hash BLOB NOT NULL,
    import INTEGER NOT NULL,
    place TEXT NOT NULL,
    kind TEXT NOT NULL,
    text TEXT NOT NULL,
    first_unix_s INTEGER NOT NULL,
    last_unix_s INTEGER NOT NULL,
    count INTEGER NOT NULL,
    run INTEGER NOT NULL,
    step TEXT NOT NULL,
    UNIQUE (agent, hash)
);
CREATE TABLE change_log (
    number INTEGER PRIMARY KEY,
    run INTEGER NOT NULL,
    agent INTEGER NOT NULL,
    at_unix_s INTEGER NOT NULL,
    ids BLOB NOT NULL,
    changes BLOB NOT NULL
);
CREATE INDEX change_log_run ON change_log (run, agent);
CREATE INDEX change_log_at ON change_log (at_unix_s);
CREATE TABLE held (
    agent INTEGER,
    object BLOB,
    part INTEGER,
    hash BLOB,
    run INTEGER NOT NULL,
    met INTEGER NOT NULL,
    PRIMARY KEY (agent, object, part, hash)
) WITHOUT ROWID;
";

pub(super) const KEEP_FAILURE: &str = "INSERT INTO failure \
    (cs, agent, kind, attribute, text, first_unix_s, last_unix_s, count, run, step) \
    VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?6, 1, ?7, ?8) ON CONFLICT (cs) DO UPDATE SET \
    first_unix_s = CASE WHEN failure.kind = excluded.kind AND failure.text = excluded.text \
        AND failure.attribute IS excluded.attribute THEN failure.first_unix_s ELSE excluded.first_unix_s END, \
    count = CASE WHEN failure.kind = excluded.kind AND failure.text = excluded.text \
        AND failure.attribute IS excluded.attribute THEN failure.count + 1 ELSE 1 END, \
    agent = excluded.agent, kind = excluded.kind, attribute = excluded.attribute, text = excluded.text, \
    last_unix_s = excluded.last_unix_s, run = excluded.run, step = excluded.step";

const FAILURES: &str =
    "SELECT cs, kind, attribute, text, first_unix_s, last_unix_s, count, run, step FROM failure";

fn failure(row: &Row<'_>) -> rusqlite::Result<KeptFailure> {
    Ok(KeptFailure {
        cs: CsId(row.get(0)?),
        failure: Failure {
            kind: FailureKind::of(row.get(1)?),
            attribute: row.get::<_, Option<u32>>(2)?.map(Attribute),
            text: row.get(3)?,
        },
        times: times(row, 4)?,
    })
}

fn times(row: &Row<'_>, at: usize) -> rusqlite::Result<Times> {
    let number = |at| row.get::<_, i64>(at).map(|number| number.max(0) as u64);
    Ok(Times {
        first_unix_s: number(at)?,
        last_unix_s: number(at + 1)?,
        count: number(at + 2)?,
        run: number(at + 3)?,
        step: row.get(at + 4)?,
    })
}

impl Trail for Sqlite {
    fn set_origin(&mut self, origin: Origin) {
        self.origin = origin;
    }

    fn failures_after(
        &mut self,
        agent: AgentId,
        after: CsId,
        most: usize,
    ) -> Result<Vec<KeptFailure>, StoreError> {
        let select = format!("{FAILURES} WHERE agent = ?1 AND cs > ?2 ORDER BY cs LIMIT ?3");
        let mut statement = self.connection.prepare_cached(&select)?;
        let rows = statement.query_map(params![agent.0, after.0, most as i64], failure)?;
        Ok(rows.collect::<Result<_, _>>()?)
    }

    fn failures(&mut self, of: &[CsId]) -> Result<Vec<KeptFailure>, StoreError> {
        let ids: Vec<i64> = of.iter().map(|id| id.0).collect();
        let mut found = Vec::new();
        for_ids(&self.connection, &format!("{FAILURES} WHERE cs"), &ids, |row| {
            found.push(failure(row)?);
            Ok(())
        })?;
        Ok(found)
    }

    fn count_failures(&mut self, agent: AgentId) -> Result<u64, StoreError> {
        let count = "SELECT (SELECT count(*) FROM failure WHERE agent = ?1) \
                     + (SELECT count(*) FROM discovery WHERE agent = ?1)";
        let count: i64 = self.connection.prepare_cached(count)?.query_row([agent.0], |row| row.get(0))?;
        Ok(count.max(0) as u64)
    }

    fn next_discovery(&mut self, agent: AgentId) -> Result<u64, StoreError> {
        let next = "SELECT coalesce(max(import), 0) + 1 FROM discovery WHERE agent = ?1";
        let next: i64 = self.connection.prepare_cached(next)?.query_row([agent.0], |row| row.get(0))?;
        Ok(next.max(1) as u64)
    }

    fn discovered(
        &mut self,
        agent: AgentId,
        import: u64,
        errors: &[DiscoveryError],
    ) -> Result<(), StoreError> {
        self.begin()?;
        let mut statement = self.connection.prepare_cached(
            "INSERT INTO discovery (agent, hash, import, place, kind, text, first_unix_s, last_unix_s, count, run, step) \
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?7, 1, ?8, ?9) ON CONFLICT (agent, hash) DO UPDATE SET \
             import = excluded.import, last_unix_s = excluded.last_unix_s, count = count + 1, \
             run = excluded.run, step = excluded.step",
        )?;
        for error in errors {
            statement.execute(params![
                agent.0,
                discovery_hash(error).0,
                seconds(import),
                error.place,
                error.kind,
                error.text,
                seconds(self.origin.at_unix_s),
                seconds(self.origin.run),
                self.origin.step
            ])?;
        }
        Ok(())
    }

    fn end_discovery(&mut self, agent: AgentId, import: u64) -> Result<(), StoreError> {
        self.begin()?;
        self.connection
            .prepare_cached("DELETE FROM discovery WHERE agent = ?1 AND import < ?2")?
            .execute(params![agent.0, seconds(import)])?;
        Ok(())
    }

    fn discovery_errors(
        &mut self,
        agent: AgentId,
        after: i64,
        most: usize,
    ) -> Result<Vec<KeptDiscovery>, StoreError> {
        let mut statement = self.connection.prepare_cached(
            "SELECT number, place, kind, text, first_unix_s, last_unix_s, count, run, step FROM discovery \
             WHERE agent = ?1 AND number > ?2 ORDER BY number LIMIT ?3",
        )?;
        let rows = statement.query_map(params![agent.0, after, most as i64], |row| {
            Ok(KeptDiscovery {
                number: row.get(0)?,
                place: row.get(1)?,
                kind: row.get(2)?,
                text: row.get(3)?,
                times: times(row, 4)?,
            })
        })?;
        Ok(rows.collect::<Result<_, _>>()?)
    }

    fn keep_changes(&mut self, agent: AgentId, ids: &[u8], changes: &[u8]) -> Result<(), StoreError> {
        self.begin()?;
        self.connection
            .prepare_cached(
                "INSERT INTO change_log (run, agent, at_unix_s, ids, changes) VALUES (?1, ?2, ?3, ?4, ?5)",
            )?
            .execute(params![
                seconds(self.origin.run),
                agent.0,
                seconds(self.origin.at_unix_s),
                ids,
                changes
            ])?;
        Ok(())
    }

    fn changes(
        &mut self,
        filter: ChangeFilter,
        from: u64,
        is_backward: bool,
    ) -> Result<Option<ChangeBatch>, StoreError> {
        let (compared, order) = if is_backward { ("<", "DESC") } else { (">", "ASC") };
        // The terms with a number make the indexes usable.
        let run = if filter.run.is_some() { "run = ?2" } else { "?2 IS NULL" };
        let mut statement = self.connection.prepare_cached(&format!(
            "SELECT number, run, agent, at_unix_s, ids, changes FROM change_log WHERE number {compared} ?1 AND {run} \
             AND (?3 IS NULL OR agent = ?3) AND at_unix_s >= ?4 ORDER BY number {order} LIMIT 1"
        ))?;
        let (run, agent) = (filter.run.map(seconds), filter.agent.map(|agent| agent.0));
        let row =
            statement.query_row(params![seconds(from), run, agent, seconds(filter.since_unix_s)], |row| {
                Ok(ChangeBatch {
                    number: row.get::<_, i64>(0)?.max(0) as u64,
                    run: row.get::<_, i64>(1)?.max(0) as u64,
                    agent: AgentId(row.get(2)?),
                    at_unix_s: row.get::<_, i64>(3)?.max(0) as u64,
                    ids: row.get(4)?,
                    changes: row.get(5)?,
                })
            });
        Ok(row.optional()?)
    }

    fn changed_agents(&mut self, run: u64) -> Result<Vec<AgentId>, StoreError> {
        let select = "SELECT DISTINCT agent FROM change_log WHERE run = ?1 ORDER BY agent";
        let mut statement = self.connection.prepare_cached(select)?;
        let rows = statement.query_map([seconds(run)], |row| Ok(AgentId(row.get(0)?)))?;
        Ok(rows.collect::<Result<_, _>>()?)
    }

    fn drop_changes(&mut self, before_unix_s: u64) -> Result<u64, StoreError> {
        self.begin()?;
        let mut statement = self.connection.prepare_cached("DELETE FROM change_log WHERE at_unix_s < ?1")?;
        Ok(statement.execute([seconds(before_unix_s)])? as u64)
    }

    fn count_holds(&mut self, agent: AgentId) -> Result<u64, StoreError> {
        let mut statement = self.connection.prepare_cached("SELECT count(*) FROM held WHERE agent = ?1")?;
        Ok(statement.query_row([agent.0], |row| row.get::<_, i64>(0))?.max(0) as u64)
    }

    fn holds(&mut self, agent: AgentId, objects: &[IndexKey]) -> Result<Vec<Hold>, StoreError> {
        let mut statement = self
            .connection
            .prepare_cached("SELECT part, hash, run, met FROM held WHERE agent = ?1 AND object = ?2")?;
        let mut found = Vec::new();
        for object in objects {
            let mut rows = statement.query(params![agent.0, object])?;
            while let Some(row) = rows.next()? {
                found.push(Hold {
                    agent,
                    object: *object,
                    part: HeldPart::of(row.get(0)?),
                    hash: Hash(row.get(1)?),
                    run: row.get::<_, i64>(2)?.max(0) as u64,
                    met: row.get::<_, i64>(3)?.max(0) as u64,
                });
            }
        }
        Ok(found)
    }

    fn keep_holds(&mut self, holds: &[Hold]) -> Result<(), StoreError> {
        if holds.is_empty() {
            return Ok(());
        }
        self.begin()?;
        let mut statement = self.connection.prepare_cached(
            "INSERT OR REPLACE INTO held (agent, object, part, hash, run, met) VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
        )?;
        for hold in holds {
            statement.execute(params![
                hold.agent.0,
                hold.object,
                hold.part.number(),
                hold.hash.0,
                seconds(hold.run),
                seconds(hold.met)
            ])?;
        }
        Ok(())
    }

    fn drop_holds(&mut self, holds: &[Hold]) -> Result<(), StoreError> {
        if holds.is_empty() {
            return Ok(());
        }
        self.begin()?;
        let mut statement = self.connection.prepare_cached(
            "DELETE FROM held WHERE agent = ?1 AND object = ?2 AND part = ?3 AND hash = ?4",
        )?;
        for hold in holds {
            statement.execute(params![hold.agent.0, hold.object, hold.part.number(), hold.hash.0])?;
        }
        Ok(())
    }

    fn drop_unmet_holds(&mut self, agent: AgentId, since: u64) -> Result<(), StoreError> {
        self.begin()?;
        self.connection
            .prepare_cached("DELETE FROM held WHERE agent = ?1 AND met > 0 AND met < ?2")?
            .execute(params![agent.0, seconds(since)])?;
        Ok(())
    }

    fn next_meeting(&mut self, agent: AgentId) -> Result<u64, StoreError> {
        let next = "SELECT coalesce(max(met), 0) + 1 FROM held WHERE agent = ?1";
        let next: i64 = self.connection.prepare_cached(next)?.query_row([agent.0], |row| row.get(0))?;
        Ok(next.max(1) as u64)
    }

    fn release_holds(&mut self, run: u64) -> Result<u64, StoreError> {
        self.begin()?;
        let mut statement = self.connection.prepare_cached("DELETE FROM held WHERE run = ?1")?;
        Ok(statement.execute([seconds(run)])? as u64)
    }
}
