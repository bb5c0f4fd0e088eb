/** The environment of a process that runs libtorch. Whoever has set one of these variables has decided. */

/**
 * Memory that was freed is kept for the next forward pass. By itself glibc gives large blocks back to the system at once, and each pass has them
 * anew, page by page: a fifth of the time of a convolutional network. To be set before the process begins, as its first threads have arenas of
 * their own otherwise, and those keep no block of 64 MiB.
 */
export const keptMemory: Readonly<Record<string, string>> = {
  GLIBC_TUNABLES: [`mmap_threshold=${2 ** 30}`, `trim_threshold=${2 ** 40}`, "arena_max=1"]
    .map((each) => `glibc.malloc.${each}`)
    .join(":"),
};

/**
 * A thread of a forward pass that has done its part waits for the others in a loop of some 10 ms before it sleeps, and keeps the fronts from
 * the core that they are waiting for. Of 20,000 turns, half a millisecond, it is woken as seldom as then: ResNet-18 on two threads is as fast,
 * and 6 % faster than with the 1000 that libgomp itself takes where it has more threads than cores.
 */
function openMp(): Record<string, string> {
  return process.env.OMP_WAIT_POLICY === undefined ? { GOMP_SPINCOUNT: "20000" } : {};
}

export function libtorchEnv(): Record<string, string> {
  return { ...keptMemory, ...openMp() };
}
