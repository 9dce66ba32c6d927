//! Tests of the store interface, for each database.

use std::collections::BTreeSet;

use plimsoll_metadir::hologram::{Attribute, Hologram};
use plimsoll_metadir::index_key::IndexKey;
use plimsoll_metadir::object::{
    AgentId, Change, CsId, CsObject, Lineage, Lineages, MvId, MvObject, PendingExport, PendingImport, Phase,
    Reference, Rename, State,
};
use plimsoll_metadir::store::{
    Failure, FailureKind, Head, Link, LookupKey, NameKind, Population, ReferenceTarget, StepRecord, Store,
    StoreError, Write,
};
use proptest::prelude::*;

use crate::place::{Place, over_both_stores};

over_both_stores! {
    what_is_written_is_read_back,
    windows_hold_what_they_are_asked_for_in_order,
    heads_are_answered_in_the_order_of_the_anchors,
    objects_are_found_by_their_values,
    changes_take_effect_in_their_order,
    what_is_not_committed_is_taken_back,
    an_anchor_and_a_name_belong_to_one_object,
    names_and_numbers_are_never_given_twice,
    notes_and_history_are_kept,
    references_are_kept_settled_and_found,
    what_is_found_by_an_anchor_or_a_name_is_reported_with_its_links,
    names_are_given_up_and_taken,
    one_process_works_on_it_at_a_time,
    a_large_batch_is_written_whole,
}

pub(crate) const HR: AgentId = AgentId(1);
pub(crate) const PHONES: AgentId = AgentId(2);

fn image(values: &[(u32, &[&[u8]])]) -> Hologram {
    let values = values.iter().map(|(attribute, values)| {
        (Attribute(*attribute), values.iter().map(|value| value.to_vec()).collect())
    });
    values.collect()
}

pub(crate) fn export(change: Change) -> PendingExport {
    let attribute = (Attribute(3), Phase::Unconfirmed, vec![b"v".to_vec(), vec![0, 255]]);
    PendingExport { attributes: [attribute].into_iter().collect(), ..PendingExport::new(change) }
}

fn name(text: &str) -> Option<IndexKey> {
    Some(IndexKey::of(text.as_bytes()))
}

/// A newly imported object.
pub(crate) fn object(id: i64, agent: AgentId) -> CsObject {
    CsObject {
        id: CsId(id),
        agent,
        anchor: Some(IndexKey::of(&id.to_be_bytes())),
        dn: format!("cn={id}"),
        name: name(&format!("cn={id}")),
        state: State::Candidate,
        mv: None,
        synchronized: None,
        pending_import: Some(PendingImport::Add(image(&[(1, &[&id.to_be_bytes()])]))),
        pending_export: None,
        has_failed: false,
    }
}

fn person(id: i64) -> MvObject {
    let lineage = Lineage { attribute: Attribute(1), agent: HR, cs: CsId(id), at_unix_s: 1_700_000_000 };
    MvObject {
        id: MvId(id),
        kind: 7,
        image: image(&[(1, &[b"name"]), (2, &[b"\0\x01", b"\xff"])]),
        lineage: [lineage].into_iter().collect(),
        connectors: vec![CsId(id + 1000), CsId(id)],
    }
}

pub(crate) fn written(store: &mut dyn Store, changes: &[Write]) {
    store.write(changes).unwrap();
    store.commit().unwrap();
}

fn ids(objects: &[CsObject]) -> Vec<i64> {
    objects.iter().map(|object| object.id.0).collect()
}

