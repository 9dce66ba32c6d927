//! A level: a file system and how it is made, such as `ext4 block_size=1KiB options=noatime`.

use model::quantity;

use super::superblock::{Kind, Superblock};

/// A part of a level after the name of the file system.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Word {
    /// As written.
    text: String,
    value: Value,
}

/// What a word sets.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Value {
    BlockSize(u64),
    ClusterSize(u64),
    Journal(Journal),
    Groups(u64),
    StripeUnit(u64),
    StripeWidth(u64),
    NodeSize(u64),
    Options(Vec<MountOption>),
}

/// What ext4 writes to its journal (ext4(5)).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Journal {
    None,
    Ordered,
    Writeback,
    Data,
}

impl Journal {
    const ALL: [(&'static str, Journal); 4] = [
        ("none", Journal::None),
        ("ordered", Journal::Ordered),
        ("writeback", Journal::Writeback),
        ("data", Journal::Data),
    ];

    /// The value of the mount option `data`.
    const fn option(self) -> Option<&'static str> {
        match self {
            Journal::None => None,
            Journal::Ordered => Some("ordered"),
            Journal::Writeback => Some("writeback"),
            Journal::Data => Some("journal"),
        }
    }
}

/// A mount option.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct MountOption {
    pub(crate) name: String,
    pub(crate) value: Option<String>,
}

/// A level.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Spec {
    pub(crate) kind: Kind,
    words: Vec<Word>,
}

/// The keys of each file system with their values.
fn keys(kind: Kind) -> &'static [(&'static str, &'static str)] {
    match kind {
        Kind::Ext4 => &[
            ("block_size", "1KiB to 64KiB"),
            ("cluster_size", "a power of two above the block size (bigalloc)"),
            ("journal", "none, ordered, writeback or data"),
            ("options", "mount options, separated by commas"),
        ],
        Kind::Xfs => &[
            ("block_size", "512B to 64KiB"),
            ("ag_count", "the number of allocation groups"),
            ("stripe_unit", "bytes on one device, with stripe_width"),
            ("stripe_width", "bytes of a whole stripe, with stripe_unit"),
            ("options", "mount options, separated by commas"),
        ],
        Kind::Btrfs => &[
            ("block_size", "the sector size, 4KiB on most machines"),
            ("node_size", "4KiB to 64KiB"),
            ("options", "mount options, separated by commas"),
        ],
    }
}

/// Mount options that would change what the factor itself decides.
const OWN_OPTIONS: &[&str] =
    &["ro", "rw", "loop", "remount", "bind", "source", "device", "offset", "sizelimit"];

impl Spec {
    /// Reads a level.
    ///
    /// # Errors
    /// What is wrong, and what can be written.
    pub(crate) fn parse(text: &str) -> Result<Spec, String> {
        let mut parts = text.split_ascii_whitespace();
        let name = parts.next().unwrap_or_default();
        let kind = Kind::ALL.into_iter().find(|kind| kind.name() == name).ok_or_else(|| {
            let known = Kind::ALL.map(Kind::name).join(", ");
            format!("`{name}` is not a file system that Plimsoll makes; write one of {known}")
        })?;
        let mut words: Vec<Word> = Vec::new();
        for part in parts {
            let value = value(kind, part)?;
            if words.iter().any(|word| std::mem::discriminant(&word.value) == std::mem::discriminant(&value))
            {
                return Err(format!("`{part}` is the second value of this key in `{text}`"));
            }
            words.push(Word { text: part.into(), value });
        }
        let spec = Spec { kind, words };
        if let (Some(cluster), Some(block)) = (spec.number("cluster_size"), spec.number("block_size"))
            && cluster <= block
        {
            return Err(format!("in `{text}` the cluster size is not above the block size"));
        }
        if spec.number("stripe_unit").is_some() != spec.number("stripe_width").is_some() {
            return Err(format!("`{text}` needs both stripe_unit and stripe_width, or none of them"));
        }
        if let (Some(unit), Some(width)) = (spec.number("stripe_unit"), spec.number("stripe_width"))
            && !width.is_multiple_of(unit)
        {
            return Err(format!("in `{text}` stripe_width is not a multiple of stripe_unit"));
        }
        Ok(spec)
    }

