//! Options and columns of sar.

/// How a column of a table is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Title {
    Value,
    /// The CPU, device or interface of the row.
    Instance,
    /// A text, such as the state of a battery.
    Text,
}

/// The option of a table, by the column of its instances and a column that only this table has.
const TABLES: &[(&str, &str, &str)] = &[
    ("-u ALL", "CPU", "%usr"),
    ("-u", "CPU", "%user"),
    ("-m FREQ", "CPU", "wghMHz"),
    ("-m CPU", "CPU", "MHz"),
    ("-n SOFT", "CPU", "dropd/s"),
    ("-I", "INTR", ""),
    ("-d", "DEV", "tps"),
    ("-n EDEV", "IFACE", "rxerr/s"),
    ("-n DEV", "IFACE", "rxpck/s"),
    ("-y", "TTY", ""),
    ("-F", "FILESYSTEM", "MBfsfree"),
    ("-F", "MOUNTPOINT", "MBfsfree"),
    ("-m USB", "BUS", "idvendor"),
    ("-m FAN", "FAN", "rpm"),
    ("-m TEMP", "TEMP", "degC"),
    ("-m IN", "IN", "inV"),
    ("-m BAT", "BAT", "%cap"),
    ("-n FC", "FCHOST", ""),
    ("-b", "", "rtps"),
    ("-B", "", "pgpgin/s"),
    ("-W", "", "pswpin/s"),
    ("-w", "", "cswch/s"),
    ("-w", "", "proc/s"),
    ("-r", "", "kbmemfree"),
    ("-S", "", "kbswpfree"),
    ("-R", "", "frmpg/s"),
    ("-H", "", "kbhugfree"),
    ("-v", "", "dentunusd"),
    ("-q", "", "runq-sz"),
    ("-q CPU", "", "%scpu-10"),
    ("-q IO", "", "%sio-10"),
    ("-q MEM", "", "%smem-10"),
    ("-n NFS", "", "getatt/s"),
    ("-n NFSD", "", "scall/s"),
    ("-n SOCK", "", "totsck"),
    ("-n SOCK6", "", "tcp6sck"),
    ("-n IP", "", "fwddgm/s"),
    ("-n EIP", "", "ihdrerr/s"),
    ("-n ICMP", "", "imsg/s"),
    ("-n EICMP", "", "idstunr/s"),
    ("-n TCP", "", "active/s"),
    ("-n ETCP", "", "atmptf/s"),
    ("-n UDP", "", "idgm/s"),
    ("-n IP6", "", "fwddgm6/s"),
    ("-n EIP6", "", "ihdrer6/s"),
    ("-n ICMP6", "", "imsg6/s"),
    ("-n EICMP6", "", "idtunr6/s"),
    ("-n UDP6", "", "idgm6/s"),
];

/// The option of a table with these columns; none if it is not known.
pub(super) fn option<'a>(columns: impl Iterator<Item = &'a str> + Clone) -> Option<&'static str> {
    // pidstat has processes in rows.
    if columns.clone().any(|column| matches!(column, "PID" | "TGID" | "Command")) {
        return None;
    }
    let has = |title: &str| title.is_empty() || columns.clone().any(|column| column == title);
    TABLES.iter().find(|(_, instance, mark)| has(instance) && has(mark)).map(|(option, ..)| *option)
}

/// How a column is read.
pub(super) fn title(column: &str) -> Title {
    match column {
        "DEVICE" | "status" | "manufact" | "product" | "idvendor" | "idprod" => Title::Text,
        "CPU" | "NODE" | "INTR" | "DEV" | "IFACE" | "TTY" | "FILESYSTEM" | "MOUNTPOINT" | "BUS" | "FAN"
        | "TEMP" | "IN" | "BAT" | "FCHOST" => Title::Instance,
        _ => Title::Value,
    }
}

/// Whether a column is the first of a table without instances, as a line of `sadf -h` has them one after the other.
pub(super) fn begins_table(column: &str) -> bool {
    const FIRST: &[&str] = &[
        "proc/s",
        "pswpin/s",
        "pgpgin/s",
        "tps",
        "frmpg/s",
        "kbmemfree",
        "kbswpfree",
        "kbhugfree",
        "dentunusd",
        "runq-sz",
        "%scpu-10",
        "%sio-10",
        "%smem-10",
        "call/s",
        "scall/s",
        "totsck",
        "irec/s",
        "ihdrerr/s",
        "imsg/s",
        "ierr/s",
        "active/s",
        "atmptf/s",
        "idgm/s",
        "tcp6sck",
        "irec6/s",
        "ihdrer6/s",
        "imsg6/s",
        "ierr6/s",
        "idgm6/s",
    ];
    FIRST.contains(&column)
}