fn what_is_written_is_read_back(place: Place) {
    let mut store = place.open();
    let bytes: Vec<u8> = (0..=255).collect();
    let whole = CsObject {
        state: State::Connected,
        mv: Some(MvId(70)),
        synchronized: Some(image(&[(1, &[&bytes]), (9, &[b"", b"x"])])),
        pending_import: Some(PendingImport::Update(Hologram::default())),
        pending_export: Some(PendingExport {
            rename: Some(Rename { dn: "cn=ä\0".into(), phase: Phase::Unconfirmed }),
            references: Some(Phase::Unapplied),
            ..export(Change::Update)
        }),
        ..object(1, HR)
    };
    let bare =
        CsObject { anchor: None, dn: String::new(), name: None, pending_import: None, ..object(2, HR) };
    let gone = CsObject { pending_import: Some(PendingImport::Delete), ..object(3, PHONES) };
    // Difficult names: long ones, and ones with every character.
    let long = CsObject { dn: "ä".repeat(5000), ..object(4, HR) };
    let odd = CsObject { dn: "cn=a\0b'\"\\\n\u{10ffff}".into(), state: State::Filtered, ..object(5, HR) };
    let renamed = CsObject { pending_import: Some(PendingImport::Renamed(image(&[]))), ..object(6, PHONES) };
    let all = [whole, bare, gone, long, odd, renamed];
    let new: Vec<Write> = all.iter().cloned().map(Write::NewCs).collect();
    store.write(&new).unwrap();
    // Immediately, and after the store was closed; the missing ones are left out.
    let asked = [5, 1, 99, 3, 2, 4, 1, 6].map(CsId);
    assert_eq!(store.cs(&asked).unwrap(), all);
    store.commit().unwrap();
    drop(store);
    let mut store = place.open();
    assert_eq!(store.cs(&asked).unwrap(), all);
    assert_eq!(store.cs(&[]).unwrap(), []);

    let changed = CsObject {
        agent: PHONES,
        anchor: None,
        dn: "renamed".into(),
        name: name("renamed"),
        state: State::Candidate,
        mv: None,
        synchronized: None,
        pending_import: None,
        pending_export: None,
        ..all[0].clone()
    };
    written(store.as_mut(), &[Write::Cs(changed.clone()), Write::DeletedCs(CsId(2))]);
    assert_eq!(store.cs(&[CsId(1), CsId(2)]).unwrap(), [changed]);

    let bare = MvObject {
        lineage: Lineages::default(),
        image: Hologram::default(),
        connectors: vec![],
        ..person(11)
    };
    let people = [person(10), bare];
    written(store.as_mut(), &people.clone().map(Write::NewMv));
    assert_eq!(store.mv(&[MvId(11), MvId(12), MvId(10)]).unwrap(), people);
    assert_eq!(store.count_mv().unwrap(), 2);
    let changed = MvObject { lineage: people[0].lineage.clone(), ..people[1].clone() };
    written(store.as_mut(), &[Write::Mv(changed.clone()), Write::DeletedMv(MvId(10))]);
    assert_eq!(store.mv(&[MvId(10), MvId(11)]).unwrap(), [changed]);
    // Changes of missing objects have no effect and are not an error.
    let nobody = [
        Write::Cs(object(99, HR)),
        Write::Mv(person(99)),
        Write::DeletedCs(CsId(99)),
        Write::Failure { id: CsId(99), why: Some(Failure::new(FailureKind::Flow, "x")) },
        Write::Staged { id: CsId(99), pending: None },
    ];
    written(store.as_mut(), &nobody);
    assert_eq!(store.cs(&[CsId(99)]).unwrap(), []);
    assert_eq!(store.count_mv().unwrap(), 1);
    written(store.as_mut(), &[]);
}

fn windows_hold_what_they_are_asked_for_in_order(place: Place) {
    let mut store = place.open();
    let agent_of = |id: i64| if id % 3 == 0 { PHONES } else { HR };
    let objects: Vec<CsObject> = (1..=60)
        .map(|id| CsObject {
            pending_import: (id % 2 == 0).then_some(PendingImport::Delete),
            pending_export: (id % 5 == 0).then(|| export(Change::Add)),
            state: if id % 4 == 0 { State::ExplicitDisconnector } else { State::Candidate },
            ..object(id, agent_of(id))
        })
        .collect();
    // Written from the last to the first: they are returned in the order of their numbers.
    let new: Vec<Write> = objects.iter().rev().cloned().map(Write::NewCs).collect();
    written(store.as_mut(), &new);
    let kinds =
        [FailureKind::Flow, FailureKind::AmbiguousJoin, FailureKind::Export, FailureKind::NotReimported];
    let failures: Vec<Write> = [1, 7, 11, 13]
        .into_iter()
        .zip(kinds)
        .map(|(id, kind)| Write::Failure { id: CsId(id), why: Some(Failure::new(kind, "why")) })
        .collect();
    written(store.as_mut(), &failures);
    for agent in [HR, PHONES, AgentId(3)] {
        for population in [Population::All, Population::Pending, Population::Exporting, Population::Keyed] {
            let is_in = |id: &i64| match population {
                Population::All => true,
                // Failed synchronizations are tried again, failed exports are not.
                Population::Pending => id % 2 == 0 || [1, 7].contains(id),
                Population::Exporting => id % 5 == 0,
                Population::Keyed => id % 4 != 0,
            };
            let expected: Vec<i64> = (1..=60).filter(|id| agent_of(*id) == agent).filter(is_in).collect();
            for most in [1, 7, 100] {
                let (mut found, mut after) = (Vec::new(), CsId(0));
                loop {
                    let window = store.cs_after(agent, after, most, population).unwrap();
                    assert!(window.len() <= most);
                    let Some(last) = window.last() else { break };
                    after = last.id;
                    found.extend(window);
                }
                assert_eq!(ids(&found), expected, "{agent:?} {population:?} {most}");
                for object in found {
                    assert_eq!(object.has_failed, [1, 7, 11, 13].contains(&object.id.0));
                    let kept = CsObject { has_failed: false, ..object };
                    assert_eq!(kept, objects[kept.id.0 as usize - 1]);
                }
            }
        }
    }
}

