//! What the store keeps beside the objects.

use tokio_postgres::Row;

use super::{Postgres, without_nul};
use crate::agent::DiscoveryError;
use crate::hologram::{Attribute, Hash};
use crate::index_key::IndexKey;
use crate::object::{AgentId, CsId};
use crate::store::row::{hash_of, key_of, seconds};
use crate::store::trail::{
    ChangeBatch, ChangeFilter, Failure, HeldPart, Hold, KeptDiscovery, KeptFailure, Origin, Times, Trail,
};
use crate::store::{FailureKind, StoreError, discovery_hash};

/// What format 5 has in addition to format 4. The changes of a batch are not compressed: that would cost more
/// than to write them.
pub(super) const CHANGE_LOG: &str = "
ALTER TABLE failure ADD COLUMN agent integer NOT NULL DEFAULT 0, ADD COLUMN attribute integer,
    ADD COLUMN first_unix_s bigint NOT NULL DEFAULT 0, ADD COLUMN last_unix_s bigint NOT NULL DEFAULT 0,
    ADD COLUMN count bigint NOT NULL DEFAULT 1, ADD COLUMN run bigint NOT NULL DEFAULT 0,
    ADD COLUMN step text NOT NULL DEFAULT '';
UPDATE failure SET agent = cs.agent FROM cs WHERE cs.id = failure.cs;
CREATE INDEX failure_agent ON failure (agent, cs);
ALTER TABLE step ADD COLUMN run_number bigint NOT NULL DEFAULT 0, ADD COLUMN by_user text NOT NULL DEFAULT '';
CREATE TABLE discovery (
    number bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    agent integer NOT NULL,
    hash bytea NOT NULL,
    import bigint NOT NULL,
    place text NOT NULL,
    kind text NOT NULL,
    text text NOT NULL,
    first_unix_s bigint NOT NULL,
    last_unix_s bigint NOT NULL,
    count bigint NOT NULL,
    run bigint NOT NULL,
    step text NOT NULL,
    UNIQUE (agent, hash)
);
CREATE TABLE change_log (
    number bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    run bigint NOT NULL,
    agent integer NOT NULL,
    at_unix_s bigint NOT NULL,
    ids bytea NOT NULL,
    changes bytea NOT NULL
);
ALTER TABLE change_log ALTER changes SET STORAGE EXTERNAL;
CREATE INDEX change_log_run ON change_log (run, agent);
CREATE INDEX change_log_at ON change_log (at_unix_s);
CREATE TABLE held (
    agent integer,
    object bytea,
    part bigint,
    hash bytea,
    run bigint NOT NULL,
    met bigint NOT NULL,
    PRIMARY KEY (agent, object, part, hash)
);
";

pub(super) const FAIL: &str = "INSERT INTO failure \
    (cs, agent, kind, attribute, text, first_unix_s, last_unix_s, count, run, step) \
    SELECT id, agent, kind, attribute, text, $6, $6, 1, $7, $8 \
    FROM unnest($1::bigint[], $2::integer[], $3::smallint[], $4::integer[], $5::text[]) \
    AS batch (id, agent, kind, attribute, text) ON CONFLICT (cs) DO UPDATE SET \
    first_unix_s = CASE WHEN (failure.kind, failure.text, failure.attribute) IS NOT DISTINCT FROM \
        (excluded.kind, excluded.text, excluded.attribute) THEN failure.first_unix_s ELSE excluded.first_unix_s END, \
    count = CASE WHEN (failure.kind, failure.text, failure.attribute) IS NOT DISTINCT FROM \
        (excluded.kind, excluded.text, excluded.attribute) THEN failure.count + 1 ELSE 1 END, \
    agent = excluded.agent, kind = excluded.kind, attribute = excluded.attribute, text = excluded.text, \
    last_unix_s = excluded.last_unix_s, run = excluded.run, step = excluded.step";

fn failure(row: &Row) -> Result<KeptFailure, StoreError> {
    Ok(KeptFailure {
        cs: CsId(row.try_get(0)?),
        failure: Failure {
            kind: FailureKind::of(row.try_get::<_, i16>(1)?.into()),
            attribute: row.try_get::<_, Option<i32>>(2)?.map(|number| Attribute(number as u32)),
            text: row.try_get(3)?,
        },
        times: times(row, 4)?,
    })
}

