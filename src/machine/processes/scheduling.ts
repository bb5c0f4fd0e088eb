/** Settings of threads for the Linux scheduler: priority, policy and time slice. */
import { dlopen, FFIType, ptr } from "bun:ffi";
import { readdirSync } from "node:fs";
import { getPriority, setPriority } from "node:os";
import { messageOf } from "../../base/errors.ts";
import { log } from "../../base/log.ts";
import { systemText } from "../../base/system-file.ts";

/** Added to `nice`. Beside a thread with the `nice` from before, the thread then gets about a thirtieth of the time. */
const NICENESS = 15;
/** Highest `nice`: the least time. */
export const LAST_NICE = 19;

/** Linux constants. */
export const SCHED_OTHER = 0;
export const SCHED_IDLE = 5;
const SCHED_SETATTR = { x64: 314, arm64: 274 }[process.arch as string];

/**
 * A short time slice, in nanoseconds: the shortest that Linux allows. Linux 6.18 on two cores has 1.4 ms by default.
 * Kernels before 6.12 ignore the request.
 */
const SHORT_SLICE_NS = 100_000n;

const { int, i64, u32, ptr: pointer } = FFIType;

const open = () =>
  dlopen("libc.so.6", {
    syscall: { args: [i64, int, pointer, u32], returns: i64 },
    sched_getscheduler: { args: [int], returns: int },
  }).symbols;

let libc: ReturnType<typeof open> | undefined;

/**
 * Lowers the priority of this process on Linux, for work that may wait. New threads and child processes inherit it.
 * Users without privileges cannot raise it again.
 */
export function lowerPriority(): void {
  if (process.platform !== "linux") return;
  const nice = Math.min(LAST_NICE, getPriority() + NICENESS);
  for (const thread of threadsOf(process.pid)) {
    try {
      setPriority(thread, nice);
    } catch {
      // The thread has ended since the folder was read.
    }
  }
}

/**
 * Gives the threads of this process short time slices. A thread with a short slice waits less for a core, and
 * keeps the same share of the core. New threads and child processes inherit the slice. Threads with another policy than
 * SCHED_OTHER stay as they are. Does nothing where the system does not allow it.
 */
export function shortenSlices(): void {
  shorten(threadsOf(process.pid));
}

/**
 * Gives the processes below this one short time slices, as `shortenSlices` does. Threads with a lower priority than this
 * process stay as they are.
 */
export function shortenSlicesBelow(): void {
  const own = new Set(threadsOf(process.pid));
  const nice = getPriority();
  shorten(threadsBelow(process.pid).filter((thread) => !own.has(thread) && (niceOf(thread) ?? nice) <= nice));
}

function shorten(threads: readonly number[]): void {
  if (process.platform !== "linux") return;
  try {
    libc ??= open();
    const { sched_getscheduler: policyOf } = libc;
    const normal = threads.filter((thread) => policyOf(thread) === SCHED_OTHER);
    const changed = normal.filter((thread) => setPolicy(thread, SCHED_OTHER, SHORT_SLICE_NS));
    if (changed.length === 0 && normal.length > 0) log.debug("The system refuses short time slices");
  } catch (error) {
    log.debug(`The time slices of threads cannot be set: ${messageOf(error)}`);
  }
}

/** Gives threads a policy. A thread that has this policy stays as it is. A thread that gets SCHED_OTHER has the default time slice. */
export function setPolicies(threads: () => readonly number[], policy: number): void {
  libc ??= open();
  const { sched_getscheduler: policyOf } = libc;
  const isChanged = (thread: number) => policyOf(thread) !== policy && setPolicy(thread, policy);
  // Repeats until no policy changes, because threads may start meanwhile with the old policy of their starter.
  while (threads().filter(isChanged).length > 0);
}

/**
 * Sets the policy and the time slice of a thread.
 * @param sliceNs 0 for the default
 * @returns whether the thread has changed: false if the system refuses, or the thread has ended
 */
function setPolicy(thread: number, policy: number, sliceNs = 0n): boolean {
  const nice = niceOf(thread);
  if (libc === undefined || SCHED_SETATTR === undefined || nice === undefined) return false;
  // struct sched_attr, with the fields: size, policy, flags, nice, priority, runtime, deadline, period.
  const attributes = new DataView(new ArrayBuffer(48));
  attributes.setUint32(0, attributes.byteLength, true);
  attributes.setUint32(4, policy, true);
  attributes.setInt32(16, nice, true);
  attributes.setBigUint64(24, sliceNs, true);
  return Number(libc.syscall(SCHED_SETATTR, thread, ptr(attributes), 0)) === 0;
}

/** Undefined for an ended thread. */
function niceOf(thread: number): number | undefined {
  try {
    return getPriority(thread);
  } catch {
    return undefined;
  }
}

export function threadsOf(pid: number): number[] {
  try {
    return readdirSync(`/proc/${pid}/task`).map(Number);
  } catch {
    // The process has ended.
    return [];
  }
}

/** The threads of a process and of all processes below it. */
export function threadsBelow(pid: number): number[] {
  const threads = threadsOf(pid);
  const children = threads.flatMap((thread) =>
    systemText(`/proc/${pid}/task/${thread}/children`).split(" ").map(Number),
  );
  return [...threads, ...children.filter((child) => child > 0).flatMap(threadsBelow)];
}
