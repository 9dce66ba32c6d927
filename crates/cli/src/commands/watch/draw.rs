//! The screen on a terminal, from 40 columns and 8 rows up. Colour only repeats what a sign or a number says.

use model::{SourceState, SourceStatus};
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::symbols::Marker;
use ratatui::text::{Line, Span};
use ratatui::widgets::{Axis, Chart, Clear, Dataset, GraphType, Paragraph};
use report::text::{Scale, shortened, wrap};

use super::board::{Board, Series, blocks};
use super::screen::{Screen, View};

/// From this saturation on a row is marked.
const NEARLY_FULL: f64 = 0.9;
const HIGH: f64 = 0.7;

const BOLD: Style = Style::new().add_modifier(Modifier::BOLD);
const DIM: Style = Style::new().add_modifier(Modifier::DIM);
const CHOSEN: Style = Style::new().add_modifier(Modifier::REVERSED);

/// What is said about the watch itself.
pub(crate) struct Surroundings<'a> {
    /// The host in a few words.
    pub(crate) host: &'a str,
    /// How often, and since when.
    pub(crate) beat: String,
    /// Every source and whether it could be read.
    pub(crate) sources: &'a [SourceStatus],
    /// What the sources leave out.
    pub(crate) limits: &'a [String],
    /// The hosts side by side, with a head; empty if only this one is watched.
    pub(crate) hosts: Vec<String>,
    /// False under `NO_COLOR`.
    pub(crate) color: bool,
}

/// Draws everything.
pub(crate) fn draw(frame: &mut Frame<'_>, screen: &mut Screen, live: &Board, around: &Surroundings<'_>) {
    // They are above all counters, where these have at least the rest of a small terminal.
    let is_overview = screen.view == View::List && screen.source.is_none() && screen.filter.is_empty();
    let most = usize::from(frame.area().height / 2);
    let hosts = if is_overview { around.hosts.len().min(most) } else { 0 };
    let [head, tabs, compared, body, about, foot] = Layout::vertical([
        Constraint::Length(1),
        Constraint::Length(1),
        Constraint::Length(hosts as u16),
        Constraint::Min(1),
        Constraint::Length(4),
        Constraint::Length(1),
    ])
    .areas(frame.area());
    frame.render_widget(header(screen, around, head.width), head);
    frame.render_widget(tab_line(screen, screen.board(live), tabs.width), tabs);
    frame.render_widget(side_by_side(&around.hosts[..hosts]), compared);
    match screen.view {
        View::List => list(frame, body, screen, live, around.color),
        View::Plot => plot(frame, body, screen, live, around.color),
        View::Help => help(frame, body, around),
    }
    if screen.view != View::Help {
        frame.render_widget(description(screen, live, about.width), about);
    }
    frame.render_widget(footer(screen, around, foot.width), foot);
}

fn header<'a>(screen: &Screen, around: &Surroundings<'_>, width: u16) -> Paragraph<'a> {
    let right = match screen.paused.is_some() {
        true => format!("PAUSED · {}", around.beat),
        false => around.beat.clone(),
    };
    let room = usize::from(width).saturating_sub(right.chars().count() + 3);
    let left = shortened(&format!("plimsoll watch · {}", around.host), room);
    let gap = usize::from(width).saturating_sub(left.chars().count() + right.chars().count() + 2);
    Paragraph::new(Line::from(vec![
        Span::raw(" "),
        Span::styled(left, BOLD),
        Span::raw(" ".repeat(gap)),
        Span::raw(right),
    ]))
}

