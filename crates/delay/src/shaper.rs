//! When a byte is due: a pure function of the settings, the time of its arrival, and a seeded random source.
//!
//! The bytes that arrive together in one direction of a connection are an arrival. [`Shaper::arrive`] draws its delay, and
//! [`Shaper::next`] cuts it into pieces with the times at which they are due. The order is:
//!
//! 1. latency and jitter, drawn for each arrival;
//! 2. losses, drawn for each segment: the segment and all after it wait for its retransmission;
//! 3. order: no piece is due before the previous one;
//! 4. stalls and the bandwidth cap, which therefore hold for the bytes that leave.

use model::Nanos;
use model::random::Random;

use crate::distribution::normal;
use crate::settings::{PathSettings, RETRANSMISSION_NS, SEGMENT_BYTES};

/// Most losses of one segment in succession. The last of its retransmission timeouts is then 102 s.
const LOSSES_MAX: u32 = 10;

/// What follows a piece.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// The direction is closed (FIN); later bytes are discarded.
    Close,
    /// The connection is reset in both directions.
    Reset,
}

/// Bytes that are due at the same time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece {
    /// How many; 0 only before an end.
    pub bytes: usize,
    /// When they are due.
    pub due_ns: Nanos,
    /// What follows them; no piece comes after an end.
    pub end: Option<End>,
    /// Lost transmissions of its first segment.
    pub losses: u32,
}

/// The state of one direction of one connection.
#[derive(Clone, Debug)]
pub struct Shaper {
    random: Random,
    /// The last standard normal value, for correlated delays.
    normal: Option<f64>,
    /// Earliest due time of the current arrival.
    base_ns: Nanos,
    /// Due time of the last piece.
    last_due_ns: Nanos,
    /// The token bucket: bytes that may pass at `tokens_at_ns`. None before its first piece.
    tokens: Option<f64>,
    tokens_at_ns: Nanos,
    /// Bytes of the current segment that are not passed yet.
    segment_left: usize,
    /// Good segments before the next loss and before the next reset, with the probabilities they were drawn for.
    to_loss: Draw,
    to_reset: Draw,
    /// Bytes of all pieces.
    passed_bytes: u64,
}

/// Trials until an event of a given probability.
#[derive(Clone, Copy, Debug, Default)]
struct Draw {
    probability: f64,
    left: u64,
}

impl Draw {
    /// Draws again if the probability changed.
    fn update(&mut self, probability: f64, random: &mut Random) {
        if self.probability != probability {
            *self = Draw { probability, left: geometric(probability, random) };
        }
    }

    /// One trial: whether the event happens.
    fn happens(&mut self, random: &mut Random) -> bool {
        if self.probability <= 0.0 {
            return false;
        }
        match self.left.checked_sub(1) {
            Some(left) => self.left = left,
            None => {
                self.left = geometric(self.probability, random);
                return true;
            }
        }
        false
    }
}

/// Trials without the event before the first one with it.
fn geometric(probability: f64, random: &mut Random) -> u64 {
    if probability <= 0.0 {
        return u64::MAX;
    }
    // A cast saturates; a probability of 1 gives 0 / -infinity.
    (random.open_unit().ln() / (1.0 - probability).ln()) as u64
}

impl Shaper {
    /// The start of a stream of bytes. Its random numbers are those of a stream of a seed.
    pub fn new(seed: u64, stream: u64) -> Shaper {
        Shaper {
            random: Random::stream(seed, stream),
            normal: None,
            base_ns: 0,
            last_due_ns: 0,
            tokens: None,
            tokens_at_ns: 0,
            segment_left: 0,
            to_loss: Draw::default(),
            to_reset: Draw::default(),
            passed_bytes: 0,
        }
    }

    /// Bytes arrive: draws their delay. [`Shaper::next`] follows until all of them are in a piece.
    pub fn arrive(&mut self, settings: &PathSettings, now_ns: Nanos) {
        self.base_ns = now_ns.saturating_add(self.delay_ns(settings));
        self.segment_left = 0;
        self.to_loss.update(settings.loss, &mut self.random);
        self.to_reset.update(settings.reset, &mut self.random);
    }

    fn delay_ns(&mut self, settings: &PathSettings) -> Nanos {
        if settings.jitter_ns == 0 {
            return settings.latency_ns;
        }
        let fresh = normal(&mut self.random);
        let rho = settings.correlation;
        // The weights leave a standard normal value, so the distribution of the delay does not depend on the correlation.
        let value = self.normal.map_or(fresh, |last| rho * last + (1.0 - rho * rho).sqrt() * fresh);
        self.normal = Some(value);
        settings.distribution.delay_ns(settings.latency_ns, settings.jitter_ns, value)
    }

