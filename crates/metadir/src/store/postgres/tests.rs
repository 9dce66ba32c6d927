//! Tests of the connection settings and of the query plans.

use super::*;
use crate::hologram::Hologram;
use crate::object::{Lineages, PendingImport};

fn server(schema: &str) -> Option<Server> {
    let connection = testkit::Postgres::of_process()?.connection();
    Some(Server { connection, schema: schema.into(), ..Server::default() })
}

#[test]
fn a_commit_is_as_safe_as_it_was_asked_to_be() {
    let Some(server) = server("durability") else { return };
    for (durability, expected) in
        [(Durability::Full, "on"), (Durability::Normal, "off"), (Durability::Off, "off")]
    {
        let mut store = Postgres::open(&server, durability).unwrap();
        let row = store.client.query_one("SHOW synchronous_commit", &[]).unwrap();
        assert_eq!(row.get::<_, String>(0), expected);
    }
}

/// The cost per object is constant only if no statement scans a whole table, even before the table has
/// statistics.
#[test]
fn no_statement_goes_through_all_of_a_table() {
    let Some(server) = server("plans") else { return };
    let mut store = Postgres::open(&server, Durability::Off).unwrap();
    store.client.batch_execute("ALTER TABLE cs SET (autovacuum_enabled = off)").unwrap();
    // The size of real images: for a small table, a sequential scan would be right.
    let image: Hologram = [(crate::hologram::Attribute(1), vec![vec![7; 400]])].into_iter().collect();
    let object = |id: i64| CsObject {
        id: CsId(id),
        agent: AgentId(1),
        anchor: Some(IndexKey::of(&id.to_be_bytes())),
        dn: format!("cn={id}"),
        name: Some(IndexKey::of(&id.to_be_bytes())),
        state: crate::object::State::Connected,
        mv: Some(MvId(id)),
        synchronized: Some(image.clone()),
        pending_import: (id % 100 == 0).then_some(PendingImport::Delete),
        pending_export: None,
        has_failed: false,
    };
    let person = |id: i64| {
        let connectors = vec![CsId(id)];
        MvObject { id: MvId(id), kind: 1, image: image.clone(), lineage: Lineages::default(), connectors }
    };
    let key = |id: i64| (1, IndexKey::of(&id.to_be_bytes()));
    const COUNT: i64 = 20_000;
    let new: Vec<Write> = (1..=COUNT)
        .flat_map(|id| {
            let refers = Reference {
                cs: CsId(id),
                agent: AgentId(1),
                attribute: crate::hologram::Attribute(2),
                target: key(id / 4).1,
                value: vec![7; 40],
                is_synchronized: true,
                is_imported: true,
                export: None,
            };
            let known = [Write::NewKey(key(id), MvId(id)), Write::Reference(refers), Write::Due(CsId(id))];
            let joined = Write::JoinKeys { id: CsId(id), keys: vec![key(id)] };
            let timed = Write::DeleteAt { id: CsId(id), at_unix_s: Some(id as u64) };
            [Write::NewCs(object(id)), Write::NewMv(person(id)), joined, timed].into_iter().chain(known)
        })
        .collect();
    store.write(&new).unwrap();
    store.commit().unwrap();
    // Scattered numbers, like those of connectors.
    let ids: Vec<i64> = (1..=COUNT).step_by(40).collect();
    let changes: Vec<Write> = ids
        .iter()
        .flat_map(|id| [Write::Cs(object(*id)), Write::Mv(person(*id))])
        .chain(ids.iter().map(|id| Write::Staged { id: CsId(id + 1), pending: None }))
        .collect();
    // Leaves rows in the temporary tables.
    store.write(&changes).unwrap();
    let hashes: Vec<IndexKey> = ids.iter().map(|id| key(*id).1).collect();
    let hashes: Vec<&[u8]> = hashes.iter().map(|hash| hash.as_bytes()).collect();
    let (agent, after, most) = (1i32, 50i64, 50i64);
    let rules = vec![1i32; ids.len()];
    let pages: Vec<i64> = (1..COUNT / 128).step_by(10).collect();
    let of_keys: &[&(dyn ToSql + Sync)] = &[&rules, &hashes, &ids];
    let attributes = vec![2i32; ids.len()];
    let by: &[&(dyn ToSql + Sync)] = &[&agent, &hashes];
    let cases: &[(&str, &[&(dyn ToSql + Sync)], &str)] = &[
        (HIGHEST_ANCHOR, &[&agent], "cs_anchor"),
        (HIGHEST_NAME, &[&agent], "cs_name"),
        (HIGHEST_KEY, &[&agent], "mv_key_pkey"),
        (FIND_BY_ANCHOR, by, "cs_anchor"),
        (FIND_BY_NAME, by, "cs_name"),
        (LINKS, &[&ids], "cs_pkey"),
        (CONNECTORS, &[&ids], "mv_pkey"),
        (BEFORE, &[&ids], "before_pkey"),
        (BEFORE_HASHES, &[&ids], "before_pkey"),
        (MOVE_BEFORE, &[&ids], "cs_pkey"),
        (RESTORE_BEFORE, &[&ids], "cs_pkey"),
        (DROP_BEFORE, &[&ids], "before_pkey"),
        (DROP_FAILURES, &[&ids], "failure_pkey"),
        (PAGES, &[&pages], "standing_pkey"),
        (PAGES_FROM, &[&after, &most], "standing_pkey"),
        (REFERENCES, &[&ids], "ref_pkey"),
        (COUNT_REFERENCES, &[&ids], "ref_pkey"),
        (REFERRING, &[&agent, &hashes], "ref_target"),
        (DUE, &[&most], "due_pkey"),
        (DELETE_REFERENCES, &[&ids, &attributes, &hashes], "ref_pkey"),
        (SETTLE_REFERENCES, &[&ids], "ref_pkey"),
        (UNWANT_REFERENCES, &[&ids], "ref_pkey"),
        (DROP_REFERENCES, &[&ids], "ref_pkey"),
        (DROP_ALL_REFERENCES, &[&ids], "ref_pkey"),
        (DELETE_DUE, &[&ids], "due_pkey"),
        (RENAME_CS, &[&ids, &hashes, &hashes], "cs_pkey"),
        (UNNAME_CS, &[&ids], "cs_pkey"),
        (HEADS, &[&agent, &hashes], "cs_anchor"),
        (CS_BY_ID, &[&ids], "cs_pkey"),
        (MV_BY_ID, &[&ids], "mv_pkey"),
        (MV_BY_KEY, &[&rules, &hashes], "mv_key_pkey"),
        (HIGHEST_JOIN_KEY, &[&agent], "cs_key_hash"),
        (CS_BY_KEY, &[&rules, &hashes], "cs_key_hash"),
        (DROP_JOIN_KEYS, &[&ids], "cs_key_pkey"),
        (DELETIONS, &[&after, &most], "deletion_at"),
        (DROP_DELETIONS, &[&ids], "deletion_pkey"),
        (UPDATE_CS, &[], "cs_pkey"),
        (FREE_CS, &[], "cs_pkey"),
        (UPDATE_IMAGES, &[], "cs_pkey"),
        (CS_BETWEEN, &[&after, &(after + most)], "cs_pkey"),
        (UPDATE_MV, &[], "mv_pkey"),
        (DELETE_KEYS, of_keys, "mv_key_pkey"),
        (DELETE_CS, &[&ids], "cs_pkey"),
        (DELETE_MV, &[&ids], "mv_pkey"),
    ];
    for (sql, values, index) in cases {
        let rows = store.client.query(&format!("EXPLAIN {sql}"), values).unwrap();
        let plan: Vec<String> = rows.iter().map(|row| row.get(0)).collect();
        let plan = plan.join("\n");
        assert!(plan.contains(&format!(" {index} ")), "{sql}\n{plan}");
        let goes_through = [
            "Seq Scan on cs",
            "Seq Scan on mv",
            "Seq Scan on ref",
            "Seq Scan on due",
            "Hash Join",
            "Merge Join",
        ];
        assert!(!goes_through.iter().any(|node| plan.contains(node)), "{sql}\n{plan}");
    }
}
