//! Speedup models as people write them.

use std::fmt;
use std::str::FromStr;

use pliant_model::{GpuPoint, Procs, Speedup, SpeedupError};

/// A speedup model and the number of processors that times are given on: `rigid:8`, `folding:8`,
/// `amdahl:0.95,64`, `downey:40,0.7`, `table:1=100,2=55,4=30`, or with GPUs `table:4=100,4+1g=30,8+2g=16`.
///
/// Times are given on the requested number for `rigid` and `folding`, on the smallest for a table, and on 1 for
/// the others; `@N` behind a model other than `rigid` and `folding` says another: `amdahl:0.95,64@8`.
#[derive(Clone, PartialEq, Debug)]
pub struct SpeedupSpec {
    /// How the time changes with the number of processors.
    pub speedup: Speedup,
    /// The number that times are given on.
    pub procs: Procs,
}

/// A text that is no speedup model.
#[derive(Clone, PartialEq, Debug)]
pub enum SpeedupSpecError {
    /// No model has that name.
    Model {
        /// The name.
        found: String,
    },
    /// The parameters are not those of the model.
    Parameters {
        /// How the model is written.
        expected: &'static str,
        /// What was found.
        found: String,
    },
    /// The parameters are outside their domain.
    Domain {
        /// What is wrong with them.
        problem: SpeedupError,
        /// The whole model.
        found: String,
    },
    /// It uses more processors than are allowed, and cannot be cut.
    TooWide {
        /// How many are allowed.
        allowed: Procs,
        /// How many it uses.
        found: Procs,
    },
}

/// The models, and how each is written.
///
/// An entry of a table may name GPUs in all: `table:4=100,4+1g=30,8+2g=16`.
const FORMS: [(&str, &str); 5] = [
    ("rigid", "rigid:PROCS"),
    ("folding", "folding:PROCS"),
    ("amdahl", "amdahl:PARALLEL_FRACTION,PROCS_MAX"),
    ("downey", "downey:AVERAGE_PARALLELISM,SIGMA"),
    ("table", "table:PROCS[+GPUSg]=TIME,PROCS[+GPUSg]=TIME,..."),
];

impl SpeedupSpec {
    /// The same within `allowed` processors: fewer of them where the model leaves the choice.
    ///
    /// # Errors
    ///
    /// [`SpeedupSpecError::TooWide`] if it does not.
    pub fn within(self, allowed: Procs) -> Result<SpeedupSpec, SpeedupSpecError> {
        let Some((least, most)) = self.speedup.sizes(self.procs, Procs(u32::MAX)) else { return Ok(self) };
        if most <= allowed {
            return Ok(self);
        }
        let speedup = match self.speedup {
            Speedup::Amdahl { parallel, .. } if allowed.0 > 0 => Speedup::Amdahl { parallel, limit: allowed },
            Speedup::Table(entries) if least <= allowed => {
                Speedup::Table(entries.iter().copied().filter(|(procs, _)| *procs <= allowed).collect())
            }
            Speedup::GpuTable(points) if least <= allowed => {
                table(points.iter().copied().filter(|one| one.procs <= allowed).collect())
            }
            _ => return Err(SpeedupSpecError::TooWide { allowed, found: most }),
        };
        Ok(SpeedupSpec { speedup, procs: self.procs })
    }

    fn usual_procs(speedup: &Speedup) -> Procs {
        match speedup {
            Speedup::Table(entries) => entries.first().map_or(Procs(1), |(procs, _)| *procs),
            Speedup::GpuTable(points) => points.first().map_or(Procs(1), |one| one.procs),
            _ => Procs(1),
        }
    }
}

fn whole(text: &str) -> Option<Procs> {
    let plain = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|count| plain && *count > 0).map(Procs)
}

/// `PROCS=TIME` or `PROCS+GPUSg=TIME`.
fn entry(text: &str) -> Option<GpuPoint> {
    let (size, time) = text.split_once('=')?;
    let (procs, gpus) = match size.split_once('+') {
        Some((procs, gpus)) => (procs, gpus.strip_suffix('g')?),
        None => (size, "0"),
    };
    let gpus = if gpus == "0" { 0 } else { whole(gpus)?.0 };
    Some(GpuPoint { procs: whole(procs)?, gpus, time: time.parse().ok()? })
}

/// A table of these entries, with GPUs only if one has some.
fn table(points: Vec<GpuPoint>) -> Speedup {
    match points.iter().any(|one| one.gpus > 0) {
        true => Speedup::GpuTable(points.into()),
        false => Speedup::Table(points.iter().map(|one| (one.procs, one.time)).collect()),
    }
}

