//! Finds credentials in command lines: by names and forms as in any other text, and by the flags of well-known programs.

use std::ops::Range;

use super::HIDDEN;
use super::mask::{Part, TextKind, WhyHidden, is_path, is_shown, merged, parts, without};
use super::name::{Sensitivity, sensitivity};
use super::{SecretParts, changed_range};

/// What the value of a flag is.
#[derive(Clone, Copy)]
enum Form {
    /// A secret.
    Whole,
    /// `USER:PASSWORD`, secret if both are there.
    UserColonPassword,
    /// `USER%PASSWORD`.
    UserPercentPassword,
    /// `USER,PASSWORD`.
    UserCommaPassword,
    /// A cookie `NAME=VALUE`, and not a file.
    Cookie,
}

/// Where the value of a flag with one dash may be.
#[derive(Clone, Copy, PartialEq)]
enum Place {
    Attached,
    Next,
    Both,
}

/// A flag of programs whose value has a secret.
struct Rule {
    /// The programs; one that ends with `*` has any end.
    programs: &'static [&'static str],
    /// A word that must be between the program and the flag; may be empty.
    after: &'static str,
    flags: &'static [&'static str],
    /// Flags without a value, which may be before the flag in the same word.
    switches: &'static str,
    form: Form,
    place: Place,
}

const fn rule(
    programs: &'static [&'static str],
    flags: &'static [&'static str],
    form: Form,
    place: Place,
) -> Rule {
    Rule { programs, after: "", flags, switches: "", form, place }
}

const LDAP: &[&str] = &[
    "ldapsearch",
    "ldapmodify",
    "ldapadd",
    "ldapdelete",
    "ldapwhoami",
    "ldapcompare",
    "ldappasswd",
    "ldapmodrdn",
    "ldapexop",
    "ldclt",
    "dsconf",
    "dsidm",
    "searchrate",
    "modrate",
    "authrate",
    "addrate",
    "import-ldif",
];

const CONTAINERS: &[&str] =
    &["docker", "podman", "nerdctl", "buildah", "skopeo", "oras", "helm", "oc", "az", "cf", "crane"];

/// The flags, each with its programs.
const RULES: [Rule; 27] = [
    Rule {
        switches: "#0123456789aBfgGiIjJklLMnNOpqRsSvZ",
        ..rule(&["curl"], &["-u", "-U", "--user", "--proxy-user"], Form::UserColonPassword, Place::Both)
    },
    Rule {
        switches: "#0123456789aBfgGiIjJklLMnNOpqRsSvZ",
        ..rule(&["curl"], &["-b", "--cookie"], Form::Cookie, Place::Both)
    },
    rule(&["curl"], &["-E", "--cert", "--proxy-cert"], Form::UserColonPassword, Place::Both),
    rule(&["ab"], &["-A", "-P"], Form::UserColonPassword, Place::Both),
    rule(&["ab"], &["-C"], Form::Cookie, Place::Both),
    rule(
        &["hey", "oha", "http", "https", "xh", "xhs"],
        &["-a", "--auth"],
        Form::UserColonPassword,
        Place::Both,
    ),
    rule(&["lftp"], &["-u", "--user"], Form::UserCommaPassword, Place::Both),
    rule(&["mysql*", "mariadb*"], &["-p"], Form::Whole, Place::Attached),
    rule(&["sshpass"], &["-p"], Form::Whole, Place::Both),
    Rule { switches: "xZWnvcCMAIuQLN", ..rule(LDAP, &["-w"], Form::Whole, Place::Both) },
    rule(&["ldappasswd"], &["-a", "-s"], Form::Whole, Place::Both),
    rule(&["slappasswd"], &["-s"], Form::Whole, Place::Both),
    rule(&["sqlcmd", "bcp", "osql", "isql", "tsql"], &["-P"], Form::Whole, Place::Both),
    Rule { after: "login", ..rule(CONTAINERS, &["-p"], Form::Whole, Place::Both) },
    rule(CONTAINERS, &["--creds", "--src-creds", "--dest-creds"], Form::UserColonPassword, Place::Both),
    rule(
        &["redis-cli", "redis-benchmark", "valkey-cli", "valkey-benchmark", "keydb-cli", "memtier_benchmark"],
        &["-a", "--authenticate"],
        Form::Whole,
        Place::Both,
    ),
    rule(
        &["smbclient", "rpcclient", "smbget", "smbcacls", "smbtree", "wmic", "winexe", "net"],
        &["-U", "--user"],
        Form::UserPercentPassword,
        Place::Both,
    ),
    rule(
        &["keytool", "jarsigner"],
        &["-storepass", "-keypass", "-srcstorepass", "-deststorepass", "-srckeypass", "-destkeypass", "-new"],
        Form::Whole,
        Place::Next,
    ),
    rule(&["mongo*", "cqlsh", "rabbitmqadmin", "psexec*"], &["-p"], Form::Whole, Place::Both),
    rule(&["plink", "pscp", "psftp", "putty", "nodetool"], &["-pw"], Form::Whole, Place::Next),
    rule(&["mosquitto_*", "ipmitool"], &["-P"], Form::Whole, Place::Both),
    rule(&["snmp*"], &["-A", "-X", "-c"], Form::Whole, Place::Both),
    rule(&["zip", "unzip"], &["-P"], Form::Whole, Place::Both),
    rule(&["7z", "7za", "7zr", "7zz", "rar", "unrar"], &["-p"], Form::Whole, Place::Attached),
    rule(&["openssl"], &["-k", "-K", "-pass", "-passin", "-passout"], Form::Whole, Place::Next),
    rule(&["rdesktop"], &["-p"], Form::Whole, Place::Both),
    rule(&["mysqladmin", "mariadb-admin"], &["password"], Form::Whole, Place::Next),
];

