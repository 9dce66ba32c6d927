//! Measures the entries per second that the metadirectory adds to a directory. The result is a ratio to the
//! rate at which the same connections add the same entries to an empty server of the same kind, without other
//! work.
//!
//!     cargo bench -p plimsoll-metadir --bench export -- --objects 50000 --connections 4 --rounds 3
//!
//! The comparison adds the messages that the metadirectory sent, message by message; a server that answers at
//! once recorded them. Its connections send with one request in flight each, then with as many as the agent
//! has; the faster one is the peer. With `--managers` people refer to their managers, who are added before
//! them. With `--flush` the server flushes each entry to the disk. Without it, the server is at its fastest,
//! so the comparison is hardest. With `--undo` every person is changed, and the undo of this export is compared
//! with the export.

#![allow(clippy::unwrap_used, clippy::expect_used)]

mod shared;

use std::fmt::Write as _;
use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Instant;

use ldap::ResultCode;
use ldap::message::{Frame, LdapResult, List, Message, Operation, frame};
use people::{ATTRIBUTES, Attribute, Population};
use plimsoll_metadir::config::StepKind;
use plimsoll_metadir::metadirectory::{Metadirectory, UndoOptions};
use shared::{Folder, Kind, cpu_s, memory_mib, open, run, say, summary};
use testkit::slapd::{ROOT_DN, ROOT_PASSWORD, SUFFIX, Slapd, SlapdOptions};

/// Number of attributes of a person, without the object classes.
const ATTRIBUTES_OF: usize = 25;
/// Number of objects that are committed together.
const BATCH: usize = 10_000;
/// Requests in flight on a connection of the agent.
const IN_FLIGHT: usize = 32;
/// The longest message of a person.
const MESSAGE_BYTES: usize = 1 << 20;

// Indexes of the agents, which are sorted by name.
const DIRECTORY: usize = 0;
const PEOPLE: usize = 1;

struct Settings {
    objects: u64,
    connections: usize,
    rounds: usize,
    managers: bool,
    flush: bool,
    undo: bool,
}

/// The same allocator as in the program.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() {
    let mut words = std::env::args().skip(1).filter(|word| word != "--bench");
    let mut settings =
        Settings { objects: 50_000, connections: 4, rounds: 3, managers: false, flush: false, undo: false };
    let mut stores = Vec::new();
    while let Some(word) = words.next() {
        let mut number = || words.next().and_then(|n| n.parse::<u64>().ok()).expect("a number");
        match word.as_str() {
            "--objects" => settings.objects = number(),
            "--connections" => settings.connections = number() as usize,
            "--rounds" => settings.rounds = number() as usize,
            "--managers" => settings.managers = true,
            "--flush" => settings.flush = true,
            "--undo" => settings.undo = true,
            "--store" => stores.push(words.next().expect("--store sqlite|postgres")),
            other => panic!(
                "{other}: --objects N, --connections C, --rounds R, --store sqlite|postgres, --managers, --flush, --undo"
            ),
        }
    }
    let folder = Folder::new("export");
    let kinds = Kind::of(&stores, &folder);
    settings.source(&folder, "");
    if settings.undo {
        (0..settings.rounds).for_each(|_| kinds.iter().for_each(|kind| settings.take_back(&folder, kind)));
        return;
    }
    let messages = settings.record(&folder);
    say(&format!(
        "{} people of {ATTRIBUTES_OF} attributes{}, {BATCH} a commit, {} connections, slapd (mdb{}); entries/s, CPU us an entry",
        settings.objects,
        if settings.managers { ", one of them the manager" } else { "" },
        settings.connections,
        if settings.flush { ", which flushes each" } else { ", which does not flush" },
    ));
    say(
        "round  flush ms  store         export  one each  many each  ratio   our CPU  slapd's  beside  memory MiB",
    );
    let mut ratios = vec![Vec::new(); kinds.len()];
    for round in 1..=settings.rounds {
        for (kind, ratios) in kinds.iter().zip(&mut ratios) {
            let flush = folder.flush_ms();
            // The order alternates, because the background load of the machine drifts.
            let mut exported = None;
            let export = || settings.export(&folder, kind);
            if round % 2 == 0 {
                exported = Some(export());
            }
            let one = settings.bare(&messages, 1);
            let many = settings.bare(&messages, IN_FLIGHT);
            let exported = exported.unwrap_or_else(export);
            let ratio = exported.per_s / one.per_s.max(many.per_s);
            say(&format!(
                "{round:>5}  {flush:>8.2}  {:<10}  {:>8.0}  {:>8.0}  {:>9.0}  {ratio:>5.2}  {:>8.0}  {:>7.0}  {:>6.0}  {:>10}",
                kind.name(),
                exported.per_s,
                one.per_s,
                many.per_s,
                exported.own_cpu_us,
                exported.server_cpu_us,
                many.server_cpu_us,
                exported.memory_mib,
            ));
            ratios.push(ratio);
        }
    }
    for (kind, ratios) in kinds.iter().zip(&ratios) {
        summary(&format!("export out of {} / bare adds", kind.name()), ratios);
    }
}

