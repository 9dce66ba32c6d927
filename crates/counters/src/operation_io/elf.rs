//! The functions of an ELF file: from a name to the offset in the file at which a probe is placed.
//!
//! Only what is needed is read: headers, symbol tables and their strings. Any size that a file states is checked.

use std::fs::File;
use std::os::unix::fs::FileExt;

/// A file, or its bytes in a test.
pub(super) trait Image {
    /// These bytes; none if the file does not have all of them.
    fn bytes(&self, offset: u64, length: usize) -> Option<Vec<u8>>;
}

impl Image for File {
    fn bytes(&self, offset: u64, length: usize) -> Option<Vec<u8>> {
        let mut bytes = vec![0; length];
        self.read_exact_at(&mut bytes, offset).ok()?;
        Some(bytes)
    }
}

impl Image for [u8] {
    fn bytes(&self, offset: u64, length: usize) -> Option<Vec<u8>> {
        let begin = usize::try_from(offset).ok()?;
        Some(self.get(begin..begin.checked_add(length)?)?.to_vec())
    }
}

const HEADER_BYTES: usize = 64;
const PROGRAM_BYTES: usize = 56;
const SECTION_BYTES: usize = 64;
const SYMBOL_BYTES: usize = 24;
/// No program of the field has more; larger numbers are damage.
const PROGRAMS_MAX: usize = 4096;
const SECTIONS_MAX: usize = 65_536;
/// The largest symbol and string table that is read.
const TABLE_BYTES_MAX: u64 = 256 << 20;
/// Symbols are read in pieces of this size.
const PIECE_BYTES: u64 = 256 << 10;

const LOADED_SEGMENT: u32 = 1;
const SYMBOL_TABLE: u32 = 2;
const DYNAMIC_SYMBOLS: u32 = 11;
const FUNCTION: u8 = 2;

fn number<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..)?.first_chunk().copied()
}

fn half(bytes: &[u8], at: usize) -> Option<usize> {
    number(bytes, at).map(|bytes| usize::from(u16::from_le_bytes(bytes)))
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    number(bytes, at).map(u32::from_le_bytes)
}

fn double(bytes: &[u8], at: usize) -> Option<u64> {
    number(bytes, at).map(u64::from_le_bytes)
}

/// A part of the file that is mapped.
struct Segment {
    address: u64,
    offset: u64,
    bytes: u64,
}

/// A section of the file.
struct Section {
    kind: u32,
    offset: u64,
    bytes: u64,
    strings: usize,
}

/// Whether the file is an executable or a library for 64 bits with the low byte first, as on all supported hosts.
pub(super) fn is_elf(image: &(impl Image + ?Sized)) -> bool {
    image.bytes(0, 6).is_some_and(|bytes| bytes == [0x7f, b'E', b'L', b'F', 2, 1])
}

/// The offsets in the file of these functions, each none if the file does not have it.
pub(super) fn function_offsets(image: &(impl Image + ?Sized), names: &[&str]) -> Vec<Option<u64>> {
    let mut found = vec![None; names.len()];
    // What is damaged has no functions, and the caller says that they were not found.
    let _ = find(image, names, &mut found);
    found
}

/// The offset in the file at which a probe of a function is placed; none if the file does not have it.
pub fn probe_offset_of(file: &[u8], function: &str) -> Option<u64> {
    let offset = function_offsets(file, &[function]).into_iter().next()??;
    Some(probe_offset(file, offset))
}

fn find(image: &(impl Image + ?Sized), names: &[&str], found: &mut [Option<u64>]) -> Option<()> {
    if !is_elf(image) {
        return None;
    }
    let header = image.bytes(0, HEADER_BYTES)?;
    let segments = segments(image, &header)?;
    let sections = sections(image, &header)?;
    // The dynamic symbols are what a stripped file keeps.
    for kind in [DYNAMIC_SYMBOLS, SYMBOL_TABLE] {
        for section in sections.iter().filter(|section| section.kind == kind) {
            let Some(strings) = sections.get(section.strings) else { continue };
            let _ = search(image, section, strings, &segments, names, found);
        }
    }
    Some(())
}

