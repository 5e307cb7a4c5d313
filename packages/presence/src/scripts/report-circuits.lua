-- Adds the open circuits of one process to those of the installation, and removes those that no process reports.
--
-- KEYS[1]       hash of the open circuits: `<app>:<channel>` to `<since>|<reported at>|<reason>`, times in milliseconds
-- ARGV[1]       lifetime of a report, in milliseconds
-- ARGV[2]       maximum circuits
-- ARGV[3 n]     field of the n-th circuit
-- ARGV[3 n + 1] time at which it opened
-- ARGV[3 n + 2] reason
--
-- Returns nothing. Of several processes' times of a circuit the first is kept.

local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local since = {}
local count = 0
local all = redis.call('HGETALL', KEYS[1])
for i = 1, #all, 2 do
  local opened, reported = string.match(all[i + 1], '^(%d+)|(%d+)|')
  if reported and now - tonumber(reported) < tonumber(ARGV[1]) then
    since[all[i]] = opened
    count = count + 1
  else
    redis.call('HDEL', KEYS[1], all[i])
  end
end
for i = 3, #ARGV, 3 do
  local field, opened = ARGV[i], ARGV[i + 1]
  local known = since[field]
  if known or count < tonumber(ARGV[2]) then
    if not known then count = count + 1 end
    if known and tonumber(known) < tonumber(opened) then opened = known end
    since[field] = opened
    redis.call('HSET', KEYS[1], field, string.format('%s|%.0f|%s', opened, now, ARGV[i + 2]))
  end
end
redis.call('PEXPIRE', KEYS[1], ARGV[1])
