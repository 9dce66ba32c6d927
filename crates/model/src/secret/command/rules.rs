//! What programs have for credentials on their command lines.

use std::ops::Range;

use super::super::mask::{TextKind, parts};
use super::{next_word, unquoted};

/// How many words around a flag or an argument are looked at.
const NEAR: usize = 64;

/// What the value of a flag is.
#[derive(Clone, Copy)]
pub(super) enum Form {
    /// A secret.
    Whole,
    /// `USER:PASSWORD`, secret if both are there.
    UserColonPassword,
    /// `USER%PASSWORD`.
    UserPercentPassword,
    /// `USER,PASSWORD`.
    UserCommaPassword,
    /// `NAME=VALUE`, whose value is secret whatever its name is.
    Assignment,
    /// `NAME=VALUE`, as in a form.
    Pairs,
    /// A cookie `NAME=VALUE`, and not a file.
    Cookie,
}

/// Where a secret is.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Place {
    /// In the word of the flag.
    Attached,
    /// In the word after the flag.
    Next,
    /// In the word of the flag or the next one.
    Both,
    /// In the arguments, from this one on, counted from 0. `switches` has the characters that begin flags.
    Arguments(usize),
}

/// A flag or an argument of programs that has a secret.
pub(super) struct Rule {
    /// The programs; one that ends with `*` has any end.
    pub(super) programs: &'static [&'static str],
    /// Words that must follow one another before the flag or the arguments; may be empty.
    after: &'static [&'static str],
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
    Rule { programs, after: &[], flags, switches: "", form, place }
}

