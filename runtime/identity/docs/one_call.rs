use portcullis_identity::{Cancel, Cause, Finish, Mint, Orphan, Settle};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    // At the start of the runtime. A real host takes the nonce from the system's random source.
    let mint = Mint::new(0x5eed);
    let shutdown = Cancel::new();

    // The model calls a tool: a token, a way to stop it, and a place for its result.
    let call = mint.root();
    let stop = shutdown.child();
    let finish = Finish::new();
    let result: Settle<&str> = Settle::new();

    // The tool calls another one, which ends before it.
    let nested = mint.nested(&call)?;
    assert_eq!(nested.parent(), Some(call.id()));
    assert!(!mint.end(&nested)?.outlived_parent);

    // Somebody pulls the plug while the body returns. Exactly one of them writes the result.
    assert!(shutdown.cancel(Cause::Shutdown));
    assert_eq!(stop.cause(), Some(Cause::Shutdown));
    if finish.cancel() {
        result.settle("cancelled after dispatch")?;
    }
    if finish.complete() {
        result.settle("done")?;
    }
    assert_eq!(result.get(), Some("cancelled after dispatch"));

    // The call ends; nothing can be nested under it any more.
    assert_eq!(mint.end(&call)?.open_children, 0);
    assert_eq!(mint.nested(&call).unwrap_err(), Orphan::ParentEnded);
    Ok(())
}
