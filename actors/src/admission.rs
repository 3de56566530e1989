//! Admission: at most so many *active* turns an arbiter. A turn is active while our own code runs for it; around every
//! foreign await (a model, a hook, a body, a person, the journal) the permit is given back, so nothing that waits for
//! something else ever holds up a turn that could go on, and a parent that waits for its child cannot starve it.

use std::{
    cell::RefCell,
    future::{Future, poll_fn},
    pin::Pin,
    rc::Rc,
    sync::Arc,
    task::Poll,
};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Active turns an arbiter. More than this, and the cost of a turn rises with the number of sessions: the working sets
/// of all of them take turns in the caches.
pub(crate) const ACTIVE_TURNS: usize = 32;

/// An arbiter's permits.
#[derive(Clone)]
pub(crate) struct Admission(Arc<Semaphore>);

impl Default for Admission {
    fn default() -> Admission {
        Admission(Arc::new(Semaphore::new(ACTIVE_TURNS)))
    }
}

/// One session's hold on its arbiter's permits.
pub(crate) struct Pass {
    admission: Admission,
    held: Rc<RefCell<Held>>,
}

#[derive(Default)]
struct Held {
    /// `Some` while our own code may run for the turn.
    permit: Option<OwnedSemaphorePermit>,
    /// A turn is being driven.
    in_turn: bool,
    /// How many foreign awaits are open: calls of a step may overlap.
    away: usize,
}

impl Pass {
    pub(crate) fn new(admission: Admission) -> Pass {
        Pass { admission, held: Rc::default() }
    }

    /// Waits for a permit and holds it until the turn is over.
    pub(crate) async fn turn(&self) -> InTurn {
        let permit = self.acquire().await;
        let mut held = self.held.borrow_mut();
        held.permit = permit;
        held.in_turn = true;
        InTurn(self.held.clone())
    }

    /// Gives the permit back while something foreign is awaited. What answers at once costs nothing; outside a turn it
    /// changes nothing. Taken pinned: a future that is handed on by value is kept twice.
    pub(crate) async fn away<T>(&self, mut foreign: impl Future<Output = T> + Unpin) -> T {
        let answer = match poll_fn(|cx| Poll::Ready(Pin::new(&mut foreign).poll(cx))).await {
            Poll::Ready(answer) => answer,
            Poll::Pending => {
                let _away = Away::go(self.held.clone());
                foreign.await
            }
        };
        // An earlier await may have been dropped half-way, so the permit may be missing in either case.
        if self.is_missing() {
            let permit = self.acquire().await;
            let mut held = self.held.borrow_mut();
            if held.in_turn && held.permit.is_none() {
                held.permit = permit;
            }
        }
        answer
    }

    /// How many foreign awaits are open.
    pub(crate) fn open(&self) -> usize {
        self.held.borrow().away
    }

    /// The turn goes on without its permit: it has to take it back before it runs code of ours.
    pub(crate) fn is_missing(&self) -> bool {
        let held = self.held.borrow();
        held.in_turn && held.away == 0 && held.permit.is_none()
    }

    /// `None` never comes: the semaphore is not closed.
    async fn acquire(&self) -> Option<OwnedSemaphorePermit> {
        // Nobody is passed by: with others waiting, none is free.
        if let Ok(permit) = self.admission.0.clone().try_acquire_owned() {
            return Some(permit);
        }
        Box::pin(self.admission.0.clone().acquire_owned()).await.ok()
    }
}

/// The turn is being driven; dropped, its permit is free.
pub(crate) struct InTurn(Rc<RefCell<Held>>);

impl Drop for InTurn {
    fn drop(&mut self) {
        let mut held = self.0.borrow_mut();
        held.in_turn = false;
        held.permit = None;
    }
}

/// A foreign await is open; also when it is dropped half-way, it is over.
struct Away(Rc<RefCell<Held>>);

impl Away {
    fn go(held: Rc<RefCell<Held>>) -> Away {
        {
            let mut held = held.borrow_mut();
            held.away += 1;
            held.permit = None;
        }
        Away(held)
    }
}

impl Drop for Away {
    fn drop(&mut self) {
        self.0.borrow_mut().away -= 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures::FutureExt;

    #[test]
    fn a_full_arbiter_lets_a_turn_in_when_another_goes_away() {
        let admission = Admission(Arc::new(Semaphore::new(1)));
        let (first, second) = (Pass::new(admission.clone()), Pass::new(admission));
        let held = first.turn().now_or_never().expect("a free permit");
        assert!(second.turn().now_or_never().is_none());
        let (tell, told) = tokio::sync::oneshot::channel::<()>();
        let mut waiting = Box::pin(first.away(told));
        assert!(waiting.as_mut().now_or_never().is_none());
        let other = second.turn().now_or_never().expect("given back around the wait");
        tell.send(()).expect("it waits");
        assert!(waiting.as_mut().now_or_never().is_none(), "the other turn is active");
        drop(other);
        assert!(waiting.now_or_never().is_some());
        drop(held);
        assert!(second.turn().now_or_never().is_some());
    }

    #[test]
    fn an_await_that_is_dropped_is_over() {
        let admission = Admission(Arc::new(Semaphore::new(1)));
        let pass = Pass::new(admission.clone());
        let held = pass.turn().now_or_never().expect("a free permit");
        let mut waiting = Box::pin(pass.away(std::future::pending::<()>()));
        assert!(waiting.as_mut().now_or_never().is_none());
        drop(waiting);
        assert!(pass.away(std::future::ready(())).now_or_never().is_some(), "comes back with the permit");
        assert!(Pass::new(admission).turn().now_or_never().is_none());
        drop(held);
    }
}
