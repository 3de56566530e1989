//! What a record says of time: no history differs by it.

use super::Body;
use crate::{Frozen, seam::OwnRecord};

impl Body {
    /// The same, as if everything had taken no time: what is equal in two runs of one history.
    pub fn timeless(&self) -> Body {
        let mut body = self.clone();
        match &mut body {
            Body::DecisionRecorded(decided) => decided.made.ms = 0,
            Body::DecisionsRecorded(several) => several.decisions.iter_mut().for_each(|made| made.ms = 0),
            Body::ToolReturned(returned) => returned.ms = 0,
            Body::InputRequested(asked) => asked.expires = None,
            Body::Own(own) => *own = without_ms(own),
            _ => {}
        }
        body
    }
}

/// By our own records' convention a time is a field `ms` (`hook/result`).
fn without_ms(own: &OwnRecord) -> OwnRecord {
    let root = own.data.root();
    if root.get("ms").is_none() {
        return own.clone();
    }
    let mut text = String::from("{");
    for (key, value) in root.entries().filter(|(key, _)| key != "ms") {
        if text.len() > 1 {
            text.push(',');
        }
        // A key that came out of JSON goes into it.
        text.push_str(&serde_json::to_string(&key).unwrap_or_default());
        text.push(':');
        value.write_compact(&mut text);
    }
    text.push('}');
    let data = Frozen::parse(text);
    OwnRecord { kind: own.kind.clone(), data: data.unwrap_or_else(|_| own.data.clone()) }
}
