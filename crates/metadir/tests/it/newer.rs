//! Tests of objects that an import reads in addition to a content synchronization, and that may be renamed
//! meanwhile.

use plimsoll_metadir::config::{Step, StepKind};
use plimsoll_metadir::metadirectory::Metadirectory;
use plimsoll_metadir::naming::Naming;
use plimsoll_metadir::object::{AgentId, CsId};
use plimsoll_metadir::store::{LookupKey, NameKind, Population};

use crate::directory::{Directory, Entry};
use crate::place::{Place, over_both_stores};

over_both_stores! {
    a_name_that_changes_hands_while_it_is_read,
}

/// The names in the connector space with their objects, and the number of objects without a name.
fn names(place: &Place) -> (Vec<(String, String)>, usize) {
    let mut store = place.open();
    let agent = AgentId(store.name(NameKind::Agent, "directory").unwrap());
    let objects = store.cs_after(agent, CsId(0), 100, Population::All).unwrap();
    let mut names = Vec::new();
    for object in objects.iter().filter(|object| object.name.is_some()) {
        // The index leads to the same object.
        let found = store.find(agent, LookupKey::Name, &[Naming::Dn.hash(&object.dn).unwrap()]).unwrap();
        assert_eq!(found[0].unwrap().id, object.id);
        names.push((object.dn.clone(), format!("{:?}", object.anchor.unwrap())));
    }
    names.sort();
    let unnamed = objects.len() - names.len();
    (names, unnamed)
}

/// An object was read under a name. Before the import ended, it gave the name to another object, which is
/// read separately.
fn a_name_that_changes_hands_while_it_is_read(place: Place) {
    for (commit_objects, at_first) in [(100, [1, 0]), (1, [2, 0])] {
        let place = place.another();
        let text = format!(
            r#"
[store]
{store}
durability = "off"
commit_objects = {commit_objects}
[metaverse.person]
attributes = {{ name = "text" }}
[agents.directory]
type = "delimited"
path = "unused"
anchor = "uuid"
[[inbound]]
agent = "directory"
to = "person"
project = true
flow = {{ name = "cn" }}
"#,
            store = place.keys(),
        );
        let server = Directory::default();
        let mut config = connectors::parse(&text).unwrap();
        config.agents[0].system = server.system();
        let mut directory = Metadirectory::open(config).unwrap();
        let mut import = |entries: &[(&str, &str)], newer: &[(&str, &str)]| {
            let entry = |(uuid, dn): &(&str, &str)| Entry {
                uuid: (*uuid).into(),
                dn: format!("cn={dn},dc=plim"),
                ..Entry::default()
            };
            let mut state = server.state();
            (state.entries, state.newer) =
                (entries.iter().map(entry).collect(), newer.iter().map(entry).collect());
            drop(state);
            let step = Step { agent: 0, kind: StepKind::FullImport };
            let result = directory.run(step, &mut |_| true).unwrap();
            assert_eq!(result.discovery_errors, []);
            ["stage-add", "stage-delete"].map(|what| result.statistics.of(what))
        };
        assert_eq!(import(&[("a", "one")], &[("b", "one"), ("a", "two")]), at_first);
        // The next import shows the current state of both.
        import(&[("a", "two"), ("b", "one")], &[]);
        // An object without a name is not deleted.
        assert_eq!(import(&[("a", "two")], &[("b", "two"), ("a", "three")]), [0, 0], "{commit_objects}");
        import(&[("a", "two"), ("b", "one")], &[]);
        drop(directory);
        let named = |name: &str, uuid: &str| (format!("cn={name},dc=plim"), uuid.to_string());
        assert_eq!(names(&place), (vec![named("one", "b"), named("two", "a")], 0), "{commit_objects}");
    }
}
