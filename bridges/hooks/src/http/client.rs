//! Sends it, over TLS where the address says so.

use super::{Answer, BODY, Post};
use reqwest::{
    Client,
    header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue},
    redirect::Policy,
};
use rustls::{ClientConfig, RootCertStore, crypto::ring};
use rustls_platform_verifier::BuilderVerifierExt;
use std::{
    error::Error,
    sync::{Arc, OnceLock},
};

/// Sends it and reads the answer. Redirects are not followed: whoever allowed an address allowed that one. Dropping the future
/// closes the connection. The error is a sentence.
pub(crate) async fn post(post: Post) -> Result<Answer, String> {
    let mut headers = HeaderMap::new();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    for (name, value) in post.headers {
        let key = HeaderName::from_bytes(name.as_bytes());
        let key = key.map_err(|_| format!("`{name}` cannot be the name of a header"))?;
        // An end of line in a value would begin another header.
        let value: String = value.chars().filter(|c| !matches!(c, '\r' | '\n' | '\0')).collect();
        let value = HeaderValue::from_str(&value);
        headers.insert(key, value.map_err(|_| format!("the value of the header `{name}` cannot be sent"))?);
    }
    let request = client()?.post(&post.url).headers(headers).body(post.body);
    let mut response = request.send().await.map_err(said)?;
    let (status, mut body, mut cut) = (response.status().as_u16(), Vec::new(), false);
    while let Some(more) = response.chunk().await.map_err(said)? {
        let room = BODY - body.len();
        body.extend_from_slice(&more[..more.len().min(room)]);
        if more.len() > room {
            cut = true;
            break;
        }
    }
    Ok(Answer { status, body: String::from_utf8_lossy(&body).into_owned(), cut })
}

/// Made once. It keeps no connections: each session's thread has its own runtime, which a connection must not outlive.
fn client() -> Result<&'static Client, String> {
    static CLIENT: OnceLock<Result<Client, String>> = OnceLock::new();
    let made = CLIENT.get_or_init(|| {
        let client = Client::builder().tls_backend_preconfigured(tls()?);
        let client = client.redirect(Policy::none()).pool_max_idle_per_host(0).no_proxy();
        client.build().map_err(said)
    });
    made.as_ref().map_err(Clone::clone)
}

/// TLS that trusts whom the system trusts. Where that is nobody, https fails and http does not.
fn tls() -> Result<ClientConfig, String> {
    let builder = || {
        let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()));
        builder.with_safe_default_protocol_versions().map_err(|error| error.to_string())
    };
    match builder()?.with_platform_verifier() {
        Ok(config) => Ok(config.with_no_client_auth()),
        Err(error) => {
            tracing::warn!(%error, "the system's certificates cannot be used: https hooks will fail");
            Ok(builder()?.with_root_certificates(RootCertStore::empty()).with_no_client_auth())
        }
    }
}

/// What went wrong, from the outside in. The address is known to whoever reads it.
fn said(error: reqwest::Error) -> String {
    let error = error.without_url();
    let (mut text, mut source) = (error.to_string(), error.source());
    while let Some(cause) = source {
        text = format!("{text}: {cause}");
        source = cause.source();
    }
    text
}
