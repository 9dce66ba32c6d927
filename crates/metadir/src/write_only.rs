//! Values that are sent once and never read, such as initial passwords.
//!
//! The store has a mark instead of the value: in the pending export, the attribute without a value. The value is made
//! when it is sent, so it is neither in the store nor in a log. A generated password is delivered when the system has
//! accepted it, before this is recorded. After a crash in between, another password is sent and delivered. So the last
//! delivered password of an object is the one that it has, once its export is complete.

use std::fs::File;
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use serde_json::json;

use crate::Interrupt;
use crate::agent::{Agent, AgentError, ExportedObject, Names, Refused};
use crate::config::{Delivery, Generator, Secrets};
use crate::existing::{Answered, settle};
use crate::object::Change;
use crate::rules::{AgentRules, WriteOnlyRule, WriteOnlyValue};

/// Limit of the run time of a command that receives a password.
const COMMAND_TIME: Duration = Duration::from_secs(60);
/// How often its end is looked for.
const COMMAND_LOOK: Duration = Duration::from_millis(5);
const PRIVATE_FILE: u32 = 0o600;

/// A value that a change of a call is to set.
pub(crate) struct DueValue<'a> {
    /// The index of the change.
    pub(crate) at: usize,
    pub(crate) rule: &'a WriteOnlyRule,
    /// The values of a flow; none if the value is made when it is sent.
    pub(crate) values: Option<Vec<Vec<u8>>>,
    /// Whether it is to be set even if an earlier request made the object.
    pub(crate) is_due: bool,
}

/// Sends changes with their values, and delivers the generated ones.
pub(crate) struct Transmission<'a> {
    space: &'a AgentRules,
    names: &'a Names,
    interrupt: Interrupt,
    /// The open files for passwords, by their paths.
    files: Vec<(&'a Path, File)>,
}

/// A generated password that is to be delivered.
struct Generated<'a> {
    at: usize,
    generator: &'a Generator,
    /// The JSON line.
    line: String,
}

