//! Counters by their path in Windows Performance Monitor, such as `LogicalDisk(*)\Avg. Disk sec/Read`: the metric that says
//! the same, the nearest one with the difference, or what to use where there is none.

use std::collections::BTreeSet;

mod table;
#[cfg(test)]
mod tests;

use model::experiment::Watched;
use model::problem::near_word;
use table::{ALIASES, OBJECTS, TABLE};

use crate::{SOURCES, all_metrics};

/// The equivalent of a counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// A metric that says the same, apart from the stated difference.
    Same,
    /// Only a related metric.
    Nearest,
    /// No metric.
    Nothing,
}

/// A counter of Performance Monitor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Counter {
    /// Its path, without host and instance.
    pub path: &'static str,
    /// Its equivalent.
    pub answer: Answer,
    /// The metric; empty for [`Answer::Nothing`].
    pub metric: &'static str,
    /// The difference, why it is only near, or what to use instead; may be empty for [`Answer::Same`].
    pub about: &'static str,
}

/// Every known counter: those of the table, then those that a metric names as its own.
pub fn counters() -> impl Iterator<Item = Counter> {
    let of_table = TABLE.iter().map(|row| Counter {
        path: row.path,
        answer: row.answer,
        metric: row.metric,
        about: row.about,
    });
    let of_metrics =
        all_metrics().filter(|(_, metric)| !metric.perfmon.is_empty()).filter_map(|(_, metric)| {
            let (path, metric) = (metric.perfmon.as_ref(), metric.name.as_ref());
            let is_in_table = TABLE.iter().any(|row| row.path == path);
            (!is_in_table).then_some(Counter { path, answer: Answer::Same, metric, about: "" })
        });
    of_table.chain(of_metrics)
}

/// What holds for all counters of an object, such as `LogicalDisk`; empty for nothing.
pub fn about_object(object: &str) -> &'static str {
    OBJECTS.iter().find(|(name, _)| key(name) == key(object)).map_or("", |(_, about)| about)
}

/// The longest path that is read: Performance Monitor has none that is longer.
const PATH_BYTES_MAX: usize = 2048;

/// A path as somebody wrote it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Path {
    /// The object, under the name that the table has for it.
    pub object: String,
    /// The text in parentheses; empty for none, `*` or `_Total`.
    pub instance: String,
    /// The counter; may hold `*`.
    pub counter: String,
}

