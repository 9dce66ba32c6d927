//! Tests of the agents of text files: reading, rewriting, and errors in the files.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Write as _;
use std::path::PathBuf;

use plimsoll_metadir::agent::{Agent, ExportedObject, Import, Imported, Names};
use plimsoll_metadir::config::{AgentConfig, Step, StepKind};
use plimsoll_metadir::hologram::{Attribute, Hologram};
use plimsoll_metadir::index_key::IndexKey;
use plimsoll_metadir::metadirectory::{Metadirectory, StepResult};
use plimsoll_metadir::object::Change;
use plimsoll_metadir::stage::StepError;
use proptest::prelude::*;
use testkit::Scratch;

/// A format of text files.
struct Form {
    name: &'static str,
    keys: &'static str,
    /// Ada and Alan, and three mail addresses, if the format supports several values.
    people: &'static str,
    /// Invalid objects, each with its message.
    wrong: &'static [(&'static [u8], &'static str)],
    /// A valid object.
    grace: &'static str,
    /// The text before and after a line of 100 MB.
    long: (&'static str, &'static str),
}

const FORMS: [Form; 4] = [
    Form {
        name: "delimited",
        keys: "value_separator = \";\"",
        people: "id,name,mail\n1,\"Ada, L.\",a@x;b@x\n2,Alan,c@x\n",
        wrong: &[
            (b"7,two\n", "line 4: parse-error: 2 fields where the first line names 3"),
            (b",none,\n", "line 5: missing-anchor: a part of the anchor has no value"),
            (b"8,\xff,\n", "line 6: invalid-attribute-value: not UTF-8"),
        ],
        grace: "3,Gräce,\n",
        long: ("9,", ",\n"),
    },
    Form {
        name: "fixed-width",
        keys: "value_separator = \";\"\ncolumns = [{ name = \"id\", start = 1, width = 3 }, { name = \"name\", start = 5, width = 8 }, \
               { name = \"mail\", start = 13, width = 8 }]",
        people: "1   Ada, L. a@x;b@x \n  2 Alan    c@x     \n",
        wrong: &[
            (b"7   two\n", "line 3: parse-error: 7 characters where the columns take 20"),
            (b"    none            \n", "line 4: missing-anchor: a part of the anchor has no value"),
            (b"8   \xff              \n", "line 5: invalid-attribute-value: not UTF-8"),
            (
                b"9   nine            behind\n",
                "line 6: parse-error: there are characters after the last column",
            ),
        ],
        grace: "3   Gr\u{e4}ce           \n",
        long: ("9   ", "\n"),
    },
    Form {
        name: "attribute-value",
        keys: "",
        people: "\nid: 1\nname: Ada, L.\nmail: b@x\nmail: a@x\n\n\n\nid:2\r\nname: Alan\r\nmail: c@x\r\n\r\n",
        wrong: &[
            (b"id: 7\ntwo\n\n", "line 14: parse-error: no line of the form `name: value`"),
            (b"name: none\nid:\n\n", "line 16: missing-anchor: a part of the anchor has no value"),
            (b"id: 8\nname: \xff\n\n", "line 20: invalid-attribute-value: not UTF-8"),
        ],
        grace: "id: 3\nname: Gr\u{e4}ce\n\n",
        long: ("id: 9\nname: ", "\n\n"),
    },
    Form {
        name: "ldif",
        keys: "attributes = [\"name\", \"mail\"]",
        people: "version: 1\n\ndn: id=1\nid: 1\nName: Ada,\n  L.\nmail: b@x\nmail: a@x\n\n# Alan\ndn: id=2\nid: 2\nname:: QWxhbg==\n\
                 mail: c@x\nother: x\n\n",
        wrong: &[
            (b"dn: id=7\ntwo\n\n", "line 18: parse-error: "),
            (b"dn: id=8\nname: none\n\n", "line 20: missing-anchor: a part of the anchor has no value"),
            (b"dn: id=9\nchangetype: delete\n\n", "line 23: parse-error: a change, where entries are read"),
        ],
        grace: "dn: id=3\nid: 3\nname: Gr\u{e4}ce\n\n",
        long: ("dn: id=9\nid: 9\nname: ", "\n\n"),
    },
];

