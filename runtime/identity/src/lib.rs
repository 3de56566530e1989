//! The concurrent core of Portcullis: who a call is, and who wins when two things happen to it at once.
//!
//! | type | what it settles |
//! |---|---|
//! | [`Mint`], [`Token`], [`TokenId`] | a fresh identity for each trip through the pipeline; a nested call never outlives its parent unnoticed |
//! | [`Seal`] | arguments and token become one thing, once |
//! | [`Settle`] | one answer, any number of waiters: approvals, journal tickets, ends of turns |
//! | [`Cancel`], [`Cause`] | a tree of cancels in which the first cause stays |
//! | [`Finish`] | cancel against complete: one of them writes the result |
//! | [`Intake`] | close against send: what was accepted before the close is there, nothing is accepted after |
//! | [`Nursery`] | spawn against cancel: a child is refused or cancelled, never missed |
//! | [`Sequence`] | the numbers of a journal, without gaps, in order |
//!
//! Each is small, safe code over one lock or one atomic word. Nothing outside this crate uses raw atomics: whoever needs
//! a race decided takes one of these.
//!
//! # An example
//!
//! ```
#![doc = include_str!("../docs/one_call.rs")]
//! ```
//!
//! # What it refuses to do
//!
//! - It starts nothing: no thread, no task, no timer. A deadline is somebody else's clock and a [`Cause::Deadline`].
//! - It depends on nothing, knows no executor, and never blocks for longer than another thread's few instructions:
//!   wakers are called and dropped outside its locks.
//! - It turns no number into a capability. A [`TokenId`] can be shown to anybody; a [`Token`] comes from a [`Mint`] only:
//!
//!   | tried | answer |
//!   |---|---|
//!   | to nest under, or end, a token of another runtime or of an earlier start | [`Orphan::ForeignMint`], [`EndError::ForeignMint`] |
//!   | to nest under a call that has ended | [`Orphan::ParentEnded`] |
//!   | to end, seal, settle, cancel or finish twice | the first stands, the second gets back what it brought |
//!   | to end a call whose nested calls are open | done, and said: [`End::open_children`] |
//!
//! - It keeps no list of the past. Calls, waiters and children that are gone leave no trace.
//!
//! # How it is tested
//!
//! All locks, atomics and reference counts come from one module that is `std` in a build and [loom] with
//! `--cfg portcullis_loom`. The models in `tests/loom.rs` drive these very types through every interleaving of up to
//! three threads, without a preemption bound, and print how many there were. Each property has a seeded fault (a feature
//! `fault-…` that acts only under that cfg) under which exactly its model fails. `scripts/loom` runs all of it.
//!
//! [loom]: https://docs.rs/loom

mod cancel;
mod cause;
mod fault;
mod finish;
mod intake;
mod mint;
mod nursery;
mod seal;
mod seats;
mod sequence;
mod settle;
mod sync;
mod token;

pub use cancel::{Cancel, Cancelled};
pub use cause::{Cause, UnknownCause};
pub use finish::{Finish, Finished};
pub use intake::{Drained, Entered, Intake};
pub use mint::{End, EndError, Mint, Orphan};
pub use nursery::{Child, Nursery};
pub use seal::{Seal, Sealed};
pub use sequence::{ReserveError, Sequence};
pub use settle::{Settle, Wait};
pub use token::{Token, TokenId};