/// Programs with an argument `USER/PASSWORD@DATABASE`.
const ORACLE: [&str; 8] = ["sqlplus", "sqlldr", "expdp", "impdp", "rman", "exp", "imp", "sql"];

/// The last of them, whose names are ordinary words: their argument must have a database.
const ORACLE_WORDS: [&str; 3] = ["exp", "imp", "sql"];

/// Programs that `sshpass` runs, which have a port or something else where it has a password.
const REMOTE: [&str; 5] = ["ssh", "scp", "sftp", "rsync", "ssh-copy-id"];

/// How deep command lines are looked at that are words of command lines.
const DEPTH: usize = 4;

/// A command line without its secrets, and why the first of them is hidden; none if nothing is.
pub(super) fn hide(line: &str) -> (String, Option<WhyHidden>) {
    let parts = parts_of_line(line);
    (without(line, &parts), parts.first().map(|part| part.why))
}

/// Whether asterisks in a command that was read are a part of it, and do not stand for something that a record hides.
pub(super) fn has_literal_asterisks(words: &[&str]) -> bool {
    const PROBE: &str = "S3cretProbe";
    if !words.iter().any(|word| word.contains(HIDDEN)) {
        return false;
    }
    let probes: Vec<String> = words.iter().map(|word| word.replace(HIDDEN, PROBE)).collect();
    let shown = match probes.as_slice() {
        [line] => vec![hide(line)],
        _ => hide_words(&probes.iter().map(String::as_str).collect::<Vec<_>>()),
    };
    let is_numbered = |word: &str| {
        word.strip_prefix(HIDDEN).is_some_and(|number| number.bytes().all(|byte| byte.is_ascii_digit()))
    };
    let is_whole = words.iter().flat_map(|word| word.split_whitespace()).any(is_numbered);
    !is_whole && probes.iter().zip(shown).all(|(probe, (shown, _))| *probe == shown)
}

/// The words of a command, which no shell reads, without secrets.
pub(super) fn hide_words(words: &[&str]) -> Vec<(String, Option<WhyHidden>)> {
    let text = words.join("\n");
    let mut at = 0;
    let ranges: Vec<Range<usize>> = words
        .iter()
        .map(|word| {
            let range = at..at + word.len();
            at = range.end + 1;
            range
        })
        .collect();
    let mut found = Vec::new();
    for range in &ranges {
        let word = &text[range.clone()];
        // A word with blanks may be for a shell.
        let in_shell = word.contains(char::is_whitespace);
        let of_word = parts(word, TextKind::Written).into_iter();
        let of_word = of_word.filter(|part| is_literal(word, &part.range, in_shell));
        found.extend(of_word.map(|part| moved(part, range.start)));
        nested(&text, range.clone(), DEPTH, &mut found);
    }
    command(&text, &ranges, false, &mut found);
    let found = merged(found);
    let mut rest = found.as_slice();
    let of_word = |range: &Range<usize>| {
        let count = rest.iter().take_while(|part| part.range.start < range.end).count();
        let (of_word, others) = rest.split_at(count);
        rest = others;
        let of_word: Vec<Part> = of_word
            .iter()
            .map(|part| Part {
                range: part.range.start - range.start..part.range.end.min(range.end) - range.start,
                why: part.why,
            })
            .collect();
        (without(&text[range.clone()], &of_word), of_word.first().map(|part| part.why))
    };
    ranges.iter().map(of_word).collect()
}

