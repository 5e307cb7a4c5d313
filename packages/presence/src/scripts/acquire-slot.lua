-- Gives a slot to a holder, or renews the one it has. A slot whose lease has ended is free.
--
-- KEYS[1]   sorted set of the holders, by the end of their lease
-- ARGV[1]   maximum number of holders
-- ARGV[2]   lease, in milliseconds
-- ARGV[3]   id of the holder
--
-- Returns 1 if the holder has a slot, 0 if all are taken.

local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now)
local isHeld = redis.call('ZSCORE', KEYS[1], ARGV[3])
if not isHeld and redis.call('ZCARD', KEYS[1]) >= tonumber(ARGV[1]) then return 0 end
redis.call('ZADD', KEYS[1], now + ARGV[2], ARGV[3])
redis.call('PEXPIRE', KEYS[1], ARGV[2])
return 1
