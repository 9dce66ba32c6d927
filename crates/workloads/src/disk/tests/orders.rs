//! The order of blocks, compared with what fio 3.33 does for the job file beside it. Its offsets, in KiB, are from `strace`.

use super::super::pattern::{Pattern, Place};
use super::super::settings::{DiskPlan, tests::settings};
use super::super::zones::{ZoneUse, Zones};

fn plan(pairs: &[(&str, &str)]) -> DiskPlan {
    DiskPlan::read(&settings(&[&[("files", "f"), ("cache", "page-cache")][..], pairs].concat())).unwrap()
}

/// `r0` reads at 0, `w4` writes at 4 KiB, `T8` discards there; a size other than 4 KiB stands behind it.
fn shown(place: Place) -> String {
    let letter = if place.trim {
        "T"
    } else if place.write {
        "w"
    } else {
        "r"
    };
    let bytes = if place.bytes == 4096 { String::new() } else { format!("/{}", place.bytes) };
    format!("{letter}{}{bytes}", place.offset / 1024)
}

#[test]
fn sequential_orders_are_those_of_fio() {
    let write = ("read_percent", "0%");
    for (fio, pairs, expected) in [
        (
            "rw=read:-8k size=64k loops=2",
            &[("reverse", "true"), ("passes", "same")][..],
            "r0 r56 r52 r48 r44 r40 r36 r32 r28 r24 r20 r16 r12 r8 r4 r0 r56 r52 r48 r44 r40 r36 r32 r28 r24 r20 r16 r12 r8 r4 r0 r56",
        ),
        (
            "rw=write:-16k size=64k",
            &[write, ("reverse", "true"), ("passes", "same"), ("stride", "12KiB")],
            "w0 w48 w36 w24 w12 w0 w48 w36 w24 w12 w0 w48 w36 w24 w12 w0",
        ),
        (
            "rw=read:-20k size=64k",
            &[("reverse", "true"), ("passes", "same"), ("stride", "16KiB")],
            "r0 r44 r28 r12 r44 r28 r12 r44 r28 r12 r44 r28 r12 r44 r28 r12",
        ),
        (
            "rw=read:12k size=64k",
            &[("passes", "same"), ("stride", "16KiB")],
            "r0 r16 r32 r48 r0 r16 r32 r48 r0 r16 r32 r48 r0 r16 r32 r48",
        ),
        (
            "rw=read zonemode=strided zonesize=8k zoneskip=8k size=64k",
            &[("zone_size", "8KiB"), ("zone_skip", "8KiB")],
            "r0 r4 r16 r20 r32 r36 r48 r52 r0 r4 r16 r20 r32 r36 r48 r52",
        ),
        (
            "rw=read zonemode=strided zonesize=8k zoneskip=12k size=64k time_based",
            &[("zone_size", "8KiB"), ("zone_skip", "12KiB")],
            "r0 r4 r20 r24 r40 r44 r60 r60 r0 r4 r20 r24 r40 r44 r60 r60",
        ),
        (
            "rw=trimwrite size=64k loops=2",
            &[write, ("trim_before", "4KiB")],
            "T0 w0 T4 w4 T8 w8 T12 w12 T16 w16 T20 w20 T24 w24 T28 w28 T32 w32 T36 w36 T40 w40 T44 w44 T48 w48 T52 w52 T56 w56 T60 w60 T0 w0 T4",
        ),
        (
            "rw=trimwrite bs=4k,4k,16k size=64k loops=2",
            &[write, ("trim_before", "16KiB")],
            "T0/16384 w0 T16/16384 w4 w8 w12 w16 T32/16384 w20 w24 w28 w32 T48/16384 w36 w40 w44 w48 T0/16384 w0 T16/16384 w4",
        ),
    ] {
        let plan = plan(&[&[("access", "sequential")][..], pairs].concat());
        let pattern = Pattern::new(&plan, &[64 << 10], 42);
        let count = expected.split(' ').count() as u64;
        let places: Vec<String> = (0..count).map(|number| shown(pattern.place(number, 0))).collect();
        assert_eq!(places.join(" "), expected, "{fio}");
    }
}

#[test]
fn a_random_block_is_discarded_and_then_written() {
    let pairs = [("read_percent", "0%"), ("trim_before", "4KiB"), ("distribution", "shuffle")];
    let pattern = Pattern::new(&plan(&pairs), &[64 << 10], 42);
    let mut written = Vec::new();
    for pair in 0..16 {
        let (trim, write) = (pattern.place(2 * pair, 0), pattern.place(2 * pair + 1, 0));
        assert!(trim.trim && !write.trim && write.write && trim.offset == write.offset, "{pair}");
        written.push(write.offset / 4096);
    }
    written.sort_unstable();
    assert_eq!(written, (0..16).collect::<Vec<u64>>(), "each block once");
}

#[test]
fn sequences_are_those_of_fio() {
    for (distribution, expected) in
        [("sequence 2,0,1", [2, 0, 1, 2, 0, 1]), ("sequence 2,0,1 moving", [2, 0, 1, 5, 3, 4])]
    {
        let pattern = Pattern::new(&plan(&[("distribution", distribution)]), &[48 << 10], 42);
        let places: Vec<u64> = (0..6).map(|number| pattern.place(number, 0).offset / 4096).collect();
        assert_eq!(places, expected, "{distribution}");
    }
}

