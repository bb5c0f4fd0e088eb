/** A Unix datagram socket that receives messages as a service manager such as systemd does. */
import { dlopen, FFIType, ptr } from "bun:ffi";

const { int, ptr: pointer, u64, i64 } = FFIType;
const AF_UNIX = 1;
const SOCK_DGRAM = 2;
const MSG_DONTWAIT = 0x40;

export interface Datagrams extends Disposable {
  /** Returns the datagrams that have arrived, and forgets them. */
  read(): string[];
}

export function datagramsAt(path: string): Datagrams {
  const { symbols: libc } = dlopen("libc.so.6", {
    socket: { args: [int, int, int], returns: int },
    bind: { args: [int, pointer, int], returns: int },
    recv: { args: [int, pointer, u64, int], returns: i64 },
    close: { args: [int], returns: int },
  });
  const descriptor = libc.socket(AF_UNIX, SOCK_DGRAM, 0);
  const address = Buffer.alloc(110);
  address.writeUInt16LE(AF_UNIX);
  address.write(path, 2);
  if (libc.bind(descriptor, ptr(address), 3 + path.length) !== 0) throw new Error(`cannot bind ${path}`);
  return {
    read() {
      const found: string[] = [];
      const buffer = Buffer.alloc(4096);
      for (;;) {
        const bytes = Number(libc.recv(descriptor, ptr(buffer), buffer.length, MSG_DONTWAIT));
        if (bytes < 0) return found;
        found.push(buffer.toString("utf8", 0, bytes));
      }
    },
    [Symbol.dispose]: () => void libc.close(descriptor),
  };
}
