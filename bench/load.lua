-- wrk script: posts the lines of $BENCH_BODIES in turn and prints what came of it as one line of JSON.
local requests, i = {}, 0

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

function done(summary, latency, _)
  local errors = summary.errors
  io.write(string.format(
    '{"requests":%d,"seconds":%.6f,"refused":%d,"broken":%d,"p50Ms":%.3f,"p99Ms":%.3f}\n',
    summary.requests, summary.duration / 1e6, errors.status, errors.connect + errors.read + errors.write + errors.timeout,
    latency:percentile(50) / 1000, latency:percentile(99) / 1000))
end
