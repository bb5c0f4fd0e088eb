/** The Redis script that removes values from the queue's keys if another program wrote them, or the disk changed them. */
import { queueScript } from "./script-prelude.ts";

/**
 * Removes values of a wrong type or form from the keys of the queue and of the given predictions. Predictions in a removed key are lost. Counts
 * missing totals again. Arguments: ids.
 * @returns for each removed value its key, a space, and the fault
 */
export const mendScript = queueScript(`
local removed = {}
local function remove(key, fault) removed[#removed + 1] = key .. ' ' .. fault end
local function check(key, expected)
  local found = redis.call('TYPE', key).ok
  if found == 'none' or found == expected then return end
  redis.call('DEL', key)
  remove(key, 'was a ' .. found .. ', expected a ' .. expected)
end
local function isNumber(text) return string.match(text, '^%-?%d+$') end
local types = { work = 'stream', soon = 'zset', kept = 'list', totals = 'hash', hooks = 'hash', due = 'zset', signs = 'zset' }
for name, expected in pairs(types) do check(base .. name, expected) end
check(base .. 'mail:' .. me, 'stream')
for i = 3, #ARGV do
  local id = ARGV[i]
  local hash = hashOf(id)
  check(hash, 'hash')
  check(base .. 'b:' .. id, 'string')
  check(base .. 't:' .. id, 'hash')
  check(base .. 'e:' .. id, 'list')
  check(base .. 'w:' .. id, 'zset')
  local text = redis.call('HGET', hash, id)
  if text and not isWritten(id, text) then
    redis.call('HDEL', hash, id)
    remove(hash, 'held no record of ' .. id)
  end
  local _, _, _, isIntact = readProgress(id)
  if not isIntact then
    redis.call('DEL', base .. 't:' .. id)
    remove(base .. 't:' .. id, 'held no progress')
  end
end
local batch = redis.call('LINDEX', kept, 0)
while batch and not string.match(batch, '^%d+ %d+ %d+ [01] ') do
  redis.call('LPOP', kept)
  remove(kept, 'held no ended predictions')
  batch = redis.call('LINDEX', kept, 0)
end
local fields, isForeign = redis.call('HGETALL', totals), false
for i = 2, #fields, 2 do isForeign = isForeign or not isNumber(fields[i]) end
if isForeign then
  redis.call('DEL', totals)
  remove(totals, 'held no numbers')
end
if redis.call('EXISTS', totals) == 0 then
  for _, entry in ipairs(redis.call('XRANGE', work, '-', '+')) do
    local count, size_ = string.match(entry[2][2], '^%S+ %S+ (%d+) (%d+)')
    items = items + (count or 0)
    bytes = bytes + (size_ or 0)
  end
  local ends, endBytes = 0, 0
  for _, each in ipairs(redis.call('LRANGE', kept, 0, -1)) do
    local number, endSize = string.match(each, '^%d+ (%d+) (%d+)')
    ends = ends + (number or 0)
    endBytes = endBytes + (endSize or 0)
  end
  redis.call('HSET', totals, 'items', textOf(items), 'bytes', textOf(bytes), 'kept', textOf(ends), 'keptBytes', textOf(endBytes))
end
return removed
`);
