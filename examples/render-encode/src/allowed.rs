//! What the links between LANs allow of a mapping, before anything is run: the traffic of the graph over each of them.

use std::collections::BTreeMap;

use crate::Failure;
use crate::film::Film;
use crate::lans::Links;
use crate::launched::{Edge, edges};

/// The LAN of each task.
pub(crate) type Places = BTreeMap<String, String>;

/// What a mapping puts on links.
pub(crate) struct Allowed {
    /// The share of the traffic that goes between LANs.
    pub(crate) between: f64,
    /// The frames per second that the slowest way over a link carries; none if all are in one LAN.
    pub(crate) frames_per_s: Option<f64>,
    /// That way.
    pub(crate) narrowest: Option<(String, String)>,
}

impl Allowed {
    /// The edges between tasks on these machines. RQoC is relative; what the render collector hands on is the film's frames
    /// as they are.
    pub(crate) fn of(places: &Places, links: &Links, film: &Film) -> Result<Allowed, Failure> {
        let edges = edges()?;
        let raw = edges.iter().find(|edge| edge.from == "render-collector");
        let raw = raw.ok_or("expected an edge from the render collector in the graph")?.rqoc;
        let (width, height) = film.size();
        let frame_mb = f64::from(width * height * 3) * 8.0 / 1e6;
        let mut over: BTreeMap<(String, String), f64> = BTreeMap::new();
        let (mut cut, mut all) = (0.0, 0.0);
        for Edge { from, to, rqoc } in &edges {
            let lan =
                |task: &str| places.get(task).ok_or_else(|| format!("expected a server of task {task}"));
            let way = (lan(from)?.clone(), lan(to)?.clone());
            all += rqoc;
            if way.0 != way.1 {
                cut += rqoc;
                *over.entry(way).or_default() += rqoc;
            }
        }
        let frames = |((one, other), rqoc): (&(String, String), &f64)| {
            Some((links.mbps(one, other)? / (rqoc / raw * frame_mb), (one.clone(), other.clone())))
        };
        let narrowest = over.iter().filter_map(frames).min_by(|one, other| one.0.total_cmp(&other.0));
        let (frames_per_s, narrowest) = narrowest.unzip();
        Ok(Allowed { between: cut / all, frames_per_s, narrowest })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::place::tasks;

    #[test]
    fn the_slowest_way_over_a_link_says_how_many_frames() {
        let links = Links::new(16);
        let film = Film { frames: 10, width: 320, gop: 5, out: "film.ts".into() };
        let mut places: Places =
            tasks().iter().map(|task| ((*task).to_owned(), "north".to_owned())).collect();
        let here = Allowed::of(&places, &links, &film).unwrap();
        assert!(here.between == 0.0 && here.frames_per_s.is_none() && here.narrowest.is_none());
        // Raw frames go there over 16 Mb/s, and from there over 4 Mb/s: 230,400 bytes each.
        places.insert("gop".to_owned(), "south".to_owned());
        places.insert("encode-emitter".to_owned(), "remote".to_owned());
        let apart = Allowed::of(&places, &links, &film).unwrap();
        let expected = 4e6 / (320.0 * 240.0 * 3.0 * 8.0);
        assert!((apart.frames_per_s.unwrap() - expected).abs() < 1e-9);
        // As much comes back to the encoders.
        assert!(apart.between > 0.5 && apart.narrowest.unwrap().1 != "south");
    }
}
