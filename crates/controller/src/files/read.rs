//! Reads one file that may be anything by the time it is opened.

use std::{
    fs::{File, Metadata},
    io::{self, Read},
    os::unix::fs::OpenOptionsExt,
    path::Path,
};

use rustix::fs::OFlags;

/// What no manifest is larger than, in bytes: an API server takes objects of 3 MiB, and what is parsed takes a multiple
/// of the text.
pub(super) const MAX_BYTES: u64 = 32 << 20;

/// Opens a regular file. Anything else is an error, and not waited for, as a pipe would be.
pub(super) fn open(path: &Path) -> io::Result<(File, Metadata)> {
    let flags = i32::try_from(OFlags::NONBLOCK.bits()).map_err(io::Error::other)?;
    let file = File::options().read(true).custom_flags(flags).open(path)?;
    // Of what was opened, whatever stood there before.
    let metadata = file.metadata()?;
    if metadata.is_file() {
        Ok((file, metadata))
    } else {
        Err(io::Error::other("it is neither a file nor a folder: put a file there"))
    }
}

/// All of a file, which may grow meanwhile, if it is within `room` bytes too: what all files have left.
pub(super) fn content(file: File, expected: u64, room: u64) -> io::Result<Vec<u8>> {
    let limit = room.min(MAX_BYTES);
    let mut content = Vec::new();
    if expected <= limit && file.take(limit + 1).read_to_end(&mut content)? as u64 <= limit {
        return Ok(content);
    }
    Err(io::Error::other(if limit == MAX_BYTES {
        format!("it has more than {} MiB: spread its objects over several files", MAX_BYTES >> 20)
    } else {
        "all files together are too large with it: serve fewer from one place".to_owned()
    }))
}
