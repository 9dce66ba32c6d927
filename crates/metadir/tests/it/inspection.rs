//! The state of a store, as an administrator checks it.

use std::time::{SystemTime, UNIX_EPOCH};

use plimsoll_metadir::store::inspection::{Content, Inspection};
use plimsoll_metadir::store::{NameKind, StepRecord, Store, Write};

use crate::place::{Place, over_both_stores};
use crate::store::{HR, object};

over_both_stores! {
    growth_is_that_of_the_last_runs,
}

const DAY_S: u64 = 24 * 60 * 60;

fn content(place: &Place) -> Option<Content> {
    let config = format!(
        "[store]\n{}\n[metaverse.person]\nattributes = {{ id = \"text\" }}\n[agents.hr]\ntype = \"delimited\"\n\
         path = \"hr.csv\"\nanchor = \"id\"\n[[inbound]]\nagent = \"hr\"\nto = \"person\"\nproject = true\n\
         flow = {{ id = \"id\" }}\n",
        place.keys()
    );
    match connectors::parse(&config).unwrap().inspect_store().unwrap() {
        Inspection::Sqlite(state) => state.content,
        Inspection::Postgres(state) => state.content,
    }
}

/// Records a step that began some days ago.
fn ran(store: &mut dyn Store, days_ago: u64, counters: &[(&str, u64)]) {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
    let counters = counters.iter().map(|(name, count)| (name.to_string(), *count)).collect();
    let started_unix_s = now - days_ago * DAY_S;
    store.keep_step(&StepRecord { started_unix_s, counters, ..StepRecord::default() }).unwrap();
    store.commit().unwrap();
}

fn growth_is_that_of_the_last_runs(place: Place) {
    assert_eq!(content(&place), None, "there is no store yet, and none is made");
    let mut store = place.open();
    assert_eq!(store.name(NameKind::Agent, "hr").unwrap(), HR.0);
    let objects: Vec<Write> = (1..=5).map(|id| Write::NewCs(object(id, HR))).collect();
    store.write(&objects).unwrap();
    ran(&mut *store, 5, &[("stage-add", 1000)]);
    let young = content(&place).unwrap();
    assert_eq!((young.objects, young.growth, young.history_s.unwrap() / DAY_S), (5, None, 5));
    drop(store);
    let place = place.another();
    let mut store = place.open();
    store.name(NameKind::Agent, "hr").unwrap();
    ran(&mut *store, 20, &[("stage-add", 1000)]);
    ran(&mut *store, 5, &[("stage-add", 30), ("stage-update", 7)]);
    ran(&mut *store, 4, &[("stage-delete", 10)]);
    // Beside the open store.
    let growth = content(&place).unwrap().growth.unwrap();
    assert_eq!((growth.objects, growth.trail_bytes, growth.window_s / DAY_S), (20, 0, 19));
}
