//! The I/O of operations: which reads, writes and flushes each operation of a process causes.
//!
//! Small programs run in the kernel (eBPF, assembled here). They note which operation a thread is in, by probes at
//! the functions of the program, and count its system calls and its requests to the device for that operation. Where the
//! kernel does not permit this, [`ProcessCounters`] reads the counters of the process and the device, which know no operations.
//!
//! A probe changes the code of the traced process in memory while it is attached. The kernel removes all of it when this
//! process ends, however it ends.

use engine::source::SourceKind;

mod assembler;
mod elf;
mod fallback;
mod format;
mod maps;
mod process;
mod programs;
mod servers;
mod source;
mod system_calls;
#[cfg(test)]
mod tests;
mod tracer;

pub use elf::probe_offset_of;
pub use fallback::{LogLines, ProcessCounters};
pub use process::Process;
pub use servers::{Function, known_functions};
pub use tracer::{TraceOptions, Tracer};

/// The source `operation_io`.
pub const KIND: SourceKind = SourceKind {
    name: "operation_io",
    about: "Operations of a directory server and the I/O of each of them, traced in the kernel.",
    metrics: source::TABLE,
    selector: "operation_io",
    open: source::open,
};