fn heads_are_answered_in_the_order_of_the_anchors(place: Place) {
    let mut store = place.open();
    let synchronized = image(&[(1, &[b"s"])]);
    let imported = image(&[(1, &[b"i"])]);
    let base =
        |id| CsObject { pending_import: None, synchronized: Some(synchronized.clone()), ..object(id, HR) };
    written(
        store.as_mut(),
        &[
            Write::NewCs(base(1)),
            Write::NewCs(CsObject {
                pending_import: Some(PendingImport::Update(imported.clone())),
                ..base(2)
            }),
            Write::NewCs(CsObject {
                pending_import: Some(PendingImport::Delete),
                pending_export: Some(export(Change::Update)),
                ..base(3)
            }),
            Write::NewCs(CsObject {
                agent: PHONES,
                anchor: object(1, HR).anchor,
                state: State::Connected,
                ..base(4)
            }),
        ],
    );
    let anchor = |id: i64| IndexKey::of(&id.to_be_bytes());
    let head = |id| Head {
        id: CsId(id),
        synchronized: Some(synchronized.hash()),
        pending: None,
        is_pending: false,
        is_exporting: false,
        is_renamed: false,
        has_join_keys: true,
        name: name(&format!("cn={id}")),
    };
    let second = Head { pending: Some(imported.hash()), is_pending: true, ..head(2) };
    let third = Head { is_pending: true, is_exporting: true, ..head(3) };
    let renamed = PendingImport::Renamed(imported.clone());
    written(store.as_mut(), &[Write::Staged { id: CsId(4), pending: Some(renamed) }]);
    let fourth = Head {
        is_renamed: true,
        has_join_keys: false,
        pending: Some(imported.hash()),
        is_pending: true,
        ..head(4)
    };
    assert_eq!(
        store.heads(HR, &[anchor(3), anchor(9), anchor(1), anchor(2), anchor(1)]).unwrap(),
        [Some(third), None, Some(head(1)), Some(second), Some(head(1))]
    );
    assert_eq!(store.heads(PHONES, &[anchor(1), anchor(2)]).unwrap(), [Some(fourth), None]);
    assert_eq!(store.heads(HR, &[]).unwrap(), []);
}

fn objects_are_found_by_their_values(place: Place) {
    let mut store = place.open();
    let (ada, alan) = (IndexKey::of(b"ada"), IndexKey::of(b"alan"));
    written(
        store.as_mut(),
        &[
            Write::NewKey((1, ada), MvId(9)),
            Write::NewKey((1, ada), MvId(3)),
            Write::NewKey((2, ada), MvId(4)),
            // The write is idempotent.
            Write::NewKey((1, alan), MvId(5)),
        ],
    );
    written(store.as_mut(), &[Write::NewKey((1, alan), MvId(5))]);
    let found = |store: &mut dyn Store, keys: &[_]| -> Vec<Vec<i64>> {
        let found = store.mv_with(keys).unwrap();
        found.into_iter().map(|ids| ids.into_iter().map(|id| id.0).collect()).collect()
    };
    let asked = [(1, alan), (3, ada), (1, ada), (2, ada), (1, alan)];
    assert_eq!(found(store.as_mut(), &asked), [vec![5], vec![], vec![3, 9], vec![4], vec![5]]);
    written(store.as_mut(), &[Write::DeletedKey((1, ada), MvId(9)), Write::DeletedKey((2, ada), MvId(9))]);
    assert_eq!(found(store.as_mut(), &asked), [vec![5], vec![], vec![3], vec![4], vec![5]]);
    assert_eq!(found(store.as_mut(), &[]), [[0; 0]; 0]);
}

fn changes_take_effect_in_their_order(place: Place) {
    let mut store = place.open();
    let failed = || Some(Failure::new(FailureKind::Flow, "it has a NUL\0"));
    let staged = PendingImport::Update(image(&[(1, &[b"new"])]));
    let anew =
        CsObject { anchor: object(3, HR).anchor, dn: "cn=3".into(), name: name("cn=3"), ..object(8, HR) };
    let key = (1, IndexKey::of(b"v"));
    written(
        store.as_mut(),
        &[
            // Written, changed, synchronized, failed.
            Write::NewCs(object(1, HR)),
            Write::Staged { id: CsId(1), pending: Some(staged.clone()) },
            Write::Synchronized { id: CsId(1), state: State::Connected, mv: Some(MvId(5)) },
            Write::Failure { id: CsId(1), why: failed() },
            // Failed, then the failure is cleared.
            Write::NewCs(object(2, HR)),
            Write::Failure { id: CsId(2), why: failed() },
            Write::Synchronized { id: CsId(2), state: State::Filtered, mv: None },
            // Deleted, and another one in its place.
            Write::NewCs(object(3, HR)),
            Write::DeletedCs(CsId(3)),
            Write::NewCs(anew.clone()),
            // Failed, then changed: a change does not clear the failure.
            Write::NewCs(object(4, HR)),
            Write::Failure { id: CsId(4), why: failed() },
            Write::Cs(CsObject { pending_import: None, ..object(4, HR) }),
            Write::NewKey(key, MvId(5)),
            Write::DeletedKey(key, MvId(5)),
            Write::NewKey(key, MvId(5)),
            Write::NewMv(person(5)),
            Write::Mv(MvObject { lineage: Lineages::default(), ..person(5) }),
            Write::NewMv(person(6)),
            Write::DeletedMv(MvId(6)),
        ],
    );
    assert_eq!(
        store.cs(&[1, 2, 3, 4, 8].map(CsId)).unwrap(),
        [
            CsObject {
                state: State::Connected,
                mv: Some(MvId(5)),
                synchronized: staged.image().cloned(),
                pending_import: None,
                has_failed: true,
                ..object(1, HR)
            },
            CsObject {
                state: State::Filtered,
                synchronized: object(2, HR).pending_import.unwrap().image().cloned(),
                pending_import: None,
                ..object(2, HR)
            },
            CsObject { pending_import: None, has_failed: true, ..object(4, HR) },
            anew,
        ]
    );
    assert_eq!(store.mv_with(&[key]).unwrap(), [[MvId(5)]]);
    assert_eq!(
        store.mv(&[MvId(5), MvId(6)]).unwrap(),
        [MvObject { lineage: Lineages::default(), ..person(5) }]
    );
    // Staged changes and failures can be removed.
    written(
        store.as_mut(),
        &[
            Write::Staged { id: CsId(8), pending: None },
            Write::Failure { id: CsId(4), why: None },
            Write::Staged { id: CsId(1), pending: Some(PendingImport::Delete) },
        ],
    );
    let after = store.cs(&[1, 4, 8].map(CsId)).unwrap();
    assert_eq!(after[0].pending_import, Some(PendingImport::Delete));
    assert_eq!((after[1].has_failed, &after[2].pending_import), (false, &None));
}

