//! What holds of every setting of every kind.

use std::collections::BTreeSet;
use std::fs::File;
use std::sync::Arc;

use engine::inputs::Inputs;
use model::{Level, SettingInfo, SettingKind, quantity};

use crate::KINDS;
use crate::testing::settings_of;

mod paths;

fn every_setting() -> Vec<(String, &'static SettingInfo)> {
    let settings = |info: model::experiment::WorkloadInfo| {
        info.settings.iter().map(move |setting| (format!("{}.{}", info.name, setting.name), setting))
    };
    KINDS.iter().flat_map(|kind| settings(kind.info())).collect()
}

/// The setting of a path such as `disk.block_size`.
fn setting(path: &str) -> &'static SettingInfo {
    every_setting().into_iter().find(|(name, _)| name == path).unwrap().1
}

/// Whether a text is one number, with a unit or without.
fn is_quantity(text: &str) -> bool {
    text.parse::<f64>().is_ok()
        || quantity::parse_bytes(text).is_ok()
        || quantity::parse_duration(text).is_ok()
        || quantity::parse_rate(text).is_ok()
        || quantity::parse_percent(text).is_ok()
}

#[test]
fn every_name_is_there_once_and_every_default_is_a_level() {
    let mut seen = BTreeSet::new();
    for (path, setting) in every_setting() {
        assert!(seen.insert(path.clone()), "{path} is there twice");
        assert!(setting.default.is_empty() || setting.kind.parse(setting.default).is_ok(), "{path}");
        assert!(setting.about.ends_with('.') || setting.about.ends_with(".\""), "{path}");
    }
    assert!(seen.len() > 50, "{}", seen.len());
}

#[test]
fn a_quantity_is_a_number_in_every_setting() {
    for (path, setting) in every_setting() {
        let examples: &[&str] = match setting.kind {
            SettingKind::Count { .. } => &["1"],
            SettingKind::Bytes => &["64KiB", "1MiB"],
            SettingKind::Sizes => &["64KiB", "4k", "512B", "1MiB"],
            SettingKind::Time | SettingKind::TimeOr(_) => &["30s", "5ms"],
            SettingKind::Percent => &["70%"],
            SettingKind::Rate => &["2000/s"],
            _ => &[],
        };
        let default = Some(setting.default).filter(|default| is_quantity(default));
        for text in examples.iter().copied().chain(default) {
            let level = setting.kind.parse(text).unwrap();
            assert!(level.as_number().is_some(), "{path} = {text} is {level:?}");
        }
    }
}

#[test]
fn a_block_size_is_a_number_and_a_mix_is_not() {
    let kind = setting("disk.block_size").kind;
    for (text, bytes) in [("4KiB", 4096), ("64k", 65_536), ("1MiB", 1 << 20)] {
        assert_eq!(kind.parse(text), Ok(Level::Bytes(bytes)), "{text}");
    }
    for mix in ["4KiB 70%, 64KiB 30%", "4KiB,8KiB"] {
        let level = kind.parse(mix).unwrap();
        assert_eq!((level.as_number(), level.to_string().as_str()), (None, mix));
    }
    for wrong in ["", "4", "4KiB 8KiB", "uniform"] {
        assert!(kind.parse(wrong).is_err(), "{wrong}");
    }
}