fn side_by_side<'a>(hosts: &[String]) -> Paragraph<'a> {
    let line =
        |(at, text): (usize, &String)| Line::styled(format!(" {text}"), if at == 0 { DIM } else { BOLD });
    Paragraph::new(hosts.iter().enumerate().map(line).collect::<Vec<Line<'a>>>())
}

fn tab_line<'a>(screen: &Screen, board: &Board, width: u16) -> Paragraph<'a> {
    let tabs = Screen::tabs(board);
    let word = |tab: &Option<&str>| tab.unwrap_or("fullest").to_string();
    let needed: usize = tabs.iter().map(|tab| word(tab).len() + 2).sum();
    let mut spans = Vec::new();
    for tab in &tabs {
        let chosen = *tab == screen.source.as_deref();
        // Too many for the width: then the chosen one alone, with how many there are.
        if needed + 1 > usize::from(width) {
            if chosen {
                spans.push(Span::raw(format!(" ‹ {} › of {} groups", word(tab), tabs.len())));
            }
            continue;
        }
        let text = if chosen { format!("[{}]", word(tab)) } else { format!(" {} ", word(tab)) };
        spans.push(Span::styled(text, if chosen { BOLD } else { DIM }));
    }
    Paragraph::new(Line::from(spans))
}

/// Widths of the columns of the list.
struct Widths {
    resource: usize,
    name: usize,
    now: usize,
    number: usize,
    history: usize,
}

impl Widths {
    fn of(rows: &[&Series], width: usize) -> Self {
        let longest = |words: &dyn Fn(&Series) -> String, least: usize, most: usize| {
            rows.iter().map(|series| words(series).chars().count()).max().unwrap_or(0).clamp(least, most)
        };
        let (most_resource, most_name) = if width >= 100 { (28, 34) } else { (16, 22) };
        let resource = longest(&Series::resource, 8, most_resource);
        let name = longest(&Series::name, 6, most_name);
        let (now, number) = (11, 9);
        let history = width.saturating_sub(1 + resource + 2 + name + now + 2 * number + 2);
        Widths { resource, name, now, number, history }
    }
}

fn fitted(text: &str, width: usize) -> String {
    format!("{:<width$}", shortened(text, width))
}

fn list(frame: &mut Frame<'_>, area: Rect, screen: &mut Screen, live: &Board, color: bool) {
    let rows = screen.rows(screen.board(live));
    let place = screen.place(screen.board(live), &rows);
    screen.scroll(place, rows.len(), usize::from(area.height).saturating_sub(1));
    let board = screen.board(live);
    let all: Vec<&Series> = rows.iter().filter_map(|at| board.series(*at)).collect();
    let widths = Widths::of(&all, usize::from(area.width));
    let mut lines = vec![Line::styled(
        format!(
            " {}  {}{:>now$}{:>number$}{:>number$}  {}",
            fitted("resource", widths.resource),
            fitted("metric", widths.name),
            "now",
            "mean",
            "max",
            fitted("history", widths.history),
            now = widths.now,
            number = widths.number,
        ),
        DIM,
    )];
    if rows.is_empty() {
        let text = match screen.filter.is_empty() {
            true => " nothing has been read yet".to_string(),
            false => format!(" no counter has `{}` in any of its names; esc shows all again", screen.filter),
        };
        lines.push(Line::raw(text));
    }
    for (at, series) in all.iter().enumerate().skip(screen.top).take(screen.room) {
        lines.push(row(series, &widths, at == place, color));
    }
    frame.render_widget(Paragraph::new(lines), area);
}

fn row<'a>(series: &Series, widths: &Widths, chosen: bool, color: bool) -> Line<'a> {
    let scale = series.scale();
    let saturation = series.saturation().unwrap_or(0.0);
    let level = match saturation {
        _ if !color => Style::new(),
        s if s >= NEARLY_FULL => Style::new().fg(Color::Red),
        s if s >= HIGH => Style::new().fg(Color::Yellow),
        _ => Style::new(),
    };
    let mark = if saturation >= NEARLY_FULL { "!" } else { " " };
    let text = format!(
        "{mark}{}  {}{:>now$}{:>number$}{:>number$}  ",
        fitted(&series.resource(), widths.resource),
        fitted(&series.name(), widths.name),
        with_unit(&scale, series.now()),
        scale.number(series.mean()),
        scale.number(series.max),
        now = widths.now,
        number = widths.number,
    );
    let history = blocks(series.latest(widths.history), top_of(series));
    let style = if chosen { level.patch(CHOSEN) } else { level };
    Line::from(vec![Span::styled(text, style), Span::styled(history, level)])
}

/// A value with its unit, and `- ms` for one that was not read: the numbers beside it need the unit.
fn with_unit(scale: &Scale, value: f64) -> String {
    match (value.is_nan(), scale.unit) {
        (true, "/s") => "-/s".into(),
        (true, unit) if !unit.is_empty() => format!("- {unit}"),
        _ => scale.with_unit(value),
    }
}

/// The value drawn at full height: where the resource is full, else the largest so far.
fn top_of(series: &Series) -> f64 {
    match series.column.metric.saturated_at {
        full if full > 0.0 => full.max(series.max),
        _ if series.max > 0.0 => series.max,
        _ => 1.0,
    }
}

/// What the chosen counter is, under each of its names.
fn description<'a>(screen: &Screen, live: &Board, width: u16) -> Paragraph<'a> {
    let width = usize::from(width).saturating_sub(2);
    let mut lines = vec![Line::styled("─".repeat(width + 2), DIM)];
    if let Some(series) = screen.chosen(screen.board(live)) {
        let metric = &series.column.metric;
        let mut about = wrap(&format!("{}: {}", series.column.title(), metric.about), width);
        if about.len() > 2 {
            about.truncate(2);
            about[1] = shortened(&format!("{}…", about[1]), width);
        }
        let names = [("Perfmon", &metric.perfmon), ("sar", &metric.sar)]
            .iter()
            .filter(|(_, name)| !name.is_empty())
            .map(|(word, name)| format!("{word}: {name}"))
            .collect::<Vec<_>>();
        let names = match names.is_empty() {
            true => "no counter of Perfmon or sar shows this".to_string(),
            false => names.join(" · "),
        };
        lines.extend(about.into_iter().map(|line| Line::raw(format!(" {line}"))));
        lines.push(Line::styled(format!(" {}", shortened(&names, width)), DIM));
    }
    Paragraph::new(lines)
}

fn footer<'a>(screen: &Screen, around: &Surroundings<'_>, width: u16) -> Paragraph<'a> {
    if screen.typing {
        return Paragraph::new(format!(" / {}▏  enter keeps it, esc clears it", screen.filter));
    }
    let keys = match screen.view {
        View::List => "? help  q quit  enter plot  / filter  ↑↓ choose  ←→ group  p pause",
        View::Plot => "? help  q quit  enter back  ↑↓ next counter  p pause",
        View::Help => "q quit  esc back",
    };
    let filter = match screen.filter.is_empty() {
        true => String::new(),
        false => format!("filter `{}` · ", screen.filter),
    };
    let failed = unread(around.sources);
    let missing = match failed.len() {
        0 => around.limits.first().map_or(String::new(), |limit| format!("{} · ", shortened(limit, 40))),
        _ => {
            let names: Vec<&str> = failed.iter().map(|(source, _)| *source).collect();
            format!("not read: {} · ", names.join(", "))
        }
    };
    Paragraph::new(shortened(&format!(" {missing}{filter}{keys}"), usize::from(width)))
}

