use super::*;

/// A packet as a test reads it.
type Read = (Option<u64>, u32, usize, Vec<u8>);

/// All packets, and the error at the end.
fn packets(bytes: &[u8]) -> (Vec<Read>, Option<CaptureError>) {
    let mut capture = match Capture::open(bytes) {
        Ok(capture) => capture,
        Err(error) => return (Vec::new(), Some(error)),
    };
    let mut all = Vec::new();
    loop {
        match capture.packet() {
            Ok(Some(packet)) => all.push((packet.time_ns, packet.link, packet.length, packet.bytes.to_vec())),
            Ok(None) => return (all, None),
            Err(error) => return (all, Some(error)),
        }
    }
}

fn order(is_big: bool) -> impl Fn(u32) -> Vec<u8> {
    move |value| if is_big { value.to_be_bytes().to_vec() } else { value.to_le_bytes().to_vec() }
}

fn pcap(magic: u32, is_big: bool, records: &[(u32, u32, u32, &[u8])]) -> Vec<u8> {
    let n = order(is_big);
    let mut bytes: Vec<u8> = [magic, 0x0004_0002, 0, 0, 96, 1].into_iter().flat_map(&n).collect();
    for (seconds, fraction, length, data) in records {
        bytes.extend([*seconds, *fraction, data.len() as u32, *length].into_iter().flat_map(&n));
        bytes.extend_from_slice(data);
    }
    bytes
}

/// A block of pcapng.
fn block(is_big: bool, kind: u32, body: &[u8]) -> Vec<u8> {
    let n = order(is_big);
    let padded = body.len().next_multiple_of(4);
    let total = padded as u32 + 12;
    let mut bytes = [n(kind), n(total), body.to_vec()].concat();
    bytes.resize(8 + padded, 0);
    bytes.extend(n(total));
    bytes
}

fn short(is_big: bool, value: u16) -> Vec<u8> {
    if is_big { value.to_be_bytes().to_vec() } else { value.to_le_bytes().to_vec() }
}

fn section(is_big: bool) -> Vec<u8> {
    let n = order(is_big);
    let body = [n(0x1a2b_3c4d), short(is_big, 1), short(is_big, 0), vec![0xff; 8]].concat();
    // Its type is the same in both byte orders.
    block(is_big, 0x0a0d_0d0a, &body)
}

fn interface(is_big: bool, link: u16, snap_length: u32, options: &[(u16, &[u8])]) -> Vec<u8> {
    let mut body = [short(is_big, link), short(is_big, 0), order(is_big)(snap_length)].concat();
    for (code, value) in options {
        body.extend([short(is_big, *code), short(is_big, value.len() as u16), value.to_vec()].concat());
        body.resize(body.len().next_multiple_of(4), 0);
    }
    block(is_big, 1, &body)
}

fn enhanced(is_big: bool, interface: u32, time: u64, length: u32, data: &[u8]) -> Vec<u8> {
    let n = order(is_big);
    let fields = [interface, (time >> 32) as u32, time as u32, data.len() as u32, length];
    let body = [fields.into_iter().flat_map(n).collect::<Vec<u8>>(), data.to_vec()].concat();
    block(is_big, 6, &body)
}

#[test]
fn pcap_is_read_in_both_byte_orders_and_resolutions() {
    for is_big in [false, true] {
        for (magic, fraction_ns) in [(0xa1b2_c3d4, 1000), (0xa1b2_3c4d, 1)] {
            let bytes = pcap(magic, is_big, &[(3, 7, 5, b"abc"), (4, 8, 2, b"de")]);
            let first = (Some(3_000_000_000 + 7 * fraction_ns), 1, 5, b"abc".to_vec());
            let second = (Some(4_000_000_000 + 8 * fraction_ns), 1, 2, b"de".to_vec());
            assert_eq!(packets(&bytes), (vec![first, second], None));
        }
    }
}

#[test]
fn pcapng_is_read_with_its_interfaces_and_unknown_blocks() {
    for is_big in [false, true] {
        let n = order(is_big);
        let offset = if is_big { 5_i64.to_be_bytes() } else { 5_i64.to_le_bytes() };
        let old = [
            [short(is_big, 1), short(is_big, 3)].concat(),
            [0, 9, 2, 2].into_iter().flat_map(&n).collect(),
            b"gh".to_vec(),
        ]
        .concat();
        let drops: Vec<u8> = if is_big { 17_u64.to_be_bytes().into() } else { 17_u64.to_le_bytes().into() };
        let statistics = [
            [0, 0, 0].into_iter().flat_map(&n).collect(),
            [short(is_big, 5), short(is_big, 8), drops].concat(),
        ]
        .concat();
        let bytes = [
            section(is_big),
            interface(is_big, 1, 3, &[]),
            // Nanoseconds, and five seconds to add.
            interface(is_big, 113, 0, &[(9, &[9]), (14, &offset)]),
            // 2^-4 seconds.
            interface(is_big, 101, 0, &[(9, &[0x84])]),
            block(is_big, 0x0bad, b"what nobody knows"),
            enhanced(is_big, 0, 2_000_001, 9, b"abc"),
            enhanced(is_big, 1, 3, 2, b"de"),
            enhanced(is_big, 2, 24, 1, b"f"),
            block(is_big, 2, &old),
            block(is_big, 3, &[n(7), b"ijk".to_vec()].concat()),
            block(is_big, 5, &statistics),
            // Another section, in the other byte order.
            section(!is_big),
            interface(!is_big, 228, 0, &[]),
            enhanced(!is_big, 0, 1, 1, b"l"),
        ]
        .concat();
        let expected = vec![
            (Some(2_000_001_000), 1, 9, b"abc".to_vec()),
            (Some(5_000_000_003), 113, 2, b"de".to_vec()),
            (Some(1_500_000_000), 101, 1, b"f".to_vec()),
            (Some(5_000_000_009), 113, 2, b"gh".to_vec()),
            (None, 1, 7, b"ijk".to_vec()),
            (Some(1000), 228, 1, b"l".to_vec()),
        ];
        assert_eq!(packets(&bytes), (expected, None));
        let mut capture = Capture::open(&bytes[..]).unwrap();
        while capture.packet().unwrap().is_some() {}
        assert_eq!(
            (capture.dropped(), capture.format(), capture.bytes()),
            (17, Format::Pcapng, bytes.len() as u64)
        );
    }
}