    fn number(&self, key: &str) -> Option<u64> {
        self.words.iter().find_map(|word| match (key, &word.value) {
            ("block_size", Value::BlockSize(number))
            | ("cluster_size", Value::ClusterSize(number))
            | ("stripe_unit", Value::StripeUnit(number))
            | ("stripe_width", Value::StripeWidth(number)) => Some(*number),
            _ => None,
        })
    }

    /// The smallest device for it, in bytes (mkfs.xfs(8), mkfs.btrfs(8)).
    pub(crate) const fn least_bytes(&self) -> u64 {
        match self.kind {
            Kind::Ext4 => 16 << 20,
            Kind::Xfs => 300 << 20,
            Kind::Btrfs => 128 << 20,
        }
    }

    /// The arguments of mkfs that this level adds.
    pub(crate) fn arguments(&self) -> Vec<String> {
        let mut arguments: Vec<String> = Vec::new();
        let mut add = |more: &[&str]| arguments.extend(more.iter().map(ToString::to_string));
        let mut features: Vec<&str> = Vec::new();
        for word in &self.words {
            match (&word.value, self.kind) {
                (Value::BlockSize(bytes), Kind::Ext4) => add(&["-b", &bytes.to_string()]),
                (Value::BlockSize(bytes), Kind::Xfs) => add(&["-b", &format!("size={bytes}")]),
                (Value::BlockSize(bytes), Kind::Btrfs) => add(&["-s", &bytes.to_string()]),
                (Value::ClusterSize(bytes), _) => {
                    features.push("bigalloc");
                    add(&["-C", &bytes.to_string()]);
                }
                (Value::Journal(Journal::None), _) => features.push("^has_journal"),
                (Value::Groups(count), _) => add(&["-d", &format!("agcount={count}")]),
                (Value::StripeUnit(unit), _) => {
                    let width = self.number("stripe_width").unwrap_or(*unit);
                    add(&["-d", &format!("su={unit},sw={}", width / unit)]);
                }
                (Value::NodeSize(bytes), _) => add(&["-n", &bytes.to_string()]),
                (Value::Journal(_) | Value::StripeWidth(_) | Value::Options(_), _) => {}
            }
        }
        if !features.is_empty() {
            add(&["-O", &features.join(",")]);
        }
        arguments
    }

    /// The options to mount it with.
    pub(crate) fn options(&self) -> Vec<MountOption> {
        let mut options = Vec::new();
        for word in &self.words {
            match &word.value {
                Value::Options(given) => options.extend(given.iter().cloned()),
                Value::Journal(journal) => options.extend(
                    journal
                        .option()
                        .map(|mode| MountOption { name: "data".into(), value: Some(mode.into()) }),
                ),
                _ => {}
            }
        }
        options
    }

    /// This level as it is in force: each word as written if it is so, and else with the value that was found. `mode` is the
    /// mount option `data` in force. Mount options are as the kernel accepted them.
    pub(crate) fn in_force(&self, found: &Superblock, mode: Option<&str>) -> String {
        let bytes = |key: &str, found: u64| format!("{key}={}", quantity::bytes(found));
        let mut text = found.kind.name().to_string();
        for word in &self.words {
            let other = match &word.value {
                Value::BlockSize(size) if *size != found.block_size => {
                    Some(bytes("block_size", found.block_size))
                }
                Value::ClusterSize(size) if *size != found.cluster_size => {
                    Some(bytes("cluster_size", found.cluster_size))
                }
                Value::Journal(journal) => {
                    let now = match found.has_journal {
                        false => Journal::None,
                        true => Journal::ALL
                            .into_iter()
                            .map(|(_, journal)| journal)
                            .find(|journal| journal.option().is_some() && journal.option() == mode)
                            // The kernel does not say so: the mount accepted the option.
                            .unwrap_or(*journal),
                    };
                    let name =
                        Journal::ALL.iter().find(|(_, journal)| *journal == now).map(|(name, _)| *name);
                    (now != *journal).then(|| format!("journal={}", name.unwrap_or_default()))
                }
                Value::Groups(count) if *count != found.groups => Some(format!("ag_count={}", found.groups)),
                Value::StripeUnit(unit) if *unit != found.stripe.0 => {
                    Some(bytes("stripe_unit", found.stripe.0))
                }
                Value::StripeWidth(width) if *width != found.stripe.1 => {
                    Some(bytes("stripe_width", found.stripe.1))
                }
                Value::NodeSize(size) if *size != found.node_size => {
                    Some(bytes("node_size", found.node_size))
                }
                _ => None,
            };
            text.push(' ');
            text.push_str(other.as_deref().unwrap_or(&word.text));
        }
        text
    }
}