fn what_is_not_committed_is_taken_back(place: Place) {
    let mut store = place.open();
    written(store.as_mut(), &[Write::NewCs(object(1, HR)), Write::NewMv(person(1))]);
    let spoil = |store: &mut dyn Store| {
        let more = [
            Write::NewCs(object(2, HR)),
            Write::DeletedCs(CsId(1)),
            Write::DeletedMv(MvId(1)),
            Write::NewKey((1, IndexKey::of(b"v")), MvId(1)),
        ];
        store.write(&more).unwrap();
        store.set_note("place", Some("line 7")).unwrap();
        assert_eq!(store.count_mv().unwrap(), 0);
        assert_eq!(ids(&store.cs(&[CsId(1), CsId(2)]).unwrap()), [2]);
    };
    let is_as_before = |store: &mut dyn Store| {
        assert_eq!(store.cs(&[CsId(1), CsId(2)]).unwrap(), [object(1, HR)]);
        assert_eq!(store.mv(&[MvId(1)]).unwrap(), [person(1)]);
        assert_eq!(store.mv_with(&[(1, IndexKey::of(b"v"))]).unwrap(), [[]]);
        assert_eq!(store.note("place").unwrap(), None);
    };
    spoil(store.as_mut());
    store.roll_back().unwrap();
    is_as_before(store.as_mut());
    // A second time changes nothing.
    store.roll_back().unwrap();
    store.commit().unwrap();
    is_as_before(store.as_mut());
    // Uncommitted writes are also lost when the store is closed.
    spoil(store.as_mut());
    drop(store);
    is_as_before(place.open().as_mut());
}

fn an_anchor_and_a_name_belong_to_one_object(place: Place) {
    let mut store = place.open();
    let nameless = |id| CsObject { anchor: None, dn: String::new(), name: None, ..object(id, HR) };
    // Several objects without anchor and name are allowed, and the same ones with another agent.
    let same = CsObject { anchor: object(1, HR).anchor, name: object(1, HR).name, ..object(4, PHONES) };
    let new = [object(1, HR), nameless(2), nameless(3), same.clone()];
    written(store.as_mut(), &new.clone().map(Write::NewCs));
    for twice in [
        CsObject { anchor: object(1, HR).anchor, ..object(9, HR) },
        CsObject { name: object(1, HR).name, ..object(9, HR) },
        CsObject { anchor: None, name: None, ..object(1, PHONES) },
    ] {
        let refused = store.write(&[Write::NewCs(object(8, HR)), Write::NewCs(twice.clone())]);
        assert!(
            matches!(refused, Err(StoreError::Database(_) | StoreError::Server { .. })),
            "{twice:?}: {refused:?}"
        );
        // The store continues to work.
        store.roll_back().unwrap();
        assert_eq!(store.cs(&[1, 2, 3, 4, 8, 9].map(CsId)).unwrap(), new);
    }
}

