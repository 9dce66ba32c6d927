//! Whole loads in a few words, as CrystalDiskMark writes them, and the lists of them that stand for a use of a disk.

use model::quantity;

use super::settings::Access;

/// A load in short: `SEQ1M Q8T1 read`, `RND8K Q32T1 67% read`, `SEQ64K Q1T1 write-through`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Pattern {
    pub(super) access: Access,
    pub(super) block_bytes: u64,
    /// Operations in flight of each thread.
    pub(super) outstanding: u32,
    pub(super) threads: u32,
    /// 0 to 1.
    pub(super) read_share: f64,
    /// Writes are done when they are on stable storage.
    pub(super) write_through: bool,
}

/// How a pattern is written, for messages.
pub(super) const HELP: &str =
    "such as \"SEQ1M Q8T1 read\", \"RND4K Q32T1 write\" or \"RND8K Q16T1 70% read\"";

impl Pattern {
    /// Reads the words of a pattern.
    pub(super) fn parse(text: &str) -> Result<Pattern, String> {
        let wrong = |what: String| Err(format!("`{text}` is not a pattern: {what}"));
        let mut words = text.split_whitespace();
        let first = words.next().unwrap_or_default();
        let (access, size) = match first.split_at_checked(3) {
            Some((word, size)) if word.eq_ignore_ascii_case("SEQ") => (Access::Sequential, size),
            Some((word, size)) if word.eq_ignore_ascii_case("RND") => (Access::Random, size),
            _ => return wrong("it begins with SEQ or RND and a block size".into()),
        };
        let block_bytes = match quantity::parse_bytes(size) {
            Ok(bytes) if (512..=64 << 20).contains(&bytes) && bytes.is_multiple_of(512) => bytes,
            _ => return wrong(format!("`{size}` is not a block size from 512B to 64MiB")),
        };
        let second = words.next().unwrap_or_default();
        let counts = second.strip_prefix(['Q', 'q']).and_then(|rest| rest.split_once(['T', 't']));
        let counts = counts.and_then(|(depth, threads)| Some((depth.parse().ok()?, threads.parse().ok()?)));
        let Some((outstanding @ 1..=1024, threads @ 1..=256)) = counts else {
            return wrong(format!("`{second}` is not a queue depth and a number of threads, such as Q32T1"));
        };
        let rest: Vec<&str> = words.collect();
        let (read_share, write_through) = match rest.as_slice() {
            ["read"] => (1.0, false),
            ["write"] => (0.0, false),
            ["write-through"] => (0.0, true),
            [share, "read"] => match quantity::parse_percent(share) {
                Ok(percent) if (0.0..=100.0).contains(&percent) => (percent / 100.0, false),
                _ => return wrong(format!("`{share}` is not a share of reads")),
            },
            _ => return wrong("it ends with read, write, write-through, or a share such as 70% read".into()),
        };
        Ok(Pattern { access, block_bytes, outstanding, threads, read_share, write_through })
    }
}

/// Patterns that together stand for a use of a disk.
#[derive(Clone, Copy, Debug)]
pub struct Profile {
    /// As on the command line.
    pub name: &'static str,
    /// What it stands for, and where its patterns come from.
    pub about: &'static str,
    /// In the order they are measured.
    pub patterns: &'static [&'static str],
}

/// Every profile.
pub static PROFILES: &[Profile] = &[
    Profile {
        name: "desktop",
        about: "the eight tests that CrystalDiskMark 8 runs by default",
        patterns: &[
            "SEQ1M Q8T1 read",
            "SEQ1M Q8T1 write",
            "SEQ1M Q1T1 read",
            "SEQ1M Q1T1 write",
            "RND4K Q32T1 read",
            "RND4K Q32T1 write",
            "RND4K Q1T1 read",
            "RND4K Q1T1 write",
        ],
    },
    Profile {
        name: "database",
        about: "random pages of 8 KiB, 67 % reads: the \"database\" access specification that comes with Iometer's test files",
        patterns: &[
            "RND8K Q1T1 67% read",
            "RND8K Q8T1 67% read",
            "RND8K Q32T1 67% read",
            "RND8K Q128T1 67% read",
        ],
    },
    Profile {
        name: "mail",
        about: "random pages of 32 KiB, 60 % reads: the page size and mix of Exchange Server 2010 and later",
        patterns: &["RND32K Q1T1 60% read", "RND32K Q8T1 60% read", "RND32K Q32T1 60% read"],
    },
    Profile {
        name: "vdi",
        about: "random blocks of 4 KiB, 20 % reads: virtual desktops at work, as sizing guides of VMware Horizon state them",
        patterns: &["RND4K Q1T1 20% read", "RND4K Q8T1 20% read", "RND4K Q32T1 20% read"],
    },
    Profile {
        name: "log",
        about: "one write-through write after another, 4 KiB to 64 KiB: a transaction log, which SQL Server writes in up to 60 KiB",
        patterns: &["SEQ4K Q1T1 write-through", "SEQ16K Q1T1 write-through", "SEQ64K Q1T1 write-through"],
    },
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_are_read_as_they_are_written() {
        let parse = |text: &str| {
            let of = Pattern::parse(text)?;
            let random = of.access == Access::Random;
            Ok::<_, String>((
                random,
                of.block_bytes,
                of.outstanding,
                of.threads,
                of.read_share,
                of.write_through,
            ))
        };
        for (text, expected) in [
            ("SEQ1M Q8T1 read", (false, 1 << 20, 8, 1, 1.0, false)),
            ("RND4K Q32T16 write", (true, 4096, 32, 16, 0.0, false)),
            ("rnd8KiB q1t2 67% read", (true, 8192, 1, 2, 0.67, false)),
            ("SEQ64K Q1T1 write-through", (false, 65536, 1, 1, 0.0, true)),
        ] {
            assert_eq!(parse(text), Ok(expected), "{text}");
        }
        for wrong in [
            "",
            "SEQ",
            "SEQ1M",
            "4K Q1T1 read",
            "RND4K Q1 read",
            "RND4K Q0T1 read",
            "RND4K Q1T1",
            "RND100B Q1T1 read",
            "RND1G Q1T1 read",
            "RND4K Q1T1 170% read",
            "RND4K Q1T1 read write",
            "é4K Q1T1 read",
        ] {
            let said = parse(wrong).unwrap_err();
            assert!(said.starts_with(&format!("`{wrong}` is not a pattern: ")), "{said}");
        }
    }

    #[test]
    fn every_profile_is_made_of_patterns() {
        for profile in PROFILES {
            assert!(profile.patterns.len() > 1, "{}", profile.name);
            for pattern in profile.patterns {
                Pattern::parse(pattern).unwrap();
            }
        }
    }

    proptest::proptest! {
        #[test]
        fn no_text_panics(text in ".{0,40}") {
            let _ = Pattern::parse(&text);
        }
    }
}
