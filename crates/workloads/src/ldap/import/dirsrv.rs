//! 389 Directory Server: a new instance without systemd and without its setup programs, and the command that imports into it.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use engine::clock::Clock;
use engine::workload::LoadError;
use ldap::message::{Attribute, Change, List, Value};
use ldap::session::{Options, Security, Server, Session, SessionError};
use ldap::{ModifyOperation, ResultCode};
use model::{Nanos, SECOND};

use super::ldif::LdifFile;
use super::settings::{OfflinePlan, program_path};
use super::tool::{Import, failure, make_folder, missing_program, output_file, write_file};
use crate::group::{Ending, Group, Guard, Stopping};

/// The template of a configuration, from the package.
const TEMPLATE: &str = "/usr/share/dirsrv/data/template-dse.ldif";

const ROOT_DN: &str = "cn=Directory Manager";
const BACK_END: &str = "cn=userroot,cn=ldbm database,cn=plugins,cn=config";
const DATABASE: &str = "cn=bdb,cn=config,cn=ldbm database,cn=plugins,cn=config";

/// How long the server may take to start, and to stop.
const START_MAX: Nanos = 60 * SECOND;
const STOP_MAX: Nanos = 60 * SECOND;

const LOOK: Duration = Duration::from_millis(20);

/// The longest path of a local socket (unix(7)).
const SOCKET_PATH_MAX: usize = 107;

/// Creates an instance with an empty database in the folder, and stops it.
pub(super) fn prepare(
    plan: &OfflinePlan,
    folder: &Path,
    ldif: &LdifFile,
    say: &mut dyn FnMut(&str) -> bool,
) -> Result<Import, LoadError> {
    let program = program_path("ns-slapd").ok_or_else(|| missing_program("ns-slapd", "389-ds-base"))?;
    let instance = Instance::write(folder, &program, plan, &ldif.suffix)?;
    say("creating a database of 389 Directory Server");
    let mut session = instance.start()?;
    let made = instance.create_database(&mut session.1, plan, &ldif.suffix);
    drop(session.1);
    instance.stop(session.0)?;
    made.map_err(|error| LoadError::new(format!("the database of 389 Directory Server: {error}"), ""))?;
    if plan.restart {
        say("restarting 389 Directory Server");
        let (server, session) = instance.start()?;
        drop(session);
        instance.stop(server)?;
    }
    // So far it has what the server said about its start.
    let log = instance.at("log/errors");
    fs::write(&log, "").map_err(|error| LoadError::new(format!("{}: {error}", log.display()), ""))?;
    let mut words: Vec<OsString> =
        vec![program.into(), "ldif2db".into(), "-D".into(), instance.at("config").into()];
    words.extend(["-n".into(), "userroot".into(), "-i".into(), ldif.path.clone().into()]);
    if let Some(entries) = plan.pass_entries {
        words.extend(["-c".into(), entries.to_string().into()]);
    }
    Ok(Import {
        shown: None,
        words,
        directory: folder.to_path_buf(),
        log: Some(log),
        database: Some(instance.at("db/userroot")),
    })
}

struct Instance {
    folder: PathBuf,
    program: PathBuf,
    /// The password of [`ROOT_DN`], which is used only while the instance is created.
    password: String,
}

