//! `plimsoll doctor --store`: a store in a file and one in PostgreSQL, with real devices.

use std::collections::BTreeMap;
use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant, SystemTime};

use serde_json::Value;
use testkit::Need;

use crate::metadir::{staff, staff_and_phones};
use crate::program::{Finished, Place, command, run};

/// A metadirectory after one run, with this [store].
fn after_a_run(place: &Place, store: &str) {
    staff_and_phones(place);
    let path = place.path("metadirectory.toml");
    let text = fs::read_to_string(&path).unwrap();
    let line = "sqlite = \"metadirectory.db\"";
    assert!(text.contains(line));
    fs::write(&path, text.replace(line, store)).unwrap();
    fs::write(place.path("staff.csv"), staff(300, |_| "Oslo")).unwrap();
    let done = run(place, &["metadir", "run", "full"]);
    assert_eq!(done.code, 0, "{}", done.err);
}

/// The checks by name: result and text. Of several with the same name, the last one.
fn checks(done: &Finished) -> BTreeMap<String, (String, String)> {
    let document: Value =
        serde_json::from_str(&done.out).unwrap_or_else(|_| panic!("{}{}", done.out, done.err));
    assert_eq!(document["format"], "plimsoll.doctor-store/1");
    let text = |check: &Value, key: &str| check[key].as_str().unwrap().to_string();
    let list = document["checks"].as_array().unwrap().iter();
    list.map(|check| (text(check, "name"), (text(check, "result"), text(check, "text")))).collect()
}

/// The files of a folder: name, size, mode and time of the last change.
fn files(folder: &Path) -> Vec<(String, u64, u32, SystemTime)> {
    let mut files: Vec<_> = fs::read_dir(folder)
        .unwrap()
        .flatten()
        .map(|entry| {
            let data = entry.metadata().unwrap();
            let name = entry.file_name().to_string_lossy().into_owned();
            (name, data.len(), data.permissions().mode(), data.modified().unwrap())
        })
        .collect();
    files.sort();
    files
}

#[test]
fn a_store_in_a_file_is_checked_and_not_changed() {
    let place = Place::new("doctor-store");
    let without = run(&place, &["doctor", "--store"]);
    assert!(
        without.code == 2 && without.err.contains("metadirectory.toml cannot be read"),
        "{}",
        without.err
    );
    staff_and_phones(&place);
    let wrong = fs::read_to_string(place.path("metadirectory.toml"))
        .unwrap()
        .replace("metadirectory.db", "wrong.toml");
    fs::write(place.path("wrong.toml"), &wrong).unwrap();
    let refused = run(&place, &["doctor", "--store", "wrong.toml"]);
    assert!(refused.code == 1 && refused.err.contains("not a database"), "{}", refused.err);
    assert!(refused.err.contains("[store] of wrong.toml"), "{}", refused.err);
    assert_eq!(fs::read_to_string(place.path("wrong.toml")).unwrap(), wrong);
    let early = run(&place, &["doctor", "--store", "--strict"]);
    assert!(early.code == 0 && early.out.contains("does not exist yet"), "{}", early.out);
    assert!(!place.path("metadirectory.db").exists());
    after_a_run(&place, "sqlite = \"metadirectory.db\"");
    // Others may read it, which a run would correct.
    fs::set_permissions(place.path("metadirectory.db"), fs::Permissions::from_mode(0o644)).unwrap();
    let before = files(&place.path(""));
    let done = run(&place, &["doctor", "--store", "metadirectory.toml", "--strict", "--json"]);
    assert_eq!(done.code, 0, "{}", done.err);
    let found = checks(&done);
    assert_eq!(files(&place.path("")), before);
    assert_eq!(found["durability"].0, "ok");
    assert!(found["durability"].1.contains("journal_mode wal, synchronous full"), "{found:?}");
    assert_eq!(found["access"].0, "warn");
    assert!(found["size"].1.contains("600 connector space and 300 metaverse objects"), "{found:?}");
    assert!(found["growth"].1.contains("not known: the first run was today"), "{found:?}");
    assert_eq!(found["cache"], ("ok".into(), found["cache"].1.clone()));
    for (durability, result, synchronous, code) in
        [("normal", "warn", "normal", 0), ("off", "fault", "off", 1)]
    {
        let path = place.path(durability);
        let text = fs::read_to_string(place.path("metadirectory.toml")).unwrap();
        let with = format!("durability = \"{durability}\"\ncache_bytes = 1048576 ");
        fs::write(&path, text.replace("durability = \"full\"", &with)).unwrap();
        let done = run(&place, &["doctor", "--store", durability, "--strict", "--json"]);
        let found = checks(&done);
        assert_eq!((done.code, found["durability"].0.as_str()), (code, result), "{found:?}");
        assert!(found["durability"].1.contains(&format!("synchronous {synchronous})")), "{found:?}");
        assert!(found["cache"].1.starts_with("cache_bytes is 1.00 MiB"), "{found:?}");
        assert_eq!(run(&place, &["doctor", "--store", durability]).code, 0);
    }
}