fn moved(part: Part, by: usize) -> Part {
    Part { range: part.range.start + by..part.range.end + by, why: part.why }
}

fn parts_of_line(line: &str) -> Vec<Part> {
    let of_text = parts(line, TextKind::Written).into_iter();
    let mut found: Vec<Part> = of_text.filter(|part| is_literal(line, &part.range, true)).collect();
    in_line(line, 0..line.len(), DEPTH, &mut found);
    merged(found)
}

/// Whether a part of a command is a secret, and not a place where a shell or this program puts one, nor public.
fn is_literal(text: &str, part: &Range<usize>, in_shell: bool) -> bool {
    let value = &text[part.clone()];
    // A shell replaces nothing between single quotation marks.
    let is_quoted = text[..part.start].ends_with('\'');
    let is_replaced = in_shell && !is_quoted && is_reference(value);
    // The digest of an image, or a commit.
    let is_word = text[..part.start].ends_with([' ', '\n', '"', '\'']) || part.start == 0;
    let is_digest =
        matches!(value.len(), 40 | 64) && value.bytes().all(|byte| byte.is_ascii_hexdigit()) && is_word;
    let of_program =
        text[..part.start].trim_end().rsplit([' ', '\n']).next().is_some_and(|word| word.starts_with('-'));
    !is_replaced && !is_template(value) && (!is_digest || of_program)
}

/// The secrets of the commands of a command line, which is a part of `text`.
fn in_line(text: &str, line: Range<usize>, depth: usize, found: &mut Vec<Part>) {
    for words in commands(&text[line.clone()], line.start) {
        command(text, &words, true, found);
        for word in words {
            nested(text, word, depth, found);
        }
    }
}

/// The secrets of a part of a text that may be a command line.
pub(super) fn in_segment(text: &str, segment: Range<usize>, found: &mut Vec<Part>) {
    in_line(text, segment, DEPTH, found);
}

/// A word may be a command line itself: that of `sh -c`.
fn nested(text: &str, word: Range<usize>, depth: usize, found: &mut Vec<Part>) {
    let inner = unquoted(text, word);
    if depth > 0 && text[inner.clone()].contains(char::is_whitespace) {
        in_line(text, inner, depth - 1, found);
    }
}

/// The words of each command of a line, with their quotation marks.
fn commands(line: &str, offset: usize) -> Vec<Vec<Range<usize>>> {
    let mut all = vec![Vec::new()];
    let (mut begin, mut quote, mut is_escaped) = (None, None, false);
    let mut end = |begin: &mut Option<usize>, at: usize, ends_command: bool| {
        if let (Some(from), Some(words)) = (begin.take(), all.last_mut()) {
            words.push(offset + from..offset + at);
        }
        if ends_command {
            all.push(Vec::new());
        }
    };
    for (at, c) in line.char_indices() {
        if is_escaped {
            is_escaped = false;
            begin.get_or_insert(at - 1);
            continue;
        }
        match (c, quote) {
            ('\\', None | Some('"')) => {
                is_escaped = true;
                begin.get_or_insert(at);
            }
            (c, Some(open)) => quote = Some(open).filter(|open| *open != c),
            ('\'' | '"', None) => {
                quote = Some(c);
                begin.get_or_insert(at);
            }
            ('\n' | ';' | '|' | '&' | '(' | ')' | '`', None) => end(&mut begin, at, true),
            ('<' | '>', None) => end(&mut begin, at, false),
            (c, None) if c.is_whitespace() => end(&mut begin, at, false),
            _ => {
                begin.get_or_insert(at);
            }
        }
    }
    end(&mut begin, line.len(), false);
    all
}