fn segments(image: &(impl Image + ?Sized), header: &[u8]) -> Option<Vec<Segment>> {
    let (offset, bytes, count) = (double(header, 32)?, half(header, 54)?, half(header, 56)?);
    if bytes < PROGRAM_BYTES || count > PROGRAMS_MAX {
        return None;
    }
    let table = image.bytes(offset, bytes * count)?;
    let rows = table.chunks_exact(bytes);
    let loaded = rows.filter(|row| word(row, 0) == Some(LOADED_SEGMENT));
    loaded
        .map(|row| {
            Some(Segment { offset: double(row, 8)?, address: double(row, 16)?, bytes: double(row, 32)? })
        })
        .collect()
}

fn sections(image: &(impl Image + ?Sized), header: &[u8]) -> Option<Vec<Section>> {
    let (offset, bytes, count) = (double(header, 40)?, half(header, 58)?, half(header, 60)?);
    if bytes < SECTION_BYTES || count > SECTIONS_MAX {
        return None;
    }
    let table = image.bytes(offset, bytes * count)?;
    table
        .chunks_exact(bytes)
        .map(|row| {
            Some(Section {
                kind: word(row, 4)?,
                offset: double(row, 24)?,
                bytes: double(row, 32)?,
                strings: word(row, 40)? as usize,
            })
        })
        .collect()
}

fn search(
    image: &(impl Image + ?Sized),
    symbols: &Section,
    strings: &Section,
    segments: &[Segment],
    names: &[&str],
    found: &mut [Option<u64>],
) -> Option<()> {
    if symbols.bytes > TABLE_BYTES_MAX || strings.bytes > TABLE_BYTES_MAX {
        return None;
    }
    let strings = image.bytes(strings.offset, strings.bytes as usize)?;
    let mut at = 0;
    while at < symbols.bytes {
        let length = (symbols.bytes - at).min(PIECE_BYTES / SYMBOL_BYTES as u64 * SYMBOL_BYTES as u64);
        let piece = image.bytes(symbols.offset.checked_add(at)?, length as usize)?;
        for symbol in piece.chunks_exact(SYMBOL_BYTES) {
            let is_function = symbol[4] & 0xf == FUNCTION && half(symbol, 6) != Some(0);
            if !is_function {
                continue;
            }
            let name = strings.get(word(symbol, 0)? as usize..).unwrap_or_default();
            let name = name.split(|byte| *byte == 0).next().unwrap_or_default();
            for (wanted, found) in names.iter().zip(found.iter_mut()) {
                if found.is_none() && name == wanted.as_bytes() {
                    *found = file_offset(segments, double(symbol, 8)?);
                }
            }
        }
        at += length;
    }
    Some(())
}

/// Where in the file the code at an address is.
fn file_offset(segments: &[Segment], address: u64) -> Option<u64> {
    let segment = segments.iter().find(|segment| {
        address.checked_sub(segment.address).is_some_and(|distance| distance < segment.bytes)
    })?;
    (address - segment.address).checked_add(segment.offset)
}

/// Bytes of code that are looked at for a cheap place of a probe.
const CODE_BYTES: usize = 32;

/// The offset of the first instruction of a function that the kernel emulates. A probe there costs less than 1 us; at
/// another instruction the kernel executes a copy of it step by step, which costs 10 us. Only instructions are skipped
/// that change no argument and not the stack.
pub(super) fn probe_offset(image: &(impl Image + ?Sized), function: u64) -> u64 {
    let code = image.bytes(function, CODE_BYTES).unwrap_or_default();
    let distance = if cfg!(target_arch = "x86_64") { emulated(&code) } else { 0 };
    function.saturating_add(distance)
}

