use std::fmt::Write as _;
use std::io::BufReader;

use proptest::collection::vec;
use proptest::prelude::*;

use super::*;
use crate::ModifyOperation;
use crate::message::{Attribute, List, Operation, Value};

/// The records and errors of a file, one per line.
fn reported(file: &[u8], options: Options) -> String {
    let mut text = String::new();
    let mut reader = Reader::new(file, options);
    loop {
        match reader.next() {
            Ok(Some(record)) => report(&mut text, &record),
            Ok(None) => return text,
            Err(error) => writeln!(text, "! {error}{}", if error.last { " (the end)" } else { "" }).unwrap(),
        }
    }
}

fn report(text: &mut String, record: &Record<'_>) {
    let shown = |value: &[u8]| String::from_utf8_lossy(value).escape_debug().to_string();
    write!(text, "{} {:?}", record.line, record.dn).unwrap();
    for control in &record.controls {
        write!(text, " [{} {} {:?}]", control.oid, control.critical, control.value.map(shown)).unwrap();
    }
    match &record.body {
        Body::Entry(attributes) | Body::Add(attributes) => {
            if matches!(record.body, Body::Add(_)) {
                text.push_str(" add");
            }
            for (name, value) in attributes {
                write!(text, " {name}={}", shown(value)).unwrap();
            }
        }
        Body::Delete => text.push_str(" delete"),
        Body::Modify(changes) => {
            for change in changes {
                let values: Vec<String> = change.values.iter().map(|value| shown(value.0)).collect();
                write!(text, " {} {}{values:?}", change.operation.name(), change.attribute).unwrap();
            }
        }
        Body::ModifyDn { new_rdn, delete_old_rdn, new_superior } => {
            write!(text, " rename {new_rdn} {delete_old_rdn} {new_superior:?}").unwrap();
        }
    }
    text.push('\n');
}

fn check(cases: &[(&str, &str)]) {
    for (file, expected) in cases {
        assert_eq!(reported(file.as_bytes(), Options::default()), *expected, "{file:?}");
    }
}

#[test]
fn entries_are_read() {
    check(&[
        ("", ""),
        ("\n\n# nothing\n of it\n", ""),
        ("version: 1\n", ""),
        ("version: 1\n\ndn: dc=a\ndc: a\n", "3 \"dc=a\" dc=a\n"),
        ("version: 1\ndn: dc=a\ndc: a\n", "2 \"dc=a\" dc=a\n"),
        ("dn: dc=a\ndc: a", "1 \"dc=a\" dc=a\n"),
        ("dn: dc=a\r\ndc: a\r\n\r\ndn: dc=b\r\n", "1 \"dc=a\" dc=a\n4 \"dc=b\"\n"),
        ("\u{feff}dn: dc=a\ndc: a\n", "1 \"dc=a\" dc=a\n"),
        ("dn:\nvendorName: x\n", "1 \"\" vendorName=x\n"),
        ("DN: dc=a\n", "1 \"dc=a\"\n"),
        ("dn:   dc=a\ncn:\nsn:x\ntitle: : y\n", "1 \"dc=a\" cn= sn=x title=: y\n"),
        ("dn:: w6bDuMOl\ncn:: aGFsbG8=\nsn::aGFsbG8\n", "1 \"æøå\" cn=hallo sn=hallo\n"),
        ("dn: cn=a\n b,dc=c\ncn: a\n  \n b\n", "1 \"cn=ab,dc=c\" cn=a b\n"),
        ("dn: dc=a\n# between\n  folded\ncn: a\n#\n\n\n\n#\ndn: dc=b\n", "1 \"dc=a\" cn=a\n10 \"dc=b\"\n"),
        (
            "dn: dc=a\ncn;lang-de: a\n2.5.4.3: b\nmember;range=0-9: c\n",
            "1 \"dc=a\" cn;lang-de=a 2.5.4.3=b member;range=0-9=c\n",
        ),
        ("dn: dc=a\ncn: J\u{fc}rgen\n", "1 \"dc=a\" cn=Jürgen\n"),
        ("dn: dc=a\ncn: a \ncn: b\u{0}c\n", "1 \"dc=a\" cn=a  cn=b\\0c\n"),
        // A fold within a character, and a fold within base64.
        ("dn: dc=a\ncn:: aGF\n sbG\n 8=\n", "1 \"dc=a\" cn=hallo\n"),
    ]);
    let mut halves = b"dn: dc=a\ncn: \xc3\n \xa6\n".to_vec();
    assert_eq!(reported(&halves, Options::default()), "1 \"dc=a\" cn=æ\n");
    halves.truncate(halves.len() - 3);
    assert_eq!(reported(&halves, Options::default()), "1 \"dc=a\" cn=\u{fffd}\n");
}

