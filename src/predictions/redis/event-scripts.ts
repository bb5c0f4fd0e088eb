/** Lua scripts for the events (outputs, and parts of outputs) of running predictions. scripts.ts describes the keys. */
import { LuaScript } from "./redis-link.ts";
import { clock, holder } from "./scripts.ts";

/** Maximum bytes of a prediction's events in Redis. The oldest events are dropped, but never the newest. */
const MAX_LOG_BYTES = 2 ** 24;
/** Milliseconds after the deadline for which the events are kept for event streams. */
const MARGIN_MS = 10_000;
/** Result of a report if no event stream reads the prediction. */
export const UNWATCHED = -2;

/**
 * Appends events to the log of a prediction. A log with another name is from the replica that ran the prediction before, and is replaced. `KEYS`: work,
 * `p:ID`, `e:ID`. Arguments: this node, name of the log, number of earlier events, events.
 * @returns the number of events in the log, and the nodes to notify; nothing is appended if it differs from the given number of earlier events; -1 if
 * another replica runs the prediction; UNWATCHED
 */
export const reportEventsScript = new LuaScript(`${clock}${holder}
local key, events, name = KEYS[2], KEYS[3], ARGV[2]
local entry, watched, fronts, deadline, size =
  unpack(redis.call('HMGET', key, 'entry', 'watched', 'fronts', 'deadline', 'eventBytes'))
if not entry or holderOf(entry) ~= ARGV[1] then return { -1 } end
if watched ~= '1' then return { ${UNWATCHED} } end
local last = redis.call('XREVRANGE', events, '+', '-', 'COUNT', 1)[1]
local count = 0
if last and last[2][2] == name then count = tonumber(string.match(last[1], '^%d+'))
else
  size = 0
  -- A full Redis refuses a new log, but not after a write that frees memory.
  if last then redis.call('DEL', events) end
end
if count ~= tonumber(ARGV[3]) then return { count } end
for i = 4, #ARGV do
  count = count + 1
  size = size + #ARGV[i]
  redis.call('XADD', events, count .. '-0', 'log', name, 'text', ARGV[i])
end
while size > ${MAX_LOG_BYTES} and redis.call('XLEN', events) > 1 do
  local oldest = redis.call('XRANGE', events, '-', '+', 'COUNT', 1)[1]
  size = size - #oldest[2][4]
  redis.call('XDEL', events, oldest[1])
end
redis.call('HSET', key, 'eventBytes', size)
redis.call('PEXPIRE', events, math.max(0, deadline - now) + ${MARGIN_MS})
return { count, fronts }
`);

/**
 * Marks an unfinished prediction as watched. `KEYS`: `p:ID`.
 * @returns its queue and its entry in `work`, if it was not watched
 */
export const watchScript = new LuaScript(`
local entry, queue, watched = unpack(redis.call('HMGET', KEYS[1], 'entry', 'queue', 'watched'))
if not entry or watched == '1' then return false end
redis.call('HSET', KEYS[1], 'watched', '1')
return { queue, entry }
`);

/**
 * Reads a page of events. `KEYS`: `e:ID`. Arguments: known name of the log, number of known events, maximum bytes.
 * @returns name of the log, number of events before the page, number of all events, then the events; no events if Redis has dropped the next one. A
 * number instead is the size of a next event above the maximum bytes. False: there is no log.
 */
export const readEventsScript = new LuaScript(`
local last, room = redis.call('XREVRANGE', KEYS[1], '+', '-', 'COUNT', 1)[1], tonumber(ARGV[3])
if not last then return false end
local name = last[2][2]
local from = name == ARGV[1] and tonumber(ARGV[2]) or 0
local answer, at = { name, from, tonumber(string.match(last[1], '^%d+')) }, from + 1
while #answer < 1000 do
  local batch = redis.call('XRANGE', KEYS[1], at, '+', 'COUNT', 64)
  for _, event in ipairs(batch) do
    if event[1] ~= at .. '-0' then return answer end
    local text = event[2][4]
    if #text > room then return #answer > 3 and answer or #text end
    room = room - #text
    answer[#answer + 1] = text
    at = at + 1
  end
  if #batch < 64 then break end
end
return answer
`);
