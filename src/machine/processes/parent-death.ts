/** Ends this process with its parent, however that ends, and whatever this process is doing. */
import { dlopen, FFIType } from "bun:ffi";
import { messageOf } from "../../base/errors.ts";
import { log } from "../../base/log.ts";

const PR_SET_PDEATHSIG = 1;
const PR_SET_NAME = 15;
const SIGKILL = 9;

/**
 * The kernel kills this process when the parent dies, also while its JS thread is stuck. Where it does not (not Linux), the end of
 * the connection to the parent has to do.
 *
 * @param parentPid the parent may have died before this was called
 * @param name of this process in `top`, of which Linux keeps 15 bytes; in `ps` the command line says it
 */
export function dieWithParent(parentPid: number, name: string): void {
  if (parentOf(name) !== parentPid) dieNow();
}

/** Without anything that runs at exit: the parent is gone, and nobody waits for it. */
export function dieNow(): void {
  process.kill(process.pid, "SIGKILL");
}

/** Asks for the signal first, and only then who the parent is: in between it cannot die unnoticed. */
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
