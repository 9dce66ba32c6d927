//! `target.command`: a setting that one command makes and another one undoes.

use std::path::PathBuf;
use std::time::Duration;

use engine::factor::{COMMAND_VARIABLE, Factor, FactorKind, FactorTarget, Moment, Undo, new_mark};
use engine::shell;
use engine::source::Unavailable;
use model::experiment::{FactorInfo, ParameterInfo};
use model::{Level, Nanos, SECOND, Secret, SecretParts, SettingKind};

/// The factor.
pub const COMMAND: FactorKind = FactorKind {
    info: FactorInfo {
        path: "target.command",
        kind: SettingKind::Value,
        about: "A setting that a shell command changes; {level} in the command and $PLIMSOLL_LEVEL contain the level.",
        resource: None,
        needs_on: false,
        parameters: &[
            ParameterInfo {
                name: "set",
                needed: true,
                is_command: true,
                about: "Shell command that sets a level, such as set = \"pool resize {level}\".",
            },
            ParameterInfo {
                name: "undo",
                needed: true,
                is_command: true,
                about: "Shell command that restores the original state, such as undo = \"pool reset\"; it may run twice.",
            },
            ParameterInfo {
                name: "read",
                needed: false,
                is_command: true,
                about: "Shell command that prints the current level.",
            },
        ],
        named: true,
        of_dependency: false,
    },
    moment: |_| Moment::Prepared,
    open,
};

/// Timeout of each command.
const WITHIN: Nanos = 60 * SECOND;

/// How long a command that a kill left may go on, before its change is undone.
pub(crate) const LEFT_WITHIN: Nanos = 10 * SECOND;

struct Command {
    set: Secret,
    undo: Secret,
    read: Option<Secret>,
    folder: PathBuf,
    /// Identifies the processes of its commands.
    mark: String,
    level: Option<Level>,
}

fn open(target: &FactorTarget) -> Result<Box<dyn Factor>, Unavailable> {
    let needed = |name: &str| {
        let text = target.parameters.get(name).cloned();
        text.ok_or_else(|| Unavailable(format!("the shell command `{name}` is missing")))
    };
    Ok(Box::new(Command {
        set: needed("set")?,
        undo: needed("undo")?,
        read: target.parameters.get("read").cloned(),
        folder: target.folder.clone(),
        mark: new_mark(),
        level: None,
    }))
}

impl Command {
    fn run(&self, command: &Secret, level: Option<&Level>) -> Result<String, Unavailable> {
        let shown = level.map(ToString::to_string).unwrap_or_default();
        let level = level.map(Level::reveal).unwrap_or_default();
        let script = Secret::filled(command, "{level}", &level, &shown);
        let variables = [("PLIMSOLL_LEVEL", level.as_str()), (COMMAND_VARIABLE, &self.mark)];
        shell::run(&script, &self.folder, &variables, Duration::from_nanos(WITHIN)).map_err(Unavailable)
    }
}

impl Factor for Command {
    /// Only running a command shows whether it works.
    fn check(&self, _level: &Level) -> Result<(), Unavailable> {
        if !self.folder.as_os_str().is_empty() && !self.folder.is_dir() {
            return Err(Unavailable(format!("{} is not a folder to run it in", self.folder.display())));
        }
        Ok(())
    }

    fn read(&self) -> Result<Level, Unavailable> {
        match (&self.read, &self.level) {
            (Some(command), level) => {
                let printed = self.run(command, level.as_ref())?;
                Ok(match level {
                    Some(level @ Level::Secret(secret)) if secret.reveal() == printed.trim() => level.clone(),
                    Some(Level::Secret(_)) => Level::Secret(Secret::new(printed.trim(), SecretParts::Whole)),
                    _ => Level::Text(printed.trim().to_string()),
                })
            }
            (None, Some(level)) => Ok(level.clone()),
            (None, None) => Err(Unavailable("`read`, the command that prints the level, is missing".into())),
        }
    }

    fn undo(&self, _level: &Level) -> Result<Vec<Undo>, Unavailable> {
        let end = Undo::EndCommand { mark: self.mark.clone(), within: LEFT_WITHIN };
        let undo =
            Undo::Command { command: self.undo.reveal().into(), folder: self.folder.clone(), within: WITHIN };
        Ok(vec![end, undo])
    }

    fn set(&mut self, level: &Level) -> Result<Nanos, Unavailable> {
        self.level = Some(level.clone());
        self.run(&self.set, Some(level)).map(|_| 0)
    }

    fn remark(&self) -> String {
        match self.read {
            Some(_) => String::new(),
            None => "as requested; without `read` the level in force is not known".into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::undo::carry_out;
    use engine::source::HostRoot;
    use testkit::Scratch;

    fn factor(folder: &Scratch, parameters: &[(&str, &str)]) -> Result<Box<dyn Factor>, Unavailable> {
        let parameters =
            parameters.iter().map(|(name, text)| (name.to_string(), Secret::plain(text))).collect();
        open(&FactorTarget {
            parameters,
            folder: folder.path().to_path_buf(),
            ..FactorTarget::of(HostRoot::live(), vec![1])
        })
    }

    #[test]
    fn commands_set_read_and_undo() {
        let folder = Scratch::new();
        folder.file("pool", "8\n");
        let mut pool = factor(
            &folder,
            &[
                ("set", "echo {level} > pool; echo $PLIMSOLL_LEVEL >> log"),
                ("read", "cat pool"),
                ("undo", "echo 8 > pool"),
            ],
        )
        .unwrap();
        pool.check(&Level::Text("4".into())).unwrap();
        let undo = pool.undo(&Level::Unlimited).unwrap();
        pool.set(&Level::Text("4".into())).unwrap();
        assert_eq!(pool.read().unwrap(), Level::Text("4".into()));
        for _ in 0..2 {
            undo.iter().for_each(|step| carry_out(step).unwrap());
            assert_eq!(folder.text("pool"), "8\n");
        }
        assert_eq!(folder.text("log"), "4\n");
    }

    #[test]
    fn a_command_that_fails_says_so_and_the_other_undoes_what_it_did() {
        let folder = Scratch::new();
        let mut half =
            factor(&folder, &[("set", "touch half; echo cannot >&2; exit 2"), ("undo", "rm -f half")])
                .unwrap();
        let undo = half.undo(&Level::Unlimited).unwrap();
        let error = half.set(&Level::Text("4".into())).unwrap_err().0;
        assert!(error.ends_with("ended with exit status 2: cannot"), "{error}");
        assert!(folder.join("half").exists());
        undo.iter().for_each(|step| carry_out(step).unwrap());
        assert!(!folder.join("half").exists());
        let error = factor(&folder, &[("set", "true")]).err().unwrap().0;
        assert!(error.contains("the shell command `undo`"), "{error}");
    }
}
