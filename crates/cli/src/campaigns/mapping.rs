//! Campaigns of mappings.

use pliant_report::campaigns::{mapping_page, mapping_row, mapping_titles};
use pliant_sim::campaign::mapping::{Axis, Results};
use serde_json::{Value, json};

use super::View;
use crate::table::{Table, counted};

impl View for Results {
    fn summary(&self) -> (String, Value) {
        let values = |axis| {
            let of_axis = self.cells.iter().filter(|cell| cell.axis == axis);
            of_axis.count() / self.policies.len().max(1)
        };
        let (applications, grids) = (self.clusterings.len(), values(Axis::Machines) * values(Axis::LanHosts));
        let text = format!(
            "{} on {}, {} of each policy ({})\n",
            counted(applications as u64, "application"),
            counted(grids as u64, "grid"),
            counted(self.trials as u64, "trial"),
            self.policies.len(),
        );
        let value = json!({
            "trials": self.trials,
            "policies": self.policies,
            "applications": applications,
            "grids": grids,
        });
        (text, value)
    }

    fn caption(&self) -> String {
        let trials = counted(self.trials as u64, "trial");
        format!("{trials} of each policy; means over the mappings that did not fail")
    }

    fn text(&self) -> String {
        let mut text = String::new();
        for (axis, title) in
            [(Axis::All, "all trials"), (Axis::MappedByAll, "trials that every policy mapped")]
        {
            let titles = mapping_titles();
            let mut table = Table::new(1, &titles.iter().map(String::as_str).collect::<Vec<_>>());
            let cells = self.cells.iter().filter(|cell| cell.axis == axis);
            cells.for_each(|cell| table.row(mapping_row(cell)));
            text.push_str(&format!("\n{title}\n{}", table.render()));
        }
        text.push_str("\nevery cell, clusterings against their bound, use cases and times: --format json\n");
        text
    }

    fn value(&self) -> Value {
        json!({
            "reference": self.reference,
            "trials": self.trials,
            "cells": self.cells,
            "clusterings": self.clusterings,
            "use_cases": self.use_cases,
            "timing": self.timing,
        })
    }

    fn page(&self) -> String {
        mapping_page(self)
    }
}
