//! From the keys to a run: what they mean together, and what contradicts what.

use model::{Problem, Problems, quantity};

use super::super::missing::{self, Position};
use super::super::pasted::Pasted;
use super::keys::{Keys, is_of_profile};
use super::{
    DiskspdAccess, DiskspdBuffer, DiskspdDistribution, DiskspdRun, DiskspdTarget, DiskspdThreads,
    MIXED_STREAMS_MAX, STREAMS_MAX,
};

/// Direct I/O works in multiples of a sector.
const SECTOR: u64 = 512;

impl Keys {
    /// The run that the keys describe.
    pub(super) fn into_run(
        mut self,
        pasted: Pasted,
        size_of: &dyn Fn(&str) -> Option<u64>,
    ) -> Result<DiskspdRun, Problems> {
        let mut problems = pasted.problems;
        problems.extend(std::mem::take(&mut self.problems));
        self.notes.splice(..0, pasted.notes);
        for (what, help) in self.contradictions() {
            problems.push(Problem::new(what, help));
        }
        let targets = self.find_targets(size_of, &mut problems);
        let block = self.block();
        let access = match (&self.random, self.random_percent) {
            (None, None) => DiskspdAccess::Sequential {
                stride: self.sequential.flatten().unwrap_or(block),
                interlocked: self.is_interlocked && self.threads_of_target() > 1,
            },
            (align, _) => DiskspdAccess::Random { align: align.flatten().unwrap_or(block) },
        };
        self.note_differences(access, targets.len());
        let run = DiskspdRun {
            command_line: pasted.words.join(" "),
            targets,
            block_bytes: block,
            base: self.base.unwrap_or(0),
            end: self.end,
            create: self.create,
            seconds: self.seconds.unwrap_or(10),
            warm_up_s: self.warm_up_s.unwrap_or(5),
            cool_down_s: self.cool_down_s.unwrap_or(0),
            iops_every_ms: self.iops_every_ms,
            threads: match self.threads {
                Some(count) => DiskspdThreads::InAll(count),
                None => DiskspdThreads::PerTarget(self.threads_per_target.unwrap_or(1)),
            },
            outstanding: self.pool_outstanding.or(self.outstanding).unwrap_or(2),
            is_pool: self.pool_outstanding.is_some(),
            access,
            thread_stride: self.thread_stride.unwrap_or(0),
            distribution: self.distribution,
            write_percent: self.write_percent.unwrap_or(0),
            unbuffered: self.unbuffered.unwrap_or(false),
            write_through: self.write_through,
            buffer: self.buffer.unwrap_or(DiskspdBuffer::Default),
            latency: self.latency,
            rate: self.rate,
            think_ms: self.think_ms.unwrap_or(0),
            seed: self.seed.unwrap_or(0),
            verbose: self.verbose,
            profile_only: self.profile_only,
            xml: self.xml,
            pauses: pasted.pauses,
            notes: self.notes,
        };
        if problems.is_empty() {
            for (what, help) in run.impossible() {
                problems.push(Problem::new(what, help));
            }
        }
        problems.or(run)
    }

    /// Threads that use one target.
    fn threads_of_target(&self) -> u64 {
        self.threads.or(self.threads_per_target).unwrap_or(1)
    }

