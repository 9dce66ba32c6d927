//! What an executable needs from the system that starts it, from its program headers.

/// What the kernel and the dynamic linker read of an executable.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Needs {
    /// It names a dynamic linker.
    pub(super) interpreter: bool,
    /// Libraries that the dynamic linker has to load.
    pub(super) libraries: usize,
    /// It may be loaded anywhere, at a random address.
    pub(super) relocatable: bool,
    /// It has a symbol table.
    pub(super) symbols: bool,
}

const TYPE_DYN: u16 = 3;
const SEGMENT_DYNAMIC: u32 = 2;
const SEGMENT_INTERPRETER: u32 = 3;
const SECTION_SYMBOLS: u32 = 2;
const TAG_NEEDED: u64 = 1;

/// Reads a 64-bit little-endian ELF file.
pub(super) fn read(bytes: &[u8]) -> Result<Needs, String> {
    if bytes.get(..6) != Some(b"\x7fELF\x02\x01") {
        return Err("it is not a 64-bit little-endian ELF file".into());
    }
    let mut needs = Needs { relocatable: u16_at(bytes, 16)? == TYPE_DYN, ..Needs::default() };
    for header in table(u64_at(bytes, 32)?, u16_at(bytes, 54)?, u16_at(bytes, 56)?) {
        match u32_at(bytes, header)? {
            SEGMENT_INTERPRETER => needs.interpreter = true,
            SEGMENT_DYNAMIC => {
                let (begin, length) = (u64_at(bytes, header + 8)?, u64_at(bytes, header + 32)?);
                let entries = (begin..begin.saturating_add(length)).step_by(16);
                for entry in entries {
                    match u64_at(bytes, entry)? {
                        0 => break,
                        TAG_NEEDED => needs.libraries += 1,
                        _ => {}
                    }
                }
            }
            _ => {}
        }
    }
    for header in table(u64_at(bytes, 40)?, u16_at(bytes, 58)?, u16_at(bytes, 60)?) {
        needs.symbols |= u32_at(bytes, header + 4)? == SECTION_SYMBOLS;
    }
    Ok(needs)
}

/// The offsets of the entries of a table.
fn table(begin: u64, entry: u16, count: u16) -> impl Iterator<Item = u64> {
    (0..u64::from(count)).map(move |at| begin.saturating_add(at * u64::from(entry)))
}

fn bytes_at<const N: usize>(bytes: &[u8], at: u64) -> Result<[u8; N], String> {
    let begin = usize::try_from(at).map_err(|error| error.to_string())?;
    let found = bytes.get(begin..).and_then(|rest| rest.first_chunk::<N>());
    found.copied().ok_or_else(|| format!("it ends before offset {at}"))
}

fn u16_at(bytes: &[u8], at: u64) -> Result<u16, String> {
    bytes_at(bytes, at).map(u16::from_le_bytes)
}

fn u32_at(bytes: &[u8], at: u64) -> Result<u32, String> {
    bytes_at(bytes, at).map(u32::from_le_bytes)
}

fn u64_at(bytes: &[u8], at: u64) -> Result<u64, String> {
    bytes_at(bytes, at).map(u64::from_le_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// This test is linked dynamically, except where the whole toolchain is static.
    #[test]
    fn an_executable_that_needs_libraries_is_recognized() {
        let bytes = std::fs::read("/proc/self/exe").unwrap();
        let needs = read(&bytes).unwrap();
        if cfg!(target_env = "gnu") {
            assert!(needs.interpreter && needs.libraries > 0, "{needs:?}");
        }
        assert!(needs.symbols);
        for length in [0, 5, 20, 63, 70] {
            assert!(read(&bytes[..length]).is_err(), "{length}");
        }
    }

    #[test]
    fn the_headers_of_a_static_executable_are_read() {
        let mut bytes = vec![0; 64 + 56 + 32];
        bytes[..6].copy_from_slice(b"\x7fELF\x02\x01");
        bytes[16] = 3;
        // One program header behind the file header, of a dynamic section with one entry and its end.
        (bytes[32], bytes[54], bytes[56]) = (64, 56, 1);
        (bytes[64], bytes[64 + 8], bytes[64 + 32]) = (2, 120, 32);
        bytes[120] = 7;
        let expected = Needs { relocatable: true, ..Needs::default() };
        assert_eq!(read(&bytes), Ok(expected));
        bytes[120] = 1;
        assert_eq!(read(&bytes).map(|needs| needs.libraries), Ok(1));
        bytes.truncate(130);
        assert!(read(&bytes).is_err());
    }
}
