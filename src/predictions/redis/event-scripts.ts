/** Redis scripts for the events (outputs, and parts of outputs) of running predictions. */
import { queueScript } from "./script-prelude.ts";

/** Milliseconds for which a replica counts as a watcher of a prediction after it has read events. */
const WATCH_MS = 5000;
/** Maximum bytes of a prediction's events in Redis. The oldest events are dropped, but never the newest. */
const MAX_LOG_BYTES = 2 ** 24;
/** Result of a report if no replica watches the prediction. */
export const UNWATCHED = -2;

/**
 * Appends events to the log of a prediction, and notifies the replicas that watch it. A log with another name is from the replica that ran the
 * prediction before, and is replaced. Arguments: id, name of the log, number of earlier events, events.
 * @returns the number of events in the log; nothing is appended if it differs from the given number of earlier events; -1 if another replica runs the
 * prediction; UNWATCHED if no replica watches it
 */
export const reportEventsScript = queueScript(`
local id, name, from = ARGV[3], ARGV[4], tonumber(ARGV[5])
load({ id })
local entry = isOpen(id) and entryOf(id)
if not entry or holderOf(entry) ~= me then return -1 end
local nodes = redis.call('ZRANGEBYSCORE', base .. 'w:' .. id, nowText, '+inf')
if #nodes == 0 then return ${UNWATCHED} end
local key = base .. 'e:' .. id
local own, dropped, size_ = logOf(key)
if own ~= name then
  -- A full Redis refuses a new log, but no push after a write that frees memory.
  if redis.call('LLEN', key) > 0 then redis.call('DEL', key) end
  dropped, size_ = 0, 0
  redis.call('RPUSH', key, name .. ' 0 0')
end
local count = dropped + redis.call('LLEN', key) - 1
if count ~= from then return count end
redis.call('RPUSH', key, unpack(ARGV, 6))
redis.call('LPOP', key)
for i = 6, #ARGV do size_ = size_ + #ARGV[i] end
while size_ > ${MAX_LOG_BYTES} and redis.call('LLEN', key) > 1 do
  size_ = size_ - #redis.call('LPOP', key)
  dropped = dropped + 1
end
redis.call('LPUSH', key, name .. ' ' .. textOf(dropped) .. ' ' .. textOf(size_))
local _, limit = factsOf(id)
redis.call('PEXPIRE', key, lifetimeOf(limit))
for _, node in ipairs(nodes) do
  if node ~= '' then mail(node, 'events', id) end
end
settle()
return count + #ARGV - 5
`);

/** Marks a prediction as watched before it is created, because a fast prediction ends before the first read. Argument: id. */
export const expectEventsScript = queueScript(`
local watchers = base .. 'w:' .. ARGV[3]
freeing()
redis.call('ZADD', watchers, textOf(now + ${WATCH_MS}), '')
redis.call('PEXPIRE', watchers, ${WATCH_MS})
settle()
return 1
`);

/**
 * Reads a page of events, and marks the prediction as watched for some seconds. The first watcher causes a notification of the replica that runs the
 * prediction. Arguments: id, known name of the log, number of known events, maximum bytes, whether the reader gets notifications.
 * @returns name of the log, number of events before the page, number of all events, then the events; no events if Redis has dropped the next one. A
 * number instead is the size of a next event above the maximum bytes. False: there is no log.
 */
export const readEventsScript = queueScript(`
local id, room_ = ARGV[3], tonumber(ARGV[6])
local key, watchers = base .. 'e:' .. id, base .. 'w:' .. id
load({ id })
if isOpen(id) then
  freeing()
  if redis.call('ZCOUNT', watchers, nowText, '+inf') == 0 then
    local worker = holderOf(entryOf(id))
    if worker then mail(worker, 'watched', id) end
  end
  redis.call('ZADD', watchers, textOf(now + ${WATCH_MS}), ARGV[7] == '1' and me or '')
  redis.call('PEXPIRE', watchers, ${WATCH_MS})
  settle()
end
local name, dropped = logOf(key)
if not name then return false end
local from = name == ARGV[4] and tonumber(ARGV[5]) or 0
local answer, at = { name, from, dropped + redis.call('LLEN', key) - 1 }, from
while #answer < 1000 and from >= dropped do
  local batch = redis.call('LRANGE', key, at - dropped + 1, at - dropped + 64)
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
