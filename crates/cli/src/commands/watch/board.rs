//! What the screens show: every counter with its history, put in order. Pure: samples in, rows out.

use std::collections::{HashSet, VecDeque};

use counters::perfmon::{self, Counter};
use model::metric::{instance_on, split_instance};
use model::{Column, MetricInfo, Readings, Unit};
use report::text::{Quantity, Scale};

/// Samples of each counter that are kept for the plot: an hour at one a second.
const HISTORY: usize = 3600;

/// Samples whose mean decides the order. One alone would make rows jump about.
const ORDER_BY: usize = 5;

/// Shown below what has a point at which it is full, in this order: counters that say a lot and have no such point.
const HEADLINES: [&str; 12] = [
    "cpu.run_queue_length",
    "cpu.steal_share",
    "process.busiest_thread_cpus",
    "disk.utilization_share",
    "disk.queue_length",
    "disk.transfer_s",
    "disk.transfers_per_s",
    "memory.available_bytes",
    "memory.swap_ins_per_s",
    "network.received_bytes_per_s",
    "network.sent_bytes_per_s",
    "network.tcp_retransmitted_segments_per_s",
];

/// The source whose counters stand below those of the disk that they are a part of.
const VOLUME: &str = "volume";
const DISK: &str = "disk";

/// The place after all headlines.
const LAST: i64 = HEADLINES.len() as i64 + 1;

/// One counter of one instance over time.
#[derive(Clone, Debug)]
pub(crate) struct Series {
    /// What it is.
    pub(crate) column: Column,
    /// The latest values, the newest last; NaN where it could not be read.
    history: VecDeque<f64>,
    /// The largest value since the start; NaN when there was none.
    pub(crate) max: f64,
    sum: f64,
    weight: f64,
    /// The place of its metric among all that there are.
    place: usize,
    /// Which resource it is of, in the order resources appeared.
    group: usize,
    /// The resource that it is listed under: the disk of a volume, otherwise its own.
    under: usize,
}

impl Series {
    fn new(column: &Column, group: usize, under: usize) -> Self {
        let place = counters::all_metrics().position(|(_, metric)| metric.name == column.metric.name);
        Series {
            column: column.clone(),
            history: VecDeque::new(),
            max: f64::NAN,
            sum: 0.0,
            weight: 0.0,
            place: place.unwrap_or(usize::MAX),
            group,
            under,
        }
    }

    /// The value of the latest sample; NaN when it could not be read.
    pub(crate) fn now(&self) -> f64 {
        self.history.back().copied().unwrap_or(f64::NAN)
    }

    /// The mean since the start, weighted as the metric says; NaN when there was no value.
    pub(crate) fn mean(&self) -> f64 {
        self.sum / self.weight
    }

    /// The latest `count` values, the newest last; fewer when there are fewer.
    pub(crate) fn latest(&self, count: usize) -> impl Iterator<Item = f64> {
        self.history.iter().skip(self.history.len().saturating_sub(count)).copied()
    }

    /// How full the resource is, 0 to 1, over the last few samples; none when the metric is no sign of saturation or
    /// was not read.
    pub(crate) fn saturation(&self) -> Option<f64> {
        if self.column.metric.saturated_at <= 0.0 {
            return None;
        }
        let (mut sum, mut count) = (0.0, 0.0);
        for value in self.latest(ORDER_BY).filter(|value| !value.is_nan()) {
            sum += value;
            count += 1.0;
        }
        (count > 0.0).then(|| sum / count / self.column.metric.saturated_at)
    }

    /// What is measured, as a person would say it: `disk vda`, `cpu 1`, `cpu`, `db1 cpu`.
    pub(crate) fn resource(&self) -> String {
        let (host, instance) = split_instance(&self.column.instance);
        let parts = [host, source_of(&self.column.metric), instance];
        parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<&str>>().join(" ")
    }

