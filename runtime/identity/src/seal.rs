//! Seal once: where a call's arguments and its token become one thing.

use crate::{
    fault,
    sync::{Mutex, lock, split},
    token::Token,
};
use std::fmt;

/// A draft that is revised until it is sealed under a token, once; from then on it is that value under that token.
///
/// A rewriter that answers too late (it blocked a thread past its deadline, say) finds the seal set and gets its
/// proposal back: it cannot change what was judged. A second seal is refused too, so no value stands under two tokens
/// and no token over two values.
pub struct Seal<T> {
    state: Mutex<State<T>>,
}

struct State<T> {
    value: T,
    token: Option<Token>,
}

/// What was sealed: a value and the token it stands under.
#[derive(Clone, Debug)]
pub struct Sealed<T> {
    /// The identity.
    pub token: Token,
    /// The value as it was when the seal was set.
    pub value: T,
}

impl<T> Seal<T> {
    /// An open draft.
    pub fn new(draft: T) -> Self {
        Seal { state: Mutex::new(State { value: draft, token: None }) }
    }

    /// Replaces the draft and returns the one before.
    ///
    /// # Errors
    /// The refused value, if the seal is set.
    pub fn revise(&self, value: T) -> Result<T, T> {
        let mut state = lock(&self.state);
        if state.token.is_some() {
            return Err(value);
        }
        state = split(fault::SEAL, state, &self.state);
        Ok(std::mem::replace(&mut state.value, value))
    }
}

impl<T: Clone> Seal<T> {
    /// Seals the draft under `token`. The value is cloned under the cell's lock: use a cheap one.
    ///
    /// # Errors
    /// The refused token, if the seal is set. It names no call; its holder should end it.
    pub fn seal(&self, token: Token) -> Result<Sealed<T>, Token> {
        let mut state = lock(&self.state);
        if state.token.is_some() {
            return Err(token);
        }
        state = split(fault::SEAL, state, &self.state);
        // Cloned before anything changes, so that a `Clone` that panics leaves an open draft.
        let value = state.value.clone();
        state.token = Some(token.clone());
        Ok(Sealed { token, value })
    }

    /// What was sealed, or `None` while the draft is open.
    pub fn sealed(&self) -> Option<Sealed<T>> {
        let state = lock(&self.state);
        let token = state.token.clone()?;
        Some(Sealed { token, value: state.value.clone() })
    }
}

impl<T> fmt::Debug for Seal<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Seal").field("token", &lock(&self.state).token).finish_non_exhaustive()
    }
}
