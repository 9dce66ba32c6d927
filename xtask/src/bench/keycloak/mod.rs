//! The metadirectory against Keycloak's federation of LDAP: both take the same 10,000 people of the same slapd into the same
//! PostgreSQL server, first into an empty database, then again with nothing changed.
//!
//! What each keeps of a person is not the same: Keycloak makes a user with attributes; the metadirectory an image of the entry in
//! a connector space, an object of the metaverse with the origin of each value, and the link between them.

mod ours;
mod peer;
mod servers;

use std::io::{Seek, SeekFrom, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::fault::Fault;
use crate::files::Repository;
use crate::program::{Folder, median, plimsoll};
use servers::Servers;

/// People in the directory.
const PEOPLE: u32 = 10_000;
/// How often ours is measured before Keycloak and behind it, in each round: it takes a second where Keycloak takes minutes.
const OURS: usize = 3;
/// What was promised of the first import.
const FACTOR: f64 = 50.0;

/// The attributes that both take. The 25th that is generated, `manager`, is the name of another entry, which is more than a text
/// to us and not to Keycloak.
const ATTRIBUTES: [&str; 24] = [
    "employeeNumber",
    "uid",
    "givenName",
    "sn",
    "mail",
    "title",
    "ou",
    "l",
    "displayName",
    "initials",
    "telephoneNumber",
    "mobile",
    "facsimileTelephoneNumber",
    "departmentNumber",
    "o",
    "employeeType",
    "street",
    "st",
    "postalCode",
    "roomNumber",
    "preferredLanguage",
    "description",
    "physicalDeliveryOfficeName",
    "businessCategory",
];

/// One import: its time, and the CPU time that was used meanwhile.
#[derive(Clone, Copy, Debug, Default)]
struct Sample {
    elapsed: Duration,
    /// By who imports.
    cpu_us: f64,
    directory_cpu_us: f64,
    database_cpu_us: f64,
}

impl Sample {
    fn rate_per_s(&self) -> f64 {
        f64::from(PEOPLE) / self.elapsed.as_secs_f64()
    }

    fn and(self, other: Sample) -> Sample {
        Sample {
            elapsed: self.elapsed + other.elapsed,
            cpu_us: self.cpu_us + other.cpu_us,
            directory_cpu_us: self.directory_cpu_us + other.directory_cpu_us,
            database_cpu_us: self.database_cpu_us + other.database_cpu_us,
        }
    }

    fn print(&self, who: &str, what: &str) {
        let each = |cpu_us: f64| cpu_us / f64::from(PEOPLE);
        println!(
            "    {who:<9} {what:<29} {:>8.2} s {:>8.0}/s   {:>7.1} us CPU each, slapd {:>6.1}, PostgreSQL {:>6.1}",
            self.elapsed.as_secs_f64(),
            self.rate_per_s(),
            each(self.cpu_us),
            each(self.directory_cpu_us),
            each(self.database_cpu_us)
        );
    }
}

/// The comparison.
pub(super) fn compare(repository: &Repository, rounds: usize) -> Result<Vec<Fault>, String> {
    // What is missing is reported before anything is built.
    let java = peer::java()?;
    for name in ["curl", "psql"] {
        let found = Command::new(name).arg("--version").stdout(Stdio::null()).status();
        found.map_err(|error| format!("{name}: {error}; apt-get install curl postgresql slapd"))?;
    }
    let keycloak = peer::fetch(repository)?;
    let program = plimsoll(repository)?;
    let folder = Folder::new(repository, "keycloak")?;
    let ldif = ours::people(&program, &folder.0)?;
    let servers = Servers::start(repository, &ldif)?;
    println!(
        "{PEOPLE} people, {} attributes, {rounds} rounds; Keycloak {} on {java}, {}, {}; both commit to the disk",
        ATTRIBUTES.len(),
        peer::VERSION,
        servers.versions()?,
        servers::SETTINGS.join(" "),
    );
    let mut ratios = Vec::new();
    for round in 1..=rounds {
        println!(
            "  round {round}: a flush of the disk takes {:.2} ms, load average {}",
            flush_ms(servers.folder())?,
            load_average()
        );
        let mut of_ours = Vec::new();
        let ours_by = |number: usize, commit_objects: Option<u32>| {
            let database = format!("plimsoll_{round}_{number}");
            ours::measure(&program, &folder.0, &servers, &database, commit_objects)
        };
        let mut measure_ours = |number: usize| -> Result<(), String> {
            let measured = ours_by(number, None)?;
            measured.print("");
            of_ours.push(measured);
            Ok(())
        };
        (0..OURS).try_for_each(&mut measure_ours)?;
        let theirs = peer::measure(&keycloak, &folder.0, &servers, &format!("keycloak_{round}"))?;
        theirs.print();
        (OURS..2 * OURS).try_for_each(&mut measure_ours)?;
        // As Keycloak commits: each person alone.
        let alone = ours_by(2 * OURS, Some(1))?;
        alone.print(", one a commit");
        println!(
            "  round {round}: in the end a flush takes {:.2} ms, load average {}",
            flush_ms(servers.folder())?,
            load_average()
        );
        let ratio = |of: fn(&ours::Measured) -> f64, theirs: Sample| {
            median(&of_ours.iter().map(of).collect::<Vec<_>>()) / theirs.rate_per_s()
        };
        ratios.push([
            ratio(|ours| ours.first().rate_per_s(), theirs.first),
            alone.first().rate_per_s() / theirs.first.rate_per_s(),
            ratio(|ours| ours.second().rate_per_s(), theirs.second),
        ]);
    }
    let [first, alone, second] =
        [0, 1, 2].map(|at| median(&ratios.iter().map(|ratio: &[f64; 3]| ratio[at]).collect::<Vec<_>>()));
    let met = first >= FACTOR;
    let name = "first import, of Keycloak's rate";
    println!("  {name:<38} {first:>6.1}   at least {FACTOR}   {}", if met { "met" } else { "MISSED" });
    println!("  {:<38} {alone:>6.1}   no bound promised", "the same, one person a commit");
    println!("  {:<38} {second:>6.1}   no bound promised", "with nothing changed, of Keycloak's");
    Ok(match met {
        true => Vec::new(),
        false => vec![Fault::new(
            "make bench-keycloak",
            format!("{name}: {first:.1}"),
            format!("at least {FACTOR} was promised"),
        )],
    })
}

/// How long 4 KiB take to be on the disk that the database is on: the median of a second.
fn flush_ms(folder: &Path) -> Result<f64, String> {
    let path = folder.join(format!("flush-{}", std::process::id()));
    let measured = || -> std::io::Result<Vec<f64>> {
        let mut file = std::fs::File::create(&path)?;
        file.write_all(&[0; 1 << 20])?;
        file.sync_all()?;
        let (begin, mut times) = (Instant::now(), Vec::new());
        for place in (0..256).cycle() {
            file.seek(SeekFrom::Start(place * 4096))?;
            let asked = Instant::now();
            file.write_all(&[1; 4096])?;
            file.sync_data()?;
            times.push(asked.elapsed().as_secs_f64() * 1e3);
            if begin.elapsed() > Duration::from_secs(1) {
                break;
            }
        }
        Ok(times)
    };
    let times = measured().map_err(|error| format!("{}: {error}", path.display()));
    let _ = std::fs::remove_file(&path);
    Ok(median(&times?))
}

/// How busy the machine was in the last minute: other programs distort the figures.
fn load_average() -> String {
    let text = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    text.split_whitespace().next().unwrap_or("unknown").into()
}