    /// Which of its numbers, without the unit that the value is shown with: `read bytes`, `read time`.
    pub(crate) fn name(&self) -> String {
        let metric = &self.column.metric;
        let name = metric.name.split_once('.').map_or(&*metric.name, |(_, name)| name);
        let plain = match metric.unit {
            Unit::Share => name.strip_suffix("_share").map(str::to_string),
            Unit::Cpus => name.strip_suffix("_cpus").map(str::to_string),
            Unit::Seconds => name.strip_suffix("_s").map(|stem| format!("{stem} time")),
            Unit::PerSecond | Unit::BytesPerSecond => name.strip_suffix("_per_s").map(str::to_string),
            Unit::Bytes => name.strip_suffix("_bytes").map(str::to_string),
            Unit::Count => None,
        };
        plain.unwrap_or_else(|| name.to_string()).replace('_', " ")
    }

    /// The unit in which all numbers of its row are shown.
    pub(crate) fn scale(&self) -> Scale {
        let quantity = Quantity::of(self.column.metric.unit);
        match quantity.scale([self.now()]) {
            // A small value beside a large one would need many digits: then the largest decides.
            scale if self.max / scale.divisor >= 10_000.0 => quantity.scale([self.max]),
            _ if self.now().is_nan() || self.now() == 0.0 => quantity.scale([self.max]),
            scale => scale,
        }
    }

    /// The source among whose counters it is shown.
    fn shown_with(&self) -> &str {
        match source_of(&self.column.metric) {
            VOLUME => DISK,
            source => source,
        }
    }

    /// True when it was ever other than zero.
    fn moves(&self) -> bool {
        !self.max.is_nan() && self.max != 0.0
    }

    /// Whether any of its names contains the typed text.
    fn matches(&self, filter: &Filter) -> bool {
        filter.finds(&self.column.metric)
            || contains(&self.column.title(), &filter.text)
            || contains(&format!("{} {}", self.resource(), self.name()), &filter.text)
    }
}

/// The source of a metric: the part before the dot.
pub(crate) fn source_of(metric: &MetricInfo) -> &str {
    metric.name.split('.').next().unwrap_or("")
}

/// What is searched for in the names of counters.
pub(crate) struct Filter {
    /// As it was typed, without the instance of a Perfmon path.
    pub(crate) text: String,
    /// The counters of Performance Monitor that it names, where it is a path.
    pub(crate) perfmon: Vec<Counter>,
}

impl Filter {
    pub(crate) fn new(text: &str) -> Filter {
        match perfmon::Path::parse(text) {
            Some(path) => Filter { text: format!(r"{}\{}", path.object, path.counter), perfmon: path.find() },
            None => Filter { text: text.to_string(), perfmon: Vec::new() },
        }
    }

    /// True when it is a path that Performance Monitor has.
    pub(crate) fn is_path(&self) -> bool {
        !self.perfmon.is_empty()
    }

    /// Whether a metric has the text in its name, its Perfmon or sar name or its sentence, in any case, or replaces the
    /// counter that the text names.
    pub(crate) fn finds(&self, metric: &MetricInfo) -> bool {
        if self.is_path() {
            return self.perfmon.iter().any(|counter| counter.metric == metric.name);
        }
        [&*metric.name, &*metric.perfmon, &*metric.sar, &*metric.about]
            .iter()
            .any(|text| contains(text, &self.text))
    }
}

pub(crate) fn contains(text: &str, filter: &str) -> bool {
    text.to_lowercase().contains(&filter.to_lowercase())
}

/// All counters of a watched host.
#[derive(Clone, Debug, Default)]
pub(crate) struct Board {
    series: Vec<Series>,
    /// Ends of the samples that are kept, seconds since the start.
    ends: VecDeque<f64>,
    /// Finds the disk below a volume; without it volumes stand below all disks.
    disk_below: Option<fn(&str) -> Option<String>>,
}

impl Board {
    /// A board without samples that knows which disk a volume is on.
    pub(crate) fn new(disk_below: fn(&str) -> Option<String>) -> Self {
        Board { disk_below: Some(disk_below), ..Board::default() }
    }

