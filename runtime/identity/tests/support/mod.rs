//! A waker that can be asked whether it was woken, and one poll with it.
#![allow(dead_code, reason = "each test binary uses a part")]

use std::{
    future::Future,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    task::{Context, Poll, Wake, Waker},
};

/// Counts its wakes. A plain std atomic also under loom: it is the observer and must not add interleavings.
#[derive(Default)]
pub(crate) struct Flag(AtomicUsize);

impl Wake for Flag {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

impl Flag {
    pub(crate) fn new() -> Arc<Flag> {
        Arc::default()
    }

    pub(crate) fn wakes(&self) -> usize {
        self.0.load(Ordering::SeqCst)
    }
}

pub(crate) fn poll<F: Future + Unpin>(future: &mut F, flag: &Arc<Flag>) -> Poll<F::Output> {
    let waker = Waker::from(flag.clone());
    Pin::new(future).poll(&mut Context::from_waker(&waker))
}

/// Runs a future to its end on this thread, parked while it waits: a lost wake hangs the test.
#[cfg(not(portcullis_loom))]
pub(crate) fn block_on<F: Future>(future: F) -> F::Output {
    struct Unpark(std::thread::Thread);
    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }
    let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
    let mut future = std::pin::pin!(future);
    loop {
        match future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(output) => return output,
            Poll::Pending => std::thread::park(),
        }
    }
}
