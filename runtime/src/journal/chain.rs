//! The chain of a session's records: each stored line is tied to all lines before it, so that a changed, moved or missing
//! one shows, also where it would still read as a record.

use crate::SessionId;
use sha2::{Digest, Sha256};

/// A link of the chain: SHA-256.
pub type Hash = [u8; 32];

/// Where a session's chain stands: the hash of its last record, if that has one.
///
/// A record's hash is the SHA-256 of the hash before it (32 zero bytes for the first), the session's name, a zero byte and
/// the stored line; a line whose body is kept elsewhere is followed by a zero byte and the SHA-256 of that body. Neither
/// names nor lines have a zero byte in them. Records that were stored before there was a chain have no hash, and the
/// chain begins behind them.
///
/// It tells accidents, not attackers: whoever can write the store can compute a chain anew, and a log that was cut short
/// at a record has a sound chain.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Chain(Option<Hash>);

/// Why a stored record is no link of its chain.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Broken {
    /// The hash is another one.
    #[error("its hash is not that of its text behind the record before it: one of the two was changed")]
    Other,
    /// There is none.
    #[error("it has no hash, though the record before it has one")]
    Missing,
}

impl Chain {
    /// Behind a record with this hash, or with none.
    pub fn behind(hash: Option<Hash>) -> Chain {
        Chain(hash)
    }

    /// The hash of the next record: of its stored line, and of its body if that is kept elsewhere.
    pub fn next(&mut self, session: &SessionId, line: &str, body: Option<&Hash>) -> Hash {
        let mut hash = Sha256::new();
        hash.update(self.0.unwrap_or_default());
        hash.update(session.as_str());
        hash.update([0]);
        hash.update(line);
        if let Some(body) = body {
            hash.update([0]);
            hash.update(body);
        }
        let hash = hash.finalize().into();
        self.0 = Some(hash);
        hash
    }

    /// Is `stored` the hash of the next record? True when it has one, false when it and all before it have none.
    ///
    /// # Errors
    /// [`Broken`]: the record, or the one before it, is not as it was written.
    pub fn check(
        &mut self,
        session: &SessionId,
        line: &str,
        body: Option<&Hash>,
        stored: Option<&[u8]>,
    ) -> Result<bool, Broken> {
        match stored {
            None if self.0.is_none() => Ok(false),
            None => Err(Broken::Missing),
            Some(stored) if self.next(session, line, body) == stored => Ok(true),
            Some(_) => Err(Broken::Other),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(name: &str) -> SessionId {
        SessionId::new(name).unwrap()
    }

    fn hex(hash: Hash) -> String {
        hash.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    // C-DUR-9. The values are those of `sha256sum`: the way of hashing is part of the file's format.
    #[test]
    fn a_hash_is_over_the_one_before_the_session_and_the_line() {
        let mut chain = Chain::default();
        let first = chain.next(&named("s"), "{}", None);
        assert_eq!(hex(first), "663f9ff5ae1691078165948867ead9e6b1e31f245565dd36eef4d6cf5163c83f");
        assert_eq!(
            hex(chain.next(&named("s"), "{}", None)),
            "d7f2485a61c21bfa2d3029128fbec625bf34630efc6b11c5c3a071e4ec0febab"
        );
        assert_eq!(
            hex(Chain::behind(Some(first)).next(&named("s"), "{}", Some(&first))),
            "d5c998dd54c542cc2dd124a64a6fbacb49d96f1855153b7b0feeda85e6c0b508"
        );
    }

    // C-DUR-9
    #[test]
    fn whatever_is_changed_breaks_it() {
        let mut chain = Chain::default();
        let first = chain.next(&named("s"), "one", None);
        let behind = Chain::behind(Some(first));
        let second = chain.next(&named("s"), "two", Some(&first));
        assert_eq!(behind.clone().check(&named("s"), "two", Some(&first), Some(&second)), Ok(true));
        let other = Err(Broken::Other);
        assert_eq!(behind.clone().check(&named("s"), "twp", Some(&first), Some(&second)), other);
        assert_eq!(behind.clone().check(&named("t"), "two", Some(&first), Some(&second)), other);
        assert_eq!(behind.clone().check(&named("s"), "two", Some(&second), Some(&second)), other);
        assert_eq!(behind.clone().check(&named("s"), "two", None, Some(&second)), other);
        assert_eq!(behind.clone().check(&named("s"), "two", Some(&first), Some(&second[..31])), other);
        assert_eq!(Chain::default().check(&named("s"), "two", Some(&first), Some(&second)), other);
        assert_eq!(behind.clone().check(&named("s"), "two", None, None), Err(Broken::Missing));
    }

    #[test]
    fn records_of_before_the_chain_have_none() {
        let mut chain = Chain::default();
        assert_eq!(chain.check(&named("s"), "old", None, None), Ok(false));
        let hash = chain.clone().next(&named("s"), "new", None);
        assert_eq!(chain.check(&named("s"), "new", None, Some(&hash)), Ok(true));
        assert_eq!(chain.check(&named("s"), "newer", None, None), Err(Broken::Missing));
    }
}