/// The errors of staging a file, with a batch size.
fn complaints(form: &Form, text: &str, commit_objects: usize) -> Vec<String> {
    let scratch = Scratch::new();
    let config = format!(
        "[store]\nsqlite = \"store.db\"\ncommit_objects = {commit_objects}\n[metaverse.person]\nattributes = {{ id = \"text\" }}\n\
         [agents.text]\ntype = \"{}\"\npath = \"people.txt\"\nanchor = \"id\"\n{}\n",
        form.name, form.keys
    );
    let mut config = connectors::parse(&config).unwrap();
    config.relative_to(scratch.path());
    fs::write(scratch.join("people.txt"), text).unwrap();
    let mut directory = Metadirectory::open(config).unwrap();
    let step = Step { agent: 0, kind: StepKind::FullImport };
    let reported = directory.run(step, &mut |_| true).unwrap().discovery_errors;
    reported.iter().map(|error| format!("{}: {}: {}", error.place, error.kind, error.text)).collect()
}

#[test]
fn what_comes_twice_is_reported_with_its_line() {
    for form in &FORMS {
        for end in ["\n", "\r\n"] {
            let again = form.grace.replace('3', "1");
            let text = [form.people, form.grace, &again, form.grace].concat();
            let text = text.replace("\r\n", "\n").replace('\n', end);
            let line = |of: &str| 1 + text[..text.rfind(of).unwrap()].matches('\n').count();
            let begin = |of: &str| of.lines().next().unwrap().to_string();
            let ada = form.people.find("id=1").or_else(|| form.people.find('1')).unwrap();
            let ada = 1 + form.people[..ada].matches('\n').count();
            let grace = 1 + text[..text.find(&begin(form.grace)).unwrap()].matches('\n').count();
            let (ada_again, grace_again) = (line(&begin(&again)), line(&begin(form.grace)));
            let kept = |line: usize| format!("the object on line {line} has the same anchor and is kept");
            assert_eq!(
                complaints(form, &text, 100),
                [
                    format!("line {ada_again}: duplicate-object: {}", kept(ada)),
                    format!("line {grace_again}: duplicate-object: {}", kept(grace)),
                ],
                "{}",
                form.name
            );
            // Duplicates in other batches are not located.
            let before = "an earlier object has the same anchor; the first is kept";
            let mut reported = complaints(form, &text, 1);
            reported.sort();
            let mut expected =
                [ada_again, grace_again].map(|line| format!("line {line}: duplicate-object: {before}"));
            expected.sort();
            assert_eq!(reported, expected, "{}", form.name);
        }
    }
}

#[test]
fn a_name_that_comes_twice_is_reported_with_its_line() {
    let ldif = FORMS.iter().find(|form| form.name == "ldif").unwrap();
    let text = "dn: id=1\nid: 1\n\ndn: ID=1\nid: 2\n\n";
    let reported = "line 4: duplicate-object: the object on line 1 has the same name and is kept";
    assert_eq!(complaints(ldif, text, 100), [reported]);
}

/// An agent with its file.
struct Text {
    scratch: Scratch,
    config: AgentConfig,
    names: Names,
}

impl Text {
    fn new(form: &Form) -> Text {
        Text::with(form.name, form.keys)
    }

    fn with(name: &str, keys: &str) -> Text {
        let text = format!(
            "[store]\nsqlite = \"unused\"\n[metaverse.person]\nattributes = {{ id = \"text\" }}\n\
             [agents.text]\ntype = \"{name}\"\npath = \"people.txt\"\nanchor = \"id\"\n{keys}\n"
        );
        let scratch = Scratch::new();
        let mut config = connectors::parse(&text).unwrap();
        config.relative_to(scratch.path());
        Text { scratch, config: config.agents.remove(0), names: Names::default() }
    }

    fn path(&self) -> PathBuf {
        self.scratch.join("people.txt")
    }

    fn open(&mut self) -> Box<dyn Agent> {
        let wanted = ["room", "dn", "name", "mail", "id"].map(String::from);
        for name in self.config.attributes().unwrap().into_iter().chain(wanted) {
            if self.names.attribute(&name).is_none() {
                self.names.insert(&name, Attribute(1000 - self.names.len() as u32));
            }
        }
        self.config.open(&self.names).unwrap()
    }