#[test]
fn changes_are_read() {
    check(&[
        ("dn: dc=a\nchangetype: add\ndc: a\n", "1 \"dc=a\" add dc=a\n"),
        ("dn: dc=a\nchangetype: delete\n", "1 \"dc=a\" delete\n"),
        (
            "dn: dc=a\ncontrol: 1.2.840.113556.1.4.805 true\nchangetype: delete\n",
            "1 \"dc=a\" [1.2.840.113556.1.4.805 true None] delete\n",
        ),
        (
            "dn: dc=a\ncontrol: 1.2 false: x\ncontrol:1.3:: eHk=\ncontrol: 1.4\nchangetype: Delete\n",
            "1 \"dc=a\" [1.2 false Some(\"x\")] [1.3 false Some(\"xy\")] [1.4 false None] delete\n",
        ),
        (
            "dn: cn=a\nchangetype: modrdn\nnewrdn: cn=b\ndeleteoldrdn: 1\n",
            "1 \"cn=a\" rename cn=b true None\n",
        ),
        (
            "dn: cn=a\nchangetype: moddn\nnewrdn:: Y249w6Y=\ndeleteoldrdn: 0\nnewsuperior: dc=c\n",
            "1 \"cn=a\" rename cn=æ false Some(\"dc=c\")\n",
        ),
        ("dn: cn=a\nchangetype: modify\n", "1 \"cn=a\"\n"),
        (
            "dn: cn=a\nchangetype: modify\nadd: mail\nmail: x\nMAIL:: eQ==\n-\ndelete: title\n-\nreplace: sn\nsn: z\n-\nincrement: uidNumber\nuidNumber: 1\n",
            "1 \"cn=a\" add mail[\"x\", \"y\"] delete title[] replace sn[\"z\"] increment uidNumber[\"1\"]\n",
        ),
        (
            "dn: cn=a\nchangetype: modify\nreplace: description\n-\n\ndn: cn=b\nchangetype: delete\n",
            "1 \"cn=a\" replace description[]\n6 \"cn=b\" delete\n",
        ),
    ]);
}

