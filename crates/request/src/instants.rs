//! Instants as the options of `sbatch` have them: `now+1h`, `16:00`, `2026-12-01T08:00` (sbatch(1), `--begin`). What has no time zone is
//! local time.

use chrono::{
    DateTime, Datelike, Days, Local, NaiveDate, NaiveDateTime, NaiveTime, TimeDelta, TimeZone, Utc,
};
use pliant_model::Time;
use pliant_wire::bounds;

const EXPECTED: &str = "now+COUNT[UNIT], HH:MM[:SS], YYYY-MM-DD[THH:MM[:SS]] or MM/DD[/YY][-HH:MM[:SS]]";

/// The lengths of the units after `now+COUNT`, in seconds.
const UNITS: [(&[&str], i64); 5] = [
    (&["", "s", "second", "seconds"], 1),
    (&["m", "minute", "minutes"], 60),
    (&["h", "hour", "hours"], 3_600),
    (&["d", "day", "days"], 86_400),
    (&["w", "week", "weeks"], 7 * 86_400),
];

/// Times of day with a name.
const NAMED_TIMES: [(&str, u32); 5] =
    [("midnight", 0), ("noon", 12), ("elevenses", 11), ("fika", 15), ("teatime", 16)];

/// The instant that an option names, in local time.
///
/// # Errors
/// What was expected and found.
pub fn instant(text: &str) -> Result<Time, String> {
    instant_from(text, &Local::now())
}

/// The same, from another present.
fn instant_from<Z: TimeZone>(text: &str, now: &DateTime<Z>) -> Result<Time, String> {
    let found = text.trim().to_ascii_lowercase();
    let seconds = after_now(&found, now).or_else(|| in_utc(&found)).or_else(|| {
        let local = at_time(&found, now).or_else(|| on_date(&found, now))?;
        // A clock that is set back shows it twice, and one that is set forward never: the first one, and an hour later.
        let zone = now.timezone();
        let skipped = || zone.from_local_datetime(&local.checked_add_signed(TimeDelta::hours(1))?).earliest();
        zone.from_local_datetime(&local).earliest().or_else(skipped).map(|found| found.timestamp())
    });
    let valid = seconds.filter(|seconds| bounds::TIME_S.contains(seconds));
    valid.map(Time).ok_or_else(|| format!("expected {EXPECTED}, found `{}`", text.escape_debug()))
}

/// `now`, `now+60`, `now + 2 hours`.
fn after_now<Z: TimeZone>(text: &str, now: &DateTime<Z>) -> Option<i64> {
    let delay = text.strip_prefix("now")?.trim_start();
    if delay.is_empty() {
        return Some(now.timestamp());
    }
    let delay = delay.strip_prefix('+')?.trim_start();
    let unit = delay.trim_start_matches(|letter: char| letter.is_ascii_digit());
    let count: i64 = delay[..delay.len() - unit.len()].parse().ok()?;
    let (_, length) = UNITS.iter().find(|(names, _)| names.contains(&unit.trim_start()))?;
    now.timestamp().checked_add(count.checked_mul(*length)?)
}

/// `2026-12-01 08:00:00z`, as Pliant shows instants.
fn in_utc(text: &str) -> Option<i64> {
    let (date, time) = text.strip_suffix('z')?.split_once(['t', ' '])?;
    Some(Utc.from_utc_datetime(&iso_date(date)?.and_time(time_of_day(time)?)).timestamp())
}

/// `16:00`, `4:00pm`, `noon`: today, or tomorrow if it is past.
fn at_time<Z: TimeZone>(text: &str, now: &DateTime<Z>) -> Option<NaiveDateTime> {
    let (time, present) = (time_of_day(text)?, now.naive_local());
    let today = present.date().and_time(time);
    if today >= present { Some(today) } else { today.checked_add_days(Days::new(1)) }
}

/// `2026-12-01t08:00`, `12/01-08:00`, `1201`, `tomorrow`: without a time of day at 0:00, and without a year the next one.
fn on_date<Z: TimeZone>(text: &str, now: &DateTime<Z>) -> Option<NaiveDateTime> {
    let today = now.naive_local().date();
    match text {
        "today" => return Some(today.and_time(NaiveTime::MIN)),
        "tomorrow" => return Some(today.checked_add_days(Days::new(1))?.and_time(NaiveTime::MIN)),
        _ => {}
    }
    if let Some(date) = iso_date(text) {
        return Some(date.and_time(NaiveTime::MIN));
    }
    let (date, time) = match text.split_once(['t', ' ']) {
        Some((date, time)) => (date, time_of_day(time)?),
        None => match text.split_once('-').filter(|(date, _)| date.contains(['/', '.'])) {
            Some((date, time)) => (date, time_of_day(time)?),
            None => (text, NaiveTime::MIN),
        },
    };
    if let Some(date) = iso_date(date) {
        return Some(date.and_time(time));
    }
    let parts = match date.split(['/', '.']).collect::<Vec<_>>()[..] {
        [digits] if matches!(digits.len(), 4 | 6) && digits.is_ascii() => {
            (&digits[..2], &digits[2..4], digits.get(4..).filter(|year| !year.is_empty()))
        }
        [month, day] => (month, day, None),
        [month, day, year] => (month, day, Some(year)),
        _ => return None,
    };
    let (month, day) = (number(parts.0, 2)?, number(parts.1, 2)?);
    if let Some(year) = parts.2 {
        let year = match year.len() {
            4 => number(year, 4)?,
            _ => 2000 + number(year, 2)?,
        };
        return Some(NaiveDate::from_ymd_opt(i32::try_from(year).ok()?, month, day)?.and_time(time));
    }
    // A leap day is at most eight years away.
    let mut years = (0..=8).filter_map(|later| NaiveDate::from_ymd_opt(today.year() + later, month, day));
    Some(years.find(|date| *date >= today)?.and_time(time))
}

