//! What a job writes, and how what it reads is checked.

use model::Level;

use super::super::grammar::read_hex;
use super::super::settings;
use super::engines::Engine;
use super::options::VERIFY_METHODS;
use super::sections::{Options, Reader};
use super::translate::{Draft, Order};
use super::value;

impl Reader<'_> {
    pub(super) fn content(&mut self, options: &Options, order: Order, draft: &mut Draft) {
        let percent =
            |text: &str| text.trim_end_matches('%').parse().ok().filter(|p| (0.0..=100.0).contains(p));
        if let Some(share) = self.value(options, "buffer_compress_percentage", percent, "write a percentage")
        {
            draft.set(settings::COMPRESSIBLE.name, Level::Percent(share));
        }
        if self.flag(options, "zero_buffers") {
            draft.set(settings::COMPRESSIBLE.name, Level::Percent(100.0));
        }
        if let Some(bytes) = self.pattern(options) {
            draft.set(settings::CONTENT.name, Level::Text(bytes));
        }
        self.commands(options, draft);
        let Some(written) = options.get("verify") else { return };
        let at = written.at;
        let method = written.value.split_once(':').map_or(written.value.as_str(), |(method, _)| method);
        match method {
            "0" => {}
            "null" => self.problem(at, "verify=null is not supported", "write verify=crc32c, or remove it"),
            method if !VERIFY_METHODS.contains(&method) => self.problem(
                at,
                format!("fio has no verify={method}"),
                model::problem::did_you_mean(method, VERIFY_METHODS),
            ),
            _ if order.trims => self.note("verify: has no effect where blocks are discarded"),
            method => {
                if method != "crc32c" && method != "crc32c-intel" {
                    self.note(format!("verify: crc32c is used in place of {method}"));
                }
                if order.writes_only() {
                    self.note("verify: blocks are checked when they are read; run the same file with rw=read afterwards");
                }
                draft.set(settings::VERIFY.name, Level::Flag(true));
            }
        }
    }

    /// `buffer_pattern`, hexadecimal or a text in quotes, as hexadecimal.
    fn pattern(&mut self, options: &Options) -> Option<String> {
        let read = |text: &str| {
            let bytes = match text.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')) {
                Some(text) => text.as_bytes().to_vec(),
                None => read_hex(text)?,
            };
            let digits: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
            (!bytes.is_empty()).then(|| format!("0x{digits}"))
        };
        self.value(options, "buffer_pattern", read, "write bytes in hexadecimal, 0x01, or a text in quotes")
    }

    /// Commands of SCSI other than a write, as reads and writes of the same blocks.
    fn commands(&mut self, options: &Options, draft: &mut Draft) {
        let Some(written) = options.get("sg_write_mode") else { return };
        let content = draft.level(settings::CONTENT.name).cloned();
        let reads = |draft: &mut Draft| {
            draft.set(settings::READ_PERCENT.name, Level::Percent(100.0));
            draft.settings.retain(|(name, _)| name != settings::CONTENT.name);
        };
        match written.value.as_str() {
            "write" => {}
            "write_and_verify" | "verify" => {
                self.note("sg_write_mode: blocks are written, and not verified by the device");
            }
            "write_same" | "same" => self.note("sg_write_mode: whole blocks are sent, where WRITE SAME sends one sector"),
            "write_same_ndob" => {
                draft.set(settings::CONTENT.name, Level::Text("0x00".into()));
                self.note("sg_write_mode: blocks of zeros are sent, where WRITE SAME without data sends none");
            }
            "verify_bytchk_00" => {
                reads(draft);
                self.note("sg_write_mode: blocks are read, where VERIFY lets the device read them");
            }
            "verify_bytchk_01" | "verify_bytchk_11" => match content {
                Some(content) => {
                    reads(draft);
                    draft.set(settings::EXPECT.name, content);
                    self.note("sg_write_mode: blocks are read and compared here, where VERIFY lets the device compare them");
                }
                None => self.problem(written.at, "blocks are compared with data that is not known", "write buffer_pattern"),
            },
            mode => self.problem(
                written.at,
                format!("sg_write_mode={mode} is not supported"),
                "one of write, write_same, write_same_ndob, verify_bytchk_00, verify_bytchk_01, verify_bytchk_11",
            ),
        }
    }

    /// Written blocks that repeat others; `bytes` is what a copy of the job uses, in blocks of `block`.
    pub(super) fn duplicates(
        &mut self,
        options: &Options,
        (bytes, block): (Option<u64>, u64),
        draft: &mut Draft,
    ) {
        let percent = |text: &str| text.parse::<u64>().ok().filter(|percent| *percent <= 100);
        let share = self.value(options, "dedupe_percentage", percent, "write a percentage").unwrap_or(0);
        let of_set = self.value(options, "dedupe_working_set_percentage", percent, "write a percentage");
        let mode = |text: &str| ["repeat", "working_set"].into_iter().find(|mode| *mode == text);
        let mode = self.value(options, "dedupe_mode", mode, "write repeat or working_set");
        let is_shared = self.flag(options, "dedupe_global");
        if share == 0 {
            for name in ["dedupe_mode", "dedupe_global", "dedupe_working_set_percentage"] {
                self.has_no_effect(options, name, "without dedupe_percentage");
            }
            return;
        }
        let text = match (mode, bytes) {
            (Some("working_set"), Some(bytes)) => {
                // fio's own default is 5 %.
                let blocks = bytes / 100 * of_set.unwrap_or(5) / block.max(1);
                let shared = if is_shared { "shared " } else { "" };
                format!("{share}% of {} {shared}blocks", blocks.max(1))
            }
            (Some("working_set"), None) => {
                let at = options.get("dedupe_mode").map(|written| written.at).unwrap_or_default();
                self.problem(at, "the working set is a share of a size that is not known", "write size");
                return;
            }
            _ => format!("{share}%"),
        };
        draft.set(settings::DUPLICATES.name, Level::Text(text));
    }

    /// What flags of NVMe commands become.
    pub(super) fn flags_of_commands(&mut self, options: &Options, engine: Engine, draft: &mut Draft) {
        const PLACEMENT: &str =
            "fdp: has no effect: ordinary writes say nothing about their placement, which the device chooses";
        const PROTECTION: &str = "pi_act: has no effect: on a device with protection information the kernel's block layer adds and checks it";
        let is_block_device = engine.is_past_page_cache() || !self.surroundings.targets.is_empty();
        for (name, note) in [
            ("fdp", PLACEMENT),
            ("pi_act", PROTECTION),
            ("pi_chk", PROTECTION),
            ("md_per_io_size", PROTECTION),
        ] {
            match options.get(name) {
                Some(_) if is_block_device => self.note(note),
                Some(written) => self.problem(
                    written.at,
                    format!("`{name}` belongs to an engine for NVMe devices"),
                    "name the block device: `plimsoll disk --fio JOBS /dev/nvme0n1`",
                ),
                None => {}
            }
        }
        match options.get("write_mode") {
            Some(written) if written.value == "zone_append" => {
                self.note("write_mode: blocks are written at the write pointers, where the device would choose the place");
            }
            Some(written) if written.value != "write" => self.problem(
                written.at,
                format!("write_mode={} is not supported", written.value),
                "remove it: Plimsoll issues plain writes, no other NVMe commands",
            ),
            _ => {}
        }
        if self.flag(options, "atomic") {
            draft.set(settings::ATOMIC.name, Level::Flag(true));
        }
        if self.flag(options, "writefua") {
            draft.set(settings::WRITE_THROUGH.name, Level::Flag(true));
        }
        if self.flag(options, "readfua") {
            self.note("readfua: has no effect: a read of a block device has no such flag, and a cache in the device may answer it");
        }
        if let Some(ranges) = self.value(options, "num_range", value::number, "write a number of ranges")
            && ranges > 1
        {
            self.note(format!(
                "num_range: each of {ranges} ranges is a discard of its own, and is counted as one"
            ));
        }
    }
}
