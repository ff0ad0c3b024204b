//! Seconds since the Unix epoch as certificates and people write them.

use x509_parser::time::ASN1Time;

/// The last second of the year 9999, which is the last that a certificate can name.
const LAST: i64 = 253_402_300_799;

/// The instant as certificates hold it. Before the epoch it is the epoch, after the year 9999 its end.
pub(super) fn instant(second: i64) -> ASN1Time {
    ASN1Time::from_timestamp(second.clamp(0, LAST)).expect("the years 1970 to 9999 have a date")
}

/// The day in UTC, as `2027-01-31`.
pub(super) fn date(second: i64) -> String {
    instant(second).to_datetime().date().to_string()
}
