/** The socket at which this process listens, for another thread. Bun does not tell its descriptor, so the system is asked. */
import { dlopen, FFIType, ptr } from "bun:ffi";
import { readdirSync } from "node:fs";

/** Linux's numbers. */
const SOL_SOCKET = 1;
const SO_ACCEPTCONN = 30;
const F_DUPFD_CLOEXEC = 1030;
const SOCK_NONBLOCK = 0o4000;
const SOCK_CLOEXEC = 0o2000000;
/** Bytes of the largest address. */
const ADDRESS_BYTES = 128;

const { int, ptr: pointer } = FFIType;

const open = () =>
  dlopen("libc.so.6", {
    getsockopt: { args: [int, int, int, pointer, pointer], returns: int },
    getsockname: { args: [int, pointer, pointer], returns: int },
    fcntl: { args: [int, int, int], returns: int },
    accept4: { args: [int, pointer, pointer, int], returns: int },
    close: { args: [int], returns: int },
  }).symbols;

let libc: ReturnType<typeof open> | undefined;

export class ListeningSocket implements Disposable {
  readonly #descriptor: number;

  private constructor(descriptor: number) {
    this.#descriptor = descriptor;
  }

  /** Duplicates the descriptor, because its owner may close the port meanwhile. Undefined without a socket at that port, and not on Linux. */
  static find(port: number): ListeningSocket | undefined {
    if (process.platform !== "linux") return undefined;
    libc ??= open();
    const { fcntl } = libc;
    for (const name of readdirSync("/proc/self/fd")) {
      if (!listensAt(libc, Number(name), port)) continue;
      const copy = fcntl(Number(name), F_DUPFD_CLOEXEC, 0);
      if (copy >= 0) return new ListeningSocket(copy);
    }
    return undefined;
  }

  /** The descriptor of a connection that waits; undefined if none does. */
  accept(): number | undefined {
    const accepted = libc?.accept4(this.#descriptor, null, null, SOCK_NONBLOCK | SOCK_CLOEXEC) ?? -1;
    return accepted < 0 ? undefined : accepted;
  }

  [Symbol.dispose](): void {
    libc?.close(this.#descriptor);
  }
}

function listensAt({ getsockopt, getsockname }: ReturnType<typeof open>, descriptor: number, port: number): boolean {
  const value = new Int32Array(1);
  const size = Uint32Array.of(value.byteLength);
  if (getsockopt(descriptor, SOL_SOCKET, SO_ACCEPTCONN, ptr(value), ptr(size)) !== 0 || value[0] !== 1) return false;
  const address = new DataView(new ArrayBuffer(ADDRESS_BYTES));
  const length = Uint32Array.of(ADDRESS_BYTES);
  if (getsockname(descriptor, ptr(address), ptr(length)) !== 0) return false;
  // Of IPv4 and IPv6 the port follows the family.
  const [family, AF_INET, AF_INET6] = [address.getUint16(0, true), 2, 10];
  return (family === AF_INET || family === AF_INET6) && address.getUint16(2) === port;
}
