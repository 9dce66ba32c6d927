//! The data types of Plimsoll: experiment, plan, trial, run, reading, finding, verdict.
//!
//! This crate performs no I/O and reads no clock. Run directories, analysis and reports use only these types,
//! so that the crates for measuring, recording, judging and reporting do not depend on each other.
#![forbid(unsafe_code)]

pub mod audit;
pub mod claim;
pub mod copy_time;
pub mod cost;
pub mod curve;
pub mod design;
pub mod drain;
pub mod experiment;
pub mod figure;
pub mod finding;
pub mod gate;
pub mod goal;
pub mod import_time;
pub mod interval;
pub mod io_limits;
pub mod launch;
pub mod limit;
pub mod load;
pub mod metric;
pub mod metrics;
pub mod mix_price;
pub mod neighbour;
pub mod operation_io;
pub mod problem;
pub mod quantity;
pub mod random;
pub mod resource;
pub mod result;
pub mod run;
pub mod secret;
pub mod sensitivity;
pub mod setting;
pub mod sizing;
pub mod steady;
pub mod steps;
pub mod study;
pub mod verdict;
pub mod windows;
pub mod wire;
pub mod write_cache;

pub use claim::Claim;
pub use copy_time::{BytesGoal, CopyTime, CopyTimeDocument};
pub use design::{Change, Decision, Design, DesignKind, Plan, Probe, Treatment, Trial};
pub use experiment::{Experiment, Target, Variation, Vocabulary, WorkloadSpec};
pub use finding::{Comparison, Detector, Doubt, DoubtKind, Estimate, Evidence, Finding, FindingKind};
pub use gate::{Gate, GateAnswer, GateResult};
pub use goal::Goal;
pub use import_time::{EntriesGoal, ImportTime, ImportTimeDocument};
pub use interval::{Due, Event, EventKind, Interval, LatencySummary, Phase, Statistics};
pub use io_limits::IoLimits;
pub use launch::Launch;
pub use limit::{LimitResult, Search};
pub use load::{Load, Process, Profile, Shape, WarmUp};
pub use metric::{Column, ColumnId, MetricInfo, MetricKind, Readings, Unit};
pub use mix_price::MixPrice;
pub use problem::{Place, Problem, Problems};
pub use resource::{HostResource, Owner, Resource, ResourceClass};
pub use result::{Operation, ResultDocument};
pub use run::{Ending, ErrorCount, Host, PROOF_SHARE, PhaseSpan, Run, Settable, SourceState, SourceStatus};
pub use secret::{Placeholder, Secret, SecretParts, WhyHidden, mask, mask_written};
pub use setting::{Choice, Key, Level, PathUse, Setting, SettingInfo, SettingKind, SettingPath, Settings};
pub use sizing::{SizeGoal, SizingDocument};
pub use steps::{ExchangeTrace, TrialSteps};
pub use study::{HeatColumn, OperationHistograms, ReadingTable, RunRecord, Study, Times};
pub use verdict::{Missing, Verdict};
pub use write_cache::{CachePlace, CopyResult, DrainResult, WriteCache};

/// Nanoseconds, on the run's own clock unless the name says otherwise.
pub type Nanos = u64;

/// Nanoseconds in one second.
pub const SECOND: Nanos = 1_000_000_000;

/// Nanoseconds in one millisecond.
pub const MILLISECOND: Nanos = 1_000_000;