fn read(model: &str, parameters: &str) -> Option<SpeedupSpec> {
    if let "rigid" | "folding" = model {
        let speedup = if model == "rigid" { Speedup::Rigid } else { Speedup::Folding };
        return Some(SpeedupSpec { speedup, procs: whole(parameters)? });
    }
    let (parameters, procs) = match parameters.rsplit_once('@') {
        Some((parameters, procs)) => (parameters, Some(whole(procs)?)),
        None => (parameters, None),
    };
    let speedup = match model {
        "table" => table(parameters.split(',').map(entry).collect::<Option<Vec<_>>>()?),
        _ => {
            let (first, second) = parameters.split_once(',')?;
            match model {
                "amdahl" => Speedup::Amdahl { parallel: first.parse().ok()?, limit: whole(second)? },
                "downey" => {
                    Speedup::Downey { average_parallelism: first.parse().ok()?, sigma: second.parse().ok()? }
                }
                _ => return None,
            }
        }
    };
    let procs = procs.unwrap_or_else(|| SpeedupSpec::usual_procs(&speedup));
    Some(SpeedupSpec { speedup, procs })
}

impl FromStr for SpeedupSpec {
    type Err = SpeedupSpecError;
    fn from_str(text: &str) -> Result<SpeedupSpec, SpeedupSpecError> {
        let (model, parameters) = text.split_once(':').unwrap_or((text, ""));
        let form = FORMS.iter().find(|(name, _)| *name == model);
        let (_, expected) = form.ok_or_else(|| SpeedupSpecError::Model { found: model.to_owned() })?;
        let spec = read(model, parameters)
            .ok_or_else(|| SpeedupSpecError::Parameters { expected, found: text.to_owned() })?;
        match spec.speedup.validate() {
            Ok(()) => Ok(spec),
            Err(problem) => Err(SpeedupSpecError::Domain { problem, found: text.to_owned() }),
        }
    }
}

impl fmt::Display for SpeedupSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.speedup {
            Speedup::Rigid => return write!(f, "rigid:{}", self.procs.0),
            Speedup::Folding => return write!(f, "folding:{}", self.procs.0),
            Speedup::Amdahl { parallel, limit } => write!(f, "amdahl:{parallel},{}", limit.0)?,
            Speedup::Downey { average_parallelism, sigma } => {
                write!(f, "downey:{average_parallelism},{sigma}")?
            }
            Speedup::Table(entries) => {
                for (index, (procs, time)) in entries.iter().enumerate() {
                    let before = if index == 0 { "table:" } else { "," };
                    write!(f, "{before}{}={time}", procs.0)?;
                }
            }
            Speedup::GpuTable(points) => {
                for (index, GpuPoint { procs, gpus, time }) in points.iter().enumerate() {
                    let before = if index == 0 { "table:" } else { "," };
                    match gpus {
                        0 => write!(f, "{before}{}={time}", procs.0)?,
                        _ => write!(f, "{before}{}+{gpus}g={time}", procs.0)?,
                    }
                }
            }
        }
        if self.procs == Self::usual_procs(&self.speedup) { Ok(()) } else { write!(f, "@{}", self.procs.0) }
    }
}

impl SpeedupSpecError {
    /// What to do about it.
    pub fn hint(&self) -> String {
        match self {
            Self::Model { .. } => FORMS.map(|(_, form)| form).join(", "),
            Self::Parameters { .. } | Self::Domain { .. } => {
                "for example rigid:8, folding:8, amdahl:0.95,64, downey:40,0.7 or table:1=100,2=55,4=30"
                    .to_owned()
            }
            Self::TooWide { allowed, .. } => format!("ask for {} processors or fewer", allowed.0),
        }
    }
}

impl fmt::Display for SpeedupSpecError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown = |text: &str| text.chars().take(80).flat_map(char::escape_debug).collect::<String>();
        match self {
            Self::Model { found } => {
                let models = FORMS.map(|(name, _)| name).join(", ");
                write!(f, "expected a speedup model ({models}), found `{}`", shown(found))
            }
            Self::Parameters { expected, found } => {
                write!(f, "expected {expected} with at least 1 processor, found `{}`", shown(found))
            }
            // The others say it themselves.
            Self::Domain { problem: problem @ (SpeedupError::Table | SpeedupError::GpuTable), found } => {
                write!(f, "{problem}, found `{}`", shown(found))
            }
            Self::Domain { problem, .. } => problem.fmt(f),
            Self::TooWide { allowed, found } => {
                write!(f, "expected at most {} processors, found {}", allowed.0, found.0)
            }
        }
    }
}

