//! The logs of a tree of sessions.

use portcullis::{Journal, Record, Seq, SessionId};
use std::{collections::BTreeMap, sync::Arc};

/// Each session's records, in order.
pub(crate) type Logs = BTreeMap<SessionId, Vec<Arc<Record>>>;

/// The logs that a journal holds, each of them verified (C-DUR-9).
pub(crate) async fn stored(journal: &impl Journal) -> Logs {
    let mut logs = Logs::new();
    for head in journal.sessions().await.unwrap() {
        let log: &mut Vec<Arc<Record>> = logs.entry(head.session.clone()).or_default();
        while (log.len() as u64) < head.records {
            log.extend(journal.read(&head.session, Seq(log.len() as u64), 1000).await.unwrap());
        }
        let found = journal.verify(&head.session).await.unwrap();
        assert_eq!((found.records, found.damage), (head.records, None), "{}", head.session);
    }
    logs
}