    /// Keys that contradict each other, with what to do.
    fn contradictions(&self) -> Vec<(String, String)> {
        let is_random = self.random.is_some() || self.random_percent.is_some();
        let is_sequential = self.sequential.is_some();
        let several = self.threads_of_target() > 1;
        let depth = self.pool_outstanding.or(self.outstanding).unwrap_or(2);
        let mut found = Vec::new();
        let mut when = |is: bool, what: &str, help: &str| {
            if is {
                found.push((what.to_string(), help.to_string()));
            }
        };
        when(
            is_random && is_sequential,
            "-r and -s contradict each other: random or sequential",
            "keep one of them",
        );
        when(
            is_random && self.thread_stride.is_some(),
            "-T has no meaning for random access",
            "remove -T or -r",
        );
        when(
            self.is_interlocked && self.thread_stride.is_some(),
            "-si and -T contradict each other: one stream, or one for each thread",
            "keep one of them",
        );
        when(
            self.thread_stride.is_some() && !several && !is_random,
            "-T has no effect: one thread uses each target",
            "remove it, or write -t2",
        );
        when(
            self.distribution.is_some() && !is_random,
            "-rd has no meaning for sequential access",
            "add -r, or remove it",
        );
        when(
            self.threads.is_some() && self.threads_per_target.is_some_and(|count| count > 1),
            "-F and -t contradict each other: threads in all, or of each target",
            "keep one of them",
        );
        when(
            self.pool_outstanding.is_some() && self.threads.is_none(),
            "-O counts operations of a thread that -F starts, and -F is missing",
            "write -o, which counts for each thread and target",
        );
        when(
            self.pool_outstanding.is_some() && self.targets.len() > 1,
            "-O over several targets is not supported: a thread would choose among them",
            "write -o, which counts for each thread and target",
        );
        when(
            self.pool_outstanding.is_some() && (self.rate.is_some() || self.think_ms.is_some()),
            "-O contradicts -g and -j",
            "write -o instead of -O",
        );
        when(
            self.burst.is_some() != self.think_ms.is_some(),
            "-i and -j belong together: operations of a burst, and the wait after it",
            "write both, such as -i1 -j10",
        );
        when(
            self.think_ms.is_some() && self.burst.is_some_and(|burst| burst > 1 || depth > 1),
            "bursts of several operations are not supported",
            "write -i1 -o1 -j<ms> for a wait after each operation, or -g<n>i for a rate",
        );
        when(
            self.think_ms.is_some() && self.rate.is_some(),
            "-g and -j contradict each other",
            "keep one of them",
        );
        when(
            self.end.is_some_and(|end| end <= self.base.unwrap_or(0)),
            "the range ends at or before its base",
            "make -f larger than -B",
        );
        when(
            self.targets.is_empty(),
            "no file to read or write",
            "name one at the end, such as /data/plimsoll.dat",
        );
        found
    }

    /// The targets with their sizes.
    fn find_targets(
        &mut self,
        size_of: &dyn Fn(&str) -> Option<u64>,
        problems: &mut Problems,
    ) -> Vec<DiskspdTarget> {
        let mut targets: Vec<DiskspdTarget> = Vec::new();
        for path in std::mem::take(&mut self.targets) {
            if targets.iter().any(|target| target.path == path) {
                problems.push(Problem::new(format!("`{path}` is named twice"), "name each target once"));
            }
            let present = size_of(&path);
            let refused = missing::refuse(&path, Position::Pasted)
                .filter(|_| !self.profile_only && !is_of_profile(&path));
            let is_refused = refused.is_some();
            problems.0.extend(refused.map(|(what, help)| Problem::new(what, help)));
            let bytes = match (self.create, present) {
                (Some(create), Some(present)) if present > create => {
                    self.notes.push(format!(
                        "`{path}` exists with {}: its first {} are used",
                        quantity::bytes(present),
                        quantity::bytes(create)
                    ));
                    create
                }
                (Some(create), _) => create,
                (None, Some(present)) => present,
                (None, None) if self.profile_only => i64::MAX as u64,
                (None, None) if let Some(problem) = missing::no_storage(&path) => {
                    problems.push(problem);
                    0
                }
                (None, None) => {
                    if !is_refused && model::windows::windows_path(&path).is_none() {
                        problems.push(Problem::new(
                            format!("`{path}` is no file or block device that exists"),
                            "add -c<size>, such as -c1G: the file is then created and kept",
                        ));
                    }
                    0
                }
            };
            targets.push(DiskspdTarget { path, bytes });
        }
        targets
    }

