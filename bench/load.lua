-- wrk script: posts the lines of $BENCH_BODIES in turn and prints what came of it as one line of JSON. With $BENCH_WAY "create-get" each
-- creates a prediction, which one GET waits for: then predictions are counted, and latencies are those of single requests. With
-- $BENCH_ARRIVALS it says of every answer with 2xx when it came, in milliseconds; that costs wrk time, so only slow servers are asked for it.
local isTwo = os.getenv("BENCH_WAY") == "create-get"
local requests, i = {}, 0
local readHead, readRest
local unread, first, last = {}, 1, 0
local threads = {}
succeeded, failed, arrivals = 0, 0, {}

function setup(thread)
  threads[#threads + 1] = thread
end

function init(args)
  local headers = { ["Content-Type"] = "application/json", ["Prefer"] = not isTwo and "wait" or nil }
  for line in io.lines(os.getenv("BENCH_BODIES")) do
    requests[#requests + 1] = wrk.format("POST", nil, headers, line)
  end
  -- Put together once: formatting each would take wrk longer than some servers take to answer.
  readHead, readRest = wrk.format("GET", wrk.path .. "/{id}", { ["Prefer"] = "wait" }):match("^(.*){id}(.*)$")
end

function request()
  if first <= last then
    local reading = unread[first]
    unread[first], first = nil, first + 1
    return readHead .. reading .. readRest
  end
  i = i % #requests + 1
  return requests[i]
end

if isTwo then
  function response(status, headers, body)
    if status < 200 or status > 299 then return end
    if body:find('"status":"success"', 1, true) then
      succeeded = succeeded + 1
    elseif body:find('"status":"failed"', 1, true) then
      failed = failed + 1
    else
      last = last + 1
      unread[last] = body:match('"prediction_id":"([^"]+)"')
    end
  end
elseif os.getenv("BENCH_ARRIVALS") then
  local ffi = require("ffi")
  ffi.cdef("typedef struct { long seconds; long nanoseconds; } moment; int clock_gettime(int, moment *);")
  local REALTIME = 0 -- The one clock that has the same number on Linux and macOS.
  local now = ffi.new("moment")

  function response(status)
    if status < 200 or status > 299 then return end
    ffi.C.clock_gettime(REALTIME, now)
    arrivals[#arrivals + 1] = string.format("%.3f", tonumber(now.seconds) * 1000 + tonumber(now.nanoseconds) / 1e6)
  end
end

function done(summary, latency, _)
  local errors, answered, wrong, times = summary.errors, 0, 0, {}
  for _, thread in ipairs(threads) do
    answered, wrong = answered + thread:get("succeeded"), wrong + thread:get("failed")
    for _, time in ipairs(thread:get("arrivals")) do times[#times + 1] = time end
  end
  io.write(string.format(
    '{"answered":%d,"seconds":%.6f,"failed":%d,"p50Ms":%.3f,"p99Ms":%.3f,"arrivals":[%s]}\n',
    isTwo and answered or summary.requests - errors.status, summary.duration / 1e6,
    wrong + errors.status + errors.connect + errors.read + errors.write + errors.timeout,
    latency:percentile(50) / 1000, latency:percentile(99) / 1000, table.concat(times, ",")))
end
