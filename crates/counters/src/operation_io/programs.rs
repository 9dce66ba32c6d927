//! The programs that run in the kernel. Each one is a few dozen instructions without a loop.
//!
//! The state of a thread is the operation in flight and the stack pointer at its start. The stack grows downwards: a
//! function that is entered deeper in the stack is nested in the operation and changes nothing, and one that is entered
//! at the same height or higher shows that the operation is over, whether or not its return was seen.

use model::operation_io::IoKind;

use super::assembler::{Assembler, Condition, Helper, Label, Register, Width};
use super::maps::{LOST, Maps, NO_OPERATION, OPERATIONS, OPERATIONS_MAX, ROW_BYTES, offset, thread};
use Register::{Frame, R0, R1, R2, R3, R4, R6, R7, R8, R9};

/// A program.
pub(super) type Code = Vec<[u8; 8]>;

/// Where a probe of this architecture finds the stack pointer, and how far it moves at a return.
#[derive(Clone, Copy, Debug)]
pub(super) struct Architecture {
    stack_pointer: i16,
    return_bytes: i32,
    /// Where the registers of a system call have its first argument, followed by its number.
    call_registers: i32,
    /// Where a probe finds the third argument of a function, and its result.
    third_argument: i16,
    result: i16,
}

impl Architecture {
    /// That of this program; none if it is not supported.
    pub(super) fn here() -> Option<Architecture> {
        if cfg!(target_arch = "x86_64") {
            // The return address is on the stack.
            return Some(Architecture {
                stack_pointer: 152,
                return_bytes: 8,
                call_registers: 112,
                third_argument: 96,
                result: 80,
            });
        }
        cfg!(target_arch = "aarch64").then_some(Architecture {
            stack_pointer: 248,
            return_bytes: 0,
            call_registers: 272,
            third_argument: 16,
            result: 0,
        })
    }
}

/// What all programs need to know.
pub(super) struct Common<'a> {
    pub(super) process: u32,
    pub(super) maps: &'a Maps,
    pub(super) architecture: Architecture,
}

/// Offsets in the stack.
const THREAD_KEY: i16 = -8;
const ZERO_KEY: i16 = -16;
const NEW_THREAD: i16 = -32;
/// The first argument of a system call, and its number.
const REGISTERS: i16 = -48;
const NEW_ROW: i16 = -48 - ROW_BYTES as i16;

/// What a system call does.
#[derive(Clone, Copy, Debug)]
enum Group {
    Read,
    Write,
    Sync,
    Ring,
}

/// A system call that is counted.
#[derive(Clone, Copy, Debug)]
pub(super) struct Call {
    /// The function of the C library; empty if it has none, or if it is called for sockets too.
    pub(super) function: &'static str,
    number: libc::c_long,
    group: Group,
    /// It may also be on a socket or a pipe; others only files have.
    may_be_socket: bool,
    /// Its bytes are in several buffers, so that only the result has their number.
    pub(super) is_vector: bool,
}

const fn stream(number: libc::c_long, group: Group) -> Call {
    Call { function: "", number, group, may_be_socket: true, is_vector: false }
}

const fn file(function: &'static str, number: libc::c_long, group: Group) -> Call {
    Call { function, number, group, may_be_socket: false, is_vector: false }
}

const fn vector(function: &'static str, number: libc::c_long, group: Group) -> Call {
    Call { function, number, group, may_be_socket: false, is_vector: true }
}

/// All of them.
pub(super) static CALLS: [Call; 15] = [
    stream(libc::SYS_read, Group::Read),
    stream(libc::SYS_write, Group::Write),
    stream(libc::SYS_readv, Group::Read),
    stream(libc::SYS_writev, Group::Write),
    file("pread", libc::SYS_pread64, Group::Read),
    file("pwrite", libc::SYS_pwrite64, Group::Write),
    vector("preadv", libc::SYS_preadv, Group::Read),
    vector("pwritev", libc::SYS_pwritev, Group::Write),
    vector("preadv2", libc::SYS_preadv2, Group::Read),
    vector("pwritev2", libc::SYS_pwritev2, Group::Write),
    file("fsync", libc::SYS_fsync, Group::Sync),
    file("fdatasync", libc::SYS_fdatasync, Group::Sync),
    file("msync", libc::SYS_msync, Group::Sync),
    file("sync_file_range", libc::SYS_sync_file_range, Group::Sync),
    file("", libc::SYS_io_uring_enter, Group::Ring),
];

