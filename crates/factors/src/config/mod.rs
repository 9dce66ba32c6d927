//! `target.config`: a value in a file that the target reads when it starts or reloads.
//!
//! Only the bytes of the value change; comments, order and blanks are kept. Before anything is written, the
//! value is parsed from the new text and must equal the requested one. The journal stores the value, not the
//! file, which may contain passwords. A file that somebody else edited meanwhile is not restored but
//! reported.

pub(crate) mod file;
mod format;

use std::path::{Path, PathBuf};
use std::time::Duration;

use engine::factor::{COMMAND_VARIABLE, Factor, FactorKind, FactorTarget, Moment, Undo, new_mark};
use engine::shell;
use engine::source::Unavailable;
use model::experiment::{FactorInfo, ParameterInfo};
use model::{Level, Nanos, SECOND, Secret, SettingKind};

use crate::command::LEFT_WITHIN;
use file::fingerprint;
use format::{Format, Replaced, read, replace};

/// The factor.
pub const CONFIG: FactorKind = FactorKind {
    info: FactorInfo {
        path: "target.config",
        kind: SettingKind::Value,
        about: "A value in a configuration file of the target, named by on = \"FILE:KEY.PATH\". The target is restarted with each level.",
        resource: None,
        needs_on: true,
        parameters: &[
            ParameterInfo {
                name: "format",
                needed: false,
                is_command: false,
                about: "File format: \"ini\", \"properties\", \"yaml\", \"json\" or \"toml\". Default: by the file name's extension.",
            },
            ParameterInfo {
                name: "pattern",
                needed: false,
                is_command: false,
                about: "Regular expression for other file formats; `on` is then only the file name. The first group, or else the match, is replaced. It must match once.",
            },
            ParameterInfo {
                name: "reload",
                needed: false,
                is_command: true,
                about: "Shell command that makes the target reload the file, instead of a restart.",
            },
        ],
        named: true,
        of_dependency: false,
    },
    moment: |target| match target.parameters.contains_key(RELOAD) {
        true => Moment::Prepared,
        false => Moment::Stopped,
    },
    open,
};

const RELOAD: &str = "reload";

/// Timeout of a reload.
const WITHIN: Nanos = 60 * SECOND;

struct Config {
    path: PathBuf,
    key: String,
    format: Format,
    reload: Option<Secret>,
    folder: PathBuf,
    /// Identifies the processes of `reload`.
    mark: String,
    /// Whether the target can be restarted.
    restartable: bool,
}

fn open(target: &FactorTarget) -> Result<Box<dyn Factor>, Unavailable> {
    let on = target.on.as_deref().unwrap_or_default();
    let (file, key, format) = match target.parameters.get("pattern") {
        Some(pattern) => (on, "", Format::pattern(pattern.reveal())?),
        None => {
            let (file, key) =
                on.rsplit_once(':').filter(|(file, key)| !file.is_empty() && !key.is_empty()).ok_or_else(
                    || {
                        Unavailable(format!(
                            "on = \"{on}\" is not the name of a value: write \"FILE:KEY.PATH\", or \"FILE\" and a `pattern`"
                        ))
                    },
                )?;
            (file, key, Format::of(target.parameters.get("format").map(Secret::reveal), Path::new(file))?)
        }
    };
    let path = std::path::absolute(target.folder.join(file))
        .map_err(|error| Unavailable(format!("{file}: {error}")))?;
    Ok(Box::new(Config {
        path,
        key: key.to_string(),
        format,
        reload: target.parameters.get(RELOAD).cloned(),
        folder: target.folder.clone(),
        mark: new_mark(),
        restartable: target.restartable,
    }))
}

impl Config {
    fn text(&self) -> Result<String, Unavailable> {
        file::read(&self.path)
    }

    fn replaced(&self, text: &str, level: &Level) -> Result<Replaced, Unavailable> {
        replace(&self.format, text, &self.key, &level.reveal()).map_err(|what| self.in_file(what))
    }

    fn in_file(&self, what: String) -> Unavailable {
        Unavailable(format!("{}: {what}", self.path.display()))
    }
}

impl Factor for Config {
    fn check(&self, level: &Level) -> Result<(), Unavailable> {
        if self.reload.is_none() && !self.restartable {
            return Err(Unavailable(
                "the target needs a restart, but Plimsoll did not start it: let [target] start it, or \
                set `reload`, a command that makes it reload the file"
                    .into(),
            ));
        }
        self.replaced(&self.text()?, level)?;
        file::check(&self.path)
    }

