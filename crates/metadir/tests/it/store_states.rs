//! Tests of what a store keeps about the states of objects, for each database.

use plimsoll_metadir::hologram::Hologram;
use plimsoll_metadir::index_key::IndexKey;
use plimsoll_metadir::object::{Change, CsId, CsObject, MvId, PendingImport, State};
use plimsoll_metadir::store::{Failure, FailureKind, Gauges, Store, Write};

use crate::place::{Place, over_both_stores};
use crate::store::{HR, PHONES, export, object, written};

over_both_stores! {
    only_objects_that_are_not_connected_are_found_by_join_keys,
    a_deletion_is_due_while_its_object_is_deprovisioned,
    gauges_count_what_is_there,
}

fn only_objects_that_are_not_connected_are_found_by_join_keys(place: Place) {
    let mut store = place.open();
    let key = |text: &str| (3, IndexKey::of(text.as_bytes()));
    let keys =
        |id, keys: &[&str]| Write::JoinKeys { id: CsId(id), keys: keys.iter().map(|k| key(k)).collect() };
    let found = |store: &mut dyn Store| -> Vec<Vec<i64>> {
        let found = store.cs_with(&[key("a"), key("b"), (4, key("a").1)]).unwrap();
        found.iter().map(|ids| ids.iter().map(|id| id.0).collect()).collect()
    };
    let new = |id| CsObject { synchronized: Some(Hologram::default()), ..object(id, HR) };
    written(store.as_mut(), &(1..=4).map(|id| Write::NewCs(new(id))).collect::<Vec<_>>());
    let all = [keys(1, &["a"]), keys(2, &["a", "b"]), keys(3, &["b"]), keys(4, &["a"]), keys(9, &["a"])];
    written(store.as_mut(), &all);
    assert_eq!(found(store.as_mut()), [vec![1, 2, 4], vec![2, 3], vec![]]);
    // New keys replace the old ones; whoever is connected, filtered or deleted has none.
    written(
        store.as_mut(),
        &[
            keys(1, &["b"]),
            Write::Synchronized { id: CsId(2), state: State::Connected, mv: Some(MvId(1)) },
            Write::Cs(CsObject { state: State::Filtered, ..new(3) }),
            Write::DeletedCs(CsId(4)),
        ],
    );
    assert_eq!(found(store.as_mut()), [vec![], vec![1], vec![]]);
    // A deprovisioned object keeps them, also when it is written in the same batch.
    let left = CsObject { state: State::Deprovisioned, ..new(1) };
    written(store.as_mut(), &[Write::Cs(left), keys(1, &["a"]), keys(2, &[])]);
    assert_eq!(found(store.as_mut()), [vec![1], vec![], vec![]]);
}

fn a_deletion_is_due_while_its_object_is_deprovisioned(place: Place) {
    let mut store = place.open();
    let left = |id| CsObject {
        state: State::Deprovisioned,
        synchronized: Some(Hologram::default()),
        ..object(id, HR)
    };
    let at = |id, at_unix_s| Write::DeleteAt { id: CsId(id), at_unix_s };
    written(store.as_mut(), &(1..=5).map(|id| Write::NewCs(left(id))).collect::<Vec<_>>());
    written(
        store.as_mut(),
        &[
            at(1, Some(30)),
            at(2, Some(10)),
            at(3, Some(20)),
            at(4, Some(20)),
            at(5, Some(20)),
            at(9, Some(1)),
        ],
    );
    assert_eq!(store.deletions(20, 2).unwrap(), [(CsId(2), 10), (CsId(3), 20)]);
    written(
        store.as_mut(),
        &[
            Write::Cs(CsObject { state: State::Connected, ..left(3) }),
            Write::Synchronized { id: CsId(4), state: State::Deprovisioned, mv: None },
            Write::DeletedCs(CsId(5)),
            at(2, None),
            at(1, Some(40)),
        ],
    );
    assert_eq!(store.deletions(u64::MAX, 9).unwrap(), [(CsId(4), 20), (CsId(1), 40)]);
    written(
        store.as_mut(),
        &[
            Write::Cs(left(1)),
            at(1, Some(50)),
            Write::Synchronized { id: CsId(4), state: State::Connected, mv: None },
        ],
    );
    assert_eq!(store.deletions(u64::MAX, 9).unwrap(), [(CsId(1), 50)]);
}

fn gauges_count_what_is_there(place: Place) {
    let mut store = place.open();
    assert_eq!(store.gauges(HR).unwrap(), Gauges::default());
    assert_eq!(store.count_imported(HR).unwrap(), 0);
    let some = Hologram::default;
    let changes = [
        None,
        Some(PendingImport::Add(some())),
        Some(PendingImport::Renamed(some())),
        Some(PendingImport::Delete),
    ];
    let states = [
        State::Candidate,
        State::Connected,
        State::Filtered,
        State::Deprovisioned,
        State::ExplicitDisconnector,
        State::ExplicitConnector,
    ];
    let mut new = Vec::new();
    for id in 1..=24 {
        let at = id as usize;
        new.push(Write::NewCs(CsObject {
            state: states[if at > 20 { 0 } else { at % 6 }],
            synchronized: at.is_multiple_of(2).then(some),
            pending_import: changes[at % 4].clone(),
            pending_export: at.is_multiple_of(6).then(|| export(Change::Delete)),
            ..object(id, HR)
        }));
    }
    new.push(Write::NewCs(object(25, PHONES)));
    new.push(Write::Failure { id: CsId(3), why: Some(Failure::new(FailureKind::NotReimported, "")) });
    written(store.as_mut(), &new);
    assert_eq!(
        store.gauges(HR).unwrap(),
        Gauges {
            objects: 24,
            connectors: 7,
            explicit_connectors: 3,
            disconnectors: 7,
            explicit_disconnectors: 3,
            deprovisioned: 3,
            filtered: 4,
            pending_imports: [6, 6, 6],
            pending_exports: 4,
            failures: 1,
        }
    );
    // Every second object is synchronized, and every fourth is new.
    assert_eq!(store.count_imported(HR).unwrap(), 18);
    assert_eq!(store.gauges(PHONES).unwrap().objects, 1);
    assert_eq!(store.count_imported(PHONES).unwrap(), 1);
}
