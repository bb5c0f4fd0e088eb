/** A process that claims predictions from a queue in Redis, for tests without a server. */
import { MemoryAccount } from "../../src/pipeline/memory/memory-account.ts";
import { Leases } from "../../src/predictions/redis/leases.ts";
import type { Queue } from "../../src/predictions/redis/queue.ts";
import type { Claimed } from "../../src/predictions/store.ts";
import { Metrics } from "../../src/server/metrics/metrics.ts";

export interface TestLeases extends AsyncDisposable {
  readonly leases: Leases;
  readonly memory: MemoryAccount;
  /** Claims the next prediction. */
  claim(): Promise<Claimed>;
}

export function leasesOf(queue: Queue): TestLeases {
  const memory = new MemoryAccount();
  const leases = new Leases({ queue, memory, metrics: new Metrics() });
  const stopping = new AbortController();
  const claims = leases.claim({
    signal: stopping.signal,
    isActive: true,
    isTaken: () => true,
    room: () => Promise.resolve(1),
    lost() {},
    canceled() {},
    wanted() {},
    full() {},
  });
  return {
    leases,
    memory,
    async claim() {
      const { value } = await claims.next();
      if (value === undefined) throw new Error("nothing was claimed");
      return value;
    },
    async [Symbol.asyncDispose]() {
      stopping.abort();
      await claims.return(undefined);
      leases[Symbol.dispose]();
    },
  };
}
