//! Days and months of the Gregorian calendar, in UTC.

use std::fmt;
use std::ops::Range;
use std::str::FromStr;

/// Seconds of a day.
pub(crate) const DAY_S: i64 = 86_400;

/// Days from 1970-01-01 to a day of the Gregorian calendar.
pub(crate) fn days_since_1970(year: i64, month: i64, day: i64) -> i64 {
    // Years begin in March, so that the leap day is the last one.
    let year = if month <= 2 { year - 1 } else { year };
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    365 * year + year.div_euclid(4) - year.div_euclid(100) + year.div_euclid(400) + day_of_year - 719_468
}

/// The day of a Unix time (UTC), as 1996-09-30.
pub(crate) fn day_of(unix: i64) -> String {
    let days = unix.div_euclid(DAY_S) + 719_468;
    let era = days.div_euclid(146_097);
    let day_of_era = days.rem_euclid(146_097);
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted_month + 2) / 5 + 1;
    let month = (shifted_month + 2) % 12 + 1;
    let year = era * 400 + year_of_era + i64::from(month <= 2);
    format!("{year:04}-{month:02}-{day:02}")
}

/// A calendar month, written as 1996-10.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct CalendarMonth {
    year: u16,
    /// 1 to 12.
    month: u8,
}

impl CalendarMonth {
    /// The month after this one.
    pub fn next(self) -> CalendarMonth {
        match self.month {
            12 => CalendarMonth { year: self.year.saturating_add(1), month: 1 },
            month => CalendarMonth { month: month + 1, ..self },
        }
    }

    /// The Unix times of the month (UTC).
    pub fn unix(self) -> Range<i64> {
        let begin = |one: CalendarMonth| {
            days_since_1970(i64::from(one.year), i64::from(one.month), 1).saturating_mul(DAY_S)
        };
        begin(self)..begin(self.next())
    }
}

impl fmt::Display for CalendarMonth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:04}-{:02}", self.year, self.month)
    }
}

impl FromStr for CalendarMonth {
    type Err = String;

    fn from_str(text: &str) -> Result<CalendarMonth, String> {
        let number = |part: &str, digits| {
            let is_number = part.len() == digits && part.bytes().all(|byte| byte.is_ascii_digit());
            if is_number { part.parse::<u16>().ok() } else { None }
        };
        let month = text.split_once('-').and_then(|(year, month)| {
            let (year, month) = (number(year, 4)?, number(month, 2)?);
            (1..=12).contains(&month).then_some(CalendarMonth { year, month: month as u8 })
        });
        month.ok_or_else(|| format!("expected a month such as 1996-10, found `{text}`"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_of_the_calendar() {
        assert_eq!(days_since_1970(1970, 1, 1), 0);
        assert_eq!(days_since_1970(1996, 9, 30), 9_769);
        assert_eq!(days_since_1970(2000, 2, 29), 11_016);
        assert_eq!(days_since_1970(2000, 3, 1), 11_017);
        assert_eq!(days_since_1970(2008, 1, 1), 13_879);
    }

    #[test]
    fn days_there_and_back() {
        for (year, month, day) in [(1969, 12, 31), (1970, 1, 1), (1996, 9, 30), (2000, 2, 29), (2100, 3, 1)] {
            let unix = days_since_1970(year, month, day) * DAY_S;
            assert_eq!(day_of(unix), format!("{year}-{month:02}-{day:02}"));
            assert_eq!(day_of(unix + DAY_S - 1), format!("{year}-{month:02}-{day:02}"));
        }
    }

    #[test]
    fn months_follow_each_other_and_have_their_days() {
        let days = |text: &str| {
            let month: CalendarMonth = text.parse().unwrap();
            assert_eq!((month.to_string(), month.unix().end), (text.to_owned(), month.next().unix().start));
            assert_eq!(day_of(month.unix().start), format!("{text}-01"));
            (month.unix().end - month.unix().start) / DAY_S
        };
        assert_eq!(["1996-02", "1997-02", "2000-02", "1996-12", "1997-04"].map(days), [29, 28, 29, 31, 30]);
        for wrong in ["", "1996", "1996-13", "1996-00", "96-10", "1996-1", "1996-10-01", "+996-10", "october"]
        {
            let expected = format!("expected a month such as 1996-10, found `{wrong}`");
            assert_eq!(wrong.parse::<CalendarMonth>(), Err(expected));
        }
    }
}