#[test]
fn bad_records_are_reported_and_passed_over() {
    let good = "\n\ndn: dc=z\n";
    let cases = [
        (
            "cn: a",
            "line 1: a record begins with `dn:`, and this one does not: only comments and blank lines may precede it; use ldapsearch with -LLL",
        ),
        (
            "dn: dc=a\ncn",
            "line 2: this line has no colon: write `name: value`, and begin a line that goes on with a blank",
        ),
        (
            "dn: dc=a\nc n: x",
            "line 2: the text before the colon is not a name of an attribute: a name has letters, digits, `-`, `.`, `_` and `;`",
        ),
        (
            "dn: dc=a\n: x",
            "line 2: the text before the colon is not a name of an attribute: a name has letters, digits, `-`, `.`, `_` and `;`",
        ),
        (
            "dn: dc=a\nuserPassword:: &secret",
            "line 2: the value of userPassword is not base64: write one colon for plain text, two for base64",
        ),
        ("dn:: /w==", "line 1: the value of dn is not UTF-8: write names in UTF-8"),
        (
            " x",
            "line 1: a line that begins with a blank continues the line before, and there is none: remove the blank",
        ),
        ("dn: dc=a\ndn: dc=b", "line 2: `dn` is not allowed here: put a blank line before the next record"),
        ("dn: dc=a\ncn: b\n-", "line 3: `-` is not allowed here: `-` ends a part of `changetype: modify`"),
        (
            "dn: dc=a\nchangetype: rename",
            "line 2: this changetype is not known: write add, delete, modify, modrdn or moddn",
        ),
        (
            "dn: dc=a\nchangetype: delete\ncn: a",
            "line 3: `cn` is not allowed here: `changetype: delete` has no further lines",
        ),
        (
            "dn: dc=a\nchangetype: modify\nmail: a",
            "line 3: `mail` is not allowed here: write `add:`, `delete:`, `replace:` or `increment:` and an attribute",
        ),
        (
            "dn: dc=a\nchangetype: modify\nadd: mail\nsn: a",
            "line 4: `sn` is not allowed here: end this part with a line `-`, or give it the name of its first line",
        ),
        (
            "dn: dc=a\nchangetype: modify\nadd:",
            "line 3: this is not a name of an attribute: write one behind the colon",
        ),
        (
            "dn: dc=a\nchangetype: modrdn",
            "line 2: newrdn or deleteoldrdn is missing: write newrdn, deleteoldrdn and, to move it, newsuperior, in this order",
        ),
        (
            "dn: dc=a\nchangetype: modrdn\nnewrdn: cn=b\nnewsuperior: dc=c\n",
            "line 4: `newsuperior` is not allowed here: write newrdn, deleteoldrdn and, to move it, newsuperior, in this order",
        ),
        (
            "dn: dc=a\nchangetype: modrdn\nnewrdn: cn=b\ndeleteoldrdn: yes",
            "line 4: deleteoldrdn is neither 0 nor 1: 1 takes the old values from the entry",
        ),
        (
            "dn: dc=a\ncontrol: x true\nchangetype: delete",
            "line 2: this control cannot be read: write `control: 1.2.3 true`, and `: value` after it if it has a value",
        ),
        (
            "dn: dc=a\ncontrol: 1.2 maybe\nchangetype: delete",
            "line 2: this control cannot be read: write `control: 1.2.3 true`, and `: value` after it if it has a value",
        ),
        (
            "dn: dc=a\ncontrol: 1.2 true\ndc: a",
            "line 1: controls go with a change, and this record is an entry: write `changetype:` after the controls",
        ),
        (
            "dn: dc=a\nphoto:< file:///etc/hostname",
            "line 2: the value is in another file, file:///etc/hostname, and reading it is not allowed: allow it if you trust who wrote this file, or put the value here in base64",
        ),
    ];
    for (file, error) in cases {
        let line = file.trim_end().lines().count() + 2;
        let expected = format!("! {error}\n{line} \"dc=z\"\n");
        assert_eq!(reported(format!("{}{good}", file.trim_end()).as_bytes(), Options::default()), expected);
    }
}

#[test]
fn what_is_no_ldif_ends_the_reading() {
    for (file, expected) in [
        (
            &b"version: 2\n\ndn: dc=a\n"[..],
            "! line 1: this version of LDIF is not supported: version 1 is supported (RFC 2849) (the end)\n",
        ),
        (
            b"\xff\xfed\0n\0",
            "! line 1: this file is UTF-16: convert it, for instance with: iconv -f UTF-16 -t UTF-8 (the end)\n",
        ),
    ] {
        assert_eq!(reported(file, Options::default()), expected);
    }
    struct Broken;
    impl std::io::Read for Broken {
        fn read(&mut self, _: &mut [u8]) -> std::io::Result<usize> {
            Err(std::io::Error::other("the disk is gone"))
        }
    }
    let mut reader = Reader::new(BufReader::new(Broken), Options::default());
    let error = reader.next().unwrap_err();
    assert_eq!(
        (error.to_string().as_str(), error.last),
        ("line 1: the file cannot be read: the disk is gone", true)
    );
    assert_eq!(reader.next(), Ok(None));
}

