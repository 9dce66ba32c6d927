//! Whether the load can be driven: inspects every target and reports all problems at once. Changes nothing.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::sync::Arc;

use model::{Choice, Level, Problem, Problems, SettingInfo, Settings, quantity};
use rustix::fs::{Access as AccessMode, OFlags, access, fstatvfs};

use super::backing;
use super::ring;
use super::sample;
use super::settings::{
    ALIGN, ATOMIC, BACK_END, BLOCK_SIZE, BackEndChoice, CACHE, COMPRESSIBLE_LIKE, Cache, DiskPlan, FILES,
    OFFSET, OUTSTANDING, OVERWRITE, OVERWRITE_SIGNATURE, SIZE, SIZE_DEFAULT, STRIDE, THREADS,
    VERIFIED_BLOCKS_MAX, VERIFY, WRITES, Writes,
};
use super::target::{self, DirectAlignment, Kind, Other, Place, Refusal, Target};

/// What has to be written of a target before the clock starts, and what of it is then used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Region {
    /// Bytes used, from the plan's `offset`.
    pub(super) bytes: u64,
    /// First byte to be written in advance.
    pub(super) write_from: u64,
    /// End of what is written in advance; `write_from` when there is nothing to write.
    pub(super) write_to: u64,
}

/// Files are made this much at least, and in multiples of it.
const FILE_STEP: u64 = 4096;

/// The part of a target that is used. Fails with what is wrong and what to do.
pub(super) fn region(plan: &DiskPlan, target: &Target) -> Result<Region, Box<Problem>> {
    let name = target.path.display();
    // Asked only where it matters, as the content must be read for it.
    let permitted = || plan.overwrite.contains(&target.path) || target.is_own();
    let present = target.size.saturating_sub(plan.offset);
    let whole = |bytes: u64| Region { bytes, write_from: plan.offset, write_to: plan.offset + bytes };
    if matches!(target.kind, Kind::Missing | Kind::File)
        && let Some(why) = backing::made_up(target.place.directory.path())
    {
        let what = match target.kind {
            Kind::Missing => "does not exist, and a file there would be on no disk",
            _ => "is no file on a disk and no block device",
        };
        return Err(Box::new(
            Problem::new(
                format!("`{name}` {what}: {why}"),
                "name a block device that exists (`lsblk` lists them), or a file on a disk",
            )
            .about(&[&super::settings::FILES]),
        ));
    }
    match target.kind {
        Kind::Other(other) => {
            let mut problem = other.problem(&name.to_string()).about(&[&FILES]);
            if other == Other::CharacterDevice {
                problem = problem.or_set(&BACK_END, BackEndChoice::Nothing.level());
            }
            Err(Box::new(problem))
        }
        Kind::Missing => {
            let bytes = plan.size.unwrap_or(SIZE_DEFAULT).max(plan.largest_block());
            let end = (plan.offset + bytes).next_multiple_of(FILE_STEP);
            Ok(Region { bytes, write_from: 0, write_to: end })
        }
        Kind::File | Kind::BlockDevice => {
            let headed = target.mark.is_some_and(|mark| mark.unit == plan.unit());
            let kept = target.mark.map_or(0, |mark| mark.unit);
            if plan.verify && !headed && kept > 0 && !plan.writes() {
                return Err(Box::new(Problem::new(
                    format!(
                        "`{name}` holds blocks of {} to be verified; with blocks of {} it would be written again, not verified",
                        quantity::bytes(kept),
                        quantity::bytes(plan.unit())
                    ),
                    "remove the file",
                )
                .about(&[&BLOCK_SIZE])
                .or_set(&BLOCK_SIZE, Level::Bytes(kept))));
            }
            // A damaged file is no more as it was left, and reading it finds the damage.
            let is_read_only = headed && !plan.writes() && plan.size.is_none_or(|bytes| bytes <= present);
            if plan.verify && !is_read_only && !permitted() {
                return Err(Box::new(Problem::new(
                    format!(
                        "`verify` reads only blocks that Plimsoll wrote, and `{name}` was not created by it"
                    ),
                    "name a file that does not exist",
                )
                .about(&[&VERIFY])
                .or_set(&OVERWRITE, Level::Text(name.to_string()))));
            }
            let bytes = plan.size.unwrap_or(present);
            if bytes > present {
                if target.kind == Kind::BlockDevice || !permitted() {
                    return Err(Box::new(
                        Problem::new(
                            format!(
                                "`{name}` has {} from offset {} on, less than the size of {}",
                                quantity::bytes(present),
                                quantity::bytes(plan.offset),
                                quantity::bytes(bytes)
                            ),
                            "make `size` smaller, or leave it out to take all of it",
                        )
                        .about(&[&SIZE]),
                    ));
                }
                if plan.verify {
                    return Ok(whole(bytes));
                }
                let end = (plan.offset + bytes).next_multiple_of(FILE_STEP);
                return Ok(Region { bytes, write_from: target.size, write_to: end });
            }
            if bytes < plan.largest_block() {
                return Err(Box::new(
                    Problem::new(
                        format!("`{name}` has {}: not one block", quantity::bytes(bytes)),
                        "name a larger file, or one that does not exist: Plimsoll creates it",
                    )
                    .about(&[&FILES]),
                ));
            }
            if plan.precondition || (plan.verify && !headed) {
                return Ok(whole(bytes));
            }
            Ok(Region { bytes, write_from: plan.offset, write_to: plan.offset })
        }
    }
}