/// Offsets of the first writes to 128 KiB in zones of 16 KiB, each drawn once in random order.
fn zoned(pairs: &[(&str, &str)], count: u64) -> Vec<u64> {
    let fixed = [("read_percent", "0%"), ("zone_size", "16KiB"), ("write_pointers", "true")];
    let plan = plan(&[&fixed[..], pairs].concat());
    let size = 128 << 10;
    let (pattern, zones) = (Pattern::new(&plan, &[size], 42), Zones::new(16 << 10));
    let of = ZoneUse::new(&plan, size);
    (0..count)
        .map(|number| zones.place(pattern.place(number, 0), &of, |_| true).unwrap().offset >> 10)
        .collect()
}

#[test]
fn writes_go_to_the_write_pointers_of_zones() {
    // rw=write zonemode=zbd: every block in order, twice.
    let sequential = zoned(&[("access", "sequential")], 64);
    assert_eq!(sequential, (0..64).map(|number| number % 32 * 4).collect::<Vec<u64>>());
    for (pairs, open_max) in [(&[][..], 8), (&[("open_zones", "2")], 2)] {
        let shuffled = [&[("distribution", "shuffle")][..], pairs].concat();
        let offsets = zoned(&shuffled, 96);
        let mut pointers = [0; 8];
        let mut drawn = [0; 8];
        for offset in offsets {
            let zone = (offset / 16) as usize;
            assert_eq!(offset % 16, pointers[zone], "{pairs:?}: {offset}");
            pointers[zone] = (pointers[zone] + 4) % 16;
            drawn[zone] += 1;
            let open = pointers.iter().filter(|pointer| **pointer > 0).count();
            assert!(open <= open_max, "{pairs:?}: {open} are open");
        }
        // Without a limit each zone is drawn as often as it has blocks, as in fio.
        assert!(open_max == 2 || drawn.iter().all(|count| *count == 12), "{drawn:?}");
    }
}

#[test]
fn zones_are_emptied_early_and_by_discards() {
    // zone_reset_threshold=0.7 zone_reset_frequency=0.125: from 90 KiB of 128 on, every eighth write begins its zone anew.
    let early = [("distribution", "shuffle"), ("empty_zones_above", "70%"), ("empty_zone_every", "8")];
    let offsets = zoned(&early, 31);
    let plain = zoned(&early[..1], 31);
    assert_eq!(offsets[..30], plain[..30], "the 23rd write reaches 92 KiB, the 8th after it resets its zone");
    assert!(offsets[30].is_multiple_of(16) && !plain[30].is_multiple_of(16), "{offsets:?} {plain:?}");
    let zones = Zones::new(16 << 10);
    let plan = plan(&[("read_percent", "0%"), ("zone_size", "16KiB"), ("write_pointers", "true")]);
    let of = ZoneUse::new(&plan, 128 << 10);
    let at = |offset: u64, bytes: u32, trim: bool| {
        let place = Place { offset, bytes, trim, write: true, ..Place::default() };
        zones.place(place, &of, |_| true).map(|place| place.offset >> 10)
    };
    assert_eq!(at(40 << 10, 16384, true), None, "all zones are empty");
    assert_eq!(at(70 << 10, 4096, false), Some(64));
    assert_eq!(at(40 << 10, 16384, true), Some(64), "the next zone that holds something");
    assert_eq!(at(70 << 10, 4096, false), Some(64), "from its start again");
}

/// Shares of the operations on the 1, 10, 102 and 307 most frequent of 1,024 blocks, beside those of fio 3.33 in 20,000 reads:
/// `rw=randread norandommap size=4m io_size=80000k`.
#[test]
fn skewed_distributions_have_the_shares_of_fio() {
    const COUNT: u64 = 20_000;
    for (fio, distribution, expected) in [
        ("zipf:0.5", "zipf 0.5", [0.0154, 0.0832, 0.3098, 0.5564]),
        ("zipf:1.2", "zipf 1.2", [0.2290, 0.5914, 0.8409, 0.9323]),
        ("pareto:0.2", "pareto 0.2", [0.3860, 0.5284, 0.7261, 0.8537]),
        ("pareto:0.4", "pareto 0.4", [0.0207, 0.0760, 0.2838, 0.5289]),
        ("normal:0", "normal 0%", [0.0055, 0.0528, 0.4490, 0.9315]),
        ("normal:20", "normal 20%", [0.0045, 0.0432, 0.3755, 0.8623]),
    ] {
        let pattern = Pattern::new(&plan(&[("distribution", distribution)]), &[4 << 20], 42);
        let mut counts = vec![0_u64; 1024];
        for number in 0..COUNT {
            counts[(pattern.place(number, 0).offset / 4096) as usize] += 1;
        }
        counts.sort_unstable_by(|a, b| b.cmp(a));
        for (blocks, share) in [1, 10, 102, 307].into_iter().zip(expected) {
            let own = counts[..blocks].iter().sum::<u64>() as f64 / COUNT as f64;
            // The deviation of a share is below 0.0036. fio's zipf approximates the law, which is exact here.
            let tolerance = if fio == "zipf:1.2" { 0.025 } else { 0.015 };
            assert!((own - share).abs() < tolerance, "{fio}: {own} of {blocks} blocks, not {share}");
        }
    }
}
