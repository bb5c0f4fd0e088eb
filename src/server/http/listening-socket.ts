/** System calls on a listening socket of this process, which Bun does not offer. Bun hides the socket's descriptor, so a search in /proc finds it. */
import { dlopen, FFIType, ptr } from "bun:ffi";
import { readdirSync, readFileSync, readlinkSync } from "node:fs";

/** Constants of Linux that Node does not export. */
const SOL_SOCKET = 1;
const SO_ACCEPTCONN = 30;
const SO_ATTACH_REUSEPORT_CBPF = 51;
const F_DUPFD_CLOEXEC = 1030;
const SOCK_NONBLOCK = 0o4000;
const SOCK_CLOEXEC = 0o2000000;
/** Size of the C struct `sockaddr_storage`. */
const ADDRESS_BYTES = 128;
/** Opcodes of classic BPF, and the special address that loads a random number. */
const bpf = { load: 0x20, modulo: 0x94, add: 0x04, returnIt: 0x16, random: 0xfffff000 + 56 } as const;

const { int, ptr: pointer } = FFIType;

const open = () =>
  dlopen("libc.so.6", {
    getsockopt: { args: [int, int, int, pointer, pointer], returns: int },
    setsockopt: { args: [int, int, int, pointer, int], returns: int },
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

  /**
   * Finds the sockets that listen on a port, and duplicates their descriptors, since the main thread may close the originals. @returns none on
   * systems other than Linux
   */
  static find(port: number): ListeningSocket[] {
    if (process.platform !== "linux") return [];
    libc ??= open();
    const symbols = libc;
    return readdirSync("/proc/self/fd")
      .map(Number)
      .filter((descriptor) => listensAt(symbols, descriptor, port))
      .map((descriptor) => symbols.fcntl(descriptor, F_DUPFD_CLOEXEC, 0))
      .filter((copy) => copy >= 0)
      .map((copy) => new ListeningSocket(copy));
  }

  /**
   * Accepts a connection.
   * @returns its descriptor; undefined if no connection is waiting
   */
  accept(): number | undefined {
    const accepted = libc?.accept4(this.#descriptor, null, null, SOCK_NONBLOCK | SOCK_CLOEXEC) ?? -1;
    return accepted < 0 ? undefined : accepted;
  }

  /**
   * Makes the kernel send new connections of the port to random sockets among `first` … `first + count - 1`. The kernel numbers the sockets that
   * share the port in the order of their listen() calls. When a socket closes, the last socket gets its number. For a number that no socket has, the
   * kernel chooses among all sockets.
   * @returns whether the kernel accepts the BPF program
   */
  steer({ first, count }: { readonly first: number; readonly count: number }): boolean {
    const steps = [
      [bpf.load, bpf.random],
      [bpf.modulo, count],
      [bpf.add, first],
      [bpf.returnIt, 0],
    ] as const;
    const code = new DataView(new ArrayBuffer(8 * steps.length));
    for (const [i, [step, operand]] of steps.entries()) {
      code.setUint16(8 * i, step, true);
      code.setUint32(8 * i + 4, operand, true);
    }
    const program = new DataView(new ArrayBuffer(16));
    program.setUint16(0, steps.length, true);
    program.setBigUint64(8, BigInt(ptr(code)), true);
    const result = libc?.setsockopt(this.#descriptor, SOL_SOCKET, SO_ATTACH_REUSEPORT_CBPF, ptr(program), 16);
    return result === 0 && code.byteLength > 0;
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
  // Bytes 0 and 1 of an IPv4 or IPv6 address have its family, bytes 2 and 3 the port.
  const [family, AF_INET, AF_INET6] = [address.getUint16(0, true), 2, 10];
  return (family === AF_INET || family === AF_INET6) && address.getUint16(2) === port;
}

/** Codes of socket states in /proc/net/tcp. */
const states = { established: "01", closeWait: "08", listening: "0A" } as const;

/** Number of connections of this process to a port, including connections not accepted yet. Undefined if /proc cannot be read. */
export function connectionsAt(port: number): number | undefined {
  try {
    const own = new Set(readdirSync("/proc/self/fd").map(inodeOf));
    const suffix = `:${port.toString(16).toUpperCase().padStart(4, "0")}`;
    let count = 0;
    for (const table of ["tcp", "tcp6"]) {
      for (const line of readFileSync(`/proc/self/net/${table}`, "utf8").split("\n").slice(1)) {
        const [, local = "", , state, queues = "", , , , , inode = ""] = line.trim().split(/\s+/);
        if (!local.endsWith(suffix) || !own.has(inode)) continue;
        // The receive queue of a listening socket is the number of connections that wait for accept().
        if (state === states.listening) count += Number.parseInt(queues.split(":")[1] ?? "0", 16);
        else if (state === states.established || state === states.closeWait) count += 1;
      }
    }
    return count;
  } catch {
    return undefined;
  }
}

function inodeOf(descriptor: string): string {
  try {
    return /^socket:\[(\d+)\]$/.exec(readlinkSync(`/proc/self/fd/${descriptor}`))?.[1] ?? "";
  } catch {
    return "";
  }
}
