//! Runs to findings to verdict; runs so far to the next trial. Pure.