/// The path of a counter, and what the file has where that differs.
///
/// A column that two tables have with the same meaning is that of the shorter one: `-u ALL %iowait` is `-u %iowait`. A column
/// that another version names differently has its name of today.
pub(super) fn path(option: &str, column: &str, instance: &str) -> (String, String) {
    let (option, column, instance): (&str, &str, &str) = match (option, column) {
        ("-u ALL", "%iowait" | "%steal" | "%idle") => ("-u", column, instance),
        ("-r", "kbanonpg" | "kbslab" | "kbkstack" | "kbpgtbl" | "kbvmused") => ("-r ALL", column, instance),
        // Of very old versions.
        ("-r", "kbswpfree" | "kbswpused" | "%swpused" | "kbswpcad" | "%swpcad") => ("-S", column, instance),
        ("-I", cpu) => {
            let (option, source) = if instance == "sum" { ("-I SUM", "") } else { ("-I", instance) };
            let cpu = if matches!(cpu, "all" | "intr/s" | "value") { "" } else { cpu };
            let blank = if source.is_empty() || cpu.is_empty() { "" } else { " " };
            return (named(option, "intr/s", &format!("{source}{blank}{cpu}")), String::new());
        }
        _ => (option, column, instance),
    };
    let today = match (option, column) {
        ("-d", "avgqu-sz") => "aqu-sz",
        ("-n ETCP", "retrseg/s") => "retrans/s",
        _ => column,
    };
    let written = if today == column { String::new() } else { named(option, column, instance) };
    (named(option, today, instance), written)
}

fn named(option: &str, column: &str, instance: &str) -> String {
    let blank = if option.is_empty() { "" } else { " " };
    match instance.is_empty() {
        true => format!("{option}{blank}{column}"),
        false => format!("{option}{blank}{column}({instance})"),
    }
}

/// Whether a disk has its numbers instead of a name: `dev8-0`.
pub(super) fn is_device_number(instance: &str) -> bool {
    instance.strip_prefix("dev").is_some_and(|rest| {
        rest.contains('-') && rest.bytes().all(|byte| byte.is_ascii_digit() || byte == b'-')
    })
}

/// The option of an object of the JSON of sadf, and the member that is its instance.
const OBJECTS: &[(&str, &str, &str)] = &[
    ("cpu-load", "-u", "cpu"),
    ("cpu-load-all", "-u ALL", "cpu"),
    ("process-and-context-switch", "-w", ""),
    ("interrupts", "-I", "intr"),
    ("swap-pages", "-W", ""),
    ("paging", "-B", ""),
    ("io", "-b", ""),
    ("io-reads", "-b", ""),
    ("io-writes", "-b", ""),
    ("io-discard", "-b", ""),
    ("memory", "-r", ""),
    ("hugepages", "-H", ""),
    ("kernel", "-v", ""),
    ("queue", "-q", ""),
    ("serial", "-y", "line"),
    ("disk", "-d", "disk-device"),
    ("net-dev", "-n DEV", "iface"),
    ("net-edev", "-n EDEV", "iface"),
    ("net-nfs", "-n NFS", ""),
    ("net-nfsd", "-n NFSD", ""),
    ("net-sock", "-n SOCK", ""),
    ("net-sock6", "-n SOCK6", ""),
    ("net-ip", "-n IP", ""),
    ("net-eip", "-n EIP", ""),
    ("net-icmp", "-n ICMP", ""),
    ("net-eicmp", "-n EICMP", ""),
    ("net-tcp", "-n TCP", ""),
    ("net-etcp", "-n ETCP", ""),
    ("net-udp", "-n UDP", ""),
    ("net-ip6", "-n IP6", ""),
    ("net-eip6", "-n EIP6", ""),
    ("net-icmp6", "-n ICMP6", ""),
    ("net-eicmp6", "-n EICMP6", ""),
    ("net-udp6", "-n UDP6", ""),
    ("fchosts", "-n FC", "fchost"),
    ("softnet", "-n SOFT", "cpu"),
    ("cpu-frequency", "-m CPU", "number"),
    ("cpu-weighted-frequency", "-m FREQ", "number"),
    ("fan-speed", "-m FAN", "number"),
    ("temperature", "-m TEMP", "number"),
    ("voltage-input", "-m IN", "number"),
    ("battery", "-m BAT", "number"),
    ("filesystems", "-F", "filesystem"),
    ("psi-cpu", "-q CPU", ""),
    ("psi-io", "-q IO", ""),
    ("psi-mem", "-q MEM", ""),
];

/// The option and the member with the instance of an object of JSON; none for one that has no counters.
pub(super) fn object(name: &str) -> Option<(&'static str, &'static str)> {
    OBJECTS.iter().find(|(known, ..)| *known == name).map(|(_, option, instance)| (*option, *instance))
}

