//! Sealed JSON: what a model, a tool or a person said, kept to the byte and read by one parser only.
//!
//! A [`Frozen`] is one strict scan of a text that keeps the text. It is what is logged, hashed, shown and handed on;
//! everything else is a projection of it:
//!
//! - [`View`], a borrowed cursor, for policy code that wants to look at a part;
//! - [`Frozen::decode`], into a Rust type, straight from the view;
//! - [`Frozen::compact`] and [`Frozen::javascript`], the two ways hook clients print values;
//! - [`Json`], an owned part of any shape, for fields of a tool's argument type.
//!
//! What it refuses to do: nothing here gives a mutable view, nothing picks one of two equal keys or rounds a number
//! silently, and no key in a text means anything to the parser. The last is why `serde_json::Value` is not used: with
//! serde_json's `raw_value` feature, which any crate of a build can switch on, an object with the key
//! `$serde_json::private::RawValue` turns into whatever its string says.
//!
//! ```
//! use portcullis_runtime::frozen::{Frozen, Json};
//!
//! #[derive(serde::Deserialize)]
//! struct Arguments {
//!     path: String,
//!     extra: Json,
//! }
//!
//! let frozen = Frozen::arguments(r#"{"path": "a\u002fb", "extra": {"10": 1.0, "2": 12345678901234567890}}"#)?;
//! assert_eq!(frozen.root().get("path").and_then(|path| path.as_str()).as_deref(), Some("a/b"));
//!
//! let arguments: Arguments = frozen.decode()?;
//! assert_eq!(arguments.path, "a/b");
//! assert_eq!(arguments.extra.root().text(), r#"{"10": 1.0, "2": 12345678901234567890}"#);
//! assert_eq!(arguments.extra.root().javascript(), r#"{"2":12345678901234567000,"10":1}"#);
//! # Ok::<(), portcullis_runtime::frozen::Refused>(())
//! ```

mod decode;
mod encode;
pub mod exact;
pub mod exact_option;
mod json;
mod number;
mod print;
mod rebuild;
mod refused;
mod scan;
mod schema_value;
mod tape;
mod text;
mod view;

use std::fmt::Write as _;
use std::hash::{Hash, Hasher};
use std::sync::{Arc, OnceLock};

use serde::Serialize;
use serde::de::DeserializeOwned;
use sha2::{Digest, Sha256};

pub use json::Json;
pub use refused::{Place, Refused, Why};
pub use view::{Entries, Items, Kind, View};

use refused::Fault;
use tape::Tape;

/// Levels of objects and arrays a value may nest. A scalar has none.
///
/// What walks a value recurses, so this also bounds the stack: a value at the limit takes less than 512 KiB of it in an
/// optimised build and less than 1.5 MiB in a debug build, `flatten`, `untagged` and a schema check included. Threads of
/// the standard library have 2 MiB.
pub const MAX_DEPTH: usize = 512;

/// Bytes a text may have.
pub const MAX_BYTES: usize = 8 * 1024 * 1024;

/// A JSON value that nobody can change: its exact text, a view of it and its digest.
///
/// Cloning copies a pointer. The view and the digest are made when first asked for and shared by all clones. Two values
/// are equal when their texts are, to the byte; `{"a":1}` and `{"a": 1}` are not.
#[derive(Clone)]
pub struct Frozen(Arc<Sealed>);

struct Sealed {
    text: Box<str>,
    tape: OnceLock<Tape>,
    digest: OnceLock<[u8; 32]>,
}

/// How many lone surrogates [`Frozen::from_result`] replaced.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Replaced {
    /// Each was a six-byte escape and is now U+FFFD.
    pub count: usize,
}

impl Replaced {
    /// Whether the kept text differs from what the tool returned.
    pub fn any(self) -> bool {
        self.count > 0
    }
}

impl Frozen {
    /// The arguments of a tool call: one JSON object. A text that is empty, or only whitespace, is `{}`: providers send
    /// that for a call without arguments.
    ///
    /// # Errors
    /// What [`parse`](Self::parse) refuses, and any value but an object.
    pub fn arguments(text: impl Into<Box<str>>) -> Result<Self, Refused> {
        let mut text = text.into();
        if text.bytes().all(|byte| matches!(byte, b' ' | b'\n' | b'\r' | b'\t')) {
            text = "{}".into();
        }
        match scan::scan(&text) {
            Ok(Kind::Object) => Ok(Self::seal(text)),
            Ok(found) => {
                let start = text.len() - text.trim_start().len();
                Err(Fault::at(start, Why::NotAnObject { found }).seal(&text))
            }
            Err(fault) => Err(fault.seal(&text)),
        }
    }

