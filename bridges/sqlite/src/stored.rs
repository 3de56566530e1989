//! Rows of the records table, and what makes one a record. Data of more than [`BLOB_BYTES`] stand in the table of blobs,
//! by their digest: equal ones once, however many records have them.

use crate::error::Trouble;
use portcullis_runtime::{
    JournalError, Record, Seq, SessionId, decode, decode_apart, decode_header, encode_apart,
    journal::{Chain, Hash},
};
use rusqlite::{Connection, ErrorCode, Row, params};
use sha2::{Digest, Sha256};

/// Longer data of a record are kept apart from its line.
const BLOB_BYTES: usize = 64 << 10;

/// What [`Stored::of`] needs of a row, in its order: of `FROM`, with a blob where there is one.
pub(crate) const COLUMNS: &str = "seq, record, hash, blob, body";

/// The rows that [`COLUMNS`] names.
pub(crate) const FROM: &str = "records LEFT JOIN blobs ON digest = blob";

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
        let blob: Option<Hash> = row.get(3).map_err(why)?;
        let record = match &blob {
            None => decode(line).map_err(why)?,
            Some(digest) => {
                let body = row.get_ref(4).map_err(why)?.as_blob_or_null().map_err(why)?;
                let body = body.ok_or("the blob with its data is missing")?;
                if Hash::from(Sha256::digest(body)) != *digest {
                    return Err("the blob with its data is not as it was written".into());
                }
                decode_apart(line, str::from_utf8(body).map_err(why)?).map_err(why)?
            }
        };
        if record.seq.0 != seq {
            return Err(format!("it says it is record {}", record.seq));
        }
        let hash = row.get_ref(2).map_err(why)?.as_blob_or_null().map_err(why)?;
        let chained = chain.check(session, line, blob.as_ref(), hash).map_err(why)?;
        Ok(Stored { record, chained })
    }
}

/// Do the columns beside the line say what it says? On an error: which does not. The row has [`BESIDE`] behind
/// [`COLUMNS`].
pub(crate) fn agree(row: &Row<'_>) -> Result<(), String> {
    let line = row.get_ref(1).map_err(why)?.as_str().map_err(why)?;
    let says = decode_header(line).map_err(why)?;
    let column = |n: usize| row.get_ref(5 + n).map_err(why);
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

/// A record as it is put into a row.
pub(crate) struct Line {
    pub(crate) text: String,
    /// The digest of its data, if they stand apart.
    pub(crate) blob: Option<Hash>,
}

impl Line {
    /// Of this record; its data are put among the blobs if they are long.
    pub(crate) fn put(
        transaction: &Connection,
        session: &SessionId,
        record: &Record,
    ) -> Result<Line, Trouble> {
        let (text, data) = encode_apart(record, BLOB_BYTES);
        let Some(data) = data else { return Ok(Line { text, blob: None }) };
        let digest = Hash::from(Sha256::digest(&data));
        let inserted = transaction
            .prepare_cached(
                "INSERT INTO blobs (digest, body) VALUES (?1, ?2) ON CONFLICT (digest) DO NOTHING",
            )?
            .execute(params![digest, data.as_bytes()])
            .map_err(|e| Line::refused(session, record.seq, data.len(), e))?;
        if inserted == 0 {
            // Another record has them already: nothing may rest on a blob that is damaged.
            let same: bool = transaction
                .prepare_cached("SELECT body = ?2 FROM blobs WHERE digest = ?1")?
                .query_row(params![digest, data.as_bytes()], |row| row.get(0))
                .map_err(|e| Trouble::within(session, record.seq, e))?;
            if !same {
                let why = "an earlier record has the same data, and the blob with them is damaged".into();
                let corrupt = JournalError::Corrupt { session: session.clone(), at: record.seq, why };
                return Err(Trouble::Operation(corrupt));
            }
        }
        Ok(Line { text, blob: Some(digest) })
    }

    /// What an error of SQLite means for a record of so many bytes.
    pub(crate) fn refused(session: &SessionId, seq: Seq, bytes: usize, error: rusqlite::Error) -> Trouble {
        match error.sqlite_error_code() {
            Some(ErrorCode::TooBig) => Trouble::Operation(JournalError::TooLarge { bytes }),
            _ => Trouble::within(session, seq, error),
        }
    }
}

/// Where the chain of the session's records stands before `seq`.
pub(crate) fn chain(connection: &Connection, session: &SessionId, seq: u64) -> rusqlite::Result<Chain> {
    let Some(last) = seq.checked_sub(1) else { return Ok(Chain::default()) };
    let hash: Option<Hash> = connection
        .prepare_cached("SELECT hash FROM records WHERE session = ?1 AND seq = ?2")?
        .query_row(params![session.as_str(), last.cast_signed()], |row| row.get(0))?;
    Ok(Chain::behind(hash))
}