    /// Notes about what is accepted and not the same here.
    fn note_differences(&mut self, access: DiskspdAccess, targets: usize) {
        let (several, block) = (self.threads_of_target() > 1, self.block());
        let mut note = |text: &str| self.notes.push(text.into());
        match access {
            DiskspdAccess::Sequential { interlocked: true, .. } => {
                note(
                    "-si: the threads take the blocks in turn, where diskspd gives the next block to whichever is ready",
                );
            }
            DiskspdAccess::Sequential { stride, .. } => {
                if self.is_interlocked {
                    note("-si has no effect: one thread uses each target");
                } else if several && self.thread_stride.is_none() {
                    note(
                        "each thread reads or writes each target from its start on, so the accesses are not sequential; -si gives all threads one stream",
                    );
                }
                if self.thread_stride.is_some() {
                    note(
                        "-T: a thread at the end of the target begins again where it began, in diskspd at the base",
                    );
                }
                if stride > block {
                    note(
                        "-s: each further pass over the target begins one block further, where diskspd repeats the same blocks",
                    );
                }
            }
            DiskspdAccess::Random { .. } => {}
        }
        if let Some(seconds) = self.cool_down_s.filter(|seconds| *seconds > 0) {
            note(&format!("-C{seconds} has no effect: the load ends with the measured time"));
        }
        if self.rate.is_some() {
            note(
                "-g: operations begin on schedule; where the disk falls behind, more than -o are in flight, and a doubt says so",
            );
        }
        if self.threads.is_some() && targets > 1 {
            note(
                "-F: each thread and target has a thread of its own here, with its own operations in flight",
            );
        }
    }
}

impl DiskspdRun {
    /// What cannot be driven although no key contradicts another.
    fn impossible(&self) -> Vec<(String, String)> {
        let mut found = Vec::new();
        let streams = self.streams();
        let is_mixed = self.write_percent > 0 && self.write_percent < 100;
        let most = if is_mixed { MIXED_STREAMS_MAX } else { STREAMS_MAX };
        if streams.len() > most {
            found.push((
                format!(
                    "{} threads on targets are too many: the figures of at most {most} are kept apart",
                    streams.len()
                ),
                "use fewer threads with more operations in flight (-o), or `plimsoll disk FILE --threads N`"
                    .into(),
            ));
        }
        if self.unbuffered {
            let stride = self.stride().unwrap_or(0);
            // Said once where it is the block.
            let align = match self.access {
                DiskspdAccess::Random { align } if align != self.block_bytes => align,
                _ => 0,
            };
            for (key, bytes) in [
                ("-b", self.block_bytes),
                ("-B", self.base),
                ("-r", align),
                ("-s", stride),
                ("-T", self.thread_stride),
            ] {
                if !bytes.is_multiple_of(SECTOR) {
                    found.push((
                        format!("{key} of {bytes} bytes: unbuffered I/O (-Su, -Sh) works in multiples of 512 bytes"),
                        "round it".into(),
                    ));
                }
            }
        }
        for stream in streams.iter().take(most) {
            let (first, bytes) = self.range(*stream);
            if bytes < self.block_bytes {
                let path = &self.targets[stream.target].path;
                found.push((
                    format!("`{path}`: there is no block of {} bytes from byte {first} on", self.block_bytes),
                    "make the file larger (-c), or its range (-B, -f, -T)".into(),
                ));
                break;
            }
        }
        for (target, named) in self.targets.iter().enumerate() {
            let bytes = self.end_of(target).saturating_sub(self.base);
            if let Some(DiskspdDistribution::Absolute(ranges)) = &self.distribution
                && !has_operations(ranges, bytes, self.block_bytes)
            {
                found.push((
                    format!("-rdabs: `{}` ends before the first range that has operations", named.path),
                    "make the file larger (-c), or the ranges smaller".into(),
                ));
            }
        }
        found
    }
}

/// Whether a target of so many bytes has a part of a range with operations.
fn has_operations(ranges: &[(u64, u64)], bytes: u64, block: u64) -> bool {
    let mut first = 0_u64;
    ranges.iter().any(|(share, length)| {
        let is_within = first.saturating_add(block) <= bytes;
        first = first.saturating_add(*length);
        is_within && *share > 0
    })
}