fn names_and_numbers_are_never_given_twice(place: Place) {
    let mut given = BTreeSet::new();
    let mut give = |store: &mut dyn Store, count: usize| {
        let first = store.ids().take(count);
        let ids = first..first + count as i64;
        assert!(ids.clone().all(|id| id > 0 && given.insert(id)), "{ids:?} were given before");
        ids
    };
    let names = ["mail", "it's \"odd\" ü", "sn"];
    let mut numbers = Vec::new();
    for time in 0..3 {
        let mut store = place.open();
        for id in give(store.as_mut(), 3) {
            store.write(&[Write::NewCs(object(id, HR))]).unwrap();
        }
        // The numbers of deleted objects are not reused.
        let last = give(store.as_mut(), 1).start;
        written(store.as_mut(), &[Write::NewCs(object(last, HR))]);
        written(store.as_mut(), &[Write::DeletedCs(CsId(last))]);
        // Within this process, numbers that were rolled back are not reused either.
        let back = give(store.as_mut(), 5).start;
        store.write(&[Write::NewCs(object(back, HR))]).unwrap();
        store.roll_back().unwrap();
        written(store.as_mut(), &[Write::DeletedCs(CsId(back))]);

        numbers.push(names.map(|name| store.name(NameKind::Attribute, name).unwrap()));
        assert_eq!(store.name(NameKind::Agent, "mail").unwrap(), 1);
        if time == 1 {
            store.name(NameKind::Attribute, "another").unwrap();
        }
        store.commit().unwrap();
        let listed = store.names(NameKind::Attribute).unwrap();
        let expected: Vec<(u32, String)> = numbers[0].into_iter().zip(names.map(String::from)).collect();
        assert_eq!(listed[..3], expected);
        assert_eq!(listed.len(), if time == 0 { 3 } else { 4 });
        assert_eq!(store.names(NameKind::Key).unwrap(), []);
    }
    assert_eq!(numbers[0].iter().collect::<BTreeSet<_>>().len(), 3);
    assert!(numbers.iter().all(|again| *again == numbers[0]), "{numbers:?}");
}

fn notes_and_history_are_kept(place: Place) {
    let mut store = place.open();
    assert_eq!(store.note("place").unwrap(), None);
    for text in ["line 7", "line 8 of 'x'"] {
        store.set_note("place", Some(text)).unwrap();
        assert_eq!(store.note("place").unwrap().as_deref(), Some(text));
    }
    store.set_note("other", Some("")).unwrap();
    store.commit().unwrap();
    let step = |number: u64| StepRecord {
        number: number / 2,
        user: "ada".into(),
        run: format!("run {}", number / 2),
        agent: "hr".into(),
        step: "full-import".into(),
        started_unix_s: 1_700_000_000 + number,
        seconds: 0.1 + number as f64,
        outcome: "success".into(),
        text: if number == 0 { String::new() } else { format!("line {number}: 'ä'") },
        counters: vec![("stage-add".into(), number), ("stage-update".into(), u64::MAX)],
        errors: Vec::new(),
    };
    for number in 0..4 {
        store.keep_step(&step(number)).unwrap();
        store.commit().unwrap();
    }
    drop(store);
    let mut store = place.open();
    assert_eq!(store.history(3).unwrap(), [step(3), step(2), step(1)]);
    assert_eq!(store.history(10).unwrap().len(), 4);
    assert_eq!(store.note("place").unwrap().as_deref(), Some("line 8 of 'x'"));
    store.set_note("place", None).unwrap();
    assert_eq!(store.note("place").unwrap(), None);
    assert_eq!(store.note("other").unwrap().as_deref(), Some(""));
}

fn refers(cs: i64, attribute: u32, target: &str, state: i64) -> Reference {
    let bare = Reference {
        cs: CsId(cs),
        agent: HR,
        attribute: Attribute(attribute),
        target: IndexKey::of(target.as_bytes()),
        value: target.as_bytes().to_vec(),
        is_synchronized: false,
        is_imported: false,
        export: None,
    };
    bare.with_state(state)
}

/// The references of objects as attribute, value and state.
fn referred(store: &mut dyn Store, ids: &[i64]) -> Vec<(i64, u32, String, i64)> {
    let ids: Vec<CsId> = ids.iter().copied().map(CsId).collect();
    let found = store.references(&ids).unwrap();
    assert!(found.windows(2).all(|pair| {
        (pair[0].cs, pair[0].attribute, pair[0].target) < (pair[1].cs, pair[1].attribute, pair[1].target)
    }));
    let mut read: Vec<_> = found
        .iter()
        .map(|of| (of.cs.0, of.attribute.0, String::from_utf8_lossy(&of.value).into_owned(), of.state()))
        .collect();
    read.sort();
    read
}

