//! An assembler for eBPF: the instructions that the programs of this module need, with labels.
//!
//! The instruction set is RFC 9669.

/// A register. R1 to R5 are arguments of calls, R0 is their result, R6 to R9 survive calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Register {
    R0,
    R1,
    R2,
    R3,
    R4,
    R6 = 6,
    R7,
    R8,
    R9,
    /// The end of the stack of 512 bytes.
    Frame,
}

/// The size of a memory access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Width {
    Byte = 0x10,
    Word = 0x00,
    Double = 0x18,
}

/// A comparison of unsigned numbers, unless its name says otherwise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Condition {
    Equal = 0x10,
    Greater = 0x20,
    GreaterOrEqual = 0x30,
    NotEqual = 0x50,
    SignedLess = 0xc0,
}

/// A function of the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i32)]
pub(super) enum Helper {
    MapLookup = 1,
    MapUpdate = 2,
    CurrentPidTgid = 14,
    ReadKernel = 113,
}

/// A position in the program that jumps can refer to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Label(usize);

/// The instruction classes and modifiers that are combined below.
const LOAD_WIDE: u8 = 0x18;
const LOAD: u8 = 0x61;
const STORE_NUMBER: u8 = 0x62;
const STORE: u8 = 0x63;
const ATOMIC_ADD_DOUBLE: u8 = 0xdb;
const JUMP: u8 = 0x05;
const CALL: u8 = 0x85;
const EXIT: u8 = 0x95;
const MOVE_NUMBER: u8 = 0xb7;
const MOVE: u8 = 0xbf;
const ADD_NUMBER: u8 = 0x07;
const ADD: u8 = 0x0f;
const MULTIPLY_NUMBER: u8 = 0x27;
const SHIFT_RIGHT_NUMBER: u8 = 0x77;
/// The second operand is a register.
const BY_REGISTER: u8 = 0x08;
/// The wide number is the descriptor of a map.
const MAP_DESCRIPTOR: u8 = 1;

/// A program under construction.
#[derive(Debug, Default)]
pub(super) struct Assembler {
    code: Vec<[u8; 8]>,
    labels: Vec<Option<usize>>,
    jumps: Vec<(usize, Label)>,
}

impl Assembler {
    fn add(&mut self, code: u8, to: Register, from: u8, offset: i16, number: i32) {
        let mut instruction = [0; 8];
        instruction[0] = code;
        instruction[1] = match cfg!(target_endian = "little") {
            true => to.number() | from << 4,
            false => to.number() << 4 | from,
        };
        instruction[2..4].copy_from_slice(&offset.to_ne_bytes());
        instruction[4..].copy_from_slice(&number.to_ne_bytes());
        self.code.push(instruction);
    }

    /// A label that is not placed yet.
    pub(super) fn label(&mut self) -> Label {
        self.labels.push(None);
        Label(self.labels.len() - 1)
    }

    /// Places a label before the next instruction.
    pub(super) fn place(&mut self, label: Label) {
        self.labels[label.0] = Some(self.code.len());
    }

    pub(super) fn set(&mut self, to: Register, number: i32) {
        self.add(MOVE_NUMBER, to, 0, 0, number);
    }

    pub(super) fn copy(&mut self, to: Register, from: Register) {
        self.add(MOVE, to, from.number(), 0, 0);
    }

    pub(super) fn add_number(&mut self, to: Register, number: i32) {
        self.add(ADD_NUMBER, to, 0, 0, number);
    }

    pub(super) fn add_register(&mut self, to: Register, from: Register) {
        self.add(ADD, to, from.number(), 0, 0);
    }

    pub(super) fn multiply(&mut self, to: Register, number: i32) {
        self.add(MULTIPLY_NUMBER, to, 0, 0, number);
    }

    pub(super) fn shift_right(&mut self, to: Register, bits: i32) {
        self.add(SHIFT_RIGHT_NUMBER, to, 0, 0, bits);
    }

    /// Loads a number of 64 bits.
    pub(super) fn set_wide(&mut self, to: Register, number: u64) {
        self.wide(to, 0, number);
    }

    /// Loads the address of a map.
    pub(super) fn set_map(&mut self, to: Register, descriptor: i32) {
        self.wide(to, MAP_DESCRIPTOR, u64::from(descriptor as u32));
    }