    /// Takes in one sample. `length_s` is 0 for the first one, which only gauges have a value in.
    pub(crate) fn add(&mut self, end_s: f64, length_s: f64, readings: &Readings) {
        self.ends.push_back(end_s);
        for column in readings.columns().iter().skip(self.series.len()) {
            let of = |series: &Series| {
                (source_of(&series.column.metric), &*series.column.instance)
                    == (source_of(&column.metric), &*column.instance)
            };
            let known = self.series.iter().position(of);
            let group = known.unwrap_or(self.series.len());
            let under = match known {
                Some(at) => self.series[at].under,
                None => self.disk_of(column).unwrap_or(group),
            };
            self.series.push(Series::new(column, group, under));
        }
        for (series, &value) in self.series.iter_mut().zip(readings.values()) {
            series.history.push_back(value);
            if series.history.len() > HISTORY {
                series.history.pop_front();
            }
            if value.is_nan() {
                continue;
            }
            series.max = value.max(series.max);
            let weight = match series.column.metric.weight.is_empty() {
                true => Some(1.0),
                false => readings.get(&series.column.metric.weight, &series.column.instance),
            };
            // The first sample has no length, yet its gauges are true.
            let length = if length_s > 0.0 { length_s } else { 1e-9 };
            if let Some(weight) = weight {
                series.sum += value * weight * length;
                series.weight += weight * length;
            }
        }
        if self.ends.len() > HISTORY {
            self.ends.pop_front();
        }
    }

    /// The resource that is the disk of a volume.
    fn disk_of(&self, column: &Column) -> Option<usize> {
        if source_of(&column.metric) != VOLUME {
            return None;
        }
        let disk = self.disk_below?(&column.instance)?;
        let is_disk =
            |series: &&Series| source_of(&series.column.metric) == DISK && series.column.instance == disk;
        self.series.iter().find(is_disk).map(|series| series.group)
    }

    /// One counter.
    pub(crate) fn series(&self, at: usize) -> Option<&Series> {
        self.series.get(at)
    }

    /// A counter by its title, such as `disk.queue_length{vda}`.
    pub(crate) fn find(&self, title: &str) -> Option<&Series> {
        self.series.iter().find(|series| series.column.title() == title)
    }

    /// When the latest samples of a series ended, seconds since the start, with their values.
    pub(crate) fn points<'a>(&'a self, series: &'a Series) -> impl Iterator<Item = (f64, f64)> + 'a {
        let skipped = self.ends.len().saturating_sub(series.history.len());
        self.ends.iter().skip(skipped).copied().zip(series.history.iter().copied())
    }

    /// The sources that have counters, in the order of the registry. Volumes are shown with the disks.
    pub(crate) fn sources(&self) -> Vec<&'static str> {
        let has = |source: &str| self.series.iter().any(|series| series.shown_with() == source);
        counters::SOURCES.iter().map(|kind| kind.name).filter(|source| has(source)).collect()
    }

    /// The counters of one source, or of the first screen when there is none: what is fullest first, then the headlines.
    /// A filter looks through all counters on the first screen.
    pub(crate) fn rows(&self, source: Option<&str>, filter: &str) -> Vec<usize> {
        let all = 0..self.series.len();
        let wanted = Filter::new(filter);
        let filtered = |at: &usize| filter.is_empty() || self.series[*at].matches(&wanted);
        let Some(source) = source else {
            let mut rows: Vec<(usize, i64)> = all
                .filter(filtered)
                .filter_map(|at| Some((at, self.rank(&self.series[at], !filter.is_empty())?)))
                .collect();
            rows.sort_by_key(|(_, rank)| *rank);
            return rows.into_iter().map(|(at, _)| at).collect();
        };
        let mut rows: Vec<usize> =
            all.filter(|at| self.series[*at].shown_with() == source).filter(filtered).collect();
        // Devices on which nothing ever happened stand below the others.
        let moving: HashSet<usize> =
            self.series.iter().filter(|series| series.moves()).map(|series| series.group).collect();
        rows.sort_by_key(|at| {
            let series = &self.series[*at];
            let is_below = series.under != series.group;
            let is_still = |group: usize| !moving.contains(&group);
            (
                is_still(series.under),
                series.under,
                is_below,
                is_still(series.group),
                series.group,
                series.place,
            )
        });
        rows
    }

    /// The place of a counter on the first screen, smallest first; none when it is not shown there.
    fn rank(&self, series: &Series, show_all: bool) -> Option<i64> {
        if let Some(saturation) = series.saturation() {
            // In whole percent: smaller differences are no reason to change places. What is not used at all comes last.
            return Some(match (saturation * 100.0).round().clamp(0.0, 1e9) as i64 {
                0 => LAST,
                percent => -percent,
            });
        }
        match HEADLINES.iter().position(|name| *name == series.column.metric.name) {
            _ if show_all => Some(1),
            Some(place) if self.is_headline(series) => Some(1 + place as i64),
            _ => None,
        }
    }

    /// The first screen has no room for devices on which nothing ever happened, nor for single cores beside their sum.
    fn is_headline(&self, series: &Series) -> bool {
        let name = &*series.column.metric.name;
        let (host, instance) = split_instance(&series.column.instance);
        let of_host = || match host.is_empty() {
            true => name.to_string(),
            false => format!("{name}{{{}}}", instance_on(host, "")),
        };
        instance.is_empty() || (series.moves() && self.find(&of_host()).is_none())
    }
}

