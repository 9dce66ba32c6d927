//! Tests of the cost of one more member in a group: one row in each connector space, and one value in the
//! export.

use plimsoll_metadir::config::StepKind;
use plimsoll_metadir::metadirectory::Metadirectory;
use plimsoll_metadir::store::Write;

use crate::counted::{Counted, Written};
use crate::place::{Place, over_both_stores};
use crate::references::{Company, DIRECTORY, LIST, STAFF, day};
use crate::steps::run;

over_both_stores! {
    a_member_more_is_one_row_and_one_value_however_large_the_group,
}

/// Number of writes of references, and number of all others.
fn count(written: &Written) -> (usize, usize) {
    let all = written.take();
    let is_of_reference = |write: &&Write| {
        matches!(write, Write::Reference(_) | Write::SettledReferences(_) | Write::UnwantedReferences(_))
    };
    let of_references = all.iter().filter(is_of_reference).count();
    (of_references, all.len() - of_references)
}

fn a_member_more_is_one_row_and_one_value_however_large_the_group(place: Place) {
    let mut all = Vec::new();
    let company = Company::new(place);
    company.directory.state().is_strict = false;
    let people: Vec<String> = (0..1_001).map(|id| format!("person,{id},N{id},Lab,,")).collect();
    let write = |large: usize, small: usize| {
        let group = |name: &str, members: usize| {
            let members: Vec<String> = (0..members).map(|id| id.to_string()).collect();
            format!("group,{name},All {name},,,{}", members.join("|"))
        };
        let others = ["unit,u,Lab,,,".to_string(), group("large", large), group("small", small)];
        let rows: Vec<&str> = people.iter().chain(&others).map(String::as_str).collect();
        company.write(&rows);
    };
    write(1_000, 3);
    let written = Written::default();
    let store = Counted { store: company.place.open(), written: written.clone(), piece_objects: usize::MAX };
    let mut directory = Metadirectory::with(company.config(10_000), Box::new(store)).unwrap();
    day(&mut directory);
    for (large, small) in [(1_000, 4), (1_001, 4)] {
        write(large, small);
        written.take();
        company.directory.asked();
        let mut counts = Vec::new();
        for (agent, kind) in [
            (STAFF, StepKind::FullImport),
            (STAFF, StepKind::DeltaSynchronization),
            (DIRECTORY, StepKind::Export),
            (DIRECTORY, StepKind::FullImport),
            (DIRECTORY, StepKind::DeltaSynchronization),
            (LIST, StepKind::Export),
        ] {
            run(&mut directory, agent, kind);
            counts.push((agent, kind, count(&written)));
        }
        assert_eq!(counts[0].2.0, 1, "{counts:?}");
        // The change is synchronized there, and pending for directory and list.
        assert_eq!(counts[1].2.0, 3, "{counts:?}");
        assert_eq!(counts[2].2.0, 1, "{counts:?}");
        let asked = company.directory.asked();
        let [change] = asked.as_slice() else { panic!("{asked:?}") };
        assert!(change.ends_with("members-") && change.matches("cn=N").count() == 1, "{change}");
        all.push(counts);
    }
    // The cost is the same for groups of three and of a thousand members.
    assert_eq!(all[0], all[1]);
}
