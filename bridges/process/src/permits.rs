//! How many children may be alive at a time.

use std::num::NonZero;
use std::sync::{Arc, OnceLock};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// A fair limit on live children: whoever asked first gets the next free place.
///
/// A permit is held around the child process only, from just before it starts until it is over, and never while a
/// person, a model or another actor is waited for: so nesting cannot deadlock on it. Cloning shares the limit.
#[derive(Clone, Debug)]
pub struct Permits {
    places: Arc<Semaphore>,
}

impl Permits {
    /// A limit of its own. Zero is taken as one: a limit under which nothing ever runs helps nobody.
    pub fn new(children: usize) -> Self {
        Self { places: Arc::new(Semaphore::new(children.clamp(1, Semaphore::MAX_PERMITS))) }
    }

    /// Twice the cores this process may use, and at least two.
    pub fn for_this_machine() -> Self {
        let cores = std::thread::available_parallelism().map_or(1, NonZero::get);
        Self::new((2 * cores).max(2))
    }

    /// The limit shared by the whole process, made by [`for_this_machine`](Self::for_this_machine) on first use.
    /// A [`Spawn`](crate::Spawn) without permits of its own uses it.
    pub fn shared() -> Self {
        static SHARED: OnceLock<Permits> = OnceLock::new();
        SHARED.get_or_init(Self::for_this_machine).clone()
    }

    /// Places free at this moment.
    pub fn available(&self) -> usize {
        self.places.available_permits()
    }

    /// Waits for a place. `None` would mean a closed semaphore; nothing closes it, and running without a place is then
    /// better than not running.
    pub(crate) async fn acquire(&self) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.places).acquire_owned().await.ok()
    }
}