/// Arguments from `first` on, which follow the words `after`.
const fn arguments(
    programs: &'static [&'static str],
    after: &'static [&'static str],
    first: usize,
    form: Form,
) -> Rule {
    Rule { programs, after, flags: &[], switches: "-", form, place: Place::Arguments(first) }
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
pub(super) const RULES: &[Rule] = &[
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
    Rule { after: &["login"], ..rule(CONTAINERS, &["-p"], Form::Whole, Place::Both) },
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
    rule(&["mount", "mount.cifs", "mount_smbfs"], &["-o"], Form::UserPercentPassword, Place::Both),
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
    rule(
        &["openssl"],
        &["-k", "-K", "-pass", "-passin", "-passout", "-hmac", "-psk", "-macopt", "-kdfopt"],
        Form::Whole,
        Place::Next,
    ),
    arguments(&["openssl"], &["passwd"], 0, Form::Whole),
    rule(
        &["rdesktop", "beeline", "hdbsql", "ncftp*", "couchbase-cli", "racadm"],
        &["-p"],
        Form::Whole,
        Place::Both,
    ),
    rule(&["useradd", "usermod", "groupadd", "groupmod"], &["-p"], Form::Whole, Place::Both),
    rule(&["mysqladmin", "mariadb-admin", "nmcli"], &["password"], Form::Whole, Place::Next),
    rule(&["ssh-keygen"], &["-N", "-P"], Form::Whole, Place::Both),
    rule(&["kadmin*"], &["-w"], Form::Whole, Place::Both),
    rule(&["addprinc", "add_principal", "ank", "cpw", "change_password"], &["-pw"], Form::Whole, Place::Next),
    rule(&["db2"], &["using"], Form::Whole, Place::Next),
    rule(&["pdftk"], &["user_pw", "owner_pw", "input_pw"], Form::Whole, Place::Next),
    rule(&["etcdctl"], &["--user"], Form::UserColonPassword, Place::Both),
    rule(&["kubectl", "oc"], &["--from-literal"], Form::Assignment, Place::Both),
    Rule { after: &["put-parameter"], ..rule(&["aws"], &["--value"], Form::Whole, Place::Both) },
    Rule { after: &["secret", "set"], ..rule(&["az"], &["--value"], Form::Whole, Place::Both) },
    Rule { after: &["secret", "set"], ..rule(&["gh"], &["-b", "--body"], Form::Whole, Place::Both) },
    // Windows.
    rule(
        &["xfreerdp*", "wfreerdp", "sdl-freerdp*", "mstsc", "winrs", "winrm"],
        &["/p:", "/gp:", "/pth:", "-p:"],
        Form::Whole,
        Place::Attached,
    ),
    rule(&["cmdkey", "wmic", "tscon"], &["/pass:", "/password:"], Form::Whole, Place::Attached),
    rule(&["schtasks"], &["/rp", "/p"], Form::Whole, Place::Next),
    rule(&["sc"], &["password="], Form::Whole, Place::Next),
    Rule { switches: "-/", ..arguments(&["net", "net1"], &["user"], 1, Form::Whole) },
    arguments(&["ConvertTo-SecureString"], &[], 0, Form::Whole),
    // Forms.
    Rule {
        switches: "#0123456789aBfgGiIjJklLMnNOpqRsSvZ",
        ..rule(
            &["curl", "wget"],
            &[
                "-d",
                "-F",
                "--data",
                "--data-raw",
                "--data-binary",
                "--data-urlencode",
                "--form",
                "--post-data",
            ],
            Form::Pairs,
            Place::Both,
        )
    },
    arguments(&["http", "https", "xh", "xhs"], &[], 0, Form::Pairs),
    // Arguments.
    arguments(&["htpasswd"], &["-b"], 2, Form::Whole),
    arguments(&["htpasswd"], &["-n"], 1, Form::Whole),
    arguments(&["redis-cli", "valkey-cli", "keydb-cli"], &["auth"], 0, Form::Whole),
    arguments(&["mc", "mcli"], &["alias", "set"], 2, Form::Whole),
    arguments(&["mc", "mcli"], &["config", "host", "add"], 2, Form::Whole),
    arguments(&["vault", "bao"], &["login"], 0, Form::Whole),
    arguments(&["vault", "bao"], &["unseal"], 0, Form::Whole),
    arguments(&["vault", "bao"], &["unwrap"], 0, Form::Whole),
    arguments(&["vault", "bao"], &["kv", "put"], 1, Form::Assignment),
    arguments(&["vault", "bao"], &["kv", "patch"], 1, Form::Assignment),
    arguments(&["ansible-vault"], &["encrypt_string"], 0, Form::Whole),
    arguments(&["rclone"], &["obscure"], 0, Form::Whole),
    arguments(&["mkpasswd"], &[], 0, Form::Whole),
    arguments(&["wpa_passphrase"], &[], 1, Form::Whole),
    arguments(&["rabbitmqctl"], &["add_user"], 1, Form::Whole),
    arguments(&["rabbitmqctl"], &["change_password"], 1, Form::Whole),
    arguments(&["rabbitmqctl"], &["authenticate_user"], 1, Form::Whole),
    arguments(&["samba-tool"], &["user", "create"], 1, Form::Whole),
    arguments(&["samba-tool"], &["user", "add"], 1, Form::Whole),
    arguments(&["ipmitool"], &["set", "password"], 1, Form::Whole),
];

impl Rule {
    /// The secrets that a word shows: those of a flag, or of the arguments that begin behind it. The program is the word
    /// `program`.
    pub(super) fn secrets(
        &self,
        text: &str,
        words: &[Range<usize>],
        program: usize,
        index: usize,
    ) -> Vec<Range<usize>> {
        let values = match self.place {
            Place::Arguments(first) => self.arguments(text, words, program, index, first),
            _ => {
                let inner = unquoted(text, words[index].clone());
                let next = || next_word(text, words, index);
                let value = self
                    .flags
                    .iter()
                    .find_map(|flag| self.value(flag, &text[inner.clone()], inner.start, next));
                let is_after = || {
                    let near = &words[..index.min(NEAR)];
                    self.after.is_empty() || (1..=near.len()).any(|end| self.follows(text, &near[..end]))
                };
                value.filter(|_| is_after()).into_iter().collect()
            }
        };
        values.into_iter().filter_map(|value| self.form.secret(text, value)).collect()
    }

    /// Whether words end with those that the rule is after.
    fn follows(&self, text: &str, words: &[Range<usize>]) -> bool {
        let is_known = |(known, range): (&&str, &Range<usize>)| {
            let word = &text[unquoted(text, range.clone())];
            // A flag may be among others in one word.
            let is_among = |flag: &str| {
                word.strip_prefix('-')
                    .is_some_and(|letters| !letters.starts_with('-') && letters.contains(flag))
            };
            word.eq_ignore_ascii_case(known) || known.strip_prefix('-').is_some_and(is_among)
        };
        words.len() >= self.after.len() && self.after.iter().rev().zip(words.iter().rev()).all(is_known)
    }

    /// The arguments, from the first secret one on, if they begin behind a word.
    fn arguments(
        &self,
        text: &str,
        words: &[Range<usize>],
        program: usize,
        index: usize,
        first: usize,
    ) -> Vec<Range<usize>> {
        let begins = match self.after {
            [] => index == program,
            _ => index > program && self.follows(text, &words[program + 1..=index]),
        };
        if !begins {
            return Vec::new();
        }
        let behind = (index..words.len()).map_while(|before| next_word(text, words, before));
        behind
            .filter(|word| !text[word.clone()].starts_with(|c| self.switches.contains(c)))
            .skip(first)
            .take(NEAR)
            .collect()
    }

    /// Where the value of a flag is, if a word is this flag.
    fn value(
        &self,
        flag: &str,
        word: &str,
        at: usize,
        next: impl Fn() -> Option<Range<usize>>,
    ) -> Option<Range<usize>> {
        let is_windows = flag.starts_with('/');
        if word == flag || is_windows && word.eq_ignore_ascii_case(flag) {
            return next().filter(|_| self.place != Place::Attached);
        }
        if flag.ends_with(':') {
            let begin = word.get(..flag.len()).filter(|begin| begin.eq_ignore_ascii_case(flag))?;
            return Some(at + begin.len()..at + word.len());
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
            Form::UserPercentPassword => {
                // Options of `mount` have names: user=USER%PASSWORD.
                let options = written.split('%').next().unwrap_or_default();
                let option = options.rsplit(',').next().unwrap_or_default();
                let is_user = !option.contains('=') || option.starts_with("user");
                behind('%').filter(|_| is_user)
            }
            Form::Assignment => behind('=').filter(|secret| !text[secret.clone()].starts_with('@')),
            Form::Pairs => parts(written, TextKind::Written)
                .first()
                .map(|part| value.start + part.range.start..value.start + part.range.end),
            Form::UserCommaPassword => behind(','),
            Form::Cookie => written.contains('=').then_some(value),
        }
    }
}