fn emulated(code: &[u8]) -> u64 {
    let mut at = 0;
    loop {
        at += match code.get(at..).unwrap_or_default() {
            // endbr64
            [0xf3, 0x0f, 0x1e, 0xfa, ..] => 4,
            // mov %rcx,%r10: the fourth argument, before a system call
            [0x49, 0x89, 0xca, ..] => 3,
            // cmpb $0,X(%rip): whether the process has one thread
            [0x80, 0x3d, _, _, _, _, _, ..] => 7,
            // push, conditional jump, nop
            [0x50..=0x57 | 0x70..=0x7f | 0x90, ..] | [0x41, 0x50..=0x57, ..] => return at as u64,
            _ => return 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// A file with one segment (address 0x401000, offset 0x1000) and the functions `first` at 0x401010 and `second` at
    /// 0x401020, and an object `data`.
    fn image() -> Vec<u8> {
        let strings = b"\0first\0second\0data\0";
        let mut file = vec![0; HEADER_BYTES];
        file[..6].copy_from_slice(&[0x7f, b'E', b'L', b'F', 2, 1]);
        let mut put = |at: usize, bytes: &[u8]| file[at..at + bytes.len()].copy_from_slice(bytes);
        let (programs, sections) = (64_u64, 64 + 56_u64);
        let symbols = sections + 3 * 64;
        put(32, &programs.to_le_bytes());
        put(40, &sections.to_le_bytes());
        for (at, value) in [(54, 56_u16), (56, 1), (58, 64), (60, 3)] {
            put(at, &value.to_le_bytes());
        }
        let mut segment = [0; PROGRAM_BYTES];
        segment[0] = 1;
        for (at, value) in [(8, 0x1000_u64), (16, 0x40_1000), (32, 0x100)] {
            segment[at..at + 8].copy_from_slice(&value.to_le_bytes());
        }
        file.extend(segment);
        let section = |kind: u32, offset: u64, bytes: u64, strings: u32| {
            let mut row = [0; SECTION_BYTES];
            row[4..8].copy_from_slice(&kind.to_le_bytes());
            row[24..32].copy_from_slice(&offset.to_le_bytes());
            row[32..40].copy_from_slice(&bytes.to_le_bytes());
            row[40..44].copy_from_slice(&strings.to_le_bytes());
            row
        };
        file.extend(section(0, 0, 0, 0));
        file.extend(section(DYNAMIC_SYMBOLS, symbols, 3 * 24, 2));
        file.extend(section(3, symbols + 3 * 24, strings.len() as u64, 0));
        for (name, info, value) in [(1_u32, 0x12, 0x40_1010_u64), (7, 0x12, 0x40_1020), (14, 0x11, 0x40_1030)]
        {
            let mut row = [0; SYMBOL_BYTES];
            row[..4].copy_from_slice(&name.to_le_bytes());
            row[4] = info;
            row[6] = 1;
            row[8..16].copy_from_slice(&value.to_le_bytes());
            file.extend(row);
        }
        file.extend(strings);
        file
    }

    #[test]
    fn functions_are_found_by_name() {
        let found = function_offsets(&image()[..], &["second", "first", "data", "third"]);
        assert_eq!(found, [Some(0x1020), Some(0x1010), None, None]);
        assert_eq!(
            (probe_offset_of(&image(), "second"), probe_offset_of(&image(), "third")),
            (Some(0x1020), None)
        );
    }

    #[test]
    fn a_probe_is_where_the_kernel_emulates() {
        let cases: [(&[u8], u64); 7] = [
            // The beginnings of do_search of slapd without and with branch protection, and of pwrite and fsync of glibc.
            (&[0x41, 0x57, 0x41, 0x56], 0),
            (&[0xf3, 0x0f, 0x1e, 0xfa, 0x41, 0x57], 4),
            (&[0x49, 0x89, 0xca, 0x80, 0x3d, 1, 2, 3, 4, 0, 0x74, 0x14], 10),
            (&[0x80, 0x3d, 1, 2, 3, 4, 0, 0x49, 0x89, 0xca, 0x74, 0x14], 10),
            // sub $0x18,%rsp: nothing is gained.
            (&[0xf3, 0x0f, 0x1e, 0xfa, 0x48, 0x83, 0xec, 0x18], 0),
            (&[0x80, 0x3d], 0),
            (&[], 0),
        ];
        for (code, offset) in cases {
            assert_eq!(emulated(code), offset, "{code:x?}");
        }
    }

    #[test]
    fn this_program_has_its_functions() {
        let file = File::open("/proc/self/exe").unwrap();
        assert!(is_elf(&file));
        let found = function_offsets(&file, &["main", "no such function"]);
        assert!(found[0].is_some() && found[1].is_none(), "{found:?}");
    }

    #[test]
    fn a_file_cut_anywhere_is_read_without_a_panic() {
        let whole = image();
        for length in 0..whole.len() {
            assert!(function_offsets(&whole[..length], &["second"]).len() == 1, "{length}");
        }
    }

    proptest! {
        #[test]
        fn damage_causes_no_panic(at in 0_usize..400, value: u8, more: Vec<u8>) {
            let mut image = image();
            if let Some(byte) = image.get_mut(at) {
                *byte = value;
            }
            let _ = function_offsets(&image[..], &["first"]);
            let _ = function_offsets(&more[..], &["first"]);
        }
    }
}
