-- wrk script: posts the lines of $BENCH_BODIES in turn and prints what came of it as one line of JSON. With $BENCH_ARRIVALS it says
-- of every answer with 2xx when it came, in milliseconds; that costs wrk time, so only slow servers are asked for it.
local requests, i = {}, 0
local threads = {}

function setup(thread)
  threads[#threads + 1] = thread
end

function init(args)
  wrk.headers["Content-Type"] = "application/json"
  wrk.headers["Prefer"] = "wait"
  for line in io.lines(os.getenv("BENCH_BODIES")) do
    requests[#requests + 1] = wrk.format("POST", nil, nil, line)
  end
end

function request()
  i = i % #requests + 1
  return requests[i]
end

if os.getenv("BENCH_ARRIVALS") then
  local ffi = require("ffi")
  ffi.cdef("typedef struct { long seconds; long nanoseconds; } moment; int clock_gettime(int, moment *);")
  local REALTIME = 0 -- The one clock that has the same number on Linux and macOS.
  local now = ffi.new("moment")
  arrivals = {}

  function response(status)
    if status < 200 or status > 299 then return end
    ffi.C.clock_gettime(REALTIME, now)
    arrivals[#arrivals + 1] = string.format("%.3f", tonumber(now.seconds) * 1000 + tonumber(now.nanoseconds) / 1e6)
  end
end

function done(summary, latency, _)
  local errors = summary.errors
  local times = {}
  for _, thread in ipairs(threads) do
    for _, time in ipairs(thread:get("arrivals") or {}) do times[#times + 1] = time end
  end
  io.write(string.format(
    '{"answered":%d,"seconds":%.6f,"failed":%d,"p50Ms":%.3f,"p99Ms":%.3f,"arrivals":[%s]}\n',
    summary.requests - errors.status, summary.duration / 1e6,
    errors.status + errors.connect + errors.read + errors.write + errors.timeout,
    latency:percentile(50) / 1000, latency:percentile(99) / 1000,
    table.concat(times, ",")))
end
