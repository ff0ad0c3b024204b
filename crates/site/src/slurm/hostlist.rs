//! Lists of nodes as Slurm writes them: `n1,rack[1-2]n[01-03,07]`.

/// More than any cluster has; a list that says so is none.
const NODES_MAX: usize = 1 << 18;
/// Bytes of a name, as DNS has it; what is longer is no name of a host.
const NAME_MAX: usize = 255;

/// The nodes of a list, in its order; none if it is not one. An empty list has none.
pub(super) fn expand(list: &str) -> Option<Vec<String>> {
    expand_at_most(list, NODES_MAX)
}

/// The same; none also if there are more nodes than `most`. These are not expanded.
pub(super) fn expand_at_most(list: &str, most: usize) -> Option<Vec<String>> {
    let mut nodes = Vec::new();
    for part in parts(list)? {
        let mut names = vec![String::new()];
        let (mut rest, mut length) = (part, 0);
        while let Some(open) = rest.find('[') {
            let close = open + rest[open..].find(']')?;
            let numbers = numbers(&rest[open + 1..close], most)?;
            if names.len().checked_mul(numbers.len())? + nodes.len() > most {
                return None;
            }
            let prefix = &rest[..open];
            length += prefix.len() + numbers.iter().map(String::len).max().unwrap_or(0);
            if length > NAME_MAX {
                return None;
            }
            let longer = |name: &String| {
                numbers.iter().map(|number| format!("{name}{prefix}{number}")).collect::<Vec<_>>()
            };
            names = names.iter().flat_map(longer).collect();
            rest = &rest[close + 1..];
        }
        if part.is_empty() || length + rest.len() > NAME_MAX || rest.contains(']') {
            return None;
        }
        nodes.extend(names.into_iter().map(|name| name + rest));
        if nodes.len() > most {
            return None;
        }
    }
    Some(nodes)
}

/// The parts between the commas that are not in brackets.
fn parts(list: &str) -> Option<Vec<&str>> {
    let (mut parts, mut begin, mut depth) = (Vec::new(), 0, 0u32);
    if list.is_empty() {
        return Some(parts);
    }
    for (index, letter) in list.char_indices() {
        match letter {
            '[' => depth += 1,
            ']' => depth = depth.checked_sub(1)?,
            ',' if depth == 0 => {
                parts.push(&list[begin..index]);
                begin = index + 1;
            }
            _ => {}
        }
    }
    parts.push(&list[begin..]);
    (depth == 0).then_some(parts)
}

/// The numbers of `01-03,07`, with their leading zeros, if they are at most so many.
fn numbers(ranges: &str, most: usize) -> Option<Vec<String>> {
    let mut numbers = Vec::new();
    for range in ranges.split(',') {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        if !digits(first) || !digits(last) {
            return None;
        }
        let width = first.len();
        let (first, last): (usize, usize) = (first.parse().ok()?, last.parse().ok()?);
        if width > NAME_MAX || last < first || last - first >= most.checked_sub(numbers.len())? {
            return None;
        }
        numbers.extend((first..=last).map(|number| format!("{number:0width$}")));
    }
    Some(numbers)
}

/// How many numbers there are in `1-3,7`; none if it is no such list. Ranges are not expanded.
pub(super) fn count(ranges: &str) -> Option<u32> {
    let of = |range: &str| {
        let (numbers, step) = range.split_once(':').unwrap_or((range, "1"));
        let (first, last) = numbers.split_once('-').unwrap_or((numbers, numbers));
        let (first, last, step): (u32, u32, u32) =
            (first.parse().ok()?, last.parse().ok()?, step.parse().ok()?);
        (last.checked_sub(first)?.checked_div(step)?).checked_add(1)
    };
    ranges.split(',').map(of).try_fold(0u32, |sum, count| sum.checked_add(count?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_nodes_are_expanded() {
        let check = |list: &str, expected: &[&str]| {
            assert_eq!(expand(list).unwrap_or_else(|| panic!("{list} is a list")), expected, "{list}");
        };
        check("", &[]);
        check("n1", &["n1"]);
        check("n[1-3]", &["n1", "n2", "n3"]);
        check("n[08-10],login", &["n08", "n09", "n10", "login"]);
        check("a[1,3-4]b,c[2]", &["a1b", "a3b", "a4b", "c2"]);
        check("r[1-2]n[1-2]", &["r1n1", "r1n2", "r2n1", "r2n2"]);
        check("n[099-101]", &["n099", "n100", "n101"]);
        for bad in
            ["n[", "n]", "n[]", "n[a]", "n[2-1]", "n[1-]", "n[1", ",", "n1,", "n[1-99999999]", "n[[1]]"]
        {
            assert_eq!(expand(bad), None, "{bad}");
        }
    }

    #[test]
    fn lists_with_more_nodes_than_there_may_be_are_refused() {
        for (list, most, is_read) in [
            ("n[1-3]", 3, true),
            ("n[1-3]", 2, false),
            ("n[1-2],m", 3, true),
            ("n[1-2],m", 2, false),
            ("a[1-2]b[1-2]", 4, true),
            ("a[1-2]b[1-2]", 3, false),
            ("n", 0, false),
            ("", 0, true),
        ] {
            assert_eq!(expand_at_most(list, most).is_some(), is_read, "{list}, {most}");
        }
    }

    #[test]
    fn names_that_no_host_has_are_refused() {
        let long = "0".repeat(70_000);
        let many = "[1-9]".repeat(5) + &"[1]".repeat(300);
        for bad in [format!("n[{long}1]"), format!("{long}[1-2]"), format!("n[1-2]{long}"), many] {
            assert_eq!(expand(&bad), None);
        }
    }

    #[test]
    fn tasks_of_an_array_are_counted() {
        let check = |ranges: &str, expected: Option<u32>| assert_eq!(count(ranges), expected, "{ranges}");
        check("7", Some(1));
        check("1-5", Some(5));
        check("1-3,7,9-10", Some(6));
        check("0-15:4", Some(4));
        check("0-4000000000", Some(4_000_000_001));
        check("0-4294967295", None);
        check("", None);
        check("1-", None);
        check("5-1", None);
        check("1-5:0", None);
    }
}
