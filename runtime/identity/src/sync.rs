//! The one switch: `std` in a build, `loom` under `--cfg portcullis_loom`. Everything else in this crate takes its
//! locks, atomics and reference counts from here, so the code that loom explores is the code that ships.

#[cfg(portcullis_loom)]
pub(crate) use loom::sync::{
    Arc, Mutex, MutexGuard,
    atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering},
};
use std::sync::PoisonError;
#[cfg(not(portcullis_loom))]
pub(crate) use std::sync::{
    Arc, Mutex, MutexGuard,
    atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering},
};

/// Locks, and ignores poisoning: the only foreign code that runs under a lock is `Clone` of a caller's value, a waker's
/// `clone`, and the closure of `Sequence::reserve_with`. None can leave a cell half changed (the last poisons its own
/// sequence), so a panic there must not take the cell away from everybody else.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Where a seeded fault splits one critical section in two: the guard given back is the same one unless `fault` is on.
pub(crate) fn split<'a, T>(fault: bool, guard: MutexGuard<'a, T>, mutex: &'a Mutex<T>) -> MutexGuard<'a, T> {
    if fault {
        drop(guard);
        lock(mutex)
    } else {
        guard
    }
}
