//! A call's frozen snapshot, as gates, guards, bodies and hooks see it.

use crate::{CallKey, Frozen, Scene, ToolSpec};
use portcullis_identity::TokenId;
use std::{ops::Deref, sync::Arc};

/// One trip of one call through the pipeline. A snapshot by value (one `Arc`): it can be kept and sent anywhere, and is
/// no capability, since it holds the token's id and never the token.
#[derive(Clone, Debug)]
pub struct Execution(Arc<ExecutionData>);

/// What an [`Execution`] holds. Reached through it by `Deref`, read-only.
#[derive(Debug)]
#[non_exhaustive]
pub struct ExecutionData {
    /// The trip's token, by id.
    pub id: TokenId,
    /// The token of the call whose body started this one, by id.
    pub parent: Option<TokenId>,
    /// Where.
    pub scene: Scene,
    /// The call's key.
    pub key: CallKey,
    /// The model's own id of the call; it may repeat.
    pub call_id: Arc<str>,
    /// The tool.
    pub tool: Arc<ToolSpec>,
    /// The arguments as the model wrote them.
    pub requested: Frozen,
    /// The arguments in force: what is judged, shown, logged and run.
    pub arguments: Frozen,
}

impl Execution {
    /// Seals a snapshot.
    #[expect(clippy::too_many_arguments, reason = "one snapshot, built in one place")]
    pub fn new(
        id: TokenId,
        parent: Option<TokenId>,
        scene: Scene,
        key: CallKey,
        call_id: Arc<str>,
        tool: Arc<ToolSpec>,
        requested: Frozen,
        arguments: Frozen,
    ) -> Execution {
        Execution(Arc::new(ExecutionData { id, parent, scene, key, call_id, tool, requested, arguments }))
    }

    /// The key under which an outside system may recognise this call again, also after a restart: session and call.
    pub fn idempotency_key(&self) -> String {
        format!("{}:{}", self.scene.session.id, self.key)
    }
}

impl Deref for Execution {
    type Target = ExecutionData;
    fn deref(&self) -> &ExecutionData {
        &self.0
    }
}