#[test]
fn the_log_of_a_killed_run_is_shown_and_kept() {
    let place = Place::new("doctor-store-killed");
    // A server that accepts and never answers keeps the run open.
    let server = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = server.local_addr().unwrap().port();
    fs::write(place.path("staff.csv"), staff(3000, |_| "Oslo")).unwrap();
    let config = format!(
        "[store]\nsqlite = \"s.db\"\ncommit_objects = 100\n[metaverse.person]\nattributes = {{ id = \"text\", mail = \"text\" }}\n\
         [agents.staff]\ntype = \"delimited\"\npath = \"staff.csv\"\nanchor = \"employeeNumber\"\n\
         [agents.slow]\ntype = \"ldap\"\nurl = \"ldap://127.0.0.1:{port}\"\nbase = \"dc=a\"\nanchor = \"uid\"\n\
         attributes = [\"cn\"]\ntimeout_s = 3600\n\
         [[inbound]]\nagent = \"staff\"\nto = \"person\"\nproject = true\nflow = {{ id = \"employeeNumber\" }}\n\
         [[inbound]]\nagent = \"slow\"\nto = \"person\"\nproject = true\nflow = {{ mail = \"uid\" }}\n\
         [runs.night]\nsteps = [\"staff full-import\", \"slow full-import\"]\n"
    );
    fs::write(place.path("metadirectory.toml"), config).unwrap();
    let quiet = || Stdio::null();
    let mut child = command(&place, &["metadir", "run", "night"]);
    let mut child = child.stdin(quiet()).stdout(quiet()).stderr(quiet()).spawn().unwrap();
    let begin = Instant::now();
    let is_waiting = || {
        let status = run(&place, &["metadir", "status", "--json"]);
        // Until the run has made the store, status says that another process uses it.
        let status: Value = serde_json::from_str(&status.out).unwrap_or_default();
        status["running"]["agent"] == "slow"
    };
    while !is_waiting() {
        assert!(begin.elapsed() < Duration::from_secs(60));
        std::thread::sleep(Duration::from_millis(50));
    }
    let during = checks(&run(&place, &["doctor", "--store", "--json"]));
    child.kill().unwrap();
    child.wait().unwrap();
    let wal = fs::metadata(place.path("s.db-wal")).unwrap().len();
    assert!(wal > 0 && !during["log"].1.starts_with("0 B"), "{during:?}");
    let after = checks(&run(&place, &["doctor", "--store", "--json"]));
    assert!(!after["log"].1.starts_with("0 B"), "{after:?}");
    assert_eq!(fs::metadata(place.path("s.db-wal")).unwrap().len(), wal);
    assert!(after["size"].1.contains("3,000 connector space"), "{after:?}");
}

/// A store in memory, one on a loop device over the same disk, and both for temporary files.
const MOUNTED: &str = "set -e
mount -t tmpfs -o size=20m tmpfs memory
truncate -s 40M image
mkfs.ext4 -q image
mount -o loop image loop
for folder in memory loop; do
  cp metadirectory.toml staff.csv $folder/
  \"$0\" metadir run full --config $folder/metadirectory.toml > /dev/null
done
SQLITE_TMPDIR=$PWD \"$0\" doctor --store memory/metadirectory.toml --strict --json > memory.json || echo \"exit $?\"
SQLITE_TMPDIR=$PWD \"$0\" doctor --store loop/metadirectory.toml --strict --json > loop.json
SQLITE_TMPDIR=$PWD/memory \"$0\" doctor --store loop/metadirectory.toml --json > apart.json";

