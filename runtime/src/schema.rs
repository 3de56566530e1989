//! The schema check. The one place where a `serde_json::Value` stands for arguments: it is built node by node from our
//! view, never parsed from the text, so no key in the text can turn into anything else.

use crate::Frozen;
use std::fmt;

/// A compiled schema.
pub(crate) struct Check(jsonschema::Validator);

impl fmt::Debug for Check {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Check")
    }
}

/// How many violations a message names before it stops.
const NAMED: usize = 8;

impl Check {
    pub(crate) fn compile(schema: &Frozen) -> Result<Check, String> {
        if schema.root().kind() != crate::frozen::Kind::Object {
            return Err("a schema is a JSON object".into());
        }
        jsonschema::validator_for(&schema.root().to_schema_value()).map(Check).map_err(|e| e.to_string())
    }

    pub(crate) fn accepts(&self, arguments: &Frozen) -> Result<(), String> {
        let value = arguments.root().to_schema_value();
        if self.0.is_valid(&value) {
            return Ok(());
        }
        let mut named: Vec<String> = Vec::new();
        let mut more = 0usize;
        for error in self.0.iter_errors(&value) {
            if named.len() == NAMED {
                more += 1;
                continue;
            }
            let place = error.instance_path().to_string().replace('/', ".");
            named.push(format!("${place}: {error}"));
        }
        if more > 0 {
            named.push(format!("and {more} more"));
        }
        Err(named.join("; "))
    }
}
