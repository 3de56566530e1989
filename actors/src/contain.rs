//! Containment: every piece of foreign code (handler, guard, tool, model, observer) runs in here. A panic while it is
//! created, polled or dropped, an error, or running into its time limit is that code's failure and nobody else's.

use crate::watchdog::{Pulse, Who};
use futures::future::LocalBoxFuture;
use portcullis_runtime::{BoxError, Failure};
use std::{
    any::Any,
    borrow::Borrow,
    future::Future,
    mem,
    panic::{AssertUnwindSafe, catch_unwind},
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};
use tokio::time::{Sleep, sleep};

/// Runs foreign work to its end, its failure or its limit. It is made in here, too, with the first poll. The timer is armed
/// when it first has to wait: most handlers answer at once and pay for none. While it is polled, the watchdog knows whose it
/// is.
pub(crate) fn contain<'w, P: Borrow<Pulse>, T, M: FnOnce() -> LocalBoxFuture<'w, T>>(
    watched: Watched<P>,
    limit: Option<Duration>,
    make: M,
) -> Contained<'w, P, T, M> {
    let Watched { pulse, who } = watched;
    Contained { work: Work::Making(make), pulse, who: Some(who), limit, timer: None }
}

/// What the first poll of foreign work came to.
pub(crate) enum First<'w, T> {
    /// Its answer, or its failure.
    Answered(Result<T, Failure>),
    /// It has to wait: the rest goes on in [`contain`], which arms its limit.
    Waits(LocalBoxFuture<'w, T>),
}

/// Makes foreign work and polls it once. Whoever calls this has told the watchdog whose it is.
pub(crate) fn first<'w, T>(
    task: &mut Context<'_>,
    make: impl FnOnce() -> LocalBoxFuture<'w, T>,
) -> First<'w, T> {
    let mut work = None;
    let polled = contain_sync(|| work.insert(make()).as_mut().poll(task));
    let answered = match (polled, work) {
        (Ok(Poll::Pending), Some(work)) => return First::Waits(work),
        (Ok(Poll::Ready(value)), work) => contain_sync(move || drop(work)).map(|()| value),
        (Err(failure), work) => Err(contain_sync(move || drop(work)).err().unwrap_or(failure)),
        (Ok(Poll::Pending), None) => Err(Failure::Error { message: "it made nothing to wait for".into() }),
    };
    First::Answered(answered)
}

/// What came of work that may itself say that it failed.
pub(crate) fn answered<T>(contained: Result<Result<T, BoxError>, Failure>) -> Result<T, Failure> {
    contained?.map_err(|error| Failure::Error { message: error.to_string().into() })
}

/// Whose code it is, and where the watchdog looks.
pub(crate) struct Watched<P = Pulse> {
    pub(crate) pulse: P,
    pub(crate) who: Who,
}

impl<P: Borrow<Pulse>> Watched<P> {
    /// Runs synchronous foreign code, watched.
    pub(crate) fn contain_sync<T>(self, work: impl FnOnce() -> T) -> Result<T, Failure> {
        self.pulse.borrow().during(self.who, work).0.map_err(panicked)
    }
}

/// Runs synchronous foreign code.
pub(crate) fn contain_sync<T>(work: impl FnOnce() -> T) -> Result<T, Failure> {
    catch_unwind(AssertUnwindSafe(work)).map_err(panicked)
}

/// See [`contain`].
pub(crate) struct Contained<'w, P, T, M> {
    work: Work<'w, T, M>,
    pulse: P,
    /// Away only while the work is polled.
    who: Option<Who>,
    limit: Option<Duration>,
    timer: Option<Pin<Box<Sleep>>>,
}

enum Work<'w, T, M> {
    Making(M),
    Running(LocalBoxFuture<'w, T>),
    Over,
}

impl<'w, T, M: FnOnce() -> LocalBoxFuture<'w, T>> Work<'w, T, M> {
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<T> {
        if matches!(self, Work::Making(_))
            && let Work::Making(make) = mem::replace(self, Work::Over)
        {
            *self = Work::Running(make());
        }
        match self {
            Work::Running(work) => work.as_mut().poll(cx),
            _ => Poll::Pending,
        }
    }
}

impl<P, T, M> Contained<'_, P, T, M> {
    /// Drops the work, containing what its drop does.
    fn discard(&mut self) -> Result<(), Failure> {
        match mem::replace(&mut self.work, Work::Over) {
            Work::Over => Ok(()),
            work => contain_sync(move || drop(work)),
        }
    }
}

/// The work is pinned in its own box, and what makes it is moved out.
impl<P, T, M> Unpin for Contained<'_, P, T, M> {}

