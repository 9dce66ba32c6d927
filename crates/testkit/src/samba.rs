//! An Active Directory domain controller: Samba, with its LDAP services only, on a loopback address of its own.

use std::fs::{self, File};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::thread::sleep;
use std::time::{Duration, Instant};

use crate::certificates::made;
use crate::need::program;
use crate::{Need, lacks};

/// The domain.
pub const DOMAIN_DN: &str = "DC=ad,DC=example,DC=com";
/// The administrator.
pub const ADMINISTRATOR_DN: &str = "CN=Administrator,CN=Users,DC=ad,DC=example,DC=com";
/// The password of [`ADMINISTRATOR_DN`].
pub const ADMINISTRATOR_PASSWORD: &str = "Secret-of-tests-1";

/// The ports of LDAP, LDAPS and the global catalogue with and without TLS. Samba has no settings for them.
const PORTS: [u16; 4] = [389, 636, 3268, 3269];
/// Ends the server and removes its folder when its input ends, which it does with the process of the tests.
const KEEPER: &str =
    "folder=$1; shift; \"$@\" & server=$!; read -r _; kill $server; wait $server; rm -rf \"$folder\"";
/// `samba-tool domain provision` sets access rights in the file system for its file shares, for which it needs another
/// package. Without that, the same function makes a domain.
const PROVISION: &str = "
import logging, sys
from samba.auth import system_session
from samba.dsdb import DS_DOMAIN_FUNCTION_2008_R2
from samba.param import LoadParm
from samba.provision import provision
settings = LoadParm()
settings.load(sys.argv[1])
provision(logging.getLogger(), system_session(), smbconf=sys.argv[1], lp=settings, realm=settings.get('realm'),
          domain=settings.get('workgroup'), hostname='DC1', hostip=sys.argv[2], adminpass=sys.argv[3],
          serverrole='active directory domain controller', dom_for_fun_level=DS_DOMAIN_FUNCTION_2008_R2,
          dns_backend='NONE', skip_sysvolacl=True)
";
/// How long the server may take to begin.
const BEGIN: Duration = Duration::from_secs(60);

/// A running domain controller. What is installed and does not work panics: that is a failed test, not a skipped one.
#[derive(Debug)]
pub struct Samba {
    folder: PathBuf,
    address: Ipv4Addr,
}

impl Samba {
    /// The domain controller of this process, which is started at its first use and lives as long as the process. `None` where Samba is not installed or its ports are not available, which is
    /// recorded as a skip.
    pub fn of_process() -> Option<&'static Samba> {
        static SERVER: OnceLock<Samba> = OnceLock::new();
        if lacks(Need::DomainController) || lacks(Need::LdapPorts) {
            return None;
        }
        Some(SERVER.get_or_init(Samba::start))
    }

    /// Its URL without TLS, on which it accepts StartTLS.
    pub fn url(&self) -> String {
        format!("ldap://{}", self.address)
    }

    /// Its URL with TLS.
    pub fn tls_url(&self) -> String {
        format!("ldaps://{}", self.address)
    }

    /// The file of the authority that issued its certificate.
    pub fn ca_file(&self) -> PathBuf {
        self.folder.join("authority.pem")
    }

    /// The file with [`ADMINISTRATOR_PASSWORD`], which nobody else can read.
    pub fn password_file(&self) -> PathBuf {
        self.folder.join("password")
    }

    fn start() -> Samba {
        let folder = std::env::temp_dir().join(format!("plimsoll-samba-{}", std::process::id()));
        let _ = fs::remove_dir_all(&folder);
        check("the folder", fs::create_dir(&folder));
        let address = address();
        let made = made(&address.to_string());
        for (name, content) in [
            ("authority.pem", made.authority.as_str()),
            ("server.pem", &made.certificate),
            ("server.key", &made.key),
            ("password", ADMINISTRATOR_PASSWORD),
            ("smb.conf", &settings(&folder, address)),
        ] {
            let path = folder.join(name);
            check(name, fs::write(&path, content));
            check(name, fs::set_permissions(&path, fs::Permissions::from_mode(0o600)));
        }
        for name in ["pid", "lock"] {
            check(name, fs::create_dir(folder.join(name)));
        }
        let config = folder.join("smb.conf");
        // The interpreter of Debian's packages.
        let mut provision = Command::new("/usr/bin/python3");
        provision.args(["-c", PROVISION]).arg(&config).arg(address.to_string()).arg(ADMINISTRATOR_PASSWORD);
        let made = check("the domain", provision.stdin(Stdio::null()).output());
        assert!(made.status.success(), "Samba makes no domain: {}", String::from_utf8_lossy(&made.stderr));
        let server = program("samba").unwrap_or_default();
        let output = check("the log", File::create(folder.join("out")));
        let mut serve = Command::new("/bin/sh");
        serve.args(["-c", KEEPER, "keeper"]).arg(&folder).arg(server);
        serve.args(["--interactive", "--model=single", "--configfile"]).arg(&config);
        serve.stdout(check("the log", output.try_clone())).stderr(output).stdin(Stdio::piped());
        wait(&folder, address, check("the server", serve.spawn()));
        Samba { folder, address }
    }
}

