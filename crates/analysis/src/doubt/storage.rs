//! A result is called "disk" only if the disk answered. The facts of the workload about its files and the
//! device's own counters decide this.

use model::result::TrialResult;
use model::{Doubt, DoubtKind, Level};

use crate::facts::device::{device_share, moved};
use crate::measured::Measured;
use crate::words;

/// Bytes of the device as a share of the bytes of the load, below which something else answered.
const DEVICE_SHARE: f64 = 0.95;
/// Ratio of the first to the second access of a block above which a cache below the file system is active.
const HIDDEN_CACHE_FACTOR: f64 = 1.5;

/// Adds the reasons why the result may not be the speed of a disk. Those of machines that drive the load name them.
pub(crate) fn doubts(measured: &Measured, result: &TrialResult, found: &mut Vec<Doubt>) {
    let mut on_hosts: Vec<(Doubt, Vec<&str>)> = Vec::new();
    for of_host in measured.of_files() {
        let mut doubts = Vec::new();
        doubts_of_host(&of_host, result, &mut doubts);
        for doubt in doubts {
            match on_hosts.iter_mut().find(|(known, _)| known.text == doubt.text) {
                Some((_, hosts)) => hosts.push(of_host.host()),
                None => on_hosts.push((doubt, vec![of_host.host()])),
            }
        }
    }
    found.extend(on_hosts.into_iter().map(|(doubt, hosts)| match hosts.as_slice() {
        [""] => doubt,
        hosts => Doubt { text: format!("on {}: {}", hosts.join(", "), doubt.text), ..doubt },
    }));
}

fn doubts_of_host(measured: &Measured, result: &TrialResult, found: &mut Vec<Doubt>) {
    found.extend(no_io(measured));
    // Without a preparation, the facts of its files are unknown.
    if !measured.is_storage() || measured.fact("preparation").is_some() {
        return;
    }
    found.extend(in_memory(measured));
    found.extend(zeros(measured, result));
    found.extend(holes(measured));
    found.extend(not_the_device(measured, result));
    found.extend(hidden_cache(measured));
    found.extend(volatile_cache(measured, result));
    found.extend(compressible(measured));
    found.extend(back_end(measured));
}

/// A load whose operations, or those of some of its jobs, are complete without I/O.
fn no_io(measured: &Measured) -> Option<Doubt> {
    let back_ends = measured.fact_text("back_end")?;
    let is_without = |back_end: &str| back_end == "none";
    let what = match back_ends.split(", ").map(is_without).collect::<Vec<_>>().as_slice() {
        [true] => "no I/O was issued: the figures are the cost of the load generator, not of a disk",
        several if several.contains(&true) => {
            "some jobs issued no I/O: their figures are the cost of the load generator, not of a disk"
        }
        _ => return None,
    };
    Some(Doubt::new(
        DoubtKind::NotTheDevice,
        what,
        "remove `back_end` (fio: `ioengine=null`) to measure a disk",
    ))
}

fn holes(measured: &Measured) -> Option<Doubt> {
    let holes = measured.fact_number("extents.hole_bytes").unwrap_or(0.0);
    let unwritten = measured.fact_number("extents.unwritten_bytes").unwrap_or(0.0);
    let empty = holes + unwritten;
    (empty > 0.0).then(|| {
        let of = match measured.fact_number("file.bytes").filter(|bytes| *bytes > 0.0) {
            Some(bytes) => format!(" ({} of the file)", words::percent(empty / bytes)),
            None => String::new(),
        };
        let text = format!(
            "{} were holes and {} never written{of}: the file system answers these reads, not the disk",
            words::bytes(holes),
            words::bytes(unwritten)
        );
        Doubt::new(DoubtKind::Holes, text, "write the file once from end to end before measuring")
    })
}

fn not_the_device(measured: &Measured, result: &TrialResult) -> Option<Doubt> {
    let devices = measured.devices();
    let page_cache = measured.fact_text("cache").is_some_and(|cache| cache.starts_with("page-cache"));
    let cache_help = "use direct I/O, or a file larger than memory";
    let doubt = |text: String, help: &str| Some(Doubt::new(DoubtKind::NotTheDevice, text, help));
    if let Some(share) = share(measured) {
        return doubt(
            share,
            "measure on the host that keeps the files, too: its device counters show what limits",
        );
    }
    if devices.is_empty() {
        // Then it is known what answers instead.
        if measured.fact("devices.memory").is_some() {
            return None;
        }
        let what = match page_cache {
            true => "this run measured the page cache and memory, as in tmpfs",
            false => {
                "the device of the files is not known, so this run may have measured memory, as in tmpfs"
            }
        };
        return doubt(format!("no block device was found: {what}"), "choose a file on a disk");
    }
    let did_anything = ["read", "write"].iter().any(|d| moved(measured, result, d).is_some());
    let Some((direction, share)) = device_share(measured, result) else {
        return match did_anything {
            true => doubt(
                format!(
                    "the counters of {} were not recorded: it is not proved that the device served the load",
                    devices.join(", ")
                ),
                "",
            ),
            false => None,
        };
    };
    if share >= DEVICE_SHARE {
        return None;
    }
    let verb = if direction == "read" { "read" } else { "written" };
    let amount = format!("{} transferred {} of the bytes {verb}", devices.join(", "), words::percent(share));
    let empty = measured.fact_number("extents.hole_bytes").unwrap_or(0.0)
        + measured.fact_number("extents.unwritten_bytes").unwrap_or(0.0);
    if page_cache {
        let resident = measured
            .fact_share("resident_share.before")
            .map(|share| format!(" ({} of the file was in the page cache before)", words::percent(share)));
        let unsupported = match measured.fact("direct.supported") {
            Some(Level::Flag(false)) => "; this file system does not support direct I/O",
            _ => "",
        };
        let text = format!(
            "{amount}: this is the speed of the page cache{}{unsupported}",
            resident.unwrap_or_default()
        );
        doubt(text, cache_help)
    } else if empty > 0.0 && direction == "read" {
        doubt(format!("{amount}: the rest were holes in the file"), "write the file first")
    } else {
        doubt(format!("{amount}: a cache above it served the rest"), cache_help)
    }
}

