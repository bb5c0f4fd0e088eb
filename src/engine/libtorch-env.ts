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
 * Limits how long a libgomp thread without work spins: half a millisecond instead of 10 ms. A spinning thread blocks a
 * core that the HTTP processes need. ResNet-18 on two threads is as fast.
 */
function openMp(): Record<string, string> {
  return process.env.OMP_WAIT_POLICY === undefined ? { GOMP_SPINCOUNT: "20000" } : {};
}

export function libtorchEnv(): Record<string, string> {
  return { ...keptMemory, ...openMp() };
}