/// The result of one way to add all entries.
struct Rate {
    per_s: f64,
    /// CPU time of this program and of the server per entry, microseconds.
    own_cpu_us: f64,
    server_cpu_us: f64,
    /// Peak memory of this program above its memory at the start.
    memory_mib: u64,
}

impl Settings {
    /// The attributes of a person that a directory accepts.
    fn attributes(&self) -> Vec<&'static Attribute> {
        let of_directory = |attribute: &&Attribute| {
            attribute.ldap.is_some()
                && attribute.name != "cn"
                && (self.managers || attribute.name != "manager")
        };
        let cn = ATTRIBUTES.iter().filter(|attribute| attribute.name == "cn");
        ATTRIBUTES.iter().filter(of_directory).take(ATTRIBUTES_OF - 1).chain(cn).collect()
    }

    /// Writes the file of people.
    fn source(&self, folder: &Folder, more: &str) {
        let attributes = self.attributes();
        let population = Population::new(1, self.objects);
        let mut people = population.records(ATTRIBUTES.len());
        let mut writer = csv::Writer::from_path(folder.path("people.csv")).unwrap();
        writer.write_record(attributes.iter().map(|attribute| attribute.name)).unwrap();
        while let Some(person) = people.next() {
            let value = |attribute: &&Attribute| {
                let value = person.get(attribute.name).unwrap_or("");
                let changes = attribute.name == "title" && !more.is_empty();
                if changes { format!("{value}{more}") } else { value.to_string() }
            };
            writer.write_record(attributes.iter().map(value)).unwrap();
        }
        writer.flush().unwrap();
    }

    /// People are imported by 25 flows and exported to a directory.
    fn configuration(&self, folder: &Folder, kind: &Kind, url: &str) -> String {
        let attributes = self.attributes();
        let listed = |each: &dyn Fn(&Attribute) -> String| {
            let all: Vec<String> = attributes.iter().map(|attribute| each(attribute)).collect();
            all.join(", ")
        };
        files::replace(&folder.path("password"), files::PRIVATE_FILE, ROOT_PASSWORD.as_bytes()).unwrap();
        let references = if self.managers { "references = \"manager\"\n" } else { "" };
        let mut text = kind.keys(BATCH);
        let _ = write!(
            text,
            r#"
[metaverse.person]
attributes = {{ {types} }}

[agents.directory]
type = "ldap"
url = "{url}"
bind_dn = "{ROOT_DN}"
password_file = "{password}"
base = "ou=people,{SUFFIX}"
filter = "(objectClass=inetOrgPerson)"
anchor = "employeeNumber"
attributes = ["objectClass", {of_directory}]
connections = {connections}
{references}
[agents.people]
type = "delimited"
path = "{source}"
anchor = "employeeNumber"
{references}
[[inbound]]
agent = "people"
to = "person"
join = [{{ cs = "employeeNumber", mv = "employeeNumber" }}]
project = true
flow = {{ {inbound} }}

[[outbound]]
agent = "directory"
from = "person"
dn = "rdn('uid', mv.uid) + ',ou=people,{SUFFIX}'"
[outbound.flow]
objectClass = {{ constant = ["top", "person", "organizationalPerson", "inetOrgPerson"] }}
"#,
            types = listed(&|attribute| {
                let kind = if attribute.name == "manager" { "reference" } else { "text" };
                format!("{} = \"{kind}\"", attribute.name)
            }),
            inbound = listed(&|attribute| format!("{0} = \"{0}\"", attribute.name)),
            of_directory = listed(&|attribute| format!("\"{}\"", attribute.ldap.unwrap())),
            password = folder.path("password").display(),
            source = folder.path("people.csv").display(),
            connections = self.connections,
        );
        for attribute in &attributes {
            let _ = writeln!(text, "{} = \"{}\"", attribute.ldap.unwrap(), attribute.name);
        }
        text
    }

    /// A metadirectory in which every object is pending export.
    fn prepared(&self, folder: &Folder, kind: &Kind, url: &str) -> Metadirectory {
        kind.forget();
        let mut metadirectory = open(&self.configuration(folder, kind, url));
        run(&mut metadirectory, PEOPLE, StepKind::FullImport);
        let (_, done) = run(&mut metadirectory, PEOPLE, StepKind::DeltaSynchronization);
        assert_eq!(done.statistics.of("provisioned-add"), self.objects);
        metadirectory
    }

    /// Measures the undo of an export that changes each person, compared with that export, and checks every
    /// entry.
    fn take_back(&self, folder: &Folder, kind: &Kind) {
        let slapd = self.slapd();
        self.source(folder, "");
        let mut metadirectory = self.prepared(folder, kind, &slapd.url());
        run(&mut metadirectory, DIRECTORY, StepKind::Export);
        run(&mut metadirectory, DIRECTORY, StepKind::FullImport);
        run(&mut metadirectory, DIRECTORY, StepKind::DeltaSynchronization);
        let before = entries(&slapd.export());
        self.source(folder, " II");
        run(&mut metadirectory, PEOPLE, StepKind::FullImport);
        run(&mut metadirectory, PEOPLE, StepKind::DeltaSynchronization);
        let number = metadirectory.begin_run().unwrap();
        let (export_s, done) = run(&mut metadirectory, DIRECTORY, StepKind::Export);
        assert_eq!(done.statistics.of("export-update"), self.objects, "{done:?}");
        let changed =
            entries(&slapd.export()).iter().filter(|entry| before.binary_search(entry).is_err()).count();
        assert_eq!(changed as u64, self.objects);
        let options = UndoOptions { imports: false, skips_conflicts: false };
        let begin = Instant::now();
        let undone = metadirectory.undo(number, None, options, &mut |_| true).unwrap();
        let undo_s = begin.elapsed().as_secs_f64();
        assert_eq!(undone.steps[0].counters, [("export-update".to_string(), self.objects)]);
        assert!(entries(&slapd.export()) == before, "an entry differs");
        say(&format!(
            "{}: {} entries changed in {export_s:.2} s, taken back in {undo_s:.2} s: {:.2} times the export; all compared",
            kind.name(),
            self.objects,
            undo_s / export_s
        ));
        drop(metadirectory);
        kind.forget();
    }

    /// The messages that an export sends, in order.
    fn record(&self, folder: &Folder) -> Vec<Vec<u8>> {
        let server = Recorder::start();
        let kind = Kind::Sqlite(folder.path("recorded.db"));
        let mut metadirectory = self.prepared(folder, &kind, &server.url);
        let cpu = cpu_s("self");
        let (seconds, done) = run(&mut metadirectory, DIRECTORY, StepKind::Export);
        assert_eq!(done.statistics.of("export-add"), self.objects, "{done:?}");
        say(&format!(
            "into a server that only answers: {:.0}/s, CPU of both {:.0} us",
            self.objects as f64 / seconds,
            (cpu_s("self") - cpu) / self.objects as f64 * 1e6
        ));
        drop(metadirectory);
        kind.forget();
        let kept = std::mem::take(&mut *server.kept.lock().unwrap());
        assert_eq!(kept.len() as u64, self.objects);
        kept
    }

    /// An empty server.
    fn slapd(&self) -> Slapd {
        let ldif = format!(
            "dn: {SUFFIX}\nobjectClass: dcObject\nobjectClass: organization\ndc: example\no: Example\n\n\
             dn: ou=people,{SUFFIX}\nobjectClass: organizationalUnit\nou: people\n\n"
        );
        // If a setting is repeated, the second one counts.
        let flush = if self.flush { "dbnosync off\n" } else { "" };
        let database = format!("maxsize 34359738368\n{flush}");
        Slapd::start(&SlapdOptions { ldif, database, tls: None }).expect("slapd")
    }

    fn export(&self, folder: &Folder, kind: &Kind) -> Rate {
        let slapd = self.slapd();
        let mut metadirectory = self.prepared(folder, kind, &slapd.url());
        // Resets the peak memory of the process.
        std::fs::write("/proc/self/clear_refs", "5").unwrap();
        let memory = memory_mib("VmRSS");
        let cpu = (cpu_s("self"), cpu_s(slapd.process_id()));
        let (seconds, done) = run(&mut metadirectory, DIRECTORY, StepKind::Export);
        let rate = self.rate(seconds, cpu, &slapd, memory);
        assert_eq!(done.statistics.of("export-add"), self.objects, "{done:?}");
        drop(metadirectory);
        self.verify(&slapd);
        kind.forget();
        rate
    }

    fn rate(&self, seconds: f64, cpu: (f64, f64), slapd: &Slapd, memory: u64) -> Rate {
        let each_us = |cpu_s: f64| cpu_s / self.objects as f64 * 1e6;
        Rate {
            per_s: self.objects as f64 / seconds,
            own_cpu_us: each_us(cpu_s("self") - cpu.0),
            server_cpu_us: each_us(cpu_s(slapd.process_id()) - cpu.1),
            memory_mib: memory_mib("VmHWM").saturating_sub(memory),
        }
    }

    /// Checks that the server has every person.
    fn verify(&self, slapd: &Slapd) {
        let people = slapd.export().matches("\ndn: uid=").count();
        assert_eq!(people as u64, self.objects);
    }

    /// Adds the entries over the same connections without other work.
    fn bare(&self, messages: &[Vec<u8>], in_flight: usize) -> Rate {
        let slapd = self.slapd();
        let next = AtomicUsize::new(0);
        let mut bound: Vec<TcpStream> = (0..self.connections).map(|_| bound(slapd.port())).collect();
        let cpu = (cpu_s("self"), cpu_s(slapd.process_id()));
        let begin = Instant::now();
        std::thread::scope(|scope| {
            for stream in &mut bound {
                scope.spawn(|| send(stream, messages, &next, in_flight));
            }
        });
        let rate = self.rate(begin.elapsed().as_secs_f64(), cpu, &slapd, 0);
        self.verify(&slapd);
        rate
    }
}

