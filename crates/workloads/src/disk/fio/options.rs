//! The options of fio and what becomes of each.

/// What becomes of an option.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Effect {
    /// It is a setting here.
    Used,
    /// It says nothing about the load.
    None,
    /// It concerns how fio works or reports: it has no effect here, and that is told in one note with others.
    Without,
    /// The same, and worth telling.
    Noted(&'static str),
    /// It would make the load another one; what to do instead.
    Unsupported(&'static str),
}

use Effect::{Noted, Unsupported, Used, Without as Ignored};

const VARY: &str = "remove it; vary the load in an experiment file: steps, ramp";
const BINDING: &str = "has no effect: start Plimsoll under `taskset`, or vary host.cpus";
const FIXED: &str = "is always on where the kernel permits it";
const RUNTIME: &str = "write runtime and time_based";

/// Name, other names, effect.
static OPTIONS: &[(&str, &[&str], Effect)] = &[
    ("blockalign", &["ba"], Used),
    ("bs", &["blocksize"], Used),
    ("bssplit", &[], Used),
    ("buffer_compress_percentage", &[], Used),
    ("buffered", &[], Used),
    ("direct", &[], Used),
    ("directory", &[], Used),
    ("fdatasync", &[], Used),
    ("filename", &[], Used),
    ("filesize", &[], Used),
    ("fsync", &[], Used),
    ("iodepth", &[], Used),
    ("ioengine", &[], Used),
    ("norandommap", &[], Used),
    ("nrfiles", &[], Used),
    ("numjobs", &[], Used),
    ("offset", &[], Used),
    ("ramp_time", &[], Used),
    ("random_distribution", &[], Used),
    ("rate_iops", &[], Used),
    ("rate_process", &[], Used),
    ("runtime", &["timeout"], Used),
    ("rw", &["readwrite"], Used),
    ("rwmixread", &[], Used),
    ("rwmixwrite", &[], Used),
    ("size", &[], Used),
    ("stonewall", &["wait_for_previous"], Used),
    ("sync", &[], Used),
    ("thinktime", &[], Used),
    ("time_based", &[], Used),
    ("unlink", &[], Used),
    ("verify", &[], Used),
    ("zero_buffers", &[], Used),
    ("allow_mounted_write", &[], Noted("has no effect: what is mounted is never written to")),
    ("bwavgtime", &[], Ignored),
    ("clat_percentiles", &[], Ignored),
    ("clocksource", &[], Ignored),
    ("cpumask", &[], Noted(BINDING)),
    ("cpus_allowed", &[], Noted(BINDING)),
    ("cpus_allowed_policy", &[], Ignored),
    ("create_on_open", &[], Ignored),
    ("create_serialize", &[], Ignored),
    ("description", &[], Effect::None),
    ("disable_bw_measurement", &["disable_bw"], Ignored),
    ("disable_clat", &[], Ignored),
    ("disable_lat", &[], Ignored),
    ("disable_slat", &[], Ignored),
    ("disk_util", &[], Ignored),
    ("do_verify", &[], Ignored),
    ("end_fsync", &[], Noted("has no effect: what follows the measured time is not measured")),
    ("exitall", &[], Ignored),
    ("exitall_on_error", &[], Ignored),
    ("fadvise_hint", &[], Ignored),
    ("fallocate", &[], Noted("has no effect: files are always written in full before the clock starts")),
    ("file_service_type", &[], Ignored),
    ("fixedbufs", &[], Noted(FIXED)),
    ("fsync_on_close", &[], Ignored),
    ("group_reporting", &[], Ignored),
    ("gtod_cpu", &[], Ignored),
    ("gtod_reduce", &[], Ignored),
    ("hipri", &[], Noted("has no effect: completions are not polled for")),
    ("invalidate", &[], Noted("has no effect: the share of the file in the page cache is recorded instead")),
    ("iodepth_batch", &["iodepth_batch_submit"], Ignored),
    ("iodepth_batch_complete_max", &[], Ignored),
    ("iodepth_batch_complete_min", &["iodepth_batch_complete"], Ignored),
    ("iodepth_low", &[], Ignored),
    ("iomem_align", &["mem_align"], Ignored),
    ("iopsavgtime", &[], Ignored),
    ("kb_base", &[], Noted("has no effect: k is 1024 and ki is 1000, fio's default")),
    ("lat_percentiles", &[], Ignored),
    ("log_avg_msec", &[], Ignored),
    ("log_hist_msec", &[], Ignored),
    ("log_max_value", &[], Ignored),
    ("loops", &[], Unsupported(RUNTIME)),
    ("mem", &["iomem"], Ignored),
    ("name", &[], Effect::None),
    ("new_group", &[], Ignored),
    ("nice", &[], Ignored),
    ("nonvectored", &[], Ignored),
    ("openfiles", &[], Ignored),
    ("overwrite", &[], Ignored),
    ("per_job_logs", &[], Ignored),
    ("percentile_list", &[], Ignored),
    ("prio", &[], Ignored),
    ("prioclass", &[], Ignored),
    ("randrepeat", &[], Noted("has no effect: every trial draws new offsets from the experiment's seed")),
    ("allrandrepeat", &[], Ignored),
    ("randseed", &[], Noted("has no effect: the experiment's seed makes the offsets")),
    ("random_generator", &[], Ignored),
    ("refill_buffers", &[], Ignored),
    ("registerfiles", &[], Noted(FIXED)),
    ("scramble_buffers", &[], Ignored),
    ("significant_figures", &[], Ignored),
    ("slat_percentiles", &[], Ignored),
    ("softrandommap", &[], Ignored),
    ("sqthread_poll", &[], Noted("has no effect: it costs a CPU that the system under test would have")),
    ("sqthread_poll_cpu", &[], Ignored),
    ("startdelay", &[], Noted("has no effect: the load starts at once")),
    ("thread", &[], Ignored),
    ("unified_rw_reporting", &[], Ignored),
    ("unit_base", &[], Ignored),
    ("userspace_reap", &[], Ignored),
    ("verify_dump", &[], Ignored),
    ("verify_fatal", &[], Ignored),
    ("verify_state_save", &[], Ignored),
    ("write_bw_log", &[], Noted("has no effect: every second is in the run's intervals.csv")),
    ("write_hist_log", &[], Ignored),
    ("write_iops_log", &[], Ignored),
    ("write_lat_log", &[], Ignored),
    ("bs_unaligned", &["blocksize_unaligned"], Unsupported("write blockalign")),
    ("bsrange", &["blocksize_range"], Unsupported("write a mix: bssplit=4k/50:64k/50")),
    ("buffer_pattern", &[], Unsupported("write buffer_compress_percentage")),
    ("dedupe_percentage", &[], Unsupported("remove it: blocks never repeat here")),
    ("experimental_verify", &[], Unsupported("write verify=crc32c")),
    ("flow", &[], Unsupported("give each job its own file")),
    ("io_size", &["io_limit"], Unsupported(RUNTIME)),
    ("number_ios", &[], Unsupported(RUNTIME)),
    ("percentage_random", &[], Unsupported("write two job files, one random and one sequential")),
    ("rate", &[], Unsupported("write rate_iops: bytes per second divided by the block size")),
    ("rate_min", &[], Unsupported("write a goal in an experiment file: throughput >= ...")),
    ("rate_iops_min", &[], Unsupported("write a goal in an experiment file: throughput >= ...")),
    ("read_iolog", &[], Unsupported("describe the load by its mix and sizes")),
    ("rw_sequencer", &[], Unsupported("remove it")),
    ("steadystate", &["ss"], Unsupported("remove it: the warm-up ends when throughput is steady")),
    ("sync_file_range", &[], Unsupported("write fdatasync")),
    ("thinktime_blocks", &[], Unsupported("the wait follows every operation: remove it")),
    ("thinktime_spin", &[], Unsupported("remove it")),
    ("verify_interval", &[], Unsupported("remove it: every block has its header")),
    ("verify_pattern", &[], Unsupported("write verify=crc32c")),
    ("verify_only", &[], Unsupported("write rw=read")),
    ("wait_for", &[], Unsupported("give each job its own file")),
    ("zonemode", &[], Unsupported("zoned devices are not supported")),
    ("zonesize", &[], Unsupported("zoned devices are not supported")),
    ("offset_increment", &[], Unsupported("remove it: all threads share one stream of blocks")),
    ("rate_cycle", &[], Unsupported(VARY)),
];

/// The option under any of its names: the name used here and what becomes of it.
pub(super) fn effect(name: &str) -> Option<(&'static str, Effect)> {
    OPTIONS
        .iter()
        .find(|(canonical, others, _)| *canonical == name || others.contains(&name))
        .map(|(canonical, _, effect)| (*canonical, *effect))
}

/// What an engine of fio is to a load.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Engine {
    /// Keeps operations in flight.
    Asynchronous,
    /// One operation at a time.
    Synchronous,
    /// Drives no file or device through the block layer.
    Other,
}

