/** Environment variables of a process that runs libtorch. Variables that the operator sets replace them. */

/**
 * Makes glibc keep freed memory for the next forward pass. By default it returns large blocks to the kernel. Page
 * faults then take a fifth of the time of a convolutional network. Only the main arena can keep blocks of 64 MiB, so
 * there is one arena.
 */
export const keptMemory: Readonly<Record<string, string>> = {
  GLIBC_TUNABLES: [`mmap_threshold=${2 ** 30}`, `trim_threshold=${2 ** 40}`, "arena_max=1"]
    .map((each) => `glibc.malloc.${each}`)
    .join(":"),
};

/**
 * How often a libgomp thread without work spins before it sleeps. 20,000 spins take about half a millisecond. The
 * default of libgomp, 300,000 spins, takes about 10 ms. A spinning thread holds a core that other threads need. A
 * server with one model lets threads spin for half a millisecond, which makes small models faster. With several models,
 * a spinning thread can hold the core that its partner needs, so the limit is about 50 µs.
 */
const MAX_SPINS = { alone: 20_000, ofSeveral: 2000 };

function openMp(isOneOfSeveral: boolean): Record<string, string> {
  if (process.env.OMP_WAIT_POLICY !== undefined) return {};
  return { GOMP_SPINCOUNT: String(isOneOfSeveral ? MAX_SPINS.ofSeveral : MAX_SPINS.alone) };
}

/** @param isOneOfSeveral whether the server has other models, which compete for the cores */
export function libtorchEnv(isOneOfSeveral = false): Record<string, string> {
  return { ...keptMemory, ...openMp(isOneOfSeveral) };
}
