//! Settings of the disk workload that contradict each other.

use model::{Choice, Problem, Problems, SettingInfo, quantity};

use super::grammar::Distribution;
use super::settings::*;

impl DiskPlan {
    /// Every contradiction.
    pub(super) fn find_contradictions(&self, problems: &mut Problems) {
        let size = |bytes: u64| quantity::bytes(bytes);
        match self.access {
            Access::Random if self.stride.is_some() => {
                problems.push(
                    Problem::new("`stride` has no meaning for random access", "remove it")
                        .about(&[&STRIDE])
                        .or_set(&ACCESS, Access::Sequential.level()),
                );
            }
            Access::Sequential if self.align.is_some() => {
                problems.add(
                    &[&ALIGN, &STRIDE],
                    "`align` has no meaning for sequential access",
                    "use `stride`",
                );
            }
            Access::Sequential if self.distribution != Distribution::Uniform => {
                problems.push(
                    Problem::new("`distribution` has no meaning for sequential access", "remove it")
                        .about(&[&DISTRIBUTION])
                        .or_set(&ACCESS, Access::Random.level()),
                );
            }
            _ => {}
        }
        if self.reverse && self.access == Access::Random {
            problems.push(
                Problem::new("`reverse` has no meaning for random access", "remove it")
                    .about(&[&REVERSE])
                    .or_set(&ACCESS, Access::Sequential.level()),
            );
        }
        if self.reverse && self.is_mix() {
            problems.add(
                &[&REVERSE],
                "`reverse` and a mix of block sizes contradict each other",
                "use one block size",
            );
        }
        if !self.write_blocks.is_empty() && self.access == Access::Sequential {
            problems.add(
                &[&WRITE_BLOCK_SIZE, &ACCESS],
                "`write_block_size` has no meaning for sequential access, which is one stream of reads and writes",
                "remove it, or give reads and writes a job each (`jobs`)",
            );
        }
        if self.distribution == Distribution::Shuffle && self.is_mix() {
            problems.add(
                &[&DISTRIBUTION],
                "`distribution` of \"shuffle\" and a mix of block sizes contradict each other",
                "use one block size, or \"uniform\"",
            );
        }
        if self.direct && self.cached_pages == CachedPages::Read {
            problems.push(
                Problem::new(
                    "direct I/O does not use pages that were read into the page cache",
                    "remove `cached_pages`",
                )
                .about(&[&CACHED_PAGES, &CACHE])
                .or_set(&CACHE, Cache::PageCache.level()),
            );
        }
        if self.back_end == BackEndChoice::Nothing && self.verify {
            problems.push(
                Problem::new(
                    "nothing is read without I/O, and so nothing can be verified",
                    "remove `verify`",
                )
                .about(&[&VERIFY, &BACK_END])
                .or_set(&BACK_END, BackEndChoice::Auto.level()),
            );
        }
        let own_content: [(&SettingInfo, bool); 3] = [
            (&CONTENT, !self.content.is_empty()),
            (&EXPECT, !self.expect.is_empty()),
            (&DUPLICATES, self.duplicates.is_some()),
        ];
        for (setting, _) in own_content.iter().filter(|(_, is_given)| *is_given && self.verify) {
            problems.add(
                &[setting, &VERIFY],
                format!(
                    "`verify` and `{}` contradict each other: verified blocks have headers of their own",
                    setting.name
                ),
                "keep one of them",
            );
        }
        if self.duplicates.is_some() && !self.content.is_empty() {
            problems.add(
                &[&DUPLICATES, &CONTENT],
                "`duplicates` and `content` contradict each other: all blocks are the same",
                "keep one of them",
            );
        }
        if self.discards() && self.verify {
            let trims = if self.trim_share > 0.0 { &TRIM_PERCENT.info } else { &TRIM_BEFORE.info };
            problems.add(
                &[trims, &VERIFY],
                format!(
                    "`verify` and `{}` contradict each other: what was discarded has no header",
                    trims.name
                ),
                "remove one of them",
            );
        }
        if self.stride.is_some() && self.is_mix() {
            problems.add(
                &[&STRIDE],
                "`stride` and a mix of block sizes contradict each other",
                "use one block size",
            );
        }
        if let Some(stride) = self.stride
            && stride < self.smallest_block()
        {
            problems.add(
                &[&STRIDE],
                format!("a stride of {} is shorter than the block", size(stride)),
                "the distance from block start to block start is at least the block size",
            );
        }
        self.find_contradictions_of_zones(problems);
        if let (Distribution::Sequence { places, .. }, Some(size)) = (&self.distribution, self.size) {
            let step = self.align.unwrap_or(self.largest_block()).max(1);
            let blocks = size.saturating_sub(self.largest_block()) / step + 1;
            if let Some(place) = places.iter().find(|place| **place >= blocks) {
                problems.add(
                    &[&DISTRIBUTION, &SIZE],
                    format!("block {place} of the sequence is behind the last of {blocks}, counted from 0"),
                    "name blocks within `size`",
                );
            }
        }
        if self.align == Some(0) {
            problems.add(&[&ALIGN], "blocks cannot be aligned to 0 bytes", "such as \"4KiB\"");
        }
        if self.fsync_every > 0 && !self.writes() {
            problems.add(
                &[&FSYNC_EVERY, &READ_PERCENT],
                "`fsync_every` without writes",
                "remove it, or lower `read_percent`",
            );
        }
        if let Some(bytes) = self.size
            && bytes < self.largest_block()
        {
            problems.add(
                &[&SIZE],
                format!("a size of {} is smaller than one block", size(bytes)),
                "make it many times the block size",
            );
        }
        if self.direct {
            let steps: [(&SettingInfo, Option<u64>); 3] =
                [(&STRIDE, self.stride), (&ALIGN, self.align), (&OFFSET, Some(self.offset))];
            let blocks = self.blocks.iter().map(|block| (&BLOCK_SIZE.info, Some(block.bytes)));
            let writes = self.write_blocks.iter().map(|block| (&WRITE_BLOCK_SIZE.info, Some(block.bytes)));
            for (setting, value) in steps.into_iter().chain(blocks).chain(writes) {
                if let Some(value) = value.filter(|value| !value.is_multiple_of(SECTOR)) {
                    problems.push(
                        Problem::new(
                            format!(
                                "direct I/O works in multiples of 512 bytes, and `{}` of {} is none",
                                setting.name,
                                size(value)
                            ),
                            "round it",
                        )
                        .about(&[setting])
                        .or_set(&CACHE, Cache::PageCache.level()),
                    );
                }
            }
        }
        if self.verify && !self.blocks.is_empty() && !self.unit().is_multiple_of(SECTOR) {
            problems.add(
                &[&VERIFY],
                format!(
                    "`verify` works on whole 512-byte sectors; these sizes share only {}",
                    size(self.unit())
                ),
                "make block sizes, offset, stride and align multiples of 512 bytes",
            );
        }
    }

