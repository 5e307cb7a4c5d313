-- Reads the clock of the node that serves a key: TIME alone goes to any node of a cluster.
--
-- KEYS[1]   any key of the node
--
-- Returns the reply of TIME: seconds and microseconds.

return redis.call('TIME')
