//! Which of fio's example jobs `plimsoll disk --fio` runs, and why it refuses the others.
//!
//! `cargo xtask fio-examples DIR` reads every `*.fio` in a folder, such as `examples` of fio's repository, and prints two tables in
//! Markdown: counts, and each refused example with the option and what to use instead. Nothing is run, unless `--run` stands
//! behind it: then each example that is not refused drives a scratch file for a moment.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use crate::fault::Fault;
use crate::files::Repository;
use crate::program::{Folder, cargo, target};

/// Bytes of the scratch file, which is a hole, and of a larger one, as some examples begin at a far offset of a large device.
const SCRATCH_BYTES: [u64; 2] = [1 << 40, 8 << 40];

/// What the examples expect in the environment; other variables are set to a word, which is also a folder.
const VARIABLES: [(&str, &str); 3] = [("FIO_RW", "randread"), ("FIO_IODEPTH", "4"), ("FIO_BS", "4k")];

/// Mistakes with what to use instead.
type Reasons = Vec<(String, String)>;

/// What becomes of an example.
enum Fate {
    AsWritten,
    /// With a file or device named beside `--fio`.
    WithTarget,
    /// Each option with what to use instead.
    Refused(Reasons),
}

/// The chore.
pub(crate) fn run(repository: &Repository, arguments: &[String]) -> Result<Vec<Fault>, String> {
    let (flags, folders): (Vec<_>, Vec<_>) =
        arguments.iter().partition(|argument| argument.starts_with("--"));
    let ([folder], false) = (folders.as_slice(), flags.iter().any(|flag| *flag != "--run")) else {
        return Err("write cargo xtask fio-examples DIR [--run], DIR with fio's example jobs".into());
    };
    let examples = examples(Path::new(folder))?;
    let scratch = Scratch::new(repository)?;
    let fates: Result<BTreeMap<String, Fate>, String> = examples
        .iter()
        .map(|path| {
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            Ok((name, scratch.fate(path)?))
        })
        .collect();
    let fates = fates?;
    print!("{}", tables(&fates));
    if flags.is_empty() {
        return Ok(Vec::new());
    }
    let mut faults = Vec::new();
    let driven = examples.iter().zip(fates.values()).filter(|(_, fate)| !matches!(fate, Fate::Refused(_)));
    for (path, _) in driven {
        if let Some(why) = scratch.drive(path)? {
            faults.push(Fault::new(path.display().to_string(), why, "run it by hand"));
        }
    }
    Ok(faults)
}

/// The job files of a folder, in order of name.
fn examples(folder: &Path) -> Result<Vec<PathBuf>, String> {
    let entries = fs::read_dir(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let mut paths: Vec<PathBuf> = entries
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| path.extension().is_some_and(|extension| extension == "fio"))
        .collect();
    paths.sort();
    if paths.is_empty() {
        return Err(format!("{} holds no *.fio", folder.display()));
    }
    paths
        .iter()
        .map(|path| fs::canonicalize(path).map_err(|error| format!("{}: {error}", path.display())))
        .collect()
}

/// The program, and a folder with a file to drive.
struct Scratch {
    program: PathBuf,
    folder: Folder,
    file: String,
}

impl Scratch {
    fn new(repository: &Repository) -> Result<Self, String> {
        // What is measured does not count here.
        cargo(repository, &["build", "--locked", "-p", "plimsoll-cli"])?;
        let program = target(repository).join("debug/plimsoll");
        let folder = Folder::new(repository, "fio-examples")?;
        let file = folder.0.join("scratch.bin");
        fs::create_dir(folder.0.join("x")).map_err(|error| format!("{}: {error}", folder.0.display()))?;
        Ok(Scratch { program, folder, file: file.display().to_string() })
    }

    /// Makes the scratch file anew.
    fn make(&self, bytes: u64) -> Result<(), String> {
        let made = File::create(&self.file).and_then(|made| made.set_len(bytes));
        made.map_err(|error| format!("{}: {error}", self.file))
    }

    /// Runs the program on a job file, with all the variables that the file wants.
    fn plimsoll(&self, example: &Path, flags: &[&str]) -> Result<Output, String> {
        let text = fs::read_to_string(example).map_err(|error| format!("{}: {error}", example.display()))?;
        let wanted = text.split("${").skip(1).filter_map(|rest| rest.split_once('}')).map(|(name, _)| name);
        let value =
            |name: &str| VARIABLES.iter().find(|(known, _)| *known == name).map_or("x", |(_, value)| value);
        let mut command = Command::new(&self.program);
        command.args(["disk", "--fio"]).arg(example).args(flags).current_dir(&self.folder.0);
        command.envs(wanted.map(|name| (name, value(name))));
        command.output().map_err(|error| format!("{}: {error}", self.program.display()))
    }

    fn fate(&self, example: &Path) -> Result<Fate, String> {
        // The steps are printed where the job file is understood, whether or not this machine has the files it names.
        let is_understood = !self.plimsoll(example, &["--dry-run"])?.stdout.is_empty();
        let mut runs = false;
        let mut reasons = Reasons::new();
        for bytes in SCRATCH_BYTES {
            self.make(bytes)?;
            let named =
                self.plimsoll(example, &["--overwrite", &self.file, "--dry-run", "--", &self.file])?;
            runs = named.status.success();
            reasons = problems(&String::from_utf8_lossy(&named.stderr).replace(&self.file, "FILE"));
            if !reasons.iter().any(|(what, _)| what.contains("not one block") || what.contains("from offset"))
            {
                break;
            }
        }
        // A device as large as the example wants is not here, but would be refused all the same.
        let is_too_large = |(what, _): &(String, String)| what.contains("would have to remember");
        Ok(match (is_understood, runs) {
            (true, _) if !reasons.iter().any(is_too_large) => Fate::AsWritten,
            (_, true) => Fate::WithTarget,
            _ => Fate::Refused(reasons),
        })
    }

