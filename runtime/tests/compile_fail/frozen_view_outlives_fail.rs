// C-ID-1: a view cannot outlive the value it shows.
use portcullis_runtime::frozen::Frozen;

fn main() {
    let frozen = Frozen::parse("[1]").unwrap();
    let view = frozen.root();
    drop(frozen);
    assert_eq!(view.text(), "[1]");
}