    /// Any JSON value, kept exactly as written, with the whitespace around it.
    ///
    /// # Errors
    /// Text that is not JSON by RFC 8259; two keys of an object that are equal after unescaping; a literal with a
    /// fraction or an exponent too large for a double; half a surrogate pair; more than [`MAX_DEPTH`] levels or
    /// [`MAX_BYTES`] bytes. Integers of any size, `-0` and the order of keys are kept.
    pub fn parse(text: impl Into<Box<str>>) -> Result<Self, Refused> {
        let text = text.into();
        match scan::scan(&text) {
            Ok(_) => Ok(Self::seal(text)),
            Err(fault) => Err(fault.seal(&text)),
        }
    }

    /// What a tool returned. As [`parse`](Self::parse), except that half a surrogate pair becomes U+FFFD in the kept text
    /// and is counted: the tool has already run, so refusing would lose the result of something that happened.
    ///
    /// # Errors
    /// As [`parse`](Self::parse), without lone surrogates. Keys are compared after the replacement.
    pub fn from_result(text: impl Into<Box<str>>) -> Result<(Self, Replaced), Refused> {
        let text = text.into();
        let fault = match scan::scan(&text) {
            Ok(_) => return Ok((Self::seal(text), Replaced::default())),
            Err(fault) => fault,
        };
        let replacement = if fault.is_lone_surrogate() { text::replace_lone(&text) } else { None };
        let Some(replacement) = replacement else { return Err(fault.seal(&text)) };
        match scan::scan(&replacement.text) {
            Ok(_) => {
                let replaced = Replaced { count: replacement.count() };
                Ok((Self::seal(replacement.text.into()), replaced))
            }
            Err(fault) => Err(fault.moved(|offset| replacement.original(offset)).seal(&text)),
        }
    }

    /// The value of a Rust type, in compact form. A [`Json`] in it keeps its exact text.
    ///
    /// # Errors
    /// Numbers that are not finite, types that have no JSON form (maps with keys that are no strings, numbers or booleans), and what
    /// [`parse`](Self::parse) refuses, such as a flattened map that repeats a field's name.
    pub fn of<T: Serialize + ?Sized>(value: &T) -> Result<Self, Refused> {
        let mut text = String::new();
        match encode::encode(value, &mut text) {
            Ok(()) => Self::parse(text),
            Err(fault) => Err(fault.or_at(text.len()).seal(&text)),
        }
    }

    /// A text that was scanned, or a whole value inside one.
    fn seal(text: Box<str>) -> Self {
        Frozen(Arc::new(Sealed { text, tape: OnceLock::new(), digest: OnceLock::new() }))
    }

    /// The exact text.
    pub fn text(&self) -> &str {
        &self.0.text
    }

    /// A cursor on the whole value.
    pub fn root(&self) -> View<'_> {
        View::root(&self.0.text, self.0.tape.get_or_init(|| Tape::of(&self.0.text)))
    }

    /// Reads the value into a Rust type.
    ///
    /// Integers are exact up to 128 bits; `1.0` and `1e3` are integers where one is asked for, as in JSON Schema. Where
    /// serde buffers (`flatten`, `untagged`, `tag = "…"`) numbers pass as `u64`, `i64` or the nearest `f64`, and larger
    /// integers are refused. Use [`Json`] for parts of any shape; `serde_json::Value` and `RawValue` are not for untrusted
    /// text (see the [module](self)).
    ///
    /// # Errors
    /// [`Why::Shape`] with the path of the value that does not fit.
    pub fn decode<T: DeserializeOwned>(&self) -> Result<T, Refused> {
        self.root().decode()
    }

    /// SHA-256 of the exact text.
    pub fn sha256(&self) -> [u8; 32] {
        *self.0.digest.get_or_init(|| Sha256::digest(self.0.text.as_bytes()).into())
    }

    /// The same, hexadecimal.
    pub fn sha256_hex(&self) -> Arc<str> {
        let hex = self.sha256().iter().fold(String::with_capacity(64), |mut text, byte| {
            // Writing to a String cannot fail.
            let _ = write!(text, "{byte:02x}");
            text
        });
        hex.into()
    }

    /// See [`View::compact`].
    pub fn compact(&self) -> String {
        self.root().compact()
    }

    /// See [`View::javascript`].
    pub fn javascript(&self) -> String {
        self.root().javascript()
    }

    /// See [`View::javascript_exact`].
    pub fn javascript_exact(&self) -> String {
        self.root().javascript_exact()
    }
}

impl PartialEq for Frozen {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0) || self.0.text == other.0.text
    }
}

impl Eq for Frozen {}

impl Hash for Frozen {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.text.hash(state);
    }
}

/// At most the first 120 characters of the text: a value can be megabytes.
impl std::fmt::Debug for Frozen {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Frozen({})", text::shorten(&self.0.text, 120))
    }
}

impl std::str::FromStr for Frozen {
    type Err = Refused;

    fn from_str(text: &str) -> Result<Self, Refused> {
        Self::parse(text)
    }
}