/// The column of sar that a member of JSON is.
pub(super) fn column(option: &str, member: &str) -> String {
    if let Some(rest) = member.strip_suffix("-percent") {
        return format!("%{rest}");
    }
    match member {
        "frequency" => return "MHz".into(),
        "weighted-frequency" => return "wghMHz".into(),
        "percent-capacity" => return "%cap".into(),
        "variation" => return "cap/min".into(),
        _ => {}
    }
    if let Some(rest) = member.strip_prefix("percent-") {
        return format!("%{rest}");
    }
    match option {
        "-u" | "-u ALL" => format!("%{member}"),
        "-r" => match member {
            "inactive" => "kbinact".into(),
            "shared" => "kbshmem".into(),
            _ => format!("kb{member}"),
        },
        "-H" => format!("kb{member}"),
        "-q CPU" | "-q IO" | "-q MEM" => {
            let resource = option[3..].to_lowercase();
            let (kind, time) = match member.split_once("_avg") {
                Some(("some", time)) => ("s", time),
                Some(("full", time)) => ("f", time),
                _ => return member.into(),
            };
            match time {
                "" => format!("%{kind}{resource}"),
                _ => format!("%{kind}{resource}-{time}"),
            }
        }
        "-I" | "-m FAN" | "-m TEMP" | "-m IN" | "-v" | "-q" | "-F" | "-n SOCK" | "-n SOCK6" => member.into(),
        "-d" => match member {
            "rd_sec" | "wr_sec" | "dc_sec" | "rkB" | "wkB" | "dkB" => format!("{member}/s"),
            _ => member.into(),
        },
        "-b" if member.ends_with("tps") => member.into(),
        "-n SOFT" if member == "blg_len" => member.into(),
        _ => format!("{member}/s"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_is_known_by_its_columns() {
        for (header, expected) in [
            ("CPU %user %nice %system %iowait %steal %idle", Some("-u")),
            ("CPU %usr %nice %sys %iowait %steal %irq %soft %guest %gnice %idle", Some("-u ALL")),
            ("tps rtps wtps bread/s bwrtn/s", Some("-b")),
            ("DEV tps rkB/s wkB/s areq-sz aqu-sz await svctm %util", Some("-d")),
            ("tps rkB/s wkB/s dkB/s areq-sz aqu-sz await %util DEV", Some("-d")),
            ("call/s retrans/s read/s write/s access/s getatt/s", Some("-n NFS")),
            ("atmptf/s estres/s retrans/s isegerr/s orsts/s", Some("-n ETCP")),
            ("ierr/s oerr/s idstunr/s", Some("-n EICMP")),
            ("runq-sz plist-sz ldavg-1", Some("-q")),
            ("all CPU3 INTR", Some("-I")),
            ("UID PID %usr %system", None),
        ] {
            assert_eq!(option(header.split_whitespace()), expected, "{header}");
        }
    }

    #[test]
    fn paths_are_the_names_of_metrics() {
        for (option, column, instance, expected, written) in [
            ("-d", "await", "sda", "-d await(sda)", ""),
            ("-d", "avgqu-sz", "sda", "-d aqu-sz(sda)", "-d avgqu-sz(sda)"),
            ("-u ALL", "%iowait", "all", "-u %iowait(all)", ""),
            ("-u ALL", "%sys", "0", "-u ALL %sys(0)", ""),
            ("-r", "kbslab", "", "-r ALL kbslab", ""),
            ("-r", "kbavail", "", "-r kbavail", ""),
            ("-I", "intr/s", "sum", "-I SUM intr/s", ""),
            ("-I", "CPU3", "sum", "-I SUM intr/s(CPU3)", ""),
            ("-I", "CPU3", "LOC", "-I intr/s(LOC CPU3)", ""),
            ("", "x/s", "", "x/s", ""),
        ] {
            assert_eq!(path(option, column, instance), (expected.into(), written.into()));
        }
    }

    #[test]
    fn members_of_json_are_columns() {
        for (object_name, member, expected) in [
            ("cpu-load-all", "usr", "%usr"),
            ("memory", "memfree", "kbmemfree"),
            ("memory", "memused-percent", "%memused"),
            ("memory", "swpused", "kbswpused"),
            ("disk", "util-percent", "%util"),
            ("disk", "rkB", "rkB/s"),
            ("disk", "await", "await"),
            ("io-reads", "rtps", "rtps"),
            ("io-reads", "bread", "bread/s"),
            ("psi-mem", "full_avg60", "%fmem-60"),
            ("psi-io", "some_avg", "%sio"),
            ("net-etcp", "retrans", "retrans/s"),
            ("queue", "ldavg-1", "ldavg-1"),
            ("temperature", "percent-temp", "%temp"),
            ("battery", "percent-capacity", "%cap"),
        ] {
            let (option, _) = object(object_name).unwrap();
            assert_eq!(column(option, member), expected, "{object_name} {member}");
        }
        assert_eq!(object("usb-devices"), None);
    }
}
