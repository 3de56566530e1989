//! A tree of cancel cells.

use crate::{
    cause::Cause,
    fault,
    seats::{Seat, Seats, Waiters},
    sync::{Arc, AtomicBool, Mutex, Ordering, lock, split},
};
use std::{
    fmt,
    future::Future,
    mem,
    pin::Pin,
    task::{Context, Poll},
};

/// A cell that is cancelled once, with everything below it. Clones are the same cell.
///
/// - The first cause stays; later ones are refused.
/// - A child can be cancelled alone. Nothing detaches from its parent: a cell is reached for as long as a handle to it,
///   to a cell below it or to a waiter on either exists, even when the handles in between are gone.
/// - Children get their *parent's* cause, so that a body deep down can say why it stopped. [`Cause::Parent`] is for
///   whoever cancels something because what it was done for is over.
/// - A child made after a cancel is born cancelled, with that cause.
/// - A child whose last handle is gone leaves the tree: a parent's size does not grow with its past.
///
/// When [`cancel`](Cancel::cancel) returns `true`, every cell below is cancelled; while it runs, some may not be yet. A
/// cell below that somebody else cancels in that moment keeps its own cause.
#[derive(Clone)]
pub struct Cancel {
    scope: Arc<Scope>,
}

/// What handles share. The parent holds the node and never the scope, so that the last handle can be seen to go.
struct Scope {
    node: Arc<Node>,
    parent: Option<Parent>,
}

/// Keeps the way down from the root whole: a handle below holds those above.
struct Parent {
    cancel: Cancel,
    seat: Seat,
}

struct Node {
    state: Mutex<State>,
    /// Follows the state, under its lock: a look costs a load. Once true, for ever.
    cancelled: AtomicBool,
}

enum State {
    Live { waiters: Waiters, children: Seats<Arc<Node>> },
    Cancelled(Cause),
}

impl Cancel {
    /// The root of a tree.
    pub fn new() -> Self {
        Cancel::root(State::live())
    }

    /// A cell below this one; born cancelled if this one is.
    pub fn child(&self) -> Cancel {
        self.adopt(fault::CANCEL).unwrap_or_else(|cause| Cancel::root(State::Cancelled(cause)))
    }

    /// A cell below this one, for work that should not start after a cancel.
    ///
    /// # Errors
    /// The cause, if this cell is cancelled.
    pub fn try_child(&self) -> Result<Cancel, Cause> {
        self.adopt(fault::NURSERY)
    }

    /// Cancels this cell and everything below it, then wakes all who wait on any of them. `false` if this cell is
    /// cancelled already: the earlier cause stands, and its cancel may still be on its way down.
    pub fn cancel(&self, cause: Cause) -> bool {
        let mut woken = Vec::new();
        let mut below = Vec::new();
        if !self.scope.node.cancel(cause, &mut woken, &mut below) {
            return false;
        }
        while let Some(node) = below.pop() {
            node.cancel(cause, &mut woken, &mut below);
        }
        // Last, so that whoever wakes up finds the whole tree cancelled.
        woken.into_iter().for_each(Waiters::wake_all);
        true
    }

    /// Why this cell is cancelled, or `None`. A `None` may be out of date when it arrives; a cause is for ever.
    #[inline]
    pub fn cause(&self) -> Option<Cause> {
        if !self.is_cancelled() {
            return None;
        }
        match *lock(&self.scope.node.state) {
            State::Live { .. } => None,
            State::Cancelled(cause) => Some(cause),
        }
    }

    /// Whether this cell is cancelled. A `false` may be out of date when it arrives; `true` is for ever.
    #[inline]
    pub fn is_cancelled(&self) -> bool {
        self.scope.node.cancelled.load(Ordering::Acquire)
    }

    /// Resolves to the cause when this cell is cancelled; at once if it is.
    pub fn cancelled(&self) -> Cancelled {
        Cancelled { cancel: self.clone(), seat: None }
    }