fn unsigned(row: &Row, at: usize) -> Result<u64, StoreError> {
    Ok(row.try_get::<_, i64>(at)?.max(0) as u64)
}

fn times(row: &Row, at: usize) -> Result<Times, StoreError> {
    Ok(Times {
        first_unix_s: unsigned(row, at)?,
        last_unix_s: unsigned(row, at + 1)?,
        count: unsigned(row, at + 2)?,
        run: unsigned(row, at + 3)?,
        step: row.try_get(at + 4)?,
    })
}

/// The columns of holds.
type HoldColumns<'a> = (Vec<i32>, Vec<&'a [u8]>, Vec<i64>, Vec<&'a [u8]>);

fn columns(holds: &[Hold]) -> HoldColumns<'_> {
    (
        holds.iter().map(|hold| hold.agent.0 as i32).collect(),
        holds.iter().map(|hold| hold.object.as_bytes()).collect(),
        holds.iter().map(|hold| hold.part.number()).collect(),
        holds.iter().map(|hold| hold.hash.0.as_slice()).collect(),
    )
}

impl Postgres {
    /// The one number of a statement.
    fn number(&mut self, sql: &'static str, agent: AgentId) -> Result<u64, StoreError> {
        let rows = self.query(sql, &[&(agent.0 as i32)])?;
        rows.first().map_or(Ok(0), |row| unsigned(row, 0))
    }
}

impl Trail for Postgres {
    fn set_origin(&mut self, origin: Origin) {
        self.origin = origin;
    }

    fn failures_after(
        &mut self,
        agent: AgentId,
        after: CsId,
        most: usize,
    ) -> Result<Vec<KeptFailure>, StoreError> {
        let select = "SELECT cs, kind, attribute, text, first_unix_s, last_unix_s, count, run, step FROM failure \
            WHERE agent = $1 AND cs > $2 ORDER BY agent, cs LIMIT $3";
        self.query(select, &[&(agent.0 as i32), &after.0, &(most as i64)])?.iter().map(failure).collect()
    }

    fn failures(&mut self, of: &[CsId]) -> Result<Vec<KeptFailure>, StoreError> {
        let ids: Vec<i64> = of.iter().map(|id| id.0).collect();
        let select = "SELECT found.* FROM unnest($1::bigint[]) AS wanted (wanted) CROSS JOIN LATERAL \
            (SELECT cs, kind, attribute, text, first_unix_s, last_unix_s, count, run, step FROM failure \
            WHERE cs = wanted OFFSET 0) AS found";
        self.query(select, &[&ids])?.iter().map(failure).collect()
    }

    fn count_failures(&mut self, agent: AgentId) -> Result<u64, StoreError> {
        let count = "SELECT (SELECT count(*) FROM failure WHERE agent = $1) \
                     + (SELECT count(*) FROM discovery WHERE agent = $1)";
        self.number(count, agent)
    }

    fn next_discovery(&mut self, agent: AgentId) -> Result<u64, StoreError> {
        self.number("SELECT coalesce(max(import), 0) + 1 FROM discovery WHERE agent = $1", agent)
    }

    fn discovered(
        &mut self,
        agent: AgentId,
        import: u64,
        errors: &[DiscoveryError],
    ) -> Result<(), StoreError> {
        self.begin()?;
        let keep = "INSERT INTO discovery \
            (agent, hash, import, place, kind, text, first_unix_s, last_unix_s, count, run, step) \
            SELECT $1::integer, hash, $3::bigint, place, kind, text, $7::bigint, $7::bigint, 1, $8::bigint, $9::text \
            FROM unnest($2::bytea[], $4::text[], $5::text[], $6::text[]) AS batch (hash, place, kind, text) \
            ON CONFLICT (agent, hash) DO UPDATE SET import = excluded.import, last_unix_s = excluded.last_unix_s, \
            count = discovery.count + 1, run = excluded.run, step = excluded.step";
        // One statement cannot store the same error twice.
        let mut met = std::collections::HashSet::new();
        let all: Vec<(Hash, &DiscoveryError)> = errors
            .iter()
            .map(|error| (discovery_hash(error), error))
            .filter(|(hash, _)| met.insert(*hash))
            .collect();
        let hashes: Vec<&[u8]> = all.iter().map(|(hash, _)| hash.0.as_slice()).collect();
        let text = |of: fn(&DiscoveryError) -> &str| -> Vec<String> {
            all.iter().map(|(_, error)| without_nul(of(error)).into_owned()).collect()
        };
        let (places, kinds) = (text(|error| &error.place), text(|error| error.kind));
        let texts = text(|error| &error.text);
        let Origin { run, step, at_unix_s } = self.origin.clone();
        self.execute(
            keep,
            &[
                &(agent.0 as i32),
                &hashes,
                &seconds(import),
                &places,
                &kinds,
                &texts,
                &seconds(at_unix_s),
                &seconds(run),
                &step,
            ],
        )
    }