/// The sources that could not be read, each with the reason.
fn unread(sources: &[SourceStatus]) -> Vec<(&str, String)> {
    sources
        .iter()
        .filter_map(|status| {
            let why = match &status.state {
                SourceState::Active => return None,
                SourceState::Unavailable(why) => why.clone(),
                SourceState::Failing { samples, why } => {
                    format!("{samples} samples without it, lately: {why}")
                }
            };
            Some((status.source.as_str(), why))
        })
        .collect()
}

fn help(frame: &mut Frame<'_>, area: Rect, around: &Surroundings<'_>) {
    let width = usize::from(area.width).saturating_sub(4);
    let mut lines: Vec<Line<'_>> = [
        "↑ ↓ PgUp PgDn Home End   choose a counter",
        "← →                      the next group: all resources with the fullest first, then by source",
        "enter                    plot the chosen counter over time, and back",
        "/                        show only counters with this in their name, Perfmon or sar name",
        "p                        hold the picture; watching and recording go on",
        "q  Ctrl-C                quit",
        "",
        "`!` marks what is 90 % full or more. `-` was not read, which is not the same as zero.",
        "mean and max are since the start. A device on which nothing happened is not on the first screen.",
        "",
    ]
    .iter()
    .map(|text| Line::raw(format!("  {}", shortened(text, width))))
    .collect();
    let failed = unread(around.sources);
    let said = failed
        .iter()
        .map(|(source, why)| format!("not read: {source}: {why}"))
        .chain(around.limits.iter().map(|limit| format!("left out: {limit}")));
    for text in said {
        lines.extend(wrap(&text, width).into_iter().map(|line| Line::raw(format!("  {line}"))));
    }
    if failed.is_empty() {
        lines.push(Line::raw("  every requested source is read"));
    }
    frame.render_widget(Clear, area);
    frame.render_widget(Paragraph::new(lines), area);
}