impl Path {
    /// Reads `\\HOST\Object(instance)\Counter`; host and instance may be missing. None for a text without a backslash, or one
    /// with nothing before or after it.
    pub fn parse(text: &str) -> Option<Path> {
        let text = text.trim();
        if text.len() > PATH_BYTES_MAX {
            return None;
        }
        let text = match text.strip_prefix(r"\\") {
            Some(rest) => rest.split_once('\\')?.1,
            None => text.trim_start_matches('\\'),
        };
        let (backslash, parenthesis) = (text.find('\\'), text.find('('));
        let (object, instance, counter) = match (backslash, parenthesis) {
            // The name of an instance may hold both signs.
            (Some(backslash), Some(open)) if open < backslash => {
                let close = text.rfind(r")\").filter(|close| *close > open)?;
                (&text[..open], &text[open + 1..close], &text[close + 2..])
            }
            (Some(backslash), _) => (&text[..backslash], "", &text[backslash + 1..]),
            (None, _) => return None,
        };
        let (object, counter) = (known_object(object.trim()), counter.trim());
        if key(&object).is_empty() || counter.is_empty() {
            return None;
        }
        let is_all =
            matches!(instance.trim().to_lowercase().as_str(), "*" | "_total" | "_global_" | "__total__");
        let instance = if is_all { String::new() } else { instance.trim().to_string() };
        Some(Path { object, instance, counter: counter.to_string() })
    }

    /// The counters that the path names: one, or those that match its `*`.
    pub fn find(&self) -> Vec<Counter> {
        let (object, counter) = (key(&self.object), pattern(&self.counter));
        let of_object = |of: &Counter| split(of.path).is_some_and(|(name, _)| key(name) == object);
        counters()
            .filter(of_object)
            .filter(|of| split(of.path).is_some_and(|(_, name)| matches(&counter, key(name).as_bytes())))
            .collect()
    }

    /// The path that may have been meant; `Object\*` where only the object is known. None when not even that is.
    pub fn similar(&self) -> Option<String> {
        let paths: Vec<(String, String, Counter)> = counters()
            .filter_map(|of| split(of.path).map(|(object, counter)| (key(object), key(counter), of)))
            .collect();
        let objects: BTreeSet<&str> = paths.iter().map(|(object, ..)| object.as_str()).collect();
        let object = near_word(&key(&self.object), objects)?;
        let of_object = || paths.iter().filter(|(name, ..)| name == object);
        let meant = near_word(&key(&self.counter), of_object().map(|(_, counter, _)| counter.as_str()));
        let found = of_object().find(|(_, counter, _)| meant.is_none_or(|meant| counter == meant))?.2.path;
        Some(match meant {
            Some(_) => found.to_string(),
            None => format!(r"{}\*", split(found)?.0),
        })
    }
}

/// What to watch for a path. None for what is no path.
///
/// # Errors
/// When no metric says the same as the counter: what is nearest, or what may have been meant.
pub fn watched(entry: &str) -> Option<Result<Watched, (String, String)>> {
    let path = Path::parse(entry)?;
    let found = path.find();
    let same = found.iter().find(|counter| counter.answer == Answer::Same);
    let Some(Counter { metric, about, .. }) = same.copied() else {
        return Some(Err(refusal(entry, &path, found.first())));
    };
    let source = metric.split('.').next().unwrap_or("");
    let selector = SOURCES.iter().find(|kind| kind.name == source).map_or("", |kind| kind.selector);
    let selected = match selector {
        "" => "host".to_string(),
        _ => match process_of(&path) {
            Some(process) => format!("{selector}:{process}"),
            None => {
                let what = format!("`{entry}` names no {selector}");
                let help = format!(r"write {}(NAME)\{}, or {selector}:NAME", path.object, path.counter);
                return Some(Err((what, help)));
            }
        },
    };
    Some(Ok(Watched { entry: selected, metric, about }))
}

/// Why a path cannot be watched, and what to write.
fn refusal(entry: &str, path: &Path, found: Option<&Counter>) -> (String, String) {
    match found {
        None => (format!("`{entry}` is no known counter of Performance Monitor"), meant(path)),
        Some(Counter { answer: Answer::Nothing, about, .. }) => {
            (format!("`{entry}` has no metric of the same meaning"), (*about).to_string())
        }
        Some(Counter { metric, about, .. }) => {
            let source = metric.split('.').next().unwrap_or("");
            let selector = SOURCES.iter().find(|kind| kind.name == source).map_or("", |kind| kind.selector);
            let write = match selector {
                "" => "host".to_string(),
                _ => format!("{selector}:{}", process_of(path).unwrap_or_else(|| "NAME".into())),
            };
            let what = format!("`{entry}` has no metric of the same meaning; the nearest is {metric}");
            (what, format!("write {write} to watch it. {about}"))
        }
    }
}

/// What to write in place of a path that is not known.
pub fn meant(path: &Path) -> String {
    match path.similar() {
        None => r"`plimsoll watch --list 'Process\*'` has the known counters of an object".into(),
        Some(object) if object.ends_with('*') => {
            format!("`plimsoll watch --list '{object}'` has its known counters")
        }
        Some(path) => format!("did you mean `{path}`?"),
    }
}

/// The process that an instance names: `w3wp` of `w3wp#1`, of the thread `w3wp/3`, `1234` of `w3wp:1234`.
fn process_of(path: &Path) -> Option<String> {
    let instance = path.instance.as_str();
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let name = match instance.rsplit_once([':', '#', '/']) {
        Some((_, number)) if is_number(number) && instance.contains(':') => number,
        Some((name, number)) if is_number(number) => name,
        _ => instance,
    };
    let name = name.trim();
    (!name.is_empty() && !name.contains('*')).then(|| name.to_string())
}

/// The object under the name that the table has for it.
fn known_object(object: &str) -> String {
    let alias = ALIASES.iter().find(|(alias, _)| key(alias) == key(object));
    match (alias, object.split_once(':')) {
        (Some((_, name)), _) => (*name).to_string(),
        // A named instance of SQL Server.
        (None, Some((server, rest))) if server.to_lowercase().starts_with("mssql$") => {
            format!("SQLServer:{rest}")
        }
        _ => object.to_string(),
    }
}

/// Object and counter of a path of the table.
fn split(path: &'static str) -> Option<(&'static str, &'static str)> {
    path.split_once('\\')
}

/// What two spellings of a name have in common: letters and digits, without case, blanks and signs.
fn key(name: &str) -> String {
    name.chars().filter(|c| c.is_alphanumeric()).flat_map(char::to_lowercase).collect()
}

/// The key of a counter that may hold `*`.
fn pattern(counter: &str) -> Vec<u8> {
    counter.split('*').map(key).collect::<Vec<_>>().join("*").into_bytes()
}

/// Whether a text matches a pattern in which `*` stands for any text.
fn matches(pattern: &[u8], text: &[u8]) -> bool {
    let (mut at, mut from) = (0, 0);
    let mut star: Option<(usize, usize)> = None;
    while from < text.len() {
        match pattern.get(at) {
            Some(b'*') => {
                star = Some((at, from));
                at += 1;
            }
            Some(byte) if *byte == text[from] => {
                at += 1;
                from += 1;
            }
            _ => match star {
                // The star takes one more byte.
                Some((place, taken)) => {
                    star = Some((place, taken + 1));
                    at = place + 1;
                    from = taken + 1;
                }
                None => return false,
            },
        }
    }
    pattern[at..].iter().all(|byte| *byte == b'*')
}
