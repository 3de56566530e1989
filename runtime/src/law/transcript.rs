//! The projection of a log onto what the model reads: sealed chunks, shared from request to request.

use crate::{Message, Role};
use sha2::{Digest, Sha256};
use std::{
    fmt,
    sync::{Arc, OnceLock},
};

/// A conversation. Cloning costs one `Arc`; adding a step's messages costs those messages. Frozen.
#[derive(Clone, Default)]
pub struct Transcript {
    last: Option<Arc<Link>>,
}

struct Link {
    before: Transcript,
    messages: Chunk,
    len: usize,
    /// Made when it is asked for: that of what came before, and of these messages.
    digest: OnceLock<[u8; 32]>,
}

/// Some messages: in memory, or as a snapshot keeps them until somebody looks at them.
enum Chunk {
    Here(Box<[Message]>),
    Kept { bytes: Vec<u8>, from: usize, count: usize, read: OnceLock<Box<[Message]>> },
}

impl Chunk {
    /// # Panics
    /// When what a snapshot keeps does not read back. Its digest has shown that it is what was written, so that is a defect:
    /// whoever runs into it opens the session from its log, where everything is.
    fn messages(&self) -> &[Message] {
        match self {
            Chunk::Here(messages) => messages,
            Chunk::Kept { bytes, from, count, read } => read.get_or_init(|| {
                let messages: Vec<Message> = serde_json::from_slice(&bytes[*from..])
                    .unwrap_or_else(|error| panic!("a snapshot's messages do not read back: {error}"));
                assert_eq!(messages.len(), *count, "a snapshot's messages do not read back whole");
                messages.into()
            }),
        }
    }
}

impl Transcript {
    /// This conversation with more messages behind it. With none it is the same.
    pub fn with(&self, messages: &[Message]) -> Transcript {
        if messages.is_empty() {
            return self.clone();
        }
        let len = self.len() + messages.len();
        self.linked(Chunk::Here(messages.into()), len)
    }

    /// The same with messages that a snapshot keeps, as a JSON array from that byte on.
    pub(super) fn with_kept(&self, bytes: Vec<u8>, from: usize, count: usize) -> Transcript {
        if count == 0 {
            return self.clone();
        }
        self.linked(Chunk::Kept { bytes, from, count, read: OnceLock::new() }, self.len() + count)
    }

    fn linked(&self, messages: Chunk, len: usize) -> Transcript {
        let (before, digest) = (self.clone(), OnceLock::new());
        Transcript { last: Some(Arc::new(Link { before, messages, len, digest })) }
    }

    /// The messages behind a conversation that this one was made from; `None` when it was not.
    pub(super) fn behind(&self, before: &Transcript) -> Option<Vec<&Message>> {
        let (mut chunks, mut at) = (Vec::new(), self.last.as_ref());
        while at.map(Arc::as_ptr) != before.last.as_ref().map(Arc::as_ptr) {
            let link = at?;
            chunks.push(link.messages.messages());
            at = link.before.last.as_ref();
        }
        Some(chunks.into_iter().rev().flatten().collect())
    }

    /// Its whole digest is known.
    pub(super) fn is_known(&self, digest: [u8; 32]) {
        if let Some(link) = &self.last {
            let _ = link.digest.set(digest);
        }
    }

    /// What is in it, in 32 hexadecimal digits: the first half of a SHA-256 chained over the messages, each as JSON. It
    /// does not depend on how the conversation was put together, and costs the messages that were not asked about before.
    pub fn digest(&self) -> Arc<str> {
        let digest = &self.sum()[..16];
        digest.iter().fold(String::with_capacity(32), |text, byte| text + &format!("{byte:02x}")).into()
    }

