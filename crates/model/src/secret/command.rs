//! Finds credentials in command lines: by names and forms as in any other text, and by the flags of well-known programs.

use std::ops::Range;

use super::HIDDEN;
use super::mask::{Part, TextKind, WhyHidden, is_public, is_shown, merged, parts, without};
use super::name::{Sensitivity, sensitivity};
use super::{SecretParts, changed_range};
use rules::{RULES, Rule};

mod rules;

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
        || text[..part.start].trim_end().rsplit([' ', '\n']).next().is_some_and(|word| word.starts_with('-'));
    !is_replaced && !is_template(value) && (!is_digest || of_program())
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

/// The word after one, without quotation marks; none if that is the name of a file that a shell reads or writes.
fn next_word(text: &str, words: &[Range<usize>], index: usize) -> Option<Range<usize>> {
    let next = words.get(index + 1)?;
    let is_redirected = text[words[index].end..next.start].contains(['<', '>']);
    (!is_redirected).then(|| unquoted(text, next.clone()))
}

fn is_program(known: &str, name: &str) -> bool {
    match known.strip_suffix('*') {
        Some(begin) => name.starts_with(begin) && !name.contains(['.', '=', ':']),
        None => known == name,
    }
}

/// The secrets in the words of one command. With `in_shell`, a shell replaces variables in them.
fn command(text: &str, words: &[Range<usize>], in_shell: bool, found: &mut Vec<Part>) {
    let (mut rules, mut program_at): (Vec<&Rule>, usize) = (Vec::new(), 0);
    let mut hide = |range: Range<usize>, why| {
        if !is_shown(&text[range.clone()]) && is_literal(text, &range, in_shell) {
            found.push(Part { range, why });
        }
    };
    let (mut oracle, mut is_net) = (None, false);
    for (index, range) in words.iter().enumerate() {
        let inner = unquoted(text, range.clone());
        let word = &text[inner.clone()];
        let next = || next_word(text, words, index);
        let name = program(word);
        let is_flag = word.starts_with('-');
        if !is_flag {
            let of_program: Vec<&Rule> = RULES
                .iter()
                .filter(|rule| rule.programs.iter().any(|known| is_program(known, name)))
                .collect();
            if !of_program.is_empty() || REMOTE.contains(&name) {
                (rules, program_at) = (of_program, index);
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
            let after = next().filter(|_| is_setting(text, words, index, word));
            if let Some(after) = after.filter(|after| !text[after.clone()].starts_with(['-', '='])) {
                hide(after, WhyHidden::Name);
            }
        } else if let Some((name, value)) = word.split_once('=') {
            // A property, such as that of a virtual machine: -DNAME=VALUE.
            let value = unquoted(text, inner.end - value.len()..inner.end);
            let name = name.strip_prefix('-').and_then(|name| name.strip_prefix(['D', 'P', 'e', 'E', 'v']));
            if name.is_some_and(|name| is_secret_flag(name, &text[value.clone()])) {
                hide(value, WhyHidden::Name);
            }
        } else if let Some(after) = next() {
            // The value of a flag is the next word.
            let value = &text[after.clone()];
            if is_secret_flag(word.trim_start_matches('-'), value) && !value.starts_with('-') {
                hide(after, WhyHidden::Name);
            }
        }
        if let Some(field) = header_field(text, word, inner.start, next)
            && let (shown, Some(why)) = SecretParts::Header.hide_why(&text[field.clone()])
            && let Some(part) = changed_range(&text[field.clone()], &shown)
        {
            hide(field.start + part.start..field.start + part.end, why);
        }
        for rule in &rules {
            for secret in rule.secrets(text, words, program_at, index) {
                hide(secret, WhyHidden::Program);
            }
        }
    }
}

/// Whether the name of a flag or a property says that its value is a secret.
fn is_secret_flag(name: &str, value: &str) -> bool {
    let of_name = sensitivity(name).filter(|of| *of != Sensitivity::Query || name != "code");
    of_name.is_some_and(|of| !is_public(of, name, value))
}

/// Whether a word is the name of a secret that a command sets to the next word: `aws configure set NAME VALUE`,
/// `git config NAME VALUE`.
fn is_setting(text: &str, words: &[Range<usize>], index: usize, word: &str) -> bool {
    let is_setter = |range: &Range<usize>| {
        ["set", "config", "setx"].iter().any(|setter| text[range.clone()].eq_ignore_ascii_case(setter))
    };
    let before = &words[index.saturating_sub(2)..index];
    let has_program =
        index > 1 || before.iter().any(|range| text[range.clone()].eq_ignore_ascii_case("setx"));
    let name = word.rsplit([':', '/', '.']).next().unwrap_or_default();
    has_program
        && word.ends_with(|c: char| c.is_alphanumeric())
        && before.iter().any(is_setter)
        && !name.eq_ignore_ascii_case("key")
        && !matches!(sensitivity(name), None | Some(Sensitivity::Query))
}

/// Where the field of a header is, if a word is the flag for one.
fn header_field(
    text: &str,
    word: &str,
    at: usize,
    next: impl Fn() -> Option<Range<usize>>,
) -> Option<Range<usize>> {
    if ["-H", "--header", "--proxy-header"].contains(&word) {
        return next();
    }
    let attached = ["--header=", "--proxy-header=", "-H"].iter().find_map(|flag| word.strip_prefix(flag));
    if let Some(field) = attached {
        return Some(unquoted(text, at + word.len() - field.len()..at + word.len()));
    }
    let switches = word.strip_prefix('-')?.strip_suffix('H')?;
    let is_flag = switches.chars().all(|c| c.is_ascii_alphanumeric());
    next().filter(|field| is_flag && text[field.clone()].contains(':'))
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