#[test]
fn limits_hold_and_reading_goes_on_behind() {
    let options = Options { line_bytes_max: 20, record_bytes_max: 300, read_file_urls: false };
    let long = format!("dn: dc=a\ncn: {}\nsn: b\n\ndn: dc=b\n", "x".repeat(17));
    assert_eq!(
        reported(long.as_bytes(), options.clone()),
        "! line 2: this line is longer than 20 bytes: raise the limit of a line\n5 \"dc=b\"\n"
    );
    // A line of exactly 20 bytes, without its line end, is within the limit, also if it is folded.
    for file in ["dn: dc=a\ncn: 0123456789abcdef\r\n", "dn: dc=a\ncn: 01234567\r\n 89abcdef\r\n"] {
        assert_eq!(reported(file.as_bytes(), options.clone()), "1 \"dc=a\" cn=0123456789abcdef\n");
    }
    // Of two carriage returns, only the last one belongs to the line end.
    let file = "dn: dc=a\ncn: 0123456789abcde\r\r\n";
    assert_eq!(reported(file.as_bytes(), options.clone()), "1 \"dc=a\" cn=0123456789abcde\\r\n");
    let folded = "dn: dc=a\ncn: 01234567\n 89abcdef\n g\n\ndn: dc=b\n";
    assert_eq!(
        reported(folded.as_bytes(), options.clone()),
        "! line 4: this line is longer than 20 bytes: raise the limit of a line\n6 \"dc=b\"\n"
    );
    let many = format!("dn: dc=a\n{}\ndn: dc=b\n", "cn: a\n".repeat(4));
    assert_eq!(
        reported(many.as_bytes(), options.clone()),
        "! line 5: this record is longer than 300 bytes: raise the limit of a record\n7 \"dc=b\"\n"
    );
    // Comments have no length limit.
    let comment = format!("# {}\ndn: dc=a\n", "x".repeat(100));
    assert_eq!(reported(comment.as_bytes(), options), "2 \"dc=a\"\n");
}

#[test]
fn a_line_of_a_hundred_megabytes_takes_no_memory() {
    /// A DN, a name, and a value of 100 MB.
    struct Endless(usize);
    impl std::io::Read for Endless {
        fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
            let begin = b"dn: dc=a\ncn: ";
            let length = buffer.len().min(100_000_000 - self.0);
            buffer[..length].fill(b'x');
            if self.0 == 0 {
                buffer[..begin.len()].copy_from_slice(begin);
            }
            self.0 += length;
            Ok(length)
        }
    }
    let options = Options { line_bytes_max: 1 << 20, ..Options::default() };
    let mut reader = Reader::new(BufReader::with_capacity(1 << 20, Endless(0)), options);
    assert_eq!(reader.next().unwrap_err().line, 2);
    assert!(reader.memory_bytes() < 4 << 20, "{} bytes are held", reader.memory_bytes());
    assert_eq!(reader.next(), Ok(None));
}

#[test]
fn what_one_huge_record_took_is_given_back() {
    let file = format!("dn: dc=a\nphoto: {}\n\ndn: dc=b\n", "x".repeat(8 << 20));
    let mut reader = Reader::new(file.as_bytes(), Options::default());
    assert!(reader.next().unwrap().is_some());
    assert!(reader.memory_bytes() >= 8 << 20);
    assert_eq!(reader.next().unwrap().unwrap().dn, "dc=b");
    assert!(reader.memory_bytes() < 1 << 20, "{} bytes are held", reader.memory_bytes());
}

