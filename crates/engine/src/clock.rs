//! The run's clock: nanoseconds since the clock was made, cheap enough to read around every operation.
