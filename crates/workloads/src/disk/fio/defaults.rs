//! The documented options of fio with their defaults, as `fio --cmdhelp=OPTION` prints them.
//!
//! An option that is written with its default says nothing about the load. Where a default means something else here, a job
//! without the option gets a note.

/// Name and default, which is empty where fio has none (3.33).
pub(super) static DEFAULTS: &[(&str, &str)] = &[
    ("description", ""),
    ("name", ""),
    ("wait_for", ""),
    ("filename", ""),
    ("lockfile", "none"),
    ("directory", ""),
    ("filename_format", "$jobname.$jobnum.$filenum"),
    ("unique_filename", "1"),
    ("opendir", ""),
    ("rw", "read"),
    ("bs", "4096"),
    ("ba", ""),
    ("bsrange", ""),
    ("bssplit", ""),
    ("bs_unaligned", ""),
    ("randrepeat", "1"),
    ("randseed", "0x89"),
    ("norandommap", ""),
    ("ignore_error", ""),
    ("rw_sequencer", "sequential"),
    ("ioengine", "psync"),
    ("iodepth", "1"),
    ("iodepth_batch", "1"),
    ("iodepth_batch_complete_min", "1"),
    ("iodepth_batch_complete_max", ""),
    ("iodepth_low", ""),
    ("serialize_overlap", "0"),
    ("io_submit_mode", "inline"),
    ("size", ""),
    ("io_size", ""),
    ("fill_device", "0"),
    ("filesize", ""),
    ("file_append", "0"),
    ("offset", "0"),
    ("offset_increment", "0"),
    ("offset_align", "0"),
    ("number_ios", "0"),
    ("random_generator", "tausworthe"),
    ("random_distribution", "random"),
    ("percentage_random", "100,100,100"),
    ("allrandrepeat", "0"),
    ("nrfiles", "1"),
    ("file_service_type", "roundrobin"),
    ("openfiles", ""),
    ("fallocate", "native"),
    ("fadvise_hint", "1"),
    ("fsync", "0"),
    ("fdatasync", "0"),
    ("write_barrier", "0"),
    ("sync_file_range", ""),
    ("direct", "0"),
    ("atomic", "0"),
    ("buffered", "1"),
    ("overwrite", "0"),
    ("loops", "1"),
    ("numjobs", "1"),
    ("startdelay", "0"),
    ("runtime", "0"),
    ("time_based", ""),
    ("verify_only", ""),
    ("ramp_time", ""),
    ("clocksource", ""),
    ("mem", "malloc"),
    ("verify", "0"),
    ("do_verify", "1"),
    ("verify_interval", ""),
    ("verify_offset", ""),
    ("verify_pattern", ""),
    ("verify_fatal", "0"),
    ("verify_dump", "0"),
    ("verify_async", "0"),
    ("verify_backlog", ""),
    ("verify_backlog_batch", ""),
    ("experimental_verify", ""),
    ("verify_state_load", ""),
    ("verify_state_save", "1"),
    ("trim_percentage", "0"),
    ("trim_verify_zero", "1"),
    ("trim_backlog", ""),
    ("trim_backlog_batch", ""),
    ("write_iolog", ""),
    ("read_iolog", ""),
    ("read_iolog_chunked", "0"),
    ("replay_no_stall", "0"),
    ("replay_redirect", ""),
    ("replay_scale", "1"),
    ("replay_align", ""),
    ("replay_time_scale", "100"),
    ("replay_skip", ""),
    ("merge_blktrace_file", ""),
    ("merge_blktrace_scalars", ""),
    ("merge_blktrace_iters", ""),
    ("exec_prerun", ""),
    ("exec_postrun", ""),
    ("ioscheduler", ""),
    ("zonemode", "none"),
    ("zonesize", "0"),
    ("zonecapacity", "0"),
    ("zonerange", "0"),
    ("zoneskip", "0"),
    ("read_beyond_wp", "0"),
    ("max_open_zones", "0"),
    ("job_max_open_zones", "0"),
    ("ignore_zone_limits", "0"),
    ("zone_reset_threshold", ""),
    ("zone_reset_frequency", ""),
    ("lockmem", "0"),
    ("rwmixread", "50"),
    ("rwmixwrite", "50"),
    ("nice", "0"),
    ("prio", ""),
    ("prioclass", ""),
    ("thinktime", "0"),
    ("thinktime_spin", "0"),
    ("thinktime_blocks", "1"),
    ("thinktime_blocks_type", "complete"),
    ("thinktime_iotime", "0"),
    ("rate", ""),
    ("rate_min", ""),
    ("rate_process", "linear"),
    ("rate_cycle", "1000"),
    ("rate_ignore_thinktime", ""),
    ("rate_iops", ""),
    ("rate_iops_min", ""),
    ("max_latency", ""),
    ("latency_target", ""),
    ("latency_window", ""),
    ("latency_percentile", "100"),
    ("latency_run", "0"),
    ("invalidate", "1"),
    ("sync", "none"),
    ("write_hint", ""),
    ("create_serialize", "1"),
    ("create_fsync", "1"),
    ("create_on_open", "0"),
    ("create_only", "0"),
    ("allow_file_create", "1"),
    ("allow_mounted_write", "0"),
    ("pre_read", "0"),
    ("cpumask", ""),
    ("cpus_allowed", ""),
    ("cpus_allowed_policy", ""),
    ("numa_cpu_nodes", ""),
    ("numa_mem_policy", ""),
    ("end_fsync", "0"),
    ("fsync_on_close", "0"),
    ("unlink", "0"),
    ("unlink_each_loop", "0"),
    ("exitall", ""),
    ("exit_what", "group"),
    ("exitall_on_error", ""),
    ("stonewall", ""),
    ("new_group", ""),
    ("thread", ""),
    ("per_job_logs", "1"),
    ("write_bw_log", ""),
    ("bwavgtime", "500"),
    ("write_lat_log", ""),
    ("write_iops_log", ""),
    ("iopsavgtime", "500"),
    ("log_entries", "1024"),
    ("log_avg_msec", "0"),
    ("log_hist_msec", "0"),
    ("log_hist_coarseness", "0"),
    ("write_hist_log", ""),
    ("log_max_value", "0"),
    ("log_offset", "0"),
    ("log_prio", "0"),
    ("log_compression", ""),
    ("log_compression_cpus", ""),
    ("log_store_compressed", ""),
    ("log_unix_epoch", ""),
    ("log_alternate_epoch", ""),
    ("log_alternate_epoch_clock_id", ""),
    ("block_error_percentiles", "0"),
    ("group_reporting", ""),
    ("stats", "1"),
    ("zero_buffers", ""),
    ("refill_buffers", ""),
    ("scramble_buffers", "1"),
    ("buffer_pattern", ""),
    ("buffer_compress_percentage", ""),
    ("buffer_compress_chunk", "512"),
    ("dedupe_percentage", ""),
    ("dedupe_mode", "repeat"),
    ("dedupe_working_set_percentage", "5"),
    ("dedupe_global", "0"),
    ("clat_percentiles", "1"),
    ("lat_percentiles", "0"),
    ("slat_percentiles", "0"),
    ("percentile_list", "1:5:10:20:30:40:50:60:70:80:90:95:99:99.5:99.9:99.95:99.99"),
    ("significant_figures", "4"),
    ("disk_util", "1"),
    ("gtod_reduce", "0"),
    ("disable_lat", "0"),
    ("disable_clat", "0"),
    ("disable_slat", "0"),
    ("disable_bw_measurement", "0"),
    ("gtod_cpu", ""),
    ("unified_rw_reporting", "none"),
    ("continue_on_error", "none"),
    ("error_dump", "0"),
    ("profile", ""),
    ("cgroup", ""),
    ("cgroup_nodelete", "0"),
    ("cgroup_weight", ""),
    ("uid", ""),
    ("gid", ""),
    ("kb_base", "1024"),
    ("unit_base", ""),
    ("hugepage-size", "2097152"),
    ("flow_id", "0"),
    ("flow", "0"),
    ("flow_sleep", "0"),
    // Documented as iops_slope:0.01%, which holds only where the option is written.
    ("steadystate", ""),
    ("steadystate_duration", "0"),
    ("steadystate_ramp_time", "0"),
];

