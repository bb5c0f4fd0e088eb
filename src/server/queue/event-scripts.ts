/** The scripts of the events of running predictions. */
import { queueScript } from "./script-prelude.ts";

/** A node watches a prediction for this long after it read events. */
const WATCH_MS = 5000;
/** Bytes of the events of a prediction. The oldest events go first, but the newest event stays. */
const MAX_LOG_BYTES = 2 ** 24;
/** Answer to a report of a prediction that no node watches. */
export const UNWATCHED = -2;

/**
 * id, name of the log, number of earlier events, events. Appends the events, and notifies the nodes that watch the prediction. A log with another name
 * is replaced: another node ran the prediction before.
 * @returns the number of events so far, which is unexpected if events are missing or an answer was lost; -1 if this node has lost the prediction;
 * UNWATCHED, and then appends nothing
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

/** id. Marks the prediction as watched before its creation: a fast prediction ends before the first read. */
export const expectEventsScript = queueScript(`
local watchers = base .. 'w:' .. ARGV[3]
freeing()
redis.call('ZADD', watchers, textOf(now + ${WATCH_MS}), '')
redis.call('PEXPIRE', watchers, ${WATCH_MS})
settle()
return 1
`);

/**
 * id, known name of the log, number of known events, most bytes, whether the node gets notifications. The node watches an unfinished prediction from now
 * on. Its worker gets a notification if no node watched.
 * @returns the name, the number of events before the page, the number of events so far, then the events of the page. The page is empty if Redis no longer
 * has its first event. A number is the size of an event with more bytes. False means that there is no log.
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
