//! Reads the `/metrics` of a process.

/// The address of a process, from its first output.
pub(crate) fn address(said: &str) -> Option<&str> {
    let mut lines = said.lines();
    lines.find_map(|line| line.strip_prefix("listening on "))
}

/// The value of a metric, summed over its labels; `None` if it is missing.
pub(crate) fn value(told: &str, name: &str) -> Option<f64> {
    let values = told.lines().filter_map(|line| {
        let rest = line.strip_prefix(name)?;
        let value = match rest.strip_prefix('{') {
            Some(labels) => labels.rsplit_once("} ")?.1,
            None => rest.strip_prefix(' ')?,
        };
        value.trim().parse::<f64>().ok()
    });
    values.reduce(|sum, value| sum + value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_metric_is_summed_over_its_labels() {
        let told = "# TYPE retries counter\nretries{store=\"a\"} 2\nretries{store=\"b\"} 3\n\
                    retries_of_others 7\nplain 1\n";
        assert_eq!(value(told, "retries"), Some(5.0));
        assert_eq!(value(told, "plain"), Some(1.0));
        assert_eq!(value(told, "nobody"), None);
    }

    #[test]
    fn a_process_says_where_it_listens() {
        let said = "a word first\nlistening on http://127.0.0.1:4711\nand more\n";
        assert_eq!(address(said), Some("http://127.0.0.1:4711"));
        assert_eq!(address("working\n"), None);
    }
}
