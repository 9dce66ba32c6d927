//! Tests of pipelined batches: the batch size does not change the result, although a batch is read before the
//! previous one is written.

use std::fs;

use plimsoll_metadir::config::{Step, StepKind};
use plimsoll_metadir::metadirectory::Metadirectory;

use crate::counted::{Counted, Written};
use crate::place::{Place, over_both_stores};

over_both_stores! {
    a_batch_sees_what_the_one_before_it_wrote,
}

const STAFF: usize = 1;
const BOOK: usize = 0;

/// Twelve people, each two with the same key; two of the keys are in the book already.
fn a_batch_sees_what_the_one_before_it_wrote(place: Place) {
    let at = |file: &str| place.scratch.path().join(file).display().to_string();
    let people: String = (10..22).map(|number| format!("{number},k{},N{number}\n", number / 2)).collect();
    fs::write(at("staff.csv"), format!("number,key,name\n{people}")).unwrap();
    // The number of objects per commit, and the number of objects per batch.
    let whole = usize::MAX;
    for (commit_objects, piece_objects) in
        [(1, whole), (2, whole), (3, whole), (5, whole), (1000, whole), (5, 2), (1000, 1), (1000, 3), (4, 3)]
    {
        fs::write(at("book.csv"), "key,name\nk6,other\nk9,other\n").unwrap();
        let fresh = place.another();
        let keys = fresh.keys();
        let config = format!(
            r#"
[store]
{keys}
durability = "off"
commit_objects = {commit_objects}
[metaverse.person]
attributes = {{ key = "text", name = "text" }}
[agents.staff]
type = "delimited"
path = "{staff}"
anchor = "number"
[agents.book]
type = "delimited"
path = "{book}"
anchor = "key"
[[inbound]]
agent = "staff"
to = "person"
join = [{{ cs = "key", mv = "key" }}]
project = true
flow = {{ key = "key", name = "name" }}
[[outbound]]
agent = "book"
from = "person"
dn = "mv.key"
flow = {{ key = "key", name = "name" }}
"#,
            staff = at("staff.csv"),
            book = at("book.csv"),
        );
        let store = Counted { store: fresh.open(), written: Written::default(), piece_objects };
        let mut directory =
            Metadirectory::with(connectors::parse(&config).unwrap(), Box::new(store)).unwrap();
        let mut run = |agent, kind| directory.run(Step { agent, kind }, &mut |_| true).unwrap().statistics;
        run(STAFF, StepKind::FullImport);
        run(BOOK, StepKind::FullImport);
        let did = run(STAFF, StepKind::DeltaSynchronization);
        // The second person with a key matches the object of the first one, which has a connector already. An
        // object in the book is not added again.
        let counted = ["disconnector-projected", "provisioned-add", "flow-failure", "ambiguous-join"];
        assert_eq!(counted.map(|name| did.of(name)), [4, 4, 4, 4], "{commit_objects} {piece_objects}");
        assert_eq!(run(BOOK, StepKind::Export).of("export-add"), 4);
        let book = fs::read_to_string(at("book.csv")).unwrap();
        assert!(book.contains("k5,N10") && book.contains("k10,N20") && book.contains("k6,other"), "{book}");
        // The failed objects are tried again, with the same result.
        let again = run(STAFF, StepKind::DeltaSynchronization);
        assert_eq!(counted.map(|name| again.of(name)), [0, 0, 4, 4], "{commit_objects} {piece_objects}");
    }
}