/// What each kind reads is sent to machines: it can be configured there without the files.
#[test]
fn a_load_is_configured_from_what_was_sent() {
    for (kind, pairs, files) in [
        (
            "http",
            &[("url", "https://a/"), ("ca", "ca"), ("client_certificate", "own"), ("client_key", "key")][..],
            &["ca", "key", "own"][..],
        ),
        ("http", &[("from", "s/shop.toml")], &["${file:s/key}", "s/../body", "s/shop.toml", "s/users.csv"]),
        ("http", &[("from", "s/own.toml")], &["s/own.toml"]),
        ("http", &[("from", "load.ubr"), ("wcat_settings", "settings.ubr")], &["load.ubr", "settings.ubr"]),
        (
            "ldap",
            &[
                ("url", "ldap://a"),
                ("operation", "mixed"),
                ("from", "s/operations.toml"),
                ("data", "users=s/users.csv"),
            ],
            &["${file:s/key}", "s/change.ldif", "s/operations.toml", "s/users.csv"],
        ),
        (
            "ldap_import",
            &[("tool", "ldapadd"), ("url", "ldaps://a"), ("entries", "5"), ("ca", "ca")],
            &["ca"],
        ),
    ] {
        let folder = testkit::Scratch::new();
        std::fs::create_dir(folder.join("s")).unwrap();
        folder.file("s/key", "k\n");
        std::fs::set_permissions(folder.join("s/key"), std::os::unix::fs::PermissionsExt::from_mode(0o600))
            .unwrap();
        folder.file("s/users.csv", "name\nann\n");
        folder.file("s/change.ldif", "dn: cn=a\nchangetype: modify\nreplace: sn\nsn: b\n-\n");
        folder.file(
            "s/operations.toml",
            format!(
                "[[operation]]\noperation = \"bind\"\ndn = \"cn=${{users.name}}\"\ndn_password = \"${{file:key}}\"\n\
                 [[operation]]\noperation = \"modify\"\nldif = \"{}\"\n",
                folder.join("s/change.ldif").display()
            ),
        );
        folder.file(
            "s/shop.toml",
            "base = \"http://a\"\nheader = [\"X: ${file:key}\"]\n[data.users]\nfile = \"users.csv\"\n\
             [[transaction]]\nname = \"t\"\n[[transaction.request]]\nmethod = \"POST\"\nurl = \"/${users.name}\"\nbody_file = \"../body\"\nextract.token = { regex = \"(.*)\" }\n",
        );
        folder.file(
            "load.ubr",
            "scenario { transaction { id = \"t\"; weight = 1; request { url = \"/\"; } } }\n",
        );
        folder.file("settings.ubr", "settings { server = \"a\"; clients = 1; virtualclients = 1; }\n");
        folder.file(
            "s/own.toml",
            "base = \"http://a\"\nheader = [\"Authorization: Bearer hunter2\"]\n[[transaction]]\nname = \"t\"\n\
             [[transaction.request]]\nurl = \"/\"\n",
        );
        for name in ["ca", "own", "key", "body"] {
            folder.file(name, "text");
        }
        let info = KINDS.iter().find(|known| known.info().name == kind).unwrap();
        let at = |path: &str| match path.split_once('=') {
            Some((name, file)) => format!("{name}={}", folder.join(file).display()),
            None => folder.join(path).display().to_string(),
        };
        let is_file = |name: &str| {
            ["ca", "client_certificate", "client_key", "from", "wcat_settings", "data"].contains(&name)
        };
        let owned: Vec<(&str, String)> = pairs
            .iter()
            .map(|(name, text)| (*name, if is_file(name) { at(text) } else { text.to_string() }))
            .collect();
        let given: Vec<(&str, &str)> = owned.iter().map(|(name, text)| (*name, text.as_str())).collect();
        let settings = settings_of(info.info().settings, &given);
        let inputs = Inputs::of_run(Some(&Arc::default()));
        let configured = info.configure_with(&settings, &inputs);
        assert!(configured.is_ok(), "{kind} {pairs:?}: {}", configured.err().unwrap());
        let used = inputs.used();
        let prefix = format!("{}/", folder.path().display());
        let names: Vec<String> = used.iter().map(|input| input.name.replace(&prefix, "")).collect();
        assert_eq!(names, files, "{kind} {pairs:?}");
        for (input, name) in used.iter().zip(&names) {
            let expected = match name.as_str() {
                "s/shop.toml" | "load.ubr" => Some(false),
                name => (name == "s/own.toml" || name.contains("key")).then_some(true),
            };
            assert_eq!(input.is_secret, expected, "{name}");
        }
        let elsewhere = testkit::Scratch::new();
        let sent = used.into_iter().enumerate().map(|(number, input)| {
            let path = elsewhere.file(&number.to_string(), input.content.as_slice());
            (input.name, Arc::new(File::open(path).unwrap()))
        });
        let sent = Inputs::sent(sent.collect());
        drop(folder);
        let configured = info.configure_with(&settings, &sent);
        assert!(configured.is_ok(), "{kind} {pairs:?}: {}", configured.err().unwrap());
        assert!(
            info.configure_with(&settings, &Inputs::sent(Default::default())).is_err(),
            "{kind} {pairs:?}"
        );
    }
}
