-- Sums of windows by {by}, event and host, for the {limit} with most windows over all hosts.
WITH per_host AS (
    SELECT {by}, event_set, event{and_host}, sum(windows) AS windows, sum(count) AS count, sum(count_of_all) AS count_of_all,
        sum(tested) AS tested, sum(same_at_both_ends) AS same_at_both_ends
    FROM windows_filled
    GROUP BY {by}, event_set, event{and_host}),
largest AS (
    SELECT {by}, sum(tested) AS total
    FROM per_host
    GROUP BY {by}
    ORDER BY total DESC, {by}
    LIMIT {limit})
SELECT {shown}, event_set, event{and_host}, windows, count, count_of_all, tested, same_at_both_ends
FROM per_host
JOIN largest USING ({by})
ORDER BY total DESC, {order}, event_set, event{and_host}