/// Whether this is the default of an option.
pub(super) fn is_default(name: &str, value: &str) -> bool {
    let default = DEFAULTS.iter().find(|(known, _)| *known == name);
    // Beside `direct` it contradicts.
    name != "buffered" && default.is_some_and(|(_, default)| !default.is_empty() && *default == value)
}

/// Whether an option without a default is turned off.
pub(super) fn is_off(name: &str, value: &str) -> bool {
    DEFAULTS.contains(&(name, "")) && value == "0"
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::super::*;
    use super::*;

    fn read(text: &str) -> (Vec<FioStep>, Vec<String>) {
        let file =
            parse(text, "f.fio", &Surroundings::NONE).unwrap_or_else(|problems| panic!("{text}{problems}"));
        (file.steps, file.notes.into_iter().map(|note| note.text).collect())
    }

    /// Defaults that mean something else here, and a job that has them without a word.
    const NOTED: [(&str, &str); 6] = [
        ("overwrite", "[j]\nrw=write\nsize=1m\nruntime=1\ntime_based\n"),
        ("fallocate", "[j]\nrw=randwrite\nsize=1m\nruntime=1\ntime_based\n"),
        ("file_service_type", "[j]\nrw=randread\nnrfiles=2\nsize=1m\n"),
        ("runtime", "[j]\nsize=1m\n"),
        ("verify", "[j]\nrw=write\nsize=1m\nverify=crc32c\n"),
        ("rw", "[j]\nrw=rw\nsize=1m\n"),
    ];

    #[test]
    fn every_documented_option_is_known_and_its_default_says_nothing() {
        let options = "size=1m\nruntime=1\ntime_based\n";
        let job = format!("[j]\n{options}");
        let plain = read(&job);
        assert!(plain.1.is_empty(), "{:?}", plain.1);
        for (name, default) in DEFAULTS {
            assert!(options::effect(name).is_some(), "fio documents `{name}`");
            if !default.is_empty() {
                assert_eq!(read(&format!("[j]\n{name}={default}\n{options}")), plain, "{name}={default}");
                // In a job it takes the place of what holds for all.
                let global = format!("[global]\n{name}={default}\n{job}");
                assert_eq!(read(&global), plain, "{name}={default}");
            }
        }
    }

    #[test]
    fn a_default_that_means_something_else_here_is_said() {
        for (name, job) in NOTED {
            let (_, notes) = read(job);
            assert!(notes.iter().any(|note| note.contains(name)), "{name}: {notes:?}");
        }
    }

    /// The options of the fio that is installed, with its defaults: what is new in it has a row here.
    #[test]
    fn the_table_is_that_of_fio() {
        if testkit::lacks(testkit::Need::Program("fio")) {
            return;
        }
        let help = |of: &str| {
            let out = Command::new("fio").arg(format!("--cmdhelp={of}")).output().unwrap();
            String::from_utf8_lossy(&out.stdout).into_owned()
        };
        let all = help("all");
        let names: Vec<&str> = all
            .lines()
            .filter_map(|line| Some(line.split_once(':')?.0.trim()))
            .filter(|name| !name.is_empty())
            .collect();
        assert!(names.len() > 150, "{all}");
        for name in names {
            let Some((_, ours)) = DEFAULTS.iter().find(|(known, _)| *known == name) else {
                // An option of a newer fio.
                assert!(options::effect(name).is_some(), "fio documents `{name}`");
                continue;
            };
            let text = help(name);
            let theirs =
                text.lines().find_map(|line| line.trim().strip_prefix("default:")).map_or("", str::trim);
            let theirs = if theirs == "no default" || name == "steadystate" { "" } else { theirs };
            assert_eq!(*ours, theirs, "{name}");
        }
    }
}
