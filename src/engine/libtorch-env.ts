/** Environment variables of a process that runs libtorch. Variables that the operator sets replace them. */

/**
 * Makes glibc keep freed memory for the next forward pass. By default it returns large blocks to the kernel. Page
 * faults then take a fifth of the time of a convolutional network. Only the main arena can keep blocks of 64 MiB, hence
 * one arena.
 */
export const keptMemory: Readonly<Record<string, string>> = {
  GLIBC_TUNABLES: [`mmap_threshold=${2 ** 30}`, `trim_threshold=${2 ** 40}`, "arena_max=1"]
    .map((each) => `glibc.malloc.${each}`)
    .join(":"),
};

/**
 * Most times that a libgomp thread without work spins, instead of 10 ms. A spinning thread holds a core that other
 * threads need. Alone, a model may spin for half a millisecond: small models are then faster, and ResNet-18 is as fast.
 * With several models, the thread that the spinning one waits for may wait for the core, so 50 µs. MiniLM then takes
 * half the time while another model is flooded.
 */
const MAX_SPINS = { alone: 20_000, ofSeveral: 2_000 };

function openMp(isOneOfSeveral: boolean): Record<string, string> {
  if (process.env.OMP_WAIT_POLICY !== undefined) return {};
  return { GOMP_SPINCOUNT: String(isOneOfSeveral ? MAX_SPINS.ofSeveral : MAX_SPINS.alone) };
}

/** @param isOneOfSeveral whether the server has other models, which compete for the cores */
export function libtorchEnv(isOneOfSeveral = false): Record<string, string> {
  return { ...keptMemory, ...openMp(isOneOfSeveral) };
}