    fn wide(&mut self, to: Register, kind: u8, number: u64) {
        self.add(LOAD_WIDE, to, kind, 0, number as u32 as i32);
        // The second half of the number, in an instruction of its own.
        self.add(0, Register::R0, 0, 0, (number >> 32) as u32 as i32);
    }

    /// Reads memory.
    pub(super) fn load(&mut self, width: Width, to: Register, from: Register, offset: i16) {
        self.add(LOAD | width as u8, to, from.number(), offset, 0);
    }

    /// Writes a register to memory.
    pub(super) fn store(&mut self, width: Width, to: Register, offset: i16, from: Register) {
        self.add(STORE | width as u8, to, from.number(), offset, 0);
    }

    /// Writes a number to memory.
    pub(super) fn store_number(&mut self, width: Width, to: Register, offset: i16, number: i32) {
        self.add(STORE_NUMBER | width as u8, to, 0, offset, number);
    }

    /// Adds a register to 64 bits of memory, atomically.
    pub(super) fn atomic_add(&mut self, to: Register, offset: i16, from: Register) {
        self.add(ATOMIC_ADD_DOUBLE, to, from.number(), offset, 0);
    }

    pub(super) fn jump(&mut self, to: Label) {
        self.jumps.push((self.code.len(), to));
        self.add(JUMP, Register::R0, 0, 0, 0);
    }

    /// Jumps if a register and a number compare so.
    pub(super) fn jump_if(&mut self, left: Register, condition: Condition, right: i32, to: Label) {
        self.jumps.push((self.code.len(), to));
        self.add(JUMP | condition as u8, left, 0, 0, right);
    }

    /// Jumps if two registers compare so.
    pub(super) fn jump_if_register(
        &mut self,
        left: Register,
        condition: Condition,
        right: Register,
        to: Label,
    ) {
        self.jumps.push((self.code.len(), to));
        self.add(JUMP | condition as u8 | BY_REGISTER, left, right.number(), 0, 0);
    }

    pub(super) fn call(&mut self, helper: Helper) {
        self.add(CALL, Register::R0, 0, 0, helper as i32);
    }

    pub(super) fn exit(&mut self) {
        self.add(EXIT, Register::R0, 0, 0, 0);
    }

    /// The program; none if a label was not placed or a jump is too long.
    pub(super) fn finish(mut self) -> Option<Vec<[u8; 8]>> {
        for (at, label) in &self.jumps {
            let target = self.labels.get(label.0).copied().flatten()?;
            let distance = i16::try_from(target as i64 - *at as i64 - 1).ok()?;
            self.code.get_mut(*at)?[2..4].copy_from_slice(&distance.to_ne_bytes());
        }
        Some(self.code)
    }
}

impl Register {
    fn number(self) -> u8 {
        match self {
            Register::Frame => 10,
            other => other as u8,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg(target_endian = "little")]
    fn instructions_are_those_of_the_standard() {
        let mut code = Assembler::default();
        let end = code.label();
        code.copy(Register::R6, Register::R1);
        code.load(Width::Word, Register::R1, Register::R6, 8);
        code.store(Width::Double, Register::Frame, -8, Register::R1);
        code.store_number(Width::Word, Register::Frame, -12, 7);
        code.jump_if(Register::R1, Condition::NotEqual, -2, end);
        code.set_map(Register::R1, 5);
        code.call(Helper::MapLookup);
        code.atomic_add(Register::R0, 16, Register::R2);
        code.place(end);
        code.set(Register::R0, 0);
        code.exit();
        let found: Vec<String> = code
            .finish()
            .unwrap()
            .iter()
            .map(|bytes| bytes.iter().map(|byte| format!("{byte:02x}")).collect())
            .collect();
        assert_eq!(
            found,
            [
                "bf16000000000000",
                "6161080000000000",
                "7b1af8ff00000000",
                "620af4ff07000000",
                "55010400feffffff",
                "1811000005000000",
                "0000000000000000",
                "8500000001000000",
                "db20100000000000",
                "b700000000000000",
                "9500000000000000",
            ]
        );
    }

    #[test]
    fn a_label_without_a_place_is_no_program() {
        let mut code = Assembler::default();
        let end = code.label();
        code.jump(end);
        assert_eq!(code.finish(), None);
    }
}
