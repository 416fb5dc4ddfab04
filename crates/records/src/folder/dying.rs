//! For tests, and only where debug assertions are: a process that dies in the middle of what it stores or reads.
//!
//! Whoever puts a number into the file `.die-after` of a folder of records has the process that uses that folder die at that step of
//! what it does there, as by a SIGKILL: nothing is written or told any more.

use std::{
    fs, io,
    path::Path,
    process::abort,
    sync::atomic::{AtomicI64, Ordering},
};

/// How many steps are left.
static LEFT: AtomicI64 = AtomicI64::new(i64::MAX);

/// A step: the process may die here.
pub(super) fn step(folder: &Path) {
    if is_last(folder) {
        abort();
    }
}

/// A step in the middle of which a process may die that writes a file.
pub(super) fn half_written(folder: &Path, path: &Path, data: &[u8]) -> io::Result<()> {
    if is_last(folder) {
        fs::write(path.with_extension("tmp"), &data[..data.len() / 2])?;
        abort();
    }
    Ok(())
}

fn is_last(folder: &Path) -> bool {
    if cfg!(not(debug_assertions)) {
        return false;
    }
    let order = folder.join(".die-after");
    if let Ok(text) = fs::read_to_string(&order)
        && fs::remove_file(&order).is_ok()
    {
        LEFT.store(text.trim().parse().unwrap_or(i64::MAX), Ordering::Relaxed);
    }
    LEFT.fetch_sub(1, Ordering::Relaxed) == 0
}
