// C-ID-1: a field of any shape shows its sealed value and gives it away, but does not lend it to be replaced.
use portcullis_runtime::frozen::{Frozen, Json};

fn main() {
    let mut json = Json::parse("1").unwrap();
    let frozen: &mut Frozen = json.frozen();
    assert_eq!(frozen.text(), "1");
    json = Json::parse("2").unwrap();
    drop(json);
}
