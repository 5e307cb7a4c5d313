-- Adds the figures of one process to those of the installation. A write with the same number is added once.
--
-- KEYS[1]       exists while somebody views the figures
-- KEYS[2]       time since which figures exist
-- KEYS[3]       id of the process that counts the backlog
-- KEYS[4]       number of the process's last write
-- KEYS[5]       pending work by app
-- KEYS[6]       hash of the current minute, for the gauges
-- KEYS[6 + i]   hash to which the i-th delta is added
-- ARGV[1]       number of the write
-- ARGV[2]       deltas: a JSON array of objects with fields (field to number) and ttl (lifetime of the hash in seconds)
-- ARGV[3]       gauges: a JSON object, field to value
-- ARGV[4]       id of a process that can count the backlog, or ''
-- ARGV[5]       lifetime of the figures, in seconds
-- ARGV[6]       lifetime of KEYS[3], in seconds
-- ARGV[7]       new value of KEYS[5], or ''
-- ARGV[8]       lifetime of KEYS[5], in seconds
--
-- Returns Redis's time in milliseconds, and 1 if the process is to count the backlog, 0 otherwise.

local time = redis.call('TIME')
local now = string.format('%.0f', time[1] * 1000 + math.floor(time[2] / 1000))
local deltas = cjson.decode(ARGV[2])
if #deltas > 0 and tonumber(ARGV[1]) > tonumber(redis.call('GET', KEYS[4]) or '0') then
  redis.call('SET', KEYS[4], ARGV[1], 'EX', ARGV[5])
  for i, delta in ipairs(deltas) do
    for field, n in pairs(delta.fields) do
      redis.call('HINCRBY', KEYS[6 + i], field, string.format('%.0f', n))
    end
    redis.call('EXPIRE', KEYS[6 + i], delta.ttl)
  end
end
local hasGauges = false
for field, value in pairs(cjson.decode(ARGV[3])) do
  redis.call('HSET', KEYS[6], field, value .. '|' .. now)
  hasGauges = true
end
if hasGauges then redis.call('EXPIRE', KEYS[6], ARGV[5]) end
if ARGV[7] ~= '' then redis.call('SET', KEYS[5], ARGV[7], 'EX', ARGV[8]) end
if hasGauges or #deltas > 0 then
  if not redis.call('SET', KEYS[2], now, 'NX', 'EX', ARGV[5]) then
    redis.call('EXPIRE', KEYS[2], ARGV[5])
  end
end
local counts = 0
if ARGV[4] ~= '' and redis.call('EXISTS', KEYS[1]) == 1 then
  local reader = redis.call('GET', KEYS[3])
  if not reader or reader == ARGV[4] then
    redis.call('SET', KEYS[3], ARGV[4], 'EX', ARGV[6])
    counts = 1
  end
end
return {tonumber(now), counts}
