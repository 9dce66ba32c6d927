//! Loop devices: block devices over a file (loop(4)).

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};

/// Gives out the numbers of loop devices.
pub const CONTROL: &str = "/dev/loop-control";

/// How often another program may take the free device first.
const TRIES: u32 = 16;

/// A loop device. The kernel detaches it when nothing uses it any more: when this value is dropped, also by a kill, and
/// the file system on it is unmounted.
#[derive(Debug)]
pub struct LoopDevice {
    path: PathBuf,
    _device: File,
}

/// `struct loop_info64` of linux/loop.h.
#[repr(C)]
struct Info {
    numbers: [u64; 5],
    number: u32,
    encryption: [u32; 2],
    flags: u32,
    names: [u8; 160],
    init: [u64; 2],
}

/// `struct loop_config` of linux/loop.h.
#[repr(C)]
struct Config {
    file: u32,
    block_size: u32,
    info: Info,
    reserved: [u64; 8],
}

impl LoopDevice {
    /// Attaches a free loop device to a file, which is read and written past the page cache where its file system permits
    /// that.
    ///
    /// # Errors
    /// When there is no free device, or the kernel does not permit it.
    pub fn attach(image: &File) -> io::Result<LoopDevice> {
        const GET_FREE: libc::Ioctl = 0x4c82;
        const CONFIGURE: libc::Ioctl = 0x4c0a;
        const AUTOMATIC_CLEAR: u32 = 4;
        const DIRECT_IO: u32 = 16;
        let control = OpenOptions::new().read(true).write(true).open(CONTROL)?;
        let config = Config {
            file: image.as_raw_fd().cast_unsigned(),
            block_size: 0,
            info: Info {
                numbers: [0; 5],
                number: 0,
                encryption: [0; 2],
                flags: AUTOMATIC_CLEAR | DIRECT_IO,
                names: [0; 160],
                init: [0; 2],
            },
            reserved: [0; 8],
        };
        for _ in 0..TRIES {
            // SAFETY: the request has no argument.
            let number = unsafe { libc::ioctl(control.as_raw_fd(), GET_FREE) };
            if number < 0 {
                return Err(io::Error::last_os_error());
            }
            let path = PathBuf::from(format!("/dev/loop{number}"));
            let device = OpenOptions::new().read(true).write(true).open(&path)?;
            // SAFETY: `config` is laid out as the kernel reads it, and lives until the call returns.
            if unsafe { libc::ioctl(device.as_raw_fd(), CONFIGURE, &raw const config) } == 0 {
                return Ok(LoopDevice { path, _device: device });
            }
            let error = io::Error::last_os_error();
            if error.raw_os_error() != Some(libc::EBUSY) {
                return Err(error);
            }
        }
        Err(io::ErrorKind::ResourceBusy.into())
    }

    /// Its path, for example `/dev/loop0`.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Whether it bypasses the page cache of the file.
    pub fn is_direct(&self) -> bool {
        let name = self.path.file_name().unwrap_or_default().to_string_lossy();
        fs::read_to_string(format!("/sys/block/{name}/loop/dio")).is_ok_and(|text| text.trim() == "1")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::FileExt;
    use testkit::{Need, Scratch};

    #[test]
    fn a_loop_device_shows_its_file_and_ends_with_its_last_user() {
        assert_eq!((size_of::<Info>(), size_of::<Config>()), (232, 304), "as in linux/loop.h");
        if testkit::lacks(Need::LoopDevice) {
            return;
        }
        let folder = Scratch::new();
        let path = folder.file("image", vec![0; 1 << 20]);
        let image = OpenOptions::new().read(true).write(true).open(&path).unwrap();
        let attached = LoopDevice::attach(&image).unwrap();
        let device = OpenOptions::new().write(true).open(attached.path()).unwrap();
        device.write_all_at(b"written", 4096).unwrap();
        device.sync_all().unwrap();
        assert_eq!(&fs::read(&path).unwrap()[4096..4103], b"written");
        let name = attached.path().file_name().unwrap().to_str().unwrap().to_string();
        let backing = || fs::read_to_string(format!("/sys/block/{name}/loop/backing_file"));
        drop(attached);
        assert_eq!(Path::new(backing().unwrap().trim()), fs::canonicalize(&path).unwrap(), "in use");
        drop(device);
        // The kernel detaches it in the background; meanwhile another test may have taken the number.
        for _ in 0..500 {
            if !backing().is_ok_and(|text| Path::new(text.trim()) == path) {
                return;
            }
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
        panic!("{name} is still attached");
    }
}
