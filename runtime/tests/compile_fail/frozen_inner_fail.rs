// C-ID-1: what is inside cannot be taken out, so no Arc::get_mut reaches it.
use portcullis_runtime::frozen::Frozen;

fn main() {
    let frozen = Frozen::parse("1").unwrap();
    let Frozen { 0: _ } = frozen;
}