    fn full(&mut self) -> (BTreeMap<String, IndexKey>, Vec<String>) {
        let mut import = self.open().full_import().unwrap();
        self.read(import.as_mut(), 2)
    }

    /// The objects of an import, and its errors.
    fn read(&self, import: &mut dyn Import, most: usize) -> (BTreeMap<String, IndexKey>, Vec<String>) {
        let (mut objects, mut reported, mut batch) = (BTreeMap::new(), Vec::new(), Vec::new());
        loop {
            batch.clear();
            import.read(most, &mut batch).unwrap();
            if batch.is_empty() {
                return (objects, reported);
            }
            for imported in &batch {
                match imported {
                    Imported::Object(object) => {
                        objects.insert(self.line(&object.image), object.anchor);
                    }
                    Imported::Present(_) | Imported::Newer(_) => {
                        panic!("a file tells what changed, not what did not")
                    }
                    Imported::Gone(anchor) => {
                        objects.insert(format!("gone {}", objects.len()), *anchor);
                    }
                    Imported::Error(error) => {
                        reported.push(format!("{}: {}: {}", error.place, error.kind, error.text));
                    }
                }
            }
        }
    }

    /// The attributes without `dn`, sorted.
    fn line(&self, image: &Hologram) -> String {
        let mut parts: Vec<String> = image
            .iter()
            .map(|(attribute, values)| {
                let values: Vec<_> = values.iter().map(String::from_utf8_lossy).collect();
                format!("{}={}", self.names.name(attribute), values.join("+"))
            })
            .filter(|part| !part.starts_with("dn="))
            .collect();
        parts.sort();
        parts.join(" ")
    }

    fn change(&mut self, change: Change, id: &str, attributes: &[(&str, &[&str])]) -> ExportedObject {
        self.open();
        let of = |(name, values): &(&str, &[&str])| {
            let values: Vec<Vec<u8>> = values.iter().map(|value| value.as_bytes().to_vec()).collect();
            (self.names.attribute(name).unwrap(), values)
        };
        ExportedObject {
            change,
            anchor: Some(of_id(id)),
            dn: format!("id={id}"),
            new_dn: None,
            changed_values: Vec::new(),
            adopts: true,
            written: Vec::new(),
            attributes: attributes.iter().map(of).collect(),
            image: Hologram::default(),
        }
    }
}

fn of_id(id: &str) -> IndexKey {
    IndexKey::of_parts(std::iter::once(id.as_bytes()))
}

const ADA: &str = "id=1 mail=a@x+b@x name=Ada, L.";
const ALAN: &str = "id=2 mail=c@x name=Alan";
const GRACE: &str = "id=3 name=Gräce";

#[test]
fn objects_are_read_and_what_is_wrong_is_reported_with_its_line() {
    for form in &FORMS {
        let mut text = Text::new(form);
        // A missing source is not a source without objects.
        let missing = text.open().full_import().err().unwrap().to_string();
        assert!(
            missing.contains("people.txt") && missing.contains("does not exist"),
            "{}: {missing}",
            form.name
        );
        fs::write(text.path(), form.people).unwrap();
        let (objects, reported) = text.full();
        let expected = BTreeMap::from([(ADA.to_string(), of_id("1")), (ALAN.to_string(), of_id("2"))]);
        assert_eq!((objects, reported), (expected, Vec::new()), "{}", form.name);
        let mut bytes = form.people.as_bytes().to_vec();
        form.wrong.iter().for_each(|(wrong, _)| bytes.extend(*wrong));
        bytes.extend(form.grace.as_bytes());
        fs::write(text.path(), bytes).unwrap();
        let (objects, reported) = text.full();
        assert_eq!(objects.keys().collect::<Vec<_>>(), [ADA, ALAN, GRACE], "{}", form.name);
        assert_eq!(reported.len(), form.wrong.len(), "{}: {reported:?}", form.name);
        for ((_, expected), reported) in form.wrong.iter().zip(&reported) {
            assert!(reported.starts_with(expected), "{}: {reported}", form.name);
        }
    }
}