    fn read(&self) -> Result<Level, Unavailable> {
        let level = |text: String| {
            let name = self.key.rsplit('.').next().unwrap_or_default();
            Secret::of_level(name, &text).map_or(Level::Text(text), Level::Secret)
        };
        read(&self.format, &self.text()?, &self.key).map(level).map_err(|what| self.in_file(what))
    }

    fn undo(&self, level: &Level) -> Result<Vec<Undo>, Unavailable> {
        let text = self.text()?;
        let replaced = self.replaced(&text, level)?;
        let reloads = self.reload.is_some();
        let end = reloads.then(|| Undo::EndCommand { mark: self.mark.clone(), within: LEFT_WITHIN });
        let restore = Undo::RestoreValue {
            path: self.path.clone(),
            key: self.key.clone(),
            at: replaced.at as u64,
            before: replaced.before,
            written: replaced.written,
            file_before: fingerprint(&text),
            file_written: fingerprint(&replaced.text),
        };
        let mut steps: Vec<Undo> = end.into_iter().chain([restore]).collect();
        steps.extend(self.reload.as_ref().map(|reload| Undo::Command {
            command: reload.reveal().into(),
            folder: self.folder.clone(),
            within: WITHIN,
        }));
        Ok(steps)
    }

    fn set(&mut self, level: &Level) -> Result<Nanos, Unavailable> {
        let text = self.text()?;
        let replaced = self.replaced(&text, level)?;
        if replaced.text != text {
            file::replace(&self.path, &text, &replaced.text)?;
        }
        if let Some(reload) = &self.reload {
            let level = level.reveal();
            let variables = [("PLIMSOLL_LEVEL", level.as_str()), (COMMAND_VARIABLE, &self.mark)];
            shell::run(reload, &self.folder, &variables, Duration::from_nanos(WITHIN))
                .map_err(|why| Unavailable(format!("reload: {why}")))?;
        }
        Ok(0)
    }