impl<'w, P: Borrow<Pulse>, T, M: FnOnce() -> LocalBoxFuture<'w, T>> Future for Contained<'w, P, T, M> {
    type Output = Result<T, Failure>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.get_mut();
        let who = if matches!(this.work, Work::Over) { None } else { this.who.take() };
        let Some(who) = who else {
            return Poll::Ready(Err(Failure::Error { message: "polled after it had answered".into() }));
        };
        let work = &mut this.work;
        let (polled, who) = this.pulse.borrow().during(who, || work.poll(cx));
        this.who = who;
        let answered = match polled {
            Err(payload) => Err(panicked(payload)),
            Ok(Poll::Ready(value)) => Ok(value),
            Ok(Poll::Pending) => {
                let Some(limit) = this.limit else { return Poll::Pending };
                let timer = this.timer.get_or_insert_with(|| Box::pin(sleep(limit)));
                if timer.as_mut().poll(cx).is_pending() {
                    return Poll::Pending;
                }
                let limit_ms = u64::try_from(limit.as_millis()).unwrap_or(u64::MAX);
                Err(Failure::Deadline { limit_ms })
            }
        };
        // A drop that panics after a good answer is a failure all the same: the code did not end well.
        Poll::Ready(match (answered, this.discard()) {
            (Ok(_), Err(failure)) | (Err(failure), _) => Err(failure),
            (Ok(value), Ok(())) => Ok(value),
        })
    }
}

impl<P, T, M> Drop for Contained<'_, P, T, M> {
    fn drop(&mut self) {
        if let Err(failure) = self.discard() {
            tracing::error!(%failure, "foreign code failed while it was dropped");
        }
    }
}

fn panicked(payload: Box<dyn Any + Send>) -> Failure {
    Failure::Panic { message: panic_text(payload) }
}

fn panic_text(payload: Box<dyn Any + Send>) -> Arc<str> {
    let text = payload
        .downcast_ref::<&str>()
        .map(|s| (*s).to_owned())
        .or_else(|| payload.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "a panic without a text".to_owned());
    // The payload is foreign, too: its drop may panic.
    if catch_unwind(AssertUnwindSafe(|| drop(payload))).is_err() {
        tracing::error!("a panic's payload panicked while it was dropped");
    }
    text.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    struct PanicOnDrop;
    impl Drop for PanicOnDrop {
        fn drop(&mut self) {
            if !std::thread::panicking() {
                panic!("in drop");
            }
        }
    }

    fn watched() -> Watched {
        let session = portcullis_runtime::SessionId::new("s").expect("a name");
        let id = portcullis_runtime::HandlerId::new("test", "work");
        Watched { pulse: Pulse::default(), who: Who::Handler { id, point: None, session } }
    }

    fn run<T>(
        limit: Option<Duration>,
        work: LocalBoxFuture<'static, Result<T, BoxError>>,
    ) -> Result<T, Failure> {
        let rt = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
        rt.expect("a runtime").block_on(async { answered(contain(watched(), limit, || work).await) })
    }

    // C-PIPE-3
    #[test]
    fn panics_while_polled_and_while_dropped_are_failures() {
        let polled = run::<()>(None, Box::pin(async { panic!("boom {}", 1) }));
        assert_eq!(polled, Err(Failure::Panic { message: "boom 1".into() }));
        let bomb = PanicOnDrop;
        let dropped = run::<()>(
            None,
            Box::pin(async move {
                let _held = &bomb;
                Ok(())
            }),
        );
        assert_eq!(dropped, Err(Failure::Panic { message: "in drop".into() }));
    }

    // C-PIPE-3
    #[test]
    fn a_limit_ends_what_never_answers_also_when_its_drop_panics() {
        let never = run::<()>(Some(Duration::from_secs(10)), Box::pin(std::future::pending()));
        assert_eq!(never, Err(Failure::Deadline { limit_ms: 10_000 }));
        let bomb = PanicOnDrop;
        let both = run::<()>(
            Some(Duration::from_secs(1)),
            Box::pin(async move {
                let _held = &bomb;
                std::future::pending().await
            }),
        );
        assert_eq!(both, Err(Failure::Deadline { limit_ms: 1_000 }));
    }

    #[test]
    fn errors_and_answers_pass() {
        assert_eq!(run(None, Box::pin(async { Ok(7) })), Ok(7));
        let failed = run::<()>(None, Box::pin(async { Err("no".into()) }));
        assert_eq!(failed, Err(Failure::Error { message: "no".into() }));
    }
}
