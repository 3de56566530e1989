//! TurnActor: plays a turn, and is then free for the next one on its arbiter. To start an actor anew for each turn (its task,
//! its mailbox, its addresses) costs a twentieth of a small turn.

use crate::{
    cx::SessionCx,
    session::{SessionActor, TurnOver},
    turn::Driver,
};
use actix::prelude::*;
use portcullis_runtime::Cancel;
use std::{cell::RefCell, rc::Rc};

/// The actor. It plays one turn at a time; when that is over it is free for the next one on its arbiter, whichever session
/// that is of.
pub(crate) struct TurnActor {
    /// What it is to play, as it finds it at `Go`.
    table: Table,
}

type Table = Rc<RefCell<Option<Laid>>>;

/// A turn on the table.
struct Laid {
    driver: Driver,
    watch: DeathWatch,
    /// The actor's own address: it is free again when the turn is over.
    actor: Addr<TurnActor>,
}

impl Actor for TurnActor {
    type Context = Context<Self>;
}

/// How an actor is found, and where its next turn is laid down: a turn is of its arbiter, and no message could carry it.
pub(crate) struct Seat {
    actor: Addr<TurnActor>,
    table: Table,
}

/// SessionActor → TurnActor: a turn is on the table.
struct Go;

impl Message for Go {
    type Result = ();
}

/// How many actors wait for a turn on an arbiter at most; more than turns that begin at a time are of no use.
const SEATS: usize = 64;

/// Has the open turn of a session played.
pub(crate) fn play(cx: Rc<SessionCx>, session: Addr<SessionActor>, cancel: Cancel) {
    cx.hop();
    let room = cx.room.clone();
    let mut turn = Some((Driver { cx, cancel }, DeathWatch { session, told: false }));
    // One that is gone takes nothing, and the next is tried. When a new one takes nothing the arbiter ends, and the watch tells.
    let mut new = false;
    while let Some((driver, watch)) = turn.take().filter(|_| !new) {
        let free = room.free.borrow_mut().pop();
        new = free.is_none();
        let Seat { actor, table } = free.unwrap_or_else(|| {
            let table = Table::default();
            Seat { actor: TurnActor { table: table.clone() }.start(), table }
        });
        let mut on = table.borrow_mut();
        if on.insert(Laid { driver, watch, actor }).actor.try_send(Go).is_err() {
            turn = on.take().map(|laid| (laid.driver, laid.watch));
        }
    }
}

impl Handler<Go> for TurnActor {
    type Result = ();

    fn handle(&mut self, _: Go, ctx: &mut Context<Self>) {
        let Some(Laid { driver, mut watch, actor }) = self.table.borrow_mut().take() else { return };
        let table = self.table.clone();
        let turn = async move {
            let end = driver.run().await;
            watch.told = true;
            driver.cx.hop();
            // Nothing is waited for that the session has to say to this. It outlives its turns; when it is gone, nobody
            // waits, and when its mailbox is full, its turn comes.
            if let Err(SendError::Full(over)) = watch.session.try_send(TurnOver { end: Some(end) }) {
                let _ = watch.session.send(over).await;
            }
            let mut free = driver.cx.room.free.borrow_mut();
            if free.len() < SEATS {
                free.push(Seat { actor, table });
            }
        };
        ctx.spawn(turn.into_actor(self));
    }
}

/// Tells the session when the loop dies without an end: a panic of ours, or the arbiter's own end.
struct DeathWatch {
    session: Addr<SessionActor>,
    told: bool,
}

impl Drop for DeathWatch {
    fn drop(&mut self) {
        if !self.told {
            let _ = self.session.try_send(TurnOver { end: None });
        }
    }
}
