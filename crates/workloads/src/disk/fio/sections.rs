//! The lines of a job file: included files, comments, variables and sections become jobs with their options.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;

use model::problem::{Problem, Problems};

use super::arithmetic;
use super::defaults::{is_default, is_off};
use super::options::{Effect, effect, known_names};

/// How deep files may include others.
const DEPTH_MAX: usize = 16;

/// Most files read for one job file.
const FILES_MAX: usize = 256;

/// What a job file may ask of its surroundings.
pub struct Surroundings<'a> {
    /// The text of an included file.
    pub read_file: &'a dyn Fn(&Path) -> io::Result<String>,
    /// The value of an environment variable.
    pub variable: &'a dyn Fn(&str) -> Option<String>,
    /// Bytes of a file or device that exists.
    pub size_of: &'a dyn Fn(&str) -> Option<u64>,
    /// CPUs, MiB of memory and bytes of a page: `$ncpus`, `$mb_memory` and `$pagesize`.
    pub keywords: [u64; 3],
    /// The files to drive that are named beside the job file, which take the place of those in it.
    pub targets: &'a [String],
}

impl Surroundings<'_> {
    /// Without files, variables and devices.
    pub const NONE: Surroundings<'static> = Surroundings {
        read_file: &|_| Err(io::Error::from(io::ErrorKind::NotFound)),
        variable: &|_| None,
        size_of: &|_| None,
        keywords: [1, 1024, 4096],
        targets: &[],
    };
}

/// Where something is written: which of the files read, and the line in it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct At {
    pub(super) source: usize,
    pub(super) line: u32,
}

/// An option as written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Written {
    pub(super) value: String,
    pub(super) at: At,
}

pub(super) type Options = BTreeMap<&'static str, Written>;

/// A section that is not [global], with all options that hold for it.
#[derive(Clone, Debug)]
pub(super) struct Job {
    pub(super) name: String,
    pub(super) at: At,
    pub(super) options: Options,
}

/// A file that was read.
struct Source {
    name: String,
    text: String,
}

/// Reads the files and collects problems with their places.
pub(super) struct Reader<'a> {
    pub(super) surroundings: &'a Surroundings<'a>,
    sources: Vec<Source>,
    pub(super) problems: Problems,
    /// What differs from fio, in sentences; with the setting whose flag makes the sentence wrong.
    pub(super) notes: Vec<super::FioNote>,
    pub(super) without_effect: Vec<String>,
    global: Options,
    jobs: Vec<Job>,
    in_global: bool,
}

impl<'a> Reader<'a> {
    pub(super) fn new(surroundings: &'a Surroundings<'a>) -> Self {
        Reader {
            surroundings,
            sources: Vec::new(),
            problems: Problems::new(),
            notes: Vec::new(),
            without_effect: Vec::new(),
            global: Options::new(),
            jobs: Vec::new(),
            in_global: true,
        }
    }

    pub(super) fn problem(&mut self, at: At, what: impl Into<String>, help: impl Into<String>) {
        let problem = match self.sources.get(at.source) {
            Some(source) => Problem::at_line(&source.name, &source.text, at.line, what, help),
            None => Problem::new(what, help),
        };
        // What [global] says is wrong once, not in each job.
        if !self.problems.0.contains(&problem) {
            self.problems.push(problem);
        }
    }

    pub(super) fn note(&mut self, text: impl Into<String>) {
        self.note_unless(text, None);
    }

    /// A note that holds unless a flag sets this setting.
    pub(super) fn note_unless(&mut self, text: impl Into<String>, unless: Option<&'static str>) {
        let note = super::FioNote { text: text.into(), unless };
        if !self.notes.contains(&note) {
            self.notes.push(note);
        }
    }

    /// All jobs of a file, in order.
    pub(super) fn jobs(&mut self, text: &str, file_name: &str) -> Vec<Job> {
        self.file(text, file_name, 0);
        std::mem::take(&mut self.jobs)
    }

    fn file(&mut self, text: &str, file_name: &str, depth: usize) {
        let source = self.sources.len();
        self.sources.push(Source { name: file_name.into(), text: text.into() });
        for (index, line) in text.lines().enumerate() {
            let at = At { source, line: index as u32 + 1 };
            // What follows one of these letters is a comment, wherever it stands.
            let line = line.split([';', '#']).next().unwrap_or_default().trim();
            if line.is_empty() {
                continue;
            }
            if let Some(section) = line.strip_prefix('[') {
                self.section(section, at);
            } else if let Some(name) = included(line) {
                self.include(name, file_name, at, depth);
            } else if let Some(line) = self.expanded(line, at) {
                self.option(&line, at);
            }
        }
    }

    fn section(&mut self, section: &str, at: At) {
        let Some(name) = section.strip_suffix(']').filter(|name| !name.is_empty()) else {
            self.problem(at, "the section's name does not end", "write [name]");
            return;
        };
        self.in_global = name == "global";
        if !self.in_global {
            self.jobs.push(Job { name: name.into(), at, options: self.global.clone() });
        }
    }