#[test]
fn files_are_read_where_it_is_allowed() {
    let scratch = testkit::Scratch::new();
    let path = scratch.file("a photo.jpg", b"\xff\xd8 secret");
    let options = Options { read_file_urls: true, ..Options::default() };
    let at = path.display().to_string().replace(' ', "%20");
    for url in [format!("file://{at}"), format!("FILE:{at}"), format!("file://localhost{at}")] {
        let file = format!("dn: dc=a\nphoto:< {url}\ncn: a\n");
        let mut reader = Reader::new(file.as_bytes(), options.clone());
        let record = reader.next().unwrap().unwrap();
        assert_eq!(record.body, Body::Entry(vec![("photo", &b"\xff\xd8 secret"[..]), ("cn", b"a")]));
    }
    let small = Options { line_bytes_max: 8, ..options.clone() };
    for (url, allowed, what) in [
        (format!("file://{at}"), &small, "this line is longer than 8 bytes"),
        ("file:///nowhere/at/all".into(), &options, "/nowhere/at/all cannot be read: No such file"),
        ("file:///dev/zero".into(), &options, "/dev/zero cannot be read: it is not a regular file"),
        ("file:///%zz".into(), &options, "file:///%zz does not name a file of this machine"),
        ("http://x/y".into(), &options, "http://x/y does not name a file of this machine"),
        ("file://elsewhere/y".into(), &options, "file://elsewhere/y does not name a file of this machine"),
    ] {
        let reported = reported(format!("dn: dc=a\nphoto:< {url}\n").as_bytes(), allowed.clone());
        assert!(reported.starts_with(&format!("! line 2: {what}")), "{reported}");
    }
}

#[test]
fn the_examples_of_rfc_2849_are_read() {
    // Examples 1, 3, 5 and 6 of the RFC, with fewer similar lines.
    let file = "version: 1
dn: cn=Barbara Jensen, ou=Product Development, dc=airius, dc=com
objectclass: top
telephonenumber: +1 408 555 1212
description: A big sailing fan.

dn: cn=Gern Jensen, ou=Product Testing, dc=airius, dc=com
description:: V2hhdCBhIGNhcmVmdWwgcmVhZGVyIHlvdSBhcmUhICBUaGlzIHZhbHVlIGlzIGJhc2UtNjQt
 ZW5jb2RlZCBiZWNhdXNlIGl0IGhhcyBhIGNvbnRyb2wgY2hhcmFjdGVyIGluIGl0IChhIENSKS4NICBCeSB0
 aGUgd2F5LCB5b3Ugc2hvdWxkIHJlYWxseSBnZXQgb3V0IG1vcmUu

# Modify an entry's relative distinguished name
dn: cn=Paul Jensen, ou=Product Development, dc=airius, dc=com
changetype: modrdn
newrdn: cn=Paula Jensen
deleteoldrdn: 1

# Delete an entry. The operation will attach the LDAPv3 Tree Delete Control
dn: ou=Product Development, dc=airius, dc=com
control: 1.2.840.113556.1.4.805 true
changetype: delete
";
    let expected = "2 \"cn=Barbara Jensen, ou=Product Development, dc=airius, dc=com\" objectclass=top telephonenumber=+1 408 555 1212 description=A big sailing fan.
7 \"cn=Gern Jensen, ou=Product Testing, dc=airius, dc=com\" description=What a careful reader you are!  This value is base-64-encoded because it has a control character in it (a CR).\\r  By the way, you should really get out more.
13 \"cn=Paul Jensen, ou=Product Development, dc=airius, dc=com\" rename cn=Paula Jensen true None
19 \"ou=Product Development, dc=airius, dc=com\" [1.2.840.113556.1.4.805 true None] delete
";
    assert_eq!(reported(file.as_bytes(), Options::default()), expected);
}

