//! A real directory server: OpenLDAP's `slapd`, in a scratch folder, on loopback, without privileges.

use std::fs::{self, File};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use crate::{Need, Scratch, lacks};

/// The base DN of all entries.
pub const SUFFIX: &str = "dc=example,dc=com";
/// The administrator.
pub const ROOT_DN: &str = "cn=admin,dc=example,dc=com";
/// The password of [`ROOT_DN`].
pub const ROOT_PASSWORD: &str = "secret";

/// The entry [`SUFFIX`] and units below it, as LDIF.
pub fn organization(below: &[&str]) -> String {
    let top = format!(
        "dn: {SUFFIX}\nobjectClass: dcObject\nobjectClass: organization\ndc: example\no: Example\n\n"
    );
    top + &units(below)
}

/// Units below [`SUFFIX`], as LDIF.
pub fn units(names: &[&str]) -> String {
    let unit =
        |name: &&str| format!("dn: ou={name},{SUFFIX}\nobjectClass: organizationalUnit\nou: {name}\n\n");
    names.iter().map(unit).collect()
}

const PROGRAM: &str = "/usr/sbin/slapd";

/// How the server is set up.
#[derive(Clone, Debug, Default)]
pub struct SlapdOptions {
    /// Entries it begins with, as LDIF.
    pub ldif: String,
    /// Lines of `slapd.conf` for the database, such as `overlay syncprov`.
    pub database: String,
    /// Files for TLS.
    pub tls: Option<TlsFiles>,
}

/// Files in PEM form.
#[derive(Clone, Debug)]
pub struct TlsFiles {
    /// The authority that signs clients' certificates.
    pub authority: PathBuf,
    /// The server's certificate.
    pub certificate: PathBuf,
    /// The key of that.
    pub key: PathBuf,
}

/// A running server, ended when dropped. Its methods panic when it does not start, which is a failed test.
#[derive(Debug)]
pub struct Slapd {
    child: Child,
    folder: Scratch,
    port: u16,
    tls_port: u16,
    has_tls: bool,
}

impl Slapd {
    /// Starts one; `None` if it is not installed, which is recorded as a skip.
    pub fn start(options: &SlapdOptions) -> Option<Slapd> {
        if lacks(Need::Program("slapd")) {
            return None;
        }
        let folder = Scratch::new();
        fs::create_dir(folder.join("db")).unwrap_or_else(|error| panic!("{error}"));
        let config = folder.file("slapd.conf", config(folder.path(), options));
        if !options.ldif.is_empty() {
            let data = folder.file("data.ldif", &options.ldif);
            // The same program under another name, which is how Debian has it too.
            let output = Command::new(PROGRAM)
                .args(["-T", "add", "-q", "-f"])
                .arg(&config)
                .arg("-l")
                .arg(&data)
                .output()
                .unwrap_or_else(|error| panic!("slapadd: {error}"));
            assert!(output.status.success(), "slapadd: {}", String::from_utf8_lossy(&output.stderr));
        }
        // Another process may take a free port before the server does: retry with others.
        for _ in 0..5 {
            let (port, tls_port) = free_ports();
            if let Some(child) = try_start(&folder, &config, options.tls.is_some(), port, tls_port) {
                return Some(Slapd { child, folder, port, tls_port, has_tls: options.tls.is_some() });
            }
        }
        panic!("slapd does not start: {}", folder.text("log"));
    }

    /// Its URL.
    pub fn url(&self) -> String {
        format!("ldap://127.0.0.1:{}", self.port)
    }

    /// Its URL for TLS from the start, if it has files for that.
    pub fn tls_url(&self) -> String {
        format!("ldaps://127.0.0.1:{}", self.tls_port)
    }

    /// Its URL on a local socket.
    pub fn local_url(&self) -> String {
        local_url(&self.folder)
    }