/// A word without the quotation marks around it.
fn unquoted(text: &str, word: Range<usize>) -> Range<usize> {
    let raw = &text[word.clone()];
    let quote = raw.chars().next().filter(|c| matches!(c, '"' | '\''));
    match quote {
        Some(quote) if raw.len() > 1 && raw.ends_with(quote) => word.start + 1..word.end - 1,
        Some(_) => word.start + 1..word.end,
        None => word,
    }
}

/// The name of a program without its folder.
fn program(word: &str) -> &str {
    let name = word.rsplit(['/', '\\']).next().unwrap_or_default();
    name.strip_suffix(".exe").unwrap_or(name)
}

fn is_program(known: &str, name: &str) -> bool {
    match known.strip_suffix('*') {
        Some(begin) => name.starts_with(begin) && !name.contains(['.', '=', ':']),
        None => known == name,
    }
}

/// The secrets in the words of one command. With `in_shell`, a shell replaces variables in them.
fn command(text: &str, words: &[Range<usize>], in_shell: bool, found: &mut Vec<Part>) {
    let mut rules: Vec<&Rule> = Vec::new();
    let mut hide = |range: Range<usize>, why| {
        if !is_shown(&text[range.clone()]) && is_literal(text, &range, in_shell) {
            found.push(Part { range, why });
        }
    };
    let (mut oracle, mut is_net) = (None, false);
    for (index, range) in words.iter().enumerate() {
        let inner = unquoted(text, range.clone());
        let word = &text[inner.clone()];
        let next = || words.get(index + 1).map(|next| unquoted(text, next.clone()));
        let name = program(word);
        let is_flag = word.starts_with('-');
        if !is_flag {
            let of_program: Vec<&Rule> = RULES
                .iter()
                .filter(|rule| rule.programs.iter().any(|known| is_program(known, name)))
                .collect();
            if !of_program.is_empty() || REMOTE.contains(&name) {
                rules = of_program;
            }
            let login = oracle.filter(|_| !word.starts_with('@')).and_then(|program| {
                oracle_login(word).filter(|login| login.end < word.len() || !ORACLE_WORDS.contains(&program))
            });
            oracle = match &login {
                Some(_) => None,
                None => ORACLE.contains(&name).then_some(name).or(oracle.filter(|_| !word.starts_with('@'))),
            };
            if let Some(login) = login {
                hide(inner.start + login.start..inner.start + login.end, WhyHidden::Program);
            }
            // net use Z: \\host\share PASSWORD
            let is_share = is_net && word.starts_with(r"\\");
            if let Some(after) = next().filter(|_| is_share)
                && !text[after.clone()].starts_with(['/', '-'])
            {
                hide(after, WhyHidden::Program);
            }
            is_net = is_net || name == "net" && next().is_some_and(|next| &text[next] == "use");
        } else if let Some(name) = word.trim_start_matches('-').split('=').next()
            && !word.contains('=')
            && let Some(after) = next()
        {
            // The value of a flag is the next word.
            let value = &text[after.clone()];
            let is_secret = match sensitivity(name) {
                Some(Sensitivity::Value | Sensitivity::Header) => true,
                Some(Sensitivity::Key) => !is_path(value),
                Some(Sensitivity::Query) => name != "code",
                None => false,
            };
            if is_secret && !value.starts_with('-') {
                hide(after.clone(), WhyHidden::Name);
            }
            if ["-H", "--header", "--proxy-header"].contains(&word)
                && let (shown, Some(why)) = SecretParts::Header.hide_why(value)
                && let Some(part) = changed_range(value, &shown)
            {
                hide(after.start + part.start..after.start + part.end, why);
            }
        }
        for rule in &rules {
            let is_there = || words[..index].iter().any(|before| &text[before.clone()] == rule.after);
            if !rule.after.is_empty() && !is_there() {
                continue;
            }
            let value = rule.flags.iter().find_map(|flag| rule.value(flag, word, inner.start, next));
            if let Some(part) = value.and_then(|value| rule.form.secret(text, value)) {
                hide(part, WhyHidden::Program);
            }
        }
    }
}