    /// Contradictions of zones, and of discards before writes.
    fn find_contradictions_of_zones(&self, problems: &mut Problems) {
        let block = self.largest_block();
        let is_mix = self.is_mix();
        if self.zone_skip > 0 && (self.zone_size.is_none() || self.write_pointers) {
            problems.add(
                &[&ZONE_SKIP],
                "`zone_skip` is left out behind zones, which `zone_size` states, and not with `write_pointers`",
                "set `zone_size`, or remove it",
            );
        }
        if let Some(zone) = self.zone_size {
            if zone < block || !zone.is_multiple_of(block.max(1)) {
                problems.add(
                    &[&ZONE_SIZE, &BLOCK_SIZE],
                    format!("a zone of {} is no whole number of blocks", quantity::bytes(zone)),
                    "make it a multiple of the block size",
                );
            }
            if !self.write_pointers
                && (self.access == Access::Random || is_mix || self.stride.is_some() || self.reverse)
            {
                problems.add(
                    &[&ZONE_SIZE],
                    "`zone_size` without `write_pointers` is for sequential access with one block size, without `stride` and `reverse`",
                    "remove it",
                );
            }
        }
        if self.write_pointers
            && (self.zone_size.is_none() || self.files.len() > 1 || is_mix || self.stride.is_some())
        {
            problems.add(
                &[&WRITE_POINTERS],
                "`write_pointers` is for one file and one block size, without `stride`, and `zone_size` states the zones",
                "set `zone_size`, such as 256MiB",
            );
        }
        let of_pointers: [&SettingInfo; 3] = [&OPEN_ZONES, &EMPTY_ZONES_ABOVE, &EMPTY_ZONE_EVERY];
        let is_used = [self.open_zones.is_some(), self.empty_zones_above < 1.0, self.empty_zone_every > 0];
        for (setting, is_used) in of_pointers.into_iter().zip(is_used) {
            if is_used && !self.write_pointers {
                let what = format!("`{}` has no meaning without `write_pointers`", setting.name);
                problems.add(&[setting], what, "set `write_pointers`, or remove it");
            }
        }
        if self.sprandom.is_some()
            && (self.access == Access::Sequential
                || self.read_share > 0.0
                || self.discards()
                || self.write_pointers
                || is_mix
                || self.files.len() > 1
                || self.lanes > 1)
        {
            problems.add(
                &[&SPRANDOM],
                "`sprandom` is for random writes alone, of one block size to one file, in one stream",
                "set `read_percent` to 0%",
            );
        }
        if self.writes != Writes::Data && self.verify {
            problems.add(
                &[&WRITES, &VERIFY],
                "`verify` and `writes` contradict each other: nothing is written",
                "keep one of them",
            );
        }
        if let Some(bytes) = self.trim_before {
            let fits = match self.access {
                Access::Random => bytes == block,
                Access::Sequential => bytes > 0 && bytes.is_multiple_of(block.max(1)),
            };
            let is_plain = self.zone_size.is_none() && self.stride.is_none() && !self.reverse;
            if !fits
                || !is_plain
                || is_mix
                || self.read_share > 0.0
                || self.trim_share > 0.0
                || self.files.len() > 1
            {
                problems.add(
                    &[&TRIM_BEFORE],
                    "`trim_before` is for writes alone, of one block size to one file, and the block size or sequentially a multiple of it",
                    "set `read_percent` to 0%, and `trim_before` to the block size",
                );
            }
        }
    }
}