fn references_are_kept_settled_and_found(place: Place) {
    let mut store = place.open();
    let of = |cs, attribute, target: &str, state| (cs, attribute, target.to_string(), state);
    let kept = Write::Reference;
    let elsewhere = Reference { agent: PHONES, ..refers(3, 7, "ada", 3) };
    written(
        store.as_mut(),
        &[
            kept(refers(1, 7, "ada", 2)),
            kept(refers(1, 7, "alan", 1)),
            kept(refers(1, 8, "ada", 3)),
            kept(refers(2, 7, "ada", 2 | 4 << 2)),
            kept(refers(2, 7, "grace", 1 << 2)),
            kept(elsewhere.clone()),
            Write::Due(CsId(2)),
            Write::Due(CsId(1)),
            Write::Due(CsId(2)),
        ],
    );
    drop(store);
    let mut store = place.open();
    assert_eq!(store.references(&[CsId(3)]).unwrap(), [elsewhere]);
    assert_eq!(
        referred(store.as_mut(), &[2, 9, 1]),
        [
            of(1, 7, "ada", 2),
            of(1, 7, "alan", 1),
            of(1, 8, "ada", 3),
            of(2, 7, "ada", 18),
            of(2, 7, "grace", 4)
        ]
    );
    assert_eq!(store.count_references(&[2, 9, 1, 3].map(CsId)).unwrap(), [2, 0, 3, 1]);
    assert_eq!(store.references(&[]).unwrap(), []);
    assert_eq!(store.count_references(&[]).unwrap(), [0; 0]);
    let (ada, alan, grace) = (IndexKey::of(b"ada"), IndexKey::of(b"alan"), IndexKey::of(b"grace"));
    assert_eq!(store.referring(HR, &[alan, ada, IndexKey::of(b"nobody")]).unwrap(), [CsId(1), CsId(2)]);
    assert_eq!(store.referring(HR, &[grace]).unwrap(), [CsId(2)]);
    assert_eq!(store.referring(PHONES, &[ada]).unwrap(), [CsId(3)]);
    assert_eq!(store.referring(HR, &[]).unwrap(), []);
    assert_eq!(store.due(1).unwrap(), [CsId(1)]);
    assert_eq!(store.due(9).unwrap(), [CsId(1), CsId(2)]);
    // Imported references are synchronized, and those that are neither are deleted.
    written(store.as_mut(), &[Write::SettledReferences(CsId(1)), Write::Done(CsId(1))]);
    assert_eq!(referred(store.as_mut(), &[1]), [of(1, 7, "ada", 3), of(1, 8, "ada", 3)]);
    assert_eq!(store.due(9).unwrap(), [CsId(2)]);
    written(store.as_mut(), &[Write::UnwantedReferences(CsId(2))]);
    assert_eq!(referred(store.as_mut(), &[1, 2]).last(), Some(&of(2, 7, "ada", 2)));
    assert_eq!(store.referring(HR, &[grace]).unwrap(), []);
    // In order, also in one batch.
    written(
        store.as_mut(),
        &[
            kept(refers(1, 7, "ada", 0)),
            kept(refers(1, 7, "grace", 2)),
            Write::SettledReferences(CsId(1)),
            kept(refers(1, 7, "alan", 2)),
            kept(refers(1, 7, "alan", 1)),
            Write::DeletedCs(CsId(2)),
            kept(refers(2, 9, "alan", 2)),
            Write::DeletedCs(CsId(3)),
            Write::Done(CsId(2)),
            Write::Due(CsId(3)),
        ],
    );
    assert_eq!(
        referred(store.as_mut(), &[1, 2, 3]),
        [of(1, 7, "alan", 1), of(1, 7, "grace", 3), of(1, 8, "ada", 3), of(2, 9, "alan", 2)]
    );
    assert_eq!(store.due(9).unwrap(), [CsId(3)]);
    store.write(&[Write::DeletedCs(CsId(1)), Write::Due(CsId(4))]).unwrap();
    store.roll_back().unwrap();
    assert_eq!(referred(store.as_mut(), &[1]).len(), 3);
    assert_eq!(store.due(9).unwrap(), [CsId(3)]);
}

fn what_is_found_by_an_anchor_or_a_name_is_reported_with_its_links(place: Place) {
    let mut store = place.open();
    let with = |id, change, phase, sent| {
        let rename = Some(Rename { dn: "other".into(), phase: sent });
        let rename = rename.filter(|_| change == Change::Update);
        let export = PendingExport { phase, rename, ..export(change) };
        let (state, mv) = (State::Connected, Some(MvId(50 + id % 2)));
        CsObject { pending_export: Some(export), state, mv, ..object(id, HR) }
    };
    let (open, sent) = (Phase::Unapplied, Phase::Unconfirmed);
    let all = [
        CsObject { anchor: None, ..with(1, Change::Add, open, open) },
        with(2, Change::Add, sent, open),
        with(3, Change::Update, open, open),
        with(4, Change::Update, open, sent),
        with(5, Change::Delete, open, open),
        CsObject { mv: None, ..object(6, HR) },
        CsObject { mv: Some(MvId(51)), state: State::Connected, name: None, ..object(7, PHONES) },
    ];
    written(store.as_mut(), &all.clone().map(Write::NewCs));
    let linked = |id: i64| {
        let of = all.iter().filter(|object| object.mv == Some(MvId(id))).map(|object| object.id);
        Write::NewMv(MvObject { connectors: of.collect(), ..person(id) })
    };
    written(store.as_mut(), &[50, 51].map(linked));
    let found = |id: i64, is_made, rename| {
        let object = &all[id as usize - 1];
        Some(ReferenceTarget { id: object.id, anchor: object.anchor, mv: object.mv, is_made, rename })
    };
    let names: Vec<IndexKey> =
        [6, 5, 4, 3, 2, 1, 9].iter().filter_map(|id| name(&format!("cn={id}"))).collect();
    let expected = [
        found(6, true, None),
        found(5, true, None),
        found(4, true, Some(sent)),
        found(3, true, Some(open)),
        found(2, true, None),
        found(1, false, None),
        None,
    ];
    assert_eq!(store.find(HR, LookupKey::Name, &names).unwrap(), expected);
    assert_eq!(store.find(PHONES, LookupKey::Name, &names[..2]).unwrap(), [None, None]);
    let anchors: Vec<IndexKey> = [2, 1, 7].iter().filter_map(|id| object(*id, HR).anchor).collect();
    assert_eq!(store.find(HR, LookupKey::Anchor, &anchors).unwrap(), [found(2, true, None), None, None]);
    assert_eq!(store.find(PHONES, LookupKey::Anchor, &anchors[2..]).unwrap(), [found(7, true, None)]);
    assert_eq!(store.find(HR, LookupKey::Anchor, &[]).unwrap(), []);
    let link = |id: i64| {
        let CsObject { agent, anchor, name, mv, .. } = all[id as usize - 1].clone();
        Link { mv: mv.unwrap(), cs: CsId(id), agent, anchor, name }
    };
    assert_eq!(store.links(&[MvId(51), MvId(9)]).unwrap(), [1, 3, 5, 7].map(link));
    assert_eq!(store.links(&[MvId(50), MvId(51)]).unwrap(), [1, 2, 3, 4, 5, 7].map(link));
    assert_eq!(store.links(&[]).unwrap(), []);
}

