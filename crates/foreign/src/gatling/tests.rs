use super::*;

fn read(bytes: &[u8]) -> Result<LoadRun, Fault> {
    crate::testing::run("gatling", bytes, &Options::default())
}

/// Operations with their completed and failed requests.
fn totals(run: &LoadRun) -> Vec<(String, u64, u64)> {
    let of = |name: &str, part: fn(&model::Interval) -> u64| {
        run.intervals.iter().filter(|interval| interval.operation == name).map(part).sum()
    };
    run.histograms
        .keys()
        .map(|name| (name.clone(), of(name, |of| of.completed), of(name, |of| of.failed)))
        .collect()
}

fn expected() -> Vec<(String, u64, u64)> {
    vec![("Shop / Cart / Add".into(), 1, 1), ("Home".into(), 1, 0)].into_iter().rev().collect()
}

/// The same run as different versions write it.
const TEXTS: [(&str, &str); 5] = [
    (
        "2",
        "assertion of 2.1\n\
         a.Sim\tsim\tRUN\t1500000000000\t \t2.0\n\
         Users\t1\tUSER\tSTART\t1500000000000\t1500000000000\n\
         Users\t1\tREQUEST\t\tHome\t1500000000100\t1500000000101\t1500000000150\t1500000000200\tOK\t \n\
         Users\t1\tREQUEST\tShop,Cart\tAdd\t1500000000300\t1500000000301\t1500000000350\t1500000000450\tKO\tfailed\textra\n\
         Users\t1\tGROUP\tShop,Cart\t1500000000300\t1500000000450\t150\t0\t1\tKO\n\
         Users\t1\tUSER\tEND\t1500000000000\t1500000000450\n",
    ),
    (
        "2",
        "ASSERTION\tAAEC\nRUN\ta.Sim\t\tsim\t1500000000000\t \t2.0\n\
         USER\tUsers\t1\tSTART\t1500000000000\t0\n\
         REQUEST\tUsers\t1\t\tHome\t1500000000100\t1500000000200\tOK\t \n\
         REQUEST\tUsers\t1\tShop,Cart\tAdd\t1500000000300\t1500000000450\tKO\tfailed\n\
         GROUP\tUsers\t1\tShop,Cart\t1500000000300\t1500000000450\t150\tKO\n\
         USER\tUsers\t1\tEND\t1500000000000\t1500000000450\n",
    ),
    (
        "2",
        "RUN\ta.Sim\tsim\t1500000000000\t \t2.0\n\
         USER\tUsers\t1\tSTART\t1500000000000\t0\n\
         REQUEST\tUsers\t1\t\tHome\t1500000000100\t1500000000101\t1500000000150\t1500000000200\tOK\t \n\
         REQUEST\tUsers\t1\tShop,Cart\tAdd\t1500000000300\t1500000000301\t1500000000350\t1500000000450\tKO\tfailed\n",
    ),
    (
        "3.2.1",
        "RUN\ta.Sim\tsim\t1500000000000\t \t3.2.1\n\
         USER\tUsers\t1\tSTART\t1500000000000\t1500000000000\n\
         REQUEST\t1\t\tHome\t1500000000100\t1500000000200\tOK\t \n\
         REQUEST\t1\tShop,Cart\tAdd\t1500000000300\t1500000000450\tKO\tfailed\n\
         GROUP\t1\tShop,Cart\t1500000000300\t1500000000450\t150\tKO\n\
         ERROR\tno value\t1500000000400\n",
    ),
    (
        "3.9.5",
        "RUN\ta.Sim\tsim\t1500000000000\t \t3.9.5\n\
         USER\tUsers\tSTART\t1500000000000\n\
         REQUEST\t\tHome\t1500000000100\t1500000000200\tOK\t \n\
         REQUEST\tShop,Cart\tAdd\t1500000000300\t1500000000450\tKO\tfailed\n\
         REQUEST\t\tIncoming\t1500000000300\t-9223372036854775808\tOK\t \n\
         USER\tUsers\tEND\t1500000000450\n",
    ),
];

#[test]
fn the_text_of_all_versions_is_read() {
    for (version, text) in TEXTS {
        let run = read(text.as_bytes()).unwrap();
        assert_eq!((run.tool, run.version.as_str(), run.workload), ("gatling", version, "http"));
        assert_eq!(totals(&run), expected(), "{text}");
        assert_eq!(run.began_unix_ns, Some(1_500_000_000_100_000_000));
        assert!((run.seconds - 0.35).abs() < 1e-9, "{}", run.seconds);
        assert_eq!(run.facts["gatling.simulation"], Level::Text("a.Sim".into()));
        assert_eq!(run.facts["gatling.users_max"], Level::Count(1));
        assert_eq!(run.facts.contains_key("gatling.errors"), text.contains("ERROR"));
        assert!(!run.notes.iter().any(|note| note.contains("cannot be read")), "{:?}", run.notes);
        assert_eq!(
            run.notes.iter().any(|note| note.contains("left out: 1 request without an end")),
            text.contains("Incoming")
        );
    }
}