    /// The next piece of the arrival, of which `available` bytes are not in a piece yet.
    pub fn next(&mut self, settings: &PathSettings, available: usize) -> Piece {
        let mut losses = 0;
        if self.segment_left == 0 && available > 0 {
            self.segment_left = SEGMENT_BYTES;
            if self.to_reset.happens(&mut self.random) {
                return self.ended(settings, 0, End::Reset);
            }
            if self.to_loss.happens(&mut self.random) {
                losses = 1 + self.repeated_losses(settings.loss);
                let stall_ns = RETRANSMISSION_NS * ((1 << losses) - 1);
                self.base_ns = self.base_ns.max(self.last_due_ns).saturating_add(stall_ns);
            }
        }
        let mut bytes = available;
        if settings.bandwidth_bytes_per_s.is_some() {
            bytes = bytes.min(settings.burst_bytes() as usize);
        }
        let mut end = None;
        for (after, what) in
            [(settings.reset_after_bytes, End::Reset), (settings.close_after_bytes, End::Close)]
        {
            let left = after.map_or(u64::MAX, |after| after.saturating_sub(self.passed_bytes));
            if left <= bytes as u64 {
                bytes = left as usize;
                end = Some(what);
            }
        }
        let whole = self.good_segments(bytes);
        if whole < bytes {
            (bytes, end) = (whole, None);
        }
        match end {
            Some(end) => Piece { losses, ..self.ended(settings, bytes, end) },
            None => Piece { bytes, due_ns: self.due_ns(settings, bytes), end: None, losses },
        }
    }

    fn ended(&mut self, settings: &PathSettings, bytes: usize, end: End) -> Piece {
        Piece { bytes, due_ns: self.due_ns(settings, bytes), end: Some(end), losses: 0 }
    }

    /// Bytes pass without a delay, without [`Shaper::arrive`].
    pub fn pass(&mut self, bytes: usize) {
        self.passed_bytes += bytes as u64;
    }

    /// When an end of the source (FIN or RST) is due that was seen now.
    pub fn end(&mut self, settings: &PathSettings, now_ns: Nanos) -> Nanos {
        self.arrive(settings, now_ns);
        self.due_ns(settings, 0)
    }

    /// Further losses of a segment whose first transmission was lost.
    fn repeated_losses(&mut self, loss: f64) -> u32 {
        let mut repeated = 0;
        while repeated + 1 < LOSSES_MAX && self.random.unit() < loss {
            repeated += 1;
        }
        repeated
    }

    /// How many of these bytes come before a segment with an event. Counts their segments.
    fn good_segments(&mut self, bytes: usize) -> usize {
        let further = bytes.saturating_sub(self.segment_left).div_ceil(SEGMENT_BYTES) as u64;
        let mut good = further;
        for draw in [&self.to_loss, &self.to_reset] {
            if draw.probability > 0.0 {
                good = good.min(draw.left);
            }
        }
        for draw in [&mut self.to_loss, &mut self.to_reset] {
            if draw.probability > 0.0 {
                draw.left -= good;
            }
        }
        let allowed = self.segment_left + good as usize * SEGMENT_BYTES;
        let taken = bytes.min(allowed);
        self.segment_left = allowed - taken;
        taken
    }

    /// When a piece of this many bytes is due, and takes its bytes from the bucket.
    fn due_ns(&mut self, settings: &PathSettings, bytes: usize) -> Nanos {
        let mut due_ns = settings.after_stall(self.base_ns.max(self.last_due_ns));
        match settings.bandwidth_bytes_per_s {
            None => self.tokens = None,
            Some(rate) => {
                let burst = settings.burst_bytes();
                let (tokens, at_ns) = (self.tokens.unwrap_or(burst), self.tokens_at_ns.min(due_ns));
                let filled = |at: Nanos| {
                    let since = if self.tokens.is_some() { at - at_ns } else { 0 };
                    (tokens + rate * since as f64 / 1e9).min(burst)
                };
                let missing = bytes as f64 - filled(due_ns);
                if missing > 0.0 {
                    let wait_ns = (missing / rate * 1e9).ceil() as Nanos;
                    due_ns = settings.after_stall(due_ns.saturating_add(wait_ns));
                }
                // Without the rounding up of the wait, the bucket would owe a part of a byte.
                self.tokens = Some((filled(due_ns) - bytes as f64).max(0.0));
                self.tokens_at_ns = due_ns;
            }
        }
        self.last_due_ns = due_ns;
        self.passed_bytes += bytes as u64;
        due_ns
    }
}

#[cfg(test)]
mod tests;