impl Instance {
    fn at(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// Writes the configuration: the template of the package with its places filled in. The server listens on a local socket
    /// only.
    fn write(folder: &Path, program: &Path, plan: &OfflinePlan, suffix: &str) -> Result<Instance, LoadError> {
        let password = files::random_name()
            .map_err(|error| LoadError::new(format!("no random numbers: {error}"), ""))?;
        let instance = Instance { folder: folder.join("ds"), program: program.to_path_buf(), password };
        let socket = instance.at("run/ldapi");
        if socket.as_os_str().len() > SOCKET_PATH_MAX {
            let what =
                format!("the path of the folder is too long for a local socket in it: {}", socket.display());
            return Err(LoadError::new(what, "set `directory` to a folder with a shorter path"));
        }
        make_folder(&instance.folder)?;
        for name in ["config", "config/schema", "db", "lock", "run", "log", "bak", "ldif", "tmp", "inst"] {
            make_folder(&instance.at(name))?;
        }
        write_file(&instance.at("config/certmap.conf"), "")?;
        write_file(&instance.at("config/slapd-collations.conf"), "")?;
        let schema = "dn: cn=schema\nobjectClass: top\nobjectClass: ldapSubentry\nobjectClass: subschema\ncn: schema\n";
        write_file(&instance.at("config/schema/99user.ldif"), schema)?;
        for (number, path) in plan.schema.iter().enumerate() {
            // The server reads them in the order of their names, after its own.
            let copy = instance.at(&format!("config/schema/98import-{number}.ldif"));
            fs::copy(path, copy).map_err(|error| {
                LoadError::new(
                    format!("the schema file {path}: {error}"),
                    "name an LDIF file with the schema",
                )
            })?;
        }
        let template = fs::read_to_string(TEMPLATE).map_err(|error| {
            LoadError::new(
                format!("{TEMPLATE}: {error}"),
                "it is part of the package of 389 Directory Server",
            )
        })?;
        write_file(&instance.at("config/dse.ldif"), &instance.configuration(template, suffix))?;
        Ok(instance)
    }

    fn configuration(&self, mut text: String, suffix: &str) -> String {
        let at = |name: &str| self.at(name).display().to_string();
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
            ("ds_port", "0".into()),
            ("ds_user", user_name()),
            ("rootdn", ROOT_DN.into()),
            ("ds_passwd", format!("{{CLEAR}}{}", self.password)),
            ("ldapi_enabled", "on".into()),
            ("ldapi_autobind", "off".into()),
            ("ldapi", at("run/ldapi")),
            ("db_dir", at("db")),
            ("db_home_dir", at("db")),
            ("db_lib", "bdb".into()),
            ("config_dir", at("config")),
            ("ds_suffix", suffix.into()),
        ] {
            text = text.replace(&format!("%{name}%"), &value);
        }
        // A hash would need the server's own program, with the password in its arguments.
        text.replace("\nnsslapd-rootpw:", "\nnsslapd-rootpwstoragescheme: CLEAR\nnsslapd-rootpw:")
    }

    /// Starts the server, and binds as its administrator.
    fn start(&self) -> Result<(Running, Session), LoadError> {
        let output = self.at("log/output");
        let file = output_file(&output)?;
        let mut command = Command::new(&self.program);
        command.arg("-D").arg(self.at("config")).arg("-i").arg(self.at("run/pid")).args(["-d", "0"]);
        let cannot =
            |error: std::io::Error| LoadError::new(format!("ns-slapd cannot be started: {error}"), "");
        command.stdout(file.try_clone().map_err(cannot)?).stderr(file);
        let mut guard = Guard::start().map_err(cannot)?;
        let group = Group::launch(&mut command).map_err(cannot)?;
        guard.watch(&group);
        let server = Server {
            host: String::new(),
            port: 0,
            security: Security::None,
            socket: Some(self.at("run/ldapi")),
        };
        let options = Options { connect_timeout: Duration::from_secs(5), ..Options::default() };
        let clock = Clock::get();
        let deadline = clock.now().saturating_add(START_MAX);
        loop {
            if let Some(ending) = group.ending() {
                return Err(failure("ns-slapd", ending, &[self.at("log/errors"), output]));
            }
            let bound = Session::connect(&server, &options).and_then(|mut session| {
                session.bind(ROOT_DN, self.password.as_bytes())?;
                Ok(session)
            });
            match bound {
                Ok(session) => return Ok((Running { group, guard }, session)),
                Err(error) if clock.now() >= deadline => {
                    let what =
                        format!("389 Directory Server was not ready after {} s: {error}", START_MAX / SECOND);
                    return Err(LoadError::new(what, ""));
                }
                Err(_) => std::thread::sleep(LOOK),
            }
        }
    }

