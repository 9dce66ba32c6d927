//! The operations in flight, by kind, and how long they are.

use model::Nanos;

/// The operations of one kind in flight.
///
/// Time in flight is a sum over operations, each from when it was issued, but not before the interval, to when it was completed
/// or the interval ended. Instants are added and subtracted as they come, modulo 2^64: the sums overflow, their differences do
/// not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct InFlight {
    /// Operations in flight now; at the end of the interval, if it has ended.
    pub count: u64,
    /// The time in flight in an interval that has ended.
    pub time_ns: u64,
    /// How long the operations in flight at the end of the interval were in flight until then, all together.
    pub age_ns: u64,
    /// The instants of completion minus those of issue in the interval. Those in flight at its begin are as if issued then.
    balance: u64,
    /// The instants of issue of those in flight.
    issued: u64,
}

/// A difference of sums; less than 0 only where an operation was completed before the end of an interval that did not know it.
fn difference(of: u64) -> i64 {
    of.cast_signed()
}

impl InFlight {
    /// Those of an interval that has ended on another machine.
    pub fn ended(count: u64, time_ns: u64, age_ns: u64) -> InFlight {
        InFlight { count, time_ns, age_ns, ..InFlight::default() }
    }

    #[inline]
    pub(crate) fn issue(&mut self, at: Nanos) {
        self.count += 1;
        self.balance = self.balance.wrapping_sub(at);
        self.issued = self.issued.wrapping_add(at);
    }

    #[inline]
    pub(crate) fn complete(&mut self, issued: Nanos, at: Nanos) {
        self.count = self.count.saturating_sub(1);
        self.balance = self.balance.wrapping_add(at);
        self.issued = self.issued.wrapping_sub(issued);
    }

    /// An operation was issued and completed at once.
    #[inline]
    pub(crate) fn pass(&mut self, issued: Nanos, at: Nanos) {
        self.balance = self.balance.wrapping_add(at).wrapping_sub(issued);
    }

    /// An operation that was issued as this kind was completed as another one, whose all its time is.
    pub(crate) fn complete_as(&mut self, other: &mut InFlight, issued: Nanos, at: Nanos) {
        self.complete(issued, issued);
        other.pass(issued, at);
    }

    /// Ends the interval. Returns what the next one begins with.
    pub(crate) fn end(&mut self, now: Nanos) -> InFlight {
        let sum = self.count.wrapping_mul(now);
        let time = difference(self.balance.wrapping_add(sum));
        self.time_ns = time.max(0).unsigned_abs();
        self.age_ns = difference(sum.wrapping_sub(self.issued)).max(0).unsigned_abs();
        let too_much = time.min(0).cast_unsigned();
        InFlight { balance: too_much.wrapping_sub(sum), time_ns: 0, age_ns: 0, ..*self }
    }

    /// Adds those of another worker or machine.
    pub(crate) fn add(&mut self, other: &InFlight) {
        self.count = self.count.saturating_add(other.count);
        self.time_ns = self.time_ns.saturating_add(other.time_ns);
        self.age_ns = self.age_ns.saturating_add(other.age_ns);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    proptest::proptest! {
        /// Whatever the intervals, the time of each kind is that of its operations.
        #[test]
        fn no_time_is_lost_or_counted_twice(
            operations in proptest::collection::vec((0u64..1000, 0u64..300, 0usize..2, 0usize..2), 1..40),
            ends in proptest::collection::vec(1u64..400, 1..6),
        ) {
            const BOOT: u64 = u64::MAX / 3;
            let mut kinds = [InFlight::default(); 2];
            // Issued or completed, at this time, by this operation; and ends of intervals.
            let mut events: Vec<(u64, u8, usize)> = Vec::new();
            for (at, (begin, length, ..)) in operations.iter().enumerate() {
                events.push((*begin, 1, at));
                events.push((begin + length, 2, at));
            }
            let mut end = 0;
            for length in &ends {
                end += length;
                events.push((end, 0, 0));
            }
            let last = 3000;
            events.push((last, 0, 0));
            events.sort();
            let (mut seen, mut ages) = ([0; 2], [0; 2]);
            for (at, what, which) in events {
                let (begin, _, first, then) = operations[which];
                match what {
                    0 => for (kind, (time, age)) in kinds.iter_mut().zip(seen.iter_mut().zip(&mut ages)) {
                        let next = kind.end(BOOT + at);
                        *time += kind.time_ns;
                        *age = kind.age_ns;
                        *kind = next;
                    },
                    1 => kinds[first].issue(BOOT + begin),
                    _ if first == then => kinds[first].complete(BOOT + begin, BOOT + at),
                    _ => {
                        let [one, two] = &mut kinds;
                        let (from, to) = if first == 0 { (one, two) } else { (two, one) };
                        from.complete_as(to, BOOT + begin, BOOT + at);
                    }
                }
            }
            let all: u64 = operations.iter().map(|(_, length, ..)| length).sum();
            proptest::prop_assert_eq!(ages, [0, 0]);
            // What is taken back from a kind may be taken back after the last interval only.
            proptest::prop_assert!(seen.iter().sum::<u64>() >= all);
            if operations.iter().all(|(_, _, first, then)| first == then) {
                for (kind, time) in seen.iter().enumerate() {
                    let of = operations.iter().filter(|(_, _, first, _)| *first == kind);
                    proptest::prop_assert_eq!(*time, of.map(|(_, length, ..)| length).sum::<u64>());
                }
            }
        }
    }

    #[test]
    fn an_operation_that_was_completed_before_the_end_of_the_interval_is_corrected_in_the_next() {
        let mut kind = InFlight::default();
        kind.issue(100);
        let mut next = kind.end(200);
        assert_eq!((kind.time_ns, kind.age_ns, kind.count), (100, 100, 1));
        // It was completed at 150, which is seen later, as is one that was issued at 190.
        next.issue(190);
        next.complete(100, 150);
        let after = next.end(300);
        assert_eq!((next.time_ns, next.age_ns, next.count), (60, 110, 1));
        let mut after = after;
        after.complete(190, 310);
        after.end(400);
        assert_eq!((after.time_ns, after.age_ns, after.count), (10, 0, 0));
    }
}