/// Bytes by which a file will grow, its device and its place.
type Growth<'a> = BTreeMap<&'a Path, (u64, u64, Arc<Place>)>;

/// All problems of these jobs.
pub(super) fn check(jobs: &[(&str, &DiskPlan)]) -> Problems {
    let mut problems = Problems::new();
    let mut growth = Growth::new();
    for (name, plan) in jobs {
        for mut found in check_job(plan, &mut growth).0 {
            if !name.is_empty() {
                found.what = format!("job [{name}]: {}", found.what);
            }
            // Jobs with the same name are copies of one.
            if !problems.0.contains(&found) {
                problems.push(found);
            }
        }
    }
    let mut space_needed: BTreeMap<u64, (u64, &Path, Arc<Place>)> = BTreeMap::new();
    for (path, (grows, device, place)) in growth {
        space_needed.entry(device).or_insert((0, path, place)).0 += grows;
    }
    for (needed, path, place) in space_needed.into_values() {
        check_space(path, &place, needed, &mut problems);
    }
    let needed: u64 = jobs.iter().map(|(_, plan)| plan.in_flight() * plan.buffer_bytes()).sum();
    check_memory(needed, &mut problems);
    problems
}

fn check_job<'a>(plan: &'a DiskPlan, growth: &mut Growth<'a>) -> Problems {
    let mut problems = Problems::new();
    if plan.back_end == BackEndChoice::Nothing {
        return problems;
    }
    let mut blocks_total = 0;
    let mut seen = BTreeMap::new();
    for path in &plan.files {
        let target = match Target::inspect(&plan.opener, path) {
            Ok(target) => target,
            Err(error) => {
                problems.push(unreachable(path, &error));
                continue;
            }
        };
        if let Some(other) = target.key().and_then(|key| seen.insert(key, path)) {
            problems.add(
                &[&FILES],
                format!("`{}` and `{}` are the same", other.display(), path.display()),
                "name each file once",
            );
            continue;
        }
        match region(plan, &target) {
            Err(problem) => problems.push(*problem),
            Ok(region) => {
                blocks_total += region.bytes / plan.unit().max(1);
                let grows = region.write_to.saturating_sub(target.size.max(region.write_from));
                if grows > 0 {
                    let place = Arc::clone(&target.place);
                    let known = growth.entry(path).or_insert((0, target.device, place));
                    known.0 = known.0.max(grows);
                }
                check_access(plan, &target, region, &mut problems);
                if plan.direct {
                    check_direct(plan, &target, &mut problems);
                }
            }
        }
    }
    if let Some(like) = &plan.compressible_like
        && let Err(error) = sample::of_file(&plan.opener, like)
    {
        problems.push(
            Problem::new(
                format!("the data of `{}` cannot be sampled: {error}", like.display()),
                "name a file with data that this user may read",
            )
            .about(&[&COMPRESSIBLE_LIKE]),
        );
    }
    if plan.verify && blocks_total > VERIFIED_BLOCKS_MAX {
        problems.push(
            Problem::new(
                format!(
                    "`verify` would have to remember {blocks_total} blocks of {}",
                    quantity::bytes(plan.unit())
                ),
                format!("make `size` smaller or the blocks larger: at most {VERIFIED_BLOCKS_MAX} blocks"),
            )
            .about(&[&VERIFY, &SIZE]),
        );
    }
    if plan.back_end == BackEndChoice::IoUring
        && let Err(error) = ring::probe()
    {
        problems.push(
            Problem::new(
                format!("the kernel refuses io_uring: {error}"),
                "permit it (sysctl kernel.io_uring_disabled=0, or the container's seccomp profile)",
            )
            .about(&[&BACK_END])
            .or_set(&BACK_END, BackEndChoice::SystemCalls.level()),
        );
    }
    problems
}