impl std::error::Error for SpeedupSpecError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Domain { problem, .. } => Some(problem),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn models_read_as_they_are_written() {
        let check = |text: &str, speedup, procs| {
            let expected = SpeedupSpec { speedup, procs: Procs(procs) };
            assert_eq!(text.parse::<SpeedupSpec>(), Ok(expected.clone()), "{text}");
            assert_eq!(expected.to_string(), text);
        };
        check("rigid:8", Speedup::Rigid, 8);
        check("folding:12", Speedup::Folding, 12);
        check("amdahl:0.95,64", Speedup::Amdahl { parallel: 0.95, limit: Procs(64) }, 1);
        check("amdahl:1,64@8", Speedup::Amdahl { parallel: 1.0, limit: Procs(64) }, 8);
        check("downey:40,0.7", Speedup::Downey { average_parallelism: 40.0, sigma: 0.7 }, 1);
        let table = Speedup::Table([(Procs(2), 100.0), (Procs(4), 55.5)].into());
        check("table:2=100,4=55.5", table.clone(), 2);
        check("table:2=100,4=55.5@4", table, 4);
        let point = |procs, gpus, time| GpuPoint { procs: Procs(procs), gpus, time };
        let table = Speedup::GpuTable([point(4, 0, 100.0), point(4, 1, 30.0), point(8, 2, 16.5)].into());
        check("table:4=100,4+1g=30,8+2g=16.5", table.clone(), 4);
        assert_eq!(
            "table:4+0g=100,4+1g=30,8+2g=16.5".parse(),
            Ok(SpeedupSpec { speedup: table, procs: Procs(4) })
        );
    }

    #[test]
    fn errors_show_the_form() {
        let check = |text: &str, expected: &str| {
            assert_eq!(text.parse::<SpeedupSpec>().unwrap_err().to_string(), expected, "{text}");
        };
        check("linear:4", "expected a speedup model (rigid, folding, amdahl, downey, table), found `linear`");
        check("", "expected a speedup model (rigid, folding, amdahl, downey, table), found ``");
        check("rigid", "expected rigid:PROCS with at least 1 processor, found `rigid`");
        for bad in
            ["rigid:0", "rigid:-1", "rigid:+1", "rigid:1.5", "rigid:4294967296", "rigid:8@2", "rigid: 8"]
        {
            check(bad, &format!("expected rigid:PROCS with at least 1 processor, found `{bad}`"));
        }
        for bad in ["amdahl:0.9", "amdahl:0.9,0", "amdahl:0.9,8@0", "amdahl:a,8", "amdahl:0.9,8,9"] {
            let form = "amdahl:PARALLEL_FRACTION,PROCS_MAX with at least 1 processor";
            check(bad, &format!("expected {form}, found `{bad}`"));
        }
        for bad in ["table:", "table:1", "table:1=", "table:1=1,", "table:0=1"] {
            let form = "table:PROCS[+GPUSg]=TIME,PROCS[+GPUSg]=TIME,... with at least 1 processor";
            check(bad, &format!("expected {form}, found `{bad}`"));
        }
        check("amdahl:1.5,8", "expected a parallel fraction between 0 and 1, found 1.5");
        check("amdahl:NaN,8", "expected a parallel fraction between 0 and 1, found NaN");
        let sorted = "expected a table of positive times sorted by increasing processor counts";
        check("table:2=1,1=2", &format!("{sorted}, found `table:2=1,1=2`"));
        check("rigid:\n\u{1b}", "expected rigid:PROCS with at least 1 processor, found `rigid:\\n\\u{1b}`");
    }

    #[test]
    fn a_model_is_cut_to_what_is_allowed_where_it_leaves_the_choice() {
        let check = |text: &str, allowed, expected: Result<&str, u32>| {
            let within = text.parse::<SpeedupSpec>().unwrap().within(Procs(allowed));
            let found = Procs(expected.err().unwrap_or_default());
            let expected = expected.map(|text| text.parse().unwrap());
            let error = SpeedupSpecError::TooWide { allowed: Procs(allowed), found };
            assert_eq!(within, expected.map_err(|_| error), "{text}");
        };
        check("rigid:8", 8, Ok("rigid:8"));
        check("rigid:9", 8, Err(9));
        check("folding:9", 8, Err(9));
        check("amdahl:0.9,64@16", 8, Ok("amdahl:0.9,8@16"));
        check("amdahl:0.9,4", 8, Ok("amdahl:0.9,4"));
        check("table:1=9,8=3,9=2", 8, Ok("table:1=9,8=3"));
        check("table:9=2", 8, Err(9));
        check("table:1=9,8+1g=3,9+1g=2", 8, Ok("table:1=9,8+1g=3"));
        check("table:1=9,9+1g=2", 8, Ok("table:1=9"));
        check("downey:10,0.5", 19, Ok("downey:10,0.5"));
        check("downey:10,0.5", 18, Err(19));
    }

    proptest! {
        #[test]
        fn what_is_written_reads_back(
            model in 0..6u8, procs in 1..5000u32, at in 1..5000u32, a in 0.0..1.0f64, sigma in 0.0..9.0f64
        ) {
            let table = [(Procs(procs), sigma + 0.5), (Procs(procs + at), a + 1e-9)];
            let speedup = match model {
                0 => Speedup::Rigid,
                1 => Speedup::Folding,
                2 => Speedup::Amdahl { parallel: a, limit: Procs(procs) },
                3 => Speedup::Downey { average_parallelism: 1.0 + 100.0 * a, sigma },
                4 => Speedup::Table(table.into()),
                _ => {
                    let with = |(gpus, (procs, time)): (u32, (Procs, f64))| GpuPoint { procs, gpus, time };
                    Speedup::GpuTable((at % 2..).zip(table).map(with).collect())
                }
            };
            let spec = SpeedupSpec { speedup, procs: Procs(at) };
            prop_assert_eq!(spec.to_string().parse::<SpeedupSpec>(), Ok(spec));
        }
    }
}
