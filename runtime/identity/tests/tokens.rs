//! Mint, tokens and lineage in a plain build.
#![cfg(not(portcullis_loom))]

use portcullis_identity::{EndError, Mint, Orphan, Settle, Token, TokenId};
use std::{collections::HashSet, marker::PhantomData, thread};

// C-ID-3: unique in the process.
#[test]
fn tokens_are_unique_across_threads() {
    let mint = Mint::new(1);
    let ids: Vec<TokenId> = thread::scope(|scope| {
        let threads: Vec<_> = (0..4)
            .map(|_| {
                scope.spawn(|| {
                    let root = mint.root();
                    (0..1000)
                        .flat_map(|_| [mint.root().id(), mint.nested(&root).unwrap().id()])
                        .collect::<Vec<_>>()
                })
            })
            .collect();
        threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
    });
    assert_eq!(ids.iter().collect::<HashSet<_>>().len(), 8000);
}

// C-ID-3: and across restarts, which is a mint with another nonce.
#[test]
fn a_restart_repeats_no_id_and_takes_no_old_token() {
    let (before, after) = (Mint::new(1), Mint::new(2));
    let old = before.root();
    let new = after.root();
    assert_eq!(old.id().counter, new.id().counter);
    assert_ne!(old.id(), new.id());
    assert!(!after.owns(&old));
    assert_eq!(after.nested(&old).unwrap_err(), Orphan::ForeignMint);
    assert_eq!(after.end(&old).unwrap_err(), EndError::ForeignMint);
    // The refusals changed nothing for its own mint.
    assert!(!old.has_ended());
    assert_eq!(before.end(&old).unwrap().open_children, 0);
}

// C-ID-3: a nested call holds its parent's token; an ended parent is refused.
#[test]
fn an_ended_parent_is_refused() {
    let mint = Mint::new(1);
    let parent = mint.root();
    let child = mint.nested(&parent).unwrap();
    assert_eq!(child.parent(), Some(parent.id()));
    assert!(!mint.end(&child).unwrap().outlived_parent);
    assert_eq!(mint.end(&parent).unwrap().open_children, 0);
    // A clone is the same call.
    assert_eq!(mint.nested(&parent.clone()).unwrap_err(), Orphan::ParentEnded);
    assert_eq!(mint.end(&parent.clone()).unwrap_err(), EndError::AlreadyEnded);
    assert!(parent.has_ended());
}

// C-ID-4: a nested call does not outlive its parent unnoticed; both sides say so.
#[test]
fn open_children_are_reported_from_both_sides() {
    let mint = Mint::new(1);
    let parent = mint.root();
    let [a, b, c] = [(); 3].map(|()| mint.nested(&parent).unwrap());
    assert!(!mint.end(&a).unwrap().outlived_parent);
    assert_eq!(mint.end(&parent).unwrap().open_children, 2);
    assert!(mint.end(&b).unwrap().outlived_parent);
    // An orphan is still open itself, and answers for its own children.
    let grandchild = mint.nested(&c).unwrap();
    assert_eq!(mint.end(&c).unwrap().open_children, 1);
    assert!(mint.end(&grandchild).unwrap().outlived_parent);
}

// C-ID-4: a nested call that was dropped and never ended is not forgotten.
#[test]
fn a_dropped_child_is_still_counted() {
    let mint = Mint::new(1);
    let parent = mint.root();
    drop(mint.nested(&parent).unwrap());
    assert_eq!(mint.end(&parent).unwrap().open_children, 1);
}

// C-ID-3
#[test]
fn lineage_leads_to_the_call_the_model_made() {
    let mint = Mint::new(1);
    let root = mint.root();
    let child = mint.nested(&root).unwrap();
    let grandchild = mint.nested(&child).unwrap();
    assert_eq!((root.depth(), child.depth(), grandchild.depth()), (0, 1, 2));
    assert_eq!(root.parent(), None);
    assert_eq!(grandchild.lineage().collect::<Vec<_>>(), [grandchild.id(), child.id(), root.id()]);
}

#[test]
fn a_very_long_line_is_dropped_without_recursion() {
    let mint = Mint::new(1);
    let mut token = mint.root();
    for _ in 0..300_000 {
        token = mint.nested(&token).unwrap();
    }
    assert_eq!(token.depth(), 300_000);
    drop(token);
}

// C-ID-3: what is shown is a number, and only that.
#[test]
fn ids_are_shown_in_hexadecimal_and_order_as_text() {
    let mint = Mint::new(0xabc);
    let (first, second) = (mint.root(), mint.root());
    assert_eq!(first.id().to_string(), "00000000000000000000000000000abc-0000000000000000");
    assert_eq!(format!("{second:?}"), "Token(00000000000000000000000000000abc-0000000000000001)");
    assert!(first.id() < second.id());
    let big = TokenId { nonce: 0xabc, counter: u64::MAX };
    assert!(second.id() < big && second.id().to_string() < big.to_string());
}

struct Probe<T>(PhantomData<T>);
trait Otherwise {
    const HAS_DEFAULT: bool = false;
}
impl<T> Otherwise for Probe<T> {}
impl<T: Default> Probe<T> {
    const HAS_DEFAULT: bool = true;
}

// C-ID-3: no constructor by the back door. (Deserialisation would need a dependency that this crate does not have.)
#[test]
fn a_token_has_no_default() {
    let (control, mint, token) =
        (Probe::<Settle<u8>>::HAS_DEFAULT, Probe::<Mint>::HAS_DEFAULT, Probe::<Token>::HAS_DEFAULT);
    assert_eq!((control, mint, token), (true, false, false));
}

#[test]
fn refusals_have_codes_and_sentences() {
    assert_eq!(
        [Orphan::ForeignMint, Orphan::ParentEnded].map(Orphan::code),
        ["foreign_mint", "parent_ended"]
    );
    assert_eq!(
        [EndError::ForeignMint, EndError::AlreadyEnded].map(EndError::code),
        ["foreign_mint", "already_ended"]
    );
    assert!(Orphan::ParentEnded.to_string().contains("has ended"));
    assert!(EndError::AlreadyEnded.to_string().contains("before"));
}