    fn include(&mut self, name: &str, file_name: &str, at: At, depth: usize) {
        if depth >= DEPTH_MAX || self.sources.len() >= FILES_MAX {
            let what = format!("`{name}` is included too deep, or by too many files");
            self.problem(at, what, format!("at most {DEPTH_MAX} levels and {FILES_MAX} files"));
            return;
        }
        let folder = Path::new(file_name).parent().unwrap_or(Path::new(""));
        let path = folder.join(name);
        match (self.surroundings.read_file)(&path) {
            Ok(text) => self.file(&text, &path.display().to_string(), depth + 1),
            Err(error) => {
                self.problem(
                    at,
                    format!("`{}` cannot be read: {error}", path.display()),
                    "name a text file; the path begins at the folder of this file",
                );
            }
        }
    }

    /// With the values of its variables and keywords; none when one has no value.
    fn expanded(&mut self, line: &str, at: At) -> Option<String> {
        let mut out = String::with_capacity(line.len());
        let mut rest = line;
        while let Some((before, behind)) = rest.split_once("${") {
            out.push_str(before);
            let Some((name, after)) = behind.split_once('}') else {
                self.problem(at, "a variable does not end", "write ${NAME}");
                return None;
            };
            match (self.surroundings.variable)(name) {
                Some(value) if !value.contains(char::is_control) => out.push_str(&value),
                Some(_) => {
                    self.problem(at, format!("${{{name}}} holds control characters"), "set it to one line");
                    return None;
                }
                None => {
                    self.problem(
                        at,
                        format!("the environment variable {name} is not set"),
                        format!("set it, such as `{name}=... plimsoll disk --fio ...`, or write the value"),
                    );
                    return None;
                }
            }
            rest = after;
        }
        out.push_str(rest);
        let names = ["$ncpus", "$mb_memory", "$pagesize"];
        let has_keyword = names.iter().any(|name| out.contains(name));
        for (name, value) in names.iter().zip(self.surroundings.keywords) {
            out = out.replace(name, &value.to_string());
        }
        self.worked_out(&out, has_keyword, at)
    }

    /// With a value in parentheses, or one made of a keyword, worked out.
    fn worked_out(&mut self, line: &str, has_keyword: bool, at: At) -> Option<String> {
        let Some((name, value)) = line.split_once('=') else { return Some(line.into()) };
        let value = value.trim();
        let is_expression =
            value.starts_with('(') || (has_keyword && value.contains(['+', '-', '*', '/', '%', '^']));
        if !is_expression || value.contains(':') {
            return Some(line.into());
        }
        match arithmetic::evaluate(value) {
            Some(number) => Some(format!("{name}={number}")),
            None => {
                let what = format!("`{value}` cannot be computed");
                self.problem(
                    at,
                    what,
                    "write whole numbers with + - * / % ^ and parentheses, and a result of 0 or more",
                );
                None
            }
        }
    }

    fn option(&mut self, line: &str, at: At) {
        let (name, value) = match line.split_once('=') {
            Some((name, value)) => (name.trim(), value.trim()),
            None => (line, "1"),
        };
        let canonical = match effect(name) {
            // As if it were not written; in a job it takes the place of what holds for all.
            Some((canonical, what))
                if is_default(canonical, value) || (what != Effect::Used && is_off(canonical, value)) =>
            {
                match self.jobs.last_mut().filter(|_| !self.in_global) {
                    Some(job) => drop(job.options.remove(canonical)),
                    None => drop(self.global.remove(canonical)),
                }
                return;
            }
            Some((canonical, Effect::Used)) => canonical,
            Some((_, Effect::None)) => return,
            Some((_, Effect::Without)) => {
                if !self.without_effect.iter().any(|other| other == name) {
                    self.without_effect.push(name.into());
                }
                return;
            }
            Some((_, Effect::Noted(note))) => {
                self.note(format!("{name}: {note}"));
                return;
            }
            Some((_, Effect::Unsupported(help))) => {
                self.problem(at, format!("`{name}` is not supported"), help);
                return;
            }
            None => {
                let help = match model::problem::near_word(name, known_names()) {
                    Some(near) => format!("did you mean `{near}`?"),
                    None => "remove it".into(),
                };
                self.problem(at, format!("unknown fio option `{name}`"), help);
                return;
            }
        };
        let written = Written { value: value.to_string(), at };
        match self.jobs.last_mut().filter(|_| !self.in_global) {
            Some(job) => drop(job.options.insert(canonical, written)),
            None => drop(self.global.insert(canonical, written)),
        }
    }
}

/// The name behind `include`.
fn included(line: &str) -> Option<&str> {
    let name = line.strip_prefix("include")?;
    let name = name.strip_prefix([' ', '\t', '='])?.trim();
    Some(name.trim_start_matches('=').trim()).filter(|name| !name.is_empty())
}