    fn end_discovery(&mut self, agent: AgentId, import: u64) -> Result<(), StoreError> {
        self.begin()?;
        let drop = "DELETE FROM discovery WHERE agent = $1 AND import < $2";
        self.execute(drop, &[&(agent.0 as i32), &seconds(import)])
    }

    fn discovery_errors(
        &mut self,
        agent: AgentId,
        after: i64,
        most: usize,
    ) -> Result<Vec<KeptDiscovery>, StoreError> {
        let select = "SELECT number, place, kind, text, first_unix_s, last_unix_s, count, run, step FROM discovery \
            WHERE agent = $1 AND number > $2 ORDER BY number LIMIT $3";
        let rows = self.query(select, &[&(agent.0 as i32), &after, &(most as i64)])?;
        let error = |row: &Row| {
            Ok(KeptDiscovery {
                number: row.try_get(0)?,
                place: row.try_get(1)?,
                kind: row.try_get(2)?,
                text: row.try_get(3)?,
                times: times(row, 4)?,
            })
        };
        rows.iter().map(error).collect()
    }

    fn keep_changes(&mut self, agent: AgentId, ids: &[u8], changes: &[u8]) -> Result<(), StoreError> {
        self.begin()?;
        let keep = "INSERT INTO change_log (run, agent, at_unix_s, ids, changes) VALUES ($1, $2, $3, $4, $5)";
        let (run, at) = (seconds(self.origin.run), seconds(self.origin.at_unix_s));
        self.execute(keep, &[&run, &(agent.0 as i32), &at, &ids, &changes])
    }

    fn changes(
        &mut self,
        filter: ChangeFilter,
        from: u64,
        is_backward: bool,
    ) -> Result<Option<ChangeBatch>, StoreError> {
        macro_rules! select {
            ($compared:literal, $order:literal, $run:literal) => {
                concat!(
                    "SELECT number, run, agent, at_unix_s, ids, changes FROM change_log WHERE number ",
                    $compared,
                    " $1 AND ",
                    $run,
                    " AND ($3::integer IS NULL OR agent = $3) AND at_unix_s >= $4 ORDER BY number ",
                    $order,
                    " LIMIT 1"
                )
            };
        }
        let select = match (is_backward, filter.run.is_some()) {
            (false, false) => select!(">", "ASC", "$2::bigint IS NULL"),
            (false, true) => select!(">", "ASC", "run = $2"),
            (true, false) => select!("<", "DESC", "$2::bigint IS NULL"),
            (true, true) => select!("<", "DESC", "run = $2"),
        };
        let (run, agent) = (filter.run.map(seconds), filter.agent.map(|agent| agent.0 as i32));
        let rows = self.query(select, &[&seconds(from), &run, &agent, &seconds(filter.since_unix_s)])?;
        let batch = |row: &Row| {
            Ok(ChangeBatch {
                number: unsigned(row, 0)?,
                run: unsigned(row, 1)?,
                agent: AgentId(row.try_get::<_, i32>(2)? as u32),
                at_unix_s: unsigned(row, 3)?,
                ids: row.try_get(4)?,
                changes: row.try_get(5)?,
            })
        };
        rows.first().map(batch).transpose()
    }