fn unreachable(path: &Path, error: &io::Error) -> Problem {
    let folder = target::parent(path).display();
    match error.kind() {
        io::ErrorKind::NotFound => Problem::new(
            format!("the folder `{folder}` of `{}` does not exist", path.display()),
            "create it, or correct the path",
        ),
        io::ErrorKind::PermissionDenied => Problem::new(
            format!("`{}` may not be looked at", path.display()),
            "run as a user who may, or take another path",
        ),
        _ => Problem::new(format!("`{}`: {error}", path.display()), "correct the path"),
    }
    .about(&[&FILES])
}

fn check_access(plan: &DiskPlan, target: &Target, region: Region, problems: &mut Problems) {
    let name = target.path.display();
    let writes = plan.writes() || region.write_to > region.write_from;
    if target.kind == Kind::Missing {
        let folder = target::parent(&target.path);
        if let Err(error) = access(folder, AccessMode::WRITE_OK | AccessMode::EXEC_OK) {
            problems.push(
                Problem::new(
                    format!("`{name}` cannot be created: {}", io::Error::from(error)),
                    format!("make `{}` writable, or take another folder", folder.display()),
                )
                .about(&[&FILES]),
            );
        }
        return;
    }
    if let Err(error) = target.open(OFlags::RDONLY) {
        problems.push(
            Problem::new(format!("`{name}` cannot be read: {error}"), "run as a user who may read it")
                .about(&[&FILES]),
        );
    }
    if !writes {
        return;
    }
    if let Err(error) = access(&target.path, AccessMode::WRITE_OK) {
        problems.push(
            Problem::new(
                format!("`{name}` cannot be written: {}", io::Error::from(error)),
                "run as a user who may write it, or only read",
            )
            .about(&[&FILES]),
        );
    }
    if target.is_zoned() {
        problems.push(
            Problem::new(
                format!("`{name}` is a zoned device, which takes writes at its own write pointers only"),
                "only read it; or take a device without zones, with `write_pointers` for the same order",
            )
            .about(&[&FILES]),
        );
    }
    if plan.atomic
        && let Ok(file) = target.open(OFlags::RDONLY)
    {
        let limits = target::atomic_limits(&file);
        let fits = |bytes: u64| {
            limits.is_some_and(|(least, most)| (u64::from(least)..=u64::from(most)).contains(&bytes))
        };
        if !plan.all_blocks().all(fits) {
            let what = match limits {
                None => format!("`{name}` offers no atomic writes"),
                Some((least, most)) => {
                    format!("`{name}` offers atomic writes of {least} to {most} bytes only")
                }
            };
            problems.push(
                Problem::new(what, "remove `atomic`, or take another device or file system")
                    .about(&[&ATOMIC]),
            );
        }
    }
    if plan.writes != Writes::Data && target.kind == Kind::BlockDevice {
        problems.push(
            Problem::new(
                format!("`{name}` is a device, whose space is neither allocated nor cut off"),
                "name a file",
            )
            .about(&[&WRITES, &FILES]),
        );
    }
    if let Some(why) = target.in_use() {
        problems.push(
            Problem::new(
                format!("writing to `{name}` would destroy data in use: it {why}"),
                "take one that nothing uses; Plimsoll never writes to one that is in use",
            )
            .about(&[&FILES]),
        );
    } else if !plan.overwrite.contains(&target.path) && !target.is_own() {
        let why = match target.mark {
            Some(_) => "was changed since Plimsoll wrote it",
            None => "was not created by Plimsoll",
        };
        problems.push(
            Problem::new(
                format!("`{name}` {why}, and writing to it destroys what it holds"),
                "name a file that does not exist",
            )
            .about(&[&FILES])
            .or_set(&OVERWRITE, Level::Text(name.to_string())),
        );
    } else if plan.overwrite.contains(&target.path)
        && let Some(refusal) = target.refuse_overwriting(plan.overwrite_signature)
    {
        problems.push(refused_overwriting(target, refusal));
    }
}

/// Files and devices that these settings overwrite although they hold something recognized, and what that is. Empty where the
/// settings permit it, or contradict each other.
pub fn held_by_overwritten(settings: &Settings) -> Vec<(String, String)> {
    let mut held = Vec::new();
    for job in super::jobs::read(settings).unwrap_or_default() {
        let plan = &job.plan;
        if plan.overwrite_signature || plan.back_end == BackEndChoice::Nothing {
            continue;
        }
        for path in plan.files.iter().filter(|path| plan.overwrite.contains(path)) {
            let Ok(target) = Target::inspect(&plan.opener, path) else { continue };
            let writes = plan.writes()
                || region(plan, &target).is_ok_and(|region| region.write_to > region.write_from);
            if writes
                && !target.is_own()
                && target.in_use().is_none()
                && let Some(what) = target.holds()
            {
                held.push((path.display().to_string(), what));
            }
        }
    }
    held.dedup();
    held
}