impl<'a> Transmission<'a> {
    pub(crate) fn new(space: &'a AgentRules, names: &'a Names, interrupt: Interrupt) -> Transmission<'a> {
        Transmission { space, names, interrupt, files: Vec::new() }
    }

    /// Sends the changes of a call.
    ///
    /// # Errors
    /// When the system cannot be reached any more.
    pub(crate) fn send(
        &mut self,
        agent: &mut dyn Agent,
        changes: &[ExportedObject],
        due: Vec<DueValue<'a>>,
    ) -> Result<Answered, AgentError> {
        let (space, names) = (self.space, self.names);
        if due.is_empty() {
            let answered =
                agent.export(changes).and_then(|answers| settle(agent, space, names, changes, &[], answers));
            return without_secrets(answered, &space.secrets, names, changes);
        }
        let mut filled = changes.to_vec();
        let mut failed: Vec<(usize, String)> = Vec::new();
        let (mut generated, mut is_due) = (Vec::new(), vec![false; changes.len()]);
        for DueValue { at, rule, values, is_due: of_value } in due {
            is_due[at] |= of_value;
            match self.value(&changes[at], at, rule, values, &mut generated) {
                // Without a value there is nothing to set.
                Ok(values) if values.is_empty() => {}
                Ok(values) => filled[at].attributes.push((rule.to, values)),
                Err(why) => failed.push((at, why)),
            }
        }
        let is_sent = |at: &usize| failed.iter().all(|(other, _)| other != at);
        let places: Vec<usize> = (0..changes.len()).filter(is_sent).collect();
        let mut sent: Vec<ExportedObject> = Vec::with_capacity(places.len());
        for at in &places {
            let mut change = filled[*at].clone();
            change.attributes.sort_by_key(|(attribute, _)| *attribute);
            sent.push(change);
        }
        let due: Vec<usize> = (0..places.len()).filter(|at| is_due[places[*at]]).collect();
        let answered =
            agent.export(&sent).and_then(|answers| settle(agent, space, names, &sent, &due, answers));
        let of_sent = without_secrets(answered, &space.secrets, names, &sent)?;
        let mut answered = Answered {
            answers: vec![Ok(()); changes.len()],
            reported: of_sent.reported.iter().map(|at| places[*at]).collect(),
            conflicts: of_sent.conflicts.iter().map(|at| places[*at]).collect(),
            adopted: of_sent.adopted.into_iter().map(|(at, image)| (places[at], image)).collect(),
            kept: of_sent.kept.iter().map(|at| places[*at]).collect(),
            undelivered: Vec::new(),
        };
        for (at, answer) in places.iter().zip(of_sent.answers) {
            answered.answers[*at] = answer;
        }
        for (at, why) in failed {
            answered.answers[at] = Err(Refused(why));
        }
        generated
            .retain(|of: &Generated<'_>| answered.answers[of.at].is_ok() && !answered.kept.contains(&of.at));
        answered.undelivered = self.deliver(&generated);
        Ok(answered)
    }

    /// The values to be set.
    fn value(
        &mut self,
        change: &ExportedObject,
        at: usize,
        rule: &'a WriteOnlyRule,
        values: Option<Vec<Vec<u8>>>,
        generated: &mut Vec<Generated<'a>>,
    ) -> Result<Vec<Vec<u8>>, String> {
        let generator = match &rule.from {
            WriteOnlyValue::Flow(_) => return Ok(values.unwrap_or_default()),
            WriteOnlyValue::Secret(place) => {
                return place.read("password").map(|value| vec![value]).map_err(|error| error.to_string());
            }
            WriteOnlyValue::Generated(generator) => generator,
        };
        // Before anything is sent, it is known whether the file can be written.
        if let Delivery::File(path) = &generator.delivery {
            self.open(path)?;
        }
        let value = generate(generator).map_err(|error| format!("no password can be generated: {error}"))?;
        let object = change.new_dn.as_ref().unwrap_or(&change.dn);
        let attribute = self.names.name(rule.to);
        let line = json!({
            "agent": self.space.name,
            "object": object,
            "attribute": attribute,
            "value": value,
            "at_unix_s": SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs()),
            "is_new": change.change == Change::Add,
        });
        generated.push(Generated { at, generator, line: format!("{line}\n") });
        Ok(vec![value.into_bytes()])
    }

    /// The file for passwords, which is created if it does not exist.
    fn open(&mut self, path: &'a Path) -> Result<&mut File, String> {
        let place = match self.files.iter().position(|(known, _)| *known == path) {
            Some(place) => place,
            None => {
                let failed =
                    |error| format!("the passwords cannot be written to {}: {error}", path.display());
                let (folder, name) = files::Directory::of_file(path).map_err(failed)?;
                let file = folder.open_append(name, PRIVATE_FILE).map_err(failed)?;
                files::secret::check(&file, path).map_err(failed)?;
                self.files.push((path, file));
                self.files.len() - 1
            }
        };
        Ok(&mut self.files[place].1)
    }

    /// Delivers passwords. Returns those that could not be delivered.
    fn deliver(&mut self, generated: &[Generated<'a>]) -> Vec<(usize, String)> {
        let mut undelivered = Vec::new();
        let mut of_files: Vec<(&'a Path, Vec<&Generated<'a>>)> = Vec::new();
        for of in generated {
            match &of.generator.delivery {
                Delivery::File(path) => match of_files.iter_mut().find(|(known, _)| *known == path) {
                    Some((_, all)) => all.push(of),
                    None => of_files.push((path, vec![of])),
                },
                Delivery::Command(command) => {
                    if let Err(why) = hand_over(command, &of.line, &self.interrupt) {
                        undelivered.push((of.at, format!("its password was set and not delivered: {why}; the next export sets and delivers another one")));
                    }
                }
            }
        }
        for (path, all) in of_files {
            let lines: String = all.iter().map(|of| of.line.as_str()).collect();
            // One call, so that lines are not mixed with those of others.
            let written = self.open(path).and_then(|file| {
                let written = file.write_all(lines.as_bytes()).and_then(|()| file.sync_data());
                written.map_err(|error| format!("{} cannot be written: {error}", path.display()))
            });
            if let Err(why) = written {
                undelivered.extend(all.iter().map(|of| {
                    (of.at, format!("its password was set and not delivered: {why}; the next export sets and delivers another one"))
                }));
            }
        }
        undelivered
    }
}

