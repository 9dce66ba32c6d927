//! A path of a command line that names nothing yet: whether it is meant as a file to make, or is a word that came along with
//! a pasted line.

use std::path::Path;

use model::Problem;
use rustix::fs::FileType;

use super::pasted::is_command;
use super::target::Other;
use super::typed::Wrong;

/// Where a word stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Position {
    /// Behind the flags of another tool, or its job file: a pasted line.
    Pasted,
    /// Where Plimsoll itself, or a parameter file, expects a path.
    Path,
}

/// Endings of programs and batch files.
const PROGRAMS: &[&str] = &["bat", "cmd", "exe", "ps1", "vbs", "sh", "com", "dll"];

/// Endings of reports, job files and texts.
const TEXTS: &[&str] = &[
    "xml", "txt", "log", "csv", "tsv", "json", "html", "htm", "md", "fio", "ini", "cfg", "conf", "toml",
    "yaml", "yml", "pdf", "doc", "docx", "xls", "xlsx", "blg",
];

/// Endings of names of hosts.
const DOMAINS: &[&str] = &["com", "org", "net", "example", "local", "internal", "localdomain"];

/// Why a path that names nothing is not made a file; none where it may be made, or something has the name. A path that begins
/// with `./` is one, whatever its name.
pub fn refuse(path: &str, position: Position) -> Option<Wrong> {
    if Path::new(path).symlink_metadata().is_ok() {
        return None;
    }
    if ["./", "../", "/./"].iter().any(|begin| path.starts_with(begin)) {
        return None;
    }
    // Refused by its own name.
    if model::windows::windows_path(path).is_some() {
        return None;
    }
    let is_pasted = position == Position::Pasted;
    let has_folder = path.trim_start_matches('/').contains('/');
    let literal = match path.starts_with('/') {
        true => format!("/.{path}"),
        false => format!("./{path}"),
    };
    let is = |what: &str, help: &str| {
        let help = if help.is_empty() { "remove it" } else { help };
        Some((format!("`{path}` {what}"), format!("{help}; for a file with this name write `{literal}`")))
    };
    let name = path.rsplit('/').next().unwrap_or_default();
    let ending = name.rsplit_once('.').map(|(_, ending)| ending.to_ascii_lowercase());
    let ending = ending.as_deref().unwrap_or_default();
    if path.trim().is_empty() {
        return Some(("an empty word is no file".into(), "remove it, or write the path".into()));
    }
    if path.contains("://") {
        return is("is a URL, not a file", "");
    }
    if is_variable(path) || path.contains('$') {
        return is("has a variable of a shell", "write its value");
    }
    if let Some(letter) = path.chars().find(|letter| "|<>;*?`\"\n\r".contains(*letter)) {
        return is(&format!("does not exist, and has the character {letter:?}"), "correct it");
    }
    if path.starts_with("~/") {
        return is("does not exist", "write the home directory in place of `~`");
    }
    let is_punctuation =
        |letter: char| letter.is_ascii_punctuation() && !matches!(letter, '/' | '_' | '-' | '~');
    let is_odd = |letter: char| letter.is_whitespace() || is_punctuation(letter);
    let plain = path.trim_matches(|letter: char| is_odd(letter) && letter != '.');
    let begins_hidden = path.starts_with('.') && !path.starts_with("..");
    let plain = if begins_hidden { plain } else { plain.trim_matches(is_odd) };
    let plain = plain.trim_end_matches('.');
    if plain != path || path.contains(',') && (is_pasted || !has_folder) {
        let is_file = plain.rsplit_once('.').is_some_and(|(_, ending)| ending.len() > 1);
        let help = match (is_file, plain.contains(',')) {
            (false, _) => String::new(),
            (true, false) => format!("write `{plain}`"),
            (true, true) => format!("write spaces between files: {}", plain.replace(',', " ")),
        };
        return is("does not exist, and does not look like a file", &help);
    }
    if PROGRAMS.contains(&ending) && !(is_pasted && ending == "com") {
        return Some((
            format!("`{path}` is a program or a batch file, not a file to read and write"),
            "write the flags and the file that stand in it".into(),
        ));
    }
    if is_pasted && TEXTS.contains(&ending) {
        return is("does not exist, and has the ending of a text file", "");
    }
    if is_pasted && DOMAINS.contains(&ending) || name.starts_with("www.") {
        return is("does not exist, and looks like the name of a host", "");
    }
    let has_ending = !ending.is_empty();
    let is_number = name
        .trim_start_matches(['v', 'V'])
        .split(['.', '-', ':'])
        .all(|part| !part.is_empty() && part.bytes().all(|letter| letter.is_ascii_digit()));
    let is_flag = path.starts_with('/') && !has_folder && !has_ending;
    let is_bare = !has_folder && !has_ending;
    if is_flag {
        return is("does not exist and does not look like a file", "remove it, or write a flag with `-`");
    }
    if is_number && !has_folder || is_bare && (is_pasted || path == "-" || is_command(path)) {
        return is("does not exist and does not look like a file", "");
    }
    None
}

