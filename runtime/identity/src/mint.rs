//! The mint: where tokens come from, and where calls end.

use crate::{
    fault,
    sync::{AtomicU64, Ordering},
    token::{CHILD, Call, ENDED, Token, TokenId},
};
use std::{error::Error, fmt};

/// Makes tokens and ends calls. One per runtime, shared by reference or in an `Arc`.
///
/// A call costs one number and one allocation; there is no table behind it, so nothing has to be swept.
pub struct Mint {
    nonce: u128,
    next: AtomicU64,
}

impl Mint {
    /// A mint whose tokens carry `nonce`.
    ///
    /// The nonce is what makes tokens unique across restarts and what tells this runtime's tokens from another's: hand
    /// in 128 bits from the system's random source, anew at each start. Two mints with one nonce take each other's
    /// tokens for their own.
    pub fn new(nonce: u128) -> Self {
        Mint { nonce, next: AtomicU64::new(0) }
    }

    /// The nonce of every token of this mint.
    pub fn nonce(&self) -> u128 {
        self.nonce
    }

    /// A token for a call the model made.
    pub fn root(&self) -> Token {
        Call::token(self.number(), None)
    }

    /// A token for a call made by the call that holds `parent`. Until it is ended, the parent counts it as open.
    ///
    /// Only the parent itself has to be open. A grandparent that has ended was told about the parent; refusing here as
    /// well would need a lock over the whole line.
    ///
    /// # Errors
    /// [`Orphan::ForeignMint`] if another mint made `parent`, [`Orphan::ParentEnded`] if that call has ended.
    pub fn nested(&self, parent: &Token) -> Result<Token, Orphan> {
        if !self.owns(parent) {
            return Err(Orphan::ForeignMint);
        }
        let state = &parent.call.state;
        if fault::LINEAGE {
            if parent.has_ended() {
                return Err(Orphan::ParentEnded);
            }
            state.fetch_add(CHILD, Ordering::AcqRel);
        } else {
            state
                .fetch_update(Ordering::AcqRel, Ordering::Acquire, |now| {
                    (now & ENDED == 0).then_some(now + CHILD)
                })
                .map_err(|_| Orphan::ParentEnded)?;
        }
        Ok(Call::token(self.number(), Some(parent.clone())))
    }

    /// Ends the call of `token`: no nested call can be made under it from here on. Says what it left behind.
    ///
    /// Parent and child never disagree: a nested call is in its parent's [`End::open_children`] exactly if its own
    /// [`End::outlived_parent`] is true.
    ///
    /// # Errors
    /// [`EndError::ForeignMint`] if another mint made the token, [`EndError::AlreadyEnded`] if somebody ended it first.
    /// Neither changes anything.
    pub fn end(&self, token: &Token) -> Result<End, EndError> {
        if !self.owns(token) {
            return Err(EndError::ForeignMint);
        }
        let before = token.call.state.fetch_or(ENDED, Ordering::AcqRel);
        if before & ENDED != 0 {
            return Err(EndError::AlreadyEnded);
        }
        let outlived_parent = match token.call.parent() {
            Some(parent) => parent.call.state.fetch_sub(CHILD, Ordering::AcqRel) & ENDED != 0,
            None => false,
        };
        Ok(End { open_children: before / CHILD, outlived_parent })
    }

    /// Whether this mint made `token`.
    pub fn owns(&self, token: &Token) -> bool {
        token.id().nonce == self.nonce
    }

    fn number(&self) -> TokenId {
        // Only uniqueness matters here, so no ordering: what a token guards is published by whoever hands it over.
        let counter = if fault::MINT {
            let counter = self.next.load(Ordering::Relaxed);
            self.next.store(counter + 1, Ordering::Relaxed);
            counter
        } else {
            self.next.fetch_add(1, Ordering::Relaxed)
        };
        TokenId { nonce: self.nonce, counter }
    }
}

impl fmt::Debug for Mint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Mint").field("nonce", &format_args!("{:032x}", self.nonce)).finish_non_exhaustive()
    }
}

/// How a call ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "open children outlive their parent: somebody has to know"]
pub struct End {
    /// Nested calls made under this one, directly, that had not been ended.
    pub open_children: u64,
    /// The call that made this one had already ended.
    pub outlived_parent: bool,
}

/// Why a nested call got no token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Orphan {
    /// The parent's token is of another runtime, or of this one before a restart.
    ForeignMint,
    /// The parent's call has ended.
    ParentEnded,
}

impl Orphan {
    /// A stable name for programs and logs.
    pub fn code(self) -> &'static str {
        match self {
            Orphan::ForeignMint => "foreign_mint",
            Orphan::ParentEnded => "parent_ended",
        }
    }
}

impl fmt::Display for Orphan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Orphan::ForeignMint => {
                "the parent's token was not minted by this runtime: nest under the token the tool was given"
            }
            Orphan::ParentEnded => {
                "the parent's call has ended: make nested calls before the tool returns, and wait for them"
            }
        })
    }
}

impl Error for Orphan {}

/// Why a call could not be ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EndError {
    /// The token is of another runtime.
    ForeignMint,
    /// The call was ended before.
    AlreadyEnded,
}

impl EndError {
    /// A stable name for programs and logs.
    pub fn code(self) -> &'static str {
        match self {
            EndError::ForeignMint => "foreign_mint",
            EndError::AlreadyEnded => "already_ended",
        }
    }
}

impl fmt::Display for EndError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            EndError::ForeignMint => {
                "the token was not minted by this runtime: end it with the mint that made it"
            }
            EndError::AlreadyEnded => "the call was ended before: the first end stands, drop this one",
        })
    }
}

impl Error for EndError {}