/// One counter over time.
fn plot(frame: &mut Frame<'_>, area: Rect, screen: &Screen, live: &Board, color: bool) {
    let board = screen.board(live);
    let Some(series) = screen.chosen(board) else { return };
    let [title, chart] = Layout::vertical([Constraint::Length(1), Constraint::Min(1)]).areas(area);
    let scale = series.scale();
    let head = format!(
        " {}   now {}   mean {}   max {}",
        series.column.title(),
        scale.with_unit(series.now()),
        scale.with_unit(series.mean()),
        scale.with_unit(series.max)
    );
    frame
        .render_widget(Paragraph::new(Line::styled(shortened(&head, usize::from(title.width)), BOLD)), title);

    let runs = unbroken(board.points(series));
    let (begin, end) =
        match (runs.first().and_then(|run| run.first()), runs.last().and_then(|run| run.last())) {
            (Some(first), Some(last)) => (first.0.min(last.0 - 1.0), last.0),
            _ => {
                frame.render_widget(Paragraph::new("  no value yet"), chart);
                return;
            }
        };
    let largest = runs.iter().flatten().map(|point| point.1).fold(0.0, f64::max);
    let top = axis_end(series.column.metric.saturated_at.max(largest), &scale);
    let mut style = Style::new();
    if color {
        style = style.fg(Color::Cyan);
    }
    let datasets = runs
        .iter()
        .map(|run| {
            // A line needs two points; a value between two gaps is a dot.
            let kind = if run.len() > 1 { GraphType::Line } else { GraphType::Scatter };
            Dataset::default().marker(Marker::Braille).graph_type(kind).style(style).data(run)
        })
        .collect();
    let ago = |at: f64| model::quantity::duration(((end - at).round().max(1.0) * 1e9) as u64);
    let x_axis = Axis::default().bounds([begin, end]).style(DIM).labels([
        format!("{} ago", ago(begin)),
        format!("{} ago", ago((begin + end) / 2.0)),
        "now".to_string(),
    ]);
    let y_axis = Axis::default()
        .bounds([0.0, top])
        .style(DIM)
        .labels([0.0, 0.5, 1.0].map(|share| label(&scale, top * share)));
    frame.render_widget(Chart::new(datasets).x_axis(x_axis).y_axis(y_axis).legend_position(None), chart);
}

fn label(scale: &Scale, value: f64) -> String {
    match scale.unit {
        "" | "%" => scale.tick(value),
        "/s" => format!("{}/s", scale.tick(value)),
        unit => format!("{} {unit}", scale.tick(value)),
    }
}

/// The stretches of time in which there was a value at every sample. A gap is not bridged: nothing is known about it.
fn unbroken(points: impl Iterator<Item = (f64, f64)>) -> Vec<Vec<(f64, f64)>> {
    let mut runs: Vec<Vec<(f64, f64)>> = Vec::new();
    let mut open = false;
    for point in points {
        if point.1.is_nan() {
            open = false;
            continue;
        }
        match runs.last_mut() {
            Some(run) if open => run.push(point),
            _ => runs.push(vec![point]),
        }
        open = true;
    }
    runs
}

