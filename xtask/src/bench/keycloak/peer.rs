//! Keycloak's side: fetched, started on an empty database, asked to synchronize.

use std::fs::{self, File};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::servers::Servers;
use super::{ATTRIBUTES, PEOPLE, Sample};
use crate::files::Repository;
use crate::program::{family_cpu_us, target};

/// The version that is compared with.
pub(super) const VERSION: &str = "26.4.7";
/// How long it may take to begin: it builds itself first, then makes its tables.
const BEGIN: Duration = Duration::from_secs(600);
/// Who may do everything, on loopback and for as long as the comparison takes.
const ADMINISTRATOR: &str = "admin";
const REALM: &str = "people";
/// Runs a command until its input ends, which ends with this process in any case; returns the status of the command if it ends
/// earlier.
const KEEPER: &str =
    "exec 3<&0; \"$@\" </dev/null & server=$!; { read -r _; kill $server; } <&3 2>/dev/null & watch=$!
wait $server; status=$?; kill $watch 2>/dev/null; exit $status";
/// Names the federation, so that no query is needed.
const FEDERATION: &str = "6f0d5c1e-3f57-4c3c-8f0e-6d1f1c5f9a01";

/// Both synchronizations.
pub(super) struct Measured {
    pub(super) first: Sample,
    pub(super) second: Sample,
}

impl Measured {
    pub(super) fn print(&self) {
        self.first.print("Keycloak", "first import");
        self.second.print("Keycloak", "with nothing changed");
    }
}

/// The folder it is in; fetched by Maven when it is not there.
pub(super) fn fetch(repository: &Repository) -> Result<PathBuf, String> {
    let place = target(repository).join("keycloak");
    let folder = place.join(format!("keycloak-{VERSION}"));
    if folder.join("bin/kc.sh").is_file() {
        return Ok(folder);
    }
    let failed = |error: std::io::Error| format!("{}: {error}", place.display());
    // What is cut short is never taken for the whole.
    let part = place.join(format!("part-{}", std::process::id()));
    fs::create_dir_all(&part).map_err(failed)?;
    println!("Keycloak {VERSION} is fetched, once");
    let output = Command::new("mvn")
        .args(["-B", "-q", "org.apache.maven.plugins:maven-dependency-plugin:3.6.1:unpack"])
        .arg(format!("-Dartifact=org.keycloak:keycloak-quarkus-dist:{VERSION}:zip"))
        .args(["-DoutputDirectory=."])
        .current_dir(&part)
        .output();
    let fetched = match output {
        Ok(output) if output.status.success() => {
            fs::rename(part.join(format!("keycloak-{VERSION}")), &folder).map_err(failed)
        }
        Ok(output) => Err(format!("mvn: {}", String::from_utf8_lossy(&output.stdout).trim())),
        Err(error) => Err(format!("mvn: {error}; apt-get install maven")),
    };
    let _ = fs::remove_dir_all(&part);
    fetched.map_err(|why| {
        format!(
            "Keycloak {VERSION} is needed: put keycloak-{VERSION}, unpacked, in {}, or let Maven fetch it, which failed: {why}",
            place.display()
        )
    })?;
    Ok(folder)
}

/// What it runs on.
pub(super) fn java() -> Result<String, String> {
    let program = match std::env::var_os("JAVA_HOME") {
        Some(home) => Path::new(&home).join("bin/java"),
        None => "java".into(),
    };
    let output = Command::new(&program).arg("-version").output();
    let output = output.map_err(|error| format!("java: {error}; apt-get install openjdk-17-jre-headless"))?;
    let text = String::from_utf8_lossy(&output.stderr);
    Ok(text.lines().next().unwrap_or("java").replace('"', ""))
}