/// A source or destination whose device is on another host, or that is a program: no counter here shows it.
fn share(measured: &Measured) -> Option<String> {
    let outside = |side: &str| {
        let medium = measured.fact_text(&format!("{side}.medium"))?;
        ["network", "program"].contains(&medium).then(|| measured.fact_text(&format!("{side}.mount")))?
    };
    let on = match (outside("source"), outside("destination")) {
        (Some(from), Some(to)) => format!("source is on {from}, the destination on {to}"),
        (Some(from), None) => format!("source is on {from}"),
        (None, Some(to)) => format!("destination is on {to}"),
        (None, None) => return None,
    };
    let drain = match outside("destination") {
        Some(_) => ", and the drain of the destination was not watched",
        None => "",
    };
    Some(format!("the {on}: this host has no device counters of it{drain}"))
}

fn hidden_cache(measured: &Measured) -> Option<Doubt> {
    let first = measured.fact_number("first_touch.mean_ms")?;
    let second = measured.fact_number("second_touch.mean_ms").filter(|second| *second > 0.0)?;
    (first / second > HIDDEN_CACHE_FACTOR).then(|| {
        let text = format!(
            "a cache below the file system serves reads: blocks took {} the first time and {} the second time, x{:.1}",
            words::ms(first),
            words::ms(second),
            first / second
        );
        let help =
            "the results apply to cached blocks; use a larger file to measure the disk";
        Doubt::new(DoubtKind::HiddenCache, text, help)
    })
}

fn volatile_cache(measured: &Measured, result: &TrialResult) -> Option<Doubt> {
    let asked = &measured.record.run.asked;
    let writes = result.operations.iter().any(|o| o.name.is("write") && o.completed > 0);
    let write_back = measured.fact_text("write_cache").is_some_and(|cache| cache.contains("write back"));
    let through = ["workload.write_through", "workload.write_through_metadata"]
        .iter()
        .any(|setting| asked.get(*setting) == Some(&Level::Flag(true)));
    let flushed = asked.get("workload.fsync_every").and_then(Level::as_number).is_some_and(|n| n > 0.0);
    (writes && write_back && !through && !flushed).then(|| {
        let text = "the device has a write-back cache, but the load flushed nothing: a power failure can lose written data";
        Doubt::new(DoubtKind::VolatileCache, text, "add `--write-through` or `--fsync-every` to measure durable writes")
    })
}

fn compressible(measured: &Measured) -> Option<Doubt> {
    let share = measured.fact_share("compressible").filter(|share| *share > 0.0)?;
    let text = format!(
        "{} of the data is compressible: a compressing device is faster with it",
        words::percent(share)
    );
    Some(Doubt::new(DoubtKind::Compressible, text, "use random data to measure the worst case"))
}

/// Memory that looks like a disk: a file on tmpfs, a loop device over one, a RAM disk.
fn in_memory(measured: &Measured) -> Option<Doubt> {
    let what = measured.fact("devices.memory")?.to_string();
    let text = format!("{what}: this run measured memory, not a disk");
    Some(Doubt::new(DoubtKind::NotTheDevice, text, "choose a file on a disk"))
}

/// Limits of the share of zero blocks and of repeating contents. Thin volumes, compressing file systems and
/// controllers may answer such reads without reading.
const ZERO_SHARE: f64 = 0.1;
const REPEATED_SHARE: f64 = 0.2;

fn zeros(measured: &Measured, result: &TrialResult) -> Option<Doubt> {
    moved(measured, result, "read")?;
    let zero = measured.fact_share("content.zero_share").filter(|share| *share >= ZERO_SHARE);
    let repeated = measured.fact_share("content.repeated_share").filter(|share| *share >= REPEATED_SHARE);
    let what = match (zero, repeated) {
        (Some(share), _) => format!("{} of the data read is zeros", words::percent(share)),
        (None, Some(share)) => format!("{} of the data read repeats or compresses", words::percent(share)),
        (None, None) => return None,
    };
    let text = format!("{what}: a compressing device or file system serves it without reading the disk");
    Some(Doubt::new(
        DoubtKind::Compressible,
        text,
        "read a file of random data, such as one that Plimsoll created",
    ))
}

fn back_end(measured: &Measured) -> Option<Doubt> {
    let back_end = measured.fact_text("back_end")?;
    // If system calls were chosen because they are faster, they are no reason for a doubt.
    let is_chosen = measured.fact_text("back_end.basis").is_some_and(|basis| basis != "refused");
    if matches!(back_end, "io_uring" | "none") || is_chosen {
        return None;
    }
    let reason = measured.fact_text("back_end.reason").filter(|reason| !reason.is_empty());
    let why = reason.map(|reason| format!(" ({reason})")).unwrap_or_default();
    let text = format!("the load used system calls, not io_uring{why}: one operation in flight per thread");
    Some(Doubt::new(DoubtKind::BackEnd, text, ""))
}
