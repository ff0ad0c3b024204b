//! Where the options of a job are that its script has: for errors which are found only when all options are put together.

use std::collections::BTreeMap;

/// The places of options of `pliant submit`.
#[derive(Clone, PartialEq, Default, Debug)]
pub struct OptionPlaces {
    /// Each with what an error begins with: `job.sh:3: #SBATCH -D`.
    places: BTreeMap<String, String>,
}

impl OptionPlaces {
    /// Notes the options among words, which are at a place. `shown` gives what an error about an option there begins with.
    pub fn add(&mut self, words: &[String], shown: impl Fn(&str) -> String) {
        for word in words.iter().filter(|word| word.starts_with("--")) {
            let option = word.split('=').next().unwrap_or_default();
            self.places.insert(option.to_owned(), shown(option));
        }
    }

    /// These places, with those of `weaker` for other options.
    pub fn over(self, weaker: OptionPlaces) -> OptionPlaces {
        let mut places = weaker.places;
        places.extend(self.places);
        OptionPlaces { places }
    }

    /// Forgets the place of an option if the one there does not count.
    pub fn forget(&mut self, option: &str, is_replaced: bool) {
        if is_replaced {
            self.places.remove(option);
        }
    }

    /// The place of an option; none if the script does not have it.
    pub fn of(&self, option: &str) -> Option<&str> {
        self.places.get(option).map(String::as_str)
    }

    /// What an error about an option begins with.
    pub fn shown<'a>(&'a self, option: &'a str) -> &'a str {
        self.of(option).unwrap_or(option)
    }
}