/// Takes everybody into a new database, twice.
pub(super) fn measure(
    keycloak: &Path,
    folder: &Path,
    servers: &Servers,
    database: &str,
) -> Result<Measured, String> {
    servers.make_database(database)?;
    let server = Server::start(keycloak, folder, servers, database)?;
    servers.sql("postgres", "CHECKPOINT")?;
    let first = server.synchronize(servers, "added")?;
    // Each attribute beyond those that a user has of himself is a row.
    let kept = format!(
        "SELECT count(*), (SELECT count(*) FROM user_attribute a JOIN user_entity u ON u.id = a.user_id WHERE u.realm_id = r.id \
         AND a.name IN ({})) FROM user_entity u JOIN realm r ON r.id = u.realm_id WHERE r.name = '{REALM}' GROUP BY r.id",
        others().map(|name| format!("'{name}'")).collect::<Vec<_>>().join(", ")
    );
    let expected = format!("{PEOPLE}|{}", PEOPLE as usize * others().count());
    let found = servers.sql(database, &kept)?;
    if found != expected {
        return Err(format!("Keycloak should keep users|attributes {expected}, and keeps {found}"));
    }
    let second = server.synchronize(servers, "updated")?;
    Ok(Measured { first, second })
}

/// What a user has of himself, by the name in the directory.
const OF_USER: [(&str, &str); 4] =
    [("uid", "username"), ("givenName", "firstName"), ("sn", "lastName"), ("mail", "email")];

/// The other attributes.
fn others() -> impl Iterator<Item = &'static str> {
    ATTRIBUTES.into_iter().filter(|name| OF_USER.iter().all(|(known, _)| known != name))
}

/// A running Keycloak, ended when dropped.
struct Server {
    child: Child,
    url: String,
}

impl Server {
    fn start(keycloak: &Path, folder: &Path, servers: &Servers, database: &str) -> Result<Server, String> {
        let failed = |error: std::io::Error| format!("{}: {error}", keycloak.display());
        // It keeps things of its own beside the database.
        let _ = fs::remove_dir_all(keycloak.join("data"));
        fs::create_dir_all(keycloak.join("data/import")).map_err(failed)?;
        fs::write(keycloak.join("data/import/realm.json"), realm(servers).to_string()).map_err(failed)?;
        let (port, management) = (free_port()?, free_port()?);
        let log = folder.join("keycloak.log");
        let output = File::create(&log).map_err(failed)?;
        let child = Command::new("sh")
            .args(["-c", KEEPER, "keeper", "bash"])
            .arg(keycloak.join("bin/kc.sh"))
            .args(["start", "--import-realm", "--db=postgres", "--cache=local", "--hostname-strict=false"])
            .args(["--http-enabled=true", "--http-host=127.0.0.1"])
            .arg(format!("--http-port={port}"))
            .arg(format!("--http-management-port={management}"))
            .arg(format!(
                "--db-url=jdbc:postgresql://{}:{}/{database}",
                servers.get("database-host"),
                servers.get("database-port")
            ))
            .arg(format!("--db-username={}", servers.get("database-user")))
            .arg("--db-password=none")
            .env("KC_BOOTSTRAP_ADMIN_USERNAME", ADMINISTRATOR)
            .env("KC_BOOTSTRAP_ADMIN_PASSWORD", ADMINISTRATOR)
            .stdin(Stdio::piped())
            .stdout(output.try_clone().map_err(failed)?)
            .stderr(output)
            .spawn()
            .map_err(|error| format!("sh: {error}"))?;
        let mut server = Server { child, url: format!("http://127.0.0.1:{port}") };
        let begin = Instant::now();
        while curl(&["-f", &format!("{}/realms/{REALM}", server.url)]).is_err() {
            let ended = !matches!(server.child.try_wait(), Ok(None));
            if ended || begin.elapsed() > BEGIN {
                let text = fs::read_to_string(&log).unwrap_or_default();
                let lines: Vec<&str> = text.lines().collect();
                let last = lines[lines.len().saturating_sub(20)..].join("\n");
                return Err(format!("Keycloak did not start:\n{last}"));
            }
            sleep(Duration::from_millis(500));
        }
        Ok(server)
    }

