//! `plimsoll metadir init`: an example metadirectory with test data.

use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};

use clap::{Arg, ArgMatches, Command, value_parser};
use metadir::sqlite_script::SqliteScript;
use people::{Dialect, Format, Population, Sink};

use super::text;
use crate::carry_out::Failure;
use crate::exit::Exit;
use crate::output;

const CONFIGURATION: &str = include_str!("../../templates/metadirectory/metadirectory.toml");
const LDAP: &str = include_str!("../../templates/metadirectory/ldap.toml");
const LDIF: &str = include_str!("../../templates/metadirectory/ldif.toml");
const SERVER: &str = include_str!("../../templates/metadirectory/directory.sh");
/// The password of the test server, which listens only on this host.
const PASSWORD: &str = "secret";

/// Where `metadir` looks for a configuration when none is named.
const DEFAULT_PATH: &str = "metadirectory.toml";
/// Attributes of the staff file.
const STAFF_ATTRIBUTES: usize = 8;
/// Attributes up to the mobile telephone, for the phone book.
const PHONE_ATTRIBUTES: usize = 13;
/// Converts the table of people to a phone book.
const PHONE_BOOK: &str = "
CREATE TABLE subscriber (employee text PRIMARY KEY, extension text, mobile text);
INSERT INTO subscriber SELECT employeeNumber, telephoneNumber, mobile FROM people;
DROP TABLE people;
";

/// Its arguments.
pub(crate) fn arguments() -> Command {
    Command::new("init")
        .about("Write an example configuration, with a staff file and a phone book as test data")
        .arg(
            Arg::new("output")
                .long("output")
                .short('o')
                .value_name("FILE")
                .default_value(DEFAULT_PATH)
                .help("The file to write; the other files are written to the same folder"),
        )
        .arg(
            Arg::new("target")
                .long("target")
                .value_name("TARGET")
                .default_value("ldap")
                .value_parser(["ldap", "ldif"])
                .help("The target of the export: an LDAP directory, or an LDIF file, which needs no server"),
        )
        .arg(
            Arg::new("people")
                .long("people")
                .value_name("N")
                .default_value("200")
                .value_parser(value_parser!(u64).range(0..=10_000_000))
                .help("Number of people in the test data; 0 writes only the configuration"),
        )
}

/// A file to create.
struct NewFile {
    path: PathBuf,
    what: FileContent,
}

enum FileContent {
    Text(String),
    /// Readable only by its owner.
    Secret(String),
    Staff,
    PhoneBook,
}

/// Writes the files, all of them or none.
pub(crate) fn run(matches: &ArgMatches) -> Result<Exit, Failure> {
    let path = PathBuf::from(text(matches, "output"));
    let people = matches.get_one::<u64>("people").copied().unwrap_or(0);
    let is_ldap = text(matches, "target") == "ldap";
    let configuration = CONFIGURATION.replace("DIRECTORY\n", if is_ldap { LDAP } else { LDIF });
    let configuration = configuration.replace("STAFF", &people.max(1).to_string());
    let beside = |name: &str| path.with_file_name(name);
    let mut made = vec![NewFile { path: path.clone(), what: FileContent::Text(configuration) }];
    if people > 0 {
        made.push(NewFile { path: beside("staff.csv"), what: FileContent::Staff });
        made.push(NewFile { path: beside("phones.db"), what: FileContent::PhoneBook });
    }
    if is_ldap && people > 0 {
        made.push(NewFile { path: beside("directory.sh"), what: FileContent::Text(SERVER.into()) });
        made.push(NewFile { path: beside("directory.password"), what: FileContent::Secret(PASSWORD.into()) });
    }
    // Checked before anything is written.
    if let Some(there) = made.iter().find(|file| file.path.symlink_metadata().is_ok()) {
        return Err(exists(&there.path));
    }
    for file in &made {
        write(file, people).map_err(|error| match error.kind() {
            ErrorKind::AlreadyExists => exists(&file.path),
            _ => Failure::failed(format!("{} cannot be written: {error}", file.path.display())),
        })?;
    }
    let names: Vec<String> = made.iter().map(|file| file.path.display().to_string()).collect();
    let config = match path.to_str() {
        Some(DEFAULT_PATH) => String::new(),
        _ => format!(" --config {}", path.display()),
    };
    let wrote = names.join(", ");
    // Without people `run` is missing yet.
    output::result(&match (people, is_ldap) {
        (0, _) => {
            format!("wrote {wrote}\nnext: add your own systems to it, then plimsoll metadir check{config}")
        }
        (_, false) => format!(
            "wrote {wrote}\nnext: plimsoll metadir preview full{config}\n      plimsoll metadir run full{config}"
        ),
        (_, true) => format!(
            "wrote {wrote}\nnext: plimsoll metadir preview full{config}\n      sh {}  (in another terminal: starts a test LDAP server)\n      \
             plimsoll metadir run full{config}",
            beside("directory.sh").display()
        ),
    });
    Ok(Exit::Good)
}

fn exists(path: &Path) -> Failure {
    Failure::usage(format!(
        "error: {} exists already; nothing was written\n  name another folder with --output FOLDER/metadirectory.toml",
        path.display()
    ))
}

fn write(file: &NewFile, people: u64) -> std::io::Result<()> {
    let population = Population::new(1, people);
    let mut go_on = |_, _| true;
    match &file.what {
        FileContent::Text(text) => files::create_new(&file.path, 0o644)?.write_all(text.as_bytes()),
        FileContent::Secret(text) => {
            files::create_new(&file.path, files::PRIVATE_FILE)?.write_all(text.as_bytes())
        }
        FileContent::Staff => {
            let mut out = files::create_new(&file.path, files::PRIVATE_FILE)?;
            let mut sink = Sink::new(&mut out, &mut go_on);
            people::write_people(&population, STAFF_ATTRIBUTES, &Format::Csv, &mut sink).map(drop)
        }
        FileContent::PhoneBook => {
            let mut script = SqliteScript::create(&file.path)?;
            let mut sink = Sink::new(&mut script, &mut go_on);
            people::write_people(&population, PHONE_ATTRIBUTES, &Format::Sql(Dialect::Sqlite), &mut sink)?;
            script.write_all(PHONE_BOOK.as_bytes())?;
            script.finish()
        }
    }
}