    /// How many cells stand directly below; 0 once cancelled. For tests and reports.
    pub fn children(&self) -> usize {
        match &*lock(&self.scope.node.state) {
            State::Live { children, .. } => children.len(),
            State::Cancelled(_) => 0,
        }
    }

    fn root(state: State) -> Self {
        let node = Arc::new(Node::new(state));
        Cancel { scope: Arc::new(Scope { node, parent: None }) }
    }

    fn adopt(&self, fault: bool) -> Result<Cancel, Cause> {
        let node = Arc::new(Node::new(State::live()));
        // One critical section looks at the cause and seats the child: a cancel comes before it, and the child is
        // refused, or after it, and finds the child.
        let mut state = lock(&self.scope.node.state);
        if let State::Cancelled(cause) = *state {
            return Err(cause);
        }
        state = split(fault, state, &self.scope.node.state);
        let seat = match &mut *state {
            State::Live { children, .. } => Some(children.sit(node.clone())),
            State::Cancelled(_) => None,
        };
        drop(state);
        let parent = seat.map(|seat| Parent { cancel: self.clone(), seat });
        Ok(Cancel { scope: Arc::new(Scope { node, parent }) })
    }
}

impl Default for Cancel {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for Cancel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.cause() {
            Some(cause) => write!(f, "Cancel({cause})"),
            None => f.write_str("Cancel(live)"),
        }
    }
}

impl State {
    fn live() -> Self {
        State::Live { waiters: Waiters::default(), children: Seats::default() }
    }
}

impl Node {
    fn new(state: State) -> Node {
        let cancelled = AtomicBool::new(matches!(state, State::Cancelled(_)));
        Node { state: Mutex::new(state), cancelled }
    }

    /// Cancels this node alone. What it had is for the caller, without the lock: no two nodes are ever locked at once.
    fn cancel(&self, cause: Cause, woken: &mut Vec<Waiters>, below: &mut Vec<Arc<Node>>) -> bool {
        let mut state = lock(&self.state);
        if matches!(*state, State::Cancelled(_)) {
            return false;
        }
        let before = mem::replace(&mut *state, State::Cancelled(cause));
        self.cancelled.store(true, Ordering::Release);
        drop(state);
        if let State::Live { waiters, children } = before {
            woken.push(waiters);
            below.extend(children.into_items());
        }
        true
    }
}

impl Scope {
    fn leave(&mut self) -> Option<Cancel> {
        let Parent { cancel, seat } = self.parent.take()?;
        let node = match &mut *lock(&cancel.scope.node.state) {
            State::Live { children, .. } => children.leave(seat),
            State::Cancelled(_) => None,
        };
        drop(node);
        Some(cancel)
    }
}

/// In a loop, because the plain way recurses once per generation and a stack is finite.
impl Drop for Scope {
    fn drop(&mut self) {
        let mut next = self.leave();
        while let Some(mut parent) = next {
            next = Arc::get_mut(&mut parent.scope).and_then(Scope::leave);
        }
    }
}

/// The future of [`Cancel::cancelled`]. May be polled again after it is ready, with the same answer. Dropping it takes
/// its waker out of the cell.
#[must_use = "a future does nothing until it is awaited"]
pub struct Cancelled {
    cancel: Cancel,
    seat: Option<Seat>,
}

impl Future for Cancelled {
    type Output = Cause;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Cause> {
        let Cancelled { cancel, seat } = self.get_mut();
        let displaced = match &mut *lock(&cancel.scope.node.state) {
            State::Cancelled(cause) => return Poll::Ready(*cause),
            State::Live { waiters, .. } => waiters.register(seat, context.waker()),
        };
        drop(displaced);
        Poll::Pending
    }
}

impl Drop for Cancelled {
    fn drop(&mut self) {
        let Some(seat) = self.seat.take() else { return };
        let waker = match &mut *lock(&self.cancel.scope.node.state) {
            State::Live { waiters, .. } => waiters.leave(seat),
            State::Cancelled(_) => None,
        };
        drop(waker);
    }
}

impl fmt::Debug for Cancelled {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cancelled").finish_non_exhaustive()
    }
}