/// The end of an axis: 1, 2, 4, 5 or 10 times a power of ten in the unit that is shown, so that its half is round too.
fn axis_end(largest: f64, scale: &Scale) -> f64 {
    let shown = largest / scale.divisor;
    if !(shown.is_finite() && shown > 0.0) {
        return scale.divisor;
    }
    let power = 10f64.powf(shown.log10().floor());
    let step = [1.0, 2.0, 4.0, 5.0, 10.0].into_iter().find(|step| step * power >= shown * 0.999_999);
    step.unwrap_or(10.0) * power * scale.divisor
}

#[cfg(test)]
mod tests {
    use model::Readings;
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;
    use ratatui::crossterm::event::{KeyCode, KeyEvent};

    use super::super::board::tests::{refill, sample};
    use super::*;

    /// A busy database host, with a disk that is full from the sixth second on.
    fn board() -> Board {
        let mut board = Board::new(|_| Some("nvme0n1".into()));
        let mut readings = Readings::new();
        for second in 0..40 {
            let full = second > 5;
            let wave = f64::from(second % 8) / 8.0;
            refill(
                &mut readings,
                &[
                    ("cpu.busy_share", "", 0.35 + wave / 4.0),
                    ("cpu.busy_share", "0", 0.40),
                    ("cpu.busy_share", "1", 0.30 + wave / 2.0),
                    ("cpu.run_queue_length", "", wave),
                    ("cpu.steal_share", "", 0.0),
                    ("cpu.context_switches_per_s", "", 61_234.0),
                    ("pressure.cpu_some_share", "", 0.031),
                    ("pressure.memory_some_share", "", if second == 39 { f64::NAN } else { 0.0 }),
                    ("pressure.io_some_share", "", if full { 0.97 } else { 0.1 }),
                    ("memory.available_bytes", "", 12.3 * 1_073_741_824.0),
                    ("disk.reads_per_s", "nvme0n1", if full { 50_000.0 } else { 1000.0 }),
                    ("disk.transfers_per_s", "nvme0n1", if full { 50_000.0 } else { 1000.0 }),
                    ("disk.read_bytes_per_s", "nvme0n1", if full { 204.8e6 } else { 4.1e6 }),
                    ("disk.transfer_s", "nvme0n1", if full { 0.000_64 } else { 0.000_08 }),
                    ("disk.queue_length", "nvme0n1", if full { 31.8 } else { 0.1 }),
                    ("disk.utilization_share", "nvme0n1", if full { 0.998 } else { 0.07 }),
                    ("volume.reads_per_s", "nvme0n1p2", if full { 50_000.0 } else { 1000.0 }),
                    ("volume.read_s", "nvme0n1p2", if full { 0.000_64 } else { 0.000_08 }),
                    ("volume.reads_per_s", "vg-root", 12.5),
                    ("network.received_bytes_per_s", "eth0", 1.5e6 * (1.0 + wave)),
                    ("network.tcp_retransmitted_segments_per_s", "", 0.0),
                    ("filesystem.used_share", "/", 0.71),
                    ("filesystem.used_share", "/var/lib/postgresql/data", 0.93),
                ],
            );
            board.add(f64::from(second + 1), 1.0, &readings);
        }
        board
    }

    fn shown(width: u16, height: u16, keys: &[KeyCode]) -> String {
        let (mut screen, board) = (Screen::new(), board());
        let sources = [
            SourceStatus { source: "cpu".into(), state: SourceState::Active },
            SourceStatus {
                source: "process".into(),
                state: SourceState::Unavailable("no process is named slapd".into()),
            },
        ];
        let around = Surroundings {
            host: "db-07 · 2 CPUs · 24.0 GiB",
            beat: "every 1s · 40s".into(),
            sources: &sources,
            limits: &[],
            hosts: Vec::new(),
            color: true,
        };
        let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
        terminal.draw(|frame| draw(frame, &mut screen, &board, &around)).unwrap();
        for key in keys {
            screen.key(KeyEvent::from(*key), &board);
            terminal.draw(|frame| draw(frame, &mut screen, &board, &around)).unwrap();
        }
        terminal.backend().to_string()
    }

