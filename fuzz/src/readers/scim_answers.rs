//! What a service that speaks SCIM answers: a list of users, errors, what became of changes.
//!
//! It listens on the loopback interface and answers whatever it is asked with one answer after the other, from the first again behind the
//! last. A byte says how changes are sent; of each answer the first byte says its status, and the rest is its body.

use std::io::{BufRead, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};

use super::{agent, read};
use metadir::agent::{Agent, ExportedObject};
use metadir::hologram::{Attribute, Hologram};
use metadir::object::Change;

/// But for those with which a service says that it is busy: it would be waited for.
const STATUSES: [u16; 12] = [200, 200, 200, 201, 204, 302, 400, 401, 404, 409, 412, 500];
/// A list that goes on and on is cut off.
const ANSWERS_MAX: usize = 64;

/// What is answered.
#[derive(Default)]
struct Answers {
    all: Vec<Vec<u8>>,
    given: usize,
}

impl Answers {
    fn next(&mut self) -> (u16, Vec<u8>) {
        let at = self.given;
        self.given += 1;
        match self.all.get(at % self.all.len().max(1)).and_then(|answer| answer.split_first()) {
            Some((status, body)) if at < ANSWERS_MAX => {
                (STATUSES[usize::from(*status) % STATUSES.len()], body.to_vec())
            }
            _ => (404, Vec::new()),
        }
    }
}

/// The service, and agents that send changes alone, whole, and together.
struct Parts {
    answers: Arc<Mutex<Answers>>,
    agents: Vec<Box<dyn Agent>>,
}

static PARTS: LazyLock<Mutex<Parts>> = LazyLock::new(|| {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port of this host is free");
    let address = listener.local_addr().expect("it is bound");
    let answers = Arc::<Mutex<Answers>>::default();
    let shared = answers.clone();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let answers = shared.clone();
            std::thread::spawn(move || serve(&stream, &answers));
        }
    });
    let agents = ["", "update = \"put\"", "bulk = 10"].map(|more| {
        let text = format!(
            "[store]\nsqlite = \"unused\"\n[metaverse.person]\nattributes = {{ id = \"text\" }}\n\
             [agents.service]\ntype = \"scim\"\nurl = \"http://{address}\"\nanchor = \"id\"\nconnections = 1\npage_size = 3\n\
             attributes = ['userName', 'name.familyName', 'emails[type eq \"work\"].value', 'roles', 'urn:x:y:badge']\n\
             booleans = ['active']\nintegers = ['age']\n{more}\n"
        );
        let config = connectors::parse(&text).expect("the settings are well").agents.remove(0);
        agent(&config).expect("the settings are well")
    });
    Mutex::new(Parts { answers, agents: agents.into() })
});

/// Answers requests until there is no more.
fn serve(mut stream: &TcpStream, answers: &Mutex<Answers>) -> Option<()> {
    let mut input = BufReader::new(stream);
    stream.set_nodelay(true).ok()?;
    loop {
        let mut length = 0;
        loop {
            let mut line = String::new();
            if input.read_line(&mut line).ok()? == 0 {
                return None;
            }
            let line = line.trim_end().to_ascii_lowercase();
            if let Some(bytes) = line.strip_prefix("content-length:") {
                length = bytes.trim().parse().ok()?;
            }
            if line.is_empty() {
                break;
            }
        }
        std::io::copy(&mut input.by_ref().take(length), &mut std::io::sink()).ok()?;
        let (status, body) = held(answers).next();
        // One without content says so by its status.
        let (length, body) = match status {
            204 => (String::new(), Vec::new()),
            _ => (format!("Content-Length: {}\r\n", body.len()), body),
        };
        let mut answer =
            format!("HTTP/1.1 {status} X\r\nDate: Sun, 06 Nov 1994 08:49:37 GMT\r\n{length}\r\n")
                .into_bytes();
        answer.extend(body);
        stream.write_all(&answer).ok()?;
    }
}

fn held<T>(shared: &Mutex<T>) -> MutexGuard<'_, T> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Reads an input; panics on a fault of the reader.
pub fn run(bytes: &[u8]) {
    let Some((way, answers)) = bytes.split_first() else { return };
    let mut parts = held(&PARTS);
    let all: Vec<Vec<u8>> = answers.split(|byte| *byte == 0).map(<[u8]>::to_vec).collect();
    *held(&parts.answers) = Answers { all, given: 0 };
    let (shared, count) = (parts.answers.clone(), parts.agents.len());
    let agent = parts.agents[usize::from(*way) % count].as_mut();
    let [one, many] = [1, 1000].map(|most| {
        held(&shared).given = 0;
        read(agent, most).map_err(|error| error.to_string())
    });
    assert_eq!(one, many);
    let id = Attribute(u32::MAX);
    // By its number as the agent of the fuzzer has it: the first that is named.
    let name = Attribute(0);
    let change = |change: Change, image: &[(Attribute, &str)]| ExportedObject {
        change,
        anchor: None,
        dn: "ada".into(),
        new_dn: None,
        adopts: false,
        written: Vec::new(),
        changed_values: Vec::new(),
        attributes: match change {
            Change::Delete => Vec::new(),
            Change::Add | Change::Update => vec![(name, vec![b"ada".to_vec()])],
        },
        image: image
            .iter()
            .map(|(attribute, value)| (*attribute, vec![value.as_bytes().to_vec()]))
            .collect::<Hologram>(),
    };
    let known = [(name, "eve"), (id, "1")];
    let changes = [
        change(Change::Add, &[]),
        change(Change::Update, &known),
        change(Change::Update, &known[..1]),
        change(Change::Delete, &known),
    ];
    held(&shared).given = 0;
    if let Ok(answered) = agent.export(&changes) {
        assert_eq!(answered.len(), changes.len());
    }
}