#[test]
fn values_are_written_as_the_rfc_asks() {
    let long = "x".repeat(80);
    let cases: &[(&[u8], &str)] = &[
        (b"", "cn:\n"),
        (b"Ann", "cn: Ann\n"),
        (b" Ann", "cn:: IEFubg==\n"),
        (b"Ann ", "cn:: QW5uIA==\n"),
        (b":a", "cn:: OmE=\n"),
        (b"<a", "cn:: PGE=\n"),
        (b"a:<b\t\x01\x7f", "cn: a:<b\t\x01\x7f\n"),
        (b"-", "cn: -\n"),
        (b"a\nb", "cn:: YQpi\n"),
        (b"a\rb", "cn:: YQ1i\n"),
        (b"a\0b", "cn:: YQBi\n"),
        ("æ".as_bytes(), "cn:: w6Y=\n"),
        (&long.as_bytes()[..72], &format!("cn: {}\n", &long[..72])),
        (&long.as_bytes()[..73], &format!("cn: {}\n x\n", &long[..72])),
    ];
    for (value, expected) in cases {
        let mut out = Vec::new();
        write_attribute(&mut out, "cn", value);
        assert_eq!(String::from_utf8_lossy(&out), *expected);
    }
    let mut out = Vec::new();
    write_version(&mut out);
    write_comment(&mut out, "people\nof 2 places");
    write_dn(&mut out, "cn=Jörg");
    assert_eq!(String::from_utf8_lossy(&out), "version: 1\n\n# people\n# of 2 places\ndn:: Y249SsO2cmc=\n");
}

#[test]
fn a_record_is_the_request_that_carries_it_out() {
    let file = "dn: cn=a\nobjectClass: person\ncn: a\nOBJECTCLASS: top\nsn: b\n";
    let mut reader = Reader::new(file.as_bytes(), Options::default());
    let record = reader.next().unwrap().unwrap();
    record.with_operation(|operation, controls| {
        let expected = [
            Attribute { name: "objectClass", values: List::from(&[Value(b"person"), Value(b"top")]) },
            Attribute { name: "cn", values: List::from(&[Value(b"a")]) },
            Attribute { name: "sn", values: List::from(&[Value(b"b")]) },
        ];
        assert_eq!(*operation, Operation::AddRequest { dn: "cn=a", attributes: List::from(&expected) });
        assert!(controls.is_empty());
    });
}

#[test]
fn nothing_that_is_shown_for_debugging_holds_a_value() {
    let file = "dn: cn=a\ncontrol: 1.2: hunter2\nchangetype: modify\nadd: userPassword\nuserPassword: hunter2\n\ndn: cn=b\nuserPassword: hunter2\n";
    let mut reader = Reader::new(file.as_bytes(), Options::default());
    while let Some(record) = reader.next().unwrap() {
        assert!(!format!("{record:?}").contains("hunter2"));
    }
}

fn name() -> impl Strategy<Value = String> {
    "[a-zA-Z][a-zA-Z0-9-]{0,12}(;[a-z]{1,5})?".prop_filter("words of the format", |name| {
        !["dn", "control", "changetype"].iter().any(|word| name.eq_ignore_ascii_case(word))
    })
}

fn value() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        vec(any::<u8>(), 0..300),
        "[ -~]{0,200}".prop_map(String::into_bytes),
        ".{0,40}".prop_map(String::into_bytes),
        vec(any::<u8>(), 3000..9000),
    ]
}

/// The owned parts of a record.
type Controls = Vec<(String, bool, Option<Vec<u8>>)>;
type Values = Vec<(String, Vec<u8>)>;

#[derive(Clone, Debug)]
enum Change {
    Entry(Values),
    Add(Values),
    Delete,
    Modify(Vec<(u8, String, Vec<Vec<u8>>)>),
    Rename(String, bool, Option<String>),
}

fn change() -> impl Strategy<Value = Change> {
    let values = || vec((name(), value()), 0..6);
    prop_oneof![
        values().prop_map(Change::Entry),
        values().prop_map(Change::Add),
        Just(Change::Delete),
        vec((0..4u8, name(), vec(value(), 0..3)), 0..4).prop_map(Change::Modify),
        (".{0,90}", any::<bool>(), proptest::option::of(".{0,90}"))
            .prop_map(|(rdn, old, to)| Change::Rename(rdn, old, to)),
    ]
}

