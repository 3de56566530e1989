//! Rows of the records table, and what makes one a record.

use portcullis_runtime::{
    Record, SessionId, decode, decode_header,
    journal::{Chain, Hash},
};
use rusqlite::{Connection, Row, params};

/// What [`Stored::of`] needs of a row, in its order.
pub(crate) const COLUMNS: &str = "seq, record, hash";

/// What [`agree`] needs of a row besides, in its order.
pub(crate) const BESIDE: &str = "type, v, time, turn, step, call";

/// A row that was found sound.
pub(crate) struct Stored {
    pub(crate) record: Record,
    /// Its hash was there, and fits.
    pub(crate) chained: bool,
}

impl Stored {
    /// The row as record `seq` of the session, behind what `chain` has seen. On an error: why it is none.
    pub(crate) fn of(
        row: &Row<'_>,
        session: &SessionId,
        seq: u64,
        chain: &mut Chain,
    ) -> Result<Stored, String> {
        let found = row.get::<_, i64>(0).map_err(why)?.cast_unsigned();
        if found != seq {
            return Err(format!("it is missing; the next one is {found}"));
        }
        let line = row.get_ref(1).map_err(why)?.as_str().map_err(why)?;
        let record = decode(line).map_err(why)?;
        if record.seq.0 != seq {
            return Err(format!("it says it is record {}", record.seq));
        }
        let hash = row.get_ref(2).map_err(why)?.as_blob_or_null().map_err(why)?;
        let chained = chain.check(session, line, None, hash).map_err(why)?;
        Ok(Stored { record, chained })
    }
}

/// Do the columns beside the line say what it says? On an error: which does not. The row has [`BESIDE`] behind
/// [`COLUMNS`].
pub(crate) fn agree(row: &Row<'_>) -> Result<(), String> {
    let line = row.get_ref(1).map_err(why)?.as_str().map_err(why)?;
    let says = decode_header(line).map_err(why)?;
    let column = |n: usize| row.get_ref(3 + n).map_err(why);
    let (turn, step) = (says.at.turn.map(u64::cast_signed), says.at.step.map(i64::from));
    let call = says.at.call.map(|call| call.to_string());
    let agreed = [
        ("type", column(0)?.as_str() == Ok(&*says.kind)),
        ("v", column(1)?.as_i64() == Ok(i64::from(says.version))),
        ("time", column(2)?.as_i64() == Ok(says.time.cast_signed())),
        ("turn", column(3)?.as_i64_or_null() == Ok(turn)),
        ("step", column(4)?.as_i64_or_null() == Ok(step)),
        ("call", column(5)?.as_str_or_null() == Ok(call.as_deref())),
    ];
    match agreed.iter().find(|(_, agreed)| !agreed) {
        Some((column, _)) => Err(format!("its column `{column}` does not say what its line says")),
        None => Ok(()),
    }
}

fn why(error: impl std::fmt::Display) -> String {
    error.to_string()
}

/// Where the chain of the session's records stands before `seq`.
pub(crate) fn chain(connection: &Connection, session: &SessionId, seq: u64) -> rusqlite::Result<Chain> {
    let Some(last) = seq.checked_sub(1) else { return Ok(Chain::default()) };
    let hash: Option<Hash> = connection
        .prepare_cached("SELECT hash FROM records WHERE session = ?1 AND seq = ?2")?
        .query_row(params![session.as_str(), last.cast_signed()], |row| row.get(0))?;
    Ok(Chain::behind(hash))
}
