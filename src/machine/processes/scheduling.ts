/** Settings of threads for the Linux scheduler: priority, policy and time slice. */
import { dlopen, FFIType, ptr } from "bun:ffi";
import { readdirSync } from "node:fs";
import { getPriority, setPriority } from "node:os";
import { messageOf } from "../../base/errors.ts";
import { log } from "../../base/log.ts";
import { systemText } from "../../base/system-file.ts";

/** Added to `nice`. A thread then gets about a thirtieth of the time of a thread with the default. */
const NICENESS = 15;
/** Highest `nice`: the least time. */
export const LAST_NICE = 19;

/** Linux constants. */
export const SCHED_OTHER = 0;
export const SCHED_IDLE = 5;
const SCHED_SETATTR = { x64: 314, arm64: 274 }[process.arch as string];

/**
 * A short time slice, in nanoseconds: the least that Linux allows. The default on two cores is 1.4 ms. Kernels before
 * 6.12 ignore it.
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
 * Gives threads short time slices. When such a thread has work, it waits less for a core, but gets no more time on it.
 * Threads and child processes that they start inherit the slice. Threads with another policy than SCHED_OTHER stay as
 * they are. Does nothing where the system does not allow it.
 * @param threads default: all threads of this process
 */
export function shortenSlices(threads: readonly number[] = threadsOf(process.pid)): void {
  if (process.platform !== "linux") return;
  try {
    libc ??= open();
    for (const thread of threads)
      if (libc.sched_getscheduler(thread) === SCHED_OTHER) setPolicy(thread, SCHED_OTHER, SHORT_SLICE_NS);
  } catch (error) {
    log.debug(`The time slices of threads cannot be set: ${messageOf(error)}`);
  }
}

/** Sets the policy of the threads that have another one. These threads get the default time slice. */
export function setPolicies(threads: () => readonly number[], policy: number): void {
  libc ??= open();
  const { sched_getscheduler: policyOf } = libc;
  const isChanged = (thread: number) => policyOf(thread) !== policy && setPolicy(thread, policy);
  // Repeats until no policy changes, because threads may start meanwhile with the old policy of their starter.
  while (threads().filter(isChanged).length > 0);
}

/**
 * Sets the policy and the time slice of a thread.
 * @param sliceNs 0 for the default @returns whether the system has done it; false for an ended thread
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
