//! Page-aligned memory for transfers: one piece per worker, cut into one block per operation in flight.

use std::io;
use std::ptr::NonNull;

use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous, munmap};

/// Blocks are placed at multiples of this, which satisfies every alignment direct I/O asks for.
const PAGE: usize = 4096;

/// Memory of one worker: `count` blocks of at least `block_bytes` each.
pub(super) struct Buffers {
    memory: NonNull<u8>,
    bytes: usize,
    stride: usize,
}

impl Buffers {
    /// Maps and touches the memory, so that no page fault falls into a measurement.
    pub(super) fn new(count: usize, block_bytes: usize) -> io::Result<Self> {
        let stride = block_bytes.next_multiple_of(PAGE).max(PAGE);
        let bytes = stride.checked_mul(count.max(1)).ok_or(io::Error::from(io::ErrorKind::OutOfMemory))?;
        // SAFETY: a fresh private anonymous mapping aliases nothing; the kernel chooses its address.
        let memory = unsafe {
            mmap_anonymous(
                std::ptr::null_mut(),
                bytes,
                ProtFlags::READ | ProtFlags::WRITE,
                MapFlags::PRIVATE | MapFlags::POPULATE,
            )
        }?;
        let memory = NonNull::new(memory.cast::<u8>()).ok_or(io::Error::from(io::ErrorKind::OutOfMemory))?;
        Ok(Buffers { memory, bytes, stride })
    }

    /// The address of block `index`, for the kernel. `index` is below the count it was made with.
    #[inline]
    pub(super) fn address(&self, index: usize) -> *mut u8 {
        debug_assert!((index + 1) * self.stride <= self.bytes);
        // SAFETY: the offset is inside the mapping, see `new`.
        unsafe { self.memory.as_ptr().add(index * self.stride) }
    }

    /// The first `bytes` of block `index`. Only to be called while no operation of the kernel uses that block.
    #[inline]
    pub(super) fn block(&mut self, index: usize, bytes: usize) -> &mut [u8] {
        assert!(bytes <= self.stride && (index + 1) * self.stride <= self.bytes);
        // SAFETY: inside the mapping (asserted), initialized by the kernel to zero, and borrowed from `self` mutably.
        unsafe { std::slice::from_raw_parts_mut(self.address(index), bytes) }
    }

    /// All of it, for registration with the kernel.
    pub(super) fn whole(&self) -> libc::iovec {
        libc::iovec { iov_base: self.memory.as_ptr().cast(), iov_len: self.bytes }
    }
}

impl Drop for Buffers {
    fn drop(&mut self) {
        // SAFETY: the mapping was made in `new` with this length, and no slice of it outlives `self`.
        // It cannot fail for a whole mapping; if it did, the memory would merely stay mapped.
        let _ = unsafe { munmap(self.memory.as_ptr().cast(), self.bytes) };
    }
}