    fn create_database(
        &self,
        session: &mut Session,
        plan: &OfflinePlan,
        suffix: &str,
    ) -> Result<(), SessionError> {
        let add = |session: &mut Session, dn: &str, attributes: &[(&str, &[&str])]| {
            let values: Vec<Vec<Value<'_>>> = attributes
                .iter()
                .map(|(_, values)| values.iter().map(|value| Value(value.as_bytes())).collect())
                .collect();
            let attributes: Vec<Attribute<'_>> = attributes
                .iter()
                .zip(&values)
                .map(|((name, _), values)| Attribute { name, values: List::from(values) })
                .collect();
            session.add(dn, &attributes)
        };
        let classes = |own: &'static str| ("objectClass", ["top", "extensibleObject", own]);
        let (name, of) = classes("nsBackendInstance");
        add(session, BACK_END, &[(name, &of), ("cn", &["userroot"]), ("nsslapd-suffix", &[suffix])])?;
        let mapping = format!("cn=\"{}\",cn=mapping tree,cn=config", suffix.replace('"', "\\\""));
        let (name, of) = classes("nsMappingTree");
        add(
            session,
            &mapping,
            &[
                (name, &of),
                ("cn", &[suffix]),
                ("nsslapd-state", &["backend"]),
                ("nsslapd-backend", &["userroot"]),
            ],
        )?;
        for index in &plan.indexes {
            let dn = format!("cn={},cn=index,{BACK_END}", index.attribute);
            let types: Vec<&str> = index.types.iter().map(String::as_str).collect();
            let attributes: [(&str, &[&str]); 4] = [
                ("objectClass", &["top", "nsIndex"]),
                ("cn", &[&index.attribute]),
                ("nsSystemIndex", &["false"]),
                ("nsIndexType", &types),
            ];
            match add(session, &dn, &attributes) {
                // One of the server's own.
                Err(error) if error.code() == Some(ResultCode::EntryAlreadyExists) => {}
                added => added?,
            }
        }
        if let Some(bytes) = plan.import_cache_bytes {
            let bytes = bytes.to_string();
            let values = [[Value(b"0")], [Value(bytes.as_bytes())]];
            let change = |name, values| Change {
                operation: ModifyOperation::Replace,
                attribute: Attribute { name, values: List::from(values) },
            };
            session.modify(
                DATABASE,
                &[
                    change("nsslapd-import-cache-autosize", &values[0]),
                    change("nsslapd-import-cachesize", &values[1]),
                ],
            )?;
        }
        Ok(())
    }

    fn stop(&self, server: Running) -> Result<(), LoadError> {
        let Running { group, guard } = server;
        let clock = Clock::get();
        let mut stopping = Stopping::new(group, STOP_MAX);
        while !stopping.step(clock.now())? {}
        drop(guard);
        let is_clean =
            !stopping.was_killed() && matches!(stopping.group().ending(), None | Some(Ending::Exited(0)));
        match is_clean {
            true => Ok(()),
            false => Err(LoadError::new(
                "389 Directory Server did not stop as it should",
                "see its log in `directory`",
            )),
        }
    }
}

struct Running {
    group: Group,
    guard: Guard,
}

/// The name of the user that this process runs as; its number where it has none.
fn user_name() -> String {
    let id = rustix::process::geteuid().as_raw().to_string();
    let users = fs::read_to_string("/etc/passwd").unwrap_or_default();
    let name = users.lines().find_map(|line| {
        let mut fields = line.split(':');
        let name = fields.next()?;
        (fields.nth(1) == Some(&id)).then(|| name.to_string())
    });
    name.unwrap_or(id)
}