    fn remark(&self) -> String {
        let how = if self.reload.is_some() { "reloaded" } else { "before the target was started" };
        match self.key.is_empty() {
            true => format!("in {}, {how}", self.path.display()),
            false => format!("{} in {}, {how}", self.key, self.path.display()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::undo::carry_out;
    use engine::source::HostRoot;
    use testkit::Scratch;

    fn factor(
        folder: &Scratch,
        on: &str,
        parameters: &[(&str, &str)],
    ) -> Result<Box<dyn Factor>, Unavailable> {
        let parameters =
            parameters.iter().map(|(name, text)| (name.to_string(), Secret::plain(text))).collect();
        open(&FactorTarget {
            on: Some(on.into()),
            parameters,
            folder: folder.path().to_path_buf(),
            restartable: true,
            ..FactorTarget::of(HostRoot::live(), vec![1])
        })
    }

    #[test]
    fn a_value_is_set_read_and_restored_byte_for_byte() {
        let folder = Scratch::new();
        let old = "# threads of the pool\n[server]\nthreads = 8   # was 4\nname = \"a\"\n";
        folder.file("server.toml", old);
        let mut threads = factor(&folder, "server.toml:server.threads", &[]).unwrap();
        let level = Level::Text("16".into());
        threads.check(&level).unwrap();
        assert_eq!(threads.read().unwrap(), Level::Text("8".into()));
        let undo = threads.undo(&level).unwrap();
        threads.set(&level).unwrap();
        assert_eq!(threads.read().unwrap(), level);
        assert_eq!(folder.text("server.toml"), old.replace("= 8", "= 16"));
        for _ in 0..2 {
            undo.iter().for_each(|step| carry_out(step).unwrap());
            assert_eq!(folder.text("server.toml"), old);
        }
    }

    #[test]
    fn a_file_that_somebody_edited_is_left_as_it_is_and_both_values_are_reported() {
        let folder = Scratch::new();
        let old = "password = s3cret\nthreads = 8\n";
        let mine = old.replace("8", "16");
        for (edited, by) in [
            ("password = s3cret\nthreads = 12\n", "the value itself"),
            ("password = changed\nthreads = 16\n", "another line"),
            ("", "all of it"),
        ] {
            folder.file("a.ini", old);
            let mut threads = factor(&folder, "a.ini:threads", &[]).unwrap();
            let level = Level::Text("16".into());
            let undo = threads.undo(&level).unwrap();
            // Passwords of the target are not copied.
            assert!(!format!("{undo:?}").contains("s3cret"));
            threads.set(&level).unwrap();
            assert_eq!(folder.text("a.ini"), mine);
            folder.file("a.ini", edited);
            let error = carry_out(&undo[0]).unwrap_err().0;
            assert_eq!(folder.text("a.ini"), edited, "{by}");
            for part in ["a.ini was edited", "threads was `8` before", "`16`", "plimsoll restore --discard"] {
                assert!(error.contains(part), "{error}");
            }
        }
        // A removed file needs no restoration and is not created.
        let step = {
            folder.file("a.ini", old);
            let threads = factor(&folder, "a.ini:threads", &[]).unwrap();
            threads.undo(&Level::Text("16".into())).unwrap().remove(0)
        };
        std::fs::remove_file(folder.join("a.ini")).unwrap();
        carry_out(&step).unwrap();
        assert!(!folder.join("a.ini").exists());
    }

    #[test]
    fn a_replaced_file_keeps_its_mode_and_a_link_to_it_stays_a_link() {
        use std::os::unix::fs::PermissionsExt;
        let folder = Scratch::new();
        let path = folder.file("real/a.ini", "threads = 8\n");
        std::fs::set_permissions(&path, PermissionsExt::from_mode(0o640)).unwrap();
        std::os::unix::fs::symlink("real/a.ini", folder.join("a.ini")).unwrap();
        let mut threads = factor(&folder, "a.ini:threads", &[]).unwrap();
        let level = Level::Text("16".into());
        threads.check(&level).unwrap();
        threads.set(&level).unwrap();
        assert_eq!(folder.text("real/a.ini"), "threads = 16\n");
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o640);
        assert!(std::fs::symlink_metadata(folder.join("a.ini")).unwrap().is_symlink());
        assert_eq!(std::fs::read_dir(folder.join("real")).unwrap().count(), 1);
        std::fs::hard_link(&path, folder.join("second")).unwrap();
        assert!(threads.check(&level).unwrap_err().0.contains("other hard links"));
    }

    #[test]
    fn a_reload_follows_each_change_and_the_way_back() {
        let folder = Scratch::new();
        folder.file("slapd.conf", "threads 8\n");
        let mut threads = factor(
            &folder,
            "slapd.conf",
            &[("pattern", r"^threads\s+(\d+)"), ("reload", "cat slapd.conf >> seen")],
        )
        .unwrap();
        let undo = threads.undo(&Level::Text("4".into())).unwrap();
        assert!(matches!(
            undo[..],
            [Undo::EndCommand { .. }, Undo::RestoreValue { .. }, Undo::Command { .. }]
        ));
        threads.set(&Level::Text("4".into())).unwrap();
        undo.iter().for_each(|step| carry_out(step).unwrap());
        assert_eq!(folder.text("seen"), "threads 4\nthreads 8\n");
    }

    #[test]
    fn what_is_missing_is_named() {
        let folder = Scratch::new();
        folder.file("a.json", "{\"b\": 1}");
        folder.file("noise.toml", [0xff, 0xfe]);
        folder.file("broken.json", "{");
        let level = Level::Text("2".into());
        for (on, parameters, expected) in [
            ("a.json", vec![], "is not the name of a value"),
            ("a.json:c", vec![], "has no `c`"),
            ("a.txt:c", vec![], "set `format`"),
            ("a.json:b", vec![("format", "xml")], "`xml` is not a format"),
            ("a.json", vec![("pattern", "(")], "is not a regular expression"),
            ("a.json", vec![("pattern", "[0-9]|b")], "matches 2 times"),
            ("none.toml:a", vec![], "No such file"),
            ("noise.toml:a", vec![], "is not text in UTF-8"),
            ("broken.json:a", vec![], "is not JSON"),
        ] {
            let found = factor(&folder, on, &parameters).and_then(|factor| factor.check(&level));
            let found = found.unwrap_err().0;
            assert!(found.contains(expected), "{on}: {found}");
        }
        let attached = open(&FactorTarget {
            on: Some("a.json:b".into()),
            folder: folder.path().to_path_buf(),
            ..FactorTarget::of(HostRoot::live(), vec![1])
        });
        assert!(attached.unwrap().check(&level).unwrap_err().0.contains("set `reload`"));
    }
}