#[test]
fn a_line_of_100_mb_is_reported_and_reading_goes_on_behind_it() {
    for form in &FORMS {
        let mut text = Text::new(form);
        let mut file = File::create(text.path()).unwrap();
        file.write_all(form.people.as_bytes()).unwrap();
        file.write_all(form.long.0.as_bytes()).unwrap();
        let piece = vec![b'x'; 1 << 20];
        for _ in 0..100 {
            file.write_all(&piece).unwrap();
        }
        file.write_all(form.long.1.as_bytes()).unwrap();
        file.write_all(form.grace.as_bytes()).unwrap();
        drop(file);
        let (objects, reported) = text.full();
        assert_eq!(objects.keys().collect::<Vec<_>>(), [ADA, ALAN, GRACE], "{}", form.name);
        assert_eq!(reported.len(), 1, "{}: {reported:?}", form.name);
        assert!(
            reported[0].contains("parse-error: ") && reported[0].contains("longer than"),
            "{}: {reported:?}",
            form.name
        );
        // A file is not rewritten if a part of it would be lost.
        let change = text.change(Change::Delete, "1", &[]);
        let before = fs::metadata(text.path()).unwrap().len();
        let refused = text.open().export(&[change]).unwrap_err().to_string();
        assert!(refused.contains("line ") && refused.contains("longer than"), "{}: {refused}", form.name);
        assert_eq!(fs::metadata(text.path()).unwrap().len(), before);
    }
}

#[test]
fn a_target_is_written_anew_and_twice_is_as_good_as_once() {
    for form in &FORMS {
        let mut text = Text::new(form);
        let changes = [
            text.change(
                Change::Add,
                "1",
                &[("id", &["1"]), ("name", &["Ada, L."]), ("mail", &["a@x", "b@x"])],
            ),
            text.change(Change::Add, "2", &[("id", &["2"]), ("name", &["Al"])]),
            text.change(Change::Add, "4", &[("id", &["4"]), ("name", &["Edsger"])]),
        ];
        // A missing file is created.
        for _ in 0..2 {
            assert_eq!(text.open().export(&changes).unwrap(), [Ok(()), Ok(()), Ok(())], "{}", form.name);
            let (objects, reported) = text.full();
            let expected = [ADA, "id=2 name=Al", "id=4 name=Edsger"];
            assert!(
                objects.keys().eq(expected.iter()) && reported.is_empty(),
                "{}: {objects:?} {reported:?}",
                form.name
            );
        }
        let changes = [
            text.change(Change::Update, "2", &[("name", &["Alan"]), ("mail", &["c@x"])]),
            text.change(Change::Delete, "4", &[]),
            text.change(Change::Add, "3", &[("id", &["3"]), ("name", &["Gräce"])]),
            text.change(Change::Delete, "9", &[]),
        ];
        for _ in 0..2 {
            assert_eq!(text.open().export(&changes).unwrap(), vec![Ok(()); 4], "{}", form.name);
            assert_eq!(text.full().0.keys().collect::<Vec<_>>(), [ADA, ALAN, GRACE], "{}", form.name);
        }
        let nobody = text.change(Change::Update, "9", &[("name", &["x"])]);
        let unnamed = ExportedObject { anchor: None, ..nobody.clone() };
        let gone = text.change(Change::Update, "2", &[("mail", &[])]);
        let answers = text.open().export(&[nobody, unnamed, gone]).unwrap();
        assert!(answers[0].as_ref().unwrap_err().0.contains("no object"), "{answers:?}");
        assert!(answers[1].as_ref().unwrap_err().0.contains("anchor"), "{answers:?}");
        assert_eq!(text.full().0.keys().collect::<Vec<_>>(), [ADA, "id=2 name=Alan", GRACE], "{}", form.name);
        assert!(!text.scratch.join("people.txt.new").exists());
    }
}

