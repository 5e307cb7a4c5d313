-- Removes an entry if it still names this connection: a late close never hides a newer connection (guarantee G11).
--
-- KEYS[1]   entry of the device: gateway|connection|connect time
-- ARGV[1]   id of the connection
--
-- Returns nil.

local there = redis.call('GET', KEYS[1])
if there and string.match(there, '^[^|]*|([^|]*)') == ARGV[1] then redis.call('DEL', KEYS[1]) end
return false
