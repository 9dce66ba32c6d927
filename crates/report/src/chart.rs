//! Charts: pure functions from data to one `<svg>` element.
//!
//! The light theme is in presentation attributes, so a chart displays without a style sheet, under the
//! strictest content policy, and as a separate file. A page can override them by class:
//! `s0` to `s3` for the hues, `h0` to `h7` for the levels of a heatmap, `ink`, `soft`, `grid` and `area`.

mod axis;
mod dots;
mod draw;
mod forest;
mod heatmap;
mod limit_curve;
mod lines;
mod load_curve;
mod percentiles;
mod strip;
mod style;
mod sweep;
mod timeline;
mod waterfall;

pub use axis::Axis;
pub use dots::{Dot, dots};
pub(crate) use draw::escape;
pub use forest::{ForestRow, forest};
pub use heatmap::{HeatmapData, heatmap};
pub use limit_curve::{LimitCurvePoint, LimitLines, limit_curve};
pub use lines::{bar, sparkline};
pub use load_curve::{LoadCurvePoint, LoadCurveSeries, load_curve};
pub use percentiles::{PercentileCurve, ReferencePoint, percentile_points, percentiles};
pub use strip::{StripRow, strip};
pub use style::{DARK_HEAT, DARK_HUES, HEAT, HUES, SeriesStyle, swatch, swatches};
pub use sweep::{SweepPoint, SweepScales, SweepSeries, sweep};
pub use timeline::{Mark, ShadedSpan, Timeline, TimelineSeries, timeline};
pub use waterfall::{WaterfallBar, waterfall};

/// The left edge of the plotting area of every chart over time, so that charts under one another line up.
pub const TIME_LEFT: f64 = 64.0;
/// Width of a chart in its own units, which are pixels at full size.
pub const WIDTH: f64 = 1000.0;
/// The right edge of the plotting area.
pub const TIME_RIGHT: f64 = 986.0;