fn value(kind: Kind, part: &str) -> Result<Value, String> {
    let known = || {
        let keys: Vec<String> = keys(kind).iter().map(|(key, values)| format!("{key}= ({values})")).collect();
        format!("{} has the keys {}", kind.name(), keys.join(", "))
    };
    let (key, text) = part.split_once('=').ok_or_else(|| format!("`{part}` has no value; {}", known()))?;
    if !keys(kind).iter().any(|(name, _)| *name == key) {
        return Err(format!("{} has no `{key}`; {}", kind.name(), known()));
    }
    let size = |least: u64, most: u64| {
        let bytes = quantity::parse_bytes(text).map_err(|error| format!("`{part}`: {}", error.0))?;
        match bytes.is_power_of_two() && (least..=most).contains(&bytes) {
            true => Ok(bytes),
            false => Err(format!(
                "`{part}`: write a power of two from {} to {}",
                quantity::bytes(least),
                quantity::bytes(most)
            )),
        }
    };
    let block = 64 << 10;
    Ok(match (key, kind) {
        ("block_size", Kind::Ext4) => Value::BlockSize(size(1 << 10, block)?),
        ("block_size", Kind::Xfs) => Value::BlockSize(size(512, block)?),
        ("block_size", Kind::Btrfs) => Value::BlockSize(size(4 << 10, block)?),
        ("cluster_size", _) => Value::ClusterSize(size(2 << 10, 256 << 20)?),
        ("node_size", _) => Value::NodeSize(size(4 << 10, block)?),
        ("stripe_unit", _) => Value::StripeUnit(size(4 << 10, 1 << 30)?),
        ("stripe_width", _) => {
            let bytes = quantity::parse_bytes(text).map_err(|error| format!("`{part}`: {}", error.0))?;
            Value::StripeWidth(bytes)
        }
        ("ag_count", _) => match text.parse() {
            Ok(count @ 1..=1_000_000) => Value::Groups(count),
            _ => return Err(format!("`{part}`: write a whole number from 1 to 1000000")),
        },
        ("journal", _) => {
            let found = Journal::ALL.iter().find(|(name, _)| *name == text);
            let (_, journal) = found.ok_or_else(|| format!("`{part}`: {}", known()))?;
            Value::Journal(*journal)
        }
        _ => Value::Options(options(part, text)?),
    })
}