fn names_are_given_up_and_taken(place: Place) {
    let mut store = place.open();
    written(store.as_mut(), &[1, 2, 3].map(|id| Write::NewCs(object(id, HR))));
    let renamed = |id, dn: &str| Write::Renamed { id: CsId(id), dn: dn.into(), name: name(dn) };
    // Two objects exchange names, and a third takes a name when it is written whole.
    written(
        store.as_mut(),
        &[
            Write::Unnamed(CsId(1)),
            Write::Unnamed(CsId(2)),
            renamed(1, "cn=2"),
            renamed(2, "cn=1"),
            Write::Staged { id: CsId(2), pending: None },
            renamed(2, "cn=5"),
            Write::Cs(CsObject { dn: "cn=1".into(), name: name("cn=1"), ..object(3, HR) }),
            Write::Unnamed(CsId(3)),
        ],
    );
    let found = store.cs(&[1, 2, 3].map(CsId)).unwrap();
    let names: Vec<(&str, Option<IndexKey>)> =
        found.iter().map(|object| (object.dn.as_str(), object.name)).collect();
    assert_eq!(names, [("cn=2", name("cn=2")), ("cn=5", name("cn=5")), ("cn=1", None)]);
    assert_eq!((&found[1].pending_import, &found[0].pending_import), (&None, &object(1, HR).pending_import));
    assert!(store.write(&[renamed(3, "cn=5")]).is_err());
    store.roll_back().unwrap();
    written(store.as_mut(), &[renamed(3, "cn=9"), renamed(99, "cn=9")]);
    let found = store.find(HR, LookupKey::Name, &[IndexKey::of(b"cn=9")]).unwrap();
    assert_eq!(found[0].map(|found| found.id), Some(CsId(3)));
}

fn one_process_works_on_it_at_a_time(place: Place) {
    let mut store = place.open();
    for _ in 0..2 {
        assert!(matches!(place.try_open().err(), Some(StoreError::Busy)));
        written(store.as_mut(), &[Write::NewMv(person(1)), Write::DeletedMv(MvId(1))]);
    }
    store.write(&[Write::NewMv(person(1))]).unwrap();
    drop(store);
    assert_eq!(place.open().count_mv().unwrap(), 0);
}

fn a_large_batch_is_written_whole(place: Place) {
    let mut store = place.open();
    const COUNT: i64 = 5000;
    let value = vec![7; 400];
    let first = image(&[(1, &[&value])]);
    let new = |id| CsObject { pending_import: Some(PendingImport::Add(first.clone())), ..object(id, HR) };
    written(store.as_mut(), &(1..=COUNT).map(|id| Write::NewCs(new(id))).collect::<Vec<_>>());
    // One third is synchronized, one third staged anew, one third written whole.
    let second = image(&[(2, &[&value[1..]])]);
    let changes: Vec<Write> = (1..=COUNT)
        .rev()
        .map(|id| match id % 3 {
            0 => Write::Synchronized { id: CsId(id), state: State::Connected, mv: Some(MvId(id)) },
            1 => Write::Staged { id: CsId(id), pending: Some(PendingImport::Update(second.clone())) },
            _ => Write::Cs(CsObject { synchronized: Some(second.clone()), ..new(id) }),
        })
        .collect();
    written(store.as_mut(), &changes);
    let all: Vec<CsId> = (1..=COUNT).map(CsId).collect();
    let expected = (1..=COUNT).map(|id| match id % 3 {
        0 => CsObject {
            state: State::Connected,
            mv: Some(MvId(id)),
            synchronized: Some(first.clone()),
            pending_import: None,
            ..new(id)
        },
        1 => CsObject { pending_import: Some(PendingImport::Update(second.clone())), ..new(id) },
        _ => CsObject { synchronized: Some(second.clone()), ..new(id) },
    });
    assert!(store.cs(&all).unwrap().into_iter().eq(expected));
    let anchors: Vec<IndexKey> = all.iter().filter_map(|id| object(id.0, HR).anchor).collect();
    let heads = store.heads(HR, &anchors).unwrap();
    assert!(heads.iter().zip(&all).all(|(head, id)| head.is_some_and(|head| head.id == *id)));
}