    #[test]
    fn the_first_screen() {
        insta::assert_snapshot!("first_80x24", shown(80, 24, &[]));
        insta::assert_snapshot!("first_120x40", shown(120, 40, &[KeyCode::Down]));
    }

    #[test]
    fn hosts_are_above_the_counters_of_the_first_screen() {
        let mut readings = Readings::new();
        refill(
            &mut readings,
            &[
                ("cpu.busy_share", "", 0.2),
                ("cpu.busy_share", "//db1", 0.98),
                ("disk.utilization_share", "//db1/sda", 0.4),
                ("cpu.busy_share", "//win1:9182", 0.5),
            ],
        );
        let mut board = Board::new(|_| None);
        board.add(0.0, 0.0, &readings);
        board.add(1.0, 1.0, &readings);
        let around = Surroundings {
            host: "load-01 · 2 CPUs",
            beat: "every 1s · 1s".into(),
            sources: &[],
            limits: &[],
            hosts: super::super::rows::side_by_side(&readings).unwrap(),
            color: true,
        };
        let mut shown = String::new();
        for (width, height) in [(120, 20), (80, 8)] {
            let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
            terminal.draw(|frame| draw(frame, &mut Screen::new(), &board, &around)).unwrap();
            shown += &terminal.backend().to_string();
        }
        insta::assert_snapshot!("hosts", shown);
    }

    #[test]
    fn one_source() {
        insta::assert_snapshot!("disk_80x24", shown(80, 24, &[KeyCode::Left, KeyCode::Left, KeyCode::Left]));
    }

    #[test]
    fn a_counter_over_time() {
        insta::assert_snapshot!("plot_80x24", shown(80, 24, &[KeyCode::Enter]));
        insta::assert_snapshot!(
            "plot_120x40",
            shown(120, 40, &[KeyCode::Down, KeyCode::Down, KeyCode::Down, KeyCode::Down, KeyCode::Enter])
        );
    }

    #[test]
    fn help_and_filter() {
        insta::assert_snapshot!("help_80x24", shown(80, 24, &[KeyCode::Char('?')]));
        let typed = "/Avg. Disk".chars().map(KeyCode::Char).collect::<Vec<_>>();
        insta::assert_snapshot!("filter_80x24", shown(80, 24, &typed));
    }

    #[test]
    fn any_size_can_be_drawn() {
        for (width, height) in [(1, 1), (10, 3), (40, 8), (79, 5), (500, 100)] {
            for keys in [&[][..], &[KeyCode::Enter], &[KeyCode::Char('?')], &[KeyCode::Char('/')]] {
                shown(width, height, keys);
            }
        }
    }

    #[test]
    fn a_gap_is_not_bridged() {
        let points = [(1.0, 1.0), (2.0, 2.0), (3.0, f64::NAN), (4.0, 4.0)];
        assert_eq!(unbroken(points.into_iter()), [vec![(1.0, 1.0), (2.0, 2.0)], vec![(4.0, 4.0)]]);
        assert!(unbroken([(1.0, f64::NAN)].into_iter()).is_empty());
    }

    #[test]
    fn an_axis_ends_at_a_round_number() {
        let scale = report::text::Quantity::BytesPerSecond.scale([204.8e6]);
        for (largest, expected) in [(204.8e6, 400e6), (1e6, 1e6), (4.1e6, 5e6), (0.0, 1e6), (f64::NAN, 1e6)] {
            assert!((axis_end(largest, &scale) / expected - 1.0).abs() < 1e-9, "{largest}");
        }
    }

    #[test]
    fn an_empty_board_is_no_zero() {
        let mut board = Board::default();
        board.add(1.0, 0.0, &sample(&[("cpu.busy_share", "", f64::NAN)]));
        assert!(board.rows(None, "").is_empty());
    }
}