    /// The digest, whole.
    pub(super) fn sum(&self) -> [u8; 32] {
        let (mut unknown, mut at) = (Vec::new(), &self.last);
        let mut digest = loop {
            let Some(link) = at else { break [0; 32] };
            if let Some(known) = link.digest.get() {
                break *known;
            }
            unknown.push(link);
            at = &link.before.last;
        };
        let mut json = Vec::new();
        for link in unknown.into_iter().rev() {
            for message in link.messages.messages() {
                json.clear();
                message.write_json(&mut json);
                digest = Sha256::new().chain_update(digest).chain_update(&json).finalize().into();
            }
            // Whoever was faster has found the same.
            let _ = link.digest.set(digest);
        }
        digest
    }

    /// How many messages it has.
    pub fn len(&self) -> usize {
        self.last.as_ref().map_or(0, |link| link.len)
    }

    /// True before the first message.
    pub fn is_empty(&self) -> bool {
        self.last.is_none()
    }

    /// The last message.
    pub fn last(&self) -> Option<&Message> {
        self.last.as_ref().and_then(|link| link.messages.messages().last())
    }

    /// Whose side the last message is on. A request's is always [`Role::User`].
    pub fn last_role(&self) -> Option<Role> {
        self.last().map(Message::role)
    }

    /// The messages, oldest first.
    pub fn iter(&self) -> impl Iterator<Item = &Message> {
        let mut chunks = Vec::new();
        let mut at = &self.last;
        while let Some(link) = at {
            chunks.push(link.messages.messages());
            at = &link.before.last;
        }
        chunks.into_iter().rev().flat_map(|chunk| chunk.iter())
    }

    /// The messages, newest first, without walking the whole history.
    pub fn rev(&self) -> impl Iterator<Item = &Message> {
        let mut at = self.last.as_ref();
        std::iter::from_fn(move || {
            let link = at?;
            at = link.before.last.as_ref();
            Some(link)
        })
        .flat_map(|link| link.messages.messages().iter().rev())
    }
}

impl Drop for Transcript {
    /// Unlinks in a loop: a conversation of a million steps must not overflow the stack when it goes.
    fn drop(&mut self) {
        let mut next = self.last.take();
        while let Some(link) = next {
            next = match Arc::try_unwrap(link) {
                Ok(mut link) => link.before.last.take(),
                Err(_) => None,
            };
        }
    }
}

impl fmt::Debug for Transcript {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

impl PartialEq for Transcript {
    fn eq(&self, other: &Transcript) -> bool {
        self.len() == other.len() && self.iter().eq(other.iter())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Content, Source};

    fn say(text: &str) -> Message {
        Message::User { content: Content::text(text), source: Source::User }
    }

    #[test]
    fn shares_what_came_before_and_reads_in_order() {
        let one = Transcript::default().with(&[say("a"), say("b")]);
        let two = one.with(&[say("c")]);
        assert_eq!(one.len(), 2);
        assert_eq!(two.iter().cloned().collect::<Vec<_>>(), [say("a"), say("b"), say("c")]);
        assert_eq!(two.rev().cloned().collect::<Vec<_>>(), [say("c"), say("b"), say("a")]);
        assert_eq!(two.with(&[]), two);
    }

    #[test]
    fn a_digest_says_what_was_said_and_not_how_it_was_put_together() {
        let at_once = Transcript::default().with(&[say("a"), say("b"), say("c")]);
        let one = Transcript::default().with(&[say("a")]);
        assert_ne!(one.digest(), at_once.digest());
        let in_pieces = one.with(&[say("b")]).with(&[say("c")]);
        assert_eq!(in_pieces.digest(), at_once.digest());
        assert_eq!(in_pieces.digest().len(), 32);
        let otherwise = one.with(&[say("c"), say("b")]);
        assert_ne!(otherwise.digest(), at_once.digest());
        let steered = Message::Steering { content: Content::text("a"), source: Source::User };
        assert_ne!(Transcript::default().with(&[steered]).digest(), one.digest());
        assert_eq!(Transcript::default().digest().trim_matches('0'), "");
    }

    #[test]
    fn a_long_conversation_is_dropped_without_recursion() {
        let mut long = Transcript::default();
        for _ in 0..300_000 {
            long = long.with(&[say("x")]);
        }
        assert_eq!(long.len(), 300_000);
        drop(long);
    }
}