#[test]
fn devices_are_followed_through_mounts_to_the_disk() {
    let needs = [Need::Mount, Need::LoopDevice, Need::Program("mkfs.ext4")];
    if needs.into_iter().any(testkit::lacks) {
        return;
    }
    let place = Place::new("doctor-store-devices");
    staff_and_phones(&place);
    fs::write(place.path("staff.csv"), staff(30, |_| "Oslo")).unwrap();
    for folder in ["memory", "loop"] {
        fs::create_dir(place.path(folder)).unwrap();
    }
    let output = Command::new("unshare")
        .args(["--mount", "sh", "-c", MOUNTED, env!("CARGO_BIN_EXE_plimsoll")])
        .current_dir(place.path(""))
        .output()
        .unwrap();
    let printed = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{printed}{}", String::from_utf8_lossy(&output.stderr));
    let read = |name: &str| {
        let out = fs::read_to_string(place.path(name)).unwrap();
        checks(&Finished { code: 0, out, err: String::new() })
    };
    let memory = read("memory.json");
    assert_eq!((memory["data"].0.as_str(), printed.trim()), ("fault", "exit 1"), "{memory:?}");
    assert!(memory["data"].1.ends_with("is on tmpfs, which is memory"), "{memory:?}");
    assert_eq!(memory["shared device"].1, "data and temporary files are on different devices");
    // The image is a file in the folder of the test: on the same disk.
    let disk = memory["temporary"].1.rsplit(" is on ").next().unwrap().to_string();
    let image = read("loop.json");
    assert_eq!(image["data"].1.rsplit(" is on ").next().unwrap(), disk);
    if let Some((_, disk)) = disk.split_once(" on ") {
        assert_eq!(image["shared device"].1, format!("data and temporary files are both on {disk}"));
    }
    assert_eq!(read("apart.json")["shared device"].1, "data and temporary files are on different devices");
}

#[test]
fn a_store_in_postgresql_is_checked() {
    // Root can read the folders of the server; psql makes a tablespace.
    if [Need::Root, Need::Program("psql")].into_iter().any(testkit::lacks) {
        return;
    }
    let Some(server) = testkit::Postgres::start(&["full_page_writes=off", "shared_buffers=16MB"]) else {
        return;
    };
    let place = Place::new("doctor-store-postgres");
    let connection = server.connection();
    after_a_run(&place, &format!("postgres = \"{connection}\"\nschema = \"checked\""));
    let doctor = |arguments: &[&str]| run(&place, &[&["doctor", "--store"], arguments].concat());
    let done = doctor(&["--strict", "--json"]);
    let found = checks(&done);
    assert_eq!((done.code, found["crash safety"].0.as_str()), (1, "fault"), "{found:?}");
    assert_eq!(found["crash safety"].1, "full_page_writes is off");
    assert!(found["durability"].1.starts_with("full (synchronous_commit on)"), "{found:?}");
    assert!(found["cache"].1.starts_with("shared_buffers is 16.0 MiB of "), "{found:?}");
    assert!(found["size"].1.contains("600 connector space and 300 metaverse objects"), "{found:?}");
    let data = server.folder().join("data");
    assert!(found["data"].1.starts_with(&format!("{} is on ", data.display())), "{found:?}");
    assert!(found["log"].1.starts_with(&format!("{}/pg_wal is on ", data.display())), "{found:?}");
    assert_eq!(found["shared device"].0, "ok", "{found:?}");
    // Temporary files with a path of their own on the same disk, and a log that moved.
    let apart = server.folder().join("apart");
    fs::create_dir(&apart).unwrap();
    let owner = fs::metadata(&data).unwrap();
    std::os::unix::fs::chown(&apart, Some(owner.uid()), Some(owner.gid())).unwrap();
    let psql = |sql: &str| {
        let done = Command::new("psql").args(["-q", "-d", &connection, "-c", sql]).output().unwrap();
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    };
    psql(&format!("CREATE TABLESPACE apart LOCATION '{}'", apart.display()));
    psql("ALTER ROLE plimsoll SET temp_tablespaces = 'apart'");
    psql("ALTER SYSTEM SET full_page_writes = on");
    psql("CREATE ROLE guest LOGIN");
    let found = checks(&doctor(&["--json"]));
    assert_eq!(found["shared device"].0, "warn", "{found:?}");
    assert!(found["temporary"].1.starts_with(&format!("{} is on ", apart.display())), "{found:?}");
    // The options of the command line of the server win.
    assert_eq!(found["crash safety"].0, "fault");
    // A user without privileges sees less, and what is missing is said.
    let path = place.path("metadirectory.toml");
    let text = fs::read_to_string(&path).unwrap();
    fs::write(&path, text.replace("user=plimsoll", "user=guest").replace("\"checked\"", "\"none\"")).unwrap();
    let found = checks(&doctor(&["--json"]));
    assert_eq!(found["devices"], ("info".into(), "not known: this user may not see data_directory".into()));
    assert!(found["store"].1.contains("schema none has no store"), "{found:?}");
}