/// Changes of few objects, in any order; the same for each store.
fn changes(asked: &[(i64, u8, u8)]) -> Vec<Write> {
    let (mut cs, mut mv) = (BTreeSet::new(), BTreeSet::new());
    let mut changes = Vec::new();
    for (id, what, value) in asked {
        let (cs_id, mv_id) = (CsId(*id), MvId(*id));
        let held = image(&[(1, &[&[*value]])]);
        let pending = match value % 4 {
            0 => None,
            1 => Some(PendingImport::Delete),
            2 => Some(PendingImport::Update(held.clone())),
            _ => Some(PendingImport::Add(held.clone())),
        };
        let object = CsObject {
            synchronized: (value % 3 == 0).then(|| held.clone()),
            pending_import: pending.clone(),
            pending_export: (value % 5 == 0).then(|| export(Change::Update)),
            ..object(*id, HR)
        };
        let someone = MvObject { image: held, ..person(*id) };
        changes.push(match what {
            0 if cs.insert(*id) => Write::NewCs(object),
            0 | 1 => Write::Cs(object),
            2 => Write::Staged { id: cs_id, pending },
            3 => {
                let state =
                    [State::Connected, State::Candidate, State::Deprovisioned][usize::from(value % 3)];
                Write::Synchronized { id: cs_id, state, mv: Some(mv_id) }
            }
            4 => {
                cs.remove(id);
                Write::DeletedCs(cs_id)
            }
            5 => Write::Failure {
                id: cs_id,
                why: (value % 2 == 0).then(|| Failure::new(FailureKind::Flow, "why")),
            },
            6 if mv.insert(*id) => Write::NewMv(someone),
            6 | 7 => Write::Mv(someone),
            8 => {
                mv.remove(id);
                Write::DeletedMv(mv_id)
            }
            9 => Write::NewKey((1, IndexKey::of(&[value % 2])), mv_id),
            10 => Write::DeletedKey((1, IndexKey::of(&[value % 2])), mv_id),
            11 => {
                let target = ["a", "b"][usize::from(value % 2)];
                Write::Reference(refers(*id, 1, target, i64::from(value / 2 % 20)))
            }
            12 => Write::SettledReferences(cs_id),
            13 => Write::UnwantedReferences(cs_id),
            14 if value % 2 == 0 => Write::Due(cs_id),
            14 => Write::Done(cs_id),
            15 => Write::Unnamed(cs_id),
            16 => {
                let keys = (0..value % 3).map(|key| (1, IndexKey::of(&[key]))).collect();
                Write::JoinKeys { id: cs_id, keys }
            }
            17 => Write::DeleteAt { id: cs_id, at_unix_s: (value % 2 == 0).then_some(u64::from(*value)) },
            _ => Write::Renamed { id: cs_id, dn: format!("n{id}"), name: name(&format!("n{id}")) },
        });
    }
    changes
}

/// The complete contents of a store for these objects.
fn held(store: &mut dyn Store) -> impl PartialEq + std::fmt::Debug {
    let of_mv: Vec<MvId> = (1..5).map(MvId).collect();
    let keys = [0, 1].map(|value| (1, IndexKey::of(&[value])));
    (
        store.cs_after(HR, CsId(0), 100, Population::All).unwrap(),
        store.cs_after(HR, CsId(0), 100, Population::Pending).unwrap(),
        store.mv(&of_mv).unwrap(),
        (store.mv_with(&keys).unwrap(), store.cs_with(&keys).unwrap()),
        store.deletions(u64::MAX, 9).unwrap(),
        store.gauges(HR).unwrap(),
        store.references(&[1, 2, 3, 4].map(CsId)).unwrap(),
        store.referring(HR, &[IndexKey::of(b"a")]).unwrap(),
        store.due(9).unwrap(),
        store.links(&of_mv).unwrap(),
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    #[test]
    fn every_store_does_the_same(
        asked in proptest::collection::vec((1i64..5, 0u8..19, any::<u8>()), 1..40),
        batch in 1usize..40,
    ) {
        let Some(place) = Place::postgres() else { return Ok(()) };
        let file = Place::sqlite();
        let (mut one, mut other) = (file.open(), place.open());
        for part in changes(&asked).chunks(batch) {
            one.write(part).unwrap();
            other.write(part).unwrap();
            prop_assert_eq!(held(one.as_mut()), held(other.as_mut()));
            one.commit().unwrap();
            other.commit().unwrap();
        }
    }
}
