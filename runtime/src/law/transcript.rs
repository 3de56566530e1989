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
    messages: Box<[Message]>,
    len: usize,
    /// Made when it is asked for: that of what came before, and of these messages.
    digest: OnceLock<[u8; 32]>,
}

impl Transcript {
    /// This conversation with more messages behind it. With none it is the same.
    pub fn with(&self, messages: &[Message]) -> Transcript {
        if messages.is_empty() {
            return self.clone();
        }
        let len = self.len() + messages.len();
        let (before, messages, digest) = (self.clone(), messages.into(), OnceLock::new());
        Transcript { last: Some(Arc::new(Link { before, messages, len, digest })) }
    }

    /// What is in it, in 32 hexadecimal digits: the first half of a SHA-256 chained over the messages, each as JSON. It
    /// does not depend on how the conversation was put together, and costs the messages that were not asked about before.
    pub fn digest(&self) -> Arc<str> {
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
            for message in &link.messages {
                json.clear();
                message.write_json(&mut json);
                digest = Sha256::new().chain_update(digest).chain_update(&json).finalize().into();
            }
            // Whoever was faster has found the same.
            let _ = link.digest.set(digest);
        }
        digest[..16].iter().fold(String::with_capacity(32), |text, byte| text + &format!("{byte:02x}")).into()
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
        self.last.as_ref().and_then(|link| link.messages.last())
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
            chunks.push(&link.messages);
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
        .flat_map(|link| link.messages.iter().rev())
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