    /// A full synchronization, which should count everybody under `counter`.
    fn synchronize(&self, servers: &Servers, counter: &str) -> Result<Sample, String> {
        let token = self.token()?;
        let url = format!(
            "{}/admin/realms/{REALM}/user-storage/{FEDERATION}/sync?action=triggerFullSync",
            self.url
        );
        let process = self.child.id().to_string();
        let (answer, sample) = servers.timed(
            || family_cpu_us(&process),
            || curl(&["-m", "3600", "-X", "POST", "-H", &format!("Authorization: Bearer {token}"), &url]),
        )?;
        let reported: Value = serde_json::from_str(&answer).unwrap_or_default();
        match reported[counter].as_u64() {
            Some(count) if count == u64::from(PEOPLE) => Ok(sample),
            _ => Err(format!("Keycloak should count {PEOPLE} {counter}, and it answers {answer}")),
        }
    }

    fn token(&self) -> Result<String, String> {
        let name = format!("username={ADMINISTRATOR}");
        let password = format!("password={ADMINISTRATOR}");
        let answer = curl(&[
            "-d",
            "client_id=admin-cli",
            "-d",
            "grant_type=password",
            "-d",
            &name,
            "-d",
            &password,
            &format!("{}/realms/master/protocol/openid-connect/token", self.url),
        ])?;
        let reported: Value = serde_json::from_str(&answer).unwrap_or_default();
        let token = reported["access_token"].as_str().map(str::to_string);
        token.ok_or_else(|| format!("Keycloak gives no token: {answer}"))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // The keeper sees the end of its input.
        drop(self.child.stdin.take());
        let _ = self.child.wait();
    }
}

/// A realm that takes its users from the directory, and of each user what the metadirectory takes too.
fn realm(servers: &Servers) -> Value {
    let mapper = |name: &str, to: &str| {
        json!({
            "name": name,
            "providerId": "user-attribute-ldap-mapper",
            "config": {
                "ldap.attribute": [name],
                "user.model.attribute": [to],
                "read.only": ["true"],
                "always.read.value.from.ldap": ["false"],
                "is.mandatory.in.ldap": ["false"],
            },
        })
    };
    let mut mappers: Vec<Value> = OF_USER.iter().map(|(name, to)| mapper(name, to)).collect();
    mappers.extend(others().map(|name| mapper(name, name)));
    json!({
        "realm": REALM,
        "enabled": true,
        "components": { "org.keycloak.storage.UserStorageProvider": [{
            "id": FEDERATION,
            "name": "directory",
            "providerId": "ldap",
            "config": {
                "enabled": ["true"],
                "priority": ["0"],
                "vendor": ["other"],
                "editMode": ["READ_ONLY"],
                "importEnabled": ["true"],
                "syncRegistrations": ["false"],
                "fullSyncPeriod": ["-1"],
                "changedSyncPeriod": ["-1"],
                "cachePolicy": ["DEFAULT"],
                "connectionUrl": [servers.get("directory-url")],
                "authType": ["simple"],
                "bindDn": [servers.get("directory-dn")],
                "bindCredential": [servers.get("directory-password")],
                "usersDn": [format!("ou=people,{}", servers.get("directory-base"))],
                "userObjectClasses": ["inetOrgPerson"],
                "usernameLDAPAttribute": ["uid"],
                "rdnLDAPAttribute": ["uid"],
                "uuidLDAPAttribute": ["entryUUID"],
                // The whole tree below.
                "searchScope": ["2"],
                "pagination": ["true"],
                "batchSizeForSync": ["1000"],
            },
            "subComponents": { "org.keycloak.storage.ldap.mappers.LDAPStorageMapper": mappers },
        }] },
    })
}

/// Free a moment ago.
fn free_port() -> Result<u16, String> {
    let listener = TcpListener::bind("127.0.0.1:0").and_then(|socket| socket.local_addr());
    listener.map(|address| address.port()).map_err(|error| format!("no free port: {error}"))
}

/// What a server answers.
fn curl(arguments: &[&str]) -> Result<String, String> {
    let output = Command::new("curl").args(["-s", "-S", "--noproxy", "*"]).args(arguments).output();
    let output = output.map_err(|error| format!("curl: {error}; apt-get install curl"))?;
    match output.status.success() {
        true => Ok(String::from_utf8_lossy(&output.stdout).into_owned()),
        false => Err(format!("curl: {}", String::from_utf8_lossy(&output.stderr).trim())),
    }
}