    fn changed_agents(&mut self, run: u64) -> Result<Vec<AgentId>, StoreError> {
        let select = "SELECT DISTINCT agent FROM change_log WHERE run = $1 ORDER BY agent";
        let rows = self.query(select, &[&seconds(run)])?;
        rows.iter().map(|row| Ok(AgentId(row.try_get::<_, i32>(0)? as u32))).collect()
    }

    fn drop_changes(&mut self, before_unix_s: u64) -> Result<u64, StoreError> {
        self.begin()?;
        let statement = self.statement("DELETE FROM change_log WHERE at_unix_s < $1")?;
        Ok(self.client.execute(&statement, &[&seconds(before_unix_s)])?)
    }

    fn count_holds(&mut self, agent: AgentId) -> Result<u64, StoreError> {
        self.number("SELECT count(*) FROM held WHERE agent = $1", agent)
    }

    fn holds(&mut self, agent: AgentId, objects: &[IndexKey]) -> Result<Vec<Hold>, StoreError> {
        let select = "SELECT object, part, hash, run, met FROM unnest($2::bytea[]) AS wanted (wanted) \
            CROSS JOIN LATERAL (SELECT * FROM held WHERE agent = $1 AND object = wanted OFFSET 0) AS found";
        let keys: Vec<&[u8]> = objects.iter().map(IndexKey::as_bytes).collect();
        let mut found = Vec::new();
        for row in self.query(select, &[&(agent.0 as i32), &keys])? {
            let (object, hash) = (key_of(0, row.try_get(0)?)?, hash_of(0, row.try_get(2)?)?);
            if let (Some(object), Some(hash)) = (object, hash) {
                let (part, run, met) =
                    (HeldPart::of(row.try_get(1)?), unsigned(&row, 3)?, unsigned(&row, 4)?);
                found.push(Hold { agent, object, part, hash, run, met });
            }
        }
        Ok(found)
    }

    fn keep_holds(&mut self, holds: &[Hold]) -> Result<(), StoreError> {
        if holds.is_empty() {
            return Ok(());
        }
        self.begin()?;
        let keep = "INSERT INTO held (agent, object, part, hash, run, met) \
            SELECT DISTINCT ON (agent, object, part, hash) * FROM unnest($1::integer[], $2::bytea[], $3::bigint[], \
            $4::bytea[], $5::bigint[], $6::bigint[]) AS batch (agent, object, part, hash, run, met) \
            ON CONFLICT (agent, object, part, hash) DO UPDATE SET run = excluded.run, met = excluded.met";
        let (agents, objects, parts, hashes) = columns(holds);
        let runs: Vec<i64> = holds.iter().map(|hold| seconds(hold.run)).collect();
        let met: Vec<i64> = holds.iter().map(|hold| seconds(hold.met)).collect();
        self.execute(keep, &[&agents, &objects, &parts, &hashes, &runs, &met])
    }

    fn drop_holds(&mut self, holds: &[Hold]) -> Result<(), StoreError> {
        if holds.is_empty() {
            return Ok(());
        }
        self.begin()?;
        let drop = "DELETE FROM held USING unnest($1::integer[], $2::bytea[], $3::bigint[], $4::bytea[]) \
            AS batch (agent, object, part, hash) WHERE held.agent = batch.agent AND held.object = batch.object \
            AND held.part = batch.part AND held.hash = batch.hash";
        let (agents, objects, parts, hashes) = columns(holds);
        self.execute(drop, &[&agents, &objects, &parts, &hashes])
    }

    fn drop_unmet_holds(&mut self, agent: AgentId, since: u64) -> Result<(), StoreError> {
        self.begin()?;
        let drop = "DELETE FROM held WHERE agent = $1 AND met > 0 AND met < $2";
        self.execute(drop, &[&(agent.0 as i32), &seconds(since)])
    }

    fn next_meeting(&mut self, agent: AgentId) -> Result<u64, StoreError> {
        self.number("SELECT coalesce(max(met), 0) + 1 FROM held WHERE agent = $1", agent)
    }

    fn release_holds(&mut self, run: u64) -> Result<u64, StoreError> {
        self.begin()?;
        let statement = self.statement("DELETE FROM held WHERE run = $1")?;
        Ok(self.client.execute(&statement, &[&seconds(run)])?)
    }
}