#[test]
fn snoop_is_read() {
    let n = order(true);
    let mut bytes = [b"snoop\0\0\0".to_vec(), n(2), n(4)].concat();
    for (drops, data) in [(0, &b"abc"[..]), (4, b"defgh")] {
        let record = (24 + data.len()).next_multiple_of(4) as u32;
        bytes.extend([9, data.len() as u32, record, drops, 3, 7].into_iter().flat_map(&n));
        bytes.extend_from_slice(data);
        bytes.resize(bytes.len().next_multiple_of(4), 0);
    }
    let expected =
        [b"abc".to_vec(), b"defgh".to_vec()].map(|data| (Some(3_000_007_000), 1, 9, data)).to_vec();
    assert_eq!(packets(&bytes), (expected, None));
    let mut capture = Capture::open(&bytes[..]).unwrap();
    while capture.packet().unwrap().is_some() {}
    assert_eq!(capture.dropped(), 4);
}

#[test]
fn a_damaged_file_is_an_error_at_its_offset() {
    let whole = pcap(0xa1b2_c3d4, false, &[(3, 7, 3, b"abc")]);
    let large = pcap(0xa1b2_c3d4, false, &[(3, 7, 3, b"abc")]);
    let large = [&large[..32], &u32::MAX.to_le_bytes(), &large[36..]].concat();
    let pcapng = [section(false), interface(false, 1, 0, &[])].concat();
    let with = |block: Vec<u8>| [pcapng.clone(), block].concat();
    let cases: Vec<(Vec<u8>, u64, &str)> = vec![
        (Vec::new(), 0, "the capture is empty"),
        (b"GET / HTTP/1.1".to_vec(), 0, "begins with 47 45 54 20, which is not pcap, pcapng or snoop"),
        (vec![0x1f, 0x8b, 8, 0, 0, 0, 0, 0], 0, "compressed with gzip"),
        (vec![0x28, 0xb5, 0x2f, 0xfd, 0, 0, 0, 0], 0, "compressed with zstd"),
        (whole[..20].to_vec(), 0, "the file header of the pcap file is truncated"),
        (whole[..30].to_vec(), 24, "within the header of a packet, after 6 of 16 bytes"),
        (whole[..42].to_vec(), 24, "within a packet, after 2 of 3 bytes"),
        (large, 24, "a packet of 4294967295 bytes is announced"),
        (section(false)[..15].to_vec(), 0, "the header of a section is truncated"),
        (with(block(false, 6, &[0; 8])), 48, "a packet of 0 bytes is announced in a block of 20 bytes"),
        (with(enhanced(false, 4, 0, 1, b"a")), 48, "a packet is of interface 4"),
        (with(vec![6, 0, 0, 0, 9, 0, 0, 0, 0, 0, 0, 0]), 48, "a block has a length of 9 bytes"),
        (
            with(vec![6, 0, 0, 0, 252, 255, 255, 255, 0, 0, 0, 0]),
            48,
            "a block of 4294967292 bytes is announced",
        ),
        (with(vec![9, 0, 0, 0, 64, 0, 0, 0, 0, 0, 0, 0]), 60, "the file ends within a block of 64 bytes"),
        (with(interface(false, 1, 0, &[(9, &[99])])), 48, "the time resolution 10^-99 s"),
        (b"snoop\0\0\0\0\0\0\x03\0\0\0\x04".to_vec(), 0, "version 3 of the snoop format"),
        (b"snoop\0\0\0\0\0\0\x02\0\0\0\x06".to_vec(), 0, "data link type 6"),
        (
            [&b"snoop\0\0\0\0\0\0\x02\0\0\0\x04"[..], &[0; 24]].concat(),
            16,
            "a packet of 0 bytes in a record of 0 bytes",
        ),
    ];
    for (bytes, offset, what) in cases {
        let (_, error) = packets(&bytes);
        let error = error.unwrap_or_else(|| panic!("no error: {what}"));
        assert!(error.what.contains(what), "{} instead of {what}", error.what);
        assert_eq!(error.offset, offset, "{what}");
    }
    // What was read before stays.
    assert_eq!(packets(&[whole.clone(), vec![1, 2, 3]].concat()).0.len(), 1);
}

/// A stream that gives one byte at a time.
struct Slow<'a>(&'a [u8]);

impl std::io::Read for Slow<'_> {
    fn read(&mut self, into: &mut [u8]) -> std::io::Result<usize> {
        let count = self.0.len().min(into.len()).min(1);
        into[..count].copy_from_slice(&self.0[..count]);
        self.0 = &self.0[count..];
        Ok(count)
    }
}

#[test]
fn the_size_of_the_pieces_does_not_matter() {
    let data = [7_u8; 300];
    let bytes = pcap(0xa1b2_c3d4, false, &[(3, 7, 300, &data), (4, 8, 300, &data)]);
    let mut capture = Capture::open(Slow(&bytes)).unwrap();
    let mut count = 0;
    while let Some(packet) = capture.packet().unwrap() {
        assert_eq!(packet.bytes, data);
        count += 1;
    }
    assert_eq!(count, 2);
}
