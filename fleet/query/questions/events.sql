-- Sums of windows of all functions by event and host: what shares of a function are of.
SELECT event_set, event, host, sum(windows) AS windows, sum(count) AS count, sum(count_of_all) AS count_of_all,
    sum(tested) AS tested, sum(same_at_both_ends) AS same_at_both_ends
FROM windows
GROUP BY event_set, event, host
ORDER BY event_set, event, host