/// The problem of a target that `overwrite` names and that is not overwritten.
pub(super) fn refused_overwriting(target: &Target, refusal: Refusal) -> Problem {
    let name = target.path.display();
    match refusal {
        Refusal::InUse(why) => Problem::new(
            format!("writing to `{name}` would destroy data in use: it {why}"),
            "end what uses it, or take another one; Plimsoll never writes to one that is in use",
        )
        .about(&[&FILES]),
        Refusal::Holds(what) => Problem::new(
            format!("`{name}` holds {what}, and writing to it destroys that"),
            "take another one if that is needed",
        )
        .about(&[&OVERWRITE])
        .or_set(&OVERWRITE_SIGNATURE, Level::Flag(true)),
    }
}

fn check_direct(plan: &DiskPlan, target: &Target, problems: &mut Problems) {
    let name = target.path.display();
    let file_system = target.file_system().unwrap_or_default();
    let refused = |why: &str| {
        Problem::new(format!("direct I/O is not possible on `{name}`: {why}"), "take a file on a disk")
            .about(&[&FILES])
            .or_set(&CACHE, Cache::PageCache.level())
    };
    if matches!(file_system.as_str(), "tmpfs" | "ramfs") {
        problems.push(refused(&format!("{file_system} is memory, with no device below")));
        return;
    }
    match target::probe_direct(target) {
        Ok(file) => {
            if let Some(alignment) = target::direct_alignment(&file) {
                check_alignment(plan, target, alignment, problems);
            }
        }
        Err(error) if error.raw_os_error() == Some(libc::EINVAL) => {
            problems.push(refused(&format!("{file_system} does not support it")));
        }
        // No unnamed files here, or not permitted, which is reported elsewhere: it will show when the file is opened.
        Err(_) => {}
    }
}

fn check_alignment(plan: &DiskPlan, target: &Target, alignment: DirectAlignment, problems: &mut Problems) {
    let step = u64::from(alignment.offset);
    let sizes = plan.blocks.iter().map(|block| (&BLOCK_SIZE.info, block.bytes));
    let others: [(&SettingInfo, Option<u64>); 3] =
        [(&OFFSET, Some(plan.offset)), (&STRIDE, plan.stride), (&ALIGN, plan.align)];
    let others = others.into_iter().filter_map(|(setting, value)| Some((setting, value?)));
    for (setting, value) in sizes.chain(others) {
        if !value.is_multiple_of(step) {
            problems.push(
                Problem::new(
                    format!(
                        "`{}` of {} does not fit `{}`, where direct I/O works in multiples of {}",
                        setting.name,
                        quantity::bytes(value),
                        target.path.display(),
                        quantity::bytes(step)
                    ),
                    "round it up",
                )
                .about(&[setting])
                .or_set(&CACHE, Cache::PageCache.level()),
            );
        }
    }
}

fn check_space(path: &Path, place: &Place, needed: u64, problems: &mut Problems) {
    let Ok(space) = fstatvfs(&place.directory) else { return };
    let free = space.f_bavail.saturating_mul(space.f_frsize);
    if needed > free {
        problems.push(
            Problem::new(
                format!(
                    "{} are needed beside `{}`, and {} are free",
                    in_words(needed),
                    path.display(),
                    in_words(free)
                ),
                "make `size` smaller, free space, or take another disk",
            )
            .about(&[&SIZE]),
        );
    }
}

/// A size that need not be exact, in a unit in which it can be read.
fn in_words(bytes: u64) -> String {
    let units = [("TiB", 40), ("GiB", 30), ("MiB", 20), ("KiB", 10)];
    let found = units.into_iter().find(|(_, shift)| bytes >> shift > 0);
    found.map_or(format!("{bytes} B"), |(unit, shift)| {
        format!("{:.1} {unit}", bytes as f64 / (1_u64 << shift) as f64)
    })
}

fn check_memory(needed: u64, problems: &mut Problems) {
    let text = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let available = text
        .lines()
        .find_map(|line| line.strip_prefix("MemAvailable:"))
        .and_then(|rest| rest.trim().trim_end_matches(" kB").parse::<u64>().ok())
        .map_or(u64::MAX, |kib| kib * 1024);
    if needed > available / 2 {
        problems.push(Problem::new(
            format!(
                "`threads` x `outstanding` x `block_size` need {:.1} GiB of buffers, more than half of the memory available",
                needed as f64 / (1 << 30) as f64
            ),
            "lower one of them",
        )
        .about(&[&OUTSTANDING, &THREADS, &BLOCK_SIZE]));
    }
}
