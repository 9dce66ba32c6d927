//! What holds of every setting of every kind.

use std::collections::BTreeSet;

use model::{Level, SettingInfo, SettingKind, quantity};

use crate::KINDS;

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