#[test]
fn what_a_form_cannot_hold_is_refused_and_the_rest_is_written() {
    for (form, refused) in [
        (1, [("name", "a name too long"), ("room", "no such column"), ("name", "two\nlines")].as_slice()),
        (2, &[("name", "two\nlines"), ("name", "a\r")]),
    ] {
        let form = &FORMS[form];
        let mut text = Text::new(form);
        fs::write(text.path(), form.people).unwrap();
        for (attribute, value) in refused.iter().copied() {
            let changes = [
                text.change(Change::Update, "1", &[(attribute, &[value])]),
                text.change(Change::Add, "5", &[("id", &["5"]), (attribute, &[value])]),
                text.change(Change::Update, "2", &[("mail", &["c@x"])]),
            ];
            let answers = text.open().export(&changes).unwrap();
            let is_right = answers[0].is_err() && answers[1].is_err() && answers[2].is_ok();
            assert!(is_right && answers[0].as_ref().unwrap_err().0.contains(attribute), "{answers:?}");
            assert_eq!(text.full().0.keys().collect::<Vec<_>>(), [ADA, ALAN], "{}", form.name);
        }
    }
    // Several values need a separator.
    let keys =
        "columns = [{ name = \"id\", start = 1, width = 3 }, { name = \"mail\", start = 5, width = 8 }]";
    let mut text = Text::with("fixed-width", keys);
    let change = text.change(Change::Add, "1", &[("id", &["1"]), ("mail", &["a", "b"])]);
    let answers = text.open().export(&[change]).unwrap();
    assert!(answers[0].as_ref().unwrap_err().0.contains("`value_separator`"), "{answers:?}");
}

#[test]
fn an_entry_is_renamed_and_may_be_known_by_its_name() {
    let mut text = Text::with("ldif", "");
    fs::write(text.path(), "dn: id=1,ou=a\nid: 1\nname: Ada\n\n").unwrap();
    let mut change = text.change(Change::Update, "1", &[("name", &["Ada L."])]);
    change.new_dn = Some("id=1,ou=b".into());
    assert_eq!(text.open().export(&[change]).unwrap(), [Ok(())]);
    assert_eq!(text.scratch.text("people.txt"), "dn: id=1,ou=b\nid: 1\nname: Ada L.\n\n");
    assert!(text.open().capabilities().rename);
    text.config.anchor = vec!["dn".into()];
    assert!(!text.open().capabilities().rename);
    let (objects, _) = text.full();
    let anchor = IndexKey::of_parts(std::iter::once(&b"id=1,ou=b"[..]));
    assert_eq!(objects, BTreeMap::from([("id=1 name=Ada L.".to_string(), anchor)]));
}

#[test]
fn permissions_of_a_target_stay_as_they_are() {
    use std::os::unix::fs::PermissionsExt as _;
    let form = &FORMS[0];
    let mut text = Text::new(form);
    fs::write(text.path(), form.people).unwrap();
    fs::set_permissions(text.path(), fs::Permissions::from_mode(0o600)).unwrap();
    let change = text.change(Change::Delete, "1", &[]);
    assert_eq!(text.open().export(&[change]).unwrap(), [Ok(())]);
    assert_eq!(fs::metadata(text.path()).unwrap().permissions().mode() & 0o777, 0o600);
}

/// A file with a file of changes.
fn with_changes() -> Text {
    let text =
        Text::with("delimited", "value_separator = \";\"\ndelta = \"changes.txt\"\nchange_column = \"what\"");
    fs::write(text.path(), FORMS[0].people).unwrap();
    text
}

impl Text {
    fn changes(&self, lines: &str) {
        fs::write(self.scratch.join("changes.txt"), lines).unwrap();
    }

    fn delta(&mut self, mark: &str) -> (BTreeMap<String, IndexKey>, Vec<String>, String) {
        let mut import = self.open().delta_import(mark).unwrap();
        let (objects, reported) = self.read(import.as_mut(), 2);
        (objects, reported, import.watermark().unwrap())
    }
}

