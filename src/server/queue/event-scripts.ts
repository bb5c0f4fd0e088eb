/** The scripts of the events of running predictions. */
import { queueScript } from "./script-prelude.ts";

/**
 * id, name of the log, number of earlier events, events. Appends the events, and notifies the nodes that wait for the outcome. A log with another name is
 * replaced: another node ran the prediction before.
 * @returns the number of events in the log, which is unexpected if events are missing or an answer was lost; -1 if this node has lost the prediction
 */
export const reportEventsScript = queueScript(`
local id, name, from = ARGV[3], ARGV[4], tonumber(ARGV[5])
load({ id })
local entry = isOpen(id) and entryOf(id)
if not entry or holderOf(entry) ~= me then return -1 end
local key = base .. 'e:' .. id
if redis.call('LINDEX', key, 0) ~= name then
  redis.call('DEL', key)
  redis.call('RPUSH', key, name)
end
local length = redis.call('LLEN', key) - 1
if length ~= from then return length end
redis.call('RPUSH', key, unpack(ARGV, 6))
local _, limit = factsOf(id)
redis.call('PEXPIRE', key, lifetimeOf(limit))
for node in string.gmatch(string.match(known[id], '%S*$'), '[^,]+') do
  if node ~= '!' then mail(node, 'events', id) end
end
settle()
return length + #ARGV - 5
`);

/**
 * id, known name of the log, number of known events, most bytes.
 * @returns the name, the number of events before the page, the number of events in the log, then the events of the page. A number is the size of an event with more bytes. False means that there is no log.
 */
export const readEventsScript = queueScript(`
local key, room_ = base .. 'e:' .. ARGV[3], tonumber(ARGV[6])
local name = redis.call('LINDEX', key, 0)
if not name then return false end
local from = name == ARGV[4] and tonumber(ARGV[5]) or 0
local answer, at = { name, from, redis.call('LLEN', key) - 1 }, from
while #answer < 1000 do
  local batch = redis.call('LRANGE', key, at + 1, at + 64)
  for _, event in ipairs(batch) do
    if #event > room_ then return at > from and answer or #event end
    room_ = room_ - #event
    answer[#answer + 1] = event
    at = at + 1
  end
  if #batch < 64 then break end
end
return answer
`);
