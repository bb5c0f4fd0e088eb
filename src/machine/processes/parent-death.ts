/** Ends this process when its parent process dies. */
import { dlopen, FFIType } from "bun:ffi";
import { messageOf } from "../../base/errors.ts";
import { log } from "../../base/log.ts";

const PR_SET_PDEATHSIG = 1;
const PR_SET_NAME = 15;
const SIGKILL = 9;

/**
 * Makes the kernel kill this process when its parent dies, even if the JS thread is blocked. Works on Linux; on other
 * systems, the end of the connection to the parent ends this process.
 * @param parentPid the parent's process id; if the parent has died already, this process ends at once
 * @param name name of this process in `top`; Linux keeps 15 bytes
 */
export function dieWithParent(parentPid: number, name: string): void {
  if (parentOf(name) !== parentPid) dieNow();
}

/** Ends this process at once, without exit handlers. */
export function dieNow(): void {
  process.kill(process.pid, "SIGKILL");
}

/** Requests SIGKILL for the parent's death and then returns the parent's process id, so that no death is missed. */
function parentOf(name: string): number {
  if (process.platform !== "linux") return process.ppid;
  try {
    const libc = dlopen("libc.so.6", {
      prctl: { args: [FFIType.i32, FFIType.u64, FFIType.u64, FFIType.u64, FFIType.u64], returns: FFIType.i32 },
      getppid: { args: [], returns: FFIType.i32 },
    });
    const named = dlopen("libc.so.6", { prctl: { args: [FFIType.i32, FFIType.cstring], returns: FFIType.i32 } });
    try {
      libc.symbols.prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
      named.symbols.prctl(PR_SET_NAME, Buffer.from(`${name}\0`));
      return libc.symbols.getppid();
    } finally {
      libc.close();
      named.close();
    }
  } catch (error) {
    log.debug(`The kernel does not end this process with its parent: ${messageOf(error)}`);
    return process.ppid;
  }
}
