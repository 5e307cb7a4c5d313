-- Writes a connection's entry again, unless it names a newer connection.
--
-- KEYS[1]   entry of the device: gateway|connection|connect time
-- ARGV[1]   entry of this connection
-- ARGV[2]   id of this connection
-- ARGV[3]   its connect time, in milliseconds by Redis's clock
-- ARGV[4]   lifetime of an entry, in seconds
-- ARGV[5]   greatest difference between the estimates that two gateways have of Redis's clock, in milliseconds
--
-- Returns nil if the entry was there; 'missing' if there was none; 'taken-over' if it names a newer connection and stays;
-- otherwise the entry of an older connection, which was overwritten.
--
-- An entry of the same connection under a former identity of its gateway is this gateway's own. An entry of an older
-- connection is what Redis held before it lost its last seconds, or what the older gateway wrote after the newer entry was
-- lost. A missing entry does not show where the device is, so it is written; if the device has moved and both its entry and
-- the kick of the older connection were lost, its newer gateway finds the older entry and overwrites it. So the newest
-- connection wins regardless of which gateway checks first (guarantee G11). A gateway has one connection per device, so
-- another entry of the same gateway is older. If the order of two gateways' connections is uncertain, the entry stays.

local there = redis.call('GET', KEYS[1])
local found = false
if not there then found = 'missing' elseif there ~= ARGV[1] then
  local gateway, connection, connectedAt = string.match(there, '^([^|]*)|([^|]*)|?(%d*)$')
  if connection ~= ARGV[2] then
    local isOlder = gateway == string.match(ARGV[1], '^[^|]*')
      or tonumber(connectedAt) and connectedAt + ARGV[5] < tonumber(ARGV[3])
    if not isOlder then return 'taken-over' end
    found = there
  end
end
redis.call('SET', KEYS[1], ARGV[1], 'EX', ARGV[4])
return found
