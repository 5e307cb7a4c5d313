-- Counts events in windows; a window starts with its first event.
--
-- KEYS[i]        counter of the i-th event source
-- ARGV[2i - 1]   events to add to KEYS[i]
-- ARGV[2i]       length of a new window of KEYS[i], in milliseconds
--
-- Returns for each key its count and the milliseconds until its window ends, one after the other.

local results = {}
for i, key in ipairs(KEYS) do
  local n = redis.call('INCRBY', key, ARGV[2 * i - 1])
  local left = redis.call('PTTL', key)
  if left < 0 then
    left = tonumber(ARGV[2 * i])
    redis.call('PEXPIRE', key, left)
  end
  results[2 * i - 1] = n
  results[2 * i] = left
end
return results
