//! Tokens: one per trip through the pipeline, and what a log may know of them.

use crate::sync::{Arc, AtomicU64, Ordering};
use std::fmt;

/// The number of a token: what logs, spans and snapshots show.
///
/// It is *not* a capability: nothing in this crate turns an id back into a [`Token`], and no verb takes one. It orders
/// by nonce, then by counter; within one mint that is the order of minting.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TokenId {
    /// Of the mint: differs between runtimes and between restarts.
    pub nonce: u128,
    /// From 0, in the order of minting.
    pub counter: u64,
}

/// Two hexadecimal numbers of fixed width, nonce and counter, with a dash between: text orders as the ids do.
impl fmt::Display for TokenId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}-{:016x}", self.nonce, self.counter)
    }
}

/// The live identity of one trip through the pipeline.
///
/// Only a [`Mint`](crate::Mint) makes one: there is no public constructor, no `Default` and no deserialisation. Holding
/// it is the right to make nested calls under it, so it stays in the pipeline and in the tool's own context; everything
/// else gets the [`TokenId`]. Clones are the same token. Dropping the last clone does *not* end the call: a call that
/// was dropped without [`Mint::end`](crate::Mint::end) is still counted open by its parent, which is how a lost call is
/// noticed.
#[derive(Clone)]
pub struct Token {
    pub(crate) call: Arc<Call>,
}

impl Token {
    /// The id, for logs, spans and snapshots.
    pub fn id(&self) -> TokenId {
        self.call.id
    }

    /// The id of the call that made this one; `None` for a call the model made.
    pub fn parent(&self) -> Option<TokenId> {
        self.call.parent.as_ref().map(Token::id)
    }

    /// This call, its parent, its parent's parent and so on to the call the model made.
    pub fn lineage(&self) -> impl Iterator<Item = TokenId> + '_ {
        std::iter::successors(Some(self), |token| token.call.parent.as_ref()).map(Token::id)
    }

    /// How many calls stand above this one: 0 for a call the model made. For limits on depth.
    pub fn depth(&self) -> u32 {
        self.call.depth
    }

    /// Whether the call has been ended. A `false` may be out of date when it arrives; `true` is for ever.
    pub fn has_ended(&self) -> bool {
        self.call.load() & ENDED != 0
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Token({})", self.id())
    }
}

/// Lowest bit of a call's state: the call has ended.
pub(crate) const ENDED: u64 = 1;
/// The rest of the state counts the nested calls that are open: one child.
pub(crate) const CHILD: u64 = 2;

/// A call is one allocation with one word of state. "Ended" and the number of open children share that word, so that
/// whoever changes one has seen the other: this is what makes an unnoticed orphan impossible. There is no table of
/// calls, hence none to grow: a call lives as long as its tokens and those of its nested calls.
pub(crate) struct Call {
    id: TokenId,
    parent: Option<Token>,
    depth: u32,
    pub(crate) state: AtomicU64,
}

impl Call {
    pub(crate) fn token(id: TokenId, parent: Option<Token>) -> Token {
        let depth = parent.as_ref().map_or(0, |parent| parent.depth().saturating_add(1));
        Token { call: Arc::new(Call { id, parent, depth, state: AtomicU64::new(0) }) }
    }

    pub(crate) fn parent(&self) -> Option<&Token> {
        self.parent.as_ref()
    }

    fn load(&self) -> u64 {
        self.state.load(Ordering::Acquire)
    }
}

/// In a loop, because the plain way recurses once per generation and a stack is finite.
impl Drop for Call {
    fn drop(&mut self) {
        let mut next = self.parent.take();
        while let Some(mut token) = next {
            next = Arc::get_mut(&mut token.call).and_then(|call| call.parent.take());
        }
    }
}
