//! One POST: what every dialect needs of an HTTP hook, and nothing of what its answer means.

#[cfg(feature = "http")]
mod client;

#[cfg(feature = "http")]
pub(crate) use client::post;

/// Handlers that would need this are reported when they are loaded, and never run.
#[cfg(not(feature = "http"))]
pub(crate) async fn post(_: Post) -> Result<Answer, String> {
    Err("this program was built without HTTP".into())
}

/// What is kept of an answer: as much as of a command's output.
pub(crate) const BODY: usize = portcullis_runtime::frozen::MAX_BYTES + 64 * 1024;

/// A request about to be sent.
#[cfg_attr(not(feature = "http"), allow(dead_code, reason = "nothing sends it"))]
pub(crate) struct Post {
    pub(crate) url: String,
    pub(crate) headers: Vec<(String, String)>,
    /// JSON.
    pub(crate) body: Vec<u8>,
}

/// What came back.
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) body: String,
    /// Some of it was dropped.
    pub(crate) cut: bool,
}
