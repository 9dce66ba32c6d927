//! A result says "disk" only when the disk answered. What the workload found out about its files and what the device's
//! own counters moved decide that.

use model::result::TrialResult;
use model::{Doubt, DoubtKind, Level};

use crate::facts::device::{device_share, moved};
use crate::measured::Measured;
use crate::words;

/// Bytes the device moved as a share of the bytes the load moved, below which something else answered.
const DEVICE_SHARE: f64 = 0.95;
/// First touch of a block against its second, above which a cache below the file system is at work.
const HIDDEN_CACHE_FACTOR: f64 = 1.5;

/// Adds what speaks against calling the result the speed of a disk.
pub(crate) fn doubts(measured: &Measured, result: &TrialResult, found: &mut Vec<Doubt>) {
    // What was not prepared has shown nothing of its files yet.
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
            "{} were holes and {} never written{of}: reading them asks the file system, not the disk",
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
    if devices.is_empty() {
        let what = match page_cache {
            true => "the page cache was measured, and memory behind it, as in tmpfs",
            false => {
                "which device is behind the files is not known: memory may have been measured, as in tmpfs"
            }
        };
        return doubt(format!("no block device was found: {what}"), "choose a file on a disk");
    }
    let did_anything = ["read", "write"].iter().any(|d| moved(measured, result, d).is_some());
    let Some((direction, share)) = device_share(measured, result) else {
        return match did_anything {
            true => doubt(
                format!(
                    "the counters of {} were not recorded: that the device answered is not shown",
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
    let amount = format!("{} moved {} of the bytes {verb}", devices.join(", "), words::percent(share));
    let empty = measured.fact_number("extents.hole_bytes").unwrap_or(0.0)
        + measured.fact_number("extents.unwritten_bytes").unwrap_or(0.0);
    if page_cache {
        let resident = measured
            .fact_share("resident_share.before")
            .map(|share| format!(" ({} of the file was in memory before)", words::percent(share)));
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
        doubt(format!("{amount}: the rest were holes, answered by the file system"), "write the file first")
    } else {
        doubt(format!("{amount}: something above it answered the rest"), cache_help)
    }
}

fn hidden_cache(measured: &Measured) -> Option<Doubt> {
    let first = measured.fact_number("first_touch.mean_ms")?;
    let second = measured.fact_number("second_touch.mean_ms").filter(|second| *second > 0.0)?;
    (first / second > HIDDEN_CACHE_FACTOR).then(|| {
        let text = format!(
            "a cache below the file system answers: blocks took {} the first time and {} the second, x{:.1}",
            words::ms(first),
            words::ms(second),
            first / second
        );
        let help =
            "results hold for blocks read before; use a larger file to measure the disk behind the cache";
        Doubt::new(DoubtKind::HiddenCache, text, help)
    })
}

fn volatile_cache(measured: &Measured, result: &TrialResult) -> Option<Doubt> {
    let asked = &measured.record.run.asked;
    let writes = result.operations.iter().any(|o| o.name.is("write") && o.completed > 0);
    let write_back = measured.fact_text("write_cache").is_some_and(|cache| cache.contains("write back"));
    let through = asked.get("workload.write_through") == Some(&Level::Flag(true));
    let flushed = asked.get("workload.fsync_every").and_then(Level::as_number).is_some_and(|n| n > 0.0);
    (writes && write_back && !through && !flushed).then(|| {
        let text = "the device has a write-back cache and nothing was flushed: written data may be lost with the power";
        Doubt::new(DoubtKind::VolatileCache, text, "add `--write-through` or `--fsync-every` to measure what is kept")
    })
}

fn compressible(measured: &Measured) -> Option<Doubt> {
    let share = measured.fact_share("compressible").filter(|share| *share > 0.0)?;
    let text = format!(
        "{} of the data compresses: a device that compresses is faster with it",
        words::percent(share)
    );
    Some(Doubt::new(DoubtKind::Compressible, text, "use random data to measure the worst case"))
}

/// Memory behind what looks like a disk: a file on tmpfs, a loop device over one, a RAM disk.
fn in_memory(measured: &Measured) -> Option<Doubt> {
    let what = measured.fact("devices.memory")?.to_string();
    let text = format!("{what}: memory was measured, not a disk");
    Some(Doubt::new(DoubtKind::NotTheDevice, text, "choose a file on a disk"))
}

/// Share of the blocks that are all zeros, and of what is in a block that repeats, from which reads may be answered without
/// reading: thin volumes, compressing file systems and controllers do so.
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
    let text = format!("{what}: a device or file system that compresses answers it without reading the disk");
    Some(Doubt::new(DoubtKind::Compressible, text, "read a file of random data, such as Plimsoll makes"))
}

fn back_end(measured: &Measured) -> Option<Doubt> {
    measured.fact_text("back_end").filter(|back_end| *back_end != "io_uring")?;
    // Where system calls were chosen because they are faster, they are no reason to doubt.
    if measured.fact_text("back_end.basis").is_some_and(|basis| basis != "refused") {
        return None;
    }
    let why = measured.fact_text("back_end.reason").filter(|why| !why.is_empty());
    let text = format!(
        "plain system calls were used, not io_uring{}: one operation in flight per thread",
        why.map(|why| format!(" ({why})")).unwrap_or_default()
    );
    Some(Doubt::new(DoubtKind::BackEnd, text, ""))
}