impl Rule {
    /// Where the value of a flag is, if a word is this flag.
    fn value(
        &self,
        flag: &str,
        word: &str,
        at: usize,
        next: impl Fn() -> Option<Range<usize>>,
    ) -> Option<Range<usize>> {
        if word == flag {
            return next().filter(|_| self.place != Place::Attached);
        }
        if flag.len() > 2 {
            let value = word.strip_prefix(flag)?.strip_prefix('=')?;
            return Some(at + word.len() - value.len()..at + word.len());
        }
        // Flags of one letter: the value is attached, or switches are before the flag.
        let letters = word.strip_prefix('-').filter(|letters| !letters.starts_with('-'))?;
        let switches = letters.len() - letters.trim_start_matches(|c| self.switches.contains(c)).len();
        let rest = letters[switches..].strip_prefix(&flag[1..])?;
        match rest {
            "" if self.place != Place::Attached => next(),
            "" => None,
            _ if self.place == Place::Next => None,
            rest => Some(at + word.len() - rest.len()..at + word.len()),
        }
    }
}

impl Form {
    /// The secret part of a value, which may begin with a quotation mark.
    fn secret(self, text: &str, value: Range<usize>) -> Option<Range<usize>> {
        let value = unquoted(text, value);
        let written = &text[value.clone()];
        let behind = |separator| {
            let (_, secret) = written.split_once(separator)?;
            Some(value.end - secret.len()..value.end).filter(|_| !secret.is_empty())
        };
        match self {
            Form::Whole => Some(value),
            Form::UserColonPassword => {
                let (user, password) = written.split_once(':')?;
                let is_address = password.starts_with("//") || user.is_empty() && password.is_empty();
                // A drive of Windows, for the file of a certificate.
                let is_drive = user.len() == 1 && password.starts_with('\\');
                (!is_address && !is_drive).then_some(value)
            }
            Form::UserPercentPassword => behind('%'),
            Form::UserCommaPassword => behind(','),
            Form::Cookie => written.contains('=').then_some(value),
        }
    }
}

/// Where `USER/PASSWORD` is in the login of an Oracle database, such as `USER/PASSWORD@DATABASE`.
pub(super) fn oracle_login(word: &str) -> Option<Range<usize>> {
    let begin = match word.split_once('=') {
        Some((name, _)) if name.eq_ignore_ascii_case("userid") => name.len() + 1,
        Some(_) => return None,
        None => 0,
    };
    let login = &word[begin..];
    let end = login.rfind('@').unwrap_or(login.len());
    let (user, password) = login[..end].split_once('/')?;
    let is_login = !user.is_empty() && !password.is_empty() && !user.contains(['.', ':', '\\']);
    is_login.then_some(begin..begin + end)
}

/// Whether a shell, or this program, replaces all of a value that may be a secret: `$NAME`, `${NAME}`, `$(COMMAND)`.
pub(super) fn is_reference(value: &str) -> bool {
    let value = value.trim_matches(['"', '\'']);
    let value =
        value.split_once(':').map(|(_, after)| after).filter(|after| !after.is_empty()).unwrap_or(value);
    let value = match value.trim_start().split_once(' ') {
        Some(("Bearer" | "Basic" | "Token" | "DPoP", after)) => after,
        _ => value,
    };
    let mut rest = value;
    let mut is_replaced = false;
    loop {
        let plain = rest.find('$').unwrap_or(rest.len());
        if rest[..plain].chars().any(char::is_alphanumeric) {
            return false;
        }
        let Some(after) = rest.get(plain + 1..) else { return is_replaced };
        is_replaced = true;
        rest = match after.chars().next() {
            Some('{') => after.find('}').map_or("", |end| &after[end + 1..]),
            // What follows is in the command itself.
            Some('(') | None => "",
            Some(_) => after.trim_start_matches(|c: char| c.is_ascii_alphanumeric() || c == '_'),
        };
    }
}

/// Whether a value is a place for a level or a parameter, such as `{level}`.
fn is_template(value: &str) -> bool {
    let is_name = |name: &str| name.chars().all(|c| c.is_ascii_alphanumeric() || "_.-".contains(c));
    value.strip_prefix('{').and_then(|rest| rest.strip_suffix('}')).is_some_and(is_name) || value == HIDDEN
}

#[cfg(test)]
mod tests;