fn options(part: &str, text: &str) -> Result<Vec<MountOption>, String> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "_-.:/+".contains(c);
    text.split(',')
        .map(|option| {
            let (name, value) = match option.split_once('=') {
                Some((name, value)) => (name, Some(value)),
                None => (option, None),
            };
            if name.is_empty() || !name.chars().chain(value.unwrap_or_default().chars()).all(is_plain) {
                return Err(format!("`{part}`: `{option}` is not a mount option"));
            }
            if OWN_OPTIONS.contains(&name) {
                return Err(format!("`{part}`: remove `{option}`, which Plimsoll decides itself"));
            }
            Ok(MountOption { name: name.into(), value: value.map(Into::into) })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_level_becomes_arguments_and_options() {
        for (text, arguments, options) in [
            ("ext4", "", ""),
            (
                "ext4 cluster_size=64KiB  block_size=4096B journal=none options=noatime,commit=30",
                "-C 65536 -b 4096 -O bigalloc,^has_journal",
                "noatime commit=30",
            ),
            ("ext4 journal=data", "", "data=journal"),
            (
                "xfs block_size=1KiB ag_count=8 stripe_unit=64KiB stripe_width=192KiB",
                "-b size=1024 -d agcount=8 -d su=65536,sw=3",
                "",
            ),
            ("btrfs node_size=32KiB options=compress=zstd", "-n 32768", "compress=zstd"),
        ] {
            let spec = Spec::parse(text).unwrap();
            assert_eq!(spec.arguments().join(" "), arguments, "{text}");
            let found: Vec<String> = spec
                .options()
                .iter()
                .map(|MountOption { name, value }| match value {
                    Some(value) => format!("{name}={value}"),
                    None => name.clone(),
                })
                .collect();
            assert_eq!(found.join(" "), options, "{text}");
        }
    }

    #[test]
    fn what_is_wrong_is_named_with_what_can_be_written() {
        for (text, error) in [
            ("", "`` is not a file system that Plimsoll makes; write one of ext4, xfs, btrfs"),
            ("ntfs", "`ntfs` is not a file system"),
            ("xfs journal=none", "xfs has no `journal`; xfs has the keys block_size= (512B to 64KiB)"),
            ("ext4 block_size", "`block_size` has no value"),
            ("ext4 block_size=3KiB", "`block_size=3KiB`: write a power of two from 1KiB to 64KiB"),
            ("ext4 block_size=much", "`block_size=much`: "),
            ("ext4 block_size=4KiB block_size=1KiB", "`block_size=1KiB` is the second value"),
            (
                "ext4 block_size=4KiB cluster_size=4KiB",
                "in `ext4 block_size=4KiB cluster_size=4KiB` the cluster",
            ),
            ("ext4 journal=fast", "`journal=fast`: ext4 has the keys"),
            ("ext4 options=noatime,,x", "`options=noatime,,x`: `` is not a mount option"),
            ("ext4 options=a;b", "`options=a;b`: `a;b` is not a mount option"),
            ("ext4 options=ro", "`options=ro`: remove `ro`"),
            ("xfs ag_count=0", "`ag_count=0`: write a whole number"),
            ("xfs stripe_unit=64KiB", "`xfs stripe_unit=64KiB` needs both"),
            (
                "xfs stripe_unit=64KiB stripe_width=100KiB",
                "in `xfs stripe_unit=64KiB stripe_width=100KiB` stripe_w",
            ),
        ] {
            let found = Spec::parse(text).unwrap_err();
            assert!(found.starts_with(error), "{text}: {found}");
        }
    }

    #[test]
    fn what_is_in_force_is_written_as_requested_or_with_its_value() {
        let found = Superblock {
            kind: Kind::Ext4,
            uuid: String::new(),
            block_size: 4096,
            cluster_size: 16384,
            has_journal: true,
            groups: 0,
            stripe: (0, 0),
            node_size: 0,
        };
        let text = "ext4 block_size=4096B cluster_size=64KiB journal=ordered options=noatime";
        let spec = Spec::parse(text).unwrap();
        let now = |mode: Option<&str>| spec.in_force(&found, mode);
        assert_eq!(
            now(Some("writeback")),
            "ext4 block_size=4096B cluster_size=16KiB journal=writeback options=noatime"
        );
        assert_eq!(now(None), "ext4 block_size=4096B cluster_size=16KiB journal=ordered options=noatime");
    }

    proptest! {
        #[test]
        fn no_text_panics(text in "(ext4|xfs|btrfs)? ?[a-z_]{0,12}=?\\PC{0,20}") {
            let _ = Spec::parse(&text).map(|spec| spec.arguments());
        }
    }
}