/// Whether a file can be made under this path: nothing has the name, and its folder is on storage.
pub(super) fn can_be_made(path: &str) -> bool {
    let path = Path::new(path);
    let folder = super::target::parent(path);
    let is_free = path.symlink_metadata().is_err_and(|error| error.kind() == std::io::ErrorKind::NotFound);
    is_free && folder.is_dir() && super::backing::made_up(folder).is_none()
}

/// Why what has this name is no storage, and what to name instead; none where it may be, or nothing has the name.
pub(super) fn no_storage(path: &str) -> Option<Problem> {
    let status = rustix::fs::stat(path).ok()?;
    Other::of(FileType::from_raw_mode(status.st_mode)).map(|other| other.problem(path))
}

/// `%VAR%`, `%%f`, `%1`, `!VAR!`, `$VAR`, `${VAR}`, `$(command)`
pub(super) fn is_variable(word: &str) -> bool {
    let begins = |text: &str, others: &str| {
        text.starts_with(|letter: char| letter.is_ascii_alphanumeric() || others.contains(letter))
    };
    let mut rest = word;
    while let Some((_, behind)) = rest.split_once('%') {
        let name = behind.trim_start_matches('%');
        if begins(name, "~*") {
            return true;
        }
        rest = name;
    }
    word.split('$').skip(1).any(|name| begins(name, "_{("))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_made_only_where_nothing_has_its_name() {
        let folder = std::env::temp_dir();
        let beside = |name: &str| folder.join(name).to_str().unwrap().to_string();
        assert!(can_be_made(&beside("plimsoll-missing.dat")));
        for path in ["/dev/null", "/dev/new.dat", "/proc/new.dat", "/absent/new.dat", "/tmp", "/"] {
            assert!(!can_be_made(path), "{path}");
        }
        let socket = beside(&format!("plimsoll-missing-{}.socket", std::process::id()));
        let listener = std::os::unix::net::UnixListener::bind(&socket).unwrap();
        for (path, kind) in [
            ("/dev/null", "a character device"),
            ("/dev/zero", "a character device"),
            ("/tmp", "a folder"),
            (&socket, "a pipe or a socket"),
        ] {
            assert_eq!(no_storage(path).unwrap().what, format!("`{path}` is {kind}, and no storage"));
        }
        drop(listener);
        std::fs::remove_file(&socket).unwrap();
        assert!(no_storage("/proc/self/exe").is_none() && no_storage("/absent").is_none());
    }

    #[test]
    fn a_word_that_is_no_file_is_not_made_one() {
        for path in [
            "T",
            "/T",
            "10",
            "/nobreak",
            "timeout",
            "1.5",
            "t.bat",
            "run.CMD",
            "x/sqlio.exe",
            "&&",
            ">",
            "t2.dat,",
            "t1.dat,t2.dat",
            "[file.dat]",
            "<file.dat>",
            "e.g.",
            "www.example.com",
            "files.example.com",
            "2024.01.05",
            "2024-01-05",
            "v1.2",
            "10.0.0.1",
            "result.xml",
            "out.txt",
            "http://x/y.dat",
            "$x",
            "$x/y.dat",
            "%TEMP%",
            "~/x.dat",
            "*.dat",
            "x.dat ",
            "x.dat\r",
            "\"x.dat\"",
            "'x.dat'",
            "(x.dat)",
            "",
            " ",
            "#",
            "--",
            "...",
            "test",
            "...and.so.on",
        ] {
            assert!(refuse(path, Position::Pasted).is_some(), "{path:?}");
        }
        for path in [
            "/T",
            "10",
            "timeout",
            "sleep",
            "1.5",
            "t.bat",
            "&&",
            ">",
            "t2.dat,",
            "$x",
            "%TEMP%",
            "*.dat",
            "x.dat ",
            "",
            "'x.dat'",
            "x.dat,y.dat",
            "rem",
            "echo",
            "~/x",
            "2>&1",
            "&",
        ] {
            assert!(refuse(path, Position::Path).is_some(), "{path:?}");
        }
        for path in [
            "t.dat",
            "./T",
            "/data/T",
            "/t.dat",
            "data/file",
            "/mnt/e/testfile",
            "./10",
            "/./T",
            "a.0.0",
            "x-1.img",
            ".hidden",
            "my file.dat",
            "/data/R&D/x.dat",
            "../x",
        ] {
            assert!(path == ".hidden" || refuse(path, Position::Pasted).is_none(), "{path}");
            assert!(refuse(path, Position::Path).is_none(), "{path}");
        }
        for path in ["test", "disk1", "out.txt", "x.com.dat"] {
            assert!(refuse(path, Position::Path).is_none(), "{path}");
        }
    }

    #[test]
    fn the_help_has_the_name_without_what_surrounds_it() {
        for (path, expected) in [
            ("t2.dat,", "write `t2.dat`"),
            ("a.dat,b.dat", "write spaces between files: a.dat b.dat"),
            ("e.g.", "remove it"),
            ("/T", "remove it, or write a flag with `-`; for a file with this name write `/./T`"),
            ("10", "remove it; for a file with this name write `./10`"),
        ] {
            let (_, help) = refuse(path, Position::Pasted).unwrap();
            assert!(help.contains(expected), "{path}: {help}");
        }
    }
}