fn record<'a>(line: u64, dn: &'a str, controls: &'a Controls, change: &'a Change) -> Record<'a> {
    let pairs =
        |values: &'a Values| values.iter().map(|(name, value)| (name.as_str(), value.as_slice())).collect();
    let body = match change {
        Change::Entry(values) => Body::Entry(pairs(values)),
        Change::Add(values) => Body::Add(pairs(values)),
        Change::Delete => Body::Delete,
        Change::Modify(changes) => Body::Modify(
            changes
                .iter()
                .map(|(operation, attribute, values)| Modification {
                    operation: [
                        ModifyOperation::Add,
                        ModifyOperation::Delete,
                        ModifyOperation::Replace,
                        ModifyOperation::Increment,
                    ][usize::from(*operation)],
                    attribute,
                    values: values.iter().map(|value| Value(value)).collect(),
                })
                .collect(),
        ),
        Change::Rename(new_rdn, delete_old_rdn, new_superior) => {
            Body::ModifyDn { new_rdn, delete_old_rdn: *delete_old_rdn, new_superior: new_superior.as_deref() }
        }
    };
    let controls = match change {
        Change::Entry(_) => Vec::new(),
        _ => controls
            .iter()
            .map(|(oid, critical, value)| Control { oid, critical: *critical, value: value.as_deref() })
            .collect(),
    };
    Record { line, dn, controls, body }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn what_is_written_is_read_back(
        records in vec((".{0,120}", vec(("[0-2](\\.[0-9]{1,4}){1,9}", any::<bool>(), proptest::option::of(value())), 0..3), change()), 0..5)
    ) {
        let mut out = Vec::new();
        write_version(&mut out);
        for (dn, controls, change) in &records {
            write_record(&mut out, &record(0, dn, controls, change));
        }
        for line in out.split(|byte| *byte == b'\n') {
            prop_assert!(line.len() <= 76, "{}", String::from_utf8_lossy(line));
            prop_assert!(line.iter().all(|byte| *byte < 128 && *byte != 0 && *byte != b'\r'));
        }
        let mut reader = Reader::new(out.as_slice(), Options::default());
        for (dn, controls, change) in &records {
            let read = reader.next().unwrap().unwrap();
            prop_assert_eq!(&read, &record(read.line, dn, controls, change));
        }
        prop_assert_eq!(reader.next(), Ok(None));
    }

    #[test]
    fn whatever_is_in_a_file_it_is_read_to_its_end_in_pieces_of_any_size(
        file in prop_oneof![
            vec(any::<u8>(), 0..200),
            vec(prop_oneof![Just("dn: a"), Just("dn:: YQ"), Just("\n"), Just("\n\n"), Just("\r\n"), Just(" "), Just("#"),
                Just("cn: b"), Just("cn:<"), Just("-"), Just("changetype: "), Just("modify"), Just("add: cn"), Just("control: 1.2 "),
                Just("true"), Just(":"), Just("newrdn: x"), Just("deleteoldrdn: 1"), Just("\r"), Just("version: 1"), Just("\u{e6}")], 0..40)
                .prop_map(|pieces| pieces.concat().into_bytes()),
        ],
        size in 3usize..9,
        line_bytes_max in 0usize..40,
        record_bytes_max in 0usize..600,
    ) {
        let options = Options { line_bytes_max, record_bytes_max, read_file_urls: false };
        let whole = reported(&file, options.clone());
        let mut text = String::new();
        let mut reader = Reader::new(BufReader::with_capacity(size, file.as_slice()), options);
        loop {
            match reader.next() {
                Ok(Some(record)) => report(&mut text, &record),
                Ok(None) => break,
                Err(error) => writeln!(text, "! {error}{}", if error.last { " (the end)" } else { "" }).unwrap(),
            }
        }
        prop_assert_eq!(text, whole);
        let lines = reader.lines();
        prop_assert!(lines <= file.len() as u64 + 1);
    }
}
