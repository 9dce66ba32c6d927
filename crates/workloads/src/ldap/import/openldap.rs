//! OpenLDAP: a configuration for a new database, and the command that imports into it.

use std::ffi::OsString;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use engine::workload::LoadError;

use super::ldif::LdifFile;
use super::settings::{OfflinePlan, program_path};
use super::tool::{Import, make_folder, missing_program, write_file};

/// Where packages install OpenLDAP's schema, and its modules.
const SCHEMA_FOLDERS: [&str; 3] =
    ["/etc/ldap/schema", "/etc/openldap/schema", "/usr/local/etc/openldap/schema"];
const MODULE_FOLDERS: [&str; 4] =
    ["/usr/lib/ldap", "/usr/lib64/openldap", "/usr/libexec/openldap", "/usr/local/libexec/openldap"];

/// Schema files without the setting, for people.
const SCHEMA: [&str; 3] = ["core", "cosine", "inetorgperson"];

/// Address space of a database per byte of LDIF, and at least: the file grows only as it is filled.
const MAP_PER_BYTE: u64 = 32;
const MAP_BYTES_MIN: u64 = 16 << 30;

/// Writes the configuration of an empty database into the folder.
pub(super) fn prepare(plan: &OfflinePlan, folder: &Path, ldif: &LdifFile) -> Result<Import, LoadError> {
    let program = program_path("slapadd").ok_or_else(|| missing_program("slapadd", "slapd"))?;
    let database = folder.join("db");
    make_folder(&database)?;
    let mut text = String::new();
    for name in
        plan.schema.iter().map(String::as_str).chain(SCHEMA.into_iter().filter(|_| plan.schema.is_empty()))
    {
        let _ = writeln!(text, "include {}", quoted(&schema_file(name)?));
    }
    // Without modules, the back end is part of the program.
    if let Some(modules) =
        MODULE_FOLDERS.iter().map(Path::new).find(|modules| modules.join("back_mdb.so").exists())
    {
        let _ = writeln!(text, "modulepath {}\nmoduleload back_mdb", modules.display());
    }
    let map_bytes = ldif.bytes.saturating_mul(MAP_PER_BYTE).max(MAP_BYTES_MIN);
    if let Some(threads) = plan.tool_threads {
        let _ = writeln!(text, "tool-threads {threads}");
    }
    let _ =
        writeln!(text, "database mdb\nsuffix \"{}\"", ldif.suffix.replace('\\', "\\\\").replace('"', "\\\""));
    let _ = writeln!(text, "directory {}\nmaxsize {map_bytes}\nindex objectClass eq", quoted(&database));
    for index in plan.indexes.iter().filter(|index| !index.attribute.eq_ignore_ascii_case("objectClass")) {
        let _ = writeln!(text, "index {} {}", index.attribute, index.types.join(","));
    }
    let config = folder.join("slapd.conf");
    write_file(&config, &text)?;
    let mut words: Vec<OsString> = vec![program.into()];
    words.extend(plan.quick.then(|| "-q".into()));
    words.extend(["-f".into(), config.into(), "-l".into(), ldif.path.clone().into()]);
    Ok(Import { words, shown: None, directory: folder.to_path_buf(), log: None, database: Some(database) })
}

fn schema_file(name: &str) -> Result<PathBuf, LoadError> {
    if name.contains('/') {
        return Ok(PathBuf::from(name));
    }
    let found = SCHEMA_FOLDERS.iter().map(|folder| Path::new(folder).join(format!("{name}.schema")));
    found.into_iter().find(|path| path.exists()).ok_or_else(|| {
        let what = format!("there is no schema file {name}.schema in {}", SCHEMA_FOLDERS.join(", "));
        LoadError::new(what, "write its path in `schema`")
    })
}

/// A path as an argument of slapd.conf.
fn quoted(path: &Path) -> String {
    format!("\"{}\"", path.display().to_string().replace('\\', "\\\\").replace('"', "\\\""))
}