/// The entries of a server, sorted, without what it keeps of their changes.
fn entries(ldif: &str) -> Vec<String> {
    let kept = |line: &&str| !["entryCSN", "modif"].iter().any(|name| line.starts_with(name));
    // A changed attribute comes last in its entry.
    let entry = |entry: &str| {
        let mut lines: Vec<&str> = entry.lines().filter(kept).collect();
        lines.sort_unstable();
        lines.join("\n")
    };
    let mut entries: Vec<String> = ldif.replace("\n ", "").split("\n\n").map(entry).collect();
    entries.sort_unstable();
    entries
}

/// A connection that is bound as the administrator.
fn bound(port: u16) -> TcpStream {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    stream.set_nodelay(true).unwrap();
    let mut request = Vec::new();
    Message::new(1, Operation::simple_bind(ROOT_DN, ROOT_PASSWORD.as_bytes())).encode(&mut request);
    stream.write_all(&request).unwrap();
    let mut input = Vec::new();
    while take(&mut input, |message| assert!(message.operation.result().unwrap().code.is_success())) == 0 {
        fill(&mut stream, &mut input);
    }
    stream
}

/// Sends messages until there are none left, with the given number in flight. Each batch of answers is
/// followed by as many messages, in one write.
fn send(stream: &mut TcpStream, messages: &[Vec<u8>], next: &AtomicUsize, in_flight: usize) {
    let (mut open, mut input, mut output) = (0, Vec::new(), Vec::new());
    loop {
        while open < in_flight {
            let Some(message) = messages.get(next.fetch_add(1, Ordering::Relaxed)) else { break };
            output.extend_from_slice(message);
            open += 1;
        }
        if open == 0 {
            return;
        }
        stream.write_all(&output).unwrap();
        output.clear();
        fill(stream, &mut input);
        open -= take(&mut input, |message| {
            let result = message.operation.result().unwrap();
            assert!(result.code.is_success(), "{}", result.diagnostic);
        });
    }
}

