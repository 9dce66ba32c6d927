//! A 389 Directory Server, in a scratch folder, on loopback, without privileges, systemd or its own setup programs.

use std::fs::{self, File};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt as _;
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use crate::slapd::SUFFIX;
use crate::{Need, Scratch, lacks};

/// The administrator.
pub const ROOT_DN: &str = "cn=Directory Manager";
/// The password of [`ROOT_DN`].
pub const ROOT_PASSWORD: &str = "secret12";

const PROGRAM: &str = "/usr/sbin/ns-slapd";
const TEMPLATE: &str = "/usr/share/dirsrv/data/template-dse.ldif";

/// A running server, ended when dropped. It holds nothing yet: [`database`](Dirsrv::database) makes it ready for entries below
/// [`SUFFIX`]. Its methods panic when it does not start, which is a failed test.
#[derive(Debug)]
pub struct Dirsrv {
    child: Child,
    folder: Scratch,
    port: u16,
}

impl Dirsrv {
    /// Starts one; `None` if it is not installed, which is recorded as a skip.
    pub fn start() -> Option<Dirsrv> {
        if lacks(Need::Program("ns-slapd")) {
            return None;
        }
        for _ in 0..3 {
            let folder = Scratch::new();
            // Another process may take a free port before the server does: retry with others.
            let listener =
                TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap_or_else(|error| panic!("{error}"));
            let port = listener.local_addr().map_or(0, |address| address.port());
            write(&folder, port);
            drop(listener);
            match try_start(&folder, port) {
                Ok(child) => return Some(Dirsrv { child, folder, port }),
                Err(last) if last.contains("Address already in use") => {}
                Err(last) => panic!("389 Directory Server does not start: {last}"),
            }
        }
        panic!("389 Directory Server finds no free port");
    }

    /// Its URL.
    pub fn url(&self) -> String {
        format!("ldap://127.0.0.1:{}", self.port)
    }

    /// Its process.
    pub fn process_id(&self) -> u32 {
        self.child.id()
    }

    /// Its folder.
    pub fn folder(&self) -> &Scratch {
        &self.folder
    }

    /// Entries, as LDIF, that [`ROOT_DN`] adds one after the other for it to have a database with the entry [`SUFFIX`].
    pub fn database() -> String {
        format!(
            "dn: cn=userroot,cn=ldbm database,cn=plugins,cn=config\nobjectClass: top\nobjectClass: extensibleObject\n\
             objectClass: nsBackendInstance\ncn: userroot\nnsslapd-suffix: {SUFFIX}\n\n\
             dn: cn=\"{SUFFIX}\",cn=mapping tree,cn=config\nobjectClass: top\nobjectClass: extensibleObject\n\
             objectClass: nsMappingTree\ncn: {SUFFIX}\nnsslapd-state: backend\nnsslapd-backend: userroot\n\n\
             dn: {SUFFIX}\nobjectClass: top\nobjectClass: domain\ndc: example\n"
        )
    }
}

impl Drop for Dirsrv {
    fn drop(&mut self) {
        if let Some(id) = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw) {
            let _ = kill_process(id, Signal::TERM);
        }
        let deadline = Instant::now() + Duration::from_secs(20);
        while matches!(self.child.try_wait(), Ok(None)) && Instant::now() < deadline {
            sleep(Duration::from_millis(10));
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The name of the user that this process runs as.
fn user() -> String {
    let id = rustix::process::geteuid().as_raw().to_string();
    let users = fs::read_to_string("/etc/passwd").unwrap_or_default();
    let found = users.lines().map(|line| line.split(':').collect::<Vec<_>>());
    found
        .into_iter()
        .find(|fields| fields.get(2) == Some(&id.as_str()))
        .map_or(id.clone(), |fields| fields[0].into())
}

/// Writes its configuration: the template of the package with its places filled in.
fn write(folder: &Scratch, port: u16) {
    for name in ["config/schema", "db", "lock", "run", "log", "bak", "ldif", "tmp", "inst"] {
        fs::create_dir_all(folder.join(name)).unwrap_or_else(|error| panic!("{name}: {error}"));
    }
    let _ = fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o700));
    folder.file("config/certmap.conf", "");
    folder.file("config/slapd-collations.conf", "");
    let schema =
        "dn: cn=schema\nobjectClass: top\nobjectClass: ldapSubentry\nobjectClass: subschema\ncn: schema\n";
    folder.file("config/schema/99user.ldif", schema);
    let hashed = Command::new("pwdhash").args(["-s", "SSHA512", ROOT_PASSWORD]).output();
    let hashed = hashed.unwrap_or_else(|error| panic!("pwdhash: {error}"));
    assert!(hashed.status.success(), "pwdhash: {}", String::from_utf8_lossy(&hashed.stderr));
    let at = |name: &str| folder.join(name).display().to_string();
    let mut text = fs::read_to_string(TEMPLATE).unwrap_or_else(|error| panic!("{TEMPLATE}: {error}"));
    for (name, value) in [
        ("schema_dir", at("config/schema")),
        ("lock_dir", at("lock")),
        ("tmp_dir", at("tmp")),
        ("cert_dir", at("config")),
        ("ldif_dir", at("ldif")),
        ("bak_dir", at("bak")),
        ("run_dir", at("run")),
        ("inst_dir", at("inst")),
        ("log_dir", at("log")),
        ("fqdn", "localhost".into()),
        ("ds_port", port.to_string()),
        ("ds_user", user()),
        ("rootdn", ROOT_DN.into()),
        ("ds_passwd", String::from_utf8_lossy(&hashed.stdout).trim().into()),
        ("ldapi_enabled", "off".into()),
        ("ldapi_autobind", "off".into()),
        ("ldapi", at("run/ldapi")),
        ("db_dir", at("db")),
        ("db_home_dir", at("db")),
        ("db_lib", "bdb".into()),
        ("config_dir", at("config")),
        ("ds_suffix", SUFFIX.into()),
    ] {
        text = text.replace(&format!("%{name}%"), &value);
    }
    text = text.replace("\nnsslapd-localhost:", "\nnsslapd-listenhost: 127.0.0.1\nnsslapd-localhost:");
    folder.file("config/dse.ldif", text);
}

/// The last lines it wrote when it ended before it took a connection.
fn try_start(folder: &Scratch, port: u16) -> Result<Child, String> {
    let log = File::create(folder.join("out")).unwrap_or_else(|error| panic!("{error}"));
    let mut child = Command::new(PROGRAM)
        .arg("-D")
        .arg(folder.join("config"))
        .arg("-i")
        .arg(folder.join("run/pid"))
        // In the foreground.
        .args(["-d", "0"])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(log)
        .spawn()
        .unwrap_or_else(|error| panic!("{PROGRAM}: {error}"));
    let deadline = Instant::now() + Duration::from_secs(60);
    loop {
        let ended = !matches!(child.try_wait(), Ok(None));
        if ended || Instant::now() > deadline {
            let _ = child.kill();
            let _ = child.wait();
            let log = fs::read_to_string(folder.join("log/errors")).unwrap_or_default();
            return Err(folder.text("out") + &log);
        }
        if folder.join("run/pid").exists() && TcpStream::connect((Ipv4Addr::LOCALHOST, port)).is_ok() {
            return Ok(child);
        }
        sleep(Duration::from_millis(20));
    }
}
