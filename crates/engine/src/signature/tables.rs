//! Partition tables, and where their partitions are.

use std::io;

use super::{Part, Signature, checks, le32, le64, recognized};

/// A partition in words, its start and its bytes.
pub(super) type Partition = (String, u64, u64);

impl Part<'_> {
    /// The partition table, and where its partitions are.
    pub(super) fn partitions(&self) -> io::Result<Option<(Signature, Vec<Partition>)>> {
        for sector in [512, 4096] {
            let header = self.read(sector, 92)?;
            if header.starts_with(b"EFI PART") {
                return Ok(Some((recognized("gpt", "a partition table (GPT)"), self.gpt(&header, sector)?)));
            }
            if let Some(last) = (self.bytes / sector).checked_sub(1)
                && self.read(last * sector, 8)? == b"EFI PART"
            {
                return Ok(Some((
                    recognized("gpt", "a copy of a partition table (GPT) at its end"),
                    Vec::new(),
                )));
            }
        }
        let boot = self.read(0, 512)?;
        if boot.len() < 512 {
            return Ok(None);
        }
        let entries: Vec<&[u8]> = boot[446..510].chunks_exact(16).collect();
        if !boot.ends_with(&[0x55, 0xaa]) || !entries.iter().all(|entry| matches!(entry[0], 0 | 0x80)) {
            let is_atari = checks::is_atari(&boot, self.bytes / 512);
            return Ok(is_atari.then(|| (recognized("atari", "a partition table (Atari)"), Vec::new())));
        }
        let used = entries.iter().enumerate().filter(|(_, entry)| entry[4] != 0 && le32(entry, 12) > 0);
        let parts: Vec<Partition> = used
            .clone()
            .map(|(index, entry)| {
                let (start, sectors) = (u64::from(le32(entry, 8)), u64::from(le32(entry, 12)));
                (format!("partition {}", index + 1), start * 512, sectors * 512)
            })
            .collect();
        let table = match () {
            () if parts.is_empty() => recognized("dos", "an empty partition table (MBR)"),
            // The type of a partition that protects a GPT.
            () if used.clone().all(|(_, entry)| entry[4] == 0xee) => {
                recognized("PMBR", "a protective partition table (MBR) without its GPT")
            }
            () => recognized("dos", "a partition table (MBR)"),
        };
        Ok(Some((table, parts)))
    }

    fn gpt(&self, header: &[u8], sector: u64) -> io::Result<Vec<Partition>> {
        let (first, count, size) = (le64(header, 72), le32(header, 80), le32(header, 84) as usize);
        if !(128..=4096).contains(&size) {
            return Ok(Vec::new());
        }
        let Some(at) = first.checked_mul(sector) else { return Ok(Vec::new()) };
        let table = self.read(at, size * count.min(128) as usize)?;
        let entries = table.chunks_exact(size).enumerate().filter(|(_, entry)| entry[..16] != [0; 16]);
        let part = |(index, entry): (usize, &[u8])| {
            let (first, last) = (le64(entry, 32), le64(entry, 40));
            let units = entry[56..128].chunks_exact(2).map(|unit| u16::from_le_bytes([unit[0], unit[1]]));
            let name: String = char::decode_utf16(units.take_while(|unit| *unit != 0))
                .map(|letter| letter.unwrap_or('?'))
                .filter(|letter| !letter.is_control())
                .collect();
            let number = index + 1;
            let words = if name.is_empty() {
                format!("partition {number}")
            } else {
                format!("partition {number} \"{name}\"")
            };
            let bytes = last.checked_sub(first)?.checked_add(1)?.checked_mul(sector)?;
            Some((words, first.checked_mul(sector)?, bytes))
        };
        Ok(entries.filter_map(part).collect())
    }
}