#[test]
fn damaged_text_is_noted_or_refused() {
    let (_, text) = TEXTS[4];
    let run = read(text.split("00450\tKO").next().unwrap().as_bytes()).unwrap();
    assert_eq!(totals(&run).len(), 1);
    assert!(run.notes.iter().any(|note| note.contains("line 4 cannot be read")), "{:?}", run.notes);
    for (text, line, expected) in [
        (
            "RUN\t20120101120000\tsim\tdescription\nSCENARIO\ta\t1\tSTART\t1\n",
            1,
            "Gatling 1 are not supported",
        ),
        ("RUN\ta.Sim\tsim\t1500000000000\t \t3.99.0\nREQUEST\tx\ty\n", 2, "Gatling 3.99.0 is not understood"),
        ("RUN\ta.Sim\tsim\t1500000000000\t \t3.9.5\n", 0, "no requests"),
    ] {
        let fault = read(text.as_bytes()).unwrap_err();
        assert_eq!((fault.line, fault.what.contains(expected)), (line, true), "{fault}");
    }
}

/// Writes as Gatling does.
#[derive(Default)]
struct Writer {
    out: Vec<u8>,
    cache: Vec<String>,
}

impl Writer {
    fn int(&mut self, value: i32) -> &mut Self {
        self.out.extend(value.to_be_bytes());
        self
    }

    fn byte(&mut self, value: u8) -> &mut Self {
        self.out.push(value);
        self
    }

    fn string(&mut self, text: &str) -> &mut Self {
        let units: Vec<u16> = text.encode_utf16().collect();
        let is_latin = units.iter().all(|unit| *unit < 256);
        let bytes: Vec<u8> = match is_latin {
            true => units.iter().map(|unit| *unit as u8).collect(),
            false => units.iter().flat_map(|unit| unit.to_le_bytes()).collect(),
        };
        self.int(bytes.len() as i32);
        if !bytes.is_empty() {
            self.out.extend(bytes);
            self.byte(u8::from(!is_latin));
        }
        self
    }

    fn cached(&mut self, text: &str) -> &mut Self {
        match self.cache.iter().position(|known| known == text) {
            Some(at) => self.int(-(at as i32 + 1)),
            None => {
                self.cache.push(text.into());
                let index = self.cache.len() as i32;
                self.int(index).string(text)
            }
        }
    }

    fn request(&mut self, groups: &[&str], name: &str, begin: i32, end: i32, is_ok: bool) {
        self.byte(1).int(groups.len() as i32);
        for group in groups {
            self.cached(group);
        }
        let message = if is_ok { "" } else { "failed" };
        self.cached(name).int(begin).int(end).byte(u8::from(is_ok)).cached(message);
    }
}

fn binary(version: &str) -> Vec<u8> {
    let mut to = Writer::default();
    to.byte(0).string(version).string("a.Sim");
    to.out.extend(1_500_000_000_000_i64.to_be_bytes());
    to.string("über €").int(1).string("Users").int(1).int(3);
    to.out.extend([1, 2, 3]);
    to.byte(2).int(0).byte(1).int(0);
    to.request(&[], "Home", 100, 200, true);
    to.request(&["Shop", "Cart"], "Add", 300, 450, false);
    to.byte(3).int(2).cached("Shop").cached("Cart").int(300).int(450).int(150).byte(0);
    to.byte(4).cached("crash").int(400);
    to.byte(2).int(0).byte(0).int(450);
    to.out
}

#[test]
fn the_binary_log_has_the_same_run() {
    for version in ["3.12.1", "3.13.5", "3.14.9", "3.15.1"] {
        let run = read(&binary(version)).unwrap();
        assert_eq!((run.version.as_str(), run.label.as_str()), (version, "über €"));
        assert_eq!(totals(&run), expected());
        assert_eq!(run.began_unix_ns, Some(1_500_000_000_100_000_000));
        assert_eq!(run.facts["gatling.users_max"], Level::Count(1));
        assert_eq!(run.facts["gatling.errors"], Level::Count(1));
    }
    let fault = read(&binary("4.0.0")).unwrap_err();
    assert_eq!(fault.what, "the binary log of Gatling 4.0.0 is not understood");
    assert!(!fault.help.is_empty());
}

#[test]
fn a_damaged_binary_log_has_what_was_whole() {
    let whole = binary("3.13.5");
    for length in 0..whole.len() {
        if let Ok(run) = read(&whole[..length]) {
            assert!(!totals(&run).is_empty());
        }
    }
    let mut damaged = whole.clone();
    damaged.extend([9, 9]);
    let run = read(&damaged).unwrap();
    assert!(run.notes.iter().any(|note| note.contains("unknown kind 9")), "{:?}", run.notes);
    damaged.truncate(whole.len());
    damaged.extend([1, 0x7f, 0xff, 0xff, 0xff]);
    let run = read(&damaged).unwrap();
    assert!(run.notes.iter().any(|note| note.contains("too many items")), "{:?}", run.notes);
}

#[test]
fn files_of_others_are_not_taken() {
    for text in ["RUN\ta\tb\n", "REQUEST\t\tHome\t1\t2\tOK\n", "\0\0\0\0", "\0\0\0\0\u{6}abcdef\0", "RUN", ""]
    {
        assert!(!(FORMAT.recognize)(&crate::Head::of(text)), "{text:?}");
    }
}

proptest::proptest! {
    #[test]
    fn no_bytes_are_a_panic(at in 0_usize..400, byte in proptest::num::u8::ANY, cut in 0_usize..400) {
        let mut bytes = binary("3.13.5");
        let length = bytes.len();
        bytes[at % length] = byte;
        bytes.truncate(cut.max(1));
        let _ = open(Box::new(std::io::Cursor::new(bytes)), &Options::default());
    }

    #[test]
    fn no_text_is_a_panic(text in "((RUN|REQUEST|USER|GROUP|a)(\t[0-9a-zOK,]{0,14}){0,10}\n){0,8}") {
        let _ = open(Box::new(std::io::Cursor::new(text.into_bytes())), &Options::default());
    }
}