#[test]
fn a_file_of_changes_is_read_on_from_where_it_was_read_to() {
    let mut text = with_changes();
    assert!(text.open().capabilities().delta_import);
    // There is no file of changes yet.
    let mark = text.open().full_import().unwrap().watermark().unwrap();
    assert_eq!(text.delta(&mark), (BTreeMap::new(), Vec::new(), mark.clone()));
    // The last change of an object counts; the columns have another order.
    let first = "what,mail,id,name\nupdate,,2,Al\nadd,,3,Grace\nDelete,,2,\nmodify,,3,Gräce\n";
    text.changes(first);
    let (objects, reported, mark) = text.delta(&mark);
    let gone = ("gone 0".to_string(), of_id("2"));
    let grace = (GRACE.to_string(), of_id("3"));
    assert!(
        reported.is_empty() && objects.contains_key(GRACE) && objects.values().any(|of| *of == gone.1),
        "{objects:?}"
    );
    assert_eq!(objects.len(), 2);
    assert_eq!(text.delta(&mark), (BTreeMap::new(), Vec::new(), mark.clone()));
    // Lines are appended.
    text.changes(&format!("{first}add,c@x,2,Alan\n"));
    let (objects, _, mark) = text.delta(&mark);
    assert_eq!(objects, BTreeMap::from([(ALAN.to_string(), of_id("2"))]));
    // Another file replaces it, longer than the previous one.
    let second = format!("what,mail,id,name\nadd,,3,Gräce\n{}", "delete,,2,\n".repeat(20));
    text.changes(&second);
    let (objects, _, mark) = text.delta(&mark);
    assert_eq!(objects.len(), 2, "{objects:?}");
    assert_eq!(objects.get(&grace.0), Some(&grace.1));
    // It is deleted, and created again.
    fs::remove_file(text.scratch.join("changes.txt")).unwrap();
    let (objects, _, mark) = text.delta(&mark);
    assert!(objects.is_empty());
    text.changes(&second);
    assert_eq!(text.delta(&mark).0.len(), 2);
    // A full import counts as having read its current content.
    let mark = text.open().full_import().unwrap().watermark().unwrap();
    assert!(text.delta(&mark).0.is_empty());
}

#[test]
fn what_is_wrong_in_a_file_of_changes_is_reported_with_its_line() {
    let mut text = with_changes();
    let mark = text.open().full_import().unwrap().watermark().unwrap();
    let lines = "what,id,name,mail\nadd,3,Gräce,\nmoved,4,x,\nadd,,x,\nadd,5\nadd,6,ha";
    text.changes(lines);
    let (objects, reported, _) = text.delta(&mark);
    assert_eq!(objects.keys().collect::<Vec<_>>(), [GRACE]);
    for (reported, expected) in reported.iter().zip([
        "line 3: missing-change-type: \"moved\" is not add",
        "line 4: missing-anchor",
        "line 5: parse-error: 2 fields",
        "line 6: parse-error: the last line has no end",
    ]) {
        assert!(reported.starts_with(expected), "{reported}");
    }
    assert_eq!(reported.len(), 4, "{reported:?}");
    // Lines are counted from the beginning of the file, wherever reading begins.
    text.changes("what,id,name,mail\nadd,3,Gräce,\n");
    let (_, _, mark) = text.delta(&mark);
    text.changes("what,id,name,mail\nadd,3,Gräce,\nadd,5\n");
    assert!(text.delta(&mark).1[0].starts_with("line 3: "));
    for (lines, reported) in [
        (
            "id,name,mail\n1,x,\n",
            "the column `what` with the kind of change does not exist; it has id, name, mail",
        ),
        ("what,id,name\nadd,1,x\n", "lacks mail"),
        ("what,name,mail\nadd,x,\n", "lacks id"),
    ] {
        text.changes(lines);
        let refused = text.open().delta_import(&mark).err().unwrap().to_string();
        assert!(refused.contains("changes.txt") && refused.contains(reported), "{refused}");
    }
    assert!(text.open().delta_import("?").is_err());
    let mut without = Text::new(&FORMS[0]);
    assert!(without.open().delta_import(&mark).err().unwrap().to_string().contains("run a full-import"));
}

/// Parts of valid files, and parts that break them.
const PIECES: [&[u8]; 22] = [
    b"id",
    b"name",
    b"mail",
    b"dn",
    b"1",
    b"2",
    b"",
    b"\n",
    b"\n",
    b"\n\n",
    b"\r\n",
    b"\r",
    b":",
    b": ",
    b":: ",
    b",",
    b";",
    b"\"",
    b" ",
    b"    ",
    b"\xff",
    b"\xc3\xa4",
];

/// Reads everything; none if it cannot be read.
fn everything(agent: &mut dyn Agent, most: usize) -> Option<Vec<Imported>> {
    let mut import = agent.full_import().ok()?;
    let (mut all, mut batch) = (Vec::new(), Vec::new());
    loop {
        import.read(most, &mut batch).ok()?;
        if batch.is_empty() {
            return Some(all);
        }
        all.append(&mut batch);
    }
}