    /// All it holds as LDIF, as the server's own program writes it.
    pub fn export(&self) -> String {
        let output = Command::new(PROGRAM)
            .args(["-T", "cat", "-f"])
            .arg(self.folder.join("slapd.conf"))
            .output()
            .unwrap_or_else(|error| panic!("slapcat: {error}"));
        assert!(output.status.success(), "slapcat: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    /// Kills it, as a machine that goes down would; what it holds stays.
    pub fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        // Else the next one would seem to be ready before it is.
        let _ = fs::remove_file(self.folder.join("slapd.pid"));
    }

    /// Starts it again where it was, after [`kill`](Slapd::kill).
    pub fn start_again(&mut self) {
        let config = self.folder.join("slapd.conf");
        let child = try_start(&self.folder, &config, self.has_tls, self.port, self.tls_port);
        self.child =
            child.unwrap_or_else(|| panic!("slapd does not start again: {}", self.folder.text("log")));
    }

    /// Pauses it, with its connections open, until [`resume`](Slapd::resume).
    pub fn pause(&self) {
        self.signal(Signal::STOP);
    }

    /// Resumes it after [`pause`](Slapd::pause).
    pub fn resume(&self) {
        self.signal(Signal::CONT);
    }

    fn signal(&self, signal: Signal) {
        if let Some(id) = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw) {
            let _ = kill_process(id, signal);
        }
    }

    /// The port of [`url`](Slapd::url).
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Its process.
    pub fn process_id(&self) -> u32 {
        self.child.id()
    }

    /// The folder with its configuration, data and log.
    pub fn folder(&self) -> &Scratch {
        &self.folder
    }
}

impl Drop for Slapd {
    fn drop(&mut self) {
        // A test that failed may have left it paused.
        self.signal(Signal::CONT);
        self.signal(Signal::TERM);
        let deadline = Instant::now() + Duration::from_secs(10);
        while matches!(self.child.try_wait(), Ok(None)) && Instant::now() < deadline {
            sleep(Duration::from_millis(5));
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn config(folder: &Path, options: &SlapdOptions) -> String {
    let folder = folder.display();
    let tls = options.tls.as_ref().map_or(String::new(), |tls| {
        format!(
            "TLSCACertificateFile {}\nTLSCertificateFile {}\nTLSCertificateKeyFile {}\nTLSVerifyClient try\n",
            tls.authority.display(),
            tls.certificate.display(),
            tls.key.display()
        )
    });
    // Nothing is synced: what a test wrote need not outlive a loss of power.
    format!(
        "include /etc/ldap/schema/core.schema
include /etc/ldap/schema/cosine.schema
include /etc/ldap/schema/inetorgperson.schema
pidfile {folder}/slapd.pid
modulepath /usr/lib/ldap
moduleload back_mdb
moduleload syncprov
moduleload refint
{tls}database mdb
suffix \"{SUFFIX}\"
rootdn \"{ROOT_DN}\"
rootpw {ROOT_PASSWORD}
directory {folder}/db
maxsize 268435456
dbnosync
index objectClass,uid,entryCSN,entryUUID eq
{}
",
        options.database
    )
}

/// Two different ports that nobody listens on.
fn free_ports() -> (u16, u16) {
    let listen = || TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap_or_else(|error| panic!("{error}"));
    let port = |listener: &TcpListener| listener.local_addr().map_or(0, |address| address.port());
    let (one, other) = (listen(), listen());
    (port(&one), port(&other))
}

fn local_url(folder: &Scratch) -> String {
    format!("ldapi://{}", folder.join("ldapi").display().to_string().replace('/', "%2F"))
}

/// `None` when it ended before it took a connection.
fn try_start(folder: &Scratch, config: &Path, tls: bool, port: u16, tls_port: u16) -> Option<Child> {
    let log = File::create(folder.join("log")).unwrap_or_else(|error| panic!("{error}"));
    let mut urls = format!("ldap://127.0.0.1:{port} {}", local_url(folder));
    if tls {
        urls.push_str(&format!(" ldaps://127.0.0.1:{tls_port}"));
    }
    let mut child = Command::new(PROGRAM)
        // In the foreground, logging only errors.
        .args(["-d", "0", "-h", &urls, "-f"])
        .arg(config)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(log)
        .spawn()
        .unwrap_or_else(|error| panic!("{PROGRAM}: {error}"));
    let deadline = Instant::now() + Duration::from_secs(30);
    loop {
        if !matches!(child.try_wait(), Ok(None)) {
            return None;
        }
        // The file is written once the ports are taken: before that, another server may answer there.
        if folder.join("slapd.pid").exists() && TcpStream::connect((Ipv4Addr::LOCALHOST, port)).is_ok() {
            return Some(child);
        }
        if Instant::now() > deadline {
            let _ = child.kill();
            let _ = child.wait();
            return None;
        }
        sleep(Duration::from_millis(10));
    }
}