/// Gives a line to a command and waits for its success. What the command writes is not shown: it may be the password.
fn hand_over(command: &[String], line: &str, interrupt: &Interrupt) -> Result<(), String> {
    let Some((program, arguments)) = command.split_first() else { return Err("there is no command".into()) };
    let failed = |error: std::io::Error| format!("{program} cannot be executed: {error}");
    let mut child = Command::new(program)
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .map_err(failed)?;
    // A line is smaller than the buffer of a pipe, so this does not wait. A command may end without reading it.
    if let Some(mut input) = child.stdin.take() {
        let _ = input.write_all(line.as_bytes());
    }
    let begin = Instant::now();
    let status = loop {
        if let Some(status) = child.try_wait().map_err(failed)? {
            break status;
        }
        if begin.elapsed() > COMMAND_TIME || interrupt.is_set() {
            let _ = child.kill();
            let _ = child.wait();
            return Err(match interrupt.is_set() {
                true => format!("{program} was interrupted"),
                false => format!("{program} did not end within {} s", COMMAND_TIME.as_secs()),
            });
        }
        std::thread::sleep(COMMAND_LOOK);
    };
    match status.success() {
        true => Ok(()),
        false => Err(format!("{program} failed: {status}")),
    }
}

/// A random password: each one that has a character of each class is equally likely.
pub(crate) fn generate(generator: &Generator) -> std::io::Result<String> {
    let all: Vec<char> = generator.classes.iter().flatten().copied().collect();
    loop {
        let mut password = String::with_capacity(generator.length);
        while password.len() < generator.length {
            let mut bytes = [0_u8; 64];
            files::fill_random(&mut bytes)?;
            // Bytes that would make some characters more likely are left out.
            let most = 256 / all.len() * all.len();
            let fitting = bytes.iter().map(|byte| usize::from(*byte)).filter(|byte| *byte < most);
            password
                .extend(fitting.map(|byte| all[byte % all.len()]).take(generator.length - password.len()));
        }
        if generator.classes.iter().all(|class| password.contains(class.as_slice())) {
            return Ok(password);
        }
    }
}

/// Answers in which the system's texts do not contain secret values.
fn without_secrets(
    answered: Result<Answered, AgentError>,
    secrets: &Secrets,
    names: &Names,
    changes: &[ExportedObject],
) -> Result<Answered, AgentError> {
    let values = |change: &'_ ExportedObject| {
        let of_change =
            change.attributes.iter().filter(|(attribute, _)| secrets.hides(names.name(*attribute)));
        of_change.flat_map(|(_, values)| values.clone()).collect::<Vec<Vec<u8>>>()
    };
    match answered {
        Ok(mut answered) => {
            for (change, answer) in changes.iter().zip(&mut answered.answers) {
                if let Err(Refused(why)) = answer {
                    *why = Secrets::without(why, values(change).iter().map(Vec::as_slice));
                }
            }
            Ok(answered)
        }
        Err(AgentError::System { what, why }) => {
            let all: Vec<Vec<u8>> = changes.iter().flat_map(values).collect();
            Err(AgentError::System { what, why: Secrets::without(&why, all.iter().map(Vec::as_slice)) })
        }
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passwords_have_each_class_and_their_length() {
        let classes = ["abc", "XYZ", "789"].map(|class| class.chars().collect::<Vec<char>>());
        let generator =
            Generator { length: 8, classes: classes.to_vec(), delivery: Delivery::File("x".into()) };
        let mut all = std::collections::BTreeSet::new();
        for _ in 0..200 {
            let password = generate(&generator).unwrap();
            assert_eq!(password.len(), 8);
            assert!(classes.iter().all(|class| password.contains(class.as_slice())), "{password}");
            assert!(password.chars().all(|of| classes.iter().any(|class| class.contains(&of))), "{password}");
            all.insert(password);
        }
        assert!(all.len() > 190, "they differ: {}", all.len());
    }

    #[test]
    fn a_command_that_fails_is_named_without_the_password() {
        let fails = ["sh".to_string(), "-c".into(), "cat >&2; exit 3".into()];
        let error = hand_over(&fails, "secret\n", &Interrupt::default()).unwrap_err();
        assert_eq!(error, "sh failed: exit status: 3");
        let missing = ["/nonexistent/deliver".to_string()];
        let error = hand_over(&missing, "secret\n", &Interrupt::default()).unwrap_err();
        assert!(error.starts_with("/nonexistent/deliver cannot be executed"), "{error}");
        assert!(hand_over(&["true".to_string()], "secret\n", &Interrupt::default()).is_ok());
    }
}
