//! What a number literal stands for. Nothing here rounds unless a double is asked for.

use std::borrow::Cow;

/// The nearest double, unless it is infinite.
pub(super) fn finite(literal: &str) -> Option<f64> {
    literal.parse().ok().filter(|double: &f64| double.is_finite())
}

/// Whether the literal is written without fraction and exponent.
pub(super) fn is_integer_literal(literal: &str) -> bool {
    !literal.bytes().any(|byte| matches!(byte, b'.' | b'e' | b'E'))
}

/// The integer a literal stands for, exactly.
pub(super) fn signed(literal: &str) -> Option<i128> {
    plain(literal)?.parse().ok()
}

/// As [`signed`], for what only an unsigned type holds.
pub(super) fn unsigned(literal: &str) -> Option<u128> {
    plain(literal)?.parse().ok()
}

/// The literal without fraction and exponent, when its value is an integer of at most 39 digits (128 bits).
fn plain(literal: &str) -> Option<Cow<'_, str>> {
    const MAX_DIGITS: usize = 39;
    if is_integer_literal(literal) {
        return Some(literal.into());
    }
    let (sign, rest) = literal.split_at(usize::from(literal.starts_with('-')));
    let (mantissa, exponent) = rest.split_once(['e', 'E']).unwrap_or((rest, "0"));
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let fraction = fraction.trim_end_matches('0');
    if fraction.is_empty() && whole == "0" {
        return Some("0".into());
    }
    // Digits without a point: value = digits * 10^exponent. An exponent that does not fit belongs to no 128-bit integer.
    let exponent = exponent.parse::<i64>().ok()?.checked_sub(i64::try_from(fraction.len()).ok()?)?;
    let digits = format!("{whole}{fraction}");
    let significant = digits.trim_start_matches('0').trim_end_matches('0');
    let dropped = digits.len() - digits.trim_end_matches('0').len();
    let zeros = usize::try_from(exponent.checked_add(i64::try_from(dropped).ok()?)?).ok()?;
    if significant.len().checked_add(zeros)? > MAX_DIGITS {
        return None;
    }
    Some(format!("{sign}{significant}{}", "0".repeat(zeros)).into())
}

#[cfg(test)]
mod tests {
    use super::{signed, unsigned};

    #[test]
    fn integers_are_exact_or_not_integers() {
        for (literal, value) in [
            ("0", Some(0)),
            ("-0", Some(0)),
            ("-0.0", Some(0)),
            ("0e999", Some(0)),
            ("1.0", Some(1)),
            ("-12.50e1", Some(-125)),
            ("1E5", Some(100_000)),
            ("1200e-2", Some(12)),
            ("120e-2", None),
            ("0.5", None),
            ("0.05e2", Some(5)),
            // A double would say 1.
            ("1.00000000000000000000000000000000000001", None),
            ("9007199254740993.0", Some(9_007_199_254_740_993)),
            ("1e38", Some(10i128.pow(38))),
            ("1e39", None),
            ("1e-99999999999999999999", None),
            ("170141183460469231731687303715884105727", Some(i128::MAX)),
            ("170141183460469231731687303715884105728", None),
        ] {
            assert_eq!(signed(literal), value, "{literal}");
        }
        assert_eq!(unsigned("340282366920938463463374607431768211455"), Some(u128::MAX));
        assert_eq!(unsigned("-1"), None);
    }
}