/// Values as blocks of eight heights, `full` being the highest; a blank where there is no value.
pub(crate) fn blocks(values: impl IntoIterator<Item = f64>, full: f64) -> String {
    const HEIGHTS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    let height = |value: f64| match value {
        value if value.is_nan() => ' ',
        value if full <= 0.0 || value <= 0.0 => HEIGHTS[0],
        value => HEIGHTS[((value / full * 8.0) as usize).min(7)],
    };
    values.into_iter().map(height).collect()
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A sample of the real metrics with made-up values, so that tests see what people see.
    pub(crate) fn sample(values: &[(&str, &str, f64)]) -> Readings {
        let mut readings = Readings::new();
        refill(&mut readings, values);
        readings
    }

    pub(crate) fn refill(readings: &mut Readings, values: &[(&str, &str, f64)]) {
        readings.clear();
        for (name, instance, value) in values {
            let (_, metric) = counters::all_metrics().find(|(_, metric)| metric.name == *name).unwrap();
            let id = readings.column(metric, instance);
            readings.set(id, *value);
        }
    }

    fn titles(board: &Board, rows: &[usize]) -> Vec<String> {
        rows.iter().map(|at| board.series(*at).unwrap().column.title()).collect()
    }

    #[test]
    fn the_fullest_comes_first_and_headlines_follow() {
        let mut board = Board::default();
        board.add(
            1.0,
            1.0,
            &sample(&[
                ("cpu.user_share", "", 0.9),
                ("disk.queue_length", "vda", 31.0),
                ("cpu.busy_share", "", 0.61),
                ("cpu.busy_share", "1", 0.614),
                ("cpu.run_queue_length", "", 2.0),
                ("pressure.io_some_share", "", 0.97),
                ("filesystem.used_share", "/", f64::NAN),
                ("pressure.memory_full_share", "", 0.004),
            ]),
        );
        let rows = board.rows(None, "");
        assert_eq!(
            titles(&board, &rows),
            [
                "pressure.io_some_share",
                "cpu.busy_share",
                "cpu.busy_share{1}",
                "cpu.run_queue_length",
                "disk.queue_length{vda}",
                "pressure.memory_full_share"
            ],
            "equal to a percent keeps its order; what was not read has no place"
        );
        assert_eq!(titles(&board, &board.rows(Some("disk"), "")), ["disk.queue_length{vda}"]);
        assert_eq!(board.sources(), ["cpu", "pressure", "disk", "filesystem"]);
    }

    #[test]
    fn the_first_screen_leaves_out_idle_devices_and_single_cores() {
        let mut board = Board::default();
        let values = [
            ("cpu.steal_share", "", 0.0),
            ("cpu.steal_share", "0", 0.2),
            ("disk.queue_length", "loop0", 0.0),
            ("disk.queue_length", "vda", 0.5),
            ("network.tcp_retransmitted_segments_per_s", "", 0.0),
        ];
        board.add(1.0, 1.0, &sample(&values));
        assert_eq!(
            titles(&board, &board.rows(None, "")),
            ["cpu.steal_share", "disk.queue_length{vda}", "network.tcp_retransmitted_segments_per_s"]
        );
        assert_eq!(board.rows(None, "loop0").len(), 1, "a filter finds everything");
    }

    #[test]
    fn a_source_is_listed_resource_by_resource_in_the_order_of_its_table() {
        let mut board = Board::default();
        let mut readings = sample(&[("disk.queue_length", "vda", 1.0), ("disk.reads_per_s", "vdb", 2.0)]);
        board.add(1.0, 1.0, &readings);
        let more = [
            ("disk.queue_length", "loop0", 0.0),
            ("disk.queue_length", "vdb", 1.0),
            ("disk.reads_per_s", "vda", 2.0),
        ];
        refill(&mut readings, &more);
        board.add(2.0, 1.0, &readings);
        assert_eq!(
            titles(&board, &board.rows(Some("disk"), "")),
            [
                "disk.reads_per_s{vda}",
                "disk.queue_length{vda}",
                "disk.reads_per_s{vdb}",
                "disk.queue_length{vdb}",
                "disk.queue_length{loop0}"
            ]
        );
    }

    #[test]
    fn the_order_follows_the_last_five_samples_not_the_last_one() {
        let mut board = Board::default();
        for (second, busy) in [(1, 0.9), (2, 0.9), (3, 0.9), (4, 0.9), (5, 0.0)] {
            let readings = sample(&[("pressure.io_some_share", "", 0.5), ("cpu.busy_share", "", busy)]);
            board.add(f64::from(second), 1.0, &readings);
        }
        assert_eq!(titles(&board, &board.rows(None, ""))[0], "cpu.busy_share");
        assert_eq!(board.find("cpu.busy_share").unwrap().now(), 0.0);
    }

    #[test]
    fn partitions_and_volumes_stand_under_their_disk() {
        let mut board = Board::new(|volume| match volume {
            "vg-root" => Some("vdb".into()),
            _ => volume.strip_suffix(char::is_numeric).map(str::to_string),
        });
        let one = |name, instance| (name, instance, 1.0);
        board.add(
            1.0,
            1.0,
            &sample(&[
                one("disk.reads_per_s", "vda"),
                one("disk.queue_length", "vda"),
                ("disk.reads_per_s", "vdb", 0.0),
                ("volume.reads_per_s", "vda1", 0.0),
                one("volume.reads_per_s", "vda2"),
                ("volume.queue_length", "vg-root", 0.0),
                one("volume.reads_per_s", "sdz9"),
            ]),
        );
        assert_eq!(
            titles(&board, &board.rows(Some("disk"), "")),
            [
                "disk.reads_per_s{vda}",
                "disk.queue_length{vda}",
                "volume.reads_per_s{vda2}",
                "volume.reads_per_s{vda1}",
                "volume.reads_per_s{sdz9}",
                "disk.reads_per_s{vdb}",
                "volume.queue_length{vg-root}",
            ],
            "of an idle volume below a busy one, and of an idle disk last"
        );
        assert_eq!(board.sources(), ["disk"]);
        assert_eq!(
            titles(&board, &board.rows(None, "")),
            ["disk.queue_length{vda}"],
            "no volume beside its disk"
        );
    }

    #[test]
    fn a_filter_knows_every_name_of_a_counter() {
        let mut board = Board::default();
        board.add(1.0, 1.0, &sample(&[("disk.read_s", "vda", 0.002), ("cpu.busy_share", "", 0.5)]));
        for filter in [
            "Avg. Disk sec",
            r"\PhysicalDisk(*)\Avg. Disk sec/Read",
            r"\\HOST\PhysicalDisk(0 C:)\avg disk sec/read",
            // As far as it was typed.
            r"PhysicalDisk(*)\Avg. Disk sec/R",
            "read_s",
            "disk vda",
            "disk vda read time",
        ] {
            assert_eq!(titles(&board, &board.rows(None, filter)), ["disk.read_s{vda}"], "{filter}");
        }
        assert!(board.rows(None, "no such").is_empty());
    }

    #[test]
    fn the_mean_weighs_as_the_metric_says_and_skips_what_was_not_read() {
        let mut board = Board::default();
        let mut readings = Readings::new();
        for (second, rate, wait) in [(1, 100.0, 0.001), (2, 300.0, 0.005), (3, f64::NAN, f64::NAN)] {
            refill(&mut readings, &[("disk.reads_per_s", "vda", rate), ("disk.read_s", "vda", wait)]);
            board.add(f64::from(second), 1.0, &readings);
        }
        let series = board.find("disk.read_s{vda}").unwrap();
        assert!((series.mean() - 0.004).abs() < 1e-12);
        assert_eq!(series.max, 0.005);
        assert!(series.now().is_nan());
        assert_eq!(series.scale().number(series.now()), "-");
        assert_eq!(board.points(series).count(), 3);
    }

    #[test]
    fn a_counter_that_appears_late_is_plotted_at_its_own_time() {
        let mut board = Board::default();
        let mut readings = sample(&[("cpu.busy_share", "", 0.1)]);
        board.add(1.0, 1.0, &readings);
        refill(&mut readings, &[("cpu.busy_share", "", 0.2), ("disk.queue_length", "sdb", 4.0)]);
        board.add(2.0, 1.0, &readings);
        let late = board.find("disk.queue_length{sdb}").unwrap();
        assert_eq!(board.points(late).collect::<Vec<_>>(), [(2.0, 4.0)]);
    }

    #[test]
    fn history_is_bounded() {
        let mut board = Board::default();
        let readings = sample(&[("cpu.busy_share", "", 0.1)]);
        for second in 0..HISTORY + 10 {
            board.add(second as f64, 1.0, &readings);
        }
        let points: Vec<_> = board.points(board.series(0).unwrap()).collect();
        assert_eq!((points.len(), points[0].0), (HISTORY, 10.0));
    }

    #[test]
    fn names_are_said_without_their_unit() {
        for (metric, instance, expected) in [
            ("disk.read_bytes_per_s", "vda", "disk vda: read bytes"),
            ("disk.read_s", "vda", "disk vda: read time"),
            ("cpu.busy_share", "", "cpu: busy"),
            ("process.busy_cpus", "slapd", "process slapd: busy"),
            ("cpu.load_average", "", "cpu: load average"),
        ] {
            let mut board = Board::default();
            board.add(1.0, 1.0, &sample(&[(metric, instance, 1.0)]));
            let series = board.series(0).unwrap();
            assert_eq!(format!("{}: {}", series.resource(), series.name()), expected);
        }
    }

    #[test]
    fn a_row_has_one_unit_that_suits_its_present_value() {
        for (values, expected) in [
            (&[200e6, 1e6][..], ["1.00 MB/s", "200 MB/s"]),
            (&[200e9, 1e6][..], ["0.00100 GB/s", "200 GB/s"]),
            (&[200e6, 0.0][..], ["0 MB/s", "200 MB/s"]),
        ] {
            let mut board = Board::default();
            for value in values {
                board.add(1.0, 1.0, &sample(&[("disk.read_bytes_per_s", "vda", *value)]));
            }
            let series = board.series(0).unwrap();
            let scale = series.scale();
            assert_eq!([series.now(), series.max].map(|value| scale.with_unit(value)), expected);
        }
    }

    #[test]
    fn blocks_have_eight_heights_and_a_blank() {
        assert_eq!(blocks([0.0, 0.5, 1.0, f64::NAN, 2.0, -1.0], 1.0), "▁▅█ █▁");
        assert_eq!(blocks([0.0, 3.0], 0.0), "▁▁");
    }
}