/// Every engine of fio 3.
static ENGINES: &[(Engine, &[&str])] = &[
    (Engine::Asynchronous, &["io_uring", "libaio", "posixaio", "solarisaio", "windowsaio", "guasi"]),
    (Engine::Synchronous, &["psync", "sync", "vsync", "pvsync", "pvsync2", "mmap", "splice"]),
    (
        Engine::Other,
        &[
            "cpuio",
            "cuse",
            "dev-dax",
            "dfs",
            "e4defrag",
            "exec",
            "external",
            "falloc",
            "filecreate",
            "filedelete",
            "filestat",
            "ftruncate",
            "gfapi",
            "gfapi_async",
            "http",
            "ime_aio",
            "ime_psync",
            "ime_psyncv",
            "io_uring_cmd",
            "libblkio",
            "libcufile",
            "libhdfs",
            "libiscsi",
            "libpmem",
            "librpma_apm_client",
            "libzbc",
            "mtd",
            "nbd",
            "net",
            "netsplice",
            "nfs",
            "null",
            "pmemblk",
            "rados",
            "rbd",
            "rdma",
            "sg",
            "xnvme",
        ],
    ),
];

/// What an engine is; none when fio has none of this name.
pub(super) fn engine(name: &str) -> Option<Engine> {
    ENGINES.iter().find(|(_, names)| names.contains(&name)).map(|(engine, _)| *engine)
}

/// Every engine, for near words.
pub(super) fn engine_names() -> impl Iterator<Item = &'static str> + Clone {
    ENGINES.iter().flat_map(|(_, names)| names.iter().copied())
}

/// Methods of `verify` in whose place crc32c is used.
pub(super) const VERIFY_METHODS: [&str; 17] = [
    "md5",
    "crc64",
    "crc32c",
    "crc32c-intel",
    "crc32",
    "crc16",
    "crc7",
    "xxhash",
    "sha512",
    "sha256",
    "sha1",
    "sha3-224",
    "sha3-256",
    "sha3-384",
    "sha3-512",
    "meta",
    "pattern_hdr",
];

/// Every name, for near words.
pub(super) fn known_names() -> impl Iterator<Item = &'static str> + Clone {
    OPTIONS.iter().map(|(canonical, ..)| *canonical)
}