fn objects(all: &[Imported]) -> Vec<(IndexKey, Hologram)> {
    let object = |imported: &Imported| match imported {
        Imported::Object(object) => Some((object.anchor, object.image.clone())),
        _ => None,
    };
    all.iter().filter_map(object).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    #[test]
    fn whatever_a_file_holds_it_reads_the_same_and_keeps_its_objects(
        form in 0..FORMS.len(),
        pieces in proptest::collection::vec(0..PIECES.len(), 0..60),
        begins_well in any::<bool>(),
    ) {
        let mut text = Text::new(&FORMS[form]);
        let mut file = if begins_well { FORMS[form].people.as_bytes().to_vec() } else { Vec::new() };
        pieces.iter().for_each(|piece| file.extend(PIECES[*piece]));
        fs::write(text.path(), &file).unwrap();
        if text.config.attributes().is_err() {
            return Ok(());
        }
        let added = text.change(Change::Add, "9zz", &[("id", &["9zz"])]);
        let mut agent = text.open();
        let before = everything(agent.as_mut(), 1);
        prop_assert_eq!(&before, &everything(agent.as_mut(), 1000));
        let Some(before) = before else { return Ok(()) };
        let mut expected = objects(&before);
        for _ in 0..2 {
            let Ok(answers) = agent.export(std::slice::from_ref(&added)) else {
                // A file that cannot be rewritten is unchanged.
                prop_assert_eq!(fs::read(text.path()).unwrap(), file);
                return Ok(());
            };
            prop_assert_eq!(answers, [Ok(())]);
        }
        // The name has no effect; in an entry it is an attribute.
        let dn = text.names.attribute("dn").unwrap();
        let mut image: Hologram = added.attributes.iter().cloned().collect();
        if FORMS[form].name == "ldif" {
            image = image
                .iter()
                .map(|(attribute, values)| (attribute, values.iter().map(<[u8]>::to_vec).collect()))
                .chain([(dn, vec![added.dn.clone().into_bytes()])])
                .collect();
        }
        expected.push((added.anchor.unwrap(), image));
        prop_assert_eq!(objects(&everything(agent.as_mut(), 7).unwrap()), expected);
    }
}

#[test]
fn a_column_that_rules_name_and_that_is_not_there_ends_the_import_before_it_takes_values_away() {
    let scratch = Scratch::new();
    let config = |column: &str, name: &str| {
        let text = format!(
            "[store]\nsqlite = \"store.db\"\n[metaverse.person]\nattributes = {{ id = \"text\", name = \"text\", unit = \"text\" }}\n\
             [agents.text]\ntype = \"delimited\"\npath = \"people.csv\"\nanchor = \"id\"\n\
             [[inbound]]\nagent = \"text\"\nto = \"person\"\nproject = true\n\
             flow = {{ id = \"id\", name = {{ expression = \"cs.{name} + '!'\" }}, unit = \"{column}\" }}\n"
        );
        let mut config = connectors::parse(&text).unwrap();
        config.relative_to(scratch.path());
        config
    };
    let import = |config| {
        let mut directory = Metadirectory::open(config).unwrap();
        directory.run(Step { agent: 0, kind: StepKind::FullImport }, &mut |_| true)
    };
    let file = |text: &str| fs::write(scratch.join("people.csv"), text).unwrap();
    let reported = |result: Result<_, StepError>| match result {
        Err(error @ StepError::Agent(_)) => error.to_string(),
        Err(other) => panic!("{other}"),
        Ok::<StepResult, _>(result) => panic!("{result:?}"),
    };
    file("id,name,unit\n1,Ada,Engines\n");
    // A misspelled attribute, in a flow and in an expression.
    assert_eq!(
        reported(import(config("units", "nam"))),
        "importing `text`: the rules read the attributes `nam`, `units`; its system has only `id`, `name`, `unit`"
    );
    assert_eq!(import(config("unit", "name")).unwrap().statistics.of("stage-add"), 1);
    // An attribute that somebody removes or renames.
    file("id,name,department\n1,Ada,Engines\n");
    assert_eq!(
        reported(import(config("unit", "name"))),
        "importing `text`: the rules read the attribute `unit`; its system has only `department`, `id`, `name`"
    );
}
