/** Reports the state of the server to systemd (sd_notify). Does nothing without NOTIFY_SOCKET. */
import { dlopen, FFIType, ptr } from "bun:ffi";

/** Constants of Linux sockets. */
const AF_UNIX = 1;
const SOCK_DGRAM_CLOEXEC = 2 | 0o2000000;
const MSG_NOSIGNAL = 0x4000;
/** Size of `sun_path`, the path in a Unix socket's address, in bytes. */
const PATH_BYTES = 108;

const CLOCK_MONOTONIC = 1;

const { int, ptr: pointer, u64, i64 } = FFIType;

/** Tells systemd that the server reads its models and files again. systemd matches the time with its own monotonic clock. */
export function notifyReloading(): void {
  if ((process.env.NOTIFY_SOCKET ?? "") === "") return;
  const libc = dlopen("libc.so.6", { clock_gettime: { args: [int, pointer], returns: int } });
  const time = new BigInt64Array(2);
  libc.symbols.clock_gettime(CLOCK_MONOTONIC, ptr(time));
  libc.close();
  const [seconds = 0n, nanoseconds = 0n] = time;
  notifyManager("RELOADING=1", `MONOTONIC_USEC=${seconds * 1_000_000n + nanoseconds / 1000n}`);
}

/**
 * Sends a state to systemd.
 * @param state lines such as `READY=1`
 * @returns whether systemd got the message
 */
export function notifyManager(...state: readonly string[]): boolean {
  const { NOTIFY_SOCKET: path = "" } = process.env;
  const name = Buffer.from(path.replace(/^@/, "\0"));
  if (path === "" || process.platform !== "linux" || name.length >= PATH_BYTES) return false;
  const libc = dlopen("libc.so.6", {
    socket: { args: [int, int, int], returns: int },
    sendto: { args: [int, pointer, u64, int, pointer, int], returns: i64 },
    close: { args: [int], returns: int },
  });
  const { socket, sendto, close } = libc.symbols;
  const descriptor = socket(AF_UNIX, SOCK_DGRAM_CLOEXEC, 0);
  try {
    const address = Buffer.alloc(2 + PATH_BYTES);
    address.writeUInt16LE(AF_UNIX);
    name.copy(address, 2);
    const text = Buffer.from(state.join("\n"));
    // An abstract socket name ends with the address; a path ends with a zero byte.
    const length = 2 + name.length + (path.startsWith("@") ? 0 : 1);
    return Number(sendto(descriptor, ptr(text), text.length, MSG_NOSIGNAL, ptr(address), length)) === text.length;
  } finally {
    if (descriptor >= 0) close(descriptor);
    libc.close();
  }
}