/// `2026-12-01`.
fn iso_date(text: &str) -> Option<NaiveDate> {
    let [year, month, day] = text.split('-').collect::<Vec<_>>()[..] else { return None };
    let year = Some(year).filter(|year| year.len() == 4).and_then(|year| number(year, 4))?;
    NaiveDate::from_ymd_opt(i32::try_from(year).ok()?, number(month, 2)?, number(day, 2)?)
}

/// `16:00`, `16:00:30`, `4:00pm`, `4:00 pm`, `teatime`.
fn time_of_day(text: &str) -> Option<NaiveTime> {
    if let Some((_, hour)) = NAMED_TIMES.iter().find(|(name, _)| *name == text) {
        return NaiveTime::from_hms_opt(*hour, 0, 0);
    }
    let (clock, half) = match (text.strip_suffix("am"), text.strip_suffix("pm")) {
        (Some(clock), _) => (clock.trim_end(), Some(0)),
        (_, Some(clock)) => (clock.trim_end(), Some(12)),
        (None, None) => (text, None),
    };
    let parts: Vec<u32> = clock.split(':').map(|part| number(part, 2)).collect::<Option<_>>()?;
    let (hour, minute, second) = match parts[..] {
        [hour, minute] => (hour, minute, 0),
        [hour, minute, second] => (hour, minute, second),
        _ => return None,
    };
    let hour = match half {
        Some(half) => Some(hour % 12 + half).filter(|_| (1..=12).contains(&hour))?,
        None => hour,
    };
    NaiveTime::from_hms_opt(hour, minute, second)
}

fn number(digits: &str, most: usize) -> Option<u32> {
    let is_number = (1..=most).contains(&digits.len()) && digits.bytes().all(|byte| byte.is_ascii_digit());
    digits.parse().ok().filter(|_| is_number)
}

#[cfg(test)]
mod tests {
    use chrono::FixedOffset;

    use super::*;

    /// 2026-11-28 10:30:15, an hour east of Greenwich.
    fn present() -> DateTime<FixedOffset> {
        FixedOffset::east_opt(3_600).unwrap().with_ymd_and_hms(2026, 11, 28, 10, 30, 15).unwrap()
    }

    #[test]
    fn instants_of_sbatch_are_understood() {
        let check = |text: &str, expected: &str| {
            let found = instant_from(text, &present()).unwrap_or_else(|error| panic!("{text}: {error}"));
            assert_eq!(found.utc().to_string(), expected, "{text}");
        };
        check("now", "2026-11-28 09:30:15Z");
        check("now+1h", "2026-11-28 10:30:15Z");
        check("now+90", "2026-11-28 09:31:45Z");
        check("now + 2 days", "2026-11-30 09:30:15Z");
        check("now+1week", "2026-12-05 09:30:15Z");
        check("16:00", "2026-11-28 15:00:00Z");
        check("10:30:15", "2026-11-28 09:30:15Z");
        check("10:30", "2026-11-29 09:30:00Z");
        check("4:05 PM", "2026-11-28 15:05:00Z");
        check("12:00am", "2026-11-28 23:00:00Z");
        check("noon", "2026-11-28 11:00:00Z");
        check("midnight", "2026-11-28 23:00:00Z");
        check("today", "2026-11-27 23:00:00Z");
        check("tomorrow", "2026-11-28 23:00:00Z");
        check("2026-12-01T08:00", "2026-12-01 07:00:00Z");
        check("2026-12-01T08:00:09", "2026-12-01 07:00:09Z");
        check("2026-12-01", "2026-11-30 23:00:00Z");
        check("2026-12-01 08:00:00Z", "2026-12-01 08:00:00Z");
        check("2026-12-01T08:00Z", "2026-12-01 08:00:00Z");
        check("12/01", "2026-11-30 23:00:00Z");
        check("1128", "2026-11-27 23:00:00Z");
        check("11/27", "2027-11-26 23:00:00Z");
        check("02/29", "2028-02-28 23:00:00Z");
        check("12/01/27-08:00", "2027-12-01 07:00:00Z");
        check("12.01.2027", "2027-11-30 23:00:00Z");
        check("120127", "2027-11-30 23:00:00Z");
    }

    #[test]
    fn other_instants_are_errors() {
        for text in [
            "",
            "1h",
            "now+",
            "now-1h",
            "now+1 fortnight",
            "now+99999999999999999999",
            "now+9999999999999",
            "24:00",
            "16:60",
            "16",
            "13:00pm",
            "2026-13-01",
            "2026-02-29",
            "26-12-01",
            "2026-12-01T",
            "2026-12-01T8",
            "13/01",
            "02/30",
            "yesterday",
            "é",
            "éé",
        ] {
            let error = instant_from(text, &present()).unwrap_err();
            assert!(error.starts_with("expected now+COUNT[UNIT]"), "{text}: {error}");
        }
    }
}