/// The fields of the tracepoint `block_rq_issue`.
#[derive(Clone, Copy, Debug)]
pub(super) struct RequestFields {
    pub(super) device: i16,
    pub(super) bytes: i16,
    pub(super) kind: i16,
}

impl Common<'_> {
    /// R6 = context. Ends the program unless a thread of the process runs it; its number is the key of its state.
    fn begin(&self, code: &mut Assembler, end: Label) {
        code.copy(R6, R1);
        self.whose(code);
        code.jump_if(R1, Condition::NotEqual, self.process as i32, end);
    }

    /// R1 = process id, R7 = thread and process id; the thread id is stored as the key.
    fn whose(&self, code: &mut Assembler) {
        code.call(Helper::CurrentPidTgid);
        code.copy(R7, R0);
        code.store(Width::Word, Frame, THREAD_KEY, R7);
        code.copy(R1, R0);
        code.shift_right(R1, 32);
    }

    fn end(code: &mut Assembler, end: Label) -> Option<Code> {
        code.place(end);
        code.set(R0, 0);
        code.exit();
        std::mem::take(code).finish()
    }

    /// R0 = address of the thread's state, or zero.
    fn find_thread(&self, code: &mut Assembler) {
        Self::find(code, self.maps.threads(), THREAD_KEY);
    }

    fn find(code: &mut Assembler, map: i32, key: i16) {
        code.set_map(R1, map);
        code.copy(R2, Frame);
        code.add_number(R2, i32::from(key));
        code.call(Helper::MapLookup);
    }

    /// R0 = address of the value of a key, which is made if there is none: `value` is the place of its first content.
    fn find_or_make(code: &mut Assembler, map: i32, key: i16, value: i16, bytes: i16, full: Label) {
        let found = code.label();
        Self::find(code, map, key);
        code.jump_if(R0, Condition::NotEqual, 0, found);
        for at in (0..bytes).step_by(8) {
            code.store_number(Width::Double, Frame, value + at, 0);
        }
        code.set_map(R1, map);
        code.copy(R2, Frame);
        code.add_number(R2, i32::from(key));
        code.copy(R3, Frame);
        code.add_number(R3, i32::from(value));
        code.set(R4, 0);
        code.call(Helper::MapUpdate);
        Self::find(code, map, key);
        code.jump_if(R0, Condition::Equal, 0, full);
        code.place(found);
    }

    /// R0 = address of the first row of the counters.
    fn find_counters(&self, code: &mut Assembler, end: Label) {
        code.store_number(Width::Word, Frame, ZERO_KEY, 0);
        Self::find(code, self.maps.counters(), ZERO_KEY);
        code.jump_if(R0, Condition::Equal, 0, end);
    }

    /// R0 = address of the row of the operation in flight in this thread. R8 and R9 are kept.
    fn find_row(&self, code: &mut Assembler, end: Label) {
        let none = code.label();
        self.find_thread(code);
        code.set(R7, NO_OPERATION as i32);
        code.jump_if(R0, Condition::Equal, 0, none);
        code.load(Width::Double, R7, R0, thread::OPERATION);
        code.jump_if(R7, Condition::Greater, OPERATIONS_MAX as i32, end);
        code.place(none);
        self.find_counters(code, end);
        code.multiply(R7, ROW_BYTES);
        code.add_register(R0, R7);
    }

    /// Counts one in a fixed row.
    fn count_in(&self, code: &mut Assembler, row: usize, column: i16, end: Label) {
        self.find_counters(code, end);
        code.set(R1, 1);
        code.atomic_add(R0, (row as i32 * ROW_BYTES) as i16 + column, R1);
    }

    /// At the entry of the function of an operation: counts it and notes that it is in flight.
    pub(super) fn entry(&self, operation: usize) -> Option<Code> {
        let mut code = Assembler::default();
        let (end, full, new) = (code.label(), code.label(), code.label());
        let row = (operation + 1) as i32;
        self.begin(&mut code, end);
        Self::find_or_make(&mut code, self.maps.threads(), THREAD_KEY, NEW_THREAD, 16, full);
        code.load(Width::Double, R2, R6, self.architecture.stack_pointer);
        code.load(Width::Double, R1, R0, thread::OPERATION);
        code.jump_if(R1, Condition::Equal, 0, new);
        code.load(Width::Double, R3, R0, thread::STACK);
        code.jump_if_register(R2, Condition::GreaterOrEqual, R3, new);
        code.jump(end);
        code.place(new);
        code.store_number(Width::Double, R0, thread::OPERATION, row);
        code.store(Width::Double, R0, thread::STACK, R2);
        self.count_in(&mut code, row as usize, OPERATIONS, end);
        code.jump(end);
        code.place(full);
        self.count_in(&mut code, LOST, OPERATIONS, end);
        Self::end(&mut code, end)
    }

    /// At the return of the function of an operation: it is no longer in flight.
    pub(super) fn return_of(&self, operation: usize) -> Option<Code> {
        let mut code = Assembler::default();
        let end = code.label();
        self.begin(&mut code, end);
        self.find_thread(&mut code);
        code.jump_if(R0, Condition::Equal, 0, end);
        code.load(Width::Double, R1, R0, thread::OPERATION);
        code.jump_if(R1, Condition::NotEqual, (operation + 1) as i32, end);
        // A nested call of the same function returns deeper in the stack.
        code.load(Width::Double, R2, R6, self.architecture.stack_pointer);
        code.load(Width::Double, R3, R0, thread::STACK);
        code.add_number(R3, self.architecture.return_bytes);
        let over = code.label();
        code.jump_if_register(R2, Condition::GreaterOrEqual, R3, over);
        code.jump(end);
        code.place(over);
        code.store_number(Width::Double, R0, thread::OPERATION, 0);
        Self::end(&mut code, end)
    }

    /// At the end of every system call: counts those that read, write or flush files, for the operation in flight.
    pub(super) fn all_calls(&self) -> Option<Code> {
        let mut code = Assembler::default();
        let end = code.label();
        self.begin(&mut code, end);
        // The registers at the start of the call, and its result. A failed call did nothing.
        code.load(Width::Double, R8, R6, 8);
        code.jump_if(R8, Condition::SignedLess, 0, end);
        code.copy(R1, Frame);
        code.add_number(R1, i32::from(REGISTERS));
        code.set(R2, 16);
        code.load(Width::Double, R3, R6, 0);
        code.add_number(R3, self.architecture.call_registers);
        code.call(Helper::ReadKernel);
        code.jump_if(R0, Condition::NotEqual, 0, end);
        code.load(Width::Word, R1, Frame, REGISTERS + 8);
        let targets: Vec<Label> = CALLS.iter().map(|_| code.label()).collect();
        for (call, target) in CALLS.iter().zip(&targets) {
            code.jump_if(R1, Condition::Equal, call.number as i32, *target);
        }
        code.jump(end);
        for (call, target) in CALLS.iter().zip(targets) {
            code.place(target);
            if call.may_be_socket {
                Self::find(&mut code, self.maps.files(), REGISTERS);
                code.jump_if(R0, Condition::Equal, 0, end);
            }
            self.count_call(&mut code, call, end);
            code.jump(end);
        }
        Self::end(&mut code, end)
    }

    /// At the entry of a function of the C library that performs a system call.
    pub(super) fn call_entry(&self, call: &Call) -> Option<Code> {
        let mut code = Assembler::default();
        let end = code.label();
        self.begin(&mut code, end);
        code.load(Width::Double, R8, R6, self.architecture.third_argument);
        self.count_call(&mut code, call, end);
        Self::end(&mut code, end)
    }

    /// At its return, where only the result has the number of bytes.
    pub(super) fn call_return(&self, call: &Call) -> Option<Code> {
        let mut code = Assembler::default();
        let end = code.label();
        self.begin(&mut code, end);
        code.load(Width::Double, R8, R6, self.architecture.result);
        code.jump_if(R8, Condition::SignedLess, 0, end);
        self.count_call(&mut code, call, end);
        Self::end(&mut code, end)
    }

    /// Counts a system call of R8 bytes.
    fn count_call(&self, code: &mut Assembler, call: &Call, end: Label) {
        self.find_row(code, end);
        code.set(R1, 1);
        match call.group {
            Group::Read => {
                code.atomic_add(R0, offset(IoKind::ReadCalls), R1);
                code.atomic_add(R0, offset(IoKind::ReadCallBytes), R8);
            }
            Group::Write => {
                code.atomic_add(R0, offset(IoKind::WriteCalls), R1);
                code.atomic_add(R0, offset(IoKind::WriteCallBytes), R8);
            }
            Group::Sync => code.atomic_add(R0, offset(IoKind::Syncs), R1),
            // The result is the number of requests.
            Group::Ring => code.atomic_add(R0, offset(IoKind::RingRequests), R8),
        }
    }

    /// At a request to a device: counts it for the operation in flight, or for whoever issued it.
    pub(super) fn request(&self, fields: RequestFields, devices: &[u64]) -> Option<Code> {
        let mut code = Assembler::default();
        let (end, ours, full) = (code.label(), code.label(), code.label());
        code.copy(R6, R1);
        let of_device = code.label();
        code.load(Width::Word, R1, R6, fields.device);
        for device in devices {
            code.set_wide(R2, *device);
            code.jump_if_register(R1, Condition::Equal, R2, of_device);
        }
        code.jump(end);
        code.place(of_device);
        self.whose(&mut code);
        code.jump_if(R1, Condition::Equal, self.process as i32, ours);
        code.store(Width::Word, Frame, ZERO_KEY, R1);
        Self::find_or_make(&mut code, self.maps.others(), ZERO_KEY, NEW_ROW, ROW_BYTES as i16, full);
        let count = code.label();
        code.jump(count);
        code.place(full);
        self.find_counters(&mut code, end);
        code.add_number(R0, LOST as i32 * ROW_BYTES);
        code.jump(count);
        code.place(ours);
        self.find_row(&mut code, end);
        code.place(count);
        Self::count_request(&mut code, fields, end);
        Self::end(&mut code, end)
    }

    /// Counts a request in the row at R0. Its kind is a text: `W`, `WS`, `R`, `FF` for a flush, `FW` for a write after a
    /// flush, `D`.
    fn count_request(code: &mut Assembler, fields: RequestFields, end: Label) {
        let (read, write, flush, other) = (code.label(), code.label(), code.label(), code.label());
        code.load(Width::Word, R8, R6, fields.bytes);
        code.load(Width::Byte, R1, R6, fields.kind);
        code.load(Width::Byte, R2, R6, fields.kind + 1);
        code.set(R9, 1);
        for (letter, label) in [(b'R', read), (b'W', write)] {
            code.jump_if(R1, Condition::Equal, i32::from(letter), label);
        }
        code.jump_if(R1, Condition::NotEqual, i32::from(b'F'), other);
        code.jump_if(R2, Condition::Equal, i32::from(b'W'), write);
        code.place(flush);
        code.atomic_add(R0, offset(IoKind::DeviceFlushes), R9);
        code.jump(end);
        code.place(other);
        code.atomic_add(R0, offset(IoKind::DeviceOthers), R9);
        code.jump(end);
        for (label, requests, bytes) in [
            (read, IoKind::DeviceReads, IoKind::DeviceReadBytes),
            (write, IoKind::DeviceWrites, IoKind::DeviceWriteBytes),
        ] {
            code.place(label);
            code.atomic_add(R0, offset(requests), R9);
            code.atomic_add(R0, offset(bytes), R8);
            code.jump(end);
        }
    }
}
