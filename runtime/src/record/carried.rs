//! Which conversation a request carries, as its record says it.

use crate::law::Transcript;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::{fmt, sync::Arc};

/// The conversation that a request carries: in the log its [digest](Transcript::digest), in the process that makes the
/// request the conversation itself. The digest is made when the record is written, which is not where the turn waits.
#[derive(Clone)]
pub enum Carried {
    /// Its digest, from the log.
    Digest(Arc<str>),
    /// Itself.
    Transcript(Transcript),
}

impl Carried {
    /// 32 hexadecimal digits.
    pub fn digest(&self) -> Arc<str> {
        match self {
            Carried::Digest(digest) => digest.clone(),
            Carried::Transcript(transcript) => transcript.digest(),
        }
    }

    /// The conversation, where it is at hand.
    pub fn transcript(&self) -> Option<&Transcript> {
        match self {
            Carried::Digest(_) => None,
            Carried::Transcript(transcript) => Some(transcript),
        }
    }
}

impl From<Transcript> for Carried {
    fn from(transcript: Transcript) -> Carried {
        Carried::Transcript(transcript)
    }
}

impl fmt::Debug for Carried {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.digest().fmt(f)
    }
}

impl PartialEq for Carried {
    fn eq(&self, other: &Carried) -> bool {
        self.digest() == other.digest()
    }
}

impl Eq for Carried {}

impl Serialize for Carried {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.digest().serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Carried {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Carried, D::Error> {
        Arc::<str>::deserialize(deserializer).map(Carried::Digest)
    }
}