/// Waits for more bytes; returns false at the end of the connection.
fn fill(stream: &mut TcpStream, input: &mut Vec<u8>) -> bool {
    let mut piece = [0; 1 << 16];
    let read = stream.read(&mut piece).unwrap_or(0);
    input.extend_from_slice(&piece[..read]);
    read > 0
}

/// Consumes the complete messages and returns their number.
fn take(input: &mut Vec<u8>, mut each: impl FnMut(&Message<'_>)) -> usize {
    let (mut at, mut count) = (0, 0);
    while let Frame::Whole(length) = frame(&input[at..], MESSAGE_BYTES).unwrap() {
        each(&Message::decode(&input[at..at + length]).unwrap());
        at += length;
        count += 1;
    }
    input.drain(..at);
    count
}

/// A server that accepts every request and records the add requests, each with its own message id.
struct Recorder {
    url: String,
    kept: Arc<Mutex<Vec<Vec<u8>>>>,
}

impl Recorder {
    fn start() -> Recorder {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("ldap://{}", listener.local_addr().unwrap());
        let kept = Arc::new(Mutex::new(Vec::new()));
        let all = kept.clone();
        // The thread ends with the process.
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let (mut stream, kept) = (stream.unwrap(), all.clone());
                stream.set_nodelay(true).unwrap();
                std::thread::spawn(move || {
                    let (mut input, mut output) = (Vec::new(), Vec::new());
                    while fill(&mut stream, &mut input) {
                        take(&mut input, |message| answer(message, &kept, &mut output));
                        if stream.write_all(&output).is_err() {
                            return;
                        }
                        output.clear();
                    }
                });
            }
        });
        Recorder { url, kept }
    }
}

fn answer(message: &Message<'_>, kept: &Mutex<Vec<Vec<u8>>>, output: &mut Vec<u8>) {
    let result =
        LdapResult { code: ResultCode::Success, matched_dn: "", diagnostic: "", referrals: List::NONE };
    let response = match message.operation {
        Operation::BindRequest { .. } => Operation::BindResponse { result, server_credentials: None },
        Operation::AddRequest { .. } => {
            let mut kept = kept.lock().unwrap();
            let mut bytes = Vec::new();
            // The first message id is that of the bind.
            Message::new(kept.len() as u32 + 2, message.operation).encode(&mut bytes);
            kept.push(bytes);
            Operation::AddResponse(result)
        }
        Operation::ModifyRequest { .. } => Operation::ModifyResponse(result),
        _ => return,
    };
    Message::new(message.id, response).encode(output);
}