/// Waits until the server accepts connections on the last of its ports.
fn wait(folder: &Path, address: Ipv4Addr, mut keeper: Child) {
    let last = SocketAddr::new(IpAddr::V4(address), PORTS[PORTS.len() - 1]);
    let begin = Instant::now();
    while TcpStream::connect(last).is_err() {
        let has_ended = !matches!(keeper.try_wait(), Ok(None));
        let log = || fs::read_to_string(folder.join("out")).unwrap_or_default();
        assert!(!has_ended && begin.elapsed() < BEGIN, "Samba does not start: {}", log());
        sleep(Duration::from_millis(20));
    }
    // Its input stays open as long as this process lives.
    std::mem::forget(keeper);
}

/// The loopback address of this process for a domain controller.
fn address() -> Ipv4Addr {
    let number = std::process::id();
    Ipv4Addr::new(127, 77, (number / 254 % 256) as u8, (number % 254 + 1) as u8)
}

/// Whether this process may listen on the ports of a domain controller, and nobody else does. It is found out once, before
/// its own domain controller listens there.
pub(crate) fn has_ports() -> bool {
    static HAS: OnceLock<bool> = OnceLock::new();
    *HAS.get_or_init(|| PORTS.iter().all(|port| TcpListener::bind((address(), *port)).is_ok()))
}

/// Whether everything of Samba that a domain controller needs is installed.
pub(crate) fn is_installed() -> bool {
    let has_modules = || {
        let folders = fs::read_dir("/usr/lib").into_iter().flatten().flatten();
        folders.into_iter().any(|folder| folder.path().join("samba/ldb/samba_dsdb.so").is_file())
    };
    program("samba").is_some()
        && Path::new("/usr/share/samba/setup/provision.ldif").is_file()
        && has_modules()
}

fn settings(folder: &Path, address: Ipv4Addr) -> String {
    let folder = folder.display();
    // Nothing is synced: what a test wrote need not outlive a loss of power.
    format!(
        "[global]
ldb:nosync = true
netbios name = DC1
realm = AD.EXAMPLE.COM
workgroup = AD
server role = active directory domain controller
server services = ldap
interfaces = {address}/8
bind interfaces only = yes
private dir = {folder}/private
state directory = {folder}/state
cache directory = {folder}/cache
lock directory = {folder}/lock
pid directory = {folder}/pid
ncalrpc dir = {folder}/ncalrpc
binddns dir = {folder}/dns
winbindd socket directory = {folder}/winbindd
ntp signd socket directory = {folder}/ntp
log file = {folder}/log
usershare path =
tls cafile = {folder}/authority.pem
tls certfile = {folder}/server.pem
tls keyfile = {folder}/server.key
[sysvol]
path = {folder}/sysvol
[netlogon]
path = {folder}/sysvol/scripts
"
    )
}

fn check<T>(what: &str, result: std::io::Result<T>) -> T {
    match result {
        Ok(value) => value,
        Err(error) => panic!("Samba for tests: {what}: {error}"),
    }
}
