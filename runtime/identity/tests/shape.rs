//! What embedders lean on: the example runs, and the types may travel.
#![cfg(not(portcullis_loom))]

use portcullis_identity::*;
use std::future::Future;

// The very text that the crate's documentation shows.
mod one_call {
    include!("../docs/one_call.rs");

    #[test]
    fn the_example_of_the_crate_runs() {
        main().unwrap();
    }
}

// C-RUN-4: handles are Send + Sync; futures are Send and own what they need.
#[test]
fn everything_travels() {
    fn shared<T: Send + Sync + 'static>() {}
    fn handle<T: Clone + Send + Sync + 'static>() {}
    fn future<F: Future + Send + 'static>(_: F) {}
    shared::<Mint>();
    shared::<Sequence>();
    shared::<Seal<String>>();
    shared::<Entered>();
    shared::<Child>();
    shared::<Wait<String>>();
    handle::<Token>();
    handle::<Settle<String>>();
    handle::<Cancel>();
    handle::<Finish>();
    handle::<Intake>();
    handle::<Nursery>();
    future(Settle::<String>::new().wait());
    future(Cancel::new().cancelled());
    future(Intake::new().drained());
    future(Nursery::below(&Cancel::new()).emptied());
}

// A value that is not `Sync` may be settled all the same: it is only ever reached under the lock.
#[test]
fn a_settled_value_need_not_be_sync() {
    fn shared<T: Send + Sync>(_: &T) {}
    let settle = Settle::settled(std::cell::Cell::new(1));
    shared(&settle);
    assert_eq!(settle.get().map(|cell| cell.get()), Some(1));
}

#[test]
fn debug_shows_states_and_no_secrets() {
    let cancel = Cancel::new();
    let seal = Seal::new("secret");
    assert_eq!(
        format!("{:?} {:?} {:?}", Settle::<u8>::new(), cancel, Finish::new()),
        "Settle(open) Cancel(live) Finish(None)"
    );
    assert_eq!(format!("{:?}", Settle::settled(1)), "Settle(1)");
    assert!(!format!("{seal:?}").contains("secret"));
    cancel.cancel(Cause::User);
    assert_eq!(format!("{cancel:?}"), "Cancel(user)");
    assert_eq!(format!("{:?}", Sequence::starting_at(3)), "Sequence { next: 3, poisoned: false }");
    assert_eq!(format!("{:?}", Intake::new()), "Intake { closed: false, inside: 0, .. }");
}
