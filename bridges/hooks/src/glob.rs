//! Patterns with `*`.

/// `*` is any run of characters (not of `/` in a path, where `**` is); the rest is literal. Time is bounded by the product
/// of both lengths.
pub(crate) fn glob(pattern: &str, text: &str, path: bool) -> bool {
    enum Piece {
        Char(char),
        Run { slashes: bool },
    }
    let mut pieces = Vec::new();
    let mut chars = pattern.chars().peekable();
    while let Some(c) = chars.next() {
        if c != '*' {
            pieces.push(Piece::Char(c));
            continue;
        }
        let mut stars = 1;
        while chars.next_if_eq(&'*').is_some() {
            stars += 1;
        }
        // `**/` also stands for no folder at all.
        if path && stars > 1 && pieces.last().is_none_or(|p| matches!(p, Piece::Char('/'))) {
            let _ = chars.next_if_eq(&'/');
        }
        pieces.push(Piece::Run { slashes: !path || stars > 1 });
    }
    // Which prefixes of the pattern match what was read so far.
    let mut reached = vec![false; pieces.len() + 1];
    reached[0] = true;
    let skip = |reached: &mut Vec<bool>| {
        for (i, piece) in pieces.iter().enumerate() {
            if matches!(piece, Piece::Run { .. }) && reached[i] {
                reached[i + 1] = true;
            }
        }
    };
    skip(&mut reached);
    for c in text.chars() {
        let mut next = vec![false; pieces.len() + 1];
        for (i, piece) in pieces.iter().enumerate() {
            match piece {
                Piece::Char(wanted) => next[i + 1] |= reached[i] && *wanted == c,
                Piece::Run { slashes } => next[i] |= reached[i] && (*slashes || c != '/'),
            }
        }
        skip(&mut next);
        reached = next;
    }
    reached[pieces.len()]
}