    /// Drives files of an example for a moment: its own, if they are in the scratch folder, or the scratch file; why that failed.
    fn drive(&self, example: &Path) -> Result<Option<String>, String> {
        let wrong = |error: std::io::Error| format!("{}: {error}", self.folder.0.display());
        let text = fs::read_to_string(example).map_err(wrong)?;
        let is_inside = !text.contains("=/") && !text.contains("= /");
        let beside: &[&[&str]] = &[&["--"], &["--overwrite", &self.file, "--", &self.file]];
        let mut why = String::new();
        for beside in if is_inside { beside } else { &beside[1..] } {
            // Another example may have cut it off.
            self.make(SCRATCH_BYTES[0])?;
            let flags = ["--quiet", "--size", "256MiB", "--duration", "200ms", "--warm-up", "0s"];
            let output = self.plimsoll(example, &[&flags[..], &["--run-dir", "record"], *beside].concat())?;
            for entry in fs::read_dir(&self.folder.0).map_err(wrong)?.flatten() {
                let path = entry.path();
                // What the next example finds is what the first one found.
                let removed = match path.is_dir() {
                    true if path.ends_with("x") => continue,
                    true => fs::remove_dir_all(&path),
                    false => fs::remove_file(&path),
                };
                removed.map_err(wrong)?;
            }
            // Whether it was steady, or limited by the generator, is not what this is about.
            if !output.stdout.is_empty() && !matches!(output.status.code(), None | Some(1 | 2)) {
                return Ok(None);
            }
            why = String::from_utf8_lossy(&output.stderr).into_owned();
        }
        Ok(Some(why))
    }
}

/// What an error output says: each mistake once, with its advice.
fn problems(text: &str) -> Reasons {
    let mut found = Reasons::new();
    let mut lines = text.lines().peekable();
    while let Some(line) = lines.next() {
        let Some(what) = line.strip_prefix("error: ") else { continue };
        let mut help = String::new();
        while let Some(next) = lines.next_if(|line| !line.is_empty() && !line.starts_with("error: ")) {
            if let Some((_, behind)) = next.rsplit_once("^ ") {
                help = behind.into();
            } else if let Some(plain) = next.strip_prefix("  ") {
                help = plain.into();
            }
        }
        // Copies of a job differ in numbers only: one stands for all.
        let words = |text: &str| text.replace(|letter: char| letter.is_ascii_digit(), "");
        if !found.iter().any(|(known, other)| words(known) == words(what) && *other == help) {
            found.push((what.to_string(), help));
        }
    }
    found
}

/// Counts, and what is refused. Examples refused for the same reason share a line.
fn tables(fates: &BTreeMap<String, Fate>) -> String {
    let count = |is: fn(&Fate) -> bool| fates.values().filter(|fate| is(fate)).count();
    let mut out = format!(
        "| of fio's {} examples | |\n| --- | --- |\n| run as written | {} |\n| run with a file or device named beside `--fio` | {} |\n| refused | {} |\n\n",
        fates.len(),
        count(|fate| matches!(fate, Fate::AsWritten)),
        count(|fate| matches!(fate, Fate::WithTarget)),
        count(|fate| matches!(fate, Fate::Refused(_))),
    );
    let mut reasons: Vec<(&Reasons, Vec<&str>)> = Vec::new();
    for (name, fate) in fates {
        let Fate::Refused(why) = fate else { continue };
        let name = name.trim_end_matches(".fio");
        match reasons.iter_mut().find(|(known, _)| *known == why) {
            Some((_, names)) => names.push(name),
            None => reasons.push((why, vec![name])),
        }
    }
    out += "| refused | why | what to use instead |\n| --- | --- | --- |\n";
    for (why, names) in reasons {
        let join = |parts: Vec<&str>| {
            let mut unique: Vec<&str> = Vec::new();
            parts.into_iter().filter(|part| !part.is_empty()).for_each(|part| {
                if !unique.contains(&part) {
                    unique.push(part);
                }
            });
            unique.join("; ")
        };
        let what = join(why.iter().map(|(what, _)| what.as_str()).collect());
        let help = join(why.iter().map(|(_, help)| help.as_str()).collect());
        out += &format!("| {} | {what} | {help} |\n", names.join(", "));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusals_with_the_same_reason_share_a_line() {
        let text = "note: a note\nerror: `a` is not supported\n --> f.fio:3\n 3 | a=1\n   | ^^^ write b\n\n\
                    error: `c` and `d`\n  keep one\n\nerror: 7 of `e`\n\nerror: 12 of `e`\n\n2 mistakes, nothing was run\n";
        let found = problems(text);
        let expected = [("`a` is not supported", "write b"), ("`c` and `d`", "keep one"), ("7 of `e`", "")];
        assert_eq!(found, expected.map(|(what, help)| (what.to_string(), help.to_string())));
        let fates = BTreeMap::from([
            ("x.fio".to_string(), Fate::Refused(found.clone())),
            ("y.fio".to_string(), Fate::Refused(found)),
            ("z.fio".to_string(), Fate::AsWritten),
        ]);
        let tables = tables(&fates);
        assert!(
            tables.contains("| x, y | `a` is not supported; `c` and `d`; 7 of `e` | write b; keep one |"),
            "{tables}"
        );
        assert!(tables.contains("| run as written | 1 |") && tables.contains("| refused | 2 |"), "{tables}");
    }
}
